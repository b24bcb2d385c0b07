//! API keys and the `Authorization` header. The functions are pure: they use neither a store nor a clock.
//!
//! A key consists of `mp_live_` or `mp_test_`, 43 base62 characters for 256 random bits, and 6 base62 characters for
//! the CRC-32 of everything before them. With the checksum a mistyped key is refused without a look-up, and secret
//! scanners can distinguish a key from other text. The store has only the SHA-256 of a key: 256 random bits need
//! neither salt nor a slow hash.

use std::fmt;
use store::{AccountId, Authority, KeyHash, KeyId, KeyLookup, KeyMode, KeyScopes, UnixMs};

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX_CHARS: usize = 8;
/// 43 base62 characters have 256.03 bits, the lowest number above 256.
const SECRET_CHARS: usize = 43;
/// 6 base62 characters have 35.7 bits, for a checksum of 32.
const CHECKSUM_CHARS: usize = 6;
const KEY_CHARS: usize = PREFIX_CHARS + SECRET_CHARS + CHECKSUM_CHARS;

/// An API key in plain text. It is shown once, after it was created, and is not stored.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    text: String,
    mode: KeyMode,
}

impl ApiKey {
    /// Creates a key from the operating system's random bits.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn generate(mode: KeyMode) -> Result<ApiKey, std::io::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::from)?;
        Ok(ApiKey::from_secret(mode, secret))
    }

    /// The key with these 256 secret bits.
    pub fn from_secret(mode: KeyMode, secret: [u8; 32]) -> ApiKey {
        let mut text = String::with_capacity(KEY_CHARS);
        text.push_str(prefix(mode));
        push_base62(&mut text, secret);
        text.extend(checksum(text.as_bytes()).map(char::from));
        ApiKey { text, mode }
    }

    /// Reads a key from a request; `None` if the text has no valid form or checksum.
    pub fn parse(text: &[u8]) -> Option<ApiKey> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() == KEY_CHARS)?;
        let mode = [KeyMode::Live, KeyMode::Test].into_iter().find(|&mode| text.starts_with(prefix(mode)))?;
        if !text.as_bytes()[PREFIX_CHARS..].iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let (body, sent) = text.as_bytes().split_at(KEY_CHARS - CHECKSUM_CHARS);
        (sent == checksum(body)).then(|| ApiKey { text: text.to_owned(), mode })
    }

    /// The plain text, for the user who created the key. It must not be logged.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The mode of the key, live or test.
    pub fn mode(&self) -> KeyMode {
        self.mode
    }

    /// The hash that the store has of the key.
    pub fn hash(&self) -> KeyHash {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.text.as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(digest.as_ref());
        hash
    }

    /// The last four characters, by which the owner recognises the key.
    pub fn last4(&self) -> [u8; 4] {
        let mut last4 = [0; 4];
        last4.copy_from_slice(&self.text.as_bytes()[KEY_CHARS - 4..]);
        last4
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({:?})", self.mode)
    }
}

/// The authenticated sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The account that the key acts for.
    pub account: AccountId,
    /// The id of the key.
    pub key: KeyId,
    /// The mode of the key, live or test.
    pub mode: KeyMode,
    /// The parts of the API that the key may use.
    pub scopes: KeyScopes,
}

impl Caller {
    /// What the transactions of the request compare. The user of a gateway has no key, and the bits of its account in its place.
    pub fn authority(&self) -> Authority {
        match self.key.to_bytes() == self.account.to_bytes() {
            true => Authority::OPERATOR,
            false => Authority::key(self.key),
        }
    }
}

/// The reasons why a request has no caller; each is a 401.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthError {
    /// There is no `Authorization` header, or it has another scheme than Bearer.
    Missing,
    /// The key is malformed or unknown.
    Invalid,
    /// The key was revoked.
    Revoked,
    /// The time of the key is over.
    Expired,
}

