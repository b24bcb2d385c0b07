//! What a client remembers of a mail server from one session to the next, because servers differ from the standards.

use super::reply::Reply;
use crate::limits::IN_STEP_AGE_MAX;
use std::time::{Duration, Instant};

/// How a session treats a host, because of what earlier sessions have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Habits {
    /// STARTTLS is not sent, because TLS failed.
    pub plain: bool,
    /// One command is sent at a time, because the host offered PIPELINING and then did not answer all commands of a group.
    pub one_at_a_time: bool,
    /// The host has answered a group of commands, so its replies to RCPT may take their time.
    pub answers_groups: bool,
    /// QUIT takes the place of a second EHLO, because the host refused it or ended a session there. So a session has one transaction.
    pub ends_at_ehlo: bool,
    /// The host did not answer RSET in a group, so no group has it. A group with as many commands as the one before it then ends with
    /// QUIT.
    pub hangs_at_rset: bool,
    /// The host ended a session after a refusal, so nothing showed whether the refusal was in step. Before the next one, a session
    /// listens for surplus replies.
    pub ends_at_refusal: bool,
    /// No part of the replies to a group has come twice in a session that looked for it.
    pub repeats_no_part: bool,
}

impl Habits {
    /// The host has answered a group of commands. If another session found that it does not, the host was only slow then.
    pub fn on_group_answered(&mut self) {
        (self.answers_groups, self.one_at_a_time) = (true, false);
    }

    /// What a session does differently, in words.
    pub fn describe(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.plain, "no STARTTLS, because TLS failed"),
            (
                self.one_at_a_time,
                "one command at a time, because the host answered only the first one of a group",
            ),
            (self.ends_at_refusal, "listens before a refusal, because the host ends the session after it"),
            (self.hangs_at_rset, "no RSET in a group of commands, because the host did not answer it"),
            (self.ends_at_ehlo, "QUIT in place of a second EHLO, which the host does not take"),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, words)| words)
    }
}

/// What sessions with a host have shown about its replies: how long after a reply of each kind no surplus reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InStep {
    /// In milliseconds, by place, plus one. Zero: nothing is known.
    quiet: [u32; PLACES],
    /// The places after which no surplus reply is expected any more, a bit each. Nearly all hosts soon have all that a session
    /// needs, and this is looked at after each reply.
    settled: u8,
}

impl InStep {
    /// Knowledge of a host that is in step whatever happens. Tests and measurements begin with it.
    pub const ALWAYS: InStep = InStep { quiet: [u32::MAX; PLACES], settled: u8::MAX };

    /// Adds what another session has shown. From [`IN_STEP_AGE_MAX`] on, a surplus reply is no longer expected at all.
    pub fn add(&mut self, other: InStep) {
        self.settled |= other.settled;
        for (place, (known, shown)) in self.quiet.iter_mut().zip(other.quiet).enumerate() {
            *known = shown.max(*known);
            self.settled |= u8::from(shown > IN_STEP_AGE_MAX.as_millis() as u32) << place;
        }
    }
}

/// Kinds of replies after which a surplus reply may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyPlace {
    Greeted,
    Tls,
    Mail,
    Rset,
    Accepted,
    Refused,
    Transient,
    /// The last reply to a group of commands. A surplus reply is then the first one of a copy of all replies to the group.
    Group,
}

const PLACES: usize = 8;
/// The time of a reply that has not come.
const NEVER: u32 = u32::MAX;

impl ReplyPlace {
    pub(super) fn of_rcpt(reply: &Reply) -> ReplyPlace {
        match reply.code() / 100 {
            2 => ReplyPlace::Accepted,
            4 => ReplyPlace::Transient,
            _ => ReplyPlace::Refused,
        }
    }
}

/// When the first reply of each kind came in a session, in milliseconds since the session began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    begun: Instant,
    first: [u32; PLACES],
    /// The places that `first` has, a bit each.
    places: u8,
}

impl Passed {
    pub(super) fn new(begun: Instant) -> Passed {
        Passed { begun, first: [NEVER; PLACES], places: 0 }
    }

    fn age(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(NEVER - 1)
    }

    /// How long ago the first reply of this kind came.
    pub(super) fn age_of(&self, place: ReplyPlace, now: Instant) -> Duration {
        Duration::from_millis(self.age(now).saturating_sub(self.first[place as usize]).into())
    }

    pub(super) fn pass(&mut self, place: ReplyPlace, now: Instant) {
        if self.places & 1 << place as u8 == 0 {
            self.places |= 1 << place as u8;
            self.first[place as usize] = self.age(now);
        }
    }

    /// What a session shows if no surplus reply has come until `now`.
    pub(super) fn shown(&self, now: Instant) -> InStep {
        let age = self.age(now);
        // One more than the time: even a reply that has just come shows that nothing came in the same packet.
        InStep {
            quiet: self.first.map(|first| if first == NEVER { 0 } else { age.saturating_sub(first) + 1 }),
            settled: 0,
        }
    }

    /// Whether a surplus reply to one of the replies so far may come now, as far as `known` says.
    pub(super) fn is_doubted(&self, known: &InStep, now: Instant) -> bool {
        self.is_open(!(1 << ReplyPlace::Group as u8), known, now)
    }

    /// Whether the replies to a whole group of commands may come once more now, as far as `known` says.
    pub(super) fn may_repeat(&self, known: &InStep, now: Instant) -> bool {
        self.is_open(1 << ReplyPlace::Group as u8, known, now)
    }

    /// Whether a surplus reply may come now behind one of these places.
    fn is_open(&self, places: u8, known: &InStep, now: Instant) -> bool {
        let open = self.places & places & !known.settled;
        if open == 0 {
            return false;
        }
        let age = self.age(now);
        let is_open = |place: &usize| open & 1 << place != 0;
        (0..PLACES)
            .filter(is_open)
            .any(|place| age.saturating_sub(self.first[place]) + 1 >= known.quiet[place])
    }
}
