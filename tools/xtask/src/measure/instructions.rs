//! Counts of instructions of the most frequent operations, by valgrind's callgrind: other programs and the processor's
//! speed do not change them. Each figure is the difference between a long run and a short one, so the start does not
//! count.
//!
//! The process has one frontend and one shard on epoll, which valgrind supports. All its instructions count, including
//! those of the log and of timers.

#![expect(unsafe_code, reason = "a seccomp filter for the child has no safe wrapper")]

use super::bench::Bench;
use super::setting::{ONE_SITE, SERVER};
use crate::failure::{Context, Failure};
use crate::interop::drivers::first_key;
use crate::interop::process::{self, ServerProcess, sleep};
use crate::interop::report::{self, Tally};
use crate::seccomp;
use crate::soak::client::{HttpClient, HttpRequest};
use crate::soak::visitor::expect;
use crate::soak::world::{ANY_PORT, Mailnet, engine_flags, listening};
use serde_json::json;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const FLAGS: [&str; 4] = ["--driver", "epoll", "--shards", "1"];
/// The rows of a batch.
const ROWS: u64 = 200;
/// The pause between two requests for the state of a batch.
const LOOK: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(600);
const CREDITS: u64 = 1_000_000;
/// The text before callgrind's count.
const COLLECTED: &str = "Collected : ";

/// The counted operations, with their numbers in the short and the long run.
#[derive(Debug, Clone, Copy)]
enum CountedWork {
    Fast,
    Full,
    Batch,
    List,
}

const KINDS: [(CountedWork, &str, u64, u64); 4] = [
    (CountedWork::Fast, "a fast check", 200, 2200),
    (CountedWork::Full, "a full check", 50, 250),
    (CountedWork::Batch, "a row of a batch", 5 * ROWS, 15 * ROWS),
    (CountedWork::List, "an address of a list, one site", 20_000, 120_000),
];

/// Counts the instructions of each operation, and prints a table.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let mailnet = bench.world.mailnet(&format!("{ONE_SITE}{SERVER}"))?;
    let found = KINDS.map(|(kind, name, few, many)| {
        let counted = each(bench, &mailnet, kind, few, many).map_err(|Failure(why)| why);
        (name, many - few, counted)
    });
    report::line("| work | number | instructions per item |\n|---|---:|---:|");
    for (name, times, counted) in &found {
        if let Ok(each) = counted {
            report::line(&format!("| {name} | {times} | {each} |"));
        }
    }
    for (name, _, counted) in found {
        tally.check(&format!("{name}: all answers are right"), counted.map(|_| String::new()));
    }
    mailnet.stop()?;
    Ok(())
}

/// The instructions of one operation, as the difference of two runs.
fn each(bench: &Bench, mailnet: &Mailnet, kind: CountedWork, few: u64, many: u64) -> Result<u64, Failure> {
    let [short, long] = [few, many].map(|times| count(bench, mailnet, kind, times));
    let more = long?.checked_sub(short?);
    more.map(|more| more / (many - few))
        .ok_or_else(|| Failure("the long run takes fewer than the short one".into()))
}

/// The instructions of a process that executes this many operations.
fn count(bench: &Bench, mailnet: &Mailnet, kind: CountedWork, times: u64) -> Result<u64, Failure> {
    match kind {
        CountedWork::List => of_list(bench, mailnet, times),
        CountedWork::Fast | CountedWork::Full | CountedWork::Batch => of_server(bench, mailnet, kind, times),
    }
}

fn of_list(bench: &Bench, mailnet: &Mailnet, times: u64) -> Result<u64, Failure> {
    let world = &bench.world;
    let [list, output] = ["instructions.csv", "instructions-out.csv"].map(|name| world.path(name));
    let rows: String = (0..times).map(|number| format!("user-{number}@d1.example\n")).collect();
    std::fs::write(&list, format!("email\n{rows}")).at(&list)?;
    // The output of an earlier run is not replaced.
    if output.exists() {
        std::fs::remove_file(&output).at(&list)?;
    }
    let mut command = Command::new(world.binary("mailprobe"));
    command
        .arg("clean")
        .arg(&list)
        .arg("-o")
        .arg(&output)
        .args(["--no-progress", "--pace", "lab"])
        .args(FLAGS);
    engine_flags(&mut command, mailnet.engine(), true);
    world.keep_state_here(&mut command);
    let finished = process::run(under_callgrind(&command), "", world.folder(), LIMIT)?;
    let said = finished.stderr.clone();
    finished.success("mailprobe clean under valgrind")?;
    let rows = std::fs::read_to_string(&output).at(&list)?;
    let right = rows.lines().filter(|row| row.contains("mailbox_exists")).count() as u64;
    if right == times { collected(&said) } else { Err(Failure(format!("{right} of {times} rows are right"))) }
}

