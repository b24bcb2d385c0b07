//! What control recipients have shown about domains: asked once a domain, remembered, and waited for together.

use crate::seed::{HashMap, Hashing};
use crate::work::Work;
use crate::{Finding, Outage, Priority};
use engine_proto::address::Domain;
use engine_proto::limits::{CONTROL_ATTEMPTS_MAX, CONTROL_TTL, CONTROL_UNKNOWN_TTL, KNOWN_DOMAINS_MAX};
use engine_proto::lists;
use engine_proto::verdict::Reason;
use engine_proto::verdict::catch_all::{ControlFinding, settle};
use engine_proto::verdict::classify::Classification;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A work whose recipient was accepted, with what that acceptance said.
type Accepted = (Work, Classification);

/// A control recipient: of a domain, at the host that accepted the real one. What one host shows says nothing about
/// another: a backup often accepts everyone and finds out later, and its accept must not be confirmed by the refusal
/// of a host that knows its mailboxes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Control {
    pub(crate) domain: Domain,
    pub(crate) host: Rc<str>,
}

#[derive(Default)]
pub(crate) struct Knowledge {
    findings: Findings,
    asking: HashMap<Control, Asking>,
}

/// What is known, by a keyed hash of 64 bits: a fifth of the memory that names would take. Even of a full table one
/// question in 10^14 would find what was learned about another, and nobody can make that happen.
#[derive(Default)]
struct Findings {
    known: HashMap<u64, (ControlFinding, Instant)>,
    keyed: Hashing,
}

/// A control recipient that is being asked, or is to be.
#[derive(Default)]
struct Asking {
    attempts: u8,
    waiting: Vec<Accepted>,
}

impl Knowledge {
    /// A recipient was accepted at `host`: settles it if its domain is known there, else keeps it until it is. Gives
    /// the control recipient that the caller is to see asked.
    pub(crate) fn accepted(
        &mut self,
        work: Work,
        said: Classification,
        host: &Rc<str>,
        now: Instant,
    ) -> Option<Control> {
        let control = Control { domain: work.address.domain().clone(), host: Rc::clone(host) };
        if let Some(finding) = self.findings.get(&control, now) {
            conclude((work, said), finding, "control_remembered");
            return None;
        }
        if let Some(asking) = self.asking.get_mut(&control) {
            asking.waiting.push((work, said));
            return None;
        }
        self.asking.insert(control.clone(), Asking { attempts: 0, waiting: vec![(work, said)] });
        Some(control)
    }

    /// Answers a row of a list or batch for which `host` would be asked, if that host is known to accept every
    /// recipient of the domain; gives back all others. Whoever waits for the answer is asked about all the same, and so
    /// is who was asked about before: a server that accepts strangers may still refuse the one that it closed.
    pub(crate) fn spare(&self, mut work: Work, host: &Rc<str>, now: Instant) -> Option<Work> {
        if work.priority == Priority::Single || work.tried != 0 || work.returns > 0 {
            return Some(work);
        }
        let control = Control { domain: work.address.domain().clone(), host: Rc::clone(host) };
        match self.findings.get(&control, now) {
            Some(ControlFinding::AcceptsAll) => {
                work.note(|| {
                    format!("control recipient: known to be accepted at {host}, so nothing is asked")
                });
                work.settle(Reason::CatchAll, "control_remembered");
                None
            }
            _ => Some(work),
        }
    }

    /// The control recipient was answered for.
    pub(crate) fn learned(&mut self, control: &Control, finding: ControlFinding, now: Instant) {
        let (ttl, rule) = match finding {
            ControlFinding::RefusesUnknown => (CONTROL_TTL, "control_refused"),
            ControlFinding::AcceptsAll => (CONTROL_TTL, "control_accepted"),
            ControlFinding::Unknown => (CONTROL_UNKNOWN_TTL, "control_unclear"),
        };
        let waiting = self.asking.remove(control).unwrap_or_default().waiting;
        self.findings.learn(control, finding, ttl, now);
        for accepted in waiting {
            conclude(accepted, finding, rule);
        }
    }

    /// The session ended before the control recipient was answered for; true when it is to be asked again.
    /// `blamed`: it may be why, and so many times will do.
    pub(crate) fn unanswered(&mut self, control: &Control, blamed: bool, now: Instant) -> bool {
        let Some(asking) = self.asking.get_mut(control) else { return false };
        asking.attempts += u8::from(blamed);
        if asking.attempts < CONTROL_ATTEMPTS_MAX && !asking.waiting.is_empty() {
            return true;
        }
        self.learned(control, ControlFinding::Unknown, now);
        false
    }

