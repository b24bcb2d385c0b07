//! The path of an address on the home shard of its domain: what needs no server, then DNS, then off to the shard
//! that owns the site.
//!
//! One walk through DNS serves all addresses of a domain; what it found is kept for a while.

use crate::Outage;
use crate::config::EngineConfig;
use crate::runtime::Runtime;
use crate::shard::Shard;
use crate::work::{Message, Plan, Work};
use engine_proto::address::Domain;
use engine_proto::dns::mx::{Dead, MxPlan, MxSet, NoMail};
use engine_proto::dns::public::is_public;
use engine_proto::dns::{Exchange, Failure, Mx, Name, Outcome, Question, RecordKind, Records};
use engine_proto::limits::{DNS_FAILURE_TTL, KNOWN_DOMAINS_MAX, WALK_TTL};
use engine_proto::lists;
use engine_proto::verdict::Reason;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// What DNS says about where a domain's mail goes.
#[derive(Clone)]
pub(crate) enum Found {
    Hosts(Arc<Plan>),
    Dead(Dead),
}

/// The walks through DNS of a shard: known, or under way.
#[derive(Default)]
pub(crate) struct Walks {
    known: HashMap<Domain, Walk>,
    under_way: HashMap<Domain, Vec<Work>>,
}

struct Walk {
    found: Found,
    until: Instant,
    story: Rc<[String]>,
}

/// Takes an address that has come to the home shard of its domain.
pub(crate) fn resolve<R: Runtime>(shard: &Rc<Shard<R>>, work: Work) {
    if let Some(work) = needs_no_server(work, &shard.shared.config) {
        let domain = work.address.domain().clone();
        let known = shard.walks.borrow_mut().join(work);
        match known {
            Joined::Known(work, found, story) => hand_over(shard, work, &found, &story),
            Joined::First => R::spawn(walk(Rc::clone(shard), domain)),
            Joined::Waiting => {}
        }
    }
}

/// The reasons for which no mail server is contacted: decisions on the order of the reasons.
fn needs_no_server(mut work: Work, config: &EngineConfig) -> Option<Work> {
    let (local, domain) = (work.address.local(), work.address.domain().as_str());
    if config.spamtraps.matches(local, domain) {
        work.note(|| "lists: a spam trap of the operator's file".to_owned());
        work.settle(Reason::Spamtrap, "list_spamtrap");
    } else if lists::is_disposable(domain) {
        work.note(|| "lists: a disposable domain".to_owned());
        work.settle(Reason::Disposable, "list_disposable");
    } else {
        return Some(work);
    }
    None
}

/// Walks through DNS for a domain and hands over all who wait for it.
async fn walk<R: Runtime>(shard: Rc<Shard<R>>, domain: Domain) {
    let mut story = Vec::new();
    let found = match find(&shard, &domain, &mut story).await {
        Ok(set) => Found::Hosts(Arc::new(plan(&set))),
        Err(dead) => Found::Dead(dead),
    };
    let story: Rc<[String]> = story.into();
    let waiting = shard.walks.borrow_mut().end(domain, found.clone(), Rc::clone(&story));
    for work in waiting {
        hand_over(&shard, work, &found, &story);
    }
}

/// RFC 5321 5.1: the MX records, then the addresses of their hosts.
async fn find<R: Runtime>(shard: &Shard<R>, domain: &Domain, story: &mut Vec<String>) -> Result<MxSet, Dead> {
    let question = Question { name: Name::from(domain), kind: RecordKind::Mx };
    let outcome = shard.resolver.look_up(&question).await;
    story.push(tell(&question, &outcome));
    let plan = MxPlan::new(domain, &outcome, shard.random())?;
    let ipv6 = shard.shared.ipv6;
    match hosts(shard, &plan, ipv6, story).await {
        // Hosts on IPv6 alone take mail; that we cannot reach them says nothing about the domain.
        Err(Dead::TakesNoMail(NoMail::NoMailHost)) if !ipv6 => {
            let found = hosts(shard, &plan, true, story).await;
            found.and(Err(Dead::CannotTell(Failure::Unreachable)))
        }
        found => found,
    }
}

/// The addresses of a domain's hosts.
async fn hosts<R: Runtime>(
    shard: &Shard<R>,
    plan: &MxPlan,
    ipv6: bool,
    story: &mut Vec<String>,
) -> Result<MxSet, Dead> {
    let config = &shard.shared.config;
    let questions = plan.questions(ipv6);
    let outcomes = all(questions.iter().map(|question| shard.resolver.look_up(question)).collect()).await;
    story.extend(questions.iter().zip(&outcomes).map(|(question, outcome)| tell(question, outcome)));
    let known: HashMap<&Question, &Outcome> =
        questions.iter().zip(outcomes.iter().map(Arc::as_ref)).collect();
    let may_contact =
        |address: IpAddr| is_public(address) || config.allow_net.iter().any(|net| net.contains(address));
    plan.hosts(ipv6, &mut |question| known.get(question).copied(), &may_contact)
}

/// All futures at once, in their order.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

fn tell(question: &Question, outcome: &Outcome) -> String {
    let what = match outcome {
        Outcome::Records { records, ttl } => format!("{}, for {} s", list(records), ttl.as_secs()),
        Outcome::NoData { .. } => "no such record".to_owned(),
        Outcome::NxDomain { .. } => "no such name".to_owned(),
        Outcome::Failed { why, .. } => format!("failed: {}", why.as_str()),
    };
    format!("dns {} {}: {what}", question.name, kind(question.kind))
}

