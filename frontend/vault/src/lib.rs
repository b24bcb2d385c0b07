//! Keys that make data unreadable at its expiry.
//!
//! redb copies pages on write. So a removed row remains in the file until its page is reused, and backups keep it
//! permanently. Data that must become unreadable is therefore sealed (ChaCha20-Poly1305, RFC 8439) under a key outside
//! of redb: one for each hour of expiry and kind of data, each in a file of `DIR/keys/`. After the hour the file is
//! overwritten, synced and unlinked. Without its key a row cannot be read.
//!
//! Data that must be found by its content without being readable is stored as a keyed hash (HMAC-SHA256, RFC 2104,
//! truncated to 16 bytes). The key of hashes is a permanent file there. The key for data without an expiry, the email
//! addresses of users, is permanent as well.
//!
//! A key is on the disk before it seals anything: its file is written and synced, renamed to its name, and the folder
//! synced.
//!
//! If the folder has a file `chain`, the vault is a ratchet: it derives the keys of hours in the order of time, and a
//! derived key cannot be computed after its hour (`chain.rs`). So the nodes of a cluster have the same keys. Files of hour
//! keys beside `chain` come from a folder without it ([`bundle`]). They take precedence for their hours, and are destroyed
//! like all others.

pub mod bundle;
mod chain;
mod secret;

pub use secret::Secret;

use chain::{Chain, JOIN_AGAIN, Ratchet};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use std::collections::{BTreeMap, HashMap};
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

/// The file of the key for users' email addresses, which remain as long as their accounts.
const USERS_KEY_FILE: &str = "users";

/// The suffix of the draft of a key file.
const DRAFT: &str = ".new";

const KEY_BYTES: usize = 32;
const HOUR_MS: UnixMs = 60 * 60 * 1000;

/// How long the key of an open batch outlives the batch's own time, so that an ended batch can be read once more. The
/// sum is at most the time that a complete batch is kept. So old pages with the data of a batch that was completed at
/// once are not readable for longer than the batch.
const OPEN_KEY_EXTRA_MS: UnixMs = 24 * HOUR_MS;

const _: () = assert!(BATCH_OPEN_MS + OPEN_KEY_EXTRA_MS <= BATCH_KEEP_MS);

/// The kinds of data that a key seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyClass {
    /// Results that are kept for a day.
    ShortResult,
    /// Results that are kept for a week.
    LongResult,
    /// Complete batches.
    Batch,
    /// Batches with unanswered rows.
    OpenBatch,
    /// Lists with their content.
    List,
}

impl KeyClass {
    /// Every kind of data that a key seals.
    pub const ALL: [KeyClass; 5] =
        [KeyClass::ShortResult, KeyClass::LongResult, KeyClass::Batch, KeyClass::OpenBatch, KeyClass::List];

    /// The time between sealing and expiry.
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

/// The identity of a key: the kind of its data, and the hour since 1970 of the expiry.
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

    /// Whether all data that it sealed has expired.
    fn is_over(self, now: UnixMs) -> bool {
        self.hour < now / HOUR_MS
    }
}

/// The position of sealed bytes: they can be opened at no other.
#[derive(Debug, Clone, Copy)]
pub struct Place<'k> {
    /// The table.
    pub table: &'static str,
    /// The key of the row.
    pub row: &'k [u8],
}

impl Place<'_> {
    fn associated_data(self) -> Aad<Vec<u8>> {
        // No name of a table has a zero byte.
        Aad::from([self.table.as_bytes(), &[0], self.row].concat())
    }
}

/// A key to seal and open with.
#[derive(Clone)]
pub struct VaultKey(Arc<LessSafeKey>);

impl VaultKey {
    /// Returns nonce, ciphertext and tag.
    ///
    /// # Errors
    ///
    /// The operating system has no random bytes.
    pub fn seal(&self, place: Place<'_>, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        // Random nonces are safe for 2^32 messages per key (NIST SP 800-38D 8.3 has this limit for 96 bits). An hour's
        // writes at full speed are a tenth of that.
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

    /// `None` if another key sealed it, or for another place.
    pub fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.0.open_in_place(nonce, place.associated_data(), &mut bytes).ok()?.len();
        bytes.truncate(plain);
        Some(bytes)
    }
}

