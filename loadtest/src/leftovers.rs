//! The started processes and the temporary folders of this program, so that a second signal leaves nothing behind.
//!
//! The lock is held while a process is ended or a folder is removed. So no process id is used after its process was reaped.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LEFTOVERS: Mutex<Leftovers> = Mutex::new(Leftovers { processes: Vec::new(), folders: Vec::new() });

/// The processes and folders that exist now.
pub struct Leftovers {
    processes: Vec<u32>,
    folders: Vec<PathBuf>,
}

impl Leftovers {
    /// Adds a started process.
    pub fn add(&mut self, process: u32) {
        self.processes.push(process);
    }

    /// Removes a process that has ended, before its id can belong to another one.
    pub fn forget(&mut self, process: u32) {
        self.processes.retain(|one| *one != process);
    }

    fn remove(&mut self) {
        let pids = || self.processes.iter().filter_map(|process| Pid::from_raw(*process as i32));
        // A process may have ended already.
        for pid in pids() {
            let _ = kill_process(pid, Signal::KILL);
        }
        for pid in pids() {
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
        for folder in self.folders.drain(..) {
            // The process ends now, so an error has no report.
            let _ = fs::remove_dir_all(folder);
        }
        self.processes.clear();
    }
}

/// The processes and folders. No other thread can change them while the caller has the lock.
pub fn locked() -> MutexGuard<'static, Leftovers> {
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the started processes, removes the temporary folders, and ends this process. No process can start meanwhile.
pub fn end_at_once() -> ! {
    let mut leftovers = locked();
    leftovers.remove();
    std::process::exit(1)
}

/// A temporary folder that is removed with this value, and also by a second signal.
pub struct Folder {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
}

impl Folder {
    /// Creates a folder in that for temporary files.
    ///
    /// # Errors
    ///
    /// One line: the folder cannot be created.
    pub fn new() -> Result<Folder, String> {
        let mut leftovers = locked();
        let folder = tempfile::Builder::new().prefix("mailprobe-loadtest-").tempdir();
        let folder = folder.map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        let path = folder.path().to_owned();
        leftovers.folders.push(path.clone());
        Ok(Folder { folder: Some(folder), path })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut leftovers = locked();
        drop(self.folder.take());
        leftovers.folders.retain(|folder| *folder != self.path);
    }
}
