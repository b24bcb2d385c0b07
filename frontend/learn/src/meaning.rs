//! The meaning of a report about one recipient.
//!
//! A failure is definite only if two independent statements agree: the status of the report (RFC 3463), and the words of the server
//! that refused. The words are classified by the rules for live replies. A status such as 5.0.0 states nothing, so the words need
//! a clear sentence or a status of their own then.

use crate::fields::status;
use crate::report::{Action, RecipientReport};
use engine_proto::address::Address;
use engine_proto::smtp::reply::Reply;
use engine_proto::smtp::status::EnhancedCode;
use engine_proto::verdict::{Class, Classification, ReplyView, Scope, Stage, Us, classify};

api::named! {
    /// What a definite bounce shows.
    Bounce {
        /// The mailbox does not exist.
        NotFound = "mailbox does not exist",
        /// The mailbox exists and takes no mail.
        Disabled = "mailbox disabled",
        /// The domain does not exist or takes no mail.
        DomainDead = "domain takes no mail",
    }
}

api::named! {
    /// Why a failure shows nothing about the existence of the mailbox.
    Cause {
        /// The mailbox is full.
        Full = "mailbox full",
        /// Policy, reputation, spam, authentication: about the sender or the message.
        Policy = "policy or reputation",
        /// Temporary, or the sending server gave up.
        Temporary = "temporary",
        /// The size or the form of the message.
        Message = "size or form of the message",
        /// The provider sent nothing, because of an earlier bounce.
        Suppressed = "not sent by the provider",
        /// The mail was forwarded, and failed at another address.
        Forwarded = "failed after forwarding",
        /// There are no words of a server to compare the status with.
        NoWords = "no words of a server",
        /// The status and the words contradict each other, or a field occurs twice.
        Contradiction = "contradictory",
        /// Nothing can be read from the words.
        Unclear = "unclear",
    }
}

/// The meaning of a report about one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A definite bounce.
    Definite(Bounce),
    /// The mail failed for another reason.
    Failed(Cause),
    /// The mail is still on its way.
    Delayed,
    /// The mail was delivered.
    Delivered,
    /// The mail was given to a server or list without reports.
    Passed,
    /// The report does not say what happened.
    Unknown,
}

/// The sender of the mail and its server, as a server may name them in its reply.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sender<'a> {
    /// The addresses that may be the reverse-path of the mail.
    pub addresses: &'a [Address],
    pub host: &'a str,
}

/// The meaning of a report.
pub(crate) fn meaning(report: &RecipientReport, sender: Sender<'_>) -> Meaning {
    match report.action {
        None => Meaning::Unknown,
        Some(Action::Delayed) => Meaning::Delayed,
        Some(Action::Passed) => Meaning::Passed,
        Some(Action::Delivered) => match report.status {
            Some(status) if status.class != 2 => Meaning::Unknown,
            _ => Meaning::Delivered,
        },
        Some(Action::Failed) => failure(report, sender),
    }
}

