//! Makes the files of a complete list: some classes of its rows, one file per class, or a spreadsheet.
//!
//! Each file is complete in `NAME.packed` before one of them gets its name, and `OUT.partial` is removed after that. After a kill in
//! between, a resumed run finds `OUT.partial` complete, and makes the files again.

use super::pack::{self, Compression};
use crate::CleanError;
use lists::{Class, Endings, OutputRows, Shape, SheetSource, row_class, write_sheets};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What becomes of the complete list.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    /// The classes of the rows that are delivered.
    pub classes: Vec<Class>,
    /// One file per class.
    pub is_split: bool,
    /// The files are spreadsheets.
    pub is_sheet: bool,
    /// Rows have further columns of results.
    pub has_further: bool,
}

impl Default for Delivery {
    /// The whole list in its own format.
    fn default() -> Delivery {
        Delivery { classes: Class::ALL.to_vec(), is_split: false, is_sheet: false, has_further: false }
    }
}

/// A file that a run has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its name.
    pub path: PathBuf,
    /// Number of rows in it, without titles and header.
    pub rows: u64,
    /// The class of all its rows, if `--split` made it.
    pub class: Option<Class>,
    /// Number of cells that a spreadsheet has no room for.
    pub cut_cells: u64,
}

impl WrittenFile {
    /// The file of the whole list.
    pub(super) fn whole(path: &Path, rows: u64) -> WrittenFile {
        WrittenFile { path: path.to_owned(), rows, class: None, cut_cells: 0 }
    }
}

/// A file to write.
struct WantedFile {
    path: PathBuf,
    /// Its name until it is complete.
    packed: PathBuf,
    classes: Vec<Class>,
    class: Option<Class>,
}

impl Delivery {
    /// Whether all classes of rows are delivered.
    pub fn has_all_classes(&self) -> bool {
        Class::ALL.iter().all(|class| self.classes.contains(class))
    }

    /// Whether the complete list is the output.
    pub fn is_plain(&self) -> bool {
        self.has_all_classes() && !self.is_split && !self.is_sheet
    }

    /// The files for an output with this name.
    fn files(&self, path: &Path) -> Vec<WantedFile> {
        let file = |path: PathBuf, classes: Vec<Class>, class: Option<Class>| WantedFile {
            packed: super::packed(&path),
            path,
            classes,
            class,
        };
        if !self.is_split {
            return vec![file(path.to_owned(), self.classes.clone(), None)];
        }
        let of = |class: &Class| file(class_file(path, *class), vec![*class], Some(*class));
        Class::ALL.iter().filter(|class| self.classes.contains(class)).map(of).collect()
    }

    /// The names of the files for an output with this name.
    pub fn names(&self, path: &Path) -> Vec<PathBuf> {
        self.files(path).into_iter().map(|file| file.path).collect()
    }

    /// Makes the files of the complete list, and removes the list.
    ///
    /// # Errors
    /// A file cannot be read or written. The complete list stays.
    pub(super) fn deliver(
        &self,
        partial: &Path,
        path: &Path,
        shape: &Shape,
        endings: &Endings,
        compression: Compression,
    ) -> std::result::Result<Vec<WrittenFile>, CleanError> {
        let files = self.files(path);
        let made = match self.is_sheet {
            true => sheets(&files, partial, shape, endings),
            false => selections(&files, partial, shape, endings, compression),
        };
        let done = made.and_then(|written| {
            for file in &files {
                std::fs::rename(&file.packed, &file.path)?;
            }
            std::fs::remove_file(partial)?;
            Ok(written)
        });
        done.map_err(|error| {
            for file in &files {
                // The file is useless, and the disk may be full.
                let _ = std::fs::remove_file(&file.packed);
            }
            CleanError::unwritable(path, &error)
        })
    }
}

/// The name of the file of a class: `list.csv.gz` becomes `list.deliverable.csv.gz`.
fn class_file(path: &Path, class: Class) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let packed = [&b".gz"[..], b".zst"].into_iter().find(|ending| name.ends_with(ending)).unwrap_or_default();
    let plain = &name[..name.len() - packed.len()];
    let (stem, ending) = match plain.iter().rposition(|&byte| byte == b'.') {
        Some(at) if at > 0 => plain.split_at(at),
        _ => (plain, &b""[..]),
    };
    let name = [stem, b".", class.as_str().as_bytes(), ending, packed].concat();
    path.with_file_name(OsString::from_vec(name))
}

fn sheets(
    files: &[WantedFile],
    partial: &Path,
    shape: &Shape,
    endings: &Endings,
) -> Result<Vec<WrittenFile>> {
    let open = || -> Result<Box<dyn std::io::Read>> { Ok(Box::new(File::open(partial)?)) };
    let source = SheetSource { shape, endings, open: &open };
    let mut written = Vec::new();
    for file in files {
        let to = File::create(&file.packed)?;
        let notes = write_sheets(&source, &file.classes, BufWriter::new(&to))?;
        to.sync_all()?;
        written.push(WrittenFile {
            path: file.path.clone(),
            rows: notes.rows,
            class: file.class,
            cut_cells: notes.cut_cells,
        });
    }
    Ok(written)
}

fn selections(
    files: &[WantedFile],
    partial: &Path,
    shape: &Shape,
    endings: &Endings,
    compression: Compression,
) -> Result<Vec<WrittenFile>> {
    let head = shape.head();
    let mut outputs = Vec::new();
    for file in files {
        let stream = pack::packed(File::create(&file.packed)?, compression, false)?;
        let mut stream = BufWriter::with_capacity(64 * 1024, stream);
        stream.write_all(&head)?;
        let written = WrittenFile { class: file.class, ..WrittenFile::whole(&file.path, 0) };
        outputs.push((&file.classes, stream, written));
    }
    let mut rows = OutputRows::new(File::open(partial)?, &head, endings)?;
    while let Some(row) = rows.next()? {
        let class = row_class(endings, row)?;
        for (wanted, stream, written) in &mut outputs {
            if wanted.contains(&class) {
                stream.write_all(row)?;
                written.rows += 1;
            }
        }
    }
    let mut files = Vec::new();
    for (_, mut stream, written) in outputs {
        stream.flush()?;
        stream.get_mut().sync()?;
        files.push(written);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_classes_keep_the_endings_of_the_output() {
        for (output, file) in [
            ("a/list.csv", "a/list.unknown.csv"),
            ("list.csv.gz", "list.unknown.csv.gz"),
            ("list.2026.xlsx", "list.2026.unknown.xlsx"),
            ("list", "list.unknown"),
            (".list", ".list.unknown"),
            ("list.zst", "list.unknown.zst"),
        ] {
            assert_eq!(class_file(Path::new(output), Class::Unknown), Path::new(file));
        }
    }
}
