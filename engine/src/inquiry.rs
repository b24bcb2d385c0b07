//! Inquiries: questions about a domain that DNS alone answers, without a session.
//! They go to the home shard of the domain, and use its walks and its cache. Each inquiry has an inbox of its own for the answer,
//! and room of its own in the shard's inbox. So it is accepted even if the engine has as many addresses as it may have.

use crate::inbox::Inbox;
use crate::{Outage, Refusal};
use engine_proto::address::Domain;
use engine_proto::facts::DnsFacts;
use engine_proto::limits::INQUIRIES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether a domain has mail hosts, as far as DNS shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailHosts {
    /// The domain has at least one mail host with an address.
    Seen,
    /// The domain certainly has no mail host.
    Absent,
    /// DNS gave no clear answer, or none in time.
    Unknown,
}

/// A question about a domain, on its way to the shard.
pub(crate) enum Inquiry {
    /// Whether the domain has mail hosts. The answer is due at this instant.
    MailHosts(Domain, Responder<MailHosts>, Instant),
    /// The DNS facts of the domain. The answer is due at this instant.
    Facts(Domain, Responder<Option<DnsFacts>>, Instant),
}

/// The receiving end of an inquiry, for its one answer.
pub struct PendingInquiry<T>(Arc<Inbox<Result<T, Outage>>>);

/// The answering end of an inquiry. If it is dropped without an answer, it answers that the engine stops.
pub struct Responder<T> {
    way_back: Arc<Inbox<Result<T, Outage>>>,
    answered: bool,
    _place: Option<InquiryPlace>,
}

/// Makes both ends of an inquiry.
pub fn pending_inquiry<T>() -> (Responder<T>, PendingInquiry<T>) {
    ends(None)
}

/// Makes both ends of an inquiry that has a place among those under way. The place is given back after the answer.
pub(crate) fn pending_inquiry_in<T>(place: InquiryPlace) -> (Responder<T>, PendingInquiry<T>) {
    ends(Some(place))
}

fn ends<T>(place: Option<InquiryPlace>) -> (Responder<T>, PendingInquiry<T>) {
    let way_back = Arc::new(Inbox::new(1));
    let pending = PendingInquiry(Arc::clone(&way_back));
    (Responder { way_back, answered: false, _place: place }, pending)
}

impl<T> PendingInquiry<T> {
    /// Waits for the answer, on any executor.
    ///
    /// # Errors
    /// [`Outage`]: there is no answer, for a reason that is not the domain's.
    pub async fn answer(self) -> Result<T, Outage> {
        self.0.pop().await
    }

    /// Waits for the answer on a thread without an executor. `None` if it does not arrive within `patience`, or was taken before.
    pub fn answer_blocking(&self, patience: Duration) -> Option<Result<T, Outage>> {
        self.0.pop_blocking(patience)
    }
}

impl<T> Responder<T> {
    /// Gives the answer to the caller.
    pub fn answer(mut self, answer: Result<T, Outage>) {
        self.give(answer);
    }

    fn give(&mut self, answer: Result<T, Outage>) {
        self.answered = true;
        // There is room for one answer, and only one is given.
        let _ = self.way_back.push(answer);
    }
}

impl<T> Drop for Responder<T> {
    fn drop(&mut self) {
        if !self.answered {
            self.give(Err(Outage::Stopping));
        }
    }
}

/// A place among the inquiries under way. It reserves room for one inquiry in the inbox of the shard.
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
        let (responder, answer) = pending_inquiry();
        responder.answer(Ok(7));
        assert_eq!(answer.answer_blocking(Duration::ZERO), Some(Ok(7)));
        assert_eq!(answer.answer_blocking(Duration::ZERO), None);
        let (responder, answer) = pending_inquiry::<u8>();
        assert_eq!(answer.answer_blocking(Duration::ZERO), None);
        drop(responder);
        assert_eq!(answer.answer_blocking(Duration::ZERO), Some(Err(Outage::Stopping)));
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let under_way = Arc::new(AtomicUsize::new(0));
        let places: Vec<InquiryPlace> =
            (0..INQUIRIES_MAX).filter_map(|_| InquiryPlace::take(&under_way).ok()).collect();
        assert_eq!(places.len(), INQUIRIES_MAX);
        assert!(InquiryPlace::take(&under_way).is_err());
        let responder = pending_inquiry_in::<u8>(places.into_iter().next().expect("a place")).0;
        responder.answer(Ok(1));
        assert_eq!(under_way.load(Ordering::Relaxed), 0);
    }
}
