//! Jobs over fetched rows: reads that depend on each other, the order of jobs, failed jobs, and two lanes in each other's way.

use crate::setting::{
    Answers, LaneTest, SchemaTest, TestJob, Work, add, hold_job, lane_over, number, on_schema, on_tables, run,
};
use futures_util::future::join;
use std::ops::Bound;
use std::time::Duration;
use store::StoreError;
use store_pg::connect::Session;
use store_pg::lane::{GroupJob, Jobs, Lane, Truth};
use store_rules::backend::{Lock, Want};
use store_rules::rows::{KeyRange, Rows, RowsMut, Table, Walk};

/// Writes rows of a table as text.
async fn fill(session: &Session, table: Table, rows: &[(String, String)]) {
    let text = format!("INSERT INTO {} VALUES ($1, $2)", table.name());
    for (key, value) in rows {
        session.client().execute(&text, &[&key.as_bytes(), &value.as_bytes()]).await.unwrap();
    }
}

/// The rows of a table as text.
async fn rows_of(session: &Session, table: Table) -> Vec<(String, String)> {
    let text =
        format!("SELECT convert_from(k, 'UTF8'), convert_from(v, 'UTF8') FROM {} ORDER BY k", table.name());
    let rows = session.client().query(&text, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The value of a row as text.
fn text(rows: &dyn Rows, table: Table, key: &str) -> Result<Option<String>, StoreError> {
    let mut found = None;
    rows.get(table, key.as_bytes(), &mut |value| found = Some(String::from_utf8(value.to_vec()).unwrap()))?;
    Ok(found)
}

/// Each job follows a chain of keys that it cannot know before.
#[test]
fn reads_may_depend_on_each_other() {
    const DEPTH: usize = 5;
    on_tables("overlay_deep", async |LaneTest { witness, mut lane, answers, .. }| {
        for chain in 0..4 {
            let rows = (0..DEPTH).map(|at| (format!("{chain}/{at}"), format!("{chain}/{}", at + 1)));
            fill(&witness, Table::Ledger, &rows.collect::<Vec<_>>()).await;
        }
        let jobs = |group: u32| -> Jobs {
            let job = |chain: u32| {
                TestJob::boxed(format!("{group}/{chain}"), &answers, move |rows| {
                    let mut key = format!("{chain}/0");
                    while let Some(next) = text(rows, Table::Ledger, &key)? {
                        key = next;
                    }
                    add(rows, Table::Accounts, &format!("end of {key}"), 1)
                })
            };
            (0..4).map(job).collect()
        };
        run(&mut lane, 1, jobs(1)).await;
        let before = lane.round_trips();
        let report = run(&mut lane, 2, jobs(2)).await;
        assert_eq!((report.transactions, answers.take_done().len()), (1, 8));
        // BEGIN, the rows of each level with the last one that is absent, the account, COMMIT. The first update is prepared.
        assert_eq!(lane.round_trips() - before, 1 + (DEPTH as u64 + 1) + 1 + 1 + 1);
        let ends: Vec<_> = (0..4).map(|chain| (format!("end of {chain}/{DEPTH}"), "2".to_owned())).collect();
        assert_eq!(rows_of(&witness, Table::Accounts).await, ends);
    });
}

/// Each job reads what the one before it has written, although it names nothing.
#[test]
fn jobs_keep_their_order() {
    const JOBS: u32 = 40;
    on_tables("overlay_order", async |LaneTest { witness, mut lane, answers, .. }| {
        // A job appends its number to a text, and reads another row after it, so that it is undone at first.
        let jobs = (0..JOBS).map(|at| {
            TestJob::boxed(at.to_string(), &answers, move |rows| {
                let before = text(rows, Table::Accounts, "log")?.unwrap_or_default();
                rows.put(Table::Accounts, b"log", format!("{before}{at} ").as_bytes())?;
                // From time to time the row depends on what other jobs did.
                let key = if at % 8 == 0 { before.len().to_string() } else { at.to_string() };
                add(rows, Table::Holds, &key, 1)
            })
        });
        let report = run(&mut lane, 1, jobs.collect()).await;
        assert_eq!(report.transactions, 1);
        let names: Vec<String> = (0..JOBS).map(|at| at.to_string()).collect();
        assert_eq!(answers.take_done(), names);
        let log = names.iter().map(|name| format!("{name} ")).collect::<String>();
        assert_eq!(rows_of(&witness, Table::Accounts).await, pairs(&[("log", &log)]));
    });
}

/// The key of each job depends on the job before it, so each takes a round trip of its own. The group is divided, and
/// nothing is lost.
#[test]
fn a_group_with_too_many_rounds_is_divided() {
    const JOBS: u32 = 45;
    on_tables("overlay_rounds", async |LaneTest { witness, mut lane, answers, .. }| {
        let mut jobs: Jobs = Vec::new();
        for at in 0..JOBS {
            jobs.push(TestJob::boxed(at.to_string(), &answers, move |rows| {
                let last = text(rows, Table::Accounts, "last")?.unwrap_or_default();
                add(rows, Table::Holds, &format!("after {last}"), 1)?;
                rows.put(Table::Accounts, b"last", at.to_string().as_bytes())
            }));
        }
        // This one never has enough: it alone fails.
        let mut calls = 0;
        let endless = TestJob::boxed("endless", &answers, move |rows| {
            calls += 1;
            rows.put(Table::Holds, b"endless", b"1")?;
            (0..=calls).try_for_each(|row| {
                rows.get(Table::Ledger, format!("{row}").as_bytes(), &mut |_| {}).map(|_| ())
            })
        });
        jobs.insert(3, endless);
        let report = run(&mut lane, 1, jobs).await;
        assert!(report.transactions > 3, "{report:?}");
        let all = answers.take();
        let (failed, done): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, failure)| failure.is_some());
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].0, "endless");
        let names: Vec<String> = (0..JOBS).map(|at| at.to_string()).collect();
        assert_eq!(done.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), names);
        let holds = rows_of(&witness, Table::Holds).await;
        assert_eq!(holds.len(), JOBS as usize);
        assert!(holds.iter().all(|(key, value)| key.starts_with("after") && value == "1"));
    });
}

