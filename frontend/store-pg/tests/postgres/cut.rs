//! If the connection is cut at any message of a group, the group is done, not done, or unknown; if it is unknown, the marker
//! tells which, and nothing ever hangs.

use crate::proxy::{Cut, Part, Proxy, Way};
use crate::setting::{TestServer, account_keys, connect, held_by, hold, holds_of, lane_over, on_each_driver};
use std::time::{Duration, Instant};
use store_pg::connect::Session;
use store_pg::lane::{GroupEnd, NotDone, Truth};

/// The jobs of a group.
const JOBS: usize = 3;
/// The longest time of a group that was cut, until the truth is known.
const TIME_MAX: Duration = Duration::from_secs(8);

/// How often each end came.
#[derive(Debug, Default)]
struct Ends {
    done: usize,
    not_done: usize,
    unknown_done: usize,
    unknown_not_done: usize,
}

struct CutTest<'a> {
    server: &'a TestServer,
    schema: &'static str,
    /// Sees the truth.
    witness: Session,
    proxy: Proxy,
    group: i64,
    held: i64,
    ends: Ends,
}

impl CutTest<'_> {
    /// Runs one group with this cut, and compares its end with the rows of the server.
    async fn run(&mut self, cut: Option<Cut>) {
        let began = Instant::now();
        self.group += 1;
        // The connection and its statements come first, so the first message of the group has the number 0.
        self.proxy.arm(None);
        let session = connect(&self.server.url_at(&self.proxy.address)).await;
        session.client().batch_execute("SET idle_in_transaction_session_timeout = '300ms'").await.unwrap();
        let mut lane = lane_over(session, self.schema).await;
        // The client does not wait for the last message that answers a preparation.
        lane.session().unwrap().client().batch_execute("").await.unwrap();
        self.proxy.arm(cut);
        let end = lane.run(self.group, &account_keys("a"), hold("a", self.group, JOBS)).await;
        assert_eq!(self.proxy.was_cut(), cut.is_some(), "{cut:?}");
        let is_done = match &end {
            GroupEnd::Done => true,
            GroupEnd::NotDone(NotDone::Away(_)) => false,
            GroupEnd::NotDone(other) => panic!("{cut:?}: {other:?}"),
            GroupEnd::Unknown => self.believe().await,
        };
        *match (&end, is_done) {
            (GroupEnd::Done, _) => &mut self.ends.done,
            (GroupEnd::Unknown, true) => &mut self.ends.unknown_done,
            (GroupEnd::Unknown, false) => &mut self.ends.unknown_not_done,
            _ => &mut self.ends.not_done,
        } += 1;
        if is_done {
            self.held += JOBS as i64;
        }
        let rows = if is_done { JOBS as i64 } else { 0 };
        assert_eq!(holds_of(&self.witness, self.group).await, rows, "{cut:?}: {end:?}");
        assert_eq!(held_by(&self.witness, "a").await, self.held, "{cut:?}: {end:?}");
        assert!(began.elapsed() < TIME_MAX, "{cut:?}: {:?}", began.elapsed());
    }

    /// Asks on a new connection until the truth is known.
    async fn believe(&self) -> bool {
        match self.server.lane(self.schema).await.believe(self.group).await.unwrap() {
            Truth::Done => true,
            Truth::NotDone => false,
            Truth::Fenced => panic!("nobody has fenced the lane"),
        }
    }
}

#[test]
fn a_cut_at_any_message_never_hides_the_truth() {
    let Some(server) = TestServer::get("a cut at any message") else { return };
    on_each_driver(async |driver| {
        let schema = "cut_anywhere";
        let mut test = CutTest {
            witness: server.fresh_tables(schema).await,
            server: &server,
            schema,
            proxy: Proxy::start(server.address(), Duration::ZERO),
            group: 0,
            held: 0,
            ends: Ends::default(),
        };
        // The first group inserts the account, all others update it.
        test.run(None).await;
        test.run(None).await;
        let seen = test.proxy.seen();
        let mut cuts = 0;
        for is_half in [false, true] {
            for (way, messages) in [(Way::ToServer, seen[0]), (Way::ToClient, seen[1])] {
                for at in 0..messages {
                    for part in [Part::None, Part::Half, Part::Whole] {
                        // The last message after which nothing follows is no cut.
                        if way == Way::ToClient && at + 1 == messages && part == Part::Whole {
                            continue;
                        }
                        test.run(Some(Cut { way, at, part, is_half })).await;
                        cuts += 1;
                    }
                }
            }
        }
        test.run(None).await;
        println!("{driver}: {seen:?} messages, {cuts} cuts: {:?}", test.ends);
        let Ends { done, not_done, unknown_done, unknown_not_done } = test.ends;
        assert!(done >= 3 && not_done > 0 && unknown_done > 0 && unknown_not_done > 0);
    });
}

#[test]
fn a_silent_server_ends_the_patience() {
    use crate::setting::{PLACE, TABLES};
    use store_pg::lane::Lane;
    let Some(server) = TestServer::get("a silent server") else { return };
    on_each_driver(async |_| {
        let schema = "cut_silence";
        let witness = server.fresh_tables(schema).await;
        let session = server.session().await;
        session.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
        let mut lane = Lane::open(session, PLACE, &TABLES, Duration::from_millis(300)).await.unwrap();
        witness.client().batch_execute("BEGIN; UPDATE lanes SET seq = seq").await.unwrap();
        let end = lane.run(1, &account_keys("a"), hold("a", 1, JOBS)).await;
        assert!(matches!(end, GroupEnd::NotDone(NotDone::Away(_))), "{end:?}");
        assert!(!lane.is_connected());
        witness.client().batch_execute("COMMIT").await.unwrap();
        // The closed socket has ended the transaction, or will: its marker is never committed.
        assert_eq!(server.lane(schema).await.believe(1).await, Ok(Truth::NotDone));
        assert_eq!(holds_of(&witness, 1).await, 0);
    });
}
