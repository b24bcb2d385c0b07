//! The pace of a site (the mail hosts of one operator): how many sessions at once, how many new sessions in a minute, and how many
//! recipients in a transaction and in a session.
//!
//! The profile and the table of providers give the ceiling, and below it the pace adapts. A site begins with
//! [`PACE_SESSIONS_INITIAL`] sessions at most, and gets one more for each successful transaction. Each time that the site pushes
//! back (421, 4.7.x, a hang-up), the number of sessions is halved, and the site gets a pause. After the first push-back, the number
//! of sessions grows only slowly. The pause doubles with each push-back, up to [`PACE_PAUSE_MAX`], until a transaction succeeds.
//!
//! Sites have limits of their own, and most show them only by their behaviour. So the limits of a session are learned: refused
//! recipients, recipients, transactions, and recipients in one transaction (RFC 5321 4.5.3.1.10). Postfix slows down after 10
//! refusals (`smtpd_soft_error_limit`) and hangs up after 20 (`smtpd_hard_error_limit`), or after 1 if it is under stress. So a
//! transaction never has more recipients than any of these limits still allows, even if the server refuses them all.
//!
//! The first sessions at a site have a budget of refusals that may be smaller than the limit. But if few of its recipients have
//! been refused so far, a transaction may have more recipients than the budget still allows.

mod ceiling;
mod network;
mod rows;
#[cfg(test)]
mod tests;

use crate::limits::{
    PACE_ERRORS_INITIAL, PACE_PAUSE_MAX, PACE_PAUSE_MIN, PACE_PAUSE_TOO_FAST, PACE_SESSIONS_INITIAL,
    PACE_SHARE_MIN, PACE_SHARE_STEP, PACE_STRETCH_ANSWERS, PACE_TRY_AFTER, PACE_TRY_AFTER_MAX, PACE_WAIT_MIN,
    REFUSALS_CARRIED_MAX, TRANSACTION_RECIPIENTS_MAX,
};
pub use ceiling::{Ceiling, Profile, REFUSALS_CISCO};
pub use network::{NetworkPace, network_of};
pub use rows::RowSessions;
use std::time::{Duration, Instant};

/// When the next session with a site may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A session may begin now.
    Now,
    /// No session may begin before this instant.
    At(Instant),
    /// A session may begin when one of the open sessions has ended.
    WhenOneEnds,
}

/// Counts of one session, from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of transactions that have begun.
    pub transactions: u32,
    /// Recipients that were asked about.
    pub asked: u32,
    /// Recipients that got an answer.
    pub answers: u32,
    /// Number of replies to RCPT that were refusals.
    pub errors: u32,
}

/// The step of a session at which the site ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Between two transactions, before the site accepted the command (RSET) that ends the previous one.
    Between,
    /// At MAIL, after the site had accepted RSET. So refusals were not the cause: a server that allows no further error accepts no
    /// command at all.
    Mail,
    /// In place of the reply to a recipient.
    Recipient,
}

/// What a session with a host has had room for, at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// The highest number of transactions with an answer for a recipient, up to 255.
    pub transactions: u8,
    /// The highest number of recipients with an answer, up to 255.
    pub recipients: u8,
}

impl Room {
    /// A session has had answers for this number of recipients, the last of them in this transaction. Returns whether either
    /// number is a new maximum.
    pub fn on_answers(&mut self, transactions: u32, recipients: u32) -> bool {
        let most = |before: u8, now: u32| before.max(now.min(u8::MAX.into()) as u8);
        let before = *self;
        self.transactions = most(self.transactions, transactions);
        self.recipients = most(self.recipients, recipients);
        *self != before
    }
}

