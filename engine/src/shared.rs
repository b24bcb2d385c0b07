//! What the threads of the engine share, and which shard has which domain or site.

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

/// Under `lab`, the works of one domain go to a shard in runs of this number.
const WORKS_A_RUN: usize = 500;
/// The last run that stays at the home shard of the domain, counted from 0: a short list gets no second session and no second control
/// recipient.
const LAST_RUN_AT_HOME: usize = 2;

/// The state that all threads of the engine share.
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    /// From where mail servers are asked, and whether any can be reached.
    pub(crate) pool: Pool,
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) shards: Vec<ShardFace>,
    pub(crate) hasher: Hashing,
    pub(crate) stopping: AtomicBool,
    /// Inquiries under way.
    pub(crate) inquiries: Arc<AtomicUsize>,
    /// Whether any resolver answers.
    pub(crate) resolvers: Arc<Resolvers>,
    /// Whether hosts that have IPv6 addresses can be reached at them.
    pub(crate) ipv6: bool,
    pub(crate) started: Instant,
    /// The same on the wall clock.
    pub(crate) started_at: SystemTime,
    /// The counts of refused recipients.
    pub(crate) table: Arc<RefusalTable>,
    /// Contradicted evidence that the caller has not read yet.
    pub(crate) withdrawn: Mutex<Vec<Withdrawn>>,
    /// How often a client has recalled what was under way.
    pub(crate) recalls: AtomicU64,
}

/// The part of a shard that other threads see.
pub(crate) struct ShardFace {
    pub(crate) inbox: Inbox<Message>,
    /// Milliseconds since the engine's start at the shard's last heartbeat; [`u64::MAX`] when it has ended.
    pub(crate) heartbeat: AtomicU64,
    /// Sessions that were open at that heartbeat.
    pub(crate) sessions: AtomicUsize,
    /// Works that waited for their turn at a site.
    pub(crate) queued: AtomicUsize,
    /// Answers to recipients until then.
    pub(crate) answers: AtomicU64,
    /// Processor time until then, in microseconds.
    pub(crate) busy_us: AtomicU64,
}

impl Shared {
    /// The shard that is at home for `name`: a domain or a site.
    pub(crate) fn shard_of(&self, name: &str) -> &ShardFace {
        let index = self.hasher.hash_one(name) as usize % self.shards.len();
        &self.shards[index]
    }

    /// The shard that asks a domain's hosts. A site has one owner, so that its ceiling is kept exactly and without a
    /// lock; one core can do far more than such a ceiling allows. Under `lab` there is no ceiling to keep: there the
    /// domains of a site are spread, and the works of a domain that has many of them.
    pub(crate) fn owner_of(&self, plan: &Plan, domain: &Domain) -> &ShardFace {
        if self.config.pace != Pace::Lab {
            return self.shard_of(&plan.site);
        }
        let run = plan.handed.fetch_add(1, Ordering::Relaxed) / WORKS_A_RUN;
        let first = self.hasher.hash_one(domain.as_str()) as usize;
        &self.shards[first.wrapping_add(run.saturating_sub(LAST_RUN_AT_HOME)) % self.shards.len()]
    }

    /// How long ago the Unix epoch was, by the wall clock of the start and the time since then.
    pub(crate) fn since_epoch(&self, now: Instant) -> Duration {
        let started = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        started + self.age(now)
    }

    /// The number of the step that counts refusals now.
    pub(crate) fn refusal_step(&self, now: Instant) -> u64 {
        step_at(self.since_epoch(now)).0
    }

    /// How long the engine has run.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// A mail server has replied to this source.
    pub(crate) fn on_reached(&self, source: usize) {
        self.pool.sources[source].connections.on_reached();
    }

    /// A connection from this source to a host of `site` could not be made.
    pub(crate) fn on_not_reached(&self, source: usize, site: &str, now: Instant) {
        self.pool.sources[source].connections.on_failed(self.hasher.hash_one(site), self.age(now));
    }

    /// Answers with what is known, because nothing more can be found out. If our own network is to blame, the answer is an outage.
    pub(crate) fn give_up(&self, work: Work, now: Instant) {
        let unheard = matches!(work.fallback.rule, "no_connection" | "no_answer_in_time");
        let is_ours = || self.pool.sources[work.source].connections.are_to_blame(self.age(now));
        if unheard && (is_ours() || planted(Fault::BlameNetwork)) {
            work.fail(Outage::Unavailable);
        } else {
            work.give_up();
        }
    }
}
