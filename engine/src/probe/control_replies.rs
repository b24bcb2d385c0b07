//! Interprets the replies to the questions of a checkpoint. These questions are about a control recipient (which does not exist), a
//! known mailbox (which the host accepted before), a recipient that was refused before, or `postmaster@`. Unless the server pushes
//! back or the transaction is full, the reply becomes evidence for the answers that the session holds. What the reply shows about
//! the host is remembered for later sessions (`knowledge.rs`).

use super::context::ProbeContext;
use super::endings::push_back;
use super::replies::{heed_echo, in_words};
use super::transaction::RcptReply;
use crate::egress::rest;
use crate::site::{SessionNotes, UnclearControl};
use engine_proto::address::Address;
use engine_proto::decision::recipient::{RcptFacts, ReplyEffect, on_rcpt_reply};
use engine_proto::verdict::classify::{Classification, classify};
use engine_proto::verdict::evidence::{ProofQuestion, QuestionResult};
use engine_proto::verdict::{Class, ObservedReply, Scope, Stage};
use std::rc::Rc;

/// A question of a checkpoint with its recipient.
pub(super) struct AskedQuestion {
    pub(super) question: ProofQuestion,
    pub(super) recipient: String,
    /// Whether the recipient may come from the request of another account. If so, no trace may show the recipient.
    pub(super) private: bool,
    /// If the recipient is remembered as a known mailbox (`knowledge.rs`): the host that accepted it. For a canary (an existing
    /// mailbox from the configuration), the host of this session. `None` for other recipients.
    pub(super) accepted_by: Option<Rc<str>>,
}

/// Interprets the reply to a question.
pub(super) fn control_answered(
    context: &ProbeContext<'_>,
    notes: &mut SessionNotes,
    asked: &AskedQuestion,
    received: &RcptReply<'_>,
) -> ReplyEffect {
    let RcptReply { reply, behind_others, behind_taken, at, .. } = *received;
    let said: Classification = classify(&context.view(Stage::Control, reply, Some(&asked.recipient)));
    if said.class == Class::Throttled && said.scope == Scope::Session && behind_others {
        // The transaction is full (RFC 5321 4.5.3.1.10), so the next transaction asks this question again.
        return ReplyEffect::Later;
    }
    if said.class == Class::Throttled && said.scope == Scope::Session && behind_taken {
        // Another session asks this question, alone if this one has taken only one recipient.
        return ReplyEffect::SessionFull;
    }
    let asking = context.asking;
    if asking.common.wants_traces() {
        let line = format!("{}: {}", name(asked.question), in_words(&said));
        context.works().evidence.each(|work| work.note(|| line.clone()));
    }
    let mut result = QuestionResult::of(&said);
    if let ProofQuestion::Control { domain, .. } = asked.question {
        // A known mailbox may be asked about twice, so its address shows less.
        heed_echo(context, notes, reply, &asked.recipient);
        if matches!(result, QuestionResult::Nothing | QuestionResult::RefusedUnclearly) {
            notes
                .unclear
                .insert(domain, UnclearControl { said, reply: ObservedReply::new(reply, &said, at) });
        }
        count_refusal_to_all(context, &said, received, asked);
    }
    if said.class == Class::Throttled || said.scope == Scope::Session {
        push_back(context, said.rule);
        return ReplyEffect::Push;
    }
    if let Some(host) = &asked.accepted_by
        && result == QuestionResult::Refused
        && !asking.knowledge.borrow_mut().on_mailbox_refused(host, &asked.recipient, at)
    {
        // No session has proven that this mailbox exists, or the host has another known mailbox by now, so the refusal shows
        // nothing.
        result = QuestionResult::Nothing;
    }
    match (asked.question, result) {
        (ProofQuestion::Control { domain, .. }, QuestionResult::Refused | QuestionResult::Accepted) => {
            let postmaster = notes.postmaster.take_if(|(at, _)| *at == domain);
            match postmaster {
                Some((_, postmaster)) if result == QuestionResult::Refused => {
                    context.on_known(&postmaster, true, at)
                }
                // The host accepted the control recipient too, so the accept of `postmaster@` shows nothing.
                Some((_, postmaster)) => {
                    asking.knowledge.borrow_mut().on_mailbox_unproven(&context.route().host, &postmaster);
                }
                None => {}
            }
        }
        // The mailbox may have been known at another host only. Now it is known at this host too.
        (ProofQuestion::Known { .. } | ProofQuestion::KnownFirst, QuestionResult::Accepted) => {
            context.on_known_again(&asked.recipient, at);
        }
        (ProofQuestion::Postmaster { domain }, QuestionResult::Accepted) => {
            notes.postmaster = Some((domain, asked.recipient.clone()));
            context.on_known(&asked.recipient, false, at);
        }
        (ProofQuestion::Postmaster { domain }, _) => {
            asking.knowledge.borrow_mut().on_no_postmaster(domain, at);
        }
        _ => {}
    }
    if result == QuestionResult::Accepted {
        context.state().on_accepted();
        asking.knowledge.borrow_mut().on_mailbox_accepted(&context.route().host);
    }
    context.works().evidence.on_result(asked.question, result);
    // A permanent refusal that proves nothing may be one that the host gives to everyone. As an `Answer` it would end the count of
    // such refusals.
    let is_answer =
        matches!(result, QuestionResult::Accepted | QuestionResult::Refused) || reply.is_transient();
    if is_answer { ReplyEffect::Answer } else { ReplyEffect::Refusal }
}

/// Counts the refusal of a control recipient if it is certainly not about this recipient. Enough such refusals show that the host
/// refuses everyone, or blocks our source, just as with the recipients of works.
fn count_refusal_to_all(
    context: &ProbeContext<'_>,
    said: &Classification,
    received: &RcptReply<'_>,
    asked: &AskedQuestion,
) {
    let Ok(recipient) = Address::parse(&asked.recipient) else { return };
    let facts = RcptFacts {
        permanent: received.reply.is_permanent(),
        repeated: context.state().is_repeated(said.rule),
        block: rest::is_block(context.asking, said),
        ..RcptFacts::default()
    };
    let alike = on_rcpt_reply(said, facts).alike.filter(|_| said.to_all);
    if let Some(alike) = alike {
        let observed = ObservedReply::new(received.reply, said, received.at);
        context.state().on_refused_alike((observed, said), alike, recipient.domain());
    }
}

fn name(question: ProofQuestion) -> &'static str {
    match question {
        ProofQuestion::Control { second: false, .. } => "control recipient",
        ProofQuestion::Control { second: true, .. } => "second control recipient",
        ProofQuestion::Known { .. } => "a mailbox that was accepted before, asked again",
        ProofQuestion::KnownFirst => "a mailbox that was accepted before, asked first",
        ProofQuestion::RefusedBefore { .. } => "a recipient that was refused before, asked again",
        ProofQuestion::Postmaster { .. } => "postmaster",
    }
}
