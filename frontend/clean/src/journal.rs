//! `OUT.results`: the options of the run that writes `OUT.partial` (`run_options.rs`), and results that are known, but whose rows are not
//! in `OUT.partial` yet, because a row before them waits for its answer. A resumed run compares the options with its own. Then it reads
//! the results, and does not check these addresses again. Behind them are the numbers of finished rows by the cause that left them
//! unverifiable, for the summary of the resumed run: each write replaces them.
//!
//! The file is written before the first row, and is removed when `OUT.partial` has become OUT. Without `OUT.partial`, it counts only
//! until the next run. It has no addresses, only their keyed hashes; the key is at the beginning of the file.
//!
//! ```text
//! head     TITLE | one line: the options of the run
//!          | 16 bytes: the key of the hashes
//! record   2 bytes: length of the content | 4 bytes: a hash of the content | content
//! content  16 bytes: hash of the address | code of the verdict | score + 1, or 0 | 4 bytes: time of the check
//!          | length of the provider | provider | rule and reply (`outcome.rs`)
//! causes   2 bytes: length | 4 bytes: hash | 17 bytes: zero | JSON: the rows for which a later try may tell more, and the others
//! ```
//!
//! A kill may cut the last record, which then does not count. A list that an earlier release began has no such file, unless there are
//! results, or one with another line of options.

use super::CleanError;
use super::outcome::{Outcome, Outcomes};
use super::run_options::RunOptions;
use super::sink::{LINE_BYTES_MAX, Sink, partial};
use lists::left::Left;
use spill::State;
use spill::keyed::Keyed;
use spill::table::Table;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const TITLE: &[u8] = b"mailprobe clean: results of rows that are not written yet\n";
/// Length of the head of a record: the length and the hash of its content.
const RECORD_HEAD: usize = 2 + 4;
/// The beginning of the content that has the causes: no result has the code 0.
const OF_CAUSES: [u8; 17] = [0; 17];
/// Number of results that wait in memory for the next write.
const WAITING_MAX: usize = 1 << 16;

/// The options of a run, and its results that are not written to the output yet.
pub(super) struct Journal {
    /// The open file beside the output; `None`: the output gets no rows that a later run could continue.
    file: Option<JournalFile>,
    keyed: Keyed,
    waiting: Vec<Settled>,
    bytes: Vec<u8>,
}

/// A result since the last write.
struct Settled {
    /// The first row with the address.
    row: u64,
    /// The hash of the address.
    key: u128,
    outcome: Outcome,
}

/// The file of a journal.
struct JournalFile {
    /// The output that the results are of.
    output: PathBuf,
    path: PathBuf,
    file: File,
    /// Length of its head.
    head: u64,
    /// Length of its head and its complete records, without the causes.
    length: u64,
}

impl Journal {
    /// The journal of a run with these options, which writes to this sink. If the run continues an earlier one, the results of that run
    /// count, and the addresses are hashed with its key instead of `keyed`.
    ///
    /// # Errors
    /// The earlier run had other options, or its file cannot be read; another file has its name; or it cannot be written.
    pub fn open(sink: &Sink, options: &RunOptions, keyed: Keyed) -> Result<Journal, CleanError> {
        // A complete output gets no rows. Its run may have ended before it could remove the file.
        let output = sink.file().filter(|path| !sink.is_complete() || beside(path).exists());
        Journal::beside(output, options, keyed, sink.continues())
    }

