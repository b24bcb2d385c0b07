//! Reading a file: its form, its messages or rows, and the events in them.

use crate::evidence::{BOUNCE_SECONDS_MAX, DELIVERY_SECONDS_MAX};
use crate::fields::Fields;
use crate::mail::Entity;
use crate::mailbox::{Mailbox, is_separator};
use crate::meaning::{Bounce, Cause, Meaning, Sender, meaning};
use crate::report::{RecipientReport, Report};
use crate::{export, notice, report};
use engine_proto::address::Address;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The first bytes of a message that are read. A report is before the copy of the mail that failed.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes from which the form of a file is detected.
const HEAD_BYTES: u64 = 16 * 1024;

/// An event of the operator's own sending.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// The address to which mail was sent.
    pub address: Address,
    /// What happened.
    pub kind: EventKind,
    /// When it happened, in seconds since 1970.
    pub at: u64,
}

/// Without the address, which is personal data.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("kind", &self.kind).field("at", &self.at).finish_non_exhaustive()
    }
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A definite bounce.
    Bounced(Bounce),
    /// Mail failed for another reason. This shows nothing about the mailbox, but a delivery before it is no evidence.
    Failed(Cause),
    /// Mail was delivered.
    Delivered,
}

/// Counts of what a file contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of messages.
    pub messages: u64,
    /// Number of messages that are reports or other bounces.
    pub reports: u64,
    /// Number of reports of complaints (RFC 5965), as messages or as rows. They say nothing about delivery.
    pub complaints: u64,
    /// Number of messages that are no bounces.
    pub other_messages: u64,
    /// Number of rows of an export.
    pub rows: u64,
    /// Number of rows about another event, such as an opened message.
    pub other_rows: u64,
    /// Number of definite bounces, by what they show.
    pub definite: BTreeMap<Bounce, u64>,
    /// Number of other failures, by their cause.
    pub failed: BTreeMap<Cause, u64>,
    /// Number of deliveries.
    pub delivered: u64,
    /// Number of notices of a delay.
    pub delayed: u64,
    /// Number of recipients with the action `relayed` or `expanded`: the next server, or the list, sends no reports.
    pub passed: u64,
    /// Number of recipients of reports that do not say what happened, or that have no address.
    pub unreadable: u64,
    /// Number of events without a time. They have no age, so they are not used.
    pub undated: u64,
    /// Number of events that are too old to be used.
    pub expired: u64,
}

impl Tally {
    /// Whether the file contains anything that this crate knows.
    pub fn is_recognised(&self) -> bool {
        self.reports + self.complaints + self.delivered + self.delayed > 0 || self.rows > self.other_rows
    }

    /// Number of events that were given to the caller.
    pub fn events(&self) -> u64 {
        let counted = self.definite.values().chain(self.failed.values()).sum::<u64>() + self.delivered;
        counted.saturating_sub(self.undated + self.expired)
    }

    /// Adds the counts of another file.
    pub fn add(&mut self, other: &Tally) {
        let Tally { messages, reports, complaints, other_messages, rows, other_rows, .. } = other;
        self.messages += messages;
        self.reports += reports;
        self.complaints += complaints;
        self.other_messages += other_messages;
        self.rows += rows;
        self.other_rows += other_rows;
        for (bounce, count) in &other.definite {
            *self.definite.entry(*bounce).or_default() += count;
        }
        for (cause, count) in &other.failed {
            *self.failed.entry(*cause).or_default() += count;
        }
        let Tally { delivered, delayed, passed, unreadable, undated, expired, .. } = other;
        self.delivered += delivered;
        self.delayed += delayed;
        self.passed += passed;
        self.unreadable += unreadable;
        self.undated += undated;
        self.expired += expired;
    }
}

/// The reason why a file teaches nothing, as one line without an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearnError {
    /// Reading failed.
    Unreadable(String),
    /// The file is an export, but a column that is needed is missing.
    Columns(String),
    /// The file has no bounce and no delivery.
    NothingFound(String),
}

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LearnError::Unreadable(why) | LearnError::Columns(why) | LearnError::NothingFound(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for LearnError {}

impl From<io::Error> for LearnError {
    fn from(error: io::Error) -> LearnError {
        LearnError::Unreadable(format!("it cannot be read: {error}"))
    }
}

/// The receiver of events, with the counts so far.
pub(crate) struct Learner<'a> {
    pub tally: Tally,
    pub now: u64,
    /// Whether events that are too old to be evidence are given to the caller too.
    keeps_old: bool,
    on_event: &'a mut dyn FnMut(Event),
}

