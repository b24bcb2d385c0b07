//! The subject of a predicate such as "does not exist" or "is full".
//!
//! "Does not exist" is about a mailbox only if a mailbox is its subject. So the phrases of a predicate raise no signal by themselves;
//! the words and echoes around them decide which signal they raise.

use super::echo::Echo;
use super::lexicon::{Signal, Signals};
use super::words::{APART, MAILBOX, Mark, Words};

/// A predicate about a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Claim {
    /// It does not exist.
    Missing,
    /// It is unknown or not valid.
    Unknown,
    /// It is disabled.
    Disabled,
    /// It has no room left.
    Full,
    /// It is blocked.
    Blocked,
    /// It is not accepted.
    Refused,
    /// It could not be verified.
    Unverified,
    /// It is served elsewhere.
    Unserved,
}

/// A claim and the words that make it: the first, and the one behind the last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Predicate {
    pub(super) claim: Claim,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A subject, the later before the earlier where several words name one: "the domain of your address" is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// An address that is echoed, and is not ours.
    Address,
    /// An echo of us without a word beside it.
    OurEcho,
    /// The mail itself.
    Message,
    /// The mailbox that was asked about.
    Mailbox,
    /// The session or the connection.
    Session,
    /// The server, its disk, or another part.
    Server,
    /// A domain, and it is not said which.
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

/// Words that name a party, the first and the one behind the last.
#[derive(Debug, Clone, Copy)]
struct Subject {
    party: Party,
    start: usize,
    end: usize,
    /// It includes an echo.
    echo: bool,
}

impl Subject {
    fn new(party: Party, start: usize, end: usize) -> Subject {
        Subject { party, start, end, echo: start == end }
    }

    /// True when words name it, and not an echo alone.
    fn is_worded(&self) -> bool {
        !matches!(self.party, Party::Address | Party::OurEcho)
    }
}

/// The party that a word names.
fn party(word: &str) -> Option<Party> {
    Some(match word {
        MAILBOX => Party::Mailbox,
        "sender" | "originator" => Party::Sender,
        "your" | "helo" | "ehlo" | "ip" | "client" | "hostname" | "network" | "greeting" | "sending"
        | "connecting" => Party::OurName,
        "domain" | "domains" => Party::Domain,
        "server" | "system" | "database" | "service" | "directory" | "disk" | "filesystem" | "spool"
        | "host" | "ldap" | "backend" => Party::Server,
        "session" | "connection" | "connections" => Party::Session,
        "message" | "mail" | "content" | "attachment" => Party::Message,
        _ => return None,
    })
}

/// Words that may occur inside the name of a party.
fn joins(word: &str) -> bool {
    matches!(word, "of" | "name" | "in" | "file" | "access" | "to")
}

fn named(echo: Echo) -> Party {
    match echo {
        Echo::Recipient | Echo::Other => Party::Address,
        Echo::RecipientDomain => Party::RecipientDomain,
        Echo::Us => Party::OurEcho,
    }
}

/// Raises what the predicates of a text say of their subjects.
pub(super) fn resolve(words: &Words, predicates: &[Predicate], signals: &mut Signals) {
    let subjects = subjects(words);
    raise_named(words, &subjects, signals);
    let framed = |predicate: &&Predicate| predicate.start > 0 && is_frame(words, predicate.start - 1);
    for predicate in predicates.iter().filter(|predicate| !framed(predicate)) {
        let subject = subject_of(predicate, &subjects, words);
        let near =
            subject.is_some_and(|subject| subject.end == predicate.start || subject.start == predicate.end);
        let party = match subject.map(|subject| subject.party) {
            // "This server does not handle the domain": the domain is what is not served.
            Some(_) if predicate.claim == Claim::Unserved => {
                subjects.iter().map(|subject| subject.party).find(|party| party.is_domain())
            }
            Some(Party::Domain) if names_recipient(&subjects) => Some(Party::RecipientDomain),
            other => other,
        };
        if let Some(signal) = said(predicate.claim, party, near) {
            signals.raise(signal);
        }
    }
}

/// Raises what the subjects alone tell.
fn raise_named(words: &Words, subjects: &[Subject], signals: &mut Signals) {
    for subject in subjects {
        match subject.party {
            Party::Sender => {
                signals.raise(Signal::SenderWord);
                signals.raise(Signal::UsNamed);
            }
            Party::OurName => signals.raise(Signal::UsNamed),
            // A host is named wherever one server quotes another: "host mx.example.com said".
            Party::Server if subject.end - subject.start == 1 && words.word(subject.start) == "host" => {}
            Party::Server | Party::Session => signals.raise(Signal::ServerNamed),
            _ => {}
        }
    }
    let worded = || subjects.iter().filter(|subject| subject.is_worded()).map(|subject| subject.party);
    match worded().next() {
        Some(Party::OurName | Party::Sender) => signals.raise(Signal::UsFirst),
        Some(_) if worded().all(|party| party == Party::Message) => signals.raise(Signal::MailOnly),
        _ => {}
    }
    if names_nobody(words) {
        signals.raise(Signal::NoMailbox);
    }
}

