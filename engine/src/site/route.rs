//! One address of one host, and the record of what the host says there that is not about a recipient. No I/O.
//!
//! A reply of a server is about its recipient, or about something that is the same for every recipient. What replies of the second
//! kind show is kept in [`RouteState`] and nowhere else, for each address of a host, because servers behind one name differ. If
//! another habit of servers has to be remembered, it becomes a field there, like `plain_only`. The record lasts as long as the
//! group: until the group has had no work for `GROUP_IDLE`, or only for `GROUP_IDLE_FRESH` if a new record would say the same
//! ([`RouteState::is_fresh`]).
//!
//! - failed connections, refusals at the banner, at EHLO and at MAIL: `down`, `strikes`
//! - a host that cannot do TLS although it offers it: `plain_only`
//! - push-back: `resting`
//! - refusals at RCPT that are about us or the session: `refused`, `repeated_rule`, `warnings`
//! - blanket refusals, of the host or of one domain: `refused_alike`, `shut_domains` (rules in `alike.rs`)
//! - a change of behaviour towards unknown recipients: `changes`
//!
//! Other records are kept elsewhere, because they have other keys and lifetimes:
//!
//! - `knowledge.rs`: the results of control recipients and known mailboxes. They are about recipients, belong to the name of a
//!   host, and outlive groups.
//! - `refusals.rs`: the number of recipients that a site has refused to a source. It belongs to the site, and outlives the process.
//! - `egress/rest.rs`: the rest of a source at a site that blocks it. It concerns all groups of the site and outlives them.
//! - `engine_proto::pace`: the limits of a site, over all its hosts, also the number of refusals after which it delays its replies
//!   (seen by `Tarpit` in `probe/transaction.rs`).
//! - the extensions in the answer to EHLO, and greylisting: they hold for one session (`engine_proto::smtp::dialog`, `held.rs`).

use super::alike::{BlanketRefusal, RefusedAlike, ShutDomains};
use crate::faults::{Fault, planted};
use crate::knowledge::MailboxFreshness;
use engine_proto::address::Domain;
use engine_proto::limits::CHANGES_MAX;
use engine_proto::verdict::ObservedReply;
use engine_proto::verdict::catch_all::accepts_everything;
use engine_proto::verdict::classify::Classification;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

/// One address of one host. What is known of it is in its [`RouteState`].
pub(crate) struct Route {
    /// The name of the host.
    pub(crate) host: Rc<str>,
    /// The host's MX preference.
    pub(super) preference: u16,
    /// The address that is connected to.
    pub(crate) address: IpAddr,
    /// Whether its accepts show nothing: [`accepts_everything`].
    pub(crate) accepts_everything: bool,
}

impl Route {
    pub(super) fn new(host: Rc<str>, preference: u16, address: IpAddr) -> Route {
        Route { accepts_everything: accepts_everything(&host), host, preference, address }
    }
}

/// What is known of a route, apart from its recipients.
#[derive(Default)]
pub(crate) struct RouteState {
    /// The route is not used before this instant, because of this rule.
    down: Option<(Instant, &'static str)>,
    /// The reply because of which it is not used, if there was one.
    down_reply: Option<ObservedReply>,
    /// No session is opened before this instant, because the host or its site pushed back, or a connection could not be made.
    resting: Option<Instant>,
    /// Connections in a row that ended without a reply.
    strikes: u8,
    /// The rule by which the host refused, at a recipient, to go on with the latest session.
    refused: Option<&'static str>,
    /// The rule of such a refusal in an earlier session.
    repeated_rule: Option<&'static str>,
    /// The refusals by one rule since the last clear reply about a recipient.
    refused_alike: Option<RefusedAlike>,
    /// Domains that the host is not asked about for a while, because it refused many of their recipients alike.
    shut_domains: ShutDomains,
    /// The number of sessions that the host ended with a reply about us, since it last accepted a recipient.
    warnings: u8,
    /// Sessions in a row in which the host changed its behaviour.
    changes: u8,
    /// STARTTLS or a handshake has failed, so the next sessions are in the clear.
    plain_only: bool,
    /// The keys of the domain that was asked about last. The next recipient most often has the same domain.
    pub(crate) last_domain: Option<KnownBy>,
    /// Until when the host's known mailbox need not be replaced: see [`MailboxFreshness`].
    pub(crate) mailbox_kept: MailboxFreshness,
}

/// The keys of a domain at a host.
pub(crate) struct KnownBy {
    pub(crate) domain: Domain,
    /// The key in `knowledge.rs`.
    pub(crate) key: u64,
    /// The key of the evidence of verdicts.
    pub(crate) evidence: u64,
}

impl RouteState {
    /// Uses the route again if it is down because of this rule.
    pub(super) fn lift(&mut self, rule: &'static str) {
        if self.down.is_some_and(|(_, why)| why == rule) {
            self.down = None;
            self.on_answer();
        }
    }

