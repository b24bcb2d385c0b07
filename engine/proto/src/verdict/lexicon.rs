//! The phrases that servers use in their replies (data/phrases.txt). Each phrase in a text raises a [`Signal`], and the rules of
//! [`super::patterns`] read the signals together with the codes.
//!
//! A phrase consists of the canonical words of [`super::words`]: `mailbox` is any word for a mailbox, `not` is any negation, and
//! articles are left out. A word that ends in `*` matches every word with this beginning. `_` is a gap: it matches up to two words,
//! but none of `BARRIERS`. The phrases of a section "says ..." are predicates such as "does not exist": [`super::subject`] finds
//! their subjects and raises the signals.

use super::alternative::{Cause, Kind, is_alternative, is_half_understood};
use super::clause::clause;
use super::condition::clauses;
use super::subject::{Claim, Predicate, resolve};
use super::translate::WordHasher;
use super::words::{APART, MAILBOX, Words, canonical};
use memchr::memmem::Finder;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

/// Declares the signals, each with the name of its section in data/phrases.txt, if it has one.
macro_rules! signals {
    ($($(#[$doc:meta])* $signal:ident $(= $name:literal)?,)*) => {
        /// Something that a text may say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(super) enum Signal { $($(#[$doc])* $signal,)* }

        /// The name of each section of data/phrases.txt that stands for a signal, with this signal.
        const NAMES: &[(&str, Signal)] = &[$($(($name, $signal),)?)*];
    };
}

signals! {
    /// There is no such mailbox.
    NoMailbox = "no-mailbox",
    /// A provider's own code for a mailbox that does not exist.
    ProviderUnknown = "provider-unknown",
    /// The mailbox is "unavailable", which most often means that there is none.
    Unavailable = "unavailable",
    /// The recipient is rejected, and the text does not say why.
    Rejected = "rejected",
    /// The mailbox may not exist, or there may be another cause.
    Uncertain = "uncertain",
    /// The mailbox is disabled.
    DisabledMailbox = "disabled-mailbox",
    /// Something is disabled, and the text does not say what.
    DisabledBare = "disabled-bare",
    /// The mailbox is full.
    FullMailbox = "full-mailbox",
    /// Something lacks space, and the text does not say what.
    NoSpace = "no-space",
    /// The server's disk lacks space.
    ServerDisk = "server-disk",
    /// A quota for sending is used up, not the quota of the mailbox.
    SendQuota = "send-quota",
    /// This mailbox receives more mail than it may.
    MailboxRate = "mailbox-rate",
    /// This mailbox takes mail only from internal senders, or only from certain senders.
    Restricted = "restricted",
    /// Our reverse-path is refused.
    SenderRefused = "sender-refused",
    /// The text mentions the sender.
    SenderWord = "sender-word",
    /// A blocklist or a bad reputation is the cause, or our domain failed an authentication.
    Listed = "listed",
    /// Our network address, host or name is the cause.
    OurName = "our-name",
    /// A policy about content or conduct is the cause.
    Conduct = "conduct",
    /// Something is denied.
    Denied = "denied",
    /// The text speaks of greylisting.
    Greylist = "greylist",
    /// The server says "try again in 5 minutes", with any number.
    RetrySoon = "retry-soon",
    /// We ask too fast or too much.
    TooMuch = "too-much",
    /// We asked for too many mailboxes that do not exist.
    TooManyBad = "too-many-bad",
    /// We exceed a limit of this session or transaction.
    SessionLimit = "session-limit",
    /// The text mentions relaying.
    Relaying = "relaying",
    /// The domain is not served here.
    NotServed = "not-served",
    /// The mailbox is not on this server.
    NotLocal = "not-local",
    /// The domain or its host does not exist or takes no mail.
    NoDomain = "no-domain",
    /// The server requires authentication.
    Authenticate = "authenticate",
    /// The server requires TLS.
    Encrypt = "encrypt",
    /// The server has yet to find out whether there is such a mailbox.
    Verifying = "verifying",
    /// The cause is temporary.
    NotNow = "not-now",
    /// All recipients are rejected, as in "All recipient addresses rejected: Access denied".
    AllRecipients = "all-recipients",
    /// The provider takes no mail for this customer's domain.
    TenantClosed = "tenant-closed",
    /// Yandex: a policy of the owner or the operator has disabled the mailbox.
    TargetPolicy = "target-policy",
    /// "Mailbox unavailable or access denied". At QQ this means that the mailbox gets too much mail.
    UnavailableOrDenied = "unavailable-or-denied",
    /// The server wants the next attempt over IPv4.
    WantsIpv4 = "wants-ipv4",
    /// The server does not accept our command or the order of our commands. No rule reads this signal, but the words of its phrases
    /// do not count as unknown ones ([`Signal::Foreign`]).
    Protocol = "protocol",
    /// A domain does not exist or is disabled, and the text does not say which domain.
    SomeDomain,
    /// Something is full or over a quota.
    Fullness,
    /// A host does not exist.
    SomeHost = "some-host",
    /// The text has words that neither a phrase about the mailbox nor the section "known" has.
    Foreign,
    /// The text names our reverse-path, name or network.
    UsNamed,
    /// The first party in the text is our reverse-path, name or network.
    UsFirst,
    /// The text names a server or a session.
    ServerNamed,
    /// The text names the mail and no other party.
    MailOnly,
}

/// The signals that a text raises, as bits.
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

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn any_of(self, other: Signals) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn raise(&mut self, signal: Signal) {
        self.0 |= 1 << signal as u8;
    }

    /// Settles a text with two causes, such as "unknown or full": it proves neither. A code may settle "unknown or disabled".
    fn choose(&mut self, words: &Words) {
        const CAUSES: [Signals; 5] = [
            Signals::of(&[NoMailbox, Unavailable, NoDomain]),
            Signals::of(&[DisabledMailbox]),
            Signals::of(&[FullMailbox, Fullness]),
            Signals::of(&[Relaying, NotServed]),
            Signals::of(&[SenderRefused, SenderWord, Denied, Listed, Authenticate]),
        ];
        let has_block = || (0..words.len()).any(|at| words.word(at).starts_with("block"));
        let by_policy = self.any_of(Signals::of(&[Conduct])) && !has_block();
        let said = |cause: usize| self.any_of(CAUSES[cause]) || cause == 4 && by_policy;
        let causes = (0..CAUSES.len()).filter(|cause| said(*cause)).count();
        let is_open = said(0) && (said(2) || self.any_of(Signals::of(&[Authenticate])));
        if is_open || causes > 1 && is_alternative(words) {
            let is_settled = causes == 2 && said(0) && said(1);
            self.0 |= if is_settled { Signals::of(&[Uncertain]) } else { OPEN }.0;
        }
    }
}

use Signal::*;

/// The name of each section of predicates in data/phrases.txt, with the claim that its predicates make.
const CLAIMS: [(&str, Claim); 8] = [
    ("says unserved", Claim::Unserved),
    ("says missing", Claim::Missing),
    ("says unknown", Claim::Unknown),
    ("says disabled", Claim::Disabled),
    ("says full", Claim::Full),
    ("says blocked", Claim::Blocked),
    ("says refused", Claim::Refused),
    ("says unverified", Claim::Unverified),
];

/// Signals whose phrases an enhanced code may explain. In a text with other words, the code proves nothing: the words may mean
/// something else ([`Foreign`]).
const EXPLAINED: Signals = Signals::of(&[
    NoMailbox,
    ProviderUnknown,
    Unavailable,
    Rejected,
    DisabledMailbox,
    DisabledBare,
    FullMailbox,
    NoSpace,
    NoDomain,
    SomeHost,
    NotNow,
]);

/// The signals of a text whose cause stays open even if an enhanced code names one.
const OPEN: Signals = Signals::of(&[Uncertain, Denied]);

/// The claims whose words an enhanced code may explain, one bit for each [`Claim`].
const STATES: u8 = 1 << Claim::Missing as u8
    | 1 << Claim::Unknown as u8
    | 1 << Claim::Disabled as u8
    | 1 << Claim::Full as u8;

/// The signals of phrases that say that a mailbox is missing or disabled.
const GONE: Signals =
    Signals::of(&[NoMailbox, ProviderUnknown, Unavailable, NoDomain, SomeHost, DisabledMailbox]);

/// What a clause that leaves its cause open does not say of the mailbox.
const SUPPOSED: Signals = Signals::of(&[
    NoMailbox,
    ProviderUnknown,
    Unavailable,
    DisabledMailbox,
    DisabledBare,
    FullMailbox,
    Fullness,
    NoSpace,
    NoDomain,
    SomeDomain,
    SomeHost,
    Restricted,
    MailboxRate,
    TargetPolicy,
]);

/// The signals that depend on the first party of a text, which is not the first one of a clause.
const FIRST: Signals = Signals::of(&[UsFirst, MailOnly]);

/// The phrases, section by section. Their order does not matter: every phrase in a text raises its signal.
const PHRASES: &str = include_str!("../../data/phrases.txt");

/// A gap may contain neither these words nor [`APART`]: after one of them, a text is no longer about the mailbox.
const BARRIERS: &str = "authentication agent session message domain host server hostname mx dns zone system sender from \
    client ip policy helo relay access white command service or but may might if because rejected not no";

const GAP_WORDS: usize = 2;

enum Part {
    Exact(Box<str>),
    Prefix(Box<str>),
    Gap,
}

/// The phrases as a tree. Phrases with the same first words share nodes, so one pass over a text finds all phrases.
struct Index {
    /// The number of the words that a gap may not contain. These words have the lowest numbers.
    barriers: u32,
    /// Every whole word of a phrase, and every word of [`BARRIERS`], with its number.
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<WordHasher>>,
    /// The nodes of the tree, with the root first.
    nodes: Vec<Node>,
    /// Parts of links and host names, each with its signal.
    links: Vec<(Signal, Finder<'static>)>,
}

/// A node of the tree. The words on the way from the root to the node begin one or more phrases.
#[derive(Default)]
struct Node {
    /// The signals of the phrases that end at this node.
    signals: Signals,
    /// The claims of the predicates that end at this node, one bit for each [`Claim`].
    claims: u8,
    /// The kind of cause that the phrases that end at this node name.
    kind: Option<Kind>,
    /// Whether a phrase of the section "known" ends at this node.
    known: bool,
    /// The child nodes by the numbers of the next words, in ascending order.
    exact: Vec<(u32, usize)>,
    /// The child nodes by the beginnings of the next words, in ascending order.
    prefixes: Vec<(Box<str>, usize)>,
    /// The child node after a gap.
    gap: Option<usize>,
}

impl Node {
    /// The kind of cause that the phrases ending at this node name.
    fn kind(&self) -> Option<Kind> {
        let claims = |claims: &[Claim]| claims.iter().any(|claim| self.claims & (1 << *claim as u8) != 0);
        let gone = [Claim::Missing, Claim::Unknown, Claim::Disabled, Claim::Unserved];
        if claims(&gone) || self.signals.any_of(GONE) {
            Some(Kind::Gone)
        } else if claims(&[Claim::Full]) || self.signals.any_of(Signals::of(&[FullMailbox])) {
            Some(Kind::Full)
        } else {
            claims(&[Claim::Blocked]).then_some(Kind::Blocked)
        }
    }
}

/// Marks a word that has no number in the index.
const NO_NUMBER: u32 = u32::MAX;

static INDEX: LazyLock<Index> = LazyLock::new(|| Index::new(entries()));

impl Index {
    fn new(entries: impl Iterator<Item = (&'static str, &'static str)>) -> Index {
        let barriers = [APART].into_iter().chain(BARRIERS.split(' ')).zip(0..);
        let numbers: HashMap<_, _, _> = barriers.map(|(barrier, number)| (barrier.into(), number)).collect();
        let mut index = Index {
            barriers: numbers.len() as u32,
            numbers,
            nodes: vec![Node::default()],
            links: Vec::new(),
        };
        for (section, text) in entries {
            match section.strip_prefix("links ") {
                Some(name) => index.links.extend(signal_of(name).map(|signal| (signal, Finder::new(text)))),
                None => index.add(section, parse(text)),
            }
        }
        index
    }

    fn add(&mut self, section: &str, parts: Box<[Part]>) {
        let claim = CLAIMS.iter().find(|(name, _)| *name == section).map(|(_, claim)| *claim);
        let end = parts.into_iter().fold(0, |node, part| self.step(node, part));
        match (claim, signal_of(section)) {
            (Some(claim), _) => self.nodes[end].claims |= 1 << claim as u8,
            (None, Some(signal)) => self.nodes[end].signals.raise(signal),
            (None, None) if section == "open" => self.nodes[end].signals.0 |= OPEN.0,
            (None, None) => self.nodes[end].known |= section.starts_with("known"),
        }
        let again = (section == "known again").then_some(Kind::Gone);
        self.nodes[end].kind = self.nodes[end].kind().or(again).or(self.nodes[end].kind);
    }

    /// Returns the child of `node` for `part`, and creates the child if there is none.
    fn step(&mut self, node: usize, part: Part) -> usize {
        let made = self.nodes.len();
        let next = match part {
            Part::Exact(word) => {
                let unused = self.numbers.len() as u32;
                let number = *self.numbers.entry(word).or_insert(unused);
                let exact = &mut self.nodes[node].exact;
                match exact.binary_search_by_key(&number, |&(word, _)| word) {
                    Ok(at) => exact[at].1,
                    Err(at) => {
                        exact.insert(at, (number, made));
                        made
                    }
                }
            }
            Part::Prefix(prefix) => {
                let prefixes = &mut self.nodes[node].prefixes;
                match prefixes.binary_search_by(|(known, _)| known.cmp(&prefix)) {
                    Ok(at) => prefixes[at].1,
                    Err(at) => {
                        prefixes.insert(at, (prefix, made));
                        made
                    }
                }
            }
            Part::Gap => *self.nodes[node].gap.get_or_insert(made),
        };
        if next == made {
            self.nodes.push(Node::default());
        }
        next
    }

    fn signals(&self, words: &Words) -> Signals {
        let number = |at| self.numbers.get(words.word(at)).copied().unwrap_or(NO_NUMBER);
        let reading = Reading { index: self, words, numbers: (0..words.len()).map(number).collect() };
        let (clause, mut said) = (clause(words), Said::default());
        let in_clause = |at: usize| clause.as_ref().is_some_and(|clause| clause.range.contains(&at));
        for at in (0..words.len()).filter(|at| !is_owner(words, *at)) {
            said.start = at;
            if in_clause(at) {
                said.understood |= word_bit(at);
            } else {
                reading.go_on(0, at, 0, &mut said);
            }
        }
        let Said { mut signals, predicates, understood, causes, .. } = said;
        if predicates.iter().any(|predicate| predicate.claim == Claim::Full) {
            signals.raise(Fullness);
        }
        if clause.as_ref().is_some_and(|clause| clause.ours) {
            signals.raise(OurName);
        }
        let is_unknown = |at: usize| understood & word_bit(at) == 0 && is_telling(words.word(at));
        resolve(words, &predicates, clause.as_ref(), &is_unknown, &mut signals);
        // "Closed, and no longer exists" says that the mailbox is gone.
        let is_gone = |predicate: &Predicate| {
            let is_past = |at: usize| {
                matches!(
                    words.word(at),
                    "longer" | "more" | "plus" | "anymore" | "ceased" | "left" | "nobody"
                )
            };
            predicate.claim == Claim::Missing && (predicate.start..=predicate.end).any(is_past)
        };
        if signals.any_of(Signals::of(&[NoMailbox]))
            && predicates.iter().any(is_gone)
            && !is_alternative(words)
        {
            signals.0 &= !Signals::of(&[DisabledMailbox]).0;
        }
        let of_domain = signals.any_of(Signals::of(&[NoDomain, SomeDomain]));
        let is_foreign = |at: usize| is_unknown(at) && !(of_domain && words.word(at) == "domain");
        signals.choose(words);
        if (0..words.len()).any(is_foreign) {
            signals.raise(Foreign);
        }
        if !causes.is_empty() && is_half_understood(words, &causes, &is_foreign) {
            signals.0 |= OPEN.0;
        }
        for (signal, part) in &self.links {
            if !words.links.is_empty() && mentions(&words.links, part) {
                signals.raise(*signal);
            }
        }
        signals
    }
}

/// A text, and the tree of phrases against which it is matched.
struct Reading<'a> {
    index: &'a Index,
    words: &'a Words,
    numbers: Vec<u32>,
}

/// Whether the word is a mailbox that owns something, as in "the domain of the mailbox", or begins "remote server said". Such a
/// text is about what the mailbox owns, or about what the other server said, so no phrase begins at this word.
fn is_owner(words: &Words, at: usize) -> bool {
    if words.word(at) == "remote" {
        return ["said", "says", "returned", "responded", "replied"].contains(&words.word(at + 2));
    }
    let before = |back: usize| at.checked_sub(back).map_or("", |at| words.word(at));
    let owned = if before(1) == "of" { before(2) } else { before(1) };
    words.word(at) == MAILBOX && ["domain", "server", "database", "system", "disk"].contains(&owned)
}

/// The results for a text so far, and the beginning of the current phrase.
#[derive(Default)]
struct Said {
    /// The index of the first word of the current phrase.
    start: usize,
    signals: Signals,
    predicates: Vec<Predicate>,
    /// The words of phrases that an enhanced code may explain, one bit for each word ([`word_bit`]).
    understood: u128,
    causes: Vec<Cause>,
}

/// The bit of a word in [`Said::understood`]. No server's text has a word 128 that matters, so these have none.
fn word_bit(at: usize) -> u128 {
    u32::try_from(at).map_or(0, |at| 1_u128.checked_shl(at).unwrap_or(0))
}

/// Whether a word may change what a text says. Words with characters other than letters do not, nor do ASCII words of one or two
/// letters.
fn is_telling(word: &str) -> bool {
    word != MAILBOX
        && word.chars().nth(if word.is_ascii() { 2 } else { 0 }).is_some()
        && word.chars().all(char::is_alphabetic)
}

impl Reading<'_> {
    /// Whether a comma or a colon separates two of the words from `start` up to, but not including, `end`.
    fn is_parted(&self, start: usize, end: usize) -> bool {
        self.words.breaks.iter().any(|at| (start + 1..end).contains(&(*at as usize)))
    }

    /// Whether the words from `start` up to `end` say the contrary because of a "not" beside them: "is not full".
    fn is_denied(&self, start: usize, end: usize) -> bool {
        let word = |at: usize| self.words.word(at);
        let is_not = |at: usize| matches!(word(at), "not" | "no");
        let broken = |at: usize| self.words.breaks.contains(&(at as u32));
        if (start..end).any(|at| is_not(at) || word(at) == "plus") {
            // "Is not unknown" in words that are "not not known".
            return start > 0 && is_not(start) && word(start - 1) == "not" && !broken(start);
        }
        let is_adverb = |word: &str| {
            matches!(
                word,
                "yet"
                    | "currently"
                    | "moment"
                    | "really"
                    | "here"
                    | "longer"
                    | "to"
                    | "temporarily"
                    | "actually"
                    | "completely"
            )
        };
        let before = start > 0 && !broken(start) && {
            is_not(start - 1)
                || word(start - 1) == "neither"
                || start > 1 && is_not(start - 2) && is_adverb(word(start - 1)) && !broken(start - 1)
        };
        before
            || word(end) == "not" && !broken(end) && (broken(end + 1) || matches!(word(end + 1), "" | APART))
    }

    /// Continues a match: the words before `at` have led to `node`, and `matched` has those of them that are not in a gap.
    /// Raises the signals of the phrases that end at `node`, and of the longer phrases that the words from `at` on match too.
    fn go_on(&self, node: usize, at: usize, matched: u128, said: &mut Said) {
        let node = &self.index.nodes[node];
        let already = said.signals.any_of(Signals::of(&[SenderRefused]));
        let is_open = node.signals.0 & OPEN.0 == OPEN.0;
        if !is_open || !self.is_parted(said.start, at) {
            said.signals.0 |= node.signals.0;
        }
        // In "User unknown, sender ...", the comma separates two statements, so the text says nothing against the sender.
        if node.signals.any_of(Signals::of(&[SenderRefused])) && !already && self.is_parted(said.start, at) {
            said.signals.0 &= !Signals::of(&[SenderRefused]).0;
        }
        if node.claims & STATES != 0 && self.is_denied(said.start, at) {
            said.signals.0 |= OPEN.0;
            return;
        }
        let claims = if node.claims == 0 { &[] } else { &CLAIMS[..] };
        for (_, claim) in claims.iter().filter(|(_, claim)| node.claims & (1 << *claim as u8) != 0) {
            said.predicates.push(Predicate { claim: *claim, start: said.start, end: at });
        }
        if node.known || node.claims & STATES != 0 || node.signals.any_of(EXPLAINED) {
            said.understood |= matched;
        }
        if let Some(kind) = node.kind {
            said.causes.push(Cause { kind, range: said.start..at });
        }
        let Some(&number) = self.numbers.get(at) else { return };
        let with = matched | word_bit(at);
        if let Ok(found) = node.exact.binary_search_by_key(&number, |&(word, _)| word) {
            self.go_on(node.exact[found].1, at + 1, with, said);
        }
        let word = self.words.word(at);
        let initial = word.as_bytes().first();
        let from = node.prefixes.partition_point(|(prefix, _)| prefix.as_bytes().first() < initial);
        let alike =
            node.prefixes[from..].iter().take_while(|(prefix, _)| prefix.as_bytes().first() == initial);
        for (_, next) in alike.filter(|(prefix, _)| word.starts_with(&**prefix)) {
            self.go_on(*next, at + 1, with, said);
        }
        let Some(gap) = node.gap else { return };
        let is_barrier = |at: usize| self.numbers.get(at).is_none_or(|&number| number < self.index.barriers);
        for skipped in 0..=GAP_WORDS {
            if skipped > 0 && is_barrier(at + skipped - 1) {
                return;
            }
            self.go_on(gap, at + skipped, matched, said);
        }
    }
}

