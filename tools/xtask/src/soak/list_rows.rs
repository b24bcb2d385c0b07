//! The rows of the lists of the campaigns, and how they are read back.
//!
//! A list has duplicates in other letter case, rows without an address, and values with quotes and line ends.

use crate::failure::{Context, Failure};
use mailnet::Scenario;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;

/// The names of the columns in the output.
pub const CLEANED_HEADER: &str = "n,email,note,deliverable,reason";

/// The rows of a list, by their numbers.
pub struct ListRows {
    /// The seed of all draws.
    pub seed: u64,
    /// The number of rows.
    pub lines: u64,
    /// The domain of a row that is no duplicate, from a random number and the number of the row.
    pub domain: Box<dyn Fn(u64, u64) -> String>,
    /// The mail internet that answers.
    pub scenario: Scenario,
}

impl ListRows {
    /// The rows for a mail internet with this scenario.
    ///
    /// # Errors
    ///
    /// The scenario is invalid.
    pub fn new(
        seed: u64,
        lines: u64,
        scenario: &str,
        domain: impl Fn(u64, u64) -> String + 'static,
    ) -> Result<ListRows, Failure> {
        let scenario = Scenario::parse(scenario).about("the scenario")?;
        Ok(ListRows { seed, lines, domain: Box::new(domain), scenario })
    }

    /// A random number for a row, the same on each call.
    fn draw(&self, n: u64, salt: u64) -> u64 {
        fastrand::Rng::with_seed(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt << 56).u64(..)
    }

    /// The address of a row that is no duplicate.
    pub fn own(&self, n: u64) -> String {
        format!("user-{n}@{}", (self.domain)(self.draw(n, 1), n))
    }

    /// The value in the row's column of addresses. One in ten is a duplicate in other letter case, one in forty is a duplicate, and
    /// one in forty is no address.
    pub fn address(&self, n: u64) -> String {
        match self.draw(n, 2) % 40 {
            0 => "soaked nonsense".to_owned(),
            1..=4 if n > 0 => self.own(self.draw(n, 3) % n).to_uppercase(),
            5 if n > 0 => self.own(self.draw(n, 3) % n),
            _ => self.own(n),
        }
    }

    /// The value in the row's last column. Some have quotes and line ends.
    pub fn note(&self, n: u64) -> String {
        match self.draw(n, 4) % 50 {
            0 => "two\nlines".to_owned(),
            1 => "say \"hi\", then".to_owned(),
            _ => format!("note {n}"),
        }
    }

    fn line(&self, n: u64) -> String {
        let note = self.note(n);
        let is_quoted = note.contains(['"', '\n']);
        let note = if is_quoted { format!("\"{}\"", note.replace('"', "\"\"")) } else { note };
        format!("{n},{},{note}", self.address(n))
    }

    /// The reason that the row must have in the end.
    pub fn reason(&self, n: u64) -> &'static str {
        let address = self.address(n);
        match address.contains('@') {
            true => self.scenario.expected(&address.to_lowercase()).patient.as_str(),
            false => "invalid_syntax",
        }
    }

    /// The line that must be written for a row.
    pub fn cleaned(&self, n: u64) -> String {
        let reason = self.reason(n);
        let deliverable = matches!(reason, "mailbox_exists" | "role_account");
        format!("{},{deliverable},{reason}", self.line(n))
    }

    /// Writes the list with its header.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let file = File::create(path).at(path)?;
        let mut out = BufWriter::new(file);
        let mut write = || {
            writeln!(out, "n,email,note")?;
            for n in 0..self.lines {
                writeln!(out, "{}", self.line(n))?;
            }
            out.flush()
        };
        write().at(path)
    }

    /// The number of a row of the output, if it is one of this list.
    pub fn number(&self, row: &str) -> Option<u64> {
        let number = row.split(',').next().and_then(|n| n.parse::<u64>().ok());
        number.filter(|&n| n < self.lines)
    }
}

/// Reads the next row without its line end; a line end within quotes belongs to the row. A row without its line end does not count:
/// a kill may have cut it.
pub fn next_row(input: &mut impl BufRead, row: &mut String) -> std::io::Result<bool> {
    row.clear();
    while input.read_line(row)? > 0 {
        if row.ends_with('\n') && row.bytes().filter(|&byte| byte == b'"').count().is_multiple_of(2) {
            row.pop();
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_outside_of_quotes() {
        let mut input = &b"1,a\n2,\"b\nc\"\n3,\"say \"\"hi\"\"\"\n4,cu"[..];
        let (mut row, mut rows) = (String::new(), Vec::new());
        while next_row(&mut input, &mut row).unwrap() {
            rows.push(row.clone());
        }
        assert_eq!(rows, ["1,a", "2,\"b\nc\"", "3,\"say \"\"hi\"\"\""]);
    }
}