/// Finds the caller at the time `now` from the value of an `Authorization` header: `Bearer KEY`, with the scheme in any letter
/// case (RFC 9110 11.1, RFC 6750 2.1).
///
/// # Errors
///
/// [`AuthError`]. A malformed key is refused without a look-up.
pub fn authenticate(
    header: Option<&[u8]>,
    now: UnixMs,
    look_up: impl FnOnce(&KeyHash) -> Option<KeyLookup>,
) -> Result<Caller, AuthError> {
    let token = header.and_then(bearer_token).ok_or(AuthError::Missing)?;
    let key = ApiKey::parse(token).ok_or(AuthError::Invalid)?;
    match look_up(&key.hash()) {
        None => Err(AuthError::Invalid),
        Some(found) if found.revoked => Err(AuthError::Revoked),
        Some(found) if found.expires_at.is_some_and(|at| at <= now) => Err(AuthError::Expired),
        Some(KeyLookup { id, account, mode, scopes, .. }) => Ok(Caller { account, key: id, mode, scopes }),
    }
}

/// The token after the scheme; `None` for other schemes, and for Bearer without a token.
pub fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let value = value.trim_ascii();
    let (scheme, rest) = value.split_at_checked(b"Bearer".len())?;
    let token = rest.trim_ascii_start();
    let parted = token.len() < rest.len();
    (scheme.eq_ignore_ascii_case(b"Bearer") && parted && !token.is_empty()).then_some(token)
}

fn prefix(mode: KeyMode) -> &'static str {
    match mode {
        KeyMode::Live => "mp_live_",
        KeyMode::Test => "mp_test_",
    }
}

/// Appends a big-endian number in base62.
fn push_base62(text: &mut String, mut number: [u8; 32]) {
    let mut digits = [0u8; SECRET_CHARS];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0u32;
        for byte in &mut number {
            rest = rest << 8 | u32::from(*byte);
            *byte = (rest / 62) as u8;
            rest %= 62;
        }
        *digit = BASE62[rest as usize];
    }
    debug_assert_eq!(number, [0; 32], "the number needs more characters");
    text.extend(digits.map(char::from));
}

/// The last characters of a key: the CRC-32 of everything before them, in base62.
fn checksum(body: &[u8]) -> [u8; CHECKSUM_CHARS] {
    let mut rest = crc32(body);
    let mut digits = [0; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}

/// The CRC-32 of Ethernet, gzip and PNG (reflected, polynomial 0x04C11DB7), one byte per step: it is computed for each
/// request.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| crc >> 8 ^ CRC32_OF_BYTE[usize::from(crc as u8 ^ byte)])
}

