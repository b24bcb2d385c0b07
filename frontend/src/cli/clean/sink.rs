//! Where the list goes: `OUT.partial` until it is whole, or a stream.
//!
//! A run that goes on after another holds what that one wrote against the input: each row has to stand there with one
//! of the verdicts that there are. Where the file ends, be it within a row that a kill cut off, writing begins.

use super::source::{Record, Shape};
use super::{CleanError, Verdict, is_stream};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An open output.
pub(super) struct Sink {
    output: Output,
    target: Target,
    /// The encoded row; kept to save allocations.
    buffer: Vec<u8>,
    /// Something was written, or was there already.
    filled: bool,
}

enum Output {
    Writing(BufWriter<Box<dyn Stream>>),
    Replaying(Replay),
}

/// What can be written to and, in a file's case, put safe on the disk.
trait Stream: Write {
    fn sync(&mut self) -> std::io::Result<()>;
}

impl Stream for File {
    fn sync(&mut self) -> std::io::Result<()> {
        self.sync_all()
    }
}

impl Stream for std::io::Stdout {
    fn sync(&mut self) -> std::io::Result<()> {
        self.flush()
    }
}

enum Target {
    /// Written to as it is: standard output, a device or a pipe.
    Stream(String),
    /// Renamed at the end.
    File { partial: PathBuf, path: PathBuf },
}

struct Replay {
    file: BufReader<File>,
    /// What was read and not yet compared.
    ahead: Vec<u8>,
    /// How much of the file was found to be right.
    good: u64,
}

impl Sink {
    /// Opens the output; `None` and `-` are standard output.
    ///
    /// # Errors
    /// When it cannot be written, or an interrupted run has left a file and `resume` is not wanted.
    pub fn open(path: Option<&Path>, resume: bool) -> Result<Sink, CleanError> {
        let writing = |stream: Box<dyn Stream>| Output::Writing(BufWriter::with_capacity(64 * 1024, stream));
        let Some(path) = path.filter(|path| !is_stream(path)) else {
            let target = Target::Stream("standard output".into());
            return Ok(Sink::new(writing(Box::new(std::io::stdout())), target));
        };
        if path.is_dir() {
            return Err(unwritable(path, &"it is a folder; name a file"));
        }
        if path.exists() && !path.is_file() {
            let file = OpenOptions::new().write(true).open(path).map_err(|e| unwritable(path, &e))?;
            return Ok(Sink::new(writing(Box::new(file)), Target::Stream(path.display().to_string())));
        }
        let partial = partial(path);
        let file = open_partial(&partial, resume)?;
        let length = file.metadata().map_err(|e| unwritable(&partial, &e))?.len();
        let output = if length == 0 {
            writing(Box::new(file))
        } else {
            Output::Replaying(Replay { file: BufReader::new(file), ahead: Vec::new(), good: 0 })
        };
        Ok(Sink::new(output, Target::File { partial, path: path.to_owned() }))
    }

    fn new(output: Output, target: Target) -> Sink {
        Sink { output, target, buffer: Vec::new(), filled: false }
    }

