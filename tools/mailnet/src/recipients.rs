//! How often the clients asked about each recipient.
//!
//! A journal keeps four million events; this table keeps a hash of each recipient, for tests with more of them.

use crate::{mailbox::matches, random::hash};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

/// The counts of the recipients of which the local part matches a pattern.
#[derive(Debug, Default)]
pub(crate) struct Recipients {
    times: Mutex<HashMap<u64, u32>>,
}

impl Recipients {
    /// Counts a recipient, in any letter case, if its local part matches the lower-case pattern.
    pub(crate) fn count(&self, pattern: &str, address: &str) {
        let address = address.to_ascii_lowercase();
        let local = address.rsplit_once('@').map_or(address.as_str(), |(local, _)| local);
        if matches(pattern.as_bytes(), local.as_bytes()) {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            *times.entry(hash(0, &[address.as_bytes()])).or_default() += 1;
        }
    }

    /// The number of recipients by the number of times that clients asked about them.
    pub(crate) fn picture(&self) -> BTreeMap<u32, u64> {
        let mut recipients = BTreeMap::new();
        for &times in self.times.lock().unwrap_or_else(PoisonError::into_inner).values() {
            *recipients.entry(times).or_default() += 1;
        }
        recipients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_of_the_pattern_are_counted() {
        let recipients = Recipients::default();
        for address in [
            "user-1@a.example",
            "USER-1@A.example",
            "user-1@b.example",
            "control@a.example",
            "user-x@a.example",
        ] {
            recipients.count("user-#", address);
        }
        assert_eq!(recipients.picture(), BTreeMap::from([(1, 1), (2, 1)]));
    }
}
