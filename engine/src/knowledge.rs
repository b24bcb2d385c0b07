//! What control recipients have shown about domains: asked once a domain, remembered, and waited for together.

use crate::Outage;
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::{CONTROL_ATTEMPTS_MAX, CONTROL_TTL, CONTROL_UNKNOWN_TTL, KNOWN_DOMAINS_MAX};
use engine_proto::lists;
use engine_proto::verdict::catch_all::{ControlFinding, settle};
use engine_proto::verdict::classify::Classification;
use std::collections::HashMap;
use std::time::Instant;

/// A work whose recipient was accepted, with what that acceptance said.
type Accepted = (Work, Classification);

#[derive(Default)]
pub(crate) struct Knowledge {
    findings: HashMap<Domain, (ControlFinding, Instant)>,
    asking: HashMap<Domain, Asking>,
}

/// A control recipient that is being asked, or is to be.
#[derive(Default)]
struct Asking {
    attempts: u8,
    waiting: Vec<Accepted>,
}

impl Knowledge {
    /// A recipient was accepted: settles it if its domain is known, else keeps it until it is. True when the
    /// caller is to see to it that the control recipient is asked.
    pub(crate) fn accepted(&mut self, work: Work, said: Classification, now: Instant) -> bool {
        let domain = work.address.domain();
        if let Some(&(finding, _)) = self.findings.get(domain).filter(|(_, until)| *until > now) {
            conclude((work, said), finding, "control_remembered");
            return false;
        }
        if let Some(asking) = self.asking.get_mut(domain) {
            asking.waiting.push((work, said));
            return false;
        }
        self.asking.insert(domain.clone(), Asking { attempts: 0, waiting: vec![(work, said)] });
        true
    }

    /// The control recipient was answered for.
    pub(crate) fn learned(&mut self, domain: &Domain, finding: ControlFinding, now: Instant) {
        let (ttl, rule) = match finding {
            ControlFinding::RefusesUnknown => (CONTROL_TTL, "control_refused"),
            ControlFinding::AcceptsAll => (CONTROL_TTL, "control_accepted"),
            ControlFinding::Unknown => (CONTROL_UNKNOWN_TTL, "control_unclear"),
        };
        let waiting = self.asking.remove(domain).unwrap_or_default().waiting;
        self.make_room(now);
        // A probe that failed never overwrites good knowledge.
        let good = |(old, until): &(ControlFinding, Instant)| *old != ControlFinding::Unknown && *until > now;
        if finding != ControlFinding::Unknown || !self.findings.get(domain).is_some_and(good) {
            self.findings.insert(domain.clone(), (finding, now + ttl));
        }
        for accepted in waiting {
            conclude(accepted, finding, rule);
        }
    }

    /// The session ended before the control recipient was answered for; true when it is to be asked again.
    pub(crate) fn unanswered(&mut self, domain: &Domain, now: Instant) -> bool {
        let Some(asking) = self.asking.get_mut(domain) else { return false };
        asking.attempts += 1;
        if asking.attempts < CONTROL_ATTEMPTS_MAX && !asking.waiting.is_empty() {
            return true;
        }
        self.learned(domain, ControlFinding::Unknown, now);
        false
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
    }

    /// Adds to the stories of those who wait for a domain's control recipient.
    pub(crate) fn tell(&mut self, domain: &Domain, story: &[String]) {
        let waiting = self.asking.get_mut(domain).map(|asking| asking.waiting.as_mut_slice());
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

    fn make_room(&mut self, now: Instant) {
        if self.findings.len() < KNOWN_DOMAINS_MAX {
            return;
        }
        self.findings.retain(|_, (_, until)| *until > now);
        if self.findings.len() >= KNOWN_DOMAINS_MAX {
            // All of it is fresh: any half will do, it costs a question each to learn again.
            let mut keep = false;
            self.findings.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
    }
}

fn conclude((work, said): Accepted, finding: ControlFinding, rule: &'static str) {
    let role = lists::is_role(work.address.local());
    let reason = settle(&said, Some(finding), role);
    work.settle(reason, rule);
}