/// Reads a file: one message, an mbox, or an export as CSV or JSON, compressed or not. Each event goes to `on_event`, in the order of the
/// file. `now` is in seconds since 1970.
///
/// # Errors
/// Reading fails, or the file contains nothing that can be learned.
pub fn read(input: Box<dyn Read>, now: u64, on_event: &mut dyn FnMut(Event)) -> Result<Tally, LearnError> {
    read_with(input, Learner { tally: Tally::default(), now, keeps_old: false, on_event })
}

/// Like [`read()`], with events of any age.
pub(crate) fn read_any_age(
    input: Box<dyn Read>,
    now: u64,
    on_event: &mut dyn FnMut(Event),
) -> Result<Tally, LearnError> {
    read_with(input, Learner { tally: Tally::default(), now, keeps_old: true, on_event })
}

fn read_with(input: Box<dyn Read>, mut learner: Learner<'_>) -> Result<Tally, LearnError> {
    let mut input = lists::decompressed(input)?;
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let start = head.strip_prefix(b"\xef\xbb\xbf").map_or(0, |_| 3);
    let start =
        head[start..].iter().position(|byte| !byte.is_ascii_whitespace()).map_or(head.len(), |at| start + at);
    let head = head.split_off(start);
    let form = Form::of(&head);
    let input = BufReader::with_capacity(64 * 1024, Cursor::new(head).chain(input));
    match form {
        Form::Empty => return Err(LearnError::NothingFound("it is empty".to_owned())),
        Form::Mailbox => learner.on_mailbox(input)?,
        Form::Message => learner.on_single_message(input)?,
        Form::Export => export::read(input, &mut learner)?,
        Form::Json => export::read_json(input, &mut learner)?,
        Form::Foreign(name) => {
            let remedy = "give messages, an mbox, or an export as CSV or JSON";
            return Err(LearnError::NothingFound(format!("it is {name}, which cannot be read: {remedy}")));
        }
    }
    let tally = learner.tally;
    if tally.is_recognised() { Ok(tally) } else { Err(LearnError::NothingFound(nothing_found(&tally))) }
}

fn nothing_found(tally: &Tally) -> String {
    match (tally.rows, tally.messages) {
        (0, 0) => "it has a header of columns and no rows".to_owned(),
        (0, messages) => format!(
            "none of its messages ({messages}) is a bounce: a bounce has a delivery report (RFC 3464), or the form of qmail or Exim"
        ),
        (rows, _) => format!(
            "none of its rows ({rows}) has a known event: delivered, bounce, hard bounce, soft bounce, blocked, dropped or complaint"
        ),
    }
}

