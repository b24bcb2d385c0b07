//! The options of a run that decide which rows it checks, by which cells, and what it writes for them. `OUT.results` has them, and
//! `--resume` compares them (`journal.rs`): without this, one output could have rows of two different runs.
//!
//! The other options may change. They concern times, memory, the progress and the network, or the files that are made of the complete
//! `OUT.partial`, which has all rows: `--only`, `--split`, `--compress`, a spreadsheet, the summary and the report.

use super::{CleanArgs, column_option};
use lists::{Format, ResultColumn, Source, is_stream, shell};
use spill::keyed::ListStart;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The list, among the names of options.
const INPUT: &str = "INPUT";

/// The options of a run.
#[derive(Debug, Default)]
pub(super) struct RunOptions {
    /// The options by their names: each as a command line has it, or empty if it is not given. In the text of a file, the first bytes of
    /// its content follow ([`ListStart`]).
    texts: Vec<(&'static str, String)>,
    /// The files of `INPUT` and `--known`.
    files: Vec<(&'static str, PathBuf)>,
    /// The further columns of results, also those that are not named.
    columns: Vec<ResultColumn>,
}

impl RunOptions {
    /// The options of a run over this list. What the list itself tells counts as given.
    pub fn new(args: &CleanArgs, source: &Source) -> RunOptions {
        let (shape, writing) = (source.shape(), &args.writing);
        let format = match shape.format {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Text => "text",
        };
        let sheet = source.sheet_place().map(|place| format!("--sheet {}", shell::quoted(&place.name)));
        let column: String = shape.chosen.iter().map(|name| column_option(name)).collect();
        let files = [(INPUT, Some(&args.input)), ("--known", writing.known.as_ref())];
        let of_file = |name: &str, path: &Path| {
            let start = if is_stream(path) { String::new() } else { ListStart::text(path) };
            // A tab would end the text.
            format!("{name} {}", shell::path(path)).replace('\t', " ") + &start
        };
        let columns = shape.further_columns().to_vec();
        // `--retry` takes the columns of INPUT, and `--known` adds this one.
        let named = match columns.as_slice() {
            _ if writing.retry => &[],
            [named @ .., ResultColumn::CheckedAt] if writing.known.is_some() => named,
            all => all,
        };
        let header = match (args.header, args.no_header) {
            (true, _) => "--header",
            (_, true) => "--no-header",
            _ => "",
        };
        let texts = vec![
            (INPUT, of_file(INPUT, &args.input)),
            ("--format", format!("--format {format}")),
            ("--sheet", sheet.unwrap_or_default()),
            ("--column", column.trim_start().to_owned()),
            ("--header", header.to_owned()),
            ("--columns", columns_text(&names(named))),
            flag("--fast", args.fast),
            flag("--unordered", args.unordered),
            flag("--drop-duplicates", writing.drop_duplicates),
            ("--known", writing.known.as_ref().map_or(String::new(), |path| of_file("--known", path))),
            ("--known-days", writing.known_days.map_or(String::new(), |days| format!("--known-days {days}"))),
            flag("--retry", writing.retry),
            flag("--join", args.join),
        ];
        let files = files.into_iter().filter_map(|(name, path)| Some((name, path?.clone())));
        let files = files.filter(|(_, path)| !is_stream(path)).collect();
        RunOptions { texts, files, columns }
    }

    /// The options as one line.
    pub fn line(&self) -> String {
        let texts: BTreeMap<_, _> = self.texts.iter().map(|(name, text)| (*name, text)).collect();
        // Texts can always be written as JSON.
        serde_json::to_string(&texts).unwrap_or_default()
    }

    /// What differs from the options in the line of an earlier run, as the end of a sentence about its output; `None` if nothing does.
    /// `has_results`: that run has stored results of rows that it has not written.
    pub fn difference(&self, line: &str, has_results: bool) -> Option<String> {
        let earlier = serde_json::from_str(line).unwrap_or_else(|_| self.of_older_line(line));
        let is_unordered = self.texts.contains(&flag("--unordered", true));
        let mut differing: Vec<(&str, &str, &str)> = Vec::new();
        for (name, now) in &self.texts {
            // Another release may have recorded other options.
            let Some(was) = earlier.get(*name) else { continue };
            // Rows in order are compared before a row is checked, and those that were not written may have been corrected.
            if *name == INPUT && !has_results && !is_unordered {
                continue;
            }
            if self.is_other(name, was, now) {
                differing.push((name, shown(was), shown(now)));
            }
        }
        if differing.is_empty() {
            return None;
        }
        let said = |name: &str, text: &str| match text {
            "" => format!("without {name}"),
            text => text.to_owned(),
        };
        let (mut was_said, mut now_said, mut with, mut without) = (vec![], vec![], vec![], vec![]);
        for (name, was, now) in differing {
            // A file of the same name has other contents.
            let as_it_was = if was == now { " as it was" } else { "" };
            was_said.push(said(name, was) + as_it_was);
            now_said.push(said(name, now));
            match was {
                "" => without.push(name.to_owned()),
                was => with.push(was.to_owned() + as_it_was),
            }
        }
        let wanted =
            [("with", with), ("without", without)].into_iter().filter(|(_, texts)| !texts.is_empty());
        let wanted: Vec<String> = wanted.map(|(word, texts)| format!("{word} {}", texts.join(" "))).collect();
        Some(format!(
            "was made with other options ({}; now {}): repeat the command {}, or name another output with -o",
            was_said.join(", "),
            now_said.join(", "),
            wanted.join(" and ")
        ))
    }

    /// Whether an option has another value than it had.
    fn is_other(&self, name: &str, was: &str, now: &str) -> bool {
        match self.files.iter().find(|(file, _)| *file == name) {
            // The content counts, because files are moved. That of a stream cannot be compared.
            file if name == INPUT => file.is_some_and(|(_, path)| ListStart::is_of_another(was, path)),
            // The earlier output may have been replaced by a newer one.
            Some((_, path)) if !was.is_empty() => {
                shown(was) != shown(now) && ListStart::is_of_another(was, path)
            }
            _ => was != now,
        }
    }

    /// The options in a line of an earlier release: the mode, the columns of results, and the first bytes of the list, as in
    /// `full,rule<TAB>4096<TAB>34f4c9c5...`. Such a run kept the order of the list.
    fn of_older_line(&self, line: &str) -> BTreeMap<String, String> {
        let (kind, list) = line.split_at(line.find('\t').unwrap_or(line.len()));
        let (mode, columns) = kind.split_once(',').unwrap_or((kind, ""));
        let is_same = columns == names(&self.columns);
        let now = self.texts.iter().find(|(name, _)| *name == "--columns").map(|(_, text)| text.clone());
        let columns = now.filter(|_| is_same).unwrap_or_else(|| columns_text(columns));
        let fast = if mode == "fast" { "--fast" } else { "" };
        let texts = [
            (INPUT, format!("the INPUT of that run{list}")),
            ("--columns", columns),
            ("--fast", fast.to_owned()),
            ("--unordered", String::new()),
        ];
        texts.map(|(name, text)| (name.to_owned(), text)).into()
    }
}

/// An option without a value.
fn flag(name: &'static str, is_given: bool) -> (&'static str, String) {
    (name, if is_given { name.to_owned() } else { String::new() })
}

/// The part of a text that is for people.
fn shown(text: &str) -> &str {
    text.split('\t').next().unwrap_or_default()
}

fn names(columns: &[ResultColumn]) -> String {
    columns.iter().map(|column| column.as_str()).collect::<Vec<_>>().join(",")
}

fn columns_text(names: &str) -> String {
    if names.is_empty() { String::new() } else { format!("--columns {names}") }
}
