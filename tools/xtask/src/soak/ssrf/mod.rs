//! `soak ssrf`: no packet is sent to an address that is not public, whatever the source of the name.
//!
//! Three features take host names from strangers: the domain of an address, whose mail hosts are asked (over the API and
//! by `mailprobe check`), the URL of a client's metadata, and the URL of a webhook (`hooks.rs`). Each feature is tested with every
//! address of [`vectors`]. The server runs in new namespaces with a default route to a device without a peer. A sniffer records all
//! packets on it and on the loopback device.
//!
//! 1. Hosts that have only such addresses: they are refused, and no packet is sent.
//! 2. Hosts that have such addresses and public ones, at once or one after the other: packets go only to the public
//!    ones.
//! 3. The filter is off (`--allow-net 0.0.0.0/0`): the sniffer records packets to each address, which proves that it
//!    would have recorded them before.

mod cases;
mod dns;
mod hooks;
mod sniffer;
mod vectors;

use super::api::Api;
use super::options::SoakOptions;
use super::visitor::Visitor;
use super::world::{CampaignFolder, Serve, no_panic};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::{self, ServerProcess, own_path, sleep, wait_until};
use crate::interop::report::{self, Tally};
use cases::{HostCase, HostRoute, address, expected, host, mixed, refused, zone};
use dns::SsrfResolver;
use serde_json::Value;
use sniffer::{PacketLog, Sniffer};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use vectors::{is_connectable, on_the_wire};

const API: &str = "127.0.0.1:8025";
const API_PORT: u16 = 8025;
/// The email of the user who is asked to consent to clients.
const EMAIL: &str = "joe@probe.example";
const DNS_PORT: u16 = 53;
/// The most rows of a batch.
const BATCH_ROWS: usize = 200;
const SMTP: u16 = 25;
const HTTPS: u16 = 443;
const ENGINE: &[&str] = &[
    "--resolver",
    dns::AT,
    "--pace",
    "lab",
    "--ehlo",
    "probe.example",
    "--mail-from",
    "postmaster@probe.example",
];
const FILTER_OFF: &[&str] = &["--allow-net", "0.0.0.0/0", "--allow-net", "::/0"];
const HOOK_FILTER_OFF: &[&str] = &["--webhook-allow-net", "0.0.0.0/0", "--webhook-allow-net", "::/0"];
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// How soon each permitted host must be contacted.
const CONTACT_LIMIT: Duration = Duration::from_secs(60);
/// Longer than the engine keeps an answer with a time to live of 0.
const KEPT: Duration = Duration::from_secs(62);
/// How many clients' URLs the small version tests: each fetch takes two seconds, and they run one after the other.
const SMALL_FETCHES: usize = 6;

/// The commands of ip(8), one a line, that make a device without a peer, from which packets leave without address resolution, and
/// default routes to it.
const NETWORK: &str = include_str!("../../../soak/ssrf-network.txt");
/// Spellings that the resolver of a system may read as addresses of this host or of the link, one a line.
const SPELLINGS: &str = include_str!("../../../soak/spellings.txt");

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    match &options.outside {
        None => enter(options).map(|never| match never {}),
        Some(outside) => inside(options, outside, tally),
    }
}

/// Builds the binaries, which may need downloads, and restarts this campaign in new namespaces. They disappear with
/// their last process.
fn enter(options: &SoakOptions) -> Result<Infallible, Failure> {
    let binaries = CampaignFolder::make(options)?.binaries().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--"]).arg(own_path()?);
    command.args(["soak", "ssrf"]).args(options.small.then_some("--small"));
    command.arg("--bin-dir").arg(binaries).arg("--outside").arg(network_namespace()?);
    Err(Failure(format!("unshare (package util-linux) does not start: {}", command.exec())))
}

fn network_namespace() -> Result<PathBuf, Failure> {
    let path = "/proc/self/ns/net";
    std::fs::read_link(path).about(path)
}