    /// The same for the output of a sink. `continues`: it is that of an earlier run.
    fn beside(
        output: Option<&Path>,
        options: &RunOptions,
        keyed: Keyed,
        continues: bool,
    ) -> Result<Journal, CleanError> {
        let mut journal = Journal { file: None, keyed, waiting: Vec::new(), bytes: Vec::new() };
        let Some(output) = output else { return Ok(journal) };
        let path = beside(output);
        let open = |file, line: &str, length| {
            let (output, head) = (output.to_owned(), Head::length(line));
            Some(JournalFile { output, path: path.clone(), file, head, length })
        };
        let earlier = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            opened => {
                let read = opened.and_then(|file| Ok((Head::read(&file)?, file.metadata()?.len(), file)));
                Some(read.map_err(|error| CleanError::unreadable(&path, &error))?)
            }
        };
        match earlier {
            Some((Head::Foreign, ..)) => {
                return Err(CleanError::failed(format!(
                    "{} exists and belongs to no run: move it, or name another output",
                    path.display()
                )));
            }
            Some((Head::Complete(line, keyed, has_results), length, file)) if continues => {
                let length = if has_results { length } else { Head::length(&line) };
                // INPUT may be an earlier output that OUT has replaced.
                let has_results = has_results && partial(output).exists();
                if let Some(difference) = options.difference(&line, has_results) {
                    let partial = partial(output);
                    let name = if partial.exists() { &partial } else { output }.display();
                    return Err(CleanError::usage(format!("{name} {difference}")));
                }
                (journal.keyed, journal.file) = (keyed, open(file, &line, length));
                return Ok(journal);
            }
            // The results of a run that is not continued; or a kill has cut the head, so there is none.
            Some(_) => {
                std::fs::remove_file(&path).map_err(|error| CleanError::unwritable(&path, &error))?;
            }
            None => {}
        }
        let line = options.line();
        journal.file = open(Head::write(&path, &line, &journal.keyed)?, &line, Head::length(&line));
        Ok(journal)
    }

    /// The hash that the results are stored by.
    pub fn keyed(&self) -> Keyed {
        self.keyed
    }

    /// Whether the file has results.
    pub fn has_results(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.length > file.head)
    }

    /// Reads the results of the earlier run into a table, by the hashes of the addresses, and the causes of its finished rows. Later
    /// results are appended after the last complete record.
    ///
    /// # Errors
    /// The file cannot be read, or the state fails.
    pub fn read(
        &mut self,
        state: &mut State,
        outcomes: &mut Outcomes,
    ) -> Result<(Table, [Left; 2]), CleanError> {
        let (mut table, mut causes) = (Table::new(state.shares), <[Left; 2]>::default());
        let Some(JournalFile { path, file, head, length, .. }) = &mut self.file else {
            return Ok((table, causes));
        };
        let failed = |error: std::io::Error| CleanError::unreadable(path, &error);
        let mut good = *head;
        file.seek(SeekFrom::Start(good)).map_err(failed)?;
        let mut input = BufReader::new(&*file);
        let mut content = Vec::new();
        while next_record(&mut input, &self.keyed, &mut content).map_err(failed)? {
            if let Some(json) = content.strip_prefix(&OF_CAUSES) {
                causes = serde_json::from_slice(json).unwrap_or_default();
                break;
            }
            let Some((key, outcome)) = outcomes.read_record(&content) else { break };
            good += (RECORD_HEAD + content.len()) as u64;
            table.put(state, key, outcome.bits())?;
        }
        // The next write replaces what follows.
        *length = good;
        Ok((table, causes))
    }

    /// Adds a result. True: enough of them wait for the next write.
    pub fn add(&mut self, row: u64, key: u128, outcome: Outcome) -> bool {
        if self.file.is_some() {
            self.waiting.push(Settled { row, key, outcome });
        }
        self.waiting.len() >= WAITING_MAX
    }

    /// Hands the waiting results to the system, so that a kill does not lose them. `written`: the rows up to this one are in the
    /// output, which has been flushed. `causes`: those of all finished rows.
    ///
    /// # Errors
    /// The file cannot be written. The results wait on, for another try.
    pub fn flush(
        &mut self,
        written: Option<u64>,
        outcomes: &Outcomes,
        causes: [&Left; 2],
    ) -> Result<(), CleanError> {
        self.bytes.clear();
        self.waiting.retain(|settled| written.is_none_or(|last| settled.row > last));
        let (bytes, keyed) = (&mut self.bytes, &self.keyed);
        for settled in &self.waiting {
            put_record(bytes, keyed, |into| outcomes.write_record(settled.key, settled.outcome, into));
        }
        let results = bytes.len() as u64;
        if causes.iter().any(|left| left.rows() > 0) {
            put_record(bytes, keyed, |into| {
                into.extend(OF_CAUSES);
                // Numbers and texts can always be written.
                let _ = serde_json::to_writer(into, &causes);
            });
        }
        let Some(JournalFile { path, file, length, .. }) =
            self.file.as_mut().filter(|_| !self.bytes.is_empty())
        else {
            return Ok(());
        };
        // The causes only grow, so the last ones end after all earlier ones.
        match file.seek(SeekFrom::Start(*length)).and_then(|_| file.write_all(&self.bytes)) {
            Ok(()) => {
                *length += results;
                self.waiting.clear();
                Ok(())
            }
            Err(error) => {
                // Later records must not follow half a record. If this fails too, the reader stops at that record.
                let _ = file.set_len(*length);
                Err(CleanError::unwritable(path, &error))
            }
        }
    }

    /// The run ends: removes the file if there is no `OUT.partial` to continue.
    pub fn end(self) {
        if let Some(JournalFile { output, path, .. }) = &self.file
            && !partial(output).exists()
        {
            // A file that cannot be removed is removed by the next run.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The path of the journal for the output `path`.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".results");
    PathBuf::from(name)
}

/// The head of a file.
enum Head {
    /// The options of the run, the key of its hashes, and whether a result follows.
    Complete(String, Keyed, bool),
    /// It ends early.
    Cut,
    /// The file is no journal.
    Foreign,
}

impl Head {
    fn length(options: &str) -> u64 {
        (TITLE.len() + options.len() + 1 + Keyed::BYTES) as u64
    }

    fn read(file: &File) -> std::io::Result<Head> {
        let mut bytes = Vec::new();
        let most = (TITLE.len() + LINE_BYTES_MAX + 1 + Keyed::BYTES + RECORD_HEAD + OF_CAUSES.len()) as u64;
        file.take(most).read_to_end(&mut bytes)?;
        let Some(rest) = bytes.strip_prefix(TITLE) else {
            return Ok(if TITLE.starts_with(&bytes) { Head::Cut } else { Head::Foreign });
        };
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else { return Ok(Head::Cut) };
        let Some((key, records)) = rest[end + 1..].split_first_chunk() else { return Ok(Head::Cut) };
        let code = records.get(RECORD_HEAD + OF_CAUSES.len() - 1);
        let (line, keyed) = (String::from_utf8_lossy(&rest[..end]), Keyed::with_key(*key));
        Ok(Head::Complete(line.into_owned(), keyed, code.is_some_and(|code| *code != 0)))
    }

    /// Creates a file with this head.
    fn write(path: &Path, options: &str, keyed: &Keyed) -> Result<File, CleanError> {
        let head = [TITLE, options.as_bytes(), b"\n", &keyed.key()].concat();
        let failed = |error: std::io::Error| CleanError::unwritable(path, &error);
        let created = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let mut file = created.map_err(failed)?;
        file.write_all(&head).map_err(|error| {
            // Half a head would stop the next try.
            let _ = std::fs::remove_file(path);
            failed(error)
        })?;
        Ok(file)
    }
}

/// Appends a record with this content.
fn put_record(bytes: &mut Vec<u8>, keyed: &Keyed, write: impl FnOnce(&mut Vec<u8>)) {
    let from = bytes.len();
    bytes.extend_from_slice(&[0; RECORD_HEAD]);
    write(bytes);
    let content = from + RECORD_HEAD;
    let length = (bytes.len() - content) as u16;
    let hash = keyed.hash(&bytes[content..]) as u32;
    bytes[from..from + 2].copy_from_slice(&length.to_le_bytes());
    bytes[from + 2..content].copy_from_slice(&hash.to_le_bytes());
}

/// Reads the content of the next record; false if there is no other complete one.
fn next_record(input: &mut impl Read, keyed: &Keyed, content: &mut Vec<u8>) -> std::io::Result<bool> {
    content.clear();
    let mut head = [0; RECORD_HEAD];
    let read = match input.read_exact(&mut head) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        read => read,
    };
    read?;
    let [low, high, hash @ ..] = head;
    let length = u16::from_le_bytes([low, high]);
    input.take(length.into()).read_to_end(content)?;
    Ok(content.len() == usize::from(length) && keyed.hash(content) as u32 == u32::from_le_bytes(hash))
}

