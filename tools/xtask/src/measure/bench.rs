//! What measurements share: the binaries that they measure, and the rows of their tables.

use super::cost::RunCost;
use crate::interop::report::{self, Tally};
use crate::soak::world::CampaignFolder;

/// The state that all measurements share.
pub struct Bench {
    pub(super) world: CampaignFolder,
    /// The user gave the folder of the binaries, so they are not built.
    pub(super) given: bool,
    pub(super) runs: u32,
    pub(super) lines: u64,
    pub(super) flags: Vec<String>,
}

/// A row of a table.
pub struct TableRow {
    pub(super) client: String,
    pub(super) peer: String,
    pub(super) addresses: u64,
    /// The number of right verdicts; `None` for a client without verdicts.
    pub(super) right: Option<u64>,
    pub(super) cost: RunCost,
}

impl TableRow {
    pub(super) fn head() {
        report::line("| client | peer | addresses | right | s | CPU s | CPU s per 1,000 | MiB |");
        report::line("|---|---|---:|---:|---:|---:|---:|---:|");
    }

    pub(super) fn print(&self) {
        let right = self.right.map_or_else(|| "-".to_owned(), |right| right.to_string());
        report::line(&format!(
            "| {} | {} | {} | {right} | {:.2} | {:.2} | {:.4} | {:.0} |",
            self.client,
            self.peer,
            self.addresses,
            self.cost.wall.as_secs_f64(),
            self.cost.cpu_s,
            self.per_thousand(),
            self.cost.peak_kib as f64 / 1024.0,
        ));
    }

    pub(super) fn per_thousand(&self) -> f64 {
        self.cost.cpu_s * 1000.0 / self.addresses.max(1) as f64
    }

    /// Prints the row and counts whether all its verdicts are right.
    pub(super) fn check(&self, tally: &mut Tally) {
        self.print();
        tally.count(self.right.is_none_or(|right| right == self.addresses));
    }
}
