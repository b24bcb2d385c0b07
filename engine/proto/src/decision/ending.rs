//! Decides the effects of the end of a session: on the pace of its site (the hosts of one operator), on its host, and on the
//! recipients without an answer. A rule is the name of a cause. docs/verdicts.md lists the rules.

use crate::limits::REFUSALS_CARRIED_MAX;
use crate::pace::{End, Tally};
use crate::smtp::dialog::{Closure, Step};
use crate::smtp::reply::Reply;
use crate::verdict::classify::Classification;
use crate::verdict::{Class, Scope, Stage};

/// The effects of the end of a session during or after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndEffects<'a> {
    /// The effect on the pace of the site, if there is one.
    pub pace: Option<PaceEffect>,
    /// The effect on the host.
    pub host: EndEffect<'a>,
    /// Set if the first recipient without an answer may have caused the end: the rule for this recipient.
    pub suspect: Option<&'static str>,
    /// Whether the host ended the session after one or two refusals, before anything could show that its replies were in step.
    pub ends_at_refusal: bool,
    /// Whether the host ended the session at a second EHLO, and no refusal was the cause.
    pub ends_at_ehlo: bool,
}

/// The effect of the end of a session on the pace of its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaceEffect {
    /// The server answered for recipients, and then failed at the commands (RSET, MAIL) that begin the next transaction.
    BrokeBetween,
    /// The session ended at this step, perhaps because it reached a limit of the site.
    CutOff(End),
}

