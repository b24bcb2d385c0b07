//! Reduces the text of a reply to the words that carry its meaning.
//!
//! What a server repeats (addresses, host names, IP addresses, links, quoted tokens: its echoes) says nothing about the cause of a
//! refusal. A mailbox called `greylist` or a domain called `blocked.example` must not decide. So echoes are removed first. Then
//! differences without a meaning are removed: case, line breaks, punctuation, accents, articles, the forms of "not", and the many
//! words for a mailbox, which all become [`MAILBOX`]. Links and host names are kept separately, because some of them name a
//! blocklist. An echo that belongs to a party ([`Echo`]) leaves a [`Mark`] in its place: an echo of us shows that the text may be
//! about us.

use super::accents::without_accents;
use super::alternative::spelled_or;
use super::condition::{IF, IF_SO, MEAN, behind_if, is_case, is_if_in_front};
use super::echo::{Echo, Parties};
use super::fold::{blank_echoes, fold};
use super::lexicon::spelled_out;
use super::misspelled::misspelled;
use super::translate::{WordMap, entries, exact, is_unspaced, meaning, run_meaning};
use crate::public_suffix::has_known_suffix;
use memchr::memmem::Finder;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The canonical word for mailbox, user, account, recipient, address and the like.
pub(super) const MAILBOX: &str = "mailbox";

/// What Cyrus adds to "Mailbox unknown", so that nobody learns which of the two is the case. A sender has no authorization anyway.
const CYRUS_OR: &str =
    "either there is no mailbox associated with this name or you do not have authorization to see it";

/// Our command, and the number of places at the beginning of a text where it may be repeated, behind an enhanced code.
const COMMAND: &[u8] = b"rcpt to:";
const FRONT_PLACES: usize = 12;

/// The word that stands between two sentences. No phrase matches across it.
pub(super) const APART: &str = "|";

/// A text in canonical form.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    /// The end of each word in `text`. A word begins where the word before it ends.
    ends: Vec<u32>,
    /// The last word, as it was spelled, if it is one of those in [`Spelled`].
    spelled: Spelled,
    /// Whether a sentence has ended or a bracket has been opened since the last word.
    apart: bool,
    /// Host names and links, lower case, separated by spaces.
    pub(super) links: String,
    /// The echoes that belong to a party, in the order of the text.
    pub(super) marks: Vec<Mark>,
    /// The index of each word after a comma or a colon.
    pub(super) breaks: Vec<u32>,
    /// The index of each word after a slash or a vertical bar, as in "unknown/disabled".
    pub(super) slashes: Vec<u32>,
    /// The index of each word that leaves a clause open, such as "if" ([`super::condition`]).
    pub(super) conditions: Vec<u32>,
}

/// A word whose canonical form says too little before the next word.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Spelled {
    #[default]
    Other,
    /// "Recipient": a "recipient limit" counts the recipients of a message, and says nothing about a mailbox.
    Recipient,
    /// "Inbox" or "mailbox", and behind it "limit": the limit of an inbox is reached, while that of a recipient may be one of
    /// speed.
    Inbox,
    InboxLimit,
    /// "Dit": the Dutch "dit adres" is "this address", and the Danish "dit domæne" is "your domain".
    Dit,
    /// "Du": the Danish "du sender" is "you send", and not "of the sender".
    Du,
    /// "Nu" and "ni", which are "not" in Romanian and Slovenian before some words. In Swedish, they are "now" and "you".
    Nu,
    /// "Ya": the Turkish "ya da" is "or".
    Ya,
    /// "Ne", which is "not" in Slavic languages before some words. In French, "ne" says nothing without the "pas" behind it.
    Ne,
    /// A word that is "if" before these words ([`behind_if`]).
    If(&'static [&'static str]),
    /// The Spanish "puede", which is "may".
    May,
    /// "In" or "in the", in any language: before "case" it is "if".
    In,
}

/// The place of an echo in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// The index of the word after the echo.
    pub(super) at: u32,
    /// The party to which the echo belongs.
    pub(super) echo: Echo,
}

