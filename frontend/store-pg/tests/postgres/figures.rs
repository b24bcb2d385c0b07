//! The time of a group, and the processor time of the server. They are measurements:
//! `cargo test --release -p store-pg --test postgres figures -- --ignored --nocapture`.

use crate::setting::{
    Answers, SchemaTest, TestJob, TestServer, connect, hold_job, holds, lane_over, on_each_driver, on_schema,
    run,
};
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use store_pg::lane::{GroupJob, Jobs, Lane};
use store_rules::backend::Want;
use store_rules::rows::Table;

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
                    run(&mut lane, group, holds(&account, group, jobs, &answers)).await;
                    times.push(began.elapsed().as_micros());
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

/// The processor time of a task of this machine, from its file `schedstat`.
fn processor_time(task: &str) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Runs groups and prints what a job costs. The server must run on this machine.
async fn measure(name: &str, lane: &mut Lane, mut jobs: impl FnMut(i64) -> Jobs) {
    const WARM: i64 = 20;
    let client = lane.session().unwrap().client();
    let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let now = || (Instant::now(), processor_time(&process.to_string()), processor_time("thread-self"));
    let (mut seq, mut count, mut began, mut trips) = (1, 0, now(), lane.round_trips());
    for group in 1..=GROUPS as i64 {
        let jobs = jobs(group);
        count = jobs.len();
        let report = run(lane, seq, jobs).await;
        seq = report.next;
        if group == WARM {
            (began, trips) = (now(), lane.round_trips());
        }
    }
    let end = now();
    let groups = GROUPS as f64 - WARM as f64;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / groups / count as f64;
    println!(
        "{name}: {count} jobs a group: {:.2} us a job, server {:.2} us, this thread {:.2} us, {:.2} round trips a group",
        each(end.0 - began.0),
        each(end.1 - began.1),
        each(end.2 - began.2),
        (lane.round_trips() - trips) as f64 / groups
    );
}

#[test]
#[ignore = "a measurement"]
fn processor_time_of_a_job() {
    let Some(server) = TestServer::get("figures of jobs") else { return };
    on_each_driver(async |driver| {
        for (accounts, is_named) in [(1, true), (20, true), (500, true), (500, false)] {
            let schema = "figures_jobs";
            let _witness = server.fresh_tables(schema).await;
            let (mut lane, answers) = (server.lane(schema).await, Answers::default());
            let jobs = |group: i64| -> Jobs {
                answers.take_done();
                let job = |at: usize| {
                    let job = hold_job(&format!("account {}", at % accounts), group, at, &answers);
                    let job = if is_named { job } else { TestJob { wants: Vec::new(), ..job } };
                    Box::new(job) as Box<dyn GroupJob>
                };
                (0..500).map(job).collect()
            };
            let wants = if is_named { "named" } else { "not named" };
            measure(&format!("{driver}, {accounts} accounts, reads {wants}"), &mut lane, jobs).await;
        }
    });
}

/// Ranges of a group: one statement for all of them, or one for each.
#[test]
#[ignore = "a measurement"]
fn time_of_ranges() {
    const RANGES: i32 = 500;
    const TURNS: u32 = 100;
    on_schema("figures_ranges", async |SchemaTest { driver, server, schema, witness, .. }| {
        let text = "INSERT INTO ledger SELECT int4send(i), int8send(i) FROM generate_series(0, 99999) AS i; ANALYZE ledger";
        witness.client().batch_execute(text).await.unwrap();
        let bounds = |at: i32| ((at * 200).to_be_bytes().to_vec(), (at * 200 + 99).to_be_bytes().to_vec());
        let mut lane = server.lane(schema).await;
        let jobs = |_| -> Jobs {
            let job = |at: i32| {
                let (from, to) = bounds(at);
                let wants = vec![Want::Range { table: Table::Ledger, from, to, backwards: false, most: 10 }];
                let job = hold_job("none", 0, 0, &Answers::default());
                Box::new(TestJob { wants, work: Box::new(|_| Ok(())), ..job }) as Box<dyn GroupJob>
            };
            (0..RANGES).map(job).collect()
        };
        measure(&format!("{driver}, one statement, 10 rows each"), &mut lane, jobs).await;
        let client = witness.client();
        let each = "SELECT k, v FROM ledger WHERE k >= $1 AND k <= $2 ORDER BY k LIMIT $3";
        let each = client.prepare(each).await.unwrap();
        let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let (began, before) = (Instant::now(), processor_time(&process.to_string()));
        for _ in 0..TURNS {
            let bounds: Vec<_> = (0..RANGES).map(bounds).collect();
            let rows = join_all(
                bounds.iter().map(async |(from, to)| client.query(&each, &[from, to, &10_i64]).await),
            );
            assert!(rows.await.into_iter().all(|rows| rows.unwrap().len() == 10));
        }
        let per = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(TURNS) / f64::from(RANGES);
        let server = processor_time(&process.to_string()) - before;
        println!(
            "{driver}, a statement each: {:.2} us a range, server {:.2} us",
            per(began.elapsed()),
            per(server)
        );
    });
}
