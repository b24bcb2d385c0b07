//! The wall clock. Everything that needs it is given its value, so that tests can give another.

use crate::store::UnixMs;
use std::time::SystemTime;

/// Now. A clock that stands before 1970 counts as 1970.
pub fn now() -> UnixMs {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(UnixMs::MAX)
}
