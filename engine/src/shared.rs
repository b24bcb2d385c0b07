//! The state that all threads of the engine share, and the choice of the shard that is responsible for a domain or a site.

use crate::config::{EngineConfig, Pace};
use crate::egress::Pool;
use crate::faults::{Fault, planted};
use crate::inbox::Inbox;
use crate::refusals::RefusalTable;
use crate::seed::Hashing;
use crate::work::{DNS_TIMEOUT, DNS_UNREACHABLE, Message, Plan, Work};
use crate::{Outage, Priority, Withdrawn};
use engine_proto::outage::Resolvers;
use engine_proto::refusals::step_at;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// How often a shard records that it is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(200);

/// With the profile `lab`, the works of one domain are divided into chunks of this number of works, and the chunks are spread over
/// the shards.
const WORKS_A_CHUNK: usize = 500;
/// The first shard of a domain gets the chunks from number 0 to this one. So a short list is checked by one shard, and no second
/// shard has to ask about a control recipient (which does not exist) to test whether the domain accepts everyone.
const LAST_CHUNK_AT_HOME: usize = 2;

pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    /// The sources from which mail servers are asked, and for each whether any server can be reached from it.
    pub(crate) pool: Pool,
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) shards: Vec<ShardFace>,
    pub(crate) hasher: Hashing,
    pub(crate) stopping: AtomicBool,
    /// The number of inquiries under way: questions about domains that DNS alone answers.
    pub(crate) inquiries: Arc<AtomicUsize>,
    /// Whether the resolvers answer, and how many questions each of them may get at once.
    pub(crate) resolvers: Arc<Resolvers>,
    /// Whether hosts can be reached at IPv6 addresses.
    pub(crate) ipv6: bool,
    pub(crate) started: Instant,
    /// The start of the engine on the wall clock, or on the clock of `table` if the configuration names a table.
    pub(crate) started_at: SystemTime,
    /// The counts of refused recipients.
    pub(crate) table: Arc<RefusalTable>,
    /// Withdrawn evidence that the caller of the engine has not read yet.
    pub(crate) withdrawn: Mutex<Vec<Withdrawn>>,
    /// How many times clients have recalled their requests or begun to drain.
    pub(crate) recalls: AtomicU64,
}

/// The part of a shard that other threads see.
pub(crate) struct ShardFace {
    pub(crate) inbox: Inbox<Message>,
    /// When the shard last recorded that it is alive, in milliseconds since the start of the engine. 0 before the first time,
    /// [`u64::MAX`] after the end of the shard.
    pub(crate) heartbeat: AtomicU64,
    /// The number of open sessions at that heartbeat.
    pub(crate) sessions: AtomicUsize,
    /// The number of works that waited for a session at that heartbeat.
    pub(crate) queued: AtomicUsize,
    /// The number of replies about recipients, from the start to that heartbeat.
    pub(crate) answers: AtomicU64,
    /// The processor time of the thread until that heartbeat, in microseconds.
    pub(crate) busy_us: AtomicU64,
}

impl Shared {
    /// The hash of a domain, a site or a group of domains. No peer can choose names with the same hash, because its key is secret.
    pub(crate) fn hash_of(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The shard that is responsible for the name with this hash: the home shard of a domain, or the shard that owns a site.
    pub(crate) fn shard_of(&self, name_hash: u64) -> &ShardFace {
        &self.shards[name_hash as usize % self.shards.len()]
    }

    /// The shard that asks the hosts of a domain. All hosts of a site are asked by one shard, so that the shard can enforce the
    /// ceiling of the site exactly and without a lock. One core can do far more than a ceiling allows. The profile `lab` has no
    /// ceiling. There the domains of a site are spread over all shards, and so are the works of a domain with many works.
    pub(crate) fn owner_of(&self, plan: &Plan, domain_hash: u64) -> &ShardFace {
        if self.config.pace != Pace::Lab {
            return self.shard_of(plan.site_hash);
        }
        let chunk = plan.handed.fetch_add(1, Ordering::Relaxed) / WORKS_A_CHUNK;
        self.shard_of(domain_hash.wrapping_add(chunk.saturating_sub(LAST_CHUNK_AT_HOME) as u64))
    }

    /// The time since the Unix epoch. The clock is read only at the start of the engine, so later changes of the wall clock have no
    /// effect.
    pub(crate) fn since_epoch(&self, now: Instant) -> Duration {
        let started = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        started + self.age(now)
    }

    /// The number of the five-minute step in which refusals are counted now.
    pub(crate) fn refusal_step(&self, now: Instant) -> u64 {
        step_at(self.since_epoch(now)).0
    }

    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// A mail server has accepted a connection from this source, or has replied on one.
    pub(crate) fn on_reached(&self, source: usize) {
        self.pool.sources[source].connections.on_reached();
    }

    /// A connection from this source to a host of `site` could not be made.
    pub(crate) fn on_not_reached(&self, source: usize, site: &str, now: Instant) {
        self.pool.sources[source].connections.on_failed(self.hash_of(site), self.age(now));
    }

    /// Whether a patient work got no connection, and it will show only in a moment whether an outage of ours is the cause. Single
    /// checks cannot wait for that.
    pub(crate) fn is_in_doubt(&self, work: &Work, now: Instant) -> bool {
        work.fallback.rule == "no_connection"
            && work.priority != Priority::Single
            && self.pool.sources[work.source].connections.are_in_doubt(self.age(now))
    }

    /// Answers a work with its fallback (the finding so far), because nothing more can be found out. If no server or resolver has
    /// replied about the address, and our own network or the resolvers are to blame for that, the answer is an outage instead.
    pub(crate) fn give_up(&self, work: Work, now: Instant) {
        let is_ours = match work.fallback.rule {
            "no_connection" | "no_answer_in_time" | "site_silent" => {
                self.pool.sources[work.source].connections.are_to_blame(self.age(now))
                    || planted(Fault::BlameNetwork)
            }
            DNS_TIMEOUT | DNS_UNREACHABLE => self.resolvers.are_to_blame(),
            _ => false,
        };
        if is_ours {
            work.fail(Outage::Unavailable);
        } else {
            work.give_up();
        }
    }
}
