//! Identifiers: a time in milliseconds and 74 random bits in the format of a UUIDv7 (RFC 9562 5.7), so that consecutive
//! ids are adjacent in a table. The text form is a prefix and 26 lower-case Crockford base32 characters (no i, l, o,
//! u).

use super::UnixMs;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_CHARS: usize = 26;

/// The 128 bits of an identifier, in the order of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid7(u128);

impl Uuid7 {
    /// An identifier from a time and random bits, 74 of which are used.
    pub fn new(now: UnixMs, random: u128) -> Uuid7 {
        let time = u128::from(now & 0xffff_ffff_ffff) << 80;
        let version = 7 << 76;
        let rand_a = (random >> 66 & 0xfff) << 64;
        let variant = 0b10 << 62;
        let rand_b = random & ((1 << 62) - 1);
        Uuid7(time | version | rand_a | variant | rand_b)
    }

    /// The time at which it was created.
    pub fn made_at(self) -> UnixMs {
        (self.0 >> 80) as UnixMs
    }

    /// The big-endian bytes, which sort by time.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The inverse of [`Uuid7::to_bytes`].
    pub const fn from_bytes(bytes: [u8; 16]) -> Uuid7 {
        Uuid7(u128::from_be_bytes(bytes))
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; TEXT_CHARS];
        for (i, slot) in text.iter_mut().rev().enumerate() {
            *slot = ALPHABET[(self.0 >> (5 * i) & 31) as usize];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Uuid7> {
        // 26 characters have 130 bits, so the first is at most 7.
        if text.len() != TEXT_CHARS || text.as_bytes()[0] > b'7' {
            return None;
        }
        let mut bits = 0u128;
        for byte in text.bytes() {
            let digit = ALPHABET.iter().position(|&c| c == byte)?;
            bits = bits << 5 | digit as u128;
        }
        Some(Uuid7(bits))
    }
}

macro_rules! id {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub Uuid7);

        impl $name {
            /// An id from a time and random bits, 74 of which are used.
            pub fn new(now: UnixMs, random: u128) -> $name {
                $name(Uuid7::new(now, random))
            }

            /// The bytes in the tables, which sort by time.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// The inverse of `to_bytes`.
            pub const fn from_bytes(bytes: [u8; 16]) -> $name {
                $name(Uuid7::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                self.0.write(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<$name, NotAnId> {
                text.strip_prefix($prefix).and_then(Uuid7::parse).map($name).ok_or(NotAnId($prefix))
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAnId;

            fn try_from(text: String) -> Result<$name, NotAnId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

id!(AccountId, "acc_", "Names an account.");
id!(BatchId, "bat_", "Names a batch.");
id!(ListId, "lst_", "Names a list.");
id!(ClientId, "cli_", "Names a client of assistants that registered itself; it is no secret.");
id!(ConnectionId, "con_", "Names what a user has consented to; it is no secret.");
id!(WebhookId, "whk_", "Names an endpoint of webhooks.");
id!(MessageId, "msg_", "Names a message to an endpoint; it is the same in each attempt.");
id!(KeyId, "key_", "Names an API key; it is no secret.");
id!(
    EntryId,
    "led_",
    "Names a hold, or a grant of credits, and later its entry in the ledger. Made by the caller."
);

impl EntryId {
    /// An id for an entry that the store itself creates: version 8 (RFC 9562 5.8), so it never equals one of a caller.
    pub fn of_store(now: UnixMs, serial: u64) -> EntryId {
        let mut bytes = Uuid7::new(now, u128::from(serial)).to_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x80;
        EntryId::from_bytes(bytes)
    }

    /// The id for the charge of a batch, from the batch's time and random bits, also of version 8.
    pub fn of_batch(batch: BatchId) -> EntryId {
        let mut bytes = batch.to_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x80;
        EntryId::from_bytes(bytes)
    }
}

/// The error of a text that is no identifier of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier of the form {0}{{26 characters}}")]
pub struct NotAnId(&'static str);

/// Random bits from the operating system.
///
/// # Errors
///
/// The error of the operating system. Linux has none after the start of the machine.
pub fn random_bits() -> Result<u128, std::io::Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    Ok(u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_come_back() {
        for (now, random) in [(0, 0), (1_700_000_000_000, u128::MAX), ((1 << 48) - 1, 0x0123_4567_89ab_cdef)]
        {
            let id = AccountId::new(now, random);
            let text = id.to_string();
            assert_eq!(text.len(), 4 + TEXT_CHARS);
            assert_eq!(text.parse::<AccountId>(), Ok(id));
            assert_eq!(AccountId::from_bytes(id.to_bytes()), id);
            assert_eq!(id.0.made_at(), now);
        }
    }

    #[test]
    fn layout_is_that_of_rfc_9562() {
        let bytes = Uuid7::new(0x0123_4567_89ab, u128::MAX).to_bytes();
        assert_eq!(bytes[..6], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);
        assert_eq!(bytes[6] >> 4, 7);
        assert_eq!(bytes[8] >> 6, 0b10);
    }

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let (a, b) = (KeyId::new(5, u128::MAX), KeyId::new(6, 0));
        assert!(a < b && a.to_bytes() < b.to_bytes() && a.to_string() < b.to_string());
    }

    #[test]
    fn other_texts_are_refused() {
        let good = KeyId::new(1, 2).to_string();
        let upper = good.to_uppercase();
        let other_prefix = good.replace("key_", "acc_");
        let too_big = format!("key_8{}", "0".repeat(25));
        let multibyte = format!("key_{}é", "0".repeat(24));
        for bad in ["", "key_", &good[..29], &upper, &other_prefix, &too_big, &multibyte, &format!("{good}0")]
        {
            assert!(bad.parse::<KeyId>().is_err(), "{bad}");
        }
        assert_eq!(format!("key_{}l", &good[4..29]).parse::<KeyId>(), Err(NotAnId("key_")));
    }
}