/// The keys of a data folder.
pub struct Vault {
    /// `None` keeps the keys in memory, for a store without a folder.
    folder: Option<PathBuf>,
    hasher: hmac::Key,
    /// The keys that are files, or in memory alone.
    keys: RwLock<HashMap<KeyName, VaultKey>>,
    /// Derives the keys that are not files.
    ratchet: Option<Ratchet>,
    /// Created with the first user. A ratchet has it from the beginning, as all nodes need the same one.
    users: RwLock<Option<VaultKey>>,
    /// Held while a file is created or destroyed.
    files: Mutex<()>,
    /// The hour since 1970 for which the keys of results were last created, plus one.
    results_prepared: AtomicU64,
    /// The reason why a file could not be created, since then.
    trouble: Mutex<Option<StoreError>>,
    /// A new key for hashes that is not on the disk yet.
    new_hash_key: Mutex<Option<[u8; KEY_BYTES]>>,
}

impl Vault {
    /// The vault of a data folder. [`Vault::keep`] creates a missing one.
    pub fn open(data: &Path) -> Result<Vault, OpenError> {
        let folder = data.join(KEY_FOLDER);
        let unusable = |error: io::Error| OpenError::Folder(folder.clone(), error.to_string());
        let chain = Chain::recover(&folder).map_err(|error| error.at_opening(&folder))?;
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
        if chain.is_some() {
            // A node that made its own could not read the data of the others.
            for (file, key) in [(HASH_KEY_FILE, &found), (USERS_KEY_FILE, &users)] {
                if key.is_none() {
                    return Err(missing_beside_chain(folder, file));
                }
            }
        }
        Ok(Vault {
            hasher: hasher(&hash_key),
            keys,
            ratchet: chain.map(Ratchet::new),
            users: RwLock::new(users.as_ref().map(vault_key)),
            files: Mutex::default(),
            results_prepared: AtomicU64::new(0),
            trouble: Mutex::default(),
            new_hash_key: Mutex::new(found.is_none().then_some(hash_key)),
            folder: Some(folder),
        })
    }

    /// Makes new keys durable.
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

    /// A vault in memory, which ends with the process.
    ///
    /// # Errors
    ///
    /// The operating system has no random bytes.
    pub fn in_memory() -> Result<Vault, StoreError> {
        let mut hash_key = [0; KEY_BYTES];
        random(&mut hash_key)?;
        Ok(Vault {
            folder: None,
            hasher: hasher(&hash_key),
            keys: RwLock::default(),
            ratchet: None,
            users: RwLock::default(),
            files: Mutex::default(),
            results_prepared: AtomicU64::new(0),
            trouble: Mutex::default(),
            new_hash_key: Mutex::new(Some(hash_key)),
        })
    }

    /// A number that distinguishes the keys of databases and reveals nothing about them: the key for hashes and, in a
    /// ratchet, the lineage of the chain.
    pub fn fingerprint(&self) -> u64 {
        match &self.ratchet {
            Some(ratchet) => self.fingerprint_of(&[&ratchet.lineage()]),
            None => self.hash_key_fingerprint(),
        }
    }

    /// The fingerprint of a folder with the same key for hashes and without a chain. A backup has this one, since it has
    /// no chain.
    pub fn hash_key_fingerprint(&self) -> u64 {
        self.fingerprint_of(&[])
    }

    fn fingerprint_of(&self, parts: &[&[u8]]) -> u64 {
        fingerprint(&self.hasher, parts)
    }

    /// Whether hour keys are derived from a chain, as the nodes of a cluster need it.
    pub fn has_chain(&self) -> bool {
        self.ratchet.is_some()
    }

