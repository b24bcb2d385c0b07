//! What a shard remembers, from one session to the next, about how hosts treat recipients. This knowledge saves questions: some
//! replies then need no proof in their own session ([`engine_proto::verdict::evidence`] has the rules of a proof).
//!
//! - For each domain at a host: the reply to its *control recipient*, a recipient that does not exist. If the host accepts the
//!   control recipient too, an accept of another recipient shows nothing.
//! - For each host: its *known mailbox*, which the host accepted within the last 70 minutes. If the host later refuses this
//!   mailbox, the host may refuse everyone.
//! - For each host: the numbers of single checks that it recently accepted and refused, and the time at which the host last changed
//!   its behaviour.
//!
//! `site/route.rs` records how a host treats connections and sessions, and [`engine_proto::pace`] the limits of a site.
//! `docs/glossary.md` defines the words.

use crate::Priority;
use crate::faults::{Fault, planted};
use crate::invariants::Invariant;
use crate::seed::{HashMap, Hashing, NumberMap};
use crate::site::UnclearControl;
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::{
    CONTROL_ACCEPTS_MAX, CONTROL_ATTEMPTS_MAX, CONTROL_SINGLE_TTL, CONTROL_TRANSIENT_TTL, CONTROL_TTL,
    CONTROL_UNKNOWN_TTL, KNOWN_DOMAINS_MAX, KNOWN_MAILBOX_AGE, KNOWN_MAILBOX_TTL, KNOWN_MAILBOXES_MAX,
    REFUSALS_IN_A_ROW_MIN, REFUSALS_SINGLE_MAX,
};
use engine_proto::pace::Room;
use engine_proto::verdict::Class;
use engine_proto::verdict::catch_all::ControlFinding;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::time::Instant;

/// A domain at one host. The hosts of a domain are kept apart, because a backup MX often accepts every recipient and bounces mail
/// later. If the primary host refuses a control recipient, this must not confirm an accept by the backup.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DomainAtHost {
    pub(crate) domain: Domain,
    pub(crate) host: Rc<str>,
}

/// The knowledge of a shard. The keys of its [`NumberMap`] fields are keyed hashes of [`DomainAtHost`], which take a fifth of the
/// memory of names. Even in a full map, fewer than one look-up in 10^14 finds the entry of another domain or host. No peer can
/// cause this, because the key of the hash function is secret.
#[derive(Default)]
pub(crate) struct Knowledge {
    known: NumberMap<Known>,
    /// How many sessions in a row ended at the question about the control recipient: see [`Knowledge::on_unanswered`].
    unanswered: NumberMap<u8>,
    /// The latest reply to the control recipient, if it proved nothing.
    unclear: NumberMap<UnclearControl>,
    /// The known mailbox of each host. It is never stored, and appears only in traces of the account that asked about it.
    mailboxes: HashMap<Rc<str>, KnownMailbox>,
    /// How many times `mailboxes` has changed. [`MailboxFreshness`] compares this number.
    mailbox_changes: u64,
    singles: HashMap<Rc<str>, SingleRun>,
    changed: HashMap<Rc<str>, Instant>,
    /// What sessions with each host have had room for, over all groups of its site.
    rooms: HashMap<Rc<str>, Room>,
    keyed: Hashing,
}

/// Counts of the answers of a host to single checks. Most single checks are answered without a proof. If a count is too high, the
/// next answer of this kind needs a proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SingleRun {
    /// Accepted single checks since the host last refused a control recipient. At least [`CONTROL_ACCEPTS_MAX`] if the host has
    /// changed its behaviour since then.
    accepted: u32,
    /// Refused single checks since the host last accepted a single check, or a recipient whose only purpose was to prove answers.
    refused: u32,
}

/// The known mailbox of a host: see the head of this file.
struct KnownMailbox {
    address: String,
    /// The host counts as having a known mailbox until this instant.
    until: Instant,
    /// Whether the session that accepted the mailbox also showed that the host refuses recipients that do not exist.
    proven: bool,
    /// When a session last asked about the mailbox before all other recipients, and the host did not accept it.
    failed: Option<Instant>,
    /// Whether the host later refused this mailbox. This is recorded only for an unproven mailbox, which is then forgotten within
    /// ten minutes. Until then, only a proven mailbox replaces it, because another unproven one would be no better.
    refused: bool,
}

