//! A shard: one thread, one runtime, and all that it alone owns. Nothing here takes a lock.

use crate::config::{EngineConfig, Pace};
use crate::egress::{self, Pool, rest};
use crate::faults::{Fault, planted, sometimes};
use crate::inbox::Inbox;
use crate::knowledge::Knowledge;
use crate::machine;
use crate::probe;
use crate::refusals::{RefusalBook, RefusalTable};
use crate::resolver::Resolver;
use crate::runtime::{Main, Runtime};
use crate::seed::{self, HashMap, Hashing};
use crate::session::SessionConfig;
use crate::site::{Group, Next, Site};
use crate::verify;
use crate::walk::Walks;
use crate::work::{Message, Plan, Work};
use crate::{Outage, Priority, Withdrawn};
use engine_proto::address::Domain;
use engine_proto::egress::Rests;
use engine_proto::limits::{
    GROUPS_BYTES_MAX, SHARD_CACHE_BYTES_MIN, SINGLE_RETRY_MIN, SINGLE_RETRY_SPREAD, WITHDRAWN_MAX,
};
use engine_proto::outage::Resolvers;
use engine_proto::pace::{Ceiling, Profile, SitePace, Start};
use engine_proto::verdict::Reason;
use engine_proto::verdict::catch_all::ControlShape;
use rand::RngExt;
use rand::rngs::StdRng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

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
        &self.shards[first.wrapping_add(run.saturating_sub(RUNS_AT_HOME)) % self.shards.len()]
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

    /// Answers with what is known when nothing more can be found out: with nothing, where that is our fault.
    pub(crate) fn give_up(&self, work: Work, now: Instant) {
        let unheard = matches!(work.fallback.rule, "no_connection" | "no_answer_in_time");
        if unheard && self.pool.sources[work.source].connections.are_to_blame(self.age(now)) {
            work.fail(Outage::Unavailable);
        } else {
            work.give_up();
        }
    }
}

/// Works of one domain that go to a shard in a row under `lab`, and how many runs stay at the shard that is at home for
/// the domain: a short list gets no second session and no second control recipient.
const WORKS_A_RUN: usize = 500;
const RUNS_AT_HOME: usize = 2;
/// Number of works for which a group gets one more session.
const WORKS_A_SESSION: usize = 50;
/// Interval of the search for works whose deadline has passed.
const SWEEP: Duration = Duration::from_millis(250);
/// The control recipient of a domain is the same for so long.
const DAY_S: u64 = 24 * 3600;
/// How long after a recall what turns up is answered.
const RECALL_LASTS: Duration = Duration::from_secs(5);
/// Groups without work are looked for this often.
const FORGET: Duration = Duration::from_secs(2);
/// Number of messages that are handled between two readings of the clock: some ten microseconds of work.
const MESSAGES_A_LOOK: usize = 32;
/// The shard says this often that it is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(200);

pub(crate) struct Shard<R: Runtime> {
    pub(crate) shared: Arc<Shared>,
    /// Of each source.
    pub(crate) sessions: Vec<Rc<SessionConfig>>,
    /// The sources that rest at sites of this shard.
    pub(crate) rests: RefCell<Rests>,
    pub(crate) smtp_port: u16,
    /// No session task waits longer than this for anything.
    pub(crate) session_limit: Duration,
    pub(crate) resolver: Resolver<R>,
    pub(crate) walks: RefCell<Walks>,
    pub(crate) knowledge: RefCell<Knowledge>,
    pub(crate) refusals: RefusalBook,
    /// The recalls that were seen to, and until when what still turns up is.
    recalls: Cell<(u64, Option<Instant>)>,
    /// A DKIM selector that no domain has, the same for as long as the shard lives, so that "no" is kept.
    pub(crate) selector: String,
    /// Works that begin anew, and when.
    later: RefCell<Vec<(Instant, Work)>>,
    /// Whether a request has ever asked for a trace. Before, sessions keep none.
    pub(crate) wants_traces: Cell<bool>,
    sites: RefCell<HashMap<Box<str>, Rc<Site>>>,
    groups: RefCell<HashMap<Box<str>, Rc<Group>>>,
    /// They take more memory than they should: what is idle is forgotten at once.
    is_crowded: Cell<bool>,
    /// Those of them that something waits in, by their numbers: the order of their first work.
    active: RefCell<BTreeMap<u64, Rc<Group>>>,
    numbers: Cell<u64>,
    open: Cell<usize>,
    /// Answers to recipients so far.
    pub(crate) answers: Cell<u64>,
    sessions_max: usize,
    /// Groups that may have a session but for the total.
    starved: RefCell<VecDeque<Weak<Group>>>,
    random: RefCell<StdRng>,
}

