//! The output: `OUT.partial` until the list is complete, or a stream.
//!
//! A resumed run compares the file of the earlier run with the input: each row in the file must be an input row with one of
//! the possible verdicts. If rows keep their order, they are compared one by one. Writing begins at the end of the file, or at
//! the last row if a kill truncated it. If rows have no order, the rows of the file are counted first, and each is skipped in
//! the input as often as the file contains it.
//!
//! `OUT.partial` is never compressed: a run can continue a file that was cut at any byte, and loses nothing. The complete file
//! is compressed into `OUT.packed`, which becomes OUT.

mod pack;
mod replay;

use super::state::State;
use super::{CleanError, Compression};
use lists::Shape;
use lists::{Format, is_stream};
use replay::{Found, Replay, Tally};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The output of a run.
pub(super) struct Sink {
    output: Output,
    target: Target,
    compression: Compression,
    unordered: bool,
    /// The ends of rows, by the code of the verdict.
    suffixes: Vec<Vec<u8>>,
    /// Rows of an interrupted run that are not found in the input yet.
    tally: Option<Tally>,
    /// Whether the file has contents, from this run or an earlier one.
    filled: bool,
}

enum Output {
    Writing(BufWriter<Box<dyn Stream>>),
    Replaying(Replay),
}

/// An output stream. A file can also be synced to the disk.
trait Stream: Write {
    /// Ends the stream. A file is safe on the disk afterwards.
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

/// A device or a pipe, which may not support syncing.
struct Device(File);

impl Write for Device {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Stream for Device {
    fn sync(&mut self) -> std::io::Result<()> {
        self.flush()
    }
}

enum Target {
    /// Standard output, a device or a pipe, by its name in messages.
    Stream(String),
    /// A file, renamed at the end.
    File { partial: PathBuf, path: PathBuf },
}

impl Sink {
    /// Opens the output; `None` and `-` are standard output.
    ///
    /// # Errors
    /// The output cannot be written, or an interrupted run has left a file and `resume` is false.
    pub fn open(
        path: Option<&Path>,
        resume: bool,
        unordered: bool,
        compression: Option<Compression>,
    ) -> Result<Sink, CleanError> {
        let compression = compression.unwrap_or_else(|| path.map_or(Compression::None, Compression::by_name));
        let sink = |output, target| Sink {
            output,
            target,
            compression,
            unordered,
            suffixes: Vec::new(),
            tally: None,
            filled: false,
        };
        let streaming = |stream: std::io::Result<Box<dyn Stream>>, name: &str| match stream {
            Ok(stream) => Ok(sink(writing(stream), Target::Stream(name.to_owned()))),
            Err(error) => Err(unwritable(Path::new(name), &error)),
        };
        let Some(path) = path.filter(|path| !is_stream(path)) else {
            return streaming(pack::packed(std::io::stdout(), compression), "standard output");
        };
        if path.is_dir() {
            return Err(unwritable(path, &"it is a folder; name a file"));
        }
        if path.exists() && !path.is_file() {
            let file = OpenOptions::new().write(true).open(path).map_err(|e| unwritable(path, &e))?;
            return streaming(pack::packed(Device(file), compression), &path.display().to_string());
        }
        let partial = partial(path);
        let file = open_partial(&partial, resume)?;
        let length = file.metadata().map_err(|e| unwritable(&partial, &e))?.len();
        let output = if length == 0 { writing(Box::new(file)) } else { Output::Replaying(Replay::new(file)) };
        Ok(sink(output, Target::File { partial, path: path.to_owned() }))
    }

