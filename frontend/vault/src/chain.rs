//! Hour keys that several nodes derive from one secret, so that no node has to send a key to another.
//!
//! Each hour has a secret C. C(hour + 1) = HKDF-Expand(C(hour), "next hour"), and the key of a class of data is
//! HKDF-Expand(C(hour), "key " and the name of the class). Both are HKDF with SHA-256 (RFC 5869). The secrets are already
//! random, so the step HKDF-Extract is not needed. A node keeps the secret of the present hour alone: from it the keys of
//! this hour and of later hours can be computed, but not those of earlier hours.
//!
//! # File
//!
//! `DIR/keys/chain` has a version (1 byte), the lineage (8 bytes), the hour since 1970 and the secret of this hour (8 bytes,
//! big-endian, and 32 bytes), and the SHA-256 of all bytes before it. The checksum has this position in every version. The
//! lineage is a random number of the chain, which never changes: it distinguishes chains.
//!
//! # Replacement
//!
//! The file of the next hour is written as a draft and synced, and the folder is synced. Then the present file is overwritten
//! with zeros and synced. Last, the draft is renamed to `chain`, and the folder is synced. So at each moment the file or the
//! draft is complete. After a crash, a complete file takes precedence. The draft is then destroyed: overwritten, synced and
//! unlinked, because its secret must not be readable after its own hour.
//!
//! A program cannot do more than overwrite the file. ext4 and XFS then write to the same blocks. File systems that write to new
//! blocks (Btrfs, ZFS), a journal of data (ext4 with `data=journal`), snapshots and SSDs may keep the old bytes for some time.
//! If this matters, the folder must be on an encrypted volume. A copy of the folder keeps the secret permanently, so this file
//! must not be copied.
//!
//! In memory, secrets are overwritten when they are dropped. ring does not overwrite its own copies, so the memory of the
//! process may still have keys of past hours.

use super::{DRAFT, KEY_BYTES, KEY_FOLDER, KeyClass, KeyName, Secret, VaultKey};
use super::{destroy, overwrite, random, sync_folder, vault_key};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::hkdf::{HKDF_SHA256, Prk};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use store::{OpenError, StoreError};
use thiserror::Error;
use zeroize::Zeroizing;

/// The file of the chain in the folder of the keys.
pub(super) const CHAIN_FILE: &str = "chain";

const VERSION: u8 = 1;
const LINEAGE_BYTES: usize = 8;
const HOUR_BYTES: usize = 8;
const CONTENT_BYTES: usize = 1 + LINEAGE_BYTES + HOUR_BYTES + KEY_BYTES;
const FILE_BYTES: usize = CONTENT_BYTES + SHA256_OUTPUT_LEN;

/// How far ahead a chain is computed: ten years, which takes less than a tenth of a second. A later hour comes from a wrong clock or a
/// damaged row, and its computation could take hours.
const HOURS_AHEAD_MAX: u64 = 10 * 366 * 24;

/// The number that all copies of a chain share.
pub(super) type Lineage = [u8; LINEAGE_BYTES];

/// The state of a chain in one hour.
pub(super) struct Chain {
    /// The number of the chain.
    pub lineage: Lineage,
    /// The number of the hour since 1970.
    pub hour: u64,
    /// The secret of the hour.
    pub secret: Secret,
}

impl Chain {
    /// A new chain that begins in this hour.
    pub fn create(hour: u64) -> Result<Chain, StoreError> {
        let mut lineage = [0; LINEAGE_BYTES];
        random(&mut lineage)?;
        Ok(Chain { lineage, hour, secret: Secret::random()? })
    }

    /// The same chain in this or a later hour. `None`: the hour is earlier, or more than ten years ahead.
    pub fn at(&self, hour: u64) -> Option<Chain> {
        let steps = hour.checked_sub(self.hour).filter(|steps| *steps <= HOURS_AHEAD_MAX)?;
        let mut secret = self.secret.clone();
        for _ in 0..steps {
            secret = expand(&secret, &[b"next hour"]);
        }
        Some(Chain { lineage: self.lineage, hour, secret })
    }

    /// The key of a class for data that expires in the chain's hour.
    pub fn class_key(&self, class: KeyClass) -> Secret {
        expand(&self.secret, &[b"key ", class.as_str().as_bytes()])
    }

    fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // The capacity prevents a copy that would not be overwritten.
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES));
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.lineage);
        bytes.extend_from_slice(&self.hour.to_be_bytes());
        bytes.extend_from_slice(&self.secret[..]);
        let checksum = digest(&SHA256, &bytes);
        bytes.extend_from_slice(checksum.as_ref());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Chain, ChainError> {
        const WRONG_LENGTH: ChainError = ChainError::Damaged("it has a wrong length");
        let (content, checksum) = bytes.split_last_chunk::<SHA256_OUTPUT_LEN>().ok_or(WRONG_LENGTH)?;
        if digest(&SHA256, content).as_ref() != checksum {
            return Err(ChainError::Damaged("its checksum is wrong"));
        }
        let (&version, content) = content.split_first().ok_or(WRONG_LENGTH)?;
        if version != VERSION {
            return Err(ChainError::OtherVersion(version));
        }
        let (&lineage, content) = content.split_first_chunk().ok_or(WRONG_LENGTH)?;
        let (&hour, content) = content.split_first_chunk().ok_or(WRONG_LENGTH)?;
        let secret: [u8; KEY_BYTES] = content.try_into().map_err(|_| WRONG_LENGTH)?;
        Ok(Chain { lineage, hour: u64::from_be_bytes(hour), secret: secret.into() })
    }

    /// Reads the chain of a folder that another process may be using. Nothing is changed. `None`: the folder has no chain.
    pub fn read(folder: &Path) -> Result<Option<Chain>, ChainError> {
        match read_file(&folder.join(CHAIN_FILE)) {
            // The file is being replaced, or a crash has interrupted that: the draft is complete.
            Err(ChainError::Damaged(_)) => match read_file(&draft(folder)) {
                Ok(Some(chain)) => Ok(Some(chain)),
                // The draft has just got its name.
                _ => read_file(&folder.join(CHAIN_FILE)),
            },
            read => read,
        }
    }

    /// Reads the chain of a folder that no other process uses, and ends a replacement that a crash has interrupted. `None`: the
    /// folder has no chain.
    pub fn recover(folder: &Path) -> Result<Option<Chain>, ChainError> {
        match read_file(&folder.join(CHAIN_FILE)) {
            Ok(chain) => {
                destroy(&draft(folder))?;
                Ok(chain)
            }
            Err(ChainError::Damaged(why)) => {
                let Ok(Some(chain)) = read_file(&draft(folder)) else {
                    return Err(ChainError::Damaged(why));
                };
                replace_by_draft(folder, &mut || Ok(()))?;
                Ok(Some(chain))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the file of a folder that has none, for [`Bundle`](super::bundle::Bundle): the folder gets its name last.
    pub fn write_new(&self, folder: &Path) -> io::Result<()> {
        write_new_file(&folder.join(CHAIN_FILE), &self.to_bytes(), &mut || Ok(()))
    }

    /// Replaces the file of the folder by this chain, after [`Chain::recover`]. `after_step` is called after each file
    /// operation, so that a test can stop there.
    fn replace(&self, folder: &Path, after_step: AfterStep<'_>) -> io::Result<()> {
        write_new_file(&draft(folder), &self.to_bytes(), after_step)?;
        sync_folder(folder)?;
        after_step()?;
        replace_by_draft(folder, after_step)
    }
}

/// Called after each file operation; an error ends the sequence.
type AfterStep<'a> = &'a mut dyn FnMut() -> io::Result<()>;

fn write_new_file(path: &Path, bytes: &[u8], after_step: AfterStep<'_>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    after_step()?;
    file.write_all(bytes)?;
    after_step()?;
    file.sync_all()?;
    after_step()
}

/// The part of a replacement after the draft is durable.
fn replace_by_draft(folder: &Path, after_step: AfterStep<'_>) -> io::Result<()> {
    let path = folder.join(CHAIN_FILE);
    overwrite(&path)?;
    after_step()?;
    std::fs::rename(draft(folder), path)?;
    after_step()?;
    sync_folder(folder)?;
    after_step()
}

fn draft(folder: &Path) -> PathBuf {
    folder.join(format!("{CHAIN_FILE}{DRAFT}"))
}

/// `None` for a missing file.
fn read_file(path: &Path) -> Result<Option<Chain>, ChainError> {
    match std::fs::read(path) {
        Ok(bytes) => Chain::from_bytes(&Zeroizing::new(bytes)).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn expand(secret: &[u8; KEY_BYTES], info: &[&[u8]]) -> Secret {
    let mut output = Secret::default();
    let key = Prk::new_less_safe(HKDF_SHA256, secret);
    let filled = key.expand(info, HKDF_SHA256).and_then(|derived| derived.fill(&mut *output));
    filled.expect("32 bytes are one block");
    output
}

/// The reason why a chain cannot be used, with a remedy.
#[derive(Debug, Error)]
pub(super) enum ChainError {
    /// The file cannot be read or written.
    #[error("{KEY_FOLDER}/{CHAIN_FILE}: {0}")]
    Io(#[from] io::Error),
    /// The content of the file is wrong.
    #[error("{KEY_FOLDER}/{CHAIN_FILE} is damaged ({0}); {JOIN_AGAIN}")]
    Damaged(&'static str),
    /// The file has a version that this program does not know.
    #[error(
        "{KEY_FOLDER}/{CHAIN_FILE} has version {0}, and this mailprobe reads version {VERSION}; use the mailprobe that wrote it, or \
        a newer one"
    )]
    OtherVersion(u8),
    /// A running node has lost its file.
    #[error("{KEY_FOLDER}/{CHAIN_FILE} is missing; stop this node, {JOIN_AGAIN}")]
    Missing,
    /// A running node has got the file of another chain.
    #[error("{KEY_FOLDER}/{CHAIN_FILE} was replaced by that of another cluster; restart this node")]
    OtherLineage,
    /// The hour is more than ten years ahead of the chain.
    #[error(
        "the clock is more than ten years ahead of {KEY_FOLDER}/{CHAIN_FILE}; correct the clock. If the clock is right, {JOIN_AGAIN}"
    )]
    TooFar,
}

impl From<ChainError> for io::Error {
    fn from(error: ChainError) -> io::Error {
        match error {
            ChainError::Io(error) => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

/// How a node gets the chain again.
pub(super) const JOIN_AGAIN: &str = "move the folder away and take the keys of another node: `mailprobe cluster init` there, \
                                     then `mailprobe cluster join` here. Without another node, restore a backup";

impl ChainError {
    /// The error of opening the folder.
    pub fn at_opening(self, folder: &Path) -> OpenError {
        match self {
            ChainError::Io(error) => OpenError::Folder(folder.to_owned(), error.to_string()),
            other => OpenError::Keys { folder: folder.to_owned(), why: other.to_string() },
        }
    }
}

/// The keys of a chain that were derived since the start, with the chain itself.
pub(super) struct Ratchet {
    lineage: Lineage,
    state: RwLock<RatchetState>,
}

struct RatchetState {
    chain: Chain,
    /// Requests need the same few keys again and again.
    keys: HashMap<KeyName, VaultKey>,
}

impl Ratchet {
    /// The keys of a chain.
    pub fn new(chain: Chain) -> Ratchet {
        let lineage = chain.lineage;
        Ratchet { lineage, state: RwLock::new(RatchetState { chain, keys: HashMap::new() }) }
    }

    /// The number of the chain.
    pub fn lineage(&self) -> Lineage {
        self.lineage
    }

    /// A key, which is derived at its first use. `None`: its hour is over, or more than ten years ahead.
    pub fn key(&self, name: KeyName) -> Option<VaultKey> {
        {
            let state = self.read();
            if name.hour < state.chain.hour {
                return None;
            }
            if let Some(key) = state.keys.get(&name) {
                return Some(key.clone());
            }
        }
        let mut state = self.write();
        let key = vault_key(&state.chain.at(name.hour)?.class_key(name.class));
        state.keys.insert(name, key.clone());
        Some(key)
    }

    /// The keys of these classes from an hour on, each up to its own last hour. Hours that are over are left out.
    pub fn keys(&self, from: u64, classes: &[(KeyClass, u64)]) -> Result<Vec<(KeyName, Secret)>, ChainError> {
        let mut chain = {
            let state = self.read();
            state.chain.at(from.max(state.chain.hour)).ok_or(ChainError::TooFar)?
        };
        let mut keys = Vec::new();
        let last = classes.iter().map(|(_, last)| *last).max().unwrap_or(0);
        while chain.hour <= last {
            for (class, _) in classes.iter().filter(|(_, last)| chain.hour <= *last) {
                keys.push((KeyName { class: *class, hour: chain.hour }, chain.class_key(*class)));
            }
            chain = chain.at(chain.hour.saturating_add(1)).ok_or(ChainError::TooFar)?;
        }
        Ok(keys)
    }

    /// Moves the chain to an hour, in the file first. Returns the number of hours; an earlier hour changes nothing. After an
    /// error the file is usable, and the next call repeats the attempt.
    pub fn advance(&self, folder: &Path, hour: u64) -> Result<u64, ChainError> {
        let before = self.read().chain.hour;
        if hour <= before {
            return Ok(0);
        }
        // The last attempt may have been interrupted at any step.
        let found = Chain::recover(folder)?.ok_or(ChainError::Missing)?;
        if found.lineage != self.lineage {
            return Err(ChainError::OtherLineage);
        }
        let next = found.at(hour.max(found.hour)).ok_or(ChainError::TooFar)?;
        if next.hour > found.hour {
            next.replace(folder, &mut || Ok(()))?;
        }
        let mut state = self.write();
        state.keys.retain(|name, _| name.hour >= next.hour);
        let hours = next.hour.saturating_sub(before);
        state.chain = next;
        Ok(hours)
    }

    fn read(&self) -> RwLockReadGuard<'_, RatchetState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RatchetState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
