//! Delivery reports (RFC 3464): the groups of `message/delivery-status`, one for each recipient.

use crate::fields::{Field, Fields, after_type, date, status};
use crate::mail::Entity;
use crate::meaning::{says_after_data, says_no_domain};
use crate::notice;
use engine_proto::address::Address;
use engine_proto::smtp::status::EnhancedCode;
use lists::address_in_cell;
use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;

/// Maximum number of recipients of one report that are read.
pub(crate) const RECIPIENTS_MAX: usize = 1000;
/// Maximum number of blocks of a report that are read; each recipient has one.
const BLOCKS_MAX: usize = 2 * RECIPIENTS_MAX;

/// What the reporting server did (RFC 3464 2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Failed,
    Delayed,
    Delivered,
    /// Given to several recipients.
    Passed,
}

/// The part of a report about one recipient.
#[derive(Clone, Default)]
pub(crate) struct RecipientReport {
    /// The recipient that the action is about.
    pub recipient: Option<Address>,
    /// The recipient was another one when the message was sent: it was forwarded.
    pub is_forwarded: bool,
    pub action: Option<Action>,
    pub status: Option<EnhancedCode>,
    /// The words about the failure, without their type. Lines are separated by `\n`.
    pub diagnostic: Option<String>,
    /// The host that the words are from; empty if it is not known.
    pub remote: String,
    /// The time of the action in seconds since 1970.
    pub at: Option<u64>,
    /// A field that decides occurs twice.
    pub is_ambiguous: bool,
    /// The refusal came after DATA, so the server had accepted the recipient.
    pub is_after_data: bool,
    /// The words after the status in its field.
    pub comment: String,
    /// Words without a reply are those of the server that has the mailbox.
    pub is_local: bool,
}

/// A report with what it says about all its recipients.
#[derive(Default)]
pub(crate) struct Report {
    pub recipients: Vec<RecipientReport>,
    /// The host that made the report; empty if it is not known.
    pub reporter: String,
    /// The addresses that may be the reverse-path of the mail that failed.
    pub ours: Vec<Address>,
}

/// Reads a report from its parts. `None`: no part is a delivery report.
pub(crate) fn read(message: &Entity<'_>) -> Option<Report> {
    let parts = message.parts();
    let is_status =
        |part: &&Entity<'_>| part.is("message/delivery-status") || part.is("message/global-delivery-status");
    let content = parts.iter().find(is_status)?.content();
    let copy = parts.iter().find_map(Entity::copied_header).unwrap_or_default();
    let mut report = Report::default();
    let (mut arrival, mut sender) = (None, None);
    let mut rest = &content[..];
    for _ in 0..BLOCKS_MAX {
        let (block, after) = Fields::read(rest);
        if rest.is_empty() || report.recipients.len() == RECIPIENTS_MAX {
            break;
        }
        rest = after;
        if let Some(host) = block.value("reporting-mta") {
            report.reporter = after_type(host).1.to_owned();
        }
        arrival = arrival.or_else(|| block.value("arrival-date").and_then(date));
        let is_sender = |field: &&Field| field.name.starts_with("x-") && field.name.ends_with("-sender");
        sender = sender
            .or_else(|| block.iter().find(is_sender).map(|field| after_type(&field.value).1.to_owned()));
        add_groups(&mut report.recipients, block);
    }
    report.ours = own_addresses(message, &copy, sender.as_deref());
    let (text, _) = notice::readable_of(&parts).unwrap_or_default();
    complete(&mut report, &text, message.date().or(arrival));
    name_recipient(&mut report, message);
    let is_exim = message.header.value("x-failed-recipients").is_some();
    for one in &mut report.recipients {
        one.is_local = is_exim || one.recipient.as_ref().is_some_and(|of| serves(&report.reporter, of));
    }
    Some(report)
}