/// "No account bob@example.com": the address follows at once.
fn names_nobody(words: &Words) -> bool {
    let addressed = |at: usize| {
        let is_other = |mark: &Mark| matches!(mark.echo, Echo::Recipient | Echo::Other);
        words.marks.iter().any(|mark| mark.at as usize == at && is_other(mark))
    };
    (1..words.len()).any(|at| words.word(at) == MAILBOX && words.word(at - 1) == "no" && addressed(at + 1))
}

/// If the text names the mailbox and not us, "the domain" is that of the mailbox.
fn names_recipient(subjects: &[Subject]) -> bool {
    let any = |wanted: &[Party]| subjects.iter().any(|subject| wanted.contains(&subject.party));
    any(&[Party::Address, Party::Mailbox, Party::RecipientDomain]) && !any(&[Party::OurName, Party::Sender])
}

/// The signal of a claim about a party. `near`: words beside it name the party.
fn said(claim: Claim, party: Option<Party>, near: bool) -> Option<Signal> {
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

/// The subject of a predicate: what follows an adjective ("unknown sender"), else the last before it in the
/// sentence, else the first behind it, else an address that the text names.
fn subject_of(predicate: &Predicate, subjects: &[Subject], words: &Words) -> Option<Subject> {
    let parted = |from: usize, to: usize| (from..to).any(|at| words.word(at) == APART);
    // An echoed address is the subject where no word is.
    let named = || subjects.iter().filter(|subject| subject.is_worded());
    let last = named()
        .rfind(|subject| subject.end <= predicate.start)
        .filter(|subject| !parted(subject.end, predicate.start));
    let next = named()
        .find(|subject| subject.start >= predicate.end)
        .filter(|subject| !parted(predicate.end, subject.start));
    let broken = |at: usize| words.breaks.contains(&(at as u32));
    let adjective = next.filter(|next| next.start == predicate.end && !broken(predicate.end));
    let adjacent = last.filter(|last| last.end == predicate.start && !broken(predicate.start));
    let echoes = || subjects.iter().filter(|subject| !subject.is_worded());
    let addressed = echoes()
        .find(|echo| (predicate.end..predicate.end + 3).contains(&echo.start))
        .filter(|echo| echo.party == Party::OurEcho && predicate.claim == Claim::Missing)
        .or_else(|| echoes().rfind(|echo| echo.end <= predicate.start))
        .or_else(|| echoes().next());
    adjacent.or(adjective).or(last).or(next).or(addressed).copied()
}

/// Every subject of the text, in its order.
fn subjects(words: &Words) -> Vec<Subject> {
    let mut found: Vec<Subject> = Vec::new();
    let mut marks = words.marks.iter().peekable();
    for at in 0..=words.len() {
        while let Some(Mark { echo, .. }) = marks.next_if(|mark| mark.at as usize <= at) {
            add(&mut found, words, Subject::new(named(*echo), at, at));
        }
        if is_from(words, at) {
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

/// "in MAIL FROM", which names our reverse-path.
fn is_from(words: &Words, at: usize) -> bool {
    at > 1 && [words.word(at - 2), words.word(at - 1), words.word(at)] == ["in", "mail", "from"]
}

/// "Recipient address rejected:", which Postfix puts before whatever its reason is.
fn is_frame(words: &Words, at: usize) -> bool {
    words.word(at) == MAILBOX && words.word(at + 1) == "rejected" && words.breaks.contains(&(at as u32 + 2))
}

/// "Your message", which is on its way to the mailbox, and no party; but "your mail server" is one.
fn is_your_message(words: &Words, at: usize) -> bool {
    words.word(at) == "your"
        && party(words.word(at + 1)) == Some(Party::Message)
        && party(words.word(at + 2)).is_none()
}

/// Adds a subject, or joins it with the one before where both name one party: "domain of the recipient".
fn add(found: &mut Vec<Subject>, words: &Words, next: Subject) {
    let near = |last: &Subject| {
        let between = last.end..next.start;
        between.len() <= 2
            && between.clone().all(|at| joins(words.word(at)))
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

/// The one party that two neighbours name; none where they are two.
fn joined(last: Subject, next: Subject) -> Option<Party> {
    use Party::*;
    match (last.party, next.party) {
        _ if last.echo && next.echo => None,
        // "<bob@example.com>: the host ..." speaks of a host.
        (Address, _) => None,
        (Domain, Mailbox | Address) | (Mailbox, Domain) => Some(RecipientDomain),
        // "[203.0.113.5] user unknown" speaks of a user, "<a@probe.example>: Sender address" of a sender.
        (OurEcho, Mailbox | Message | Session) => None,
        (OurEcho, party) | (party, OurEcho) => Some(party.max(OurName)),
        (last, next) => Some(last.max(next)),
    }
}

/// True when the text names us by an echo, and the recipient by none.
pub(super) fn echoes_us_alone(words: &Words) -> bool {
    let any = |echo: Echo| words.marks.iter().any(|mark| mark.echo == echo);
    any(Echo::Us) && !any(Echo::Recipient)
}
