//! `cargo xtask cluster --self-check`: clients write rows while faults happen, and each acknowledged row must still be there.
//!
//! Campaigns rely on the cluster to lose no acknowledged write. This check shows that it does not, and how long writes pause. With
//! `--no-sync` the same check finds lost rows, so it can fail.
//!
//! A row is acknowledged if psql ends without an error and without a warning. A warning at COMMIT means that the wait for a standby
//! was cancelled: such rows are counted apart, and may be lost.

use super::network::Member;
use super::{Cluster, START_LIMIT, STEP_LIMIT};
use crate::failure::{Failure, thread_result};
use crate::interop::process::{self, wait_until};
use crate::interop::report::{self, Tally, line};
use crate::isolation::Namespace;
use clap::ValueEnum;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A client gives up on one row after this time in seconds: a server that is paused or cut off never answers.
const ROW_LIMIT_S: &str = "4";
/// libpq tries the next host after this time in seconds. It takes 1 as 2.
const CONNECT_LIMIT_S: &str = "2";
/// The start of the warning at COMMIT.
const CANCELLED_WAIT: &str = "WARNING:  canceling wait for synchronous replication";
/// The clients that write at the same time, each in a namespace of its own.
const WRITERS: usize = 2;
/// Rows before each fault, so that the pause has a start.
const WARM_UP: Duration = Duration::from_secs(3);
/// A pause of a process lasts at least this long, and longer than the lock of a primary.
const PAUSE_MIN: Duration = Duration::from_secs(30);
/// How long a fault lasts that no failover ends.
const HOLD: Duration = Duration::from_secs(15);
/// The time for a failover after the end of the lock, and for the first row after it.
const FAILOVER_LIMIT: Duration = Duration::from_secs(60);

/// A fault of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoundFault {
    /// SIGKILL for Patroni and all of PostgreSQL.
    KillPrimary,
    /// The primary reaches no server and no etcd; the clients reach it.
    PartitionPrimary,
    /// The link of the primary is down.
    IsolatePrimary,
    /// SIGSTOP for Patroni and all of PostgreSQL, then SIGCONT.
    PausePrimary,
    /// SIGKILL for the postmaster alone: Patroni starts it again.
    KillPostmaster,
    /// SIGKILL for Patroni alone: PostgreSQL goes on.
    KillPatroni,
    /// SIGSTOP for Patroni alone, then SIGCONT: PostgreSQL goes on.
    PausePatroni,
    /// SIGTERM for Patroni: a failover in order.
    StopPrimary,
    /// Waits at COMMIT are cancelled, then SIGKILL for the primary.
    CancelCommits,
    /// SIGKILL for the synchronous standby.
    KillStandby,
    /// SIGSTOP for the synchronous standby, then SIGCONT.
    PauseStandby,
    /// The link of the synchronous standby is down.
    IsolateStandby,
    /// SIGKILL for the first process of etcd.
    KillEtcd,
    /// SIGSTOP for the first process of etcd, then SIGCONT.
    PauseEtcd,
}

impl RoundFault {
    /// Another server becomes primary.
    pub fn fails_over(self) -> bool {
        !matches!(
            self,
            RoundFault::KillPostmaster
                | RoundFault::KillStandby
                | RoundFault::PauseStandby
                | RoundFault::IsolateStandby
                | RoundFault::KillEtcd
                | RoundFault::PauseEtcd
        )
    }

