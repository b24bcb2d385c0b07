//! Gathers the DNS facts of a domain ([`DnsFacts`]). If DNS gives no answer for the mail hosts, SPF or DMARC, there are no facts.
//! If it gives none for the other records, these count as absent.

use crate::inquiry::Responder;
use crate::resolution::Resolution;
use crate::resolver::all;
use crate::runtime::Runtime;
use crate::walk::walk;
use crate::walks::Found;
use engine_proto::address::Domain;
use engine_proto::dns::mx::{Dead, MxPlan};
use engine_proto::dns::{Name, Outcome, Question, RecordKind};
use engine_proto::facts::{
    DKIM_SELECTORS, Dmarc, DmarcPolicy, DnsFacts, dmarc, has_bimi, has_dkim_key, has_spf, organizational,
    texts,
};
use engine_proto::limits::DNS_BURST_MAX;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Answers with the facts of a domain, or with `None` if DNS has not answered for the required ones before `deadline`.
pub(crate) async fn answer<R: Runtime>(
    resolution: Rc<Resolution<R>>,
    domain: Domain,
    responder: Responder<Option<DnsFacts>>,
    deadline: Instant,
) {
    let required = R::before(deadline, required(&resolution, &domain)).await.flatten();
    responder.answer(Ok(match required {
        Some((facts, first_host)) => Some(optional(&resolution, &domain, facts, first_host, deadline).await),
        None => None,
    }));
}

/// Looks up the required facts (mail hosts, SPF, DMARC), and the address of the first mail host that this machine can reach, if
/// there is one. `None` if DNS gave no answer for one of the required facts.
async fn required<R: Runtime>(
    resolution: &Resolution<R>,
    domain: &Domain,
) -> Option<(DnsFacts, Option<IpAddr>)> {
    let (found, _) = walk(resolution, domain, true).await;
    let first_host = match &found {
        Found::Hosts(plan) => plan.routes.first().map(|route| route.address),
        Found::OutOfReach | Found::Dead(Dead::TakesNoMail(_)) => None,
        Found::Dead(Dead::CannotTell(_)) => return None,
    };
    let spf = ask(resolution, Name::from(domain)).await;
    let mut facts = DnsFacts {
        spf: has_spf(texts(&spf)?),
        dmarc_policy: dmarc_policy(resolution, domain).await?,
        ..DnsFacts::default()
    };
    if !matches!(found, Found::Dead(_)) {
        let question = Question { name: Name::from(domain), kind: RecordKind::Mx };
        // The walk has just asked this, so the answer is nearly always in the cache. `listed` orders the hosts by preference and
        // name, because a walk shuffles hosts of equal preference.
        let plan = MxPlan::new(domain, &*resolution.resolver.look_up(&question, true).await, 0).ok()?;
        facts.service = found.service();
        facts.provider = Some(plan.site().provider());
        facts.mx_hosts = plan.listed().into_iter().map(|host| host.as_str().into()).collect();
    }
    Some((facts, first_host))
}

/// The DMARC policy by RFC 7489 6.6.3: from the domain's own record, or else from the record of its organizational domain, which
/// may have a separate policy for subdomains. The outer `None` means that DNS gave no answer, the inner one that there is no
/// policy.
async fn dmarc_policy<R: Runtime>(
    resolution: &Resolution<R>,
    domain: &Domain,
) -> Option<Option<DmarcPolicy>> {
    let record = async |domain: &Domain| -> Option<Dmarc> {
        match Name::under("_dmarc", domain) {
            Some(name) => texts(&*ask(resolution, name).await).map(dmarc),
            None => Some(Dmarc::Absent),
        }
    };
    if let Dmarc::Record { own, .. } = record(domain).await? {
        return Some(own);
    }
    match organizational(domain) {
        Some(organization) => match record(&organization).await? {
            Dmarc::Record { below, .. } => Some(below),
            Dmarc::Absent => Some(None),
        },
        None => Some(None),
    }
}

/// Adds the other facts: BIMI, the reverse name (PTR) of the first mail host's address, and DKIM.
async fn optional<R: Runtime>(
    resolution: &Resolution<R>,
    domain: &Domain,
    mut facts: DnsFacts,
    first_host: Option<IpAddr>,
    deadline: Instant,
) -> DnsFacts {
    // If a zone has a DKIM key even for this selector, which does not exist, the zone has a wildcard, and keys prove nothing.
    let unused = format!("{}._domainkey", resolution.selector);
    let names = [
        Name::under("default._bimi", domain),
        organizational(domain).and_then(|organization| Name::under("default._bimi", &organization)),
        Name::under(&unused, domain),
    ];
    let ptr = first_host.map(|address| Question { name: Name::reverse(address), kind: RecordKind::Ptr });
    let questions: Vec<_> = names.into_iter().map(|name| name.map(text_at)).chain([ptr]).collect();
    let outcomes = burst(resolution, questions, deadline).await;
    let [bimi, organization_bimi, unused, ptr] = outcomes.as_slice() else { return facts };
    let read = |outcome: &Option<Arc<Outcome>>| outcome.as_deref().and_then(texts).map(<[_]>::to_vec);
    let indicator = |outcome| read(outcome).and_then(|texts| has_bimi(&texts));
    facts.bimi = indicator(bimi).or_else(|| indicator(organization_bimi)).unwrap_or(false);
    facts.ptr = matches!(ptr.as_deref(), Some(Outcome::Records { .. }));
    // Without an answer for the unused selector, a wildcard is possible.
    if read(unused).is_some_and(|texts| !has_dkim_key(&texts)) {
        let name = |selector: &&str| Name::under(&format!("{selector}._domainkey"), domain).map(text_at);
        let outcomes = burst(resolution, DKIM_SELECTORS.iter().map(name).collect(), deadline).await;
        let has_key = |outcome| read(outcome).is_some_and(|texts| has_dkim_key(&texts));
        let found = DKIM_SELECTORS.into_iter().zip(&outcomes).filter(|(_, outcome)| has_key(outcome));
        facts.dkim_selectors = found.map(|(selector, _)| selector).collect();
    }
    facts
}

fn text_at(name: Name) -> Question {
    Question { name, kind: RecordKind::Txt }
}

/// Looks up TXT records.
async fn ask<R: Runtime>(resolution: &Resolution<R>, name: Name) -> Arc<Outcome> {
    resolution.resolver.look_up(&text_at(name), true).await
}

/// Asks up to [`DNS_BURST_MAX`] questions at a time, and returns the outcomes in the same order. An outcome is `None` if there was
/// no question, or no answer before `deadline`.
async fn burst<R: Runtime>(
    resolution: &Resolution<R>,
    questions: Vec<Option<Question>>,
    deadline: Instant,
) -> Vec<Option<Arc<Outcome>>> {
    let mut outcomes = Vec::with_capacity(questions.len());
    for some in questions.chunks(DNS_BURST_MAX) {
        let asked = some.iter().map(async |question| match question {
            Some(question) => R::before(deadline, resolution.resolver.look_up(question, true)).await,
            None => None,
        });
        outcomes.extend(all(asked.collect()).await);
    }
    outcomes
}
