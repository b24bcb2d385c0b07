//! The format of a backup, version 1: a line `mailprobe backup 1`, records, and the SHA-256 of everything before it.
//!
//! A record has a byte for its kind, and fields, each with its length (4 bytes, little-endian) and its bytes. `K`: name
//! and content of a key file. `T`: name of a table, to which the following rows belong. `R`: key and value of a row, in
//! redb's encoding of their types. `E`: the end, without fields.

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use std::io::{self, BufRead, BufWriter, Read, Write};
use store::backup::{BackupError, BackupSummary};

const MAGIC: &[u8] = b"mailprobe backup ";
const VERSION: &[u8] = b"1\n";

const KEY_FILE: u8 = b'K';
const TABLE: u8 = b'T';
const ROW: u8 = b'R';
const END: u8 = b'E';

const BUFFER_BYTES: usize = 64 * 1024;

/// A writer of a backup, which computes the checksum.
pub(super) struct BackupWriter<'w> {
    out: BufWriter<&'w mut dyn Write>,
    digest: Context,
    summary: BackupSummary,
}

impl<'w> BackupWriter<'w> {
    /// Starts a backup with the line of its format.
    pub fn begin(sink: &'w mut dyn Write) -> io::Result<BackupWriter<'w>> {
        let out = BufWriter::with_capacity(BUFFER_BYTES, sink);
        let mut writer =
            BackupWriter { out, digest: Context::new(&SHA256), summary: BackupSummary::default() };
        writer.put(MAGIC)?;
        writer.put(VERSION)?;
        Ok(writer)
    }

    /// Writes a record `K` for a key file.
    pub fn key_file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.summary.key_files += 1;
        self.record(KEY_FILE, &[name.as_bytes(), content])
    }

    /// Writes a record `T`, which starts a table.
    pub fn table(&mut self, name: &str) -> io::Result<()> {
        self.record(TABLE, &[name.as_bytes()])
    }

    /// Writes a record `R` for a row of the last table.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.summary.rows += 1;
        self.record(ROW, &[key, value])
    }

    /// Writes the record `E` and the checksum.
    pub fn end(mut self) -> Result<BackupSummary, BackupError> {
        self.record(END, &[])?;
        self.out.write_all(self.digest.finish().as_ref())?;
        self.out.flush()?;
        self.summary.bytes += SHA256_OUTPUT_LEN as u64;
        Ok(self.summary)
    }

    fn record(&mut self, kind: u8, fields: &[&[u8]]) -> io::Result<()> {
        self.put(&[kind])?;
        for field in fields {
            let length = u32::try_from(field.len()).map_err(io::Error::other)?;
            self.put(&length.to_le_bytes())?;
            self.put(field)?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.summary.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// The records of a backup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    KeyFile { name: String, content: Vec<u8> },
    Table { name: String },
    Row { key: Vec<u8>, value: Vec<u8> },
}

/// A reader of a backup. Its records are authentic only after [`BackupReader::next`] has returned `None`.
pub(super) struct BackupReader<R> {
    input: R,
    digest: Context,
    summary: BackupSummary,
    ended: bool,
}

impl<R: BufRead> BackupReader<R> {
    /// Reads the line of the format.
    pub fn begin(input: R) -> Result<BackupReader<R>, BackupError> {
        let summary = BackupSummary::default();
        let mut reader = BackupReader { input, digest: Context::new(&SHA256), summary, ended: false };
        if reader.take(MAGIC.len()).map_err(|_| BackupError::Damaged("it is not a backup of mailprobe"))?
            != MAGIC
        {
            return Err(BackupError::Damaged("it is not a backup of mailprobe"));
        }
        if reader.take(VERSION.len())? != VERSION {
            return Err(BackupError::Newer);
        }
        Ok(reader)
    }

    /// The next record; `None` after the last one, if nothing follows and the checksum is right.
    ///
    /// # Errors
    ///
    /// The input cannot be read, or is no complete backup.
    pub fn next(&mut self) -> Result<Option<Record>, BackupError> {
        if self.ended {
            return Ok(None);
        }
        let kind = self.take(1)?;
        let record = match kind[0] {
            KEY_FILE => {
                self.summary.key_files += 1;
                Record::KeyFile { name: self.name()?, content: self.field()? }
            }
            TABLE => Record::Table { name: self.name()? },
            ROW => {
                self.summary.rows += 1;
                Record::Row { key: self.field()?, value: self.field()? }
            }
            END => {
                self.check_end()?;
                return Ok(None);
            }
            _ => return Err(BackupError::Damaged("it is damaged")),
        };
        Ok(Some(record))
    }

    /// The numbers of the records so far.
    pub fn summary(&self) -> BackupSummary {
        self.summary
    }

    fn check_end(&mut self) -> Result<(), BackupError> {
        self.ended = true;
        let expected = self.digest.clone().finish();
        if self.take(SHA256_OUTPUT_LEN)? != expected.as_ref() {
            return Err(BackupError::Damaged("its checksum is wrong"));
        }
        if !self.input.fill_buf()?.is_empty() {
            return Err(BackupError::Damaged("it has data after its end"));
        }
        Ok(())
    }

    fn name(&mut self) -> Result<String, BackupError> {
        String::from_utf8(self.field()?).map_err(|_| BackupError::Damaged("it is damaged"))
    }

    fn field(&mut self) -> Result<Vec<u8>, BackupError> {
        let mut length = [0; 4];
        length.copy_from_slice(&self.take(4)?);
        self.take(u32::from_le_bytes(length) as usize)
    }

    /// Reads exactly this many bytes. A wrong length takes no more memory than the file has bytes.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        (&mut self.input).take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(BackupError::Damaged("it is incomplete"));
        }
        self.digest.update(&bytes);
        self.summary.bytes += length as u64;
        Ok(bytes)
    }
}
