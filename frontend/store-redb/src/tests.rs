//! Tests of the store as a whole: they open it, and look at its tables.

mod clock;
mod crash;
pub(crate) mod index_check;
mod lists;
mod retention;
mod withdrawn;

use crate::KEY_FOLDER;
use std::path::Path;

/// The sorted names of the key files of a data folder.
pub(crate) fn key_files(data: &Path) -> Vec<String> {
    let files = std::fs::read_dir(data.join(KEY_FOLDER)).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
