//! The files that a run has written, and the probable typing mistakes in the list.

use super::{Extent, Summary, UNDATED};
use engine::proto::lists::Lists;
use lists::numbers::{counted, grouped};
use lists::report::ReportTypo;
use spill::closed;
use std::fmt;

impl Summary {
    /// Looks for domains that are probably typing mistakes. Domains without counts of their own are not examined.
    pub(crate) fn find_typos(&mut self, lists: &Lists) {
        let typo = |(domain, rows): (&str, lists::DomainRows)| {
            let suggestion = lists.suggest(domain)?.into_owned();
            Some(ReportTypo { domain: domain.to_owned(), suggestion, rows: rows.rows })
        };
        self.typos = self.domains.sorted().into_iter().filter_map(typo).collect();
    }

    /// The files for scripts.
    pub(super) fn files_json(&self) -> Vec<serde_json::Value> {
        let file = |file: &super::WrittenFile| {
            serde_json::json!({
                "file": file.path.to_string_lossy(),
                "rows": file.rows,
                "class": file.class.map(lists::Class::as_str),
                "cut_cells": file.cut_cells,
            })
        };
        self.files.iter().map(file).collect()
    }

    /// Writes the names of the files for people.
    pub(super) fn write_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file_lines().iter().try_for_each(|line| writeln!(f, "wrote {line}"))
    }

    fn file_lines(&self) -> Vec<String> {
        let line = |file: &super::WrittenFile| {
            let mut line = format!("{} ({})", file.path.display(), counted(file.rows, "row", "rows"));
            if let Some(closed) = self.closed.as_ref().filter(|path| **path == closed::beside(&file.path)) {
                let flag = if matches!(self.extent, Extent::Part(_)) { "--join" } else { "--retry" };
                line += &format!(" and {}, which {flag} needs", closed.display());
            }
            if file.cut_cells > 0 {
                let cells = counted(file.cut_cells, "cell is", "cells are");
                line += &format!(
                    "; {cells} not complete, because a spreadsheet has at most 32,767 characters in a cell and 16,384 columns"
                );
            }
            line
        };
        self.files.iter().map(line).collect()
    }

    /// The facts about a run for its report, each with a name.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut add = |name: &str, text: String| facts.push((name.to_owned(), text));
        if let Some(reading) = &self.reading {
            add("Read as", reading.description().to_owned());
            if !reading.notes().is_empty() {
                add("Unusual", reading.notes().join("\n"));
            }
        }
        if !self.files.is_empty() {
            add("Files", self.file_lines().join("\n"));
        }
        if self.duplicates > 0 {
            let left_out = if self.dropped > 0 { ", left out" } else { "" };
            add("Duplicates", format!("{}{left_out}", self.rows_text(self.duplicates)));
        }
        if self.without_address > 0 {
            let rows = self.rows_text(self.without_address);
            add("Without an address", format!("{rows}: {}", self.without_address_text()));
        }
        if self.known > 0 {
            let mut text = super::addresses(self.known);
            if self.known_undated {
                text += &format!("\n{UNDATED}");
            }
            text.extend(self.known_lacking_text().map(|lacking| format!("\n{lacking}")));
            add("Results used again", text);
        }
        if self.retries > 0 {
            add("Retries because a server answered \"later\" or not at all", grouped(self.retries));
        }
        if let Some(text) = self.resumed_text() {
            add("Of an earlier run", text);
        }
        facts
    }
}
