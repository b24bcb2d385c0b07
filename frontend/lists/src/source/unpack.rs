//! Compressed lists: gzip (RFC 1952, any number of members) and Zstandard (RFC 8878, any number of frames). Their first bytes
//! identify them.

use super::options::Limits;
use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::io::{Cursor, Error, Read, Result};
use std::rc::Rc;

const GZIP: &[u8] = b"\x1f\x8b\x08";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Number of bytes read from a compressed input.
#[derive(Debug, Clone, Default)]
pub(super) struct Count(Rc<Cell<u64>>);

impl Count {
    /// The number of compressed bytes so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

struct Counted {
    input: Box<dyn Read>,
    count: Count,
    /// How many more bytes may be read without output.
    left: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(Error::other("a long part of the compressed data has no content"));
        }
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.input.read(&mut buffer[..room])?;
        self.left.set(left - count as u64);
        self.count.0.set(self.count.0.get() + count as u64);
        Ok(count)
    }
}

/// Returns no more bytes than the limits allow.
struct Limited {
    input: Box<dyn Read>,
    limits: Limits,
    given: u64,
    /// How many more compressed bytes may be read without output; shared with [`Counted`].
    left: Rc<Cell<u64>>,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.left.set(self.limits.packed_without_output);
        let count = self.input.read(buffer)?;
        self.given += count as u64;
        if self.given > self.limits.bytes {
            let mib = self.limits.bytes >> 20;
            return Err(Error::other(format!("it has more than {mib} MiB after decompression. Split it")));
        }
        Ok(count)
    }
}

/// The contents of a file that may be compressed, from its first byte.
///
/// # Errors
/// Reading fails, or the compressed data begins with an error.
pub fn decompressed(input: Box<dyn Read>) -> Result<Box<dyn Read>> {
    Ok(open(input, None)?.0)
}

/// An input whose bytes are counted.
pub(super) fn counted(input: Box<dyn Read>) -> (Box<dyn Read>, Count) {
    let count = Count::default();
    let left = Rc::new(Cell::new(u64::MAX));
    (Box::new(Counted { input, count: count.clone(), left }), count)
}

/// The decompressed input and, if it was compressed, the number of bytes read from it.
pub(super) fn open(
    mut input: Box<dyn Read>,
    limits: Option<Limits>,
) -> Result<(Box<dyn Read>, Option<Count>)> {
    let mut head = Vec::new();
    input.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
    let (gzip, zstd) = (head.starts_with(GZIP), head.starts_with(ZSTD));
    let whole: Box<dyn Read> = Box::new(Cursor::new(head).chain(input));
    let (count, left) = (Count::default(), Rc::new(Cell::new(u64::MAX)));
    let counted = |input| Counted { input, count: count.clone(), left: Rc::clone(&left) };
    let input: Box<dyn Read> = if gzip {
        Box::new(MultiGzDecoder::new(counted(whole)))
    } else if zstd {
        let mut decoder = zstd::Decoder::new(counted(whole))?;
        if let Some(limits) = limits {
            decoder.window_log_max(limits.window_log)?;
        }
        Box::new(decoder)
    } else {
        whole
    };
    let input = match limits {
        Some(limits) => Box::new(Limited { input, limits, given: 0, left }),
        None => input,
    };
    Ok((input, (gzip || zstd).then_some(count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        open(Box::new(Cursor::new(bytes)), None)?.0.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn all_members_and_frames_are_read() {
        let zstd = |text: &[u8]| zstd::encode_all(text, 3).unwrap();
        for (bytes, packed) in [
            (b"one two".to_vec(), false),
            ([gzip(b"one "), gzip(b""), gzip(b"two")].concat(), true),
            ([zstd(b"one "), zstd(b"two")].concat(), true),
        ] {
            let (mut input, count) = open(Box::new(Cursor::new(bytes.clone())), None).unwrap();
            let mut out = Vec::new();
            input.read_to_end(&mut out).unwrap();
            assert_eq!(out, b"one two");
            assert_eq!(count.map(|count| count.get()), packed.then_some(bytes.len() as u64));
        }
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
        assert_eq!(unpacked(b"\x1f\x8b".to_vec()).unwrap(), b"\x1f\x8b");
    }

    #[test]
    fn what_is_cut_off_or_broken_is_an_error() {
        let text: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let (gzip, zstd) = (gzip(&text), zstd::encode_all(&text[..], 3).unwrap());
        let says_remedy = |error: Error| {
            let said = crate::ListError::reading("list.gz cannot be read", &error).to_string();
            assert!(said.ends_with("; the file is incomplete or damaged: get it again"), "{said}");
        };
        for packed in [&gzip, &zstd] {
            says_remedy(unpacked(packed[..packed.len() - 5].to_vec()).unwrap_err());
        }
        // A Zstandard frame may have no checksum; a gzip member always has one.
        let mut broken = gzip.clone();
        broken[gzip.len() / 2..][..50].fill(0xff);
        says_remedy(unpacked(broken).unwrap_err());
    }

    const LIMITS: Limits = Limits {
        bytes: 1 << 20,
        packed_without_output: 4096,
        window_log: 21,
        workbook_bytes: 0,
        workbook_text_bytes: 0,
        workbook_work: 0,
        columns: 9,
    };

    fn limited(bytes: Vec<u8>) -> std::result::Result<usize, String> {
        let said = |error: Error| error.to_string();
        let mut input = open(Box::new(Cursor::new(bytes)), Some(LIMITS)).map_err(said)?.0;
        input.read_to_end(&mut Vec::new()).map_err(said)
    }

    #[test]
    fn what_unpacks_to_more_than_it_may_is_an_error() {
        let (most, over) = (vec![b'\n'; 1 << 20], vec![b'\n'; (1 << 20) + 1]);
        for pack in [|text: &[u8]| text.to_vec(), gzip, |text: &[u8]| zstd::encode_all(text, 3).unwrap()] {
            assert_eq!(limited(pack(&most)), Ok(1 << 20));
            let why = limited(pack(&over)).expect_err("it is too long");
            assert!(why.contains("more than 1 MiB after decompression"), "{why}");
        }
    }

    #[test]
    fn what_holds_nothing_for_long_or_takes_much_memory_is_an_error() {
        let hollow =
            [zstd::encode_all(&b"a"[..], 3).unwrap(), zstd::encode_all(&b""[..], 3).unwrap().repeat(1000)];
        assert!(limited(hollow.concat()).expect_err("it is hollow").contains("has no content"));
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(22).unwrap();
        encoder.write_all(&[0; 1000]).unwrap();
        let wide = encoder.finish().unwrap();
        assert_eq!(unpacked(wide.clone()).unwrap().len(), 1000);
        assert!(limited(wide).is_err());
    }
}
