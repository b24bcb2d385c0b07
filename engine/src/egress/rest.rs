//! What follows where a site blocks a source: the source rests there, and is not replaced.

use crate::probe;
use crate::runtime::Runtime;
use crate::shard::Shard;
use crate::site::Group;
use crate::work::{Work, unverifiable};
use engine_proto::verdict::{Class, Classification, Scope};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The rule of whoever is not asked about because the source of its site rests there.
pub(crate) const RESTED: &str = "source_rested";

/// Whether a refusal is a block of our source: about its address, its name or its reverse-path, and not about how fast
/// we come. One at RCPT has to be said to everyone to be one.
pub(crate) fn is_block<R: Runtime>(shard: &Shard<R>, said: &Classification) -> bool {
    let about_us = matches!(said.scope, Scope::Us | Scope::Sender);
    shard.shared.pool.named && about_us && matches!(said.class, Class::Policy | Class::Unclear)
}

/// A host has blocked our source. Where no other host of the group is left, the source rests at the site: who waits
/// there is answered, and who comes is, until it is over.
pub(crate) fn blocked<R: Runtime>(shard: &Rc<Shard<R>>, group: &Rc<Group>, rule: &'static str) {
    let now = R::now();
    if !group.is_down(now) {
        return;
    }
    let index = group.source.get();
    let source = &shard.shared.pool.sources[index];
    end(shard, now);
    let Some(time) = shard.rests.borrow_mut().blocked(index, &group.site_name, now) else { return };
    source.rests.fetch_add(1, Ordering::Relaxed);
    source.resting.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(
        "the site {} blocks the source {} (rule {rule}): it rests there for {} min, and no other source is tried",
        group.site_name,
        source.label,
        time.as_secs() / 60
    );
    for work in group.take_expired(None) {
        rested(work, rule, time);
    }
    for other in shard.groups_of(&group.site_name, index) {
        other.routes.iter().for_each(|route| route.set_down(now + time, RESTED));
        other.take_expired(None).into_iter().for_each(|work| rested(work, RESTED, time));
        // Control recipients are left, and those who wait for what they show.
        probe::answer_unroutable(shard, &other);
    }
}

/// The work, unless the source of its site rests there; then it is answered.
pub(crate) fn unless_rested<R: Runtime>(
    shard: &Shard<R>,
    group: &Group,
    work: Work,
    now: Instant,
) -> Option<Work> {
    match shard.rests.borrow().left(group.source.get(), &group.site_name, now) {
        Some(left) => {
            rested(work, RESTED, left);
            None
        }
        None => Some(work),
    }
}

/// The site has answered our source: a block that is over does not count for the next one.
pub(crate) fn answered<R: Runtime>(shard: &Shard<R>, group: &Group) {
    shard.rests.borrow_mut().answered(group.source.get(), &group.site_name, R::now());
}

/// Counts the rests that have ended.
pub(crate) fn end<R: Runtime>(shard: &Shard<R>, now: Instant) {
    for index in shard.rests.borrow_mut().ended(now) {
        shard.shared.pool.sources[index].resting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn rested(work: Work, rule: &'static str, time: Duration) {
    work.finish(unverifiable(rule, Some(time)));
}
