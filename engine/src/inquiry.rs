//! Inquiries: questions about a domain that DNS alone answers, without a session.
//!
//! They go to the home shard of the domain and use its walks and cache. Each has its own way back and its own room, so a queue full
//! of addresses does not delay them.

use crate::inbox::Inbox;
use crate::{Outage, Refusal};
use engine_proto::address::Domain;
use engine_proto::facts::DnsFacts;
use engine_proto::limits::INQUIRIES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether a domain has mail hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailHosts {
    /// It has: one at least with an address.
    Seen,
    /// It has none, for certain.
    Absent,
    /// DNS did not tell, or not in time.
    Unknown,
}

/// A question about a domain, on its way to the shard.
pub(crate) enum Inquiry {
    /// Whether it has mail hosts; until then.
    MailHosts(Domain, Asker<MailHosts>, Instant),
    /// The DNS facts of the domain, before this instant.
    Facts(Domain, Asker<Option<DnsFacts>>, Instant),
}

/// An answer that is still to come.
pub struct PendingInquiry<T>(Arc<Inbox<Result<T, Outage>>>);

/// Whoever answers. Dropped without an answer, it says that the engine stops.
pub struct Asker<T> {
    way_back: Arc<Inbox<Result<T, Outage>>>,
    answered: bool,
    _place: Option<InquiryPlace>,
}

/// The two ends of a way back.
pub fn pending_inquiry<T>() -> (Asker<T>, PendingInquiry<T>) {
    ends(None)
}

/// The same with a place among those under way, which is given back with the answer.
pub(crate) fn pending_inquiry_in<T>(place: InquiryPlace) -> (Asker<T>, PendingInquiry<T>) {
    ends(Some(place))
}

fn ends<T>(place: Option<InquiryPlace>) -> (Asker<T>, PendingInquiry<T>) {
    let way_back = Arc::new(Inbox::new(1));
    let pending = PendingInquiry(Arc::clone(&way_back));
    (Asker { way_back, answered: false, _place: place }, pending)
}

impl<T> PendingInquiry<T> {
    /// The answer; waits for it on any executor.
    ///
    /// # Errors
    /// [`Outage`]: nothing can be said, through no fault of the domain.
    pub async fn answer(self) -> Result<T, Outage> {
        self.0.pop().await
    }

    /// The answer, for threads without an executor; `None` after `patience`, and from the second time on.
    pub fn answer_blocking(&self, patience: Duration) -> Option<Result<T, Outage>> {
        self.0.pop_blocking(patience)
    }
}

impl<T> Asker<T> {
    /// Gives the answer to the caller.
    pub fn answer(mut self, answer: Result<T, Outage>) {
        self.give(answer);
    }

    fn give(&mut self, answer: Result<T, Outage>) {
        self.answered = true;
        // There is room for one answer, and one is given.
        let _ = self.way_back.push(answer);
    }
}

impl<T> Drop for Asker<T> {
    fn drop(&mut self) {
        if !self.answered {
            self.give(Err(Outage::Stopping));
        }
    }
}

/// A place among the inquiries under way: it reserves room in the inbox of the shard.
pub(crate) struct InquiryPlace(Arc<AtomicUsize>);

impl InquiryPlace {
    pub(crate) fn take(under_way: &Arc<AtomicUsize>) -> Result<InquiryPlace, Refusal> {
        if under_way.fetch_add(1, Ordering::Relaxed) >= INQUIRIES_MAX {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Full);
        }
        Ok(InquiryPlace(Arc::clone(under_way)))
    }
}

impl Drop for InquiryPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_once_and_none_is_an_answer_too() {
        let (asker, answer) = pending_inquiry();
        asker.answer(Ok(7));
        assert_eq!(answer.answer_blocking(Duration::ZERO), Some(Ok(7)));
        assert_eq!(answer.answer_blocking(Duration::ZERO), None);
        let (asker, answer) = pending_inquiry::<u8>();
        assert_eq!(answer.answer_blocking(Duration::ZERO), None);
        drop(asker);
        assert_eq!(answer.answer_blocking(Duration::ZERO), Some(Err(Outage::Stopping)));
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let under_way = Arc::new(AtomicUsize::new(0));
        let places: Vec<InquiryPlace> =
            (0..INQUIRIES_MAX).filter_map(|_| InquiryPlace::take(&under_way).ok()).collect();
        assert_eq!(places.len(), INQUIRIES_MAX);
        assert!(InquiryPlace::take(&under_way).is_err());
        let asker = pending_inquiry_in::<u8>(places.into_iter().next().expect("a place")).0;
        asker.answer(Ok(1));
        assert_eq!(under_way.load(Ordering::Relaxed), 0);
    }
}