    /// Writes the head of the list, or finds it in the file.
    ///
    /// # Errors
    /// Writing fails, or the file has other contents.
    pub fn begin(&mut self, shape: &Shape, state: &mut State) -> Result<(), CleanError> {
        self.suffixes = shape.suffixes();
        let head = shape.head();
        let Output::Replaying(replay) = &mut self.output else { return self.put(&head) };
        self.filled = true;
        match replay.head(&head) {
            Ok(Found::Row(_)) if self.unordered => self.count(state, shape.format != Format::Jsonl),
            Ok(Found::Row(_)) => Ok(()),
            Ok(Found::End) => {
                self.end_replay()?;
                self.put(&head)
            }
            Ok(Found::Other) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether the file may contain rows that are not found in the input yet.
    pub fn is_replaying(&self) -> bool {
        self.tally.is_some() || matches!(self.output, Output::Replaying(_))
    }

    /// The code of the verdict that an interrupted run wrote for the row; `None` if it did not write the row.
    ///
    /// # Errors
    /// Reading fails, or the file has other contents.
    pub fn known(&mut self, state: &mut State, prefix: &[u8]) -> Result<Option<u8>, CleanError> {
        if let Some(tally) = &mut self.tally {
            let code = tally.take(state, prefix)?;
            if tally.left() == 0 {
                self.tally = None;
            }
            return Ok(code);
        }
        let Output::Replaying(replay) = &mut self.output else { return Ok(None) };
        match replay.next(prefix, &self.suffixes) {
            Ok(Found::Row(code)) => Ok(Some(code)),
            Ok(Found::End) => self.end_replay().map(|()| None),
            Ok(Found::Other) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The list has no more rows. The file must not have more either.
    ///
    /// # Errors
    /// The file has more rows or cannot be read.
    pub fn end_of_list(&mut self) -> Result<(), CleanError> {
        if self.tally.is_some() {
            return Err(self.foreign());
        }
        let Output::Replaying(replay) = &mut self.output else { return Ok(()) };
        match replay.is_at_end() {
            Ok(true) => self.end_replay(),
            Ok(false) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Counts the rows in the file, which have no order, and begins to write after them.
    fn count(&mut self, state: &mut State, quotes: bool) -> Result<(), CleanError> {
        let Output::Replaying(replay) = &mut self.output else { return Ok(()) };
        let target = &self.target;
        let tally = replay.tally(state, &self.suffixes, quotes, |error| failed(target, error))?;
        let Some(tally) = tally else { return Err(self.foreign()) };
        self.tally = (tally.left() > 0).then_some(tally);
        self.end_replay()
    }

    /// Cuts off an incomplete row, and begins to write.
    fn end_replay(&mut self) -> Result<(), CleanError> {
        let Output::Replaying(replay) = &mut self.output else { return Ok(()) };
        match replay.cut() {
            Ok(file) => {
                self.output = writing(Box::new(file));
                Ok(())
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Writes a row: `prefix` is the row up to its verdict, `code` the code of the verdict.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(&mut self, prefix: &[u8], code: u8) -> Result<(), CleanError> {
        self.filled = true;
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        let suffix = self.suffixes.get(usize::from(code)).map_or(&[][..], Vec::as_slice);
        let written = writer.write_all(prefix).and_then(|()| writer.write_all(suffix));
        written.map_err(|e| self.failed(&e))
    }

    /// Hands all rows to the system, so that a kill does not lose them.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> Result<(), CleanError> {
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        writer.flush().map_err(|e| self.failed(&e))
    }

    /// The list is complete: gives it its name.
    ///
    /// # Errors
    /// Writing, compressing or renaming fails.
    pub fn finish(&mut self) -> Result<(), CleanError> {
        self.flush()?;
        if let Output::Writing(writer) = &mut self.output {
            let synced = writer.get_mut().sync();
            synced.map_err(|e| self.failed(&e))?;
        }
        let Target::File { partial, path } = &self.target else { return Ok(()) };
        if self.compression == Compression::None {
            return std::fs::rename(partial, path).map_err(|e| unwritable(path, &e));
        }
        let packed = named(path, ".packed");
        let done = pack::pack(partial, &packed, self.compression)
            .and_then(|()| std::fs::rename(&packed, path))
            .and_then(|()| std::fs::remove_file(partial));
        done.map_err(|error| {
            // The file is useless, and the disk may be full.
            let _ = std::fs::remove_file(&packed);
            unwritable(path, &error)
        })
    }

    /// The run failed: keeps the finished rows and appends this to the error. An empty file is removed.
    pub fn keep(mut self, error: CleanError) -> CleanError {
        // On a full disk the last row may be incomplete. A resumed run cuts it off.
        let _ = self.flush();
        let Target::File { partial, .. } = &self.target else { return error };
        if matches!(self.output, Output::Replaying(_)) {
            return error;
        }
        if !self.filled {
            // The file is empty. If it cannot be removed, the next run reports it.
            let _ = std::fs::remove_file(partial);
            return error;
        }
        let name = partial.display();
        CleanError {
            message: format!("{}; finished rows are in {name}: continue with --resume", error.message),
            ..error
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CleanError> {
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        writer.write_all(bytes).map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &std::io::Error) -> CleanError {
        failed(&self.target, error)
    }

    fn foreign(&self) -> CleanError {
        let Target::File { partial, .. } = &self.target else {
            return CleanError::failed("the output does not belong to this list");
        };
        let name = partial.display();
        let order = if self.unordered { "" } else { " in this order (was --unordered used?)" };
        CleanError::failed(format!("{name} was not made from this list{order}: delete it to start again"))
    }
}

fn writing(stream: Box<dyn Stream>) -> Output {
    Output::Writing(BufWriter::with_capacity(64 * 1024, stream))
}

fn failed(target: &Target, error: &std::io::Error) -> CleanError {
    match target {
        Target::Stream(name) => CleanError::failed(format!("{name} cannot be written: {error}")),
        Target::File { partial, .. } => unwritable(partial, error),
    }
}

/// The file of the rows until the list is complete.
pub(super) fn partial(path: &Path) -> PathBuf {
    named(path, ".partial")
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Creates the partial file, or opens the one of an earlier run, and locks it.
fn open_partial(partial: &Path, resume: bool) -> Result<File, CleanError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let options = if resume { options.create(true).truncate(false) } else { options.create_new(true) };
    let file = options.open(partial).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let name = partial.display();
            CleanError::failed(format!(
                "{name} is left from an earlier run: delete it to start again, or continue with --resume"
            ))
        } else {
            unwritable(partial, &error)
        }
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(unwritable(partial, &"another run uses it")),
        // The file system has no locks.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn unwritable(path: &Path, why: &dyn std::fmt::Display) -> CleanError {
    CleanError::failed(format!("{} cannot be written: {why}", path.display()))
}
