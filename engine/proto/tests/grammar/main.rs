//! Replies by grammar: subject x predicate x language x code x server, with the truth known from the way in which each is made.
//!
//! A quarter of the combinations of subject, predicate and language is held out. No reply of these is ever printed, so no phrase can be
//! written for them. docs/testing.md has the commands and the scores.

#[path = "../../testdata/accuracy.rs"]
mod accuracy;
mod language;
mod replies;
mod truth;

use language::{Combination, combinations};
use replies::{Draw, Made, make};
use std::collections::{BTreeMap, HashSet};
use truth::{Truth, truth};

/// The seed of the committed scores; `GRAMMAR_SEED` takes another.
const SEED: u64 = 13;
const REPLIES: usize = 20_000;
const HELD_OUT: usize = 5_000;

/// Shares of right replies, in hundredths of a percent, below which the test fails.
const RIGHT_MIN: usize = 9_850;
/// Most replies that may end definite and wrong: of all, and of those held out.
const WRONG_MAX: (usize, usize) = (0, 0);

/// Replies in words that the lexicon does not have. A sentence with a word that became known is left out.
const UNHEARD: usize = 500;

macro_rules! languages {
    ($folder:literal: $($name:literal)*) => {
        [$(($name, include_str!(concat!("../../testdata/grammar/", $folder, $name, ".txt")))),*]
    };
}

fn all_combinations() -> Vec<Combination> {
    let files = languages!("": "en" "de" "fr" "es" "it" "pt" "nl" "sv" "da" "pl" "ru" "cs" "tr" "ja" "zh" "hu" "fi" "ro" "el" "id");
    files.into_iter().flat_map(|(language, text)| combinations(language, text)).collect()
}

/// One combination in four, by a hash of its name.
fn is_held_out(combination: &Combination) -> bool {
    let hash = combination
        .name()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 24).is_multiple_of(4)
}

/// So many different replies of these combinations.
fn draw(combinations: &[Combination], count: usize, seed: u64) -> Vec<Made> {
    let mut draw = Draw(seed);
    let mut seen = HashSet::new();
    let mut made = Vec::with_capacity(count);
    for _ in 0..count * 50 {
        let combination = &combinations[draw.below(combinations.len())];
        // Most combinations are about us; one reply in three of these leaves room for the others.
        if truth(combination.subject, combination.predicate) == Truth::Us && draw.below(3) > 0 {
            continue;
        }
        let one = make(combination, &mut draw);
        if made.len() < count && seen.insert((one.reply.code(), one.reply.text().to_owned())) {
            made.push(one);
        }
    }
    assert_eq!(made.len(), count, "the grammar makes too few different replies");
    made
}