    /// The name of the fault on the command line and in tables.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Does the fault, and ends it after its time. After a failover, within this limit, it waits for writes at the new primary.
    /// Returns the member that it was done to.
    pub fn happen(
        self,
        cluster: &mut Cluster,
        failover_limit: Duration,
        await_writes: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Member, Failure> {
        let primary = cluster.primary()?.ok_or_else(|| Failure("there is no primary".into()))?;
        let (target, start) = (self.target(cluster, primary)?, Instant::now());
        self.begin(cluster, target)?;
        if self.fails_over() {
            wait_until(&format!("{}: another primary", self.name()), failover_limit, || {
                Ok(cluster.primary()?.is_some_and(|now| now != primary))
            })?;
            await_writes()?;
        }
        process::sleep(self.duration(cluster.setup.ttl).saturating_sub(start.elapsed()))?;
        self.end(cluster, target)?;
        Ok(target)
    }

    /// The member that the fault is done to.
    pub fn target(self, cluster: &Cluster, primary: Member) -> Result<Member, Failure> {
        match self {
            RoundFault::KillEtcd | RoundFault::PauseEtcd => Ok(Member::Etcd(1)),
            RoundFault::KillStandby | RoundFault::PauseStandby | RoundFault::IsolateStandby => {
                let standby = cluster.sync_standby()?;
                standby.ok_or_else(|| Failure("there is no synchronous standby".into()))
            }
            _ => Ok(primary),
        }
    }

    /// Begins the fault at the target.
    pub fn begin(self, cluster: &mut Cluster, target: Member) -> Result<(), Failure> {
        match self {
            RoundFault::KillPrimary | RoundFault::KillStandby | RoundFault::KillEtcd => cluster.kill(target),
            RoundFault::PartitionPrimary => {
                let servers = cluster.setup.servers().into_iter().filter(|server| *server != target);
                let others: Vec<Member> = servers.chain(cluster.setup.etcd_members()).collect();
                cluster.network.cut(&[target], &others)
            }
            RoundFault::IsolatePrimary | RoundFault::IsolateStandby => cluster.network.isolate(target),
            RoundFault::PausePrimary | RoundFault::PauseStandby | RoundFault::PauseEtcd => {
                cluster.network.pause_all(target)
            }
            RoundFault::KillPostmaster => cluster.kill_postmaster(target),
            RoundFault::KillPatroni => cluster.kill_patroni(target),
            RoundFault::PausePatroni => cluster.pause_patroni(target),
            RoundFault::StopPrimary => cluster.stop(target),
            RoundFault::CancelCommits => cluster.cancel_commits_and_kill(target).map(|_| ()),
        }
    }

    /// Ends the fault. The members may need some time after it.
    pub fn end(self, cluster: &mut Cluster, target: Member) -> Result<(), Failure> {
        match self {
            RoundFault::KillPrimary
            | RoundFault::KillStandby
            | RoundFault::KillEtcd
            | RoundFault::KillPatroni
            | RoundFault::StopPrimary => cluster.restart(target),
            RoundFault::CancelCommits => {
                cluster.network.heal()?;
                cluster.restart(target)
            }
            RoundFault::PartitionPrimary | RoundFault::IsolatePrimary | RoundFault::IsolateStandby => {
                cluster.network.heal()
            }
            RoundFault::PausePrimary
            | RoundFault::PauseStandby
            | RoundFault::PauseEtcd
            | RoundFault::PausePatroni => cluster.network.resume_all(target),
            RoundFault::KillPostmaster => Ok(()),
        }
    }

    /// How long the fault lasts at least.
    pub fn duration(self, ttl_s: u32) -> Duration {
        match self {
            RoundFault::PausePrimary
            | RoundFault::PauseStandby
            | RoundFault::PauseEtcd
            | RoundFault::PausePatroni => PAUSE_MIN.max(Duration::from_secs(u64::from(ttl_s) + 10)),
            _ if self.fails_over() => Duration::ZERO,
            _ => HOLD,
        }
    }
}

/// A row: the number of its writer, and its own.
type RowId = (usize, u64);

/// What the writers have been told.
#[derive(Default)]
struct WriteLog {
    /// Each acknowledged row, with the instant of its acknowledgement, in the order of these.
    acknowledged: Vec<(Instant, RowId)>,
    /// Rows with a warning at COMMIT.
    warned: BTreeSet<RowId>,
    /// The last error of a client, for a failure of the check.
    last_error: String,
}

/// A client that writes one row after another.
struct RowWriter<'a> {
    number: usize,
    space: Namespace,
    psql: PathBuf,
    /// The URLs of the cluster, each with another host first.
    urls: Vec<String>,
    folder: PathBuf,
    log: &'a Mutex<WriteLog>,
}

impl RowWriter<'_> {
    fn write_until(&self, stop: &AtomicBool) -> Result<(), Failure> {
        let mut urls = self.urls.iter().cycle();
        let mut url = urls.next();
        for number in 1.. {
            let Some(current) = url.filter(|_| !stop.load(Ordering::Relaxed)) else { break };
            if !self.write(current, number)? {
                // Without its Patroni, a former primary still offers itself for writes, and never acknowledges one.
                url = urls.next();
            }
        }
        Ok(())
    }

    /// Writes a row. The result is whether psql succeeded.
    fn write(&self, url: &str, number: u64) -> Result<bool, Failure> {
        let mut command = self.space.command("timeout");
        command.args(["--signal=KILL", ROW_LIMIT_S]).arg(&self.psql).args(["-X", "-q", "-d", url]);
        command.args(["-c", &format!("INSERT INTO written VALUES ({}, {number})", self.number)]);
        command.env("PGTARGETSESSIONATTRS", "read-write").env("PGCONNECT_TIMEOUT", CONNECT_LIMIT_S);
        command.env("PGSSLMODE", "disable");
        let finished = process::run(command, "", &self.folder, STEP_LIMIT)?;
        let (at, row) = (Instant::now(), (self.number, number));
        let mut log = lock(self.log);
        let is_done = finished.status.success();
        if is_done && finished.stderr.is_empty() {
            log.acknowledged.push((at, row));
        } else if is_done && finished.stderr.contains(CANCELLED_WAIT) {
            log.warned.insert(row);
        } else {
            // psql may also print that the server ends, after a COMMIT without a warning. Such a row counts neither way.
            log.last_error = finished.stderr;
        }
        Ok(is_done)
    }
}

