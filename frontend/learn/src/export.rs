//! The exports of providers, as CSV or as JSON: Amazon SES, SendGrid, Mailgun, Postmark, SparkPost, Mailchimp, Brevo and others.
//!
//! Columns are found by their names. A row has an address, an event, mostly the reply of the server, and a time.

mod json;
pub(crate) mod time;

use self::time::{Order, Orders, Reading};
use crate::fields::{after_type, status_in, text};
use crate::meaning::{Sender, reply_code, says_suppressed};
use crate::reading::Learner;
use crate::report::{Action, RecipientReport, host};
use crate::{EventKind, LearnError, Tally};
use csv::{ByteRecord, ReaderBuilder};
use engine_proto::address::Address;
use engine_proto::smtp::status::EnhancedCode;
use lists::address_in_cell;
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// Longest header line in bytes.
const HEADER_BYTES_MAX: u64 = 64 * 1024;
/// Longest row in bytes. Without this limit, a quote without an end would fill the memory.
const ROW_BYTES_MAX: u64 = 1024 * 1024;
/// Most events that wait for the order of day and month. After that many, the file decides with what it has shown so far.
const WAITING_MAX: usize = 500_000;

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
    "toemail",
    "orcpt",
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
    "sttext",
    "severity",
    "recordtype",
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
    "bouncedetail",
    "detail",
    "diag",
    "rawreason",
    "responsecontent",
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
    "errorcode",
    "responsecode",
    "responseenhancedcode",
];
const HOST: &[&str] = &[
    "remotemta",
    "mx",
    "mxhost",
    "deliverystatusmxhost",
    "dlvdestinationhost",
    "remotehost",
    "dsnmta",
    "peeraddressname",
];
const OURS: &[&str] = &["orig", "sender", "msgfrom", "mailfrom", "from", "frm", "fromemail"];
/// The command that the reply answers. KumoMTA has it.
const COMMAND: &[&str] = &["responsecommand"];
const TIME: &[&str] = &[
    "timelogged",
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
    "lasteventtime",
    "lastupdatetime",
    "lastupdatedtime",
    "lastupdated",
    "processed",
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
    address: Vec<usize>,
    /// The event, and what further columns say about it.
    events: Vec<usize>,
    words: Vec<usize>,
    status: Vec<usize>,
    host: Vec<usize>,
    ours: Vec<usize>,
    command: Vec<usize>,
    time: Vec<usize>,
}

impl Columns {
    fn of(names: &[String]) -> Columns {
        let all = |wanted: &[&str]| -> Vec<usize> {
            wanted.iter().filter_map(|wanted| names.iter().position(|name| name == wanted)).collect()
        };
        Columns {
            address: all(ADDRESS),
            events: all(EVENT),
            words: all(WORDS),
            status: all(STATUS),
            host: all(HOST),
            ours: all(OURS),
            command: all(COMMAND),
            time: all(TIME),
        }
    }
}

/// Reads an export as CSV.
///
/// # Errors
/// Reading fails, or a column is missing.
pub(crate) fn read(mut input: impl BufRead, learner: &mut Learner<'_>) -> Result<(), LearnError> {
    let mut header = Vec::new();
    input.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut header)?;
    let (separator, first, mut columns) = columns(&header)?;
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(BoundedRows { input, row: 0 });
    let mut export = Export::new(learner);
    let mut row = ByteRecord::new();
    loop {
        reader.get_mut().row = 0;
        match reader.read_byte_record(&mut row) {
            // PowerMTA writes a header before rows of another type.
            Ok(true)
                if row.get(0).is_some_and(|cell| normal(&text(cell)) == first) && names_address(&row) =>
            {
                let names: Vec<String> = row.iter().map(|cell| normal(&text(cell))).collect();
                columns = Columns::of(&names);
            }
            Ok(true) => export.on_row(&columns, &|at| row.get(at).map(text).unwrap_or_default()),
            Ok(false) => {
                export.finish();
                return Ok(());
            }
            Err(error) => return Err(LearnError::Unreadable(format!("it cannot be read as CSV: {error}"))),
        }
    }
}

/// Whether a cell of the row is the name of a column of addresses.
fn names_address(row: &ByteRecord) -> bool {
    row.iter().any(|cell| ADDRESS.contains(&&*normal(&text(cell))))
}

