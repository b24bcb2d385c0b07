//! The memory of an open session: hosts that never answer a RCPT keep 10,000 sessions open, or 100, with the same
//! number of addresses under way.

use super::bench::Bench;
use super::cost::MeasuredChild;
use super::setting::{PeerAddresses, SERVER, SampleList};
use crate::failure::{Context, Failure};
use crate::interop::process::{sleep, wait_until};
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: SampleList = SampleList { domains: 10_000, each: 1, rounds: 1 };
const FEW: u64 = 100;

const SCENARIO: &str = r##"
[listen]
addresses = "wildcard"
[[group]]
name = "d{n}.example"
count = 10000
server = { personality = "bench", faults = [{ at = "rcpt", does = "hang" }] }
mailboxes.ok = ["user-#"]
"##;

/// Measures the memory with many and with few sessions, and prints the difference per session.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let mailnet = bench.world.mailnet(&format!("{SCENARIO}{SERVER}"))?;
    let peers = PeerAddresses::of(&mailnet);
    let (input, output, log) = bench.files();
    LIST.write(&input)?;
    report::line("| sessions open | resident KiB |");
    report::line("|---:|---:|");
    let mut resident = Vec::new();
    for sessions in [FEW, LIST.len()] {
        let command =
            bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", &sessions.to_string()]);
        let mut running = MeasuredChild::start(command, &log)?;
        let sockets = |running: &MeasuredChild| sockets(running.id());
        // A few of the addresses under way wait for DNS, or a full backlog refused their connection.
        let enough = sessions - sessions / 50;
        wait_until(&format!("{sessions} sessions"), Duration::from_secs(60), || {
            if running.look()? {
                return Err(Failure("clean ended before its sessions were open".into()));
            }
            Ok(sockets(&running)? >= enough)
        })?;
        // Memory that was needed only to open the sessions is released.
        sleep(Duration::from_secs(5))?;
        let kib = running.resident_kib();
        let open = sockets(&running)?;
        report::line(&format!("| {open} | {kib} |"));
        resident.push((open, kib));
        drop(running);
        // The next run starts from the beginning.
        let partial = output.with_extension("csv.partial");
        std::fs::remove_file(&partial).at(&partial)?;
    }
    mailnet.kill();
    if let [few, many] = resident[..] {
        let bytes = many.1.saturating_sub(few.1) as f64 * 1024.0 / (many.0 - few.0) as f64;
        report::line(&format!("{bytes:.0} bytes of resident memory per session\n"));
        tally.passed += 1;
    }
    Ok(())
}

/// The number of open TCP connections of a process, from its sockets; a few sockets are of UDP.
fn sockets(pid: u32) -> Result<u64, Failure> {
    let folder = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&folder).about(&folder)?;
    let is_socket = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    Ok(entries.filter_map(Result::ok).filter(is_socket).count() as u64)
}
