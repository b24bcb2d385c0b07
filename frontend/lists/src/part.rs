//! The parts of a list: `mailprobe clean --part I/N` checks the rows of one part, and `--join` puts the rows of all parts together.
//!
//! # The rule
//! The part of a row depends on the row and N alone, so every machine finds the same part:
//!
//! - A row with an address: a hash of the domain, modulo N. The domain is in A-labels and lower case.
//! - A row with an address at a large provider (`data/spread.txt`): a hash of [`Address::canonical`], modulo N.
//! - A row without an address: the number of the row, modulo N. Rows count from 0. The header and blank lines do not count.
//!
//! The hash is SipHash-2-4 with 64 bits and a key of zeros. Rows with the same address are in the same part, so no address is
//! checked twice. The rows of a domain are in the same part too, so one machine learns what is true of the domain, for
//! example that it accepts every recipient.
//!
//! The rule never changes: parts of one list may come from different releases. Another rule needs another [`RULE`](crate::RULE), and
//! `--join` refuses parts of different rules. Rule 1 had the same hash, but found addresses in fewer cells. The rule includes the way in which a cell has an address (`address.rs`). With
//! several columns of addresses, the first one counts.
//!
//! # The file
//! `OUT.part-I-of-N` has a first line that describes the part ([`PartTitle`]). After it the file is the output for a list of
//! the rows of the part, with its byte order mark and header.

mod names;
mod spread;
mod title;

use crate::{Row, Source};
use engine_proto::address::Address;
pub use names::PartNames;
use siphasher::sip::SipHasher24;
use spread::SPREAD;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
pub use title::PartTitle;

/// The end of a file name, before the index of the part.
const NAME_START: &str = ".part-";
/// The text between the index and the number of parts in a file name.
const NAME_MIDDLE: &str = "-of-";

/// A part of a list: the value of `--part`, as in `0/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPart {
    index: u32,
    count: u32,
}

impl ListPart {
    /// Maximum number of parts: `--join` opens the files of all parts at the same time.
    pub const COUNT_MAX: u32 = 4096;

    /// The part `index` of `count`; indexes count from 0.
    ///
    /// # Errors
    /// One line: there is no such part.
    pub fn new(index: u32, count: u32) -> Result<ListPart, String> {
        if !(1..=ListPart::COUNT_MAX).contains(&count) {
            return Err(format!("the number of parts is 1 to {}", ListPart::COUNT_MAX));
        }
        if index >= count {
            return Err(format!("the first of {count} parts is 0, the last one is {}", count - 1));
        }
        Ok(ListPart { index, count })
    }

    /// Its position in the list of parts, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of all parts of the list.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The file of the part, if `output` is the file of the whole list.
    pub fn file(self, output: &Path) -> PathBuf {
        let mut name = output.as_os_str().to_owned();
        name.push(format!("{NAME_START}{}{NAME_MIDDLE}{}", self.index, self.count));
        PathBuf::from(name)
    }
}

impl fmt::Display for ListPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for ListPart {
    type Err = String;

    fn from_str(text: &str) -> Result<ListPart, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((number(index)?, number(count)?)));
        let (index, count) = numbers.ok_or("write I/N, for example 0/3 for the first of three parts")?;
        ListPart::new(index, count)
    }
}

/// The number that these digits write; `None` for anything else, also for a sign or a zero in front.
fn number(digits: &str) -> Option<u32> {
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    is_plain.then(|| digits.parse().ok()).flatten()
}

/// Distributes the rows of a list, in their order.
pub struct Partition {
    count: u32,
    /// Number of rows so far.
    rows: u64,
    folded: Vec<u8>,
}

impl Partition {
    /// Before the first row of a list with this number of parts, which is not 0.
    pub fn new(count: u32) -> Partition {
        Partition { count, rows: 0, folded: Vec::new() }
    }

    /// The part of the next row, from its address if it has one.
    pub fn next(&mut self, address: Option<&Address>) -> u32 {
        let key = address.map_or(self.rows, |address| self.key(address));
        self.rows += 1;
        (key % u64::from(self.count)) as u32
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn key(&mut self, address: &Address) -> u64 {
        let domain = address.domain().as_str();
        if SPREAD.binary_search(&domain).is_err() {
            return SipHasher24::new().hash(domain.as_bytes());
        }
        // The same text as `Address::canonical`, without an allocation.
        self.folded.clear();
        self.folded.extend_from_slice(address.as_str().as_bytes());
        self.folded.make_ascii_lowercase();
        SipHasher24::new().hash(&self.folded)
    }
}

/// The rows of one part.
pub struct PartRows {
    part: ListPart,
    partition: Partition,
    /// Whether the last row belongs to the part.
    is_own: bool,
    /// The first line of the part's file.
    pub title: Vec<u8>,
}

impl PartRows {
    /// The rows of this part of a list that is open and not read yet.
    pub fn new(part: ListPart, source: &Source, fast: bool) -> PartRows {
        let title = PartTitle::new(part, source, fast).line();
        PartRows { part, partition: Partition::new(part.count), is_own: false, title }
    }

    /// The part that the rows belong to.
    pub fn part(&self) -> ListPart {
        self.part
    }

