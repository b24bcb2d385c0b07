//! Tasks of the project: `cargo xtask TASK`.
//!
//! Each task of [`Task`] has a module of its own. The program needs the binaries of the product only for tasks that start
//! processes; it builds them unless their folder is given.
//!
//! The tests of `rules` check the source tree: dependencies of crates, imports of modules, documentation. Every task
//! prints `N passed, M failed` as its last line, which `.ci/run` reads, and exits with 0 only if nothing failed. `bare --test-only`
//! leaves the counting to the lines of cargo.

mod bare;
mod bench_table;
mod browser;
mod cluster;
mod confined;
mod dist;
mod docs;
mod doctor;
mod failure;
mod interop;
mod isolation;
mod measure;
mod packages;
mod pictures;
mod postgres;
mod proc;
mod refresh_lists;
#[cfg(test)]
mod rules;
mod schemathesis;
mod seccomp;
mod sim;
mod soak;

use clap::Parser;
use failure::Failure;
use interop::process;
use interop::report::{self, Tally};
use std::process::ExitCode;

// Simulations and measurements use the allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Tasks of the project")]
enum Task {
    /// Run README's commands on a minimal Debian 12 and 13, as an ordinary user (root; see docs/testing.md).
    Bare(bare::BareOptions),
    /// Print the latest figures of the benchmarks as a table.
    BenchTable(bench_table::BenchTableOptions),
    /// Test the pages and their actions in Chromium (see docs/testing.md).
    Browser(browser::BrowserOptions),
    /// Run a command beside three PostgreSQL servers with failover, or test these (root; see docs/testing.md).
    Cluster(cluster::ClusterOptions),
    /// Test the server on a system that refuses io_uring (root; see docs/testing.md).
    Confined(confined::ConfinedOptions),
    /// Build everything for distribution: program, Debian package, container (see docs/operations.md).
    Dist(dist::DistOptions),
    /// Run the examples of README.md and of the other pages, and check their commands (root; see docs/testing.md).
    Docs(docs::DocsOptions),
    /// Test that `mailprobe doctor` names each fault of a machine (root; see docs/testing.md).
    Doctor(doctor::DoctorOptions),
    /// Test verdicts with real DNS and mail servers, in network namespaces (root; see docs/testing.md).
    Interop(interop::InteropOptions),
    /// Measure the costs of mailprobe (see docs/performance.md).
    Measure(measure::MeasureOptions),
    /// Test what `dist` has made, in a fresh Debian and as a container (root; see docs/testing.md).
    Packages(packages::PackagesOptions),
    /// Make the screenshots of README.md (root; see docs/testing.md).
    Pictures(pictures::PicturesOptions),
    /// Run a command beside a fresh PostgreSQL server (see docs/testing.md).
    Postgres(postgres::PostgresOptions),
    /// Write the lists of docs/lists.md in engine/proto/data, and that page, from the newest packages of npm and PyPI and the crates of Cargo.lock.
    RefreshLists(refresh_lists::RefreshOptions),
    /// Compare the answers of the API with its description (see docs/testing.md).
    Schemathesis(schemathesis::SchemathesisOptions),
    /// Run the engine in simulated worlds on a virtual clock (see docs/testing.md).
    Sim(sim::SimOptions),
    /// Run a campaign: hostile peers, crashes, power failures, malformed input, ... (see docs/testing.md).
    Soak(soak::SoakOptions),
}

/// Runs a task that counts its checks. SIGINT and SIGTERM end it.
fn counted(name: &str, task: impl FnOnce() -> Result<Tally, Failure>) -> ExitCode {
    report::end(name, process::watch_signals().and_then(|()| task()))
}

fn main() -> ExitCode {
    let task = match usage::parse("cargo xtask", std::env::args_os()) {
        Ok(task) => task,
        Err(code) => return code,
    };
    match task {
        Task::Bare(options) => bare::main(&options),
        Task::BenchTable(options) => bench_table::main(&options),
        Task::Browser(options) => counted("browser", || browser::run(&options)),
        Task::Cluster(options) => cluster::main(&options),
        Task::Confined(options) => counted("confined", || confined::run(&options)),
        Task::Dist(options) => counted("dist", || dist::run(&options)),
        Task::Docs(options) => counted("docs", || docs::run(&options)),
        Task::Doctor(options) => counted("doctor", || doctor::run(&options)),
        Task::Interop(options) => interop::main(&options),
        Task::Measure(options) => counted("measure", || measure::run(&options)),
        Task::Packages(options) => counted("packages", || packages::run(&options)),
        Task::Pictures(options) => counted("pictures", || pictures::run(&options)),
        Task::Postgres(options) => counted("postgres", || postgres::run(&options)),
        Task::RefreshLists(options) => refresh_lists::main(&options),
        Task::Schemathesis(options) => counted("schemathesis", || schemathesis::run(&options)),
        Task::Sim(options) => sim::main(&options),
        Task::Soak(options) => soak::main(&options),
    }
}
