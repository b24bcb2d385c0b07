//! The inputs of the measurements: generated lists, the peers that know the answers, and the check of the output.

use super::bench::{Bench, TableRow};
use super::cost::{MeasuredChild, RunCost};
use super::loadtest::middle;
use crate::failure::{Context, Failure};
use crate::interop::process::ServerProcess;
use crate::soak::world::Mailnet;
use mailnet::Scenario;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server without STARTTLS and without limits, for the start of a scenario of mailnet.
pub const SERVER: &str = r#"
[[personality]]
name = "bench"
like = "generic"
ehlo = ["PIPELINING", "SIZE 10485760", "8BITMIME", "ENHANCEDSTATUSCODES"]
"#;

/// One site where all addresses exist; it needs [`SERVER`] before it.
pub const ONE_SITE: &str = r##"
[listen]
addresses = "wildcard"
[[domain]]
name = "d1.example"
server = "bench"
mailboxes.ok = ["user-#"]
"##;

/// So many domains, half of whose addresses exist; [`SERVER`] goes with it.
pub fn half_known(domains: u64) -> String {
    format!(
        r#"
[[group]]
name = "d{{n}}.example"
count = {domains}
server = "bench"
mailboxes.ok = ["50% user-#"]
"#
    )
}

/// A whole scenario of so many such domains, with one socket for all of their hosts.
pub fn many_half_known(domains: u64) -> String {
    ["seed = 4\n[listen]\naddresses = \"wildcard\"\n", &half_known(domains), SERVER].concat()
}

/// The port of smtp-sink, which cannot choose a free one.
const SINK_PORT: u16 = 20_025;

/// A list of this many domains with this many addresses each, repeated `times` with other addresses. The domains are in
/// blocks, so the window of addresses under way looks the same in a list of any length.
#[derive(Debug, Clone, Copy)]
pub struct SampleList {
    pub domains: u64,
    pub each: u64,
    pub rounds: u64,
}

/// How many domains alternate: all of a block are asked at the same time.
const BLOCK: u64 = 50;

impl SampleList {
    /// The number of rows in the list.
    pub fn len(&self) -> u64 {
        self.domains * self.each * self.rounds
    }

    /// The number of the domain and of the user in the row with this index.
    pub fn row(&self, index: u64) -> (u64, u64) {
        let a_round = self.domains * self.each;
        let (round, index) = (index / a_round, index % a_round);
        let block = index / (BLOCK * self.each);
        let width = BLOCK.min(self.domains - block * BLOCK);
        let within = index - block * BLOCK * self.each;
        (block * BLOCK + within % width, round * self.each + within / width)
    }

    /// The address in the row with this index.
    pub fn address(&self, index: u64) -> String {
        let (domain, number) = self.row(index);
        format!("user-{number}@d{}.example", domain + 1)
    }

    /// Writes the list to a CSV file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut file = BufWriter::new(File::create(path).at(path)?);
        writeln!(file, "email").at(path)?;
        for index in 0..self.len() {
            writeln!(file, "{}", self.address(index)).at(path)?;
        }
        file.flush().at(path)
    }
}

/// The expected reason of an address.
pub type ExpectedVerdict<'a> = &'a dyn Fn(&str) -> &'static str;

/// Counts the rows of a cleaned list that are at their position and right.
///
/// # Errors
///
/// The file cannot be read, or has another number of rows.
pub fn right(list: SampleList, output: &Path, expected: ExpectedVerdict<'_>) -> Result<u64, Failure> {
    let mut lines = BufReader::new(File::open(output).at(output)?).lines();
    let head = lines.next().transpose().at(output)?;
    if head.as_deref() != Some("email,deliverable,reason") {
        return Err(Failure(format!("{}: another head: {head:?}", output.display())));
    }
    let (mut rows, mut right) = (0, 0);
    for line in lines {
        let line = line.at(output)?;
        let address = list.address(rows);
        let reason = expected(&address);
        right += u64::from(line == format!("{address},{},{reason}", verdict(reason)));
        rows += 1;
    }
    if rows != list.len() {
        return Err(Failure(format!("{}: {rows} rows, not {}", output.display(), list.len())));
    }
    Ok(right)
}

/// The value of `deliverable` for a reason of these lists.
pub fn verdict(reason: &str) -> &'static str {
    match reason {
        // A fast check does not check the mailbox.
        "fast_check_passed" => "",
        "mailbox_exists" => "true",
        _ => "false",
    }
}

/// A running mailnet, and what it knows about its addresses.
pub struct KnownNet {
    mailnet: Mailnet,
    scenario: Scenario,
}

impl KnownNet {
    /// Starts mailnet with a scenario.
    pub fn start(bench: &Bench, text: &str) -> Result<KnownNet, Failure> {
        Ok(KnownNet { scenario: known(text)?, mailnet: bench.world.mailnet(text)? })
    }

    /// The expected reason of an address.
    pub fn reason(&self, address: &str) -> &'static str {
        self.scenario.expected(address).reason.as_str()
    }

    /// The addresses of its servers.
    pub fn peers(&self) -> PeerAddresses {
        PeerAddresses::of(&self.mailnet)
    }

    /// Ends it in order.
    pub fn stop(self) -> Result<(), Failure> {
        self.mailnet.stop().map(drop)
    }
}

/// The scenario of a text, which knows the expected reasons.
pub fn known(text: &str) -> Result<Scenario, Failure> {
    Scenario::parse(text).map_err(Failure::of)
}