fn signal_of(name: &str) -> Option<Signal> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

/// The phrases of the file: pairs of the name of the section and a phrase.
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

/// The words of all phrases, without gaps and without words that end in `*`.
pub(super) fn spelled_out() -> impl Iterator<Item = &'static str> {
    let words = entries().filter(|(section, _)| !section.starts_with("links "));
    words.flat_map(|(_, phrase)| phrase.split(' ')).filter(|word| *word != "_" && !word.ends_with('*'))
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

pub(super) fn signals(words: &Words) -> Signals {
    let open = if words.conditions.is_empty() { Vec::new() } else { clauses(words) };
    if open.is_empty() {
        return INDEX.signals(words);
    }
    let is_open = |at: usize| open.iter().any(|clause| clause.contains(&at));
    let read = |is_meant: &dyn Fn(usize) -> bool| INDEX.signals(&words.part(is_meant));
    let (mut said, within) = (read(&|at| !is_open(at)), read(&is_open));
    if within.any_of(SUPPOSED) && !said.any_of(SUPPOSED) {
        said.0 |= OPEN.0 | within.0 & FIRST.0;
    }
    said.0 |= within.0 & !(SUPPOSED.0 | FIRST.0);
    said
}

/// Whether the links contain the part. A part that begins with a letter or digit must be at the beginning of a word: neither a
/// letter or digit nor a hyphen comes before it.
fn mentions(links: &str, part: &Finder<'_>) -> bool {
    let anywhere = !part.needle()[0].is_ascii_alphanumeric();
    let inside = |before: char| before.is_alphanumeric() || before == '-';
    part.find_iter(links.as_bytes()).any(|at| anywhere || !links[..at].ends_with(inside))
}