fn failure(report: &RecipientReport, sender: Sender<'_>) -> Meaning {
    let words = report.diagnostic.as_deref().unwrap_or_default();
    let said = Said::read(words, report.status);
    let found = said.classify(report, sender);
    let is_after_data = report.is_after_data || says_after_data(words);
    let cause = |default| cause(&found, default);
    if says_suppressed(words) {
        return Meaning::Failed(Cause::Suppressed);
    }
    // 4.4.z is about the way to the server: the sender gave up (RFC 3463 3.5).
    if report.status.is_some_and(|status| status.class == 4 && status.subject == 4) {
        return Meaning::Failed(Cause::Temporary);
    }
    let is_clear_of_others = matches!(found.class, Class::Unclear | Class::DomainDead | Class::Relay);
    let is_open = is_clear_of_others || !said.has_code || words.contains(EXCHANGE_NO_DOMAIN);
    let is_of_status = STATUS_RULES.contains(&found.rule);
    let is_domain_dead =
        !said.has_code && !is_of_status && found.class == Class::DomainDead && found.permanent;
    // A host that is named as the server may also be the one that the sending server did not find.
    let is_own =
        report.remote.is_empty() || (said.states(Bounce::DomainDead, &found) && said.names_domain(report));
    let says_no_domain = is_open
        && is_own
        && (is_domain_dead || says_no_domain(words, is_clear_of_others && found.rule != RELAY_RULE));
    let dead = says_no_domain.then_some(Bounce::DomainDead);
    let Some(bounce) = dead.or(bounce(&found)) else { return Meaning::Failed(cause(Cause::Unclear)) };
    let status = report.status.or(said.status).unwrap_or(EnhancedCode::new(5, 0, 0));
    // A server that gives up after days reports the last reply with a status of its own, or without one.
    let lower = words.to_ascii_lowercase();
    let is_for_now = !said.has_code && ["tempor", "try again"].iter().any(|mark| lower.contains(mark));
    if status.class == 4 || is_for_now {
        return Meaning::Failed(Cause::Temporary);
    }
    // The status says that the mailbox is disabled. Without a code, words that say something else may be a bad translation of it.
    if (status.subject, status.detail, bounce, said.has_code) == (2, 1, Bounce::NotFound, false) {
        return Meaning::Failed(Cause::Contradiction);
    }
    let own_agrees = said.status.is_none_or(|own| agreement(own, bounce, &found) != Agreement::Contradicts);
    let agrees = match agreement(status, bounce, &found) {
        Agreement::Agrees => own_agrees,
        Agreement::StatesNothing => {
            own_agrees
                && (says_no_domain && !said.has_code || is_clear(&found, &said, bounce, report.is_local))
        }
        Agreement::Contradicts => false,
    };
    let is_about_mailbox = [Some(status), said.status]
        .into_iter()
        .flatten()
        .any(|status| agreement(status, bounce, &found) == Agreement::Agrees);
    if !says_no_domain && (said.status.is_none() || !said.has_words) && is_of_status {
        Meaning::Failed(Cause::NoWords)
    } else if report.is_ambiguous || !agrees {
        Meaning::Failed(Cause::Contradiction)
    } else if is_after_data && !is_about_mailbox && !words.contains(YAHOO_AFTER_DATA) {
        // Filters refuse messages with the words for a missing mailbox.
        Meaning::Failed(Cause::Message)
    } else if report.is_forwarded {
        Meaning::Failed(Cause::Forwarded)
    } else {
        Meaning::Definite(bounce)
    }
}

/// Rules that read only the status. If the words have no status of their own, the rule has read that of the report. If there is
/// nothing but the status, the report only repeats it. In both cases no words confirm it.
const STATUS_RULES: [&str; 5] =
    ["unknown-status", "null-mx-status", "null-mx-status-exchange", "domain-status", "disabled-status"];

/// Rules of sentences that allow no other reading.
const SENTENCE_RULES: [&str; 4] = ["unknown", "provider-unknown", "disabled", "domain-dead"];
/// The words before the sentences with which Yahoo refuses single recipients after DATA.
const YAHOO_AFTER_DATA: &str = "delivery error: dd";
/// The mark of Exchange for a domain that does not exist. Its words repeat the name of the server that made the report.
const EXCHANGE_NO_DOMAIN: &str = "DomainNonexistent";
/// The words of CommuniGate, hMailServer, T-Online and GMX about their own mailboxes.
const OWN_WORDS: [&str; 3] = ["LOCAL module(", "Error Type: Local", "unknown user / "];
/// The words of GMX before a reply without its code.
const GMX_REPLY: &str = "after RCPT command:\nhost: ";
/// The rule of Microsoft's refusal at the edge.
const EDGE_RULE: &str = "edge-blocking-5.4.1";
/// The rule of a server that does not relay.
const RELAY_RULE: &str = "relay";
/// The rule of words about existence with a doubt.
const DOUBT_RULE: &str = "perhaps-unknown-5.1.1";
/// The rule of a refusal of the message.
const MESSAGE_RULE: &str = "message-status";

