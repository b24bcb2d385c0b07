//! A reply's text boiled down to the words that carry its meaning.
//!
//! What a server echoes (addresses, host names, IP addresses, links, quoted tokens) says nothing about the
//! refusal, and a mailbox called `greylist` or a domain called `blocked.example` must not decide it. So echoes
//! go first, and then what varies without a difference in meaning: case, line breaks, punctuation, accents,
//! articles, the forms of "not" and the many words for a mailbox, which all become [`MAILBOX`].
//! Links and host names are kept apart, because some name a blocklist.

use crate::limits::{ADDRESS_BYTES_MAX, LOCAL_PART_BYTES_MAX};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The one word that stands for mailbox, user, account, recipient, address and the like.
pub(super) const MAILBOX: &str = "mailbox";

/// Stands between what belongs to two sentences, so that no phrase reaches from one into the other.
pub(super) const APART: &str = "|";

/// A text in canonical form.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    /// Ends of the words in `text`; a word begins where the one before ends.
    ends: Vec<u32>,
    /// A sentence or a bracket has ended or begun since the last word.
    apart: bool,
    /// Host names and links, lower case, parted by spaces.
    pub(super) links: String,
}

impl Words {
    /// Boils `text` down. `mx` is the host that answered; its own name in the text is an echo.
    pub(super) fn of(text: &str, mx: &str) -> Words {
        let mut clean = fold(text);
        blank_echoes(&mut clean);
        let clean = String::from_utf8_lossy(&clean);
        let mut words = Words::default();
        for chunk in clean.split_ascii_whitespace() {
            words.push_chunk(chunk, mx);
        }
        words
    }

    /// How many words there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The word at `index`; empty beyond the end.
    pub(super) fn word(&self, index: usize) -> &str {
        let Some(&end) = self.ends.get(index) else { return "" };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start as usize..end as usize]
    }

    fn push_chunk(&mut self, chunk: &str, mx: &str) {
        let bare = chunk.trim_start_matches(|c: char| !c.is_alphanumeric());
        if ["http:", "https:", "www.", "mailto:"].iter().any(|scheme| bare.starts_with(scheme)) {
            self.push_link(bare);
            return;
        }
        for piece in chunk.split_inclusive(|c: char| !is_word_char(c)) {
            let (piece, mark) = match piece.chars().next_back() {
                Some(mark) if !is_word_char(mark) => (&piece[..piece.len() - mark.len_utf8()], mark),
                _ => (piece, ' '),
            };
            self.push_piece(piece.trim_matches(['.', '-', '_']), mx);
            // What stands in brackets may be an echo; empty ones part nothing.
            self.apart = match mark {
                '(' | ';' | '!' | '?' => true,
                ')' => false,
                _ => self.apart || piece.ends_with('.'),
            };
        }
    }

    fn push_piece(&mut self, piece: &str, mx: &str) {
        if piece.contains('.') && piece.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return;
        }
        if is_host(piece, mx) {
            return self.push_link(piece);
        }
        for word in piece.split(['.', '-', '_']) {
            self.push_spelled(word);
        }
    }

    fn push_link(&mut self, link: &str) {
        self.links.push(' ');
        self.links.push_str(link);
    }

    /// Pushes a word as it is spelled: accents go, and scripts without spaces give a word a character.
    fn push_spelled(&mut self, word: &str) {
        if word.is_ascii() {
            self.push(word);
            return;
        }
        let mut plain = String::with_capacity(word.len());
        for c in word.chars() {
            match c {
                '\u{300}'..='\u{36f}' | '\u{fffd}' => {}
                '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' => {
                    self.push(&std::mem::take(&mut plain));
                    self.push(c.encode_utf8(&mut [0; 4]));
                }
                c => match without_accent(c) {
                    "" => plain.push(c),
                    base => plain.push_str(base),
                },
            }
        }
        self.push(&plain);
    }

    fn push(&mut self, spelled: &str) {
        let Some(word) = canonical(spelled) else { return };
        let previous = match self.len() {
            count if count > 0 && !self.apart => self.word(count - 1),
            _ => "",
        };
        let joined = match (previous, word) {
            ("e", "mail") => "email",
            ("mail", "box" | "boxes") => MAILBOX,
            ("black", "list" | "lists" | "listed") => "blacklist",
            ("block", "list" | "lists" | "listed") => "blocklist",
            ("grey" | "gray", "list" | "lists" | "listed" | "listing") => "greylist",
            ("over", "quota") => "overquota",
            ("doesn" | "isn" | "couldn" | "don" | "didn" | "wasn" | "hasn" | "can", "t") => "not",
            // A network address, and what is the sender's, is not the mailbox that was asked about.
            (before, MAILBOX) if NOT_A_MAILBOX_AFTER.contains(&before) => {
                return;
            }
            ("email" | "mail" | MAILBOX, MAILBOX) => {
                self.pop();
                return self.push(MAILBOX);
            }
            _ => return self.append(word),
        };
        self.pop();
        self.push(joined);
    }

    fn append(&mut self, word: &str) {
        if std::mem::take(&mut self.apart) && !self.ends.is_empty() {
            self.append(APART);
        }
        self.text.push_str(word);
        self.ends.push(self.text.len() as u32);
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.text.truncate(self.ends.last().copied().unwrap_or(0) as usize);
    }
}

