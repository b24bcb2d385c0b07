//! Bounces that people read, and the words that servers put before a report.
//!
//! A bounce of qmail (QSBMF, D. J. Bernstein, 1997) begins with `Hi. This is the` and has a paragraph `<address>:` for each recipient.
//! Old versions of Exim name the recipients in the field `X-Failed-Recipients` and have a similar list. Other servers write such lists
//! without either. Then the message has to come from a mail server, and the words about a recipient need a reply or a status.

use crate::fields::{Fields, status, status_in};
use crate::mail::Entity;
use crate::meaning::{quoted, reply_code, says_no_domain};
use crate::report::{Action, RECIPIENTS_MAX, RecipientReport, Report, own_addresses, serves};
use engine_proto::address::Address;
use engine_proto::smtp::status::EnhancedCode;
use lists::address_in_cell;

/// Longest text about one recipient in bytes.
const WORDS_BYTES_MAX: usize = 4096;
/// Most text that is searched, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// The mark of Zoho before each code and before the words.
const ZOHO_CODE: &str = ", ERROR_CODE :";

/// Sentences that only bounces have, in lower case. They stand for a reply or a status.
const BOUNCE_SENTENCES: &[&str] = &[
    "did not reach the following recipient",
    "undeliverable to the following:",
    "the following addresses had delivery",
    "undeliverable mail\n",
    "failure reasons ",
    "could not be delivered",
    "could not be reached",
    "could not deliver message to",
    "unable to deliver message to",
    "had delivery errors",
    "failed addresses follow",
    "trouble delivering your message",
    "did not reach some or all",
    "did not receive this message",
    "the user(s) account is",
    "permanent fatal delivery errors",
    "mail system error - returned mail",
    "nicht zugestellt an",
    "konnte nicht zugestellt",
    "n'a pas été remis",
    "n'a pas été distribué",
    "n'a pas pu être",
    "no se ha entregado",
    "no fue entregado",
    "non è stato recapitato",
    "não foi entregue",
    "niet afgeleverd",
    "niet bezorgd",
    "cannot be delivered",
    "was not delivered",
    "unable to deliver your message to",
    "was rejected by a remote mail server",
    "this is a permanent error",
    "returned permanent errors",
    "qmail-send",
    "nicht zugestellt werden",
    "ist ein permanenter fehler",
    "pas pu être remis",
    "pas pu être distribué",
    "pas pu être délivré",
    "no pudo ser entregado",
    "no se pudo entregar",
    "no se ha podido entregar",
    "non è stato possibile consegnare",
    "impossibile recapitare",
    "não pôde ser entregue",
    "não foi possível entregar",
    "niet worden bezorgd",
    "niet worden afgeleverd",
    "nie mogła zostać dostarczona",
    "nie można dostarczyć",
    "nemohla být doručena",
    "nebylo možné doručit",
    "nem sikerült kézbesíteni",
    "nem kézbesíthető",
    "teslim edilemedi",
    "kunde inte levereras",
    "kunne ikke leveres",
    "ei voitu toimittaa",
    "не может быть доставлено",
    "не было доставлено",
    "не удалось доставить",
    "送信できませんでした",
    "配信できませんでした",
    "配信されませんでした",
    "退回",
    "无法投递",
    "배달되지 못",
];
/// Sentences that say that the server will try again, in lower case.
const DELAY_SENTENCES: [&str; 13] = [
    "weitere versuche folgen",
    "ill keep trying",
    "ill be retried",
    "still being retried",
    "a message is delayed",
    "only a temporary failure",
    "has not yet been delivered",
    "ill continue to try",
    "weitere zustellversuche",
    "nouvelles tentatives",
    "seguirá intent",
    "continuerà a tent",
    "blijven proberen",
];
/// Words before the recipient at the beginning of a line, in lower case.
const LEADS: &[&str] = &[
    "failed to deliver to ",
    "recipient: ",
    "recipient address: ",
    "failed recipient: ",
    "failed address: ",
    "the following recipients returned permanent errors: ",
];

