//! Secrets and signatures of Standard Webhooks (<https://github.com/standard-webhooks/standard-webhooks>).

use data_encoding::BASE64;
use ring::hmac;
use store::MessageId;
use store::webhooks::{WEBHOOK_SECRET_BYTES, WebhookSecret};

/// The start of a secret's text.
const PREFIX: &str = "whsec_";

/// A secret from the operating system's random bytes.
///
/// # Errors
///
/// The error of the operating system.
pub fn random_secret() -> Result<WebhookSecret, std::io::Error> {
    let mut bytes = [0; WEBHOOK_SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    Ok(WebhookSecret(bytes))
}

/// The text of a secret, for its owner. It must not be logged.
pub fn reveal(secret: &WebhookSecret) -> String {
    PREFIX.to_owned() + &BASE64.encode(&secret.0)
}

/// The value of the header `webhook-signature`: a signature by each secret, separated by spaces. `timestamp` is in seconds
/// since 1970.
pub fn sign(secrets: &[WebhookSecret], message: MessageId, timestamp: u64, body: &[u8]) -> String {
    let start = format!("{message}.{timestamp}.");
    let signatures: Vec<String> = secrets
        .iter()
        .map(|WebhookSecret(secret)| {
            let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
            context.update(start.as_bytes());
            context.update(body);
            format!("v1,{}", BASE64.encode(context.sign().as_ref()))
        })
        .collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::id::Uuid7;

    fn message() -> MessageId {
        MessageId(Uuid7::from_bytes([1; 16]))
    }

    #[test]
    fn secrets_have_the_form_of_the_standard() {
        assert_eq!(reveal(&WebhookSecret([0xfb; 24])), format!("whsec_{}", "+/v7".repeat(8)));
        let (one, other) = (random_secret().expect("random bytes"), random_secret().expect("random bytes"));
        assert_ne!(one, other);
        assert_eq!(reveal(&one).len(), "whsec_".len() + 32);
    }

    /// The expected values are those of Python's `hmac`; the tests with the official libraries are in `tests/http`.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let secret = WebhookSecret(*b"abcdefghijklmnopqrstuvwx");
        let old = WebhookSecret([0; 24]);
        assert_eq!(message().to_string(), "msg_01040g2081040g2081040g2081");
        let one = sign(&[secret], message(), 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(one, "v1,pckDaLESaEjHYnGIWUrWOgx4A0rx/26+DGYWjt2epsA=");
        let two = sign(&[secret, old], message(), 1_614_265_330, br#"{"test": 2432232314}"#);
        let (first, second) = two.split_once(' ').expect("two signatures");
        assert_eq!(first, one);
        assert_eq!(second, sign(&[old], message(), 1_614_265_330, br#"{"test": 2432232314}"#));
    }

    #[test]
    fn every_part_is_signed() {
        let secret = WebhookSecret([5; 24]);
        let other = MessageId(Uuid7::from_bytes([2; 16]));
        let all = [
            sign(&[secret], message(), 1, b"{}"),
            sign(&[secret], other, 1, b"{}"),
            sign(&[secret], message(), 2, b"{}"),
            sign(&[secret], message(), 1, b"{ }"),
            sign(&[WebhookSecret([6; 24])], message(), 1, b"{}"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one), "{at}");
        }
    }
}
