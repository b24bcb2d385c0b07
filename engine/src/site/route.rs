//! One address of one host: whether it can be asked now, and what it says to everyone. No I/O.

use engine_proto::address::Domain;
use engine_proto::verdict::classify::Classification;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

/// One address of one host.
pub(crate) struct Route {
    pub(crate) host: Rc<str>,
    /// The host's MX preference.
    pub(super) preference: u16,
    pub(crate) address: IpAddr,
    /// Out of use until then, and why.
    pub(super) down: Cell<Option<(Instant, &'static str)>>,
    /// Left alone for a moment: it was too much for it.
    pub(super) resting: Cell<Option<Instant>>,
    /// Connections in a row that died without a word.
    pub(super) strikes: Cell<u8>,
    /// Its accepts show nothing: [`accepts_everything`].
    pub(crate) accepts_everything: bool,
    /// What it has said of a session, in answer to a recipient, since the last one began.
    pub(super) refused: Cell<Option<&'static str>>,
    /// The same of an earlier session.
    pub(super) refrain: Cell<Option<&'static str>>,
    /// What it has said of recipients, and of nobody else since.
    pub(super) chorus: RefCell<Option<Chorus>>,
    /// The domain that it is not asked about for a while, because it refused 20 recipients of it alike.
    pub(super) shut_domain: RefCell<Option<ShutDomain>>,
    /// Recipients that it refused since it last accepted one, over all sessions.
    pub(crate) refusals_in_a_row: Cell<u32>,
    /// Recipients that it accepted since it last refused one for itself.
    pub(crate) accepts_in_a_row: Cell<u32>,
    /// Sessions in a row that it ended with words about us.
    pub(super) warnings: Cell<u8>,
    /// Sessions in a row in which it changed its behaviour.
    pub(crate) changes: Cell<u8>,
    /// A TLS handshake failed here: the next session goes in the clear.
    pub(crate) plain_only: Cell<bool>,
}

/// A refusal that is about us or the session, heard for one recipient after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chorus {
    /// The rule that knows its words.
    pub(crate) rule: &'static str,
    /// It is a block of our source.
    pub(crate) block: bool,
    pub(super) times: u8,
    /// Another session would not hear anything else.
    settled: bool,
    /// Its words leave no doubt that they may be said to everyone.
    certain: bool,
    /// Of the recipient that it was heard for last.
    domain: Domain,
    /// How often the domain was another one than before.
    changes: u8,
    /// Times in a row for this domain.
    in_domain: u8,
}

/// A domain that a host is not asked about until then, and the rule of its refusals.
pub(crate) struct ShutDomain {
    domain: Domain,
    until: Instant,
    rule: &'static str,
}

/// So many recipients in a row are enough to know what a host says to everyone, in words that leave no doubt.
const CHORUS_MIN: u8 = 5;
/// So many are enough whatever the words are.
const CHORUS_MIN_ANY: u8 = 20;
/// A host that serves others' domains may say so for one of them, whose owner wants it: there the domain has to change so
/// often meanwhile.
const CHANGES_MIN: u8 = 2;

impl Route {
    pub(crate) fn take_down(&self, until: Instant, rule: &'static str) {
        self.down.set(Some((until, rule)));
    }

    pub(crate) fn rest(&self, until: Instant) {
        self.resting.set(Some(until));
    }

    /// A connection died without a word; true when that is once too often.
    pub(crate) fn strike(&self, patience: u8) -> bool {
        self.strikes.set(self.strikes.get().saturating_add(1));
        self.strikes.get() >= patience
    }

    /// It refused to go on with a session, in words that this rule knows.
    pub(crate) fn refuses(&self, rule: &'static str) {
        self.refused.set(Some(rule));
    }

    /// It ended a session with words about us; true when that is once too often.
    pub(crate) fn warn(&self, patience: u8) -> bool {
        self.warnings.set(self.warnings.get().saturating_add(1));
        self.warnings.get() >= patience
    }

    /// Another session was opened: what was heard in an earlier one may be heard again.
    pub(crate) fn begins(&self) {
        if let Some(rule) = self.refused.take() {
            self.refrain.set(Some(rule));
        }
    }

    /// Whether an earlier session heard the same, and none has heard anything about a recipient since.
    pub(crate) fn says_so(&self, rule: &'static str) -> bool {
        self.refrain.get() == Some(rule)
    }