/// The pace of one site.
#[derive(Debug)]
pub struct SitePace {
    /// The ceiling of the profile and the provider, for one public IP address of ours.
    whole: Ceiling,
    /// Number of nodes that ask from the same public address.
    nodes: u32,
    /// The share of this node in that ceiling.
    ceiling: Ceiling,
    /// Sessions that may be open at the same time now; grows by fractions.
    window: f64,
    /// Whether the site has never pushed back or shown stress ([`SitePace::on_cut_off`]). While this is true, the number of
    /// sessions grows fast.
    never_pushed: bool,
    /// Refusals that a session may collect at present, at most the limit in `errors`. The number doubles each time that a session
    /// uses it up and the site does not object.
    budget: u32,
    errors: Learned,
    recipients: Learned,
    /// Whether the site has said that a session takes no further recipient.
    says_full: bool,
    transactions: Learned,
    /// Recipients of one transaction.
    transaction_recipients: Learned,
    /// Session starts that are available (a token bucket).
    starts: f64,
    /// The time up to which the starts are counted.
    filled: Instant,
    paused_until: Option<Instant>,
    pushes: u32,
    /// The fraction of the rate of new sessions that is allowed now, halved each time that the site says that we are too fast.
    share: f64,
    /// Since when the site has given no answer about a recipient: the time of the first question or push-back after its last answer.
    silent_since: Option<Instant>,
}

impl SitePace {
    /// The pace of a site about which nothing is known.
    pub fn new(ceiling: Ceiling, now: Instant) -> SitePace {
        SitePace {
            whole: ceiling,
            nodes: 1,
            ceiling,
            window: f64::from(ceiling.sessions.min(PACE_SESSIONS_INITIAL)),
            never_pushed: true,
            budget: PACE_ERRORS_INITIAL.min(ceiling.session_refusals),
            errors: Learned::new(ceiling.session_refusals),
            recipients: Learned::new(ceiling.session_recipients),
            says_full: false,
            transactions: Learned::new(u32::MAX),
            transaction_recipients: Learned::new(TRANSACTION_RECIPIENTS_MAX as u32),
            starts: f64::from(ceiling.starts_a_minute.min(ceiling.sessions)),
            filled: now,
            paused_until: None,
            pushes: 0,
            share: 1.0,
            silent_since: None,
        }
    }

    /// The limits of the profile and the provider, or the share of this node in them ([`SitePace::share_among`]).
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// From now on, this number of nodes asks from the same address, including this node. Each gets its share of the ceiling.
    pub fn share_among(&mut self, nodes: u32, now: Instant) {
        if nodes == self.nodes {
            return;
        }
        self.fill(now);
        (self.nodes, self.ceiling) = (nodes, self.whole.divided(nodes));
        self.window = self.window.min(f64::from(self.ceiling.sessions));
        self.starts = self.starts.min(self.starts_max());
    }

    /// Whether a session may begin while this number of sessions is open.
    pub fn may_start(&mut self, now: Instant, open: u32) -> Start {
        if let Some(until) = self.pause(now) {
            return Start::At(until);
        }
        self.paused_until = None;
        if open >= self.sessions() {
            return Start::WhenOneEnds;
        }
        self.fill(now);
        if self.starts < 1.0 {
            let wait = (1.0 - self.starts) / self.starts_a_second();
            // The wait for the missing fraction of a start may be shorter than any clock can measure.
            return Start::At(now + Duration::from_secs_f64(wait).max(PACE_WAIT_MIN));
        }
        Start::Now
    }

