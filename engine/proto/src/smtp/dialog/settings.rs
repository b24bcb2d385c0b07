//! What the caller sets for all sessions of a source.

use crate::limits;
use std::time::Duration;

/// The settings that all sessions of a source share.
#[derive(Debug)]
pub struct DialogConfig {
    /// The argument of EHLO: a name or an address literal.
    pub ehlo: Box<str>,
    /// The reverse-path of MAIL, without angle brackets; empty for `<>`.
    pub reverse_path: Box<str>,
    /// How long each reply may take.
    pub timeouts: ReplyTimeouts,
}

/// How long each reply may take, counted from the instant at which the session begins to wait for it. For a pipelined command, this
/// is the instant at which the previous reply arrived.
#[derive(Debug, Clone, Copy)]
pub struct ReplyTimeouts {
    /// Longest time until the greeting.
    pub banner: Duration,
    /// Longest time until the reply to EHLO, HELO or STARTTLS.
    pub ehlo: Duration,
    /// Longest time until the reply to RSET.
    pub rset: Duration,
    /// Longest time of the TLS handshake.
    pub tls: Duration,
    /// Longest time until the reply to MAIL.
    pub mail: Duration,
    /// Longest time until the reply to one RCPT.
    pub rcpt: Duration,
}

impl Default for ReplyTimeouts {
    fn default() -> ReplyTimeouts {
        ReplyTimeouts {
            banner: limits::BANNER_TIMEOUT,
            ehlo: limits::EHLO_TIMEOUT,
            rset: limits::RSET_TIMEOUT,
            tls: limits::TLS_TIMEOUT,
            mail: limits::MAIL_TIMEOUT,
            rcpt: limits::RCPT_TIMEOUT,
        }
    }
}
