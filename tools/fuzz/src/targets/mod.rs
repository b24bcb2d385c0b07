//! All targets of the campaign, with their parameters.

pub mod address;
pub mod config;
pub mod dialog;
pub mod dns;
pub mod json;
pub mod learn;
pub mod list;
pub mod mcp;
pub mod multipart;
pub mod oauth;
pub mod reply;
pub mod rows;

use fastrand::Rng;

/// A target of the campaign.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name; the binary with libFuzzer is `fuzz-NAME`.
    pub name: &'static str,
    /// Makes an input that passes the first checks of the parser.
    pub grow: fn(&mut Rng) -> Vec<u8>,
    /// Executes an input; the error names a broken rule. It may also panic.
    pub feed: fn(&[u8]) -> Result<(), String>,
    /// The longest input that libFuzzer makes: slightly beyond the limits of the parser, if these are small.
    pub bytes_max: usize,
    /// How many inputs the full campaign executes: at least 10^7, and 10^9 over all targets.
    pub runs: u64,
}

const M: u64 = 1_000_000;

const fn target(
    name: &'static str,
    grow: fn(&mut Rng) -> Vec<u8>,
    feed: fn(&[u8]) -> Result<(), String>,
    bytes_max: usize,
    runs: u64,
) -> Target {
    Target { name, grow, feed, bytes_max, runs }
}

/// All targets. The fastest ones have the most inputs.
pub const TARGETS: [Target; 12] = [
    target("address", address::grow, address::feed, 1200, 60 * M),
    target("reply", reply::grow, reply::feed, 4096, 10 * M),
    target("dns", dns::grow, dns::feed, 2048, 10 * M),
    target("dialog", dialog::grow, dialog::feed, 2048, 10 * M),
    target("json", json::grow, json::feed, 1024, 30 * M),
    target("multipart", multipart::grow, multipart::feed, 6000, 10 * M),
    target("list", list::grow, list::feed, 2048, 10 * M),
    target("learn", learn::grow, learn::feed, 4096, 10 * M),
    target("mcp", mcp::grow, mcp::feed, 1024, 30 * M),
    target("oauth", oauth::grow, oauth::feed, 1024, 30 * M),
    target("config", config::grow, config::feed, 1024, 20 * M),
    target("rows", rows::grow, rows::feed, 512, 800 * M),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Whether an input passes the first checks of its parser.
    type Passes = fn(&[u8]) -> bool;

    #[test]
    fn the_runs_add_up() {
        assert!(TARGETS.iter().all(|target| target.runs >= 10 * M));
        assert!(TARGETS.iter().map(|target| target.runs).sum::<u64>() >= 1000 * M);
    }

    /// Enough of what a target makes passes the first checks of its parser, and enough does not.
    #[test]
    fn many_inputs_pass_and_many_do_not() {
        let rows: [(&str, Passes, Range<usize>); 6] = [
            ("address", address::passes, 150..850),
            ("reply", reply::passes, 400..1000),
            ("dns", dns::passes, 50..900),
            ("dialog", dialog::passes, 300..1000),
            ("multipart", multipart::passes, 50..900),
            ("config", config::passes, 100..900),
        ];
        for (name, passes, wanted) in rows {
            let target = TARGETS.iter().find(|target| target.name == name).unwrap();
            let mut random = Rng::with_seed(1);
            let share = (0..1000).filter(|_| passes(&(target.grow)(&mut random))).count();
            assert!(wanted.contains(&share), "{name}: {share} of 1000");
        }
    }

    #[test]
    fn what_is_grown_is_no_longer_than_what_is_fed() {
        let mut random = Rng::with_seed(1);
        for target in &TARGETS {
            let fitting = (0..500).filter(|_| (target.grow)(&mut random).len() <= target.bytes_max).count();
            assert!(fitting >= 250, "{}: {fitting} of 500", target.name);
        }
    }
}
