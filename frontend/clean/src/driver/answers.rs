//! The handling of answers, and the end of the wait for missing answers.

use super::super::CleanError;
use super::super::retry::is_closed;
use super::super::stall::{Decision, Open, millis};
use super::super::stop::REPLY_TIME_MAX;
use super::super::time_left::Cause;
use super::{Answered, AskedRow, Outcome, Run, count, nothing_checked, outage_text, stopped};
use crate::checker::is_without_mail_host;
use api::Reason;
use engine::Outage;
use engine::proto::retry::{CLEAN_BUDGET, CLEAN_LATER, Tries, is_about_address, left, may_tell_more};
use lists::left::Left;
use lists::numbers::time_text;
use lists::{Results, reasons};
use std::time::{Duration, Instant};

/// Longest wait of the loop for an answer. Between waits it shows the progress and flushes files.
const PATIENCE: Duration = Duration::from_millis(200);
/// A pause while many rows are in progress, so that answers are taken in groups: a wake-up costs more than an answer.
const NAP: Duration = Duration::from_millis(1);
/// The pause follows fewer than `NAP_BELOW` answers, if more than `NAP_UNDER_WAY` addresses are in progress.
const NAP_BELOW: usize = 64;
const NAP_UNDER_WAY: usize = 1000;
/// After this time without any answer to rows in progress, the engine counts as stuck.
const ENGINE_SILENCE_MAX: Duration = Duration::from_secs(30 * 60);

