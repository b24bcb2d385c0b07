//! A route leads to one address of one host. The record of a route holds what the host has shown at this address, except what is
//! about single recipients. No I/O.
//!
//! A reply of a server is either about its recipient, or about something that is the same for every recipient. What replies of the
//! second kind show about one address of a host is kept in [`RouteState`]. Each address has its own [`RouteState`], because the
//! servers behind one name differ. To remember another habit of servers, add a field to [`Habits`]. The record lasts as long as its group (`Group::is_forgotten`). Its fields with facts about the host:
//!
//! - failed connections: `strikes`
//! - until when the route is out of use, and why: `down`, `down_reply`. The cause is failed connections, a refusal in the greeting,
//!   to EHLO or to MAIL, a reply that is not SMTP, one of several facts below, or a rest of the source at the site
//! - a host that offers TLS or PIPELINING but cannot do it, or that ends its sessions at a refusal or at a second EHLO: `habits`
//! - whether each reply belongs to the command for which it counts: `in_step`, `lost_step`, `out_of_step`
//! - a push-back of the site, and a short wait after a failed connection: `resting`
//! - refusals of the whole session at RCPT: `refused`, `repeated_rule`; sessions that the host ended with a reply that says that we
//!   are not wanted: `warnings`
//! - blanket refusals, of the whole host or of one domain: `refused_alike`, `shut_domains` (the rules are in `alike.rs`)
//! - a change in how the host treats unknown recipients: `changes`
//!
//! Other facts are kept elsewhere, because they have other keys and lifetimes:
//!
//! - `knowledge.rs`: what control recipients and known mailboxes have shown. This is about recipients, belongs to the name of a
//!   host, and outlives groups.
//! - `refusals.rs`: how many recipients a site has refused to a source. This belongs to the site, and outlives the process.
//! - `egress/rest.rs`: the rest of a source at a site that blocks it. This concerns all groups of the site, and outlives them.
//! - `engine_proto::pace`: the limits of a site, over all its hosts. One of them is the number of refusals after which the site
//!   delays its replies (`Tarpit` in `probe/transaction.rs` notices that).
//! - the extensions in the reply to EHLO, and greylisting: they concern one session (`engine_proto::smtp::dialog`, `held.rs`).

use super::alike::{BlanketRefusal, RefusedAlike, ShutDomains};
use crate::faults::{Fault, planted};
use crate::knowledge::MailboxFreshness;
use engine_proto::address::Domain;
use engine_proto::decision::recipient::Alike;
use engine_proto::decision::release::OUT_OF_STEP;
use engine_proto::limits::{CHANGES_MAX, OUT_OF_STEP_MAX, ROUTE_DOWN};
use engine_proto::pace::{Room, Tally};
use engine_proto::retry::may_tell_more;
use engine_proto::smtp::habits::{Habits, InStep};
use engine_proto::verdict::ObservedReply;
use engine_proto::verdict::catch_all::accepts_everything;
use engine_proto::verdict::classify::Classification;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

/// One address of one host. What changes is in [`RouteState`].
pub(crate) struct Route {
    pub(crate) host: Rc<str>,
    pub(super) preference: u16,
    pub(crate) address: IpAddr,
    /// Whether the host accepts everything, so that its accepts show nothing: [`accepts_everything`].
    pub(crate) accepts_everything: bool,
}

impl Route {
    pub(super) fn new(host: Rc<str>, preference: u16, address: IpAddr) -> Route {
        Route { accepts_everything: accepts_everything(&host), host, preference, address }
    }
}

