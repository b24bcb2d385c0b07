//! What the code of a session has at hand: its group, its route, and what is known of the host.

use super::transaction::SessionState;
use crate::asking::Asking;
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::knowledge::DomainAtHost;
use crate::refusals::AskedRecipients;
use crate::site::{Group, KnownBy, Route, RouteState, SessionWorks, UnclearControl};
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::{Classification, ReplyView, Us};
use engine_proto::verdict::evidence::{Context, Held, Released};
use engine_proto::verdict::{ObservedReply, Stage};
use std::cell::RefMut;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;

/// The group and the route of a session. A task may keep this over an `.await`, because it borrows no state.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) asking: &'a Rc<Asking>,
    pub(super) group: &'a Rc<Group>,
    /// The number of the session task in the group.
    pub(super) session: usize,
    /// The position of the session's route among the routes of the group.
    pub(super) index: usize,
}

/// A [`Place`] at one moment, for functions that decide something. It must not be kept over an `.await`, because its time would be
/// wrong.
pub(super) struct ProbeContext<'a> {
    place: Place<'a>,
    pub(super) now: Instant,
}

impl<'a> Deref for ProbeContext<'a> {
    type Target = Place<'a>;

    fn deref(&self) -> &Place<'a> {
        &self.place
    }
}

impl<'a> Place<'a> {
    pub(super) fn at(self, now: Instant) -> ProbeContext<'a> {
        ProbeContext { place: self, now }
    }

    /// The host and the address of the session.
    pub(super) fn route(self) -> &'a Route {
        &self.group.routes[self.index]
    }

    /// Borrows what is known of the route, for one statement only (see `site.rs`).
    pub(super) fn state(self) -> RefMut<'a, RouteState> {
        self.group.route_state(self.index)
    }

    /// Borrows the works of the session, for one statement only (see `site.rs`).
    pub(super) fn works(self) -> RefMut<'a, SessionWorks> {
        self.group.works(self.session)
    }
}

