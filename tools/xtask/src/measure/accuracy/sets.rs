//! The labelled replies and bounces of the tree. Their own tests judge them, and print a line for each.

use super::matrix::{Judged, Mark, words};
use crate::failure::{Failure, ensure};
use crate::interop::process;
use crate::soak::world::cargo;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The tests of both crates have to be built.
const LIMIT: Duration = Duration::from_secs(1200);
/// The tests that print lines.
const TESTS: [&str; 10] = [
    "rows_whose_parties_are_known_mean_what_they_say",
    "every_row_means_what_it_says",
    "replies_by_another_author_are_read_right",
    "replies_by_grammar_are_told",
    "words_that_nobody_wrote_down_end_in_nothing_definite_and_wrong",
    "bounces_of_many_servers_are_read_right",
    "recipients_with_different_fates_are_read_right_in_every_order",
    "reports_by_another_author_are_read_right",
    "other_exports_are_read",
    "json_of_providers_is_read",
];

/// The answers about the members of each set.
pub type Sets = BTreeMap<String, Vec<Judged>>;

/// Runs the tests.
///
/// # Errors
///
/// A test fails. Its words are not shown, because some sets are to stay unknown to everybody that writes rules.
pub fn judge(folder: &Path) -> Result<Sets, Failure> {
    let mut command = cargo();
    command.args(["test", "--quiet", "--package", "engine-proto", "--package", "learn", "--lib"]);
    command.args(["--test", "grammar", "--"]).env("MAILPROBE_ACCURACY", "1");
    command.args(TESTS);
    let ended = process::run(command, "", folder, LIMIT)?;
    let errors: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error")).collect();
    ensure!(
        ended.status.success(),
        "cargo test -p engine-proto -p learn: {}: {}",
        ended.status,
        errors.join("; ")
    );
    let mut sets = Sets::new();
    for (set, judged) in ended.stdout.lines().filter_map(read) {
        sets.entry(set.to_owned()).or_default().push(judged);
    }
    Ok(sets)
}

/// The answer of a line; progress of the tests may precede it.
fn read(line: &str) -> Option<(&str, Judged)> {
    let (_, fields) = line.split_once("accuracy|")?;
    let [set, truth, said, mark, why, name] = fields.split('|').collect::<Vec<_>>()[..] else { return None };
    let mark = match mark {
        "right" => Mark::Right,
        "wrong" => Mark::Wrong,
        _ => Mark::Missed,
    };
    let (truth, said) = (words(truth), words(said));
    Some((set, Judged { truth, said, why: why.into(), mark, name: name.into() }))
}