/// What a job has written before it failed is not there, for jobs after it too.
#[test]
fn a_failed_job_leaves_nothing() {
    on_tables("overlay_failed", async |LaneTest { witness, mut lane, answers, .. }| {
        fill(&witness, Table::Holds, &pairs(&[("old", "1")])).await;
        let works: Vec<(&str, Work)> = vec![
            ("first", Box::new(|rows| add(rows, Table::Accounts, "a", 1))),
            (
                "fails",
                Box::new(|rows| {
                    add(rows, Table::Accounts, "a", 10)?;
                    rows.put(Table::Holds, b"new", b"1")?;
                    rows.remove(Table::Holds, b"old")?;
                    // Reads and writes in turn: it is undone in every state.
                    add(rows, Table::Ledger, "l", 1)?;
                    Err(StoreError::Failed("a damaged row".into()))
                }),
            ),
            (
                "last",
                Box::new(|rows| {
                    assert!(rows.get(Table::Holds, b"old", &mut |_| {})?, "a failed job has removed it");
                    add(rows, Table::Accounts, "a", 100)
                }),
            ),
        ];
        let jobs = works.into_iter().map(|(name, work)| TestJob::boxed(name, &answers, work)).collect();
        run(&mut lane, 1, jobs).await;
        let failures: Vec<bool> = answers.take().into_iter().map(|(_, failure)| failure.is_some()).collect();
        assert_eq!(failures, [false, true, false]);
        assert_eq!(rows_of(&witness, Table::Accounts).await, pairs(&[("a", "101")]));
        assert_eq!(rows_of(&witness, Table::Holds).await, pairs(&[("old", "1")]));
        assert!(rows_of(&witness, Table::Ledger).await.is_empty());
    });
}

/// A group that changes nothing leaves no marker, and its locks end.
#[test]
fn a_group_without_changes_ends_its_transaction() {
    on_tables("overlay_unchanged", async |LaneTest { witness, mut lane, answers, .. }| {
        fill(&witness, Table::Accounts, &pairs(&[("a", "1")])).await;
        let job = TestJob::boxed("reads", &answers, |rows| number(rows, Table::Accounts, "a").map(|_| ()));
        let report = run(&mut lane, 1, vec![job]).await;
        assert_eq!((report.next, answers.take_done().len()), (1, 1));
        let lock = "SET lock_timeout = '100ms'; UPDATE accounts SET v = v; UPDATE lanes SET seq = seq";
        witness.client().batch_execute(lock).await.unwrap();
        assert_eq!(lane.believe(1).await, Ok(Truth::NotDone));
        let job = TestJob::boxed("writes", &answers, |rows| add(rows, Table::Accounts, "a", 1));
        assert_eq!(run(&mut lane, 1, vec![job]).await.next, 2);
        assert_eq!(lane.believe(1).await, Ok(Truth::Done));
    });
}