/// Whether a server has the domain of an address, or is a host of it.
pub(crate) fn serves(server: &str, address: &Address) -> bool {
    let (server, domain) = (server.to_ascii_lowercase(), address.domain().to_string());
    server.strip_suffix(&domain).is_some_and(|host| host.is_empty() || host.ends_with('.'))
}

/// The addresses that may be the reverse-path of the mail that failed: the sender that the report names, those in the header of the
/// copy, and the address to which the report was sent.
pub(crate) fn own_addresses(message: &Entity<'_>, copy: &Fields, sender: Option<&str>) -> Vec<Address> {
    let values = [
        sender,
        copy.value("return-path"),
        copy.value("from"),
        message.header.value("x-original-to"),
        message.header.value("delivered-to"),
        message.header.value("to"),
    ];
    let mut ours: Vec<Address> = Vec::new();
    for address in values.into_iter().flatten().filter_map(address_in_cell) {
        if !ours.contains(&address) {
            ours.push(address);
        }
    }
    ours
}

/// Adds the recipients of a block. Some servers put no empty line between groups, so a second recipient begins a group.
fn add_groups(recipients: &mut Vec<RecipientReport>, block: Fields) {
    let mut group: Vec<Field> = Vec::new();
    let mut finish = |group: &mut Vec<Field>| {
        let fields = std::mem::take(group);
        if recipients.len() < RECIPIENTS_MAX {
            recipients.extend(of_group(&fields));
        }
    };
    for field in block.into_vec() {
        let begins = ["final-recipient", "original-recipient"].contains(&field.name.as_str());
        if begins && group.iter().any(|known| known.name == field.name) {
            finish(&mut group);
        }
        group.push(field);
    }
    finish(&mut group);
}

/// The report of a group; `None` if the group is about no recipient.
fn of_group(group: &[Field]) -> Option<RecipientReport> {
    let value = |name: &str| group.iter().find(|field| field.name == name).map(|field| field.value.as_str());
    let about_recipient = ["final-recipient", "original-recipient", "action", "status"];
    about_recipient.iter().any(|name| value(name).is_some()).then_some(())?;
    let is_repeated = |name: &str| group.iter().filter(|field| field.name == name).count() > 1;
    let original = value("original-recipient").and_then(recipient);
    let last = value("final-recipient").and_then(recipient);
    let is_other = |one: &Option<Address>, other: &Option<Address>| match (one, other) {
        (Some(one), Some(other)) => one.canonical() != other.canonical(),
        _ => false,
    };
    let is_forwarded = is_other(&original, &last);
    // Sendmail names the address to which an alias led. For a user of its own it is the same name at a host of the domain.
    let actual = value("x-actual-recipient").and_then(recipient);
    let is_alias = is_other(&last, &actual) && !actual.as_ref().zip(last.as_ref()).is_some_and(is_at_host);
    let diagnostic = value("diagnostic-code").map(|value| decoded(after_type(value).1));
    let comment = value("status").and_then(|value| value.split_once('('));
    Some(RecipientReport {
        // Mail that was forwarded was sent to the original recipient.
        recipient: if is_forwarded { original } else { last.or(original) },
        is_forwarded: is_forwarded || is_alias,
        action: value("action").and_then(action),
        status: value("status").and_then(status),
        diagnostic: diagnostic.filter(|words| !words.is_empty()),
        remote: value("remote-mta").map(|value| host(after_type(value).1)).unwrap_or_default(),
        at: value("last-attempt-date").and_then(date),
        is_ambiguous: ["action", "status", "diagnostic-code"].into_iter().any(is_repeated),
        is_after_data: false,
        comment: comment.map(|(_, words)| words.trim_end_matches(')').to_owned()).unwrap_or_default(),
        is_local: false,
    })
}

/// Whether the first address is the second one at a host of its domain.
fn is_at_host((actual, last): (&Address, &Address)) -> bool {
    actual.local() == last.local() && serves(&actual.domain().to_string(), last)
}

