//! The mail internet of the campaign, and its addresses. A number determines each address, so no list of them is
//! needed.
//!
//! There are many sites of each kind: a site answers about ten refused recipients at once and delays further ones by a
//! second or two, which is longer than most lives of the server.

/// Fast sites, slow sites that take 50 to 300 ms per reply, and some sites that greylist.
pub const SCENARIO: &str = r#"
seed = 23
[dns]
latency_ms = [1, 8]
[[group]]
name = "fast-{n}.example"
count = 40
server = { latency_ms = [1, 8] }
mailboxes = { ok = ["user-#"], full = ["full-#"], disabled = ["gone-#"] }
[[group]]
name = "slow-{n}.example"
count = 50
server = { latency_ms = [50, 300] }
mailboxes = { ok = ["user-#"], full = ["full-#"], disabled = ["gone-#"] }
[[group]]
name = "grey-{n}.example"
count = 20
mailboxes = { greylisted = ["user-#"] }
greylist_ms = 700
"#;

/// The local parts for test keys, each of which selects the reason of its answer.
const MADE_UP: [&str; 5] = ["spamtrap", "catch_all", "inbox_full", "mailbox_disabled", "unverifiable"];

/// The address with this number. One in thirty is greylisted, one in ten is slow, and half of the mailboxes exist.
pub fn live(number: u64) -> String {
    let kind = ["user", "user", "user", "full", "gone", "nobody"][(number % 6) as usize];
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
