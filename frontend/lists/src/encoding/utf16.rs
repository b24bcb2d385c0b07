//! UTF-16 (RFC 2781), decoded to bytes that are UTF-8 except for unpaired surrogates, and back. Such a surrogate takes the three
//! bytes that UTF-8 would give it, so that no unit of a list is lost.

use super::ByteOrder;
use std::io::{Error, ErrorKind, Read, Result};

/// Number of bytes read at once.
const CHUNK: usize = 16 * 1024;

/// A reader that decodes UTF-16.
pub(crate) struct Decoder<R> {
    input: R,
    order: ByteOrder,
    /// The first byte of a unit whose second byte is not read yet.
    half: Option<u8>,
    /// A high surrogate whose low surrogate is not read yet.
    high: Option<u16>,
    raw: Vec<u8>,
    decoded: Vec<u8>,
    at: usize,
}

impl<R: Read> Decoder<R> {
    /// Decodes an input that begins after its byte order mark.
    pub fn new(input: R, order: ByteOrder) -> Decoder<R> {
        Decoder { input, order, half: None, high: None, raw: vec![0; CHUNK], decoded: Vec::new(), at: 0 }
    }

    /// Decodes the next bytes. Returns whether there may be more.
    fn fill(&mut self) -> Result<bool> {
        self.decoded.clear();
        self.at = 0;
        let count = self.input.read(&mut self.raw)?;
        if count == 0 {
            if let Some(high) = self.high.take() {
                push(u32::from(high), &mut self.decoded);
            }
            // Tools that split lines at bytes cut a line end of UTF-16, or add one of another encoding.
            match self.half.take() {
                Some(b'\n') => push(u32::from(b'\n'), &mut self.decoded),
                None | Some(0) => {}
                Some(_) => {
                    return Err(Error::new(ErrorKind::InvalidData, "it ends within a character of UTF-16"));
                }
            }
            return Ok(false);
        }
        for at in 0..count {
            let byte = self.raw[at];
            match self.half.take() {
                None => self.half = Some(byte),
                Some(first) => self.take(first, byte),
            }
        }
        Ok(true)
    }

    fn take(&mut self, first: u8, second: u8) {
        let unit = match self.order {
            ByteOrder::Little => u16::from_le_bytes([first, second]),
            ByteOrder::Big => u16::from_be_bytes([first, second]),
        };
        match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let code = 0x1_0000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(unit) - 0xdc00);
                return push(code, &mut self.decoded);
            }
            (Some(high), _) => push(u32::from(high), &mut self.decoded),
            (None, _) => {}
        }
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            _ => push(u32::from(unit), &mut self.decoded),
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.at == self.decoded.len() {
            if !self.fill()? && self.decoded.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.decoded.len() - self.at);
        buffer[..count].copy_from_slice(&self.decoded[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Appends a code point as UTF-8, also that of a surrogate.
fn push(code: u32, out: &mut Vec<u8>) {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    match code {
        0..0x80 => out.push(code as u8),
        0x80..0x800 => out.extend([0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => out.extend([0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => out.extend([0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}

/// Encodes text of [`Decoder`], and ASCII.
pub(crate) fn encode(text: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    out.reserve(2 * text.len());
    let mut put = |unit: u16| match order {
        ByteOrder::Little => out.extend(unit.to_le_bytes()),
        ByteOrder::Big => out.extend(unit.to_be_bytes()),
    };
    let mut at = 0;
    while let Some(&first) = text.get(at) {
        let tail = |n: usize| u32::from(text.get(at + n).copied().unwrap_or_default() & 0x3f);
        let (code, length) = match first {
            0..0x80 => (u32::from(first), 1),
            0x80..0xe0 => (u32::from(first & 0x1f) << 6 | tail(1), 2),
            0xe0..0xf0 => (u32::from(first & 0x0f) << 12 | tail(1) << 6 | tail(2), 3),
            _ => (u32::from(first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4),
        };
        at += length;
        match code.checked_sub(0x1_0000) {
            None => put(code as u16),
            Some(above) => {
                put(0xd800 | (above >> 10) as u16);
                put(0xdc00 | (above & 0x3ff) as u16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// Returns pieces of this many bytes.
    struct Slowly(Cursor<Vec<u8>>, usize);

    impl Read for Slowly {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let room = buffer.len().min(self.1);
            self.0.read(&mut buffer[..room])
        }
    }

    fn decoded(units: &[u16], order: ByteOrder, piece: usize) -> Vec<u8> {
        let bytes = units.iter().flat_map(|unit| match order {
            ByteOrder::Little => unit.to_le_bytes(),
            ByteOrder::Big => unit.to_be_bytes(),
        });
        let mut out = Vec::new();
        let input = Slowly(Cursor::new(bytes.collect()), piece);
        Decoder::new(input, order).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn texts_are_decoded_and_encoded() {
        let text = "email\tü\r\n€ メール 😀\u{10ffff}\u{ffff}";
        let units: Vec<u16> = text.encode_utf16().collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for piece in [1, 2, 3, 1000] {
                assert_eq!(decoded(&units, order, piece), text.as_bytes());
            }
        }
    }

    #[test]
    fn no_unit_is_lost() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let units: Vec<u16> = (0..random.usize(..12))
                .map(|_| match random.u8(..4) {
                    0 => random.u16(0xd800..0xe000),
                    1 => random.u16(..0x80),
                    _ => random.u16(..),
                })
                .collect();
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let text = decoded(&units, order, random.usize(1..9));
                let mut bytes = Vec::new();
                encode(&text, order, &mut bytes);
                let again: Vec<u16> = bytes
                    .chunks_exact(2)
                    .map(|unit| match order {
                        ByteOrder::Little => u16::from_le_bytes([unit[0], unit[1]]),
                        ByteOrder::Big => u16::from_be_bytes([unit[0], unit[1]]),
                    })
                    .collect();
                assert_eq!(again, units);
            }
        }
    }

    #[test]
    fn a_cut_character_is_an_error() {
        let mut decoder = Decoder::new(Cursor::new(b"a\0b".to_vec()), ByteOrder::Little);
        let error = decoder.read_to_end(&mut Vec::new()).expect_err("it is cut");
        assert_eq!(error.to_string(), "it ends within a character of UTF-16");
    }
}
