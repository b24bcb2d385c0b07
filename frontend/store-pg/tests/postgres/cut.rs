//! If the connection is cut at any message of a group, the group is done, not done, or unknown; if it is unknown, the marker
//! tells which, and nothing ever hangs.

use crate::proxy::{Cut, Part, Proxy, Way};
use crate::setting::{
    Answers, PLACE, SchemaTest, TestJob, TestServer, add, connect, held_by, hold_job, holds, holds_of,
    lane_over, on_each_driver, on_schema,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use store_pg::connect::Session;
use store_pg::lane::{GroupEnd, GroupJob, Jobs, Lane, NotDone, Truth};
use store_rules::rows::Table;

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
    /// Whether each group has a job that the server refuses, so that the group is divided.
    has_refused: bool,
    group: i64,
    seq: i64,
    held: i64,
    /// The messages of the last group, in each direction.
    seen: [usize; 2],
    answers: Answers,
    answered: HashSet<String>,
    ends: Ends,
    /// Cuts that came, and cuts at messages that did not come.
    cuts: usize,
    missed: usize,
}

impl CutTest<'_> {
    /// Runs one group with this cut, and compares its end with the rows of the server.
    async fn run(&mut self, cut: Option<Cut>) {
        let began = Instant::now();
        // The connection and its statements come first, so the first message of the group has the number 0.
        self.proxy.arm(None);
        let session = connect(&self.server.url_at(&self.proxy.address)).await;
        let mut lane = lane_over(session, self.schema).await;
        for _ in 0..2 {
            self.seq = lane.run_group(self.seq, self.jobs()).await.next;
        }
        // The client does not wait for the last message that answers a preparation. On a busy machine a preparation takes longer than
        // this time.
        let timeout = "SET idle_in_transaction_session_timeout = '300ms'";
        lane.session().unwrap().client().batch_execute(timeout).await.unwrap();
        self.check(cut).await;
        let jobs = self.jobs();
        self.proxy.arm(cut);
        let report = lane.run_group(self.seq, jobs).await;
        self.seen = self.proxy.seen();
        match cut {
            Some(cut) if !self.proxy.was_cut() => {
                // On a busy machine the server may end an idle transaction before this message.
                let seen = if cut.way == Way::ToServer { self.seen[0] } else { self.seen[1] };
                assert!(seen <= cut.at, "{cut:?} of {seen}");
                self.missed += 1;
            }
            Some(_) => self.cuts += 1,
            None => assert!(!self.proxy.was_cut()),
        }
        self.seq = report.next;
        let (ends, jobs) = match report.end {
            GroupEnd::Done => (&mut self.ends.done, Vec::new()),
            GroupEnd::NotDone { why: NotDone::Away(_), jobs } => (&mut self.ends.not_done, jobs),
            GroupEnd::NotDone { why, .. } => panic!("{cut:?}: {why:?}"),
            GroupEnd::Unknown { group, rest } => {
                let truth = self.server.lane(self.schema).await.believe(self.seq).await.unwrap();
                let ends = match truth {
                    Truth::Done => &mut self.ends.unknown_done,
                    Truth::NotDone => &mut self.ends.unknown_not_done,
                    Truth::Fenced => panic!("nobody has fenced the lane"),
                };
                self.seq += i64::from(truth == Truth::Done);
                let mut jobs = group.settle(truth);
                jobs.extend(rest);
                (ends, jobs)
            }
        };
        *ends += 1;
        // What is not done is done now: every job exactly once.
        let report = self.server.lane(self.schema).await.run_group(self.seq, jobs).await;
        assert!(matches!(report.end, GroupEnd::Done), "{report:?}");
        self.seq = report.next;
        self.check(cut).await;
        assert!(began.elapsed() < TIME_MAX, "{cut:?}: {:?}", began.elapsed());
    }

    /// The jobs of the next group. They say nothing of what they read, and one depends on the other, so the group takes more
    /// than one round trip for its reads.
    fn jobs(&mut self) -> Jobs {
        self.group += 1;
        self.held += JOBS as i64;
        let job = |at| TestJob { wants: Vec::new(), ..hold_job("a", self.group, at, &self.answers) };
        let mut jobs: Jobs = (0..JOBS).map(|at| Box::new(job(at)) as Box<dyn GroupJob>).collect();
        if self.has_refused {
            let key = format!("refused {}", self.group);
            let refused = TestJob::boxed(key.clone(), &self.answers, move |rows| {
                add(rows, Table::Accounts, "a", 1000)?;
                rows.put(Table::Holds, key.as_bytes(), b"")
            });
            jobs.insert(1, refused);
        }
        jobs
    }

    /// Whether all jobs so far were answered, and their effects are there once.
    async fn check(&mut self, cut: Option<Cut>) {
        for (name, failure) in self.answers.take() {
            assert_eq!(failure.is_some(), name.starts_with("refused"), "{cut:?}: {name}: {failure:?}");
            assert!(self.answered.insert(name.clone()), "{cut:?}: {name} was answered twice");
        }
        let refused = if self.has_refused { self.group } else { 0 };
        assert_eq!(self.answered.len() as i64, self.held + refused, "{cut:?}");
        assert_eq!(holds_of(&self.witness, self.group).await, JOBS as i64, "{cut:?}");
        assert_eq!(held_by(&self.witness, "a").await, self.held, "{cut:?}");
    }

    async fn new<'a>(server: &'a TestServer, schema: &'static str, has_refused: bool) -> CutTest<'a> {
        let witness = server.fresh_tables(schema).await;
        if has_refused {
            witness.client().batch_execute("ALTER TABLE holds ADD CHECK (length(v) > 0)").await.unwrap();
        }
        CutTest {
            server,
            schema,
            witness,
            proxy: Proxy::start(server.address(), Duration::ZERO),
            has_refused,
            group: 0,
            seq: 1,
            held: 0,
            seen: [0, 0],
            answers: Answers::default(),
            answered: HashSet::new(),
            ends: Ends::default(),
            cuts: 0,
            missed: 0,
        }
    }
}

