//! Blanket refusals: a host refuses all recipients, or all of one domain, in the same way, for a reason that is not about the
//! recipient. This file counts equal refusals, to recognize a blanket refusal. No I/O.

use engine_proto::address::Domain;
use engine_proto::limits::{
    BLANKET_ANY_MIN, BLANKET_CERTAIN_MIN, BLANKET_DOMAIN_CHANGES_MIN, BLANKET_DOMAINS_MAX,
};
use engine_proto::verdict::ObservedReply;
use engine_proto::verdict::classify::Classification;
use std::time::Instant;

/// A run of equal refusals: all have the same rule. A clear reply about a recipient ends the run. A refusal by another rule that
/// the host may also give to everyone begins a new run.
#[derive(Debug)]
pub(super) struct RefusedAlike {
    rule: &'static str,
    /// The first of these refusals.
    reply: ObservedReply,
    /// Whether any of these refusals is a block of our source.
    block: bool,
    /// Whether any of these refusals counts by itself. If none does, the run shows nothing yet.
    counts_alone: bool,
    /// Whether the words or the code of these refusals leave no doubt that the reason is not the recipient. Then fewer refusals are
    /// enough.
    certain: bool,
    times: u8,
    /// How many times the domain of the refused recipient changed from one refusal to the next.
    changes: u8,
    /// For up to [`BLANKET_DOMAINS_MAX`] domains, the number of refused recipients. The domain of the latest refusal is the last.
    domains: Vec<(Domain, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlanketRefusal {
    pub(crate) rule: &'static str,
    pub(crate) reply: ObservedReply,
    /// Whether the refusal is a block of our source.
    pub(crate) block: bool,
}

/// The domains that a host is not asked about for a time: each with the end of this time, and the refusal.
#[derive(Debug, Default)]
pub(super) struct ShutDomains(Vec<(Domain, Instant, BlanketRefusal)>);

impl RefusedAlike {
    pub(super) fn new(said: &Classification, reply: ObservedReply) -> RefusedAlike {
        let (rule, certain) = (said.rule, said.to_all);
        RefusedAlike {
            rule,
            reply,
            block: false,
            counts_alone: false,
            certain,
            times: 0,
            changes: 0,
            domains: Vec::new(),
        }
    }

    pub(super) fn rule(&self) -> &'static str {
        self.rule
    }

    /// Whether fewer recipients were refused than any blanket refusal needs.
    pub(super) fn is_short(&self) -> bool {
        self.times < BLANKET_CERTAIN_MIN
    }

    /// One more recipient of this domain was refused in this way. `block`: the refusal is a block of our source. `counts_alone`:
    /// the refusal counts by itself. Otherwise it counts only if another refusal of the run counts by itself.
    pub(super) fn on_refused(&mut self, block: bool, counts_alone: bool, domain: &Domain) {
        self.block |= block;
        self.counts_alone |= counts_alone;
        self.times = self.times.saturating_add(1);
        if self.domains.last().is_some_and(|(last, _)| last != domain) {
            self.changes = self.changes.saturating_add(1);
        }
        let at = self.domains.iter().position(|(counted, _)| counted == domain);
        let mut counted = at.map_or_else(|| (domain.clone(), 0), |at| self.domains.remove(at));
        counted.1 = counted.1.saturating_add(1);
        if self.domains.len() >= BLANKET_DOMAINS_MAX {
            self.domains.remove(0);
        }
        self.domains.push(counted);
    }

    /// How many further refusals may show a blanket refusal. At least 1. After [`BLANKET_CERTAIN_MIN`] refusals that show none of the
    /// whole host, only one of a domain can follow.
    pub(super) fn missing(&self) -> usize {
        let is_short = self.certain && self.is_short();
        let least = if is_short { BLANKET_CERTAIN_MIN } else { BLANKET_ANY_MIN };
        least.saturating_sub(self.times).max(1).into()
    }

    /// The blanket refusal of the whole host, if it is certain by now. There must be enough refusals, and at least one must count
    /// by itself. In addition, the domain of the recipients must have changed often enough, or the domain that was refused last
    /// must have the same registrable domain as the host.
    pub(super) fn of_all(&self, host: &str) -> Option<BlanketRefusal> {
        let least = if self.certain { BLANKET_CERTAIN_MIN } else { BLANKET_ANY_MIN };
        let is_enough = self.counts_alone && self.times >= least;
        let own = || self.domains.last().is_some_and(|(domain, _)| domain.shares_registrable(host));
        (is_enough && (self.changes >= BLANKET_DOMAIN_CHANGES_MIN || own())).then(|| self.refusal())
    }

    pub(super) fn refusal(&self) -> BlanketRefusal {
        BlanketRefusal { rule: self.rule, reply: self.reply, block: self.block }
    }

    /// The domains that the host refuses entirely: at least [`BLANKET_ANY_MIN`] recipients of each were refused. There are none
    /// unless a refusal of the run counts by itself.
    pub(super) fn of_domains(&self) -> impl Iterator<Item = &Domain> {
        let counted = self.domains.iter().filter(|(_, times)| self.counts_alone && *times >= BLANKET_ANY_MIN);
        counted.map(|(domain, _)| domain)
    }
}

impl ShutDomains {
    /// Marks the domain as one that the host is not asked about before `until`. If the domain is already marked, the mark keeps its
    /// end.
    pub(super) fn set_shut(
        &mut self,
        domain: &Domain,
        now: Instant,
        until: Instant,
        refusal: BlanketRefusal,
    ) {
        self.0.retain(|(_, until, _)| *until > now);
        if self.of(domain, now).is_some() {
            return;
        }
        if self.0.len() >= BLANKET_DOMAINS_MAX {
            self.0.remove(0);
        }
        self.0.push((domain.clone(), until, refusal));
    }

