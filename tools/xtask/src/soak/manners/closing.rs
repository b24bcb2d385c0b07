//! The reply 421: its position in the session, the pause until the next session, and the time of a short list.

use super::{CheckOutcome, CheckSetting, HOST, MannersCheck, check, domain, peers, rows};
use crate::interop::report::outcome;
use mailnet::{Event, Journal, What};
use std::time::Duration;

/// The shortest pause after a 421 that names our rate.
const WAIT_MIN: Duration = Duration::from_secs(5);
/// How long a list may wait after its last answerable row; no row of this list is answerable.
const SHORT_LIST_MAX: Duration = Duration::from_secs(70);
/// The wait of a list in seconds: long enough for many sessions after the first 421.
const RATE_WAIT_S: &str = "90";
/// New sessions are counted for this time before the first 421, and for this time after the pause behind it.
const RATE_SPAN: Duration = Duration::from_secs(15);
/// The fewest sessions from which a rate can be computed.
const SESSIONS_MIN: usize = 8;
/// The largest allowed share of the former rate: half, and the recovery during the measurement.
const SHARE_MAX: f64 = 0.65;

/// The positions of the 421, as misdeeds of mailnet.
const PLACES: [(&str, &str); 4] = [
    ("the banner", "at = \"banner\""),
    ("MAIL", "at = \"mail\""),
    ("every RCPT", "at = \"rcpt\""),
    ("half of the RCPTs", "at = \"rcpt\", percent = 50"),
];

/// The checks of sessions after a 421.
pub fn checks() -> Vec<MannersCheck> {
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

fn short_list(place: &CheckSetting<'_>, name: &str, at: &str, size: usize) -> CheckOutcome {
    let net = place.net(&format!(
        "{{ personality = \"generic\", faults = [{{ {at}, does = \"reply\", \
         text = \"421 4.3.2 Service not available, closing transmission channel\" }}] }}"
    ))?;
    let list = [rows("real", 0..size / 2), rows("gone", 0..size / 2)].concat();
    let cleaned = place.clean(&net, (name, name), &list, &[])?;
    let sessions = net.host_stats(HOST).map_or(0, |host| host.sessions);
    let wrong = cleaned.said.iter().filter(|(row, reason)| {
        let right = net.expected(row).reason.as_str();
        *reason != "unverifiable" && *reason != right
    });
    let wrong = wrong.count();
    let took = cleaned.took;
    let figures = format!("{:.0} s, {sessions} sessions, {wrong} wrong", took.as_secs_f64());
    outcome(took <= SHORT_LIST_MAX && wrong == 0 && sessions > 0, figures)
}

/// A server that takes five recipients and two transactions a session, so that new sessions take most of the time. It
/// counts unknown recipients over all sessions, and then ends sessions by 421 for a while.
fn rate(place: &CheckSetting<'_>) -> CheckOutcome {
    let few = "[[personality]]\nname = \"few\"\nlike = \"generic\"\nehlo = [\"PIPELINING\", \
               \"LIMITS RCPTMAX=5 MAILMAX=2\"]\n";
    let server = "{ personality = \"few\", latency_ms = 120, changes = [{ after = 24, counted = \"client\", \
                  within_ms = 4000, to = \"reply\", text = \"421 4.7.0 Too many unknown recipients, slow down\" }] }";
    let net = peers::start(&place.scenario(&(few.to_owned() + &domain("d.example", server))))?;
    // A session with existing recipients has one refusal, that of the control recipient. The other sessions have five.
    let list = [rows("real", 0..180), rows("gone", 0..40), rows("real", 180..260)].concat();
    let cleaned = place.clean(&net, ("rate", "rate"), &list, &["--max-wait", RATE_WAIT_S])?;
    let journal = net.journal();
    let soonest = journal.waits_after_closing(HOST).into_iter().min();
    let (before, after) = begun(&journal, HOST, RATE_SPAN);
    let (rate_before, rate_after) = (a_second(&before), a_second(&after));
    let figures = format!(
        "the next session after {}; {rate_before:.2} new sessions a second before the first 421, {rate_after:.2} after it; \
         {:.0} s",
        soonest.map_or("never".into(), |wait| format!("{:.2} s", wait.as_secs_f64())),
        cleaned.took.as_secs_f64()
    );
    let halves = rate_after <= SHARE_MAX * rate_before;
    let enough = before.len().min(after.len()) >= SESSIONS_MIN;
    outcome(soonest.is_some_and(|wait| wait >= WAIT_MIN) && enough && halves, figures)
}

/// The start times of sessions of a host, in milliseconds: those within `span` before its first 421, and those within
/// `span` from the first start after it.
fn begun(journal: &Journal, host: &str, span: Duration) -> (Vec<u64>, Vec<u64>) {
    let span = span.as_millis() as u64;
    let of = |what: What| {
        let fits = move |event: &&Event| &*event.host == host && event.what == what;
        journal.events.iter().filter(fits).map(|event| event.at_ms)
    };
    let Some(closed) = of(What::Closing).next() else { return (Vec::new(), Vec::new()) };
    let before = of(What::Begins).filter(|&at| at < closed && at + span >= closed).collect();
    let resumed = of(What::Begins).find(|&at| at > closed).unwrap_or(u64::MAX);
    let after = of(What::Begins).filter(|&at| at >= resumed && at - resumed <= span).collect();
    (before, after)
}

/// How many of these times there are per second.
fn a_second(times: &[u64]) -> f64 {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return 0.0 };
    (times.len() - 1) as f64 * 1000.0 / last.saturating_sub(*first).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_sessions_are_counted_on_both_sides_of_the_first_421() {
        let events = [
            (1_000, What::Begins),
            (20_000, What::Begins),
            (22_000, What::Begins),
            (23_000, What::Begins),
            (24_000, What::Closing),
            (30_000, What::Begins),
            (34_000, What::Begins),
            (34_500, What::Closing),
            (41_000, What::Begins),
        ];
        let event = |(at_ms, what): (u64, What)| Event {
            at_ms,
            session: at_ms,
            host: "mx".into(),
            node: 0,
            client: [127, 0, 0, 1].into(),
            what,
        };
        let journal = Journal { events: events.map(event).into(), lost: 0 };
        let (before, after) = begun(&journal, "mx", Duration::from_secs(10));
        assert_eq!(before, [20_000, 22_000, 23_000]);
        assert_eq!(after, [30_000, 34_000]);
        assert_eq!((a_second(&before), a_second(&after)), (2.0 / 3.0, 0.25));
        assert_eq!(begun(&journal, "other", Duration::from_secs(10)), (Vec::new(), Vec::new()));
        assert_eq!(a_second(&[]), 0.0);
    }
}
