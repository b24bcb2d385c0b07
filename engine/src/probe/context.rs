//! What all modules of a session use: its group and its route (one IP address of a host), and access to what is known of the host.

use super::transaction::SessionState;
use crate::asking::Asking;
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::knowledge::DomainAtHost;
use crate::refusals::AskedRecipients;
use crate::site::{DomainKeys, Group, Route, RouteState, SessionWorks, UnclearControl};
use crate::work::Work;
use engine_proto::address::{Address, Domain};
use engine_proto::limits::RECENT_DOMAINS_MAX;
use engine_proto::pace::Room;
use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::{Classification, ReplyView, Us};
use engine_proto::verdict::evidence::{Context, Released};
use engine_proto::verdict::{ObservedReply, Stage};
use std::cell::RefMut;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;

/// The group and the route of a session. A task may keep this across an `.await`, because no state is borrowed.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) asking: &'a Rc<Asking>,
    pub(super) group: &'a Rc<Group>,
    /// The number of the session task in the group.
    pub(super) session: usize,
    /// The index of the route in the group.
    pub(super) index: usize,
}

/// A [`Place`] with the present time, for code that interprets replies. It must not be kept across an `.await`, because the time
/// would be wrong afterwards.
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

    pub(super) fn route(self) -> &'a Route {
        &self.group.routes[self.index]
    }

    /// Borrows the record of the route, for one statement only (see `site.rs`).
    pub(super) fn state(self) -> RefMut<'a, RouteState> {
        self.group.route_state(self.index)
    }

    /// Borrows the works of the session, for one statement only (see `site.rs`).
    pub(super) fn works(self) -> RefMut<'a, SessionWorks> {
        self.group.works(self.session)
    }
}

