//! The output: `OUT.partial` until the list is complete, or a stream.
//!
//! A resumed run compares the file of the earlier run with the input: each row in the file must be an input row with one of
//! the possible verdicts. If rows keep their order, they are compared one by one. Writing begins at the end of the file, or at
//! the last row if a kill truncated it. If rows have no order, the rows of the file are counted first, and each is skipped in
//! the input as often as the file contains it.
//!
//! `OUT.partial` is never compressed: a run can continue a file that was cut at any byte, and loses nothing. The complete file
//! is compressed into `OUT.packed`, which becomes OUT.
//!
//! `OUT.partial` has all rows. If the output is a selection of them, several files or a spreadsheet, these are made of the complete
//! `OUT.partial` at the end (`deliver.rs`). So a run with each of these options can be continued from any byte.
//!
//! A script can repeat a run that is complete. With `resume`, the run then compares the complete file with the list, and writes and
//! checks nothing.

mod deliver;
mod pack;
mod replay;

use super::CleanError;
use super::outcome::{Outcome, Outcomes};
use api::Reason;
pub(super) use deliver::Delivery;
pub use deliver::WrittenFile;
use lists::left::finished_output;
use lists::part::PartTitle;
use lists::{Class, Endings, ROW_BYTES_MAX, Results, Shape, decompressed, is_stream, marks};
pub use pack::Compression;
use replay::Tally;
pub(super) use replay::{Found, Replay};
use spill::State;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Longest line that describes a part or a run: it may contain a key of INPUT, each byte of which takes at most six.
pub(super) const LINE_BYTES_MAX: usize = 7 * ROW_BYTES_MAX;

/// How the output is written.
#[derive(Debug, Clone, Default)]
pub(super) struct SinkOptions {
    /// Continue the file of an interrupted run.
    pub resume: bool,
    /// The rows have no order.
    pub unordered: bool,
    /// The compression of the complete file or of the stream.
    pub compression: Compression,
    /// Replace a complete output, instead of comparing it with the list.
    pub replaces: bool,
    /// The output is the file of a part.
    pub is_part: bool,
    /// The rows are a sample: no later run can continue them.
    pub is_sample: bool,
    /// What becomes of the complete list.
    pub delivery: Delivery,
}

/// The output of a run.
pub(super) struct Sink {
    output: Output,
    target: Target,
    options: SinkOptions,
    /// The ends of rows; `None` before the list begins.
    endings: Option<Endings>,
    /// The form of the list, if its rows are read again at the end.
    shape: Option<Shape>,
    /// The texts of further results.
    pub outcomes: Outcomes,
    /// Whether a stream gets rows of some classes only.
    selects: bool,
    /// Number of rows that were written, or that an earlier run wrote.
    rows: u64,
    /// Number of verdicts of a row, and of those of the last row that are written: it is open if there are any.
    cells: usize,
    open_cells: usize,
    /// The row that is written, or the part of it that is not handed on yet.
    line: Vec<u8>,
    /// Rows of an interrupted run that are not found in the input yet.
    tally: Option<Tally>,
    /// Whether the file has contents, from this run or an earlier one, or rows of its run are stored elsewhere.
    filled: bool,
    /// Whether an interrupted run has left the file.
    continues: bool,
}

enum Output {
    Writing(BufWriter<Box<dyn Stream>>),
    /// A file is compared with the list: that of an interrupted run, to which rows are added later; or a complete one (`None`).
    Replaying(Replay, Option<File>),
}

/// An output stream. A file can also be synced to the disk.
trait Stream: Write {
    /// Ends the stream. A file is safe on the disk afterwards.
    fn sync(&mut self) -> std::io::Result<()>;
}

impl Stream for File {
    fn sync(&mut self) -> std::io::Result<()> {
        // A pipe or a device has nothing to sync.
        if self.metadata()?.is_file() { self.sync_all() } else { Ok(()) }
    }
}