#[cfg(test)]
mod tests {
    use super::super::tests::state;
    use super::*;
    use lists::Results;

    fn journal(output: &Path, continues: bool) -> Journal {
        Journal::beside(Some(output), &RunOptions::default(), Keyed::new().unwrap(), continues).unwrap()
    }

    /// The results of a journal, for these keys.
    fn results(output: &Path, keys: std::ops::Range<u128>) -> Vec<(u8, Option<u16>)> {
        let (_folder, mut state) = state(0);
        let mut outcomes = Outcomes::new(true);
        let mut journal = journal(output, true);
        let (table, _) = journal.read(&mut state, &mut outcomes).unwrap();
        let found = keys.filter_map(|key| table.get(&mut state, key).unwrap());
        found.map(Outcome::from_bits).map(|it| (it.code(), outcomes.results(it).reply_code)).collect()
    }

    fn add(journal: &mut Journal, outcomes: &mut Outcomes, row: u64) {
        let results = Results {
            rule: "unknown",
            scope: "recipient",
            provider: "google",
            reply_code: Some(500 + row as u16),
            score: Some(0),
            checked_at: Some(1_795_619_459),
            ..Results::default()
        };
        let outcome = outcomes.new_outcome(row as u8 % 15 + 1, &results);
        journal.add(row, row.into(), outcome);
    }

