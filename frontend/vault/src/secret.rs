//! The bytes of a key, which are overwritten in memory when they are dropped, and are never printed.

use super::{KEY_BYTES, random};
use std::ops::{Deref, DerefMut};
use store::StoreError;
use zeroize::Zeroizing;

/// The bytes of a key or of a secret from which keys are derived. It has no `Debug`, so that no log has a key.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<[u8; KEY_BYTES]>);

impl Secret {
    /// A new random secret.
    ///
    /// # Errors
    ///
    /// The operating system has no random bytes.
    pub(super) fn random() -> Result<Secret, StoreError> {
        let mut secret = Secret::default();
        random(&mut *secret)?;
        Ok(secret)
    }
}

impl From<[u8; KEY_BYTES]> for Secret {
    fn from(bytes: [u8; KEY_BYTES]) -> Secret {
        Secret(Zeroizing::new(bytes))
    }
}

impl Deref for Secret {
    type Target = [u8; KEY_BYTES];

    fn deref(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8; KEY_BYTES] {
        &mut self.0
    }
}
