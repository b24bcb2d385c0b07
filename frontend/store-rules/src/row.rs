//! The encoding of rows: unsigned numbers as LEB128 (seven bits per byte, least significant first), text as its length
//! and its UTF-8, fixed arrays without a length. It is compact, because the ledger is most of the file. It is explicit,
//! because the format must not depend on a version of the code.

use std::borrow::Cow;
use std::sync::Arc;
use store::id::Uuid7;
use store::webhooks::WebhookSecret;
use store::{AccountId, AddressHash, BatchId, ConnectionId, EntryId, KeyId, ListId, MessageId, StoreError};

/// A value with its encoding: a whole row, or a part of one.
pub trait Codec {
    /// Appends the encoded value.
    fn write(&self, out: &mut Out);

    /// `None` if the bytes are no such value.
    fn read(input: &mut In<'_>) -> Option<Self>
    where
        Self: Sized;

    /// Appends values without their number.
    fn write_all(values: &[Self], out: &mut Out)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.write(out));
    }

    /// Reads so many values.
    fn read_all(count: usize, input: &mut In<'_>) -> Option<Vec<Self>>
    where
        Self: Sized,
    {
        (0..count).map(|_| Self::read(input)).collect()
    }
}

/// A value of a table.
pub trait Row: Codec + Sized {
    /// The name of the table, for the message about a damaged row.
    const TABLE: &'static str;

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

/// Encodes a struct as its fields in the given order. A field behind `;` is an `Option` without a flag: it is there if bytes are left.
macro_rules! fields {
    ($type:ident { $($field:ident),* $(; $last:ident)? }) => {
        impl $crate::row::Codec for $type {
            fn write(&self, out: &mut $crate::row::Out) {
                let $type { $($field,)* $($last)? } = self;
                $($field.write(out);)*
                $($last.iter().for_each(|last| last.write(out));)?
            }

            fn read(input: &mut $crate::row::In<'_>) -> Option<$type> {
                $(let $field = $crate::row::Codec::read(input)?;)*
                $(let $last = if input.is_empty() { None } else { Some($crate::row::Codec::read(input)?) };)?
                Some($type { $($field,)* $($last)? })
            }
        }
    };
}
pub(crate) use fields;

/// The row of a table; with fields, also its encoding by [`fields`].
macro_rules! row {
    ($table:literal, $type:ty) => {
        impl $crate::row::Row for $type {
            const TABLE: &'static str = $table;
        }
    };
    ($table:literal, $type:ident { $($fields:tt)* }) => {
        $crate::row::fields!($type { $($fields)* });
        $crate::row::row!($table, $type);
    };
}
pub(crate) use row;

/// Encodes an enumeration as one byte: its codes, which never change their meaning.
macro_rules! codes {
    ($type:ident { $($value:ident = $code:literal),* $(,)? }) => {
        impl $crate::row::Codec for $type {
            fn write(&self, out: &mut $crate::row::Out) {
                out.byte(match self {
                    $($type::$value => $code,)*
                });
            }

            fn read(input: &mut $crate::row::In<'_>) -> Option<$type> {
                match input.byte()? {
                    $($code => Some($type::$value),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use codes;

/// The bytes of a row that is being encoded.
pub struct Out(Vec<u8>);

impl Out {
    /// Appends values of different types.
    pub fn all(&mut self, values: &[&dyn Codec]) {
        values.iter().for_each(|value| value.write(self));
    }

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

    /// Appends zeros up to a multiple of `step`, and to at least `least`.
    pub fn pad(&mut self, least: usize, step: usize) {
        self.0.resize(self.0.len().max(least).next_multiple_of(step), 0);
    }

    /// Appends bytes without their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
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

    /// Reads an array of fixed length.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Codec for $type {
            fn write(&self, out: &mut Out) {
                out.number((*self).into());
            }

            fn read(input: &mut In<'_>) -> Option<$type> {
                input.number()?.try_into().ok()
            }
        }
    )*};
}
numbers!(u16, u32, u64);

impl Codec for u8 {
    fn write(&self, out: &mut Out) {
        out.byte(*self);
    }

    fn read(input: &mut In<'_>) -> Option<u8> {
        input.byte()
    }

    fn write_all(bytes: &[u8], out: &mut Out) {
        out.bytes(bytes);
    }

    fn read_all(count: usize, input: &mut In<'_>) -> Option<Vec<u8>> {
        let (bytes, rest) = input.0.split_at_checked(count)?;
        input.0 = rest;
        Some(bytes.to_vec())
    }
}

impl Codec for bool {
    fn write(&self, out: &mut Out) {
        out.byte(u8::from(*self));
    }

    fn read(input: &mut In<'_>) -> Option<bool> {
        match input.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<const N: usize> Codec for [u8; N] {
    fn write(&self, out: &mut Out) {
        out.bytes(self);
    }

    fn read(input: &mut In<'_>) -> Option<[u8; N]> {
        input.array()
    }
}

/// The number of values, and the values.
impl<T: Codec> Codec for Vec<T> {
    fn write(&self, out: &mut Out) {
        out.number(self.len() as u64);
        T::write_all(self, out);
    }

    fn read(input: &mut In<'_>) -> Option<Vec<T>> {
        let count = usize::try_from(input.number()?).ok()?;
        T::read_all(count, input)
    }
}

/// The length in bytes, and the UTF-8.
impl Codec for String {
    fn write(&self, out: &mut Out) {
        out.number(self.len() as u64);
        out.bytes(self.as_bytes());
    }

    fn read(input: &mut In<'_>) -> Option<String> {
        String::from_utf8(Vec::read(input)?).ok()
    }
}

impl Codec for Cow<'static, str> {
    fn write(&self, out: &mut Out) {
        out.number(self.len() as u64);
        out.bytes(self.as_bytes());
    }

    fn read(input: &mut In<'_>) -> Option<Cow<'static, str>> {
        String::read(input).map(Cow::Owned)
    }
}

impl<T: Codec> Codec for Arc<T> {
    fn write(&self, out: &mut Out) {
        (**self).write(out);
    }

    fn read(input: &mut In<'_>) -> Option<Arc<T>> {
        T::read(input).map(Arc::new)
    }
}

/// A flag, and the value if there is one.
impl<T: Codec> Codec for Option<T> {
    fn write(&self, out: &mut Out) {
        self.is_some().write(out);
        self.iter().for_each(|value| value.write(out));
    }

    fn read(input: &mut In<'_>) -> Option<Option<T>> {
        if bool::read(input)? { T::read(input).map(Some) } else { Some(None) }
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn write(&self, out: &mut Out) {
        out.all(&[&self.0, &self.1]);
    }

    fn read(input: &mut In<'_>) -> Option<(A, B)> {
        Some((A::read(input)?, B::read(input)?))
    }
}

impl Codec for Uuid7 {
    fn write(&self, out: &mut Out) {
        out.bytes(&self.to_bytes());
    }

    fn read(input: &mut In<'_>) -> Option<Uuid7> {
        input.array().map(Uuid7::from_bytes)
    }
}

/// Encodes a type as the only value that it has.
macro_rules! newtypes {
    ($($type:ident),*) => {$(
        impl Codec for $type {
            fn write(&self, out: &mut Out) {
                self.0.write(out);
            }

            fn read(input: &mut In<'_>) -> Option<$type> {
                Codec::read(input).map($type)
            }
        }
    )*};
}
newtypes!(AccountId, AddressHash, BatchId, ConnectionId, EntryId, KeyId, ListId, MessageId, WebhookSecret);

/// A number in eight bytes, least significant first: redb's own form of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed(pub u64);

impl Codec for Fixed {
    fn write(&self, out: &mut Out) {
        out.bytes(&self.0.to_le_bytes());
    }

    fn read(input: &mut In<'_>) -> Option<Fixed> {
        input.array().map(|bytes| Fixed(u64::from_le_bytes(bytes)))
    }
}

row!("numbers", Fixed);

// The row of an index that refers to an account.
row!("accounts", AccountId);

/// The row of an index that has keys only.
impl Codec for () {
    fn write(&self, _: &mut Out) {}

    fn read(_: &mut In<'_>) -> Option<()> {
        Some(())
    }
}

row!("keys", ());

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
            while String::read(&mut input).is_some() || input.number().is_some() || input.array::<4>().is_some() {}
        }
    }
}
