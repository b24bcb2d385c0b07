//! The shape of a cluster, as a campaign or the command line wants it.

use super::network::Member;
use clap::Args;
use std::ops::RangeInclusive;

/// The number of PostgreSQL servers. With two, a partition would leave no standby to the primary.
const SERVERS: u8 = 3;
const TTL_DEFAULT_S: u32 = 20;
const LOOP_WAIT_DEFAULT_S: u32 = 2;
const CLIENTS_DEFAULT: u8 = 3;
const CLIENTS_MAX: i64 = 100;

/// The shape of a cluster.
#[derive(Args, Debug, Clone)]
pub struct Setup {
    /// The number of etcd processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5), value_name = "COUNT")]
    pub etcd: u8,
    /// Seconds after which the lock of a silent primary ends. Later versions of Patroni refuse less than 20.
    #[arg(
        long,
        default_value_t = TTL_DEFAULT_S,
        value_parser = clap::value_parser!(u32).range(ttl_range()),
        value_name = "SECONDS"
    )]
    pub ttl: u32,
    /// Seconds between two looks of Patroni at its server.
    #[arg(
        long,
        default_value_t = LOOP_WAIT_DEFAULT_S,
        value_parser = clap::value_parser!(u32).range(1..=2),
        value_name = "SECONDS"
    )]
    pub loop_wait: u32,
    /// The number of namespaces for clients.
    #[arg(
        long,
        default_value_t = CLIENTS_DEFAULT,
        value_parser = clap::value_parser!(u8).range(1..=CLIENTS_MAX),
        value_name = "COUNT"
    )]
    pub clients: u8,
    /// Keep the data in memory: faster, and independent of a busy disk.
    #[arg(long)]
    pub tmpfs: bool,
    /// Acknowledge writes that no standby has: a failover then loses rows.
    #[arg(long)]
    pub no_sync: bool,
    /// Let the primary go on without etcd while it reaches all other servers (`failsafe_mode` of Patroni).
    #[arg(long)]
    pub failsafe: bool,
    /// Keep the folder with the data and the logs at the end.
    #[arg(long)]
    pub keep: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            etcd: 1,
            ttl: TTL_DEFAULT_S,
            loop_wait: LOOP_WAIT_DEFAULT_S,
            clients: CLIENTS_DEFAULT,
            tmpfs: false,
            no_sync: false,
            failsafe: false,
            keep: false,
        }
    }
}

fn ttl_range() -> RangeInclusive<i64> {
    i64::from(*Setup::TTL_S.start())..=i64::from(*Setup::TTL_S.end())
}

impl Setup {
    /// Seconds of a lock: Patroni needs a `retry_timeout` of 3 s, and half the rest of a lock is one.
    pub const TTL_S: RangeInclusive<u32> = 8..=120;

    /// The PostgreSQL servers.
    pub fn servers(&self) -> Vec<Member> {
        (1..=SERVERS).map(Member::Server).collect()
    }

    /// The processes of etcd.
    pub fn etcd_members(&self) -> Vec<Member> {
        (1..=self.etcd).map(Member::Etcd).collect()
    }

    /// The namespaces for clients.
    pub fn client_members(&self) -> Vec<Member> {
        (1..=self.clients).map(Member::Client).collect()
    }

    /// All members.
    pub fn members(&self) -> Vec<Member> {
        [self.servers(), self.etcd_members(), self.client_members()].concat()
    }
}
