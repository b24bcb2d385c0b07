//! Confusion matrices: for each truth, how often each answer was given.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How an answer compares with the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// As the truth is.
    Right,
    /// It says less than is true.
    Missed,
    /// Definite, and not so.
    Wrong,
}

/// An answer with the truth.
#[derive(Debug, Clone)]
pub struct Judged {
    pub truth: String,
    pub said: String,
    /// The reason that was given for the answer.
    pub why: String,
    pub mark: Mark,
    /// What was judged.
    pub name: String,
}

/// The matrix in Markdown, with a row for each truth in the order of the answers. `head` is the heading of the truths.
pub fn matrix(head: &str, judged: &[Judged]) -> String {
    let mut truths: Vec<&str> = Vec::new();
    let mut said: Vec<&str> = judged.iter().map(|one| &*one.said).collect();
    said.sort_unstable();
    said.dedup();
    for one in judged {
        if !truths.contains(&&*one.truth) {
            truths.push(&one.truth);
        }
    }
    let mut text = format!("| {head} | {} | all | right | missed | definite and wrong |\n", said.join(" | "));
    text += &format!("| --- |{}\n", " ---: |".repeat(said.len() + 4));
    let count = |is_counted: &dyn Fn(&&Judged) -> bool| match judged.iter().filter(is_counted).count() {
        0 => String::new(),
        count => count.to_string(),
    };
    for truth in truths.into_iter().map(Some).chain([None]) {
        let is_in_row = |one: &Judged| truth.is_none_or(|truth| one.truth == truth);
        let cells = said.iter().map(|said| count(&|one| is_in_row(one) && one.said == *said));
        let marked = |mark| count(&|one| is_in_row(one) && one.mark == mark);
        let ends =
            [count(&|one| is_in_row(one)), marked(Mark::Right), marked(Mark::Missed), marked(Mark::Wrong)];
        let cells: Vec<String> = cells.chain(ends).collect();
        writeln!(text, "| {} | {} |", truth.unwrap_or("all"), cells.join(" | ")).expect("a text");
    }
    text.replace("|  |", "| |").replace("|  |", "| |")
}

/// The answers with a mark by truth, answer and reason, each with the names of what was judged.
pub fn named(judged: &[Judged], mark: Mark) -> String {
    let mut groups: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for one in judged.iter().filter(|one| one.mark == mark) {
        let Judged { truth, said, why, .. } = one;
        let group = if why.is_empty() { said.clone() } else { format!("{said} ({why})") };
        *groups
            .entry(format!("truth: {truth}; answer: {group}"))
            .or_default()
            .entry(&one.name)
            .or_default() += 1;
    }
    let mut text = String::new();
    if groups.is_empty() {
        text += "None.\n";
    }
    for (group, names) in groups {
        let names = names.iter().map(|(name, count)| match count {
            1 => format!("`{name}`"),
            count => format!("`{name}` ({count})"),
        });
        writeln!(text, "- {group}: {}", names.collect::<Vec<_>>().join(", ")).expect("a text");
    }
    text
}

/// The words of a name in Rust: `Definite(NotFound)` becomes `definite: not found`. A class of replies stays as it is.
pub fn words(name: &str) -> String {
    if !name.contains(|c: char| c.is_ascii_lowercase()) {
        return name.to_owned();
    }
    let mut text = String::new();
    for letter in name.chars() {
        match letter {
            '(' => text += ": ",
            ')' => {}
            '_' => text.push(' '),
            _ if letter.is_ascii_uppercase() && text.ends_with(|last: char| last.is_ascii_lowercase()) => {
                text.push(' ');
                text.push(letter.to_ascii_lowercase());
            }
            _ => text.push(letter.to_ascii_lowercase()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_counts_truths_by_answers_and_names_the_wrong_ones() {
        let one = |truth: &str, said: &str, mark, name: &str| Judged {
            truth: truth.into(),
            said: said.into(),
            why: "rule".into(),
            mark,
            name: name.into(),
        };
        let judged = [
            one("exists", "yes", Mark::Right, "a"),
            one("exists", "no", Mark::Wrong, "b"),
            one("exists", "no", Mark::Wrong, "b"),
            one("exists", "unknown", Mark::Missed, "c"),
            one("does not exist", "no", Mark::Right, "d"),
        ];
        assert_eq!(
            matrix("truth", &judged),
            "| truth | no | unknown | yes | all | right | missed | definite and wrong |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
             | exists | 2 | 1 | 1 | 4 | 1 | 1 | 2 |\n| does not exist | 1 | | | 1 | 1 | | |\n\
             | all | 3 | 1 | 1 | 5 | 2 | 1 | 2 |\n"
        );
        assert_eq!(named(&judged, Mark::Wrong), "- truth: exists; answer: no (rule): `b` (2)\n");
        assert_eq!(named(&judged[3..], Mark::Wrong), "None.\n");
        assert_eq!(words("Definite(NotFound)"), "definite: not found");
        assert_eq!(words("EX+THR"), "EX+THR");
    }
}
