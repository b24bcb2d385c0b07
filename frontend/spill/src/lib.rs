//! The data of a run over a long list that does not fit into memory, encrypted in one file: `OUT.state` of `mailprobe clean`, or a
//! temporary file of a server that reads a list.
//!
//! The file consists of blocks of 4 KiB. Each is encrypted with AEAD (AES-256-GCM, RFC 5116 5.2). The number of the
//! block is the associated data. The key is created at the start and exists only in memory: after a kill the file
//! cannot be read, and is not needed. The structures in it are [`spool`] (first in, first out), [`table`] (keys to
//! numbers) and [`codes`] (one byte per row).
//!
//! [`closed`] is a file that stays beside the output.
//!
//! ```text
//! block 0    TITLE: it shows the next run that the file may be replaced
//! block n    8 bytes: the number of encryptions so far | ciphertext of PAYLOAD bytes | 16 bytes of tag
//! ```
//!
//! [`table`] is our own because a database costs several times as much. Measured against redb 4.4 with one write transaction,
//! `Durability::None`, a cache of the same size as our keys and filters (62 MiB of `--memory 96`), and without encryption:
//! `clean --fast` of random addresses of 100 domains, 37 % of the rows duplicates. Figures are of the whole run on two cores
//! that other work shared; each range is two runs in turn.
//!
//! | rows | table | CPU s | s | peak MiB | disk MiB |
//! |---:|---|---:|---:|---:|---:|
//! | 2 million | ours | 10 | 8 to 10 | 72 | 27 |
//! | 2 million | redb | 13 to 14 | 11 to 13 | 95 | 39 |
//! | 10 million | ours | 59 to 74 | 49 to 75 | 73 | 153 |
//! | 10 million | redb | 210 to 228 | 216 to 238 | 131 | 222 |
//!
//! While all keys fit into its cache, redb costs a third more. Beyond that, each new key of a B-tree reads and writes a random page,
//! and its memory grows with the list.

pub mod closed;
pub mod codes;
mod filter;
pub mod keyed;
mod run;
pub mod spool;
pub mod table;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Size of the contents of a block, in bytes.
pub const PAYLOAD: usize = BLOCK - COUNTER - TAG;
const BLOCK: usize = 4096;
const COUNTER: usize = 8;
const TAG: usize = 16;
const TITLE: &[u8] = b"mailprobe clean: state of a run, of no use after it\n";

/// The data cannot be stored or read: one line that says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpillError {
    /// The line.
    pub message: String,
}

impl SpillError {
    fn failed(message: impl Into<String>) -> SpillError {
        SpillError { message: message.into() }
    }
}

/// The contents of a block.
pub type Payload = [u8; PAYLOAD];

/// A temporary file without a name. Its content is gone when it is dropped.
pub trait TemporaryFile: Send + Sync {
    /// Writes bytes at a position.
    ///
    /// # Errors
    /// The file cannot be written, or may not be longer.
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> std::io::Result<()>;

    /// Reads bytes at a position.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> std::io::Result<()>;
}

impl TemporaryFile for File {
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, at)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, bytes, at)
    }
}

/// The open file, and the memory that its users may take before they use the file.
pub struct State {
    file: Box<dyn TemporaryFile>,
    /// The path, for removal at the end; `None` for a file without a name.
    path: Option<PathBuf>,
    name: String,
    key: LessSafeKey,
    sealed: u64,
    /// The first unused block.
    next: u32,
    free: Vec<u32>,
    buffer: Box<[u8; BLOCK]>,
    /// Number of bytes of spools in memory, and its maximum.
    kept: usize,
    keep_max: usize,
    pub shares: Shares,
}

/// The shares of the memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// Rows that wait to be written or to be tried again.
    pub rows: usize,
    /// The latest addresses.
    pub recent: usize,
    /// Filters of earlier addresses.
    pub filters: usize,
    /// Verdicts.
    pub codes: usize,
}

impl Shares {
    /// The shares if there are so many tables of addresses.
    pub fn divided(self, tables: usize) -> Shares {
        Shares { recent: self.recent / tables, filters: self.filters / tables, ..self }
    }

    /// Divides this amount of memory, in bytes.
    pub fn of(memory: usize) -> Shares {
        let part = memory / 48;
        Shares { rows: part * 16, recent: part * 8, filters: part * 23, codes: part }
    }
}

