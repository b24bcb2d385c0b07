//! The time in which a source (our address or proxy) rests at a site (the hosts of one operator) that blocks it. During this time
//! mailprobe does not contact the site from the source, and no other source takes over.
//!
//! A block first takes only one route (one address of a host) out of use, for a minute (`site/route.rs`). If no other route of the
//! group (domains of the site with the same hosts) can be used then, the source rests at the whole site, for five minutes at first.
//! [`engine_proto::egress::Rests`] keeps the rests by source and site, because what is known of a route is dropped with its group,
//! and that may happen before the rest ends.

use crate::asking::Asking;
use crate::site::Group;
use crate::work::{Work, unverifiable};
use engine_proto::verdict::{Class, Classification, Scope};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The rule of an address that is not asked about because the source rests at its site.
pub(crate) const RESTED: &str = "source_rested";

/// Whether a refusal may be a block of our source: a refusal of our address, name or reverse-path that is not about our pace. A
/// refusal at RCPT is a block only if the host refuses every recipient in this way, which the caller has to find out. Without
/// configured sources, nothing counts as a block.
pub(crate) fn is_block(asking: &Asking, said: &Classification) -> bool {
    let about_us = matches!(said.scope, Scope::Us | Scope::Sender);
    asking.shared().pool.named && about_us && matches!(said.class, Class::Policy | Class::Unclear)
}

/// Acts on a block. The caller has taken the route out of use, unless the host may have refused only because an address needs
/// SMTPUTF8. If no route of the group can be used now, the source begins to rest at the site. The works that wait at the site for
/// this source are answered at once, and so are new ones until the rest ends.
pub(crate) fn on_blocked(asking: &Asking, group: &Group, rule: &'static str, now: Instant) {
    if !group.is_down(now) {
        return;
    }
    let index = group.source;
    let source = &asking.shared().pool.sources[index];
    count_ended(asking, now);
    let Some(time) = asking.state().rests.on_blocked(index, &group.site_name, now) else { return };
    source.rests.fetch_add(1, Ordering::Relaxed);
    source.resting.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(
        "the site {} blocks the source {} (rule {rule}): it rests there for {} min, and no other source is tried",
        group.site_name,
        source.label,
        time.as_secs() / 60
    );
    for work in group.take_all_waiting() {
        rested(work, rule, time);
    }
    for other in asking.groups_of(&group.site_name, index) {
        other.set_down(now + time, RESTED);
        other.take_all_waiting().into_iter().for_each(|work| rested(work, RESTED, time));
    }
}

/// Answers the work if the source rests at the site. Otherwise returns the work.
pub(crate) fn unless_rested(asking: &Asking, group: &Group, work: Work, now: Instant) -> Option<Work> {
    let left = asking.state().rests.left(group.source, &group.site_name, now);
    match left {
        Some(left) => {
            rested(work, RESTED, left);
            None
        }
        None => Some(work),
    }
}

/// Records that a session from our source got a clear reply about a recipient at the site. If the source has rested there and the
/// rest is over, the next rest will be short again.
pub(crate) fn on_answer(asking: &Asking, group: &Group, now: Instant) {
    asking.state().rests.on_answer(group.source, &group.site_name, now);
}

/// Subtracts rests that have ended from the number of sites at which each source rests.
pub(crate) fn count_ended(asking: &Asking, now: Instant) {
    let ended = asking.state().rests.take_ended(now);
    for index in ended {
        asking.shared().pool.sources[index].resting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn rested(work: Work, rule: &'static str, time: Duration) {
    work.finish(unverifiable(rule, Some(time)));
}
