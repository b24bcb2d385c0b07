//! The faults of the campaign: which, in which order, and what is waited for after each.

use super::calls::CallLog;
use super::judge::FaultWindow;
use super::world::{ClusterWorld, NODES};
use crate::cluster::self_check::RoundFault;
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep, wait_until};
use rustix::process::Signal;
use std::time::Duration;

/// Calls before each fault, so that its pause has a start.
const WARM_UP: Duration = Duration::from_secs(2);
/// A pause of a node that is longer than its lease.
const NODE_PAUSE: Duration = Duration::from_secs(12);
const NODE_PAUSE_LONG: Duration = Duration::from_secs(60);
/// A killed node stays away for at most this time.
const NODE_AWAY_MS: std::ops::Range<u64> = 500..8_000;
/// A cut that no failover ends.
const NODE_CUT: Duration = Duration::from_secs(15);
const PRIMARY_LIMIT: Duration = Duration::from_secs(90);
const WHOLE_LIMIT: Duration = Duration::from_secs(180);
/// Writes succeed again after this time at the latest.
const WRITES_LIMIT: Duration = Duration::from_secs(90);
/// The acknowledged writes that show that a node is back.
const WRITES: usize = 2;

/// A fault of the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignFault {
    /// SIGKILL to a node, then a start.
    KillNode,
    /// SIGTERM to this node, and a start of the newer program.
    UpgradeNode(usize),
    /// SIGTERM to this node, and a start of the earlier program.
    DowngradeNode(usize),
    /// SIGSTOP to a node for longer than its lease.
    PauseNode,
    /// SIGSTOP to a node for a minute.
    PauseNodeLong,
    /// The link of a node is down.
    IsolateNode,
    /// A fault of the cluster of PostgreSQL.
    Cluster(RoundFault),
}

impl CampaignFault {
    /// Each ten faults: a primary, five nodes, a standby, etcd, a partition, cancelled waits.
    const TEN: [CampaignFault; 10] = [
        CampaignFault::Cluster(RoundFault::KillPrimary),
        CampaignFault::KillNode,
        CampaignFault::KillNode,
        CampaignFault::KillNode,
        CampaignFault::PauseNode,
        CampaignFault::PauseNode,
        CampaignFault::Cluster(RoundFault::KillStandby),
        CampaignFault::Cluster(RoundFault::KillEtcd),
        CampaignFault::Cluster(RoundFault::PartitionPrimary),
        CampaignFault::Cluster(RoundFault::CancelCommits),
    ];
    const SMALL: [CampaignFault; 4] = [
        CampaignFault::KillNode,
        CampaignFault::Cluster(RoundFault::CancelCommits),
        CampaignFault::PauseNode,
        CampaignFault::Cluster(RoundFault::PartitionPrimary),
    ];

    /// The word for tables.
    pub fn name(self) -> String {
        let name = match self {
            CampaignFault::KillNode => "kill-node",
            CampaignFault::UpgradeNode(_) => "upgrade-node",
            CampaignFault::DowngradeNode(_) => "downgrade-node",
            CampaignFault::PauseNode => "pause-node",
            CampaignFault::PauseNodeLong => "pause-node-60-s",
            CampaignFault::IsolateNode => "isolate-node",
            CampaignFault::Cluster(fault) => return fault.name(),
        };
        name.to_owned()
    }

    /// Every node gets the newer program, one after another; then the earlier one again; then the newer one for good.
    pub fn upgrades() -> Vec<CampaignFault> {
        let upgrades = (0..NODES).map(CampaignFault::UpgradeNode);
        let downgrades = (0..NODES).map(CampaignFault::DowngradeNode);
        upgrades.clone().chain(downgrades).chain(upgrades).collect()
    }