impl State {
    /// Creates the file: `OUT.state`, or one without a name if the output is not a file.
    ///
    /// # Errors
    /// The file cannot be created, or another file has its name.
    pub fn open(output: Option<&Path>, memory: usize) -> Result<State, SpillError> {
        let is_file = |path: &&Path| path.as_os_str() != "-" && (!path.exists() || path.is_file());
        let path = output.filter(is_file).map(beside);
        let name = path.as_deref().unwrap_or(&std::env::temp_dir()).display().to_string();
        let failed = |error: std::io::Error| unwritable(&name, &error);
        let file = match &path {
            Some(path) => {
                remove_old(path)?;
                create(path).map_err(failed)?
            }
            None => nameless().map_err(failed)?,
        };
        let mut state = State::over(Box::new(file), name, memory)?;
        state.path = path;
        state.file.write_all_at(TITLE, 0).map_err(|e| state.failed(&e))?;
        Ok(state)
    }

    /// A state in this file. `name` is its name in messages.
    ///
    /// # Errors
    /// The system provides no random bits for a key.
    pub fn over(file: Box<dyn TemporaryFile>, name: String, memory: usize) -> Result<State, SpillError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|e| unwritable(&name, &std::io::Error::other(e)))?;
        let key = UnboundKey::new(&AES_256_GCM, &secret)
            .map_err(|_| SpillError::failed("cannot create a key for the state of the run"))?;
        let shares = Shares::of(memory);
        Ok(State {
            file,
            path: None,
            name,
            key: LessSafeKey::new(key),
            sealed: 0,
            next: 1,
            free: Vec::new(),
            buffer: Box::new([0; BLOCK]),
            kept: 0,
            keep_max: shares.rows,
            shares,
        })
    }

    /// Stores a block of at most [`PAYLOAD`] bytes. A shorter one is filled up with zeros.
    ///
    /// # Errors
    /// The block cannot be written, for example on a full disk.
    pub fn store(&mut self, payload: &[u8]) -> Result<u32, SpillError> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => {
                self.next =
                    self.next.checked_add(1).ok_or_else(|| SpillError::failed("the list is too long"))?;
                self.next - 1
            }
        };
        self.overwrite(block, payload)?;
        Ok(block)
    }

    /// Replaces the contents of a block.
    ///
    /// # Errors
    /// As [`State::store`].
    pub fn overwrite(&mut self, block: u32, payload: &[u8]) -> Result<(), SpillError> {
        self.sealed += 1;
        let (counter, rest) = self.buffer.split_at_mut(COUNTER);
        counter.copy_from_slice(&self.sealed.to_le_bytes());
        let (text, tag) = rest.split_at_mut(PAYLOAD);
        let length = payload.len().min(PAYLOAD);
        text[..length].copy_from_slice(&payload[..length]);
        text[length..].fill(0);
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce(self.sealed), Aad::from(block.to_le_bytes()), text)
            .map_err(|_| SpillError::failed("cannot encrypt the state of the run"))?;
        tag.copy_from_slice(sealed.as_ref());
        self.file.write_all_at(&self.buffer[..], place(block)).map_err(|e| self.failed(&e))
    }

    /// Reads a block.
    ///
    /// # Errors
    /// The block cannot be read, or another program has changed it.
    pub fn restore(&mut self, block: u32, into: &mut Payload) -> Result<(), SpillError> {
        self.file.read_exact_at(&mut self.buffer[..], place(block)).map_err(|e| self.failed(&e))?;
        let (counter, rest) = self.buffer.split_at_mut(COUNTER);
        let counter = counter.try_into().map_or(0, u64::from_le_bytes);
        let opened = self.key.open_in_place(nonce(counter), Aad::from(block.to_le_bytes()), rest);
        match opened {
            Ok(text) if text.len() == PAYLOAD => {
                into.copy_from_slice(text);
                Ok(())
            }
            _ => Err(SpillError::failed(format!("{} was changed by another program", self.name))),
        }
    }

    /// Frees a block for later contents.
    pub fn release(&mut self, block: u32) {
        self.free.push(block);
    }

    /// Whether another block of rows may stay in memory. If so, counts it.
    #[inline]
    pub fn keep(&mut self) -> bool {
        let room = self.kept + PAYLOAD <= self.keep_max;
        if room {
            self.kept += PAYLOAD;
        }
        room
    }

    /// A block has left the memory.
    #[inline]
    pub fn let_go(&mut self) {
        self.kept -= PAYLOAD;
    }

    fn failed(&self, error: &std::io::Error) -> SpillError {
        unwritable(&self.name, error)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A file that cannot be removed is unreadable, and the next run replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The path of the state file for the output `path`.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

/// The nonce of an encryption. Each is used once: it counts the encryptions with the key.
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn place(block: u32) -> u64 {
    u64::from(block) * BLOCK as u64
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Removes the file of a killed run. Any other file stays.
fn remove_old(path: &Path) -> Result<(), SpillError> {
    let name = path.display();
    let foreign = || {
        SpillError::failed(format!("{name} exists and belongs to no run: move it, or name another output"))
    };
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(data) if data.is_file() => {}
        _ => return Err(foreign()),
    }
    let mut title = Vec::new();
    let read = File::open(path).and_then(|file| file.take(TITLE.len() as u64).read_to_end(&mut title));
    read.map_err(|e| SpillError::failed(format!("{name} cannot be read: {e}")))?;
    // A kill may have truncated the title.
    if !TITLE.starts_with(&title) {
        return Err(foreign());
    }
    std::fs::remove_file(path).map_err(|e| unwritable(&name.to_string(), &e))
}

/// Creates a file in the temporary folder and removes its name at once.
fn nameless() -> std::io::Result<File> {
    let mut tag = [0; 8];
    getrandom::fill(&mut tag).map_err(std::io::Error::other)?;
    let path = std::env::temp_dir().join(format!("mailprobe-{:016x}.state", u64::from_le_bytes(tag)));
    let file = create(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn unreadable(path: &Path, error: &std::io::Error) -> SpillError {
    SpillError::failed(format!("{} cannot be read: {error}", path.display()))
}

fn unwritable(name: &str, error: &std::io::Error) -> SpillError {
    SpillError::failed(format!("{name} cannot be written: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A state with this amount of memory, and its folder.
    pub(crate) fn state(memory: usize) -> (tempfile::TempDir, State) {
        let folder = tempfile::TempDir::new().unwrap();
        let state = State::open(Some(&folder.path().join("out")), memory).unwrap();
        (folder, state)
    }

    #[test]
    fn blocks_come_back_and_nobody_else_can_read_them() {
        let (folder, mut state) = state(0);
        let path = folder.path().join("out.state");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let blocks: Vec<u32> = (0..10).map(|_| state.store(b"joe@example.com").unwrap()).collect();
        state.overwrite(blocks[3], b"ann@example.com").unwrap();
        let mut payload = [0; PAYLOAD];
        for &block in &blocks {
            state.restore(block, &mut payload).unwrap();
            let expected: &[u8] =
                if block == blocks[3] { b"ann@example.com\0" } else { b"joe@example.com\0" };
            assert!(payload.starts_with(expected));
        }
        let bytes = std::fs::read(&path).unwrap();
        // Long enough that the encrypted text does not contain it by chance.
        assert!(!bytes.windows(8).any(|w| w == b"joe@exam" || w == b"ann@exam"));
        let sealed = |n: u32| &bytes[n as usize * BLOCK..][..BLOCK];
        assert_ne!(sealed(blocks[0])[8..], sealed(blocks[1])[8..], "the same text is encrypted differently");

        state.release(blocks[5]);
        assert_eq!(state.store(b"x").unwrap(), blocks[5], "a freed block is used again");
        drop(state);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_changed_is_refused() {
        let (folder, mut state) = state(0);
        let block = state.store(b"x").unwrap();
        let path = folder.path().join("out.state");
        let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        // The encrypted text may have any byte there.
        let mut byte = [0];
        file.read_exact_at(&mut byte, place(block) + 100).unwrap();
        file.write_all_at(&[!byte[0]], place(block) + 100).unwrap();
        let error = state.restore(block, &mut [0; PAYLOAD]).unwrap_err();
        assert!(error.message.ends_with("was changed by another program"));
    }

    #[test]
    fn a_killed_runs_state_is_replaced_and_nothing_else() {
        let folder = tempfile::TempDir::new().unwrap();
        let (out, path) = (folder.path().join("out"), folder.path().join("out.state"));
        for left in [&b""[..], &TITLE[..5], &[TITLE, b"abc"].concat()] {
            std::fs::write(&path, left).unwrap();
            drop(State::open(Some(&out), 0).unwrap());
        }
        std::fs::write(&path, "my list").unwrap();
        assert!(State::open(Some(&out), 0).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my list");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        assert!(State::open(Some(&out), 0).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }

    #[test]
    fn without_a_file_for_output_it_has_no_name() {
        for output in [None, Some(Path::new("-")), Some(Path::new("/dev/null"))] {
            let mut state = State::open(output, 0).unwrap();
            assert_eq!(state.path, None);
            let block = state.store(b"x").unwrap();
            state.restore(block, &mut [0; PAYLOAD]).unwrap();
        }
    }
}