/// The value without the encoding of words (RFC 2047), which Domino uses here.
fn decoded(value: &str) -> String {
    let line = format!("{}\n", value.replace('\n', " "));
    match MessageStream::new(line.as_bytes()).parse_unstructured() {
        HeaderValue::Text(text) if value.contains("=?") => text.into_owned(),
        _ => value.to_owned(),
    }
}

/// The recipient of a value such as `rfc822; joe@example.com`, `utf-8; \x{E9}@example.com` (RFC 6533 3) or, with the encoding of
/// `ORCPT`, `rfc822;joe+2Btag@example.com` (RFC 3461 4).
fn recipient(value: &str) -> Option<Address> {
    let (kind, address) = after_type(value);
    if kind.eq_ignore_ascii_case("x400") || kind.eq_ignore_ascii_case("x.400") {
        return None;
    }
    let address = unescaped(address, "\\x{", "}", 6);
    // A plus sign and two hexadecimal digits are also the beginning of many tags. In xtext, the plus sign itself is encoded.
    let decoded = if address.contains("+2B") { unescaped(&address, "+", "", 2) } else { address };
    address_in_cell(decoded.lines().next()?)
}

/// Replaces the hexadecimal numbers between two marks by their characters.
fn unescaped(text: &str, before: &str, after: &str, digits: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(before) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let number = &rest[before.len()..];
        let length = number.bytes().take(digits).take_while(u8::is_ascii_hexdigit).count();
        let end = number[length..].strip_prefix(after);
        let is_whole = length > 0 && (!after.is_empty() || length == digits);
        match (u32::from_str_radix(&number[..length], 16).ok().and_then(char::from_u32), end) {
            (Some(c), Some(end)) if is_whole => {
                out.push(c);
                rest = end;
            }
            _ => {
                out.push_str(before);
                rest = number;
            }
        }
    }
    out.push_str(rest);
    out
}

fn action(value: &str) -> Option<Action> {
    let word: String = value.chars().take_while(char::is_ascii_alphabetic).take(20).collect();
    match word.to_ascii_lowercase().as_str() {
        "failed" | "failure" => Some(Action::Failed),
        "delayed" => Some(Action::Delayed),
        "delivered" | "relayed" => Some(Action::Delivered),
        "expanded" => Some(Action::Passed),
        _ => None,
    }
}

/// The name of a host, without the address that follows it in brackets.
pub(crate) fn host(value: &str) -> String {
    let end = value.find([' ', '[', '(', '\n']).unwrap_or(value.len());
    value[..end].trim_end_matches('.').to_owned()
}

/// Adds what only other parts of the message have: the time, words about a failure, and when the server refused.
fn complete(report: &mut Report, text: &str, at: Option<u64>) {
    let known: Vec<Address> = report.recipients.iter().filter_map(|one| one.recipient.clone()).collect();
    let sections = if known.is_empty() { Vec::new() } else { notice::sections(text, &known) };
    let transcript = transcript_is_after_data(text).then(|| text.to_ascii_lowercase());
    for one in &mut report.recipients {
        one.at = one.at.or(at);
        let said = sections.iter().find(|(address, _)| Some(address) == one.recipient.as_ref());
        let words = said.map_or("", |(_, words)| words);
        // Exim and Sendmail name the recipient to which the mail was forwarded.
        if let Some(origin) = notice::origin(words).filter(|origin| Some(origin) != one.recipient.as_ref()) {
            (one.recipient, one.is_forwarded) = (Some(origin), true);
        }
        one.is_after_data = says_after_data(words)
            || transcript.as_ref().is_some_and(|text| !refuses_at_rcpt(text, one.recipient.as_ref()));
        if one.action == Some(Action::Failed) && one.diagnostic.is_none() {
            let comment = Some(&*one.comment).filter(|comment| says_no_domain(comment, true));
            one.diagnostic = comment.or(Some(words).filter(|words| !words.is_empty())).map(str::to_owned);
        }
    }
}