/// Walks over rows of the server and of the group, in both directions.
#[test]
fn walks_see_the_writes_of_the_group() {
    on_tables("overlay_walks", async |LaneTest { witness, mut lane, answers, .. }| {
        let rows: Vec<_> = (0..50).map(|at| (format!("l{at:02}"), at.to_string())).collect();
        fill(&witness, Table::Ledger, &rows).await;
        let keys = |rows: &dyn Rows, backwards, from: Bound<&[u8]>, to: Bound<&[u8]>| {
            let mut keys = Vec::new();
            rows.walk(Table::Ledger, KeyRange { from, to, backwards, most: 3 }, &mut |key, _| {
                keys.push(String::from_utf8(key.to_vec()).unwrap());
                Ok(Walk::On)
            })?;
            Ok::<_, StoreError>(keys)
        };
        let change = TestJob::boxed("change", &answers, |rows| {
            for key in ["l10", "l11", "l12", "l49"] {
                rows.remove(Table::Ledger, key.as_bytes())?;
            }
            rows.put(Table::Ledger, b"l13a", b"new")
        });
        let walk = TestJob::boxed("walk", &answers, move |rows| {
            let (from, to) = (Bound::Included(b"l10".as_slice()), Bound::Excluded(b"l14".as_slice()));
            assert_eq!(keys(rows, false, from, Bound::Unbounded)?, ["l13", "l13a", "l14"]);
            assert_eq!(keys(rows, false, from, to)?, ["l13", "l13a"]);
            assert_eq!(keys(rows, true, Bound::Unbounded, Bound::Unbounded)?, ["l48", "l47", "l46"]);
            assert_eq!(keys(rows, true, Bound::Excluded(b"l47"), to)?, [""; 0]);
            assert_eq!(rows.count(Table::Ledger)?, 47);
            add(rows, Table::Accounts, "walked", 1)
        });
        let mut hinted = hold_job("a", 1, 1, &answers);
        hinted.wants = [false, true]
            .map(|backwards| {
                let (from, to) = (b"l10".to_vec(), b"l30".to_vec());
                Want::Range { table: Table::Ledger, from, to, backwards, most: 4 }
            })
            .into();
        run(&mut lane, 1, vec![change, walk, Box::new(hinted)]).await;
        assert_eq!(answers.take_done().len(), 3);
        assert_eq!(rows_of(&witness, Table::Ledger).await.len(), 47);
    });
}

/// Two lanes write the same keys in different orders: every job has its effect once.
#[test]
fn two_lanes_in_conflict_both_get_through() {
    const GROUPS: i64 = 60;
    const JOBS: i64 = 12;
    on_schema("overlay_conflict", async |SchemaTest { driver, server, schema, witness, .. }| {
        let (mut one, mut other) = (server.lane(schema).await, server.other_lane(schema).await);
        let answers = Answers::default();
        let run_one = async |lane: &mut Lane, seq: i64, group: i64, is_reversed: bool| {
            // A key that is new for both: one of them gets 23505. Then keys in orders that lead to deadlocks, since a job
            // names nothing of what it reads.
            let job = |at: i64| {
                let at = if is_reversed { JOBS - 1 - at } else { at };
                TestJob::boxed(format!("{is_reversed} {group}/{at}"), &answers, move |rows| {
                    add(rows, Table::Clients, &format!("new {group}"), 1)?;
                    add(rows, Table::Accounts, &format!("account {at}"), 1)?;
                    let second = number(rows, Table::Accounts, &format!("account {at}"))? as i64 % JOBS;
                    add(rows, Table::Accounts, &format!("second {second}"), 1)
                })
            };
            run(lane, seq, (0..JOBS).map(job).collect()).await
        };
        let (mut first, mut second, mut transactions) = (1, 1, 0);
        for group in 0..GROUPS {
            let both = join(run_one(&mut one, first, group, false), run_one(&mut other, second, group, true));
            let (one, other) = both.await;
            (first, second) = (one.next, other.next);
            transactions += one.transactions + other.transactions;
        }
        let done = answers.take_done().len() as i64;
        assert_eq!(done, 2 * GROUPS * JOBS);
        let sum = async |table, prefix: &'static str| -> i64 {
            let rows = rows_of(&witness, table).await.into_iter();
            rows.filter(|(key, _)| key.starts_with(prefix))
                .map(|(_, value)| value.parse::<i64>().unwrap())
                .sum()
        };
        assert_eq!(sum(Table::Clients, "new").await, done);
        assert_eq!(sum(Table::Accounts, "account").await, done);
        assert_eq!(sum(Table::Accounts, "second").await, done);
        println!("{driver}: {transactions} transactions for {} groups", 2 * GROUPS);
        assert!(i64::from(transactions) > 2 * GROUPS, "no conflict came about");
    });
}

