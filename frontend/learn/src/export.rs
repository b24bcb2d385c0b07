//! The exports of providers as CSV: Amazon SES, SendGrid, Mailgun, Postmark, Mailchimp, Brevo and others.
//!
//! Columns are found by their names. A row has an address, an event, mostly the reply of the server, and a time.

use crate::LearnError;
use crate::fields::{after_type, date, status_in, text};
use crate::meaning::{Sender, reply_code};
use crate::reading::Learner;
use crate::report::{Action, RecipientReport};
use csv::{ByteRecord, ReaderBuilder};
use engine_proto::smtp::status::EnhancedCode;
use lists::{address_in_cell, utc_seconds};
use mail_parser::DateTime;
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// Longest header line in bytes.
const HEADER_BYTES_MAX: u64 = 64 * 1024;
/// Longest row in bytes. Without this limit, a quote without an end would fill the memory.
const ROW_BYTES_MAX: u64 = 1024 * 1024;

/// Names of columns without marks and in lower case, the best first.
const ADDRESS: &[&str] = &[
    "email",
    "emailaddress",
    "recipient",
    "recipientemail",
    "to",
    "rcpt",
    "rcptto",
    "address",
    "destination",
];
const EVENT: &[&str] = &[
    "event",
    "eventtype",
    "notificationtype",
    "type",
    "bouncetype",
    "status",
    "state",
    "action",
    "statusname",
];
const WORDS: &[&str] = &[
    "diagnosticcode",
    "reason",
    "smtpresponse",
    "response",
    "deliverystatusmessage",
    "deliverystatusdescription",
    "bouncereason",
    "error",
    "errormessage",
    "description",
    "details",
    "message",
    "bouncedescription",
    "dsndiag",
];
const STATUS: &[&str] = &[
    "enhancedcode",
    "enhancedstatus",
    "enhancedstatuscode",
    "deliverystatusenhancedcode",
    "dsnstatus",
    "smtpcode",
    "statuscode",
    "code",
    "deliverystatuscode",
    "bouncesubtype",
    "subtype",
];
const HOST: &[&str] =
    &["remotemta", "mx", "mxhost", "deliverystatusmxhost", "dlvdestinationhost", "remotehost"];
const TIME: &[&str] = &[
    "timestamp",
    "eventtime",
    "time",
    "date",
    "datetime",
    "bouncedat",
    "receivedat",
    "deliveredat",
    "processedat",
    "created",
    "createdat",
    "ts",
    "cleantime",
    "lastchanged",
];
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// What an event of a provider says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProviderEvent {
    Failed,
    /// The provider calls it temporary or does not know.
    FailedSoftly,
    Deferred,
    Dropped,
    Delivered,
    Complaint,
    Other,
}

/// The columns of an export.
struct Columns {
    address: usize,
    /// The event, and what further columns say about it.
    events: Vec<usize>,
    words: Vec<usize>,
    status: Vec<usize>,
    host: Option<usize>,
    time: usize,
}

/// Reads an export.
///
/// # Errors
/// Reading fails, or a column is missing.
pub(crate) fn read(mut input: impl BufRead, learner: &mut Learner<'_>) -> Result<(), LearnError> {
    let mut header = Vec::new();
    input.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut header)?;
    let (separator, columns) = columns(&header)?;
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(BoundedRows { input, row: 0 });
    let mut row = ByteRecord::new();
    loop {
        reader.get_mut().row = 0;
        match reader.read_byte_record(&mut row) {
            Ok(true) => on_row(&columns, &row, learner),
            Ok(false) => return Ok(()),
            Err(error) => return Err(LearnError::Unreadable(format!("it cannot be read as CSV: {error}"))),
        }
    }
}

/// Fails if one row takes more bytes than a row may have: a quote has no end then.
struct BoundedRows<R> {
    input: R,
    /// Bytes read since the last row ended.
    row: u64,
}

impl<R: Read> Read for BoundedRows<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(bytes)?;
        self.row += count as u64;
        if self.row > ROW_BYTES_MAX {
            return Err(std::io::Error::other("a row has more than 1 MiB; a quote may have no end"));
        }
        Ok(count)
    }
}

/// The separator and the columns of a header.
fn columns(header: &[u8]) -> Result<(u8, Columns), LearnError> {
    let names = |separator: u8| -> Vec<String> {
        let mut reader = ReaderBuilder::new().delimiter(separator).has_headers(false).from_reader(header);
        let mut record = ByteRecord::new();
        match reader.read_byte_record(&mut record) {
            Ok(true) => record.iter().map(|cell| normal(&text(cell))).collect(),
            _ => Vec::new(),
        }
    };
    let (separator, names) = SEPARATORS
        .map(|separator| (separator, names(separator)))
        .into_iter()
        .rev()
        .max_by_key(|(_, names)| names.len())
        .unwrap_or((b',', Vec::new()));
    let all = |wanted: &[&str]| -> Vec<usize> {
        wanted.iter().filter_map(|wanted| names.iter().position(|name| name == wanted)).collect()
    };
    let one = |what: &str, wanted: &[&str]| {
        all(wanted).first().copied().ok_or_else(|| {
            LearnError::Columns(format!(
                "it is neither a message nor an mbox, and as CSV it has no column of {what} (one of: {}); its first line has {} \
                 columns",
                wanted.join(", "),
                names.len()
            ))
        })
    };
    let columns = Columns {
        address: one("addresses", ADDRESS)?,
        events: one("events", EVENT).map(|_| all(EVENT))?,
        time: one("times", TIME)?,
        words: all(WORDS),
        status: all(STATUS),
        host: all(HOST).first().copied(),
    };
    Ok((separator, columns))
}