fn inside(options: &SoakOptions, outside: &PathBuf, tally: &mut Tally) -> Result<(), Failure> {
    ensure!(network_namespace()? != *outside, "this is the network namespace of the machine");
    let world = CampaignFolder::make(options)?;
    prepare(&world)?;
    let mut campaign = SsrfCampaign::new(world, options.small)?;
    report::line(&format!(
        "ssrf: {} addresses that are not public, {} hosts that are so in part, in three places",
        campaign.refused.len(),
        campaign.mixed.len()
    ));
    campaign.go(tally)?;
    campaign.sniffer.stop()?;
    Ok(())
}

/// Creates a device without a peer, default routes to it, and a configuration that makes our resolver the system's.
fn prepare(world: &CampaignFolder) -> Result<(), Failure> {
    let run = |program: &str, words: &str| {
        let mut command = Command::new(program);
        command.args(words.split(' '));
        let name = format!("{program} {words}");
        process::run(command, "", world.folder(), COMMAND_LIMIT)?.success(&name).map(drop)
    };
    NETWORK.lines().try_for_each(|words| run("ip", words))?;
    for (path, text) in
        [("/etc/resolv.conf", "nameserver 127.0.0.1\n"), ("/etc/nsswitch.conf", "hosts: files dns\n")]
    {
        let file = world.path(path.rsplit('/').next().unwrap_or_default());
        std::fs::write(&file, text).at(&file)?;
        run("mount", &format!("--bind {} {path}", file.display()))?;
    }
    Ok(())
}

struct SsrfCampaign {
    world: CampaignFolder,
    small: bool,
    sniffer: Sniffer,
    resolver: SsrfResolver,
    /// Hosts with addresses that must not be contacted.
    refused: Vec<HostCase>,
    mixed: Vec<HostCase>,
}

impl SsrfCampaign {
    fn new(world: CampaignFolder, small: bool) -> Result<SsrfCampaign, Failure> {
        let (refused, mixed) = (refused(), mixed(small));
        let resolver = SsrfResolver::start(zone(&[('r', &refused), ('m', &mixed)]))?;
        let sniffer = Sniffer::start(vec![API_PORT, DNS_PORT])?;
        Ok(SsrfCampaign { world, small, sniffer, resolver, refused, mixed })
    }

    fn go(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let serve = self.serve(&[])?;
        let key = self.world.unlimited("ssrf", 100_000)?;
        let api = Api::new(serve.address, &key);
        let visitor = Visitor::sign_up(&serve.address.into(), EMAIL)?;
        self.sniffer.forget()?;
        tally.check("mail hosts over the API", self.refuses_mail(api));
        tally.check("mail hosts by `mailprobe check`", self.refuses_by_check());
        tally.check("hosts of clients", self.refuses_clients(&visitor));
        tally.check("addresses for hosts", self.refuses_literals(api, &visitor));
        tally.check("hosts of webhooks", self.refuses_hooks(api));
        tally.check("URLs of webhooks", self.refuses_hook_urls(api));
        tally.check("no packet", self.nothing_sent());
        tally.check("public addresses besides, by `mailprobe check`", self.asks_by_check());
        tally.check("public addresses besides, over the API", self.asks_mail(api));
        tally.check("public addresses besides, of clients", self.asks_clients(&visitor));
        tally.check("public addresses besides, of webhooks", self.asks_hooks(api));
        if !self.small {
            sleep(KEPT)?;
            tally.check("rebound, once the answers are old", self.asks_again(api));
        }
        let log = serve.log()?;
        serve.kill();
        tally.check("no packet but to public addresses", seen_all(&self.mixed, None, &self.sniffer.seen()?));
        tally.check("no panic", no_panic(&log));

        self.sniffer.forget()?;
        let (rows, open) = self.open("check");
        let checked = self.check_until_seen(&rows, &open, FILTER_OFF);
        tally.check("without the filter, by `mailprobe check`", checked);
        // This server uses another folder: otherwise it would continue the batches of the first.
        self.world.use_data("open");
        let serve = self.serve(&[FILTER_OFF, HOOK_FILTER_OFF].concat())?;
        let key = self.world.unlimited("ssrf", 100_000)?;
        let api = Api::new(serve.address, &key);
        let visitor = Visitor::sign_up(&serve.address.into(), EMAIL)?;
        self.sniffer.forget()?;
        let (rows, open) = self.open("open");
        tally.check("without the filter, over the API", self.submit_until_seen(api, &rows, &open));
        tally.check("without the filter, hosts of clients", self.open_clients(&visitor));
        self.sniffer.forget()?;
        tally.check("without the filter, hosts of webhooks", self.open_hooks(api));
        serve.kill();
        Ok(())
    }