    /// The faults of a run, in their order.
    pub fn plan(count: usize, is_small: bool, random: &mut fastrand::Rng) -> Vec<CampaignFault> {
        if is_small && count == CampaignFault::SMALL.len() {
            return CampaignFault::SMALL.to_vec();
        }
        let mut plan = Vec::new();
        while plan.len() < count {
            let mut ten = CampaignFault::TEN;
            // Half of the partitions hit a node.
            if plan.len() / ten.len() % 2 == 1 {
                ten[8] = CampaignFault::IsolateNode;
            }
            random.shuffle(&mut ten);
            plan.extend(ten);
        }
        plan.truncate(count);
        plan
    }
}

/// Does one fault, heals it, and waits until every node acknowledges writes again.
///
/// # Errors
///
/// Something does not come back in time.
pub fn execute(
    fault: CampaignFault,
    world: &mut ClusterWorld,
    log: &CallLog,
    random: &mut fastrand::Rng,
) -> Result<FaultWindow, Failure> {
    sleep(WARM_UP)?;
    world.nodes_run()?;
    let begin = log.now();
    let node = match fault {
        CampaignFault::Cluster(_) => None,
        CampaignFault::UpgradeNode(node) | CampaignFault::DowngradeNode(node) => Some(node),
        _ => Some(random.usize(0..NODES)),
    };
    match (fault, node) {
        (CampaignFault::Cluster(fault), _) => {
            let written = || await_writes("writes at the new primary", log, log.now(), None);
            fault.happen(&mut world.cluster, PRIMARY_LIMIT, written)?;
        }
        (fault, Some(node)) => fault_of_node(fault, node, world, random)?,
        (_, None) => {}
    }
    let healed = log.now();
    world.cluster.await_whole(WHOLE_LIMIT)?;
    for node in 0..NODES {
        await_writes(&format!("{}: writes at node {}", fault.name(), node + 1), log, healed, Some(node))?;
    }
    interrupted()?;
    Ok(FaultWindow { name: fault.name(), node, begin, end: log.now() })
}

fn await_writes(what: &str, log: &CallLog, since: u64, node: Option<usize>) -> Result<(), Failure> {
    wait_until(what, WRITES_LIMIT, || {
        // The list of calls is long.
        sleep(Duration::from_millis(100))?;
        Ok(log.writes_since(since, node) >= WRITES)
    })
}

fn fault_of_node(
    fault: CampaignFault,
    node: usize,
    world: &mut ClusterWorld,
    random: &mut fastrand::Rng,
) -> Result<(), Failure> {
    match fault {
        CampaignFault::PauseNode | CampaignFault::PauseNodeLong => {
            world.signal_node(node, Signal::STOP)?;
            let long = fault == CampaignFault::PauseNodeLong;
            let slept = sleep(if long { NODE_PAUSE_LONG } else { NODE_PAUSE });
            world.signal_node(node, Signal::CONT)?;
            slept
        }
        CampaignFault::IsolateNode => {
            let member = world.member(node);
            world.cluster.network.isolate(member)?;
            let slept = sleep(NODE_CUT);
            world.cluster.network.heal()?;
            slept
        }
        CampaignFault::UpgradeNode(_) | CampaignFault::DowngradeNode(_) => {
            world.drain_node(node)?;
            world.use_program(node, matches!(fault, CampaignFault::UpgradeNode(_)));
            world.start_node(node)?;
            world.await_node(node)
        }
        _ => {
            world.kill_node(node)?;
            sleep(Duration::from_millis(random.u64(NODE_AWAY_MS)))?;
            world.start_node(node)?;
            world.await_node(node)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_full_run_has_the_mix_of_the_docs() {
        let plan = CampaignFault::plan(200, false, &mut fastrand::Rng::with_seed(1));
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        plan.iter().for_each(|fault| *counts.entry(fault.name()).or_default() += 1);
        let expected = [
            ("cancel-commits", 20),
            ("isolate-node", 10),
            ("kill-etcd", 20),
            ("kill-node", 60),
            ("kill-primary", 20),
            ("kill-standby", 20),
            ("partition-primary", 10),
            ("pause-node", 40),
        ];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
    }
}