    /// The host is gone before it answered for the control recipient: gives back who waits for that.
    pub(crate) fn released(&mut self, control: &Control) -> Vec<Work> {
        let waiting = self.asking.remove(control).unwrap_or_default().waiting;
        waiting.into_iter().map(|(work, _)| work).collect()
    }

    /// Answers those whose time is over while they wait for a control recipient.
    pub(crate) fn expire(&mut self, now: Instant) {
        for asking in self.asking.values_mut() {
            let (over, waiting): (Vec<_>, Vec<_>) =
                std::mem::take(&mut asking.waiting).into_iter().partition(|(work, _)| work.deadline <= now);
            asking.waiting = waiting;
            for accepted in over {
                conclude(accepted, ControlFinding::Unknown, "control_unanswered");
            }
        }
        // Nobody waits any more: whoever comes next has it asked anew, should it have got lost.
        self.asking.retain(|_, asking| !asking.waiting.is_empty());
    }

    /// Adds to the stories of those who wait for a control recipient.
    pub(crate) fn tell(&mut self, control: &Control, story: &[String]) {
        let waiting = self.asking.get_mut(control).map(|asking| asking.waiting.as_mut_slice());
        for (work, _) in waiting.unwrap_or_default() {
            if let Some(trace) = &mut work.trace {
                trace.extend(story.iter().cloned());
            }
        }
    }

    /// Answers all who wait: the engine stops.
    pub(crate) fn abandon(&mut self) {
        let waiting = self.asking.drain().flat_map(|(_, asking)| asking.waiting);
        waiting.for_each(|(work, _)| work.fail(Outage::Stopping));
    }
}

impl Findings {
    fn get(&self, control: &Control, now: Instant) -> Option<ControlFinding> {
        let &(finding, until) = self.known.get(&self.keyed.hash_one(control))?;
        (until > now).then_some(finding)
    }

    fn learn(&mut self, control: &Control, finding: ControlFinding, ttl: Duration, now: Instant) {
        self.make_room(now);
        // A probe that failed never overwrites good knowledge.
        let good = self.get(control, now).is_some_and(|old| old != ControlFinding::Unknown);
        if finding != ControlFinding::Unknown || !good {
            self.known.insert(self.keyed.hash_one(control), (finding, now + ttl));
        }
    }