    /// Whether its key for hashes is new and not on the disk yet.
    pub fn is_new(&self) -> bool {
        self.new_hash_key.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether there is a key for users' email addresses.
    pub fn has_users_key(&self) -> bool {
        self.users.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether key files can be created; new data could not be sealed otherwise.
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

    /// The keyed hash of several parts; `purpose` separates hashes of different kinds.
    pub fn hash(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 16] {
        keyed_hash(&self.hasher, purpose, parts)
    }

    /// A secret that is derived from the permanent key, different for each purpose.
    pub fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        let mut context = hmac::Context::with_key(&self.hasher);
        // No input of a hash of parts starts with these bytes: it starts with the length of its purpose.
        context.update(&u64::MAX.to_be_bytes());
        context.update(purpose.as_bytes());
        let tag = context.sign();
        let mut secret = [0; KEY_BYTES];
        secret.copy_from_slice(tag.as_ref());
        secret
    }

    /// The key for data with this expiry. A missing one is created and made durable, or derived from the chain.
    ///
    /// # Errors
    ///
    /// Its file cannot be written. The chain is past its hour, or more than ten years before it.
    pub fn sealing_key(&self, class: KeyClass, expires_at: UnixMs) -> Result<VaultKey, StoreError> {
        let name = KeyName::of(class, expires_at);
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        if self.ratchet.is_some() {
            let name = name.file();
            return Err(StoreError::NotDone(format!(
                "the chain has no key {KEY_FOLDER}/{name}, whose hour is over or ten years ahead: check the clock"
            )));
        }
        let _files = self.lock_files();
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        let bytes = match &self.folder {
            Some(folder) => make_key(folder, &name.file())
                .map_err(|error| self.note_trouble(failed("create", name, &error)))?,
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

    /// The key for users' email addresses. A missing one is created and made durable.
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
                let why = format!("cannot create the key {KEY_FOLDER}/{USERS_KEY_FILE}: {error}");
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

    /// The key of data with this expiry, if it still exists.
    pub fn opening_key(&self, class: KeyClass, expires_at: UnixMs) -> Option<VaultKey> {
        self.find(KeyName::of(class, expires_at))
    }

    /// Destroys the keys whose hour is over; returns their number. A failure does not prevent the destruction of the
    /// others, and is repeated at the next call.
    ///
    /// A ratchet also moves its chain to the present hour: each hour counts one key of each class, whether it was derived
    /// or not. Every node has to call this, since each has its own copy of the chain.
    pub fn expire(&self, now: UnixMs) -> Result<u64, StoreError> {
        let _files = self.lock_files();
        let files = self.destroy_files(now);
        let derived = match (&self.ratchet, &self.folder) {
            (Some(ratchet), Some(folder)) => ratchet
                .advance(folder, now / HOUR_MS)
                .map(|hours| hours.saturating_mul(KeyClass::ALL.len() as u64))
                .map_err(|error| {
                    StoreError::NotDone(format!("cannot destroy the keys of past hours: {error}"))
                }),
            _ => Ok(0),
        };
        Ok(files? + derived?)
    }

    fn destroy_files(&self, now: UnixMs) -> Result<u64, StoreError> {
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
            sync_folder(folder).map_err(|error| failed("destroy", *name, &error))?;
        }
        failure.map_or(Ok(destroyed), Err)
    }

    /// Creates or derives the keys of this hour and the next, so that no request waits for the disk.
    pub fn prepare(&self, now: UnixMs) -> Result<(), StoreError> {
        self.prepare_for(&KeyClass::ALL, now)?;
        *self.trouble() = None;
        Ok(())
    }

    /// Creates the keys for the result of a check that starts now, so that a charged answer can be stored.
    pub fn prepare_for_result(&self, now: UnixMs) -> Result<(), StoreError> {
        let hour = now / HOUR_MS + 1;
        // Each check calls this, and these keys are not destroyed before their hour is over.
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

    /// The keys that a backup needs, by the names of their files in a folder without a chain: the permanent ones, and those
    /// of all data that is written until one hour from now. The chain itself is never in a backup: with it, every later
    /// key could be computed.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn keys_for_backup(&self, now: UnixMs) -> io::Result<Vec<(String, Secret)>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let mut keys = BTreeMap::new();
        if let Some(ratchet) = &self.ratchet {
            let last_hour = |class: KeyClass| now.saturating_add(class.keep_ms()) / HOUR_MS + 1;
            let classes = KeyClass::ALL.map(|class| (class, last_hour(class)));
            let derived = ratchet.keys(now / HOUR_MS, &classes)?;
            keys.extend(derived.into_iter().map(|(name, key)| (name.file(), key)));
        }
        // These take precedence.
        keys.extend(read_kept_files(folder, now)?);
        Ok(keys.into_iter().collect())
    }

    /// Whether the vault has all these keys of a backup that are needed at `now`, so that it can read the rows of the backup.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn has_keys(&self, keys: &BTreeMap<String, Vec<u8>>, now: UnixMs) -> io::Result<bool> {
        let own: BTreeMap<String, Secret> = self.keys_for_backup(now)?.into_iter().collect();
        let is_own = |name: &String, key: &Vec<u8>| own.get(name).is_some_and(|own| own[..] == key[..]);
        Ok(keys.contains_key(HASH_KEY_FILE)
            && keys.iter().filter(|(name, _)| is_kept(name, now)).all(|(name, key)| is_own(name, key)))
    }

    fn find(&self, name: KeyName) -> Option<VaultKey> {
        let key = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        key.or_else(|| self.ratchet.as_ref()?.key(name))
    }

    fn lock_files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unexpired keys that are files, by name. The file of the chain is not among them.
fn read_kept_files(folder: &Path, now: UnixMs) -> io::Result<BTreeMap<String, Secret>> {
    let mut keys = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(file) = entry.file_name().into_string() else { continue };
        if !is_kept(&file, now) {
            continue;
        }
        let key = if KeyName::parse(&file).is_some() {
            // A file that has just expired is missing or has zeros.
            read_key(&entry.path())?.filter(|key| !is_destroyed(key))
        } else {
            read_lasting_key(&entry.path())?
        };
        keys.extend(key.map(|key| (file, Secret::from(key))));
    }
    Ok(keys)
}

/// Whether a file of the folder is a key that may still be needed.
pub fn is_kept(file: &str, now: UnixMs) -> bool {
    file == HASH_KEY_FILE
        || file == USERS_KEY_FILE
        || KeyName::parse(file).is_some_and(|name| !name.is_over(now))
}

fn failed(what: &str, name: KeyName, error: &io::Error) -> StoreError {
    StoreError::NotDone(format!("cannot {what} the key {KEY_FOLDER}/{}: {error}", name.file()))
}

fn missing_beside_chain(folder: PathBuf, file: &str) -> OpenError {
    let why = format!("{KEY_FOLDER}/{file} is missing beside the chain; {JOIN_AGAIN}");
    OpenError::Keys { folder, why }
}

fn random(bytes: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(bytes).map_err(|error| StoreError::NotDone(format!("cannot get random bytes: {error}")))
}

fn hasher(key: &[u8; KEY_BYTES]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

fn keyed_hash(hasher: &hmac::Key, purpose: &str, parts: &[&[u8]]) -> [u8; 16] {
    let mut context = hmac::Context::with_key(hasher);
    for part in [purpose.as_bytes()].iter().chain(parts) {
        // The length of each part is included, so that different lists of parts have different inputs.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let tag = context.sign();
    let mut hash = [0; 16];
    hash.copy_from_slice(&tag.as_ref()[..16]);
    hash
}

fn fingerprint(hasher: &hmac::Key, parts: &[&[u8]]) -> u64 {
    let hash = keyed_hash(hasher, "fingerprint", parts);
    u64::from_be_bytes(hash[..8].try_into().expect("8 of 16 bytes"))
}

/// The key with these bytes.
pub fn vault_key(bytes: &[u8; KEY_BYTES]) -> VaultKey {
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
            // Its creation was interrupted, so it never sealed anything.
            std::fs::remove_file(entry.path())?;
        } else if let Some(name) = KeyName::parse(file)
            && let Some(bytes) = read_key(&entry.path())?
        {
            if is_destroyed(&bytes) {
                // Its unlinking was interrupted.
                std::fs::remove_file(entry.path())?;
            } else {
                keys.insert(name, vault_key(&bytes));
            }
        }
    }
    Ok(keys)
}

/// `None` for a missing file.
fn read_key(path: &Path) -> io::Result<Option<[u8; KEY_BYTES]>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = [0; KEY_BYTES];
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// The content after an interrupted destruction. No random key is equal to this.
fn is_destroyed(bytes: &[u8; KEY_BYTES]) -> bool {
    *bytes == [0; KEY_BYTES]
}

/// Reads a permanent key: it is never destroyed, so a file of zeros is damaged.
fn read_lasting_key(path: &Path) -> io::Result<Option<[u8; KEY_BYTES]>> {
    match read_key(path)? {
        Some(bytes) if is_destroyed(&bytes) => {
            let file = path.file_name().unwrap_or_default().display();
            Err(io::Error::other(format!(
                "{KEY_FOLDER}/{file} is damaged: it has only zeros; restore it from a backup"
            )))
        }
        key => Ok(key),
    }
}

/// Creates a key and its file.
fn make_key(folder: &Path, file: &str) -> io::Result<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    place_key(folder, file, &bytes)?;
    Ok(bytes)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        // The creator may have been killed before this.
        _ => sync_folder(folder.parent().unwrap_or(folder)),
    }
}

/// Writes a key file that is complete or missing, also after a crash.
fn place_key(folder: &Path, file: &str, bytes: &[u8; KEY_BYTES]) -> io::Result<()> {
    let draft = folder.join(format!("{file}{DRAFT}"));
    let mut draft_file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    draft_file.write_all(bytes)?;
    draft_file.sync_all()?;
    std::fs::rename(&draft, folder.join(file))?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Overwrites a key file, syncs and unlinks it. A missing one is already destroyed.
fn destroy(path: &Path) -> io::Result<()> {
    match overwrite(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| std::fs::remove_file(path)),
    }
}

/// Overwrites all bytes of a file with zeros, in place, and syncs it.
fn overwrite(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let length = file.metadata()?.len();
    io::copy(&mut io::repeat(0).take(length), &mut file)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
