//! Writes the hashes of the entries of the two longest lists of domains, in rising order and eight bytes each. The program contains
//! these hashes and not the lists, which take about twice as many bytes.

use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

#[path = "src/tables/hash.rs"]
mod hash;

const LISTS: [&str; 2] = ["disposable", "free"];

fn main() -> io::Result<()> {
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    writeln!(io::stdout(), "cargo::rerun-if-changed=src/tables/hash.rs")?;
    for list in LISTS {
        let path = format!("data/{list}.txt");
        writeln!(io::stdout(), "cargo::rerun-if-changed={path}")?;
        let text = fs::read_to_string(path)?;
        let mut hashes: Vec<u64> = hash::below_header(&text).lines().map(of_line).collect();
        hashes.sort_unstable();
        let bytes: Vec<u8> = hashes.into_iter().flat_map(u64::to_le_bytes).collect();
        fs::write(Path::new(&folder).join(format!("{list}.hashes")), bytes)?;
    }
    Ok(())
}

/// The hash of the entry of a line, with its sources in the lowest two bits. The letters of the sources stand after the entry: `m`
/// for mailchecker and `c` for disposable-email-domains.
fn of_line(line: &str) -> u64 {
    let (entry, letters) = line.split_once(' ').unwrap_or((line, ""));
    let bits = u64::from(letters.contains('m')) | u64::from(letters.contains('c')) << 1;
    hash::fnv(entry) & !3 | bits
}
