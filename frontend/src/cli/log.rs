//! Log lines, on standard error.
//!
//! A server writes a line for each request. A system call for each would cost as much as the rest of a fast check's
//! line, so they gather for up to [`GATHERING`]; what an operator should do something about is written at once, and
//! what has gathered with it. A `kill -9` loses the lines of that moment.

mod plain;

use crate::config::LogFormat;
use plain::Plain;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long lines gather.
const GATHERING: Duration = Duration::from_millis(50);
/// How many bytes gather; then whoever adds to them writes them.
const GATHERED_BYTES_MAX: usize = 64 * 1024;

static LINES: Lines =
    Lines { gathered: Mutex::new(Vec::new()), some: Condvar::new(), gathers: AtomicBool::new(false) };

/// For `serve`: every request and what happens beside. What has gathered is written when this is dropped.
#[must_use = "the last lines are written when it is dropped"]
pub fn start(format: LogFormat) -> Flush {
    let writes = || loop {
        LINES.write_when_gathered();
    };
    let started = std::thread::Builder::new().name("log".into()).spawn(writes);
    LINES.gathers.store(started.is_ok(), Ordering::Relaxed);
    let log = tracing_subscriber::fmt().with_writer(Gathering).with_target(false);
    // An error says that there is a log already, as there may be in a test.
    let _ = match format {
        LogFormat::Text if io::stderr().is_terminal() => log.with_ansi(true).try_init(),
        LogFormat::Text => log.with_ansi(false).event_format(Plain).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    Flush
}

/// For commands whose output is not the log: only what an operator should do something about.
pub fn warnings() {
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).without_time();
    let _ = log.with_max_level(Level::WARN).with_ansi(io::stderr().is_terminal()).try_init();
}

/// Writes what has gathered when it is dropped.
pub struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        write_out(&mut LINES.lock());
        // From here on nobody may be left to write what gathers.
        LINES.gathers.store(false, Ordering::Relaxed);
    }
}

/// The lines that have yet to be written.
struct Lines {
    gathered: Mutex<Vec<u8>>,
    /// There are some.
    some: Condvar,
    /// Somebody writes what gathers.
    gathers: AtomicBool,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // Bytes are whole after a panic of whoever held the lock.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8], urgent: bool) {
        let mut gathered = self.lock();
        let first = gathered.is_empty();
        gathered.extend_from_slice(line);
        if urgent || gathered.len() > GATHERED_BYTES_MAX || !self.gathers.load(Ordering::Relaxed) {
            write_out(&mut gathered);
        } else if first {
            self.some.notify_one();
        }
    }

    fn write_when_gathered(&self) {
        let some = self.some.wait_while(self.lock(), |gathered| gathered.is_empty());
        drop(some.unwrap_or_else(PoisonError::into_inner));
        std::thread::sleep(GATHERING);
        write_out(&mut self.lock());
    }
}

/// In order, as the lock is held. A log that nobody takes is no reason to stop.
fn write_out(gathered: &mut Vec<u8>) {
    let _ = io::stderr().write_all(gathered);
    gathered.clear();
}

/// Makes the writer of each line.
struct Gathering;

impl MakeWriter<'_> for Gathering {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { urgent: true }
    }

    fn make_writer_for(&self, of: &Metadata<'_>) -> Line {
        Line { urgent: *of.level() <= Level::WARN }
    }
}

/// Where a line goes.
struct Line {
    urgent: bool,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LINES.add(line, self.urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
