//! The sender: a thread that claims messages, and one more thread for each attempt under way.
//!
//! The thread looks for endpoints with a message that is due. It claims at most as many as it has places, and each claimed
//! endpoint takes one place. A place attempts a message, notes the result, and gets the next message of the same endpoint with
//! the answer. This chain ends after [`CHAIN_MAX`] messages, after [`CHAIN_TIME_MAX`], or after a failed attempt. An account has
//! few of the places. So endpoints with many messages, or with slow hosts, do not keep those of others waiting.
//!
//! A message is claimed for a minute, and an attempt takes at most 15 s. If the process dies, or the result cannot be noted,
//! the message is sent again.

use crate::payload::body;
use crate::places::Places;
use crate::post::{Outgoing, Poster};
use crate::signature::sign;
use crate::url::WebhookUrl;
use outbound::Destinations;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::webhooks::{
    Attempt, AttemptFault, AttemptReport, AttemptResult, ClaimNumber, ClaimedMessage, SenderRoom,
};
use store::{AccountId, Store, StoreError, UnixMs, id::random_bits};

/// The most attempts at once.
const PLACES: usize = 16;
/// The most attempts of one account at the same time.
const ACCOUNT_PLACES: usize = 4;
/// The most attempts to one host name at the same time, over all accounts.
const HOST_PLACES: usize = 4;
/// The most messages of an endpoint in a row before others get their turn.
const CHAIN_MAX: usize = 20;
/// After this time, no further message of an endpoint follows before others get their turn.
const CHAIN_TIME_MAX: Duration = Duration::from_secs(15);
/// The pause between two looks for messages that are due.
const LOOK: Duration = Duration::from_millis(500);
/// The pause after the store has failed.
const REST: Duration = Duration::from_secs(5);
/// How often a result that cannot be noted is tried again, and the pause between.
const NOTES_MAX: usize = 10;
const NOTE_PAUSE: Duration = Duration::from_secs(1);

/// The settings of a sender.
pub struct Settings {
    /// The addresses that may be contacted.
    pub destinations: Destinations,
    /// The wall clock.
    pub clock: fn() -> UnixMs,
}

/// Handle of the sender. When it is dropped, attempts under way end, and no others begin.
pub struct Sender {
    events: Channel<Event>,
    is_draining: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

enum Event {
    /// No more claims.
    Stop,
    /// An attempt has ended.
    Free,
}

impl Sender {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The thread could not be started, TLS is not available, or the store failed.
    pub fn start(store: Arc<dyn Store>, settings: Settings) -> io::Result<Sender> {
        let Settings { destinations, clock } = settings;
        Sender::start_with(store, Poster::new(destinations)?, clock)
    }