#[derive(Default)]
pub(crate) struct RouteState {
    /// Until when the route is out of use, and the rule that names the reason.
    down: Option<(Instant, &'static str)>,
    /// The reply that put the route out of use, if it was a reply.
    down_reply: Option<ObservedReply>,
    /// Until when no session is opened, because the host or its site pushed back, or because a connection could not be made.
    resting: Option<Instant>,
    /// Connections in a row that could not be made, or that ended before a reply about a recipient.
    strikes: u8,
    /// The rule of the reply about a recipient with which the host refused to go on with the latest session. `None` if the host did
    /// not, or if a clear reply about a recipient has come since.
    refused: Option<&'static str>,
    /// The rule of the last such reply in an earlier session, if no clear reply about a recipient has come since.
    repeated_rule: Option<&'static str>,
    /// The latest run of equal refusals, if no clear reply about a recipient has come since.
    refused_alike: Option<RefusedAlike>,
    /// Domains that the host is not asked about for a time, because it refused many of their recipients in the same way.
    shut_domains: ShutDomains,
    /// How many times the host has ended a session with a reply that says that we are not wanted, since it last accepted a
    /// recipient. While the site has a pause, further sessions that end in this way are not counted.
    warnings: u8,
    /// Sessions in a row in which the host changed the way in which it accepts or refuses recipients.
    changes: u8,
    /// What further sessions do differently.
    habits: Habits,
    /// What sessions of this group with the host have had room for. `knowledge.rs` has that of all groups.
    room: Room,
    /// What sessions have shown about the order of the host's replies.
    in_step: InStep,
    /// Whether the last session ended before it could show that its replies were in step.
    lost_step: bool,
    /// Sessions in a row with a surplus reply.
    out_of_step: u8,
    /// The keys of the domains that were asked about last, the latest at the end. If a surplus reply
    /// comes, the verdicts about them are withdrawn.
    pub(crate) domains: Vec<DomainKeys>,
    /// How long the known mailbox of the host need not be replaced: see [`MailboxFreshness`].
    pub(crate) mailbox_kept: MailboxFreshness,
}

/// The keys under which facts about a domain at a host are kept.
pub(crate) struct DomainKeys {
    pub(crate) domain: Domain,
    /// The key in `knowledge.rs`.
    pub(crate) key: u64,
    /// The key of the evidence on which verdicts depend.
    pub(crate) evidence: u64,
}

impl RouteState {
    /// Brings the route back into use if this rule has put it out of use.
    pub(super) fn lift(&mut self, rule: &'static str) {
        if self.down.is_some_and(|(_, why)| why == rule) {
            self.down = None;
            self.on_answer();
        }
    }

    /// A session of this group has got answers. Returns what sessions have had room for, if that is more than before.
    pub(crate) fn on_room(&mut self, tally: &Tally, recipients: u32) -> Option<Room> {
        self.room.on_answers(tally.transactions, recipients).then_some(self.room)
    }

    pub(crate) fn habits(&self) -> Habits {
        self.habits
    }

    /// Changes what further sessions with the host do.
    pub(crate) fn habits_mut(&mut self) -> &mut Habits {
        &mut self.habits
    }

    pub(crate) fn in_step(&self) -> InStep {
        self.in_step
    }

    /// Whether the next session should show that its replies are in step before it asks about a recipient.
    pub(crate) fn has_lost_step(&self) -> bool {
        self.lost_step
    }

    /// The session has shown that its replies are in step.
    pub(crate) fn on_in_step(&mut self, shown: InStep) {
        self.in_step.add(shown);
        (self.lost_step, self.out_of_step) = (false, 0);
    }

    /// No surplus reply has come while an idle session waited for work.
    pub(crate) fn on_quiet(&mut self, shown: InStep) {
        self.in_step.add(shown);
    }

    /// The session ended before it could show that its replies are in step, so its answers do not count.
    pub(crate) fn on_lost_step(&mut self) {
        self.lost_step = true;
    }

    /// The host sent a surplus reply. After [`OUT_OF_STEP_MAX`] such sessions in a row, the route is left out.
    pub(crate) fn on_out_of_step(&mut self, now: Instant) {
        self.in_step = InStep::default();
        self.out_of_step = self.out_of_step.saturating_add(1);
        if self.out_of_step >= OUT_OF_STEP_MAX {
            self.set_down(now + ROUTE_DOWN, OUT_OF_STEP);
        }
    }

