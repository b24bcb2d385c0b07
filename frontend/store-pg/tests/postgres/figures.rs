//! The time of a group. It is a measurement: `cargo test -p store-pg --test postgres figures -- --ignored --nocapture`.

use crate::setting::{Answers, TestServer, connect, holds, lane_over, on_each_driver};
use std::time::Instant;
use store_pg::lane::GroupEnd;

/// The groups of each size, of which the first tenth does not count.
const GROUPS: usize = 300;

#[test]
#[ignore = "a measurement"]
fn time_of_a_group() {
    let Some(server) = TestServer::get("figures") else { return };
    let authority = std::env::var("MAILPROBE_TEST_POSTGRES_CA").ok();
    let tls = authority.map(|path| server.url(&format!("sslrootcert={path}")));
    on_each_driver(async |driver| {
        for (name, url) in [("plain", Some(server.url("sslmode=disable"))), ("TLS", tls.clone())] {
            let Some(url) = url else { continue };
            for jobs in [1, 100, 500] {
                let schema = "figures";
                let _witness = server.fresh_tables(schema).await;
                let mut lane = lane_over(connect(&url).await, schema).await;
                let (mut times, answers) = (Vec::new(), Answers::default());
                for group in 1..=GROUPS as i64 {
                    let account = format!("account {}", group % 20);
                    let began = Instant::now();
                    let report = lane.run_group(group, holds(&account, group, jobs, &answers)).await;
                    times.push(began.elapsed().as_micros());
                    assert!(matches!(report.end, GroupEnd::Done), "{report:?}");
                    answers.take_done();
                }
                let mut times = times.split_off(GROUPS / 10);
                times.sort_unstable();
                let at = |percent: usize| times[times.len() * percent / 100];
                println!(
                    "{driver} {name}: {jobs} jobs: median {} us, 10 % {} us, 90 % {} us a group",
                    at(50),
                    at(10),
                    at(90)
                );
            }
        }
    });
}
