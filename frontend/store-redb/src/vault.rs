//! Keys that make data unreadable on time.
//!
//! redb copies pages on write, so a row that was removed stands in the file until its page is used again, and backups
//! keep it for good. What must be unreadable once its time has come is therefore sealed (ChaCha20-Poly1305, RFC 8439)
//! under a key that is never in redb: one for each hour of expiry and kind of data, each a file of `DIR/keys/`. When
//! the hour is over the file is overwritten, synced and unlinked. Without its key a row is as good as gone.
//!
//! What must be found by its content but not read is kept as a keyed hash (HMAC-SHA256, RFC 2104, cut to 16 bytes);
//! that key is a file there too, and lasts. So does the key of what has no term, the addresses of users.
//!
//! A key is on the disk before it seals anything: file written and synced, renamed to its name, folder synced.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use store::{BATCH_KEEP_MS, BATCH_OPEN_MS, LIST_KEEP_MS, RETENTION_MS, RETENTION_SHORT_MS, UnixMs};
use store::{OpenError, StoreError};

/// The folder of the keys in the data folder.
pub const KEY_FOLDER: &str = "keys";

/// The file of the key for keyed hashes.
const HASH_KEY_FILE: &str = "hash";

/// The file of the key for addresses of users, which last as long as their accounts.
const USERS_KEY_FILE: &str = "users";

/// What a draft of a key file ends with.
const DRAFT: &str = ".new";

const KEY_BYTES: usize = 32;
const HOUR_MS: UnixMs = 60 * 60 * 1000;

/// How long the key of an open batch outlives the batch's own time, so that what is given up can be read once more.
/// Together they last no longer than a complete batch is kept: what pages of the file still hold of a batch that was
/// completed at once is no longer readable than the batch.
const OPEN_KEY_EXTRA_MS: UnixMs = 24 * HOUR_MS;

const _: () = assert!(BATCH_OPEN_MS + OPEN_KEY_EXTRA_MS <= BATCH_KEEP_MS);

/// What a key seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum KeyClass {
    /// Results that are kept for a day.
    ShortResult,
    /// Results that are kept for a week.
    LongResult,
    /// Batches that are complete.
    Batch,
    /// Batches with unanswered rows.
    OpenBatch,
    /// Lists of the dashboard.
    List,
}

impl KeyClass {
    const ALL: [KeyClass; 5] =
        [KeyClass::ShortResult, KeyClass::LongResult, KeyClass::Batch, KeyClass::OpenBatch, KeyClass::List];

    /// How long after its sealing it expires.
    pub fn keep_ms(self) -> UnixMs {
        match self {
            KeyClass::ShortResult => RETENTION_SHORT_MS,
            KeyClass::LongResult => RETENTION_MS,
            KeyClass::Batch => BATCH_KEEP_MS,
            KeyClass::OpenBatch => BATCH_OPEN_MS + OPEN_KEY_EXTRA_MS,
            KeyClass::List => LIST_KEEP_MS,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            KeyClass::ShortResult => "short",
            KeyClass::LongResult => "long",
            KeyClass::Batch => "batch",
            KeyClass::OpenBatch => "open",
            KeyClass::List => "list",
        }
    }
}

/// Names a key: what it seals, and the hour since 1970 in which that expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct KeyName {
    class: KeyClass,
    hour: u64,
}

impl KeyName {
    fn of(class: KeyClass, expires_at: UnixMs) -> KeyName {
        KeyName { class, hour: expires_at / HOUR_MS }
    }

    fn file(self) -> String {
        format!("{}-{}", self.class.as_str(), self.hour)
    }

    fn parse(file: &str) -> Option<KeyName> {
        let (class, hour) = file.split_once('-')?;
        let class = KeyClass::ALL.into_iter().find(|known| known.as_str() == class)?;
        let name = KeyName { class, hour: hour.parse().ok()? };
        (name.file() == file).then_some(name)
    }

    /// Everything that it sealed has expired.
    fn is_over(self, now: UnixMs) -> bool {
        self.hour < now / HOUR_MS
    }
}

/// The place of sealed bytes: they open nowhere else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'k> {
    /// The table.
    pub table: &'static str,
    /// The key of the row.
    pub row: &'k [u8],
}

impl Place<'_> {
    fn associated_data(self) -> Aad<Vec<u8>> {
        // No table's name holds a zero byte.
        Aad::from([self.table.as_bytes(), &[0], self.row].concat())
    }
}

