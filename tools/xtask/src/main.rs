//! Tasks of the project: `cargo xtask TASK`.

mod bench_table;
mod browser;
mod confined;
mod interop;
mod measure;
mod refresh_lists;
#[cfg(test)]
mod rules;
mod schemathesis;
mod seccomp;
mod sim;
mod soak;

use clap::Parser;
use std::process::ExitCode;

// Simulations and measurements run on the allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the project")]
enum Task {
    /// Print the latest figures of the benches as a table.
    BenchTable(bench_table::Options),
    /// Test the pages in Chromium, and what goes through them (see docs/testing.md).
    Browser(browser::Options),
    /// Start the server where io_uring is refused (root; see docs/testing.md).
    Confined(confined::Options),
    /// Ask real DNS and mail servers in network namespaces (root; see docs/testing.md).
    Interop(interop::Options),
    /// Measure what mailprobe costs (see docs/performance.md).
    Measure(measure::Options),
    /// Write engine/proto/data and docs/lists.md from the newest packages of npm, PyPI and Cargo.lock.
    RefreshLists,
    /// Test what is served against what is described (see docs/testing.md).
    Schemathesis(schemathesis::Options),
    /// Run the engine in simulated worlds on a virtual clock (see docs/testing.md).
    Sim(sim::Options),
    /// Run a campaign: hostile peers, crashes, power cuts, malformed input, ... (see docs/testing.md).
    Soak(soak::Options),
}

fn main() -> ExitCode {
    match Task::parse() {
        Task::BenchTable(options) => bench_table::main(&options),
        Task::Browser(options) => browser::main(&options),
        Task::Confined(options) => confined::main(&options),
        Task::Interop(options) => interop::main(&options),
        Task::Measure(options) => measure::main(&options),
        Task::RefreshLists => refresh_lists::main(),
        Task::Schemathesis(options) => schemathesis::main(&options),
        Task::Sim(options) => sim::main(&options),
        Task::Soak(options) => soak::main(&options),
    }
}