impl Stream for std::io::Stdout {
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
    pub fn open(path: Option<&Path>, options: SinkOptions) -> Result<Sink, CleanError> {
        let SinkOptions { compression, is_part, .. } = options;
        let selects = !options.delivery.has_all_classes();
        let sink = |output, target| Sink {
            output,
            selects: selects && matches!(target, Target::Stream(_)),
            target,
            endings: None,
            shape: None,
            outcomes: Outcomes::new(options.delivery.has_further),
            rows: 0,
            cells: 1,
            open_cells: 0,
            line: Vec::new(),
            options: options.clone(),
            tally: None,
            filled: false,
            continues: false,
        };
        let streaming = |stream: std::io::Result<Box<dyn Stream>>, name: &str| match stream {
            Ok(stream) => Ok(sink(writing(stream), Target::Stream(name.to_owned()))),
            Err(error) => Err(CleanError::unwritable(Path::new(name), &error)),
        };
        let Some(path) = path.filter(|path| !is_stream(path)) else {
            return streaming(pack::packed(std::io::stdout(), compression, is_part), "standard output");
        };
        if path.is_dir() {
            return Err(CleanError::is_folder("-o", path));
        }
        if path.exists() && !path.is_file() {
            let opened = OpenOptions::new().write(true).open(path);
            let file = opened.map_err(|e| CleanError::unopenable("-o", path, &e))?;
            return streaming(pack::packed(file, compression, is_part), &path.display().to_string());
        }
        let partial = partial(path);
        let continues = partial.exists();
        if is_compared(&options) && !continues && path.metadata().is_ok_and(|data| data.len() > 0) {
            let target = Target::File { partial, path: path.to_owned() };
            return Ok(sink(Output::Replaying(complete(path)?, None), target));
        }
        let file = open_partial(&partial, &options)?;
        let opened = file.metadata().and_then(|data| Ok((data.len(), file.try_clone()?)));
        let output = match opened.map_err(|e| CleanError::unwritable(&partial, &e))? {
            (0, _) => writing(Box::new(file)),
            (_, read) => Output::Replaying(Replay::new(Box::new(read)), Some(file)),
        };
        // The results of an earlier run may be beside an empty file.
        let filled = continues;
        Ok(Sink { continues, filled, ..sink(output, Target::File { partial, path: path.to_owned() }) })
    }

    /// The output, if it is a file that a later run can continue.
    pub fn file(&self) -> Option<&Path> {
        match &self.target {
            Target::File { path, .. } if !self.options.is_sample => Some(path),
            _ => None,
        }
    }

    /// The last file that is made of the list: that of the unverifiable rows, if one has them.
    pub fn last_file(&self) -> Option<PathBuf> {
        self.file().and_then(|path| self.options.delivery.names(path).pop())
    }

    /// Whether the output has the unverifiable rows.
    pub fn has_unknown(&self) -> bool {
        self.options.delivery.classes.contains(&Class::Unknown)
    }

    /// Tells the user of `--resume` that there is no run to continue.
    pub fn tell_new_run(&self) {
        let (true, Target::File { partial, path }, Output::Writing(_)) =
            (self.options.resume, &self.target, &self.output)
        else {
            return;
        };
        let (partial, name) = (partial.display(), path.display());
        if path.exists() {
            tracing::warn!("there is no {partial}: this run begins anew, and replaces {name} at its end");
        } else {
            tracing::warn!("nothing to resume for {name}: starting from the first row");
        }
    }

    /// Whether the output is a stream, which no later run continues.
    pub fn is_stream(&self) -> bool {
        matches!(self.target, Target::Stream(_))
    }

    /// Number of rows in the output, also those of an earlier run.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Counts a verdict; true if it is the last one of its row.
    fn is_end_of_row(&mut self) -> bool {
        self.open_cells = (self.open_cells + 1) % self.cells;
        self.rows += u64::from(self.open_cells == 0);
        self.open_cells == 0
    }

    /// Gives up the row that waits for a verdict, and returns the number of its verdicts that were not taken. A stream has nothing
    /// of such a row.
    pub fn leave_out_row(&mut self) -> usize {
        self.cells - std::mem::take(&mut self.open_cells)
    }

    /// Whether this run continues an interrupted one, or compares a complete output.
    pub fn continues(&self) -> bool {
        self.continues || self.is_complete()
    }

    /// Whether the output is complete already, and is only compared with the list.
    pub fn is_complete(&self) -> bool {
        matches!(self.output, Output::Replaying(_, None))
    }