fn of_server(bench: &Bench, mailnet: &Mailnet, kind: CountedWork, times: u64) -> Result<u64, Failure> {
    let world = &bench.world;
    let name = format!("{kind:?}-{times}");
    let data = world.path(&name);
    let log = world.path(&format!("{name}.log"));
    world.set_free_plan(CREDITS)?;
    let flags = [&["--frontends", "1"][..], &FLAGS].concat();
    let start = |command: Command| {
        let mut server = ServerProcess::start("mailprobe serve", command, &log)?;
        match listening(&mut server)? {
            Some(address) => Ok((server, address)),
            None => Err(server.complain("does not start")),
        }
    };
    // The first start creates the key.
    start(world.serve_on(&data, ANY_PORT, mailnet.engine(), &flags))?.0.terminate(LIMIT)?;
    let key = &first_key(&data, "live")?;
    let (server, address) =
        start(under_callgrind(&world.serve_on(&data, ANY_PORT, mailnet.engine(), &flags)))?;
    let mut client = HttpClient::program(address);
    match kind {
        CountedWork::Batch => (0..times / ROWS).try_for_each(|batch| send_batch(&mut client, key, batch))?,
        _ => (0..times).try_for_each(|number| check(&mut client, key, kind, number))?,
    }
    server.terminate(LIMIT)?;
    collected(&std::fs::read_to_string(&log).at(&log)?)
}

fn check(client: &mut HttpClient, key: &str, kind: CountedWork, number: u64) -> Result<(), Failure> {
    let email = format!("user-{number}@d1.example");
    let (body, reason) = match kind {
        CountedWork::Fast => (json!({ "email": email, "mode": "fast" }), "fast_check_passed"),
        _ => (json!({ "email": email }), "mailbox_exists"),
    };
    let answer = expect(client, &HttpRequest::json("/v1/verify", &body).bearer(key), 200)?.json();
    if answer["reason"] == reason { Ok(()) } else { Err(Failure(format!("a wrong answer: {answer}"))) }
}

/// Sends a batch and waits until it is complete.
fn send_batch(client: &mut HttpClient, key: &str, batch: u64) -> Result<(), Failure> {
    let emails: Vec<String> =
        (0..ROWS).map(|row| format!("user-{}@d1.example", batch * ROWS + row)).collect();
    let request = HttpRequest::json("/v1/verify/batch", &json!({ "emails": emails })).bearer(key);
    let made = expect(client, &request, 202)?.json();
    let path = made["batch_id"].as_str().map(|id| format!("/v1/verify/batch/{id}"));
    let path = path.ok_or_else(|| Failure(format!("a batch without id: {made}")))?;
    loop {
        sleep(LOOK)?;
        let found = expect(client, &HttpRequest::get(path.as_str()).bearer(key), 200)?.json();
        if found["status"] == "completed" {
            let right = found["results"].as_array().map_or(&[][..], Vec::as_slice).iter();
            let right = right.filter(|row| row["reason"] == "mailbox_exists").count() as u64;
            return if right == ROWS {
                Ok(())
            } else {
                Err(Failure(format!("{right} rows are right: {found}")))
            };
        }
    }
}

/// The same command under callgrind.
fn under_callgrind(command: &Command) -> Command {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    counted.arg(command.get_program()).args(command.get_args());
    // SAFETY: the child calls only prctl before it executes.
    unsafe { counted.pre_exec(hide_auxiliary_vector) };
    counted.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    counted
}

/// Makes prctl(PR_GET_AUXV) fail. Valgrind 3.19 passes it to the kernel, so the process would find the kernel's vDSO,
/// which valgrind hides.
fn hide_auxiliary_vector() -> io::Result<()> {
    const PR_GET_AUXV: u32 = 0x4155_5856;
    let mut program = [
        seccomp::load(seccomp::NUMBER),
        seccomp::if_equal(libc::SYS_prctl as u32, 0, 3),
        seccomp::load(seccomp::FIRST_ARGUMENT),
        seccomp::if_equal(PR_GET_AUXV, 0, 1),
        seccomp::end_with_error(libc::EINVAL),
        seccomp::end(libc::SECCOMP_RET_ALLOW),
    ];
    seccomp::install(&mut program, 0).map(drop)
}

/// The count in callgrind's output.
fn collected(said: &str) -> Result<u64, Failure> {
    let found = said.lines().find_map(|line| line.split_once(COLLECTED)?.1.trim().parse().ok());
    found.ok_or_else(|| {
        Failure(format!("valgrind counts nothing: {}", said.lines().last().unwrap_or_default()))
    })
}