/// Reads a bounce without a report. `None`: it has none of the forms.
pub(crate) fn read(message: &Entity<'_>) -> Option<Report> {
    let parts = message.parts();
    let (text, copy) = if message.is_text() { readable(message) } else { readable_of(&parts)? };
    let failed = message.header.value("x-failed-recipients");
    let starts =
        ["Hi. This is the", "Hi!\n\n    This is the MAILER-DAEMON", "This is the DragonFly Mail Agent"];
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let searched = format!("{}\n{line}", message.header.value("subject").unwrap_or_default()).to_lowercase();
    // The replies of people who are away have addresses and numbers too.
    let is_reply =
        message.header.value("auto-submitted").is_some_and(|value| value.starts_with("auto-replied"));
    let is_server = message.is_named_as_server() || (message.is_from_server() && !is_reply);
    let is_known_form = failed.is_some()
        || starts.iter().any(|start| text.trim_start().starts_with(start))
        || (is_server && BOUNCE_SENTENCES.iter().any(|one| searched.contains(one)));
    if !is_known_form && !message.is_from_server() {
        return None;
    }
    let known: Vec<Address> =
        failed.unwrap_or_default().split([',', '\n']).filter_map(address_in_cell).collect();
    let mut sections = sections(&text, &known);
    // A recipient without words about it failed too.
    for address in known {
        if !sections.iter().any(|(about, _)| *about == address) {
            sections.push((address, String::new()));
        }
    }
    sections.extend(of_dragonfly(&text));
    of_paragraphs(&text, &mut sections);
    let attached = parts.iter().find_map(Entity::copied_header);
    let copy = attached.unwrap_or_else(|| Fields::read(copy.trim_start().as_bytes()).0);
    let ours = own_addresses(message, &copy, None);
    sections.retain(|(_, words)| is_known_form || has_reply(words) || status_in(words).is_some());
    let from = message.header.value("from").and_then(address_in_cell);
    let is_other = |address: &Address| !ours.contains(address) && from.as_ref() != Some(address);
    if sections.is_empty() && is_known_form {
        // IMail has a line `words: address` for each recipient.
        let lines = text.lines().filter_map(|line| line.trim().rsplit_once(": "));
        let lines =
            lines.filter_map(|(words, address)| Some((Address::parse(address).ok()?, words.to_owned())));
        sections.extend(lines.filter(|(address, _)| is_other(address)));
    }
    if sections.is_empty() && (is_known_form || (message.is_named_as_server() && !is_reply)) {
        sections.extend(only_recipient(&text, is_other).map(|address| (address, String::new())));
    }
    if let [(address, words)] = &mut sections[..]
        && words.is_empty()
    {
        let found = |is_it: &dyn Fn(&&str) -> bool| text.split("\n\n").find(is_it);
        let said = found(&|paragraph| has_reply(paragraph))
            .or_else(|| found(&|paragraph| status(quoted(paragraph)).is_some()))
            .or_else(|| beside(&text, address).filter(|words| says_no_domain(words, true)));
        *words = said.unwrap_or_default().to_owned();
        words.truncate(words.floor_char_boundary(WORDS_BYTES_MAX));
    }
    let reporter = from.map(|from| from.domain().to_string()).unwrap_or_default();
    let is_qmail = text.trim_start().starts_with(starts[0]);
    let is_delayed = DELAY_SENTENCES.iter().any(|one| searched.contains(one));
    let recipients = sections.into_iter().filter_map(|(address, words)| {
        let (status, origin) = (status_in(&words), origin(&words));
        let code = reply_code(quoted(&words)).filter(|code| *code >= 400);
        (is_known_form || status.is_some() || code.is_some()).then_some(())?;
        let is_final = code.is_some_and(|code| code >= 500) || status.is_some_and(|status| status.class == 5);
        let class = if code.is_some_and(|code| code < 500) { 4 } else { 5 };
        Some(RecipientReport {
            is_forwarded: origin.is_some(),
            action: Some(if words.contains("Delay reason:") || (is_delayed && !is_final) {
                Action::Delayed
            } else {
                Action::Failed
            }),
            status: status.or(Some(EnhancedCode::new(class, 0, 0))),
            diagnostic: Some(words).filter(|words| !words.is_empty()),
            at: message.date(),
            is_local: failed.is_some() || is_qmail || serves(&reporter, &address),
            recipient: origin.or(Some(address)),
            ..RecipientReport::default()
        })
    });
    let recipients: Vec<_> = recipients.take(RECIPIENTS_MAX).collect();
    (!recipients.is_empty()).then_some(Report { recipients, reporter, ours })
}