/// The addresses of the resolver and the mail servers.
#[derive(Debug, Clone)]
pub struct PeerAddresses {
    pub resolver: String,
    pub smtp_port: String,
    /// Flags that permit mailprobe to contact them.
    pub networks: Vec<String>,
}

impl PeerAddresses {
    /// Uses the DNS server and the hosts of mailnet.
    pub fn of(mailnet: &Mailnet) -> PeerAddresses {
        PeerAddresses {
            resolver: mailnet.engine().0.into(),
            smtp_port: mailnet.engine().1.into(),
            networks: vec!["--allow-net".into(), "127.0.0.0/8".into()],
        }
    }

    /// Uses smtp-sink instead of mailnet's hosts.
    pub fn sink(mailnet: &Mailnet) -> PeerAddresses {
        PeerAddresses { smtp_port: SINK_PORT.to_string(), ..PeerAddresses::of(mailnet) }
    }
}

impl Bench {
    /// Starts smtp-sink on all addresses with these flags.
    pub fn sink(&self, flags: &[&str]) -> Result<ServerProcess, Failure> {
        let log = self.world.path("sink.log");
        let mut command = Command::new("/usr/sbin/smtp-sink");
        command.args(flags).args(["-m", "2000", "-u", "nobody", &format!("0.0.0.0:{SINK_PORT}"), "2000"]);
        let mut server = ServerProcess::start("smtp-sink", command, &log)?;
        std::thread::sleep(Duration::from_millis(300));
        server.running().map_err(|failure| server.complain(&failure.0))?;
        Ok(server)
    }

    /// Runs smtp-source against smtp-sink: this many recipients, `each` per MAIL, over this many reused sessions.
    pub fn source(&self, sessions: u64, recipients: u64, each: u64) -> Result<RunCost, Failure> {
        self.median(|| {
            let mut command = Command::new("/usr/sbin/smtp-source");
            command.args(["-d", "-s", &sessions.to_string(), "-m", &(recipients / each).to_string()]);
            command.args(["-r", &each.to_string(), "-M", "probe.example", "-f", "postmaster@probe.example"]);
            command.args(["-t", "user@d1.example", &format!("127.1.0.1:{SINK_PORT}")]).stdout(Stdio::null());
            self.run(command, Duration::from_secs(600))
        })
    }

    /// A command of `mailprobe clean` with the flags of every measurement.
    pub fn clean(&self, input: &Path, output: &Path, peers: &PeerAddresses, flags: &[&str]) -> Command {
        // `clean` replaces no file without --force, which older programs do not know. If it cannot be removed, `clean` says so.
        let _ = std::fs::remove_file(output);
        let mut command = Command::new(self.world.binary("mailprobe"));
        command.arg("clean").arg(input).arg("-o").arg(output).args(["--no-progress", "--format", "csv"]);
        command.args(["--column", "email", "--resolver", &peers.resolver, "--smtp-port", &peers.smtp_port]);
        command.args(&peers.networks).args(["--ehlo", "probe.example"]);
        command.args(["--mail-from", "postmaster@probe.example"]).args(flags).args(&self.flags);
        command.env("MAILPROBE_STATE", "none").stdout(Stdio::null());
        command
    }

    /// Cleans a list `runs` times. Returns the median run, with the number of right verdicts in the worst run.
    pub fn measure(
        &self,
        list: SampleList,
        (peers, peer): (&PeerAddresses, &str),
        flags: &[&str],
        expected: ExpectedVerdict<'_>,
        limit: Duration,
    ) -> Result<TableRow, Failure> {
        let (input, output, _) = self.files();
        list.write(&input)?;
        let mut worst = list.len();
        let cost = self.median(|| {
            let cost = self.run(self.clean(&input, &output, peers, flags), limit)?;
            worst = worst.min(right(list, &output, expected)?);
            Ok(cost)
        })?;
        let client = format!("mailprobe clean {}", flags.join(" "));
        Ok(TableRow { client, peer: peer.into(), addresses: list.len(), right: Some(worst), cost })
    }

    /// Runs a command to its end, with the log of every measurement.
    pub fn run(&self, command: Command, limit: Duration) -> Result<RunCost, Failure> {
        let (_, _, log) = self.files();
        MeasuredChild::start(command, &log)?.wait(&log, limit)
    }

    /// The run with the median CPU time among `runs` of them.
    pub fn median(&self, one: impl FnMut() -> Result<RunCost, Failure>) -> Result<RunCost, Failure> {
        let costs = std::iter::repeat_with(one).take(self.runs as usize).collect::<Result<Vec<_>, _>>()?;
        middle(costs, |cost| cost.cpu_s)
    }

    /// The paths of input, output and log.
    pub fn files(&self) -> (PathBuf, PathBuf, PathBuf) {
        (self.world.path("list.csv"), self.world.path("out.csv"), self.world.path("clean.log"))
    }
}

#[cfg(test)]
mod tests {
    use super::SampleList;
    use std::collections::HashSet;

    #[test]
    fn a_list_has_every_address_once() {
        for (domains, each, rounds) in [(1, 7, 1), (49, 3, 1), (50, 2, 3), (120, 5, 2)] {
            let list = SampleList { domains, each, rounds };
            let rows: HashSet<(u64, u64)> = (0..list.len()).map(|index| list.row(index)).collect();
            assert_eq!(rows.len() as u64, domains * each * rounds);
            assert!(rows.iter().all(|&(domain, number)| domain < domains && number < each * rounds));
        }
    }
}
