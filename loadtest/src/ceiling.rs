//! The limit of the client itself: the same threads against a server that answers at once without any work. A run at
//! half of this rate or less measures its server and not the client.

use crate::addresses::Addresses;
use crate::arrivals::Spread;
use crate::mix::{Endpoint, Mix};
use crate::run::{Load, Loop, Target, run};
use crate::sampler::Watched;
use crate::summary::Summary;
use crate::{End, say};
use clap::Args;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The options of `ceiling`.
#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: u16,
    /// Length of the run
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = crate::objective::time)]
    duration: Duration,
}

const BODY: &str =
    r#"{"email":"user@d1.example","deliverable":null,"reason":"fast_check_passed","credits_remaining":null}"#;

/// Measures the highest rate of the client.
///
/// # Errors
///
/// One line: a socket or thread could not be created.
pub fn ceiling(args: &CeilingArgs, stop: &Arc<AtomicBool>) -> Result<End, String> {
    let wrong = |error: std::io::Error| format!("cannot start a bare server: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    let server = listener.local_addr().map_err(wrong)?;
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    let target = Target {
        server,
        host: server.to_string(),
        keys: vec!["mp_test_none".into()],
        watched: Watched::default(),
    };
    let clients = usize::from(args.clients);
    let load = Load {
        pressure: Loop::Closed(clients),
        spread: Spread::Even,
        mix: Mix::only(Endpoint::Fast),
        batch_size: 1,
        warm_up: Duration::from_secs(1),
        duration: args.duration,
        patience: Duration::from_secs(5),
        connections: clients,
        spin: false,
        threads: 1,
        seed: 1,
    };
    let (outcome, _) = run(&target, &load, Addresses::counted(1000), stop)?;
    let summary = Summary::of(&outcome, &[]);
    say(&summary.text())?;
    say(&format!(
        "a thread of this client needs {:.1} us of CPU per request: {:.0} requests/s on one core of its own",
        summary.client.us_per_request,
        1e6 / summary.client.us_per_request
    ))?;
    Ok(End::Met)
}

/// Answers each read with one answer: the client sends one request in one write and waits.
fn answer(mut stream: TcpStream) {
    let whole = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut input = [0; 4096];
    while stream.read(&mut input).is_ok_and(|count| count > 0) {
        if stream.write_all(whole.as_bytes()).is_err() {
            return;
        }
    }
}
