//! Forms as browsers send them (application/x-www-form-urlencoded, URL Standard 5.1), and the hidden field with the token.

use http_core::Query;
use maud::{Markup, html};

/// The name of the field that holds the token against forgery.
pub const TOKEN: &str = "csrf";

/// The fields of a form. A field that is present twice counts as missing.
#[derive(Default)]
pub struct Form(Option<Query>);

/// The bytes are not a form.
#[derive(Debug, PartialEq, Eq)]
pub struct NoForm;

impl Form {
    /// Reads a request body or a query.
    ///
    /// # Errors
    /// [`NoForm`]: broken escapes, or text that is not UTF-8.
    pub fn parse(bytes: &[u8]) -> Result<Form, NoForm> {
        let text = std::str::from_utf8(bytes).map_err(|_| NoForm)?;
        Query::parse(text).map(|query| Form(Some(query))).map_err(|_| NoForm)
    }

    /// The value of a field.
    pub fn get(&self, name: &'static str) -> Option<&str> {
        self.0.as_ref()?.get(name).ok().flatten()
    }

    /// The value of a field, or an empty text.
    pub fn text(&self, name: &'static str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

/// The hidden field with the token. Every form has it.
pub fn token_field(token: &str) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(token); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_doubles_are_none() {
        let form = Form::parse(b"a=1+2&b=%3Cscript%3E&c=1&c=2").unwrap();
        assert_eq!((form.get("a"), form.text("b")), (Some("1 2"), "<script>"));
        assert_eq!((form.get("c"), form.get("d"), form.text("d")), (None, None, ""));
        assert_eq!(Form::default().get("a"), None);
        for broken in [&b"a=%zz"[..], b"a=\xff", b"a=%ff"] {
            assert!(Form::parse(broken).is_err());
        }
    }
}
