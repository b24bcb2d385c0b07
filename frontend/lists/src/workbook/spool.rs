//! A temporary file without a name, encrypted under a key that exists only in memory: lists have personal data.

use crate::machine::of_machine;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use spill::TemporaryFile;
use std::io::{Error, Read, Result, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Number of bytes that are encrypted together.
const BLOCK: usize = 64 * 1024;

/// A file in the folder for temporary files.
///
/// # Errors
/// It cannot be created.
pub(crate) fn own_file() -> Result<Box<dyn TemporaryFile>> {
    Ok(Box::new(tempfile::tempfile()?))
}

/// Creates empty temporary files.
pub type CreateFile<'a> = dyn Fn() -> Result<Box<dyn TemporaryFile>> + 'a;

/// A file that is being written. Each block is written once, so its number is its nonce.
pub(super) struct SpoolWriter {
    file: Box<dyn TemporaryFile>,
    key: LessSafeKey,
    /// Number of blocks in the file.
    blocks: u64,
    block: Vec<u8>,
}

/// A complete file. Clones read the same file independently.
#[derive(Clone)]
pub(crate) struct Spool {
    file: Arc<dyn TemporaryFile>,
    key: Arc<LessSafeKey>,
    length: u64,
    at: u64,
    /// The number of the block in `block`.
    number: Option<u64>,
    block: Vec<u8>,
}

impl SpoolWriter {
    /// A writer of an empty file.
    pub fn new(create: &CreateFile<'_>) -> Result<SpoolWriter> {
        let mut key = [0; 32];
        let failed = |_| of_machine(Error::other("no key for a temporary file"));
        SystemRandom::new().fill(&mut key).map_err(failed)?;
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(failed)?;
        let file = create().map_err(of_machine)?;
        Ok(SpoolWriter { file, key: LessSafeKey::new(key), blocks: 0, block: Vec::with_capacity(BLOCK + 16) })
    }

    /// Number of bytes so far.
    pub fn length(&self) -> u64 {
        self.blocks * BLOCK as u64 + self.block.len() as u64
    }

    /// Ends the file, which can then be read.
    pub fn finish(mut self) -> Result<Spool> {
        let length = self.length();
        self.seal()?;
        Ok(Spool {
            file: self.file.into(),
            key: Arc::new(self.key),
            length,
            at: 0,
            number: None,
            block: Vec::new(),
        })
    }

    fn seal(&mut self) -> Result<()> {
        let nonce = nonce(self.blocks);
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut self.block);
        sealed.map_err(|_| of_machine(Error::other("a temporary file cannot be encrypted")))?;
        self.file.write_all_at(&self.block, place(self.blocks)).map_err(of_machine)?;
        self.block.clear();
        self.blocks += 1;
        Ok(())
    }
}

impl Write for SpoolWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..count]);
        if self.block.len() == BLOCK {
            self.seal()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Spool {
    /// Number of bytes in the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether there are clones.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.file) > 1
    }

    fn load(&mut self, number: u64) -> Result<()> {
        let start = number * BLOCK as u64;
        let plain = (self.length - start).min(BLOCK as u64) as usize;
        self.number = None;
        self.block.resize(plain + AES_256_GCM.tag_len(), 0);
        self.file.read_exact_at(&mut self.block, place(number)).map_err(of_machine)?;
        let opened = self.key.open_in_place(nonce(number), Aad::empty(), &mut self.block);
        opened.map_err(|_| of_machine(Error::other("a temporary file was changed")))?;
        self.block.truncate(plain);
        self.number = Some(number);
        Ok(())
    }
}

impl Read for Spool {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.at >= self.length {
            return Ok(0);
        }
        let number = self.at / BLOCK as u64;
        if self.number != Some(number) {
            self.load(number)?;
        }
        let rest = &self.block[(self.at % BLOCK as u64) as usize..];
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Spool {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| Error::other("a position before the beginning"))?;
        Ok(self.at)
    }
}

/// The position of a block in the file.
fn place(block: u64) -> u64 {
    block * (BLOCK + AES_256_GCM.tag_len()) as u64
}

fn nonce(block: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_from_any_position() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            let content: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut writer = SpoolWriter::new(&own_file).unwrap();
            writer.write_all(&content).unwrap();
            let mut spool = writer.finish().unwrap();
            let mut again = Vec::new();
            spool.clone().read_to_end(&mut again).unwrap();
            assert!(again == content && spool.length() == length as u64);
            for at in [length, length / 2, 0, length.saturating_sub(1)] {
                spool.seek(SeekFrom::Start(at as u64)).unwrap();
                let mut rest = Vec::new();
                spool.read_to_end(&mut rest).unwrap();
                assert!(rest == content[at..]);
            }
        }
    }
}