#[cfg(test)]
mod tests {
    use super::super::classify::Us;
    use super::super::echo::Parties;
    use super::*;

    #[test]
    fn every_phrase_can_occur() {
        let phrases = || {
            let says = |section: &str| signal_of(section).is_some();
            entries().filter(move |(section, _)| says(section))
        };
        assert!(phrases().count() > 600);
        let mut silent = Vec::new();
        for (section, text) in phrases() {
            let signal = signal_of(section).expect(section);
            let sample = text.replace('_', "thing").replace('*', "");
            let words = Words::of(&sample, &Parties::new("mx.example.com", None, Us::default()));
            assert_eq!(parse(text).len(), text.split(' ').count(), "{text:?} holds a word that is left out");
            let alone = Index::new(std::iter::once((section, text)));
            let raised = |index: &Index| index.signals(&words).any_of(Signals::of(&[signal]));
            if !raised(&alone) || !raised(&INDEX) {
                silent.push(text);
            }
        }
        assert!(silent.is_empty(), "these phrases cannot occur: {silent:?}");
    }

    #[test]
    fn sections_of_links_name_signals() {
        let names = entries().filter_map(|(section, _)| section.strip_prefix("links "));
        names.for_each(|name| assert!(signal_of(name).is_some(), "{name}"));
    }

    #[test]
    fn no_phrase_begins_or_ends_with_a_gap() {
        for (_, text) in entries().filter(|(section, _)| !section.starts_with("links ")) {
            assert!(!text.starts_with('_') && !text.ends_with('_'), "{text:?}");
        }
    }

    #[test]
    fn a_gap_reaches_over_two_words_and_over_no_barrier() {
        let index = Index::new(std::iter::once(("no-mailbox", "mailbox _ gone")));
        let raises = |text: &str| {
            index.signals(&Words::of(text, &Parties::default())).any_of(Signals::of(&[NoMailbox]))
        };
        for text in ["mailbox gone", "mailbox really gone", "the mailbox really long gone"] {
            assert!(raises(text), "{text:?}");
        }
        for text in ["mailbox", "mailbox very very long gone", "mailbox server gone", "mailbox. gone", "gone"]
        {
            assert!(!raises(text), "{text:?}");
        }
    }
}