/// A key to seal and open with.
#[derive(Clone)]
pub(super) struct VaultKey(Arc<LessSafeKey>);

impl VaultKey {
    /// Nonce, ciphertext, tag.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub fn seal(&self, place: Place<'_>, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        // Random nonces are safe for 2^32 messages under a key (NIST SP 800-38D 8.3 counts so for 96 bits): an hour's
        // writes at the writer's full speed are a tenth of that.
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        let mut sealed = Vec::with_capacity(NONCE_LEN + plain.len() + CHACHA20_POLY1305.tag_len());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, place.associated_data(), &mut sealed[NONCE_LEN..])
            .map_err(|_| StoreError::Failed("a row is too long to be sealed".into()))?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// `None` when another key sealed it, or for another place.
    pub fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.0.open_in_place(nonce, place.associated_data(), &mut bytes).ok()?.len();
        bytes.truncate(plain);
        Some(bytes)
    }
}

/// See the module.
pub(super) struct Vault {
    /// None keeps the keys in memory, for a store without a folder.
    folder: Option<PathBuf>,
    hasher: hmac::Key,
    keys: RwLock<HashMap<KeyName, VaultKey>>,
    /// Made with the first user.
    users: RwLock<Option<VaultKey>>,
    /// Held while a file is made or destroyed.
    files: Mutex<()>,
    /// Since 1970, the hour for which the keys of results were made last, plus one.
    results_prepared: AtomicU64,
    /// Why a file could not be made, since then.
    trouble: Mutex<Option<StoreError>>,
    /// A key for hashes that has yet to be kept: there was none.
    new_hash_key: Mutex<Option<[u8; KEY_BYTES]>>,
}

impl Vault {
    /// The vault of a data folder. Where there is none it is made by [`Vault::keep`].
    pub fn open(data: &Path) -> Result<Vault, OpenError> {
        let folder = data.join(KEY_FOLDER);
        let unusable = |error: io::Error| OpenError::Folder(folder.clone(), error.to_string());
        let found = read_lasting_key(&folder.join(HASH_KEY_FILE)).map_err(unusable)?;
        let hash_key = match found {
            Some(key) => key,
            None => {
                let mut key = [0; KEY_BYTES];
                random(&mut key)?;
                key
            }
        };
        let keys = RwLock::new(read_keys(&folder).map_err(unusable)?);
        let users = read_lasting_key(&folder.join(USERS_KEY_FILE)).map_err(unusable)?;
        Ok(Vault {
            hasher: hasher(&hash_key),
            keys,
            users: RwLock::new(users.as_ref().map(vault_key)),
            files: Mutex::default(),
            results_prepared: AtomicU64::new(0),
            trouble: Mutex::default(),
            new_hash_key: Mutex::new(found.is_none().then_some(hash_key)),
            folder: Some(folder),
        })
    }

