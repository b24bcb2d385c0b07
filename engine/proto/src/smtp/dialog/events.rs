//! What a session waits for, and what it tells its driver.

use super::super::habits::InStep;
use super::super::reply::{Reply, ReplyError};

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The greeting.
    Banner,
    /// The reply to EHLO.
    Ehlo,
    /// The reply to HELO, after EHLO was refused.
    Helo,
    /// The reply to STARTTLS.
    StartTls,
    /// The TLS handshake.
    Handshake,
    /// The reply to RSET.
    Rset,
    /// The reply to the EHLO after a transaction, which shows whether the replies are in step.
    InStep,
    /// The reply to QUIT. It is awaited if QUIT takes the place of that EHLO, or if the reply to EHLO shows nothing.
    Quit,
    /// The reply to MAIL.
    Mail,
    /// The reply to the RCPT of the recipient with this index in its transaction.
    Rcpt(u16),
    /// The next transaction. No reply is due.
    Idle,
}

/// An event for the driver of a session.
#[derive(Debug)]
pub enum Event {
    /// The session is ready for a transaction.
    Ready,
    /// The driver has to start the TLS handshake now, and to report its end with [`Dialog::on_tls_done`](super::Dialog::on_tls_done).
    StartTls,
    /// The server has answered for a recipient of the transaction.
    Answered {
        /// The index of the recipient in the transaction.
        index: u16,
        /// The reply of the server.
        reply: Reply,
        /// Whether the host is known to be in step here. If not, a later [`Event::InStep`] has to show that this reply was.
        in_step: bool,
    },
    /// All replies of the session so far were in step: the session has shown it, or (`None`) what is known of the host is enough.
    InStep(Option<InStep>),
    /// The server has refused MAIL, so no recipient of the transaction gets an answer.
    MailRefused(Reply),
    /// The session is over. Recipients without an answer will get none.
    Over(Closure),
}

/// The end of a session, with the step at which it ended.
#[derive(Debug)]
pub enum Closure {
    /// The server refused us: by its greeting, by its reply to EHLO or HELO, or by 421 at any step.
    Refused {
        /// The step of the refusal.
        step: Step,
        /// The reply that refused us.
        reply: Reply,
    },
    /// The server closed the connection at this step, or the connection broke.
    Closed(Step),
    /// The server gave no reply before the deadline of the step.
    TimedOut(Step),
    /// The server sent something that is not a valid reply.
    Garbled(Step, ReplyError),
    /// The server sent a reply with a code that the step does not allow, or a reply (or the beginning of one) that answers no
    /// command. Earlier replies of the session may have been out of step, too.
    Unexpected(Step),
    /// The TLS handshake failed or took too long.
    TlsFailed,
    /// We ended the session with [`Dialog::quit`](super::Dialog::quit).
    Quit,
}
