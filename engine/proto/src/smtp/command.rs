//! The commands that a probe sends (RFC 5321 4.1.1). DATA, VRFY and EXPN are not among them, so they are never sent.

/// Appends one command with its line end to `out`.
///
/// The arguments are addresses (from [`crate::address`], or made by mailprobe) and names from the configuration. None of them can
/// have a control character, so no argument can contain a second command.
pub fn encode(out: &mut Vec<u8>, command: Command<'_>) {
    let mut put = |parts: &[&str]| {
        for part in parts {
            debug_assert!(
                !part.bytes().any(|b| b < 0x20 || b == 0x7f),
                "a command holds a control character"
            );
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    };
    match command {
        Command::Ehlo(name) => put(&["EHLO ", name]),
        Command::Helo(name) => put(&["HELO ", name]),
        Command::StartTls => put(&["STARTTLS"]),
        Command::Mail { reverse_path, smtputf8: false } => put(&["MAIL FROM:<", reverse_path, ">"]),
        Command::Mail { reverse_path, smtputf8: true } => put(&["MAIL FROM:<", reverse_path, "> SMTPUTF8"]),
        Command::Rcpt(recipient) => put(&["RCPT TO:<", recipient, ">"]),
        Command::Rset => put(&["RSET"]),
        Command::Quit => put(&["QUIT"]),
    }
}

/// EHLO with our name, or HELO for a server that refuses EHLO (RFC 5321 3.2).
pub fn greeting(is_helo: bool, name: &str) -> Command<'_> {
    if is_helo { Command::Helo(name) } else { Command::Ehlo(name) }
}

/// A command with its arguments.
#[derive(Clone, Copy)]
pub enum Command<'a> {
    /// EHLO with our name.
    Ehlo(&'a str),
    /// HELO with our name, for servers that refuse EHLO (RFC 5321 3.2).
    Helo(&'a str),
    /// STARTTLS (RFC 3207).
    StartTls,
    /// MAIL with our reverse-path.
    Mail {
        /// The reverse-path without the angle brackets; empty for `<>`.
        reverse_path: &'a str,
        /// Whether a recipient of the transaction needs SMTPUTF8 (RFC 6531 3.4).
        smtputf8: bool,
    },
    /// RCPT with an address, without the angle brackets.
    Rcpt(&'a str),
    /// RSET: the server forgets the transaction.
    Rset,
    /// QUIT: end the session (RFC 5321 4.1.1.10).
    Quit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_spelled_as_the_rfc_has_them() {
        let rows = [
            (Command::Ehlo("a.example"), "EHLO a.example\r\n"),
            (Command::Helo("a.example"), "HELO a.example\r\n"),
            (Command::StartTls, "STARTTLS\r\n"),
            (Command::Mail { reverse_path: "", smtputf8: false }, "MAIL FROM:<>\r\n"),
            (Command::Mail { reverse_path: "p@a.example", smtputf8: false }, "MAIL FROM:<p@a.example>\r\n"),
            (
                Command::Mail { reverse_path: "p@a.example", smtputf8: true },
                "MAIL FROM:<p@a.example> SMTPUTF8\r\n",
            ),
            (Command::Rcpt("\"a b\"@c.example"), "RCPT TO:<\"a b\"@c.example>\r\n"),
            (Command::Rset, "RSET\r\n"),
            (Command::Quit, "QUIT\r\n"),
        ];
        for (command, expected) in rows {
            let mut out = Vec::new();
            encode(&mut out, command);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
