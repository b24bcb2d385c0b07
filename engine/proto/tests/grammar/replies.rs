//! Replies made from combinations: codes, the frame that a kind of server puts around its words, the echoes.

use crate::language::Combination;
use crate::truth::{Codes, Truth, truth};
use engine_proto::smtp::reply::{Reply, ReplyParser};
use engine_proto::verdict::{Classification, ReplyView, Stage, Us, classify};

/// A reply with what is true of it.
pub struct Made {
    pub language: &'static str,
    pub truth: Truth,
    pub reply: Reply,
    mx: &'static str,
    names: &'static Names,
}

/// Who is asked about, and who asks: the recipient, our reverse-path, EHLO name and address.
type Names = [&'static str; 4];

const NAMES: [Names; 4] = [
    ["bob@example.com", "postmaster@probe.example", "mail.probe.example", "203.0.113.5"],
    [
        "anna.schmidt@firma.example",
        "check@mx-probe.example.net",
        "out3.mx-probe.example.net",
        "198.51.100.77",
    ],
    ["info@sub.example.org", "verify@listen.example", "vps-17.hosting.example", "2001:db8::25"],
    ["j_doe+news@example.edu", "bounces@probe.example", "probe.example", "192.0.2.200"],
];

/// How a kind of server frames its words: its MX host, and `{s}` its enhanced code, `{t}` the words.
const FRAMES: [(&str, &str); 11] = [
    ("mx.example.org", "{s} {t}"),
    ("mx.example.org", "{s} <{rcpt}>: Recipient address rejected: {t}"),
    ("mx.example.org", "{s} <{rcpt}>... {t}"),
    ("mx.example.org", "{s} {t}."),
    (
        "example-com.mail.protection.outlook.com",
        "{s} {t} [AM6EUR05FT032.eop-eur05.prod.protection.outlook.com 2024-01-01T00:00:00.000Z 08DC0A]",
    ),
    (
        "gmail-smtp-in.l.google.com",
        "{s} {t}. For more information, go to\n{s}  https://support.google.com/mail/answer/6596 d2e1a72fcca58-5si123 - gsmtp",
    ),
    ("mx1.example.iphmx.com", "#{s} {t}"),
    ("mx.example.org", "sorry, {t} (#{s})"),
    ("mx.example.org", "{s} {t} (in reply to RCPT TO command)"),
    ("mx.example.org", "{s} Error: {t} - id=7f3a91c2"),
    ("mx.example.org", "{t}"),
];

/// The generator's own numbers: the same seed makes the same replies.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// One reply of a combination.
pub fn make(combination: &Combination, draw: &mut Draw) -> Made {
    let names = draw.of(&NAMES);
    let truth = truth(combination.subject, combination.predicate);
    let codes = *draw.of(&truth.codes());
    let &(mx, frame) = draw.of(&FRAMES);
    let sentence = case(draw.of::<String>(&combination.sentences), draw.below(4));
    let text = framed(frame, &sentence, codes, names);
    let reply = sent(codes.0, &text, draw.below(4), draw.below(8) == 0);
    Made { language: combination.language, truth, reply, mx, names }
}

impl Made {
    /// What the classifier makes of it, with or without being told who asks about whom.
    pub fn classified(&self, told: bool) -> Classification {
        let [recipient, reverse_path, ehlo, source] = *self.names;
        let us = Us { reverse_path, ehlo, source: source.parse().ok() };
        classify(&ReplyView {
            stage: Stage::Rcpt,
            mx: self.mx,
            reply: &self.reply,
            recipient: told.then_some(recipient),
            us: if told { us } else { Us::default() },
        })
    }
}

/// As it stands, with a capital, or all in capitals.
fn case(sentence: &str, style: usize) -> String {
    let slots = sentence.contains('{');
    let mut chars = sentence.chars();
    match (style, chars.next()) {
        (0, _) | (_, None) => sentence.to_owned(),
        (1, _) if !slots => sentence.to_uppercase(),
        (_, Some(first)) => first.to_uppercase().chain(chars).collect(),
    }
}

fn framed(frame: &str, sentence: &str, (_, status): Codes, names: &Names) -> String {
    let [recipient, reverse_path, ehlo, source] = *names;
    let domain = |address: &str| address.split_once('@').expect("an address").1.to_owned();
    let text = frame
        .replace("{t}", sentence)
        .replace("{s}", status)
        .replace("{rcpt}", recipient)
        .replace("{rdom}", &domain(recipient))
        .replace("{us}", reverse_path)
        .replace("{udom}", &domain(reverse_path))
        .replace("{ehlo}", ehlo)
        .replace("{ip}", source);
    text.replace("(#)", "").trim().trim_start_matches("# ").trim().to_owned()
}

/// As the server's bytes are read: in one line or several, in UTF-8 or, where it can be written so, in Latin-1.
fn sent(code: u16, text: &str, breaks: usize, latin: bool) -> Reply {
    let mut spaces = 0;
    let text: String = text
        .chars()
        .map(|c| {
            spaces += usize::from(c == ' ');
            if breaks == 0 && c == ' ' && spaces % 5 == 3 { '\n' } else { c }
        })
        .collect();
    let lines: Vec<&str> = text.split('\n').collect();
    let mut wire = String::new();
    for (index, line) in lines.iter().enumerate() {
        let mark = if index + 1 < lines.len() { '-' } else { ' ' };
        wire.push_str(&format!("{code}{mark}{line}\r\n"));
    }
    let mut parser = ReplyParser::default();
    match wire.chars().map(u8::try_from).collect::<Result<Vec<u8>, _>>() {
        Ok(bytes) if latin => parser.feed(&bytes),
        _ => parser.feed(wire.as_bytes()),
    }
    parser.next().expect("a reply").expect("a whole reply")
}
