//! The forms in which the built-in lists are compiled in: hashes, and sorted lines that are found by their hashes.

mod hash;

pub(crate) use hash::below_header;
use hashbrown::HashTable;
use std::sync::OnceLock;

/// The hashes of a list's entries in rising order. The lowest two bits have the sources of the entry (`build.rs` writes both).
pub(crate) struct Hashes(pub(crate) &'static [[u8; 8]]);

impl Hashes {
    pub(crate) const fn new(bytes: &'static [u8]) -> Hashes {
        Hashes(bytes.as_chunks().0)
    }

    /// The bits of the entry's sources, if the list holds it. Letter case does not matter. A domain that is not on the list has the
    /// hash of a listed one with a probability of 2^-46. Somebody can choose a domain with such a hash, but this changes only the
    /// verdicts of that domain.
    pub(crate) fn bits(&self, entry: &str) -> Option<u8> {
        let hash = hash::fnv(entry) >> 2;
        let number = |listed: &[u8; 8]| u64::from_le_bytes(*listed);
        let at = self.0.binary_search_by(|listed| (number(listed) >> 2).cmp(&hash)).ok()?;
        Some(self.0[at][0] & 3)
    }
}

/// The sorted lines of a list in lower-case ASCII. In the file, a header of lines that begin with `#` precedes them.
pub(crate) struct List {
    lines: &'static str,
    /// The offset of each line, by the line's hash.
    starts: OnceLock<HashTable<u32>>,
}

impl List {
    pub(crate) const fn new(text: &'static str) -> List {
        List { lines: hash::below_header(text), starts: OnceLock::new() }
    }

    /// Whether the list holds `entry`. Letter case does not matter.
    pub(crate) fn contains(&self, entry: &str) -> bool {
        let lines = self.lines.as_bytes();
        let matches = |start: &u32| {
            let line = &lines[*start as usize..];
            line.get(..entry.len()).is_some_and(|line| line.eq_ignore_ascii_case(entry.as_bytes()))
                && matches!(line.get(entry.len()), None | Some(b'\n'))
        };
        self.starts.get_or_init(|| self.index()).find(hash(entry), matches).is_some()
    }

    fn index(&self) -> HashTable<u32> {
        let mut starts = HashTable::with_capacity(self.entries().count());
        let mut start = 0;
        for line in self.entries() {
            starts.insert_unique(hash(line), start, |_| unreachable!("there is room for every line"));
            start += line.len() as u32 + 1;
        }
        starts
    }

    /// The entries in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'static str> {
        self.lines.lines()
    }
}

/// The hash of an entry in a table of offsets. The lists are part of the program, so no peer can choose entries that collide.
pub(crate) fn hash(text: &str) -> u64 {
    let hash = hash::fnv(text);
    // The table uses the highest bits most, and those of FNV depend very little on the last letters.
    hash ^ hash.rotate_left(32)
}
