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
    /// A permanent refusal that does not say of whom or what.
    Unclear,
}

const KINDS: usize = 10;

/// Refusals that name neither the mailbox nor us.
const UNCLEAR: [&str; 4] = ["550 Access denied", "554 5.7.1 Access denied", "550", "550 Declined"];

/// A 421 that names our rate, for a client that asked about too many unknown recipients.
pub const RATE: [&str; 3] = [
    "421 4.7.0 Too many unknown recipients, slow down",
    "421 4.7.1 Rate limit exceeded, try again later",
    "421 4.7.28 Unusual rate of mail from your address, try again later",
];

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
    texts[Kind::Unclear as usize].extend(UNCLEAR);
    texts
}
