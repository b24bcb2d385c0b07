//! The sender: a thread that claims messages, and one more thread for each attempt under way.
//!
//! The thread looks for endpoints with a message that is due, and claims those that [`Lanes`] chooses. A claimed endpoint has its
//! places, and a thread that attempts a message, notes the result, and gets the next message of the same endpoint with the
//! answer. This chain ends after [`CHAIN_MAX`] messages, after [`PROMPT_TIME_MAX`], or after a failed attempt. So endpoints with
//! many messages, or with slow hosts, do not keep those of others waiting.
//!
//! A message is claimed for a minute, and an attempt takes at most 15 s. If the process dies, or the result cannot be noted,
//! the message is sent again.

use crate::lanes::{LanePlaces, Lanes, PROMPT_TIME_MAX, Pace};
use crate::payload::body;
use crate::post::{Outgoing, Poster};
use crate::signature::sign;
use crate::url::WebhookUrl;
use engine_proto::sharing::ShareUse;
use outbound::Destinations;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::webhooks::{
    Attempt, AttemptFault, AttemptReport, AttemptResult, ClaimNumber, ClaimedMessage, DueWebhook,
};
use store::{StoreError, UnixMs, WebhookId, id::random_bits};
use store_rules::Store;

/// The most endpoints of one look. The next look goes on behind them.
const DUE_MAX: usize = 1000;
/// The most messages of an endpoint in a row before others get their turn.
const CHAIN_MAX: usize = 20;
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
    shares: Vec<Arc<ShareUse>>,
    thread: Option<JoinHandle<()>>,
}

enum Event {
    /// No more claims.
    Stop,
    /// An attempt at an endpoint has ended.
    Attempted(WebhookId, Pace),
    /// The claim with this number has ended, with its thread.
    Ended(u64),
}

impl Sender {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The thread could not be started, TLS is not available, or the store failed.
    pub fn start(store: Arc<Store>, settings: Settings) -> io::Result<Sender> {
        let Settings { destinations, clock } = settings;
        Sender::start_with(store, Poster::new(destinations)?, clock)
    }

    fn start_with(store: Arc<Store>, poster: Poster, clock: fn() -> UnixMs) -> io::Result<Sender> {
        if !poster.has_authorities() {
            tracing::warn!(
                "the system has no list of certificate authorities: no webhook with https can be delivered"
            );
        }
        store.release_webhooks(clock()).wait().map_err(io::Error::other)?;
        let is_draining = Arc::<AtomicBool>::default();
        let (events, inbox) = channel();
        let lanes = Lanes::new();
        let shares = lanes.shares();
        let shared = Arc::new(Shared { store, poster, clock, is_draining: Arc::clone(&is_draining) });
        let main =
            Main { shared, events: events.clone(), lanes, under_way: HashMap::new(), begun: 0, after: None };
        let thread = thread::Builder::new().name("webhooks".into()).spawn(move || main.run(&inbox))?;
        Ok(Sender { events, is_draining, shares, thread: Some(thread) })
    }
}

impl Sender {
    /// The figures for metrics: the lanes of attempts.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.shares.clone()
    }

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
    store: Arc<Store>,
    poster: Poster,
    clock: fn() -> UnixMs,
    is_draining: Arc<AtomicBool>,
}

/// The state of the thread.
struct Main {
    shared: Arc<Shared>,
    events: Channel<Event>,
    lanes: Lanes,
    /// The claims with a thread: since when, and their places.
    under_way: HashMap<u64, (Instant, LanePlaces)>,
    /// The number of the next one.
    begun: u64,
    /// The last endpoint of the look before, if there may be others behind it.
    after: Option<DueWebhook>,
}

impl Main {
    fn run(mut self, inbox: &Receiver<Event>) {
        let mut told = None;
        let mut pause = LOOK;
        let mut looked = Instant::now();
        loop {
            match inbox.recv_timeout(pause.saturating_sub(looked.elapsed())) {
                Ok(Event::Attempted(webhook, pace)) => self.lanes.note(webhook, pace),
                Ok(Event::Ended(number)) => drop(self.under_way.remove(&number)),
                Ok(Event::Stop) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.shared.is_draining.load(Ordering::Acquire) {
                if self.under_way.is_empty() {
                    return;
                }
                // Each claim sends `Event::Ended` when it ends.
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
        for (since, places) in self.under_way.values_mut() {
            if since.elapsed() > PROMPT_TIME_MAX {
                self.lanes.leave_prompt(places);
            }
        }
        let Shared { store, clock, .. } = &*self.shared;
        if !store.may_work() {
            return Ok(());
        }
        let due = store.due_webhooks(self.after.take(), DUE_MAX, clock()).wait()?;
        if due.len() == DUE_MAX {
            self.after = due.last().copied();
        }
        let chosen = self.lanes.choose(due);
        if chosen.is_empty() {
            return Ok(());
        }
        // A claim has its number until it ends, so a report of a claim that was lost is not taken for one of a later claim.
        let number = random_bits().map_err(|error| StoreError::NotDone(error.to_string()))?.to_be_bytes();
        let wanted = chosen.iter().map(|(due, _)| *due).collect();
        let mut places: HashMap<WebhookId, LanePlaces> =
            chosen.into_iter().map(|(due, places)| (due.webhook, places)).collect();
        for message in store.claim_webhooks(number, wanted, clock()).wait()? {
            if let Some(places) = places.remove(&message.webhook) {
                self.begin(Claimed { number, message }, places);
            }
        }
        Ok(())
    }

    fn begin(&mut self, claimed: Claimed, places: LanePlaces) {
        let number = self.begun;
        self.begun += 1;
        let (shared, events) = (Arc::clone(&self.shared), self.events.clone());
        let work = move || {
            // A panic was logged at its source. The message is sent again after its claim.
            let _ = catch_unwind(AssertUnwindSafe(|| shared.send_all(claimed, &events)));
            // The thread waits for all attempts before it ends.
            let _ = events.send(Event::Ended(number));
        };
        match thread::Builder::new().name("webhook".into()).spawn(work) {
            Ok(_) => drop(self.under_way.insert(number, (Instant::now(), places))),
            Err(error) => tracing::warn!("a webhook could not be sent now: no thread: {error}"),
        }
    }
}

impl Shared {
    /// Attempts a message, and then the next ones of its endpoint.
    fn send_all(&self, first: Claimed, events: &Channel<Event>) {
        let until = Instant::now() + PROMPT_TIME_MAX;
        let mut next = Some(first);
        for number in 1..=CHAIN_MAX {
            let Some(claimed) = next else { return };
            let may_go_on =
                |result: AttemptResult| number < CHAIN_MAX && result.is_success() && Instant::now() < until;
            next = self.send(&claimed, events, may_go_on);
        }
    }

    /// Makes one attempt and notes its result; returns the next message of the endpoint, if it may be sent after this result.
    fn send(
        &self,
        claimed: &Claimed,
        events: &Channel<Event>,
        may_go_on: impl Fn(AttemptResult) -> bool,
    ) -> Option<Claimed> {
        let began = Instant::now();
        let Some(result) = self.attempt(&claimed.message) else {
            self.put_back(claimed);
            return None;
        };
        let took = began.elapsed();
        // The thread that looks may have ended, with the server.
        let _ = events.send(Event::Attempted(claimed.message.webhook, Pace::of(took)));
        let took_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
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