/// A writer that panicked has left the log whole: each change is one push.
fn lock(log: &Mutex<WriteLog>) -> MutexGuard<'_, WriteLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the writers to end, also if the rounds fail or panic: the scope waits for them.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs one round for each fault, and checks at the end that each server has each acknowledged row.
pub fn run(cluster: &mut Cluster, faults: &[RoundFault]) -> Result<Tally, Failure> {
    let table = "CREATE TABLE written (writer int, number bigint, PRIMARY KEY (writer, number))";
    let primary = cluster.primary()?.ok_or_else(|| Failure("there is no primary".into()))?;
    cluster.sql(primary, table)?;
    let (log, stop) = (Mutex::default(), AtomicBool::new(false));
    let clients = cluster.setup.client_members();
    let writers = clients.iter().take(WRITERS).enumerate().map(|(number, client)| RowWriter {
        number,
        space: cluster.namespace(*client),
        psql: cluster.programs.join("psql"),
        urls: cluster.urls(),
        folder: cluster.folder.path.clone(),
        log: &log,
    });
    let writers: Vec<RowWriter<'_>> = writers.collect();
    let mut lost = BTreeSet::new();
    let mut tally = std::thread::scope(|scope| {
        let running: Vec<_> =
            writers.iter().map(|writer| scope.spawn(|| writer.write_until(&stop))).collect();
        let guard = StopOnDrop(&stop);
        let rounds = rounds(cluster, faults, &log, &mut lost);
        drop(guard);
        for writer in running {
            thread_result(writer.join(), "a writer")?;
        }
        rounds
    })?;
    let log = lock(&log);
    tally.check("every server has the acknowledged rows", on_every_server(cluster, &log, &lost)?);
    Ok(tally)
}

fn rounds(
    cluster: &mut Cluster,
    faults: &[RoundFault],
    log: &Mutex<WriteLog>,
    lost: &mut BTreeSet<RowId>,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut lines = Vec::new();
    let mut check = |fault: RoundFault| -> Result<(), Failure> {
        let round = round(cluster, fault, log, lost)?;
        let outcome = format!(
            "{} rows acknowledged, {} lost; {} warned at COMMIT, {} lost",
            round.acknowledged, round.lost, round.warned, round.warned_lost
        );
        // A client that took the warning for an acknowledgement would miss rows: the fault shows it only if rows are lost.
        let has_effect = round.warned_lost > 0 || fault != RoundFault::CancelCommits;
        let is_right = round.lost == 0 && round.acknowledged > 0 && has_effect;
        tally.check(&fault.name(), report::outcome(is_right, outcome));
        lines.push(format!("| {} | {} |", fault.name(), round.cells()));
        Ok(())
    };
    let done = faults.iter().try_for_each(|fault| check(*fault));
    // The figures of the rounds before a failure help to understand it.
    line(
        "| fault | target | primary after | pause (s) | rows acknowledged | rows lost | warned at COMMIT | of these lost |",
    );
    line("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |");
    lines.iter().for_each(|text| line(text));
    done.map(|()| tally)
}

/// The figures of one round.
struct RoundFigures {
    target: Member,
    primary_after: Member,
    /// The longest time without an acknowledged row.
    pause: Duration,
    acknowledged: usize,
    lost: usize,
    warned: usize,
    warned_lost: usize,
}

impl RoundFigures {
    fn cells(&self) -> String {
        let RoundFigures { target, primary_after, pause, acknowledged, lost, warned, warned_lost } = self;
        let pause = pause.as_secs_f64();
        format!(
            "{target} | {primary_after} | {pause:.1} | {acknowledged} | {lost} | {warned} | {warned_lost}"
        )
    }
}

