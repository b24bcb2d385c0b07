//! Groups on a connection that does not break: what is written, what is refused, and the round trips.

use crate::proxy::Proxy;
use crate::setting::{
    Answers, LaneTest, SchemaTest, StandbyWanted, TestJob, add, connect, connect_synchronously, end_waiting,
    held_by, holds, holds_of, lane_over, on_schema, on_tables, run,
};
use futures_util::future::join;
use monoio::{LegacyDriver, RuntimeBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use store::StoreError;
use store_pg::connect::Session;
use store_pg::lane::{GroupEnd, Lane, NotDone, Truth};
use store_rules::rows::Table;

#[test]
fn a_group_writes_all_its_rows() {
    on_tables("groups_write", async |LaneTest { witness, mut lane, answers, .. }| {
        for group in [1, 2] {
            let report = run(&mut lane, group, holds("a", group, 500, &answers)).await;
            assert_eq!((report.next, report.transactions), (group + 1, 1));
            let names: Vec<String> = (0..500).map(|at| format!("{group}/{at}")).collect();
            assert_eq!(answers.take_done(), names);
        }
        assert_eq!(held_by(&witness, "a").await, 1000);
        let remove = TestJob::boxed("remove", &answers, |rows| {
            for key in ["1/7", "1/8", "none"] {
                rows.remove(Table::Holds, key.as_bytes())?;
            }
            Ok(())
        });
        run(&mut lane, 3, vec![remove]).await;
        assert_eq!(holds_of(&witness, 1).await, 498);
        assert_eq!(lane.believe(3).await, Ok(Truth::Done));
        assert_eq!(lane.believe(4).await, Ok(Truth::NotDone));
    });
}

#[test]
fn a_fenced_lane_does_nothing() {
    on_tables("groups_fenced", async |LaneTest { witness, mut lane, answers, .. }| {
        lane.run_group(1, holds("a", 1, 2, &answers)).await;
        witness.client().batch_execute("UPDATE lanes SET epoch = 4").await.unwrap();
        let report = lane.run_group(2, holds("a", 2, 2, &answers)).await;
        let GroupEnd::NotDone { why: NotDone::Fenced, jobs } = report.end else { panic!("{report:?}") };
        assert_eq!((jobs.len(), report.next), (2, 2));
        assert_eq!(lane.believe(1).await, Ok(Truth::Done));
        assert_eq!(lane.believe(2).await, Ok(Truth::Fenced));
        assert!(lane.is_connected());
        assert_eq!(holds_of(&witness, 2).await, 0);
    });
}

/// Each job gets its answer, also if the server refuses some.
#[test]
fn refused_jobs_fail_alone() {
    on_tables("groups_refused", async |LaneTest { witness, mut lane, answers, .. }| {
        let check = "ALTER TABLE holds ADD CHECK (k <> '1/3' AND k <> '1/9')";
        witness.client().batch_execute(check).await.unwrap();
        let report = run(&mut lane, 1, holds("a", 1, 16, &answers)).await;
        let answers = answers.take();
        assert_eq!(answers.len(), 16);
        for (at, (name, failure)) in answers.into_iter().enumerate() {
            assert_eq!(name, format!("1/{at}"));
            assert_eq!(failure.is_some(), [3, 9].contains(&at), "{name}");
            assert!(failure.is_none_or(|failure| failure.to_string().contains("SQLSTATE 23514")));
        }
        assert_eq!(held_by(&witness, "a").await, 14);
        assert_eq!(holds_of(&witness, 1).await, 14);
        assert_eq!(lane.believe(report.next - 1).await, Ok(Truth::Done));
        assert_eq!(lane.believe(report.next).await, Ok(Truth::NotDone));
    });
}

/// A panic is answered as a failure, and leaves nothing of its job and all of the others.
#[test]
fn jobs_that_panic_fail_alone() {
    on_tables("groups_panic", async |LaneTest { witness, mut lane, answers, .. }| {
        let mut jobs = holds("a", 1, 8, &answers);
        for at in [7, 3, 0] {
            let panicking = TestJob::boxed(format!("panic {at}"), &answers, |rows| {
                add(rows, Table::Accounts, "a", 1000)?;
                panic!("as the test wants it");
            });
            jobs.insert(at, panicking);
        }
        let report = lane.run_group(1, jobs).await;
        assert!(matches!(report.end, GroupEnd::Done) && lane.is_connected(), "{report:?}");
        let (failed, done): (Vec<_>, Vec<_>) =
            answers.take().into_iter().partition(|(name, _)| name.starts_with("panic"));
        assert_eq!((failed.len(), done.len()), (3, 8));
        assert!(failed.iter().all(|(_, why)| why.as_ref().unwrap().to_string().contains("has panicked")));
        assert!(done.iter().all(|(_, failure)| failure.is_none()));
        assert_eq!((held_by(&witness, "a").await, holds_of(&witness, 1).await), (8, 8));
        // A job alone.
        let alone = TestJob::boxed("alone", &answers, |_| panic!("as the test wants it"));
        run(&mut lane, report.next, vec![alone]).await;
        assert_eq!(answers.take().len(), 1);
    });
}

/// A job that fails by itself runs alone before it is answered, at its place.
#[test]
fn a_failure_is_tried_again_alone() {
    on_tables("groups_failed", async |LaneTest { witness, mut lane, answers, .. }| {
        for (group, failures) in [(1, 1), (2, 2), (3, u32::MAX)] {
            let mut left = failures;
            let mut jobs = holds("a", group, 6, &answers);
            let failing = TestJob::boxed("failing", &answers, move |rows| {
                add(rows, Table::Accounts, "a", 100)?;
                if left > 0 {
                    left -= 1;
                    return Err(StoreError::Failed("a row is not there".into()));
                }
                Ok(())
            });
            jobs.insert(3, failing);
            let next = if group == 1 { 1 } else { last_group(&witness).await + 1 };
            run(&mut lane, next, jobs).await;
            let answers = answers.take();
            assert_eq!(answers[3].0, "failing");
            assert_eq!(answers[3].1.is_some(), failures == u32::MAX, "{answers:?}");
            assert_eq!(
                answers.iter().filter(|(_, failure)| failure.is_none()).count(),
                6 + usize::from(group < 3)
            );
        }
        assert_eq!(held_by(&witness, "a").await, 3 * 6 + 2 * 100);
        // A job that is alone from the beginning runs twice.
        let mut left = 1;
        let failing = TestJob::boxed("failing", &answers, move |_| {
            left -= 1;
            if left == 0 { Err(StoreError::Failed("a row is not there".into())) } else { Ok(()) }
        });
        let next = last_group(&witness).await + 1;
        assert!(matches!(lane.run_group(next, vec![failing]).await.end, GroupEnd::Done));
        assert_eq!(answers.take_done(), ["failing"]);
    });
}

async fn last_group(session: &Session) -> i64 {
    session.client().query_one("SELECT seq FROM lanes WHERE lane = 2", &[]).await.unwrap().get(0)
}

/// A former primary acknowledges no commit, so a group that writes nothing must not be answered by it either.
#[test]
fn a_group_without_writes_waits_for_the_standby() {
    on_schema("groups_unchanged", async |SchemaTest { server, schema, witness, .. }| {
        witness.client().batch_execute("SET synchronous_commit = local").await.unwrap();
        let standby = StandbyWanted::set(&witness).await;
        let answers = Answers::default();
        let look = || {
            TestJob::boxed("look", &answers, |rows| {
                rows.get(Table::Accounts, b"a", &mut |_| {})?;
                Ok(())
            })
        };
        let mut lane = lane_over(connect_synchronously(&server.url("sslmode=disable")).await, schema).await;
        let cancel = end_waiting(server, "pg_cancel_backend");
        let (report, ()) = join(lane.run_group(1, vec![look()]), cancel).await;
        assert!(matches!(report.end, GroupEnd::Unknown { .. }), "{report:?}");
        assert!(answers.take().is_empty());
        standby.unset(&witness).await;
        // Without the wish for a standby nothing is committed.
        let report = server.lane(schema).await.run_group(2, vec![look()]).await;
        assert!(matches!(report.end, GroupEnd::Done) && report.next == 2, "{report:?}");
        assert_eq!(answers.take_done(), ["look"]);
    });
}

/// A lock that is not free in time is no failure of the store.
#[test]
fn a_lock_that_another_has_fails_the_job() {
    on_tables("groups_locked", async |LaneTest { witness, mut lane, answers, .. }| {
        lane.run_group(1, holds("a", 1, 1, &answers)).await;
        answers.take_done();
        witness.client().batch_execute("BEGIN; SELECT 1 FROM accounts FOR UPDATE").await.unwrap();
        lane.session().unwrap().client().batch_execute("SET lock_timeout = '100ms'").await.unwrap();
        let mut jobs = holds("a", 2, 1, &answers);
        jobs.extend(holds("b", 3, 1, &answers));
        let report = lane.run_group(2, jobs).await;
        assert!(matches!(report.end, GroupEnd::Done) && report.next == 3, "{report:?}");
        let [(a, Some(StoreError::NotDone(why))), (b, None)] = &answers.take()[..] else {
            panic!("other answers")
        };
        assert_eq!((a.as_str(), b.as_str()), ("2/0", "3/0"));
        assert!(why.contains("SQLSTATE 55P03"), "{why}");
        assert!(lane.is_connected());
        // Not each of many jobs waits for the lock.
        let report = lane.run_group(3, holds("a", 4, 500, &answers)).await;
        assert!(matches!(report.end, GroupEnd::Done) && report.next == 3, "{report:?}");
        assert!((12..40).contains(&report.transactions), "{report:?}");
        let failed = answers.take();
        assert_eq!(failed.len(), 500);
        assert!(failed.iter().all(|(_, failure)| matches!(failure, Some(StoreError::NotDone(_)))));
    });
}

#[test]
fn a_group_takes_two_round_trips() {
    const DELAY: Duration = Duration::from_millis(60);
    const TRIES: u32 = 10;
    on_schema("groups_trips", async |SchemaTest { driver, server, schema, witness, .. }| {
        let proxy = Proxy::start(server.address(), DELAY);
        let session = connect(&server.url_at(&proxy.address)).await;
        let (mut lane, answers) = (lane_over(session, schema).await, Answers::default());
        // The first groups prepare the statements: the first inserts the account's row, the second updates it.
        for group in [1, 2] {
            lane.run_group(group, holds("a", group, 1, &answers)).await;
        }
        let (mut group, mut held) = (2, 2);
        for jobs in [1, 100, 500] {
            // Other programs can delay a single group. A third round trip would delay every group.
            let mut shortest = f64::INFINITY;
            for _ in 0..TRIES {
                (group, held) = (group + 1, held + jobs as i64);
                let (began, before) = (Instant::now(), lane.round_trips());
                let report = lane.run_group(group, holds("a", group, jobs, &answers)).await;
                let trips = began.elapsed().as_secs_f64() / (2.0 * DELAY.as_secs_f64());
                assert!(matches!(report.end, GroupEnd::Done), "{report:?}");
                assert_eq!(lane.round_trips() - before, 2);
                println!("{driver}: {jobs} jobs in {trips:.2} round trips of {:?}", 2 * DELAY);
                shortest = shortest.min(trips);
                if shortest < 2.9 {
                    break;
                }
            }
            assert!((2.0..2.9).contains(&shortest), "{shortest}");
        }
        assert_eq!(held_by(&witness, "a").await, held);
    });
}

/// The wait for a synchronous standby is cancelled: the commit is visible, and nobody may believe it.
#[test]
fn a_warning_at_commit_is_no_answer() {
    on_tables("groups_warning", async |LaneTest { server, schema, witness, mut lane, answers, .. }| {
        // The witness itself waits for no standby.
        witness.client().batch_execute("SET synchronous_commit = local").await.unwrap();
        let standby = StandbyWanted::set(&witness).await;
        let cancel = end_waiting(server, "pg_cancel_backend");
        let (end, ()) = join(lane.run_group(1, holds("a", 1, 2, &answers)), cancel).await;
        assert!(matches!(end.end, GroupEnd::Unknown { .. }), "{end:?}");
        let mut second = server.lane(schema).await;
        assert_eq!(holds_of(&witness, 1).await, 2, "it is visible, and not safe");
        let (truth, ()) = join(second.believe(1), end_waiting(server, "pg_cancel_backend")).await;
        assert!(truth.is_err(), "{truth:?}");
        // The connection is ended while it waits: its error is no answer either.
        let mut lane = server.lane(schema).await;
        let ending = end_waiting(server, "pg_terminate_backend");
        let (end, ()) = join(lane.run_group(2, holds("a", 2, 2, &answers)), ending).await;
        assert!(matches!(end.end, GroupEnd::Unknown { .. }), "{end:?}");
        assert_eq!(holds_of(&witness, 2).await, 2, "it is visible, and not safe");
        standby.unset(&witness).await;
        assert_eq!(server.lane(schema).await.believe(2).await, Ok(Truth::Done));
    });
}

/// A cancellation that comes too late hits the next statement, which may be BEGIN. The marker must not be written without
/// its group.
#[test]
fn a_cancellation_at_any_time_leaves_the_marker_right() {
    const GROUPS: i64 = 1000;
    on_schema("groups_cancelled", async |SchemaTest { driver, server, schema, witness, .. }| {
        let mut lane = server.lane(schema).await;
        let process = Arc::new(AtomicI32::new(process_of(&lane).await));
        let (url, shared) = (server.url("sslmode=disable"), Arc::clone(&process));
        let (ready, is_ready) = mpsc::channel();
        let canceller = thread::spawn(move || cancel_often(&url, &shared, &ready));
        is_ready.recv().unwrap();
        let answers = Answers::default();
        let (mut last, mut done, mut cancelled, mut divided) = (0, 0, 0, 0);
        for group in 1..=GROUPS {
            let report = lane.run_group(last + 1, holds("a", group, 2, &answers)).await;
            // A cancelled group is halved, and a job fails if it is cancelled alone.
            for (name, failure) in answers.take() {
                match failure {
                    None => done += 1,
                    Some(why) => {
                        assert!(why.to_string().contains("57014"), "{name}: {why}");
                        cancelled += 1;
                    }
                }
            }
            divided += i64::from(report.transactions > 1);
            last = report.next - 1;
            assert!(
                matches!(report.end, GroupEnd::Done | GroupEnd::NotDone { why: NotDone::Away(_), .. }),
                "{report:?}"
            );
            if !lane.is_connected() {
                // ROLLBACK was cancelled too.
                lane = server.lane(schema).await;
                process.store(process_of(&lane).await, Ordering::Relaxed);
            }
            let row = witness.client().query_one("SELECT seq FROM lanes WHERE lane = 2", &[]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0), last, "group {group}");
            assert_eq!(held_by(&witness, "a").await, done, "group {group}");
        }
        process.store(0, Ordering::Relaxed);
        canceller.join().unwrap();
        println!("{driver}: {divided} of {GROUPS} groups were divided, {cancelled} jobs cancelled alone");
        assert!((1..GROUPS).contains(&divided), "{divided}");
    });
}

/// Cancels the statements of a process at times that have no relation to its groups, until the process is 0. Says when it is `ready`.
fn cancel_often(url: &str, process: &AtomicI32, ready: &mpsc::Sender<()>) {
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().unwrap();
    runtime.block_on(async {
        let session = connect(url).await;
        ready.send(()).unwrap();
        for turn in 0_u64.. {
            let process = process.load(Ordering::Relaxed);
            if process == 0 {
                return;
            }
            session.client().query_one("SELECT pg_cancel_backend($1)", &[&process]).await.unwrap();
            thread::sleep(Duration::from_micros(turn * 37 % 400));
        }
    });
}

/// The process of the server for this lane.
async fn process_of(lane: &Lane) -> i32 {
    let client = lane.session().unwrap().client();
    // A cancellation may hit this statement.
    loop {
        if let Ok(row) = client.query_one("SELECT pg_backend_pid()", &[]).await {
            return row.get(0);
        }
    }
}