    /// In a session, the host changed the way in which it accepts or refuses recipients.
    pub(crate) fn on_change(&mut self) {
        self.changes = self.changes.saturating_add(1);
    }

    /// A checkpoint of a session found that the host treats recipients as before.
    pub(crate) fn on_no_change(&mut self) {
        self.changes = 0;
    }

    /// Whether the host changed its behaviour in [`CHANGES_MAX`] sessions in a row. Then it should not be asked for a while.
    pub(crate) fn is_changing(&self) -> bool {
        self.changes >= CHANGES_MAX
    }

    /// Takes the route out of use until `until`, for the reason that this rule names.
    pub(crate) fn set_down(&mut self, until: Instant, rule: &'static str) {
        self.down = Some((until, rule));
        self.down_reply = None;
    }

    /// Like [`RouteState::set_down`], but because of this reply.
    pub(crate) fn set_down_by(&mut self, until: Instant, rule: &'static str, reply: ObservedReply) {
        self.set_down(until, rule);
        self.down_reply = Some(reply);
    }

    /// Lets the route rest: no session is opened over it before `until`.
    pub(crate) fn set_resting(&mut self, until: Instant) {
        self.resting = Some(until);
    }

    /// A connection could not be made, or ended before a reply about a recipient. Returns true if that has now happened at least
    /// `least` times in a row.
    pub(crate) fn on_connection_lost(&mut self, least: u8) -> bool {
        self.strikes = self.strikes.saturating_add(1);
        self.strikes >= least
    }

    /// Whether the latest connection could not be made, or ended before a reply about a recipient.
    pub(crate) fn has_lost(&self) -> bool {
        self.strikes > 0
    }

    /// The host refused to go on with the session in its reply about a recipient, by this rule.
    pub(crate) fn on_session_refused(&mut self, rule: &'static str) {
        self.refused = Some(rule);
    }

    /// The host ended a session with a reply that says that we are not wanted. Returns true if that has happened at least `least`
    /// times since the host last accepted a recipient.
    pub(crate) fn on_warning(&mut self, least: u8) -> bool {
        self.warnings = self.warnings.saturating_add(1);
        self.warnings >= least
    }

    /// Another session was opened. If the host refused the previous session, the same refusal counts as repeated from now on.
    pub(crate) fn on_session_opened(&mut self) {
        if let Some(rule) = self.refused.take() {
            self.repeated_rule = Some(rule);
        }
    }

    /// Whether an earlier session got the same refusal, and no clear reply about a recipient has come since.
    pub(crate) fn is_repeated(&self, rule: &'static str) -> bool {
        self.repeated_rule == Some(rule)
    }

    /// The host gave a clear reply about a recipient. So its earlier refusals were not for everyone.
    pub(crate) fn on_clear_reply(&mut self) {
        self.repeated_rule = None;
        self.refused = None;
        self.refused_alike = None;
    }

    /// The host refused a recipient in a way in which it may refuse everyone. `block`: the refusal is a block of our source.
    /// `counts_alone`: the refusal counts by itself. Otherwise it counts only if another refusal of the run counts by itself.
    pub(crate) fn on_refused_alike(
        &mut self,
        (reply, said): (ObservedReply, &Classification),
        Alike { block, counts_alone }: Alike,
        domain: &Domain,
    ) {
        if planted(Fault::AskOn) {
            return;
        }
        let before = self.refused_alike.take().filter(|alike| alike.rule() == said.rule);
        let mut alike = before.unwrap_or_else(|| RefusedAlike::new(said, reply));
        alike.on_refused(block, counts_alone, domain);
        self.refused_alike = Some(alike);
    }

    /// The refusal that the host gives to every recipient, if this is certain by now.
    pub(crate) fn blanket(&self, host: &str) -> Option<BlanketRefusal> {
        self.refused_alike.as_ref()?.of_all(host)
    }