/// The address to which the mail was sent, if the words about a recipient say that it was forwarded from there.
pub(crate) fn origin(words: &str) -> Option<Address> {
    let marks = ["(generated from ", "(expanded from: "];
    let rest = marks.iter().find_map(|mark| words.split_once(mark))?.1;
    address_in_cell(rest.split([')', ' ', '\n']).next()?)
}

/// Whether a text quotes a reply that refuses.
fn has_reply(text: &str) -> bool {
    reply_code(quoted(text)).is_some_and(|code| code >= 400)
}

/// The words after the address in its paragraph; if it has none, the next paragraph.
fn beside<'a>(text: &'a str, address: &Address) -> Option<&'a str> {
    let (_, rest) = text.split_once(address.as_str())?;
    rest.splitn(3, "\n\n").take(2).find(|paragraph| paragraph.contains(char::is_alphabetic))
}

/// The one address of a text that is another one than ours. `None`: there are several, so it is not clear which one failed.
fn only_recipient(text: &str, is_other: impl Fn(&Address) -> bool) -> Option<Address> {
    let is_end = |c: char| c.is_whitespace() || "<>()[]\"',;:\u{ff08}\u{ff09}\u{ff1a}".contains(c);
    let words = text.split(is_end).filter(|word| word.contains('@'));
    let mut found = words.filter_map(|word| Address::parse(word.trim_end_matches('.')).ok());
    let mut found = found.by_ref().filter(is_other);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// The text of a part for people, without CR, and the copy of the mail after it.
pub(crate) fn readable(part: &Entity<'_>) -> (String, String) {
    let mut text = part.text().replace('\r', "");
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_copy = line.starts_with("Return-Path: <") || line.starts_with("Received: from ");
        if is_copy || announces_copy(line) {
            let copy = text[if is_copy { at } else { at + line.len() }..].to_owned();
            text.truncate(at);
            return (text, copy);
        }
        at += line.len();
    }
    (text, String::new())
}

