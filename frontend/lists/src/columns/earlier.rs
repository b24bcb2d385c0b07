//! The columns that an earlier run of mailprobe has added, and the names of the new ones.
//!
//! Two neighbouring columns are ours if the first is named `deliverable` and the second `reason`, both with the same text before
//! (nothing, `mailprobe_`, or the name of a column of addresses), and if the values of each row are a verdict. At least one row
//! has a verdict. Rows that were added later have no values in both. In a list without a header, the last two columns are ours if
//! the values of every row are a verdict.
//!
//! Further columns of results ([`ResultColumn`]) are ours if they follow directly, have the same text before their names, and only
//! have values that we write. Without a header, the columns of this run are looked for in their order, directly after the verdicts; if
//! they are not there, only the times of checks are recognized.
//!
//! With several columns of addresses, the names say of which column a verdict is: `home_deliverable` is of the column `home`. The
//! first verdict of a run has no such name. If it is the only one, the rows may say of which column it is: all rows with another verdict
//! than `invalid_syntax` have an address there. Otherwise it counts for the first column that is chosen now, unless another verdict has
//! the name of that column. A verdict that may be of another column counts for none.
//!
//! Other columns with these names belong to the owner of the list. Then the names of the new columns begin with `mailprobe_`.

use super::{Columns, Sample, option_name};
use crate::{ResultColumn, VERDICT_NAMES, VerdictNames, reasons};
use api::Reason;
use std::ops::Range;

/// The columns of a verdict that an earlier run has added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierColumns {
    /// The index of `deliverable`. `reason` follows.
    pub verdict: usize,
    /// The further columns with their indexes.
    pub further: Vec<(ResultColumn, usize)>,
    /// The column of addresses of this verdict.
    pub of: VerdictOf,
}

/// The column of addresses to which a verdict belongs, by its names or by the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerdictOf {
    /// The first column of the run that wrote the verdict: the rows do not show which one that was.
    First,
    /// The column with this index.
    Column(usize),
    /// A column that the list does not have, or has twice; or one of several other columns.
    Unknown,
}

/// Finds the columns that an earlier run has added, and the columns of addresses to which its verdicts belong.
pub(super) fn find(sample: &Sample, columns: &mut Columns) {
    let rows = columns.titles + usize::from(columns.has_header);
    let mut verdicts = match columns.has_header {
        true => with_header(sample, columns, rows),
        false => without_header(sample, columns, rows),
    };
    let indexes = |it: &EarlierColumns| it.verdict..it.verdict + VERDICT_NAMES.len() + it.further.len();
    columns.earlier = verdicts.iter().flat_map(indexes).collect();
    if let [only] = &mut *verdicts
        && only.of == VerdictOf::First
    {
        only.of = by_content(sample, columns, rows, only.verdict);
        columns.column_of_verdict = match only.of {
            VerdictOf::Column(at) if !columns.addresses.contains(&at) => {
                Some(option_name(sample, columns, at))
            }
            _ => None,
        };
    }
    let has_name = |address: usize| verdicts.iter().any(|it| it.of == VerdictOf::Column(address));
    // Without a header, nothing says the order of several verdicts.
    let is_first = |it: &EarlierColumns| {
        it.of == VerdictOf::First
            && !has_name(columns.addresses[0])
            && (columns.has_header || verdicts.len() == 1)
    };
    let of = |(n, address): (usize, &usize)| {
        let is_of = |it: &&EarlierColumns| it.of == VerdictOf::Column(*address) || n == 0 && is_first(it);
        verdicts.iter().find(is_of).cloned()
    };
    columns.earlier_verdicts = columns.addresses.iter().enumerate().map(of).collect();
    let is_other =
        |it: &&EarlierColumns| !columns.earlier_verdicts.iter().flatten().any(|known| known == *it);
    let name = |it: &EarlierColumns| match columns.has_header {
        true => sample.text(columns.titles, it.verdict).into_owned(),
        false => (it.verdict + 1).to_string(),
    };
    columns.other_verdicts = verdicts.iter().filter(is_other).map(name).collect();
}