    /// Whether STARTTLS is not to be used here.
    pub(crate) fn is_plain_only(&self) -> bool {
        self.plain_only
    }

    /// STARTTLS or the handshake failed, so the next sessions are in the clear. True if it had failed before: then the host is of
    /// no use.
    pub(crate) fn on_tls_failed(&mut self) -> bool {
        std::mem::replace(&mut self.plain_only, true)
    }

    /// The host changed its behaviour towards unknown recipients in a session.
    pub(crate) fn on_change(&mut self) {
        self.changes = self.changes.saturating_add(1);
    }

    /// The host did not change its behaviour in a session.
    pub(crate) fn on_no_change(&mut self) {
        self.changes = 0;
    }

    /// Whether the host changed its behaviour in [`CHANGES_MAX`] sessions in a row, so that it should not be asked for a while.
    pub(crate) fn is_changing(&self) -> bool {
        self.changes >= CHANGES_MAX
    }

    /// Takes the route out of use until then, because of this rule.
    pub(crate) fn set_down(&mut self, until: Instant, rule: &'static str) {
        self.down = Some((until, rule));
        self.down_reply = None;
    }

    /// As [`RouteState::set_down`], because of a reply, which was classified as `said`.
    pub(crate) fn set_down_by(&mut self, until: Instant, said: &Classification, reply: ObservedReply) {
        self.set_down(until, said.rule);
        self.down_reply = Some(reply);
    }

    /// Opens no session over this route until then.
    pub(crate) fn set_resting(&mut self, until: Instant) {
        self.resting = Some(until);
    }

    /// A connection ended without a reply. True if that happened at least `patience` times in a row.
    pub(crate) fn on_connection_lost(&mut self, patience: u8) -> bool {
        self.strikes = self.strikes.saturating_add(1);
        self.strikes >= patience
    }

    /// The host refused, at a recipient, to go on with a session, by this rule.
    pub(crate) fn on_session_refused(&mut self, rule: &'static str) {
        self.refused = Some(rule);
    }

    /// The host ended a session with a reply about us. True if that happened at least `patience` times since the host last accepted
    /// a recipient.
    pub(crate) fn on_warning(&mut self, patience: u8) -> bool {
        self.warnings = self.warnings.saturating_add(1);
        self.warnings >= patience
    }

    /// Another session was opened. If an earlier session was refused, the same refusal counts as repeated from now on.
    pub(crate) fn on_session_opened(&mut self) {
        if let Some(rule) = self.refused.take() {
            self.repeated_rule = Some(rule);
        }
    }

    /// Whether an earlier session got the same refusal, and none has got a reply about a recipient since.
    pub(crate) fn is_repeated(&self, rule: &'static str) -> bool {
        self.repeated_rule == Some(rule)
    }

    /// The host gave a clear reply about a recipient, so its refusals until then do not concern everyone.
    pub(crate) fn on_clear_reply(&mut self) {
        self.repeated_rule = None;
        self.refused = None;
        self.refused_alike = None;
    }