/// After these words "address" (or "account" and the like) is not the mailbox that was asked about.
const NOT_A_MAILBOX_AFTER: [&str; 19] = [
    "ip",
    "ipv4",
    "ipv6",
    "host",
    "source",
    "client",
    "server",
    "remote",
    "sending",
    "connecting",
    "from",
    "sender",
    "senders",
    "reply",
    "return",
    "bounce",
    "your",
    "network",
    "domain",
];

/// Words that say nothing here.
const STOP_WORDS: [&str; 39] = [
    "a",
    "an",
    "the",
    "is",
    "was",
    "are",
    "were",
    "be",
    "been",
    "being",
    "has",
    "have",
    "had",
    "does",
    "do",
    "did",
    "will",
    "would",
    "should",
    "this",
    "that",
    "these",
    "its",
    "it",
    "can",
    "could",
    "currently",
    "permanently",
    "please",
    "sorry",
    "just",
    "also",
    "given",
    "specified",
    "requested",
    "supplied",
    "s",
    "so",
    "following",
];

/// All forms of "not", well and badly spelled.
const NEGATIONS: [&str; 18] = [
    "not", "doesnt", "doesnot", "dosnt", "dosent", "dont", "didnt", "isnt", "wasnt", "werent", "arent",
    "hasnt", "havent", "cant", "cannot", "couldnt", "wont", "cannnot",
];

/// Words for a mailbox: whatever differs between them, a refusal of one is a refusal of the recipient.
const MAILBOX_WORDS: [&str; 58] = [
    "mailbox",
    "mailboxes",
    "mbox",
    "inbox",
    "inboxes",
    "user",
    "users",
    "username",
    "usernames",
    "userid",
    "account",
    "accounts",
    "recipient",
    "recipients",
    "receiver",
    "receipient",
    "recepient",
    "recipent",
    "addressee",
    "address",
    "addresses",
    "adress",
    "addr",
    "alias",
    "aliases",
    "localpart",
    "customer",
    "subscriber",
    "rcpt",
    "emailaddress",
    "mailaccount",
    "mailaddress",
    "mailadresse",
    "benutzer",
    "empfanger",
    "empfaenger",
    "postfach",
    "mailpostfach",
    "konto",
    "adresse",
    "adresses",
    "destinataire",
    "destinataires",
    "boite",
    "bal",
    "utilisateur",
    "compte",
    "usuario",
    "destinatario",
    "destinatarios",
    "buzon",
    "cuenta",
    "direccion",
    "conta",
    "endereco",
    "utente",
    "casella",
    "indirizzo",
];

/// Words whose canonical form is another word, or none.
static CANONICAL: LazyLock<HashMap<&'static str, Option<&'static str>>> = LazyLock::new(|| {
    let stop = STOP_WORDS.map(|word| (word, None));
    let not = NEGATIONS.map(|word| (word, Some("not")));
    let mailbox = MAILBOX_WORDS.map(|word| (word, Some(MAILBOX)));
    let others = OTHER_FORMS.iter().flat_map(|(forms, word)| forms.iter().map(|form| (*form, Some(*word))));
    stop.into_iter().chain(not).chain(mailbox).chain(others).chain([("", None)]).collect()
});

/// Other spellings and forms.
const OTHER_FORMS: [(&[&str], &str); 5] = [
    (&["unknow", "unkown", "unknwon", "uknown", "unknowned"], "unknown"),
    (&["graylist", "graylisted", "graylisting", "greylisted", "greylisting", "greylists"], "greylist"),
    (&["senders"], "sender"),
    (&["mails", "emails"], "mail"),
    (&["messages"], "message"),
];