const CRC32_OF_BYTE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(seed: u8) -> ApiKey {
        ApiKey::from_secret(KeyMode::Live, [seed; 32])
    }

    const NOW: UnixMs = 1_000;

    fn lookup(revoked: bool) -> KeyLookup {
        let (id, account) = (KeyId::new(1, 1), AccountId::new(1, 2));
        KeyLookup { id, account, mode: KeyMode::Live, revoked, scopes: KeyScopes::ALL, expires_at: None }
    }

    #[test]
    fn checksum_is_crc_32() {
        // The check value of this algorithm in catalogues of CRCs.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn the_largest_secret_fits() {
        let largest = ApiKey::from_secret(KeyMode::Test, [0xff; 32]);
        assert_eq!(largest.reveal().len(), KEY_CHARS);
        assert_eq!(ApiKey::parse(largest.reveal().as_bytes()), Some(largest));
        let zero = key(0);
        assert_eq!(&zero.reveal()[..PREFIX_CHARS + SECRET_CHARS], format!("mp_live_{}", "0".repeat(43)));
    }

    #[test]
    fn any_one_wrong_character_is_noticed() {
        let good = key(0x5a);
        for at in 0..KEY_CHARS {
            for with in [b'0', b'z', b'_', b' ', 0xff] {
                let mut bytes = good.reveal().as_bytes().to_vec();
                if bytes[at] != with {
                    bytes[at] = with;
                    assert_eq!(ApiKey::parse(&bytes), None, "{at}");
                }
            }
        }
        for at in 0..KEY_CHARS - 1 {
            let mut bytes = good.reveal().as_bytes().to_vec();
            bytes.swap(at, at + 1);
            assert!(bytes == good.reveal().as_bytes() || ApiKey::parse(&bytes).is_none());
        }
    }

    #[test]
    fn generated_keys_differ_and_parse() {
        let (a, b) = (ApiKey::generate(KeyMode::Live).unwrap(), ApiKey::generate(KeyMode::Test).unwrap());
        assert_ne!(a.reveal()[8..], b.reveal()[8..]);
        assert_eq!(ApiKey::parse(b.reveal().as_bytes()), Some(b.clone()));
        assert!(!format!("{b:?}").contains(&b.reveal()[8..20]));
        assert_eq!(b.reveal().as_bytes()[KEY_CHARS - 4..], b.last4());
    }

    #[test]
    fn headers() {
        let good = key(1).reveal().to_owned();
        let with = |scheme: &str| format!("{scheme}{good}");
        let cases: [(Option<String>, Result<(), AuthError>); 15] = [
            (None, Err(AuthError::Missing)),
            (Some(String::new()), Err(AuthError::Missing)),
            (Some("Bearer".into()), Err(AuthError::Missing)),
            (Some("Bearer ".into()), Err(AuthError::Missing)),
            (Some(good.clone()), Err(AuthError::Missing)),
            (Some(with("Basic ")), Err(AuthError::Missing)),
            (Some(with("Bearer")), Err(AuthError::Missing)),
            (Some(with("Bearers ")), Err(AuthError::Missing)),
            (Some("Bearer x".into()), Err(AuthError::Invalid)),
            (Some(with("Bearer x")), Err(AuthError::Invalid)),
            (Some(format!("Bearer {good} {good}")), Err(AuthError::Invalid)),
            (Some(with("Bearer ")), Ok(())),
            (Some(with("bearer ")), Ok(())),
            (Some(with("BEARER   ")), Ok(())),
            (Some(format!(" Bearer {good} ")), Ok(())),
        ];
        for (header, expected) in cases {
            let outcome = authenticate(header.as_deref().map(str::as_bytes), NOW, |hash| {
                assert_eq!(*hash, key(1).hash());
                Some(lookup(false))
            });
            assert_eq!(outcome.map(drop), expected, "{}", header.is_some());
        }
    }

    #[test]
    fn what_the_look_up_finds_decides() {
        let header = format!("Bearer {}", key(2).reveal());
        let header = Some(header.as_bytes());
        assert_eq!(authenticate(header, NOW, |_| None), Err(AuthError::Invalid));
        assert_eq!(authenticate(header, NOW, |_| Some(lookup(true))), Err(AuthError::Revoked));
        let caller = authenticate(header, NOW, |_| Some(lookup(false))).unwrap();
        assert_eq!((caller.key, caller.account), (lookup(false).id, lookup(false).account));
        let only_lists = KeyScopes::of([store::KeyScope::Lists]).unwrap();
        let limited = authenticate(header, NOW, |_| Some(KeyLookup { scopes: only_lists, ..lookup(false) }));
        assert_eq!(limited.unwrap().scopes, only_lists);
    }

    #[test]
    fn a_key_works_until_its_expiry() {
        let header = format!("Bearer {}", key(2).reveal());
        let at = |expires_at, revoked| {
            let found = KeyLookup { expires_at, ..lookup(revoked) };
            authenticate(Some(header.as_bytes()), NOW, |_| Some(found)).map(drop)
        };
        assert_eq!(at(Some(NOW + 1), false), Ok(()));
        assert_eq!(at(Some(NOW), false), Err(AuthError::Expired));
        assert_eq!(at(Some(1), false), Err(AuthError::Expired));
        assert_eq!(at(Some(1), true), Err(AuthError::Revoked));
    }

    #[test]
    fn malformed_keys_are_not_looked_up() {
        let outcome = authenticate(Some(b"Bearer mp_live_nonsense"), NOW, |_| panic!("looked up"));
        assert_eq!(outcome, Err(AuthError::Invalid));
    }

    proptest! {
        #[test]
        fn every_key_parses(secret: [u8; 32], test: bool) {
            let mode = if test { KeyMode::Test } else { KeyMode::Live };
            let key = ApiKey::from_secret(mode, secret);
            prop_assert_eq!(key.reveal().len(), KEY_CHARS);
            prop_assert_eq!(ApiKey::parse(key.reveal().as_bytes()), Some(key));
        }

        #[test]
        fn no_header_panics(header: Vec<u8>) {
            let outcome = authenticate(Some(&header), NOW, |_| None);
            prop_assert!(outcome.is_err());
        }
    }
}
