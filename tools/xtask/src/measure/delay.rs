//! 20,000 addresses over 1,000 hosts that are 20 ms away.

use super::bench::{Bench, TableRow};
use super::link::{DelayedLink, FAR, NEAR};
use super::setting::{PeerAddresses, SERVER, SampleList, half_known, known, right};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use std::time::{Duration, Instant};

const LIST: SampleList = SampleList { domains: 1000, each: 20, rounds: 1 };
const ROUND_TRIP: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(120);

fn scenario() -> String {
    format!(
        r#"
seed = 4
[listen]
addresses = "wildcard"
after = "10.78.0.0"
dns = "{FAR}:53"
smtp_port = 25
"#
    ) + &half_known(LIST.domains)
}

/// Measures the list over a link with this delay, and counts whether its verdicts are right.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let text = scenario() + SERVER;
    let known = known(&text)?;
    let expected = |address: &str| known.expected(address).reason.as_str();
    let line = DelayedLink::make(ROUND_TRIP / 2)?;
    let inside = line.far.command(bench.world.binary("mailnet"));
    let mailnet = bench.world.mailnet_by(inside, &text, "mailnet", &[])?;
    report::line(&format!("a connection takes {:.1} ms", connect(&line)?.as_secs_f64() * 1000.0));
    let peers = PeerAddresses {
        resolver: format!("{FAR}:53"),
        smtp_port: "25".into(),
        networks: vec!["--allow-net".into(), "10.78.0.0/16".into()],
    };
    let (input, output, _) = bench.files();
    LIST.write(&input)?;
    TableRow::head();
    let mut worst = LIST.len();
    let cost = bench.median(|| {
        let clean = bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", "1000"]);
        let cost = bench.run(line.near.command_of(&clean), LIMIT)?;
        worst = worst.min(right(LIST, &output, &expected)?);
        Ok(cost)
    })?;
    let client = "mailprobe clean --pace lab --sessions 1000".into();
    TableRow { client, peer: "mailnet, 20 ms away".into(), addresses: LIST.len(), right: Some(worst), cost }
        .check(tally);
    mailnet.stop()?;
    Ok(())
}

/// The time to open a TCP connection over the link: one round trip.
fn connect(line: &DelayedLink) -> Result<Duration, Failure> {
    let script = format!("exec 3<>/dev/tcp/{FAR}/53");
    let bash = |script: &str| line.near.command("bash").args(["-c", script]).status();
    let began = Instant::now();
    let base = bash("true").map(|_| began.elapsed()).map_err(Failure::of)?;
    let began = Instant::now();
    match bash(&script) {
        Ok(status) if status.success() => Ok(began.elapsed().saturating_sub(base)),
        other => Err(Failure(format!("from {NEAR} to {FAR}: {other:?}"))),
    }
}
