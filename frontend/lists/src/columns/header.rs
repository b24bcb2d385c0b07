//! The header of a list, and the titles before it.

use super::{Sample, TITLES_MAX, listed as joined, names};

/// The place of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Number of titles before the header or the first row.
    pub titles: usize,
    /// Whether there is a header.
    pub is_there: bool,
}

impl Header {
    const NONE: Header = Header { titles: 0, is_there: false };

    /// Number of records before the first row.
    pub fn rows(self) -> usize {
        self.titles + usize::from(self.is_there)
    }
}

/// The header by a usual name of the column of addresses, and its columns with such names, the best first.
pub(super) fn by_names(sample: &Sample) -> Option<(Header, Vec<usize>)> {
    candidates(sample).find_map(|row| {
        let cells = 0..sample.records[row].len();
        let mut ranked: Vec<(usize, usize)> =
            cells.filter_map(|column| Some((names::rank(&sample.text(row, column))?, column))).collect();
        ranked.sort_unstable();
        let columns: Vec<usize> = ranked.into_iter().map(|(_, column)| column).collect();
        (!columns.is_empty()).then_some((Header { titles: row, is_there: true }, columns))
    })
}

/// The header with this name. A row with an address has values and no names, unless a name is a usual one.
pub(super) fn with_name(sample: &Sample, wanted: &str) -> Option<Header> {
    let has_name = |row: &usize| in_row(sample, *row, wanted).is_some();
    let is_data = |row: usize| {
        let mut columns = 0..sample.records[row].len();
        columns.clone().any(|column| sample.has_address(row, column))
            && !columns.any(|column| names::is_usual(&sample.text(row, column)))
    };
    candidates(sample)
        .find(|row| has_name(row) && !is_data(*row))
        .map(|titles| Header { titles, is_there: true })
}

/// The column of a header with this name.
pub(super) fn column(sample: &Sample, header: Header, wanted: &str) -> Option<usize> {
    header.is_there.then(|| in_row(sample, header.titles, wanted)).flatten()
}

fn in_row(sample: &Sample, row: usize, wanted: &str) -> Option<usize> {
    let wanted = wanted.trim().to_lowercase();
    let is_wanted = |column: &usize| {
        let name = sample.text(row, *column);
        !name.is_empty() && name.to_lowercase() == wanted
    };
    (0..sample.records[row].len()).find(is_wanted)
}

/// The rows that may be a header: each row before it is a title.
fn candidates(sample: &Sample) -> impl Iterator<Item = usize> {
    let mut only_titles = true;
    let most = if sample.header == Some(false) { 0 } else { TITLES_MAX + 1 };
    (0..sample.records.len().min(most)).take_while(move |&row| {
        let is_candidate = only_titles;
        only_titles &= is_title(sample, row);
        is_candidate
    })
}

/// Whether a row has hardly any values in comparison with the list, and none that looks like data.
fn is_title(sample: &Sample, row: usize) -> bool {
    let (width, filled) = (sample.width(), sample.filled(row));
    let has_at = sample.records[row].iter().any(|cell| cell.contains(&b'@'));
    let is_number = |column: usize| {
        let text = sample.text(row, column);
        text.chars().any(char::is_numeric) && !text.chars().any(char::is_alphabetic)
    };
    width > 1 && !has_at && !is_number(0) && (filled <= 1 || filled * 3 <= width)
}

/// The header of a list whose column of addresses was found: it has no at sign in this column, and a later row has.
pub(super) fn by_content(sample: &Sample, column: usize) -> Header {
    let has_at = |row: usize| sample.cell(row, column).contains(&b'@');
    let first = (0..sample.records.len()).find(|&row| has_at(row));
    first.map_or(Header::NONE, |first| before(sample, first, &[column]))
}

/// The header of a list whose columns of addresses the user gave by number: it has no at sign in these columns and no address at all,
/// and a later row has. The given columns may have no values yet. So an address in any column counts.
pub(super) fn by_numbers(sample: &Sample, given: &[usize]) -> Header {
    let is_data = |row: usize| {
        given.iter().any(|&column| sample.cell(row, column).contains(&b'@'))
            || (0..sample.records[row].len()).any(|column| sample.has_address(row, column))
    };
    match (0..sample.records.len()).find(|&row| is_data(row)) {
        Some(first) => before(sample, first, given),
        None => candidates(sample)
            .find(|&row| is_surely_header(sample, row))
            .map_or(Header::NONE, |titles| Header { titles, is_there: true }),
    }
}