impl Words {
    /// Reduces `text` to words. Host names, IP addresses and links do not become words. A host name or IP address of a party leaves
    /// a mark.
    pub(super) fn of(text: &str, parties: &Parties<'_>) -> Words {
        let mut clean = fold(text);
        static CYRUS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(CYRUS_OR));
        if let Some(at) = CYRUS.find(&clean) {
            clean[at..at + CYRUS_OR.len()].fill(b' ');
        }
        // A server that repeats our command in front of its reason says nothing with it.
        let mut places = clean.windows(COMMAND.len()).take(FRONT_PLACES);
        if let Some(at) = places.position(|place| place == COMMAND) {
            clean[at..at + COMMAND.len()].fill(b' ');
        }
        blank_echoes(&mut clean, parties);
        let clean = String::from_utf8_lossy(&clean);
        let mut words = Words::default();
        let (mut after_relay, mut after_comma) = (false, false);
        for chunk in clean.split_ascii_whitespace() {
            words.push_chunk(spelled_or(chunk, &clean, after_comma), parties, after_relay);
            after_comma = chunk.ends_with([',', ';']);
            after_relay = chunk.trim_end_matches([':', '=']) == "relay";
        }
        words
    }

    fn mark(&mut self, echo: Echo) {
        let after_gap = u32::from(self.apart && !self.ends.is_empty());
        self.marks.push(Mark { at: self.ends.len() as u32 + after_gap, echo });
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The word at `index`; empty beyond the end.
    pub(super) fn word(&self, index: usize) -> &str {
        let Some(&end) = self.ends.get(index) else { return "" };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start as usize..end as usize]
    }

    fn push_chunk(&mut self, chunk: &str, parties: &Parties<'_>, after_relay: bool) {
        if matches!(chunk, "-" | "--" | "\u{2013}" | "\u{2014}") {
            return self.breaks.push(self.ends.len() as u32);
        }
        let bare = chunk.trim_start_matches(|c: char| !c.is_alphanumeric());
        if ["http:", "https:", "www.", "mailto:"].iter().any(|scheme| bare.starts_with(scheme)) {
            self.push_link(bare);
            return;
        }
        // Sendmail adds "relay=" and our address to a refusal for any reason. So this is no sign that the text is about us.
        if bare.starts_with("relay=") {
            return;
        }
        let relay = chunk.starts_with('[') && after_relay;
        if !relay && parties.is_source_v6(chunk) {
            return self.mark(Echo::Us);
        }
        for piece in chunk.split_inclusive(|c: char| !is_word_char(c)) {
            let (piece, mark) = match piece.chars().next_back() {
                Some(mark) if !is_word_char(mark) => (&piece[..piece.len() - mark.len_utf8()], mark),
                _ => (piece, ' '),
            };
            self.push_piece(piece.trim_matches(['.', '-', '_']), parties, relay);
            self.push_punctuation(piece, mark);
        }
    }

    fn push_punctuation(&mut self, piece: &str, mark: char) {
        if let Some(echo) = Echo::of_char(mark) {
            return self.mark(echo);
        }
        if matches!(mark, '/' | '|' | '／') {
            self.slashes.push(self.ends.len() as u32);
        }
        // An opening bracket separates, as the end of a sentence does. A closing bracket cancels a separation that no word has
        // followed, because brackets with only an echo inside separate nothing.
        self.apart = match mark {
            '(' | ';' | '!' | '?' | '\u{3002}' | '\u{ff01}' => true,
            ')' => false,
            // "Destin. sconosciuto" has an abbreviation, and not the end of a sentence.
            _ => self.apart || piece.ends_with('.') && !matches!(piece, "destin." | "bzw." | "resp."),
        };
        if matches!(mark, ',' | ':' | '\u{60c}' | '\u{ff0c}' | '\u{3001}' | '\u{ff1a}') {
            self.breaks.push(self.ends.len() as u32);
        }
    }

    fn push_piece(&mut self, piece: &str, parties: &Parties<'_>, relay: bool) {
        if piece.contains('.') && piece.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            if !relay && parties.is_source_v4(piece) {
                self.mark(Echo::Us);
            }
            return;
        }
        if is_host(piece, parties.mx) {
            if let Some(echo) = parties.of_host(piece).filter(|_| !relay) {
                self.mark(echo);
            }
            return self.push_link(piece);
        }
        // "No such user: joe". A local part that is a word of a list stays a word.
        // Folding has made "joes" of "joe's".
        for name in [Some(piece), piece.strip_suffix('s')].into_iter().flatten() {
            if parties.is_local_part(name) && !VOCABULARY.contains_key(name) && meaning(name).is_none() {
                return self.mark(Echo::Recipient);
            }
        }
        for word in piece.split(['.', '-', '_']) {
            self.push_spelled(word);
        }
    }

    fn ends_with(&self, word: &str) -> bool {
        self.len().checked_sub(1).is_some_and(|last| self.word(last) == word)
    }

    fn push_link(&mut self, link: &str) {
        self.links.push(' ');
        self.links.push_str(link);
    }

    /// Takes a word in the server's spelling, with or without accents, and pushes its canonical words. A run of a script without
    /// spaces is cut into known forms.
    fn push_spelled(&mut self, word: &str) {
        if word.is_ascii() {
            self.push(word);
            return;
        }
        let (mut rest, mut is_known) = (word, false);
        while let Some(first) = rest.chars().next() {
            if is_unspaced(first) {
                // The Japanese "or" is also a part of words.
                let found = run_meaning(rest).filter(|(bytes, _)| is_known || rest[..*bytes] != *"か");
                is_known = found.is_some();
                let (bytes, meaning) = found.unwrap_or((first.len_utf8(), &rest[..first.len_utf8()]));
                meaning.split_ascii_whitespace().for_each(|word| self.push_canonical(word));
                rest = &rest[bytes..];
                continue;
            }
            let end = rest.find(is_unspaced).unwrap_or(rest.len());
            // A few words differ only in their accents, so the word is looked up with its accents first.
            match VOCABULARY.get(&rest[..end]) {
                Some(meaning) => meaning.split_ascii_whitespace().for_each(|word| self.push_canonical(word)),
                None => self.push(&without_accents(&rest[..end])),
            }
            rest = &rest[end..];
        }
    }

    /// Pushes the canonical words for a word as it is spelled, or the word itself if no list has it.
    fn push(&mut self, spelled: &str) {
        let now = match spelled {
            "recipient" | "recipients" => Spelled::Recipient,
            "inbox" | "mailbox" | "mbox" => Spelled::Inbox,
            "limit" if self.spelled == Spelled::Inbox => Spelled::InboxLimit,
            "dit" => Spelled::Dit,
            "du" => Spelled::Du,
            "nu" | "ni" => Spelled::Nu,
            "ne" => Spelled::Ne,
            "ya" => Spelled::Ya,
            "puede" => Spelled::May,
            "in" | "en" | "em" | "im" | "w" | "v" | "σε" | "nel" | "au" | "i" => Spelled::In,
            _ => behind_if(spelled).map_or(Spelled::Other, Spelled::If),
        };
        let (before, count) = (std::mem::replace(&mut self.spelled, now), self.len());
        match (before, spelled) {
            (Spelled::If(next), word) if next.contains(&word) => self.push_canonical(IF),
            // "Puede no existir" is "may not exist", and "no puede" is "cannot".
            (Spelled::May, "no" | "que") => self.push_canonical("possibly"),
            (Spelled::In, "el" | "the") => {
                self.spelled = Spelled::In;
                return;
            }
            (Spelled::In, word) if is_case(word) => return self.push_canonical(IF),
            (_, word) if self.is_in_front() && is_if_in_front(word) => return self.push_canonical(IF),
            // "It is not that the mailbox is full": the whole clause is denied.
            (
                _,
                "that" | "dass" | "que" | "che" | "что" | "чтобы" | "att" | "hogy" | "ze" | "ca" | "etta"
                | "οτι",
            ) if self.ends_with("not") || self.ends_with("says") => return self.push_canonical(MEAN),
            // "We do not claim that", with any verb, in languages in which the word is no pronoun.
            (_, "dass" | "что" | "hogy" | "ze" | "οτι" | "etta")
                if self.len() > 1
                    && self.word(self.len() - 2) == "not"
                    && !matches!(self.word(self.len() - 1), "because" | "exist" | APART) =>
            {
                return self.push_canonical(MEAN);
            }
            (Spelled::Recipient, "limit" | "limits") if self.ends_with(MAILBOX) => {
                self.pop();
                return ["too", "many", MAILBOX].iter().for_each(|word| self.push_canonical(word));
            }
            (Spelled::InboxLimit, "reached") => return self.push_canonical("exceeded"),
            // The Italian "su questo server" is "on this server"; alone, "su" is Spanish for "your".
            (_, "questo" | "questa") if self.ends_with("yours") => {
                self.pop();
                return self.push_canonical("on");
            }
            // The Turkish "bu ada sahip" is "with this name", and the Indonesian "ada" is "there is".
            (_, "sahip") if self.ends_with("exist") => {
                self.pop();
                return ["with", "name"].iter().for_each(|word| self.push_canonical(word));
            }
            // The Turkish "şu anda" is "at the moment", and the Indonesian "anda" is "your".
            (_, "anda") if self.ends_with("yours") => {
                self.pop();
                return self.push_canonical("moment");
            }
            (Spelled::Dit, "adres" | "emailadres" | "mailadres" | "account" | "domein" | "postvak")
                if self.ends_with("yours") =>
            {
                self.pop()
            }
            (Spelled::Du, "sender") if self.ends_with("of") => {
                self.pop();
                return ["you", "send"].iter().for_each(|word| self.push_canonical(word));
            }
            (Spelled::Ya, "da") => return self.push_canonical("or"),
            // "No forwarding address" is not about forwarding.
            (_, "forwarding") if self.ends_with("no") => {
                self.pop();
                return;
            }
            // "Remove the address from your list" is advice, and says nothing of us.
            (_, "contacts" | "list" | "lists" | "distribution" | "book") if self.ends_with("your") => {
                self.pop()
            }
            // The Italian "casella di posta" is a mailbox, and the Slavic "u nas" is "here".
            (_, "posta") if self.ends_with(MAILBOX) => return,
            (_, "nas") if self.ends_with("you") => return self.pop(),
            // The French "personne ne" is "nobody".
            (_, "ne") if self.ends_with("person") => {
                self.pop();
                return self.push_canonical("nobody");
            }
            (
                Spelled::Nu,
                "cunoastem" | "cunosc" | "avem" | "are" | "au" | "accepta" | "primeste" | "exista" | "este"
                | "e" | "a" | "am" | "mai" | "poate" | "najden" | "najdena",
            ) => {
                self.pop();
                self.push_canonical("not");
            }
            (
                Spelled::Ne,
                "postoji" | "postoje" | "obstaja" | "suschestvuet" | "sushchestvuet" | "nayden" | "najden"
                | "naiden" | "prima",
            ) => self.push_canonical("not"),
            (
                _,
                "given" | "specified" | "supplied" | "provided" | "angegeben" | "specificato" | "indicato",
            ) if self.drop_nobody() => {
                return self.push_canonical("argument");
            }
            _ => {}
        }
        let canonical = VOCABULARY.get(spelled).copied().or_else(|| meaning(spelled)).unwrap_or(spelled);
        canonical.split_ascii_whitespace().for_each(|word| self.push_canonical(word));
        // A word that says nothing does not part the words around it.
        if self.len() == count && now == Spelled::Other {
            self.spelled = before;
        }
    }

    /// Removes "no mailbox name" from the end. With a word such as "given", it is about our command, and not about a mailbox.
    fn drop_nobody(&mut self) -> bool {
        let is_part = |word: &str| matches!(word, "no" | "not" | "name" | MAILBOX);
        let count = (0..self.len()).rev().take_while(|at| is_part(self.word(*at))).count();
        let any =
            |wanted: &[&str]| (self.len() - count..self.len()).any(|at| wanted.contains(&self.word(at)));
        let is_nobody = !self.apart && any(&["no", "not"]) && any(&[MAILBOX]);
        (0..count).filter(|_| is_nobody).for_each(|_| self.pop());
        is_nobody
    }

    /// Pushes a canonical word. If it and the words before it mean one thing, such as "mail box", they are joined.
    fn push_canonical(&mut self, word: &str) {
        if self.ends_with("yours") {
            self.pop();
            // "Ihr Kontingent" is ours at the beginning of a sentence, and behind a mailbox that of the mailbox.
            if is_only_ours(word) || word == "quota" && self.is_in_front() {
                self.append("your");
            }
        }
        let previous = match self.len() {
            count if count > 0 && !self.apart => self.word(count - 1),
            _ => "",
        };
        let joined = match (previous, word) {
            ("e", "mail") => "email",
            ("mail", "box" | "boxes") => MAILBOX,
            ("black", "list" | "lists" | "listed") | ("list", "black") => "blacklist",
            ("block", "list" | "lists" | "listed") => "blocklist",
            ("grey" | "gray", "list" | "lists" | "listed" | "listing") | ("list", "grey") => "greylist",
            ("over", "quota") => "overquota",
            // The number of stored messages, and not of those that arrive.
            ("message", "count") => "messagecount",
            // The Korean "수 없습니다" is "cannot"; alone, its second word is "there is no".
            ("capable", "not") => "incapable",
            ("incapable", "exist") => return,
            // "Lacks space" is "no space".
            ("lacking", "space" | "storage" | "room") => {
                self.pop();
                self.append("no");
                return self.append(word);
            }
            ("doesn" | "isn" | "couldn" | "don" | "didn" | "wasn" | "hasn" | "can", "t") => "not",
            // The address of a network or of a sender is not the mailbox that mailprobe asked about.
            (before, MAILBOX) if is_of_another(before) => return,
            (MAILBOX, "ip" | "sender") => word,
            // "Caixa de correio": a mailbox for mail is a mailbox.
            ("of", "message" | "mail") if self.len() > 1 && self.word(self.len() - 2) == MAILBOX => {
                return self.pop();
            }
            ("of", "of") => return,
            ("long", "as") => IF,
            // The "quota of the disk" of a mailbox is its quota.
            ("of", "disk") if self.len() > 1 && self.word(self.len() - 2) == "quota" => return self.pop(),
            ("of", "ip" | "sender") if self.len() > 1 && self.word(self.len() - 2) == MAILBOX => {
                self.pop();
                word
            }
            ("email" | "mail" | MAILBOX, MAILBOX) => {
                self.pop();
                return self.push_canonical(MAILBOX);
            }
            _ => return self.append(word),
        };
        self.pop();
        self.push_joined(joined);
    }

    /// Pushes a joined word. A mailbox may be joined again: "sender mail box" means the sender.
    fn push_joined(&mut self, word: &str) {
        match word {
            MAILBOX => self.push_canonical(word),
            _ => self.append(word),
        }
    }

    /// Whether the next word begins a sentence, or follows a comma.
    fn is_in_front(&self) -> bool {
        self.ends.is_empty() || self.apart || self.breaks.last() == Some(&(self.ends.len() as u32))
    }

    /// The words for which `keeps` is true, as a text of its own.
    pub(super) fn part(&self, keeps: &dyn Fn(usize) -> bool) -> Words {
        let mut part = Words::default();
        let (mut breaks, mut marks, mut slashes) =
            (self.breaks.iter().peekable(), self.marks.iter().peekable(), self.slashes.iter().peekable());
        for at in 0..=self.len() {
            let (is_kept, is_end) = (keeps(at.min(self.len().saturating_sub(1))), at == self.len());
            let end = part.ends.len() as u32 + u32::from(part.apart && !part.ends.is_empty());
            while breaks.next_if(|next| **next as usize <= at).is_some() {
                part.breaks.extend(is_kept.then_some(end));
            }
            while slashes.next_if(|next| **next as usize <= at).is_some() {
                part.slashes.extend(is_kept.then_some(end));
            }
            while let Some(Mark { echo, .. }) = marks.next_if(|mark| mark.at as usize <= at) {
                part.marks.extend(is_kept.then_some(Mark { at: end, echo: *echo }));
            }
            match self.word(at) {
                _ if is_end => {}
                word if is_kept && word != APART => part.append(word),
                _ => part.apart = true,
            }
        }
        part
    }

    fn append(&mut self, word: &str) {
        if std::mem::take(&mut self.apart) && !self.ends.is_empty() {
            self.append(APART);
        }
        if matches!(word, IF | IF_SO | MEAN) {
            self.conditions.push(self.ends.len() as u32);
        }
        self.text.push_str(word);
        self.ends.push(self.text.len() as u32);
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.conditions.pop_if(|at| *at as usize >= self.ends.len());
        self.text.truncate(self.ends.last().copied().unwrap_or(0) as usize);
    }
}

