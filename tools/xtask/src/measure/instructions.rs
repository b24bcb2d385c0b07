//! Instructions of what mailprobe does most often, counted by valgrind's callgrind: neither other programs nor the processor's speed
//! changes them. Each figure is the difference between a long run and a short one, so that the start does not count.
//!
//! One frontend and one shard on epoll, which valgrind knows. Everything that the process does is counted, the log and timers too.

#![expect(unsafe_code, reason = "a seccomp filter for the child has no safe wrapper")]

use super::setting::{ONE_SITE, SERVER};
use super::{Bench, Failure};
use crate::interop::live_key;
use crate::interop::process::{self, Server, sleep};
use crate::interop::report::{self, Tally};
use crate::seccomp;
use crate::soak::client::{Client, Request};
use crate::soak::visitor::expect;
use crate::soak::world::{Mailnet, engine_flags, listening};
use serde_json::json;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const FLAGS: [&str; 4] = ["--driver", "epoll", "--shards", "1"];
/// Rows of a batch.
const ROWS: u64 = 200;
/// Between two looks at a batch.
const LOOK: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(600);
const CREDITS: u64 = 1_000_000;
/// What callgrind says of a run.
const COLLECTED: &str = "Collected : ";

/// What is counted, and how often it is done in the short run and in the long one.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Fast,
    Full,
    Batch,
    List,
}

const KINDS: [(Kind, &str, u64, u64); 4] = [
    (Kind::Fast, "a fast check", 200, 2200),
    (Kind::Full, "a full check", 50, 250),
    (Kind::Batch, "a row of a batch", 5 * ROWS, 15 * ROWS),
    (Kind::List, "an address of a list, one site", 20_000, 120_000),
];

pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let mailnet = bench.world.mailnet(&format!("{ONE_SITE}{SERVER}"))?;
    let found = KINDS.map(|(kind, name, few, many)| {
        let counted = each(bench, &mailnet, kind, few, many).map_err(|Failure(why)| why);
        (name, many - few, counted)
    });
    report::line("| what | times | instructions |\n|---|---:|---:|");
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

/// Instructions of one, as the difference of two runs.
fn each(bench: &Bench, mailnet: &Mailnet, kind: Kind, few: u64, many: u64) -> Result<u64, Failure> {
    let [short, long] = [few, many].map(|times| count(bench, mailnet, kind, times));
    let more = long?.checked_sub(short?);
    more.map(|more| more / (many - few))
        .ok_or_else(|| Failure("the long run takes fewer than the short one".into()))
}

/// Instructions of a process that does this so many times.
fn count(bench: &Bench, mailnet: &Mailnet, kind: Kind, times: u64) -> Result<u64, Failure> {
    match kind {
        Kind::List => of_list(bench, mailnet, times),
        Kind::Fast | Kind::Full | Kind::Batch => of_server(bench, mailnet, kind, times),
    }
}

fn of_list(bench: &Bench, mailnet: &Mailnet, times: u64) -> Result<u64, Failure> {
    let world = &bench.world;
    let [list, output] = ["instructions.csv", "instructions-out.csv"].map(|name| world.path(name));
    let rows: String = (0..times).map(|number| format!("user-{number}@d1.example\n")).collect();
    let wrong = |error: io::Error| Failure(format!("{}: {error}", list.display()));
    std::fs::write(&list, format!("email\n{rows}")).map_err(wrong)?;
    let mut command = Command::new(world.binary("mailprobe"));
    command
        .arg("clean")
        .arg(&list)
        .arg("-o")
        .arg(&output)
        .args(["--no-progress", "--pace", "lab"])
        .args(FLAGS);
    engine_flags(&mut command, mailnet.dns(), mailnet.smtp_port(), true);
    world.keep_state_here(&mut command);
    let finished = process::run(under_callgrind(&command), "", world.folder(), LIMIT)?;
    let said = finished.stderr.clone();
    finished.success("mailprobe clean under valgrind")?;
    let rows = std::fs::read_to_string(&output).map_err(wrong)?;
    let right = rows.lines().filter(|row| row.contains("mailbox_exists")).count() as u64;
    if right == times { collected(&said) } else { Err(Failure(format!("{right} of {times} rows are right"))) }
}

fn of_server(bench: &Bench, mailnet: &Mailnet, kind: Kind, times: u64) -> Result<u64, Failure> {
    let world = &bench.world;
    let name = format!("{kind:?}-{times}");
    let data = world.path(&name);
    let log = world.path(&format!("{name}.log"));
    let plans = world.free_plan(CREDITS)?;
    let mut flags = plans.each_ref().map(String::as_str).to_vec();
    flags.extend(["--frontends", "1"]);
    flags.extend(FLAGS);
    let start = |command: Command| {
        let mut server = Server::start("mailprobe serve", command, &log)?;
        match listening(&mut server)? {
            Some(address) => Ok((server, address)),
            None => Err(server.complain("does not start")),
        }
    };
    // The first start makes the key.
    start(world.serve_on(&data, mailnet, &flags))?.0.terminate(LIMIT)?;
    let key = &live_key(&data)?;
    let (server, address) = start(under_callgrind(&world.serve_on(&data, mailnet, &flags)))?;
    let mut client = Client::program(address);
    match kind {
        Kind::Batch => (0..times / ROWS).try_for_each(|batch| send_batch(&mut client, key, batch))?,
        _ => (0..times).try_for_each(|number| check(&mut client, key, kind, number))?,
    }
    server.terminate(LIMIT)?;
    let wrong = |error: io::Error| Failure(format!("{}: {error}", log.display()));
    collected(&std::fs::read_to_string(&log).map_err(wrong)?)
}

fn check(client: &mut Client, key: &str, kind: Kind, number: u64) -> Result<(), Failure> {
    let email = format!("user-{number}@d1.example");
    let (body, reason) = match kind {
        Kind::Fast => (json!({ "email": email, "mode": "fast" }), "fast_check_passed"),
        _ => (json!({ "email": email }), "mailbox_exists"),
    };
    let answer = expect(client, &Request::json("/v1/verify", &body).bearer(key), 200)?.json();
    if answer["reason"] == reason { Ok(()) } else { Err(Failure(format!("a wrong answer: {answer}"))) }
}

/// A batch, until all of it is answered.
fn send_batch(client: &mut Client, key: &str, batch: u64) -> Result<(), Failure> {
    let emails: Vec<String> =
        (0..ROWS).map(|row| format!("user-{}@d1.example", batch * ROWS + row)).collect();
    let request = Request::json("/v1/verify/batch", &json!({ "emails": emails })).bearer(key);
    let made = expect(client, &request, 202)?.json();
    let path = made["batch_id"].as_str().map(|id| format!("/v1/verify/batch/{id}"));
    let path = path.ok_or_else(|| Failure(format!("a batch without id: {made}")))?;
    loop {
        sleep(LOOK)?;
        let found = expect(client, &Request::get(path.as_str()).bearer(key), 200)?.json();
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

/// Lets prctl(PR_GET_AUXV) fail. Valgrind 3.19 passes it on, and the process would find the kernel's vDSO, which valgrind hides.
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

/// What callgrind counted.
fn collected(said: &str) -> Result<u64, Failure> {
    let found = said.lines().find_map(|line| line.split_once(COLLECTED)?.1.trim().parse().ok());
    found.ok_or_else(|| {
        Failure(format!("valgrind counts nothing: {}", said.lines().last().unwrap_or_default()))
    })
}