impl KnownMailbox {
    fn kept(&self, changes: u64) -> MailboxFreshness {
        // The instant at which the mailbox reaches the age of [`KNOWN_MAILBOX_AGE`], and may be replaced.
        let fresh = (self.until + KNOWN_MAILBOX_AGE).checked_sub(KNOWN_MAILBOX_TTL);
        // A proven mailbox replaces an unproven one at once, because the unproven one may not exist.
        let from_proven = fresh.filter(|_| self.proven);
        let lasts = self.proven || self.refused;
        let from_unproven = if lasts { Some(self.until) } else { fresh.map(|fresh| fresh.min(self.until)) };
        MailboxFreshness { changes, from_proven, from_unproven }
    }
}

/// Until when the known mailbox of a host stays, even if the host accepts another mailbox. Each route (address of a host) keeps a
/// copy, which saves a look-up for most accepted recipients.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MailboxFreshness {
    /// [`Knowledge::mailbox_changes`] at the time of the copy. If the number has changed since, the copy is void.
    changes: u64,
    /// Before this instant, a proven mailbox does not replace the known one. `None` if a proven mailbox replaces the known one at
    /// once.
    from_proven: Option<Instant>,
    /// Until when an unproven mailbox does not replace the known one. `None` if an unproven mailbox replaces the known one at once.
    from_unproven: Option<Instant>,
}

/// How far a recent refusal of a control recipient of a domain can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlRefusal {
    /// The domain distinguishes its mailboxes.
    Counts,
    /// Sessions contradicted each other, or the host changed its behaviour. So the refusal proves no accept. But if the domain now
    /// accepts a control recipient, this is another contradiction.
    Contradicted,
}

/// What sessions have shown about one domain at one host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    finding: ControlFinding,
    /// When a session last showed `finding`. If none has yet, when this entry was made.
    at: Instant,
    /// How many sessions in a row showed the clear finding in `finding`, each within an hour of the previous one. The count stops
    /// at 2. A session without a clear finding leaves the count as it is. 1 for an unclear finding, and 0 if no session has shown
    /// anything yet.
    sessions: u8,
    /// Set after a contradiction between sessions, or a change of the host in a session: until this instant, no accepted recipient
    /// is answered because of `finding`.
    contradicted: Option<Instant>,
    /// When the host last did not accept the postmaster address of the domain.
    no_postmaster: Option<Instant>,
    /// Whether the last unclear reply to the control recipient was a temporary error, so that a clear reply may come soon.
    last_was_transient: bool,
    /// How many recipients of the domain were refused at checkpoints at which none was accepted: see [`Knowledge::on_refusals`].
    refused: u8,
    /// When `refused` last grew. After an hour, the count begins anew.
    refused_at: Option<Instant>,
    /// When the host last accepted a mailbox that it had refused in another session.
    took_back: Option<Instant>,
}

impl Known {
    fn is_contradicted(&self, now: Instant) -> bool {
        self.contradicted.is_some_and(|until| until > now)
    }

    /// See [`Knowledge::believed`].
    pub(crate) fn believed(&self, lasting: bool, now: Instant) -> Option<ControlFinding> {
        if planted(Fault::BelieveControl) {
            return Some(self.finding);
        }
        let ttl = match self.finding {
            ControlFinding::Unknown if self.last_was_transient => CONTROL_TRANSIENT_TTL,
            ControlFinding::Unknown => CONTROL_UNKNOWN_TTL,
            _ if lasting => CONTROL_TTL,
            _ => CONTROL_SINGLE_TTL,
        };
        let is_fresh = self.sessions > 0 && self.at + ttl > now;
        (is_fresh && !self.is_contradicted(now)).then_some(self.finding)
    }

    /// How far the refusal of a control recipient can be relied on, if the host refused one of the domain within the last hour and
    /// has accepted none since. `None` otherwise.
    pub(crate) fn control_refusal(&self, now: Instant) -> Option<ControlRefusal> {
        let is_such = self.finding == ControlFinding::RefusesUnknown && self.at + CONTROL_TTL > now;
        is_such.then(|| match self.is_contradicted(now) {
            true => ControlRefusal::Contradicted,
            false => ControlRefusal::Counts,
        })
    }