/// Reads an export as JSON.
///
/// # Errors
/// As [`json::read`].
pub(crate) fn read_json(input: impl BufRead, learner: &mut Learner<'_>) -> Result<(), LearnError> {
    json::read(input, learner)
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

/// The separator, the first name and the columns of a header.
fn columns(header: &[u8]) -> Result<(u8, String, Columns), LearnError> {
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
    let columns = Columns::of(&names);
    // A list of bounces has no events: each row is one.
    let has_events = !columns.events.is_empty() || !columns.words.is_empty();
    for (what, wanted, is_there) in [
        ("addresses", ADDRESS, !columns.address.is_empty()),
        ("events", EVENT, has_events),
        ("times", TIME, !columns.time.is_empty()),
    ] {
        if !is_there {
            return Err(LearnError::Columns(format!(
                "it is neither a message nor an mbox nor JSON, and as CSV it has no column of {what} (one of: {}); its first line \
                 has {} columns",
                wanted.join(", "),
                names.len()
            )));
        }
    }
    Ok((separator, names.first().cloned().unwrap_or_default(), columns))
}

/// The letters and digits of a column's name, in lower case. Exports of logs have paths as names, such as
/// `delivery-status.mx-host`. The last part alone may be ambiguous, so all parts are joined.
fn normal(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// The reader of an export.
struct Export<'a, 'b> {
    learner: &'a mut Learner<'b>,
    orders: Orders,
    /// The events that wait for the order of day and month.
    waiting: Vec<(Address, EventKind, Reading)>,
}

impl<'a, 'b> Export<'a, 'b> {
    fn new(learner: &'a mut Learner<'b>) -> Export<'a, 'b> {
        Export { learner, orders: Orders::default(), waiting: Vec::new() }
    }

    fn on_row<'c>(&mut self, columns: &Columns, cell: &dyn Fn(usize) -> Cow<'c, str>) {
        let cells = |columns: &[usize]| -> Vec<Cow<'c, str>> {
            columns.iter().map(|at| cell(*at)).filter(|cell| !cell.trim().is_empty()).collect()
        };
        let tally = &mut self.learner.tally;
        tally.rows += 1;
        let (events, words, status) = (cells(&columns.events), cells(&columns.words), cells(&columns.status));
        let code = status.iter().find_map(|cell| cell.trim().parse::<u16>().ok());
        let event = event_of_row(columns, &events, &words, code);
        let action = match event {
            _ if columns.address.is_empty() => {
                tally.other_rows += 1;
                return;
            }
            ProviderEvent::Complaint => {
                tally.complaints += 1;
                return;
            }
            ProviderEvent::Other => {
                tally.other_rows += 1;
                return;
            }
            ProviderEvent::Delivered => Action::Delivered,
            ProviderEvent::Deferred => Action::Delayed,
            ProviderEvent::Failed | ProviderEvent::FailedSoftly | ProviderEvent::Dropped => Action::Failed,
        };
        let is_failed = action == Action::Failed;
        let is_suppressed =
            event == ProviderEvent::Dropped || words.iter().any(|words| says_suppressed(words));
        let report = RecipientReport {
            recipient: cells(&columns.address).first().and_then(|cell| address_in_cell(cell)),
            action: Some(action),
            status: is_failed.then(|| status_of_row(event, &events, &status, &words, code)),
            diagnostic: if is_suppressed {
                Some("suppressed".to_owned())
            } else {
                words_of_server(&words, code)
            },
            remote: cells(&columns.host).first().map(|cell| host(after_type(cell).1)).unwrap_or_default(),
            is_after_data: cells(&columns.command)
                .iter()
                .any(|command| matches!(command.trim(), "." | "DATA")),
            ..RecipientReport::default()
        };
        let ours: Vec<Address> =
            cells(&columns.ours).iter().filter_map(|cell| address_in_cell(cell)).collect();
        let reading = cells(&columns.time).iter().find_map(|cell| time::read(cell));
        if let Some(reading) = reading {
            self.orders.add(reading, self.learner.now);
        }
        let Some((address, kind)) = self.learner.kind(&report, Sender { addresses: &ours, host: "" }) else {
            return;
        };
        match reading.map(|reading| reading.certain_time().ok_or(reading)) {
            None => self.learner.give(&address, kind, None),
            Some(Ok(at)) => self.learner.give(&address, kind, Some(at)),
            Some(Err(reading)) => {
                self.waiting.push((address, kind, reading));
                if self.waiting.len() >= WAITING_MAX {
                    self.give_waiting();
                }
            }
        }
    }

    fn give_waiting(&mut self) {
        let order = self.orders.decided();
        for (address, kind, reading) in std::mem::take(&mut self.waiting) {
            let at = match order {
                Some(Order::DayFirst) => reading.day_first,
                Some(Order::MonthFirst) => reading.month_first,
                None => None,
            };
            self.learner.give(&address, kind, at);
        }
    }

    /// Gives the events that waited, and returns the counts.
    fn finish(mut self) -> &'a Tally {
        self.give_waiting();
        &self.learner.tally
    }
}

