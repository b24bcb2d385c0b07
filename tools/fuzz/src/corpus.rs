//! The committed corpora: inputs that together reach every edge that was ever reached. Each target has one text file,
//! with one input in hex per line, shortest first.

use crate::input::hash;
use crate::{hex, unhex};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The largest size of a target's corpus in bytes; in hex it is twice as long.
pub const BYTES_MAX: usize = 17_500;

/// The path of a target's corpus.
pub fn path(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).join(format!("{target}.txt"))
}

/// The dictionary of a target in the format of libFuzzer, with words that libFuzzer inserts into inputs; `None` for a target of
/// bytes that have no words.
pub fn dictionary(target: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/dictionaries"));
    Some(folder.join(format!("{target}.dict"))).filter(|path| path.exists())
}

/// Reads the inputs of a target.
///
/// # Errors
///
/// The file cannot be read, or has an invalid line.
pub fn read(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let path = path(target);
    let wrong = |number: usize| {
        let place = format!("{}:{}: no input in hex", path.display(), number + 1);
        io::Error::new(io::ErrorKind::InvalidData, place)
    };
    let text = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    text.lines().enumerate().map(|(number, line)| unhex(line).ok_or_else(|| wrong(number))).collect()
}

/// Writes the inputs of a target, shortest first, and returns their number. If they have more than [`BYTES_MAX`] bytes
/// in all, some are left out, long ones no more often than short ones, since some edges need long inputs.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(target: &str, mut inputs: Vec<Vec<u8>>) -> io::Result<usize> {
    inputs.sort_by_cached_key(|input| hash(input));
    inputs.dedup();
    let mut room = BYTES_MAX;
    inputs.retain(|input| {
        let fits = input.len() <= room;
        room -= if fits { input.len() } else { 0 };
        fits
    });
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    let lines: Vec<String> = inputs.iter().map(|input| hex(input) + "\n").collect();
    fs::write(path(target), lines.concat())?;
    Ok(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TARGETS;

    #[test]
    fn every_target_has_a_corpus_that_keeps_the_rules() {
        for target in &TARGETS {
            let inputs = read(target.name).unwrap();
            assert!(inputs.len() >= 10, "{}: {} inputs", target.name, inputs.len());
            assert!(inputs.iter().map(Vec::len).sum::<usize>() <= BYTES_MAX, "{}", target.name);
            for input in inputs {
                assert_eq!((target.feed)(&input), Ok(()), "{}:{}", target.name, hex(&input));
            }
        }
        let without = TARGETS.iter().filter(|target| dictionary(target.name).is_none());
        assert_eq!(without.map(|target| target.name).collect::<Vec<_>>(), ["dns", "rows"]);
    }
}