    fn serve(&self, more: &[&str]) -> Result<Serve, Failure> {
        self.world.serve_bare(&[&["--listen", API], ENGINE, more].concat())
    }

    /// Checks that each is answered as docs/verdicts.md says of a domain without a permitted host.
    fn refuses_mail(&self, api: Api<'_>) -> Result<String, String> {
        let mut said = Vec::new();
        for (index, case) in self.refused.iter().enumerate() {
            let answer = api.verify(&address("api", 'r', index))?;
            if answer.status != 200 || answer.word("reason") != expected(case) {
                said.push(format!("{}: {answer}", case.name));
            }
        }
        report::faultless(format!("{} refused", self.refused.len()), &said)
    }

    fn refuses_by_check(&self) -> Result<String, String> {
        let rows: Vec<String> = (0..self.refused.len()).map(|index| address("check", 'r', index)).collect();
        let said = self.check(&rows)?;
        let wrong = |(case, row): (&HostCase, &String)| {
            let (reason, _) = said.get(row).map_or(("", ""), |(reason, rule)| (reason, rule));
            (reason != expected(case)).then(|| format!("{}: {:?}", case.name, said.get(row)))
        };
        report::faultless(
            format!("{} refused", rows.len()),
            &self.refused.iter().zip(&rows).filter_map(wrong).collect::<Vec<_>>(),
        )
    }

    fn refuses_clients(&self, visitor: &Visitor) -> Result<String, String> {
        let mut said = Vec::new();
        for (index, case) in self.refused.iter().enumerate() {
            let host = host("oauth", 'r', index);
            let page = visitor.consent(&format!("https://{host}/client.json"))?;
            if page.status != 400 || !page.text().contains("no address that may be contacted") {
                said.push(format!("{}: {page}", case.name));
            } else if self.resolver.asked(&host) == 0 {
                said.push(format!("{}: another resolver was asked", case.name));
            }
        }
        report::faultless(format!("{} refused", self.refused.len()), &said)
    }

    /// Tests addresses in the position of names: in the URL of a client, and in the address of a recipient.
    fn refuses_literals(&self, api: Api<'_>, visitor: &Visitor) -> Result<String, String> {
        let (literals, hosts) = self.literals();
        let mut said = Vec::new();
        for host in &hosts {
            for port in ["", ":25"] {
                let url = format!("https://{host}{port}/client.json");
                let page = visitor.consent(&url)?;
                if page.status != 400 {
                    said.push(format!("{url}: {page}"));
                }
            }
        }
        for literal in &literals {
            let domain = if literal.is_ipv4() { format!("[{literal}]") } else { format!("[IPv6:{literal}]") };
            let answer = api.verify(&format!("user@{domain}"))?;
            if answer.status != 200 || answer.word("reason") != "invalid_syntax" {
                said.push(format!("user@{domain}: {answer}"));
            }
        }
        report::faultless(format!("{} refused", hosts.len() * 2 + literals.len()), &said)
    }

