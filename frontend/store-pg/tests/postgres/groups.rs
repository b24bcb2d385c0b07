//! Groups on a connection that does not break: what is written, what is refused, and the round trips.

use crate::proxy::Proxy;
use crate::setting::{TestServer, account_keys, connect, held_by, hold, holds_of, lane_over, on_each_driver};
use futures_util::future::join;
use monoio::{LegacyDriver, RuntimeBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store_pg::connect::Session;
use store_pg::lane::{GroupEnd, Lane, NotDone, TableChanges, Truth};

#[test]
fn a_group_writes_all_its_rows() {
    let Some(server) = TestServer::get("a group") else { return };
    on_each_driver(async |_| {
        let schema = "groups_write";
        let witness = server.fresh_tables(schema).await;
        let mut lane = server.lane(schema).await;
        assert_eq!(lane.run(1, &account_keys("a"), hold("a", 1, 500)).await, GroupEnd::Done);
        assert_eq!(lane.run(2, &account_keys("a"), hold("a", 2, 500)).await, GroupEnd::Done);
        assert_eq!(held_by(&witness, "a").await, 1000);
        let keys = vec![vec![], vec![b"1/7".to_vec(), b"1/8".to_vec(), b"none".to_vec()]];
        let end = lane.run(3, &keys, |locked| {
            assert_eq!(locked[1].keys, [b"1/7", b"1/8"]);
            vec![
                TableChanges::default(),
                TableChanges { removes: locked[1].keys.clone(), ..TableChanges::default() },
            ]
        });
        assert_eq!(end.await, GroupEnd::Done);
        assert_eq!(holds_of(&witness, 1).await, 498);
        assert_eq!(lane.believe(3).await, Ok(Truth::Done));
        assert_eq!(lane.believe(4).await, Ok(Truth::NotDone));
    });
}

#[test]
fn a_refused_group_leaves_the_lane_usable() {
    let Some(server) = TestServer::get("a refused group") else { return };
    on_each_driver(async |_| {
        let schema = "groups_refused";
        let witness = server.fresh_tables(schema).await;
        let mut lane = server.lane(schema).await;
        assert_eq!(lane.run(1, &account_keys("a"), hold("a", 1, 2)).await, GroupEnd::Done);
        // The holds of group 1 exist: all of the second group is undone, its marker too.
        let end = lane.run(2, &account_keys("a"), hold("a", 1, 2)).await;
        assert_eq!(end, GroupEnd::NotDone(NotDone::Conflict));
        assert_eq!(held_by(&witness, "a").await, 2);
        assert_eq!(lane.believe(2).await, Ok(Truth::NotDone));
        witness
            .client()
            .batch_execute("ALTER TABLE holds ADD CHECK (length(v) < 10) NOT VALID")
            .await
            .unwrap();
        let end = lane.run(2, &account_keys("a"), hold("a", 2, 2)).await;
        let GroupEnd::NotDone(NotDone::Refused(why)) = end else { panic!("{end:?}") };
        assert!(why.contains("SQLSTATE 23514"), "{why}");
        witness.client().batch_execute("UPDATE lanes SET epoch = 4").await.unwrap();
        let end = lane.run(2, &account_keys("a"), hold("a", 2, 2)).await;
        assert_eq!(end, GroupEnd::NotDone(NotDone::Fenced));
        assert_eq!(lane.believe(1).await, Ok(Truth::Done));
        assert_eq!(lane.believe(2).await, Ok(Truth::Fenced));
        witness.client().batch_execute("UPDATE lanes SET epoch = 3").await.unwrap();
        witness.client().batch_execute("BEGIN; SELECT 1 FROM accounts FOR UPDATE").await.unwrap();
        let session = lane.session().unwrap();
        session.client().batch_execute("SET lock_timeout = '100ms'").await.unwrap();
        let end = lane.run(2, &account_keys("a"), hold("a", 2, 2)).await;
        let GroupEnd::NotDone(NotDone::Refused(why)) = end else { panic!("{end:?}") };
        assert!(why.contains("SQLSTATE 55P03"), "{why}");
        assert!(lane.is_connected());
    });
}

#[test]
fn a_group_takes_two_round_trips() {
    const DELAY: Duration = Duration::from_millis(60);
    let Some(server) = TestServer::get("round trips") else { return };
    on_each_driver(async |driver| {
        let schema = "groups_trips";
        let witness = server.fresh_tables(schema).await;
        let proxy = Proxy::start(server.address(), DELAY);
        let session = connect(&server.url_at(&proxy.address)).await;
        let mut lane = lane_over(session, schema).await;
        for (group, jobs) in [(1, 1), (2, 100), (3, 500)] {
            let began = Instant::now();
            let end = lane.run(group, &account_keys("a"), hold("a", group, jobs)).await;
            let trips = began.elapsed().as_secs_f64() / (2.0 * DELAY.as_secs_f64());
            assert_eq!(end, GroupEnd::Done);
            println!("{driver}: {jobs} jobs in {trips:.2} round trips of {:?}", 2 * DELAY);
            assert!((2.0..2.9).contains(&trips), "{trips}");
        }
        assert_eq!(held_by(&witness, "a").await, 601);
    });
}

/// The wait for a synchronous standby is cancelled: the commit is visible, and nobody may believe it.
#[test]
fn a_warning_at_commit_is_no_answer() {
    let Some(server) = TestServer::get("a warning at COMMIT") else { return };
    on_each_driver(async |_| {
        let schema = "groups_warning";
        let witness = server.fresh_tables(schema).await;
        // The witness itself waits for no standby.
        witness.client().batch_execute("SET synchronous_commit = local").await.unwrap();
        let mut lane = server.lane(schema).await;
        let standby = StandbyWanted::set(&witness).await;
        let cancel = end_waiting(&server, "pg_cancel_backend");
        let (end, ()) = join(lane.run(1, &account_keys("a"), hold("a", 1, 2)), cancel).await;
        assert_eq!(end, GroupEnd::Unknown);
        let mut second = server.lane(schema).await;
        assert_eq!(holds_of(&witness, 1).await, 2, "it is visible, and not safe");
        let (truth, ()) = join(second.believe(1), end_waiting(&server, "pg_cancel_backend")).await;
        assert!(truth.is_err(), "{truth:?}");
        // The connection is ended while it waits: its error is no answer either.
        let mut lane = server.lane(schema).await;
        let ending = end_waiting(&server, "pg_terminate_backend");
        let (end, ()) = join(lane.run(2, &account_keys("a"), hold("a", 2, 2)), ending).await;
        assert_eq!(end, GroupEnd::Unknown);
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
    let Some(server) = TestServer::get("cancellations") else { return };
    on_each_driver(async |driver| {
        let schema = "groups_cancelled";
        let witness = server.fresh_tables(schema).await;
        let mut lane = server.lane(schema).await;
        let process = Arc::new(AtomicI32::new(process_of(&lane).await));
        let (url, shared) = (server.url("sslmode=disable"), Arc::clone(&process));
        let canceller = thread::spawn(move || cancel_often(&url, &shared));
        let (mut last, mut cancelled) = (0, 0);
        for group in 1..=GROUPS {
            match lane.run(group, &account_keys("a"), hold("a", group, 2)).await {
                GroupEnd::Done => last = group,
                GroupEnd::NotDone(NotDone::Refused(why)) => {
                    assert!(why.contains("57014"), "{why}");
                    cancelled += 1;
                }
                end => panic!("{end:?}"),
            }
            if !lane.is_connected() {
                // ROLLBACK was cancelled too.
                lane = server.lane(schema).await;
                process.store(process_of(&lane).await, Ordering::Relaxed);
            }
            let row = witness.client().query_one("SELECT seq FROM lanes", &[]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0), last, "group {group}");
        }
        process.store(0, Ordering::Relaxed);
        canceller.join().unwrap();
        println!("{driver}: {cancelled} of {GROUPS} groups were cancelled");
        assert!((1..GROUPS).contains(&cancelled), "{cancelled}");
    });
}

/// Cancels the statements of a process at times that have no relation to its groups, until the process is 0.
fn cancel_often(url: &str, process: &AtomicI32) {
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().unwrap();
    runtime.block_on(async {
        let session = connect(url).await;
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

/// A setting of the whole server, which a test must take back.
struct StandbyWanted;

impl StandbyWanted {
    /// Every commit waits for a standby that does not exist.
    async fn set(session: &Session) -> StandbyWanted {
        set_standbys(session, "nobody").await;
        StandbyWanted
    }

    async fn unset(self, session: &Session) {
        set_standbys(session, "").await;
    }
}

async fn set_standbys(session: &Session, names: &str) {
    let client = session.client();
    client.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"), &[]).await.unwrap();
    client.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
    // The processes of the server read the setting one after another.
    monoio::time::sleep(Duration::from_millis(300)).await;
}

/// Calls this function of PostgreSQL with the connection that waits for a standby.
async fn end_waiting(server: &TestServer, function: &str) {
    let session = server.session().await;
    let text = format!("SELECT count({function}(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    for _ in 0..100 {
        if session.client().query_one(&text, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            return;
        }
        monoio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody waits for a standby");
}
