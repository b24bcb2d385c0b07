//! Finds the subject of a predicate such as "does not exist" or "is full".
//!
//! "Does not exist" is about a mailbox only if its subject is a mailbox. So a predicate raises no signal by itself: the words and
//! echoes around it decide which signal it raises. (An echo is a name or address that the server repeats: see `echo.rs`.)

use super::clause::Clause;
use super::echo::Echo;
use super::lexicon::{Signal, Signals};
use super::words::{APART, MAILBOX, Mark, Words};

/// What a predicate says about its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Claim {
    /// The subject does not exist.
    Missing,
    /// The subject is unknown or not valid.
    Unknown,
    /// The subject is disabled.
    Disabled,
    /// The subject is full.
    Full,
    /// The subject is blocked.
    Blocked,
    /// The subject is not accepted.
    Refused,
    /// The subject could not be verified.
    Unverified,
    /// A domain is not served here.
    Unserved,
}

/// A claim, and the range of the words that make it. `end` is the index after the last word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Predicate {
    pub(super) claim: Claim,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What a predicate can be about. If neighbouring words name one subject together, the later variant of this list counts: "the
/// domain of your address" is ours. [`joined`] has the exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// An address that is echoed and is not ours.
    Address,
    /// An echo of us, without a word for us (such as "your") beside it.
    OurEcho,
    /// The mail itself.
    Message,
    /// The mailbox that was asked about.
    Mailbox,
    /// The session or the connection.
    Session,
    /// The server, its disk or another part of it.
    Server,
    /// A domain, and the text does not say which.
    Domain,
    /// The domain of the mailbox.
    RecipientDomain,
    /// Our name or network.
    OurName,
    /// Our reverse-path.
    Sender,
}

impl Party {
    fn is_domain(self) -> bool {
        matches!(self, Party::Domain | Party::RecipientDomain)
    }
}

/// A party, and the range of the words that name it. `end` is the index after the last word. The range of an echo without words is
/// empty.
#[derive(Debug, Clone, Copy)]
struct Subject {
    party: Party,
    start: usize,
    end: usize,
    /// Whether an echo belongs to this subject.
    echo: bool,
}

impl Subject {
    fn new(party: Party, start: usize, end: usize) -> Subject {
        Subject { party, start, end, echo: start == end }
    }

    /// Whether words, or an echo of the recipient's domain, name the subject. An echo of an address or of us does not count.
    fn is_named(&self) -> bool {
        !matches!(self.party, Party::Address | Party::OurEcho)
    }
}

fn party(word: &str) -> Option<Party> {
    Some(match word {
        MAILBOX | "person" => Party::Mailbox,
        "sender" | "originator" => Party::Sender,
        "your" | "helo" | "ehlo" | "ip" | "client" | "hostname" | "network" | "greeting" | "sending"
        | "connecting" => Party::OurName,
        "domain" | "domains" => Party::Domain,
        "server" | "system" | "database" | "service" | "directory" | "disk" | "filesystem" | "spool"
        | "host" | "ldap" | "backend" | "device" => Party::Server,
        "session" | "connection" | "connections" => Party::Session,
        "message" | "mail" | "content" | "attachment" => Party::Message,
        _ => return None,
    })
}

/// Whether the word may stand between two words that name one party together, as in "domain of the mailbox".
fn joins(word: &str) -> bool {
    matches!(word, "of" | "name" | "in" | "file" | "access" | "to")
}

fn party_of_echo(echo: Echo) -> Party {
    match echo {
        Echo::Recipient | Echo::Other => Party::Address,
        Echo::RecipientDomain => Party::RecipientDomain,
        Echo::Us => Party::OurEcho,
    }
}

