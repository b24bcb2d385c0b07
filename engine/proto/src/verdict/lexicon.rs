//! What servers say, phrase by phrase (data/phrases.txt): each phrase found in a text raises a [`Signal`], and the rules of
//! [`super::patterns`] weigh the signals against the codes.
//!
//! A phrase is written in the canonical words of [`super::words`]: `mailbox` stands for every word for a mailbox,
//! `not` for every negation, and articles are left out. A word that ends in `*` matches by its beginning; `_`
//! stands for up to two words, none of which says that something else than the mailbox is spoken of.

use super::words::{APART, Words, canonical};
use std::sync::LazyLock;

/// Something that a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Signal {
    /// There is no such mailbox.
    NoMailbox,
    /// The mailbox is "unavailable", which most often means that there is none.
    Unavailable,
    /// The recipient is rejected; why is not said.
    Rejected,
    /// It may be missing, or something else may be the case.
    Uncertain,
    /// The mailbox is disabled.
    DisabledMailbox,
    /// Something is disabled, and it is not said what.
    DisabledBare,
    /// The mailbox is full.
    FullMailbox,
    /// Something lacks space.
    NoSpace,
    /// The server's disk lacks space.
    ServerDisk,
    /// A quota of sending, not of the mailbox.
    SendQuota,
    /// This mailbox gets more mail than it may.
    MailboxRate,
    /// This mailbox takes mail from inside or from named senders only.
    Restricted,
    /// Our reverse-path is refused.
    SenderRefused,
    /// The sender is spoken of.
    SenderWord,
    /// A blocklist, a reputation, or a failed authentication of our domain.
    Listed,
    /// Our network address, host or name.
    OurName,
    /// A policy about content or conduct.
    Conduct,
    /// Something is denied.
    Denied,
    /// Greylisting.
    Greylist,
    /// "Try again in so many minutes."
    RetrySoon,
    /// Too fast or too many.
    TooMuch,
    /// We asked for too many mailboxes that do not exist.
    TooManyBad,
    /// In this session or transaction too much.
    SessionLimit,
    /// Relaying is spoken of.
    Relaying,
    /// The domain is not served here.
    NotServed,
    /// The domain or its host does not exist or takes no mail.
    NoDomain,
    /// Authentication is asked for.
    Authenticate,
    /// TLS is asked for.
    Encrypt,
    /// The server has yet to find out whether there is such a mailbox.
    Verifying,
    /// It is a matter of time.
    NotNow,
    /// `Access denied` to `all recipient addresses`.
    AllRecipients,
    /// The provider takes no mail for this customer's domain.
    TenantClosed,
    /// Yandex: the owner's or operator's policy switched the mailbox off.
    TargetPolicy,
    /// QQ: the recipient gets too much mail.
    UnavailableOrDenied,
    /// Retry over IPv4.
    WantsIpv4,
    /// Our MAIL or HELO is out of order.
    Protocol,
}

/// Signals raised by a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Signals(u64);

impl Signals {
    pub(super) const fn of(signals: &[Signal]) -> Signals {
        let mut bits = 0;
        let mut index = 0;
        while index < signals.len() {
            bits |= 1 << signals[index] as u8;
            index += 1;
        }
        Signals(bits)
    }

    pub(super) fn any_of(self, other: Signals) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn raise(&mut self, signal: Signal) {
        self.0 |= 1 << signal as u8;
    }
}

use Signal::*;

