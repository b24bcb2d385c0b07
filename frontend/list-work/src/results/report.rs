//! The report about a list. Its page is made when all rows are counted, so all pieces before the last one are empty.

use super::Piece;
use super::rows::{AnsweredRows, NextRow};
use api::Reason;
use engine::proto::lists::Lists;
use lists::numbers::grouped;
use lists::report::{Report, ReportTypo, page};
use lists::{Domains, ReasonCounts};
use std::sync::Arc;

/// Number of domains that are compared with well-known ones for one piece.
const PIECE_DOMAINS: usize = 200;

/// What a report needs besides the list.
#[derive(Clone)]
pub struct ReportRequest {
    /// The lists by which typing mistakes are found.
    pub lists: Arc<Lists>,
    /// The name of the list.
    pub name: String,
    /// The time at which the check ended in UTC, as text.
    pub date: String,
    /// The version of the program.
    pub version: String,
    /// The path of the list's page.
    pub back: String,
}

/// Counts the rows of a list, and makes its report.
pub(super) struct ReportMaker {
    rows: AnsweredRows,
    lists: Arc<Lists>,
    report: Report,
    domains: Domains,
    reasons: ReasonCounts,
    unasked: u64,
    /// Number of domains that were compared; `None` while rows are counted.
    compared: Option<usize>,
}

impl ReportMaker {
    /// A report about all rows of a list.
    pub fn new(rows: AnsweredRows, request: ReportRequest) -> ReportMaker {
        let ReportRequest { lists, name, date, version, back } = request;
        let report = Report { name, date, version, back: Some(back), ..Report::default() };
        let (domains, reasons) = (Domains::default(), ReasonCounts::default());
        ReportMaker { rows, lists, report, domains, reasons, unasked: 0, compared: None }
    }

    /// Works for a short time, and returns the next piece.
    pub fn piece(&mut self) -> Result<Piece, String> {
        match self.compared {
            None => {
                if self.count()? {
                    self.report.set_domains(&self.domains);
                    self.compared = Some(0);
                }
                Ok(Piece { bytes: Vec::new(), is_last: false })
            }
            Some(compared) if compared < self.report.domains.len() => {
                self.compare(compared);
                Ok(Piece { bytes: Vec::new(), is_last: false })
            }
            Some(_) => Ok(Piece { bytes: self.page().into_bytes(), is_last: true }),
        }
    }

    /// Counts rows. Returns whether all are counted.
    fn count(&mut self) -> Result<bool, String> {
        let began = self.rows.source.worked();
        while self.rows.goes_on(began) {
            let reason = match self.rows.next()? {
                NextRow::Row(reason) => reason,
                NextRow::Unasked => {
                    self.unasked += 1;
                    continue;
                }
                NextRow::Later => return Ok(false),
                NextRow::End => return Ok(true),
            };
            self.reasons.add(reason);
            if let Some(address) = &self.rows.row.address {
                let number = self.domains.number(address.domain().as_str());
                self.domains.count(number, reason);
            }
        }
        Ok(false)
    }

    /// Looks for typing mistakes among some domains.
    fn compare(&mut self, from: usize) {
        let to = (from + PIECE_DOMAINS).min(self.report.domains.len());
        for domain in &self.report.domains[from..to] {
            if let Some(suggestion) = self.lists.suggest(&domain.name) {
                self.report.typos.push(ReportTypo {
                    domain: domain.name.clone(),
                    suggestion: suggestion.into_owned(),
                    rows: domain.rows,
                });
            }
        }
        self.compared = Some(to);
    }

    fn page(&mut self) -> String {
        let (list, report) = (&self.rows.list, &mut self.report);
        report.reasons = self.reasons.sorted();
        let unverifiable = list.counts.iter().find(|(reason, _)| *reason == Reason::Unverifiable);
        report.set_causes(&list.causes, unverifiable.map_or(0, |(_, count)| *count));
        report.duplicates = Some(list.addresses - list.distinct).filter(|_| !list.by_row);
        let mut fact = |name: &str, number: u64| report.facts.push((name.to_owned(), grouped(number)));
        fact("Rows", list.rows);
        fact("Different addresses", list.distinct);
        fact("Rows without an address", list.rows - list.addresses);
        if self.unasked > 0 {
            fact("Rows not checked", self.unasked);
        }
        fact("Credits charged", list.charged);
        let source = &self.rows.source;
        let read_as = source.description();
        let notes = source.notes().lines(source.shape().encoding.name());
        report.facts.push(("Read as".to_owned(), read_as));
        if let Some(found) = list.found.as_ref().filter(|found| !found.others.is_empty()) {
            let others = format!("{} (not checked)", found.others.join(", "));
            report.facts.push(("Other columns with addresses".to_owned(), others));
        }
        if !notes.is_empty() {
            report.facts.push(("Unusual".to_owned(), notes.join("\n")));
        }
        page(report)
    }
}
