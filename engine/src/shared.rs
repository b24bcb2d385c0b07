//! What the threads of the engine share, and which shard is responsible for a domain or a site.

use crate::config::{EngineConfig, Pace};
use crate::egress::Pool;
use crate::faults::{Fault, planted};
use crate::inbox::Inbox;
use crate::refusals::RefusalTable;
use crate::seed::Hashing;
use crate::work::{Message, Plan, Work};
use crate::{Outage, Withdrawn};
use engine_proto::address::Domain;
use engine_proto::outage::Resolvers;
use engine_proto::refusals::step_at;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// How often a shard records that it is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(200);

/// With the profile `lab`, this number of works of one domain go to one shard, and the next ones to the next shard.
const WORKS_A_CHUNK: usize = 500;
/// The last of these chunks, counted from 0, that goes to the first shard of the domain. So a short list needs no second session
/// and no second control recipient.
const LAST_CHUNK_AT_HOME: usize = 2;

/// The state that all threads of the engine share.
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    /// The sources from which mail servers are asked, and whether any server can be reached from them.
    pub(crate) pool: Pool,
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) shards: Vec<ShardFace>,
    pub(crate) hasher: Hashing,
    pub(crate) stopping: AtomicBool,
    /// The number of inquiries under way.
    pub(crate) inquiries: Arc<AtomicUsize>,
    /// The state of the resolvers, such as whether any of them answers.
    pub(crate) resolvers: Arc<Resolvers>,
    /// Whether hosts can be reached at IPv6 addresses.
    pub(crate) ipv6: bool,
    pub(crate) started: Instant,
    /// The start of the engine on the wall clock.
    pub(crate) started_at: SystemTime,
    /// The counts of refused recipients.
    pub(crate) table: Arc<RefusalTable>,
    /// Contradicted evidence that the caller has not read yet.
    pub(crate) withdrawn: Mutex<Vec<Withdrawn>>,
    /// How often any client has recalled its requests.
    pub(crate) recalls: AtomicU64,
}

/// The part of a shard that other threads see.
pub(crate) struct ShardFace {
    pub(crate) inbox: Inbox<Message>,
    /// Milliseconds since the engine's start at the shard's last heartbeat; [`u64::MAX`] when it has ended.
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
    /// The shard that is responsible for `name`: the home shard of a domain, or the owner of a site.
    pub(crate) fn shard_of(&self, name: &str) -> &ShardFace {
        let index = self.hasher.hash_one(name) as usize % self.shards.len();
        &self.shards[index]
    }

    /// The shard that asks a domain's hosts. A site has one owner, so that its ceiling is kept exactly and without a lock; one core
    /// can do far more than such a ceiling allows. The profile `lab` has no ceiling to keep, so there the domains of a site are
    /// spread over the shards, and so are the works of a domain that has many of them.
    pub(crate) fn owner_of(&self, plan: &Plan, domain: &Domain) -> &ShardFace {
        if self.config.pace != Pace::Lab {
            return self.shard_of(&plan.site);
        }
        let chunk = plan.handed.fetch_add(1, Ordering::Relaxed) / WORKS_A_CHUNK;
        let first = self.hasher.hash_one(domain.as_str()) as usize;
        &self.shards[first.wrapping_add(chunk.saturating_sub(LAST_CHUNK_AT_HOME)) % self.shards.len()]
    }

    /// The time since the Unix epoch: that of the start by the wall clock, and the time that has passed since.
    pub(crate) fn since_epoch(&self, now: Instant) -> Duration {
        let started = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        started + self.age(now)
    }

    /// The number of the five-minute step to which refusals count now.
    pub(crate) fn refusal_step(&self, now: Instant) -> u64 {
        step_at(self.since_epoch(now)).0
    }

    /// How long the engine has run.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// A mail server has accepted a connection from this source, or has replied on one.
    pub(crate) fn on_reached(&self, source: usize) {
        self.pool.sources[source].connections.on_reached();
    }

    /// A connection from this source to a host of `site` could not be made.
    pub(crate) fn on_not_reached(&self, source: usize, site: &str, now: Instant) {
        self.pool.sources[source].connections.on_failed(self.hasher.hash_one(site), self.age(now));
    }

    /// Answers a work with its fallback, because nothing more can be found out. If no server has spoken about it and our own
    /// network is to blame, answers with an outage.
    pub(crate) fn give_up(&self, work: Work, now: Instant) {
        let has_no_reply = matches!(work.fallback.rule, "no_connection" | "no_answer_in_time");
        let is_ours = || self.pool.sources[work.source].connections.are_to_blame(self.age(now));
        if has_no_reply && (is_ours() || planted(Fault::BlameNetwork)) {
            work.fail(Outage::Unavailable);
        } else {
            work.give_up();
        }
    }
}