    fn start_with(store: Arc<dyn Store>, poster: Poster, clock: fn() -> UnixMs) -> io::Result<Sender> {
        if !poster.has_authorities() {
            tracing::warn!(
                "the system has no list of certificate authorities: no webhook with https can be delivered"
            );
        }
        store.release_webhooks(clock()).wait().map_err(io::Error::other)?;
        let is_draining = Arc::<AtomicBool>::default();
        let (events, inbox) = channel();
        let shared = Arc::new(Shared { store, poster, clock, is_draining: Arc::clone(&is_draining) });
        let main = Main {
            shared,
            events: events.clone(),
            accounts: Places::new(ACCOUNT_PLACES),
            hosts: Places::new(HOST_PLACES),
            count: 0,
        };
        let thread = thread::Builder::new().name("webhooks".into()).spawn(move || main.run(&inbox))?;
        Ok(Sender { events, is_draining, thread: Some(thread) })
    }
}

impl Sender {
    /// Begins no further attempts. Those under way end.
    pub fn close(&self) {
        self.is_draining.store(true, Ordering::Release);
        // The thread may have ended by a panic, which was logged at its source.
        let _ = self.events.send(Event::Stop);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A claimed message with the number of its claim.
struct Claimed {
    number: ClaimNumber,
    message: ClaimedMessage,
}

/// What all places share.
struct Shared {
    store: Arc<dyn Store>,
    poster: Poster,
    clock: fn() -> UnixMs,
    is_draining: Arc<AtomicBool>,
}

/// The state of the thread.
struct Main {
    shared: Arc<Shared>,
    events: Channel<Event>,
    accounts: Arc<Places<AccountId>>,
    hosts: Arc<Places<String>>,
    /// The attempts under way.
    count: usize,
}

impl Main {
    fn run(mut self, inbox: &Receiver<Event>) {
        let mut told = None;
        let mut pause = LOOK;
        let mut looked = Instant::now();
        loop {
            match inbox.recv_timeout(pause.saturating_sub(looked.elapsed())) {
                Ok(Event::Free) => self.count -= 1,
                Ok(Event::Stop) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.shared.is_draining.load(Ordering::Acquire) {
                if self.count == 0 {
                    return;
                }
                // Each attempt sends `Event::Free` when it ends.
                pause = REST;
                looked = Instant::now();
                continue;
            }
            if looked.elapsed() < pause {
                continue;
            }
            looked = Instant::now();
            pause = LOOK;
            match self.look() {
                Ok(()) => told = None,
                Err(error) => {
                    pause = REST;
                    if told.as_ref() != Some(&error) {
                        tracing::warn!("webhooks could not be sent: {error}");
                        told = Some(error);
                    }
                }
            }
        }
    }

    /// Claims what is due, as far as there are places, and starts its attempts.
    fn look(&mut self) -> Result<(), StoreError> {
        let Shared { store, clock, .. } = &*self.shared;
        let places = PLACES - self.count;
        if places == 0 || !store.may_work() || !store.has_due_webhook(clock()).wait()? {
            return Ok(());
        }
        // A claim has its number until it ends, so a report of a claim that was lost is not taken for one of a later claim.
        let number = random_bits().map_err(|error| StoreError::NotDone(error.to_string()))?.to_be_bytes();
        let claimed = self.accounts.taken();
        let room = SenderRoom { endpoints: places, per_account: ACCOUNT_PLACES, claimed };
        for message in store.claim_webhooks(number, room, clock()).wait()? {
            self.begin(Claimed { number, message });
        }
        Ok(())
    }

    fn begin(&mut self, claimed: Claimed) {
        let host = host_of(&self.shared, &claimed.message);
        let places = (self.accounts.take(claimed.message.account), self.hosts.take(host.clone()));
        let (Some(account_place), Some(host_place)) = places else {
            self.shared.put_back(&claimed);
            return;
        };
        self.count += 1;
        let (shared, events) = (Arc::clone(&self.shared), self.events.clone());
        let work = move || {
            // A panic was logged at its source. The message is sent again after its claim.
            let _ = catch_unwind(AssertUnwindSafe(|| shared.send_all(claimed, &host)));
            drop((account_place, host_place));
            // The thread waits for all attempts before it ends.
            let _ = events.send(Event::Free);
        };
        if let Err(error) = thread::Builder::new().name("webhook".into()).spawn(work) {
            tracing::warn!("a webhook could not be sent now: no thread: {error}");
            self.count -= 1;
        }
    }
}

/// The host of a message; empty if its URL is not allowed.
fn host_of(shared: &Shared, claimed: &ClaimedMessage) -> String {
    let url = WebhookUrl::parse(&claimed.url, shared.poster.destinations());
    url.map(|url| url.host().to_owned()).unwrap_or_default()
}

impl Shared {
    /// Attempts a message, and then the next ones of its endpoint.
    fn send_all(&self, first: Claimed, host: &str) {
        let until = Instant::now() + CHAIN_TIME_MAX;
        let mut next = Some(first);
        for number in 1..=CHAIN_MAX {
            let Some(claimed) = next else { return };
            if number > 1 && host_of(self, &claimed.message) != host {
                // The owner has changed the URL, and the other host has its own places.
                self.put_back(&claimed);
                return;
            }
            next = self
                .send(&claimed, |result| number < CHAIN_MAX && result.is_success() && Instant::now() < until);
        }
    }

    /// Makes one attempt and notes its result; returns the next message of the endpoint, if it may be sent after this result.
    fn send(&self, claimed: &Claimed, may_go_on: impl Fn(AttemptResult) -> bool) -> Option<Claimed> {
        let began = Instant::now();
        let Some(result) = self.attempt(&claimed.message) else {
            self.put_back(claimed);
            return None;
        };
        let took_ms = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        let attempt = Attempt { at: (self.clock)(), took_ms, result };
        if !result.is_success() {
            let ClaimedMessage { webhook, message, .. } = claimed.message;
            tracing::debug!(%webhook, %message, ?result, "an attempt failed");
        }
        let wants_next = may_go_on(result) && !self.is_draining.load(Ordering::Acquire);
        self.note(claimed, Some(attempt), wants_next)
    }

    /// `None` if there was no attempt, because others have all places.
    fn attempt(&self, claimed: &ClaimedMessage) -> Option<AttemptResult> {
        // The settings may have changed since the URL was set.
        let Ok(url) = WebhookUrl::parse(&claimed.url, self.poster.destinations()) else {
            return Some(AttemptResult::Failed(AttemptFault::UrlNotAllowed));
        };
        let body = body(&claimed.event, claimed.created_at);
        let timestamp = (self.clock)() / 1000;
        let signature = sign(&claimed.secrets, claimed.message, timestamp, &body);
        let (account, id) = (claimed.account.to_bytes(), claimed.message.to_string());
        self.poster.post(&url, &Outgoing { account, id, timestamp, signature, body: &body })
    }

    /// Ends a claim without an attempt.
    fn put_back(&self, claimed: &Claimed) {
        self.note(claimed, None, false);
    }

    fn note(&self, claimed: &Claimed, attempt: Option<Attempt>, wants_next: bool) -> Option<Claimed> {
        let Claimed { number, message: claimed } = claimed;
        let report = AttemptReport {
            claim: *number,
            account: claimed.account,
            webhook: claimed.webhook,
            message: claimed.message,
            object: claimed.event.object,
            attempt,
            jitter: random_bits().unwrap_or_default() as u16,
            wants_next,
        };
        for _ in 0..NOTES_MAX {
            match self.store.note_attempt(report.clone(), (self.clock)()).wait() {
                Ok(next) => return next.map(|message| Claimed { number: *number, message }),
                // The claim ends by itself.
                Err(_) if attempt.is_none() => return None,
                Err(StoreError::Closed | StoreError::Failed(_)) => break,
                Err(_) => thread::sleep(NOTE_PAUSE),
            }
        }
        tracing::warn!(message = %claimed.message, "the result of a webhook could not be stored: it is sent again");
        None
    }
}

#[cfg(test)]
mod tests;
