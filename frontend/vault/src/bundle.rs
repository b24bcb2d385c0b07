//! The keys of a cluster in one text file, from which each node gets the same keys.
//!
//! ```text
//! mailprobe bundle 1
//! hash KEY
//! users KEY
//! lineage NUMBER
//! hour HOUR
//! chain SECRET
//! key NAME KEY
//! sha256 CHECKSUM
//! ```
//!
//! KEY, NUMBER, SECRET and CHECKSUM are lower-case hex digits. `key` has one line for each hour key that was imported from a
//! folder without a chain, and NAME is the name of its file. CHECKSUM is the SHA-256 of the lines before it.
//!
//! With a bundle, the keys of its hour and of all later hours can be computed. So it must be deleted when the nodes have it.

use super::chain::{Chain, ChainError, JOIN_AGAIN, Lineage};
use super::{
    HASH_KEY_FILE, HOUR_MS, KEY_BYTES, KEY_FOLDER, KeyName, Secret, USERS_KEY_FILE, destroy, fingerprint,
    hasher, is_destroyed, read_kept_files, read_lasting_key, sync_folder,
};
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::{StoreError, UnixMs};
use thiserror::Error;
use zeroize::Zeroizing;

/// The first line without the version.
const TITLE: &str = "mailprobe bundle ";
const VERSION: u32 = 1;

/// The largest file that is read: ten years of hour keys would need less.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The folder of the keys until it is complete.
const FOLDER_DRAFT: &str = "keys.new";

/// The keys of a cluster.
pub struct Bundle {
    hash: Secret,
    users: Secret,
    chain: Chain,
    /// Imported hour keys, by the names of their files.
    hour_keys: BTreeMap<String, Secret>,
}

impl Bundle {
    /// New keys for a database that is empty.
    ///
    /// # Errors
    ///
    /// The operating system has no random bytes.
    pub fn create(now: UnixMs) -> Result<Bundle, BundleError> {
        let chain = Chain::create(now / HOUR_MS)?;
        Ok(Bundle { hash: Secret::random()?, users: Secret::random()?, chain, hour_keys: BTreeMap::new() })
    }

    /// The keys of a data folder, for a database with its data.
    ///
    /// A folder with a chain may be in use. The bundle has the secret of the present hour, so that no key of a past hour can
    /// be computed. A folder without a chain must not be in use, neither now nor later: the bundle gets a new chain, and a
    /// key `users` if there is none yet, and lacks every key that the folder would create from now on.
    ///
    /// # Errors
    ///
    /// The folder has no keys, or a key is damaged or cannot be read.
    pub fn from_folder(data: &Path, now: UnixMs) -> Result<Bundle, BundleError> {
        let folder = data.join(KEY_FOLDER);
        let unusable = |error: io::Error| BundleError::Folder(folder.clone(), error.to_string());
        let lasting = |file| read_lasting_key(&folder.join(file)).map_err(unusable);
        let found = Chain::read(&folder).map_err(|error| match error {
            ChainError::Io(error) => unusable(error),
            other => BundleError::Keys(folder.clone(), other.to_string()),
        })?;
        let hash = lasting(HASH_KEY_FILE)?.ok_or_else(|| BundleError::NoKeys(folder.clone()))?;
        let users = match lasting(USERS_KEY_FILE)? {
            Some(users) => users.into(),
            None if found.is_none() => Secret::random()?,
            None => {
                let why = format!("{KEY_FOLDER}/{USERS_KEY_FILE} is missing beside the chain; {JOIN_AGAIN}");
                return Err(BundleError::Keys(folder, why));
            }
        };
        let hour = now / HOUR_MS;
        let chain = match found {
            None => Chain::create(hour)?,
            Some(chain) => chain
                .at(hour.max(chain.hour))
                .ok_or_else(|| BundleError::Keys(folder.clone(), ChainError::TooFar.to_string()))?,
        };
        let mut hour_keys = read_kept_files(&folder, now).map_err(unusable)?;
        hour_keys.retain(|name, _| KeyName::parse(name).is_some());
        Ok(Bundle { hash: hash.into(), users, chain, hour_keys })
    }