/// The form of a file.
enum Form {
    Empty,
    Message,
    Mailbox,
    Export,
    Json,
    /// A form that is known by its name only.
    Foreign(&'static str),
}

/// The beginnings of files in other forms. Letters are in lower case.
const FOREIGN: [(&[u8], &str); 14] = [
    (b"pk\x03\x04", "a ZIP archive or an Excel file"),
    (b"<?xml", "XML"),
    (b"<!doctype html", "HTML"),
    (b"<html", "HTML"),
    (b"%pdf", "PDF"),
    (b"par1", "Parquet"),
    (b"obj\x01", "Avro"),
    (b"\xd0\xcf\x11\xe0", "a file of Outlook or Excel"),
    (b"!bdn", "an Outlook data file"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
    (b"sqlite format 3", "an SQLite database"),
    (b"bzh", "compressed with bzip2"),
    (b"\xfd7zxz", "compressed with xz"),
];

impl Form {
    fn of(head: &[u8]) -> Form {
        if head.is_empty() {
            return Form::Empty;
        }
        let lower = head[..head.len().min(20)].to_ascii_lowercase();
        if let Some((_, name)) = FOREIGN.iter().find(|(start, _)| lower.starts_with(start)) {
            return Form::Foreign(name);
        }
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut marks = head.iter().filter(|byte| !byte.is_ascii_whitespace());
        match (marks.next(), marks.next()) {
            (Some(b'{'), _) | (Some(b'['), Some(b'{' | b'[' | b']')) => return Form::Json,
            (Some(b'['), _) if begins_json(head) => return Form::Json,
            _ => {}
        }
        if [&b" postfix/"[..], b" sendmail[", b" opendmarc["]
            .iter()
            .any(|name| memchr::memmem::find(first, name).is_some())
        {
            return Form::Foreign("the log of a mail server");
        }
        if is_separator(first) {
            return Form::Mailbox;
        }
        let known = [
            "from",
            "to",
            "date",
            "subject",
            "received",
            "return-path",
            "content-type",
            "message-id",
            "x-failed-recipients",
        ];
        let (fields, _) = Fields::read(head);
        let begins_with_field = memchr::memchr(b':', first).is_some_and(|colon| {
            colon > 0 && first[..colon].iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
        });
        if begins_with_field && fields.iter().any(|field| known.contains(&field.name.as_str())) {
            return Form::Message;
        }
        Form::Export
    }
}

/// Whether the text is JSON up to its end, or behind a whole value.
fn begins_json(head: &[u8]) -> bool {
    let first = serde_json::Deserializer::from_slice(head).into_iter::<serde_json::Value>().next();
    first.is_some_and(|value| value.map_or_else(|error| error.is_eof(), |_| true))
}

impl Learner<'_> {
    fn on_mailbox(&mut self, input: impl BufRead) -> io::Result<()> {
        let mut mailbox = Mailbox::new(input, MESSAGE_BYTES_MAX);
        while let Some(message) = mailbox.next_message()? {
            self.on_message(&message);
        }
        Ok(())
    }

    fn on_single_message(&mut self, input: impl Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        input.take(MESSAGE_BYTES_MAX as u64).read_to_end(&mut bytes)?;
        self.on_message(&bytes);
        Ok(())
    }

    fn on_message(&mut self, bytes: &[u8]) {
        self.tally.messages += 1;
        let message = Entity::read(bytes);
        if is_complaint(&message) {
            self.tally.complaints += 1;
            return;
        }
        // OpenSMTPD puts its report into a `multipart/mixed`, which other messages are too.
        let has_report =
            message.is("multipart/report") || (message.is("multipart/mixed") && message.is_from_server());
        let report = if has_report { report::read(&message) } else { None };
        match report.or_else(|| notice::read(&message)) {
            Some(report) => self.on_report(&report),
            None => self.tally.other_messages += 1,
        }
    }

    fn on_report(&mut self, report: &Report) {
        self.tally.reports += 1;
        let sender = Sender { addresses: &report.ours, host: &report.reporter };
        if report.recipients.is_empty() {
            self.tally.unreadable += 1;
        }
        for one in &report.recipients {
            self.on_recipient(one, sender);
        }
    }

    /// Counts what a report says about a recipient, and gives the event to the caller.
    pub fn on_recipient(&mut self, one: &RecipientReport, sender: Sender<'_>) {
        if let Some((address, kind)) = self.kind(one, sender) {
            self.give(&address, kind, one.at);
        }
    }

    /// Counts what a report says about a recipient. `None`: it is no event to learn.
    pub fn kind(&mut self, one: &RecipientReport, sender: Sender<'_>) -> Option<(Address, EventKind)> {
        let Some(address) = &one.recipient else {
            self.tally.unreadable += 1;
            return None;
        };
        let kind = match meaning(one, sender) {
            Meaning::Definite(bounce) => {
                *self.tally.definite.entry(bounce).or_default() += 1;
                EventKind::Bounced(bounce)
            }
            Meaning::Failed(cause) => {
                *self.tally.failed.entry(cause).or_default() += 1;
                EventKind::Failed(cause)
            }
            Meaning::Delivered => {
                self.tally.delivered += 1;
                EventKind::Delivered
            }
            Meaning::Delayed => {
                self.tally.delayed += 1;
                return None;
            }
            Meaning::Passed => {
                self.tally.passed += 1;
                return None;
            }
            Meaning::Unknown => {
                self.tally.unreadable += 1;
                return None;
            }
        };
        Some((address.clone(), kind))
    }

    /// Gives an event to the caller, if it has a time and is not too old.
    pub fn give(&mut self, address: &Address, kind: EventKind, at: Option<u64>) {
        let Some(at) = at else {
            self.tally.undated += 1;
            return;
        };
        // A date of the future would make the event young forever.
        let at = at.min(self.now);
        let age_max = if kind == EventKind::Delivered { DELIVERY_SECONDS_MAX } else { BOUNCE_SECONDS_MAX };
        if !self.keeps_old && self.now - at > age_max {
            self.tally.expired += 1;
            return;
        }
        (self.on_event)(Event { address: address.clone(), kind, at });
    }
}

/// Whether the message is the complaint of a recipient (ARF, RFC 5965).
fn is_complaint(message: &Entity<'_>) -> bool {
    message.is("multipart/report")
        && (message.parameter("report-type").is_some_and(|kind| kind.eq_ignore_ascii_case("feedback-report"))
            || message.parts().iter().any(|part| part.is("message/feedback-report")))
}