    fn make_room(&mut self, now: Instant) {
        if self.known.len() < KNOWN_DOMAINS_MAX {
            return;
        }
        self.known.retain(|_, (_, until)| *until > now);
        if self.known.len() >= KNOWN_DOMAINS_MAX {
            // All of it is fresh: any half will do, it costs a question each to learn again.
            let mut keep = false;
            self.known.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
    }
}

fn conclude((work, said): Accepted, finding: ControlFinding, rule: &'static str) {
    let role = lists::is_role(work.address.local());
    let reason = settle(&said, Some(finding), role);
    // What was not clear may be, once it is asked again.
    let retry_after = (finding == ControlFinding::Unknown).then_some(CONTROL_UNKNOWN_TTL);
    work.finish(Finding { reason, rule, retry_after });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::testing::{answer, mailbox, work};
    use engine_proto::verdict::{Class, Scope};

    const ACCEPTED: Classification = Classification {
        class: Class::Accepted,
        scope: Scope::Recipient,
        permanent: false,
        to_all: false,
        rule: "test",
    };

    #[test]
    fn what_one_host_shows_confirms_nothing_that_another_accepts() {
        let (client, now) = (mailbox(), Instant::now());
        let (primary, backup): (Rc<str>, Rc<str>) = ("mx1.a.example".into(), "mx2.a.example".into());
        let mut knowledge = Knowledge::default();
        let accept = |host: &Rc<str>, knowledge: &mut Knowledge| {
            knowledge.accepted(work(&client, "u@a.example", Priority::List), ACCEPTED, host, now)
        };
        let control = accept(&primary, &mut knowledge).expect("nobody is to ask");
        assert_eq!(accept(&primary, &mut knowledge), None, "asked once");
        knowledge.learned(&control, ControlFinding::RefusesUnknown, now);
        assert_eq!(answer(&client), Some((Reason::MailboxExists, "control_refused", false)));
        assert_eq!(answer(&client), Some((Reason::MailboxExists, "control_refused", false)));
        let other = accept(&backup, &mut knowledge).expect("the backup was never asked");
        assert_eq!(answer(&client), None);
        knowledge.learned(&other, ControlFinding::AcceptsAll, now);
        assert_eq!(answer(&client), Some((Reason::CatchAll, "control_accepted", false)));
        assert_eq!(accept(&primary, &mut knowledge), None);
        assert_eq!(answer(&client), Some((Reason::MailboxExists, "control_remembered", false)));
    }

    #[test]
    fn rows_of_a_known_catch_all_are_spared_the_question() {
        let (client, now) = (mailbox(), Instant::now());
        let (primary, backup): (Rc<str>, Rc<str>) = ("mx1.a.example".into(), "mx2.a.example".into());
        let rule = |knowledge: &Knowledge, work: Work, host: &Rc<str>, now: Instant| {
            if let Some(work) = knowledge.spare(work, host, now) {
                work.settle(Reason::InboxFull, "asked");
            }
            answer(&client).expect("no answer").1
        };
        let row = |priority| work(&client, "v@a.example", priority);
        let mut knowledge = Knowledge::default();
        assert_eq!(rule(&knowledge, row(Priority::List), &primary, now), "asked");
        let first = work(&client, "u@a.example", Priority::List);
        let control = knowledge.accepted(first, ACCEPTED, &primary, now).expect("nobody is to ask");
        assert_eq!(rule(&knowledge, row(Priority::List), &primary, now), "asked", "not known yet");
        knowledge.learned(&control, ControlFinding::AcceptsAll, now);
        assert_eq!(answer(&client), Some((Reason::CatchAll, "control_accepted", false)));
        assert_eq!(rule(&knowledge, row(Priority::List), &primary, now), "control_remembered");
        assert_eq!(rule(&knowledge, row(Priority::Batch), &primary, now), "control_remembered");
        assert_eq!(rule(&knowledge, row(Priority::Single), &primary, now), "asked", "somebody waits");
        assert_eq!(rule(&knowledge, row(Priority::List), &backup, now), "asked", "another host");
        let other = work(&client, "v@b.example", Priority::List);
        assert_eq!(rule(&knowledge, other, &primary, now), "asked", "another domain");
        let mut heard = row(Priority::List);
        heard.tried = 1;
        assert_eq!(rule(&knowledge, heard, &primary, now), "asked", "it was asked about before");
        let late = now + CONTROL_TTL;
        assert_eq!(rule(&knowledge, row(Priority::List), &primary, late), "asked", "known no longer");
        let refused =
            knowledge.accepted(row(Priority::List), ACCEPTED, &backup, now).expect("nobody is to ask");
        knowledge.learned(&refused, ControlFinding::RefusesUnknown, now);
        assert_eq!(answer(&client), Some((Reason::MailboxExists, "control_refused", false)));
        assert_eq!(rule(&knowledge, row(Priority::List), &backup, now), "asked", "it tells mailboxes apart");
    }

    #[test]
    fn a_failed_try_is_no_finding_and_may_be_repeated() {
        let (client, now) = (mailbox(), Instant::now());
        let host: Rc<str> = "mx.a.example".into();
        let mut knowledge = Knowledge::default();
        let first = work(&client, "u@a.example", Priority::List);
        let control = knowledge.accepted(first, ACCEPTED, &host, now).expect("nobody is to ask");
        for _ in 0..10 {
            assert!(knowledge.unanswered(&control, false, now), "another one was to blame");
        }
        for _ in 1..CONTROL_ATTEMPTS_MAX {
            assert!(knowledge.unanswered(&control, true, now));
        }
        assert!(!knowledge.unanswered(&control, true, now));
        assert_eq!(answer(&client), Some((Reason::Unverifiable, "control_unclear", true)));
    }

    #[test]
    fn a_control_recipient_that_got_lost_is_asked_anew() {
        let (client, now) = (mailbox(), Instant::now());
        let host: Rc<str> = "mx.a.example".into();
        let mut knowledge = Knowledge::default();
        let late = now + Duration::from_secs(3600);
        for _ in 0..2 {
            let lost = work(&client, "u@a.example", Priority::List);
            assert!(knowledge.accepted(lost, ACCEPTED, &host, now).is_some(), "nobody would ever ask");
            knowledge.expire(late);
            assert_eq!(answer(&client), Some((Reason::Unverifiable, "control_unanswered", true)));
        }
        let kept = work(&client, "u@a.example", Priority::List);
        let control = knowledge.accepted(kept, ACCEPTED, &host, now).expect("nobody is to ask");
        assert_eq!(knowledge.released(&control).len(), 1);
    }
}