    /// The keys of a backup, by the names of their files, for a database with its rows. The bundle gets a new chain, and a key
    /// `users` if there is none.
    ///
    /// # Errors
    ///
    /// The backup has no key for hashes, or a key is damaged.
    pub fn from_backup(keys: &BTreeMap<String, Vec<u8>>, now: UnixMs) -> Result<Bundle, BundleError> {
        let find = |name: &str| keys.get(name).map(|key| backup_key(key)).transpose();
        let hash = find(HASH_KEY_FILE)?.ok_or(BundleError::Backup("has no key for hashes"))?;
        let users = find(USERS_KEY_FILE)?.map_or_else(Secret::random, Ok)?;
        let is_needed = |name: &str| KeyName::parse(name).is_some_and(|name| !name.is_over(now));
        let hour_keys = keys.iter().filter(|(name, _)| is_needed(name));
        let hour_keys = hour_keys.map(|(name, key)| Ok((name.clone(), backup_key(key)?)));
        let hour_keys = hour_keys.collect::<Result<_, BundleError>>()?;
        Ok(Bundle { hash, users, chain: Chain::create(now / HOUR_MS)?, hour_keys })
    }

    /// The fingerprint that the vault of a folder with this bundle has.
    pub fn fingerprint(&self) -> u64 {
        fingerprint(&hasher(&self.hash), &[&self.chain.lineage])
    }