    /// Whether the next row of the list belongs to the part. A row with several addresses belongs to the part of its first one.
    pub fn has_next(&mut self, row: &Row) -> bool {
        if !row.is_continued {
            self.is_own = self.partition.next(row.address.as_ref()) == self.part.index;
        }
        self.is_own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[track_caller]
    fn check(text: &str, expected: Result<(u32, u32), &str>) {
        let part = text.parse::<ListPart>();
        let found = part.as_ref().map(|part| (part.index(), part.count())).map_err(String::as_str);
        assert_eq!(found, expected, "{text}");
        assert!(part.is_err() || part.unwrap().to_string() == text);
    }

    #[test]
    fn the_flag() {
        let form = "write I/N, for example 0/3 for the first of three parts";
        check("0/1", Ok((0, 1)));
        check("2/3", Ok((2, 3)));
        check("4095/4096", Ok((4095, 4096)));
        check("3/3", Err("the first of 3 parts is 0, the last one is 2"));
        check("1/1", Err("the first of 1 parts is 0, the last one is 0"));
        check("0/0", Err("the number of parts is 1 to 4096"));
        check("0/4097", Err("the number of parts is 1 to 4096"));
        for text in
            ["", "/", "1", "1/", "/3", "a/3", "-1/3", "+1/3", "1/3/3", "01/3", "1/03", " 1/3", "0/4294967296"]
        {
            check(text, Err(form));
        }
    }

    #[test]
    fn files() {
        let part: ListPart = "7/12".parse().unwrap();
        assert_eq!(part.file(Path::new("a/OUT.csv.gz")), Path::new("a/OUT.csv.gz.part-7-of-12"));
    }

    /// These values never change: machines with other releases rely on them. They come from an implementation of SipHash-2-4 of
    /// its own, which gives the vectors of the reference implementation.
    #[test]
    fn the_rule_is_fixed() {
        for (address, key) in KNOWN {
            let address = Address::parse(address).unwrap();
            assert_eq!(Partition::new(1).key(&address), *key, "{}", address.as_str());
        }
        for count in [1, 2, 3, 7, 64, 1000, 4096] {
            let mut partition = Partition::new(count);
            for (address, key) in KNOWN {
                let part = partition.next(Address::parse(address).ok().as_ref());
                assert_eq!(u64::from(part), key % u64::from(count), "{address} of {count}");
            }
        }
    }

    const KNOWN: &[(&str, u64)] = &[
        ("someone@example.com", 0x55b1_2b92_dcba_9fa9),
        ("Other.One@EXAMPLE.com", 0x55b1_2b92_dcba_9fa9),
        ("someone@mail.example.org", 0x42a5_6e85_8291_5f53),
        ("ann@bücher.example", 0x234c_7cce_2820_fc72),
        ("joe@example.co.uk", 0x31b2_2a8c_90a1_766a),
        ("Someone@GMail.com", 0x864e_903c_a132_f500),
        ("someone.else@gmail.com", 0xd49d_b284_7d6d_1ad3),
        ("\"a b\"@web.de", 0x97b9_6f94_8806_5336),
        ("someone@sub.gmail.com", 0x55cb_6d26_a08f_9166),
        ("10001@qq.com", 0xeb7a_2590_1528_2d8c),
    ];

    #[test]
    fn rows_without_an_address_go_by_their_numbers() {
        let address = Address::parse("joe@example.com").unwrap();
        let mut partition = Partition::new(3);
        let mut parts = Vec::new();
        for row in 0..9 {
            parts.push(partition.next((row == 4).then_some(&address)));
        }
        parts.remove(4);
        assert_eq!((parts, partition.rows()), (vec![0, 1, 2, 0, 2, 0, 1, 2], 9));
    }

    #[test]
    fn equal_addresses_are_in_one_part() {
        for forms in [
            ["Joe@Example.com", "\"joe\"@example.COM"],
            ["Joe@GMAIL.com", "\"joe\"@gmail.com"],
            ["a@bücher.example", "A@xn--bcher-kva.example"],
        ] {
            let keys = forms.map(|text| Partition::new(1).key(&Address::parse(text).unwrap()));
            assert_eq!(keys[0], keys[1], "{forms:?}");
        }
        let part = |text: &str| Partition::new(4096).next(Some(&Address::parse(text).unwrap()));
        let parts =
            |domain: &str| (0..200).map(|n| part(&format!("user{n}@{domain}"))).collect::<HashSet<_>>();
        assert_eq!(parts("example.com").len(), 1, "a domain is in one part");
        assert!(parts("gmail.com").len() > 180, "a large provider is in all parts");
    }

    #[test]
    fn parts_are_of_about_the_same_size() {
        let mut sizes = vec![0; 64];
        let mut partition = Partition::new(64);
        for n in 0..64_000 {
            let address = Address::parse(&format!("user@domain-{n}.example")).unwrap();
            sizes[partition.next(Some(&address)) as usize] += 1;
        }
        // 1,000 on average, with a standard deviation of 31.
        assert!(sizes.iter().all(|size| (850..1150).contains(size)), "{sizes:?}");
    }
}
