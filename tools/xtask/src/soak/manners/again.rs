//! Single checks that get a transient reply: they are repeated once within their time, but not at a greylisting server.

use super::{CheckOutcome, CheckSetting, MannersCheck, check};
use crate::interop::report::faultless;
use crate::soak::api::Api;
use crate::soak::crowd::each;
use crate::soak::peers;
use crate::soak::world::ANY_PORT;
use std::time::{Duration, Instant};

/// An answer that takes longer was asked for twice.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The longest time of two tries with the pause between them.
const RETRY_MAX: Duration = Duration::from_secs(20);

/// The domains of again.toml, and whether checks of them are repeated.
const SERVERS: [(&str, bool); 5] = [
    ("postscreen.example", true),
    ("verifies.example", true),
    ("greylists.example", false),
    ("names-an-hour.example", false),
    (WELL, false),
];
const WELL: &str = "well.example";
const SCENARIO: &str = include_str!("../../../soak/scenarios/again.toml");

/// The checks of single addresses with transient replies.
pub fn checks() -> Vec<MannersCheck> {
    vec![check("single checks after a transient reply", singles)]
}

fn singles(place: &CheckSetting<'_>) -> CheckOutcome {
    let net = peers::start(&place.scenario(SCENARIO))?;
    let (dns, port) = (net.dns().to_string(), net.smtp_port().to_string());
    let serve = place.world.serve_at(ANY_PORT, (&dns, &port), &["--pace", "polite"])?;
    let key = place.world.unlimited("again", 100)?;
    let api = Api::new(serve.address, &key);
    let mut said = Vec::new();
    // The addresses of a server are checked one after the other: the first session of one is not the first of another.
    for word in ["real-1", "gone-1", "real-2"] {
        said.extend(each(SERVERS.len(), SERVERS.len(), |number| {
            let began = Instant::now();
            let answer = api.verify(&format!("{word}@{}", SERVERS[number].0));
            (SERVERS[number], word, answer, began.elapsed())
        })?);
    }
    serve.stop()?;
    let mut complaints = Vec::new();
    let mut figures = Vec::new();
    for (server, word, answer, took) in said {
        let reason = answer?.word("reason");
        figures.push(format!("{word}@{}: {reason} after {:.1} s", server.0, took.as_secs_f64()));
        complaints.extend(judge(server, word, &reason, took).err());
    }
    faultless(figures.join("; "), &complaints)
}

fn judge((domain, again): (&str, bool), word: &str, reason: &str, took: Duration) -> Result<(), String> {
    let is_well = again || domain == WELL;
    let expected = match (is_well, word.starts_with("real")) {
        (false, _) => "unverifiable",
        (true, true) => "mailbox_exists",
        (true, false) => "mailbox_not_found",
    };
    let limit = if again { RETRY_MAX } else { AT_ONCE };
    // The control recipient is verified as well, and gets the same reply at its own first attempt.
    let is_first = word == "real-1" && domain == "verifies.example" && reason == "unverifiable";
    if (reason == expected || is_first) && took <= limit {
        return Ok(());
    }
    Err(format!(
        "{word}@{domain}: {reason} after {:.1} s, not {expected} within {} s",
        took.as_secs_f64(),
        limit.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_again_is_answered_and_others_at_once() {
        let at = |domain: &str| *SERVERS.iter().find(|server| server.0 == domain).expect("a server");
        let seconds = Duration::from_secs;
        for (domain, word, reason, took, right) in [
            ("postscreen.example", "real-1", "mailbox_exists", 8, true),
            ("postscreen.example", "real-1", "unverifiable", 1, false),
            ("verifies.example", "real-1", "unverifiable", 8, true),
            ("verifies.example", "real-2", "unverifiable", 8, false),
            ("verifies.example", "gone-1", "mailbox_not_found", 8, true),
            ("verifies.example", "gone-1", "mailbox_not_found", 40, false),
            ("greylists.example", "real-1", "unverifiable", 1, true),
            ("greylists.example", "real-1", "unverifiable", 8, false),
            ("names-an-hour.example", "real-1", "unverifiable", 1, true),
            ("well.example", "gone-1", "mailbox_not_found", 1, true),
        ] {
            assert_eq!(
                judge(at(domain), word, reason, seconds(took)).is_ok(),
                right,
                "{domain} {word} {reason}"
            );
        }
    }

    #[test]
    fn every_server_is_one() {
        let scenario = mailnet::Scenario::parse(SCENARIO).unwrap();
        let is_there =
            |(domain, _): &(&str, bool)| scenario.exists(&format!("real-1@{domain}")) == Some(true);
        assert!(scenario.domains() == SERVERS.len() && SERVERS.iter().all(is_there));
    }
}