/// Finds the subject of each predicate of a text, and raises the signal that the subject and the predicate give together.
/// `is_foreign`: whether a word is not understood.
pub(super) fn resolve(
    words: &Words,
    predicates: &[Predicate],
    clause: Option<&Clause>,
    is_foreign: &dyn Fn(usize) -> bool,
    signals: &mut Signals,
) {
    let subjects = subjects(words, clause);
    raise_named(words, &subjects, signals);
    // In Postfix's "Recipient address rejected:", the word "rejected" is no predicate.
    let framed = |predicate: &&Predicate| predicate.start > 0 && is_frame(words, predicate.start - 1);
    // The Korean "there is no room" ends with "does not exist".
    let is_of_room = |predicate: &&Predicate| {
        let is_before = |other: &Predicate| {
            let within = other.start <= predicate.start && predicate.end <= other.end;
            other.claim == Claim::Full && (within || other.end == predicate.start)
        };
        let is_apart = words.slashes.contains(&(predicate.start as u32));
        predicate.claim == Claim::Missing && !is_apart && predicates.iter().any(is_before)
    };
    let said = |predicate: &&Predicate| !framed(predicate) && !is_of_room(predicate);
    for predicate in predicates.iter().filter(said) {
        // In "example.com: token not registered", the domain is not the subject.
        let is_prefix = |subject: &Subject| {
            subject.party == Party::RecipientDomain
                && subject.start == subject.end
                && subject.end < predicate.start
                && words.breaks.contains(&(subject.end as u32))
        };
        // In "unknown gizmo: example.com", a thing that has no word here is unknown, and not the domain.
        let broken = |at: usize| words.breaks.contains(&(at as u32));
        let is_of_thing = |subject: &Subject| {
            subject.party == Party::RecipientDomain
                && subject.start == subject.end
                && predicate.claim == Claim::Unknown
                && (is_foreign(predicate.end) && !broken(predicate.end)
                    || predicate.start > 0
                        && subject.start != predicate.start
                        && is_foreign(predicate.start - 1)
                        && !broken(predicate.start))
        };
        // "<bob@example.com>: ticket not created" says nothing of bob. Without a colon, the word may be an adverb.
        let is_of_ticket = |subject: &Subject| {
            let is_before = subject.end < predicate.start && broken(subject.end);
            subject.party == Party::Address
                && matches!(predicate.claim, Claim::Missing | Claim::Disabled)
                && (is_before || subject.start >= predicate.end)
                && predicate.start > 0
                && is_foreign(predicate.start - 1)
                && !broken(predicate.start)
        };
        let subject = subject_of(predicate, &subjects, words)
            .filter(|subject| !is_prefix(subject) && !is_of_thing(subject) && !is_of_ticket(subject));
        let near = subject.is_some_and(|subject| is_near(words, predicate, subject));
        let party = match subject.map(|subject| subject.party) {
            // In "this server does not handle the domain", the subject is the server, but the claim is about the domain.
            Some(_) if predicate.claim == Claim::Unserved => {
                subjects.iter().map(|subject| subject.party).find(|party| party.is_domain())
            }
            // "You are not known to this user", and in German "you are to this user not known".
            _ if is_of_you(words, predicate.start) => Some(Party::OurName),
            Some(Party::Domain) if names_recipient(&subjects) => Some(Party::RecipientDomain),
            // "bob@example.com unknown", and nothing behind it.
            Some(Party::Address)
                if predicate.claim == Claim::Unknown && is_of_recipient(words, predicate) =>
            {
                Some(Party::Mailbox)
            }
            other => other,
        };
        // Only a mailbox has a storage limit that is exceeded.
        let exceeded = |word: &str| word.starts_with("exceed");
        let said = |is_meant: &dyn Fn(&str) -> bool| {
            (predicate.start..predicate.end).any(|at| is_meant(words.word(at)))
        };
        // A party in brackets behind the predicate, as in "(in reply to RCPT TO)", is not said to be full.
        let apart = |subject: &Subject| {
            subject.start >= predicate.end
                && (predicate.end..subject.start + 1).any(|at| words.word(at) == APART)
        };
        let is_limit =
            subjects.iter().all(apart) && predicate.claim == Claim::Full && said(&|word| word == "storage");
        let party = party.or((is_limit && said(&exceeded)).then_some(Party::Mailbox));
        if let Some(signal) = signal_of(predicate.claim, party, near) {
            signals.raise(signal);
        }
    }
}

