//! What servers say, in the words of real ones: the rows that the classification is held to.

use fastrand::Rng;
use std::sync::OnceLock;

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    NotFound,
    Full,
    Disabled,
    Greylisted,
    Policy,
    Throttled,
    Temporary,
    Relay,
    Auth,
}

const KINDS: usize = 9;

/// A text with what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    pub kind: Kind,
    /// Code and words, on one line.
    pub words: &'static str,
}

/// One of the texts of a kind.
pub fn pick(kind: Kind, random: &mut Rng) -> Text {
    static TEXTS: OnceLock<[Vec<&'static str>; KINDS]> = OnceLock::new();
    let texts = &TEXTS.get_or_init(read)[kind as usize];
    Text { kind, words: texts[random.usize(..texts.len())] }
}

fn read() -> [Vec<&'static str>; KINDS] {
    let rows = include_str!("../../../../engine/proto/testdata/wordings.txt").lines();
    let mut texts: [Vec<&'static str>; KINDS] = Default::default();
    for (class, words) in rows.filter(|row| !row.starts_with('#')).filter_map(|row| row.split_once(' ')) {
        let permanent = words.starts_with('5');
        let kind = match class {
            "NF" if permanent => Kind::NotFound,
            "FULL" => Kind::Full,
            "DIS" if permanent => Kind::Disabled,
            "GREY" => Kind::Greylisted,
            "POL" => Kind::Policy,
            "THR" => Kind::Throttled,
            "TMP" => Kind::Temporary,
            "RELAY" => Kind::Relay,
            "AUTH" => Kind::Auth,
            _ => continue,
        };
        // One line each; a session goes on behind it.
        if words.as_bytes().get(3) == Some(&b' ') && !words.starts_with("421") {
            texts[kind as usize].push(words);
        }
    }
    texts
}