fn kind(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Mx => "MX",
        RecordKind::A => "A",
        RecordKind::Aaaa => "AAAA",
        RecordKind::Txt => "TXT",
        RecordKind::Ptr => "PTR",
    }
}

fn list(records: &Records) -> String {
    let exchange = |mx: &Mx| match &mx.exchange {
        Exchange::Null => format!("{} .", mx.preference),
        Exchange::Host(name) => format!("{} {name}", mx.preference),
        Exchange::Invalid => format!("{} (no host name)", mx.preference),
    };
    let words: Vec<String> = match records {
        Records::Mx(found) => found.iter().map(exchange).collect(),
        Records::A(found) => found.iter().map(ToString::to_string).collect(),
        Records::Aaaa(found) => found.iter().map(ToString::to_string).collect(),
        Records::Txt(found) => found.iter().map(|text| format!("{text:?}")).collect(),
        Records::Ptr(found) => found.iter().map(ToString::to_string).collect(),
    };
    words.join(", ")
}

/// The routes in order, and a name for the set of hosts that does not depend on how equal ones were shuffled.
fn plan(set: &MxSet) -> Plan {
    let mut names: Vec<(u16, &str)> =
        set.hosts.iter().map(|host| (host.preference, host.name.as_str())).collect();
    names.sort_unstable();
    let mut group = set.site.as_str().to_owned();
    for (preference, name) in names {
        group.push_str(&format!(" {preference}:{name}"));
    }
    let routes = set
        .hosts
        .iter()
        .flat_map(|host| host.addresses.iter().map(|&address| (Box::from(host.name.as_str()), address)));
    Plan { site: set.site.as_str().into(), group: group.into(), routes: routes.collect() }
}

/// Sends an address on to the shard that owns its site, or answers where DNS said enough.
fn hand_over<R: Runtime>(shard: &Rc<Shard<R>>, mut work: Work, found: &Found, story: &[String]) {
    if let Some(trace) = &mut work.trace {
        trace.extend(story.iter().cloned());
    }
    match found {
        Found::Dead(Dead::TakesNoMail(why)) => work.settle(Reason::MailboxNotFound, why.as_str()),
        Found::Dead(Dead::CannotTell(Failure::Timeout | Failure::Unreachable))
            if shard.resolver.is_down() =>
        {
            work.fail(Outage::Unavailable);
        }
        Found::Dead(Dead::CannotTell(why)) => {
            // By then the failure is no longer remembered, here or in the cache.
            work.leave_for_now(dns_rule(*why), DNS_FAILURE_TTL, DNS_FAILURE_TTL + Duration::from_secs(1));
            shard.give_up(work);
        }
        Found::Hosts(plan) => {
            work.leave("no_answer_in_time", None);
            let owner = shard.shared.shard_of(&plan.site);
            if let Err(Message::Probe(work, _)) = owner.inbox.push(Message::Probe(work, Arc::clone(plan))) {
                // Room was reserved with the ticket; without it there is nothing to be said.
                work.fail(Outage::Unavailable);
            }
        }
    }
}

fn dns_rule(why: Failure) -> &'static str {
    match why {
        Failure::ServFail => "dns_servfail",
        Failure::Timeout => "dns_timeout",
        Failure::Unreachable => "dns_unreachable",
        _ => "dns_failed",
    }
}

enum Joined {
    Known(Work, Found, Rc<[String]>),
    First,
    Waiting,
}

impl Walks {
    fn join(&mut self, work: Work) -> Joined {
        let domain = work.address.domain();
        if let Some(walk) = self.known.get(domain).filter(|walk| walk.until > Instant::now()) {
            return Joined::Known(work, walk.found.clone(), Rc::clone(&walk.story));
        }
        if let Some(waiting) = self.under_way.get_mut(domain) {
            waiting.push(work);
            return Joined::Waiting;
        }
        self.under_way.insert(domain.clone(), vec![work]);
        Joined::First
    }

    fn end(&mut self, domain: Domain, found: Found, story: Rc<[String]>) -> Vec<Work> {
        let now = Instant::now();
        let ttl = match found {
            Found::Dead(Dead::CannotTell(_)) => DNS_FAILURE_TTL,
            _ => WALK_TTL,
        };
        let waiting = self.under_way.remove(&domain).unwrap_or_default();
        if self.known.len() >= KNOWN_DOMAINS_MAX {
            self.known.retain(|_, walk| walk.until > now);
        }
        if self.known.len() >= KNOWN_DOMAINS_MAX {
            // All of it is fresh: the DNS cache still knows most of what is dropped here.
            self.known.clear();
        }
        self.known.insert(domain, Walk { found, until: now + ttl, story });
        waiting
    }

    /// Answers those whose time is over while they wait for DNS.
    pub(crate) fn sweep(&mut self, now: Instant) {
        for waiting in self.under_way.values_mut() {
            let (over, rest): (Vec<_>, Vec<_>) =
                std::mem::take(waiting).into_iter().partition(|work| work.deadline <= now);
            *waiting = rest;
            over.into_iter().for_each(Work::give_up);
        }
        // Nobody waits any more: whoever comes next starts a walk anew, should this one have got lost.
        self.under_way.retain(|_, waiting| !waiting.is_empty());
    }

    /// Answers all who wait: the engine stops.
    pub(crate) fn abandon(&mut self) {
        let waiting = self.under_way.drain().flat_map(|(_, waiting)| waiting);
        waiting.for_each(|work| work.fail(Outage::Stopping));
    }
}