/// Whether "you", or "you" and a mailbox, stand before this word.
fn is_of_you(words: &Words, at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map_or("", |at| words.word(at));
    before(1) == "you" || before(1) == MAILBOX && before(2) == "you"
}

/// Whether a predicate says something of the subject beside it. "Blocked: user policy" and "blocked user entry" do not: there the
/// mailbox belongs to what follows.
fn is_near(words: &Words, predicate: &Predicate, subject: Subject) -> bool {
    let broken = |at: usize| words.breaks.contains(&(at as u32));
    let ends = |at: usize| broken(at) || matches!(words.word(at), "" | APART);
    (subject.end == predicate.start && !broken(predicate.start))
        || (subject.start == predicate.end && !broken(predicate.end) && ends(subject.end))
}

/// Whether the predicate stands alone behind the recipient's address: no word comes before the address, and none behind the
/// predicate belongs to it.
fn is_of_recipient(words: &Words, predicate: &Predicate) -> bool {
    let (start, end) = (predicate.start as u32, predicate.end);
    let echoed = words.marks.iter().any(|mark| mark.at == start && mark.echo == Echo::Recipient);
    let ends = words.breaks.contains(&(end as u32))
        || matches!(words.word(end), "" | APART | "here")
        || [words.word(end), words.word(end + 1)] == ["to", "us"];
    start == 0 && echoed && ends && !words.breaks.contains(&start)
}

/// Raises the signals that subjects raise even without a predicate.
fn raise_named(words: &Words, subjects: &[Subject], signals: &mut Signals) {
    for subject in subjects {
        match subject.party {
            Party::Sender => {
                signals.raise(Signal::SenderWord);
                signals.raise(Signal::UsNamed);
            }
            Party::OurName => signals.raise(Signal::UsNamed),
            // Servers that quote each other write "host mx.example.com said". So the word "host" alone is no statement about a
            // server.
            Party::Server if subject.end - subject.start == 1 && words.word(subject.start) == "host" => {}
            Party::Server | Party::Session => signals.raise(Signal::ServerNamed),
            _ => {}
        }
    }
    let worded = || subjects.iter().filter(|subject| subject.is_named()).map(|subject| subject.party);
    match worded().next() {
        Some(Party::OurName | Party::Sender) => signals.raise(Signal::UsFirst),
        Some(_) if worded().all(|party| party == Party::Message) => signals.raise(Signal::MailOnly),
        _ => {}
    }
    if names_nobody(words) {
        signals.raise(Signal::NoMailbox);
    }
    // "For this domain we accept no mail" is about the server.
    let is_taker = |subject: &&Subject| {
        subject.party.is_domain() && (subject.start == 0 || words.word(subject.start - 1) != "for")
    };
    // "The domain message accepts not" has the message beside the domain.
    if subjects.iter().filter(is_taker).any(|subject| {
        takes_no_mail(words, subject.end)
            || subject.start < subject.end
                && words.word(subject.start) == "domain"
                && takes_no_mail(words, subject.start + 1)
    }) {
        signals.raise(Signal::NoDomain);
    }
}