/// The first readable part, also if it is one of several forms of the same text.
pub(crate) fn readable_of(parts: &[Entity<'_>]) -> Option<(String, String)> {
    parts.iter().find_map(|part| match part.is_text() {
        true => Some(readable(part)),
        false => part
            .parts()
            .iter()
            .filter(|_| part.is("multipart/alternative"))
            .find(|part| part.is_text())
            .map(readable),
    })
}

/// Whether the copy of the mail begins after this line.
fn announces_copy(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    let starts =
        ["message headers follow", "original message follows", "below is a copy of", "your message follows"];
    let is_rule = line.starts_with("---")
        && !line.ends_with("server message")
        && ["copy", "original", "below", "message"].iter().any(|word| line.contains(word));
    is_rule || starts.iter().any(|start| line.starts_with(start))
}

/// The words about each recipient: the rest of the line that begins with its address, and the lines up to the next empty one or the
/// next recipient. If the recipients are not `known`, they are those of lines that can begin a paragraph about one.
pub(crate) fn sections(text: &str, known: &[Address]) -> Vec<(Address, String)> {
    let mut found: Vec<(Address, usize, Vec<&str>)> = Vec::new();
    let mut is_open = false;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let next = lines.peek().copied().unwrap_or_default();
        let begun = if known.is_empty() {
            any_recipient(line, next)
        } else {
            known.iter().find_map(|address| Some((address.clone(), after_address(line, address)?)))
        };
        let last = found.last_mut().filter(|_| is_open);
        match (begun, last) {
            _ if line.trim().is_empty() => is_open = false,
            // The next step of the transcript of Sendmail. Old versions add that the user is unknown after each 550.
            (begun, Some(last))
                if begun.as_ref().is_none_or(|(address, _)| *address == last.0)
                    && (line.starts_with(">>> ")
                        || line
                            .trim_start_matches("... ")
                            .to_ascii_lowercase()
                            .starts_with("while talking")
                        || line.contains(">... "))
                    && last.2.iter().any(|said| said.starts_with("<<< ") || said.contains(">... ")) =>
            {
                is_open = false;
            }
            // A reply often repeats the address at the beginning of a line.
            (Some((address, _)), Some(last))
                if last.0 == address || (known.is_empty() && indent > last.1) =>
            {
                last.2.push(line);
            }
            // Another recipient inside the words about one: who is meant is not clear.
            (Some(_), Some(last)) if indent > last.1 => is_open = false,
            (Some((address, rest)), _) => {
                found.push((address, indent, vec![rest]));
                is_open = true;
            }
            // A recipient that is not known: the report is cut off.
            (None, Some(last)) if indent <= last.1 && any_recipient(line, next).is_some() => is_open = false,
            (None, Some(last)) => last.2.push(line),
            (None, None) => {}
        }
    }
    let mut sections: Vec<(Address, String)> = Vec::new();
    for (address, _, lines) in found {
        let lines = lines.into_iter().map(|line| line.strip_prefix("<<< ").unwrap_or(line));
        let mut words = lines.collect::<Vec<_>>().join("\n").trim().replace(ZOHO_CODE, "\n");
        // The "local error" of hMailServer is not one for now.
        words = words.replace("Error Description:", "");
        words.truncate(words.floor_char_boundary(WORDS_BYTES_MAX));
        match sections.iter_mut().find(|(about, _)| *about == address) {
            Some((_, first)) if first.is_empty() => *first = words,
            Some(_) => {}
            None => sections.push((address, words)),
        }
    }
    if text.contains("--- Session Transcript ---") {
        let about: Vec<Address> = sections.iter().map(|(about, _)| about.clone()).collect();
        for (address, words) in of_transcript(text, if known.is_empty() { &about } else { known }) {
            match sections.iter_mut().find(|(about, _)| *about == address) {
                Some((_, first)) if first.is_empty() => *first = words,
                Some(_) => {}
                None => sections.push((address, words)),
            }
        }
    }
    sections
}

/// The marks before an address at the beginning of a line.
const BULLETS: [char; 7] = ['<', '>', '"', '\'', '*', '-', ' '];

/// The recipient with which a paragraph begins, and the rest of its first line: `<address>:`, `address: words`, an address with
/// a reply or indented lines below it, or an address and words with a status or in parentheses.
fn any_recipient<'a>(line: &'a str, next: &str) -> Option<(Address, &'a str)> {
    let line = in_transcript(line);
    let (text, has_lead) = after_lead(line);
    let end = text.find([' ', '\t', '>', '"', ':', ',', '(', ']']).unwrap_or(text.len());
    let address = Address::parse(text[..end].trim_end_matches(['\'', '.'])).ok()?;
    let rest = text[end..].trim_start_matches(['>', '"', ']']);
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_indented = indent(next) > indent(line) && !next.trim().is_empty();
    let begins = match rest.chars().next() {
        _ if has_lead => true,
        Some(':') => true,
        None => {
            let next = next.trim().trim_start_matches(['#']);
            let is_reply = reply_code(next).is_some_and(|code| code >= 400);
            is_indented
                || is_reply
                || next.starts_with("<<< ")
                || next.starts_with("Remote Server returned '")
        }
        _ if rest.starts_with(" : ") || rest.starts_with(" ... ") => true,
        _ if rest.starts_with(" on ") => is_indented,
        _ => {
            let is_enclosed =
                [(" (", ")"), (" [", "]")].iter().any(|(a, b)| rest.starts_with(a) && rest.ends_with(b));
            is_enclosed || status_in(rest).is_some() || rest.contains(ZOHO_CODE)
        }
    };
    begins.then(|| (address, rest.trim_start_matches([':', ' ', '(', '['])))
}

