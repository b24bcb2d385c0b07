//! What happened to one address after its verdict.

use crate::evidence::GIVE_UP_SECONDS;
use crate::meaning::Cause;
use crate::table::CLOCKS_DIFFER;

/// A row of one of the files, about one address. Records are sorted by address and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    /// The hash of the address.
    pub key: u128,
    /// When it happened, in seconds since 1970.
    pub at: u32,
    pub kind: Kind,
    /// The number of the provider for a verdict, and the number of the file for an event.
    pub origin: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A verdict, by the code of its reason.
    Verdict(u8),
    /// A bounce for good: the mailbox or the domain does not exist, or is disabled.
    Bounced,
    Failed(Cause),
    Delivered,
    /// The address is in a list of those that were mailed. It has no time.
    Listed,
}

impl Record {
    /// Length of a record, in bytes.
    pub const BYTES: usize = 26;

    /// The bytes of a record in a spool.
    pub fn to_bytes(self) -> [u8; Record::BYTES] {
        let (tag, detail) = match self.kind {
            Kind::Verdict(reason) => (0, reason),
            Kind::Bounced => (1, 0),
            Kind::Failed(cause) => (2, cause as u8),
            Kind::Delivered => (3, 0),
            Kind::Listed => (4, 0),
        };
        let mut bytes = [0; Record::BYTES];
        bytes[..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.at.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.origin.to_le_bytes());
        bytes[24..].copy_from_slice(&[tag, detail]);
        bytes
    }

    /// Reads the bytes of a record; `None` if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let (key, rest) = bytes.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (origin, rest) = rest.split_first_chunk()?;
        let kind = match *rest {
            [0, reason] => Kind::Verdict(reason),
            [1, _] => Kind::Bounced,
            [2, cause] => Kind::Failed(*Cause::ALL.get(usize::from(cause))?),
            [3, _] => Kind::Delivered,
            [4, _] => Kind::Listed,
            _ => return None,
        };
        let (at, origin) = (u32::from_le_bytes(*at), u32::from_le_bytes(*origin));
        Some(Record { key: u128::from_le_bytes(*key), at, kind, origin })
    }

    fn is_event(&self) -> bool {
        matches!(self.kind, Kind::Bounced | Kind::Failed(_) | Kind::Delivered)
    }

    /// Whether the provider has sent nothing.
    fn is_suppressed(&self) -> bool {
        self.kind == Kind::Failed(Cause::Suppressed)
    }
}

/// What the mail to an address did after its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Bounced,
    /// It was delivered, at this time.
    Delivered(u32),
    /// It failed for a reason that shows nothing about the mailbox.
    Failed(Cause),
    /// The address is in the list of those that were mailed, and no file has an event of it.
    Silent,
}

/// What the files say about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// It was mailed after a verdict.
    Scored {
        /// The code of the reason.
        reason: u8,
        /// The number of the provider.
        provider: u32,
        fate: Fate,
    },
    /// It was mailed, and has no verdict.
    NoVerdict,
    /// It has a verdict, and no file shows mail to it.
    NotMailed,
    /// It has a verdict, and only events before it or too long after it.
    Outside,
    /// The provider has not sent the mail.
    NotSent,
    /// It failed, and only files without any delivery say so.
    FailedOnly,
    /// It is of no interest: it has no verdict, and was not mailed.
    Nothing,
}

/// Decides about one address. The records are sorted; `window` is in seconds, and `is_complete` says whether the file with this
/// number is an export with deliveries.
pub(super) fn judge(records: &[Record], window: u32, is_complete: &dyn Fn(u32) -> bool) -> Judged {
    let is_listed = records.iter().any(|record| record.kind == Kind::Listed);
    let events: Vec<&Record> = records.iter().filter(|record| record.is_event()).collect();
    let (mut newest, mut next_at, mut is_unsent, mut is_failed_only) = (None, u32::MAX, false, false);
    for verdict in records.iter().rev() {
        let Kind::Verdict(reason) = verdict.kind else { continue };
        let end = verdict.at.saturating_add(window);
        let is_after = |event: &&Record| (verdict.at..=end).contains(&event.at) && event.at < next_at;
        let after = events.iter().copied().filter(is_after);
        let (unsent, sent): (Vec<&Record>, Vec<&Record>) = after.partition(|event| event.is_suppressed());
        let shows_mail = is_listed || sent.iter().any(|event| is_complete(event.origin));
        match fate(&sent) {
            Some(fate) if shows_mail => {
                return Judged::Scored { reason, provider: verdict.origin, fate };
            }
            found => is_failed_only |= found.is_some(),
        }
        is_unsent |= !unsent.is_empty();
        newest = newest.or(Some((reason, verdict.origin)));
        next_at = verdict.at;
    }
    match newest {
        None if is_listed || events.iter().any(|event| !event.is_suppressed()) => Judged::NoVerdict,
        None => Judged::Nothing,
        Some(_) if is_unsent => Judged::NotSent,
        Some((reason, provider)) if is_listed => Judged::Scored { reason, provider, fate: Fate::Silent },
        Some(_) if is_failed_only => Judged::FailedOnly,
        Some(_) if !events.is_empty() => Judged::Outside,
        Some(_) => Judged::NotMailed,
    }
}

