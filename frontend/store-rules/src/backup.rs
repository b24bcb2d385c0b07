//! Backups: all rows as of one commit and the key files, in a file that any database and any later version can read.
//!
//! The format, version 1, is a line `mailprobe backup 1`, records, and the SHA-256 of everything before it.
//! A record has a byte for its kind, and fields, each with its length (4 bytes, little-endian) and its bytes. `K`: name
//! and content of a key file. `T`: name of a table, to which the following rows belong. `R`: key and value of a row, in
//! redb's encoding of their types. `E`: the end, without fields.

use crate::row::{Fixed, Row};
use crate::rows::{KeyRange, Rows, Table, Walk};
use crate::tables::{FORMAT, META, META_FORMAT, META_KEYS};
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use store::UnixMs;
use store::backup::{BackupError, BackupSummary};
use vault::Vault;

/// The error for a backup whose content is wrong.
pub const DAMAGED: BackupError = BackupError::Damaged("it is damaged");

/// The longest name of a key file.
const NAME_BYTES_MAX: usize = 200;

const MAGIC: &[u8] = b"mailprobe backup ";
const VERSION: &[u8] = b"1\n";

const KEY_FILE: u8 = b'K';
const TABLE: u8 = b'T';
const ROW: u8 = b'R';
const END: u8 = b'E';

const BUFFER_BYTES: usize = 64 * 1024;

/// A writer of a backup, which computes the checksum.
pub struct BackupWriter<'w> {
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

    /// Writes the keys that the rows need, as key files.
    ///
    /// # Errors
    ///
    /// A key cannot be read, or the sink not be written.
    pub fn keys(&mut self, vault: &Vault, now: UnixMs) -> io::Result<()> {
        for (name, key) in vault.keys_for_backup(now)? {
            self.key_file(&name, &*key)?;
        }
        Ok(())
    }

    /// Writes all tables. The fingerprint of the keys is that of the key files: a backup has no chain.
    ///
    /// # Errors
    ///
    /// A row cannot be read, or the sink not be written.
    pub fn tables(&mut self, rows: &dyn Rows, vault: &Vault) -> Result<(), BackupError> {
        let fingerprint = Fixed(vault.hash_key_fingerprint()).encode();
        for table in Table::KEPT {
            self.table(table.name())?;
            let mut failure = None;
            rows.walk(table, KeyRange::ALL, &mut |key, value| {
                let is_fingerprint = table == META.table && key == META_KEYS.as_bytes();
                let value = if is_fingerprint { &fingerprint } else { value };
                Ok(match self.row(key, value) {
                    Ok(()) => Walk::On,
                    Err(error) => {
                        failure = Some(error);
                        Walk::Stop
                    }
                })
            })?;
            if let Some(error) = failure {
                return Err(error.into());
            }
        }
        Ok(())
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
pub enum Record {
    /// A key file.
    KeyFile {
        /// Its name in the folder of keys.
        name: String,
        /// Its bytes.
        content: Vec<u8>,
    },
    /// The start of a table.
    Table {
        /// Its name.
        name: String,
    },
    /// A row of the last table.
    Row {
        /// The bytes of its key.
        key: Vec<u8>,
        /// The bytes of its value.
        value: Vec<u8>,
    },
}

/// A reader of a backup. Its records are authentic only after [`BackupReader::next_record`] has returned `None`.
pub struct BackupReader<R> {
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
    pub fn next_record(&mut self) -> Result<Option<Record>, BackupError> {
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

/// Opens a backup.
///
/// # Errors
///
/// [`BackupError`]: it cannot be read, or is no backup.
pub fn open(backup: &Path) -> Result<BackupReader<impl BufRead>, BackupError> {
    BackupReader::begin(BufReader::with_capacity(1 << 16, File::open(backup)?))
}

/// Reads a backup to its end and returns its summary.
///
/// # Errors
///
/// [`BackupError`]: it could not be restored.
pub fn verify(backup: &Path) -> Result<BackupSummary, BackupError> {
    let mut reader = open(backup)?;
    let mut names: BTreeSet<&str> = Table::KEPT.into_iter().map(Table::name).collect();
    let mut table = None;
    let mut format = None;
    while let Some(record) = reader.next_record()? {
        match record {
            Record::KeyFile { name, .. } if !is_plain(&name) => return Err(DAMAGED),
            Record::KeyFile { .. } => {}
            // Each table occurs once, and all are known.
            Record::Table { name } if !names.remove(name.as_str()) => return Err(BackupError::Newer),
            Record::Table { name } => table = Some(name),
            Record::Row { key, value } => match &table {
                None => return Err(DAMAGED),
                Some(name) if name == META.table.name() && key == META_FORMAT.as_bytes() => {
                    format = Some(<[u8; 8]>::try_from(value).map_err(|_| DAMAGED)?);
                }
                Some(_) => {}
            },
        }
    }
    match format.map(u64::from_le_bytes) {
        Some(format) if format > u64::from(FORMAT) => Err(BackupError::Newer),
        Some(_) => Ok(reader.summary()),
        None => Err(DAMAGED),
    }
}

/// Whether a name has no path separators and is not special.
fn is_plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.chars().all(fits)
}
