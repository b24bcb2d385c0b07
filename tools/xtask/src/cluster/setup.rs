//! The shape of a cluster, as a campaign or the command line wants it.

use super::network::Member;
use clap::{Args, ValueEnum};
use std::ops::RangeInclusive;

/// The number of PostgreSQL servers. With two, a partition would leave no standby to the primary.
const SERVERS: u8 = 3;
const TTL_DEFAULT_S: u32 = 20;
const LOOP_WAIT_DEFAULT_S: u32 = 2;
const CLIENTS_DEFAULT: u8 = 3;
const CLIENTS_MAX: i64 = 100;

/// The interface of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EtcdApi {
    /// The interface of etcd 2, which etcd 3.4 still has. Patroni renews its lock only if the lock still has its name.
    #[value(name = "2")]
    V2,
    /// The interface of etcd 3. After a pause of Patroni that was longer than the time of the lock (`--ttl`), Patroni 3.0.2 may
    /// write its own name over the name of the new primary. This depends on what it did when it was paused. The cause: its function
    /// `_update_leader` in `dcs/etcd3.py` does not compare the name in the lock with its own. The standbys then follow the former
    /// primary again, and all rows of the new primary are lost. In Patroni 3.2.2, the function compares the names.
    #[value(name = "3")]
    V3,
}

/// The shape of a cluster.
#[derive(Args, Debug, Clone)]
pub struct Setup {
    /// The number of etcd processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5), value_name = "COUNT")]
    pub etcd: u8,
    /// The interface of etcd that Patroni uses. With version 3, Patroni 3.0 can lose acknowledged rows.
    #[arg(long, value_enum, default_value_t = EtcdApi::V2)]
    pub etcd_api: EtcdApi,
    /// Seconds after which the lock of a silent primary ends. Patroni 3.2 and later raise a smaller value to 20.
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
    /// The number of synchronous standbys: a write is acknowledged when all of them have it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2), value_name = "COUNT")]
    pub sync_standbys: u8,
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
            etcd_api: EtcdApi::V2,
            ttl: TTL_DEFAULT_S,
            loop_wait: LOOP_WAIT_DEFAULT_S,
            clients: CLIENTS_DEFAULT,
            tmpfs: false,
            no_sync: false,
            sync_standbys: 1,
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

    /// The PostgreSQL servers, by number.
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

    /// All members: servers, etcd, clients.
    pub fn members(&self) -> Vec<Member> {
        [self.servers(), self.etcd_members(), self.client_members()].concat()
    }
}