    /// The rule of the latest equal refusals since the last clear reply, if a later check would get the same refusal until somebody
    /// removes the cause. One refusal is enough, because the rule decides nothing: it only tells the caller why the budget is used
    /// up.
    pub(crate) fn refusal_of_us(&self) -> Option<&'static str> {
        self.refused_alike.as_ref().map(RefusedAlike::rule).filter(|rule| !may_tell_more(rule))
    }

    /// How many recipients a transaction may have, because the host has lately refused all in the same way. One more recipient shows
    /// whether a blanket refusal still holds. A transaction must not have more than may be needed to show one.
    pub(crate) fn room_for_alike(&self, host: &str) -> usize {
        match &self.refused_alike {
            Some(_) if self.is_blanket(host) => 1,
            Some(alike) => alike.missing(),
            None => usize::MAX,
        }
    }

    /// Whether the host refuses all recipients in the same way, or all recipients of one domain.
    pub(crate) fn is_blanket(&self, host: &str) -> bool {
        let is_such =
            |alike: &RefusedAlike| alike.of_all(host).is_some() || alike.of_domains().next().is_some();
        self.refused_alike.as_ref().is_some_and(is_such)
    }

    /// Marks the domains of which the host refuses all recipients, so that the host is not asked about them until `until`.
    pub(crate) fn set_domains_shut(&mut self, now: Instant, until: Instant) {
        let Some(alike) = &self.refused_alike else { return };
        let shut = &mut self.shut_domains;
        alike.of_domains().for_each(|domain| shut.set_shut(domain, now, until, alike.refusal()));
    }

    /// The refusal because of which the host is not asked about the domain now, if there is one.
    pub(crate) fn shut_by(&self, domain: &Domain, now: Instant) -> Option<BlanketRefusal> {
        self.shut_domains.of(domain, now)
    }

    /// Whether the route is out of use because of a blanket refusal.
    pub(crate) fn is_shut(&self, host: &str, now: Instant) -> bool {
        self.blanket(host).is_some_and(|blanket| self.down_rule(now) == Some(blanket.rule))
    }

    /// The host replied about a recipient. This resets the count of failed and lost connections.
    pub(crate) fn on_answer(&mut self) {
        self.strikes = 0;
    }

    pub(crate) fn on_accepted(&mut self) {
        self.warnings = 0;
    }

    /// Whether this record holds nothing that is worth keeping.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        // All fields are named, so that nobody forgets a new field here. `down` and `resting` are checked below by their times.
        // Warnings, the order of replies, the latest domains and the known mailbox are left out, because they may be lost, and `room`,
        // because another record has it.
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
            habits,
            in_step: _,
            lost_step,
            out_of_step,
            domains: _,
            room: _,
            mailbox_kept: _,
        } = self;
        let is_silent = refused.is_none() && repeated_rule.is_none() && *strikes == 0;
        is_silent
            && refused_alike.as_ref().is_none_or(RefusedAlike::is_short)
            && shut_domains.is_empty(now)
            && *changes == 0
            && *out_of_step == 0
            && !lost_step
            && Habits { answers_groups: false, ..*habits } == Habits::default()
            && self.down_rule(now).is_none()
            && self.resting_until(now).is_none()
    }

    /// The rule that keeps the route out of use now, if any.
    pub(crate) fn down_rule(&self, now: Instant) -> Option<&'static str> {
        let is_now = |until: Instant| until > now && !planted(Fault::NeverRest);
        self.down.filter(|(until, _)| is_now(*until)).map(|(_, rule)| rule)
    }

    /// The reply that keeps the route out of use now, if it was a reply.
    pub(super) fn down_reply(&self, now: Instant) -> Option<ObservedReply> {
        self.down_reply.filter(|_| self.down_rule(now).is_some())
    }

    /// When the route may be used again, if it rests now.
    pub(crate) fn resting_until(&self, now: Instant) -> Option<Instant> {
        self.resting.filter(|&until| until > now && !planted(Fault::NeverRest))
    }
}
