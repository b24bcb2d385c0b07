//! Reads: one snapshot, several levels deep, and many in one transaction.

use crate::proxy::{Cut, Part, Proxy, Way};
use crate::setting::{
    Answers, PATIENCE, SchemaTest, StandbyWanted, connect, connect_synchronously, end_waiting, on_schema,
};
use futures_util::future::join;
use std::time::{Duration, Instant};
use store::StoreError;
use store_pg::connect::Session;
use store_pg::reads::{ReadEnd, ReadJob, ReadJobs, ReadLane};
use store_rules::backend::Want;
use store_rules::rows::{KeyRange, Rows, Table, Walk};

type Work = Box<dyn FnMut(&dyn Rows) -> Result<(), StoreError> + Send>;

struct TestRead {
    name: String,
    wants: Vec<Want>,
    work: Work,
    answers: Answers,
}

impl ReadJob for TestRead {
    fn wants(&self, out: &mut Vec<Want>) {
        out.extend(self.wants.iter().cloned());
    }

    fn run(&mut self, rows: &dyn Rows) -> Result<(), StoreError> {
        (self.work)(rows)
    }

    fn finish(self: Box<Self>, failure: Option<&StoreError>) {
        self.answers.add(&self.name, failure);
    }
}

async fn lane_over(session: Session, schema: &str) -> ReadLane {
    session.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
    ReadLane::open(session, PATIENCE).await.unwrap()
}

/// Reads of one row each, which they name.
fn look_ups(rows: u32, answers: &Answers) -> ReadJobs {
    let job = |at: u32| {
        let key = format!("r{at}").into_bytes();
        let wants = vec![Want::Row(Table::Results, key.clone())];
        let work = move |rows: &dyn Rows| {
            let is_there = rows.get(Table::Results, &key, &mut |value| assert_eq!(value, key))?;
            assert_eq!(is_there, at < 30);
            Ok(())
        };
        Box::new(TestRead { name: at.to_string(), wants, work: Box::new(work), answers: answers.clone() })
            as Box<dyn ReadJob>
    };
    (0..rows).map(job).collect()
}

async fn fill(session: &Session) {
    let text = "INSERT INTO results SELECT convert_to('r' || i, 'UTF8'), convert_to('r' || i, 'UTF8') \
                FROM generate_series(0, 29) AS i";
    session.client().batch_execute(text).await.unwrap();
}

#[test]
fn reads_share_a_round_trip() {
    on_schema("reads_together", async |SchemaTest { server, schema, witness, .. }| {
        fill(&witness).await;
        let (mut lane, answers) = (lane_over(server.session().await, schema).await, Answers::default());
        for turn in 0..2 {
            let before = lane.round_trips();
            assert!(matches!(lane.run(look_ups(500, &answers)).await, ReadEnd::Done));
            assert_eq!(answers.take_done().len(), 500);
            // The statement is prepared once. COMMIT comes after the answers.
            assert_eq!(lane.round_trips() - before, if turn == 0 { 3 } else { 2 });
        }
        // No row is locked, and no transaction is open.
        witness
            .client()
            .batch_execute("SET lock_timeout = '100ms'; BEGIN; LOCK results; COMMIT")
            .await
            .unwrap();
    });
}

/// All that a read sees is of one time, although it takes several round trips.
#[test]
fn a_read_sees_one_snapshot() {
    const DEPTH: usize = 4;
    on_schema("reads_snapshot", async |SchemaTest { server, schema, witness, .. }| {
        let text = "INSERT INTO accounts SELECT convert_to(i::text, 'UTF8'), '0' FROM generate_series(0, 3) AS i; \
                    INSERT INTO holds SELECT * FROM accounts";
        witness.client().batch_execute(text).await.unwrap();
        let (mut lane, answers) = (lane_over(server.session().await, schema).await, Answers::default());
        let writer = async {
            for value in 1..=200 {
                let text = format!("UPDATE accounts SET v = '{value}'; UPDATE holds SET v = '{value}'");
                witness.client().batch_execute(&text).await.unwrap();
            }
        };
        let reader = async {
            for turn in 0..50 {
                let work = move |rows: &dyn Rows| {
                    let mut values = Vec::new();
                    for at in 0..DEPTH {
                        rows.get(Table::Accounts, at.to_string().as_bytes(), &mut |value| {
                            values.push(value.to_vec());
                        })?;
                    }
                    rows.walk(
                        Table::Holds,
                        KeyRange { backwards: true, ..KeyRange::ALL },
                        &mut |_, value| {
                            values.push(value.to_vec());
                            Ok(Walk::On)
                        },
                    )?;
                    assert_eq!(values.len(), 2 * DEPTH);
                    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
                    assert_eq!(rows.count(Table::Accounts)?, DEPTH as u64);
                    Ok(())
                };
                let (name, wants) = (turn.to_string(), Vec::new());
                let job = TestRead { name, wants, work: Box::new(work), answers: answers.clone() };
                assert!(matches!(lane.run(vec![Box::new(job)]).await, ReadEnd::Done));
            }
        };
        join(writer, reader).await;
        assert_eq!(answers.take_done().len(), 50);
    });
}