    /// Makes what is new of it durable.
    pub fn keep(&self) -> Result<(), OpenError> {
        let mut new = self.new_hash_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(key), Some(folder)) = (&*new, &self.folder) {
            make_folder(folder)
                .and_then(|()| place_key(folder, HASH_KEY_FILE, key))
                .map_err(|error| OpenError::Folder(folder.clone(), error.to_string()))?;
        }
        *new = None;
        Ok(())
    }

    /// A vault that ends with the process.
    #[cfg(test)]
    pub fn in_memory() -> Vault {
        let mut hash_key = [0; KEY_BYTES];
        random(&mut hash_key).unwrap();
        Vault {
            folder: None,
            hasher: hasher(&hash_key),
            keys: RwLock::default(),
            users: RwLock::default(),
            files: Mutex::default(),
            results_prepared: AtomicU64::new(0),
            trouble: Mutex::default(),
            new_hash_key: Mutex::new(Some(hash_key)),
        }
    }

    /// Tells the key for hashes from others, and nothing of it.
    pub fn fingerprint(&self) -> u64 {
        let hash = self.hash("fingerprint", &[]);
        u64::from_be_bytes(hash[..8].try_into().expect("8 of 16 bytes"))
    }

    /// Its key for hashes has yet to be kept: there was none.
    pub fn is_new(&self) -> bool {
        self.new_hash_key.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// There is a key for addresses of users.
    pub fn has_users_key(&self) -> bool {
        self.users.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether key files can be made; what is new could not be sealed otherwise.
    pub fn health(&self) -> Result<(), StoreError> {
        self.trouble().clone().map_or(Ok(()), Err)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_trouble(&self, error: StoreError) -> StoreError {
        *self.trouble() = Some(error.clone());
        error
    }

    /// Keyed hash of some parts; `purpose` keeps hashes of one kind from meeting those of another.
    pub fn hash(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.hasher);
        for part in [purpose.as_bytes()].iter().chain(parts) {
            // With its length, so that no two lists of parts read the same.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let mut hash = [0; 16];
        hash.copy_from_slice(&tag.as_ref()[..16]);
        hash
    }

    /// A secret made of the vault's lasting key, another one for each purpose.
    pub fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        let mut context = hmac::Context::with_key(&self.hasher);
        // No hash of parts begins like this: it begins with the length of its purpose.
        context.update(&u64::MAX.to_be_bytes());
        context.update(purpose.as_bytes());
        let tag = context.sign();
        let mut secret = [0; KEY_BYTES];
        secret.copy_from_slice(tag.as_ref());
        secret
    }

    /// The key for what expires then; made, and durable, if there is none yet.
    pub fn sealing_key(&self, class: KeyClass, expires_at: UnixMs) -> Result<VaultKey, StoreError> {
        let name = KeyName::of(class, expires_at);
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        let _files = self.lock_files();
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        let bytes = match &self.folder {
            Some(folder) => make_key(folder, &name.file())
                .map_err(|error| self.note_trouble(failed("make", name, &error)))?,
            None => {
                let mut bytes = [0; KEY_BYTES];
                random(&mut bytes)?;
                bytes
            }
        };
        let key = vault_key(&bytes);
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(name, key.clone());
        Ok(key)
    }

    /// The key for addresses of users; made, and durable, if there is none yet.
    pub fn users_key(&self) -> Result<VaultKey, StoreError> {
        if let Some(key) = &*self.users.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(key.clone());
        }
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &*users {
            return Ok(key.clone());
        }
        let bytes = match &self.folder {
            Some(folder) => make_key(folder, USERS_KEY_FILE).map_err(|error| {
                let why = format!("cannot make the key {KEY_FOLDER}/{USERS_KEY_FILE}: {error}");
                self.note_trouble(StoreError::NotDone(why))
            })?,
            None => {
                let mut bytes = [0; KEY_BYTES];
                random(&mut bytes)?;
                bytes
            }
        };
        Ok(users.insert(vault_key(&bytes)).clone())
    }

    /// The key of what expires then, if it is still there.
    pub fn opening_key(&self, class: KeyClass, expires_at: UnixMs) -> Option<VaultKey> {
        self.find(KeyName::of(class, expires_at))
    }

    /// Destroys the keys whose hour is over; says how many. One that cannot be destroyed keeps none of the others, and is tried
    /// again next time.
    pub fn expire(&self, now: UnixMs) -> Result<u64, StoreError> {
        let _files = self.lock_files();
        let over: Vec<KeyName> = {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            keys.keys().copied().filter(|name| name.is_over(now)).collect()
        };
        let mut destroyed = 0;
        let mut failure = None;
        for name in &over {
            if let Some(folder) = &self.folder
                && let Err(error) = destroy(&folder.join(name.file()))
            {
                failure.get_or_insert(failed("destroy", *name, &error));
                continue;
            }
            self.keys.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            destroyed += 1;
        }
        if let (Some(folder), Some(name)) = (&self.folder, over.first()) {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| failed("destroy", *name, &error))?;
        }
        failure.map_or(Ok(destroyed), Err)
    }

    /// Makes the keys of this hour and the next, so that nobody who answers requests waits for the disk.
    pub fn prepare(&self, now: UnixMs) -> Result<(), StoreError> {
        self.prepare_for(&KeyClass::ALL, now)?;
        *self.trouble() = None;
        Ok(())
    }

    /// Those that the result of a check which begins now will need: whoever pays for it is sure of its answer.
    pub fn prepare_for_result(&self, now: UnixMs) -> Result<(), StoreError> {
        let hour = now / HOUR_MS + 1;
        // Each check asks, and nothing destroys these keys before their hour is over.
        if self.results_prepared.load(Ordering::Acquire) != hour {
            self.prepare_for(&[KeyClass::ShortResult, KeyClass::LongResult], now)?;
            self.results_prepared.store(hour, Ordering::Release);
        }
        Ok(())
    }

    fn prepare_for(&self, classes: &[KeyClass], now: UnixMs) -> Result<(), StoreError> {
        for class in classes {
            let expires_at = now.saturating_add(class.keep_ms());
            self.sealing_key(*class, expires_at)?;
            self.sealing_key(*class, expires_at.saturating_add(HOUR_MS))?;
        }
        Ok(())
    }

    fn find(&self, name: KeyName) -> Option<VaultKey> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    fn lock_files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of keys in a data folder that have not expired, by name: what a backup carries.