fn round(
    cluster: &mut Cluster,
    fault: RoundFault,
    log: &Mutex<WriteLog>,
    lost: &mut BTreeSet<RowId>,
) -> Result<RoundFigures, Failure> {
    let (acknowledged_before, warned_before) = {
        let log = lock(log);
        (log.acknowledged.len(), log.warned.clone())
    };
    process::sleep(WARM_UP)?;
    await_rows(log)?;
    let start = Instant::now();
    let limit = FAILOVER_LIMIT + Duration::from_secs(u64::from(cluster.setup.ttl));
    let target = fault.happen(cluster, limit, || await_rows(log))?;
    cluster.await_whole(START_LIMIT)?;
    await_rows(log)?;
    let primary_after = cluster.primary()?.ok_or_else(|| Failure("there is no primary".into()))?;
    // The order matters: a row that is acknowledged later may be missing in what is read now.
    let log = lock(log);
    let there = rows(&cluster.sql(primary_after, ROWS)?)?;
    let new_lost: Vec<RowId> =
        log.acknowledged.iter().map(|(_, row)| *row).filter(|row| !there.contains(row)).collect();
    let new_lost = new_lost.into_iter().filter(|row| lost.insert(*row)).count();
    let warned: Vec<&RowId> = log.warned.difference(&warned_before).collect();
    let instants: Vec<Instant> = log.acknowledged.iter().map(|(at, _)| *at).collect();
    Ok(RoundFigures {
        target,
        primary_after,
        pause: longest_pause(&instants, start),
        acknowledged: log.acknowledged.len() - acknowledged_before,
        lost: new_lost,
        warned: warned.len(),
        warned_lost: warned.iter().filter(|row| !there.contains(row)).count(),
    })
}

/// All rows, as [`rows`] reads them.
const ROWS: &str = "SELECT writer, number FROM written";

/// The rows in the output of psql.
fn rows(text: &str) -> Result<BTreeSet<RowId>, Failure> {
    let row = |line: &str| {
        let (writer, number) = line.split_once('|')?;
        Some((writer.parse().ok()?, number.parse().ok()?))
    };
    text.lines().map(|line| row(line).ok_or_else(|| Failure(format!("psql: no row in {line:?}")))).collect()
}

/// The longest time between two acknowledgements from the last one before `start` on.
fn longest_pause(instants: &[Instant], start: Instant) -> Duration {
    let first = instants.partition_point(|at| *at < start).saturating_sub(1);
    let pauses = instants[first..].windows(2).map(|pair| pair[1].saturating_duration_since(pair[0]));
    pauses.max().unwrap_or_default()
}

/// Waits until rows are acknowledged that were sent after this call: two for each writer, since one may be under way.
fn await_rows(log: &Mutex<WriteLog>) -> Result<(), Failure> {
    let counts = || {
        let log = lock(log);
        let mut counts = [0_usize; WRITERS];
        log.acknowledged.iter().for_each(|(_, (writer, _))| counts[*writer] += 1);
        counts
    };
    let before = counts();
    let waited = wait_until("new acknowledged rows of each client", FAILOVER_LIMIT, || {
        let is_later = counts().iter().zip(before).all(|(now, before)| *now >= before + 2);
        if !is_later {
            process::sleep(Duration::from_millis(50))?;
        }
        Ok(is_later)
    });
    waited.map_err(|Failure(why)| {
        Failure(format!("{why}; the last error of a client: {}", lock(log).last_error))
    })
}

/// Whether each server has each acknowledged row, except those that a round has already reported as lost.
fn on_every_server(
    cluster: &mut Cluster,
    log: &WriteLog,
    lost: &BTreeSet<RowId>,
) -> Result<Result<String, String>, Failure> {
    cluster.await_whole(START_LIMIT)?;
    let expected: BTreeSet<RowId> =
        log.acknowledged.iter().map(|(_, row)| *row).filter(|row| !lost.contains(row)).collect();
    for server in cluster.setup.servers() {
        let mut missing = 0;
        let has_all = wait_until("a standby catches up", STEP_LIMIT, || {
            let there = rows(&cluster.sql(server, ROWS)?)?;
            missing = expected.difference(&there).count();
            Ok(missing == 0)
        });
        process::interrupted()?;
        if missing > 0 {
            return Ok(Err(format!("{server} lacks {missing} of {}", expected.len())));
        }
        has_all?;
    }
    Ok(Ok(format!("{} on each of {}", expected.len(), cluster.setup.servers().len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_begins_at_the_last_row_before_the_fault() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let instants = [0, 5000, 5100, 9000, 9100].map(at);
        assert_eq!(longest_pause(&instants, at(5200)), Duration::from_millis(3900));
        assert_eq!(longest_pause(&instants, at(100)), Duration::from_millis(5000));
        assert_eq!(longest_pause(&instants, at(9200)), Duration::ZERO);
        assert_eq!(longest_pause(&[], zero), Duration::ZERO);
    }

    #[test]
    fn rows_of_psql() {
        assert_eq!(rows("0|1\n1|20\n").unwrap(), BTreeSet::from([(0, 1), (1, 20)]));
        assert!(rows("0|1\nERROR").is_err());
    }
}