    /// The refusal because of which the host is not asked about the domain now, if there is one.
    pub(super) fn of(&self, domain: &Domain, now: Instant) -> Option<BlanketRefusal> {
        let shut = self.0.iter().find(|(shut, until, _)| shut == domain && *until > now);
        shut.map(|(_, _, refusal)| *refusal)
    }

    pub(super) fn is_empty(&self, now: Instant) -> bool {
        self.0.iter().all(|(_, until, _)| *until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_proto::address::Address;
    use engine_proto::verdict::{Class, Scope};
    use std::time::Duration;

    fn said(to_all: bool) -> Classification {
        Classification { class: Class::Policy, scope: Scope::Us, rule: "denied", permanent: true, to_all }
    }

    fn reply() -> ObservedReply {
        ObservedReply { code: 554, status: None, scope: Scope::Us, at: Instant::now() }
    }

    fn domain(name: &str) -> Domain {
        Address::parse(&format!("u@{name}")).unwrap().domain().clone()
    }

    /// Refusals of recipients of these domains, one after the other.
    fn alike(to_all: bool, counts_alone: bool, names: &[&str]) -> RefusedAlike {
        let mut alike = RefusedAlike::new(&said(to_all), reply());
        names.iter().for_each(|name| alike.on_refused(false, counts_alone, &domain(name)));
        alike
    }

    #[test]
    fn a_host_says_so_to_everyone_once_it_has_said_it_often_enough() {
        let own = ["mail.example"; 20];
        let shared: Vec<&str> = ["a.example", "b.example"].into_iter().cycle().take(20).collect();
        for (to_all, counts_alone, names, host, expected) in [
            (true, true, &own[..5], "mx.mail.example", true),
            (true, true, &own[..4], "mx.mail.example", false),
            (true, false, &own[..5], "mx.mail.example", false),
            (false, true, &own[..19], "mx.mail.example", false),
            (false, true, &own[..], "mx.mail.example", true),
            (true, true, &own[..], "mx.other.example", false),
            (true, true, &shared[..5], "mx.other.example", true),
            (false, true, &shared[..], "mx.other.example", true),
            (false, true, &shared[..19], "mx.other.example", false),
        ] {
            let of_all = alike(to_all, counts_alone, names).of_all(host);
            assert_eq!(of_all.is_some(), expected, "{to_all} {counts_alone} {} {host}", names.len());
        }
    }

    #[test]
    fn domains_are_counted_beside_each_other() {
        let names: Vec<&str> = ["a.example", "b.example", "a.example"].into_iter().cycle().take(30).collect();
        let shut: Vec<String> = alike(false, true, &names).of_domains().map(|d| d.as_str().into()).collect();
        assert_eq!(shut, ["a.example"], "20 of one, 10 of the other");
        assert_eq!(alike(false, false, &names).of_domains().count(), 0, "another session may hear more");
        let many: Vec<String> = (0..100).map(|n| format!("d{n}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(alike(false, true, &many).domains.len() <= BLANKET_DOMAINS_MAX);
    }

    #[test]
    fn a_transaction_has_room_for_what_may_show_a_blanket_refusal() {
        let one = |times| vec!["a.example"; times];
        for (certain, times, missing) in
            [(true, 1, 4), (true, 5, 15), (true, 19, 1), (true, 25, 1), (false, 3, 17)]
        {
            assert_eq!(alike(certain, true, &one(times)).missing(), missing, "{certain} {times}");
        }
    }

    #[test]
    fn domains_are_left_alone_for_a_while() {
        let (now, mut shut) = (Instant::now(), ShutDomains::default());
        let until = now + Duration::from_secs(60);
        let denied = BlanketRefusal { rule: "denied", reply: reply(), block: false };
        for n in 0..2 * BLANKET_DOMAINS_MAX {
            shut.set_shut(&domain(&format!("d{n}.example")), now, until, denied);
        }
        let last = domain(&format!("d{}.example", 2 * BLANKET_DOMAINS_MAX - 1));
        assert_eq!(shut.of(&last, now), Some(denied));
        shut.set_shut(&last, now, until + Duration::from_secs(60), denied);
        assert_eq!(shut.of(&last, until), None, "for no longer than was said first");
        assert_eq!(shut.of(&domain("other.example"), now), None);
        assert!(!shut.is_empty(now) && shut.is_empty(until) && shut.of(&last, until).is_none());
        assert!(shut.0.len() <= BLANKET_DOMAINS_MAX);
    }
}
