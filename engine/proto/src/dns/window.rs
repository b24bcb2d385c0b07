//! How many questions may be under way at a resolver, and how long its answers take: congestion control like that of TCP in RFC
//! 5681 and RFC 6298.
//!
//! All shards (the threads of the engine) share the window of a resolver. It consists of atomics, because nothing on the path of an
//! address takes a lock. A race between two shards may lose one change of the size or one measurement, and later answers make up
//! for that. The count of questions under way is exact.
//!
//! - An answer widens a window that is at least half used. Below a threshold, each answer adds one question. Above it, a whole
//!   window of answers adds one. The threshold is [`DNS_WINDOW_SLOW_START`] at first. A timeout lowers it to the present size (but
//!   not below [`DNS_WINDOW_INITIAL`]), and halving the window sets it to the halved size.
//! - A loss or REFUSED halves the window. Further losses of questions that were sent before that do not halve it again.
//! - A try without an answer is not yet a loss, because a name with silent servers is answered late or never. The try is lost if
//!   the resolver answered another try of the same question and this one stays without an answer. The window is also halved if the
//!   resolver sends nothing at all while a try waits.

#[cfg(test)]
mod tests;

use crate::limits::{
    DNS_TRY_TIMEOUT, DNS_TRY_TIMEOUT_MIN, DNS_WINDOW_INITIAL, DNS_WINDOW_MAX, DNS_WINDOW_MIN,
    DNS_WINDOW_SLOW_START,
};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The unit of sizes is a question divided by this number, so that a size can grow by less than one question.
const PARTS: u32 = 4096;
/// The margin for imprecise timers (G in RFC 6298 2.3). A timeout is longer than the smoothed round trip by at least this, unless
/// [`DNS_TRY_TIMEOUT`] bounds it.
const GRANULARITY: Duration = Duration::from_millis(50);

/// The window of one resolver.
#[derive(Debug)]
pub struct Window {
    /// How many questions may be under way, in units of 1/[`PARTS`] question.
    size: AtomicU32,
    /// Below this size, each answer widens the window by a whole question. The unit is that of `size`.
    threshold: AtomicU32,
    under_way: AtomicU32,
    /// Number of shards that have questions for this resolver.
    sharers: AtomicU32,
    /// Number of questions sent so far. The next question gets this number.
    sent: AtomicU64,
    answered: AtomicU64,
    lost: AtomicU64,
    /// Questions with lower numbers were sent before the window was last halved, so their losses do not halve it again.
    halved_before: AtomicU64,
    /// The smoothed round trip and its variation, in microseconds and 32 bits each. 0 if none was measured yet.
    round_trip: AtomicU64,
}

/// The place that one question under way takes in the window, until the caller gives it back with the result of the question.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place that is not given back stays taken"]
pub struct Place {
    number: u64,
    /// How many questions the resolver had answered when this one was sent.
    answered: u64,
}

/// A question that was not answered in time; it may have been lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdue {
    number: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            size: AtomicU32::new(DNS_WINDOW_INITIAL * PARTS),
            threshold: AtomicU32::new(DNS_WINDOW_SLOW_START * PARTS),
            under_way: AtomicU32::new(0),
            sharers: AtomicU32::new(0),
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            halved_before: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
        }
    }
}

impl Window {
    /// A shard has questions for this resolver from now on, until [`Window::leave`].
    pub fn join(&self) {
        self.sharers.fetch_add(1, Relaxed);
    }

    /// A shard has no more questions for this resolver.
    pub fn leave(&self) {
        self.sharers.fetch_sub(1, Relaxed);
    }

    /// Takes a place for a question of a shard that has `own` questions under way. `None` if the window is full, or if the shard
    /// already has its equal share of the window.
    pub fn take(&self, own: u32) -> Option<Place> {
        let size = self.size();
        let sharers = self.sharers.load(Relaxed).max(1);
        if own >= size.div_ceil(sharers) {
            return None;
        }
        let one_more = |count: u32| (count < size).then_some(count + 1);
        self.under_way.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        let number = self.sent.fetch_add(1, Relaxed);
        Some(Place { number, answered: self.answered.load(Relaxed) })
    }

    /// The question was answered: its place is free, and the window may grow.
    pub fn on_answer(&self, place: Place) {
        let before = self.free(&place);
        self.answered.fetch_add(1, Relaxed);
        let size = self.size.load(Relaxed);
        // Answers that arrive while less than half of the window is used do not show that a wider window would work (RFC 7661).
        if before * 2 * PARTS < size || size >= DNS_WINDOW_MAX * PARTS {
            return;
        }
        let more = if size < self.threshold.load(Relaxed) { PARTS } else { (PARTS * PARTS / size).max(1) };
        self.size.store((size + more).min(DNS_WINDOW_MAX * PARTS), Relaxed);
    }