/// The effect of the end of a session on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndEffect<'a> {
    /// The host is used as before.
    Nothing,
    /// STARTTLS or the TLS handshake failed, so further sessions over the route do without TLS (RFC 7435).
    PlainOnly,
    /// The site gets a pause and then fewer sessions. The value is the rule.
    PushBack(&'static str),
    /// The host refuses the connection in its greeting because there are too many. The value is the rule.
    TooMany(&'static str),
    /// The host says in this reply that we are too fast or not wanted.
    SlowDown(&'a Reply, Classification),
    /// The host refuses sessions with this reply, and counts as down.
    Refused(&'a Reply, Classification),
    /// The connection ended or timed out at a step other than RCPT, before any answer for a recipient. The rule says which of the
    /// two happened.
    Died(&'static str),
    /// The connection ended or timed out at RCPT, before any answer for a recipient; the rule says which. A 421 at RCPT counts as
    /// this only if it says nothing about us and comes after the refusal of the known mailbox that the session asked about first.
    HungUp(&'static str),
    /// The host does not speak SMTP, and counts as down.
    NotSmtp,
}

/// Decides the effect on the host if a session ended before any answer for a recipient. `classify` gives the meaning of a reply.
pub fn on_session_refused<'a>(
    closure: &'a Closure,
    classify: impl Fn(Stage, &Reply) -> Classification,
) -> EndEffect<'a> {
    match closure {
        Closure::TlsFailed
        | Closure::Refused { step: Step::StartTls, .. }
        | Closure::Closed(Step::StartTls)
        | Closure::TimedOut(Step::StartTls)
        | Closure::Garbled(Step::StartTls, _)
        | Closure::Unexpected(Step::StartTls) => EndEffect::PlainOnly,
        Closure::Refused { step, reply } => {
            let said = classify(stage(*step), reply);
            let passes =
                !reply.is_permanent() && (said.class == Class::Temporary || said.scope == Scope::Session);
            match said.class {
                Class::Throttled if *step == Step::Banner => EndEffect::TooMany(said.rule),
                _ if said.class == Class::Throttled || passes => EndEffect::PushBack(said.rule),
                _ => EndEffect::Refused(reply, said),
            }
        }
        Closure::Closed(_) => EndEffect::Died("hung_up"),
        Closure::TimedOut(_) => EndEffect::Died("no_answer_in_time"),
        Closure::Garbled(..) | Closure::Unexpected(_) => EndEffect::NotSmtp,
        Closure::Quit => EndEffect::Nothing,
    }
}

/// Decides the effects if a session ended during or after a transaction. `classify` gives the meaning of a reply. `heeds_words` is
/// false only in a test with a planted defect: then no 421 counts as a statement about us.
pub fn on_session_end<'a>(
    closure: &'a Closure,
    tally: &Tally,
    heeds_words: bool,
    classify: impl Fn(Stage, &Reply) -> Classification,
) -> EndEffects<'a> {
    let at_recipient = ends_at_recipient(closure);
    let at_ehlo =
        matches!(closure, Closure::Closed(Step::InStep) | Closure::Refused { step: Step::InStep, .. });
    let ends_at_ehlo = at_ehlo && tally.errors == 0;
    let is_refused = matches!(closure, Closure::Refused { .. });
    let hung_up = is_refused || matches!(closure, Closure::Closed(_));
    let pace = match closure {
        _ if ends_at_ehlo => Some(PaceEffect::BrokeBetween),
        _ if tally.answers == 0 => None,
        _ if breaks_between(closure) => Some(PaceEffect::BrokeBetween),
        _ if !hung_up && tally.errors == 0 => None,
        _ if at_recipient => Some(PaceEffect::CutOff(End::Recipient)),
        Closure::Refused { step: Step::Mail, .. } | Closure::Closed(Step::Mail) => {
            Some(PaceEffect::CutOff(End::Mail))
        }
        _ => Some(PaceEffect::CutOff(End::Between)),
    };
    let rule = if matches!(closure, Closure::TimedOut(_)) { "no_answer_in_time" } else { "hung_up" };
    let host = match words_about_us(closure, &classify).filter(|_| heeds_words) {
        Some((reply, said)) => EndEffect::SlowDown(reply, said),
        None if at_recipient && tally.errors == 0 && is_refused => EndEffect::PushBack("hung_up"),
        None if ends_at_ehlo => EndEffect::Nothing,
        None if tally.answers == 0 && !at_recipient => on_session_refused(closure, classify),
        None if tally.answers == 0 => EndEffect::HungUp(rule),
        None => EndEffect::Nothing,
    };
    let in_transaction = at_recipient || at_ehlo;
    let ends_at_refusal = hung_up && in_transaction && (1..=REFUSALS_CARRIED_MAX).contains(&tally.errors);
    EndEffects {
        pace,
        host,
        suspect: (at_recipient || tally.answers == 0 && !at_ehlo).then_some(rule),
        ends_at_refusal,
        ends_at_ehlo,
    }
}

/// The 421 that ended a session at MAIL, RCPT or RSET or between transactions, with its meaning. `None` unless the 421 says that we
/// are too fast, that we ask about too many unknown recipients, or that we are not wanted.
fn words_about_us(
    closure: &Closure,
    classify: impl Fn(Stage, &Reply) -> Classification,
) -> Option<(&Reply, Classification)> {
    let Closure::Refused { step: Step::Rcpt(_) | Step::Rset | Step::Mail | Step::InStep | Step::Idle, reply } =
        closure
    else {
        return None;
    };
    let said = classify(Stage::Rcpt, reply);
    let about_us = matches!(said.scope, Scope::Us | Scope::Sender);
    (about_us && matches!(said.class, Class::Throttled | Class::Policy)).then_some((reply, said))
}

/// Whether a session ended while the reply for a recipient was due: by 421, a closed connection or a timeout.
pub fn ends_at_recipient(closure: &Closure) -> bool {
    matches!(
        closure,
        Closure::Refused { step: Step::Rcpt(_), .. }
            | Closure::Closed(Step::Rcpt(_))
            | Closure::TimedOut(Step::Rcpt(_))
    )
}

/// Whether the server failed at the commands that begin another transaction, by silence or by a reply that breaks the protocol. A
/// closed connection or a 421 does not count here.
fn breaks_between(closure: &Closure) -> bool {
    matches!(
        closure,
        Closure::Garbled(Step::Rset | Step::Mail, _)
            | Closure::Unexpected(Step::Rset | Step::Mail)
            | Closure::TimedOut(Step::Rset | Step::InStep | Step::Mail)
    )
}

fn stage(step: Step) -> Stage {
    match step {
        Step::Banner => Stage::Banner,
        Step::Ehlo | Step::Helo | Step::StartTls | Step::Handshake => Stage::Ehlo,
        Step::Rset | Step::Mail | Step::InStep | Step::Quit | Step::Idle => Stage::Mail,
        Step::Rcpt(_) => Stage::Rcpt,
    }
}

#[cfg(test)]
mod tests;