/// The header before the first row that has an address in these columns.
fn before(sample: &Sample, first: usize, columns: &[usize]) -> Header {
    let titles = (0..first.min(TITLES_MAX)).take_while(|&row| is_title(sample, row)).count();
    let is_header = |row: usize| !is_row(sample, row, columns);
    match titles {
        _ if first == 0 => Header::NONE,
        // In two columns, one value is as much a name without an address as a title.
        _ if titles == first && sample.width() > 2 => Header { titles, is_there: false },
        1.. if titles < first && looks_like_names(sample, titles) && is_header(titles) => {
            Header { titles, is_there: true }
        }
        _ => Header { titles: 0, is_there: is_header(0) },
    }
}

/// Whether a row without an address has the values of a row of the list: nothing or a mark for "none" where addresses are, a
/// telephone number or a date, numbers above numbers, or a value that the column also has in a later row.
fn is_row(sample: &Sample, row: usize, columns: &[usize]) -> bool {
    const NONE: [&str; 14] = [
        "na", "none", "null", "nil", "nan", "n", "unknown", "empty", "keine", "ka", "aucun", "ninguno",
        "nessuno", "brak",
    ];
    let is_none = |&column: &usize| {
        let name = names::normal(&sample.text(row, column));
        !sample.is_blank(row, column) && name.is_empty() || NONE.contains(&name.as_str())
    };
    let is_number = |row: usize, column: usize, digits: usize| {
        let text = sample.text(row, column);
        let has_digits = text.chars().filter(char::is_ascii_digit).count() >= digits;
        has_digits && !text.chars().any(char::is_alphabetic)
    };
    let filled =
        |column: usize| (row + 1..sample.records.len()).filter(move |&below| !sample.is_blank(below, column));
    let is_alike = |column: usize| {
        let rows = filled(column).count();
        is_number(row, column, 1)
            && rows > 0
            && filled(column).filter(|&below| is_number(below, column, 1)).count() * 2 >= rows
    };
    let is_repeated = |column: usize| {
        let text = sample.text(row, column);
        !text.is_empty() && filled(column).any(|below| sample.text(below, column) == text)
    };
    let has_no_name =
        columns.iter().all(|&column| sample.is_blank(row, column)) && !is_surely_header(sample, row);
    has_no_name
        || columns.iter().any(is_none)
        || (0..sample.records[row].len())
            .any(|column| is_number(row, column, 6) || is_alike(column) || is_repeated(column))
}

/// Whether most columns have a text in this row that could be a name.
fn looks_like_names(sample: &Sample, row: usize) -> bool {
    let is_name = |column: usize| {
        let text = sample.text(row, column);
        text.chars().any(char::is_alphabetic) && !text.contains('@')
    };
    let named = (0..sample.records[row].len()).filter(|&column| is_name(column)).count();
    named > 0 && named * 2 >= sample.filled(row) && sample.filled(row) * 2 >= sample.width()
}

/// The names of the columns for a message. Values of rows may be personal data, so this is `None` unless a row is surely a header.
pub(super) fn listed(sample: &Sample) -> Option<String> {
    candidates(sample).find(|&row| is_surely_header(sample, row)).map(|row| listed_in(sample, row))
}

/// The names in a header for a message.
pub(super) fn listed_in(sample: &Sample, row: usize) -> String {
    joined((0..sample.records[row].len()).map(|column| sample.text(row, column).into_owned()))
}

/// Whether a row has a usual name of columns, or only texts above numbers.
fn is_surely_header(sample: &Sample, row: usize) -> bool {
    let columns = 0..sample.records[row].len();
    let has_at = sample.records[row].iter().any(|cell| cell.contains(&b'@'));
    let has_digit = |row: usize, column: usize| sample.cell(row, column).iter().any(u8::is_ascii_digit);
    // Such as `E-Mail 2`.
    let is_numbered = |column: usize| {
        let name = sample.text(row, column);
        names::rank(name.trim_end_matches(|c: char| c.is_ascii_digit() || " -_".contains(c))).is_some()
    };
    if has_at || columns.clone().any(|column| has_digit(row, column) && !is_numbered(column)) {
        return false;
    }
    let has_common_name = columns.clone().any(|column| names::is_common(&sample.text(row, column)));
    let rows = row + 1..sample.records.len();
    let is_above_numbers = |column: usize| !rows.is_empty() && rows.clone().all(|row| has_digit(row, column));
    looks_like_names(sample, row) && (has_common_name || columns.clone().any(is_above_numbers))
}