/// Whether "does not receive mail" stands behind a domain, in any order of its words, and nothing else in the sentence. "Does not
/// receive mail from ..." is about us.
fn takes_no_mail(words: &Words, start: usize) -> bool {
    const FILLERS: [&str; 13] =
        ["it", "announces", "ne", "e", "an", "any", "to", "of", "at", "all", "longer", "plus", "in"];
    const SENTENCE_WORDS: usize = 9;
    let sentence = (start..words.len()).map(|at| words.word(at)).take_while(|word| *word != APART);
    let said: Vec<&str> = sentence.take(SENTENCE_WORDS).collect();
    let is_taking = |word: &str| [MAILBOX, "receiv", "accept"].iter().any(|verb| word.starts_with(verb));
    let parts: [&dyn Fn(&str) -> bool; 3] = [&|word| ["not", "no"].contains(&word), &is_taking, &|word| {
        ["mail", "email", "message", "post"].contains(&word)
    }];
    said.len() < SENTENCE_WORDS
        && parts.iter().all(|is_part| said.iter().any(|word| is_part(word)))
        && said.iter().all(|word| FILLERS.contains(word) || parts.iter().any(|is_part| is_part(word)))
}

/// Whether the text says "no account" or the like directly before the address ("No account bob@example.com"), or that there is no
/// mailbox of this name, in any order of the words.
fn names_nobody(words: &Words) -> bool {
    let (mut said, mut of_other) = (0, false);
    for at in 0..words.len() {
        if words.breaks.contains(&(at as u32)) {
            (said, of_other) = (0, false);
        }
        match naming(words, at) {
            Some(part) => said |= part,
            // A server may be the place, as in "on this server there is nobody called joe".
            None => {
                let other = party(words.word(at)).is_some_and(|party| party != Party::Server);
                (said, of_other) = (0, other);
            }
        }
        let named =
            || words.marks.iter().any(|mark| mark.at as usize == at + 1 && mark.echo == Echo::Recipient);
        if !of_other
            && (said == NO | MAILBOXES | NAMED
                || said == NO | NAMED && matches!(words.word(at), "called" | "name") && named())
        {
            return true;
        }
    }
    let broken = |at: usize| words.breaks.contains(&(at as u32));
    let marked = |at: usize, echoes: &[Echo]| {
        words.marks.iter().any(|mark| mark.at as usize == at && echoes.contains(&mark.echo))
    };
    (0..words.len()).filter(|at| words.word(*at) == "no").any(|at| {
        let (before, next) = (at.checked_sub(1).map_or("", |at| words.word(at)), words.word(at + 1));
        let begins = at < 2 || words.word(at - 2) == APART || broken(at - 1);
        let ends = matches!(next, "" | APART) || broken(at + 1);
        // "No account bob@example.com", "the user bob is not there" with a "no" at the end, "we have no bob here".
        next == MAILBOX && marked(at + 2, &[Echo::Recipient, Echo::Other])
            || before == MAILBOX && begins && ends
            || next == "here" && marked(at + 1, &[Echo::Recipient])
    })
}

/// The parts of "there is no mailbox of this name".
const NO: u8 = 1;
const MAILBOXES: u8 = 2;
const NAMED: u8 = 4;

/// The part that a word has in "there is no mailbox of this name": 0 if it has none and may stand there, `None` if it may not.
fn naming(words: &Words, at: usize) -> Option<u8> {
    Some(match words.word(at) {
        "no" | "not" => NO,
        "nobody" => NO | MAILBOXES,
        MAILBOX | "person" | "one" | "anybody" | "anyone" | "email" => MAILBOXES,
        "such" | "name" | "named" | "called" => NAMED,
        "of" | "by" | "with" | "under" | "in" | "on" | "at" | "here" | "there" | "exist" | "exists"
        | "found" | "known" | "know" | "present" | "registered" | "our" | "we" | "ma" | "local" | "valid"
        | "active" | "any" | "message" | "com" | "or" | "nor" | "ne" | "employed" | "works" | "us"
        | "que" | "who" | "che" | "organization" | "company" | "longer" | "has" | "mail" | "that" | "az"
        | "ce" | "ved" | "av" => 0,
        _ => return None,
    })
}

