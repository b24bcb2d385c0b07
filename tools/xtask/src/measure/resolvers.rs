//! Real resolvers with their default configurations: Unbound, BIND, Knot Resolver and dnsmasq, one at a time at
//! [`ADDRESS`] in a network namespace, with NSD behind them. The configurations are in tools/xtask/resolvers/, with
//! `@RUN@` for a folder.

use crate::failure::{Context, Failure};
use crate::interop::process::{ServerProcess, wait_until};
use crate::interop::servers::render;
use crate::isolation::{Namespace, ip};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The address at which the resolver listens.
pub const ADDRESS: &str = "127.0.0.53";
/// The address with port 53 in the format of /proc/net/udp, with the bytes in reverse order.
const IN_PROC: &str = "3500007F:0035";
/// The folder of the configurations.
const TEMPLATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/resolvers");
const START_LIMIT: Duration = Duration::from_secs(20);

/// The resolvers that are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolverProgram {
    Unbound,
    Bind,
    Knot,
    Dnsmasq,
}

impl ResolverProgram {
    /// All resolvers in the order of the table.
    pub const ALL: [ResolverProgram; 4] =
        [ResolverProgram::Unbound, ResolverProgram::Bind, ResolverProgram::Knot, ResolverProgram::Dnsmasq];

    /// The name of the resolver in the table.
    pub fn name(self) -> &'static str {
        match self {
            ResolverProgram::Unbound => "Unbound",
            ResolverProgram::Bind => "BIND",
            ResolverProgram::Knot => "Knot Resolver",
            ResolverProgram::Dnsmasq => "dnsmasq",
        }
    }

    /// The command of the resolver, for the folder of the run.
    fn command(self) -> &'static [&'static str] {
        match self {
            ResolverProgram::Unbound => &["unbound", "-d", "-p", "-c", "unbound.conf"],
            ResolverProgram::Bind => &["named", "-g", "-c", "named.conf"],
            // It changes to the folder of its cache before it opens the configuration.
            ResolverProgram::Knot => &["kresd", "-n", "-q", "-c", "../kresd.conf", "knot-cache"],
            ResolverProgram::Dnsmasq => &["dnsmasq", "-k", "-C", "dnsmasq.conf"],
        }
    }
}

/// A namespace with an authoritative server for the domains `d1.example` and on, each with an MX host.
pub struct DnsNamespace {
    /// The namespace of the resolvers and of their clients.
    pub space: Namespace,
    folder: PathBuf,
    /// This server is stopped before the namespace is deleted.
    nsd: Option<ServerProcess>,
    /// The namespace was created here, and is deleted on drop.
    is_own: bool,
}

/// A resolver that is running and answers.
pub struct RunningResolver(std::cell::RefCell<ServerProcess>);

impl RunningResolver {
    /// An error if the resolver has ended.
    pub fn is_well(&self) -> Result<(), Failure> {
        self.0.borrow_mut().running()
    }
}

impl DnsNamespace {
    /// Creates a namespace in which the MX hosts are at 127.1.0.0/16.
    pub fn make(folder: PathBuf, domains: u64) -> Result<DnsNamespace, Failure> {
        let name = format!("mailprobe-resolvers-{}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let space = DnsNamespace { space: Namespace(name), folder, nsd: None, is_own: true };
        ip(&format!("-n {} link set lo up", space.space.0))?;
        space.serve("127.1", domains)
    }

    /// Uses an existing namespace, with the MX hosts at 10.78.0.0/16.
    pub fn within(space: &Namespace, folder: PathBuf, domains: u64) -> Result<DnsNamespace, Failure> {
        DnsNamespace { space: space.clone(), folder, nsd: None, is_own: false }.serve("10.78", domains)
    }

    fn serve(mut self, network: &str, domains: u64) -> Result<DnsNamespace, Failure> {
        // BIND listens only at addresses that an interface has.
        ip(&format!("-n {} address add {ADDRESS}/32 dev lo", self.space.0))?;
        fs::create_dir_all(&self.folder).at(&self.folder)?;
        render(Path::new(TEMPLATES), &self.folder, &self.folder)?;
        let zone = self.folder.join("example.zone");
        fs::write(&zone, zone_of(network, domains)).at(&zone)?;
        let nsd = self.run("nsd", &["nsd", "-d", "-c", "nsd.conf"])?;
        self.nsd = Some(nsd);
        Ok(self)
    }

    /// Starts a resolver with an empty cache.
    pub fn start(&self, resolver: ResolverProgram) -> Result<RunningResolver, Failure> {
        let cache = self.folder.join("knot-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).at(&cache)?;
        }
        fs::create_dir(&cache).at(&cache)?;
        let mut server = self.run(resolver.name(), resolver.command())?;
        let waited = wait_until(resolver.name(), START_LIMIT, || {
            server.running()?;
            let mut command = self.command("dig");
            command.args(["+short", "+time=1", "+tries=1", &format!("@{ADDRESS}"), "probe.example", "A"]);
            let output = command.output().about("dig")?;
            Ok(String::from_utf8_lossy(&output.stdout).starts_with("192.0.2.1"))
        });
        waited.map_err(|failure| server.complain(&failure.0))?;
        Ok(RunningResolver(server.into()))
    }

    /// Starts smtp-sink, which accepts every recipient, on all addresses of a namespace.
    pub fn sink(&self, space: &Namespace, port: u16) -> Result<ServerProcess, Failure> {
        let mut command = space.command("smtp-sink");
        command.args(["-u", "nobody", "-m", "20000"]);
        command.args([&format!("0.0.0.0:{port}"), "4000"]);
        let mut server = ServerProcess::start("smtp-sink", command, &self.folder.join("sink.log"))?;
        std::thread::sleep(Duration::from_millis(300));
        server.running().map_err(|failure| server.complain(&failure.0))?;
        Ok(server)
    }

    /// How many datagrams the resolver's sockets have dropped so far for lack of buffer space.
    pub fn drops(&self) -> Result<u64, Failure> {
        let mut command = self.command("cat");
        let output = command.arg("/proc/net/udp").output().map_err(Failure::of)?;
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        let ours = table.lines().filter(|line| line.split_whitespace().nth(1) == Some(IN_PROC));
        Ok(ours.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.space.command(program);
        command.current_dir(&self.folder);
        command
    }

    fn run(&self, name: &str, words: &[&str]) -> Result<ServerProcess, Failure> {
        let mut command = self.command(words[0]);
        command.args(&words[1..]);
        ServerProcess::start(name, command, &self.folder.join(format!("{}.log", words[0])))
    }
}

impl Drop for DnsNamespace {
    fn drop(&mut self) {
        self.nsd.take();
        if self.is_own {
            // A namespace that cannot be deleted now is empty.
            let _ = ip(&format!("netns delete {}", self.space.0));
        }
    }
}

/// The zone with `probe` and the domains with their hosts.
fn zone_of(network: &str, domains: u64) -> String {
    let mut zone =
        "$ORIGIN example.\n$TTL 3600\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.54\n\
                    probe A 192.0.2.1\n"
            .to_owned();
    for number in 0..domains {
        // Writing to a string cannot fail.
        let _ = writeln!(zone, "d{0} MX 10 mx.host{0}", number + 1);
        let _ = writeln!(zone, "mx.host{} A {network}.{}.{}", number + 1, number / 250, number % 250 + 1);
    }
    zone
}