/// The main future of a shard's thread.
pub(crate) struct ShardMain {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
}

impl Main for ShardMain {
    async fn run<R: Runtime>(self) {
        let shard = Rc::new(Shard::<R>::new(Arc::clone(&self.shared), self.index));
        #[cfg(feature = "sim")]
        crate::sim::watch(&shard);
        R::spawn(housekeeping(Rc::clone(&shard), self.index));
        if self.index == 0 {
            let (resolver, shared) = (shard.resolver.clone(), Arc::clone(&self.shared));
            let with_names = !shared.config.is_on_loopback();
            R::spawn(async move { egress::look(&shared.pool, &resolver, with_names).await });
            let (resolver, shared) = (shard.resolver.clone(), Arc::clone(&self.shared));
            R::spawn(async move { machine::warn_of_silence(&resolver, &shared.config.resolvers).await });
        }
        let face = &self.shared.shards[self.index];
        'serving: loop {
            let mut next = Some(face.inbox.pop().await);
            // The clock is looked at once for what has come together.
            let now = R::now();
            let mut left = MESSAGES_A_LOOK;
            while let Some(message) = next {
                match message {
                    Message::Resolve(work) => verify::resolve(&shard, work, now),
                    Message::Probe(work, plan) => shard.probe(work, &plan, now),
                    Message::Inquire(inquiry) => verify::inquire(&shard, inquiry, now),
                    Message::Stop => break 'serving,
                }
                left -= 1;
                next = if left > 0 { face.inbox.try_pop() } else { None };
            }
        }
        shard.abandon();
        // Inquiries that are left answer for themselves when they are dropped.
        while let Some(message) = face.inbox.try_pop() {
            if let Message::Resolve(work) | Message::Probe(work, _) = message {
                work.fail(Outage::Stopping);
            }
        }
        face.heartbeat.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Heartbeat and sweep, for as long as the shard lives.
async fn housekeeping<R: Runtime>(shard: Rc<Shard<R>>, index: usize) {
    let (mut swept, mut forgot) = (R::now(), R::now());
    loop {
        let face = &shard.shared.shards[index];
        let now = R::now();
        let alive = shard.shared.age(now).as_millis() as u64;
        face.sessions.store(shard.open.get(), Ordering::Relaxed);
        face.queued.store(shard.queued(), Ordering::Relaxed);
        face.answers.store(shard.answers.get(), Ordering::Relaxed);
        if let Some(busy) = machine::thread_time() {
            face.busy_us.store(busy.as_micros() as u64, Ordering::Relaxed);
        }
        if face.heartbeat.swap(alive, Ordering::Relaxed) == u64::MAX {
            face.heartbeat.store(u64::MAX, Ordering::Relaxed);
            return;
        }
        if now.saturating_duration_since(swept) >= SWEEP {
            swept = now;
            shard.sweep(swept);
        }
        let pause = if shard.is_crowded.get() { SWEEP } else { FORGET };
        if now.saturating_duration_since(forgot) >= pause {
            forgot = now;
            shard.forget(forgot);
        }
        R::sleep(HEARTBEAT).await;
    }
}

impl<R: Runtime> Shard<R> {
    fn new(shared: Arc<Shared>, index: usize) -> Shard<R> {
        let config = &shared.config;
        let count = shared.shards.len();
        // The total is shared out exactly: the first shards take what does not divide.
        let sessions_max = config.sessions / count + usize::from(index < config.sessions % count);
        let patience = shared.pool.sources[0].dialog.patience;
        let sessions = shared.pool.sources.iter().map(|source| {
            Rc::new(SessionConfig { source: Arc::clone(source), tls: Arc::clone(&shared.tls) })
        });
        let mut random = seed::rng();
        Shard {
            selector: format!("x{:016x}", random.random::<u64>()),
            sessions: sessions.collect(),
            rests: RefCell::default(),
            smtp_port: config.smtp_port,
            session_limit: patience.banner + patience.ehlo * 3 + patience.tls + patience.mail + patience.rcpt,
            resolver: Resolver::new(config, Arc::clone(&shared.resolvers), count, shared.started),
            walks: RefCell::new(Walks::new(count)),
            knowledge: RefCell::default(),
            refusals: RefusalBook::default(),
            recalls: Cell::new((0, None)),
            later: RefCell::default(),
            wants_traces: Cell::new(false),
            sites: RefCell::default(),
            groups: RefCell::default(),
            is_crowded: Cell::new(false),
            active: RefCell::default(),
            numbers: Cell::new(0),
            open: Cell::new(0),
            answers: Cell::new(0),
            sessions_max,
            starved: RefCell::default(),
            random: RefCell::new(random),
            shared,
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn census(&self) -> crate::sim::Census {
        let groups = self.groups.borrow();
        crate::sim::Census {
            sessions: self.open.get(),
            groups: groups.len(),
            sites: self.sites.borrow().len(),
            waiting: groups.values().map(|group| group.waiting()).sum::<usize>() + self.later.borrow().len(),
        }
    }

    pub(crate) fn random(&self) -> u64 {
        self.random.borrow_mut().random()
    }

    /// Answers with what is known, or has the address begin anew where that may bring more.
    pub(crate) fn give_up(&self, mut work: Work, now: Instant) {
        match work.begin_anew(now) {
            Some(after) => self.later.borrow_mut().push((now + after, work)),
            None => self.shared.give_up(work, now),
        }
    }

    /// The delay before a single check that met a transient failure is asked about once more: within its patience, and with a random
    /// part.
    pub(crate) fn single_retry(&self) -> Duration {
        SINGLE_RETRY_MIN + SINGLE_RETRY_SPREAD.mul_f64((self.random() % 1024) as f64 / 1024.0)
    }

    /// The number of the step that counts refusals now.
    pub(crate) fn refusal_step(&self) -> u64 {
        self.shared.refusal_step(R::now())
    }

    /// A control recipient of the domain. It is the same for a day, because greylisting and address verification remember recipients,
    /// and another one in each installation. `second`: a name of another shape.
    pub(crate) fn control_recipient(&self, domain: &Domain, second: bool) -> String {
        let secret = &self.shared.config.installation;
        let day = (self.shared.since_epoch(R::now()).as_secs() / DAY_S).to_string();
        let which = if second { "second" } else { "first" };
        let hash = seed::keyed_hash(secret, &["control", domain.as_str(), &day, which]);
        let shape = ControlShape::draw(seed::keyed_hash(secret, &["control shape"]));
        let shape = if second { shape.second() } else { shape };
        format!("{}@{}", shape.local_part(hash), domain.as_str())
    }

    /// The evidence key of verdicts that rest on the behaviour of a host towards a domain.
    pub(crate) fn evidence_key(&self, domain: &Domain, host: &str) -> u64 {
        seed::keyed_number(&self.shared.config.installation, &["evidence", domain.as_str(), host])
    }

    /// Verdicts that rest on this evidence are not to be used again.
    pub(crate) fn withdraw(&self, evidence: u64) {
        let at = SystemTime::UNIX_EPOCH + self.shared.since_epoch(R::now());
        let mut withdrawn = self.shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        if withdrawn.len() < WITHDRAWN_MAX {
            withdrawn.push(Withdrawn { evidence, at });
        }
    }

    /// Answers all works of the group if the budget of refusals is used up; true if so.
    pub(crate) fn answer_if_over_budget(&self, group: &Group, now: Instant) -> bool {
        let Some(refusals) = &group.refusals else { return false };
        if !refusals.is_used_up(self.shared.refusal_step(now)) {
            return false;
        }
        let wait = refusals.wait(self.shared.since_epoch(now));
        for other in self.groups_of(&group.site_name, group.source.get()) {
            other.take_expired(None).into_iter().for_each(|work| work.fail(Outage::OverBudget(wait)));
        }
        true
    }

    /// Answers the works that their client has recalled. A work between two queues appears within seconds.
    fn answer_recalled(&self, now: Instant) {
        let recalls = self.shared.recalls.load(Ordering::SeqCst);
        let (seen, until) = self.recalls.get();
        if recalls != seen {
            self.recalls.set((recalls, Some(now + RECALL_LASTS)));
        } else if until.is_none_or(|until| until <= now) {
            return;
        }
        let groups: Vec<_> = self.active.borrow().values().cloned().collect();
        let works = groups.iter().flat_map(|group| {
            let mut works = group.take_where(Work::is_recalled);
            works.extend(group.take_waiting(Work::is_taken_back));
            works
        });
        works.for_each(|work| self.shared.give_up(work, now));
        let later: Vec<_> =
            self.later.borrow_mut().extract_if(.., |(_, work)| work.is_taken_back()).collect();
        later.into_iter().for_each(|(_, work)| self.shared.give_up(work, now));
        verify::answer_recalled(self);
    }

    /// Sends works that are due for another try to the home shard of their domain.
    fn begin_anew(&self, now: Instant) {
        let due: Vec<_> = self.later.borrow_mut().extract_if(.., |(at, _)| *at <= now).collect();
        for (_, work) in due {
            let home = self.shared.shard_of(work.address.domain().as_str());
            if let Err(Message::Resolve(work)) = home.inbox.push(Message::Resolve(work)) {
                // Room was reserved with the ticket.
                work.give_up();
            }
        }
    }

    /// Puts work into its group's queue.
    fn probe(self: &Rc<Self>, mut work: Work, plan: &Plan, now: Instant) {
        self.wants_traces.set(self.wants_traces.get() || work.trace.is_some());
        let Some(group) = self.group(plan, now) else {
            return work.settle(Reason::Unverifiable, "no_source");
        };
        work.source = group.source.get();
        let Some(work) = rest::unless_rested(self, &group, work, now) else { return };
        let source = &self.shared.pool.sources[work.source];
        let (connections, time) = (&source.connections, self.shared.age(now));
        let down = connections.are_down(time);
        if down && !connections.may_try(time) {
            return work.fail(Outage::Unavailable);
        }
        // Failures that were counted for the hosts during an outage may have had that cause.
        if group.outages.replace(connections.ended()) != connections.ended() || down {
            group.lift("no_connection");
        }
        let Some(mut work) = self.answer_if_known_catch_all(&group, work, now) else { return };
        group.pass_over_shut(&mut work, now);
        if work.priority == Priority::Single && group.is_hopeless(now) {
            let until = group.site.pace.borrow().pause(now).unwrap_or(now);
            return probe::pushed_away(work, group.site.pushed.get(), until, now);
        }
        match group.site.admit(work, self.shared.config.tickets_max, now) {
            Ok(work) => group.enqueue(work),
            Err(work) => return work.fail(Outage::SiteFull),
        }
        if self.answer_if_over_budget(&group, now) {
            return;
        }
        self.active.borrow_mut().entry(group.number).or_insert_with(|| Rc::clone(&group));
        // It is known already that the host is down, so the works are answered at once.
        if group.next(now) == Next::Nothing {
            group.take_unroutable(now).into_iter().for_each(|work| self.shared.give_up(work, now));
        }
        self.dispatch(&group, now);
    }

    /// Answers a work where that needs no question: the host that would be asked is known to accept everyone.
    fn answer_if_known_catch_all(&self, group: &Group, work: Work, now: Instant) -> Option<Work> {
        if !group.catch_alls.get() || work.address.needs_smtputf8() {
            return Some(work);
        }
        match group.first_open(now) {
            Some(route) => self.answer_if_known_catch_all_at(&route.host, work, now),
            None => Some(work),
        }
    }

    /// As [`Shard::answer_if_known_catch_all`], at this host.
    pub(crate) fn answer_if_known_catch_all_at(
        &self,
        host: &Rc<str>,
        mut work: Work,
        now: Instant,
    ) -> Option<Work> {
        if !self.knowledge.borrow().needs_no_question(&work, host, now) {
            return Some(work);
        }
        work.note(|| format!("control recipient: {host} accepted it earlier, so mailprobe asks nothing"));
        let evidence = Some(self.evidence_key(work.address.domain(), host));
        work.settle_at(host, Reason::CatchAll, "control_remembered", evidence);
        None
    }

    /// The group of a plan; `None` where no source reaches any of its hosts.
    fn group(&self, plan: &Plan, now: Instant) -> Option<Rc<Group>> {
        if let Some(group) = self.groups.borrow().get(&plan.group) {
            return Some(Rc::clone(group));
        }
        let index = self.shared.pool.choose(&plan.site, plan.routes.iter().map(|route| route.address))?;
        let source = &self.shared.pool.sources[index];
        let plan = &plan.with_routes(|address| source.serves(address));
        let mut sites = self.sites.borrow_mut();
        let site = sites.entry(plan.site.clone()).or_insert_with(|| {
            let profile: Profile = self.shared.config.pace.into();
            let pace = SitePace::new(Ceiling::of(profile, &plan.site), now);
            Rc::new(Site::new(pace))
        });
        let number = self.numbers.replace(self.numbers.get() + 1);
        let budget = site.pace.borrow().ceiling().refusals;
        let step = self.shared.refusal_step(now);
        let refusals = self.refusals.of(&self.shared, &plan.site, index, budget, step);
        let group = Rc::new(Group::new(plan, Rc::clone(site), refusals, number, now));
        group.source.set(index);
        self.groups.borrow_mut().insert(plan.group.clone(), Rc::clone(&group));
        Some(group)
    }

    /// The groups of a site that are asked from this source.
    pub(crate) fn groups_of(&self, site: &str, source: usize) -> Vec<Rc<Group>> {
        let its = |group: &&Rc<Group>| *group.site_name == *site && group.source.get() == source;
        self.groups.borrow().values().filter(its).cloned().collect()
    }

    /// Starts sessions for a group as its work wants and its site, the total and its routes allow.
    pub(crate) fn dispatch(self: &Rc<Self>, group: &Rc<Group>, now: Instant) {
        let site = &group.site;
        loop {
            if !group.wants_session(WORKS_A_SESSION, now) {
                return;
            }
            match group.next(now) {
                Next::Route(_) => {}
                Next::Rest(until) => return self.wait(group, until),
                Next::Nothing => return,
            }
            if group.refusal_room(self.shared.refusal_step(now)) == 0 {
                // Recipients under way may make room when they are answered. The end of a session of this run wakes the group;
                // for those of other runs `sweep` looks again.
                if !self.answer_if_over_budget(group, now) {
                    queue(&site.waiting, group);
                }
                return;
            }
            let start = {
                let mut pace = site.pace.borrow_mut();
                pace.share_among(self.shared.config.egress_nodes.load(Ordering::Relaxed), now);
                pace.may_start(now, site.open.get())
            };
            let Some(start) = mistaken(start, group) else { return };
            match start {
                Start::Now => {}
                Start::At(until) => return self.wait(group, until),
                Start::WhenOneEnds => return queue(&site.waiting, group),
            }
            if self.open.get() >= self.sessions_max {
                return queue(&self.starved, group);
            }
            site.pace.borrow_mut().on_started();
            let seat = Seat::take(self, group);
            let (shard, group) = (Rc::clone(self), Rc::clone(group));
            R::spawn(async move {
                let _seat = seat;
                probe::serve(&shard, &group).await;
            });
        }
    }

    /// Looks at a group's site again at `until`.
    fn wait(self: &Rc<Self>, group: &Rc<Group>, until: Instant) {
        let site = Rc::clone(&group.site);
        queue(&site.waiting, group);
        if site.timer.get().is_some_and(|at| at <= until) {
            return;
        }
        site.timer.set(Some(until));
        let shard = Rc::clone(self);
        R::spawn(async move {
            R::sleep(until.saturating_duration_since(R::now())).await;
            if site.timer.get() == Some(until) {
                site.timer.set(None);
            }
            shard.wake(&site.waiting);
        });
    }

    /// Dispatches the groups that were queued when it began, each once.
    fn wake(self: &Rc<Self>, queue: &RefCell<VecDeque<Weak<Group>>>) {
        let queued = std::mem::take(&mut *queue.borrow_mut());
        let groups: Vec<_> = queued.iter().filter_map(Weak::upgrade).collect();
        groups.iter().for_each(|group| group.leave_session_queue());
        groups.iter().for_each(|group| self.dispatch(group, R::now()));
    }

    /// Whether another group waits for a session that `group` could give up.
    pub(crate) fn is_crowded(&self, group: &Rc<Group>) -> bool {
        let another = |other: &Weak<Group>| {
            other.upgrade().is_some_and(|other| !Rc::ptr_eq(&other, group) && other.waiting() > 0)
        };
        self.starved.borrow().iter().any(another) || group.site.waiting.borrow().iter().any(another)
    }

    /// Works that wait for their turn at a site.
    fn queued(&self) -> usize {
        self.active.borrow().values().map(|group| group.waiting()).sum()
    }

    /// An empty trace for a session, if any request asked for one.
    pub(crate) fn trace(&self) -> Option<Vec<String>> {
        self.wants_traces.get().then(Vec::new)
    }

    /// Adds the trace of a session that failed to the works that wait in its group.
    pub(crate) fn add_trace(&self, group: &Group, trace: Option<Vec<String>>) {
        if let Some(trace) = trace {
            group.add_trace(&trace);
        }
    }

    /// A session has ended: one that was refused for the total may begin.
    fn wake_starved(self: &Rc<Self>) {
        while self.open.get() < self.sessions_max {
            let Some(group) = self.starved.borrow_mut().pop_front() else { return };
            if let Some(group) = group.upgrade() {
                group.leave_session_queue();
                self.dispatch(&group, R::now());
            }
        }
    }

    fn sweep(self: &Rc<Self>, now: Instant) {
        if planted(Fault::AnswerLate) {
            return;
        }
        self.active.borrow_mut().retain(|_, group| group.is_active());
        for group in self.active.borrow().values() {
            group.take_expired(Some(now)).into_iter().for_each(|work| self.shared.give_up(work, now));
        }
        verify::sweep(self, now);
        self.begin_anew(now);
        self.answer_recalled(now);
        // Time alone may have earned them another session.
        let wants = |group: &&Rc<Group>| group.wants_session(WORKS_A_SESSION, now);
        let wanting: Vec<Rc<Group>> = self.active.borrow().values().filter(wants).cloned().collect();
        wanting.iter().for_each(|group| self.dispatch(group, now));
    }

    /// Drops the groups and sites that had no work for a while.
    fn forget(&self, now: Instant) {
        rest::count_ended(self, now);
        if planted(Fault::LeakGroup) {
            return;
        }
        let mut groups = self.groups.borrow_mut();
        let room = (GROUPS_BYTES_MAX / self.shared.shards.len()).max(SHARD_CACHE_BYTES_MIN);
        let is_crowded = groups.values().map(|group| group.bytes()).sum::<usize>() > room;
        self.is_crowded.set(is_crowded);
        groups.retain(|_, group| !group.is_forgotten(now, is_crowded));
        drop(groups);
        self.walks.borrow_mut().forget(now);
        self.refusals.forget(self.shared.refusal_step(now));
        // A site is kept as long as a group of it.
        self.sites.borrow_mut().retain(|_, site| Rc::strong_count(site) > 1);
    }

    /// Answers all that is under way: the engine stops.
    fn abandon(&self) {
        for group in self.active.borrow().values() {
            group.take_expired(None).into_iter().for_each(|work| work.fail(Outage::Stopping));
        }
        self.later.take().into_iter().for_each(|(_, work)| work.fail(Outage::Stopping));
        self.walks.borrow_mut().abandon();
    }
}

pub(crate) fn queue(queue: &RefCell<VecDeque<Weak<Group>>>, group: &Rc<Group>) {
    if group.queue_for_session() {
        queue.borrow_mut().push_back(Rc::downgrade(group));
    }
}

/// When a session may begin, where a defect in that is planted; `None`: never.
fn mistaken(start: Start, group: &Group) -> Option<Start> {
    match start {
        Start::WhenOneEnds if planted(Fault::IgnoreSessions) => Some(Start::Now),
        Start::At(_) if planted(Fault::IgnoreStarts) => Some(Start::Now),
        _ if planted(Fault::StarveSite) && group.site_name.bytes().map(u32::from).sum::<u32>() % 8 == 0 => {
            None
        }
        start => Some(start),
    }
}

/// A place among the open sessions; given back when its task ends, however it ends.
struct Seat<R: Runtime> {
    shard: Rc<Shard<R>>,
    group: Rc<Group>,
}

impl<R: Runtime> Seat<R> {
    fn take(shard: &Rc<Shard<R>>, group: &Rc<Group>) -> Seat<R> {
        shard.open.set(shard.open.get() + 1);
        group.site.open.set(group.site.open.get() + 1);
        group.on_session_opened(R::now());
        Seat { shard: Rc::clone(shard), group: Rc::clone(group) }
    }
}

impl<R: Runtime> Drop for Seat<R> {
    fn drop(&mut self) {
        let (shard, group) = (&self.shard, &self.group);
        shard.open.set(shard.open.get() - 1);
        group.site.open.set(group.site.open.get() - 1);
        group.on_session_closed(R::now());
        if sometimes(Fault::LeakTask) {
            R::spawn(std::future::pending());
        }
        if shard.shared.stopping.load(Ordering::Relaxed) {
            return;
        }
        shard.dispatch(group, R::now());
        shard.wake(&group.site.waiting);
        shard.wake_starved();
    }
}