/// The event of a row: that of the first column which has one. An event of an unknown name with a refusal in the row is a failure.
fn event_of_row(
    columns: &Columns,
    events: &[Cow<'_, str>],
    words: &[Cow<'_, str>],
    code: Option<u16>,
) -> ProviderEvent {
    let refuses = |code: u16| (400..600).contains(&code);
    let is_refused = words.iter().any(|words| reply_code(after_type(words).1).is_some_and(refuses));
    let named = events.first().map_or(ProviderEvent::Other, |cell| event_of(cell));
    let is_softer = || events.iter().any(|cell| event_of(cell) == ProviderEvent::Deferred);
    match named {
        // The list of bounces of a provider may have the cause of each in place of an event.
        ProviderEvent::Other if columns.events.is_empty() => {
            let named = words.iter().map(|cell| event_of(cell)).find(|event| *event != ProviderEvent::Other);
            let is_bounce = is_refused || code.is_some_and(|code| code >= 400);
            named.unwrap_or(if is_bounce { ProviderEvent::Failed } else { ProviderEvent::Other })
        }
        ProviderEvent::Other if is_refused => ProviderEvent::Failed,
        // Mailgun calls a try that it will repeat a failure too.
        ProviderEvent::Failed if is_softer() => ProviderEvent::Deferred,
        named => named,
    }
}

/// The status of a failure. If the row has none, the event itself is one that states nothing else. A failure that the provider
/// calls temporary is temporary, even if its words say otherwise.
fn status_of_row(
    event: ProviderEvent,
    events: &[Cow<'_, str>],
    status: &[Cow<'_, str>],
    words: &[Cow<'_, str>],
    code: Option<u16>,
) -> EnhancedCode {
    let is_soft = event == ProviderEvent::FailedSoftly
        || events.iter().any(|cell| event_of(cell) == ProviderEvent::FailedSoftly);
    if is_soft || code.is_some_and(|code| (400..500).contains(&code)) {
        return EnhancedCode::new(4, 0, 0);
    }
    let found = events.iter().chain(status).chain(words).find_map(|cell| status_in(cell));
    found.unwrap_or(EnhancedCode::new(5, 0, 0))
}

/// The words of the server: those with a code, since some columns explain the event in words of the provider. The code may have a
/// column of its own.
fn words_of_server(cells: &[Cow<'_, str>], code: Option<u16>) -> Option<String> {
    let words = cells.iter().map(|cell| after_type(cell).1);
    let has_code = |words: &&str| reply_code(words).is_some() || status_in(words).is_some();
    let found = words.clone().find(has_code).or_else(|| words.clone().next())?;
    match code {
        Some(code) if reply_code(found).is_none() && (400..600).contains(&code) => {
            Some(format!("{code} {found}"))
        }
        _ => Some(found.to_owned()),
    }
}

/// The event that a cell names.
fn event_of(cell: &str) -> ProviderEvent {
    match normal(cell).as_str() {
        "delivered" | "delivery" | "success" | "ok" | "d" => ProviderEvent::Delivered,
        "bounce" | "bounced" | "bounces" | "hardbounce" | "hardbounced" | "hardbounces" | "hard"
        | "permanent" | "failed" | "permanentfail" | "permanentfailure" | "blocked" | "block" | "cleaned"
        | "undelivered" | "error" | "invalid" | "invalidemail" | "bademailaddress" | "notdelivered"
        | "outofband" | "b" | "rb" => ProviderEvent::Failed,
        "softbounce" | "softbounced" | "softbounces" | "soft" | "transient" | "dnserror" | "undetermined"
        | "expiration" | "expired" | "adminbounce" => ProviderEvent::FailedSoftly,
        "deferred" | "deferral" | "delayed" | "deliverydelay" | "temporary" | "temporaryfail"
        | "temporaryfailure" | "delay" | "transientfailure" | "t" | "tq" => ProviderEvent::Deferred,
        "dropped" | "suppressed" | "rejected" | "reject" | "suppression" | "manuallydeactivated" => {
            ProviderEvent::Dropped
        }
        "complaint" | "complained" | "spam" | "spamcomplaint" | "spamreport" | "abuse"
        | "spamnotification" | "feedback" | "fbl" | "f" => ProviderEvent::Complaint,
        // Mail that came to us.
        "oob" | "reception" | "rejection" => ProviderEvent::Other,
        // The list of bounces of SendGrid has the status in place of an event.
        _ if status_in(cell).is_some() => ProviderEvent::Failed,
        name if name.contains("bounce") && name.len() < 40 => ProviderEvent::Failed,
        _ => ProviderEvent::Other,
    }
}

#[cfg(test)]
mod tests;
