//! ZIP archives (APPNOTE 6.3), as far as spreadsheets use them: stored and deflated parts, no encryption, no ZIP64. The directory
//! takes a bounded amount of memory, whatever the archive says, and the work that all its parts together take is bounded ([`Work`]).

use super::spool::Spool;
use flate2::read::DeflateDecoder;
use std::cell::Cell;
use std::io::{Error, Read, Result, Seek, SeekFrom};
use std::rc::Rc;

/// Most parts of an archive.
const PARTS_MAX: u16 = 4096;
/// Longest name of a part, in bytes.
const NAME_BYTES_MAX: usize = 512;
/// The longest comment at the end of an archive and the record before it.
const END_BYTES_MAX: u64 = 0xffff + END_BYTES as u64;
const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: u64 = 30;

/// An archive whose directory is read.
pub(super) struct Archive {
    spool: Spool,
    parts: Vec<Part>,
    work: Work,
}

/// How much work a spreadsheet may still take: bytes that are read of it and of its parts, however often, and cells of rows.
#[derive(Clone)]
pub(super) struct Work(Rc<Cell<u64>>);

impl Work {
    /// The work that is allowed.
    pub fn new(most: u64) -> Work {
        Work(Rc::new(Cell::new(most)))
    }

    /// Allows at most this much work from now on.
    pub fn lower_to(&self, most: u64) {
        self.0.set(self.0.get().min(most));
    }

    /// Counts work.
    ///
    /// # Errors
    /// It is more than is left.
    pub fn spend(&self, work: u64) -> Result<()> {
        let left = self.0.get().checked_sub(work);
        self.0.set(left.ok_or_else(|| broken("it takes too much work for its size: save it as CSV"))?);
        Ok(())
    }
}

/// A part of an archive.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    is_deflated: bool,
    packed: u64,
    start: u64,
}

impl Archive {
    /// Reads the directory of an archive. What is read of its parts counts as work.
    ///
    /// # Errors
    /// It is broken, or has what is not supported.
    pub fn open(mut spool: Spool, work: Work) -> Result<Archive> {
        let length = spool.length();
        let tail_at = length.saturating_sub(END_BYTES_MAX);
        spool.seek(SeekFrom::Start(tail_at))?;
        let mut tail = Vec::new();
        spool.read_to_end(&mut tail)?;
        let end = tail.windows(END_BYTES).rposition(|bytes| bytes.starts_with(b"PK\x05\x06"));
        let end = &tail[end
            .ok_or_else(|| broken("it is damaged or incomplete (the directory at its end is missing)"))?..];
        let (count, at) = (u16_at(end, 10), u32_at(end, 16));
        if count > PARTS_MAX || at == u32::MAX {
            return Err(broken("it has too many parts"));
        }
        spool.seek(SeekFrom::Start(at.into()))?;
        let parts = (0..count).map(|_| entry(&mut spool)).collect::<Result<_>>()?;
        Ok(Archive { spool, parts, work })
    }

    /// Whether there is a part with this name.
    pub fn has(&self, name: &str) -> bool {
        self.part(name).is_some()
    }

    fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name.eq_ignore_ascii_case(name))
    }

    /// The content of a part; `None` if there is no such part. It has at most `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Box<dyn Read>>> {
        let Some(part) = self.part(name) else { return Ok(None) };
        let mut spool = self.spool.clone();
        spool.seek(SeekFrom::Start(part.start))?;
        let mut local = [0; LOCAL_BYTES as usize];
        spool.read_exact(&mut local)?;
        if !local.starts_with(b"PK\x03\x04") {
            return Err(broken("a part is missing"));
        }
        let skipped = u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
        spool.seek(SeekFrom::Start(part.start + LOCAL_BYTES + skipped))?;
        let packed = spool.take(part.packed);
        let plain: Box<dyn Read> =
            if part.is_deflated { Box::new(DeflateDecoder::new(packed)) } else { Box::new(packed) };
        Ok(Some(Box::new(Bound { input: plain, left: most, work: self.work.clone() })))
    }
}

/// Reads an entry of the directory.
fn entry(spool: &mut Spool) -> Result<Part> {
    let mut fixed = [0; ENTRY_BYTES];
    spool.read_exact(&mut fixed)?;
    let (flags, method, name_length) =
        (u16_at(&fixed, 8), u16_at(&fixed, 10), usize::from(u16_at(&fixed, 28)));
    if !fixed.starts_with(b"PK\x01\x02") || name_length > NAME_BYTES_MAX {
        return Err(broken("its directory is damaged"));
    }
    if flags & 1 != 0 {
        return Err(broken("it has a password"));
    }
    let mut name = vec![0; name_length];
    spool.read_exact(&mut name)?;
    let skipped = i64::from(u16_at(&fixed, 30)) + i64::from(u16_at(&fixed, 32));
    spool.seek(SeekFrom::Current(skipped))?;
    let (packed, start) = (u32_at(&fixed, 20), u32_at(&fixed, 42));
    if packed == u32::MAX || start == u32::MAX || !matches!(method, 0 | 8) {
        return Err(broken("it is compressed in another way than spreadsheets are"));
    }
    let name = String::from_utf8_lossy(&name).replace('\\', "/");
    Ok(Part { name, is_deflated: method == 8, packed: packed.into(), start: start.into() })
}

/// A reader of at most this number of bytes; more are an error.
struct Bound {
    input: Box<dyn Read>,
    left: u64,
    /// That of all parts of the archive.
    work: Work,
}

impl Read for Bound {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.input.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| broken("it is too large: save it as CSV"))?;
        self.work.spend(count as u64)?;
        Ok(count)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn broken(why: &str) -> Error {
    Error::other(why.to_owned())
}
