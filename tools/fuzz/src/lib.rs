//! Malformed input for every parser of data from strangers, operators and the store's file.
//!
//! A target ([`targets`]) is a pure function of bytes: the same input always has the same result. It checks rules that
//! hold for every input, and it may panic. `cargo xtask soak fuzz` runs the targets: with libFuzzer, which mutates
//! inputs so that they reach new edges of the code, or (`--small`) without it, on the committed corpus ([`corpus`]) and
//! on inputs from a grammar ([`grammar`]).
//!
//! Invariants: a target uses no network and no file, and its result does not depend on the clock. Every failure is
//! reproducible from its input.

pub mod corpus;
pub mod grammar;
pub mod input;
pub mod targets;

pub use targets::{TARGETS, Target};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

#[cfg(feature = "libfuzzer")]
#[doc(hidden)]
pub use libfuzzer_sys;

/// The bytes as two hexadecimal digits each.
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// The bytes of hexadecimal digits; `None` if the text is invalid.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()
}

/// Panics if a rule is broken: libFuzzer has no other kind of failure.
///
/// # Panics
///
/// `outcome` is an error.
#[cfg(feature = "libfuzzer")]
pub fn must_hold(outcome: Result<(), String>) {
    if let Err(complaint) = outcome {
        panic!("broken rule: {complaint}");
    }
}

/// The entry point of libFuzzer for a target.
#[cfg(feature = "libfuzzer")]
#[macro_export]
macro_rules! libfuzzer {
    ($target:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::must_hold(
            $crate::targets::$target::feed(input)
        ));
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        assert_eq!(unhex(&hex(&[0, 0x7f, 0xff])), Some(vec![0, 0x7f, 0xff]));
        assert_eq!((unhex("0"), unhex("zz"), unhex("é")), (None, None, None));
    }
}
