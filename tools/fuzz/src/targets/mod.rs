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
    /// Words that libFuzzer inserts into inputs.
    pub words: &'static [&'static str],
}

const M: u64 = 1_000_000;

/// All targets. The fastest ones have the most inputs.
pub const TARGETS: [Target; 12] = [
    Target {
        name: "address",
        grow: address::grow,
        feed: address::feed,
        bytes_max: 1200,
        runs: 60 * M,
        words: &address::ATOMS,
    },
    Target {
        name: "reply",
        grow: reply::grow,
        feed: reply::feed,
        bytes_max: 4096,
        runs: 10 * M,
        words: &reply::TEXTS,
    },
    Target { name: "dns", grow: dns::grow, feed: dns::feed, bytes_max: 2048, runs: 10 * M, words: &[] },
    Target {
        name: "dialog",
        grow: dialog::grow,
        feed: dialog::feed,
        bytes_max: 2048,
        runs: 10 * M,
        words: &dialog::LINES,
    },
    Target {
        name: "json",
        grow: json::grow,
        feed: json::feed,
        bytes_max: 1024,
        runs: 30 * M,
        words: &json::WORDS,
    },
    Target {
        name: "multipart",
        grow: multipart::grow,
        feed: multipart::feed,
        bytes_max: 6000,
        runs: 10 * M,
        words: &multipart::WORDS,
    },
    Target {
        name: "list",
        grow: list::grow,
        feed: list::feed,
        bytes_max: 2048,
        runs: 10 * M,
        words: &list::WORDS,
    },
    Target {
        name: "learn",
        grow: learn::grow,
        feed: learn::feed,
        bytes_max: 4096,
        runs: 10 * M,
        words: &learn::WORDS,
    },
    Target {
        name: "mcp",
        grow: mcp::grow,
        feed: mcp::feed,
        bytes_max: 1024,
        runs: 30 * M,
        words: &mcp::WORDS,
    },
    Target {
        name: "oauth",
        grow: oauth::grow,
        feed: oauth::feed,
        bytes_max: 1024,
        runs: 30 * M,
        words: &oauth::WORDS,
    },
    Target {
        name: "config",
        grow: config::grow,
        feed: config::feed,
        bytes_max: 1024,
        runs: 20 * M,
        words: &config::WORDS,
    },
    Target { name: "rows", grow: rows::grow, feed: rows::feed, bytes_max: 512, runs: 800 * M, words: &[] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_add_up() {
        assert!(TARGETS.iter().all(|target| target.runs >= 10 * M));
        assert!(TARGETS.iter().map(|target| target.runs).sum::<u64>() >= 1000 * M);
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
