//! Writes the hashes of the disposable domains, in rising order, as eight bytes each: half of the bytes of the list.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

#[path = "src/lists/hash.rs"]
mod hash;

const LIST: &str = "data/disposable.txt";

fn main() -> io::Result<()> {
    writeln!(io::stdout(), "cargo::rerun-if-changed={LIST}\ncargo::rerun-if-changed=src/lists/hash.rs")?;
    let text = fs::read_to_string(LIST)?;
    let mut hashes: Vec<u64> = hash::below_header(&text).lines().map(hash::fnv).collect();
    hashes.sort_unstable();
    let bytes: Vec<u8> = hashes.into_iter().flat_map(u64::to_le_bytes).collect();
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    fs::write(Path::new(&folder).join("disposable.hashes"), bytes)
}
