//! A model of a disk under a data folder: which contents remain after a power failure.
//!
//! The model has only the guarantees of POSIX. Bytes of a file are kept after a sync of the file, and its name after a
//! sync of its folder. Of everything else each page of each write may be kept or lost, and each change of a name may
//! have happened or not. (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, describe these states.)

use crate::failure::{Context, Failure};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// One change of the data folder by a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderChange {
    /// Creates a file if it is missing; the flag empties an existing one.
    Make(PathBuf, bool),
    MakeFolder(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    /// Syncs a file or a folder.
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// A data folder, with the contents that are kept and those that are not.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<File>,
    /// Files by their paths, as a reader finds them now; a folder has no index.
    names: BTreeMap<PathBuf, Option<usize>>,
    /// Files by their paths, as far as they survive a power failure.
    kept: BTreeMap<PathBuf, Option<usize>>,
    /// Changes of names since the last sync of their folder.
    unsynced: Vec<NamedEntries>,
}

#[derive(Debug, Clone, Default)]
struct File {
    octets: Vec<u8>,
    /// The bytes that survive a power failure.
    kept: Vec<u8>,
    /// Writes since the last sync, each with its offset.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum NamedEntries {
    New(PathBuf, Option<usize>),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl NamedEntries {
    fn is_in(&self, folder: &Path) -> bool {
        let (NamedEntries::New(path, _) | NamedEntries::Renamed(path, _) | NamedEntries::Removed(path)) =
            self;
        path.parent() == Some(folder)
    }

    fn happen(&self, names: &mut BTreeMap<PathBuf, Option<usize>>) {
        match self {
            NamedEntries::New(path, file) => {
                names.insert(path.clone(), *file);
            }
            NamedEntries::Renamed(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            NamedEntries::Removed(path) => {
                names.remove(path);
            }
        }
    }
}

impl Disk {
    /// Applies one change to the model.
    ///
    /// # Errors
    ///
    /// The change concerns a file that the model does not have.
    pub fn apply(&mut self, change: &FolderChange) -> Result<(), Failure> {
        match change {
            FolderChange::Make(path, empties) => match self.names.get(path) {
                None => {
                    self.files.push(File::default());
                    self.name(NamedEntries::New(path.clone(), Some(self.files.len() - 1)));
                }
                Some(_) if *empties => self.file(path)?.set_len(0),
                Some(_) => {}
            },
            FolderChange::MakeFolder(path) if self.names.contains_key(path) => {}
            FolderChange::MakeFolder(path) => self.name(NamedEntries::New(path.clone(), None)),
            FolderChange::Write(path, offset, octets) => self.file(path)?.write(*offset as usize, octets),
            FolderChange::SetLen(path, len) => self.file(path)?.set_len(*len as usize),
            FolderChange::Sync(path) => match self.names.get(path) {
                Some(Some(file)) => self.files[*file].sync(),
                _ => {
                    let unsynced = std::mem::take(&mut self.unsynced).into_iter();
                    let (synced, rest): (Vec<_>, Vec<_>) = unsynced.partition(|named| named.is_in(path));
                    self.unsynced = rest;
                    synced.iter().for_each(|named| named.happen(&mut self.kept));
                }
            },
            FolderChange::Rename(from, to) => self.name(NamedEntries::Renamed(from.clone(), to.clone())),
            FolderChange::Remove(path) => self.name(NamedEntries::Removed(path.clone())),
        }
        Ok(())
    }

    fn name(&mut self, named: NamedEntries) {
        named.happen(&mut self.names);
        self.unsynced.push(named);
    }

    fn file(&mut self, path: &Path) -> Result<&mut File, Failure> {
        match self.names.get(path) {
            Some(Some(file)) => Ok(&mut self.files[*file]),
            _ => Err(Failure(format!("{} was written before it was made", path.display()))),
        }
    }

    /// Writes the contents after a power failure to another folder. `root` is the folder that was recorded, and
    /// `random` decides which unsynced changes are kept.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn write_left(&self, root: &Path, to: &Path, random: &mut fastrand::Rng) -> Result<(), Failure> {
        let mut names = self.kept.clone();
        for named in &self.unsynced {
            if random.bool() {
                named.happen(&mut names);
            }
        }
        DirBuilder::new().mode(0o700).create(to).at(to)?;
        // A folder precedes its contents in this order.
        for (path, file) in &names {
            let Ok(below) = path.strip_prefix(root) else { continue };
            if below.as_os_str().is_empty()
                || !path.parent().is_some_and(|parent| is_there(parent, root, &names))
            {
                continue;
            }
            let new = to.join(below);
            let Some(file) = file else {
                DirBuilder::new().mode(0o700).create(&new).at(&new)?;
                continue;
            };
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
            let octets = self.files[*file].left(random);
            made.and_then(|mut made| made.write_all(&octets)).at(&new)?;
        }
        Ok(())
    }

    /// Keeps everything, as after a clean stop with enough time for the disk.
    pub fn settle(&mut self) {
        self.files.iter_mut().for_each(File::sync);
        self.kept = self.names.clone();
        self.unsynced.clear();
    }
}

fn is_there(folder: &Path, root: &Path, names: &BTreeMap<PathBuf, Option<usize>>) -> bool {
    folder == root || matches!(names.get(folder), Some(None))
}

impl File {
    fn write(&mut self, offset: usize, octets: &[u8]) {
        if self.octets.len() < offset + octets.len() {
            self.octets.resize(offset + octets.len(), 0);
        }
        self.octets[offset..offset + octets.len()].copy_from_slice(octets);
        self.unsynced.push((offset, octets.to_vec()));
    }

