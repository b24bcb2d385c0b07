//! Bounces that people read: the form of qmail (QSBMF), and the words that other servers put before a report.
//!
//! QSBMF (D. J. Bernstein, 1997) begins with `Hi. This is the`, then has one paragraph `<address>:` for each recipient, and ends
//! with `---`. Old versions of Exim name the recipients in the field `X-Failed-Recipients` and write similar paragraphs.

use crate::fields::status_in;
use crate::mail::Entity;
use crate::report::{Action, RECIPIENTS_MAX, RecipientReport, Report};
use engine_proto::address::Address;
use lists::address_in_cell;

/// Longest text about one recipient in bytes.
const WORDS_BYTES_MAX: usize = 4096;
/// Most text that is searched, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Reads a bounce without a report. `None`: it has neither of the two forms.
pub(crate) fn read(message: &Entity<'_>) -> Option<Report> {
    if message.header.value("content-type").is_some() && !message.is_text() {
        return None;
    }
    let failed = message.header.value("x-failed-recipients");
    let text = readable(message);
    let mut recipients = match failed {
        Some(failed) => exim(failed, &text),
        None => qmail(&text)?,
    };
    for one in &mut recipients {
        one.at = message.date();
        one.action = Some(Action::Failed);
        one.status = one.diagnostic.as_deref().and_then(status_in);
    }
    (!recipients.is_empty()).then_some(Report { recipients, ..Report::default() })
}

/// The text of a part for people, without CR and without the copy of the mail.
pub(crate) fn readable(part: &Entity<'_>) -> String {
    head(&part.text()).replace('\r', "")
}

/// The text before the copy of the mail.
fn head(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    let end = text.find("\n---").unwrap_or(text.len());
    &text[..end]
}

fn qmail(text: &str) -> Option<Vec<RecipientReport>> {
    text.trim_start().starts_with("Hi. This is the").then_some(())?;
    let paragraphs = text.split("\n\n").map(str::trim);
    let reports = paragraphs.filter_map(|paragraph| {
        let (first, words) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let address = first.trim().strip_prefix('<')?.strip_suffix(">:")?;
        let diagnostic = Some(bounded(words)).filter(|words| !words.is_empty());
        Some(RecipientReport {
            recipient: address_in_cell(address),
            diagnostic,
            ..RecipientReport::default()
        })
    });
    Some(reports.take(RECIPIENTS_MAX).collect())
}

fn exim(failed: &str, text: &str) -> Vec<RecipientReport> {
    let addresses = failed.split([',', '\n']).filter_map(address_in_cell).take(RECIPIENTS_MAX);
    let report = |address: Address| RecipientReport {
        diagnostic: words_about(&address, text),
        recipient: Some(address),
        ..RecipientReport::default()
    };
    addresses.map(report).collect()
}

/// The words about an address in a [`readable`] text: the rest of the line after the address, and the lines up to the next
/// empty one.
pub(crate) fn words_about(address: &Address, text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| Some((at, after_address(line, address)?)));
    let mut found = starts.filter_map(|(at, first)| {
        let more = lines[at + 1..].iter().take_while(|line| !line.trim().is_empty());
        let words: Vec<&str> = std::iter::once(first).chain(more.copied()).collect();
        let words = bounded(&words.join("\n"));
        (!words.is_empty()).then_some(words)
    });
    found.next()
}

/// The rest of a line that begins with the address.
fn after_address<'a>(line: &'a str, address: &Address) -> Option<&'a str> {
    let line = line.trim().trim_start_matches(['<', '*', '-', ' ']);
    let length = address.as_str().len();
    let is_there = line.get(..length)?.eq_ignore_ascii_case(address.as_str());
    let rest = line.get(length..).filter(|_| is_there)?.trim_start_matches('>');
    (rest.is_empty() || rest.starts_with([':', ' ', ','])).then(|| rest.trim_start_matches([':', ' ', ',']))
}

fn bounded(words: &str) -> String {
    let mut end = words.len().min(WORDS_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_after_the_address() {
        let check = |text: &str, expected: Option<&str>| {
            let address = Address::parse("joe@example.com").unwrap();
            assert_eq!(words_about(&address, head(text)).as_deref(), expected, "{text}");
        };
        check("<joe@example.com>: 550 no such user\n\nmore", Some("550 no such user"));
        check(
            "It failed:\r\n\r\n  JOE@example.com\r\n    host said:\r\n    550 no\r\n\r\nx",
            Some("host said:\n    550 no"),
        );
        check("<ann@example.com>: 550 a\n\n<joe@example.com>: 550 b", Some("550 b"));
        check("joe@example.com.au: 550 no", None);
        check("joe@example.com", None);
        check("--- copy\nx\n---\njoe@example.com: 550 no", None);
        check("write to joe@example.com: 550 no", None);
    }
}