    /// Writes what stands before the rows, or finds it there.
    ///
    /// # Errors
    /// When writing fails, or something else stands there.
    pub fn begin(&mut self, shape: &Shape) -> Result<(), CleanError> {
        let head = shape.head();
        let Output::Replaying(replay) = &mut self.output else { return self.put(&head) };
        self.filled = true;
        match replay.find(std::iter::once(&head)) {
            Ok(Found::At(_)) => Ok(()),
            Ok(Found::End) => {
                self.end_replay()?;
                self.put(&head)
            }
            Ok(Found::Other) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether rows are there that have not been compared yet.
    pub fn is_replaying(&self) -> bool {
        matches!(self.output, Output::Replaying(_))
    }

    /// The verdict with which the row stands in the file; `None` when the file ends before it, and writing begins.
    ///
    /// # Errors
    /// When reading fails, or something else stands there.
    pub fn replay(&mut self, shape: &Shape, record: &Record) -> Result<Option<Verdict>, CleanError> {
        let Output::Replaying(replay) = &mut self.output else { return Ok(None) };
        let verdicts: Vec<Verdict> = Verdict::all().collect();
        let rows: Vec<Vec<u8>> = verdicts
            .iter()
            .map(|&verdict| {
                let mut row = Vec::new();
                shape.encode(record, verdict, &mut row);
                row
            })
            .collect();
        match replay.find(rows.iter()) {
            Ok(Found::At(which)) => Ok(Some(verdicts[which])),
            Ok(Found::End) => self.end_replay().map(|()| None),
            Ok(Found::Other) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The list has no more rows: nor may the file.
    ///
    /// # Errors
    /// When it has, or cannot be read.
    pub fn end_of_list(&mut self) -> Result<(), CleanError> {
        let Output::Replaying(replay) = &mut self.output else { return Ok(()) };
        match replay.is_at_end() {
            Ok(true) => self.end_replay(),
            Ok(false) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Cuts off what is not whole, and begins to write.
    fn end_replay(&mut self) -> Result<(), CleanError> {
        let Output::Replaying(replay) = &mut self.output else { return Ok(()) };
        match replay.cut() {
            Ok(file) => {
                self.output = Output::Writing(BufWriter::with_capacity(64 * 1024, Box::new(file)));
                Ok(())
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&mut self, shape: &Shape, record: &Record, verdict: Verdict) -> Result<(), CleanError> {
        let mut row = std::mem::take(&mut self.buffer);
        row.clear();
        shape.encode(record, verdict, &mut row);
        let result = self.put(&row);
        self.buffer = row;
        self.filled = true;
        result
    }

    /// Hands everything to the system, so that a kill does not cost it.
    ///
    /// # Errors
    /// When writing fails.
    pub fn flush(&mut self) -> Result<(), CleanError> {
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        writer.flush().map_err(|e| self.failed(&e))
    }

    /// The list is whole: it appears under its name.
    ///
    /// # Errors
    /// When writing or renaming fails.
    pub fn finish(mut self) -> Result<(), CleanError> {
        self.flush()?;
        let Target::File { partial, path } = &self.target else { return Ok(()) };
        if let Output::Writing(writer) = &mut self.output {
            writer.get_mut().sync().map_err(|e| unwritable(partial, &e))?;
        }
        std::fs::rename(partial, path).map_err(|e| unwritable(path, &e))
    }

    /// The run failed: keeps what was done and says so behind the error; where nothing was done, nothing is left.
    pub fn keep(mut self, error: CleanError) -> CleanError {
        let flushed = self.flush();
        let Target::File { partial, .. } = &self.target else { return error };
        if self.is_replaying() {
            return error;
        }
        if !self.filled {
            // It is empty; if it cannot be removed, the next run says so.
            let _ = std::fs::remove_file(partial);
            return error;
        }
        if flushed.is_err() {
            return error;
        }
        let name = partial.display();
        CleanError {
            message: format!("{}; what was done stands in {name}: --resume goes on with it", error.message),
            ..error
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CleanError> {
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        writer.write_all(bytes).map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &std::io::Error) -> CleanError {
        match &self.target {
            Target::Stream(name) => CleanError::failed(format!("{name} cannot be written: {error}")),
            Target::File { partial, .. } => unwritable(partial, error),
        }
    }

    fn foreign(&self) -> CleanError {
        let Target::File { partial, .. } = &self.target else {
            return CleanError::failed("the output is not of this list");
        };
        let name = partial.display();
        CleanError::failed(format!("{name} was not made from this list: delete it to begin anew"))
    }
}

/// Where the rows stand until the list is whole.
pub(super) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Creates the file that becomes the output, or opens the one that was left, and keeps others off it.
fn open_partial(partial: &Path, resume: bool) -> Result<File, CleanError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let options = if resume { options.create(true).truncate(false) } else { options.create_new(true) };
    let file = options.open(partial).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let name = partial.display();
            CleanError::failed(format!(
                "{name} is left from an earlier run: --resume goes on with it; delete it to begin anew"
            ))
        } else {
            unwritable(partial, &error)
        }
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(unwritable(partial, &"another run is at work on it")),
        // A file system without locks: nothing more can be done.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn unwritable(path: &Path, why: &dyn std::fmt::Display) -> CleanError {
    CleanError::failed(format!("{} cannot be written: {why}", path.display()))
}

enum Found {
    /// The candidate of this number stands there.
    At(usize),
    /// The file ends, perhaps within one of them.
    End,
    /// Something else stands there.
    Other,
}

impl Replay {
    /// Which of the candidates stands next in the file; it is passed over.
    fn find<'a>(&mut self, candidates: impl Iterator<Item = &'a Vec<u8>> + Clone) -> std::io::Result<Found> {
        let longest = candidates.clone().map(Vec::len).max().unwrap_or_default();
        let missing = longest.saturating_sub(self.ahead.len()) as u64;
        if missing > 0 {
            self.file.by_ref().take(missing).read_to_end(&mut self.ahead)?;
        }
        if let Some(which) = candidates.clone().position(|candidate| self.ahead.starts_with(candidate)) {
            let length = candidates.clone().nth(which).map_or(0, Vec::len);
            self.ahead.drain(..length);
            self.good += length as u64;
            return Ok(Found::At(which));
        }
        let cut = candidates.into_iter().any(|candidate| candidate.starts_with(&self.ahead));
        Ok(if cut { Found::End } else { Found::Other })
    }

    fn is_at_end(&mut self) -> std::io::Result<bool> {
        Ok(self.ahead.is_empty() && self.file.fill_buf()?.is_empty())
    }

    /// The file, cut behind what is good.
    fn cut(&mut self) -> std::io::Result<File> {
        let mut file = self.file.get_ref().try_clone()?;
        file.set_len(self.good)?;
        file.seek(SeekFrom::Start(self.good))?;
        Ok(file)
    }
}
