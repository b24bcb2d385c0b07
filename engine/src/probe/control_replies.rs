//! What a reply about a control recipient, a known mailbox or `postmaster@` means: for the evidence of the session, and for what is
//! remembered of the host.

use super::context::ProbeContext;
use super::endings::push_back;
use super::replies::in_words;
use super::transaction::Answered;
use crate::egress::rest;
use crate::site::{SessionNotes, UnclearControl};
use engine_proto::address::Address;
use engine_proto::decision::recipient::{Alike, RcptFacts, ReplyEffect, on_rcpt_reply};
use engine_proto::verdict::classify::{Classification, classify};
use engine_proto::verdict::evidence::{ProofQuestion, QuestionResult};
use engine_proto::verdict::{Class, ObservedReply, Scope, Stage};
use std::rc::Rc;

/// A question of a checkpoint, with the recipient that is asked about.
pub(super) struct AskedQuestion {
    pub(super) question: ProofQuestion,
    pub(super) recipient: String,
    /// Whether the recipient may be from the request of another client, so that its name must not appear in a trace.
    pub(super) private: bool,
    /// The host that accepted the recipient in another session, if one did.
    pub(super) elsewhere: Option<Rc<str>>,
}

/// Reads the reply to a question, and adds it to the evidence of the session.
pub(super) fn control_answered(
    context: &ProbeContext<'_>,
    notes: &mut SessionNotes,
    asked: &AskedQuestion,
    heard: &Answered<'_>,
) -> ReplyEffect {
    let Answered { reply, behind_others, at, .. } = *heard;
    let said: Classification = classify(&context.view(Stage::Control, reply, Some(&asked.recipient)));
    if said.class == Class::Throttled && said.scope == Scope::Session && behind_others {
        // The transaction is full (RFC 5321 4.5.3.1.10), so the question is asked again in the next one.
        return ReplyEffect::Later;
    }
    let asking = context.asking;
    if asking.common.wants_traces() {
        let line = format!("{}: {}", name(asked.question), in_words(&said));
        context.works().evidence.each(|work| work.note(|| line.clone()));
    }
    let mut told = QuestionResult::of(&said);
    if let ProofQuestion::Control { domain, .. } = asked.question {
        if matches!(told, QuestionResult::Nothing | QuestionResult::RefusedUnclearly) {
            notes
                .unclear
                .insert(domain, UnclearControl { said, reply: ObservedReply::new(reply, &said, at) });
        }
        count_refusal_to_all(context, &said, heard, asked);
    }
    if said.class == Class::Throttled || said.scope == Scope::Session {
        push_back(context, said.rule);
        return ReplyEffect::Push;
    }
    if let Some(host) = &asked.elsewhere
        && told == QuestionResult::Refused
        && !asking.knowledge.borrow_mut().on_mailbox_refused(host, at)
    {
        // The mailbox may have been accepted only because that server accepts everyone, so its refusal here shows nothing.
        told = QuestionResult::Nothing;
    }
    match (asked.question, told) {
        (ProofQuestion::Control { domain, .. }, QuestionResult::Refused | QuestionResult::Accepted) => {
            let postmaster = notes.postmaster.take_if(|(at, _)| *at == domain);
            match postmaster {
                Some((_, postmaster)) if told == QuestionResult::Refused => {
                    context.on_known(&postmaster, true, at)
                }
                // The control recipient was accepted too, so the accept of `postmaster@` shows nothing.
                Some((_, postmaster)) => {
                    asking.knowledge.borrow_mut().on_mailbox_unproven(&context.route().host, &postmaster);
                }
                None => {}
            }
        }
        // This host has accepted the mailbox now, even if another host had accepted it before.
        (ProofQuestion::Known { .. } | ProofQuestion::KnownFirst, QuestionResult::Accepted) => {
            context.on_known_again(&asked.recipient, at);
        }
        (ProofQuestion::Postmaster, QuestionResult::Accepted) => {
            let recipient = Address::parse(&asked.recipient).ok();
            let domain = recipient.map(|address| context.domain_key(address.domain()));
            notes.postmaster = domain.map(|domain| (domain, asked.recipient.clone()));
            context.on_known(&asked.recipient, false, at);
        }
        (ProofQuestion::Postmaster, _) => {
            if let Some(domain) =
                Address::parse(&asked.recipient).ok().map(|address| address.domain().clone())
            {
                let number = context.domain_key(&domain);
                asking.knowledge.borrow_mut().on_no_postmaster(number, at);
            }
        }
        _ => {}
    }
    if told == QuestionResult::Accepted {
        context.state().on_accepted();
        asking.knowledge.borrow_mut().on_mailbox_accepted(&context.route().host);
    }
    context.works().evidence.on_told(asked.question, told);
    // A permanent refusal that proves nothing may be one that the host gives to everyone.
    let is_answer =
        matches!(told, QuestionResult::Accepted | QuestionResult::Refused) || reply.is_transient();
    if is_answer { ReplyEffect::Answer } else { ReplyEffect::Refusal }
}

/// If a control recipient is refused in words that anybody may get, the refusal counts like that of an address: towards a blanket
/// refusal, and towards the rest of our source.
fn count_refusal_to_all(
    context: &ProbeContext<'_>,
    said: &Classification,
    heard: &Answered<'_>,
    asked: &AskedQuestion,
) {
    let Ok(recipient) = Address::parse(&asked.recipient) else { return };
    let facts = RcptFacts {
        permanent: heard.reply.is_permanent(),
        repeated: context.state().is_repeated(said.rule),
        block: rest::is_block(context.asking, said),
        ..RcptFacts::default()
    };
    let alike = on_rcpt_reply(said, facts).alike.filter(|_| said.to_all);
    if let Some(Alike { block, counts_alone }) = alike {
        context.state().on_refused_alike(said, block, counts_alone, recipient.domain());
    }
}

fn name(question: ProofQuestion) -> &'static str {
    match question {
        ProofQuestion::Control { second: false, .. } => "control recipient",
        ProofQuestion::Control { second: true, .. } => "second control recipient",
        ProofQuestion::Known { .. } => "a mailbox that was accepted before, asked again",
        ProofQuestion::KnownFirst => "a mailbox that was accepted before, asked first",
        ProofQuestion::RefusedBefore { .. } => "a recipient that was refused before, asked again",
        ProofQuestion::Postmaster => "postmaster",
    }
}