/// Whether a transcript in lower case has a refusal directly after RCPT for this recipient.
fn refuses_at_rcpt(text: &str, recipient: Option<&Address>) -> bool {
    let steps =
        recipient.map(|address| format!("rcpt to:<{}>\n<<< 5", address.as_str().to_ascii_lowercase()));
    steps.is_some_and(|steps| text.contains(&steps))
}

/// Whether the transcript of Sendmail shows a refusal after DATA. Sendmail sends RCPT and DATA together, so the refusal of a
/// recipient also stands after `>>> DATA`. Then the refusal of DATA itself follows.
fn transcript_is_after_data(text: &str) -> bool {
    let Some((_, transcript)) = text.split_once("Transcript of session follows") else { return false };
    transcript.split(">>> ").skip(1).any(|step| {
        let refusals = step.lines().filter(|line| line.starts_with("<<< 5")).count();
        step.starts_with(".\n") || (step.starts_with("DATA\n") && refusals == 1)
    })
}

/// The recipient of a report without a name for it: Exim repeats it in the header.
fn name_recipient(report: &mut Report, message: &Entity<'_>) {
    if let [one] = &mut report.recipients[..]
        && one.recipient.is_none()
    {
        one.recipient =
            message.header.value("x-failed-recipients").and_then(|value| Address::parse(value).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_decoded() {
        for (value, expected) in [
            ("rfc822; joe@example.com", Some("joe@example.com")),
            ("RFC822;<joe@Example.com>", Some("joe@example.com")),
            ("rfc822; joe+2Btag@example.com", Some("joe+tag@example.com")),
            ("rfc822; joe+2Btag+3Dx@example.com", Some("joe+tag=x@example.com")),
            ("rfc822; joe+abc@example.com", Some("joe+abc@example.com")),
            ("utf-8; j\\x{F6}@example.com", Some("j\u{f6}@example.com")),
            ("utf-8; j\u{f6}@example.com", Some("j\u{f6}@example.com")),
            ("joe@example.com", Some("joe@example.com")),
            ("x400; /S=joe/C=us/", None),
            ("rfc822; undisclosed", None),
            ("rfc822; \\x{110000}@example.com", None),
            ("", None),
        ] {
            let found = recipient(value);
            assert_eq!(found.as_ref().map(Address::as_str), expected, "{value}");
        }
    }

    #[test]
    fn a_refusal_in_a_transcript_is_after_data_unless_the_recipient_was_refused_before() {
        let joe = Address::parse("joe@example.com").unwrap();
        for (steps, expected) in [
            (">>> DATA\n<<< 550 spam\n", true),
            (">>> RCPT To:<joe@example.com>\n<<< 550 no\n>>> DATA\n<<< 550 spam\n", false),
            (">>> RCPT To:<ann@example.com>\n<<< 550 no\n>>> DATA\n<<< 550 spam\n", true),
            (
                ">>> DATA\n<<< 550 no\n550 5.1.1 <joe@example.com>... User unknown\n<<< 503 first RCPT\n",
                false,
            ),
        ] {
            let text = format!("   ----- Transcript of session follows -----\n{steps}");
            let refuses_at_rcpt = refuses_at_rcpt(&text.to_ascii_lowercase(), Some(&joe));
            assert_eq!(transcript_is_after_data(&text) && !refuses_at_rcpt, expected, "{steps}");
        }
    }

    #[test]
    fn hosts_and_actions_are_read() {
        for (value, expected) in [
            ("mx.example.com (192.0.2.1, the server)", "mx.example.com"),
            ("mx.example.com.", "mx.example.com"),
        ] {
            assert_eq!(host(value), expected);
        }
        for (value, expected) in [
            ("failed", Some(Action::Failed)),
            ("Failed (bounced)", Some(Action::Failed)),
            ("relayed (to a server without reports)", Some(Action::Delivered)),
            ("x", None),
        ] {
            assert_eq!(action(value), expected);
        }
    }
}