    /// The resolver answered REFUSED, as overloaded resolvers do. The window is halved.
    pub fn on_refusal(&self, place: Place) {
        self.free(&place);
        self.answered.fetch_add(1, Relaxed);
        self.halve(place.number, DNS_WINDOW_MIN);
    }

    /// The question was not answered within [`Window::timeout`] after it was sent. Its place becomes free, although the answer may
    /// still come. If the resolver answers another try of the question and not this one, this one [was lost](Window::on_loss).
    pub fn on_timeout(&self, place: Place) -> Overdue {
        self.free(&place);
        // Whatever the cause is, the window should not grow fast now.
        self.threshold.fetch_min(self.size.load(Relaxed).max(DNS_WINDOW_INITIAL * PARTS), Relaxed);
        if self.answered.load(Relaxed) == place.answered {
            // Nothing at all was answered meanwhile. But a few questions about names with silent servers may be the cause, so the
            // window stays at its initial size or above.
            self.halve(place.number, DNS_WINDOW_INITIAL);
        }
        Overdue { number: place.number }
    }

    /// A question that was overdue turns out to be lost.
    pub fn on_loss(&self, overdue: Overdue) {
        self.lost.fetch_add(1, Relaxed);
        self.halve(overdue.number, DNS_WINDOW_MIN);
    }

    /// Gives back the place of a question when nobody waits for its answer any more. This shows nothing about the resolver.
    pub fn give_back(&self, place: Place) {
        self.free(&place);
    }

    /// How many questions may be under way.
    pub fn size(&self) -> u32 {
        self.size.load(Relaxed) / PARTS
    }

    /// Number of questions under way.
    pub fn under_way(&self) -> u32 {
        self.under_way.load(Relaxed)
    }

    /// How many questions have been sent so far, and how many of them are known to be lost.
    pub fn sent_and_lost(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.lost.load(Relaxed))
    }

    /// Notes the round trip of a question that was sent only once. The round trip of a repeated question would be too short,
    /// because the resolver was already working on it (Karn's rule: RFC 6298 3).
    pub fn on_round_trip(&self, time: Duration) {
        let time = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let (smoothed, variation) = match unpack(self.round_trip.load(Relaxed)) {
            (0, _) => (time, time / 2),
            (smoothed, variation) => {
                // RFC 6298 2.3, with its weights of 1/8 and 1/4.
                let off = smoothed.abs_diff(time);
                (weigh(smoothed, time, 8), weigh(variation, off, 4))
            }
        };
        self.round_trip.store(u64::from(smoothed.max(1)) << 32 | u64::from(variation), Relaxed);
    }

    /// How long the first try of a question waits (RFC 6298 2): between [`DNS_TRY_TIMEOUT_MIN`] and [`DNS_TRY_TIMEOUT`].
    pub fn timeout(&self) -> Duration {
        match unpack(self.round_trip.load(Relaxed)) {
            (0, _) => DNS_TRY_TIMEOUT,
            (smoothed, variation) => {
                let variation = Duration::from_micros(4 * u64::from(variation)).max(GRANULARITY);
                (Duration::from_micros(smoothed.into()) + variation)
                    .clamp(DNS_TRY_TIMEOUT_MIN, DNS_TRY_TIMEOUT)
            }
        }
    }

    /// Frees the place, and returns how many questions were under way, including this one.
    fn free(&self, _place: &Place) -> u32 {
        self.under_way.fetch_sub(1, Relaxed)
    }

    /// Halves the window because of the question with this number, but not below `least` questions. Does nothing if the window was
    /// halved after that question was sent.
    fn halve(&self, number: u64, least: u32) {
        let halved_before = self.halved_before.load(Relaxed);
        let sent = self.sent.load(Relaxed);
        if number < halved_before
            || self.halved_before.compare_exchange(halved_before, sent, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let size = self.size.load(Relaxed);
        let half = (size / 2).max((least * PARTS).min(size));
        self.threshold.store(half, Relaxed);
        self.size.store(half, Relaxed);
    }
}

fn unpack(round_trip: u64) -> (u32, u32) {
    ((round_trip >> 32) as u32, round_trip as u32)
}

/// The weighted mean of two values, in which the newer one has the weight 1/`parts`.
fn weigh(old: u32, new: u32, parts: u64) -> u32 {
    ((u64::from(old) * (parts - 1) + u64::from(new)) / parts) as u32
}
