//! The addresses to ask about: from a file in turn, or generated without repetition.

use crate::random::Random;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many addresses of a file are kept; the rest is ignored.
const KEPT_MAX: usize = 1_000_000;

/// A source of addresses that threads share.
#[derive(Debug)]
pub struct Addresses {
    next: AtomicU64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Addresses in turn, from the beginning again after the last.
    Listed(Vec<String>),
    /// `user-N@dM.example`, as in the built-in scenario: a new user each time, at a random domain, so that the requests
    /// to a domain arrive as irregularly as those to the server.
    Counted { domains: u64 },
}

impl Addresses {
    /// Generated addresses of the domains `d1.example`, `d2.example` and on. Each address occurs once.
    pub fn counted(domains: u64) -> Addresses {
        Addresses { next: AtomicU64::new(0), source: Source::Counted { domains: domains.max(1) } }
    }

    /// The addresses of a file: one per line, or the first column of a CSV file.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Addresses, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut listed = Vec::new();
        for line in BufReader::new(File::open(path).map_err(wrong)?).lines() {
            let line = line.map_err(wrong)?;
            let address = line.split(',').next().unwrap_or_default().trim();
            if address.contains('@') && listed.len() < KEPT_MAX {
                listed.push(address.to_owned());
            }
        }
        if listed.is_empty() {
            return Err(format!("{} has no address", path.display()));
        }
        Ok(Addresses { next: AtomicU64::new(0), source: Source::Listed(listed) })
    }

    /// Appends the next address in the form of a JSON string without its quotes.
    pub fn next(&self, out: &mut String) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        match &self.source {
            Source::Listed(listed) => {
                let address = &listed[(turn % listed.len() as u64) as usize];
                for letter in address.chars() {
                    match letter {
                        '"' | '\\' => out.extend(['\\', letter]),
                        letter if letter.is_control() => {}
                        letter => out.push(letter),
                    }
                }
            }
            Source::Counted { domains } => {
                use std::fmt::Write;
                let domain = Random::new(turn).below(*domains) + 1;
                let _ = write!(out, "user-{turn}@d{domain}.example");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn taken(addresses: &Addresses, count: usize) -> Vec<String> {
        let one = || {
            let mut out = String::new();
            addresses.next(&mut out);
            out
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn counted_addresses_come_once_and_to_all_domains() {
        let all = taken(&Addresses::counted(10), 1000);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 1000);
        for domain in 1..=10 {
            let end = format!("@d{domain}.example");
            let count = all.iter().filter(|address| address.ends_with(&end)).count();
            assert!((60..140).contains(&count), "{count} at {end}");
        }
    }

    #[test]
    fn a_file_is_read_and_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.csv");
        std::fs::write(&path, "address,expected\na@x.example,ok\n\n\"q\\\\\"@y.example\n").unwrap();
        let all = taken(&Addresses::read(&path).unwrap(), 3);
        assert_eq!(all[0], "a@x.example");
        assert_eq!(all[1], r#"\"q\\\\\"@y.example"#);
        assert_eq!(all[2], "a@x.example");
        std::fs::write(&path, "nobody\n").unwrap();
        assert!(Addresses::read(&path).unwrap_err().contains("has no address"));
    }
}
