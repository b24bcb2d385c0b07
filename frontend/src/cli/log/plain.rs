//! A log line as text, in the format that tracing writes to a file: time, level, message, `name=value`. Every request has a
//! line, so the common values (numbers, and text without characters to escape) are written without `fmt`.

use std::cell::RefCell;
use std::fmt::{self, Debug, Write};
use store::clock;
use store::credits::calendar::Iso8601;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Formats log lines as text.
pub(super) struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write_time(&mut line)?;
        let level = event.metadata().level().as_str();
        line.write_str(&"      "[level.len().min(5)..])?;
        line.write_str(level)?;
        write_fields(&mut line, event)
    }
}

/// Formats the warnings and errors of commands that are no server: as the summaries of these commands do, without a time.
pub(super) struct Message;

impl<S, N> FormatEvent<S, N> for Message
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let is_error = *event.metadata().level() == Level::ERROR;
        line.write_str(if is_error { "error:" } else { "warning:" })?;
        write_fields(&mut line, event)
    }
}

/// Writes the message and the values, and ends the line.
fn write_fields(line: &mut Writer<'_>, event: &Event<'_>) -> fmt::Result {
    let mut fields = Fields { line: line.by_ref(), outcome: Ok(()) };
    event.record(&mut fields);
    fields.outcome?;
    line.write_char('\n')
}

/// Writes the time with milliseconds, such as `2026-03-31T09:30:00.123Z`. The text of a second is cached for all its lines.
fn write_time(line: &mut Writer<'_>) -> fmt::Result {
    thread_local! {
        static SECOND: RefCell<(u64, String)> = RefCell::default();
    }
    let now = clock::now();
    let digit = |place: u64| b'0' + (now / place % 10) as u8;
    let millis = [b'.', digit(100), digit(10), digit(1), b'Z'];
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now / 1000 {
            *second = now / 1000;
            *text = Iso8601(now).to_string();
            text.truncate("2026-03-31T09:30:00".len());
        }
        line.write_str(text)
    })?;
    line.write_str(std::str::from_utf8(&millis).unwrap_or_default())
}

/// Writes fields until a write fails.
struct Fields<'w> {
    line: Writer<'w>,
    outcome: fmt::Result,
}

impl Fields<'_> {
    fn put(&mut self, field: &Field, write: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let name_and_value = || {
            self.line.write_char(' ')?;
            if field.name() != "message" {
                self.line.write_str(field.name())?;
                self.line.write_char('=')?;
            }
            write(&mut self.line)
        };
        if self.outcome.is_ok() {
            self.outcome = name_and_value();
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, |line| write!(Escaping(line), "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, |line| match (is_plain(value), field.name()) {
            (true, "message") => line.write_str(value),
            (true, _) => {
                line.write_char('"')?;
                line.write_str(value)?;
                line.write_char('"')
            }
            (false, "message") => Escaping(line).write_str(value),
            (false, _) => write!(line, "{value:?}"),
        });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, |line| line.write_str(itoa::Buffer::new().format(value)));
    }
}

/// Whether a text has only printable ASCII characters, and neither `"` nor `\`. Most texts are like this.
fn is_plain(text: &str) -> bool {
    for &byte in text.as_bytes() {
        if !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\') {
            return false;
        }
    }
    true
}

/// Escapes control characters, which could end the line or control a terminal.
struct Escaping<'w, 'l>(&'w mut Writer<'l>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if is_plain(text) || !text.contains(char::is_control) {
            return self.0.write_str(text);
        }
        for c in text.chars() {
            if c.is_control() {
                write!(self.0, "{}", c.escape_default())?;
            } else {
                self.0.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines of both formats, without the time.
    fn lines(log: impl Fn()) -> [String; 2] {
        let (ours, theirs) = (Sink::default(), Sink::default());
        let (one, other) = (ours.clone(), theirs.clone());
        let builder = || tracing_subscriber::fmt().with_target(false).with_ansi(false);
        let subscriber = builder().event_format(Plain).with_writer(move || one.clone()).finish();
        tracing::subscriber::with_default(subscriber, &log);
        tracing::subscriber::with_default(builder().with_writer(move || other.clone()).finish(), &log);
        [ours, theirs].map(|sink| {
            let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            let without_time: Vec<&str> =
                text.lines().map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest)).collect();
            without_time.join("\n")
        })
    }

    #[test]
    fn it_writes_what_tracing_writes() {
        let [ours, theirs] = lines(|| {
            let key = Some(tracing::field::display("key_1"));
            tracing::info!(
                method = "GET",
                status = 200u16,
                ms = u64::MAX,
                request_id = "a.b-c",
                key,
                "request"
            );
            tracing::info!(
                method = "-",
                ms = 0u64,
                key = None::<tracing::field::DisplayValue<&str>>,
                "request"
            );
            tracing::warn!(path = "say \"so\" \\ \n é", of = -3, yes = true, float = 1.5, "two words");
            tracing::error!("{}", "only a message");
        });
        assert_eq!(ours, theirs);
        assert!(ours.starts_with(" INFO request method=\"GET\" status=200"), "{ours}");
    }

    #[test]
    fn no_value_ends_its_line() {
        let [ours, _] = lines(|| tracing::error!(place = %"a\nb\u{1b}[2J", "one\ntwo {}", "\r"));
        assert_eq!(ours.lines().count(), 1);
        assert!(!ours.contains(char::is_control), "{ours:?}");
    }

    #[test]
    fn the_warnings_of_a_command_look_like_those_of_its_summary() {
        let sink = Sink::default();
        let to = sink.clone();
        let log = tracing_subscriber::fmt().event_format(Message).with_writer(move || to.clone()).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(path = "a", "two words");
            tracing::error!("one\nline");
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "warning: two words path=\"a\"\nerror: one\\nline\n");
    }

    #[test]
    fn the_time_comes_first() {
        let sink = Sink::default();
        let to = sink.clone();
        let subscriber =
            tracing_subscriber::fmt().event_format(Plain).with_writer(move || to.clone()).finish();
        tracing::subscriber::with_default(subscriber, || tracing::info!("x"));
        let line = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let time = line.split(' ').next().unwrap();
        assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T' && time.starts_with("20"), "{line}");
    }
}