    /// The host refused a recipient in a way in which it may refuse everyone. `block`: the refusal blocks our source.
    /// `counts_alone`: it counts even if no other session has got it.
    pub(crate) fn on_refused_alike(
        &mut self,
        said: &Classification,
        block: bool,
        counts_alone: bool,
        domain: &Domain,
    ) {
        if planted(Fault::AskOn) {
            return;
        }
        let before = self.refused_alike.take().filter(|alike| alike.rule() == said.rule);
        let mut alike = before.unwrap_or_else(|| RefusedAlike::new(said));
        alike.on_refused(block, counts_alone, domain);
        self.refused_alike = Some(alike);
    }

    /// The refusal that the host gives to every recipient, if that is certain by now.
    pub(crate) fn blanket(&self, host: &str) -> Option<BlanketRefusal> {
        self.refused_alike.as_ref()?.of_all(host)
    }

    /// Whether the host refuses everyone alike, or everyone of a domain.
    pub(crate) fn is_blanket(&self, host: &str) -> bool {
        let is_such =
            |alike: &RefusedAlike| alike.of_all(host).is_some() || alike.of_domains().next().is_some();
        self.refused_alike.as_ref().is_some_and(is_such)
    }

    /// Marks those domains of which the host has refused many recipients alike as not to be asked about until then.
    pub(crate) fn set_domains_shut(&mut self, now: Instant, until: Instant) {
        let Some(alike) = &self.refused_alike else { return };
        let shut = &mut self.shut_domains;
        alike.of_domains().for_each(|domain| shut.set_shut(domain, now, until, alike.rule()));
    }

    /// The rule because of which the host is not asked about the domain now.
    pub(crate) fn shut_rule(&self, domain: &Domain, now: Instant) -> Option<&'static str> {
        self.shut_domains.of(domain, now)
    }

    /// Whether the host is not asked because of a blanket refusal.
    pub(crate) fn is_shut(&self, host: &str, now: Instant) -> bool {
        self.blanket(host).is_some_and(|blanket| self.down_rule(now) == Some(blanket.rule))
    }

    /// The host replied to a question about a recipient, so it works.
    pub(crate) fn on_answer(&mut self) {
        self.strikes = 0;
    }

    /// The host accepted a recipient.
    pub(crate) fn on_accepted(&mut self) {
        self.warnings = 0;
    }

    /// Whether a new record would say the same as this one.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        // All fields are named, so that a new one is not forgotten here. `down` and `resting` count while they last; warnings, the
        // last domain and the known mailbox may be lost.
        let RouteState {
            down: _,
            down_reply: _,
            resting: _,
            strikes,
            refused,
            repeated_rule,
            refused_alike,
            shut_domains,
            warnings: _,
            changes,
            plain_only,
            last_domain: _,
            mailbox_kept: _,
        } = self;
        let is_silent = refused.is_none() && repeated_rule.is_none() && *strikes == 0;
        is_silent
            && refused_alike.as_ref().is_none_or(RefusedAlike::is_short)
            && shut_domains.is_empty(now)
            && *changes == 0
            && !plain_only
            && self.down_rule(now).is_none()
            && self.resting_until(now).is_none()
    }

    /// The rule because of which the route is not asked now.
    pub(crate) fn down_rule(&self, now: Instant) -> Option<&'static str> {
        let is_now = |until: Instant| until > now && !planted(Fault::NeverRest);
        self.down.filter(|(until, _)| is_now(*until)).map(|(_, rule)| rule)
    }

    /// The reply because of which the route is not asked now, if there was one.
    pub(super) fn down_reply(&self, now: Instant) -> Option<ObservedReply> {
        self.down_reply.filter(|_| self.down_rule(now).is_some())
    }

    /// When the route may be used again, if it rests now.
    pub(crate) fn resting_until(&self, now: Instant) -> Option<Instant> {
        self.resting.filter(|&until| until > now && !planted(Fault::NeverRest))
    }
}
