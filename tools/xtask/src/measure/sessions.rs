//! The memory of an open session: hosts that never answer a RCPT keep 10,000 of them open, or 100, while as many
//! addresses are under way.

use super::cost::Running;
use super::setting::{List, Peers, SERVER};
use super::{Bench, Failure};
use crate::interop::process::{sleep, wait_until};
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: List = List { domains: 10_000, each: 1, rounds: 1 };
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

pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let mailnet = bench.world.mailnet(&format!("{SCENARIO}{SERVER}"))?;
    let peers = Peers::of(&mailnet);
    let (input, output, log) = bench.files();
    LIST.write(&input)?;
    report::line("| sessions open | resident KiB |");
    report::line("|---:|---:|");
    let mut resident = Vec::new();
    for sessions in [FEW, LIST.len()] {
        let command =
            bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", &sessions.to_string()]);
        let mut running = Running::start(command, &log)?;
        let sockets = |running: &Running| sockets(running.id());
        // A few of those under way wait for DNS or were turned away by a full backlog.
        let enough = sessions - sessions / 50;
        wait_until(&format!("{sessions} sessions"), Duration::from_secs(60), || {
            if running.look()? {
                return Err(Failure("clean ended before its sessions were open".into()));
            }
            Ok(sockets(&running)? >= enough)
        })?;
        // What was needed only to open them is given back.
        sleep(Duration::from_secs(5))?;
        let kib = running.resident_kib()?;
        let open = sockets(&running)?;
        report::line(&format!("| {open} | {kib} |"));
        resident.push((open, kib));
        drop(running);
        // The next run begins anew.
        let partial = output.with_extension("csv.partial");
        std::fs::remove_file(&partial).map_err(|error| Failure(format!("{}: {error}", partial.display())))?;
    }
    mailnet.kill();
    if let [few, many] = resident[..] {
        let bytes = many.1.saturating_sub(few.1) as f64 * 1024.0 / (many.0 - few.0) as f64;
        report::line(&format!("{bytes:.0} bytes of resident memory a session\n"));
        tally.passed += 1;
    }
    Ok(())
}

/// TCP connections of a process: descriptors that are sockets; a few of them are of UDP.
fn sockets(pid: u32) -> Result<u64, Failure> {
    let folder = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&folder).map_err(|error| Failure(format!("{folder}: {error}")))?;
    let is_socket = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    Ok(entries.filter_map(Result::ok).filter(is_socket).count() as u64)
}