/// The letters and digits of a column's name, in lower case. Exports of logs have paths as names, such as
/// `delivery-status.mx-host`. The last part alone may be ambiguous, so all parts are joined.
fn normal(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

fn on_row(columns: &Columns, row: &ByteRecord, learner: &mut Learner<'_>) {
    let cell = |at: usize| row.get(at).map(text).unwrap_or_default();
    learner.tally.rows += 1;
    let event = columns.events.first().map_or(ProviderEvent::Other, |at| event_of(&cell(*at)));
    let action = match event {
        ProviderEvent::Complaint => {
            learner.tally.complaints += 1;
            return;
        }
        ProviderEvent::Other => {
            learner.tally.other_rows += 1;
            return;
        }
        ProviderEvent::Delivered => Action::Delivered,
        ProviderEvent::Deferred => Action::Delayed,
        ProviderEvent::Failed | ProviderEvent::FailedSoftly | ProviderEvent::Dropped => Action::Failed,
    };
    let words: Vec<_> =
        columns.words.iter().map(|at| cell(*at)).filter(|cell| !cell.trim().is_empty()).collect();
    let suppressed = (event == ProviderEvent::Dropped).then(|| "suppressed".to_owned());
    let report = RecipientReport {
        recipient: address_in_cell(&cell(columns.address)),
        action: Some(action),
        status: if action == Action::Failed { Some(status_of_row(columns, row, &words)) } else { None },
        diagnostic: suppressed.or_else(|| words_of_server(&words)),
        remote: columns.host.map(|at| cell(at).trim().to_owned()).unwrap_or_default(),
        at: time(&cell(columns.time)),
        ..RecipientReport::default()
    };
    learner.on_recipient(&report, Sender::default());
}

/// The status of a failure. If the row has none, the event itself is one that states nothing else. A failure that the provider
/// calls temporary is temporary, even if its words say otherwise.
fn status_of_row(columns: &Columns, row: &ByteRecord, words: &[Cow<'_, str>]) -> EnhancedCode {
    let cell = |at: &usize| row.get(*at).map(text).unwrap_or_default();
    if columns.events.iter().any(|at| event_of(&cell(at)) == ProviderEvent::FailedSoftly) {
        return EnhancedCode::new(4, 0, 0);
    }
    let given = columns.events.iter().chain(&columns.status).map(cell);
    let found = given.chain(words.iter().cloned()).find_map(|cell| status_in(&cell));
    found.unwrap_or(EnhancedCode::new(5, 0, 0))
}

/// The words of the server: those with a code, since some columns explain the event in words of the provider.
fn words_of_server(cells: &[Cow<'_, str>]) -> Option<String> {
    let words = cells.iter().map(|cell| after_type(cell).1);
    let has_code = |words: &&str| reply_code(words).is_some() || status_in(words).is_some();
    words.clone().find(has_code).or_else(|| words.clone().next()).map(str::to_owned)
}

/// The event that a cell names.
fn event_of(cell: &str) -> ProviderEvent {
    match normal(cell).as_str() {
        "delivered" | "delivery" | "success" | "ok" => ProviderEvent::Delivered,
        "bounce" | "bounced" | "bounces" | "hardbounce" | "hardbounced" | "hardbounces" | "hard"
        | "permanent" | "failed" | "permanentfail" | "permanentfailure" | "blocked" | "block" | "cleaned"
        | "undelivered" | "error" | "invalid" | "invalidemail" => ProviderEvent::Failed,
        "softbounce" | "softbounced" | "softbounces" | "soft" | "transient" | "dnserror" | "undetermined" => {
            ProviderEvent::FailedSoftly
        }
        "deferred" | "deferral" | "delayed" | "deliverydelay" | "temporary" | "temporaryfail"
        | "temporaryfailure" => ProviderEvent::Deferred,
        "dropped" | "suppressed" | "rejected" | "reject" | "suppression" | "manuallydeactivated" => {
            ProviderEvent::Dropped
        }
        "complaint" | "complained" | "spam" | "spamcomplaint" | "spamreport" | "abuse"
        | "spamnotification" => ProviderEvent::Complaint,
        // The list of bounces of SendGrid has the status in place of an event.
        _ if status_in(cell).is_some() => ProviderEvent::Failed,
        _ => ProviderEvent::Other,
    }
}

/// The time in a cell: ISO 8601, RFC 5322, or seconds since 1970 (milliseconds too).
fn time(cell: &str) -> Option<u64> {
    let cell = cell.trim();
    if let Ok(number) = cell.parse::<f64>() {
        let seconds = if number > 1e11 { number / 1000.0 } else { number };
        return (1e9..4.3e9).contains(&seconds).then_some(seconds as u64);
    }
    let zoned = cell.replacen(' ', "T", 1);
    if let Some(time) = DateTime::parse_rfc3339(&zoned).filter(DateTime::is_valid)
        && has_zone(&zoned)
    {
        return u64::try_from(time.to_timestamp()).ok();
    }
    let without_fraction = cell.split_once('.').map_or(cell, |(time, _)| time);
    let whole_day = format!("{without_fraction} 00:00");
    utc_seconds(without_fraction).or_else(|| utc_seconds(&whole_day)).or_else(|| date(cell))
}

/// Whether a time of ISO 8601 names its zone after the time.
fn has_zone(text: &str) -> bool {
    text.split_once('T').is_some_and(|(_, time)| time.ends_with('Z') || time.contains(['+', '-']))
}

#[cfg(test)]
mod tests;