/// The canonical form of a word; none when it carries no meaning.
pub(super) fn canonical(word: &str) -> Option<&str> {
    CANONICAL.get(word).copied().unwrap_or(Some(word))
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '\u{fffd}')
}

/// Lower case, line ends as spaces, and no apostrophes inside words.
fn fold(text: &str) -> Vec<u8> {
    let mut folded = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut after_letter = false;
    while let Some(c) = chars.next() {
        let inside = after_letter && chars.peek().is_some_and(|next| next.is_alphabetic());
        match c {
            // A server that writes Windows-1252 sends its apostrophe as a byte that is no UTF-8.
            '\'' | '\u{2019}' | '\u{2018}' | '`' | '\u{b4}' | '\u{fffd}' if inside => continue,
            c if c.is_whitespace() => folded.push(' '),
            c if c.is_ascii() => folded.push(c.to_ascii_lowercase()),
            c => folded.extend(c.to_lowercase()),
        }
        after_letter = c.is_alphabetic();
    }
    folded.into_bytes()
}

/// Overwrites addresses, and tokens in angle brackets or quotes, with spaces.
fn blank_echoes(text: &mut [u8]) {
    let mut at = 0;
    while let Some(sign) = memchr::memchr(b'@', &text[at..]).map(|found| at + found) {
        let start = local_part_start(text, sign);
        let domain = text[sign + 1..].iter().take_while(|byte| is_domain_byte(**byte)).count();
        text[start..sign + 1 + domain].fill(b' ');
        at = sign + 1 + domain;
    }
    for (open, close) in [(b'<', b'>'), (b'"', b'"'), (b'\'', b'\'')] {
        blank_tokens(text, open, close);
    }
}

fn local_part_start(text: &[u8], sign: usize) -> usize {
    let before = &text[..sign];
    if before.last() == Some(&b'"')
        && let floor = before.len().saturating_sub(LOCAL_PART_BYTES_MAX + 2)
        && let Some(open) = memchr::memrchr(b'"', &before[floor..before.len() - 1])
    {
        return floor + open;
    }
    sign - before.iter().rev().take_while(|byte| is_local_byte(**byte)).count()
}

fn is_local_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte) || !byte.is_ascii()
}

fn is_domain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-[".contains(&byte) || !byte.is_ascii()
}

/// Blanks every `open token close` that holds no space.
fn blank_tokens(text: &mut [u8], open: u8, close: u8) {
    let mut at = 0;
    while let Some(start) = memchr::memchr(open, &text[at..]).map(|found| at + found) {
        let rest = text[start + 1..].iter().take(ADDRESS_BYTES_MAX);
        let token = rest.take_while(|byte| ![open, close, b' '].contains(byte)).count();
        let end = start + 1 + token;
        if text.get(end) == Some(&close) {
            text[start..=end].fill(b' ');
        }
        at = start + 1;
    }
}

/// True for a host name: labels and a top-level domain that exists, or one that shares the MX host's domain.
fn is_host(piece: &str, mx: &str) -> bool {
    let Some((head, top)) = piece.rsplit_once('.') else { return false };
    if head.is_empty() || piece.split('.').any(str::is_empty) {
        return false;
    }
    let reserved = ["test", "example", "invalid", "localhost", "local", "lan", "internal"].contains(&top);
    reserved
        || shares_domain(piece, mx)
        || psl::suffix(piece.as_bytes()).is_some_and(|suffix| suffix.is_known())
}

fn shares_domain(piece: &str, mx: &str) -> bool {
    let mx = mx.trim_end_matches('.');
    let parent = mx.split_once('.').map_or(mx, |(_, parent)| parent);
    let tail = piece.len().checked_sub(parent.len()).and_then(|start| piece.get(start..));
    parent.contains('.') && tail.is_some_and(|tail| tail.eq_ignore_ascii_case(parent))
}

/// The letter without its accent; empty when it has none.
fn without_accent(c: char) -> &'static str {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'ç' | 'ć' | 'č' => "c",
        'è'..='ë' | 'ē' | 'ę' | 'ě' => "e",
        'ì'..='ï' | 'ī' | 'ı' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò'..='ö' | 'ø' | 'ő' => "o",
        'ř' => "r",
        'ś' | 'š' | 'ş' => "s",
        'ß' => "ss",
        'ù'..='ü' | 'ů' | 'ű' => "u",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, words: &str, links: &str) {
        let found = Words::of(text, "mx1.corp.test");
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
        check("Empfänger unbekannt", "mailbox unbekannt", "");
        check("用户不存在", "用 户 不 存 在", "");
    }
}
