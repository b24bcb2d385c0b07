//! Fast checks compared with the bare hyper server under wrk, with 64 connections from one thread.
//!
//! wrk sleeps until answers arrive, as clients do, so each server also pays for waking it. Each connection sends its next
//! request after an answer. The measured value is the processor time of the server per request.

use super::api::Hello;
use super::bench::Bench;
use super::loadtest::{middle, verdict};
use crate::failure::Failure;
use crate::interop::process;
use crate::interop::report::{self, Tally};
use crate::proc;
use std::process::Command;
use std::time::Duration;

/// The most CPU time of a fast check, as a multiple of a bare answer.
const TIMES_MAX: f64 = 2.0;
const TARGET: &str = "/v1/verify?mode=fast&email=user-123456@a-0.example";
const SCENARIO: &str =
    "seed = 1\n[[group]]\nname = \"a-{n}.example\"\ncount = 1\nmailboxes.ok = [\"user-#\"]\n";
const DRIVERS: [&str; 2] = ["io_uring", "epoll"];
const SECONDS: &str = "8s";
const LIMIT: Duration = Duration::from_secs(60);

/// One run of wrk: the requests, and the CPU time of one in microseconds.
struct WrkRun {
    requests: u64,
    cpu_us: f64,
}

/// Measures on each driver, and counts whether all requests were answered with 200.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let mailnet = bench.world.mailnet(SCENARIO)?;
    report::line("\n| server | driver | requests in 8 s | CPU us per request | relative to hyper |");
    report::line("|---|---|---:|---:|---:|");
    let mut verdicts = Vec::new();
    for driver in DRIVERS {
        let flags = ["--frontends", "1", "--shards", "1", "--driver", driver];
        let serve = bench.world.serve(&mailnet, &flags)?;
        let key = bench.world.unlimited(driver, 0)?;
        let hello = Hello::start(bench, Some(driver))?;
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..bench.runs {
            bare.push(wrk(bench, hello.id(), &hello.address.to_string(), &key)?);
            ours.push(wrk(bench, serve.id(), &serve.address.to_string(), &key)?);
        }
        serve.stop()?;
        hello.stop()?;
        let (bare, ours) = (middle(bare, |run| run.cpu_us)?, middle(ours, |run| run.cpu_us)?);
        let times = ours.cpu_us / bare.cpu_us;
        for (name, run, times) in
            [("hyper hello on monoio", &bare, 1.0), ("mailprobe, fast checks", &ours, times)]
        {
            report::line(&format!(
                "| {name} | {driver} | {} | {:.2} | {times:.2} |",
                run.requests, run.cpu_us
            ));
        }
        tally.passed += 1;
        verdicts.push((driver, times));
    }
    report::line("");
    for (driver, times) in verdicts {
        verdict(
            &format!("{driver}: {times:.2} times the CPU time of a bare answer, at most {TIMES_MAX}"),
            times <= TIMES_MAX,
        );
    }
    mailnet.stop().map(drop)
}

fn wrk(bench: &Bench, pid: u32, address: &str, key: &str) -> Result<WrkRun, Failure> {
    let mut command = Command::new("wrk");
    command.args(["--threads", "1", "--connections", "64", "--duration", SECONDS]);
    command
        .arg("--header")
        .arg(format!("Authorization: Bearer {key}"))
        .arg(format!("http://{address}{TARGET}"));
    let before = proc::times(pid)?.cpu_s;
    let said = process::run(command, "", bench.world.folder(), LIMIT)?.success("wrk")?;
    let seconds = proc::times(pid)?.cpu_s - before;
    if said.contains("Non-2xx") || said.contains("Socket errors") {
        return Err(Failure(format!("not every request was answered: {said}")));
    }
    let requests = said.split_whitespace().zip(said.split_whitespace().skip(1));
    let requests =
        requests.filter(|(_, word)| *word == "requests").find_map(|(number, _)| number.parse().ok());
    let requests: u64 = requests.filter(|requests| *requests > 0).ok_or_else(|| Failure(said.clone()))?;
    Ok(WrkRun { requests, cpu_us: seconds * 1e6 / requests as f64 })
}