    /// See [`Knowledge::is_catch_all`].
    pub(crate) fn is_catch_all(&self, now: Instant) -> bool {
        let sessions = if planted(Fault::SpareEarly) { 1 } else { 2 };
        let fresh = self.at + CONTROL_TTL > now && !self.is_contradicted(now);
        let shown = self.finding == ControlFinding::AcceptsAll && self.sessions >= sessions;
        shown && fresh && !self.has_refused_many(now)
    }

    /// Whether the host accepted a mailbox of the domain within the last hour that it had refused in another session. One of the
    /// servers behind the host may refuse everyone.
    pub(crate) fn has_taken_back(&self, now: Instant) -> bool {
        self.took_back.is_some_and(|at| at + CONTROL_TTL > now)
    }

    /// Whether [`Knowledge::on_refusals`] has recorded at least [`REFUSALS_IN_A_ROW_MIN`] refused recipients of the domain, some of
    /// them within the last hour. Such a domain does not accept every recipient.
    pub(crate) fn has_refused_many(&self, now: Instant) -> bool {
        let is_fresh = self.refused_at.is_some_and(|at| at + CONTROL_TTL > now);
        is_fresh && u32::from(self.refused) >= REFUSALS_IN_A_ROW_MIN
    }
}

impl Knowledge {
    /// The key of this domain at this host in the maps.
    pub(crate) fn key(&self, at: &DomainAtHost) -> u64 {
        self.keyed.hash_one(at)
    }

    /// What sessions have shown about a domain at a host. For callers with several questions about it.
    pub(crate) fn of_domain(&self, key: u64) -> Option<&Known> {
        self.known.get(&key)
    }

    /// The finding of earlier sessions, if it is not contradicted, and fresh enough to answer an accepted recipient without asking
    /// about the control recipient. `lasting`: a finding that is not [`ControlFinding::Unknown`] counts for an hour and not only
    /// for ten minutes.
    pub(crate) fn believed(&self, key: u64, lasting: bool, now: Instant) -> Option<ControlFinding> {
        self.known.get(&key)?.believed(lasting, now)
    }

    /// Records the refusals of a checkpoint in which the host refused this number of recipients of the domain and accepted none.
    /// The caller has found that these refusals count. Fewer than [`REFUSALS_IN_A_ROW_MIN`] are recorded only if control recipients
    /// have shown that the domain accepts every recipient. If the same checkpoint has shown that the domain accepts everyone, none
    /// are recorded, because such a domain refuses only mailboxes that were closed.
    pub(crate) fn on_refusals(&mut self, key: u64, refused: u32, now: Instant) {
        // All records of one checkpoint have the same `now`, so an equal instant means the same checkpoint.
        let accepts_all = |known: &&Known| known.finding == ControlFinding::AcceptsAll;
        let shown_at = self.known.get(&key).filter(accepts_all).map(|known| known.at);
        if shown_at == Some(now) || (refused < REFUSALS_IN_A_ROW_MIN && shown_at.is_none()) {
            return;
        }
        let known = self.entry(key, now);
        if known.refused_at.is_none_or(|at| at + CONTROL_TTL <= now) {
            known.refused = 0;
        }
        known.refused = known.refused.saturating_add(u8::try_from(refused).unwrap_or(u8::MAX));
        known.refused_at = Some(now);
    }