impl ProbeContext<'_> {
    /// A reply with everything else that its classification depends on.
    pub(super) fn view<'v>(
        &'v self,
        stage: Stage,
        reply: &'v Reply,
        recipient: Option<&'v str>,
    ) -> ReplyView<'v> {
        ReplyView { stage, mx: &self.route().host, reply, recipient, us: self.us() }
    }

    /// Stores a reply in a work, for [`crate::Finding::observed`]: the reply to its RCPT, or the reply because of which the host
    /// was not asked about it, such as a refusal of MAIL.
    pub(super) fn remember_reply(&self, work: &mut Work, reply: &Reply, said: &Classification, at: Instant) {
        work.remember_reply(&self.route().host, || ObservedReply::new(reply, said, at));
    }

    /// Stores in an accepted work the unclear reply to its control recipient, for [`crate::Finding::observed`]. Because of this
    /// reply the accept has no proof, so the reply decides the verdict, not the accept.
    pub(super) fn remember_control_reply(&self, work: &mut Work, control: Option<&UnclearControl>) {
        if let Some(UnclearControl { reply, .. }) = control {
            work.remember_reply(&self.route().host, || *reply);
        }
    }

    /// Reserves room for up to `recipients` recipients in the budget of refused recipients, and leaves room for `keep` more.
    pub(super) fn reserve(&self, recipients: usize, keep: usize) -> AskedRecipients {
        let step = self.refusal_step();
        AskedRecipients::reserve(self.asking.state().budget(self.group), recipients, keep, step)
    }

    /// Whether a session with the host has no room for a recipient and the proof of its answer.
    pub(super) fn has_no_room_for_proof(&self) -> bool {
        self.group.site.state().pace.has_no_room_for_proof(|| self.shown_room())
    }

    /// How many transactions a session with the host may have, as far as it and its site have shown.
    pub(super) fn transactions_allowed(&self) -> u32 {
        if self.state().habits().ends_at_ehlo {
            return 1;
        }
        self.group.site.state().pace.transactions_allowed(|| self.shown_room())
    }

    fn shown_room(&self) -> Room {
        self.asking.knowledge.borrow().room(&self.route().host)
    }

    /// The number of the current five-minute step, in which refusals are counted.
    pub(super) fn refusal_step(&self) -> u64 {
        self.asking.shared().refusal_step(self.now)
    }

    /// Our reverse-path, EHLO name and IP address, so that the classification recognizes them in a reply.
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
        self.keys_of(domain, |known| known.key)
    }

    /// The hash in [`crate::Finding::evidence`], for verdicts that depend on how this host treats recipients of the domain.
    pub(super) fn evidence_key(&self, domain: &Domain) -> u64 {
        self.keys_of(domain, |known| known.evidence)
    }

    /// Both keys of a domain at this host: that of [`ProbeContext::domain_key`], and that of [`ProbeContext::evidence_key`].
    pub(super) fn domain_keys(&self, domain: &Domain) -> (u64, u64) {
        self.keys_of(domain, |known| (known.key, known.evidence))
    }

    /// Reads the keys of a domain at this host. The route keeps those of the latest domains, because the next recipient often has
    /// the same domain.
    fn keys_of<T>(&self, domain: &Domain, of: impl Fn(&DomainKeys) -> T) -> T {
        let (host, known) = (&self.route().host, &mut self.state().domains);
        if let Some(last) = known.last().filter(|last| last.domain == *domain) {
            return of(last);
        }
        let at = known.iter().position(|known| known.domain == *domain);
        let keys = at.map(|at| known.remove(at)).unwrap_or_else(|| {
            let at = DomainAtHost { domain: domain.clone(), host: Rc::clone(host) };
            let key = self.asking.knowledge.borrow().key(&at);
            DomainKeys { key, evidence: self.asking.evidence_key(domain, host), domain: at.domain }
        });
        if known.is_empty() || !planted(Fault::Break(Invariant::KnownBy)) {
            if known.len() >= RECENT_DOMAINS_MAX {
                known.remove(0);
            }
            known.reserve_exact(1);
            known.push(keys);
        }
        let last = &known[known.len() - 1];
        holds(Invariant::KnownBy, || last.domain == *domain);
        of(last)
    }

    /// The facts that decide, together with the replies of the session, which questions a checkpoint needs.
    pub(super) fn proof_context(&self, state: &SessionState) -> Context {
        let asked = self.works().evidence.postmaster_domain();
        let (knowledge, now) = (self.asking.knowledge.borrow(), self.now);
        let no_postmaster = asked.is_some_and(|domain| knowledge.has_no_postmaster(domain, now));
        drop(knowledge);
        // A session with only one transaction can ask no further questions after it.
        let known = !state.takes_one_transaction() && self.known_mailbox().is_some();
        let no_postmaster = no_postmaster || state.takes_one_transaction();
        let distinguished = self.group.has_proven();
        Context { trusted: self.group.is_trusted(), known, no_postmaster, distinguished }
    }

    /// Whether refusals in a session without an accept do not count, because the host may refuse everyone. Refusals of a trusted
    /// operator always count. Those of another host do not count in two cases: it has accepted a mailbox of the `domain` within the
    /// last hour that another session had refused; or it has changed its behaviour within the last hour, and the refusal is that of a
    /// single check (`single`), or `in_a_row` exceeds the number of refusals that the site allows in a session.
    pub(super) fn doubts_refusals(&self, domain: u64, single: bool, in_a_row: u32) -> bool {
        let knowledge = self.asking.knowledge.borrow();
        let allowed = || self.group.site.state().pace.errors_allowed();
        let took_back = || knowledge.of_domain(domain).is_some_and(|known| known.has_taken_back(self.now));
        let changed = || knowledge.has_changed(&self.route().host, self.now);
        !self.group.is_trusted() && (took_back() || changed() && (single || in_a_row > allowed()))
    }

    /// Whether there is a mailbox that this host should accept: a known mailbox of this host or of another host of the group, or a
    /// canary (an existing mailbox from the configuration) in `domain`.
    pub(super) fn has_known_mailbox(&self, domain: Option<&Domain>) -> bool {
        let (knowledge, now) = (self.asking.knowledge.borrow(), self.now);
        self.hosts().any(|host| knowledge.has_mailbox(host, now))
            || domain.is_some_and(|domain| self.canary(domain).is_some())
    }

    /// A mailbox that this host should accept: the known mailbox of this host, or else that of another host of the group, or else
    /// the canary (an existing mailbox that the operator has configured) in the domain of the newest answer that the session holds.
    /// Also returns the host that accepted the mailbox; for a canary, this host.
    pub(super) fn known_mailbox(&self) -> Option<(String, Rc<str>)> {
        let (knowledge, now) = (self.asking.knowledge.borrow(), self.now);
        let kept = |host: &Rc<str>| {
            let mailbox = knowledge.mailbox(host, now)?;
            holds(Invariant::KnownFresh, || knowledge.has_mailbox(host, now));
            Some((mailbox, Rc::clone(host)))
        };
        self.hosts().find_map(kept).or_else(|| {
            let works = self.works();
            let newest = works.evidence.recipient(None, None)?;
            let canary = self.canary(newest.address.domain())?;
            Some((canary.as_str().to_owned(), Rc::clone(&self.route().host)))
        })
    }

    /// This host, and then the other hosts of the group.
    fn hosts(&self) -> impl Iterator<Item = &Rc<str>> {
        let own = &self.route().host;
        let others = self.group.routes.iter().map(|route| &route.host).filter(move |host| *host != own);
        std::iter::once(own).chain(others)
    }

    /// The canary in this domain, if the operator has configured one.
    fn canary(&self, domain: &Domain) -> Option<&Address> {
        self.asking.shared().config.canaries.iter().find(|canary| canary.domain() == domain)
    }

    /// Records that the host accepted this mailbox. `proven`: the session also showed that the host refuses recipients that do not
    /// exist. Only an ASCII address is recorded, because every session can ask about it.
    pub(super) fn on_known(&self, address: &str, proven: bool, now: Instant) {
        let mut knowledge = self.asking.knowledge.borrow_mut();
        let kept = &mut self.state().mailbox_kept;
        if !knowledge.keeps_mailbox(*kept, proven, now) && address.is_ascii() {
            *kept = knowledge.on_mailbox(&self.route().host, address, proven, now);
        }
    }

    /// Records that the host accepted a known mailbox again. If it is not the known mailbox of this host, for example because
    /// another host accepted it before, it counts here as newly accepted.
    pub(super) fn on_known_again(&self, address: &str, now: Instant) {
        let is_renewed =
            self.asking.knowledge.borrow_mut().on_mailbox_again(&self.route().host, address, now);
        if !is_renewed {
            self.on_known(address, false, now);
        }
    }

    /// Acts on a change of the host: it has stopped distinguishing its mailboxes, either during this session or since an earlier
    /// one. Verdicts about the domains of the released answers are withdrawn.
    pub(super) fn on_change(&self, released: &[Released<Work>], refusals_proven: u32) {
        let (route, now) = (self.route(), self.now);
        self.group.on_changed();
        self.state().on_change();
        if refusals_proven > 1 {
            // The host still distinguished its mailboxes after this number of refusals, so a limit of one fewer is certainly safe
            // in later sessions.
            self.group.site.state().pace.on_tarpitted(refusals_proven - 1);
        }
        self.asking.knowledge.borrow_mut().on_changed(&route.host, now);
        self.on_contradicted(released);
        tracing::debug!("the host {} changed its behaviour towards unknown recipients", route.host);
    }

    /// Withdraws the verdicts about the domains of the released answers, because the replies of the host contradict each other.
    fn on_contradicted(&self, released: &[Released<Work>]) {
        let keys: BTreeSet<(u64, u64)> =
            released.iter().map(|one| self.domain_keys(one.item.address.domain())).collect();
        self.withdraw(keys);
    }

    /// Acts on a surplus reply. Each answer of the session may be about another recipient, also those that have been given already.
    /// So the verdicts about the domains that the host was asked about last are withdrawn.
    pub(super) fn on_out_of_step(&self) {
        self.state().on_out_of_step(self.now);
        let keys: Vec<(u64, u64)> =
            self.state().domains.iter().map(|known| (known.key, known.evidence)).collect();
        self.withdraw(keys);
    }

    fn withdraw(&self, keys: impl IntoIterator<Item = (u64, u64)>) {
        for (domain_key, evidence) in keys {
            self.asking.knowledge.borrow_mut().on_contradicted(domain_key, self.now);
            self.asking.withdraw(evidence, self.now);
        }
    }
}