#[test]
fn a_cut_at_any_message_never_hides_the_truth() {
    let Some(server) = TestServer::get("a cut at any message") else { return };
    on_each_driver(async |driver| {
        let mut test = CutTest::new(&server, "cut_anywhere", false).await;
        test.run(None).await;
        let seen = test.seen;
        for is_half in [false, true] {
            for (way, messages) in [(Way::ToServer, seen[0]), (Way::ToClient, seen[1])] {
                for at in 0..messages {
                    for part in [Part::None, Part::Half, Part::Whole] {
                        // The last message after which nothing follows is no cut.
                        if way == Way::ToClient && at + 1 == messages && part == Part::Whole {
                            continue;
                        }
                        test.run(Some(Cut { way, at, part, is_half })).await;
                    }
                }
            }
        }
        test.run(None).await;
        println!("{driver}: {seen:?} messages, {} cuts: {:?}", test.cuts, test.ends);
        assert!(test.missed * 10 <= test.cuts, "{} of {} cuts are missing", test.missed, test.cuts);
        let Ends { done, not_done, unknown_done, unknown_not_done } = test.ends;
        assert!(done >= 2 && not_done > 0 && unknown_done > 0 && unknown_not_done > 0);
    });
}

/// A group that is divided has several transactions. Those before the cut are answered, and those after it are returned.
#[test]
fn a_cut_in_a_divided_group_loses_no_job() {
    let Some(server) = TestServer::get("a cut in a divided group") else { return };
    on_each_driver(async |driver| {
        // The messages are the same for each driver, and there are many.
        if driver != "epoll" {
            return;
        }
        let mut test = CutTest::new(&server, "cut_divided", true).await;
        test.run(None).await;
        let seen = test.seen;
        for (way, messages) in [(Way::ToServer, seen[0]), (Way::ToClient, seen[1])] {
            for at in 0..messages {
                test.run(Some(Cut { way, at, part: Part::None, is_half: false })).await;
            }
        }
        println!("{driver}: {seen:?} messages: {:?}", test.ends);
        assert!(test.missed * 10 <= test.cuts, "{} of {} cuts are missing", test.missed, test.cuts);
        let Ends { not_done, unknown_done, unknown_not_done, .. } = test.ends;
        assert!(not_done > 0 && unknown_done > 0 && unknown_not_done > 0);
    });
}

#[test]
fn a_silent_server_ends_the_patience() {
    on_schema("cut_silence", async |SchemaTest { server, schema, witness, .. }| {
        let session = server.session().await;
        session.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
        let mut lane = Lane::open(session, PLACE, Duration::from_millis(300)).await.unwrap();
        witness.client().batch_execute("BEGIN; UPDATE lanes SET seq = seq").await.unwrap();
        let report = lane.run_group(1, holds("a", 1, JOBS, &Answers::default())).await;
        assert!(matches!(report.end, GroupEnd::NotDone { why: NotDone::Away(_), .. }), "{report:?}");
        assert!(!lane.is_connected());
        witness.client().batch_execute("COMMIT").await.unwrap();
        // The closed socket has ended the transaction, or will: its marker is never committed.
        assert_eq!(server.lane(schema).await.believe(1).await, Ok(Truth::NotDone));
        assert_eq!(holds_of(&witness, 1).await, 0);
    });
}