/// Whether the text names the mailbox or its domain, and has no word for us. In such a text, "the domain" is that of the mailbox.
fn names_recipient(subjects: &[Subject]) -> bool {
    let any = |wanted: &[Party]| subjects.iter().any(|subject| wanted.contains(&subject.party));
    any(&[Party::Address, Party::Mailbox, Party::RecipientDomain])
        && !any(&[Party::OurName, Party::OurEcho, Party::Sender])
}

/// The signal of a claim about a party. `near`: the words for the party are directly beside the claim.
fn signal_of(claim: Claim, party: Option<Party>, near: bool) -> Option<Signal> {
    use Signal::*;
    let Some(party) = party else {
        return match claim {
            Claim::Blocked => Some(Conduct),
            Claim::Refused => Some(Denied),
            Claim::Disabled => Some(DisabledBare),
            _ => None,
        };
    };
    Some(match (claim, party) {
        (Claim::Unserved, Party::Domain | Party::RecipientDomain) => NotServed,
        (Claim::Unserved, _) => return None,
        (Claim::Refused, Party::Message | Party::Address) => Denied,
        (Claim::Disabled | Claim::Blocked, Party::Session) => OurName,
        (Claim::Missing | Claim::Unknown | Claim::Disabled, Party::Message) => Conduct,
        (Claim::Full, Party::Sender | Party::OurName | Party::OurEcho) => SendQuota,
        (_, Party::Sender) => SenderRefused,
        (_, Party::OurName | Party::OurEcho) => OurName,
        (Claim::Missing, Party::Mailbox | Party::Address) | (Claim::Unknown, Party::Mailbox) => NoMailbox,
        (Claim::Missing | Claim::Unknown | Claim::Disabled, Party::RecipientDomain) => NoDomain,
        (Claim::Missing | Claim::Unknown | Claim::Disabled, Party::Domain) => SomeDomain,
        (Claim::Disabled, Party::Mailbox | Party::Address) => DisabledMailbox,
        (Claim::Blocked, Party::Mailbox) if near => DisabledMailbox,
        (Claim::Full, Party::Mailbox | Party::Address) => FullMailbox,
        (Claim::Full, Party::Server) => ServerDisk,
        (Claim::Refused, Party::Mailbox) if near => Rejected,
        (Claim::Unverified, Party::Mailbox) => Verifying,
        (Claim::Blocked, Party::Message) => Conduct,
        _ => return None,
    })
}

