//! Faulty ("sick") sites in a list must not delay the verdicts about the other ("well") sites. This test measures time, so it is a
//! program of its own: beside other tests, the sick sites could use all sessions before the addresses of well sites are submitted.

#[path = "all/support.rs"]
#[expect(dead_code, reason = "this program needs a part of it")]
mod support;

use engine::config::Pace;
use engine::{Client, Outage, Priority};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use support::{engine, request, submit, world};

/// The number of addresses at each sick site, far more than at a well one.
const SICK_EACH: usize = 3000;
/// Most addresses that the caller has in the engine at once, as `mailprobe clean` does.
const WINDOW: usize = 4000;
/// If a site is full, the caller submits the address again after this time.
const PAUSE: Duration = Duration::from_millis(200);

/// `count` well sites and three sick ones: one sends no greeting, one replies byte by byte, and one greylists every recipient.
fn scenario(count: usize) -> String {
    format!(
        r#"
[[group]]
name = "well{{n}}.example"
count = {count}
mailboxes = {{ ok = ["user-#"] }}

[[domain]]
name = "silent.example"
server = {{ faults = [{{ at = "banner", does = "hang" }}] }}

[[domain]]
name = "dripping.example"
server = {{ faults = [{{ at = "rcpt", does = "drip", ms = 5000 }}] }}
mailboxes = {{ ok = ["user-#"] }}

[[domain]]
name = "greylisting.example"
greylist_ms = 600000
greylist_everyone = true
mailboxes = {{ ok = ["user-#"] }}
"#
    )
}

/// The addresses of a list, those at sick sites first, and the number of addresses at well sites.
fn list(well: usize, each: usize, sick: bool) -> (Vec<String>, usize) {
    let mut list = Vec::new();
    if sick {
        for number in 0..SICK_EACH {
            for name in ["silent", "dripping", "greylisting"] {
                list.push(format!("user-{number}@{name}.example"));
            }
        }
    }
    for number in 0..each {
        for domain in 1..=well {
            // Every second address exists.
            let local = if number % 2 == 0 { "user" } else { "nobody" };
            list.push(format!("{local}-{number}@well{domain}.example"));
        }
    }
    (list, well * each)
}

/// Submits a list, and returns the time until all addresses at well sites have their verdicts.
fn clean(client: &Client, list: &[String], well: usize) -> Duration {
    let started = Instant::now();
    let mut ready: VecDeque<usize> = (0..list.len()).collect();
    let mut later: VecDeque<(Instant, usize)> = VecDeque::new();
    let mut done: HashMap<usize, ()> = HashMap::new();
    let mut under_way = 0;
    while done.len() < well {
        assert!(started.elapsed() < Duration::from_secs(300), "{} of {well} well ones done", done.len());
        while later.front().is_some_and(|(at, _)| *at <= Instant::now()) {
            ready.extend(later.pop_front().map(|(_, index)| index));
        }
        while under_way < WINDOW
            && let Some(&index) = ready.front()
        {
            if client.submit(request(index as u64, &list[index], Priority::List)).is_err() {
                break;
            }
            ready.pop_front();
            under_way += 1;
        }
        let Some(answer) = client.answer_blocking(PAUSE) else { continue };
        under_way -= 1;
        let index = answer.ticket as usize;
        match answer.result {
            Ok(finding) if list[index].contains("@well") => {
                let expected =
                    if list[index].starts_with("user") { "mailbox_exists" } else { "mailbox_not_found" };
                assert_eq!(finding.reason.as_str(), expected, "{}", list[index]);
                assert!(done.insert(index, ()).is_none(), "{} was answered twice", list[index]);
            }
            Ok(finding) => assert_eq!(finding.reason.as_str(), "unverifiable", "{}", list[index]),
            Err(Outage::SiteFull) => later.push_back((Instant::now() + PAUSE, index)),
            Err(outage) => panic!("{}: {outage:?}", list[index]),
        }
    }
    started.elapsed()
}

fn run(well: usize, each: usize, sick: bool) -> Duration {
    let net = world(&scenario(well));
    let engine = engine(net.dns(), net.smtp_port(), Pace::Lab);
    let client = engine.client(WINDOW);
    let (list, count) = list(well, each, sick);
    let time = clean(&client, &list, count);
    if sick {
        // The site quota does not apply to single checks, so this one is admitted and answered in time.
        submit(&client, u64::MAX, "user-1@silent.example", Priority::Single);
        let asked = Instant::now();
        let answered = std::iter::from_fn(|| client.answer_blocking(Duration::from_secs(60)))
            .find(|answer| answer.ticket == u64::MAX)
            .expect("no answer to a single check");
        assert_eq!(answered.result.map(|finding| finding.reason.as_str()), Ok("unverifiable"));
        assert!(asked.elapsed() < Duration::from_secs(50));
    }
    engine.stop();
    time
}

#[test]
fn sick_sites_cost_the_well_ones_nothing() {
    let time = run(60, 10, true);
    assert!(
        time < Duration::from_secs(25),
        "a silent host alone takes 30 s, and the well ones took {time:?}"
    );
}