    /// The end of the pause that the site got because it pushed back.
    pub fn pause(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|&until| until > now)
    }

    /// The site is asked about recipients.
    pub fn on_asked(&mut self, now: Instant) {
        self.silent_since.get_or_insert(now);
    }

    /// Since when the site has given no answer about a recipient: the time of the first question or push-back after its last answer.
    pub fn silent_since(&self) -> Option<Instant> {
        self.silent_since
    }

    /// Whether this pace is as good as a new one: the site has not pushed back, no limit was learned, and all session starts are
    /// available again.
    pub fn is_fresh(&mut self, now: Instant) -> bool {
        self.fill(now);
        let learned = [&self.errors, &self.recipients, &self.transactions, &self.transaction_recipients];
        self.never_pushed
            && self.share >= 1.0
            && self.silent_since.is_none()
            && self.pause(now).is_none()
            && self.starts >= self.starts_max()
            && self.budget >= PACE_ERRORS_INITIAL.min(self.ceiling.session_refusals)
            && learned.iter().all(|learned| learned.limit == learned.most)
    }

    /// How many sessions may be open at the same time now.
    pub fn sessions(&self) -> u32 {
        self.window.max(1.0) as u32
    }

    /// A session begins. It counts for the rate of new sessions.
    pub fn on_started(&mut self) {
        self.starts -= 1.0;
    }

    /// The site replied to a RCPT, in whatever way, so it is not silent.
    pub fn on_answer(&mut self) {
        self.silent_since = None;
    }

    /// A transaction ended as it should, with answers for this number of recipients.
    pub fn on_transaction(&mut self, recipients: u32) {
        self.pushes = 0;
        self.on_answer();
        let step = if self.never_pushed { 1.0 } else { 1.0 / self.window.max(1.0) };
        if self.share >= 1.0 {
            // If the site said that we are too fast, it gets more sessions only after the rate of new sessions is back to normal.
            self.window = (self.window + step).min(f64::from(self.ceiling.sessions));
        }
        self.share = (self.share + PACE_SHARE_STEP).min(1.0);
        if recipients >= self.transaction_recipients.limit {
            self.transaction_recipients.kept();
        }
    }

    /// The site pushed back while `open` sessions were open. `entropy` varies the pause by up to a quarter, so that not all nodes
    /// come back at the same time.
    pub fn on_pushed_back(&mut self, now: Instant, open: u32, entropy: u64) {
        if self.pause(now).is_some() {
            // If a site refuses several sessions at the same time, this counts as one push-back.
            return;
        }
        self.halve(open);
        self.on_asked(now);
        let pause = PACE_PAUSE_MIN.saturating_mul(1 << self.pushes.min(10)).min(PACE_PAUSE_MAX);
        self.pushes = self.pushes.saturating_add(1);
        let spread = 0.75 + (entropy % 1024) as f64 / 2048.0;
        self.paused_until = Some(now + pause.mul_f64(spread));
    }

    /// The site said that we are too fast, or ask about too many unknown recipients. The site gets a pause of at least
    /// [`PACE_PAUSE_TOO_FAST`], and the rate of new sessions is halved.
    pub fn on_too_fast(&mut self, now: Instant, open: u32, entropy: u64) {
        if self.pause(now).is_none() {
            // If a site ends several sessions at the same time, this counts as one push-back.
            self.share = (self.share / 2.0).max(PACE_SHARE_MIN);
            self.starts = self.starts.min(1.0);
        }
        self.on_pushed_back(now, open, entropy);
        let least = now + PACE_PAUSE_TOO_FAST;
        let until = self.paused_until.map_or(least, |until| until.max(least));
        self.paused_until = Some(until);
        // No starts accumulate during the pause, so no burst of sessions follows it.
        self.filled = until;
    }

    /// How many transactions a session with this host may have, as far as the site has shown a limit. If one transaction with one
    /// recipient is left, no answer could be proven, so what the host has had room for counts more.
    pub fn transactions_allowed(&self, host: impl FnOnce() -> Room) -> u32 {
        if self.has_one_recipient() { u32::from(host().transactions).max(1) } else { self.transactions.limit }
    }

    /// Whether the site takes one transaction with one recipient in a session, as far as it has shown.
    fn has_one_recipient(&self) -> bool {
        self.transactions.limit == 1 && self.transaction_recipients.limit == 1
    }

    /// Whether sessions with the site have a low limit of refusals, by the profile or by the behaviour of the site.
    pub fn bounds_errors(&self) -> bool {
        self.errors.limit < self.errors.most || self.errors.most <= PACE_ERRORS_INITIAL
    }

    /// Number of refusals after which the site ends a session or slows down, as far as known, and at most what the profile allows.
    pub fn errors_allowed(&self) -> u32 {
        self.errors.limit
    }

    /// How many more recipients a session may have, by the profile and as far as the site has said, and how many more refusals the
    /// profile allows.
    pub fn left(&self, tally: &Tally) -> (usize, usize) {
        let said = if self.says_full { self.recipients.limit } else { u32::MAX };
        let recipients = self.ceiling.session_recipients.min(said).saturating_sub(tally.asked);
        let refusals = self.ceiling.session_refusals.saturating_sub(tally.errors);
        (recipients as usize, refusals as usize)
    }

    /// The site ended a session that had got answers, while `open` sessions were open. Which limit the session reached can only be
    /// guessed:
    /// - if the session ended at MAIL: the limit of transactions;
    /// - otherwise, if recipients were refused: the limit of refusals;
    /// - otherwise: the limit of transactions if the session ended between two transactions, or the limit of recipients if it ended
    ///   at a recipient.
    pub fn on_cut_off(&mut self, tally: &Tally, end: End, open: u32) {
        if end == End::Mail {
            // The site refused the last transaction, so it allows only those before.
            self.transactions.lower(tally.transactions.saturating_sub(1));
        } else if tally.errors > 0 {
            // If a site allows far fewer refusals than before, it is under stress (Postfix: all its processes are in use).
            if tally.errors < self.budget.min(self.errors.limit) / 2 {
                self.halve(open);
            }
            self.errors.lower(tally.errors);
            self.budget = self.budget.min(self.errors.limit);
        } else if end == End::Between {
            self.transactions.lower(tally.transactions.saturating_sub(1));
        } else {
            self.recipients.lower(tally.answers);
        }
    }

    /// The site broke the protocol or fell silent when another transaction was to begin.
    pub fn on_broke_between(&mut self, tally: &Tally) {
        self.transactions.lower(tally.transactions.saturating_sub(1));
    }

    /// After this number of refusals, the site slows down with each further one, so a new session is quicker.
    pub fn on_tarpitted(&mut self, errors: u32) {
        self.errors.lower(errors);
        self.budget = self.budget.min(self.errors.limit);
    }

    /// The site answered for this number of recipients in a transaction, and took no more.
    pub fn on_transaction_full(&mut self, recipients: u32) {
        self.transaction_recipients.lower(recipients);
    }

    /// The site answered for this number of recipients in a session, and took no more, even in another transaction.
    pub fn on_session_full(&mut self, recipients: u32) {
        self.says_full = true;
        self.recipients.lower(recipients);
    }

    /// Whether a session with this host has no room for a recipient and the proof of its answer, as the site has said. A site that
    /// only ends its sessions may have another reason, and the limits of a site may be those of another of its hosts: what this host
    /// has taken before shows that.
    pub fn has_no_room_for_proof(&self, host: impl FnOnce() -> Room) -> bool {
        let few = self.recipients.limit == 2 && self.errors.limit <= REFUSALS_CARRIED_MAX;
        let is_full = self.says_full && (self.recipients.limit == 1 || few);
        let one = self.has_one_recipient();
        (is_full || one) && {
            let host = host();
            is_full && u32::from(host.recipients) <= self.recipients.limit || one && host.transactions <= 1
        }
    }

    /// The limits of a session that the site has shown, each with what it limits.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let limits = [
            ("recipients", &self.recipients),
            ("refusals", &self.errors),
            ("transactions", &self.transactions),
            ("recipients in a transaction", &self.transaction_recipients),
        ];
        limits
            .into_iter()
            .filter(|(_, learned)| learned.limit < learned.most)
            .map(|(of, learned)| (of, learned.limit))
    }

    /// We end a session that the site has not ended. If the session has reached limits, later sessions may try more.
    pub fn on_spent(&mut self, tally: &Tally) {
        if tally.errors >= self.budget {
            self.errors.kept();
            self.budget = self.budget.saturating_mul(2).min(self.errors.limit);
        }
        if tally.asked >= self.recipients.limit {
            self.recipients.kept();
        }
        // Most sessions keep their last transaction for a proof, and may end without having needed it.
        if tally.transactions > 0 && tally.transactions >= self.transactions.limit.saturating_sub(1) {
            self.transactions.kept();
        }
    }

    /// How many recipients the next transaction of a session may have. 0 means that a new session is needed. The number of
    /// transactions is not looked at: see [`SitePace::transactions_allowed`].
    pub fn next_transaction(&self, tally: &Tally) -> usize {
        let left = self.budget.saturating_sub(tally.errors);
        let left = left.max(self.stretched(left, tally));
        // Where the site has said how many it takes, the control recipient needs a place too.
        let limit = self.recipients.limit;
        let kept = u32::from(self.says_full && limit < self.recipients.most && limit > 1);
        let left = left.min(limit.saturating_sub(tally.asked + kept));
        left.min(self.transaction_recipients.limit) as usize
    }

    /// The number of recipients that probably use up no more than half of the `left` refusals, judging by the replies of the
    /// session so far. Even if all recipients are refused, the limit in `errors` is kept.
    fn stretched(&self, left: u32, tally: &Tally) -> u32 {
        if left == 0 || tally.answers < PACE_STRETCH_ANSWERS {
            return 0;
        }
        let likely = left.saturating_mul(tally.answers) / tally.errors.saturating_add(1).saturating_mul(2);
        likely.min(self.errors.limit.saturating_sub(tally.errors))
    }

    fn halve(&mut self, open: u32) {
        self.never_pushed = false;
        self.window = (self.window.min(f64::from(open)) / 2.0).max(1.0);
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.starts = (self.starts + elapsed * self.starts_a_second()).min(self.starts_max());
        self.filled = self.filled.max(now);
    }

    fn starts_a_second(&self) -> f64 {
        f64::from(self.ceiling.starts_a_minute) * self.share / 60.0
    }

    /// The largest number of sessions that may begin at the same moment.
    fn starts_max(&self) -> f64 {
        let most = f64::from(self.ceiling.starts_a_minute.min(self.ceiling.sessions));
        (most * self.share).max(1.0)
    }
}

