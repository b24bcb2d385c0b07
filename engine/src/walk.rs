//! The walk through DNS from a domain to the addresses of its mail hosts.

use crate::resolution::Resolution;
use crate::resolver;
use crate::runtime::Runtime;
use crate::seed::HashMap;
use crate::shared::Shared;
use crate::walks::Found;
use crate::work::{Plan, PlannedRoute};
use engine_proto::address::Domain;
use engine_proto::dns::mx::{Dead, MxPlan, MxSet, NoMail};
use engine_proto::dns::public::is_public;
use engine_proto::dns::{Exchange, Failure, Mx, Name, Outcome, Question, RecordKind, Records};
use engine_proto::lists::MailService;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Walks through DNS for a domain. Returns the result and the trace. The trace is empty unless traces are wanted.
pub(crate) async fn walk<R: Runtime>(
    resolution: &Resolution<R>,
    domain: &Domain,
    urgent: bool,
) -> (Found, Vec<String>) {
    let mut trace = Vec::new();
    let found = find(resolution, domain, urgent, &mut trace).await.unwrap_or_else(Found::Dead);
    (found, trace)
}

/// Looks up the MX records, and then the addresses of the hosts (RFC 5321 5.1). If the domain has no MX records, the domain itself
/// is the host. If the resolvers then contradict each other about its addresses, the MX records are looked up once more, at other
/// resolvers. If the domain has no address, the MX records are looked up once more at each resolver.
async fn find<R: Runtime>(
    resolution: &Resolution<R>,
    domain: &Domain,
    urgent: bool,
    trace: &mut Vec<String>,
) -> Result<Found, Dead> {
    let question = Question { name: Name::from(domain), kind: RecordKind::Mx };
    let outcome = resolution.resolver.look_up(&question, urgent).await;
    if resolution.common.wants_traces() {
        trace.push(describe(&question, &outcome));
    }
    let plan = MxPlan::new(domain, &outcome, resolution.common.random())?;
    let found = addresses(resolution, &plan, urgent, trace).await;
    // A filter that falsifies the addresses of a name also denies its other records. So if the addresses are in doubt, the denial
    // of MX records is not kept in the cache.
    let is_denied = matches!(found, Err(Dead::CannotTell(Failure::Unproven)));
    let dispute = if plan.is_implicit() { resolution.resolver.take_dispute(&question.name) } else { None };
    if plan.is_implicit() && (is_denied || dispute.is_some()) {
        resolution.resolver.forget_no_data(&question);
    }
    let takes_no_mail = matches!(found, Err(Dead::TakesNoMail(NoMail::NoMailHost)));
    let outcome = match dispute.filter(|_| !is_denied) {
        // Another resolver gave a credible answer about the addresses, and perhaps knows MX records. Even if that resolver is slow,
        // the resolvers that denied the addresses are not asked.
        Some(denied_by) => Some(resolution.resolver.look_up_without(&question, &denied_by).await),
        // Perhaps one resolver denied the MX records falsely, while another one said truthfully that the domain itself has no
        // address.
        None if plan.is_implicit() && takes_no_mail => resolution.resolver.look_up_at_each(&question).await,
        None => None,
    };
    let Some(outcome) = outcome else { return found };
    if resolution.common.wants_traces() {
        trace.push(describe(&question, &outcome));
    }
    let plan = MxPlan::new(domain, &outcome, resolution.common.random())?;
    addresses(resolution, &plan, urgent, trace).await
}

/// Looks up the addresses of the hosts, and makes the plan of the domain. If all addresses are IPv6 addresses and we cannot use
/// IPv6, the hosts are out of reach.
async fn addresses<R: Runtime>(
    resolution: &Resolution<R>,
    plan: &MxPlan,
    urgent: bool,
    trace: &mut Vec<String>,
) -> Result<Found, Dead> {
    let ipv6 = resolution.common.shared.ipv6;
    match hosts(resolution, plan, (ipv6, urgent), trace).await {
        // Hosts with only IPv6 addresses do take mail. We cannot reach them, but that says nothing about the domain.
        Err(Dead::TakesNoMail(NoMail::NoMailHost)) if !ipv6 => {
            hosts(resolution, plan, (true, urgent), trace).await.map(|_| Found::OutOfReach)
        }
        found => found.map(|set| Found::Hosts(Arc::new(self::plan(&set, &resolution.common.shared)))),
    }
}

/// Looks up the IPv4 addresses of the hosts, and also their IPv6 addresses if `ipv6` is true.
async fn hosts<R: Runtime>(
    resolution: &Resolution<R>,
    plan: &MxPlan,
    (ipv6, urgent): (bool, bool),
    trace: &mut Vec<String>,
) -> Result<MxSet, Dead> {
    let config = &resolution.common.shared.config;
    let questions = plan.questions(ipv6);
    let outcomes = resolver::all(
        questions.iter().map(|question| resolution.resolver.look_up(question, urgent)).collect(),
    )
    .await;
    let may_contact =
        |address: IpAddr| is_public(address) || config.allow_net.iter().any(|net| net.contains(address));
    if resolution.common.wants_traces() {
        trace.extend(questions.iter().zip(&outcomes).map(|(question, outcome)| describe(question, outcome)));
        let private =
            outcomes.iter().flat_map(|outcome| resolver::addresses(outcome)).filter(|it| !may_contact(*it));
        trace.extend(private.map(|address| {
            format!("{address} is not a public address, so it is not contacted; --allow-net allows it")
        }));
    }
    let known: HashMap<&Question, &Outcome> =
        questions.iter().zip(outcomes.iter().map(Arc::as_ref)).collect();
    plan.hosts(ipv6, &mut |question| known.get(question).copied(), &may_contact)
}

fn describe(question: &Question, outcome: &Outcome) -> String {
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

/// The plan of a domain: its routes in the order of preference, and the hash of a name for its set of hosts. This name consists of
/// the site, and of the names and preferences of the hosts. If an address identifies the site, each domain may have its own names
/// for the same hosts. Then the name consists of the site and the hosts' addresses, grouped by preference. It does not depend on
/// the order of hosts with equal preference.
fn plan(set: &MxSet, shared: &Shared) -> Plan {
    let mut group = set.site.as_str().to_owned();
    if set.by_address {
        let mut addresses: Vec<(u16, &IpAddr)> = set
            .hosts
            .iter()
            .flat_map(|host| host.addresses.iter().map(|address| (host.preference, address)))
            .collect();
        addresses.sort_unstable();
        for equal in addresses.chunk_by(|a, b| a.0 == b.0) {
            group.push_str(" |");
            equal.iter().for_each(|(_, address)| group.push_str(&format!(" {address}")));
        }
    } else {
        let mut names: Vec<(u16, &str)> =
            set.hosts.iter().map(|host| (host.preference, host.name.as_str())).collect();
        names.sort_unstable();
        names.iter().for_each(|(preference, name)| group.push_str(&format!(" {preference}:{name}")));
    }
    let routes = set.hosts.iter().flat_map(|host| {
        let route = |&address: &IpAddr| PlannedRoute {
            host: host.name.as_str().into(),
            preference: host.preference,
            address,
        };
        host.addresses.iter().map(route)
    });
    Plan {
        site: set.site.as_str().into(),
        site_hash: shared.hash_of(set.site.as_str()),
        group: shared.hash_of(&group),
        routes: routes.collect(),
        service: MailService::of(set),
        handed: AtomicUsize::new(0),
    }
}
