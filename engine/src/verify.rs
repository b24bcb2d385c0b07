//! The path of an address on its home shard, which makes the DNS look-ups of its domain. First, one of mailprobe's lists, such as
//! that of disposable domains, may decide about the address. Otherwise DNS is asked, and then the address is sent to the shard that
//! owns the site. Inquiries (questions about a domain that DNS alone answers) begin here too, and end after DNS.

use crate::config::EngineConfig;
use crate::facts;
use crate::inquiry::{Inquiry, MailHosts, Responder};
use crate::resolution::Resolution;
use crate::runtime::Runtime;
use crate::walk::walk;
use crate::walks::{Found, Joined, Waiter};
use crate::work::{DNS_TIMEOUT, DNS_UNREACHABLE, Message, Work};
use crate::{Outage, Priority};
use engine_proto::address::Domain;
use engine_proto::dns::mx::Dead;
use engine_proto::dns::{Failure, ttl};
use engine_proto::limits::{DNS_FAILURE_TTL, ROUTE_DOWN, SINGLE_DNS_RETRY_MAX, WALK_FRESH};
use engine_proto::lists::{Disposable, Listing, MailService};
use engine_proto::verdict::Reason;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Takes a work (an address in the engine) that has arrived at the home shard of its domain.
pub(crate) fn resolve<R: Runtime>(resolution: &Rc<Resolution<R>>, work: Work, now: Instant) {
    resolution.common.on_work(&work);
    if let Some(work) = needs_no_server(work, &resolution.common.shared.config) {
        let (domain, hash) = (work.address.domain().clone(), work.domain_hash);
        join(resolution, (domain, hash), Waiter::Address(work), now);
    }
}

/// Takes an inquiry that has arrived at the home shard of its domain.
pub(crate) fn inquire<R: Runtime>(resolution: &Rc<Resolution<R>>, inquiry: Inquiry, now: Instant) {
    match inquiry {
        Inquiry::MailHosts(domain, responder, deadline) => {
            let hash = resolution.common.shared.hash_of(domain.as_str());
            join(resolution, (domain, hash), Waiter::Domain { responder, deadline }, now);
        }
        Inquiry::Facts(domain, responder, deadline) => {
            R::spawn(facts::answer(Rc::clone(resolution), domain, responder, deadline));
        }
    }
}

/// Answers the work if its address is a spam trap, or if the lists of names alone show that its domain is disposable. Returns any
/// other address, and notes what the lists say about it.
fn needs_no_server(mut work: Work, config: &EngineConfig) -> Option<Work> {
    let (local, domain) = (work.address.local(), work.address.domain().as_str());
    let lists = config.lists.get();
    if lists.is_spam_trap(local, domain) {
        work.note(|| "lists: a spam trap of the operator's file".to_owned());
        work.settle(Reason::Spamtrap, "list_spamtrap");
        return None;
    }
    let (listing, role) = (lists.listing(domain), lists.is_role(local));
    (work.listing, work.role) = (listing, role);
    match listing.settled() {
        Some(why) => {
            settle_as_disposable(work, why);
            None
        }
        None => Some(work),
    }
}

fn settle_as_disposable(mut work: Work, why: Disposable) {
    work.note(|| format!("lists: a disposable domain ({})", why.sources().join(", ")));
    work.settle(Reason::Disposable, why.rule());
}

/// Hands the result of the domain's walk to the waiter if the result is known. Otherwise the waiter waits for the walk, which is
/// started if necessary. If too many others are already waiting, a patient work is answered at once.
fn join<R: Runtime>(
    resolution: &Rc<Resolution<R>>,
    (domain, hash): (Domain, u64),
    waiter: Waiter,
    now: Instant,
) {
    let joined = resolution.walks.borrow_mut().join(&domain, hash, waiter, now);
    match joined {
        Joined::Known(waiter, found, trace) => hand_over(resolution, waiter, &found, &trace),
        Joined::Begins { urgent } => R::spawn(serve(Rc::clone(resolution), domain, urgent)),
        Joined::Waiting => {}
        Joined::SiteFull(waiter) => waiter.fail(Outage::SiteFull),
    }
}

/// Walks through DNS for a domain, and hands the result to all waiters.
async fn serve<R: Runtime>(resolution: Rc<Resolution<R>>, domain: Domain, urgent: bool) {
    let place = FreshPlace(Rc::clone(&resolution));
    let mut lost = LostWalk { resolution: Rc::clone(&resolution), domain: Some(domain.clone()) };
    let (found, trace) = {
        let mut walk = pin!(walk(&resolution, &domain, urgent));
        match R::before(R::now() + WALK_FRESH, walk.as_mut()).await {
            Some(found) => found,
            None => {
                // The walk is no longer fresh, so the next queued one may begin.
                drop(place);
                walk.await
            }
        }
    };
    lost.domain = None;
    let trace: Rc<[String]> = trace.into();
    let hash = resolution.common.shared.hash_of(domain.as_str());
    let waiting =
        resolution.walks.borrow_mut().end((domain, hash), found.clone(), Rc::clone(&trace), R::now());
    for waiter in waiting {
        hand_over(&resolution, waiter, &found, &trace);
    }
}

/// The place of a walk among the fresh ones, which began less than [`WALK_FRESH`] ago. Queued walks begin only while few walks are
/// fresh. When this guard is dropped, even by a panic, the next queued walk may begin.
struct FreshPlace<R: Runtime>(Rc<Resolution<R>>);