impl Run<'_> {
    /// Waits for answers and takes all that are available.
    pub(super) fn receive(&mut self) -> Result<(), CleanError> {
        let now = self.now();
        let due = self.put_off.next_due(now).filter(|_| self.has_room());
        let due = due.map(|due| Duration::from_millis(due.saturating_sub(now)));
        let patience = if self.may_read() { Duration::ZERO } else { due.unwrap_or(PATIENCE).min(PATIENCE) };
        self.note_replies(now);
        let mut answers = std::mem::take(&mut self.answers);
        self.parts.checker.answers(patience, &mut answers);
        if !answers.is_empty() || self.budget.len() == 0 {
            self.answered_at = Instant::now();
        } else if self.answered_at.elapsed() > ENGINE_SILENCE_MAX {
            return Err(CleanError::failed("the engine does not answer; try again, and report this bug"));
        }
        let few = answers.len() < NAP_BELOW && self.budget.len() > NAP_UNDER_WAY && !self.may_read();
        let none = answers.is_empty();
        let now = self.now();
        for answered in answers.drain(..) {
            self.on_answer(answered, now)?;
        }
        self.answers = answers;
        // Outages and stalls are decided only if there are no answers to take.
        if none {
            self.end_outage()?;
            self.end_stall(now)?;
        }
        if few {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Notes for which addresses servers have replied whose answers come later. Only the time left depends on it.
    fn note_replies(&mut self, now: u64) {
        if !self.parts.progress.is_shown() {
            return;
        }
        self.parts.checker.held(&mut self.held);
        for ticket in self.held.drain(..) {
            if let Some(asked) = self.budget.row(ticket)
                && !std::mem::replace(&mut asked.is_held, true)
            {
                self.time_left.on_reply(asked.domain, now);
            }
        }
    }

    /// The run ends: takes the replies that servers give within [`REPLY_TIME_MAX`]. An address without a clear answer stays open.
    pub(super) fn receive_last(&mut self) -> Result<(), CleanError> {
        let end = Instant::now() + REPLY_TIME_MAX;
        self.parts.checker.drain();
        while self.budget.len() > self.budget.unsent.len() {
            let patience = end.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                break;
            }
            let mut answers = std::mem::take(&mut self.answers);
            self.parts.checker.answers(patience.min(PATIENCE), &mut answers);
            for answered in answers.drain(..) {
                match answered.last_reason() {
                    Some(reason) if reason != Reason::Unverifiable || !may_tell_more(answered.rule) => {
                        self.conclude(&answered, reason)?;
                    }
                    _ => {
                        self.budget.release(answered.ticket);
                        self.unanswered += 1;
                    }
                }
            }
            self.answers = answers;
        }
        Ok(())
    }

    fn on_answer(&mut self, answered: Answered, now: u64) -> Result<(), CleanError> {
        let Answered { ticket, result, .. } = answered;
        let Some(asked) = self.budget.row(ticket) else { return Ok(()) };
        match result {
            Ok(reason) => self.on_verdict(answered, reason, now),
            Err(Outage::Unavailable) => {
                let (at, trouble) = (self.started.elapsed(), self.parts.checker.trouble());
                let is_from_start = trouble.as_ref().is_some_and(|trouble| trouble.is_from_start);
                let why = outage_text(trouble);
                if self.outage.on_outage(at, is_from_start) {
                    return Err(nothing_checked(&why));
                }
                if self.outage.is_news(at) {
                    let rest = self.outage.gives_up_in(at, is_from_start).unwrap_or_default();
                    let rest = time_text(rest);
                    tracing::warn!("{why}; the run gives up if this lasts for another {rest} (--max-outage)");
                }
                let pause = millis(self.outage.pause(is_from_start));
                let due = self.put_off.postpone(&mut self.parts.state, asked, now, pause)?;
                self.time_left.on_delay(asked, Cause::Connection, now, due, 0);
                self.budget.release(ticket);
                Ok(())
            }
            Err(Outage::SiteFull) if self.stall.is_ending() => self.leave(answered, Left::SILENT, None),
            Err(Outage::SiteFull) => {
                self.put_off.on_site_full(&mut self.parts.state, asked)?;
                self.budget.release(ticket);
                Ok(())
            }
            Err(Outage::OverBudget { after, .. }) => self.on_spent_budget(answered, after, now),
            Err(Outage::Stopping) => Err(stopped()),
        }
    }

    fn on_verdict(&mut self, answered: Answered, reason: Reason, now: u64) -> Result<(), CleanError> {
        let Answered { ticket, rule, retry_after, .. } = answered;
        let Some(asked) = self.budget.row(ticket) else { return Ok(()) };
        let recalled = self.stall.is_recalling();
        let is_known = reason != Reason::Unverifiable;
        if is_known || (!recalled && is_about_address(rule, retry_after)) {
            self.stall.on_progress(now);
        }
        self.outage.on_verdict(reason);
        self.put_off.answered(asked);
        if is_without_mail_host(rule, reason) {
            let text = std::str::from_utf8(asked.address()).unwrap_or_default();
            if let Some((_, domain)) = text.rsplit_once('@') {
                self.parts.checker.no_mail_host(domain);
            }
        }
        if is_known || (retry_after.is_none() && !recalled) {
            return self.conclude(&answered, reason);
        }
        let since = asked.since.unwrap_or(self.stall.progress());
        let left = left(self.parts.waits.later, since, now);
        let tries = Tries { retries: asked.retries, ..Tries::default() };
        let Some(delay) = retry_after.and_then(|wanted| CLEAN_LATER.delay(tries, wanted, left)) else {
            return self.leave(answered, rule, retry_after);
        };
        asked.since = Some(since);
        asked.retries += 1;
        self.summary.retries += 1;
        let due = self.put_off.postpone(&mut self.parts.state, asked, now, millis(delay))?;
        let until = now + millis(left);
        self.time_left.on_delay(asked, Cause::of_rule(rule), now, due, until);
        self.budget.release(ticket);
        Ok(())
    }

    /// The budget of refused recipients of the row's site is spent for now.
    fn on_spent_budget(&mut self, answered: Answered, after: Duration, now: u64) -> Result<(), CleanError> {
        let ticket = answered.ticket;
        let Some(asked) = self.budget.row(ticket) else { return Ok(()) };
        self.put_off.answered(asked);
        let since = asked.since.unwrap_or(self.stall.progress());
        let left = left(self.parts.waits.later, since, now);
        let Some(delay) = CLEAN_BUDGET.delay(Tries::default(), after, left) else {
            return self.leave(answered, Left::BUDGET, Some(after));
        };
        asked.since = Some(since);
        let due = self.put_off.postpone(&mut self.parts.state, asked, now, millis(delay))?;
        self.time_left.on_delay(asked, Cause::Budget, now, due, now + millis(left));
        self.budget.release(ticket);
        Ok(())
    }

    /// Ends the run if the resolvers have been out of order for too long. A lookup without an answer takes seconds, so the end does
    /// not wait for one.
    fn end_outage(&self) -> Result<(), CleanError> {
        if !self.outage.is_on() {
            return Ok(());
        }
        let Some(trouble) = self.parts.checker.trouble() else { return Ok(()) };
        match self.outage.gives_up_in(self.started.elapsed(), trouble.is_from_start) {
            Some(Duration::ZERO) => Err(nothing_checked(&outage_text(Some(trouble)))),
            _ => Ok(()),
        }
    }

    /// Ends the wait for servers that no longer answer.
    fn end_stall(&mut self, now: u64) -> Result<(), CleanError> {
        let heard = self.parts.checker.answer_count();
        if std::mem::replace(&mut self.spoken, heard) != heard {
            self.stall.on_progress(now);
        }
        let under_way = self.budget.len() - self.budget.unsent.len();
        if under_way == 0 {
            self.stall.on_empty();
        }
        let (crowded, unread) = (self.put_off.crowded_len(), !self.ended);
        let outage = self.outage.is_on();
        let decision = self.stall.decide(now, Open { under_way, crowded, unread, outage });
        if decision != Decision::Wait {
            self.parts.checker.recall();
        }
        if decision == Decision::End {
            self.end_crowded()?;
        }
        Ok(())
    }

    /// Ends all rows that wait for room at a site.
    fn end_crowded(&mut self) -> Result<(), CleanError> {
        let mut row = AskedRow::default();
        while self.put_off.next_crowded(&mut self.parts.state, &mut row)? {
            let ticket = self.budget.take(|slot| {
                std::mem::swap(slot, &mut row);
                Ok(())
            })?;
            let answered = Answered::new(ticket, Err(Outage::SiteFull));
            self.leave(answered, Left::SILENT, None)?;
        }
        Ok(())
    }

    /// Takes a reason that no later try in this run changes.
    fn conclude(&mut self, answered: &Answered, reason: Reason) -> Result<(), CleanError> {
        if reason == Reason::Unverifiable && answered.learned.is_none() {
            self.summary.settled.add(answered.rule, Duration::ZERO);
        }
        let outcome = self.outcome(reason, answered);
        self.settle(answered.ticket, outcome, false)
    }

    /// Leaves the row unverifiable for now: a later try, after `wait` if known, may tell more.
    fn leave(
        &mut self,
        answered: Answered,
        rule: &'static str,
        wait: Option<Duration>,
    ) -> Result<(), CleanError> {
        if answered.learned.is_none() {
            self.summary.left.add(rule, wait.unwrap_or_default());
        }
        let outcome = self.outcome(Reason::Unverifiable, &Answered { rule, ..answered });
        self.settle(answered.ticket, outcome, Cause::of_rule(rule).is_silence())
    }

    /// Stores the result of the address. `is_silence`: no server has replied.
    fn settle(&mut self, ticket: u64, outcome: Outcome, is_silence: bool) -> Result<(), CleanError> {
        let Some(asked) = self.budget.row(ticket) else { return Ok(()) };
        self.seen.settle(&mut self.parts.state, asked.row, outcome)?;
        self.rows.settled(asked.row);
        self.time_left.on_result(asked.domain, asked.is_held, is_silence, millis(self.checked_at));
        if let Some(reason) = outcome.reason() {
            self.found.add(reason);
        }
        let mut is_full = false;
        if self.rows.is_ordered() {
            self.unwritten += 1;
            is_full = self.journal.add(asked.row, asked.key, outcome);
        } else {
            self.closed.flush()?;
            self.parts.sink.write(asked.prefix(), outcome)?;
            count(&mut self.summary, outcome.code(), Some(asked.domain));
        }
        self.budget.release(ticket);
        if is_full { self.write().and_then(|()| self.flush()) } else { Ok(()) }
    }

    /// The result of a check that ends now. Evidence of the operator's own mail replaces this reason.
    pub(super) fn outcome(&mut self, reason: Reason, answered: &Answered) -> Outcome {
        let Answered { rule, reply, provider, score, learned, .. } = *answered;
        let (reason, rule) = learned.unwrap_or((reason, rule));
        let code = reasons::code(reason);
        if reason == Reason::Unverifiable
            && is_closed(rule)
            && let Some(asked) = self.budget.row(answered.ticket)
        {
            self.closed.add(asked.key);
        }
        if self.marker.is_none() {
            return Outcome::of_code(code);
        }
        let reply = reply.filter(|_| learned.is_none());
        let enhanced_code =
            reply.and_then(|reply| reply.status).map_or(String::new(), |code| code.to_string());
        let results = Results {
            rule,
            scope: reply.map_or("", |reply| reply.scope.as_str()),
            reply_code: reply.map(|reply| reply.code),
            enhanced_code: &enhanced_code,
            provider,
            score,
            checked_at: Some(self.unix_started + self.checked_at.as_secs()),
            ..Results::default()
        };
        self.parts.sink.outcomes.new_outcome(code, &results)
    }
}