    #[test]
    fn a_later_run_has_the_results_of_rows_that_were_not_written() {
        let folder = tempfile::TempDir::new().unwrap();
        let (output, path) = (folder.path().join("out"), folder.path().join("out.results"));
        let mut outcomes = Outcomes::new(true);
        let mut first = journal(&output, false);
        let mut left = Left::default();
        for row in 0..10 {
            add(&mut first, &mut outcomes, row);
            left.add("greylisted", std::time::Duration::ZERO);
            first.flush(Some(4), &outcomes, [&left, &left]).unwrap();
        }
        let expected = |rows: std::ops::Range<u16>| -> Vec<(u8, Option<u16>)> {
            rows.map(|row| (row as u8 % 15 + 1, Some(500 + row))).collect()
        };
        assert_eq!(results(&output, 0..20), expected(5..10));

        // A kill cuts the file at any byte: the complete records count, and later ones follow them.
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let found = results(&output, 0..20);
            assert!(found.len() <= 5 && found == expected(5..5 + found.len() as u16), "cut at {cut}");
            let (_folder, mut state) = state(0);
            let (mut second, mut outcomes) = (journal(&output, true), Outcomes::new(true));
            let (_, [causes, _]) = second.read(&mut state, &mut outcomes).unwrap();
            assert_eq!(causes.rows(), 0, "cut at {cut}");
            add(&mut second, &mut outcomes, 12);
            second.flush(None, &outcomes, [&causes, &causes]).unwrap();
            assert_eq!(results(&output, 0..20).len(), found.len() + 1, "cut at {cut}");
            std::fs::remove_file(&path).unwrap();
        }
        // A changed byte ends the results, too.
        let mut changed = whole.clone();
        let at = whole.windows(6).rposition(|text| text == b"google").unwrap();
        changed[at] ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert_eq!(results(&output, 0..20).len(), 4);
        // The results of a run that is not continued are discarded.
        assert!(!journal(&output, false).has_results());
    }

    #[test]
    fn other_files_are_refused_and_the_file_goes_with_the_rows() {
        let folder = tempfile::TempDir::new().unwrap();
        let (output, path) = (folder.path().join("out"), folder.path().join("out.results"));
        std::fs::write(&path, "my results\n").unwrap();
        let keyed = Keyed::new().unwrap();
        let refused = Journal::beside(Some(&output), &RunOptions::default(), keyed, true);
        let said = refused.err().unwrap().message;
        assert!(said.contains("out.results exists and belongs to no run: move it, "), "{said}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(partial(&output), "").unwrap();
        let (mut first, mut outcomes) = (journal(&output, false), Outcomes::new(true));
        assert!(path.exists() && !first.has_results());
        add(&mut first, &mut outcomes, 1);
        first.flush(None, &outcomes, [&Left::default(); 2]).unwrap();
        assert!(first.has_results());
        first.end();
        assert!(path.exists(), "the rows are still there");
        std::fs::remove_file(partial(&output)).unwrap();
        journal(&output, true).end();
        assert!(!path.exists());
        let mut none = Journal::beside(None, &RunOptions::default(), keyed, true).unwrap();
        add(&mut none, &mut outcomes, 1);
        none.flush(None, &outcomes, [&Left::default(); 2]).unwrap();
    }
}
