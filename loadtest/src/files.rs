//! The files of `--json` and `--html`. They are opened before the work, so that a wrong path costs no figures.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that receives its text at the end. Until then, an existing file keeps its content.
#[derive(Debug)]
pub struct LateFile {
    path: PathBuf,
    file: File,
    /// Whether this value created the file, and it is still empty.
    is_new: bool,
}

impl LateFile {
    /// Opens a file, or creates it.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn open(path: &Path) -> Result<LateFile, String> {
        let created = OpenOptions::new().write(true).create_new(true).open(path);
        let is_new = created.is_ok();
        let file = match created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).create(true).truncate(false).open(path)
            }
            other => other,
        };
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(LateFile { path: path.to_owned(), file, is_new })
    }

    /// Replaces the content.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn write(mut self, text: &str) -> Result<(), String> {
        self.is_new = false;
        let replaced = self.empty().and_then(|()| self.file.write_all(text.as_bytes()));
        replaced.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// A pipe or a terminal has no content to remove.
    fn empty(&self) -> io::Result<()> {
        if self.file.metadata()?.is_file() { self.file.set_len(0) } else { Ok(()) }
    }
}

impl Drop for LateFile {
    fn drop(&mut self) {
        if self.is_new {
            // The work has failed, and its error is already known.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_only_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        drop(LateFile::open(&path).unwrap());
        assert!(!path.exists(), "a failed run leaves no empty file");
        LateFile::open(&path).unwrap().write("a longer text").unwrap();
        drop(LateFile::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a longer text");
        LateFile::open(&path).unwrap().write("short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        let wrong = LateFile::open(&folder.path().join("none/x.html")).unwrap_err();
        assert!(wrong.contains("none/x.html: No such file"), "{wrong}");
        LateFile::open(Path::new("/dev/null")).unwrap().write("text").unwrap();
    }
}