/// The rest of a line that begins with the address.
fn after_address<'a>(line: &'a str, address: &Address) -> Option<&'a str> {
    let line = in_transcript(line);
    if let Some((before, after)) = line.split_once(">... ")
        && reply_code(before).is_some()
        && before.ends_with(&format!("<{}", address.as_str()))
    {
        return Some(if after.is_empty() { after } else { line });
    }
    let (line, _) = after_lead(line);
    let length = address.as_str().len();
    let is_there = line.get(..length)?.eq_ignore_ascii_case(address.as_str());
    let rest = line.get(length..).filter(|_| is_there)?.trim_start_matches(['>', '"', '\'', ']']);
    (rest.is_empty() || rest.starts_with([':', ' ', ','])).then(|| rest.trim_start_matches([':', ' ', ',']))
}

/// The rest of a line after marks and words that stand before an address, and whether there are such words.
fn after_lead(line: &str) -> (&str, bool) {
    let line = line.trim();
    let lead = LEADS
        .iter()
        .find(|lead| line.get(..lead.len()).is_some_and(|start| start.eq_ignore_ascii_case(lead)));
    let rest = line[lead.map_or(0, |lead| lead.len())..].trim_start_matches(BULLETS);
    // MailEnable: `Recipient: [SMTP:joe@example.com]`.
    (rest.strip_prefix("[SMTP:").unwrap_or(rest), lead.is_some())
}

/// A line from its address on, if it is a command for a recipient, or if a reply follows the address.
fn in_transcript(line: &str) -> &str {
    if line.get(..13).is_some_and(|start| start.eq_ignore_ascii_case(">>> rcpt to:<")) {
        return &line[12..];
    }
    let mut ends = line.match_indices(">: ").map(|(end, mark)| (end, end + mark.len()));
    let end = ends.find(|(_, reply)| reply_code(&line[*reply..]).is_some_and(|code| code >= 400));
    end.and_then(|(end, _)| line[..end].rfind('<')).map_or(line, |at| &line[at..])
}

/// The recipients that stand in paragraphs of their own. Domino has `was not delivered to:`, the address, `because:` and the words in
/// any language. KDDI has a sentence about all addresses of the next paragraph.
fn of_paragraphs(text: &str, sections: &mut Vec<(Address, String)>) {
    let paragraphs: Vec<&str> = text.split("\n\n").map(str::trim).collect();
    let is_lead = |text: &str| text.ends_with([':', '\u{ff1a}']);
    for two in paragraphs.windows(2) {
        // GMX has `Reason:` and the words in one paragraph.
        if let (Ok(address), Some((lead, words))) =
            (Address::parse(two[0].trim_matches(['<', '>'])), two[1].split_once('\n'))
            && is_lead(lead)
        {
            sections.push((address, words.to_owned()));
        }
        if !two[0].starts_with("The user(s) account is") && !two[0].ends_with("did not receive this message:")
        {
            continue;
        }
        let marks = |c: char| "<>".contains(c) || c.is_whitespace();
        let addresses: Option<Vec<Address>> =
            two[1].lines().map(|line| Address::parse(line.trim_matches(marks)).ok()).collect();
        sections.extend(addresses.into_iter().flatten().map(|address| (address, two[0].to_owned())));
    }
    for four in paragraphs.windows(4).filter(|four| is_lead(four[0]) && is_lead(four[2])) {
        if let Ok(address) = Address::parse(four[1])
            && !four[2].contains('\n')
        {
            sections.push((address, four[3].to_owned()));
        }
    }
}