/// The reply in the words of a report.
struct Said {
    reply: Reply,
    /// The status in the words themselves.
    status: Option<EnhancedCode>,
    /// The words have a reply code.
    has_code: bool,
    /// There is a word besides the status and addresses.
    has_words: bool,
}

/// Words before the reply that a sending server quotes.
const QUOTES: [&str; 8] =
    ["said:", "replied:", "responded:", "response:", "returned:", "returned", "error:", "with:"];

impl Said {
    fn read(words: &str, status: Option<EnhancedCode>) -> Said {
        let of_gmx = words.split_once(GMX_REPLY).and_then(|(_, rest)| rest.split_once('\n'));
        let quoted = of_gmx.map_or_else(|| quoted(words), |(_, reply)| reply.trim_start());
        let code = reply_code(quoted);
        let has_code = code.is_some() || of_gmx.is_some_and(|_| !quoted.contains("tempor"));
        let text = code.map_or(quoted, |_| quoted[3..].trim_start_matches([' ', '-', ':']));
        // The words of Postfix about the reply.
        let text = text.split("(in reply").next().unwrap_or_default();
        let code = code.unwrap_or(match status.map_or(0, |status| status.class) {
            class @ (2 | 4) => u16::from(class) * 100 + 50,
            _ => 550,
        });
        let text = without_repeated_codes(text, code);
        let own = EnhancedCode::find_in(&text, code);
        let text = match (own, status) {
            (None, Some(status)) if u16::from(status.class) == code / 100 => format!("{status} {text}"),
            _ => text,
        };
        let is_word = |word: &str| !word.contains('@') && word.contains(char::is_alphabetic);
        let has_words = text.split_whitespace().any(is_word);
        Said { reply: Reply::new(code, &text), status: own, has_code, has_words }
    }

    /// Whether the status in the words agrees with a statement.
    fn states(&self, bounce: Bounce, found: &Classification) -> bool {
        self.status.is_some_and(|own| agreement(own, bounce, found) == Agreement::Agrees)
    }

    /// Whether the words have the domain of the recipient.
    fn names_domain(&self, report: &RecipientReport) -> bool {
        let domain = report.recipient.as_ref().map(|address| address.domain().to_string());
        domain.is_some_and(|domain| self.reply.text().to_ascii_lowercase().contains(&domain))
    }

    /// The meaning of the reply. Each address of the sender may be the one that the server repeats, so a statement about the
    /// recipient has to be one for all of them.
    fn classify(&self, report: &RecipientReport, sender: Sender<'_>) -> Classification {
        let classified = |reverse_path: &str| {
            classify(&ReplyView {
                stage: Stage::Rcpt,
                mx: &report.remote,
                reply: &self.reply,
                recipient: report.recipient.as_ref().map(Address::as_str),
                us: Us { reverse_path, ehlo: sender.host, source: None },
            })
        };
        let mut found = sender.addresses.iter().map(|address| classified(address.as_str()));
        let first = found.next().unwrap_or_else(|| classified(""));
        if bounce(&first).is_none() {
            first
        } else {
            found.find(|one| bounce(one).is_none()).unwrap_or(first)
        }
    }
}

/// The reply in words such as `host mx.example.com[192.0.2.1] said: 550 5.1.1 no such user`; else all words.
pub(crate) fn quoted(words: &str) -> &str {
    if reply_code(words).is_some() {
        return words;
    }
    let marks = QUOTES.iter().filter_map(|mark| {
        let at = words.find(mark)? + mark.len();
        let rest = words[at..].trim_start_matches(|c: char| c.is_whitespace() || "'\"<:".contains(c));
        reply_code(rest).map(|_| rest)
    });
    // Exim has the reply after the host or after the command, or in a line of its own. So has GMX, without a code. Others have it
    // after a colon, in parentheses or after the type `smtp`.
    let after = [": ", "(", "smtp;", ">>> ", "> "].into_iter();
    let after =
        after.flat_map(|mark| words.match_indices(mark).map(move |(at, _)| &words[at + mark.len()..]));
    let is_mark = |c: char| c.is_whitespace() || "#-".contains(c);
    let lines = words.split_inclusive('\n').scan(0, |at, line| Some(std::mem::replace(at, *at + line.len())));
    let lines = lines.map(|at| words[at..].trim_start_matches(is_mark));
    let begins = |rest: &&str| reply_code(rest).is_some_and(|code| code >= 400) || status(rest).is_some();
    // The longest rest is the first reply.
    marks.chain(after.chain(lines).filter(begins)).max_by_key(|rest| rest.len()).unwrap_or(words)
}