/// Whether a noun names something of ours if it follows a word that may mean "your" or "his" (`yours` in data/words.txt): "su
/// servidor" is our server, but "su cuota" may be anyone's quota.
fn is_only_ours(noun: &str) -> bool {
    matches!(
        noun,
        MAILBOX
            | "domain"
            | "ip"
            | "host"
            | "hostname"
            | "server"
            | "network"
            | "name"
            | "computer"
            | "client"
            | "system"
            | "message"
            | "mail"
            | "sender"
    )
}

/// Whether the mailbox after this word is not the one that mailprobe asked about, as in "IP address" or "sender address".
fn is_of_another(word: &str) -> bool {
    matches!(
        word,
        "ip" | "ipv4"
            | "ipv6"
            | "host"
            | "source"
            | "client"
            | "server"
            | "remote"
            | "sending"
            | "connecting"
            | "from"
            | "sender"
            | "senders"
            | "reply"
            | "return"
            | "bounce"
            | "your"
            | "network"
    )
}

/// English words that have another canonical form, with that form. The form is empty if the word says nothing.
pub(super) static CANONICAL: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let spellings = entries(include_str!("../../data/spellings.txt"));
    spellings.map(|(meaning, form)| (form, meaning)).chain([("", "")]).collect()
});

/// Every whole word that any list has, with its canonical words. If several lists have a word, the English spellings count first,
/// then the words of phrases, then the words of other languages, and last the misspelled words.
static VOCABULARY: LazyLock<WordMap<&'static str>> = LazyLock::new(|| {
    let spelled = CANONICAL.iter().map(|(word, canonical)| (*word, *canonical));
    let known = exact().chain(spelled_out().map(|word| (word, word))).chain(spelled);
    misspelled().chain(known).collect()
});

