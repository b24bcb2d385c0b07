//! Inquiries: questions about a domain that DNS alone answers. No mail server is contacted.
//!
//! An inquiry goes to the home shard of the domain (the shard that looks up the domain in DNS), and uses the cache of that shard.
//! Inquiries have room of their own in the inboxes of shards, so they are accepted even if the engine accepts no more addresses.
//! Each inquiry has a separate inbox for its answer.

use crate::inbox::Inbox;
use crate::{Outage, Refusal};
use engine_proto::address::Domain;
use engine_proto::facts::DnsFacts;
use engine_proto::limits::INQUIRIES_MAX;
use engine_proto::lists::MailService;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What DNS says about the mail hosts of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailHosts {
    /// The domain has at least one mail host with an IP address that mailprobe may contact.
    /// They may tell something about the domain.
    Seen(MailService),
    /// DNS shows that the domain takes no mail, or only at addresses that mailprobe may not contact.
    Absent,
    /// DNS gave no usable answer in time.
    Unknown,
}

/// A question about a domain, with the deadline of the answer.
pub(crate) enum Inquiry {
    MailHosts(Domain, Responder<MailHosts>, Instant),
    Facts(Domain, Responder<Option<DnsFacts>>, Instant),
}

/// The receiving end of an inquiry. It gets one answer.
pub struct PendingInquiry<T>(Arc<Inbox<Result<T, Outage>>>);

/// The answering end of an inquiry. Dropping it without an answer gives the answer [`Outage::Stopping`].
pub struct Responder<T> {
    way_back: Arc<Inbox<Result<T, Outage>>>,
    answered: bool,
    _place: Option<InquiryPlace>,
}

/// Makes the two ends of an inquiry.
pub fn pending_inquiry<T>() -> (Responder<T>, PendingInquiry<T>) {
    ends(None)
}

/// Makes the two ends of an inquiry. The place is free again after the answer.
pub(crate) fn pending_inquiry_in<T>(place: InquiryPlace) -> (Responder<T>, PendingInquiry<T>) {
    ends(Some(place))
}

fn ends<T>(place: Option<InquiryPlace>) -> (Responder<T>, PendingInquiry<T>) {
    let way_back = Arc::new(Inbox::new(1));
    let pending = PendingInquiry(Arc::clone(&way_back));
    (Responder { way_back, answered: false, _place: place }, pending)
}

impl<T> PendingInquiry<T> {
    /// Waits for the answer. The executor must allow other threads to wake its tasks.
    ///
    /// # Errors
    /// [`Outage`] if there is no answer and the domain is not the cause.
    pub async fn answer(self) -> Result<T, Outage> {
        self.0.pop().await
    }

    /// Waits for the answer, and blocks the thread. `None` if no answer arrives within `timeout`, or if it was taken before.
    pub fn answer_blocking(&self, timeout: Duration) -> Option<Result<T, Outage>> {
        self.0.pop_blocking(timeout)
    }
}

impl<T> Responder<T> {
    /// Gives the answer to the caller.
    pub fn answer(mut self, answer: Result<T, Outage>) {
        self.give(answer);
    }

    fn give(&mut self, answer: Result<T, Outage>) {
        self.answered = true;
        // The inbox has room for one answer, and there is only one.
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

/// Room for one inquiry in the inbox of any shard. There are [`INQUIRIES_MAX`] places. Dropping this frees the place.
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