/// Every signal with its name in the file of phrases.
const NAMES: [(&str, Signal); 36] = [
    ("no-mailbox", NoMailbox),
    ("unavailable", Unavailable),
    ("rejected", Rejected),
    ("uncertain", Uncertain),
    ("disabled-mailbox", DisabledMailbox),
    ("disabled-bare", DisabledBare),
    ("full-mailbox", FullMailbox),
    ("no-space", NoSpace),
    ("server-disk", ServerDisk),
    ("send-quota", SendQuota),
    ("mailbox-rate", MailboxRate),
    ("restricted", Restricted),
    ("sender-refused", SenderRefused),
    ("sender-word", SenderWord),
    ("listed", Listed),
    ("our-name", OurName),
    ("conduct", Conduct),
    ("denied", Denied),
    ("greylist", Greylist),
    ("retry-soon", RetrySoon),
    ("too-much", TooMuch),
    ("too-many-bad", TooManyBad),
    ("session-limit", SessionLimit),
    ("relaying", Relaying),
    ("not-served", NotServed),
    ("no-domain", NoDomain),
    ("authenticate", Authenticate),
    ("encrypt", Encrypt),
    ("verifying", Verifying),
    ("not-now", NotNow),
    ("all-recipients", AllRecipients),
    ("tenant-closed", TenantClosed),
    ("target-policy", TargetPolicy),
    ("unavailable-or-denied", UnavailableOrDenied),
    ("wants-ipv4", WantsIpv4),
    ("protocol", Protocol),
];

/// The phrases, signal by signal. Order does not matter: every phrase that occurs raises its signal.
const PHRASES: &str = include_str!("../../data/phrases.txt");

/// Words that a gap may not hold: after one of them something else than the mailbox is spoken of.
const BARRIERS: [&str; 30] = [
    APART,
    "authentication",
    "agent",
    "session",
    "message",
    "domain",
    "host",
    "server",
    "hostname",
    "mx",
    "dns",
    "zone",
    "system",
    "sender",
    "from",
    "client",
    "ip",
    "policy",
    "helo",
    "relay",
    "access",
    "command",
    "service",
    "or",
    "but",
    "may",
    "might",
    "if",
    "because",
    "rejected",
];

/// Longest gap in words.
const GAP_WORDS: usize = 2;

enum Part {
    Exact(Box<str>),
    Prefix(Box<str>),
    Gap,
}

struct Phrase {
    signal: Signal,
    parts: Box<[Part]>,
}

/// The phrases, bucketed by how their first two words begin.
struct Index {
    phrases: Vec<Phrase>,
    buckets: Vec<Vec<u16>>,
    links: Vec<(Signal, &'static str)>,
}

const BUCKETS: usize = 1024;

static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

impl Index {
    fn new() -> Index {
        let mut index = Index { phrases: Vec::new(), buckets: vec![Vec::new(); BUCKETS], links: Vec::new() };
        for (section, text) in entries() {
            match section.strip_prefix("links ") {
                Some(name) => index.links.extend(signal_of(name).map(|signal| (signal, text))),
                None => index.add(signal_of(section), parse(text)),
            }
        }
        index
    }

    fn add(&mut self, signal: Option<Signal>, parts: Box<[Part]>) {
        if let (Some(signal), Some(Part::Exact(first) | Part::Prefix(first))) = (signal, parts.first()) {
            let second = match parts.get(1) {
                Some(Part::Exact(second)) => Some(&**second),
                Some(Part::Prefix(second)) if second.len() >= 2 => Some(&**second),
                _ => None,
            };
            self.buckets[bucket(first, second)].push(self.phrases.len() as u16);
            self.phrases.push(Phrase { signal, parts });
        }
    }
}

fn signal_of(name: &str) -> Option<Signal> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

/// The entries of the file, each with the name of its section.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut section = "";
    PHRASES.lines().filter(|line| !line.starts_with('#')).flat_map(move |line| {
        let header = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        section = header.unwrap_or(section);
        let phrases = if header.is_some() { "" } else { line };
        let within = section;
        phrases
            .split(',')
            .map(str::trim)
            .filter(|phrase| !phrase.is_empty())
            .map(move |phrase| (within, phrase))
    })
}

