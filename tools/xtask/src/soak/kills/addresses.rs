//! The mail internet of the campaign, and its addresses. A number determines each address, so no list of them is
//! needed.

/// Fast sites, slow sites, and some sites that greylist.
pub const SCENARIO: &str = include_str!("../../../soak/scenarios/kills.toml");

/// The kinds of mailboxes: the last one does not exist.
const KINDS: [&str; 6] = ["user", "user", "user", "full", "gone", "nobody"];
/// The local parts for test keys, each of which selects the reason of its answer.
const MADE_UP: [&str; 5] = ["spamtrap", "catch_all", "inbox_full", "mailbox_disabled", "unverifiable"];

/// The address with this number. One in thirty is greylisted, one in ten is slow, and half of the mailboxes exist.
pub fn live(number: u64) -> String {
    let kind = KINDS[(number % 6) as usize];
    match number / 6 % 30 {
        0 => format!("{kind}-{number}@grey-{}.example", number / 180 % 20 + 1),
        1..=3 => format!("{kind}-{number}@slow-{}.example", number / 6 % 20 + 1),
        _ => format!("{kind}-{number}@fast-{}.example", number / 6 % 40 + 1),
    }
}

/// The mailbox with this number at a slow site.
pub fn slow(number: u64) -> String {
    format!("user-{number}@slow-{}.example", number % 50 + 1)
}

/// The mailbox with this number at one of many sites; half of the mailboxes exist.
pub fn bulk(number: u64) -> String {
    format!("{}-{number}@bulk-{}.example", KINDS[(number % 6) as usize], number % 200 + 1)
}

/// The mailbox with this number at a site that no batch asks.
pub fn single(number: u64) -> String {
    format!("user-{number}@single-{}.example", number % 50 + 1)
}

/// The address with this number for a test key, and the reason of its answer.
pub fn made_up(number: u64) -> (String, &'static str) {
    let reason = MADE_UP[(number % MADE_UP.len() as u64) as usize];
    (format!("{reason}+{number}@any.example"), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::judge::reasons;
    use mailnet::Scenario;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_are_of_all_kinds() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let all: BTreeSet<String> = (0..1000).flat_map(|number| reasons(&scenario, &live(number))).collect();
        let expected =
            ["inbox_full", "mailbox_disabled", "mailbox_exists", "mailbox_not_found", "unverifiable"];
        assert_eq!(all.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(made_up(0), ("spamtrap+0@any.example".into(), "spamtrap"));
    }
}
