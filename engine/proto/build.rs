//! Writes the hashes of the entries of the two longest lists of domains, in rising order and eight bytes each. The program contains
//! these hashes and not the lists, which take about twice as many bytes.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

#[path = "src/lists/hash.rs"]
mod hash;

const LISTS: [&str; 2] = ["disposable", "free"];

fn main() -> io::Result<()> {
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    writeln!(io::stdout(), "cargo::rerun-if-changed=src/lists/hash.rs")?;
    for list in LISTS {
        let path = format!("data/{list}.txt");
        writeln!(io::stdout(), "cargo::rerun-if-changed={path}")?;
        let text = fs::read_to_string(path)?;
        let mut hashes: Vec<u64> = hash::below_header(&text).lines().map(hash::fnv).collect();
        hashes.sort_unstable();
        let bytes: Vec<u8> = hashes.into_iter().flat_map(u64::to_le_bytes).collect();
        fs::write(Path::new(&folder).join(format!("{list}.hashes")), bytes)?;
    }
    Ok(())
}
