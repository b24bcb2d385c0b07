//! A data folder as a disk keeps it, and what of it is left when the power fails.
//!
//! What POSIX promises, and nothing more: bytes of a file are kept once the file was synced, and its name once its folder was. Of all
//! else each page of each write is there or not, and each change of names happened or not (Pillai et al., "All File Systems Are Not Created
//! Equal", OSDI 2014, call such states what applications have to expect).

use super::Failure;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// One change of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes a file unless there is one, and empties it if told so.
    Make(PathBuf, bool),
    MakeFolder(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    /// Of a file or a folder.
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// The folder and what is in it.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<File>,
    /// Files by their paths, as a reader finds them; a folder is none.
    names: BTreeMap<PathBuf, Option<usize>>,
    /// Those that outlast a power failure.
    kept: BTreeMap<PathBuf, Option<usize>>,
    /// Changes of names since the folder in which they are was synced.
    unsynced: Vec<Named>,
}

#[derive(Debug, Clone, Default)]
struct File {
    octets: Vec<u8>,
    /// What outlasts a power failure.
    kept: Vec<u8>,
    /// Since the last sync, each with its offset.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum Named {
    New(PathBuf, Option<usize>),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl Named {
    fn is_in(&self, folder: &Path) -> bool {
        let (Named::New(path, _) | Named::Renamed(path, _) | Named::Removed(path)) = self;
        path.parent() == Some(folder)
    }

    fn happen(&self, names: &mut BTreeMap<PathBuf, Option<usize>>) {
        match self {
            Named::New(path, file) => {
                names.insert(path.clone(), *file);
            }
            Named::Renamed(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Named::Removed(path) => {
                names.remove(path);
            }
        }
    }
}

impl Disk {
    /// Does one change.
    pub fn apply(&mut self, change: &Change) -> Result<(), Failure> {
        match change {
            Change::Make(path, empties) => {
                match self.names.get(path) {
                    None => {
                        self.files.push(File::default());
                        self.name(Named::New(path.clone(), Some(self.files.len() - 1)));
                    }
                    Some(_) if *empties => self.file(path)?.set_len(0),
                    Some(_) => {}
                }
                Ok(())
            }
            Change::MakeFolder(path) => {
                if !self.names.contains_key(path) {
                    self.name(Named::New(path.clone(), None));
                }
                Ok(())
            }
            Change::Write(path, offset, octets) => {
                self.file(path)?.write(*offset as usize, octets);
                Ok(())
            }
            Change::SetLen(path, len) => {
                self.file(path)?.set_len(*len as usize);
                Ok(())
            }
            Change::Sync(path) => {
                if let Some(Some(file)) = self.names.get(path) {
                    self.files[*file].sync();
                    return Ok(());
                }
                let (synced, rest) =
                    std::mem::take(&mut self.unsynced).into_iter().partition(|named| named.is_in(path));
                self.unsynced = rest;
                let synced: Vec<Named> = synced;
                synced.iter().for_each(|named| named.happen(&mut self.kept));
                Ok(())
            }
            Change::Rename(from, to) => {
                self.name(Named::Renamed(from.clone(), to.clone()));
                Ok(())
            }
            Change::Remove(path) => {
                self.name(Named::Removed(path.clone()));
                Ok(())
            }
        }
    }

    fn name(&mut self, named: Named) {
        named.happen(&mut self.names);
        self.unsynced.push(named);
    }

    fn file(&mut self, path: &Path) -> Result<&mut File, Failure> {
        match self.names.get(path) {
            Some(Some(file)) => Ok(&mut self.files[*file]),
            _ => Err(Failure(format!("{} was written before it was made", path.display()))),
        }
    }

    /// Writes what a power failure leaves to another folder; `root` is the one that was recorded.
    pub fn write_left(&self, root: &Path, to: &Path, random: &mut fastrand::Rng) -> Result<(), Failure> {
        let wrong = |path: &Path, error: std::io::Error| Failure(format!("{}: {error}", path.display()));
        let mut names = self.kept.clone();
        for named in &self.unsynced {
            if random.bool() {
                named.happen(&mut names);
            }
        }
        DirBuilder::new().mode(0o700).create(to).map_err(|error| wrong(to, error))?;
        // A folder stands before what is in it.
        for (path, file) in &names {
            let Ok(below) = path.strip_prefix(root) else { continue };
            if below.as_os_str().is_empty()
                || !path.parent().is_some_and(|parent| is_there(parent, root, &names))
            {
                continue;
            }
            let new = to.join(below);
            let Some(file) = file else {
                DirBuilder::new().mode(0o700).create(&new).map_err(|error| wrong(&new, error))?;
                continue;
            };
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
            let octets = self.files[*file].left(random);
            made.and_then(|mut made| made.write_all(&octets)).map_err(|error| wrong(&new, error))?;
        }
        Ok(())
    }

    /// A clean stop and a disk that has all the time it needs: everything is kept.
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

    /// What a power failure leaves of it.
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

/// Removes a folder that may not be there.
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

    fn after(changes: &[Change]) -> Disk {
        let mut disk = Disk::default();
        changes.iter().for_each(|change| disk.apply(change).unwrap());
        disk
    }

    /// The contents of `key` that power failures leave, one for each of many seeds.
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
            vec![Change::Make(path("key.new"), true), Change::Write(path("key.new"), 0, b"secret".to_vec())]
        };
        let with = |more: &[Change]| left(&after(&[draft(), more.to_vec()].concat()));
        let renamed = Change::Rename(path("key.new"), path("key"));
        let (file, folder) = (Change::Sync(path("key.new")), Change::Sync("/data".into()));
        let whole = Some(b"secret".to_vec());
        // In the right order: it is whole, and then it is there.
        let found = with(&[file.clone(), renamed.clone()]);
        assert!(found.contains(&whole) && found.contains(&None));
        assert!(found.iter().flatten().all(|bytes| bytes == b"secret"));
        let found = with(&[file.clone(), renamed.clone(), folder.clone()]);
        assert!(found.iter().all(|octets| *octets == whole));
        // Without the file's sync it may be empty under its name.
        let found = with(&[renamed.clone(), folder.clone()]);
        assert!(found.contains(&whole) && found.contains(&Some(Vec::new())));
        // Removed, and perhaps not.
        let found = with(&[file, renamed, folder, Change::Remove(path("key"))]);
        assert!(found.contains(&whole) && found.contains(&None));
    }

    #[test]
    fn a_file_needs_its_folder() {
        let disk = after(&[
            Change::MakeFolder(path("keys")),
            Change::Make(path("keys/a"), true),
            Change::Sync(path("keys/a")),
            Change::Sync(path("keys")),
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