/// What a session says about recipients in the transcript of MDaemon: the reply to each RCPT, and that a domain does not exist.
fn of_transcript(text: &str, known: &[Address]) -> Vec<(Address, String)> {
    let mut found: Vec<(Address, String)> = Vec::new();
    let (mut asked, mut domain) = (None, "");
    for line in text.lines() {
        if let Some((_, command)) = line.split_once(": --> ") {
            let path =
                command.split_once('<').filter(|_| command.to_ascii_lowercase().starts_with("rcpt to:"));
            asked = path.and_then(|(_, path)| Address::parse(path.split('>').next()?).ok());
        } else if let Some((_, reply)) = line.split_once(": <-- ") {
            match (&asked, found.last_mut()) {
                (Some(asked), Some((last, words))) if asked == last => *words += &format!("\n{reply}"),
                (Some(asked), _) if reply_code(reply).is_some_and(|code| code >= 400) => {
                    found.push((asked.clone(), reply.to_owned()));
                }
                _ => {}
            }
        } else if let Some((_, name)) = line.split_once(": Resolving MX record for ") {
            domain = name.split(' ').next().unwrap_or_default();
        } else if let Some((_, words)) =
            line.split_once(": *  ").filter(|(_, words)| says_no_domain(words, true))
        {
            let of_domain = known.iter().filter(|one| one.domain().to_string().eq_ignore_ascii_case(domain));
            found.extend(of_domain.map(|address| (address.clone(), words.to_owned())));
        }
    }
    found
}

/// The recipient of a bounce of DragonFly's mail agent. It writes one message for each, with a sentence in place of a list.
fn of_dragonfly(text: &str) -> Option<(Address, String)> {
    text.trim_start().starts_with("This is the DragonFly Mail Agent").then_some(())?;
    let (_, rest) = text.split_once("delivering your mail to <")?;
    let (address, words) = rest.split_once('>')?;
    Some((address_in_cell(address)?, words.trim_start_matches('.').trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_after_the_address() {
        let check = |text: &str, expected: Option<&str>| {
            let message = format!("A: b\n\n{text}");
            let (text, _) = readable(&Entity::read(message.as_bytes()));
            let known =
                ["joe@example.com", "ann@example.com"].map(|address| Address::parse(address).unwrap());
            let found = sections(&text, &known).into_iter().find(|(address, _)| *address == known[0]);
            assert_eq!(found.map(|(_, words)| words).as_deref(), expected, "{text}");
        };
        check("<joe@example.com>: 550 no such user\n\nmore", Some("550 no such user"));
        check(
            "It failed:\r\n\r\n  JOE@example.com\r\n    host said:\r\n    550 no\r\n\r\nx",
            Some("host said:\n    550 no"),
        );
        check("<ann@example.com>: 550 a\n\n<joe@example.com>: 550 b", Some("550 b"));
        check("joe@example.com: 550 a\nann@example.com: 550 b", Some("550 a"));
        check("ann@example.com: 550 b\njoe@example.com: 550 a", Some("550 a"));
        check(
            "  joe@example.com\n    a\n    joe@example.com: b\n  ann@example.com\n    c",
            Some("a\n    joe@example.com: b"),
        );
        check(
            "550 5.1.1 <joe@example.com>... User unknown\n... while talking to mx:\n>>> DATA\n<<< 554 spam",
            Some("550 5.1.1 <joe@example.com>... User unknown"),
        );
        check(
            "Failed to deliver to 'joe@example.com'\nLOCAL module reports:\n no",
            Some("LOCAL module reports:\n no"),
        );
        check("  joe@example.com\n    a\n  bob@example.com\n    b", Some("a"));
        check("joe@example.com.au: 550 no", None);
        check("joe@example.com", Some(""));
        check("--- copy\nx\n---\njoe@example.com: 550 no", None);
        check("-----\njoe@example.com: 550 no", Some("550 no"));
        check("write to joe@example.com: 550 no", None);
    }
}
