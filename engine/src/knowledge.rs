//! What a shard remembers of the way in which hosts treat recipients: the results of control recipients by domain and host, known
//! mailboxes, contradictions, and domains without a postmaster. No works are kept here: a session proves its own answers
//! ([`engine_proto::verdict::evidence`]), and this knowledge saves questions if the rules allow it. How a host treats connections,
//! commands and whole sessions is in `site/route.rs`. How many sessions, transactions and recipients a site takes is in
//! [`engine_proto::pace`].

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
use engine_proto::verdict::Class;
use engine_proto::verdict::catch_all::ControlFinding;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::time::Instant;

/// A domain at one host. One host shows nothing about another: a backup MX often accepts every recipient and bounces mail later, so
/// a refusal by a host that knows its mailboxes must not confirm an accept by the backup.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DomainAtHost {
    pub(crate) domain: Domain,
    pub(crate) host: Rc<str>,
}

/// The knowledge of a shard. Domains at hosts are keyed by hashes of 64 bits, which take a fifth of the memory of names. Even with
/// a full table, only one look-up in 10^14 finds the entry of another domain, and the key of the hashes is secret, so no peer can
/// cause that.
#[derive(Default)]
pub(crate) struct Knowledge {
    known: NumberMap<Known>,
    /// The number of sessions in a row that ended before the reply to the control recipient.
    unanswered: NumberMap<u8>,
    /// The latest reply to the control recipient, if it proved nothing.
    unclear: NumberMap<UnclearControl>,
    /// The known mailbox of each host. It is kept in memory only, and no trace of another account names it.
    mailboxes: HashMap<Rc<str>, KnownMailbox>,
    /// The number of changes of `mailboxes` so far.
    mailbox_changes: u64,
    /// The latest answers to single checks, by host.
    singles: HashMap<Rc<str>, SingleRun>,
    /// When each host last changed its behaviour.
    changed: HashMap<Rc<str>, Instant>,
    keyed: Hashing,
}

/// The latest answers of a host to single checks. They do not wait for a proof, so only a limited number may go without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SingleRun {
    /// Accepts since a control recipient was last refused.
    accepted: u32,
    /// Refusals since a mailbox was last accepted.
    refused: u32,
}

/// A mailbox that a host accepted.
struct KnownMailbox {
    address: String,
    /// The accept counts until this instant.
    until: Instant,
    /// Whether the session that accepted the mailbox showed that the host distinguishes its mailboxes.
    proven: bool,
    /// When the mailbox was last asked about before the other recipients of a session and not accepted.
    failed: Option<Instant>,
    /// Whether the host has refused the mailbox since. It is then forgotten soon. Until then only a proven mailbox replaces it,
    /// because another one without a proof would be no better.
    refused: bool,
}

impl KnownMailbox {
    fn kept(&self, changes: u64) -> MailboxFreshness {
        // Until this instant, the mailbox is younger than [`KNOWN_MAILBOX_AGE`].
        let fresh = (self.until + KNOWN_MAILBOX_AGE).checked_sub(KNOWN_MAILBOX_TTL);
        // An accept without a proof may be worth nothing, so a proven mailbox replaces it at once.
        let from_proven = fresh.filter(|_| self.proven);
        let lasts = self.proven || self.refused;
        let from_unproven = if lasts { Some(self.until) } else { fresh.map(|fresh| fresh.min(self.until)) };
        MailboxFreshness { changes, from_proven, from_unproven }
    }
}

/// How long the known mailbox of a host need not be replaced. Each route keeps a copy, which saves a look-up for each accepted
/// recipient.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MailboxFreshness {
    /// The number of changes of known mailboxes when this copy was made. If the number has changed, the copy is void.
    changes: u64,
    /// Until when no proven mailbox replaces it, and until when no mailbox without a proof does.
    from_proven: Option<Instant>,
    from_unproven: Option<Instant>,
}

/// What sessions have shown of one domain at one host.
#[derive(Debug, Clone, Copy)]
struct Known {
    finding: ControlFinding,
    /// When a session last showed the finding.
    at: Instant,
    /// The number of sessions in a row that showed the finding, at most two. 0: none has shown anything yet.
    sessions: u8,
    /// After sessions contradicted each other, every session has to prove its own answers until this instant.
    contradicted: Option<Instant>,
    /// When `postmaster@` the domain was last refused.
    no_postmaster: Option<Instant>,
    /// Whether the last reply was transient, so that another reply may come soon.
    last_was_transient: bool,
    /// The number of recipients that were refused in sessions without an accept, and the time of the last such session.
    refused: u8,
    refused_at: Option<Instant>,
}