/// What the events of an address show together; they are sorted by time. `None`: there are none.
///
/// A delivery counts if nothing failed from a day before it, since clocks differ, to five days after it, when servers give up. The
/// last bounce counts unless such a delivery follows it.
fn fate(events: &[&Record]) -> Option<Fate> {
    let failures: Vec<&&Record> = events.iter().filter(|event| event.kind != Kind::Delivered).collect();
    let is_refuted = |at: u32| {
        let first = failures.partition_point(|failure| failure.at.saturating_add(CLOCKS_DIFFER) < at);
        failures.get(first).is_some_and(|failure| u64::from(failure.at) <= u64::from(at) + GIVE_UP_SECONDS)
    };
    let last = |kind: Kind| events.iter().rev().filter(move |event| event.kind == kind).map(|event| event.at);
    let delivered = last(Kind::Delivered).find(|at| !is_refuted(*at));
    match (last(Kind::Bounced).next(), delivered) {
        (Some(bounced), delivered) if delivered.is_none_or(|at| at < bounced) => Some(Fate::Bounced),
        (_, Some(at)) => Some(Fate::Delivered(at)),
        _ => failures.iter().rev().find_map(|failure| match failure.kind {
            Kind::Failed(cause) => Some(Fate::Failed(cause)),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u32 = 24 * 3600;

    /// The records of an address by its story: words with a day, such as `v10` for a verdict, `d` for a delivery, `b` for a bounce, `f`
    /// for another failure, `s` for mail that was not sent. The capital letters `B` and `F` are of a file without deliveries; `l` is
    /// the list of those that were mailed.
    fn story(text: &str) -> Vec<Record> {
        let mut verdicts = 0;
        let record = |word: &str| {
            let (kind, day) = word.split_at(1);
            let at = day.parse().map_or(u32::MAX, |day: u32| day * DAY);
            let (kind, origin) = match kind {
                "v" => {
                    verdicts += 1;
                    (Kind::Verdict(verdicts), 0)
                }
                "d" => (Kind::Delivered, 0),
                "b" | "B" => (Kind::Bounced, u32::from(kind == "B")),
                "f" | "F" => (Kind::Failed(Cause::Policy), u32::from(kind == "F")),
                "s" => (Kind::Failed(Cause::Suppressed), 0),
                _ => (Kind::Listed, 0),
            };
            Record { key: 1, at, kind, origin }
        };
        let mut records: Vec<Record> = text.split_whitespace().map(record).collect();
        records.sort_unstable();
        records
    }

    #[test]
    fn stories_of_addresses_are_judged() {
        let scored = |reason, fate| Judged::Scored { reason, provider: 0, fate };
        let delivered = |reason, day: u32| scored(reason, Fate::Delivered(day * DAY));
        let failed = scored(1, Fate::Failed(Cause::Policy));
        for (text, expected) in [
            ("", Judged::Nothing),
            ("s5", Judged::Nothing),
            ("d5", Judged::NoVerdict),
            ("b5", Judged::NoVerdict),
            ("l", Judged::NoVerdict),
            ("v10", Judged::NotMailed),
            ("v10 d11", delivered(1, 11)),
            ("v10 b11", scored(1, Fate::Bounced)),
            ("v10 f11", failed),
            ("v10 s11", Judged::NotSent),
            ("v10 l", scored(1, Fate::Silent)),
            ("v10 l s11", Judged::NotSent),
            ("v10 l b11", scored(1, Fate::Bounced)),
            ("v10 l d11", delivered(1, 11)),
            // The time of the verdict itself is after it, and so is the end of the window.
            ("v10 d10", delivered(1, 10)),
            ("v10 d9", Judged::Outside),
            ("v10 b9", Judged::Outside),
            ("v10 b40", scored(1, Fate::Bounced)),
            ("v10 b41", Judged::Outside),
            ("v10 b41 l", scored(1, Fate::Silent)),
            ("v10 b9 d11", delivered(1, 11)),
            // Several events: the last word counts.
            ("v10 b11 d20", delivered(1, 20)),
            ("v10 b11 d12", scored(1, Fate::Bounced)),
            ("v10 d11 b12", scored(1, Fate::Bounced)),
            ("v10 d11 b30", scored(1, Fate::Bounced)),
            ("v10 d11 d12 d13 f30", delivered(1, 13)),
            ("v10 d11 f13", failed),
            ("v10 d11 f16", failed),
            ("v10 d11 f17", delivered(1, 11)),
            ("v10 f11 d11", failed),
            ("v10 f11 d13", delivered(1, 13)),
            ("v10 f11 b12", scored(1, Fate::Bounced)),
            ("v10 b11 f12", scored(1, Fate::Bounced)),
            ("v10 s11 d12", delivered(1, 12)),
            // Several verdicts: the newest one that mail followed.
            ("v10 v20 d15", delivered(1, 15)),
            ("v10 v20 d15 d25", delivered(2, 25)),
            ("v10 v20 b15 d25", delivered(2, 25)),
            ("v10 v20 d20", delivered(2, 20)),
            ("v10 v20 b9", Judged::Outside),
            ("v10 v20 b15 l", scored(1, Fate::Bounced)),
            ("v10 v20 l", scored(2, Fate::Silent)),
            // A file without deliveries shows no mail: only what bounced is in it.
            ("v10 B11", Judged::FailedOnly),
            ("v10 F11", Judged::FailedOnly),
            ("v10 B11 l", scored(1, Fate::Bounced)),
            ("v10 d11 B12", scored(1, Fate::Bounced)),
            ("v10 d5 B12", Judged::FailedOnly),
            ("v10 F11 b12", scored(1, Fate::Bounced)),
        ] {
            let records = story(text);
            for record in &records {
                assert_eq!(Record::from_bytes(&record.to_bytes()), Some(*record));
            }
            assert_eq!(judge(&records, 30 * DAY, &|file| file == 0), expected, "{text}");
        }
        assert_eq!(Record::from_bytes(&[9; Record::BYTES]), None);
    }
}
