//! 20,000 addresses over 1,000 hosts that are 20 ms away.

use super::bench::{Bench, TableRow, median};
use super::cost::MeasuredChild;
use super::link::{DelayedLink, FAR, NEAR};
use super::setting::{PeerAddresses, SERVER, SampleList, half_known, right};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use std::process::Command;
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
    let known = Scenario::parse(&text).map_err(|error| Failure(error.to_string()))?;
    let expected = |address: &str| known.expected(address).reason.as_str();
    let line = DelayedLink::make(ROUND_TRIP / 2)?;
    let mut inside = Command::new("ip");
    inside.args(&line.far()[1..]).arg(bench.world.binary("mailnet"));
    let mailnet = bench.world.mailnet_by(inside, &text, "mailnet", &[])?;
    report::line(&format!("a connection takes {:.1} ms", connect(&line)?.as_secs_f64() * 1000.0));
    let peers = PeerAddresses {
        resolver: format!("{FAR}:53"),
        smtp_port: "25".into(),
        networks: vec!["--allow-net".into(), "10.78.0.0/16".into()],
    };
    let (input, output, log) = bench.files();
    LIST.write(&input)?;
    TableRow::head();
    let (mut costs, mut worst) = (Vec::new(), LIST.len());
    for _ in 0..bench.runs {
        let clean = bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", "1000"]);
        let mut command = Command::new("ip");
        command.args(&line.near()[1..]).arg(clean.get_program()).args(clean.get_args());
        costs.push(MeasuredChild::start(command, &log)?.wait(&log, LIMIT)?);
        worst = worst.min(right(LIST, &output, &expected)?);
    }
    let cost = median(costs).ok_or_else(|| Failure("no runs".into()))?;
    let client = "mailprobe clean --pace lab --sessions 1000".into();
    TableRow { client, peer: "mailnet, 20 ms away".into(), addresses: LIST.len(), right: Some(worst), cost }
        .check(tally);
    mailnet.stop()?;
    Ok(())
}

/// The time to open a TCP connection over the link: one round trip.
fn connect(line: &DelayedLink) -> Result<Duration, Failure> {
    let script = format!("exec 3<>/dev/tcp/{FAR}/53");
    let began = Instant::now();
    let near = line.near();
    let base = Command::new(near[0]).args(&near[1..]).args(["bash", "-c", "true"]).status();
    let base = base.map(|_| began.elapsed()).map_err(|error| Failure(error.to_string()))?;
    let began = Instant::now();
    let status = Command::new(near[0]).args(&near[1..]).args(["bash", "-c", &script]).status();
    match status {
        Ok(status) if status.success() => Ok(began.elapsed().saturating_sub(base)),
        other => Err(Failure(format!("from {NEAR} to {FAR}: {other:?}"))),
    }
}
