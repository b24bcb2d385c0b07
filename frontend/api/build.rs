//! Copies the description of the API without the indentation of its lines, which is a third of the file.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

const DESCRIPTION: &str = "openapi.json";

fn main() -> io::Result<()> {
    writeln!(io::stdout(), "cargo::rerun-if-changed={DESCRIPTION}")?;
    // A string of JSON has no line feed.
    let text: String = fs::read_to_string(DESCRIPTION)?.lines().map(str::trim_start).collect();
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    fs::write(Path::new(&folder).join(DESCRIPTION), text)
}