    /// Whether two sessions in a row, the last one within the last hour, showed that the host accepts every recipient of the
    /// domain, and nothing contradicts this.
    pub(crate) fn is_catch_all(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).is_some_and(|known| known.is_catch_all(now))
    }

    /// Whether the host was asked about the postmaster address of the domain within the last hour, and did not accept it.
    pub(crate) fn has_no_postmaster(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).and_then(|known| known.no_postmaster).is_some_and(|at| at + CONTROL_TTL > now)
    }

    /// Records that the host did not accept the postmaster address of the domain.
    pub(crate) fn on_no_postmaster(&mut self, key: u64, now: Instant) {
        self.entry(key, now).no_postmaster = Some(now);
    }

    pub(crate) fn has_mailbox(&self, host: &Rc<str>, now: Instant) -> bool {
        self.mailboxes.get(host).is_some_and(|known| known.until > now)
    }

    pub(crate) fn mailbox(&self, host: &Rc<str>, now: Instant) -> Option<String> {
        let known = self.mailboxes.get(host)?;
        let is_fresh = known.until > now || planted(Fault::Break(Invariant::KnownFresh));
        is_fresh.then(|| known.address.clone())
    }

    /// The known mailbox, for a session that asks about it before all other recipients. The result is also `None` for a minute
    /// after such a session if the host did not accept the mailbox in it.
    pub(crate) fn mailbox_first(&self, host: &Rc<str>, now: Instant) -> Option<String> {
        let failed = self.mailboxes.get(host)?.failed;
        let is_open = failed.is_none_or(|at| at + CONTROL_UNKNOWN_TTL <= now);
        self.mailbox(host, now).filter(|_| is_open)
    }

    /// Records that a session asked about the known mailbox before all other recipients, and the host did not accept it. Changes
    /// nothing if the known mailbox is another address by now.
    pub(crate) fn on_mailbox_first_failed(&mut self, host: &Rc<str>, address: &str, now: Instant) {
        if let Some(known) = self.mailbox_mut(host, address) {
            known.failed = Some(now);
        }
    }

    /// Records that the host accepted this mailbox. `proven`: the session also showed that the host refuses recipients that do not
    /// exist. The mailbox becomes the known one if the host has none. A proven mailbox also replaces an unproven one at once, and a
    /// proven one after ten minutes. After ten minutes, an unproven mailbox replaces another unproven one, unless the host has
    /// refused that one since.
    pub(crate) fn on_mailbox(
        &mut self,
        host: &Rc<str>,
        address: &str,
        proven: bool,
        now: Instant,
    ) -> MailboxFreshness {
        if let Some(known) = self.mailboxes.get(host) {
            let kept = known.kept(self.mailbox_changes);
            if self.keeps_mailbox(kept, proven, now) {
                return kept;
            }
        }
        self.mailbox_changes += 1;
        if self.mailboxes.len() >= KNOWN_MAILBOXES_MAX {
            self.mailboxes.retain(|_, known| known.until > now + KNOWN_MAILBOX_TTL / 2);
            if self.mailboxes.len() >= KNOWN_MAILBOXES_MAX {
                self.mailboxes.clear();
            }
        }
        let (address, until) = (address.to_owned(), now + KNOWN_MAILBOX_TTL);
        let known = KnownMailbox { address, until, proven, failed: None, refused: false };
        let kept = known.kept(self.mailbox_changes);
        self.mailboxes.insert(Rc::clone(host), known);
        kept
    }

    /// Records that the host accepted its known mailbox again. False if the known mailbox is another address, or if there is none.
    pub(crate) fn on_mailbox_again(&mut self, host: &Rc<str>, address: &str, now: Instant) -> bool {
        let Some(known) = self.mailbox_mut(host, address) else { return false };
        (known.until, known.failed, known.refused) = (now + KNOWN_MAILBOX_TTL, None, false);
        self.mailbox_changes += 1;
        true
    }

    /// The known mailbox of the host, if it is this address.
    fn mailbox_mut(&mut self, host: &Rc<str>, address: &str) -> Option<&mut KnownMailbox> {
        self.mailboxes.get_mut(host).filter(|known| known.address == address)
    }

    /// Whether the known mailbox stays if the host accepts another mailbox now. `kept` may be the copy of a route. If this copy is
    /// outdated, the result is false.
    pub(crate) fn keeps_mailbox(&self, kept: MailboxFreshness, proven: bool, now: Instant) -> bool {
        let until = if proven { kept.from_proven } else { kept.from_unproven };
        kept.changes == self.mailbox_changes && until.is_some_and(|until| until > now)
    }

    /// The session that accepted this mailbox has shown that the accept means nothing: forgets the known mailbox if it is this
    /// address and not proven.
    pub(crate) fn on_mailbox_unproven(&mut self, host: &Rc<str>, address: &str) {
        if self.mailboxes.get(host).is_some_and(|known| !known.proven && known.address == address) {
            self.mailboxes.remove(host);
            self.mailbox_changes += 1;
        }
    }

    /// Records that the host now refuses its known mailbox. True if the mailbox was proven: then the host has changed, and the
    /// mailbox stays known, so that other sessions notice the change too. False if it was unproven: it may never have existed, so
    /// it is forgotten within ten minutes. Also false if the known mailbox is another address: another session may have recorded a
    /// newer one before this reply arrived, or the refused address is a canary, which is recorded only once it is accepted.
    pub(crate) fn on_mailbox_refused(&mut self, host: &Rc<str>, address: &str, now: Instant) -> bool {
        let Some(known) = self.mailbox_mut(host, address) else { return false };
        let proven = known.proven;
        if !proven {
            known.until = known.until.min(now + KNOWN_MAILBOX_AGE);
            known.refused = true;
            self.mailbox_changes += 1;
        }
        proven
    }

    /// Records the answer of the host to a single check.
    pub(crate) fn on_single(&mut self, host: &Rc<str>, accepted: bool) {
        let run = self.single_run(host);
        *run = match accepted {
            true => SingleRun { accepted: run.accepted.saturating_add(1), refused: 0 },
            false => SingleRun { refused: run.refused.saturating_add(1), ..*run },
        };
    }

    fn single_run(&mut self, host: &Rc<str>) -> &mut SingleRun {
        if self.singles.len() >= KNOWN_MAILBOXES_MAX && !self.singles.contains_key(host) {
            self.singles.clear();
        }
        self.singles.entry(Rc::clone(host)).or_default()
    }

    /// Records what a session with the host has had room for.
    pub(crate) fn on_room(&mut self, host: &Rc<str>, room: Room) {
        if self.rooms.len() >= KNOWN_MAILBOXES_MAX && !self.rooms.contains_key(host) {
            self.rooms.clear();
        }
        let known = self.rooms.entry(Rc::clone(host)).or_default();
        known.on_answers(room.transactions.into(), room.recipients.into());
    }

    /// What sessions with the host have had room for, as far as it is known.
    pub(crate) fn room(&self, host: &Rc<str>) -> Room {
        self.rooms.get(host).copied().unwrap_or_default()
    }

    /// Records that the host changed its behaviour ([`Knowledge::has_changed`]). From then until the host refuses a control
    /// recipient again, no earlier refusal of a control recipient, of any domain, confirms an accepted single check. This does not
    /// apply to trusted operators.
    pub(crate) fn on_changed(&mut self, host: &Rc<str>, now: Instant) {
        if self.changed.len() >= KNOWN_MAILBOXES_MAX && !self.changed.contains_key(host) {
            self.changed.clear();
        }
        self.changed.insert(Rc::clone(host), now);
        self.single_run(host).accepted = CONTROL_ACCEPTS_MAX;
    }

    /// Whether the host changed its behaviour within the last hour.
    pub(crate) fn has_changed(&self, host: &Rc<str>, now: Instant) -> bool {
        self.changed.get(host).is_some_and(|at| *at + CONTROL_TTL > now)
    }

    pub(crate) fn on_control_refused(&mut self, host: &Rc<str>) {
        if let Some(run) = self.singles.get_mut(host) {
            run.accepted = 0;
        }
    }

    /// Records that the host accepted a recipient that mailprobe asked about only to prove its answers, such as the known mailbox.
    pub(crate) fn on_mailbox_accepted(&mut self, host: &Rc<str>) {
        if let Some(run) = self.singles.get_mut(host) {
            run.refused = 0;
        }
    }

    /// Whether an earlier refusal of a control recipient still confirms an accepted single check at the host. It confirms at most
    /// [`CONTROL_ACCEPTS_MAX`] of them.
    pub(crate) fn control_refusal_counts(&self, host: &Rc<str>) -> bool {
        if planted(Fault::BelieveControl) {
            return true;
        }
        self.singles.get(host).is_none_or(|run| run.accepted < CONTROL_ACCEPTS_MAX)
    }

    /// Whether the host refused so many single checks in a row that the last refusal needs a proof ([`REFUSALS_SINGLE_MAX`]).
    pub(crate) fn is_long_run(&self, host: &Rc<str>) -> bool {
        self.singles.get(host).is_some_and(|run| run.refused >= REFUSALS_SINGLE_MAX)
    }

    /// Whether, within the last hour, sessions contradicted each other about the domain, or the host changed its behaviour in a
    /// session with recipients of the domain.
    pub(crate) fn has_contradicted(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).is_some_and(|known| known.is_contradicted(now))
    }

    /// Records what the control recipient of a domain showed in a session. `again`: this session has recorded a finding for the
    /// domain before. True if the new finding contradicts a clear one of the last hour.
    pub(crate) fn on_shown(&mut self, key: u64, finding: ControlFinding, again: bool, now: Instant) -> bool {
        self.unanswered.remove(&key);
        self.unclear.remove(&key);
        let known = self.entry(key, now);
        let fresh = known.at + CONTROL_TTL > now && known.sessions > 0;
        let good = known.finding != ControlFinding::Unknown && fresh;
        if finding == ControlFinding::Unknown {
            // An unclear finding does not replace a clear one of the last hour.
            if !good {
                known.last_was_transient = false;
                (known.finding, known.at, known.sessions) = (finding, now, 1);
            }
            return false;
        }
        let contradiction = good && known.finding != finding;
        if contradiction {
            known.contradicted = Some(now + CONTROL_TTL);
        }
        let before = if good && !contradiction { known.sessions } else { 0 };
        let sessions = before + u8::from(!again || before == 0);
        (known.finding, known.at, known.sessions) = (finding, now, sessions.min(2));
        contradiction
    }

    /// Records a reply to the control recipient that proves nothing. The caller has recorded [`ControlFinding::Unknown`] for the
    /// session.
    pub(crate) fn on_unclear(&mut self, key: u64, control: UnclearControl, now: Instant) {
        if control.said.class == Class::Temporary {
            self.entry(key, now).last_was_transient = true;
        }
        if self.unclear.len() >= KNOWN_DOMAINS_MAX {
            self.unclear.clear();
        }
        self.unclear.insert(key, control);
    }

    /// If [`Knowledge::believed`] is [`ControlFinding::Unknown`]: the reply to the control recipient that proved nothing. `None` if
    /// the sessions ended before such a reply.
    pub(crate) fn unclear(&self, key: u64) -> Option<UnclearControl> {
        self.unclear.get(&key).copied()
    }

    /// Records that the host changed its behaviour in a session with recipients of the domain. For an hour, no accepted recipient
    /// of the domain is answered because of what the control recipient showed in another session.
    pub(crate) fn on_contradicted(&mut self, key: u64, now: Instant) {
        self.entry(key, now).contradicted = Some(now + CONTROL_TTL);
    }

    /// Records that the host accepted a mailbox of the domain that it had refused in another session: see [`Known::has_taken_back`].
    pub(crate) fn on_taken_back(&mut self, key: u64, now: Instant) {
        self.entry(key, now).took_back = Some(now);
    }

    /// Records that a session ended without a clear reply about the control recipient, or about another mailbox of the domain that
    /// the proof of an accept needs. True if another session should ask about the control recipient. False after
    /// [`CONTROL_ATTEMPTS_MAX`] such sessions in a row, which count as an unclear finding.
    pub(crate) fn on_unanswered(&mut self, key: u64, now: Instant) -> bool {
        if self.unanswered.len() >= KNOWN_DOMAINS_MAX {
            self.unanswered.clear();
        }
        let attempts = self.unanswered.entry(key).or_default();
        *attempts += 1;
        if *attempts < CONTROL_ATTEMPTS_MAX {
            return true;
        }
        self.on_shown(key, ControlFinding::Unknown, false, now);
        false
    }

    /// Whether a row of a list or batch needs no question, because the host is known to accept every recipient of the domain
    /// ([`Knowledge::is_catch_all`]). Single checks always need one, because such a host may still refuse a mailbox that it closed.
    /// Rows also need a question if they were returned for another session, or if a route was tried or passed over for them.
    pub(crate) fn needs_no_question(&self, work: &Work, host: &Rc<str>, now: Instant) -> bool {
        if work.priority == Priority::Single || work.tried != 0 || work.returns > 0 {
            return false;
        }
        let at = DomainAtHost { domain: work.address.domain().clone(), host: Rc::clone(host) };
        self.is_catch_all(self.key(&at), now)
    }

    fn entry(&mut self, key: u64, now: Instant) -> &mut Known {
        if !self.known.contains_key(&key) {
            self.make_room(now);
        }
        self.known.entry(key).or_insert(Known {
            finding: ControlFinding::Unknown,
            at: now,
            sessions: 0,
            contradicted: None,
            no_postmaster: None,
            last_was_transient: false,
            refused: 0,
            refused_at: None,
            took_back: None,
        })
    }

    fn make_room(&mut self, now: Instant) {
        if self.known.len() < KNOWN_DOMAINS_MAX {
            return;
        }
        self.known.retain(|_, known| known.at + CONTROL_TTL > now);
        if self.known.len() >= KNOWN_DOMAINS_MAX {
            // All entries are from the last hour, so every second one is dropped. Each can be learned again with one question.
            let mut keep = false;
            self.known.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
    }
}

#[cfg(test)]
mod tests;
