//! Finds the columns of a CSV list that hold the addresses, its header, and the columns that an earlier run has added.
//!
//! - A header is found by a usual name of the column of addresses ([`names`]), or by its content: it has no address, and rows
//!   after it have. Up to [`TITLES_MAX`] rows before it are titles, if they have hardly any values. Titles have no verdict.
//! - A list has as many columns as the longest row of the sample.
//! - Columns of an earlier run are replaced ([`earlier`]).

mod earlier;
mod header;
mod names;

use crate::address::in_cell;
use crate::encoding::Encoding;
use crate::numbers::counted;
use crate::{ListError, ResultColumn, VERDICT_NAMES, VerdictNames};
use csv::ByteRecord;
pub(crate) use earlier::{EarlierColumns, VerdictOf, has_foreign_name, reason_of};
use header::Header;
pub(crate) use names::is_usual;
use std::borrow::Cow;

/// Maximum number of rows before a header. Spreadsheets often begin with a title, a date and a blank line.
const TITLES_MAX: usize = 10;

/// Number of rows in which further columns of addresses are looked for.
pub(crate) const LOOKED_AT: usize = 100;

/// A column of a list, or a key of JSON objects, that has addresses and was not chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutColumn {
    /// Its name, or its number from 1 if it has no name of its own. A caller can choose the column by it.
    pub name: String,
    /// Number of rows with an address in it, among the first rows.
    pub rows: usize,
    /// Number of these first rows.
    pub looked_at: usize,
}

/// The findings from the first records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Indexes of the columns of addresses, from 0: at least one.
    pub addresses: Vec<usize>,
    /// Number of titles before the header or the first row.
    pub titles: usize,
    /// Whether a header follows the titles.
    pub has_header: bool,
    /// Number of columns.
    pub width: usize,
    /// Indexes of the columns that an earlier run has added, in ascending order. The output does not have them.
    pub earlier: Vec<usize>,
    /// The columns of the verdict that an earlier run has written for each column of addresses; `None` if there are none.
    pub earlier_verdicts: Vec<Option<EarlierColumns>>,
    /// The names of `deliverable` of earlier verdicts that are of no column of `addresses`, or perhaps not.
    pub other_verdicts: Vec<String>,
    /// The column of the only earlier verdict, if the rows show that it is of no column of `addresses`.
    pub column_of_verdict: Option<String>,
    /// The further columns of results.
    pub further: Vec<ResultColumn>,
    /// The names of the columns of verdicts, for each column of addresses.
    pub verdicts: Vec<VerdictNames>,
}

impl Columns {
    /// The columns of a list with one value per row and no header.
    pub fn single() -> Columns {
        Columns {
            addresses: vec![0],
            titles: 0,
            has_header: false,
            width: 1,
            earlier: Vec::new(),
            earlier_verdicts: Vec::new(),
            other_verdicts: Vec::new(),
            column_of_verdict: None,
            further: Vec::new(),
            verdicts: vec![VerdictNames::default()],
        }
    }

    /// The same with further columns of results.
    pub fn with_further(self, further: &[ResultColumn]) -> Columns {
        let verdicts = vec![VerdictNames::new(b"", further); self.addresses.len()];
        Columns { further: further.to_vec(), verdicts, ..self }
    }

    /// Number of columns that the output has and the input has not.
    pub fn added(&self) -> usize {
        (VERDICT_NAMES.len() + self.further.len()) * self.addresses.len()
    }

    /// Number of input columns that the output has.
    pub fn kept(&self) -> usize {
        self.width - self.earlier.len()
    }
}

/// The first records of a list.
#[derive(Debug)]
pub(crate) struct Sample {
    pub records: Vec<ByteRecord>,
    pub encoding: Encoding,
    /// Whether the first row is a header, if the user says it.
    pub header: Option<bool>,
}

impl Sample {
    fn cell(&self, row: usize, column: usize) -> &[u8] {
        self.records.get(row).and_then(|record| record.get(column)).unwrap_or_default()
    }

