//! The facts of a reply that mailprobe may show to everyone: its codes and its scope. The text is left out, because many servers
//! repeat addresses in it.

use super::Scope;
use super::classify::Classification;
use crate::smtp::reply::Reply;
use crate::smtp::status::EnhancedCode;
use std::time::Instant;

/// A reply without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedReply {
    /// The reply code, from 200 to 599.
    pub code: u16,
    /// The enhanced code of a refusal. `None` if no enhanced code agrees with the reply code (RFC 3463), and for an accept, because
    /// its enhanced code adds nothing.
    pub status: Option<EnhancedCode>,
    /// What the reply is about.
    pub scope: Scope,
    /// The time at which the reply arrived.
    pub at: Instant,
}

impl ObservedReply {
    /// Takes the facts from a reply that arrived at this time, and the scope from its classification.
    pub fn new(reply: &Reply, said: &Classification, at: Instant) -> ObservedReply {
        let status = if reply.is_positive() { None } else { EnhancedCode::find(reply) };
        ObservedReply { code: reply.code(), status, scope: said.scope, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Stage;
    use crate::verdict::classify::{ReplyView, classify};

    #[test]
    fn codes_and_scope_are_kept_and_no_text() {
        for (stage, text, code, status, scope) in [
            (Stage::Rcpt, "250 2.1.5 Ok", 250, None, Scope::Recipient),
            (Stage::Rcpt, "550 5.1.1 <joe@a.example>: User unknown", 550, Some((5, 1, 1)), Scope::Recipient),
            (Stage::Rcpt, "550 User unknown (#5.1.1)", 550, Some((5, 1, 1)), Scope::Recipient),
            (Stage::Rcpt, "550 User unknown", 550, None, Scope::Recipient),
            // The class of a code must agree with the reply code, and no part of an IP address is a code.
            (Stage::Rcpt, "450 5.1.1 User unknown", 450, None, Scope::Recipient),
            (Stage::Rcpt, "554 5.7.1 [5.1.1.9] is blocked", 554, Some((5, 7, 1)), Scope::Us),
            (Stage::Mail, "550 5.1.1 User unknown", 550, Some((5, 1, 1)), Scope::Sender),
            (Stage::Banner, "554 No SMTP service here", 554, None, Scope::Host),
        ] {
            let reply = Reply::parse(text).unwrap();
            let recipient = Some("joe@a.example");
            let view = ReplyView { recipient, ..ReplyView::of_unknown(stage, "mx.a.example", &reply) };
            let at = Instant::now();
            let status = status.map(|(class, subject, detail)| EnhancedCode::new(class, subject, detail));
            let expected = ObservedReply { code, status, scope, at };
            assert_eq!(ObservedReply::new(&reply, &classify(&view), at), expected, "{text}");
        }
    }
}