/// By the first two bytes of each word: a prefix of two bytes or more lies in the bucket of every word it matches.
/// Phrases of one word, or with a gap after the first, lie where there is no second.
fn bucket(first: &str, second: Option<&str>) -> usize {
    let byte = |word: &str, at: usize| usize::from(word.as_bytes().get(at).copied().unwrap_or(0));
    let head = byte(first, 0) * 31 + byte(first, 1);
    let tail = second.map_or(0, |second| byte(second, 0) * 37 + byte(second, 1) + 1);
    (head * 17 + tail) % BUCKETS
}

fn parse(text: &str) -> Box<[Part]> {
    let part = |token: &str| match token {
        "_" => Some(Part::Gap),
        _ => match token.strip_suffix('*') {
            Some(prefix) => Some(Part::Prefix(prefix.into())),
            None => canonical(token).map(|word| Part::Exact(word.into())),
        },
    };
    text.split(' ').filter_map(part).collect()
}

/// The signals that a text raises.
pub(super) fn signals(words: &Words) -> Signals {
    let mut signals = Signals::default();
    for at in 0..words.len() {
        let (first, second) = (words.word(at), words.word(at + 1));
        let alone = &INDEX.buckets[bucket(first, None)];
        let with_second = &INDEX.buckets[bucket(first, Some(second))];
        for &phrase in alone.iter().chain(with_second) {
            let phrase = &INDEX.phrases[phrase as usize];
            if !signals.any_of(Signals::of(&[phrase.signal])) && matches(words, at, &phrase.parts) {
                signals.raise(phrase.signal);
            }
        }
    }
    for (signal, part) in &INDEX.links {
        if !words.links.is_empty() && mentions(&words.links, part) {
            signals.raise(*signal);
        }
    }
    signals
}

/// True when a link holds `part` at the beginning of a label, a path or a parameter.
fn mentions(links: &str, part: &str) -> bool {
    links.match_indices(part).any(|(at, _)| {
        !part.as_bytes()[0].is_ascii_alphanumeric()
            || !links[..at].ends_with(|before: char| before.is_alphanumeric() || before == '-')
    })
}

fn matches(words: &Words, at: usize, parts: &[Part]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return true };
    if at >= words.len() {
        return false;
    }
    let word = words.word(at);
    match first {
        Part::Exact(exact) => word == &**exact && matches(words, at + 1, rest),
        Part::Prefix(prefix) => word.starts_with(&**prefix) && matches(words, at + 1, rest),
        Part::Gap => (0..=GAP_WORDS)
            .take_while(|skipped| *skipped == 0 || !BARRIERS.contains(&words.word(at + skipped - 1)))
            .any(|skipped| matches(words, at + skipped, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_can_occur() {
        assert!(INDEX.phrases.len() > 700 && INDEX.phrases.len() < usize::from(u16::MAX));
        let mut silent = Vec::new();
        for (section, text) in entries() {
            let signal = signal_of(section.trim_start_matches("links ")).expect(section);
            if section.starts_with("links ") {
                continue;
            }
            let sample = text.replace('_', "thing").replace('*', "");
            let words = Words::of(&sample, "mx.example.com");
            let parts = parse(text);
            assert_eq!(parts.len(), text.split(' ').count(), "{text:?} holds a word that is left out");
            let raised = signals(&words).any_of(Signals::of(&[signal]));
            if !raised || !(0..words.len()).any(|at| matches(&words, at, &parts)) {
                silent.push(text);
            }
        }
        assert!(silent.is_empty(), "these phrases cannot occur: {silent:?}");
    }

    #[test]
    fn no_phrase_begins_or_ends_with_a_gap() {
        for phrase in &INDEX.phrases {
            assert!(
                !matches!(phrase.parts.first(), Some(Part::Gap))
                    && !matches!(phrase.parts.last(), Some(Part::Gap))
            );
            let first = match &phrase.parts[0] {
                Part::Exact(word) => word,
                Part::Prefix(word) => word,
                Part::Gap => continue,
            };
            assert!(first.len() >= 2 || matches!(phrase.parts[0], Part::Exact(_)), "{first}");
        }
    }
}
