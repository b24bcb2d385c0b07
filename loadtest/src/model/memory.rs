//! The memory of a workload. For lists it comes from measured peaks of `clean`: a list begins at full speed, so it has
//! all its sessions and rows in progress at the same time, however many hours it may take.

use super::{Group, Way, Workload};
use crate::figures::{Curve, Memory};
use serde::Serialize;

/// A part of the memory: a number of units, and the bytes of each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryPart {
    pub name: &'static str,
    pub count: f64,
    pub bytes_each: f64,
}

impl MemoryPart {
    /// The bytes of all units together.
    pub fn bytes(&self) -> f64 {
        self.count * self.bytes_each
    }
}

/// The largest number of batch rows in memory (docs/operations.md).
const ROWS_IN_MEMORY: f64 = 100_000.0;
/// The most bytes of all DNS answers in memory (docs/operations.md).
const DOMAIN_BYTES_MAX: f64 = 16.0 * 1024.0 * 1024.0;
/// The peak of the resident memory of `clean` in MiB by the length of the list, less its rows in progress and the
/// filter: from the table "List length" of docs/performance.md. Longer lists need no more.
const LIST_MIB: [(f64, f64); 4] = [(1e4, 21.4), (1e5, 41.2), (1e6, 67.7), (1e7, 87.7)];
/// The addresses per domain of these lists.
const LIST_PER_DOMAIN: f64 = 100.0;
/// The bytes of a row in progress: lists of 30,000 and 300,000 rows, with 10,000 and 100,000 rows in progress.
const ROW_BYTES: f64 = 900.0;
/// The most bytes of the filter of earlier addresses per address (docs/operations.md).
const FILTER_BYTES: f64 = 1.75;
/// The most sessions at the same time (docs/configuration.md, `sessions`).
const SESSIONS: f64 = 1000.0;
/// The rows that `clean` has in progress, with a pace and with `--pace lab` (docs/configuration.md, `queue`).
const QUEUE: f64 = 100_000.0;
const QUEUE_LAB: f64 = 10_000.0;

/// The rows that a list has in progress.
pub fn queue(groups: &[Group]) -> f64 {
    if groups.iter().any(|group| group.pace_rate.is_some()) { QUEUE } else { QUEUE_LAB }
}

/// The parts of the memory of a workload with these full checks and domains.
pub fn parts(
    workload: &Workload,
    memory: &Memory,
    groups: &[Group],
    full: f64,
    domains: f64,
) -> Vec<MemoryPart> {
    match workload.way {
        Way::Clean => of_list(workload, memory, groups, domains),
        Way::Api | Way::Batch => of_server(workload, memory, groups, full, domains),
    }
}

fn part(name: &'static str, count: f64, bytes_each: f64) -> MemoryPart {
    MemoryPart { name, count, bytes_each }
}

fn of_server(
    workload: &Workload,
    memory: &Memory,
    groups: &[Group],
    full: f64,
    domains: f64,
) -> Vec<MemoryPart> {
    let open = groups.iter().map(|group| group.open).sum();
    let rows = if workload.way == Way::Batch { full.min(ROWS_IN_MEMORY) } else { 0.0 };
    vec![
        part("idle server", 1.0, memory.base),
        part("sessions", open, memory.session + workload.tls * memory.tls_session),
        part("domains", domains.min(DOMAIN_BYTES_MAX / memory.domain), memory.domain),
        part("rows of batches", rows, memory.batch_row),
    ]
}

fn of_list(workload: &Workload, memory: &Memory, groups: &[Group], domains: f64) -> Vec<MemoryPart> {
    let rows = workload.addresses.min(queue(groups));
    let sessions: f64 = groups.iter().map(|group| group.sessions).sum();
    let list = Curve(LIST_MIB.to_vec()).at(workload.addresses) * 1024.0 * 1024.0;
    // The domains of the rows in progress, and those of which the DNS answers are kept.
    let kept = |domains: f64, rows: f64| {
        let in_progress = domains * rows / workload.addresses;
        (DOMAIN_BYTES_MAX / memory.domain + in_progress).min(domains)
    };
    let measured = kept(workload.addresses / LIST_PER_DOMAIN, workload.addresses.min(QUEUE_LAB));
    vec![
        part("clean", 1.0, list),
        part("rows in progress", rows, ROW_BYTES),
        part("filter", workload.addresses, FILTER_BYTES),
        part("sessions with TLS", sessions.min(SESSIONS) * workload.tls, memory.tls_session),
        part("further domains", (kept(domains, rows) - measured).max(0.0), memory.domain),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figures, workload};
    use super::super::{Demand, Figures};
    use super::*;
    use crate::providers::{Pace, built_in};

    /// The plan's memory of a list in MiB, with the memory of `loadtest/testdata/figures.json`.
    fn list_mib(addresses: f64, per_domain: f64, tls: f64, pace: Pace) -> f64 {
        let memory =
            Memory { base: 3e7, session: 9815.0, tls_session: 12_848.0, domain: 1449.0, batch_row: 1545.0 };
        let work = Workload { addresses, per_domain, tls, seconds: 86_400.0, ..workload(Way::Clean) };
        let demand = Demand::of(&work, &Figures { memory, ..figures() }, &built_in(pace));
        let sum: f64 = demand.memory_parts.iter().map(MemoryPart::bytes).sum();
        assert!((sum / demand.memory_bytes - 1.0).abs() < 1e-9);
        demand.memory_bytes / 1024.0 / 1024.0
    }

    #[test]
    fn a_list_has_the_measured_memory() {
        // The table "List length" of docs/performance.md, and a shorter and a longer list.
        for (addresses, mib) in
            [(10.0, 21.4), (1e4, 30.0), (1e5, 50.0), (1e6, 78.0), (1e7, 113.0), (1e8, 263.0)]
        {
            let found = list_mib(addresses, 100.0, 0.0, Pace::Lab);
            assert!((found / mib - 1.0).abs() < 0.02, "{addresses}: {found} for {mib}");
        }
        // Addresses, addresses per domain, share of TLS, pace; the measured peak of other lists.
        for (addresses, per_domain, tls, pace, mib) in [
            (30_000.0, 10.0, 1.0, Pace::Lab, 57.2),
            (300_000.0, 10.0, 0.0, Pace::Lab, 85.3),
            (30_000.0, 1.0, 1.0, Pace::Polite, 111.5),
            (300_000.0, 10.0, 1.0, Pace::Polite, 182.2),
            (300_000.0, 100.0, 1.0, Pace::Polite, 153.8),
            (1e6, 10.0, 0.0, Pace::Polite, 181.2),
        ] {
            let found = list_mib(addresses, per_domain, tls, pace);
            assert!((found / mib - 1.0).abs() < 0.15, "{addresses}, {per_domain}: {found} for {mib}");
        }
    }

    #[test]
    fn each_way_has_its_own_base() {
        for (way, name) in [(Way::Clean, "clean"), (Way::Api, "idle server"), (Way::Batch, "idle server")] {
            let parts = Demand::of(&workload(way), &figures(), &built_in(Pace::Polite)).memory_parts;
            assert_eq!(parts[0].name, name);
            assert_eq!(
                parts.iter().any(|part| part.name == "rows of batches" && part.count > 0.0),
                way == Way::Batch
            );
        }
    }
}