/// The canonical form of a word; `None` if the word says nothing.
pub(super) fn canonical(word: &str) -> Option<&str> {
    let canonical = CANONICAL.get(word).copied().unwrap_or(word);
    (!canonical.is_empty()).then_some(canonical)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '\u{fffd}')
}

/// Whether the piece is a host name: labels with a top-level domain that exists or is reserved, or a name in the domain of the MX
/// host.
fn is_host(piece: &str, mx: &str) -> bool {
    let Some((head, top)) = piece.rsplit_once('.') else { return false };
    if head.is_empty() || piece.split('.').any(str::is_empty) {
        return false;
    }
    let reserved = ["test", "example", "invalid", "localhost", "local", "lan", "internal"].contains(&top);
    reserved || shares_domain(piece, mx) || has_known_suffix(piece)
}

fn shares_domain(piece: &str, mx: &str) -> bool {
    let mx = mx.trim_end_matches('.');
    let parent = mx.split_once('.').map_or(mx, |(_, parent)| parent);
    let tail = piece.len().checked_sub(parent.len()).and_then(|start| piece.get(start..));
    parent.contains('.') && tail.is_some_and(|tail| tail.eq_ignore_ascii_case(parent))
}

#[cfg(test)]
mod tests {
    use super::super::classify::Us;
    use super::*;