/// The subject of a predicate. The first of these that exists: the party within it ("quota of the mailbox exceeded"), the party
/// directly before it, the party directly after it ("unknown sender"), the last party before it in the sentence, the first party
/// after it in the sentence, an echo.
fn subject_of(predicate: &Predicate, subjects: &[Subject], words: &Words) -> Option<Subject> {
    let parted = |from: usize, to: usize| (from..to).any(|at| words.word(at) == APART);
    // A message is neither missing nor disabled nor full if a mailbox is named before: "the user your message is for does not
    // exist".
    let is_of_message = |subject: &&Subject| {
        subject.party == Party::Message
            && matches!(predicate.claim, Claim::Missing | Claim::Disabled | Claim::Full)
    };
    // "No message fits into the mailbox", "bob is over the number of messages".
    let has_mailbox = subjects.iter().any(|subject| {
        let is_full = predicate.claim == Claim::Full;
        let fits = (predicate.start..predicate.end).any(|at| words.word(at) == "fit")
            && !subjects.iter().any(|other| other.party == Party::Message && other.end <= predicate.start);
        subject.party == Party::Mailbox && (is_full && fits || subject.end <= predicate.start)
            || subject.party == Party::Address && is_full && subject.end == predicate.start
    });
    // An echo of an address or of us is the subject only if nothing else names a subject.
    // "<bob@example.com> is in our directory not registered": the directory is a place.
    let missed = matches!(predicate.claim, Claim::Missing | Claim::Unknown);
    // "<bob@example.com> inactive on this domain."
    let is_place = |subject: &&Subject| {
        missed && is_in(words, subject)
            || predicate.claim == Claim::Disabled
                && subject.party.is_domain()
                && subject.start == predicate.end + 1
                && matches!(words.word(predicate.end), "on" | "in" | "at")
                && subjects.iter().any(|echo| echo.party == Party::Address && echo.end == predicate.start)
    };
    let named = || {
        let is_meant = |subject: &&Subject| !(is_place(subject) || has_mailbox && is_of_message(subject));
        subjects.iter().filter(|subject| subject.is_named()).filter(is_meant)
    };
    let broken = |at: usize| words.breaks.contains(&(at as u32));
    let last = named()
        .rfind(|subject| subject.end <= predicate.start)
        .filter(|subject| !parted(subject.end, predicate.start));
    let next = named()
        .find(|subject| subject.start >= predicate.end)
        .filter(|subject| !parted(predicate.end, subject.start))
        // "Quota exceeded for <bob@example.com>, message refused." "Over quota -- server LMTP."
        .filter(|subject| {
            let is_apart = || (predicate.end..=subject.start).any(broken);
            let is_other =
                is_of_message(subject) || subject.party == Party::Server && predicate.claim == Claim::Full;
            !(is_other && is_apart())
        });
    let inside = named().find(|subject| predicate.start <= subject.start && subject.end <= predicate.end);
    let adjective = next.filter(|next| next.start == predicate.end && !broken(predicate.end));
    let adjacent = last.filter(|last| last.end == predicate.start && !broken(predicate.start));
    let echoes = || subjects.iter().filter(|subject| !subject.is_named());
    // If there are several echoes: an echo of us within three words after "does not exist" counts first, then the last echo before
    // the predicate, then the first echo of the text.
    let addressed = echoes()
        .find(|echo| (predicate.end..predicate.end + 3).contains(&echo.start))
        .filter(|echo| echo.party == Party::OurEcho && predicate.claim == Claim::Missing)
        .or_else(|| echoes().rfind(|echo| echo.end <= predicate.start))
        .or_else(|| echoes().next());
    // "This server does not know that user", "<bob@example.com> not found in LDAP": a server does not miss itself.
    let is_server = |subject: &&Subject| subject.party == Party::Server;
    let object = adjective.filter(|next| {
        missed && adjacent.is_some_and(|last| is_server(&last)) && next.party == Party::Mailbox
    });
    let named_before = addressed.filter(|echo| {
        missed
            && echo.party == Party::Address
            && echo.end == predicate.start
            && last.is_none()
            && next.as_ref().is_some_and(is_server)
    });
    inside.or(object).or(adjacent).or(named_before).or(adjective).or(last).or(next).or(addressed).copied()
}

/// Whether a server is named behind "in" or "on our", whatever "our" is in a language.
fn is_in(words: &Words, subject: &Subject) -> bool {
    let before = |back: usize| subject.start.checked_sub(back).map_or("", |at| words.word(at));
    let is_place = |word: &str| matches!(word, "in" | "on" | "at");
    subject.party == Party::Server
        && (is_place(before(1)) || is_place(before(2)) && party(before(1)).is_none())
}