/// The column of addresses that the rows show for a verdict without such a name. A column without an address in a row whose address
/// was checked is not it.
fn by_content(sample: &Sample, columns: &Columns, rows: usize, verdict: usize) -> VerdictOf {
    let reason = |row: usize| reason_of(&sample.text(row, verdict), &sample.text(row, verdict + 1));
    let is_checked = |row: &usize| reason(*row).is_some_and(|reason| reason != Reason::InvalidSyntax);
    let checked: Vec<usize> = (rows..sample.records.len()).filter(is_checked).collect();
    let fits = |column: usize| checked.iter().all(|&row| sample.has_address(row, column));
    let own = columns.addresses[0];
    let is_other = |&column: &usize| {
        column != own
            && columns.earlier.binary_search(&column).is_err()
            && sample.addresses(rows, column) > 0
            && fits(column)
    };
    let others: Vec<usize> = (0..columns.width).filter(is_other).collect();
    match (fits(own), &*others) {
        (true, []) => VerdictOf::Column(own),
        (false, [other]) => VerdictOf::Column(*other),
        (false, [_, ..]) => VerdictOf::Unknown,
        (true, _) | (false, []) => VerdictOf::First,
    }
}

/// The column of a verdict with this text before its names.
fn column_of(sample: &Sample, columns: &Columns, stem: &str) -> VerdictOf {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = stem.strip_prefix("mailprobe").and_then(|rest| rest.split_once('_'));
    let rest = rest.filter(|(number, _)| is_number(number)).map(|(_, rest)| rest);
    if stem.is_empty() || rest == Some("") {
        return VerdictOf::First;
    }
    let named = |stem: &str| {
        let name = stem.strip_suffix('_').unwrap_or_default().to_lowercase();
        let is_named = |&at: &usize| sample.text(columns.titles, at).to_lowercase() == name;
        (0..columns.width).filter(is_named).collect::<Vec<_>>()
    };
    let found = Some(named(stem)).filter(|found| !found.is_empty());
    match *found.or_else(|| rest.map(named)).unwrap_or_default() {
        [column] => VerdictOf::Column(column),
        _ => VerdictOf::Unknown,
    }
}

fn with_header(sample: &Sample, columns: &Columns, rows: usize) -> Vec<EarlierColumns> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 1 < columns.width {
        let stem = stem(&sample.text(columns.titles, at), &sample.text(columns.titles, at + 1));
        let is_ours = |_: &String| {
            !columns.addresses.contains(&at)
                && !columns.addresses.contains(&(at + 1))
                && has_only_verdicts(sample, rows, at, true)
        };
        let Some(stem) = stem.filter(is_ours) else {
            at += 1;
            continue;
        };
        let further = further(sample, columns, rows, &stem, at + 2);
        let verdict = at;
        at += 2 + further.len();
        found.push(EarlierColumns { verdict, further, of: column_of(sample, columns, &stem) });
    }
    found
}

/// The further columns of results from this one on.
fn further(
    sample: &Sample,
    columns: &Columns,
    rows: usize,
    stem: &str,
    from: usize,
) -> Vec<(ResultColumn, usize)> {
    let mut found: Vec<(ResultColumn, usize)> = Vec::new();
    for at in from..columns.width {
        let name = sample.text(columns.titles, at);
        let Some(column) = name.strip_prefix(stem).and_then(ResultColumn::parse) else { break };
        let is_new = found.iter().all(|(other, _)| *other != column) && !columns.addresses.contains(&at);
        if !is_new || !(rows..sample.records.len()).all(|row| column.has_value(&sample.text(row, at))) {
            break;
        }
        found.push((column, at));
    }
    found
}

fn without_header(sample: &Sample, columns: &Columns, rows: usize) -> Vec<EarlierColumns> {
    let (mut end, mut found) = (columns.width, Vec::new());
    let least = columns.addresses.iter().max().map_or(1, |at| at + 1);
    while let Some(last) = last_verdict(sample, rows, &(least..end), &columns.further) {
        end = last.verdict;
        found.insert(0, last);
    }
    found
}

/// The last columns of these, if they are a verdict: with the `wanted` further columns, with the time of its check, or alone.
fn last_verdict(
    sample: &Sample,
    rows: usize,
    range: &Range<usize>,
    wanted: &[ResultColumn],
) -> Option<EarlierColumns> {
    let verdict = |columns: usize| {
        let at = range.end.checked_sub(columns)?;
        (range.contains(&at) && has_only_verdicts(sample, rows, at, false)).then_some(at)
    };
    let further: Vec<_> = wanted.iter().copied().zip(range.end - wanted.len().min(range.end)..).collect();
    let fits = |&(column, at): &(ResultColumn, usize)| {
        (rows..sample.records.len()).all(|row| column.has_value(&sample.text(row, at)))
    };
    if let Some(verdict) = verdict(2 + wanted.len()).filter(|_| further.iter().all(fits)) {
        return Some(EarlierColumns { verdict, further, of: VerdictOf::First });
    }
    if let Some(verdict) = verdict(2) {
        return Some(EarlierColumns { verdict, further: Vec::new(), of: VerdictOf::First });
    }
    let (verdict, at) = (verdict(3)?, range.end - 1);
    let times: Vec<_> = (rows..sample.records.len()).map(|row| sample.text(row, at)).collect();
    let has_times = times.iter().any(|text| !text.is_empty())
        && times.iter().all(|text| ResultColumn::CheckedAt.has_value(text));
    let further = vec![(ResultColumn::CheckedAt, at)];
    has_times.then_some(EarlierColumns { verdict, further, of: VerdictOf::First })
}