    fn check(text: &str, words: &str, links: &str) {
        let found = Words::of(text, &Parties::new("mx1.corp.test", None, Us::default()));
        let joined: Vec<&str> = (0..found.len()).map(|index| found.word(index)).collect();
        assert_eq!(joined.join(" "), words, "{text:?}");
        assert_eq!(found.links.trim(), links, "{text:?}");
    }

    #[test]
    fn echoes_go() {
        check("<greylist@blocked.fr>: User unknown", "mailbox unknown", "");
        check("greylist@blocked.fr: User unknown", "mailbox unknown", "");
        check("\"a spam b\"@example.com unknown", "unknown", "");
        check("user <spam> unknown", "mailbox unknown", "");
        check("user \"spam\" unknown", "mailbox unknown", "");
        check("mx.greylist-agency.fr says 192.0.2.1 [5.6.7.8] no", "says no", "mx.greylist-agency.fr");
        check(
            "see https://support.google.com/mail/?p=NoSuchUser now",
            "see now",
            "https://support.google.com/mail/?p=nosuchuser",
        );
        check("(mail.corp.test:25) no", "25 no", "mail.corp.test");
        check("RESOLVER.ADR.RecipNotFound; not found", "resolver adr recipnotfound | not found", "");
    }

    #[test]
    fn spelling_that_carries_no_meaning_goes() {
        check("The user DOESN'T exist", "mailbox not exist", "");
        check("user doesn\u{2019}t\n exist", "mailbox not exist", "");
        check("user doesn\u{fffd}t exist", "mailbox not exist", "");
        check("e-mail address   of the recipient", "mailbox of mailbox", "");
        check("User unknown. (Host <a@b> [x])", "mailbox unknown | host x", "");
        check("User (a@example.com) unknown", "mailbox unknown", "");
        check("Your e-mail address", "your", "");
        check("IP address unknown", "ip unknown", "");
        check("Mail box is full", "mailbox full", "");
        check("Grey listed, come back", "greylist come back", "");
        check("Empfänger unbekannt", "mailbox unknown", "");
        check("L'adresse n'existe pas", "mailbox exist not", "");
        check("Ihre Domain, votre serveur, sa quota", "your domain your server quota", "");
        check("adres nadawcy; l'adresse de l'expéditeur", "sender | sender", "");
        check("用户不存在", "mailbox not exist", "");
    }
}