    /// The addresses, and what stands for the name of a host: they, and [`SPELLINGS`].
    fn literals(&self) -> (Vec<IpAddr>, Vec<String>) {
        let literals = self.refused.iter().filter(|case| case.way == HostRoute::Mx);
        let literals: Vec<IpAddr> = literals.flat_map(|case| case.first.clone()).collect();
        let in_brackets = |address: &IpAddr| match address {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        let hosts = literals.iter().map(in_brackets).chain(SPELLINGS.lines().map(str::to_owned)).collect();
        (literals, hosts)
    }

    fn nothing_sent(&self) -> Result<String, String> {
        let seen = self.sniffer.seen()?;
        report::outcome(seen.is_empty(), format!("packets: {seen:?}"))
    }

    /// Checks that hosts with a public address are contacted there, and after the change of their records no longer.
    fn asks_by_check(&self) -> Result<String, String> {
        let rows: Vec<String> = (0..self.mixed.len()).map(|index| address("check", 'm', index)).collect();
        self.check_until_seen(&rows, &self.mixed, &[])?;
        let rebound = |(index, case): (usize, &HostCase)| case.is_rebound().then(|| rows[index].clone());
        let rows: Vec<String> = self.mixed.iter().enumerate().filter_map(rebound).collect();
        let before = self.sniffer.seen()?;
        let said = self.check(&rows)?;
        let wrong: Vec<&String> =
            rows.iter().filter(|row| said.get(*row).is_none_or(|(_, rule)| rule != "no_mail_host")).collect();
        let after = self.sniffer.seen()?;
        ensure!(wrong.is_empty() && after == before, "{said:?}, and was sent: {after:?}, before: {before:?}");
        seen_all(&self.mixed, Some(SMTP), &after)
    }

    fn asks_mail(&self, api: Api<'_>) -> Result<String, String> {
        self.sniffer.forget()?;
        let rows: Vec<String> = (0..self.mixed.len()).map(|index| address("api", 'm', index)).collect();
        self.submit_until_seen(api, &rows, &self.mixed)
    }

    fn asks_clients(&self, visitor: &Visitor) -> Result<String, String> {
        self.sniffer.forget()?;
        let mut rebound = 0;
        for (index, case) in self.mixed.iter().enumerate().filter(|(_, case)| case.way != HostRoute::Implicit)
        {
            let host = host("oauth", 'm', index);
            let page = visitor.consent(&format!("https://{host}/1.json"))?;
            ensure!(page.status == 400, "{}: {page}", case.name);
            if !case.is_rebound() {
                continue;
            }
            rebound += 1;
            let page = visitor.consent(&format!("https://{host}/2.json"))?;
            if page.status != 400 || !page.text().contains("no address that may be contacted") {
                return Err(format!("{}, again: {page}", case.name));
            }
            if self.resolver.asked(&host) < 2 {
                return Err(format!("{}: its addresses were not asked for again", case.name));
            }
        }
        let seen = self.sniffer.seen()?;
        // Sessions of the check over the API may still begin.
        let seen = seen.into_iter().filter(|packet| packet.port != SMTP).collect();
        let asked = self.mixed.iter().filter(|case| case.way != HostRoute::Implicit);
        Ok(format!("{}, {rebound} of them rebound", seen_all(asked, Some(HTTPS), &seen)?))
    }

    /// Checks that the engine asks DNS again and uses the changed address.
    fn asks_again(&self, api: Api<'_>) -> Result<String, String> {
        let mut said = Vec::new();
        let rebound = self.mixed.iter().enumerate().filter(|(_, case)| case.is_rebound());
        let mut count = 0;
        for (index, case) in rebound {
            count += 1;
            let answer = api.verify(&format!("other-{}", address("api", 'm', index)))?;
            let asked = self.resolver.asked(&host("api", 'm', index));
            if answer.status != 200 || answer.word("reason") != "mailbox_not_found" || asked < 2 {
                said.push(format!("{}: {answer}, DNS asked {asked} times", case.name));
            }
        }
        report::faultless(format!("{} refused", count), &said)
    }

    /// The open cases, each behind an address of its domain at a place.
    fn open(&self, place: &str) -> (Vec<String>, Vec<HostCase>) {
        self.open_cases().into_iter().map(|(index, case)| (address(place, 'r', index), case)).unzip()
    }

    fn open_clients(&self, visitor: &Visitor) -> Result<String, String> {
        let mut cases = self.open_cases();
        cases.retain(|(_, case)| case.is_sample && case.way == HostRoute::Mx);
        if self.small {
            let step = cases.len().div_ceil(SMALL_FETCHES);
            cases = cases.into_iter().step_by(step).collect();
        }
        for (index, _) in &cases {
            let url = format!("https://{}/client.json", host("open", 'r', *index));
            visitor.consent(&url)?;
        }
        let seen = self.sniffer.seen()?;
        let seen = seen.into_iter().filter(|packet| packet.port == HTTPS).collect();
        seen_all(cases.iter().map(|(_, case)| case), Some(HTTPS), &seen)
    }

    /// The hosts that must be contacted when every address is permitted, with their index in [`SsrfCampaign::refused`].
    fn open_cases(&self) -> Vec<(usize, HostCase)> {
        let connectable = |(index, case): (usize, &HostCase)| {
            let public: Vec<IpAddr> = case.first.iter().copied().filter(|it| is_connectable(*it)).collect();
            let case = HostCase { first: public.clone(), later: public.clone(), public, ..case.clone() };
            (!case.public.is_empty()).then_some((index, case))
        };
        self.refused.iter().enumerate().filter_map(connectable).collect()
    }

    /// Starts `mailprobe check` and waits until it has contacted all hosts, which never answer.
    fn check_until_seen(&self, rows: &[String], cases: &[HostCase], more: &[&str]) -> Result<String, String> {
        let log = self.world.path("check.log");
        let checking = ServerProcess::start("mailprobe check", self.check_command(rows, more), &log);
        let checking = checking?;
        let seen = self.wait_until_seen(cases)?;
        drop(checking);
        seen_all(cases, Some(SMTP), &seen)
    }

    fn submit_until_seen(&self, api: Api<'_>, rows: &[String], cases: &[HostCase]) -> Result<String, String> {
        for rows in rows.chunks(BATCH_ROWS) {
            let answer = api.submit("", rows)?;
            ensure!(answer.status == 202, "{answer}");
        }
        let seen = self.wait_until_seen(cases)?;
        seen_all(cases, Some(SMTP), &seen)
    }

    /// Waits until packets to all public addresses of the cases were sent, and returns all recorded packets.
    fn wait_until_seen(&self, cases: &[HostCase]) -> Result<PacketLog, String> {
        let all: BTreeSet<IpAddr> =
            cases.iter().flat_map(|case| &case.public).map(|it| on_the_wire(*it)).collect();
        let mut missing = BTreeSet::new();
        let waited = wait_until("packets", CONTACT_LIMIT, || {
            let seen: BTreeSet<IpAddr> = self.sniffer.so_far().iter().map(|packet| packet.to).collect();
            missing = all.difference(&seen).copied().collect();
            Ok(missing.is_empty())
        });
        waited.map_err(|failure| format!("{}, to {missing:?}", failure.0))?;
        self.sniffer.seen().map_err(|failure| failure.0)
    }

    fn check_command(&self, rows: &[String], more: &[&str]) -> Command {
        let mut command = Command::new(self.world.binary("mailprobe"));
        command.args(["check", "--json"]).args(ENGINE).args(more).args(rows);
        self.world.keep_state_here(&mut command);
        command
    }

    /// The reason and rule of each address.
    fn check(&self, rows: &[String]) -> Result<BTreeMap<String, (String, String)>, String> {
        let command = self.check_command(rows, &[]);
        let finished = process::run(command, "", self.world.folder(), CHECK_LIMIT)?;
        let mut said = BTreeMap::new();
        for line in finished.stdout.lines() {
            let row: Value = serde_json::from_str(line).about(line)?;
            let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
            said.insert(text("email"), (text("reason"), text("rule")));
        }
        ensure!(said.len() == rows.len(), "{} {}", finished.stdout, finished.stderr);
        Ok(said)
    }
}

/// Checks that packets went to each public address of the cases, and to no other; with a port, only to that port.
fn seen_all<'c>(
    cases: impl IntoIterator<Item = &'c HostCase>,
    port: Option<u16>,
    seen: &PacketLog,
) -> Result<String, String> {
    let cases: Vec<&HostCase> = cases.into_iter().collect();
    let all: BTreeSet<IpAddr> =
        cases.iter().flat_map(|case| &case.public).map(|it| on_the_wire(*it)).collect();
    let stray: Vec<_> = seen
        .iter()
        .filter(|packet| !all.contains(&packet.to) || port.is_some_and(|port| packet.port != port))
        .collect();
    let missing: Vec<&IpAddr> =
        all.iter().filter(|it| !seen.iter().any(|packet| packet.to == **it)).collect();
    let missing = if port.is_some() { missing } else { Vec::new() };
    ensure!(stray.is_empty() && missing.is_empty(), "packets to {stray:?}; none to {missing:?}");
    Ok(format!("packets to {} addresses of {} hosts and to no other", all.len(), cases.len()))
}
