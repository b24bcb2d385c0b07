//! Replies of servers, in the words of real ones: the rows that the classification is tested against.

use engine_proto::smtp::reply::Reply;
use engine_proto::verdict::classify::{ReplyView, Us, classify};
use engine_proto::verdict::{Class, Scope, Stage};
use fastrand::Rng;
use std::sync::OnceLock;

/// The subject of a reply text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTopic {
    NotFound,
    Full,
    Disabled,
    Greylisted,
    Policy,
    Throttled,
    Temporary,
    Relay,
    Auth,
    /// A permanent refusal that names neither recipient nor cause.
    Unclear,
}

const KINDS: usize = 10;

/// Refusals that name neither the mailbox nor the client.
const UNCLEAR: [&str; 4] = ["550 Access denied", "554 5.7.1 Access denied", "550", "550 Declined"];

/// A 421 that names our rate, for a client that asked about too many unknown recipients.
pub const RATE: [&str; 3] = [
    "421 4.7.0 Too many unknown recipients, slow down",
    "421 4.7.1 Rate limit exceeded, try again later",
    "421 4.7.28 Unusual rate of mail from your address, try again later",
];

/// A reply text with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    pub kind: TextTopic,
    /// Code and words in one line.
    pub words: &'static str,
}

/// Draws one of the texts of a kind.
pub fn pick(kind: TextTopic, random: &mut Rng) -> Text {
    static TEXTS: OnceLock<[Vec<&'static str>; KINDS]> = OnceLock::new();
    let texts = &TEXTS.get_or_init(read)[kind as usize];
    Text { kind, words: texts[random.usize(..texts.len())] }
}

/// Whether no server says this of a single mailbox: that the session takes no further recipient, or 5.1.1 ("no such mailbox") without
/// a cause, whose meaning depends on what the host says of other recipients.
fn is_of_no_mailbox(words: &str) -> bool {
    let (code, text) = words.split_at(3);
    let reply = Reply::new(code.parse().expect("a reply code"), text.trim_start());
    let view = ReplyView {
        stage: Stage::Rcpt,
        mx: "mx.example.org",
        reply: &reply,
        recipient: None,
        us: Us::default(),
    };
    let said = classify(&view);
    said.rule == "uncertain-5.1.1" || (said.class, said.scope) == (Class::Throttled, Scope::Session)
}

fn read() -> [Vec<&'static str>; KINDS] {
    let rows = include_str!("../../../../engine/proto/testdata/wordings.txt").lines();
    let mut texts: [Vec<&'static str>; KINDS] = Default::default();
    for (class, words) in rows.filter(|row| !row.starts_with('#')).filter_map(|row| row.split_once(' ')) {
        let permanent = words.starts_with('5');
        let kind = match class {
            "NF" if permanent => TextTopic::NotFound,
            "FULL" => TextTopic::Full,
            "DIS" if permanent => TextTopic::Disabled,
            "GREY" => TextTopic::Greylisted,
            "POL" => TextTopic::Policy,
            "THR" => TextTopic::Throttled,
            "TMP" => TextTopic::Temporary,
            "RELAY" => TextTopic::Relay,
            "AUTH" => TextTopic::Auth,
            _ => continue,
        };
        // A text of one line, after which the session continues.
        if words.as_bytes().get(3) == Some(&b' ') && !words.starts_with("421") && !is_of_no_mailbox(words) {
            texts[kind as usize].push(words);
        }
    }
    texts[TextTopic::Unclear as usize].extend(UNCLEAR);
    texts
}
