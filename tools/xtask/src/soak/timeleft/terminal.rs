//! A pseudo-terminal for the standard error of `mailprobe clean`, and what a person reads on its last line.

use crate::failure::{Context, Failure};
use crate::soak::crowd::lock;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The width of the terminal: no line is cut.
const COLUMNS: u16 = 400;

/// The side of the pseudo-terminal on which a person reads.
pub struct Terminal {
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Opens a pseudo-terminal, and returns its other side for a process.
    ///
    /// # Errors
    ///
    /// The system has none.
    pub fn open() -> Result<(Terminal, Stdio), Failure> {
        let (reader, name) = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .and_then(|reader| {
                grantpt(&reader)?;
                unlockpt(&reader)?;
                tcsetwinsize(&reader, Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
                let name = ptsname(&reader, Vec::new())?;
                Ok((reader, name))
            })
            .about("no pseudo-terminal")?;
        let name = name.to_string_lossy().into_owned();
        let side = OpenOptions::new().read(true).write(true).open(&name).about(&name)?;
        let written = Arc::new(Mutex::new(Vec::new()));
        let (into, mut reader) = (Arc::clone(&written), File::from(reader));
        let copy = move || {
            let mut bytes = [0; 4096];
            // The read fails when the process has closed its side.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                lock(&into).extend_from_slice(&bytes[..count]);
            }
        };
        let thread = std::thread::Builder::new().name("terminal".into()).spawn(copy);
        thread.about("no thread")?;
        Ok((Terminal { written }, side.into()))
    }

    /// The text of the last line that is not empty.
    pub fn line(&self) -> String {
        last_line(&lock(&self.written))
    }

    /// All lines that were ever on the terminal.
    pub fn text(&self) -> String {
        plain(&lock(&self.written))
    }
}

fn last_line(written: &[u8]) -> String {
    let text = plain(&written[written.len().saturating_sub(8 * 1024)..]);
    let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    lines.next().unwrap_or_default().to_owned()
}

/// The text without control sequences (ECMA-48, "CSI"); each carriage return begins a line.
fn plain(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    let (mut plain, mut rest) = (String::new(), text.chars());
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let _ = rest.by_ref().skip_while(|c| *c == '[').find(|c| ('@'..='~').contains(c));
            }
            '\r' => plain.push('\n'),
            other => plain.push(other),
        }
    }
    plain
}

/// The time left that a line of `mailprobe clean` states: `40 s left`, `3 min 20 s left`, `1 h 5 min left`.
pub fn stated(line: &str) -> Option<Duration> {
    let (before, _) = line.split_once(" left")?;
    let mut words = before.rsplit(' ');
    let mut seconds = None;
    while let Some(unit) = words.next().and_then(unit_s)
        && let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok())
    {
        seconds = Some(seconds.unwrap_or(0) + count * unit);
    }
    seconds.map(Duration::from_secs)
}

/// The share of the list that a line of `mailprobe clean` states: `10 %`.
pub fn percent(line: &str) -> Option<u64> {
    let (before, _) = line.split_once(" %")?;
    before.rsplit(' ').next()?.parse().ok()
}

fn unit_s(word: &str) -> Option<u64> {
    match word.trim_end_matches('s') {
        "" | "second" => Some(1),
        "min" | "minute" => Some(60),
        "h" | "hour" => Some(3600),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_the_last_line_that_was_drawn() {
        let drawn =
            b"\x1b[1A\r\x1b[2K##  10 % 12 addresses, 3 s left\r\x1b[2K###  20 % 24 addresses\r\x1b[2K";
        assert_eq!(last_line(drawn), "###  20 % 24 addresses");
        assert_eq!(last_line(b""), "");
    }

    #[test]
    fn the_share_of_the_list_is_read() {
        assert_eq!(percent("###  20 % 24 of 120 rows, 3/s"), Some(20));
        assert_eq!((percent(""), percent("24 rows, 3/s")), (None, None));
    }

    #[test]
    fn the_time_left_is_read_with_its_units() {
        for (line, seconds) in [
            ("10 % 12 addresses, 3/s, 40 s left; 5 deliverable", Some(40)),
            ("3 min 20 s left", Some(200)),
            ("12/s, 1 h 5 min left", Some(3900)),
            ("2 hours left", Some(7200)),
            ("8 minutes left", Some(480)),
            ("12 addresses, 3/s; 5 deliverable", None),
            ("some left", None),
        ] {
            assert_eq!(stated(line), seconds.map(Duration::from_secs), "{line}");
        }
    }
}
