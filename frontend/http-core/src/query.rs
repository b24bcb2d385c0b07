//! Query strings: a strict parser for application/x-www-form-urlencoded, as HTML and URL libraries write it.
//!
//! A plus sign is a space in every library's output; a plus sign in an address is `%2B`. With another interpretation an
//! address with a space would become another address.

use api::{Issue, IssueType};

/// The decoded names and values in their order.
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Splits and decodes a query.
    ///
    /// # Errors
    ///
    /// An invalid escape, or escapes that are not UTF-8.
    pub fn parse(text: &str) -> Result<Query, Vec<Issue>> {
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), decode(value)) {
                (Some(name), Some(value)) => pairs.push((name, value)),
                _ => {
                    let msg = "a broken percent escape, or one that is not UTF-8";
                    return Err(vec![Issue::new(&["query"], IssueType::Encoding, msg)]);
                }
            }
        }
        Ok(Query(pairs))
    }

    /// The value of a parameter.
    ///
    /// # Errors
    ///
    /// The parameter occurs more than once.
    pub fn get(&self, name: &'static str) -> Result<Option<&str>, Issue> {
        let mut values = self.0.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Issue::new(&["query", name], IssueType::Duplicate, "given more than once")),
            None => Ok(first),
        }
    }

    /// The names of all parameters, with repetitions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The values of a parameter that may be repeated.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        for (text, expected) in [
            ("email=a%40b.example", Some("a@b.example")),
            ("email=a@b.example&mode=full", Some("a@b.example")),
            ("&&mode=x&email=a%2bb+c", Some("a+b c")),
            ("e%6dail=%C3%A9", Some("é")),
            ("email", Some("")),
            ("email=a=b", Some("a=b")),
            ("Email=a", None),
            ("", None),
        ] {
            assert_eq!(Query::parse(text).ok().unwrap().get("email").ok().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn broken_ones_are_refused() {
        for text in ["email=%", "email=%4", "email=%zz", "email=%+1", "%ff=1", "email=%C3"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
        let twice = Query::parse("email=a&email=a").ok().unwrap();
        assert_eq!(twice.get("email").unwrap_err().kind, IssueType::Duplicate);
    }
}
