//! The texts of a stored list that hold several values.

use api::Noted;
use store::{FoundAddresses, List, UnixMs};

/// The ends of the text `column` that say whether the first row is a header. A node of an earlier version reads them as a part of the
/// name, and says that there is no such column.
const HEADERS: [(&str, bool); 2] = [("\u{1}header", true), ("\u{1}no-header", false)];

/// The text `column` of a list.
pub(super) fn join_column(list: &List) -> String {
    let end = HEADERS.iter().find(|(_, header)| Some(*header) == list.header).map_or("", |(end, _)| end);
    format!("{}{end}", list.column)
}

/// The inverse of [`join_column`].
pub(super) fn split_column(text: &str) -> (String, Option<bool>) {
    let found = HEADERS.iter().find_map(|(end, header)| Some((text.strip_suffix(end)?, *header)));
    found.map_or((text.to_owned(), None), |(column, header)| (column.to_owned(), Some(header)))
}

/// The text `why` of a list.
pub(super) fn join_why(list: &List) -> String {
    let Some(found) = &list.found else { return list.why.clone() };
    let FoundAddresses { column, column_number, columns, sheet, sheet_number, sheets, .. } = found;
    let (why, read_at, Noted { count, first_row }) = (&list.why, found.read_at, found.cells_with_more);
    let others: String = found.others.iter().map(|other| format!("\t{other}")).collect();
    let header = match found.header {
        Some(header) => format!(" {}", u8::from(header)),
        None if list.ended_at > 0 => " -".to_owned(),
        None => String::new(),
    };
    let ended_at = if list.ended_at > 0 { format!(" {}", list.ended_at) } else { String::new() };
    let more = match count > 0 || !header.is_empty() {
        true => format!("\n{count} {first_row}{header}{ended_at}"),
        false => String::new(),
    };
    format!(
        "{why}\n{read_at}\t{column_number}\t{columns}\t{sheet_number}\t{sheets}\t{sheet}\t{column}{others}{more}"
    )
}

/// The inverse of [`join_why`]: the reason, where the addresses are, and the time at which the check ended.
pub(super) fn split_why(why: &str) -> (String, Option<FoundAddresses>, UnixMs) {
    let (why, found) = why.split_once('\n').map_or((why, None), |(why, found)| (why, read_found(found)));
    let (found, ended_at) = found.unzip();
    (why.to_owned(), found, ended_at.unwrap_or_default())
}

fn read_found(text: &str) -> Option<(FoundAddresses, UnixMs)> {
    let (text, more) = text.split_once('\n').unwrap_or((text, "0 0"));
    let mut more = more.split(' ');
    let (count, first_row, header, ended_at) = (more.next()?, more.next()?, more.next(), more.next());
    let fields: Vec<&str> = text.split('\t').collect();
    let [read_at, column_number, columns, sheet_number, sheets, sheet, column, ref others @ ..] = fields[..]
    else {
        return None;
    };
    let found = FoundAddresses {
        column: column.to_owned(),
        column_number: column_number.parse().ok()?,
        columns: columns.parse().ok()?,
        header: header.filter(|header| *header != "-").map(|header| header == "1"),
        sheet: sheet.to_owned(),
        sheet_number: sheet_number.parse().ok()?,
        sheets: sheets.parse().ok()?,
        read_at: read_at.parse().ok()?,
        others: others.iter().map(|&other| other.to_owned()).collect(),
        cells_with_more: Noted { count: count.parse().ok()?, first_row: first_row.parse().ok()? },
    };
    Some((found, ended_at.and_then(|at| at.parse().ok()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{AccountId, ListId};

    #[test]
    fn a_column_and_a_header_come_back() {
        for (column, header) in [("", None), ("", Some(false)), ("e-mail", Some(true)), ("no-header", None)] {
            let list =
                List::new(ListId::from_bytes([0; 16]), AccountId::from_bytes([0; 16]), 0, String::new());
            let list = List { column: column.into(), header, ..list };
            assert_eq!(split_column(&join_column(&list)), (column.to_owned(), header));
        }
    }
    #[test]
    fn where_an_earlier_version_found_the_addresses_is_read() {
        let found =
            |more: &str| split_why(&format!("why\n5\t2\t3\t0\t0\t\te-mail{more}")).1.expect("a place");
        assert_eq!((found("").header, found("\n4 7").header), (None, None));
        assert_eq!(found("\n4 7").cells_with_more, Noted { count: 4, first_row: 7 });
        assert_eq!((found("\n0 0 1").header, found("\n0 0 0").header), (Some(true), Some(false)));
    }
}
