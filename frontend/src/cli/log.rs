//! Log lines on standard error.
//!
//! A server writes a line for each request. All threads add lines to a buffer, and one thread writes them. So logging never
//! waits, even if nothing reads standard error. Lines stay in the buffer for up to [`GATHERING`], because a system call for
//! each would cost as much as the rest of a fast check's line. A warning or an error is written at once, together with the
//! buffered lines. The buffer is bounded: further lines are dropped and counted ([`dropped`]), and a later warning gives
//! their number. A `kill -9` loses the buffered lines.

mod plain;

use super::terminal::shows_colours;
use crate::config::LogFormat;
use plain::{Message, Plain};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Longest time that a line stays in the buffer.
const GATHERING: Duration = Duration::from_millis(50);
/// Maximum size of the buffer in bytes: some ten thousand requests.
const GATHERED_BYTES_MAX: usize = 1024 * 1024;
/// Longest time that the end of the process waits for the last lines.
const LAST_LINES_TIME_MAX: Duration = Duration::from_secs(1);

static LINES: Lines = Lines::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Starts the log of `serve`: requests and events of this level and above. Dropping the result writes the buffered lines.
#[must_use = "the last lines are written when it is dropped"]
pub fn start(format: LogFormat, level: Level) -> Flush {
    let tell =
        |lines| tracing::warn!(lines, "log lines before this one were dropped: nothing read standard error");
    let writes = move || LINES.write_to(io::stderr(), tell);
    let started = std::thread::Builder::new().name("log".into()).spawn(writes);
    LINES.has_writer.store(started.is_ok(), Ordering::Relaxed);
    let log = tracing_subscriber::fmt().with_writer(Gathering).with_target(false).with_max_level(level);
    // An error means that a log exists already, as in some tests.
    let _ = match format {
        LogFormat::Text if shows_colours(&io::stderr()) => log.with_ansi(true).try_init(),
        LogFormat::Text => log.with_ansi(false).event_format(Plain).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    Flush
}

/// Starts the log of other commands: only warnings and errors, which need an action of the operator. With `quiet`, only
/// errors.
pub fn warnings(quiet: bool) {
    let level = if quiet { Level::ERROR } else { Level::WARN };
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level);
    let _ = log.event_format(Message).try_init();
}

/// Number of lines dropped since the start of the process because nothing read standard error.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Writes the buffered lines when it is dropped. It waits at most `LAST_LINES_TIME_MAX`.
pub struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        LINES.flush(LAST_LINES_TIME_MAX);
    }
}

/// The lines that are not written yet.
struct Lines {
    state: Mutex<LogState>,
    /// Signals that lines exist, or that they are urgent.
    some: Condvar,
    /// Signals that all lines are written.
    none: Condvar,
    /// A thread writes the lines.
    has_writer: AtomicBool,
}

struct LogState {
    gathered: Vec<u8>,
    /// The buffered lines must be written at once.
    urgent: bool,
    /// The thread is writing lines that it took.
    writing: bool,
    /// Number of lines dropped since the last warning about it.
    dropped: u64,
}

