//! What a server offers in its reply to EHLO (RFC 5321 4.1.1.1).

use super::reply::Reply;

/// The extensions of a server that matter to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions {
    /// PIPELINING (RFC 2920): commands may be sent in groups.
    pub pipelining: bool,
    /// The server offers STARTTLS (RFC 3207).
    pub starttls: bool,
    /// SMTPUTF8 (RFC 6531): the server takes local parts that are not ASCII.
    pub smtputf8: bool,
    /// LIMITS RCPTMAX (RFC 9422): the highest number of recipients in one transaction.
    pub recipients_max: Option<u32>,
    /// LIMITS MAILMAX (RFC 9422): the highest number of transactions in one session.
    pub transactions_max: Option<u32>,
}

impl Extensions {
    /// Reads the extensions from a positive reply to EHLO. Skips the first line, which is a greeting, and unknown keywords.
    pub fn read(reply: &Reply) -> Extensions {
        let mut extensions = Extensions::default();
        for line in reply.lines().skip(1) {
            let mut words = line.split_ascii_whitespace();
            let Some(keyword) = words.next() else { continue };
            if keyword.eq_ignore_ascii_case("PIPELINING") {
                extensions.pipelining = true;
            } else if keyword.eq_ignore_ascii_case("STARTTLS") {
                extensions.starttls = true;
            } else if keyword.eq_ignore_ascii_case("SMTPUTF8") {
                extensions.smtputf8 = true;
            } else if keyword.eq_ignore_ascii_case("LIMITS") {
                words.for_each(|limit| extensions.read_limit(limit));
            }
        }
        extensions
    }

    fn read_limit(&mut self, limit: &str) {
        let Some((name, value)) = limit.split_once('=') else { return };
        let Some(value) = limit_value(value) else { return };
        if name.eq_ignore_ascii_case("RCPTMAX") {
            self.recipients_max = Some(value);
        } else if name.eq_ignore_ascii_case("MAILMAX") {
            self.transactions_max = Some(value);
        }
    }
}

/// Reads the value of a limit (RFC 9422 4): one to six digits, of which the first is not 0. Other values are ignored.
fn limit_value(text: &str) -> Option<u32> {
    let is_number =
        text.len() <= 6 && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Extensions) {
        assert_eq!(Extensions::read(&Reply::new(250, text)), expected, "{text}");
    }

    #[test]
    fn extensions_are_read_from_the_lines() {
        let none = Extensions::default();
        check("mx.example greets you", none);
        check("PIPELINING is my name", none);
        check(
            "mx\nPIPELINING\nSIZE 35882577\nSTARTTLS",
            Extensions { pipelining: true, starttls: true, ..none },
        );
        check("mx\nsmtputf8\npipelining ", Extensions { pipelining: true, smtputf8: true, ..none });
        check(
            "mx\nLIMITS RCPTMAX=20 MAILMAX=5",
            Extensions { recipients_max: Some(20), transactions_max: Some(5), ..none },
        );
        check("mx\nLIMITS RCPTMAX=0 MAILMAX=99999999 X", none);
        for value in ["+5", "-5", "007", "05", "0000005", "1000000", "5x", "٥", ""] {
            check(&format!("mx\nLIMITS RCPTMAX={value} MAILMAX={value}"), none);
        }
        check("mx\nLIMITS rcptmax=999999", Extensions { recipients_max: Some(999_999), ..none });
        check("mx\nXPIPELINING\n\nSTARTTLSX", none);
    }
}
