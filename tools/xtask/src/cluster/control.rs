//! The control socket of a cluster, by which the command beside it begins and ends faults.
//!
//! A request is one line, and so is its answer, `ok ...` or `failed ...`:
//!
//! | request | what happens | answer |
//! | --- | --- | --- |
//! | `primary` | nothing | `ok` and the name of the primary, or `ok none` |
//! | `begin FAULT` | a fault of `--self-check` begins | `ok`, the name of its target, and `failover` if another server becomes primary, else `stays` |
//! | `end` | it ends, after its shortest duration | `ok` |
//! | `whole` | waits until there is a primary with all standbys | `ok` |

use super::network::Member;
use super::self_check::RoundFault;
use super::{Cluster, START_LIMIT};
use crate::failure::{Context, Failure, thread_result};
use crate::interop::process;
use clap::ValueEnum;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks for a connection.
const LOOK: Duration = Duration::from_millis(100);

/// A fault under way.
struct Begun {
    fault: RoundFault,
    target: Member,
    since: Instant,
}

/// Runs the command, and executes what it asks for meanwhile.
///
/// # Errors
///
/// The command does not start, or a signal ends the task.
pub fn accompany(cluster: &mut Cluster, mut command: Command) -> Result<ExitStatus, Failure> {
    let path = cluster.folder.path.join("control");
    let listener = UnixListener::bind(&path).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.at(&path)?;
    command.env("MAILPROBE_TEST_CLUSTER", &path);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(cluster, &listener, &has_ended));
        let status = process::accompany(command);
        has_ended.store(true, Ordering::Relaxed);
        thread_result(serving.join(), "the thread of the control socket")?;
        status
    })
}

/// Serves one connection after another until the command has ended.
fn serve(cluster: &mut Cluster, listener: &UnixListener, has_ended: &AtomicBool) -> Result<(), Failure> {
    let mut begun = None;
    while !has_ended.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that ends in the middle of an answer is no failure of the cluster.
            Ok((stream, _)) => drop(serve_client(cluster, &mut begun, &stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
            Err(error) => return Err(error).about("the control socket"),
        }
    }
    Ok(())
}

fn serve_client(
    cluster: &mut Cluster,
    begun: &mut Option<Begun>,
    mut stream: &UnixStream,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    for request in BufReader::new(stream).lines() {
        let answer = match execute(cluster, begun, &request?) {
            Ok(text) => format!("ok {text}"),
            Err(Failure(why)) => format!("failed {}", why.replace('\n', " ")),
        };
        stream.write_all(format!("{}\n", answer.trim_end()).as_bytes())?;
    }
    Ok(())
}

fn execute(cluster: &mut Cluster, begun: &mut Option<Begun>, request: &str) -> Result<String, Failure> {
    match request.split_once(' ').unwrap_or((request, "")) {
        ("primary", "") => {
            Ok(cluster.primary()?.map_or_else(|| "none".to_owned(), |primary| primary.to_string()))
        }
        ("begin", name) if begun.is_none() => {
            let fault = RoundFault::from_str(name, false).about(name)?;
            let primary = cluster.primary()?.ok_or_else(|| Failure("there is no primary".into()))?;
            let target = fault.target(cluster, primary)?;
            fault.begin(cluster, target)?;
            *begun = Some(Begun { fault, target, since: Instant::now() });
            Ok(format!("{target} {}", if fault.fails_over() { "failover" } else { "stays" }))
        }
        ("end", "") => {
            let Some(Begun { fault, target, since }) = begun.take() else {
                return Err(Failure("there is no fault".into()));
            };
            process::sleep(fault.duration(cluster.setup.ttl).saturating_sub(since.elapsed()))?;
            fault.end(cluster, target)?;
            Ok(String::new())
        }
        ("whole", "") => cluster.await_whole(START_LIMIT).map(|()| String::new()),
        _ => Err("it is not understood").about(request),
    }
}
