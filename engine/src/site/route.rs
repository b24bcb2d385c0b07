//! One address of one host: whether it can be asked now, and what it says to everyone. No I/O.

use super::alike::{BlanketRefusal, RefusedAlike, ShutDomains};
use crate::knowledge::MailboxKept;
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
    pub(super) repeated_rule: Cell<Option<&'static str>>,
    /// Refusals alike, since it last said something about a recipient.
    pub(super) refused_alike: RefCell<Option<RefusedAlike>>,
    /// Domains that it is not asked about for a while, because it refused many recipients of them alike.
    pub(super) shut_domains: RefCell<ShutDomains>,
    /// Sessions in a row that it ended with words about us.
    pub(super) warnings: Cell<u8>,
    /// Sessions in a row in which it changed its behaviour.
    pub(crate) changes: Cell<u8>,
    /// A TLS handshake failed here: the next session goes in the clear.
    pub(crate) plain_only: Cell<bool>,
    /// What the domain that was asked about last is known by here: that of the next recipient is most often the same.
    pub(crate) last_domain: RefCell<Option<KnownBy>>,
    /// Until when its known mailbox need not be replaced: see [`MailboxKept`].
    pub(crate) mailbox_kept: Cell<MailboxKept>,
}

/// What a domain is known by at a host.
pub(crate) struct KnownBy {
    pub(crate) domain: Domain,
    /// In what is known of it.
    pub(crate) number: u64,
    /// In what verdicts rest on.
    pub(crate) evidence: u64,
}

impl Route {
    /// Asks this route no more until then, because of this rule.
    pub(crate) fn set_down(&self, until: Instant, rule: &'static str) {
        self.down.set(Some((until, rule)));
    }

    /// Opens no session over this route until then.
    pub(crate) fn set_resting(&self, until: Instant) {
        self.resting.set(Some(until));
    }

    /// A connection ended without a reply. True when that happened `patience` times in a row.
    pub(crate) fn on_connection_lost(&self, patience: u8) -> bool {
        self.strikes.set(self.strikes.get().saturating_add(1));
        self.strikes.get() >= patience
    }

    /// The host refused to go on with a session, by this rule.
    pub(crate) fn on_session_refused(&self, rule: &'static str) {
        self.refused.set(Some(rule));
    }

    /// The host ended a session with a reply about us. True when that happened `patience` times.
    pub(crate) fn on_warning(&self, patience: u8) -> bool {
        self.warnings.set(self.warnings.get().saturating_add(1));
        self.warnings.get() >= patience
    }

    /// Another session was opened: the refusal of an earlier one may come again.
    pub(crate) fn on_session_opened(&self) {
        if let Some(rule) = self.refused.take() {
            self.repeated_rule.set(Some(rule));
        }
    }

    /// Whether an earlier session got the same refusal, and none has got a reply about a recipient since.
    pub(crate) fn is_repeated(&self, rule: &'static str) -> bool {
        self.repeated_rule.get() == Some(rule)
    }

    /// The host replied about a recipient.
    pub(crate) fn on_clear_reply(&self) {
        self.repeated_rule.set(None);
        self.refused.set(None);
        self.refused_alike.take();
    }

    /// The host refused a recipient as it may refuse everyone. `block`: it blocks our source. `settled`: no other session
    /// has to get the same refusal first.
    pub(crate) fn on_refused_alike(
        &self,
        said: &Classification,
        block: bool,
        settled: bool,
        domain: &Domain,
    ) {
        let before = self.refused_alike.take().filter(|alike| alike.rule() == said.rule);
        let mut alike = before.unwrap_or_else(|| RefusedAlike::new(said));
        alike.add(block, settled, domain);
        self.refused_alike.replace(Some(alike));
    }

    /// The refusal that the host gives for every recipient.
    pub(crate) fn blanket(&self) -> Option<BlanketRefusal> {
        self.refused_alike.borrow().as_ref().and_then(|alike| alike.of_all(&self.host))
    }

    /// Whether the host refuses everyone alike, or everyone of a domain.
    pub(crate) fn is_blanket(&self) -> bool {
        let alike = self.refused_alike.borrow();
        alike
            .as_ref()
            .is_some_and(|alike| alike.of_all(&self.host).is_some() || alike.of_domains().next().is_some())
    }

    /// Asks the host no more about the domains of which it has refused so many alike.
    pub(crate) fn set_domains_shut(&self, now: Instant, until: Instant) {
        let alike = self.refused_alike.borrow();
        let Some(alike) = alike.as_ref() else { return };
        let mut shut = self.shut_domains.borrow_mut();
        alike.of_domains().for_each(|domain| shut.shut(domain, now, until, alike.rule()));
    }

    /// The rule because of which the host is not asked about the domain now.
    pub(crate) fn shut_rule(&self, domain: &Domain, now: Instant) -> Option<&'static str> {
        self.shut_domains.borrow().of(domain, now)
    }

    /// Whether the host is not asked because of a blanket refusal.
    pub(crate) fn is_shut(&self, now: Instant) -> bool {
        self.blanket().is_some_and(|blanket| self.down_rule(now) == Some(blanket.rule))
    }

    /// The host answered for a recipient: it works.
    pub(crate) fn on_answer(&self) {
        self.strikes.set(0);
    }

    /// The host accepted a recipient.
    pub(crate) fn on_accepted(&self) {
        self.warnings.set(0);
    }

    /// Whether a new route would know as much.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let silent =
            self.refused.get().is_none() && self.repeated_rule.get().is_none() && self.strikes.get() == 0;
        silent
            && self.refused_alike.borrow().as_ref().is_none_or(RefusedAlike::is_short)
            && self.shut_domains.borrow().is_empty(now)
            && self.changes.get() == 0
            && !self.plain_only.get()
            && self.down_rule(now).is_none()
            && self.resting_until(now).is_none()
    }

    /// The rule because of which the route is not asked now.
    pub(super) fn down_rule(&self, now: Instant) -> Option<&'static str> {
        self.down.get().filter(|(until, _)| *until > now).map(|(_, rule)| rule)
    }

    /// When the route may be used again, if it rests now.
    pub(super) fn resting_until(&self, now: Instant) -> Option<Instant> {
        self.resting.get().filter(|&until| until > now)
    }
}
