//! How long the outcomes of lookups may be kept: RFC 1035 3.2.1, RFC 2181 8, RFC 2308 5, RFC 9520 3.2.

use super::Failure;
use crate::limits::{
    DNS_FAILURE_TTL, DNS_NEGATIVE_TTL_MAX, DNS_NEGATIVE_TTL_MIN, DNS_SILENCE_TTL, DNS_TTL_MAX, DNS_TTL_MIN,
};
use std::time::Duration;

/// The lifetime of records with this TTL, limited to [`DNS_TTL_MIN`] to [`DNS_TTL_MAX`].
pub fn positive(seconds: u32) -> Duration {
    wire(seconds).clamp(DNS_TTL_MIN, DNS_TTL_MAX)
}

/// The lifetime of a denial, limited to [`DNS_NEGATIVE_TTL_MIN`] to [`DNS_NEGATIVE_TTL_MAX`]. `seconds` is the TTL of the SOA
/// record or its MINIMUM field, whichever is lower (RFC 2308 5).
pub fn negative(seconds: u32) -> Duration {
    wire(seconds).clamp(DNS_NEGATIVE_TTL_MIN, DNS_NEGATIVE_TTL_MAX)
}

/// The lifetime of a failure. It is shorter if the failure [may pass](Failure::may_pass).
pub fn failure(why: Failure) -> Duration {
    if why.may_pass() { DNS_SILENCE_TTL } else { DNS_FAILURE_TTL }
}

/// RFC 2181 8: a TTL with the highest bit set counts as zero.
fn wire(seconds: u32) -> Duration {
    Duration::from_secs(if seconds > i32::MAX as u32 { 0 } else { seconds.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_and_caps() {
        for (ttl, expected) in [
            (0, 60),
            (59, 60),
            (60, 60),
            (61, 61),
            (86_400, 86_400),
            (86_401, 86_400),
            (i32::MAX as u32, 86_400),
        ] {
            assert_eq!(positive(ttl).as_secs(), expected, "{ttl}");
        }
        for (ttl, expected) in [(0, 60), (900, 900), (10_800, 10_800), (10_801, 10_800)] {
            assert_eq!(negative(ttl).as_secs(), expected, "{ttl}");
        }
        assert_eq!(positive(0x8000_0000), DNS_TTL_MIN, "the highest bit means zero");
        assert_eq!(negative(u32::MAX), DNS_NEGATIVE_TTL_MIN);
        assert_eq!(failure(Failure::ServFail), DNS_FAILURE_TTL);
        for why in [Failure::Timeout, Failure::Unreachable, Failure::Refused, Failure::Unproven] {
            assert_eq!(failure(why), DNS_SILENCE_TTL, "{why:?}");
        }
    }
}