/// A cut connection loses no read: those without an answer are returned.
#[test]
fn reads_of_a_cut_connection_are_returned() {
    on_schema("reads_cut", async |SchemaTest { server, schema, witness, .. }| {
        fill(&witness).await;
        let proxy = Proxy::start(server.address(), Duration::ZERO);
        for at in 0..8 {
            for way in [Way::ToServer, Way::ToClient] {
                let answers = Answers::default();
                proxy.arm(None);
                let mut lane = lane_over(connect(&server.url_at(&proxy.address)).await, schema).await;
                lane.run(look_ups(5, &answers)).await;
                answers.take_done();
                proxy.arm(Some(Cut { way, at, part: Part::Half, is_half: false }));
                let jobs = match lane.run(look_ups(5, &answers)).await {
                    ReadEnd::Done => Vec::new(),
                    ReadEnd::Away { jobs, .. } => jobs,
                };
                let mut lane = lane_over(server.session().await, schema).await;
                assert!(matches!(lane.run(jobs).await, ReadEnd::Done));
                assert_eq!(answers.take_done().len(), 5, "{way:?} {at}");
            }
        }
    });
}

/// A server that refuses a statement fails the reads, and the lane goes on.
#[test]
fn refused_reads_fail() {
    on_schema("reads_refused", async |SchemaTest { server, schema, witness, .. }| {
        fill(&witness).await;
        let (mut lane, answers) = (lane_over(server.session().await, schema).await, Answers::default());
        witness.client().batch_execute("ALTER TABLE results RENAME TO gone").await.unwrap();
        assert!(matches!(lane.run(look_ups(2, &answers)).await, ReadEnd::Done));
        let failures = answers.take();
        assert_eq!(failures.len(), 2);
        assert!(failures.iter().all(|(_, failure)| failure.is_some()));
        witness.client().batch_execute("ALTER TABLE gone RENAME TO results").await.unwrap();
        assert!(matches!(lane.run(look_ups(2, &answers)).await, ReadEnd::Done));
        assert_eq!(answers.take_done().len(), 2);
    });
}

/// A former primary shows its old rows, and acknowledges no commit: a read is not answered by it.
#[test]
fn reads_wait_for_the_standby() {
    const SHORT: Duration = Duration::from_millis(500);
    on_schema("reads_confirmed", async |SchemaTest { server, schema, witness, .. }| {
        fill(&witness).await;
        let answers = Answers::default();
        let url = server.url("sslmode=disable");
        let lane = async |patience| {
            let session = connect_synchronously(&url).await;
            session.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
            ReadLane::open(session, patience).await.unwrap()
        };
        let standby = StandbyWanted::set(&witness).await;
        let mut first = lane(SHORT).await;
        let ReadEnd::Away { jobs, .. } = first.run(look_ups(3, &answers)).await else { panic!("answered") };
        assert!(jobs.len() == 3 && !first.is_connected());
        for function in ["pg_cancel_backend", "pg_terminate_backend"] {
            let mut lane = lane(PATIENCE).await;
            let (end, ()) = join(lane.run(look_ups(3, &answers)), end_waiting(server, function)).await;
            assert!(matches!(end, ReadEnd::Away { .. }), "{function}: {end:?}");
        }
        assert!(answers.take().is_empty());
        let mut lane = lane(PATIENCE).await;
        let ended = async {
            monoio::time::sleep(SHORT).await;
            standby.unset(&witness).await;
        };
        let (end, ()) = join(lane.run(jobs), ended).await;
        assert!(matches!(end, ReadEnd::Done), "{end:?}");
        assert_eq!(answers.take_done().len(), 3);
    });
}

/// A panic is answered as a failure, and the lane goes on.
#[test]
fn reads_that_panic_fail_alone() {
    on_schema("reads_panic", async |SchemaTest { server, schema, witness, .. }| {
        fill(&witness).await;
        let (mut lane, answers) = (lane_over(server.session().await, schema).await, Answers::default());
        let mut jobs = look_ups(4, &answers);
        let work: Work = Box::new(|_| panic!("as the test wants it"));
        jobs.insert(
            1,
            Box::new(TestRead { name: "panic".into(), wants: Vec::new(), work, answers: answers.clone() }),
        );
        assert!(matches!(lane.run(jobs).await, ReadEnd::Done));
        let failed = |(name, failure): &(String, Option<StoreError>)| (name == "panic") == failure.is_some();
        let answers = answers.take();
        assert!(answers.len() == 5 && answers.iter().all(failed), "{answers:?}");
        assert!(lane.is_connected());
    });
}

/// The time of a group of reads, without and with the proof that the server is the primary. The second needs a server with a
/// standby: `cargo xtask cluster --tmpfs -- cargo test --release -p store-pg --test postgres time_of_reads -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn time_of_reads() {
    const GROUPS: usize = 500;
    on_schema("reads_figures", async |SchemaTest { driver, server, schema, witness, .. }| {
        fill(&witness).await;
        let url = server.url("sslmode=disable");
        for is_synchronous in [false, true] {
            let session =
                if is_synchronous { connect_synchronously(&url).await } else { connect(&url).await };
            let mut lane = lane_over(session, schema).await;
            for reads in [1, 100] {
                let (mut times, answers) = (Vec::new(), Answers::default());
                for _ in 0..GROUPS {
                    let began = Instant::now();
                    assert!(matches!(lane.run(look_ups(reads, &answers)).await, ReadEnd::Done));
                    times.push(began.elapsed().as_micros());
                    assert_eq!(answers.take_done().len(), reads as usize);
                }
                let mut times = times.split_off(GROUPS / 10);
                times.sort_unstable();
                let at = |percent: usize| times[times.len() * percent / 100];
                let proof = if is_synchronous { "with" } else { "without" };
                println!(
                    "{driver}: {reads} reads {proof} the proof: median {} us, 90 % {} us a group",
                    at(50),
                    at(90)
                );
            }
        }
    });
}