pub(super) fn kept_files(data: &Path, now: UnixMs) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(data.join(KEY_FOLDER))? {
        let entry = entry?;
        if let Ok(file) = entry.file_name().into_string()
            && is_kept(&file, now)
        {
            files.push((file, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a file of the folder is a key that something may still be sealed under, or hashed with.
pub(super) fn is_kept(file: &str, now: UnixMs) -> bool {
    file == HASH_KEY_FILE
        || file == USERS_KEY_FILE
        || KeyName::parse(file).is_some_and(|name| !name.is_over(now))
}

fn failed(what: &str, name: KeyName, error: &io::Error) -> StoreError {
    StoreError::NotDone(format!("cannot {what} the key {KEY_FOLDER}/{}: {error}", name.file()))
}

fn random(bytes: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(bytes).map_err(|error| StoreError::NotDone(format!("no random bytes: {error}")))
}

fn hasher(key: &[u8; KEY_BYTES]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

pub(super) fn vault_key(bytes: &[u8; KEY_BYTES]) -> VaultKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("32 bytes");
    VaultKey(Arc::new(LessSafeKey::new(key)))
}

fn read_keys(folder: &Path) -> io::Result<HashMap<KeyName, VaultKey>> {
    let mut keys = HashMap::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(keys),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let file = entry.file_name();
        let Some(file) = file.to_str() else { continue };
        if file.ends_with(DRAFT) {
            // Its making was cut short: it never sealed anything.
            std::fs::remove_file(entry.path())?;
        } else if let Some(name) = KeyName::parse(file)
            && let Some(bytes) = read_key(&entry.path())?
        {
            if is_destroyed(&bytes) {
                // Its unlinking was cut short.
                std::fs::remove_file(entry.path())?;
            } else {
                keys.insert(name, vault_key(&bytes));
            }
        }
    }
    Ok(keys)
}

/// `None` for a file that is not there.
fn read_key(path: &Path) -> io::Result<Option<[u8; KEY_BYTES]>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = [0; KEY_BYTES];
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// What a destruction that was cut short leaves. As good as no random key is this.
fn is_destroyed(bytes: &[u8; KEY_BYTES]) -> bool {
    *bytes == [0; KEY_BYTES]
}

/// A key that lasts: nobody destroys it, so a file of zeros is damaged.
fn read_lasting_key(path: &Path) -> io::Result<Option<[u8; KEY_BYTES]>> {
    match read_key(path)? {
        Some(bytes) if is_destroyed(&bytes) => {
            let file = path.file_name().unwrap_or_default().display();
            Err(io::Error::other(format!(
                "{KEY_FOLDER}/{file} is damaged: it holds zeros; restore it from a backup"
            )))
        }
        key => Ok(key),
    }
}

/// Makes a key and its file.
fn make_key(folder: &Path, file: &str) -> io::Result<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    place_key(folder, file, &bytes)?;
    Ok(bytes)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        // Whoever made it may have been killed before this.
        _ => File::open(folder.parent().unwrap_or(folder))?.sync_all(),
    }
}

/// Writes a key file that is whole or not there, whatever crashes.
fn place_key(folder: &Path, file: &str, bytes: &[u8; KEY_BYTES]) -> io::Result<()> {
    let draft = folder.join(format!("{file}{DRAFT}"));
    let mut draft_file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    draft_file.write_all(bytes)?;
    draft_file.sync_all()?;
    std::fs::rename(&draft, folder.join(file))?;
    File::open(folder)?.sync_all()
}

/// Overwrites a key file, syncs and unlinks it. One that is not there is destroyed already.
fn destroy(path: &Path) -> io::Result<()> {
    let mut file = match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    file.write_all(&[0; KEY_BYTES])?;
    file.sync_all()?;
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests;