    /// The text of a cell without white space at its ends.
    fn text(&self, row: usize, column: usize) -> Cow<'_, str> {
        trimmed(self.encoding.text(self.cell(row, column)))
    }

    fn has_address(&self, row: usize, column: usize) -> bool {
        has_address(self.cell(row, column), self.encoding)
    }

    fn is_blank(&self, row: usize, column: usize) -> bool {
        matches!(self.cell(row, column), b"" | b"\\N") || self.text(row, column).is_empty()
    }

    /// Number of cells with a value.
    fn filled(&self, row: usize) -> usize {
        (0..self.records[row].len()).filter(|&column| !self.is_blank(row, column)).count()
    }

    /// The number of columns of the longest row.
    pub fn width(&self) -> usize {
        self.records.iter().map(ByteRecord::len).max().unwrap_or(1)
    }

    /// Number of rows from `from` on with an address in a column.
    fn addresses(&self, from: usize, column: usize) -> usize {
        (from..self.records.len()).filter(|&row| self.has_address(row, column)).count()
    }

    /// Whether at least half of the values in this column are addresses.
    fn holds_addresses(&self, from: usize, column: usize) -> bool {
        let filled = (from..self.records.len()).filter(|&row| !self.is_blank(row, column)).count();
        let addresses = self.addresses(from, column);
        addresses > 0 && addresses * 2 >= filled
    }
}

/// Whether a cell has an address.
pub(crate) fn has_address(cell: &[u8], encoding: Encoding) -> bool {
    cell.contains(&b'@') && in_cell(&encoding.text(cell)).address.is_some()
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    fn trim(text: &str) -> &str {
        text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
    }
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(trim(text)),
        Cow::Owned(text) => Cow::Owned(trim(&text).to_owned()),
    }
}

/// Finds the columns `wanted`, by name or by number from 1. Without `wanted`, finds the column that looks like addresses. The output
/// has `further` columns of results.
///
/// # Errors
/// There is no such column, no address, or only one line of addresses. The error lists the names of the existing columns.
pub(crate) fn find(
    sample: &Sample,
    wanted: &[String],
    further: &[ResultColumn],
) -> Result<Columns, ListError> {
    if wanted.is_empty() && is_one_line(sample) {
        return Err(ListError::unreadable("the list has several addresses in one line: write one per line"));
    }
    if sample.records.is_empty() {
        let verdicts = vec![VerdictNames::new(b"", further); wanted.len().max(1)];
        return Ok(Columns { verdicts, ..Columns::single().with_further(further) });
    }
    let (header, addresses) = match wanted {
        [] => found(sample)?,
        wanted => named(sample, wanted)?,
    };
    let mut columns = Columns {
        addresses,
        titles: header.titles,
        has_header: header.is_there,
        width: sample.width(),
        earlier: Vec::new(),
        earlier_verdicts: Vec::new(),
        other_verdicts: Vec::new(),
        column_of_verdict: None,
        further: further.to_vec(),
        verdicts: Vec::new(),
    };
    earlier::find(sample, &mut columns);
    columns.verdicts = earlier::names(sample, &columns);
    Ok(columns)
}

/// Whether the list is a line of addresses, as in the field for recipients of a message.
fn is_one_line(sample: &Sample) -> bool {
    let [record] = &*sample.records else { return false };
    let filled = sample.filled(0);
    filled > 1 && (0..record.len()).filter(|&column| sample.has_address(0, column)).count() == filled
}

/// The header that the user says is there, or is not.
fn given(sample: &Sample) -> Option<Header> {
    sample.header.map(|is_there| Header { titles: 0, is_there })
}

/// The header, and the column of addresses by its name or content.
fn found(sample: &Sample) -> Result<(Header, Vec<usize>), ListError> {
    let by_content = |from: usize| (0..sample.width()).find(|&column| sample.holds_addresses(from, column));
    if let Some((header, mut columns)) = header::by_names(sample) {
        let from = header.rows();
        columns.retain(|&column| column < sample.width());
        let with_addresses = columns.iter().copied().find(|&column| sample.addresses(from, column) > 0);
        if let Some(column) = with_addresses.or_else(|| by_content(from)) {
            return Ok((header, vec![column]));
        }
        // Without values the name decides. The first rows of a sorted list often have none.
        let is_blank = |column: usize| (from..sample.records.len()).all(|row| sample.is_blank(row, column));
        if let Some(&column) = columns.iter().find(|&&column| is_blank(column)) {
            return Ok((header, vec![column]));
        }
        return Err(no_address(sample));
    }
    let from = given(sample).map_or(usize::from(sample.records.len() > 1), Header::rows);
    match by_content(from).or_else(|| by_content(0)) {
        Some(column) => {
            let header = given(sample).unwrap_or_else(|| header::by_content(sample, column));
            Ok((header, vec![column]))
        }
        None => Err(no_address(sample)),
    }
}

