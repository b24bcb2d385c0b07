//! The world of the campaign: a cluster of PostgreSQL, three nodes of mailprobe in namespaces of their own with a mailnet beside
//! each, and accounts with keys. Clients have a namespace too, so that a node can lose its network.

use crate::cluster::Cluster;
use crate::cluster::network::{Member, signal};
use crate::cluster::setup::Setup;
use crate::failure::{Context, Failure};
use crate::interop::process::{self, ServerProcess, wait_until};
use crate::interop::report;
use crate::isolation::Namespace;
use crate::soak::world::{CampaignFolder, Ledger, Mailnet, engine_flags, read};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The number of nodes.
pub const NODES: usize = 3;
/// The namespace of the clients comes after those of the nodes.
const CLIENT: Member = Member::Client(4);
const PORT: u16 = 8080;
/// A start waits for the database, which may be in a failover.
const START_LIMIT: Duration = Duration::from_secs(90);
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(90);
/// Credits of each account: more than a run can spend.
pub const GRANTED: u64 = 50_000_000;

/// Fast servers, whose mailboxes nearly all exist.
pub const SCENARIO: &str = include_str!("../../../soak/scenarios/cluster.toml");

/// What differs between worlds.
pub struct WorldProfile {
    /// The scenario of the mailnet beside each node.
    pub scenario: &'static str,
    /// More flags of each `mailprobe serve`.
    pub flags: &'static [&'static str],
    /// The `mailprobe` with which the nodes start; that of the folder if there is none.
    pub previous: Option<PathBuf>,
}

/// A node with its process.
struct ServeNode {
    member: Member,
    data: PathBuf,
    process: Option<ServerProcess>,
    /// The `mailprobe` of its next start, and of commands at its folder.
    program: PathBuf,
    logs: Vec<PathBuf>,
}

/// An account with its keys.
#[derive(Debug, Clone)]
pub struct ClusterAccount {
    pub name: String,
    pub live: String,
    pub test: String,
}

/// All that the campaign has started. The drop ends it.
pub struct ClusterWorld {
    // Dropped in this order: nodes and mailnets are in the namespaces of the cluster.
    nodes: Vec<ServeNode>,
    mailnets: Vec<Mailnet>,
    /// The cluster of PostgreSQL.
    pub cluster: Cluster,
    folder: CampaignFolder,
    url: String,
    profile: WorldProfile,
    /// The earlier `mailprobe`, and the one under test.
    programs: [PathBuf; 2],
    /// Addresses that must be probed once.
    counted: Vec<String>,
}

impl ClusterWorld {
    /// Starts everything.
    ///
    /// # Errors
    ///
    /// A part of it does not start: see [`Cluster::start`].
    pub fn of(folder: CampaignFolder, profile: WorldProfile) -> Result<ClusterWorld, Failure> {
        let setup = Setup { clients: NODES as u8 + 1, tmpfs: true, ..Setup::default() };
        let cluster = Cluster::start(setup)?;
        let certificate = cluster.certificate();
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", cluster.url(), certificate.display());
        let newer = folder.binary("mailprobe");
        let programs = [profile.previous.clone().unwrap_or_else(|| newer.clone()), newer];
        let (nodes, mailnets, counted) = Default::default();
        let mut world = ClusterWorld { nodes, mailnets, cluster, folder, url, profile, programs, counted };
        world.found()?;
        for node in 0..NODES {
            world.start_node(node)?;
        }
        for node in 0..NODES {
            world.await_node(node)?;
        }
        Ok(world)
    }

    /// Makes the folders of the nodes, and starts their mailnets.
    fn found(&mut self) -> Result<(), Failure> {
        let bundle = self.folder.path("bundle").display().to_string();
        for number in 0..NODES {
            let member = Member::Client(number as u8 + 1);
            let data = self.folder.path(&format!("node-{}", number + 1));
            let program = self.programs[0].clone();
            self.nodes.push(ServeNode { member, data, process: None, program, logs: Vec::new() });
            let found = ["cluster", "init", "--bundle", &bundle];
            let join = ["cluster", "join", &bundle];
            self.text(number, if number == 0 { &found } else { &join })?;
            let name = format!("mailnet-{}", number + 1);
            let journal = self.folder.path(&format!("{name}.journal")).display().to_string();
            let inside = self.cluster.command(member, self.folder.binary("mailnet"));
            let flags = ["--journal", &journal];
            self.mailnets.push(self.folder.mailnet_by(inside, self.profile.scenario, &name, &flags)?);
        }
        Ok(())
    }