    /// Reads the file of a bundle.
    ///
    /// # Errors
    ///
    /// As [`Bundle::from_text`], or the file cannot be read.
    pub fn read(path: &Path) -> Result<Bundle, BundleError> {
        let unreadable = |error: io::Error| BundleError::File(path.to_owned(), error.to_string());
        let mut file = File::open(path).map_err(unreadable)?.take(FILE_BYTES_MAX);
        let mut text = Zeroizing::new(String::new());
        file.read_to_string(&mut text).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => BundleError::NotABundle,
            _ => unreadable(error),
        })?;
        Bundle::from_text(&text)
    }

    /// Writes a new file that only its owner can read, and syncs it.
    ///
    /// # Errors
    ///
    /// The file exists, or cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<(), BundleError> {
        let written = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(self.to_text().as_bytes())?;
            file.sync_all()?;
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_folder(folder.unwrap_or(Path::new(".")))
        };
        written().map_err(|error| BundleError::File(path.to_owned(), error.to_string()))
    }

    /// The text of the file of the bundle. Only its owner may be able to read this file.
    pub fn to_text(&self) -> Zeroizing<String> {
        // The capacity prevents copies that would not be overwritten.
        let mut text = Zeroizing::new(String::with_capacity(512 + 128 * self.hour_keys.len()));
        // Writing to a text does not fail.
        let _ = writeln!(text, "{TITLE}{VERSION}");
        push_field(&mut text, "hash", &self.hash[..]);
        push_field(&mut text, "users", &self.users[..]);
        push_field(&mut text, "lineage", &self.chain.lineage);
        let _ = writeln!(text, "hour {}", self.chain.hour);
        push_field(&mut text, "chain", &self.chain.secret[..]);
        for (name, key) in &self.hour_keys {
            let _ = write!(text, "key ");
            push_field(&mut text, name, &key[..]);
        }
        let checksum = digest(&SHA256, text.as_bytes());
        push_field(&mut text, "sha256", checksum.as_ref());
        text
    }

    /// Reads the text of a bundle.
    ///
    /// # Errors
    ///
    /// It is no bundle, or of a newer version, or incomplete or changed.
    pub fn from_text(text: &str) -> Result<Bundle, BundleError> {
        let (title, _) = text.split_once('\n').unwrap_or((text, ""));
        let version = title.trim_end().strip_prefix(TITLE).ok_or(BundleError::NotABundle)?;
        if version != VERSION.to_string() {
            let version = version.parse::<u32>().ok().filter(|version| *version > VERSION);
            return Err(version.map_or(BundleError::NotABundle, BundleError::Newer));
        }
        let (lines, checksum) =
            text.trim_end_matches('\n').rsplit_once('\n').ok_or(BundleError::Incomplete)?;
        let checksum = checksum.strip_prefix("sha256 ").ok_or(BundleError::Incomplete)?;
        let covered = &text[..lines.len() + 1];
        if HEXLOWER.encode(digest(&SHA256, covered.as_bytes()).as_ref()) != checksum {
            return Err(BundleError::Changed);
        }
        let mut fields = Fields { lines: lines.lines(), number: 0 };
        fields.lines.next();
        let hash = fields.key("hash ")?;
        let users = fields.key("users ")?;
        let lineage = fields.lineage("lineage ")?;
        let hour = fields.hour("hour ")?;
        let secret = fields.key("chain ")?;
        let mut hour_keys = BTreeMap::new();
        while let Some((name, key)) = fields.hour_key()? {
            if hour_keys.insert(name, key).is_some() {
                return Err(fields.wrong("has a name for the second time"));
            }
        }
        Ok(Bundle { hash, users, chain: Chain { lineage, hour, secret }, hour_keys })
    }

    /// Writes the keys to a data folder, which is created if it is missing. The folder of the keys is complete or absent, also
    /// after a crash. The caller holds the lock of the data folder.
    ///
    /// # Errors
    ///
    /// [`BundleError::HasKeys`], or the folder cannot be written.
    pub fn install(&self, data: &Path) -> Result<(), BundleError> {
        self.install_step_by_step(data, &mut || Ok(()))
    }

    /// `after_step` is called after each file operation, so that a test can stop there.
    fn install_step_by_step(
        &self,
        data: &Path,
        after_step: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<(), BundleError> {
        let folder = data.join(KEY_FOLDER);
        let draft = data.join(FOLDER_DRAFT);
        match std::fs::read_dir(&folder) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(BundleError::HasKeys(folder));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(BundleError::Folder(folder, error.to_string())),
        }
        let installed = self.write_folder(data, &draft, after_step);
        installed.map_err(|error| {
            // The first error is returned. The next attempt removes the files in any case.
            let _ = remove_draft(&draft);
            BundleError::Folder(data.to_owned(), error.to_string())
        })
    }

    fn write_folder(
        &self,
        data: &Path,
        draft: &Path,
        after_step: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(data)?;
        remove_draft(draft)?;
        DirBuilder::new().mode(0o700).create(draft)?;
        after_step()?;
        let lasting = [(HASH_KEY_FILE, &self.hash), (USERS_KEY_FILE, &self.users)];
        let imported = self.hour_keys.iter().map(|(name, key)| (name.as_str(), key));
        for (name, key) in lasting.into_iter().chain(imported) {
            write_key(&draft.join(name), key)?;
            after_step()?;
        }
        self.chain.write_new(draft)?;
        after_step()?;
        sync_folder(draft)?;
        // An empty folder is replaced.
        std::fs::rename(draft, data.join(KEY_FOLDER))?;
        after_step()?;
        sync_folder(data)
    }
}

fn push_field(text: &mut String, name: &str, bytes: &[u8]) {
    text.push_str(name);
    text.push(' ');
    HEXLOWER.encode_append(bytes, text);
    text.push('\n');
}

/// A key of a backup. A file of zeros is a destroyed key.
fn backup_key(bytes: &[u8]) -> Result<Secret, BundleError> {
    let key = <[u8; KEY_BYTES]>::try_from(bytes).ok().filter(|key| !is_destroyed(key));
    key.map(Secret::from).ok_or(BundleError::Backup("has a damaged key"))
}

fn write_key(path: &Path, key: &Secret) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&key[..])?;
    file.sync_all()
}

/// Destroys the keys that an interrupted installation has left.
fn remove_draft(draft: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(draft) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        destroy(&entry?.path())?;
    }
    std::fs::remove_dir(draft)
}

/// The lines between the title and the checksum.
struct Fields<'t> {
    lines: std::str::Lines<'t>,
    /// The number of lines that were read.
    number: usize,
}