/// A limit that a site shows by its behaviour. The limit is raised again step by step, because the site may have been under stress,
/// or a recipient may have been the cause. If a raised limit turns out to be too high, the next attempt comes later.
#[derive(Debug)]
struct Learned {
    /// The limit that holds now, at most `most`.
    limit: u32,
    /// The highest limit, which holds until the site shows a lower one.
    most: u32,
    /// How many times in a row the limit was reached without an objection from the site.
    times_kept: u32,
    /// After this number of times, the limit is raised.
    keeps_to_raise: u32,
}

impl Learned {
    fn new(most: u32) -> Learned {
        Learned { limit: most, most, times_kept: 0, keeps_to_raise: PACE_TRY_AFTER }
    }

    /// The limit is at most `limit` from now on, but at least 1: with 0, nothing could be asked.
    fn lower(&mut self, limit: u32) {
        if self.limit < self.most && limit <= self.limit {
            self.keeps_to_raise = (self.keeps_to_raise * 2).min(PACE_TRY_AFTER_MAX);
        }
        self.times_kept = 0;
        self.limit = self.limit.min(limit.max(1));
    }

    /// A session or transaction reached the limit, and the site did not object. After `keeps_to_raise` times the limit is doubled.
    fn kept(&mut self) {
        self.times_kept += 1;
        if self.times_kept >= self.keeps_to_raise {
            self.times_kept = 0;
            self.limit = self.limit.saturating_mul(2).min(self.most);
        }
    }
}
