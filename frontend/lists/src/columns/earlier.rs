//! The columns that an earlier run of mailprobe has added, and the names of the new ones.
//!
//! Two neighbouring columns are ours if the first is named `deliverable` and the second `reason`, both with the same text before
//! (nothing, `mailprobe_`, or the name of a column of addresses), and if the values of each row are a verdict. At least one row
//! has a verdict. Rows that were added later have no values in both. In a list without a header, the last two columns are ours if
//! the values of every row are a verdict.
//!
//! Other columns with these names belong to the owner of the list. Then the new columns are `mailprobe_deliverable` and
//! `mailprobe_reason`.

use super::{Columns, Sample};
use crate::{Verdict, VerdictNames};

/// The indexes of the columns that an earlier run has added, in ascending order.
pub(super) fn find(sample: &Sample, columns: &Columns) -> Vec<usize> {
    let rows = columns.titles + usize::from(columns.has_header);
    if !columns.has_header {
        return without_header(sample, columns, rows);
    }
    let mut found = Vec::new();
    let mut at = 0;
    while at + 1 < columns.width {
        let is_pair = is_pair(&sample.text(columns.titles, at), &sample.text(columns.titles, at + 1))
            && !columns.addresses.contains(&at)
            && !columns.addresses.contains(&(at + 1));
        if is_pair && has_only_verdicts(sample, rows, at, true) {
            found.extend([at, at + 1]);
            at += 1;
        }
        at += 1;
    }
    found
}

fn without_header(sample: &Sample, columns: &Columns, rows: usize) -> Vec<usize> {
    let mut end = columns.width;
    let least = columns.addresses.iter().max().map_or(1, |at| at + 1);
    while end >= least + 2 && has_only_verdicts(sample, rows, end - 2, false) {
        end -= 2;
    }
    (end..columns.width).collect()
}

/// Whether these are names of our columns: with the same text before `deliverable` and `reason`.
fn is_pair(first: &str, second: &str) -> bool {
    let stems = (first.strip_suffix(DELIVERABLE), second.strip_suffix(REASON));
    matches!(stems, (Some(a), Some(b)) if a == b && (a.is_empty() || a.ends_with('_')))
}

const DELIVERABLE: &str = "deliverable";
const REASON: &str = "reason";

/// Whether the values of each row in two columns are a verdict. `may_be_blank`: some rows may have none.
fn has_only_verdicts(sample: &Sample, rows: usize, at: usize, may_be_blank: bool) -> bool {
    let (mut verdicts, mut is_all) = (0, true);
    for row in rows..sample.records.len() {
        let values = (sample.text(row, at), sample.text(row, at + 1));
        match (&*values.0, &*values.1) {
            ("", "") => is_all &= may_be_blank,
            (deliverable, reason) if is_verdict(deliverable, reason) => verdicts += 1,
            _ => is_all = false,
        }
    }
    // A header without rows is all that is left of an empty list.
    is_all && (verdicts > 0 || may_be_blank && rows == sample.records.len())
}

/// Whether these are the values of a verdict. Spreadsheets write `TRUE`, or the word of their language.
fn is_verdict(deliverable: &str, reason: &str) -> bool {
    let is_word = |verdict: Verdict| match verdict.deliverable {
        None => deliverable.is_empty(),
        Some(_) => deliverable.eq_ignore_ascii_case(verdict.deliverable_csv()) || is_translated(deliverable),
    };
    Verdict::all().any(|verdict| verdict.reason == reason && is_word(verdict))
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
        (Some(deliverable), Some(reason)) => !Verdict::all().any(|verdict| {
            verdict.deliverable_json() == deliverable && reason == format!("\"{}\"", verdict.reason)
        }),
        _ => true,
    }
}

/// The names of the new columns: for the first column of addresses `deliverable` and `reason`, for others after their name.
pub(super) fn names(sample: &Sample, columns: &Columns) -> Vec<VerdictNames> {
    let kept = (0..columns.width).filter(|at| columns.has_header && !columns.earlier.contains(at));
    let mut taken: Vec<String> = kept.map(|at| sample.text(columns.titles, at).to_lowercase()).collect();
    let mut verdicts = Vec::new();
    for (n, &address) in columns.addresses.iter().enumerate() {
        let stem = match n {
            0 => Vec::new(),
            _ if columns.has_header => [sample.cell(columns.titles, address).trim_ascii(), b"_"].concat(),
            _ => format!("{}_", address + 1).into_bytes(),
        };
        let is_free = |names: &VerdictNames| {
            [&names.deliverable, &names.reason]
                .into_iter()
                .all(|name| !taken.contains(&sample.encoding.text(name).to_lowercase()))
        };
        let prefixes = std::iter::once(String::new())
            .chain(std::iter::once("mailprobe_".to_owned()))
            .chain((2..).map(|n| format!("mailprobe{n}_")));
        let names = prefixes
            .map(|prefix| VerdictNames::new(&[prefix.as_bytes(), &stem].concat()))
            .find(is_free)
            .unwrap_or_default();
        taken.extend(
            [&names.deliverable, &names.reason].map(|name| sample.encoding.text(name).to_lowercase()),
        );
        verdicts.push(names);
    }
    verdicts
}