fn seed() -> u64 {
    std::env::var("GRAMMAR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED)
}

#[derive(Default, Clone, Copy)]
struct Score {
    all: usize,
    right: usize,
    wrong: usize,
}

impl Score {
    fn share(self) -> usize {
        self.right * 10_000 / self.all.max(1)
    }

    fn add(&mut self, right: bool, wrong: bool) {
        self.all += 1;
        self.right += usize::from(right);
        self.wrong += usize::from(wrong);
    }
}

/// The score of all, and of each language and truth.
fn score(made: &[Made], told: bool) -> (Score, BTreeMap<String, Score>) {
    let (mut sum, mut parts) = (Score::default(), BTreeMap::<String, Score>::new());
    for one in made {
        let (found, code) = (one.classified(told), one.reply.code());
        let right = one.truth.is_told_by(&found, code);
        let wrong = one.truth.is_contradicted_by(&found, code);
        sum.add(right, wrong);
        for part in [one.language.to_owned(), format!("{:?}", one.truth)] {
            parts.entry(part).or_default().add(right, wrong);
        }
    }
    (sum, parts)
}

/// Prints each reply with what was said of it, without its words.
fn judged(set: &str, made: &[Made]) {
    for one in made {
        let (found, code) = (one.classified(true), one.reply.code());
        let verdict = (one.truth.is_told_by(&found, code), one.truth.is_contradicted_by(&found, code));
        let truth = format!("{:?}", one.truth);
        accuracy::judged(set, &truth, found.class.as_str(), verdict, found.rule, one.language);
    }
}

/// Replies that are not understood, for whoever writes phrases: `GRAMMAR_SHOW=20` shows so many.
#[expect(clippy::print_stdout, reason = "for a person at a terminal")]
fn show(made: &[Made]) {
    let most = std::env::var("GRAMMAR_SHOW").ok().and_then(|most| most.parse().ok()).unwrap_or(0);
    let only = std::env::var("GRAMMAR_ONLY").unwrap_or_default();
    let missed = |one: &&Made| !one.truth.is_told_by(&one.classified(true), one.reply.code());
    let step = |one: &&Made| only.is_empty() || one.language == only || format!("{:?}", one.truth) == only;
    for one in made.iter().filter(step).filter(missed).take(most) {
        let found = one.classified(true);
        let mark = if one.truth.is_contradicted_by(&found, one.reply.code()) { "WRONG" } else { "missed" };
        let (language, truth, code, text) = (one.language, one.truth, one.reply.code(), one.reply.text());
        println!("{mark} {language} {truth:?}, {} by {}: {code} {text:?}", found.class.as_str(), found.rule);
    }
}

/// The rules and codes by which replies end definite and wrong. The words of those held out stay unseen.
#[expect(clippy::print_stdout, reason = "for a person at a terminal")]
fn show_rules_of_wrong_ones(made: &[Made]) {
    for one in made {
        let (found, code) = (one.classified(true), one.reply.code());
        if one.truth.is_contradicted_by(&found, code) {
            println!("wrong by {}: {code} {}, {:?}", found.rule, one.language, one.truth);
        }
    }
}

#[test]
fn replies_by_grammar_are_told() {
    let (held_out, known): (Vec<_>, Vec<_>) = all_combinations().into_iter().partition(is_held_out);
    let seed = seed();
    let known_made = draw(&known, REPLIES - HELD_OUT, seed);
    let held_made = draw(&held_out, HELD_OUT, seed + 1);
    judged("grammar", &known_made);
    judged("grammar", &held_made);
    show(&known_made);
    show_rules_of_wrong_ones(&held_made);
    println!("{} combinations, {} of them held out", known.len() + held_out.len(), held_out.len());
    for told in [true, false] {
        let (of_known, known_parts) = score(&known_made, told);
        let (of_held, held_parts) = score(&held_made, told);
        println!(
            "{:>12} {:>8} {:>7} {:>6} {:>7} {:>6}",
            if told { "told" } else { "not told" },
            "replies",
            "right",
            "wrong",
            "held",
            "wrong"
        );
        let line = |name: &str, known: Score, held: Score| {
            let percent = |score: Score| score.share() as f64 / 100.0;
            println!(
                "{name:>12} {:>8} {:>7.2} {:>6} {:>7.2} {:>6}",
                known.all + held.all,
                percent(known),
                known.wrong,
                percent(held),
                held.wrong
            );
        };
        for (name, part) in &known_parts {
            line(name, *part, held_parts.get(name).copied().unwrap_or_default());
        }
        line("all", of_known, of_held);
        if told {
            let all = Score {
                all: REPLIES,
                right: of_known.right + of_held.right,
                wrong: of_known.wrong + of_held.wrong,
            };
            assert!(all.share() >= RIGHT_MIN, "{} of {REPLIES} right", all.right);
            assert!(of_held.share() >= RIGHT_MIN, "{} of {HELD_OUT} held out right", of_held.right);
            assert!(
                all.wrong <= WRONG_MAX.0 && of_held.wrong <= WRONG_MAX.1,
                "{} definite and wrong, {} of the held out",
                all.wrong,
                of_held.wrong
            );
        }
    }
}

/// The second set: what is said of the subjects is said in words that no phrase and no dictionary has.
#[test]
fn words_that_nobody_wrote_down_end_in_nothing_definite_and_wrong() {
    let files = languages!("unheard/": "en" "de" "fr" "hu" "cy" "eu");
    let known = known_words();
    let is_heard = |line: &&str| {
        let words = line.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().count() > 3);
        words.map(str::to_lowercase).any(|word| known.contains(&word))
    };
    let (mut all, mut heard) = (Vec::new(), 0);
    for (language, text) in files {
        let (subjects, said) = text.split_once("\npredicate ").expect(language);
        let lines: Vec<&str> = said.lines().collect();
        let unheard: Vec<&str> =
            lines.iter().copied().filter(|line| line.contains(": ") || !is_heard(line)).collect();
        heard += lines.len() - unheard.len();
        let text = format!("{subjects}\npredicate {}", unheard.join("\n"));
        all.extend(combinations(language, text.leak()));
    }
    assert!(heard <= UNHEARD / 50, "{heard} sentences have words that are known now");
    let made = draw(&all, UNHEARD, seed());
    judged("unheard words", &made);
    let (sum, parts) = score(&made, true);
    println!("unheard words: {} right, {} definite and wrong of {}", sum.right, sum.wrong, sum.all);
    let wrong: Vec<String> = made
        .iter()
        .map(|one| (one, one.classified(true)))
        .filter(|(one, found)| one.truth.is_contradicted_by(found, one.reply.code()))
        .map(|(one, found)| {
            format!("{:?} by {}: {} {:?}", one.truth, found.rule, one.reply.code(), one.reply.text())
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert!(parts.len() >= 13, "{} languages and truths", parts.len());
}

/// Every word of data/phrases.txt and every form of data/words.txt. Beginnings stand for themselves.
fn known_words() -> HashSet<String> {
    let phrases = include_str!("../../data/phrases.txt").lines().filter(|line| !line.starts_with(['#', '[']));
    let forms = include_str!("../../data/words.txt").lines().filter(|line| !line.starts_with('#'));
    let words = phrases.chain(forms).flat_map(|line| line.split(|c: char| !c.is_alphabetic()));
    words.map(str::to_lowercase).collect()
}