impl<R: Runtime> Drop for FreshPlace<R> {
    fn drop(&mut self) {
        let another = self.0.walks.borrow_mut().another();
        if let Some(domain) = another {
            R::spawn(serve(Rc::clone(&self.0), domain, false));
        }
    }
}

/// Answers those that wait for the walk of this domain if its task ends without a result: by a panic, or with the shard. The next
/// work of the domain starts a new walk.
struct LostWalk<R: Runtime> {
    resolution: Rc<Resolution<R>>,
    domain: Option<Domain>,
}

impl<R: Runtime> Drop for LostWalk<R> {
    fn drop(&mut self) {
        let Some(domain) = &self.domain else { return };
        let waiting = self.resolution.walks.borrow_mut().lose(domain);
        waiting.into_iter().for_each(|waiter| waiter.fail(Outage::Stopping));
    }
}

/// Answers the works and inquiries that have waited for DNS until their deadlines.
pub(crate) fn sweep<R: Runtime>(resolution: &Resolution<R>, now: Instant) {
    let expired = resolution.walks.borrow_mut().take_expired(now);
    for waiter in expired {
        match waiter {
            Waiter::Address(work) => match work.listing.at(MailService::Unknown) {
                Some(why) => settle_as_disposable(work, why),
                None => resolution.common.shared.give_up(work, now),
            },
            Waiter::Domain { responder, .. } => responder.answer(cannot_tell(resolution)),
        }
    }
}

/// Answers the works that wait for DNS if their clients have recalled them or are draining.
pub(crate) fn answer_recalled<R: Runtime>(resolution: &Resolution<R>, now: Instant) {
    let recalled = resolution.walks.borrow_mut().take_recalled();
    recalled.into_iter().for_each(|work| resolution.common.shared.give_up(work, now));
}

/// Passes the result of a walk to one waiter.
fn hand_over<R: Runtime>(resolution: &Rc<Resolution<R>>, waiter: Waiter, found: &Found, trace: &[String]) {
    match waiter {
        Waiter::Address(work) => send_on(resolution, work, found, trace),
        Waiter::Domain { responder, .. } => answer_mail_hosts(resolution, responder, found),
    }
}

/// Sends a work on to the shard that owns its site. If no host can be asked, answers the work or lets it wait for another try.
fn send_on<R: Runtime>(resolution: &Rc<Resolution<R>>, mut work: Work, found: &Found, of_walk: &[String]) {
    if let Some(trace) = &mut work.trace {
        trace.extend(of_walk.iter().cloned());
    }
    if let Some(why) = work.listing.at(found.service()) {
        return settle_as_disposable(work, why);
    } else if let Listing::Public(_) = work.listing {
        work.note(|| {
            "lists: one list alone names the domain, but its mail host is one where firms buy mail".to_owned()
        });
    }
    match found {
        Found::Dead(Dead::TakesNoMail(why)) => work.settle(Reason::MailboxNotFound, why.as_str()),
        Found::Dead(Dead::CannotTell(why)) if resolution.resolver.is_to_blame(*why) => {
            work.fail(Outage::Unavailable)
        }
        Found::Dead(Dead::CannotTell(why)) => {
            // After this time, the cache no longer has the failure. There is one exception: if a failure that may soon be over
            // ([`Failure::may_pass`]) happens twice in a row, the cache keeps the second one for longer.
            let again =
                ttl::failure(*why) + if why.may_pass() { Duration::ZERO } else { Duration::from_secs(1) };
            let too_long = work.priority == Priority::Single && again > SINGLE_DNS_RETRY_MAX;
            work.set_fallback(dns_rule(*why), Some(DNS_FAILURE_TTL));
            work.set_again((!too_long).then_some(again));
            resolution.common.give_up(work, R::now());
        }
        Found::OutOfReach => {
            work.set_fallback("ipv6_only", None);
            work.give_up();
        }
        Found::Hosts(plan) => {
            work.set_fallback("no_answer_in_time", Some(ROUTE_DOWN));
            let owner = resolution.common.shared.owner_of(plan, work.domain_hash);
            if let Err(Message::Probe(work, _)) = owner.inbox.push(Message::Probe(work, Arc::clone(plan))) {
                // This cannot happen, because the ticket has reserved room in the inbox.
                work.fail(Outage::Unavailable);
            }
        }
    }
}

/// Answers the inquiry whether a domain has mail hosts.
fn answer_mail_hosts<R: Runtime>(resolution: &Resolution<R>, responder: Responder<MailHosts>, found: &Found) {
    responder.answer(match found {
        Found::Hosts(_) | Found::OutOfReach => Ok(MailHosts::Seen(found.service())),
        Found::Dead(Dead::TakesNoMail(_)) => Ok(MailHosts::Absent),
        Found::Dead(Dead::CannotTell(why)) if resolution.resolver.is_to_blame(*why) => {
            Err(Outage::Unavailable)
        }
        Found::Dead(Dead::CannotTell(_)) => Ok(MailHosts::Unknown),
    });
}

/// The answer to such an inquiry if the walk took too long.
fn cannot_tell<R: Runtime>(resolution: &Resolution<R>) -> Result<MailHosts, Outage> {
    if resolution.resolver.may_be_down() { Err(Outage::Unavailable) } else { Ok(MailHosts::Unknown) }
}

fn dns_rule(why: Failure) -> &'static str {
    match why {
        Failure::ServFail => "dns_servfail",
        Failure::Timeout => DNS_TIMEOUT,
        Failure::Unreachable => DNS_UNREACHABLE,
        Failure::Unproven => "dns_denial_unproven",
        _ => "dns_failed",
    }
}