    /// It said something about a recipient.
    pub(crate) fn speaks(&self) {
        self.refrain.set(None);
        self.refused.set(None);
        self.chorus.take();
    }

    /// It said of a recipient what it may say to everyone. `block`: they block our source.
    /// `settled`: another session would not hear anything else.
    pub(crate) fn sings(&self, said: &Classification, block: bool, settled: bool, domain: &Domain) {
        let (rule, certain) = (said.rule, said.to_all);
        let new = || Chorus {
            rule,
            block,
            times: 0,
            settled: false,
            certain,
            domain: domain.clone(),
            changes: 0,
            in_domain: 0,
        };
        let before = self.chorus.take().filter(|chorus| chorus.rule == rule);
        let mut chorus = before.unwrap_or_else(new);
        chorus.times = chorus.times.saturating_add(1);
        chorus.settled |= settled;
        if chorus.domain != *domain {
            chorus.changes = chorus.changes.saturating_add(1);
            chorus.domain = domain.clone();
            chorus.in_domain = 0;
        }
        chorus.in_domain = chorus.in_domain.saturating_add(1);
        self.chorus.replace(Some(chorus));
    }

    /// What it says to everyone, whoever is asked about.
    pub(crate) fn chorus(&self) -> Option<Chorus> {
        self.chorus.borrow().clone().filter(|chorus| {
            let least = if chorus.certain { CHORUS_MIN } else { CHORUS_MIN_ANY };
            let heard = chorus.settled && chorus.times >= least;
            heard && (chorus.changes >= CHANGES_MIN || chorus.domain.has_own(&self.host))
        })
    }

    /// What it says to everyone of one domain, and perhaps of no other: the domain and the rule.
    pub(crate) fn domain_chorus(&self) -> Option<(Domain, &'static str)> {
        let chorus = self.chorus.borrow();
        let heard = chorus.as_ref().filter(|chorus| chorus.settled && chorus.in_domain >= CHORUS_MIN_ANY)?;
        Some((heard.domain.clone(), heard.rule))
    }

    /// It is not asked about the domain until then.
    pub(crate) fn shut_domain(&self, domain: Domain, until: Instant, rule: &'static str) {
        self.shut_domain.replace(Some(ShutDomain { domain, until, rule }));
    }

    /// Whether it is not asked about the domain now, and why.
    pub(crate) fn is_shut_for(&self, domain: &Domain, now: Instant) -> Option<&'static str> {
        let shut = self.shut_domain.borrow();
        shut.as_ref().filter(|shut| shut.domain == *domain && shut.until > now).map(|shut| shut.rule)
    }

    /// Whether it is left alone for what it says to everyone.
    pub(crate) fn is_shut(&self, now: Instant) -> bool {
        self.chorus().is_some_and(|chorus| self.is_down(now) == Some(chorus.rule))
    }

    pub(crate) fn works(&self) {
        self.strikes.set(0);
    }

    /// A recipient was accepted, or refused for itself.
    pub(crate) fn on_recipient(&self, accepted: bool) {
        let (more, none) = match accepted {
            true => (&self.accepts_in_a_row, &self.refusals_in_a_row),
            false => (&self.refusals_in_a_row, &self.accepts_in_a_row),
        };
        if accepted {
            self.warnings.set(0);
        }
        more.set(more.get().saturating_add(1));
        none.set(0);
    }

    /// Whether nothing is known of it that a route made anew would not know.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let silent = self.refused.get().is_none() && self.refrain.get().is_none() && self.strikes.get() == 0;
        silent
            && self.chorus().is_none()
            && self.domain_chorus().is_none()
            && self.shut_domain.borrow().as_ref().is_none_or(|shut| shut.until <= now)
            && self.changes.get() == 0
            && !self.plain_only.get()
            && self.is_down(now).is_none()
            && self.rests(now).is_none()
    }

    pub(super) fn is_down(&self, now: Instant) -> Option<&'static str> {
        self.down.get().filter(|(until, _)| *until > now).map(|(_, rule)| rule)
    }

    pub(super) fn rests(&self, now: Instant) -> Option<Instant> {
        self.resting.get().filter(|&until| until > now)
    }
}
