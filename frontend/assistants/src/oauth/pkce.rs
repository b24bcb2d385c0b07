//! Proof Key for Code Exchange (RFC 7636) with the method S256, the only one that is accepted (OAuth 2.1 7.5.2).

use super::secret::sha256;
use data_encoding::BASE64URL_NOPAD;

/// The name of the method.
pub const METHOD: &str = "S256";

/// Parses a challenge: the SHA-256 of its verifier.
pub fn challenge(text: &str) -> Option<[u8; 32]> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The challenge of a verifier; `None` if the text is not a valid verifier (RFC 7636 4.1).
pub fn answer(verifier: &str) -> Option<[u8; 32]> {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let fits = (43..=128).contains(&verifier.len()) && verifier.bytes().all(unreserved);
    fits.then(|| sha256(verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7636 appendix B.
    #[test]
    fn a_verifier_answers_its_challenge() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let expected = challenge("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(expected.is_some());
        assert_eq!(answer(verifier), expected);
        assert_ne!(answer(&verifier.replace('d', "e")), expected);
    }

    #[test]
    fn what_cannot_be_one_is_none() {
        for text in ["", "E9Mel", &"A".repeat(44), &format!("{}=", "A".repeat(42)), &"A".repeat(42)] {
            assert_eq!(challenge(text), None, "{text}");
        }
        for text in ["a".repeat(42), "a".repeat(129), format!("{} ", "a".repeat(43)), "é".repeat(30)] {
            assert_eq!(answer(&text), None, "{text}");
        }
    }
}
