//! What can be done to a cluster. Each method says what happens to the processes and packets, since the names of faults differ
//! between people.

use super::network::{Member, signal};
use super::{Cluster, STEP_LIMIT};
use crate::failure::{Context, Failure};
use crate::interop::process;
use rustix::process::{Pid, Signal};
use std::fs;
use std::time::Duration;

/// A server that Patroni stops in order finishes its checkpoint and waits for its standbys first.
const STOP_LIMIT: Duration = Duration::from_secs(60);

impl Cluster {
    /// Kills all processes of a server or of etcd at once (SIGKILL): Patroni, the postmaster and its backends. The data folder stays
    /// as the processes wrote it, whether it was synced or not. Clients get a reset of their connections.
    pub fn kill(&mut self, member: Member) -> Result<(), Failure> {
        self.network.kill_all(member)?;
        // The drop reaps the process.
        self.processes.remove(&member);
        Ok(())
    }

    /// Kills the postmaster alone (SIGKILL). Its backends notice it and end at once. Patroni stays: it finds within `loop_wait` that
    /// the server has ended, keeps the lock, and starts the server again.
    pub fn kill_postmaster(&mut self, server: Member) -> Result<(), Failure> {
        signal(self.postmaster(server)?, Signal::KILL)
    }

    /// Kills Patroni alone (SIGKILL). PostgreSQL stays and accepts connections, without anybody that can stop it when the lock
    /// has ended. Later, the cluster has two servers that accept writes. Only the former primary's wait for a standby, which
    /// follows the new primary, keeps it from acknowledging them.
    pub fn kill_patroni(&mut self, server: Member) -> Result<(), Failure> {
        self.processes.remove(&server).map(drop).ok_or("has no Patroni").about(server)
    }

    /// Asks Patroni or etcd to end (SIGTERM). Patroni stops its server in order and, if it is the primary, gives the lock back, so
    /// that a standby takes it without a wait for its end.
    pub fn stop(&mut self, member: Member) -> Result<(), Failure> {
        let started = self.processes.remove(&member).ok_or("does not run").about(member)?;
        started.terminate(STOP_LIMIT)?;
        process::wait_until(&format!("end of {member}"), STOP_LIMIT, || {
            Ok(self.network.pids(member)?.is_empty())
        })
    }

    /// Starts a member that was killed or stopped, on its old data. It first kills what still runs of it: a server whose Patroni
    /// alone was killed.
    pub fn restart(&mut self, member: Member) -> Result<(), Failure> {
        self.kill(member)?;
        self.launch(member)
    }

    /// Stops Patroni alone (SIGSTOP). PostgreSQL goes on as after [`Cluster::kill_patroni`], until [`Network::resume_all`](super::network::Network::resume_all).
    pub fn pause_patroni(&mut self, server: Member) -> Result<(), Failure> {
        let started = self.processes.get(&server).ok_or("has no Patroni").about(server)?;
        let pid = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
        signal(pid.ok_or("has no process id").about(server)?, Signal::STOP)
    }

    /// Cancels the waits of a primary at COMMIT, then kills it. The steps:
    ///
    /// 1. No packet passes between the primary and its standbys, so each COMMIT waits. Etcd and the clients still reach the primary.
    /// 2. `pg_cancel_backend` ends the waits. Each COMMIT succeeds with a warning, and its rows can be seen.
    /// 3. All processes of the primary are killed. Packets are still lost, until [`Network::heal`](super::network::Network::heal): the kernel would deliver what the
    ///    killed processes have already sent, and so the rows.
    ///
    /// A standby becomes primary without those rows. The result is the number of cancelled waits.
    ///
    /// # Errors
    ///
    /// Nobody writes, so no session waits at COMMIT.
    pub fn cancel_commits_and_kill(&mut self, primary: Member) -> Result<usize, Failure> {
        let standbys: Vec<Member> =
            self.setup.servers().into_iter().filter(|server| *server != primary).collect();
        self.network.cut(&[primary], &standbys)?;
        let cancelled = self.cancel_commits(primary)?;
        self.kill(primary)?;
        Ok(cancelled)
    }

    fn cancel_commits(&self, primary: Member) -> Result<usize, Failure> {
        let mut cancelled = 0;
        process::wait_until("a session waits at COMMIT", STEP_LIMIT, || {
            let text = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            cancelled = self.sql(primary, text)?.lines().filter(|line| *line == "t").count();
            Ok(cancelled > 0)
        })?;
        // The sessions need a moment to send the end of the command to their clients.
        process::sleep(Duration::from_millis(100))?;
        Ok(cancelled)
    }

    /// The process id of the postmaster, from the file that it keeps in its data folder.
    fn postmaster(&self, server: Member) -> Result<Pid, Failure> {
        let path = self.folder_of(server).join("data/postmaster.pid");
        let text = fs::read_to_string(&path).at(&path)?;
        let pid = text.lines().next().and_then(|line| Pid::from_raw(line.trim().parse().ok()?));
        let pid = pid.ok_or("has no process id").at(&path)?;
        // The file of a server that was killed names a process that may be another one now.
        if self.network.pids(server)?.contains(&pid) {
            return Ok(pid);
        }
        Err("has no postmaster").about(server)
    }
}
