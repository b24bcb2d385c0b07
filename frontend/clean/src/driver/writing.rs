//! What becomes of a row that was read: it is known already, it is a duplicate, or its address is checked.

use super::super::CleanError;
use super::super::retry::{FAST_REASONS, FULL_REASONS, is_found_out};
use super::super::rows::Waiting;
use super::super::summary::Summary;
use super::{Answered, NO_DOMAIN, Outcome, Run, count};
use api::Reason;
use lists::{EarlierResult, reasons};

impl Run<'_> {
    /// Decides what to do with the row that was read.
    pub(super) fn take(&mut self) -> Result<(), CleanError> {
        let number = self.read - 1;
        self.summary.empty += u64::from(self.row.is_blank);
        let Some(address) = self.row.address.take() else {
            let written = self.written(false)?;
            self.mark(None);
            let kept = match written {
                Some(outcome) => Some(outcome),
                None => self.kept_result(false)?,
            };
            self.summary.of_earlier_run += u64::from(written.is_some_and(is_unverifiable));
            self.summary.of_earlier_output +=
                u64::from(written.is_none() && kept.is_some_and(is_unverifiable));
            let outcome = match kept {
                Some(outcome) => outcome,
                None => {
                    let invalid = Reason::InvalidSyntax;
                    self.outcome(invalid, &Answered::new(0, Ok(invalid)))
                }
            };
            return self.take_known(number, None, outcome, written.is_some());
        };
        let domain = self.summary.domains.number(address.domain().as_str());
        let earlier = self.seen.earlier(&mut self.parts.state, &address, number)?;
        if earlier.is_some() && self.parts.drop_duplicates {
            self.summary.duplicates += 1;
            self.summary.dropped += 1;
            return Ok(());
        }
        self.summary.duplicates += u64::from(earlier.is_some());
        let written = self.written(true)?;
        if written.is_none() {
            self.mark(Some((&address, domain)));
        }
        let kept = self.kept_result(true)?;
        if let Some(written) = written {
            self.fits_others(written, earlier, kept)?;
        }
        if let Some(outcome) = written.or(kept) {
            // An interrupted run took it from the earlier output, too, if that has it.
            let is_known = kept.is_some() || earlier.is_none() && self.known_result()?.is_some();
            let Summary { known, of_earlier_output, of_earlier_run, .. } = &mut self.summary;
            *known += u64::from(is_known && earlier.is_none());
            let origin = if is_known { of_earlier_output } else { of_earlier_run };
            *origin += u64::from(is_unverifiable(outcome) && (kept.is_some() || earlier.is_none()));
            if earlier.is_none() {
                self.found(number, outcome)?;
            }
            return self.take_known(number, Some(domain), outcome, written.is_some());
        }
        let Some(first) = earlier else {
            if let Some(outcome) = self.journaled()? {
                self.summary.resumed_results += 1;
                self.summary.of_earlier_run += u64::from(is_unverifiable(outcome));
                self.found(number, outcome)?;
                self.unwritten += 1;
                // Its result is not in the output yet, as that of a row that is asked about.
                return self.queue(number, domain, Outcome::default());
            }
            return match self.known_result()? {
                Some(outcome) => {
                    self.summary.known += 1;
                    if is_unverifiable(outcome) {
                        self.summary.of_earlier_output += 1;
                        self.closed.add(self.seen.last_key());
                    }
                    self.found(number, outcome)?;
                    self.take_known(number, Some(domain), outcome, false)
                }
                None => self.ask(number, domain, address),
            };
        };
        let outcome = self.seen.outcome(&mut self.parts.state, first)?;
        if outcome.code() != 0 {
            self.take_known(first, Some(domain), outcome, false)
        } else {
            self.rows.repeat(first);
            self.queue(first, domain, outcome)
        }
    }

    /// Takes the result of an address, which was found out earlier.
    fn found(&mut self, number: u64, outcome: Outcome) -> Result<(), CleanError> {
        if let Some(reason) = outcome.reason() {
            self.found.add(reason);
        }
        self.seen.settle(&mut self.parts.state, number, outcome)
    }

    /// The result that an interrupted run has written for the row.
    ///
    /// # Errors
    /// The file cannot be read, is of another list, or shows that the run had other options.
    fn written(&mut self, has_address: bool) -> Result<Option<Outcome>, CleanError> {
        if !self.parts.sink.is_replaying() {
            return Ok(None);
        }
        let written = self.parts.sink.known(&mut self.parts.state, &self.row.prefix)?;
        match written.and_then(Outcome::reason).filter(|_| !self.has_other_results()) {
            // Every cell without an address has this reason, and no other cell.
            Some(reason) if has_address == (reason == Reason::InvalidSyntax) => {
                Err(self.parts.sink.made_otherwise("another --column): repeat the command with that one"))
            }
            Some(reason) if !self.parts.is_fast && FAST_REASONS.contains(&reason) => {
                let how = "--fast; now without --fast): repeat the command with --fast";
                Err(self.parts.sink.made_otherwise(how))
            }
            _ => Ok(written),
        }
    }

    /// Compares a written result with those that its run can only have written too: the `kept` one of `--retry`, and in a complete
    /// output that of the `earlier` row with this address.
    ///
    /// # Errors
    /// They differ, so the run had another INPUT or another column.
    fn fits_others(
        &mut self,
        written: Outcome,
        earlier: Option<u64>,
        kept: Option<Outcome>,
    ) -> Result<(), CleanError> {
        let other = "): repeat the command with that one";
        // Which unverifiable rows are kept depends on a file that may have changed since.
        if kept.is_some_and(|kept| !is_unverifiable(kept) && kept.code() != written.code()) {
            return Err(self.parts.sink.made_otherwise(&format!("another INPUT{other}")));
        }
        // Without an order, a resumed run may have checked the first row of an address after another one was written.
        let is_same_check =
            self.rows.is_ordered() && self.parts.sink.is_complete() && !self.has_other_results();
        if let Some(first) = earlier.filter(|_| is_same_check)
            && self.seen.outcome(&mut self.parts.state, first)?.code() != written.code()
        {
            return Err(self.parts.sink.made_otherwise(&format!("another --column{other}")));
        }
        Ok(())
    }

    /// Whether results come from an earlier output, in which the addresses may have been corrected since.
    fn has_other_results(&self) -> bool {
        self.parts.known.is_some() || self.parts.retried.is_some()
    }

    /// Compares the reasons of a complete output with the mode of this run. Evidence of the operator's own mail gives fast checks some
    /// reasons of full ones, but not for a whole list.
    ///
    /// # Errors
    /// The output was made by full checks, and this run makes fast ones.
    pub(super) fn fits_complete(&self) -> Result<(), CleanError> {
        let has_any = |reasons: &[Reason]| reasons.iter().any(|reason| self.summary.reasons.of(*reason) > 0);
        let is_full = has_any(&FULL_REASONS) && !has_any(&FAST_REASONS) && !self.has_other_results();
        let how = "without --fast; now --fast): repeat the command without --fast";
        match self.parts.is_fast && is_full && self.parts.sink.is_complete() {
            true => Err(self.parts.sink.made_otherwise(how)),
            false => Ok(()),
        }
    }

    /// The result that the row has in the earlier output, unless it is open.
    fn kept_result(&mut self, has_address: bool) -> Result<Option<Outcome>, CleanError> {
        if self.parts.retried.is_none() {
            return Ok(None);
        }
        let Some(earlier) = self.parts.source.earlier_result() else { return Ok(None) };
        let key = self.seen.last_key();
        let is_kept = is_found_out(&earlier)
            || has_address
                && earlier.results.rule.is_empty()
                && self.closed.keeps(&mut self.parts.state, key, key)?;
        let EarlierResult { reason, results } = earlier;
        Ok(is_kept.then(|| self.parts.sink.outcomes.written(reasons::code(reason), &results)))
    }

    /// The result of the address that an interrupted run stored, because its row could not be written yet.
    fn journaled(&mut self) -> Result<Option<Outcome>, CleanError> {
        match &self.journaled {
            Some(table) => {
                let bits = table.get(&mut self.parts.state, self.seen.last_key())?;
                Ok(bits.map(Outcome::from_bits))
            }
            None => Ok(None),
        }
    }

    /// The result of the address in an earlier output, if it is new enough.
    fn known_result(&mut self) -> Result<Option<Outcome>, CleanError> {
        match &self.known {
            Some(known) => known.get(&mut self.parts.state, self.seen.last_key()),
            None => Ok(None),
        }
    }

    /// Adds to the row what the lists say about its address, if it has further columns.
    fn mark(&mut self, address: Option<(&engine::proto::address::Address, u32)>) {
        if let Some(marker) = &mut self.marker {
            marker.mark(address, self.row.suggestion.as_ref(), &self.row.prefix);
        }
    }

    /// Takes a row with a known result. `done`: the output contains it already.
    fn take_known(
        &mut self,
        first: u64,
        domain: Option<u32>,
        outcome: Outcome,
        done: bool,
    ) -> Result<(), CleanError> {
        if done {
            self.summary.resumed += 1;
        } else if self.rows.is_ordered() {
            return self.queue(first, domain.unwrap_or(NO_DOMAIN), outcome);
        } else {
            let row = self.marker.as_ref().map_or(&*self.row.prefix, |marker| marker.row());
            self.parts.sink.write(row, outcome)?;
        }
        count(&mut self.summary, outcome.code(), domain);
        Ok(())
    }

    /// Adds the row to those that wait to be written.
    pub(super) fn queue(&mut self, first: u64, domain: u32, outcome: Outcome) -> Result<(), CleanError> {
        let row = self.marker.as_ref().map_or(&*self.row.prefix, |marker| marker.row());
        self.rows.push(&mut self.parts.state, Waiting::new(first, domain, outcome), row)
    }
}

fn is_unverifiable(outcome: Outcome) -> bool {
    outcome.reason() == Some(Reason::Unverifiable)
}