/// The reply code at the beginning of a text.
pub(crate) fn reply_code(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let ends = bytes.get(3).is_none_or(|byte| matches!(byte, b' ' | b'-' | b':' | b'\n' | b'\t'));
    let code: u16 = text.get(..3).filter(|_| ends)?.parse().ok()?;
    (200..600).contains(&code).then_some(code)
}

/// The text without the code before each further line of the reply. Some servers join the lines: `550-5.1.1 no 550 5.1.1 user`.
fn without_repeated_codes(text: &str, code: u16) -> String {
    let mark = format!("{code}-");
    let line_mark = format!("{code} ");
    let mut out = String::with_capacity(text.len());
    for line in text.split('\n') {
        let line = line.trim();
        let line = line.strip_prefix(&line_mark).unwrap_or(line);
        if !out.is_empty() {
            out.push('\n');
        }
        let words = line.split(' ').map(|word| word.strip_prefix(&mark).unwrap_or(word));
        out.push_str(&words.collect::<Vec<_>>().join(" "));
    }
    out
}

/// The definite statement of a classified reply.
fn bounce(found: &Classification) -> Option<Bounce> {
    match found.class {
        _ if !found.permanent => None,
        // Its words are about existence, but with a doubt.
        Class::NotFound if found.rule == DOUBT_RULE => None,
        Class::NotFound if found.scope == Scope::Recipient => Some(Bounce::NotFound),
        Class::Disabled if found.scope == Scope::Recipient => Some(Bounce::Disabled),
        Class::DomainDead => Some(Bounce::DomainDead),
        _ => None,
    }
}

/// How a status relates to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Agrees,
    StatesNothing,
    Contradicts,
}

/// Whether the status allows the statement (RFC 3463 3; the details of Microsoft 365 are from its documentation).
fn agreement(status: EnhancedCode, bounce: Bounce, found: &Classification) -> Agreement {
    let is_edge = found.rule == EDGE_RULE;
    match (status.subject, status.detail, bounce) {
        _ if status.class != 5 => Agreement::Contradicts,
        // 5.5.0 is a failure of the protocol without details: Outlook.com and many relays give it to all refusals.
        (0, _, _) | (5, 0, _) | (1..=4, 0, _) => Agreement::StatesNothing,
        (1, 1 | 3 | 4 | 6 | 10 | 351, Bounce::NotFound | Bounce::Disabled) => Agreement::Agrees,
        (2, 1, Bounce::NotFound | Bounce::Disabled) => Agreement::Agrees,
        (2, 4, Bounce::NotFound) => Agreement::Agrees,
        (4, 1, Bounce::NotFound) if is_edge => Agreement::Agrees,
        (7, 13 | 504 | 505, Bounce::Disabled) => Agreement::Agrees,
        (1, 2 | 10, Bounce::DomainDead) | (4, 4 | 310, Bounce::DomainDead) => Agreement::Agrees,
        _ => Agreement::Contradicts,
    }
}

/// Whether the words decide without a status of the report: by a sentence that allows no other reading, or by their own status.
fn is_clear(found: &Classification, said: &Said, bounce: Bounce, is_local: bool) -> bool {
    // Words without a code may be those of a server that has no mailbox of the domain, or about its way, such as "Unrouteable address".
    let text = said.reply.text();
    let is_own = (is_local || OWN_WORDS.iter().any(|words| text.contains(words)))
        && !text.to_ascii_lowercase().contains("rout");
    said.states(bounce, found) || ((said.has_code || is_own) && SENTENCE_RULES.contains(&found.rule))
}

