//! Three network namespaces of one run: the probe, the mail servers, and the thousand hosts.
//!
//! ```text
//!   probe 10.76.0.2 ---- 10.76.0.1 mail 10.76.1.1 ---- 10.76.1.2 bulk
//!         fd76::2        fd76::1   10.77.0.0/16                  10.78.0.0/16
//!                                  fd77::10        10.79.0.0/16 swallows every packet
//! ```
//! They have no connection to the machine's own network. The names contain the pid of the run, so simultaneous runs use
//! different names. The next run finds and removes what a killed run left.

use super::process::{Finished, interrupted, run};
use crate::failure::{Context, Failure};
use crate::isolation::{Namespace, ip};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The start of the names of namespaces and run folders, before the pid.
const PREFIX: &str = "mailprobe-interop-";
/// The starts of the names of all campaigns with such namespaces and folders.
const SWEPT: [&str; 2] = [PREFIX, crate::cluster::PREFIX];
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two attempts to end the processes of a namespace.
const LOOK: Duration = Duration::from_millis(20);

/// The address of the recursive resolver.
pub const RESOLVER: &str = "10.77.0.53";

/// The namespaces and the folder of this run, which are removed on drop.
pub struct Net {
    name: String,
    /// The folder of all files of this run.
    pub folder: PathBuf,
    keep_folder: bool,
}

/// The namespaces of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetNamespace {
    Probe,
    Mail,
    Bulk,
}