    /// A command of `mailprobe` in the namespace and on the folder of a node.
    fn command(&self, node: usize, arguments: &[&str]) -> Command {
        let ServeNode { member, data, program, .. } = &self.nodes[node];
        let mut command = self.cluster.command(*member, program);
        command.args(arguments).arg("--data").arg(data).env("MAILPROBE_STORE_URL", &self.url);
        self.folder.keep_state_here(&mut command);
        command
    }

    /// Runs a command of `mailprobe` at a node, and returns its output.
    pub fn text(&self, node: usize, arguments: &[&str]) -> Result<String, Failure> {
        let name = format!("mailprobe {}", arguments.join(" "));
        process::run(self.command(node, arguments), "", self.folder.folder(), COMMAND_LIMIT)?.success(&name)
    }

    /// Runs a command of `mailprobe` at a node, and returns its JSON.
    pub fn json(&self, node: usize, arguments: &[&str]) -> Result<Value, Failure> {
        let text = self.text(node, &[arguments, &["--json"]].concat())?;
        serde_json::from_str(&text).about(arguments.join(" "))
    }

    /// Starts the process of a node, without a wait.
    pub fn start_node(&mut self, node: usize) -> Result<(), Failure> {
        let at = self.address(node).to_string();
        let mut command =
            self.command(node, &["serve", "--listen", &at, "--pace", "lab", "--frontends", "1"]);
        command.args(["--connections-per-peer", "0", "--self-checks", "false"]).args(self.folder.plans());
        command.args(self.profile.flags);
        let mailnet = &self.mailnets[node];
        engine_flags(&mut command, mailnet.engine(), true);
        let starts = self.nodes[node].logs.len();
        let log = self.folder.path(&format!("node-{}-{}.log", node + 1, starts + 1));
        let started = ServerProcess::start("mailprobe serve", command, &log)?;
        self.nodes[node].logs.push(log);
        self.nodes[node].process = Some(started);
        Ok(())
    }

    /// Waits until a node listens.
    pub fn await_node(&mut self, node: usize) -> Result<(), Failure> {
        let what = format!("node {} listens", node + 1);
        let process = self.process(node)?;
        let waited = wait_until(&what, START_LIMIT, || {
            process.running()?;
            Ok(process.log()?.contains("listening on "))
        });
        waited.map_err(|failure| process.complain(&failure.0))
    }

    fn process(&mut self, node: usize) -> Result<&mut ServerProcess, Failure> {
        self.nodes[node].process.as_mut().ok_or_else(|| Failure(format!("node {} does not run", node + 1)))
    }

    /// Sends SIGKILL to a node.
    pub fn kill_node(&mut self, node: usize) -> Result<(), Failure> {
        self.process(node)?.kill()?;
        self.nodes[node].process = None;
        Ok(())
    }

    /// Sends SIGTERM to a node, and waits for its end: it finishes what it has begun.
    pub fn drain_node(&mut self, node: usize) -> Result<(), Failure> {
        let process = self.nodes[node].process.take();
        let process = process.ok_or_else(|| Failure(format!("node {} does not run", node + 1)))?;
        let status = process.terminate(END_LIMIT)?;
        if status.success() { Ok(()) } else { Err(Failure(format!("node {} ended: {status}", node + 1))) }
    }

    /// The next start of a node is by the program under test, or by the earlier one.
    pub fn use_program(&mut self, node: usize, is_newer: bool) {
        self.nodes[node].program = self.programs[usize::from(is_newer)].clone();
    }

