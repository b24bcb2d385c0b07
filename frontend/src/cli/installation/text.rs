//! The format of the state file: lines of text, with a checksum of all of them at the end.
//!
//! ```text
//! mailprobe state 1
//! secret <64 hexadecimal digits>
//! site <16 hexadecimal digits: the keyed hash> <step>:<refused>:<accepted> ...
//! end <number of sites> <first 16 hexadecimal digits of SHA-256 of the text before this line>
//! ```

use super::Kept;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use engine::proto::limits::REFUSALS_STEPS;
use engine::{KeptRefusals, KeptStep};
use ring::digest::{SHA256, digest};
use std::fmt::Write;

const TITLE: &str = "mailprobe state ";
const VERSION: &str = "1";

/// The reason why a file is unreadable.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StateFault {
    /// It is not a state file of mailprobe.
    Foreign,
    /// It has a newer version.
    Newer(u32),
    /// It was truncated or changed, at this line.
    Damaged(usize),
}

/// Writes the text of a file.
pub(super) fn render(kept: &Kept) -> String {
    let mut text = format!("{TITLE}{VERSION}\nsecret {}\n", HEXLOWER.encode(&kept.secret));
    for site in &kept.refusals {
        // A write to a string does not fail.
        let _ = write!(text, "site {:016x}", site.key);
        for KeptStep { step, refused, accepted } in &site.steps {
            let _ = write!(text, " {step}:{refused}:{accepted}");
        }
        text.push('\n');
    }
    let sum = sum(&text);
    let _ = writeln!(text, "end {} {sum}", kept.refusals.len());
    text
}

/// A number that differs from that of another text: the checksum at its end, and never zero.
pub(super) fn hash(text: &str) -> u64 {
    let digits = text.trim_end().rsplit(' ').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or_default().max(1)
}

/// Parses a file.
///
/// # Errors
/// [`StateFault`].
pub(super) fn parse(bytes: &[u8]) -> Result<Kept, StateFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| StateFault::Foreign)?;
    let mut lines = text.split_inclusive('\n').enumerate();
    let version = lines.next().and_then(|(_, line)| line.strip_prefix(TITLE)).ok_or(StateFault::Foreign)?;
    if version.trim_end() != VERSION {
        return Err(version.trim_end().parse().map_or(StateFault::Damaged(1), StateFault::Newer));
    }
    let mut kept = Kept { secret: [0; 32], refusals: Vec::new() };
    let mut secret = None;
    let mut at = TITLE.len() + version.len();
    for (index, line) in lines {
        let damaged = || StateFault::Damaged(index + 1);
        let whole = line.strip_suffix('\n').ok_or_else(damaged)?;
        let (word, rest) = whole.split_once(' ').ok_or_else(damaged)?;
        match (word, secret) {
            ("secret", None) => secret = Some(read_secret(rest).ok_or_else(damaged)?),
            ("site", Some(_)) => kept.refusals.push(read_site(rest).ok_or_else(damaged)?),
            ("end", Some(secret)) => {
                let expected = format!("{} {}", kept.refusals.len(), sum(&text[..at]));
                let is_last = at + line.len() == text.len();
                kept.secret = secret;
                return if rest == expected && is_last { Ok(kept) } else { Err(damaged()) };
            }
            _ => return Err(damaged()),
        }
        at += line.len();
    }
    Err(StateFault::Damaged(text.lines().count() + 1))
}

fn sum(text: &str) -> String {
    HEXLOWER.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8])
}

fn read_secret(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn read_site(text: &str) -> Option<KeptRefusals> {
    let mut words = text.split(' ');
    let key = words.next().filter(|key| key.len() == 16)?;
    let key = u64::from_str_radix(key, 16).ok()?;
    let steps: Vec<KeptStep> = words.map(read_step).collect::<Option<_>>()?;
    (steps.len() <= REFUSALS_STEPS).then_some(KeptRefusals { key, steps })
}

fn read_step(text: &str) -> Option<KeptStep> {
    let mut numbers = text.splitn(3, ':');
    let step = numbers.next()?.parse().ok()?;
    let refused = numbers.next()?.parse().ok()?;
    Some(KeptStep { step, refused, accepted: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let step = |step, refused, accepted| KeptStep { step, refused, accepted };
        Kept {
            secret: std::array::from_fn(|n| n as u8 * 8),
            refusals: vec![
                KeptRefusals { key: 0xab, steps: vec![step(5_943_212, 100, 0), step(5_943_213, 0, 7)] },
                KeptRefusals { key: u64::MAX, steps: vec![step(u64::MAX, u32::MAX, u32::MAX)] },
                KeptRefusals { key: 1, steps: vec![] },
            ],
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = render(&kept());
        assert!(text.starts_with("mailprobe state 1\nsecret 000810"), "{text}");
        assert!(text.contains("\nsite 00000000000000ab 5943212:100:0 5943213:0:7\n"), "{text}");
        assert_eq!(parse(text.as_bytes()), Ok(kept()));
        let none = Kept { refusals: Vec::new(), ..kept() };
        assert_eq!(parse(render(&none).as_bytes()), Ok(none));
    }

    #[test]
    fn no_cut_and_no_change_passes() {
        let text = render(&kept());
        for length in 0..text.len() {
            assert!(parse(&text.as_bytes()[..length]).is_err(), "cut at {length}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'5' { b'6' } else { b'5' };
            assert!(parse(&bytes).is_err(), "changed at {at}");
        }
        assert!(parse(format!("{text}\n").as_bytes()).is_err());
        assert!(parse(&[text.as_bytes(), &[0xff]].concat()).is_err());
    }

    #[test]
    fn faults_say_what_it_is() {
        for (text, expected) in [
            ("", StateFault::Foreign),
            ("Dear diary\n", StateFault::Foreign),
            ("mailprobe state 7\nwhatever\n", StateFault::Newer(7)),
            ("mailprobe state x\n", StateFault::Damaged(1)),
            ("mailprobe state 1\n", StateFault::Damaged(2)),
            ("mailprobe state 1\nsite 00000000000000ab\n", StateFault::Damaged(2)),
            ("mailprobe state 1\nsecret 00\n", StateFault::Damaged(2)),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(expected), "{text}");
        }
        let many = " 1:1:1".repeat(REFUSALS_STEPS + 1);
        assert_eq!(read_site(&format!("00000000000000ab{many}")), None);
        for step in ["1:1", "1:1:1:1", "-1:1:1", "1:4294967296:1", ""] {
            assert_eq!(read_step(step), None, "{step}");
        }
    }
}
