//! The encoding of rows: unsigned numbers as LEB128 (seven bits per byte, least significant first), text as its length
//! and its UTF-8, fixed arrays without a length. It is compact, because the ledger is most of the file. It is explicit,
//! because the format must not depend on a version of the code.

use store::{AccountId, StoreError};

/// A value of a table, with its encoding.
pub trait Row: Sized {
    /// The name of the table, for the message about a damaged row.
    const TABLE: &'static str;

    /// Appends the encoded row.
    fn write(&self, out: &mut Out);

    /// `None` if the bytes are no such row.
    fn read(input: &mut In<'_>) -> Option<Self>;

    /// The bytes of the row.
    fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(96));
        self.write(&mut out);
        out.0
    }

    /// The row of these bytes.
    ///
    /// # Errors
    ///
    /// The bytes are no such row.
    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut input = In(bytes);
        match Self::read(&mut input) {
            Some(row) if input.0.is_empty() => Ok(row),
            _ => Err(StoreError::Failed(format!("table {} has a row that cannot be read", Self::TABLE))),
        }
    }
}

/// The bytes of a row that is being encoded.
pub struct Out(Vec<u8>);

impl Out {
    /// Appends a number as LEB128.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Appends one byte as it is.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Appends bytes without their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends a text with its length.
    pub fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    /// Appends bytes with their length.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }
}

/// The rest of the bytes of a row that is being decoded.
pub struct In<'a>(&'a [u8]);

impl In<'_> {
    /// Reads a number; `None` if it is incomplete or has more than 64 bits.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has only one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads one byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Reads a byte that is 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A number of at most 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Reads an array of fixed length.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a text; `None` if it is no UTF-8.
    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.blob()?).ok()
    }

    /// Reads bytes with their length.
    pub fn blob(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }
}

/// A number in eight bytes, least significant first: redb's own form of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed(pub u64);

impl Row for Fixed {
    const TABLE: &'static str = "numbers";

    fn write(&self, out: &mut Out) {
        out.bytes(&self.0.to_le_bytes());
    }

    fn read(input: &mut In<'_>) -> Option<Fixed> {
        Some(Fixed(u64::from_le_bytes(input.array()?)))
    }
}

/// The row of an index that refers to an account.
impl Row for AccountId {
    const TABLE: &'static str = "accounts";

    fn write(&self, out: &mut Out) {
        out.bytes(&self.to_bytes());
    }

    fn read(input: &mut In<'_>) -> Option<AccountId> {
        Some(AccountId::from_bytes(input.array()?))
    }
}

/// The row of an index that has keys only.
impl Row for () {
    const TABLE: &'static str = "keys";

    fn write(&self, _: &mut Out) {}

    fn read(_: &mut In<'_>) -> Option<()> {
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_one_length_each() {
        for (number, bytes) in [(0u64, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut out = Out(Vec::new());
            out.number(number);
            assert_eq!(out.0.len(), bytes, "{number}");
            assert_eq!(In(&out.0).number(), Some(number));
        }
        assert_eq!(In(&[0xff; 9]).number(), None);
        assert_eq!(In(&[0xff; 11]).number(), None);
        assert_eq!(In(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut input = In(&bytes);
            while input.text().is_some() || input.number().is_some() || input.array::<4>().is_some() {}
        }
    }
}