impl Known {
    fn is_contradicted(&self, now: Instant) -> bool {
        self.contradicted.is_some_and(|until| until > now)
    }

    fn has_refused_many(&self, now: Instant) -> bool {
        let is_fresh = self.refused_at.is_some_and(|at| at + CONTROL_TTL > now);
        is_fresh && u32::from(self.refused) >= REFUSALS_IN_A_ROW_MIN
    }
}

impl Knowledge {
    /// The key of a domain at a host.
    pub(crate) fn key(&self, at: &DomainAtHost) -> u64 {
        self.keyed.hash_one(at)
    }

    /// The finding of earlier sessions, if it still counts for an answer that cannot wait for the end of its own session.
    /// `lasting`: the operator of the host is trusted to distinguish its mailboxes at all times, so the finding counts for longer.
    pub(crate) fn believed(&self, key: u64, lasting: bool, now: Instant) -> Option<ControlFinding> {
        let known = self.known.get(&key)?;
        if planted(Fault::BelieveControl) {
            return Some(known.finding);
        }
        let ttl = match known.finding {
            ControlFinding::Unknown if known.last_was_transient => CONTROL_TRANSIENT_TTL,
            ControlFinding::Unknown => CONTROL_UNKNOWN_TTL,
            _ if lasting => CONTROL_TTL,
            _ => CONTROL_SINGLE_TTL,
        };
        if known.sessions == 0 {
            // No control recipient has shown anything yet.
            return None;
        }
        (known.at + ttl > now && !known.is_contradicted(now)).then_some(known.finding)
    }

