//! The rest of a source at a site that blocks it: mailprobe does not contact the site from this source, and no other source takes
//! over.
//!
//! A block is first noted in the record of the host (`site/route.rs`). If no other host of the group is left, the source rests at
//! the whole site. This rest has a record of its own ([`engine_proto::egress::Rests`]), by source and site. It lasts for hours,
//! longer than the groups with the records of hosts.

use crate::asking::Asking;
use crate::site::Group;
use crate::work::{Work, unverifiable};
use engine_proto::verdict::{Class, Classification, Scope};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The rule of addresses that are not asked about because the source of their site rests there.
pub(crate) const RESTED: &str = "source_rested";

/// Whether a refusal may be a block of our source: it is about our address, our name or our reverse-path, and not about our pace.
/// At RCPT the caller also waits until the host says it to everyone. Without sources that the operator named, there are no blocks.
pub(crate) fn is_block(asking: &Asking, said: &Classification) -> bool {
    let about_us = matches!(said.scope, Scope::Us | Scope::Sender);
    asking.shared().pool.named && about_us && matches!(said.class, Class::Policy | Class::Unclear)
}

/// Records that a host has blocked our source. If no other host of the group is left, the source rests at the site. The works that
/// wait there are answered at once, and so are new works until the rest ends.
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
        // This answers control recipients, and the works that wait for their result.
        asking.answer_unroutable(&other, now);
    }
}

/// Returns the work, or answers it if the source of its site rests there.
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

/// Records that the site has answered our source. After a rest has ended, this makes the next rest short again.
pub(crate) fn on_answer(asking: &Asking, group: &Group, now: Instant) {
    asking.state().rests.on_answer(group.source, &group.site_name, now);
}

/// Subtracts the rests that have ended from the figures of their sources.
pub(crate) fn count_ended(asking: &Asking, now: Instant) {
    let ended = asking.state().rests.take_ended(now);
    for index in ended {
        asking.shared().pool.sources[index].resting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn rested(work: Work, rule: &'static str, time: Duration) {
    work.finish(unverifiable(rule, Some(time)));
}