impl Lines {
    const fn new() -> Lines {
        let state = LogState { gathered: Vec::new(), urgent: false, writing: false, dropped: 0 };
        Lines {
            state: Mutex::new(state),
            some: Condvar::new(),
            none: Condvar::new(),
            has_writer: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        // The bytes stay valid after a panic of the lock's holder.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. It does not wait for the write, unless there is no writing thread.
    fn add(&self, line: &[u8], urgent: bool) {
        if !self.has_writer.load(Ordering::Relaxed) {
            let _ = io::stderr().write_all(line);
            return;
        }
        let mut state = self.lock();
        if state.gathered.len() + line.len() > GATHERED_BYTES_MAX {
            state.dropped += 1;
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = state.gathered.is_empty();
        state.gathered.extend_from_slice(line);
        let wakes = was_empty || (urgent && !state.urgent);
        state.urgent |= urgent;
        drop(state);
        if wakes {
            self.some.notify_one();
        }
    }

    /// Writes the buffered lines, for ever. When there is room again, it reports the number of dropped lines. A failed write
    /// does not stop it.
    fn write_to(&self, mut sink: impl Write, tell_dropped: impl Fn(u64)) {
        let mut taken = Vec::new();
        loop {
            let waited = self.some.wait_while(self.lock(), |state| state.gathered.is_empty());
            let state = waited.unwrap_or_else(PoisonError::into_inner);
            let gathers = self.some.wait_timeout_while(state, GATHERING, |state| !state.urgent);
            let (mut state, _) = gathers.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut state.gathered, &mut taken);
            state.urgent = false;
            state.writing = true;
            let dropped = std::mem::take(&mut state.dropped);
            drop(state);
            if dropped > 0 {
                tell_dropped(dropped);
            }
            if sink.write_all(&taken).is_err() {
                let lines = taken.iter().filter(|&&byte| byte == b'\n').count();
                DROPPED.fetch_add(lines as u64, Ordering::Relaxed);
            }
            taken.clear();
            self.lock().writing = false;
            self.none.notify_all();
        }
    }

    /// Waits until all lines are written, but at most this long.
    fn flush(&self, time_max: Duration) {
        if !self.has_writer.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        state.urgent = true;
        self.some.notify_one();
        let is_busy = |state: &mut LogState| state.writing || !state.gathered.is_empty();
        drop(self.none.wait_timeout_while(state, time_max, is_busy));
    }
}

/// Creates the writer of each line.
struct Gathering;

impl MakeWriter<'_> for Gathering {
    type Writer = LogWriter;

    fn make_writer(&self) -> LogWriter {
        LogWriter { urgent: true }
    }

    fn make_writer_for(&self, of: &Metadata<'_>) -> LogWriter {
        LogWriter { urgent: *of.level() <= Level::WARN }
    }
}

/// Adds a line to the buffer.
struct LogWriter {
    urgent: bool,
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LINES.add(line, self.urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A sink that waits for permission before each write and forwards the text.
    struct Slow {
        leave: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.leave.recv().map_err(io::Error::other)?;
            let text = String::from_utf8(bytes.to_vec()).map_err(io::Error::other)?;
            self.written.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines() -> (Arc<Lines>, Sender<()>, Receiver<String>) {
        let ((leave, gets_leave), (writes, written)) = (channel(), channel());
        let lines = Arc::new(Lines::new());
        lines.has_writer.store(true, Ordering::Relaxed);
        let theirs = Arc::clone(&lines);
        std::thread::spawn(move || {
            let tell = |dropped| theirs.add(format!("dropped {dropped}\n").as_bytes(), true);
            theirs.write_to(Slow { leave: gets_leave, written: writes }, tell);
        });
        (lines, leave, written)
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_not_read_and_what_is_lost_is_told() {
        let (lines, leave, written) = lines();
        let line = [&[b'x'; 99][..], b"\n"].concat();
        let (before, began) = (dropped(), Instant::now());
        let count = 3 * GATHERED_BYTES_MAX / line.len();
        lines.add(&line, true);
        while !lines.lock().writing {
            assert!(began.elapsed() < PATIENCE, "no thread writes");
            std::thread::yield_now();
        }
        for number in 1..count {
            lines.add(&line, number % 100 == 0);
        }
        lines.flush(Duration::from_millis(20));
        assert!(began.elapsed() < PATIENCE, "it waited for the log");
        let lost = dropped() - before;
        // The lines that the thread took wait in addition to the buffered lines.
        let most = count - GATHERED_BYTES_MAX / line.len();
        assert!(lost > 0 && lost as usize <= most, "{lost}");
        (0..2).for_each(|_| leave.send(()).unwrap());
        let all: usize = (0..2).map(|_| written.recv_timeout(PATIENCE).unwrap().lines().count()).sum();
        assert_eq!(all as u64 + lost, count as u64);
        leave.send(()).unwrap();
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), format!("dropped {lost}\n"));
        lines.add(b"again\n", true);
        leave.send(()).unwrap();
        assert_eq!(written.recv_timeout(PATIENCE).unwrap(), "again\n");
    }

    #[test]
    fn lines_are_written_in_order_and_the_last_before_the_end() {
        let (lines, leave, written) = lines();
        (0..9).for_each(|_| leave.send(()).unwrap());
        for number in 0..100 {
            lines.add(format!("{number}\n").as_bytes(), number == 50);
        }
        lines.flush(Duration::from_secs(10));
        let all: String = written.try_iter().collect();
        assert_eq!(all, (0..100).map(|number| format!("{number}\n")).collect::<String>());
    }
}