impl ProbeContext<'_> {
    /// A reply together with everything that its classification depends on.
    pub(super) fn view<'v>(
        &'v self,
        stage: Stage,
        reply: &'v Reply,
        recipient: Option<&'v str>,
    ) -> ReplyView<'v> {
        ReplyView { stage, mx: &self.route().host, reply, recipient, us: self.us() }
    }

    /// Makes a work remember a reply of this host: one about the work, or one because of which the host was not asked about it,
    /// such as a refusal of MAIL.
    pub(super) fn remember_reply(&self, work: &mut Work, reply: &Reply, said: &Classification, at: Instant) {
        work.hear(&self.route().host, || ObservedReply::new(reply, said, at));
    }

    /// Makes an accepted work remember the unclear reply to its control recipient. The verdict depends on this reply and not on the
    /// accept, which it leaves without a proof.
    pub(super) fn remember_control_reply(&self, work: &mut Work, control: Option<&UnclearControl>) {
        if let Some(UnclearControl { reply, .. }) = control {
            work.hear(&self.route().host, || *reply);
        }
    }

    /// Reserves room in the budget of refused recipients for up to `recipients` recipients, so that `keep` more could still be
    /// asked about.
    pub(super) fn reserve(&self, recipients: usize, keep: usize) -> AskedRecipients {
        let step = self.refusal_step();
        AskedRecipients::reserve(self.asking.state().budget(self.group), recipients, keep, step)
    }

    /// The number of the five-minute step to which refusals count now.
    pub(super) fn refusal_step(&self) -> u64 {
        self.asking.shared().refusal_step(self.now)
    }

    /// Our reverse-path, EHLO name and address, as this host sees them.
    fn us(&self) -> Us<'_> {
        let source = &self.asking.shared().pool.sources[self.group.source];
        Us {
            reverse_path: &source.dialog.reverse_path,
            ehlo: &source.dialog.ehlo,
            source: source.address_towards(self.route().address),
        }
    }

    /// The key of a domain at this host in `knowledge.rs`.
    pub(super) fn domain_key(&self, domain: &Domain) -> u64 {
        self.known_by(domain, |known| known.key)
    }

    /// The key of the evidence for verdicts that depend on the behaviour of this host towards the domain.
    pub(super) fn evidence_key(&self, domain: &Domain) -> u64 {
        self.known_by(domain, |known| known.evidence)
    }

    /// Reads one of the two keys of a domain. Those of the latest domain are kept with the route, because the next recipient most
    /// often has the same domain.
    fn known_by(&self, domain: &Domain, of: impl Fn(&KnownBy) -> u64) -> u64 {
        let (host, last) = (&self.route().host, &mut self.state().last_domain);
        if let Some(known) = last.as_ref().filter(|known| known.domain == *domain) {
            return of(known);
        }
        let at = DomainAtHost { domain: domain.clone(), host: Rc::clone(host) };
        let key = self.asking.knowledge.borrow().key(&at);
        let evidence = self.asking.evidence_key(domain, host);
        let new = KnownBy { domain: at.domain, key, evidence };
        let known = match planted(Fault::Break(Invariant::KnownBy)) {
            true => last.get_or_insert(new),
            false => last.insert(new),
        };
        holds(Invariant::KnownBy, || known.domain == *domain);
        of(known)
    }

    /// The facts from outside the session on which the proof of its answers depends.
    pub(super) fn proof_context(&self, state: &SessionState) -> Context {
        let domain = |work: &Work| work.address.domain().clone();
        let refused = self.works().evidence.recipient(None, Some(Held::Refused)).map(domain);
        let refused = refused.map(|domain| self.domain_key(&domain));
        let (knowledge, now) = (self.asking.knowledge.borrow(), self.now);
        let no_postmaster = refused.is_some_and(|domain| knowledge.has_no_postmaster(domain, now));
        drop(knowledge);
        // After its only transaction, such a session can ask about neither a known mailbox nor `postmaster@`.
        let known = !state.one_transaction && self.known_mailbox().is_some();
        let no_postmaster = no_postmaster || state.one_transaction;
        Context { trusted: self.group.is_trusted(), known, no_postmaster }
    }

    /// Whether refusals in a session without an accept show nothing. That is so if the host changed its behaviour within the last
    /// hour, its operator is not trusted, and either the refusal is that of a single check, or the session got more refusals in a
    /// row than the site allows.
    pub(super) fn doubts_refusals(&self, single: bool, in_a_row: u32) -> bool {
        let changed = self.asking.knowledge.borrow().has_changed(&self.route().host, self.now);
        let allowed = || self.group.site.state().pace.errors_allowed();
        changed && !self.group.is_trusted() && (single || in_a_row > allowed())
    }

    /// Whether this host, or another one of the same domains, accepted a mailbox within
    /// [`engine_proto::limits::KNOWN_MAILBOX_TTL`]. Canaries do not count here.
    pub(super) fn has_known_mailbox(&self) -> bool {
        let (knowledge, now) = (self.asking.knowledge.borrow(), self.now);
        self.hosts().any(|host| knowledge.has_mailbox(host, now))
    }

    /// A mailbox that this host should accept: one that this host accepted recently, or another host of the same domains, or else a
    /// canary. With it comes the host that accepted it, or for a canary this host.
    pub(super) fn known_mailbox(&self) -> Option<(String, Rc<str>)> {
        let (knowledge, now) = (self.asking.knowledge.borrow(), self.now);
        let kept = |host: &Rc<str>| {
            let mailbox = knowledge.mailbox(host, now)?;
            holds(Invariant::KnownFresh, || knowledge.has_mailbox(host, now));
            Some((mailbox, Rc::clone(host)))
        };
        self.hosts()
            .find_map(kept)
            .or_else(|| self.canary().map(|canary| (canary, Rc::clone(&self.route().host))))
    }

    /// This host, and then the other hosts of the same domains.
    fn hosts(&self) -> impl Iterator<Item = &Rc<str>> {
        let own = &self.route().host;
        let others = self.group.routes.iter().map(|route| &route.host).filter(move |host| *host != own);
        std::iter::once(own).chain(others)
    }

    /// A canary at the domain of the newest answer that the session holds.
    fn canary(&self) -> Option<String> {
        let canaries = &self.asking.shared().config.canaries;
        if canaries.is_empty() {
            return None;
        }
        let works = self.works();
        let domain = works.evidence.recipient(None, None)?.address.domain();
        let canary = canaries.iter().find(|canary| canary.domain() == domain)?;
        Some(canary.as_str().to_owned())
    }

    /// The host accepted this mailbox. `proven`: it has also shown that it tells mailboxes apart.
    pub(super) fn on_known(&self, address: &str, proven: bool, now: Instant) {
        let mut knowledge = self.asking.knowledge.borrow_mut();
        let kept = &mut self.state().mailbox_kept;
        if !knowledge.keeps_mailbox(*kept, proven, now) && address.is_ascii() {
            *kept = knowledge.on_mailbox(&self.route().host, address, proven, now);
        }
    }

    /// The host accepted a mailbox that we asked about because it was known, here or at another host: it stays known for longer.
    pub(super) fn on_known_again(&self, address: &str, now: Instant) {
        let is_renewed =
            self.asking.knowledge.borrow_mut().on_mailbox_again(&self.route().host, address, now);
        if !is_renewed {
            self.on_known(address, false, now);
        }
    }

    /// The host changed its behaviour in this session, or contradicted an earlier one.
    pub(super) fn on_change(&self, released: &[Released<Work>], refusals_proven: u32) {
        let (route, now) = (self.route(), self.now);
        self.group.on_changed();
        self.state().on_change();
        if refusals_proven > 1 {
            // The host was still unchanged after `refusals_proven` refusals. The next sessions stop one refusal before that.
            self.group.site.state().pace.on_tarpitted(refusals_proven - 1);
        }
        self.asking.knowledge.borrow_mut().on_changed(&route.host, now);
        let mut told: Vec<&Domain> = Vec::new();
        for one in released {
            let domain = one.item.address.domain();
            if told.contains(&domain) {
                continue;
            }
            told.push(domain);
            let number = self.domain_key(domain);
            self.asking.knowledge.borrow_mut().on_contradicted(number, now);
            self.asking.withdraw(self.evidence_key(domain), now);
        }
        tracing::debug!("the host {} changed its behaviour towards unknown recipients", route.host);
    }
}