fn cause(found: &Classification, default: Cause) -> Cause {
    match found.class {
        Class::Full => Cause::Full,
        Class::Policy | Class::AuthRequired | Class::Relay | Class::ExistsRestricted => Cause::Policy,
        Class::Greylisted | Class::Throttled | Class::ExistsThrottled | Class::Temporary => Cause::Temporary,
        Class::Unclear if found.rule == MESSAGE_RULE => Cause::Message,
        Class::NotFound | Class::Disabled | Class::DomainDead if !found.permanent => Cause::Temporary,
        _ => default,
    }
}

/// Whether a sending server says that the domain does not exist or takes no mail. It has not found any server to ask. If the words are
/// not `clear` of other causes, only the sentences of resolvers and of known servers count.
pub(crate) fn says_no_domain(words: &str, clear: bool) -> bool {
    let words = words.to_ascii_lowercase();
    // Once without the names of domains.
    let nameless = words.split_whitespace().filter(|word| !word.trim_end_matches(['.', ':']).contains('.'));
    let nameless = nameless.collect::<Vec<_>>().join(" ");
    let marks = [
        "nxdomain",
        "nonexistentdomain",
        "domainnonexistent",
        "enotfound",
        "null mx",
        "nullmx",
        "no such domain",
        "dns error: domain name not found",
        "illegal host/domain name",
        "couldn't find any host named",
        "couldn't find a mail exchanger",
        "host name is unknown",
        "lookup failure: host not found",
        "announces that it accepts no mail",
        "type=a: host not found",
        "type=aaaa: host not found",
        "type=mx: host not found",
        "host address lookups failed permanently",
        "unable to look up host name or service not known",
        "record not found for mx",
        "no mail servers appear to exist",
        "no dns entries for the hostname",
        "nowhere to deliver mail to for domain",
        "record indicated no smtp service",
        "mx records point to non-existent hosts",
        "dns record not found: non-existent domain",
        "does not appear to be registered",
    ];
    let ends = [
        "unknown domain",
        "unknown domain name",
        "domain name unknown",
        "domain not found",
        "domain does not exist",
        "unknown mail domain",
        "domain accepts no mail",
        "domain does not accept mail",
        "host unknown",
        "unknown host",
        "no such host",
    ];
    let end = nameless.trim_end_matches(['.', ':', ')', ']', ' ']);
    let is_said = marks.iter().any(|mark| words.contains(mark) || nameless.contains(mark))
        || (clear && ends.iter().any(|one| end.ends_with(one)));
    // About our name, or for now.
    let others = ["sender", "mail from", "helo", "tempor", "try again"];
    is_said && !others.iter().any(|other| nameless.contains(other))
}

/// Whether a provider says that it did not send, because of its list of earlier bounces. The age of that bounce is not known.
pub(crate) fn says_suppressed(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["suppress", "history of bouncing", "bounced address"].iter().any(|mark| words.contains(mark))
}

/// Whether the sending server says that the refusal came after DATA. Then the server has accepted the recipient before.
pub(crate) fn says_after_data(words: &str) -> bool {
    let words = words.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let marks = [
        "end of data",
        "to data command",
        "on data command",
        "after data",
        "final data",
        "our data",
        "after i sent the message",
        ">>> data",
        ">>> .",
    ];
    marks.iter().any(|mark| words.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_proto::verdict::classify::rules;

    #[test]
    fn the_rules_that_are_named_here_exist() {
        let named = STATUS_RULES.iter().chain(&SENTENCE_RULES).chain(&[
            EDGE_RULE,
            RELAY_RULE,
            DOUBT_RULE,
            MESSAGE_RULE,
        ]);
        for name in named {
            assert!(rules().any(|(rule, ..)| rule == *name), "{name}");
        }
    }
}