    /// Whether the domain refused a control recipient here within the last hour, and has accepted none since.
    pub(crate) fn has_refused(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).is_some_and(|known| {
            known.finding == ControlFinding::RefusesUnknown && known.at + CONTROL_TTL > now
        })
    }

    /// Records that a session proved this number of refusals for the domain, without an accept. Few refusals are recorded only if
    /// the domain counts as one that accepts every recipient.
    pub(crate) fn on_refusals(&mut self, key: u64, refused: u32, now: Instant) {
        let is_doubtful = |known: &Known| known.finding == ControlFinding::AcceptsAll;
        if refused < REFUSALS_IN_A_ROW_MIN && !self.known.get(&key).is_some_and(is_doubtful) {
            return;
        }
        let known = self.entry(key, now);
        if known.refused_at.is_none_or(|at| at + CONTROL_TTL <= now) {
            known.refused = 0;
        }
        known.refused = known.refused.saturating_add(u8::try_from(refused).unwrap_or(u8::MAX));
        known.refused_at = Some(now);
    }

    /// Whether sessions without an accept saw [`REFUSALS_IN_A_ROW_MIN`] refusals for the domain, the last of them within the last
    /// hour. Such a domain does not accept every recipient.
    pub(crate) fn has_refused_many(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).is_some_and(|known| known.has_refused_many(now))
    }

    /// Whether two sessions in a row showed that every recipient of the domain is accepted here, the last of them within the last
    /// hour, and nothing contradicts that.
    pub(crate) fn is_catch_all(&self, key: u64, now: Instant) -> bool {
        let sessions = 2;
        let sessions = if planted(Fault::SpareEarly) { 1 } else { sessions };
        self.known.get(&key).is_some_and(|known| {
            let fresh = known.at + CONTROL_TTL > now && !known.is_contradicted(now);
            let shown = known.finding == ControlFinding::AcceptsAll && known.sessions >= sessions;
            shown && fresh && !known.has_refused_many(now)
        })
    }

    /// Whether `postmaster@` the domain was refused here within the last hour.
    pub(crate) fn has_no_postmaster(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).and_then(|known| known.no_postmaster).is_some_and(|at| at + CONTROL_TTL > now)
    }

    /// Records that `postmaster@` the domain was refused.
    pub(crate) fn on_no_postmaster(&mut self, key: u64, now: Instant) {
        self.entry(key, now).no_postmaster = Some(now);
    }

    /// Whether the host has a known mailbox: it accepted one within [`KNOWN_MAILBOX_TTL`].
    pub(crate) fn has_mailbox(&self, host: &Rc<str>, now: Instant) -> bool {
        self.mailboxes.get(host).is_some_and(|known| known.until > now)
    }

    /// The known mailbox of the host, if it has one.
    pub(crate) fn mailbox(&self, host: &Rc<str>, now: Instant) -> Option<String> {
        let known = self.mailboxes.get(host)?;
        let is_fresh = known.until > now || planted(Fault::Break(Invariant::KnownFresh));
        is_fresh.then(|| known.address.clone())
    }

    /// The known mailbox to ask about first in a session. `None` also if the host did not accept it as the first one within the
    /// last minute.
    pub(crate) fn mailbox_first(&self, host: &Rc<str>, now: Instant) -> Option<String> {
        let failed = self.mailboxes.get(host)?.failed;
        let is_open = failed.is_none_or(|at| at + CONTROL_UNKNOWN_TTL <= now);
        self.mailbox(host, now).filter(|_| is_open)
    }

    /// Records that the known mailbox was asked about before the other recipients and not accepted.
    pub(crate) fn on_mailbox_first_failed(&mut self, host: &Rc<str>, now: Instant) {
        if let Some(known) = self.mailboxes.get_mut(host) {
            known.failed = Some(now);
        }
    }

    /// Records that the host accepted this mailbox. `proven`: the session also showed that the host distinguishes its mailboxes.
    /// One known mailbox per host is enough. It is replaced if it is old, or if it has no proof and the new one has.
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

    /// Records that the host accepted its known mailbox again. False if the known mailbox of the host is another address.
    pub(crate) fn on_mailbox_again(&mut self, host: &Rc<str>, address: &str, now: Instant) -> bool {
        let Some(known) = self.mailboxes.get_mut(host).filter(|known| known.address == address) else {
            return false;
        };
        (known.until, known.failed, known.refused) = (now + KNOWN_MAILBOX_TTL, None, false);
        self.mailbox_changes += 1;
        true
    }

    /// Whether the known mailbox stays if another mailbox is accepted now. `kept` may be a copy at a route.
    pub(crate) fn keeps_mailbox(&self, kept: MailboxFreshness, proven: bool, now: Instant) -> bool {
        let until = if proven { kept.from_proven } else { kept.from_unproven };
        kept.changes == self.mailbox_changes && until.is_some_and(|until| until > now)
    }

    /// Forgets a mailbox, because the session that accepted it did not prove the accept. A mailbox that another session has proven
    /// stays.
    pub(crate) fn on_mailbox_unproven(&mut self, host: &Rc<str>, address: &str) {
        if self.mailboxes.get(host).is_some_and(|known| !known.proven && known.address == address) {
            self.mailboxes.remove(host);
            self.mailbox_changes += 1;
        }
    }

    /// Records that the host refuses its known mailbox now. True if the mailbox was proven, so that the host has changed. Such a
    /// mailbox stays known, because the host will go on to refuse mailboxes. Otherwise the host may never have had the mailbox, and
    /// it is forgotten soon.
    pub(crate) fn on_mailbox_refused(&mut self, host: &Rc<str>, now: Instant) -> bool {
        let Some(known) = self.mailboxes.get_mut(host) else { return false };
        if !known.proven {
            self.mailbox_changes += 1;
            known.until = known.until.min(now + KNOWN_MAILBOX_AGE);
            known.refused = true;
        }
        known.proven
    }

    /// Records the answer of the host to a single check.
    pub(crate) fn on_single(&mut self, host: &Rc<str>, accepted: bool) {
        if self.singles.len() >= KNOWN_MAILBOXES_MAX && !self.singles.contains_key(host) {
            self.singles.clear();
        }
        let run = self.singles.entry(Rc::clone(host)).or_default();
        *run = match accepted {
            true => SingleRun { accepted: run.accepted.saturating_add(1), refused: 0 },
            false => SingleRun { refused: run.refused.saturating_add(1), ..*run },
        };
    }

    /// Records that the host changed its behaviour. From now on, no accept of a single check counts without a new control
    /// recipient, until the host refuses one.
    pub(crate) fn on_changed(&mut self, host: &Rc<str>, now: Instant) {
        if self.changed.len() >= KNOWN_MAILBOXES_MAX && !self.changed.contains_key(host) {
            self.changed.clear();
        }
        self.changed.insert(Rc::clone(host), now);
        if let Some(run) = self.singles.get_mut(host) {
            run.accepted = CONTROL_ACCEPTS_MAX;
        }
    }

    /// Whether the host changed its behaviour within the last hour.
    pub(crate) fn has_changed(&self, host: &Rc<str>, now: Instant) -> bool {
        self.changed.get(host).is_some_and(|at| *at + CONTROL_TTL > now)
    }

    /// Records that the host refused a control recipient.
    pub(crate) fn on_control_refused(&mut self, host: &Rc<str>) {
        if let Some(run) = self.singles.get_mut(host) {
            run.accepted = 0;
        }
    }

    /// Records that the host accepted a recipient that was asked about for the proof of other answers.
    pub(crate) fn on_mailbox_accepted(&mut self, host: &Rc<str>) {
        if let Some(run) = self.singles.get_mut(host) {
            run.refused = 0;
        }
    }

    /// Whether an earlier refusal of a control recipient still proves an accept of a single check at the host. It does for
    /// [`CONTROL_ACCEPTS_MAX`] accepts.
    pub(crate) fn control_refusal_counts(&self, host: &Rc<str>) -> bool {
        if planted(Fault::BelieveControl) {
            return true;
        }
        self.singles.get(host).is_none_or(|run| run.accepted < CONTROL_ACCEPTS_MAX)
    }

    /// Whether the host refused the addresses of so many single checks in a row that the last refusal needs a proof.
    pub(crate) fn is_long_run(&self, host: &Rc<str>) -> bool {
        self.singles.get(host).is_some_and(|run| run.refused >= REFUSALS_SINGLE_MAX)
    }

    /// Whether sessions contradicted each other about the domain within the last hour, or the host changed its behaviour in one.
    pub(crate) fn has_contradicted(&self, key: u64, now: Instant) -> bool {
        self.known.get(&key).is_some_and(|known| known.is_contradicted(now))
    }

    /// Records what a session showed of the domain. `again`: this session has shown something of it before. True if an earlier
    /// session showed something else within the last hour.
    pub(crate) fn on_shown(&mut self, key: u64, finding: ControlFinding, again: bool, now: Instant) -> bool {
        self.unanswered.remove(&key);
        self.unclear.remove(&key);
        let known = self.entry(key, now);
        let fresh = known.at + CONTROL_TTL > now && known.sessions > 0;
        let good = known.finding != ControlFinding::Unknown && fresh;
        if finding == ControlFinding::Unknown {
            // An unclear finding never replaces a fresh one that is clear.
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

    /// Records the reply to the control recipient of a session that showed [`ControlFinding::Unknown`].
    pub(crate) fn on_unclear(&mut self, key: u64, control: UnclearControl, now: Instant) {
        if control.said.class == Class::Temporary {
            self.entry(key, now).last_was_transient = true;
        }
        if self.unclear.len() >= KNOWN_DOMAINS_MAX {
            self.unclear.clear();
        }
        self.unclear.insert(key, control);
    }

    /// The reply to the control recipient because of which [`Knowledge::believed`] is [`ControlFinding::Unknown`]; `None` if
    /// sessions ended without a reply.
    pub(crate) fn unclear(&self, key: u64) -> Option<UnclearControl> {
        self.unclear.get(&key).copied()
    }

    /// Records that the host changed its behaviour in the middle of a session. For an hour, no session relies on what earlier ones
    /// showed.
    pub(crate) fn on_contradicted(&mut self, key: u64, now: Instant) {
        self.entry(key, now).contradicted = Some(now + CONTROL_TTL);
    }

    /// Records that a session ended before the reply to the control recipient. True if it should be asked about again.
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

    /// Whether a row of a list or batch can be answered without a question: two sessions showed that the host that would be asked
    /// accepts every recipient of the domain. Single checks are asked about in any case, and so are works that were asked about
    /// before, because a server that accepts strangers may still refuse a mailbox that it closed.
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
        })
    }

    fn make_room(&mut self, now: Instant) {
        if self.known.len() < KNOWN_DOMAINS_MAX {
            return;
        }
        self.known.retain(|_, known| known.at + CONTROL_TTL > now);
        if self.known.len() >= KNOWN_DOMAINS_MAX {
            // All entries are fresh, so every second one is dropped. To learn one again costs one question.
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
