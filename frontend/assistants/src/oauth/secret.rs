//! Codes and tokens: random, opaque, and stored only as hashes.
//!
//! 256 random bits need neither a salt nor a slow hash. A prefix names the kind of the secret, for secret scanners and for
//! readers. A refresh token has two parts of 256 bits. All refresh tokens of a connection share the first part, which finds
//! the connection. The second part changes with each use (RFC 9700 4.14.2). So an old refresh token is recognized as long as
//! the connection lasts, and one row in the store is enough for all of them.

use data_encoding::BASE64URL_NOPAD;
use std::fmt;
use store::SecretHash;

const CODE: &str = "mp_ac_";
const ACCESS: &str = "mp_at_";
const REFRESH: &str = "mp_rt_";
/// Characters of 256 bits in Base64.
const PART_CHARS: usize = 43;

/// A code or an access token in clear text. It is given to the client once and is not stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new authorization code.
    ///
    /// # Errors
    /// The error of the operating system: it gives no random bits.
    pub fn code() -> Result<Secret, std::io::Error> {
        Ok(Secret(format!("{CODE}{}", random_part()?)))
    }

    /// A new access token.
    ///
    /// # Errors
    /// As [`Secret::code`].
    pub fn access() -> Result<Secret, std::io::Error> {
        Ok(Secret(format!("{ACCESS}{}", random_part()?)))
    }

    /// Parses the text of a code.
    pub fn parse_code(text: &str) -> Option<Secret> {
        parse(CODE, 1, text).map(|_| Secret(text.to_owned()))
    }

    /// Parses the text of an access token.
    pub fn parse_access(text: &str) -> Option<Secret> {
        parse(ACCESS, 1, text).map(|_| Secret(text.to_owned()))
    }

    /// The hash, which the store keeps.
    pub fn hash(&self) -> SecretHash {
        sha256(self.0.as_bytes())
    }

    /// The secret in clear text, for its client.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A refresh token in clear text.
#[derive(Clone, PartialEq, Eq)]
pub struct RefreshToken {
    family: String,
    part: String,
}

impl RefreshToken {
    /// The first refresh token of a connection.
    ///
    /// # Errors
    /// As [`Secret::code`].
    pub fn first() -> Result<RefreshToken, std::io::Error> {
        Ok(RefreshToken { family: random_part()?, part: random_part()? })
    }

    /// The successor of this refresh token.
    ///
    /// # Errors
    /// As [`Secret::code`].
    pub fn next(&self) -> Result<RefreshToken, std::io::Error> {
        Ok(RefreshToken { family: self.family.clone(), part: random_part()? })
    }

    /// Parses the text of a refresh token.
    pub fn parse(text: &str) -> Option<RefreshToken> {
        let (family, part) = parse(REFRESH, 2, text)?.split_at(PART_CHARS);
        Some(RefreshToken { family: family.to_owned(), part: part.to_owned() })
    }

    /// The hash of the part that all refresh tokens of a connection share.
    pub fn family_hash(&self) -> SecretHash {
        sha256(self.family.as_bytes())
    }

    /// The hash of the part that only this refresh token has.
    pub fn hash(&self) -> SecretHash {
        sha256(self.part.as_bytes())
    }

    /// The token in clear text, for its client.
    pub fn reveal(&self) -> String {
        format!("{REFRESH}{}{}", self.family, self.part)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Debug for RefreshToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefreshToken")
    }
}

/// The SHA-256 of these bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    hash
}

fn random_part() -> Result<String, std::io::Error> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(std::io::Error::from)?;
    Ok(BASE64URL_NOPAD.encode(&bits))
}

/// The text after the prefix, if its length and characters are valid.
fn parse<'t>(prefix: &str, parts: usize, text: &'t str) -> Option<&'t str> {
    let rest = text.strip_prefix(prefix)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (rest.len() == parts * PART_CHARS && rest.bytes().all(fits)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_back_and_no_other_texts_are() {
        let (code, access) = (Secret::code().unwrap(), Secret::access().unwrap());
        assert_eq!(Secret::parse_code(code.reveal()), Some(code.clone()));
        assert_eq!(Secret::parse_access(access.reveal()), Some(access.clone()));
        assert_eq!(Secret::parse_access(code.reveal()), None);
        assert_ne!(code.hash(), Secret::code().unwrap().hash());
        let first = RefreshToken::first().unwrap();
        let next = first.next().unwrap();
        assert_eq!(RefreshToken::parse(&next.reveal()), Some(next.clone()));
        assert_eq!(first.family_hash(), next.family_hash());
        assert_ne!(first.hash(), next.hash());
        let text = access.reveal();
        for bad in ["", "mp_at_", &text[..48], &format!("{text}a"), &text.replace("mp_at_", "mp_live_")] {
            assert_eq!(Secret::parse_access(bad), None, "{bad}");
        }
        assert_eq!(Secret::parse_access(&format!("{}é", &text[..47])), None);
        assert_eq!(RefreshToken::parse(text), None);
        assert_eq!(format!("{code:?}{first:?}"), "SecretRefreshToken");
    }
}