impl<'t> Fields<'t> {
    /// The value of the next line, which must have this name.
    fn value(&mut self, name: &'static str) -> Result<&'t str, BundleError> {
        self.number += 1;
        let value = self.lines.next().and_then(|line| line.strip_prefix(name));
        value.ok_or(self.wrong("has another name than this version writes there"))
    }

    fn key(&mut self, name: &'static str) -> Result<Secret, BundleError> {
        let value = self.value(name)?;
        self.secret(value)
    }

    fn secret(&self, hex: &str) -> Result<Secret, BundleError> {
        let mut key = Secret::default();
        self.decode(hex, &mut key[..])?;
        // A file of zeros is a destroyed key.
        if is_destroyed(&key) { Err(self.wrong("has a key of zeros")) } else { Ok(key) }
    }

    fn lineage(&mut self, name: &'static str) -> Result<Lineage, BundleError> {
        let mut lineage = Lineage::default();
        let value = self.value(name)?;
        self.decode(value, &mut lineage)?;
        Ok(lineage)
    }

    fn hour(&mut self, name: &'static str) -> Result<u64, BundleError> {
        self.value(name)?.parse().map_err(|_| self.wrong("has no number"))
    }

    fn hour_key(&mut self) -> Result<Option<(String, Secret)>, BundleError> {
        if self.lines.clone().next().is_none() {
            return Ok(None);
        }
        let value = self.value("key ")?;
        let (name, key) = value.split_once(' ').ok_or(self.wrong("has no key"))?;
        if KeyName::parse(name).is_none() {
            return Err(self.wrong("has a name that is not one of an hour key"));
        }
        Ok(Some((name.to_owned(), self.secret(key)?)))
    }

    fn decode(&self, hex: &str, bytes: &mut [u8]) -> Result<(), BundleError> {
        let fits = HEXLOWER.decode_len(hex.len()) == Ok(bytes.len());
        let decoded = fits && HEXLOWER.decode_mut(hex.as_bytes(), bytes).is_ok();
        if decoded { Ok(()) } else { Err(self.wrong("has a wrong number of hex digits")) }
    }

    fn wrong(&self, why: &'static str) -> BundleError {
        // The title is the first line.
        BundleError::Line(self.number + 1, why)
    }
}

/// The remedy for a damaged file of a bundle.
const AGAIN: &str = "copy the file again, or write a new one with `mailprobe cluster init`";

/// The reason why a bundle was not made, read or installed, with a remedy. No part of a key is in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BundleError {
    /// The text does not begin like a bundle.
    #[error("this is not a bundle of keys; use the file that `mailprobe cluster init` wrote")]
    NotABundle,
    /// A newer version of mailprobe wrote the bundle; this is its version of the format.
    #[error("the bundle has version {0}, and this mailprobe reads version {VERSION}; upgrade this mailprobe")]
    Newer(u32),
    /// The line with the checksum is missing.
    #[error("the end of the bundle is missing; {AGAIN}")]
    Incomplete,
    /// The checksum is wrong.
    #[error("the bundle was changed: its checksum is wrong; {AGAIN}")]
    Changed,
    /// The line with this number is wrong although the checksum is right.
    #[error("line {0} of the bundle {1}; {AGAIN}")]
    Line(usize, &'static str),
    /// The folder has keys already.
    #[error(
        "{0} has keys already; choose another folder with --data. If these keys are not needed, move them away"
    )]
    HasKeys(PathBuf),
    /// The folder has no keys.
    #[error("{0} has no keys; choose the data folder of a server, or create new keys for an empty database")]
    NoKeys(PathBuf),
    /// A key of the folder is damaged or missing; the text has the remedy.
    #[error("cannot use the keys in {0}: {1}")]
    Keys(PathBuf, String),
    /// The folder cannot be read or written.
    #[error("cannot use the folder {0} ({1}); check its owner and its disk")]
    Folder(PathBuf, String),
    /// The keys of a backup cannot be used.
    #[error("the backup {0}; use another backup")]
    Backup(&'static str),
    /// The file of the bundle cannot be read or written.
    #[error("cannot use {0} as the file of the bundle: {1}")]
    File(PathBuf, String),
    /// The operating system has no random bytes.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests;