/// The text before `deliverable` and `reason`, if these are names of our columns.
fn stem(first: &str, second: &str) -> Option<String> {
    let stem = first.strip_suffix(VERDICT_NAMES[0])?;
    let is_ours = second.strip_suffix(VERDICT_NAMES[1]) == Some(stem);
    (is_ours && (stem.is_empty() || stem.ends_with('_'))).then(|| stem.to_owned())
}

/// Whether the values of each row in two columns are a verdict. `may_be_blank`: some rows may have none.
fn has_only_verdicts(sample: &Sample, rows: usize, at: usize, may_be_blank: bool) -> bool {
    let (mut verdicts, mut is_all) = (0, true);
    for row in rows..sample.records.len() {
        let values = (sample.text(row, at), sample.text(row, at + 1));
        match (&*values.0, &*values.1) {
            ("", "") => is_all &= may_be_blank,
            (deliverable, reason) if reason_of(deliverable, reason).is_some() => verdicts += 1,
            _ => is_all = false,
        }
    }
    // A header without rows is all that is left of an empty list.
    is_all && (verdicts > 0 || may_be_blank && rows == sample.records.len())
}

/// The reason of a verdict with these values. Spreadsheets write `TRUE`, or the word of their language.
pub(crate) fn reason_of(deliverable: &str, reason: &str) -> Option<Reason> {
    let is_word = |reason: &Reason| match reasons::deliverable_csv(*reason) {
        "" => deliverable.is_empty(),
        word => deliverable.eq_ignore_ascii_case(word) || is_translated(deliverable),
    };
    reasons::named(reason).filter(is_word)
}

/// Words for true and false of spreadsheets in other languages.
fn is_translated(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "WAHR",
        "FALSCH",
        "VRAI",
        "FAUX",
        "VERDADERO",
        "FALSO",
        "VERDADEIRO",
        "VERO",
        "WAAR",
        "ONWAAR",
        "PRAWDA",
        "FAŁSZ",
        "ИСТИНА",
        "ЛОЖЬ",
        "SANT",
        "FALSKT",
        "SAND",
        "FALSK",
        "DOĞRU",
        "YANLIŞ",
        "1",
        "0",
    ];
    WORDS.contains(&text.to_uppercase().as_str())
}

/// Whether these values of an object, as JSON, exist and are not a verdict.
pub(crate) fn has_foreign_name(deliverable: Option<&str>, reason: Option<&str>) -> bool {
    match (deliverable, reason) {
        (None, None) => false,
        (Some(deliverable), Some(written)) => !Reason::ALL.into_iter().any(|reason| {
            reasons::deliverable_json(reason) == deliverable && written == format!("\"{}\"", reason.as_str())
        }),
        _ => true,
    }
}

/// The names of the new columns: for the first column of addresses `deliverable` and `reason`, for others after their name.
pub(super) fn names(sample: &Sample, columns: &Columns) -> Vec<VerdictNames> {
    let is_earlier = |at: &usize| columns.earlier.binary_search(at).is_ok();
    let kept = (0..columns.width).filter(|at| columns.has_header && !is_earlier(at));
    let mut taken: Vec<String> = kept.map(|at| sample.text(columns.titles, at).to_lowercase()).collect();
    let mut verdicts = Vec::new();
    for (n, &address) in columns.addresses.iter().enumerate() {
        let stem = match n {
            0 => Vec::new(),
            _ if columns.has_header => [sample.cell(columns.titles, address).trim_ascii(), b"_"].concat(),
            _ => format!("{}_", address + 1).into_bytes(),
        };
        let is_free = |names: &VerdictNames| {
            names.all().all(|name| !taken.contains(&sample.encoding.text(name).to_lowercase()))
        };
        let prefixes = std::iter::once(String::new())
            .chain(std::iter::once("mailprobe_".to_owned()))
            .chain((2..).map(|n| format!("mailprobe{n}_")));
        let names = prefixes
            .map(|prefix| VerdictNames::new(&[prefix.as_bytes(), &stem].concat(), &columns.further))
            .find(is_free)
            .unwrap_or_default();
        taken.extend(names.all().map(|name| sample.encoding.text(name).to_lowercase()));
        verdicts.push(names);
    }
    verdicts
}
