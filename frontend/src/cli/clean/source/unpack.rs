//! Packed lists: gzip (RFC 1952, of any number of members) and Zstandard (RFC 8878, of any number of frames), known by
//! how they begin.

use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::io::{Cursor, Read, Result};
use std::rc::Rc;

const GZIP: &[u8] = b"\x1f\x8b\x08";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// How many octets of a packed input were read.
#[derive(Debug, Clone, Default)]
pub(super) struct Count(Rc<Cell<u64>>);

impl Count {
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

struct Counted {
    input: Box<dyn Read>,
    count: Count,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.input.read(buffer)?;
        self.count.0.set(self.count.0.get() + count as u64);
        Ok(count)
    }
}

/// The input unpacked, and where it was packed, the count of what was read of it.
pub(super) fn open(mut input: Box<dyn Read>) -> Result<(Box<dyn Read>, Option<Count>)> {
    let mut head = Vec::new();
    input.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
    let (gzip, zstd) = (head.starts_with(GZIP), head.starts_with(ZSTD));
    let whole: Box<dyn Read> = Box::new(Cursor::new(head).chain(input));
    if !gzip && !zstd {
        return Ok((whole, None));
    }
    let count = Count::default();
    let packed = Counted { input: whole, count: count.clone() };
    let input: Box<dyn Read> =
        if gzip { Box::new(MultiGzDecoder::new(packed)) } else { Box::new(zstd::Decoder::new(packed)?) };
    Ok((input, Some(count)))
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
        open(Box::new(Cursor::new(bytes)))?.0.read_to_end(&mut out)?;
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
            let (mut input, count) = open(Box::new(Cursor::new(bytes.clone()))).unwrap();
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
        for packed in [&gzip, &zstd] {
            assert!(unpacked(packed[..packed.len() - 5].to_vec()).is_err());
        }
        // Frames of Zstandard need not have a checksum; members of gzip have one.
        let mut broken = gzip.clone();
        broken[gzip.len() / 2..][..50].fill(0xff);
        assert!(unpacked(broken).is_err());
    }
}