fn subjects(words: &Words, clause: Option<&Clause>) -> Vec<Subject> {
    let mut found: Vec<Subject> = Vec::new();
    let mut marks = words.marks.iter().peekable();
    for at in 0..=words.len() {
        while let Some(Mark { echo, .. }) = marks.next_if(|mark| mark.at as usize <= at) {
            let is_mail = |last: &&mut Subject| {
                let of = last.end + 1 == at && matches!(words.word(at - 1), "of" | "for");
                let within = last.end == at && last.start > 0 && words.word(last.start - 1) == "in";
                last.party == Party::Message && (of || within)
            };
            match found.last_mut().filter(is_mail) {
                // "The mail of bob is disabled", "no more room in bob's mail".
                Some(last) if *echo == Echo::Recipient => {
                    *last = Subject { party: Party::Mailbox, end: at, echo: true, ..*last };
                }
                _ => add(&mut found, words, Subject::new(party_of_echo(*echo), at, at)),
            }
        }
        if let Some(clause) = clause.filter(|clause| clause.range.contains(&at)) {
            // "The domain that you are sending to" is that of the mailbox.
            if let Some(last) = found.last_mut().filter(|last| last.party == Party::Domain && !clause.ours) {
                last.party = Party::RecipientDomain;
            }
        } else if is_from(words, at) {
            add(&mut found, words, Subject::new(Party::Sender, at - 1, at + 1));
        } else if is_frame(words, at) {
            found.push(Subject::new(Party::Address, at, at));
        } else if is_your_message(words, at) {
            continue;
        } else if let Some(party) = party(words.word(at)) {
            add(&mut found, words, Subject::new(party, at, at + 1));
        }
    }
    found
}

/// Whether "in MAIL FROM" ends at this word. These words name our reverse-path.
fn is_from(words: &Words, at: usize) -> bool {
    at > 1 && [words.word(at - 2), words.word(at - 1), words.word(at)] == ["in", "mail", "from"]
}

/// Whether "Recipient address rejected:" begins at this word. Postfix puts these words before the reason, whatever it is.
fn is_frame(words: &Words, at: usize) -> bool {
    words.word(at) == MAILBOX && words.word(at + 1) == "rejected" && words.breaks.contains(&(at as u32 + 2))
}

/// Whether "your message" begins at this word. The message is for the mailbox, so this "your" does not name us. The "your" of "your
/// mail server" does.
fn is_your_message(words: &Words, at: usize) -> bool {
    words.word(at) == "your"
        && party(words.word(at + 1)) == Some(Party::Message)
        && party(words.word(at + 2)).is_none()
}

/// Adds a subject. If `next` and the last subject name one party together ("domain of the recipient"), the two become one.
fn add(found: &mut Vec<Subject>, words: &Words, next: Subject) {
    let near = |last: &Subject| {
        let between = last.end..next.start;
        between.len() <= 2
            && between.clone().all(|at| joins(words.word(at)))
            && !(last.party == Party::Mailbox && is_in(words, &next))
            && !(last.end.max(1)..=next.start).any(|at| words.breaks.contains(&(at as u32)))
    };
    match found.last_mut().filter(|last| near(last)).map(|last| (joined(*last, next), last)) {
        Some((Some(party), last)) => {
            *last = Subject {
                party,
                start: last.start,
                end: next.end.max(last.end),
                echo: last.echo || next.echo,
            };
        }
        _ => found.push(next),
    }
}

/// The party that two neighbours name together; `None` if they name two.
fn joined(last: Subject, next: Subject) -> Option<Party> {
    use Party::*;
    match (last.party, next.party) {
        _ if last.echo && next.echo => None,
        // "<bob@example.com>: the host ..." is about a host.
        (Address, _) => None,
        (Domain, Mailbox | Address) | (Mailbox, Domain) => Some(RecipientDomain),
        // "example.com: connection closed" is not about the domain.
        (RecipientDomain, Message | Session | Server) if last.start == last.end => None,
        // "[203.0.113.5] user unknown" is about a user, and "<a@probe.example>: Sender address" about a sender.
        (OurEcho, Mailbox | Message | Session) => None,
        (OurEcho, party) | (party, OurEcho) => Some(party.max(OurName)),
        (last, next) => Some(last.max(next)),
    }
}

/// Whether the text has an echo of us, and none of the recipient's address.
pub(super) fn echoes_us_alone(words: &Words) -> bool {
    let any = |echo: Echo| words.marks.iter().any(|mark| mark.echo == echo);
    any(Echo::Us) && !any(Echo::Recipient)
}