    fn set_len(&mut self, len: usize) {
        self.octets.resize(len, 0);
    }

    fn sync(&mut self) {
        self.kept.clone_from(&self.octets);
        self.unsynced.clear();
    }

    /// The bytes that a power failure leaves.
    fn left(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut left = self.kept.clone();
        if random.bool() {
            left.resize(self.octets.len(), 0);
        }
        for (start, written) in &self.unsynced {
            let mut at = *start;
            while at < start + written.len() {
                let end = (at / PAGE * PAGE + PAGE).min(start + written.len());
                if random.bool() && end <= left.len() {
                    left[at..end].copy_from_slice(&written[at - start..end - start]);
                }
                at = end;
            }
        }
        left
    }
}

/// Removes a folder; a missing folder is no error.
pub fn remove_folder(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure(format!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        Path::new("/data").join(name)
    }

    fn after(changes: &[FolderChange]) -> Disk {
        let mut disk = Disk::default();
        changes.iter().for_each(|change| disk.apply(change).unwrap());
        disk
    }

    /// The contents of `key` after power failures, one for each of many seeds.
    fn left(disk: &Disk) -> Vec<Option<Vec<u8>>> {
        let folder = tempfile::tempdir().unwrap();
        (0..40)
            .map(|seed| {
                let to = folder.path().join(seed.to_string());
                disk.write_left(Path::new("/data"), &to, &mut fastrand::Rng::with_seed(seed)).unwrap();
                fs::read(to.join("key")).ok()
            })
            .collect()
    }

    #[test]
    fn what_was_synced_is_left_and_all_else_may_be() {
        let draft = || {
            vec![
                FolderChange::Make(path("key.new"), true),
                FolderChange::Write(path("key.new"), 0, b"secret".to_vec()),
            ]
        };
        let with = |more: &[FolderChange]| left(&after(&[draft(), more.to_vec()].concat()));
        let renamed = FolderChange::Rename(path("key.new"), path("key"));
        let (file, folder) = (FolderChange::Sync(path("key.new")), FolderChange::Sync("/data".into()));
        let whole = Some(b"secret".to_vec());
        // The right order: the file is complete before its name exists.
        let found = with(&[file.clone(), renamed.clone()]);
        assert!(found.contains(&whole) && found.contains(&None));
        assert!(found.iter().flatten().all(|bytes| bytes == b"secret"));
        let found = with(&[file.clone(), renamed.clone(), folder.clone()]);
        assert!(found.iter().all(|octets| *octets == whole));
        // Without a sync of the file, it may be empty under its name.
        let found = with(&[renamed.clone(), folder.clone()]);
        assert!(found.contains(&whole) && found.contains(&Some(Vec::new())));
        // The removal may be lost.
        let found = with(&[file, renamed, folder, FolderChange::Remove(path("key"))]);
        assert!(found.contains(&whole) && found.contains(&None));
    }

    #[test]
    fn a_file_needs_its_folder() {
        let disk = after(&[
            FolderChange::MakeFolder(path("keys")),
            FolderChange::Make(path("keys/a"), true),
            FolderChange::Sync(path("keys/a")),
            FolderChange::Sync(path("keys")),
        ]);
        let to = tempfile::tempdir().unwrap();
        let is_left = |seed: u64| {
            let to = to.path().join(seed.to_string());
            disk.write_left(Path::new("/data"), &to, &mut fastrand::Rng::with_seed(seed)).unwrap();
            to.join("keys/a").exists()
        };
        let found: Vec<bool> = (0..40).map(is_left).collect();
        assert!(found.contains(&true) && found.contains(&false));
    }
}