/// The number of rows, which no row guards. Each job writes a row with this number as its key.
#[test]
fn an_advisory_lock_guards_a_count() {
    const GROUPS: i64 = 30;
    on_schema("overlay_locks", async |SchemaTest { server, schema, witness, .. }| {
        let (mut one, mut other) = (server.lane(schema).await, server.other_lane(schema).await);
        let answers = Answers::default();
        let job = || {
            let work = |rows: &mut dyn RowsMut| {
                let number = rows.count(Table::Clients)?;
                rows.put(Table::Clients, format!("{number:03}").as_bytes(), b"1")
            };
            let job = TestJob { lock: Some(Lock::Clients), ..hold_job("none", 0, 0, &answers) };
            Box::new(TestJob { wants: Vec::new(), work: Box::new(work), ..job }) as Box<dyn GroupJob>
        };
        for group in 1..=GROUPS {
            let both = join(run(&mut one, group, vec![job()]), run(&mut other, group, vec![job()]));
            let (one, other) = both.await;
            assert_eq!((one.next, other.next), (group + 1, group + 1));
        }
        assert_eq!(answers.take_done().len() as i64, 2 * GROUPS);
        assert_eq!(rows_of(&witness, Table::Clients).await.len() as i64, 2 * GROUPS);
    });
}

/// A job that was read under a lock does not lose the write of another lane.
#[test]
fn a_read_row_is_locked() {
    on_schema("overlay_locked", async |SchemaTest { server, schema, witness, .. }| {
        fill(&witness, Table::Accounts, &pairs(&[("a", "0")])).await;
        let session = server.session().await;
        let mut lane = lane_over(session, schema).await;
        let answers = Answers::default();
        let writer = server.session().await;
        writer.client().batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
        for group in 1..=20 {
            let job = TestJob::boxed("adds", &answers, |rows| {
                // A walk reads the row without a lock first.
                let walk = KeyRange { most: 1, ..KeyRange::ALL };
                rows.walk(Table::Accounts, walk, &mut |_, _| Ok(Walk::On))?;
                rows.peek(Table::Accounts, b"a", &mut |_| {})?;
                add(rows, Table::Accounts, "a", 1)
            });
            let text = "UPDATE accounts SET v = convert_to((convert_from(v, 'UTF8')::int + 1)::text, 'UTF8')";
            let foreign = async {
                for _ in 0..5 {
                    writer.client().batch_execute(text).await.unwrap();
                    monoio::time::sleep(Duration::from_micros(200)).await;
                }
            };
            join(run(&mut lane, group, vec![job]), foreign).await;
        }
        assert_eq!(rows_of(&witness, Table::Accounts).await, pairs(&[("a", "120")]));
    });
}

/// The account's row guards rows that are only walked over. An earlier job has read them before the row was locked.
#[test]
fn a_lock_guards_what_is_read_after_it() {
    const GROUPS: usize = 100;
    on_schema("overlay_guarded", async |SchemaTest { server, schema, witness, .. }| {
        // A row that does not exist cannot be locked; then only the conflict of two INSERTs guards anything.
        fill(&witness, Table::Accounts, &pairs(&[("a", "0")])).await;
        let (mut one, mut other) = (server.lane(schema).await, server.other_lane(schema).await);
        let answers = Answers::default();
        let groups = async |lane: &mut Lane| {
            let mut seq = 1;
            for _ in 0..GROUPS {
                let mut walk = hold_job("none", 0, 0, &answers);
                let (from, to) = (b"l".to_vec(), b"m".to_vec());
                walk.wants =
                    vec![Want::Range { table: Table::Ledger, from, to, backwards: false, most: 1000 }];
                walk.work = Box::new(|_| Ok(()));
                let append = TestJob::boxed("append", &answers, |rows| {
                    let number = number(rows, Table::Accounts, "a")?;
                    let mut walked = 0;
                    let (from, to) = (Bound::Included(b"l".as_slice()), Bound::Included(b"m".as_slice()));
                    let range = KeyRange { from, to, backwards: false, most: usize::MAX };
                    rows.walk(Table::Ledger, range, &mut |_, _| {
                        walked += 1;
                        Ok(Walk::On)
                    })?;
                    assert_eq!(walked, number, "the account's row does not guard its ledger");
                    rows.put(Table::Ledger, format!("l{number:05}").as_bytes(), b"1")?;
                    add(rows, Table::Accounts, "a", 1)
                });
                seq = run(lane, seq, vec![Box::new(walk), append]).await.next;
            }
        };
        join(groups(&mut one), groups(&mut other)).await;
        assert_eq!(answers.take_done().len(), 4 * GROUPS);
        assert_eq!(rows_of(&witness, Table::Ledger).await.len(), 2 * GROUPS);
    });
}
