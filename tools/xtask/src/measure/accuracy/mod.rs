//! `cargo xtask measure accuracy`: writes docs/accuracy.md from the template tools/xtask/accuracy.md. It has a confusion matrix for each
//! set of the tree with a known truth.

mod lists;
mod matrix;
mod servers;
mod sets;

use super::bench::Bench;
use super::verifiers::{SESSIONS, install};
use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::interop::report::Tally;
use crate::refresh_lists::lines_of;
use matrix::{Judged, Mark, matrix, named};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PAGE: &str = "docs/accuracy.md";
const TEMPLATE: &str = include_str!("../../../accuracy.md");
/// The place of the number of lines, behind the name of a file.
const LINES: &str = " @LINES@";
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Writes the page. Definite and wrong answers are on the page, and are no failure of the command.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let (began, folder, root) = (Instant::now(), bench.world.folder(), root());
    let commit = commit(folder)?;
    let answers = servers::ask(bench, install(bench, format!("mailprobe clean --sessions {SESSIONS}"))?)?;
    let mut judged = sets::judge(folder)?;
    judged.extend(lists::judge(&root, folder)?);
    let mut page =
        with_lines(&root)?.replace("@COMMIT@", &commit).replace("@SERVERS@", &of_servers(&answers));
    page = page.replace("@REASONS@", &reasons(&answers[0].judged));
    page = page.replace("@MISSED@", named(&answers[0].judged, Mark::Missed).trim_end());
    judged.insert("servers".into(), answers[0].judged.clone());
    for (set, rows) in &mut judged {
        // Those of the servers are sorted.
        if set != "servers" {
            rows.sort_by(|a, b| a.truth.cmp(&b.truth));
        }
        let tables = format!("{}\n{}", matrix("truth", rows), wrong(rows));
        let place = set.to_uppercase();
        page = page.replace(&format!("@COUNT {place}@"), &rows.len().to_string());
        page = page.replace(&format!("@{place}@"), tables.trim_end());
        let of = |mark| rows.iter().filter(|one| one.mark == mark).count();
        let figures =
            format!("{} of {} right, {} definite and wrong", of(Mark::Right), rows.len(), of(Mark::Wrong));
        tally.check(set, Ok(figures));
    }
    page = page.replace("@MINUTES@", &began.elapsed().as_secs().div_ceil(60).to_string());
    if let Some(empty) = page.lines().find(|line| line.starts_with('@') || line.contains("@COUNT")) {
        return Err(Failure(format!("nothing was judged for {empty}")));
    }
    fs::write(root.join(PAGE), page).at(Path::new(PAGE))
}

/// The root of the source tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The date of today and the commit, in words.
fn commit(folder: &Path) -> Result<String, Failure> {
    let said = |program: &str, words: &[&str]| -> Result<String, Failure> {
        let mut command = Command::new(program);
        command.args(words).current_dir(root());
        let said = process::run(command, "", folder, COMMAND_LIMIT)?.success(program)?;
        Ok(said.trim().to_owned())
    };
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changes = said("git", &["status", "--porcelain", "--", ".", ":!docs"])?;
    let with = if changes.is_empty() { "" } else { " with changes" };
    Ok(format!("{}, commit {commit}{with}", said("date", &["-u", "+%F"])?))
}

/// The summary of the verifiers, and the matrix of each with its wrong answers.
fn of_servers(answers: &[servers::VerifierAnswers]) -> String {
    let mut text = "| verifier | addresses | right | missed | definite and wrong | s |\n".to_owned();
    text += "| --- | ---: | ---: | ---: | ---: | ---: |\n";
    for servers::VerifierAnswers { name, judged, seconds } in answers {
        let [right, missed, wrong] = [Mark::Right, Mark::Missed, Mark::Wrong]
            .map(|mark| judged.iter().filter(|one| one.mark == mark).count());
        writeln!(text, "| {name} | {} | {right} | {missed} | {wrong} | {seconds:.0} |", judged.len())
            .expect("a text");
    }
    for servers::VerifierAnswers { name, judged, .. } in answers {
        write!(text, "\n### {name}\n\n{}\n{}", matrix("mailbox", judged), wrong(judged)).expect("a text");
    }
    text.trim_end().to_owned()
}

fn wrong(judged: &[Judged]) -> String {
    format!("Definite and wrong:\n\n{}", named(judged, Mark::Wrong))
}

/// The reasons that mailprobe gave for each truth.
fn reasons(judged: &[Judged]) -> String {
    let by_reason = judged.iter().map(|one| Judged { said: format!("`{}`", one.why), ..one.clone() });
    matrix("mailbox", &by_reason.collect::<Vec<_>>()).trim_end().to_owned()
}

/// The template with the numbers of lines of the files that it names.
fn with_lines(root: &Path) -> Result<String, Failure> {
    let mut pieces = TEMPLATE.split(LINES);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let file = text.rsplit('`').nth(1).unwrap_or_default();
        let count = lines(root, file)?;
        write!(text, " {count}{piece}").expect("a text");
    }
    Ok(text)
}

/// The number of lines that are neither empty nor comments; of all files of a folder if the name ends with `*.txt`.
fn lines(root: &Path, file: &str) -> Result<usize, Failure> {
    let count = |path: &Path| fs::read_to_string(path).at(path).map(|text| lines_of(&text).count());
    let Some(folder) = file.strip_suffix("*.txt") else { return count(&root.join(file)) };
    let folder = root.join(folder);
    let paths = fs::read_dir(&folder).at(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "txt")).map(|path| count(&path)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of more or fewer lines is allowed, so that not each new row needs a new page.
    #[test]
    fn the_page_is_about_the_sets_of_the_tree() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let before = TEMPLATE.split(LINES).collect::<Vec<_>>();
        for file in before[..before.len() - 1].iter().filter_map(|text| text.rsplit('`').nth(1)) {
            let (_, after) = page.split_once(&format!("`{file}` ")).unwrap_or_else(|| panic!("no {file}"));
            let count = after.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            let (then, now) = (count.parse::<usize>().unwrap(), lines(&root(), file).unwrap());
            assert!(
                then.abs_diff(now) * 2 <= now,
                "{file} has {now} lines, and had {then}: `cargo xtask measure accuracy` writes the page anew"
            );
        }
    }
}