/// The header, and the columns that the user names.
fn named(sample: &Sample, wanted: &[String]) -> Result<(Header, Vec<usize>), ListError> {
    // A number is no name that shows a header: in a list without one, it may be a value of the first row.
    let is_number =
        |name: &str| name.trim().parse().is_ok_and(|number| (1..=sample.width()).contains(&number));
    let names = wanted.iter().filter(|name| !is_number(name));
    let by_wanted = names.clone().find_map(|name| header::with_name(sample, name));
    let header = by_wanted.or_else(|| header::by_names(sample).map(|(header, _)| header)).or(given(sample));
    let mut addresses: Vec<usize> = Vec::new();
    for name in wanted {
        let by_name = header.and_then(|header| header::column(sample, header, name));
        let column = match (by_name, name.trim().parse::<usize>()) {
            (Some(column), _) => column,
            (None, Ok(number)) if (1..=sample.width()).contains(&number) => number - 1,
            (None, Ok(number)) => {
                let (count, names) = (sample.width(), described(sample));
                return Err(ListError::Column(format!(
                    "there is no column {number}: the list has {count}{names}"
                )));
            }
            (None, Err(_)) => {
                let missing = format!("there is no column `{name}`: the list has");
                let by_other = || by_wanted.map(|header| header::listed_in(sample, header.titles));
                return Err(match header::listed(sample).or_else(by_other) {
                    Some(names) => ListError::Column(format!("{missing} {names}")),
                    None => {
                        let columns = counted(sample.width() as u64, "column", "columns");
                        ListError::NoHeader(format!("{missing} {columns}, and no header is recognized"))
                    }
                });
            }
        };
        if addresses.contains(&column) {
            return Err(ListError::Column(format!("the column `{name}` is given twice")));
        }
        addresses.push(column);
    }
    Ok((header.unwrap_or_else(|| header::by_numbers(sample, &addresses)), addresses))
}

/// The name by which a user can choose a column, or its number from 1 if it has no name of its own.
pub(crate) fn option_name(sample: &Sample, columns: &Columns, column: usize) -> String {
    let name = |at: usize| sample.text(columns.titles, at);
    let own = name(column);
    let is_unique = (0..columns.width).filter(|&at| name(at).eq_ignore_ascii_case(&own)).count() == 1;
    let is_name = columns.has_header && is_unique && own.parse::<usize>().is_err();
    if is_name && !own.is_empty() { own.into_owned() } else { (column + 1).to_string() }
}

/// The columns with addresses that were not chosen: at least half of their values in the first rows are addresses.
pub(crate) fn left_out(sample: &Sample, chosen: &Columns) -> Vec<LeftOutColumn> {
    let from = chosen.titles + usize::from(chosen.has_header);
    let end = sample.records.len().min(from + LOOKED_AT);
    let looked = Sample { records: sample.records[from.min(end)..end].to_vec(), ..*sample };
    let is_other = |column: &usize| {
        !chosen.addresses.contains(column)
            && chosen.earlier.binary_search(column).is_err()
            && looked.holds_addresses(0, *column)
    };
    let of = |column: usize| LeftOutColumn {
        name: option_name(sample, chosen, column),
        rows: looked.addresses(0, column),
        looked_at: looked.records.len(),
    };
    (0..chosen.width).filter(is_other).map(of).collect()
}

/// The names of the columns in brackets, for a message; nothing if they have none.
fn described(sample: &Sample) -> String {
    header::listed(sample).map_or_else(String::new, |names| format!(" ({names})"))
}

fn no_address(sample: &Sample) -> ListError {
    let columns = counted(sample.width() as u64, "column", "columns");
    ListError::NoAddress(format!("{columns}{}", described(sample)))
}

/// Joins names as `a, b, c`. Long names and long lists are cut.
pub(crate) fn listed(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 20;
    const LONGEST: usize = 40;
    let shown = |name: String| -> String {
        let clean = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
        clean.take(LONGEST).collect()
    };
    let all: Vec<String> = names.collect();
    let more = if all.len() > SHOWN { ", ..." } else { "" };
    all.into_iter().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ") + more
}

#[cfg(test)]
mod tests;
