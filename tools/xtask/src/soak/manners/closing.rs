//! 421: when it comes, how soon the next session begins, and how long a short list waits.

use super::{Check, HOST, Outcome, Place, check, holds, rows};
use crate::soak::Failure;
use mailnet::{Journal, What};
use std::time::Duration;

/// The next session after a 421 that speaks of our rate.
const WAIT_MIN: Duration = Duration::from_secs(5);
/// A list ends so long after its last row that can be answered, and this is a list of which none can be.
const SHORT_LIST_MAX: Duration = Duration::from_secs(70);
/// Long enough for several sessions after the first 421: the site rests for a minute.
const RATE_WAIT_S: &str = "90";
/// Sessions open at once before the first 421; with fewer nothing can be halved.
const SESSIONS_MIN: usize = 4;

/// Where the 421 comes, as a misdeed of mailnet.
const PLACES: [(&str, &str); 4] = [
    ("the banner", "at = \"banner\""),
    ("MAIL", "at = \"mail\""),
    ("every RCPT", "at = \"rcpt\""),
    ("half of the RCPTs", "at = \"rcpt\", percent = 50"),
];

pub fn checks() -> Vec<Check> {
    let mut checks = vec![check("a 421 that speaks of our rate", rate)];
    for (number, (words, at)) in PLACES.into_iter().enumerate() {
        for size in [2, 8] {
            let name = format!("closing-{number}-{size}");
            checks.push(check(format!("{size} addresses, 421 at {words}"), move |place| {
                short_list(place, &name, at, size)
            }));
        }
    }
    checks
}

fn short_list(place: &Place<'_>, name: &str, at: &str, size: usize) -> Result<Outcome, Failure> {
    let net = place.net(&format!(
        "{{ personality = \"generic\", faults = [{{ {at}, does = \"reply\", \
         text = \"421 4.3.2 Service not available, closing transmission channel\" }}] }}"
    ))?;
    let mut list = rows("real", 0..size / 2);
    list.extend(rows("gone", 0..size / 2));
    let cleaned = place.clean(&net, name, name, &list)?;
    let sessions = net.host_stats(HOST).map_or(0, |host| host.sessions);
    let wrong = cleaned.said.iter().filter(|(row, reason)| {
        let right = net.expected(row).reason.as_str();
        *reason != "unverifiable" && *reason != right
    });
    let wrong = wrong.count();
    let took = cleaned.took;
    let figures = format!("{:.0} s, {sessions} sessions, {wrong} wrong", took.as_secs_f64());
    Ok(holds(took <= SHORT_LIST_MAX && wrong == 0 && sessions > 0, figures))
}

/// The server counts unknown recipients over all sessions and ends them by 421 for a while.
fn rate(place: &Place<'_>) -> Result<Outcome, Failure> {
    let net = place.net(
        "{ personality = \"generic\", latency_ms = 120, changes = [{ after = 30, counted = \"client\", \
         within_ms = 4000, to = \"reply\", text = \"421 4.7.0 Too many unknown recipients, slow down\" }] }",
    )?;
    // So many that exist come first that the client opens as many sessions as it ever does.
    let calm = place.of(1200, 400);
    let mut rest = rows("gone", 0..60);
    rest.extend(rows("real", calm..calm + 60));
    fastrand::Rng::with_seed(place.seed).shuffle(&mut rest);
    let list = [rows("real", 0..calm), rest].concat();
    let cleaned = place.clean_patiently(&net, "rate", RATE_WAIT_S, &list)?;
    let journal = net.journal();
    let waits = journal.waits_after_closing(HOST);
    let soonest = waits.iter().min().copied();
    let (before, after) = peaks(&journal, HOST);
    let figures = format!(
        "{} sessions after a 421, the soonest after {}; at most {before} sessions at once before the first and {after} \
         after it; {:.0} s",
        waits.len(),
        soonest.map_or("never".into(), |wait| format!("{:.2} s", wait.as_secs_f64())),
        cleaned.took.as_secs_f64()
    );
    let halves = before >= SESSIONS_MIN && after * 2 <= before;
    Ok(holds(soonest.is_some_and(|wait| wait >= WAIT_MIN) && halves, figures))
}

/// The most sessions of a host that were open at once: until the first 421, and of those that began after it.
fn peaks(journal: &Journal, host: &str) -> (usize, usize) {
    let (mut open, mut began_before) = (0_usize, std::collections::HashSet::new());
    let (mut before, mut after, mut closed) = (0, 0, false);
    for event in journal.events.iter().filter(|event| &*event.host == host) {
        match event.what {
            What::Begins => {
                open += 1;
                if closed {
                    after = open.max(after);
                } else {
                    began_before.insert(event.session);
                    before = open.max(before);
                }
            }
            What::Ends if closed && began_before.contains(&event.session) => {}
            What::Ends => open = open.saturating_sub(1),
            What::Closing if !closed => {
                closed = true;
                open = 0;
            }
            _ => {}
        }
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailnet::Event;

    #[test]
    fn sessions_are_counted_before_and_after_the_first_421() {
        let events = [
            (1, What::Begins),
            (2, What::Begins),
            (3, What::Begins),
            (3, What::Ends),
            (1, What::Closing),
            (1, What::Ends),
            (4, What::Begins),
            (2, What::Ends),
            (4, What::Closing),
            (4, What::Ends),
            (5, What::Begins),
        ];
        let event = |(session, what): (u64, What)| Event {
            at_ms: 0,
            session,
            host: "mx".into(),
            node: 0,
            client: [127, 0, 0, 1].into(),
            what,
        };
        let journal = Journal { events: events.map(event).into(), lost: 0 };
        assert_eq!(peaks(&journal, "mx"), (3, 1));
        assert_eq!(peaks(&journal, "other"), (0, 0));
    }
}