    /// Sends SIGSTOP or SIGCONT to a node.
    pub fn signal_node(&mut self, node: usize, which: Signal) -> Result<(), Failure> {
        let id = self.process(node)?.id();
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        signal(pid.ok_or_else(|| Failure("a node without a process id".into()))?, which)
    }

    /// An error if a node has ended that was not killed.
    pub fn nodes_run(&mut self) -> Result<(), Failure> {
        for node in 0..NODES {
            let process = self.process(node)?;
            process.running().map_err(|failure| process.complain(&failure.0))?;
        }
        Ok(())
    }

    /// The place of a node in the network.
    pub fn member(&self, node: usize) -> Member {
        self.nodes[node].member
    }

    /// The address of the API of a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::from((self.nodes[node].member.address(), PORT))
    }

    /// The namespace of the clients.
    pub fn client_namespace(&self) -> Namespace {
        self.cluster.namespace(CLIENT)
    }

    /// A file in the folder of the campaign.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Creates an account with a live key and a test key. The plan `unlimited` has no limits, `free` has the usual ones.
    pub fn account(&self, name: &str, plan: &str) -> Result<ClusterAccount, Failure> {
        self.json(0, &["account", "create", name, "--plan", plan])?;
        self.json(0, &["account", "grant", name, &GRANTED.to_string(), "--note", "soak"])?;
        let key = |more: &[&str]| {
            let made = self.json(0, &[&["key", "create", name], more].concat())?;
            let key = made.get("key").and_then(Value::as_str).map(str::to_owned);
            key.ok_or_else(|| Failure(format!("key create {name}: no key in the answer")))
        };
        Ok(ClusterAccount { name: name.into(), live: key(&[])?, test: key(&["--test"])? })
    }

    /// The ledger of an account.
    pub fn ledger(&self, account: &str) -> Result<Ledger, Failure> {
        Ledger::of(&self.json(0, &["account", "show", account])?)
    }

    /// Runs SQL at the primary, in the schema of mailprobe.
    pub fn sql(&self, text: &str) -> Result<String, Failure> {
        let primary = self.cluster.primary()?.ok_or_else(|| Failure("there is no primary".into()))?;
        self.cluster.sql(primary, text)
    }

    /// Notes that each of these addresses must have been probed once at the end.
    pub fn count_later(&mut self, addresses: Vec<String>) {
        self.counted = addresses;
    }

    /// Ends the mailnets, and counts in their journals how often they were asked about the noted addresses. `None`: none was noted.
    pub fn count_probes(&mut self) -> Result<Option<Result<String, String>>, Failure> {
        let mut counts: BTreeMap<&str, usize> =
            self.counted.iter().map(|address| (address.as_str(), 0)).collect();
        for (number, mailnet) in std::mem::take(&mut self.mailnets).into_iter().enumerate() {
            mailnet.stop()?;
            let text = read(&self.folder.path(&format!("mailnet-{}.journal", number + 1)))?;
            let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            for event in events.filter(|event| event["what"] == "rcpt") {
                let count = event["address"].as_str().and_then(|address| counts.get_mut(address));
                *count.unwrap_or(&mut 0) += 1;
            }
        }
        let wrong = counts.iter().filter(|(_, count)| **count != 1);
        let wrong: Vec<String> = wrong.map(|(address, count)| format!("{address}: {count}")).collect();
        let figures = format!("{} addresses", counts.len());
        Ok((!counts.is_empty()).then(|| report::faultless(figures, &wrong)))
    }

    /// Ends the nodes in order, and returns the lines of their logs that must not be there.
    pub fn stop_nodes(&mut self) -> Result<Vec<String>, Failure> {
        let mut bad = Vec::new();
        for node in &mut self.nodes {
            if let Some(process) = node.process.take() {
                let status = process.terminate(END_LIMIT)?;
                if !status.success() {
                    bad.push(format!("{} ended: {status}", node.member));
                }
            }
            for log in &node.logs {
                let text = read(log)?;
                let lines =
                    text.lines().filter(|line| line.contains("panic") || line.contains("no further rows"));
                bad.extend(lines.map(|line| format!("{}: {line}", node.member)));
            }
        }
        Ok(bad)
    }
}