impl Net {
    /// Creates the folder, the namespaces and the links, after removing what killed runs left.
    ///
    /// # Errors
    ///
    /// A command of `ip` fails, which needs root.
    pub fn make(keep_folder: bool) -> Result<Net, Failure> {
        sweep()?;
        let name = format!("{PREFIX}{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir(&folder).at(&folder)?;
        let net = Net { name, folder, keep_folder };
        // Servers run as their own users and read their tables below it.
        fs::set_permissions(&net.folder, fs::Permissions::from_mode(0o755)).at(&net.folder)?;
        net.link()?;
        Ok(net)
    }

    /// The name of the namespace for `ip netns`.
    pub fn space(&self, space: NetNamespace) -> String {
        let suffix = match space {
            NetNamespace::Probe => "probe",
            NetNamespace::Mail => "mail",
            NetNamespace::Bulk => "bulk",
        };
        format!("{}-{suffix}", self.name)
    }

    /// A command that runs `program` in a namespace.
    pub fn command(&self, space: NetNamespace, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Namespace(self.space(space)).command(program);
        // The cases have budgets of their own.
        command.env("MAILPROBE_STATE", "none");
        command
    }

    /// A command that runs a shell script in a namespace, with its own mounts and process ids. The last command of the
    /// script is the server. When the script is killed, its mounts disappear and its processes die. The shell remains
    /// the first process of its namespace, because a server that changes its user would not get the signal of its
    /// parent's death.
    ///
    /// A server stands for a machine of its own, so what else this machine computes must not slow it down: its priority is the
    /// highest. If a Postfix is slow to say that a client has too many connections, all its processes are soon busy, and it
    /// is under stress for the next 1,000 s.
    pub fn script(&self, space: NetNamespace, script: &str) -> Command {
        let mut command = self.command(space, "nice");
        command.args(["-n", "-20", "unshare"]);
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-euc", &format!("{script} & wait $!")]);
        command
    }

    /// Runs a command of [`Net::command`] to its end.
    ///
    /// # Errors
    ///
    /// It cannot start, or takes longer than `limit`.
    pub fn run(&self, command: Command, input: &str, limit: Duration) -> Result<Finished, Failure> {
        run(command, input, &self.folder, limit)
    }

    /// Whether a server listens at `address` (`10.77.0.10:25`) in a namespace.
    pub fn listens(&self, space: NetNamespace, address: &str) -> Result<bool, Failure> {
        let mut command = self.command(space, "ss");
        command.args(["-Hltn"]);
        let list = self.run(command, "", COMMAND_LIMIT)?.success("ss")?;
        Ok(list.lines().any(|line| line.split_whitespace().nth(3) == Some(address)))
    }

    fn link(&self) -> Result<(), Failure> {
        let [probe, mail, bulk] =
            [NetNamespace::Probe, NetNamespace::Mail, NetNamespace::Bulk].map(|space| self.space(space));
        for space in [&probe, &mail, &bulk] {
            self.ip(&format!("netns add {space}"))?;
            self.ip(&format!("-n {space} link set lo up"))?;
        }
        self.ip(&format!("link add name eth0 netns {probe} type veth peer name probe netns {mail}"))?;
        self.ip(&format!("link add name eth0 netns {bulk} type veth peer name bulk netns {mail}"))?;
        self.address(&probe, "eth0", &["10.76.0.2/24", "fd76::2/64"])?;
        self.address(&mail, "probe", &["10.76.0.1/24", "fd76::1/64"])?;
        self.address(&mail, "bulk", &["10.76.1.1/24"])?;
        self.address(&bulk, "eth0", &["10.76.1.2/24"])?;
        self.ip(&format!("-n {probe} route add default via 10.76.0.1"))?;
        self.ip(&format!("-n {probe} -6 route add default via fd76::1"))?;
        self.ip(&format!("-n {bulk} route add default via 10.76.1.1"))?;
        self.ip(&format!("-n {mail} route add local 10.77.0.0/16 dev lo"))?;
        self.address(&mail, "lo", &["fd77::10/128"])?;
        self.ip(&format!("-n {mail} route add 10.78.0.0/16 via 10.76.1.2"))?;
        self.ip(&format!("-n {mail} route add blackhole 10.79.0.0/16"))?;
        self.ip(&format!("-n {bulk} route add local 10.78.0.0/16 dev lo"))?;
        self.forward()
    }

    fn address(&self, space: &str, device: &str, addresses: &[&str]) -> Result<(), Failure> {
        for address in addresses {
            // An IPv6 address without duplicate address detection can be used at once.
            let nodad = if address.contains(':') { " nodad" } else { "" };
            self.ip(&format!("-n {space} address add {address} dev {device}{nodad}"))?;
        }
        self.ip(&format!("-n {space} link set {device} up"))
    }

    /// Enables forwarding in `mail` between the two links.
    fn forward(&self) -> Result<(), Failure> {
        let mut command = self.command(NetNamespace::Mail, "sh");
        command.args(["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);
        self.run(command, "", COMMAND_LIMIT)?.success("ip_forward").map(drop)
    }

    fn ip(&self, arguments: &str) -> Result<(), Failure> {
        interrupted()?;
        ip(arguments)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in [NetNamespace::Probe, NetNamespace::Mail, NetNamespace::Bulk] {
            remove_space(&self.space(space));
        }
        if !self.keep_folder {
            // The next run finds what cannot be removed now.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Removes namespaces and folders of runs whose process has ended.
///
/// # Errors
///
/// The list of namespaces cannot be read.
pub fn sweep() -> Result<(), Failure> {
    let listing =
        Command::new("ip").args(["netns", "list"]).output().about("ip (package iproute2) does not start")?;
    for line in String::from_utf8_lossy(&listing.stdout).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if is_orphan(name) {
            remove_space(name);
        }
    }
    let folder = std::env::temp_dir();
    let entries = fs::read_dir(&folder).at(&folder)?;
    for entry in entries.flatten() {
        // A folder with this file is kept until a user removes it.
        let kept = entry.path().join("keep").exists();
        if is_orphan(&entry.file_name().to_string_lossy()) && !kept {
            unmount(&entry.path());
            fs::remove_dir_all(entry.path()).at(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether `name` belongs to a run whose process has ended.
fn is_orphan(name: &str) -> bool {
    let Some(rest) = SWEPT.iter().find_map(|prefix| name.strip_prefix(prefix)) else { return false };
    let pid = rest.split('-').next().unwrap_or_default();
    // The file is empty for a zombie process, and unreadable if there is no process.
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = command.split(|&byte| byte == 0).next().unwrap_or_default();
    pid.parse::<u32>().is_ok_and(|pid| pid != 0) && !program.ends_with(b"xtask")
}

/// Kills the processes in a namespace of ours, then removes it.
pub fn remove_space(name: &str) {
    // A process may have ended by itself, or started another one meanwhile.
    let end = Instant::now() + COMMAND_LIMIT;
    loop {
        let pids = pids(name).unwrap_or_default();
        if pids.is_empty() || Instant::now() > end {
            break;
        }
        for pid in pids {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(LOOK);
    }
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// The processes in a namespace.
///
/// # Errors
///
/// There is no such namespace.
pub fn pids(name: &str) -> Result<Vec<Pid>, Failure> {
    let what = format!("ip netns pids {name}");
    let output = Command::new("ip").args(["netns", "pids", name]).output();
    let output = output.about(&what)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr)).about(&what);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect())
}

/// Removes the file system that is mounted on a folder, if there is one.
pub fn unmount(folder: &Path) {
    let _ = Command::new("umount").arg("--lazy").arg(folder).output();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_that_are_gone_are_orphans() {
        let ours = format!("{PREFIX}{}-mail", std::process::id());
        // A test's process is not called xtask, so it counts as ended. Names of other programs never match.
        let rows = [
            ("mailprobe-interop-4294967295-mail", true),
            ("mailprobe-cluster-4294967295-pg-1", true),
            ("mailprobe-interop-", false),
        ];
        for (name, orphan) in rows {
            assert_eq!(is_orphan(name), orphan, "{name}");
        }
        assert!(is_orphan(&ours));
        assert!(!is_orphan("docker-1") && !is_orphan("mailprobe-interop-x-mail"));
    }
}