    /// Keeps the file if the run fails, although it may have no row yet: other rows of the run are stored elsewhere.
    pub fn hold(&mut self) {
        self.filled = true;
    }

    /// Writes the head of the list after this title, or finds both in the file. Only parts have a title.
    ///
    /// # Errors
    /// Writing fails, or the file has other contents.
    pub fn begin(&mut self, title: &[u8], shape: &Shape, state: &mut State) -> Result<(), CleanError> {
        (self.endings, self.cells) = (Some(shape.endings()), shape.addresses());
        self.shape = (!self.options.delivery.is_plain()).then(|| shape.clone());
        let head = [title, &shape.head()].concat();
        let found = match &mut self.output {
            Output::Writing(_) => return self.put(&head),
            Output::Replaying(replay, _) => replay.head(&head),
        };
        self.filled = true;
        match found {
            Ok(Found::Row(_)) if self.options.unordered => self.count(state),
            Ok(Found::Row(_)) => Ok(()),
            Ok(Found::End) => {
                self.end_replay()?;
                self.put(&head)
            }
            Ok(Found::Other) => Err(self.other_head(title)),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The error for a file that does not begin with this title and the head of the list. Only parts have a title, and it tells why.
    fn other_head(&mut self, title: &[u8]) -> CleanError {
        let line = match &mut self.output {
            Output::Writing(_) => Ok(None),
            Output::Replaying(replay, _) => replay.line(LINE_BYTES_MAX),
        };
        let found = line.ok().flatten().and_then(|line| PartTitle::read(&line));
        let difference =
            found.zip(PartTitle::read(title)).and_then(|(found, wanted)| found.difference(&wanted));
        match difference {
            Some(difference) => CleanError::usage(format!("{} {difference}", self.name().display())),
            None => self.foreign(),
        }
    }

    /// Whether the file may contain rows that are not found in the input yet.
    pub fn is_replaying(&self) -> bool {
        self.tally.is_some() || !matches!(self.output, Output::Writing(_))
    }

    /// The result that an interrupted run wrote for the row; `None` if it did not write the row.
    ///
    /// # Errors
    /// Reading fails, or the file has other contents.
    pub fn known(&mut self, state: &mut State, row: &[u8]) -> Result<Option<Outcome>, CleanError> {
        if let Some(tally) = &mut self.tally {
            let outcome = tally.take(state, row)?;
            self.rows += u64::from(outcome.is_some());
            if tally.left() == 0 {
                self.tally = None;
            }
            return Ok(outcome);
        }
        let (Some(endings), Output::Replaying(replay, _)) = (&self.endings, &mut self.output) else {
            return Ok(None);
        };
        match replay.next(endings, row) {
            Ok(Found::Row(code)) => {
                let outcome = self.outcomes.written(code, &replay.results);
                self.is_end_of_row();
                Ok(Some(outcome))
            }
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
        let Output::Replaying(replay, file) = &mut self.output else { return Ok(()) };
        match replay.is_at_end() {
            Ok(true) if file.is_none() => Ok(()),
            Ok(true) => self.end_replay(),
            Ok(false) => Err(self.foreign()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Counts the rows in the file, which have no order, and begins to write after them unless the file is complete.
    fn count(&mut self, state: &mut State) -> Result<(), CleanError> {
        let (Some(endings), Output::Replaying(replay, _)) = (&self.endings, &mut self.output) else {
            return Ok(());
        };
        let tally = replay.tally(state, endings, &mut self.outcomes, |e| failed(&self.target, e))?;
        let Some(tally) = tally else { return Err(self.foreign()) };
        self.tally = (tally.left() > 0).then_some(tally);
        if self.is_complete() { Ok(()) } else { self.end_replay() }
    }

    /// Cuts off an incomplete row, and begins to write. A complete file cannot end before the list.
    fn end_replay(&mut self) -> Result<(), CleanError> {
        let Output::Replaying(replay, file) = &self.output else { return Ok(()) };
        let Some(file) = file else { return Err(self.foreign()) };
        let file = replay.cut(file).map_err(|error| self.failed(&error))?;
        self.output = writing(Box::new(file));
        Ok(())
    }

    /// Writes a row as the list has it, with its result. If rows have further results, the row has marks (`marks.rs`).
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(&mut self, row: &[u8], outcome: Outcome) -> Result<(), CleanError> {
        self.filled = true;
        let code = outcome.code();
        if self.selects && !self.options.delivery.classes.contains(&Class::of_code(code)) {
            return Ok(());
        }
        if self.open_cells == 0 {
            self.line.clear();
        }
        let is_end = self.is_end_of_row();
        let (Output::Writing(writer), Some(endings)) = (&mut self.output, &self.endings) else {
            return Ok(());
        };
        if endings.has_further() {
            let (marks, row) = marks::split(row);
            let Results { suggestion, role, free, disposable, .. } = marks;
            // The list of names decides, or the mail hosts.
            let disposable = disposable.map(|listed| listed || outcome.reason() == Some(Reason::Disposable));
            let results = Results { suggestion, role, free, disposable, ..self.outcomes.results(outcome) };
            endings.write(row, code, &results, &mut self.line);
        } else {
            endings.pieces(row, code).into_iter().for_each(|piece| self.line.extend_from_slice(piece));
        }
        match is_end {
            true => writer.write_all(&self.line).map_err(|e| self.failed(&e)),
            false => Ok(()),
        }
    }

    /// Writes a row of another output as it is.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_again(&mut self, row: &[u8]) -> Result<(), CleanError> {
        self.filled = true;
        self.is_end_of_row();
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        writer.write_all(row).map_err(|e| self.failed(&e))
    }

    /// Hands all rows to the system, so that a kill does not lose them.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> Result<(), CleanError> {
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        // A resumed run continues in the middle of a row. A stream gets complete rows.
        let is_open = self.open_cells > 0 && matches!(self.target, Target::File { .. });
        let open = if is_open { std::mem::take(&mut self.line) } else { Vec::new() };
        writer.write_all(&open).and_then(|()| writer.flush()).map_err(|e| self.failed(&e))
    }

    /// The list is complete: gives it its name, or makes its files.
    ///
    /// # Errors
    /// Writing, compressing or renaming fails.
    pub fn finish(&mut self) -> Result<Vec<WrittenFile>, CleanError> {
        self.flush()?;
        if let Output::Writing(writer) = &mut self.output {
            let synced = writer.get_mut().sync();
            synced.map_err(|e| self.failed(&e))?;
        }
        let Target::File { partial, path } = &self.target else { return Ok(Vec::new()) };
        let written = || Ok(vec![WrittenFile::whole(path, self.rows)]);
        if self.is_complete() {
            return written();
        }
        let SinkOptions { compression, is_part, ref delivery, .. } = self.options;
        if let (Some(shape), Some(endings)) = (&self.shape, &self.endings) {
            return delivery.deliver(partial, path, shape, endings, compression);
        }
        if compression == Compression::None {
            return std::fs::rename(partial, path)
                .map_err(|e| CleanError::unwritable(path, &e))
                .and_then(|()| written());
        }
        let packed = packed(path);
        let done = pack::pack(partial, &packed, compression, is_part)
            .and_then(|()| std::fs::rename(&packed, path))
            .and_then(|()| std::fs::remove_file(partial));
        done.map_err(|error| {
            // The file is useless, and the disk may be full.
            let _ = std::fs::remove_file(&packed);
            CleanError::unwritable(path, &error)
        })?;
        written()
    }

    /// The sink with what was made for its run. If that failed, keeps the finished rows as [`Sink::keep`] does.
    ///
    /// # Errors
    /// It was not made.
    pub fn and<T>(self, made: Result<T, impl Into<CleanError>>) -> Result<(Sink, T), CleanError> {
        match made {
            Ok(made) => Ok((self, made)),
            Err(error) => Err(self.keep(error.into())),
        }
    }

    /// The run failed: keeps the finished rows and appends this to the error. An empty file and a sample are removed.
    pub fn keep(mut self, error: CleanError) -> CleanError {
        // On a full disk the last row may be incomplete. A resumed run cuts it off.
        let _ = self.flush();
        let Target::File { partial, .. } = &self.target else {
            if let Output::Writing(writer) = &mut self.output {
                // Without its end, a compressed stream is damaged.
                let _ = writer.get_mut().sync();
            }
            return error;
        };
        if !matches!(self.output, Output::Writing(_)) {
            return error;
        }
        if !self.filled {
            // The file is empty. If it cannot be removed, the next run reports it.
            let _ = std::fs::remove_file(partial);
            return error;
        }
        if self.options.is_sample {
            self.discard();
            return error.with("; run the command again");
        }
        error.with(&format!("; finished checks are kept ({}): continue with --resume", partial.display()))
    }

    /// The run failed, and its rows are useless: removes them. The rows of an earlier run that were not all found stay.
    pub fn discard(self) {
        if let (Target::File { partial, .. }, Output::Writing(_)) = (&self.target, &self.output) {
            // If the file cannot be removed, the next run reports it.
            let _ = std::fs::remove_file(partial);
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CleanError> {
        let Output::Writing(writer) = &mut self.output else { return Ok(()) };
        writer.write_all(bytes).map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &std::io::Error) -> CleanError {
        match (&self.target, &self.output) {
            (Target::File { path, .. }, Output::Replaying(_, None)) => CleanError::unreadable(path, error),
            (target, _) => failed(target, error),
        }
    }

    /// The file of the rows.
    fn name(&self) -> &Path {
        match &self.target {
            Target::Stream(name) => Path::new(name),
            Target::File { path, .. } if self.is_complete() => path,
            Target::File { partial, .. } => partial,
        }
    }

    /// The file of an earlier run has other contents than the list requires.
    pub fn foreign(&self) -> CleanError {
        let name = self.name();
        let finished = finished_output(name, self.is_complete() && !self.options.is_part);
        CleanError::failed(format!(
            "{} does not fit this list or these options: use the INPUT, --format, --sheet, --column, --columns, --known, --retry, \
             --unordered and --drop-duplicates of the run that made it, or name another output with -o{finished}",
            name.display()
        ))
    }

    /// The rows of the file show that its run had other options: `how` they differ, and what to do.
    pub fn made_otherwise(&self, how: &str) -> CleanError {
        CleanError::usage(format!(
            "{} was made with other options ({how}, or name another output with -o",
            self.name().display()
        ))
    }
}

/// Whether a complete output is compared with the list if there is no other file of the run.
fn is_compared(options: &SinkOptions) -> bool {
    let is_list = options.delivery.is_plain() && !options.replaces;
    options.resume && (options.is_part || is_list)
}

fn writing(stream: Box<dyn Stream>) -> Output {
    Output::Writing(BufWriter::with_capacity(64 * 1024, stream))
}

fn failed(target: &Target, error: &std::io::Error) -> CleanError {
    match target {
        Target::Stream(name) => CleanError::failed(format!("{name} cannot be written: {error}")),
        Target::File { partial, .. } => CleanError::unwritable(partial, error),
    }
}

/// The file of the rows until the list is complete.
pub(super) fn partial(path: &Path) -> PathBuf {
    named(path, ".partial")
}

/// A file at the end of the run, until it is complete.
pub(super) fn packed(path: &Path) -> PathBuf {
    named(path, ".packed")
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The complete file of a part.
fn complete(path: &Path) -> Result<Replay, CleanError> {
    let opened = File::open(path).and_then(|file| decompressed(Box::new(file)));
    opened.map(Replay::new).map_err(|e| CleanError::unreadable(path, &e))
}

/// What stands behind the name of a file that another run writes.
const USED_BY_ANOTHER: &str = "another run uses it; wait until it ends, or write to another file";

/// Creates the partial file, or opens the one of an earlier run, and locks it.
fn open_partial(partial: &Path, options: &SinkOptions) -> Result<File, CleanError> {
    let mut how = OpenOptions::new();
    how.read(true).write(true);
    let how = if options.resume { how.create(true).truncate(false) } else { how.create_new(true) };
    let file = how.open(partial).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            if File::open(partial).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
            {
                return CleanError::unwritable(partial, USED_BY_ANOTHER);
            }
            let name = partial.display();
            let or = if options.is_sample { "" } else { ", or continue with --resume" };
            CleanError::usage(format!(
                "{name} is left from an earlier run, and --force does not replace it: delete it to start again{or}"
            ))
        } else {
            CleanError::unopenable("-o", partial, &error)
        }
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CleanError::unwritable(partial, USED_BY_ANOTHER)),
        // The file system has no locks.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}
