//! The servers from their packages: NSD, Unbound, Postgrey, Postfix, Exim and OpenSMTPD.
//!
//! Their configurations are in tools/xtask/interop/, one folder per server, with `@RUN@` for the folder of the run.
//! Each server has its own mounts (net.rs), so it sees our resolver and its users without a change to the machine.

use super::net::{Net, NetNamespace, RESOLVER};
use super::process::{self, ServerProcess, wait_until};
use crate::failure::{Context, Failure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The folder of the configurations.
const TEMPLATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interop");
/// The folder in which .ci/mail-servers unpacks Exim and OpenSMTPD, whose packages conflict with Postfix's.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mail-servers");
/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The delay of the second Postgrey in seconds, instead of five minutes. A client that follows its retry rules returns
/// later than this.
const SHORT_DELAY_S: u32 = 30;

/// Users that the packages of the unpacked servers would create, with ids that no Debian package uses.
const USERS: [(&str, u32); 3] = [("opensmtpd", 64_901), ("opensmtpq", 64_902), ("Debian-exim", 64_903)];

/// The required programs with their packages.
const PROGRAMS: [(&str, &str); 16] = [
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("unshare", "util-linux"),
    ("nsd", "nsd"),
    ("unbound", "unbound"),
    ("named", "bind9"),
    ("kresd", "knot-resolver"),
    ("dnsmasq", "dnsmasq-base"),
    ("postfix", "postfix"),
    ("postgrey", "postgrey"),
    ("smtp-source", "postfix"),
    ("smtp-sink", "postfix"),
    ("swaks", "swaks"),
    ("dig", "bind9-dnsutils"),
    ("openssl", "openssl"),
    ("curl", "curl"),
];

/// Checks that all required programs are installed.
///
/// # Errors
///
/// The text names all missing programs.
pub fn require_programs() -> Result<(), Failure> {
    let installed = process::require(&PROGRAMS);
    let mut missing: Vec<String> =
        installed.err().map(|Failure(text)| format!("{text}: install these packages")).into_iter().collect();
    for program in ["exim4", "smtpd"] {
        if !unpacked(program).is_file() {
            missing.push(format!("missing: {} (unpacked by .ci/mail-servers)", unpacked(program).display()));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Failure(missing.join("; "))) }
}

/// Writes every configuration to the folder of the run.
pub fn configure(net: &Net) -> Result<(), Failure> {
    render(Path::new(TEMPLATES), &net.folder, &net.folder)?;
    let etc = net.folder.join("etc");
    make_folder(&etc, 0o755)?;
    write(&etc.join("resolv.conf"), &format!("nameserver {RESOLVER}\n"))?;
    let (mut passwd, mut group) = (read("/etc/passwd")?, read("/etc/group")?);
    for (user, id) in USERS {
        if !passwd.lines().any(|line| line.starts_with(&format!("{user}:"))) {
            passwd.push_str(&format!("{user}:x:{id}:{id}::/nonexistent:/usr/sbin/nologin\n"));
        }
        if !group.lines().any(|line| line.starts_with(&format!("{user}:"))) {
            group.push_str(&format!("{user}:x:{id}:\n"));
        }
    }
    write(&etc.join("passwd"), &passwd)?;
    write(&etc.join("group"), &group)?;
    certificate(net)
}

/// Starts DNS: the authoritative server, then the resolver.
pub fn start_dns(net: &Net) -> Result<Vec<ServerProcess>, Failure> {
    let run = net.folder.display();
    let servers = [
        ("nsd", format!("nsd -d -c {run}/dns/nsd.conf"), "10.77.0.54:53"),
        ("nsd-reverse", format!("nsd -d -c {run}/dns/nsd-reverse.conf"), "10.77.0.55:53"),
        ("unbound", format!("unbound -d -p -c {run}/dns/unbound.conf"), "10.77.0.53:53"),
    ];
    let start = |(name, command, address): &(&str, String, &str)| {
        start(net, NetNamespace::Mail, name, &format!("exec {command}"), &[address])
    };
    // The resolver ends first.
    let mut started = servers.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    started.reverse();
    Ok(started)
}

/// Starts the mail servers of the cases.
pub fn start_mail(net: &Net) -> Result<Vec<ServerProcess>, Failure> {
    let run = net.folder.display();
    let postgrey = start_postgrey(net, "postgrey", "127.0.0.1:10023", "")?;
    let short =
        start_postgrey(net, "postgrey-short", "127.0.0.1:10024", &format!("--delay={SHORT_DELAY_S}"))?;
    let postfix = start_postfix(
        net,
        NetNamespace::Mail,
        "postfix",
        &[
            "10.77.0.10:25",
            "10.77.0.11:25",
            "10.77.0.12:25",
            "10.77.0.13:25",
            "10.77.0.17:25",
            "10.77.0.18:25",
            "[fd77::10]:25",
        ],
    )?;
    let exim = start(
        net,
        NetNamespace::Mail,
        "exim",
        &format!(
            "chown Debian-exim {run}/exim; chgrp Debian-exim {run}/tls.key; chmod 640 {run}/tls.key; exec {} -C {run}/exim/exim.conf -bdf",
            unpacked("exim4").display()
        ),
        &["10.77.0.20:25", "10.77.0.21:25"],
    )?;
    // The paths of spool and chroot are compiled in, so the process gets its own file system there.
    let opensmtpd = start(
        net,
        NetNamespace::Mail,
        "opensmtpd",
        &format!(
            "for place in /var/spool /var/lib /run; do mount -t tmpfs -o mode=755 tmpfs $place; done; \
             mkdir -m 711 /var/spool/smtpd; mkdir -p /var/lib/opensmtpd/empty; mkdir {run}/opensmtpd/mail; \
             exec {} -d -f {run}/opensmtpd/smtpd.conf",
            unpacked("smtpd").display()
        ),
        &["10.77.0.30:25", "10.77.0.31:25"],
    )?;
    Ok(vec![postfix, postgrey, short, exim, opensmtpd])
}

/// Starts a Postgrey with its own database.
fn start_postgrey(net: &Net, name: &str, at: &str, more: &str) -> Result<ServerProcess, Failure> {
    let run = net.folder.display();
    let script = format!(
        "mkdir {run}/{name}; chown postgrey {run}/{name}; exec postgrey --inet={at} --dbdir={run}/{name} \
         --user=postgrey --group=nogroup --hostname=mx.postfix.example {more}"
    );
    start(net, NetNamespace::Mail, name, &script, &[at])
}

/// Starts a Postfix whose configuration is the folder `name` of the run.
pub fn start_postfix(
    net: &Net,
    space: NetNamespace,
    name: &str,
    listens: &[&str],
) -> Result<ServerProcess, Failure> {
    let run = net.folder.display();
    let script = format!(
        "mkdir -p {run}/spool/{name} {run}/data; mkdir {run}/data/{name}; chown postfix {run}/data/{name}; \
         exec postfix -c {run}/{name} start-fg"
    );
    start(net, space, name, &script, listens)
}

/// Starts a server by a shell script and waits until it listens.
pub fn start(
    net: &Net,
    space: NetNamespace,
    name: &str,
    script: &str,
    listens: &[&str],
) -> Result<ServerProcess, Failure> {
    let etc = net.folder.join("etc");
    let mut mounts = String::new();
    for file in ["passwd", "group", "resolv.conf"] {
        mounts.push_str(&format!("mount --bind {}/{file} /etc/{file}; ", etc.display()));
    }
    let listening =
        || listens.iter().map(|address| net.listens(space, address)).collect::<Result<Vec<bool>, _>>();
    // The previous server may take a moment to end.
    wait_until(&format!("room for {name}"), START_LIMIT, || Ok(!listening()?.contains(&true)))?;
    let command = net.script(space, &format!("{mounts}{script}"));
    let mut server = ServerProcess::start(name, command, &net.folder.join(format!("{name}.log")))?;
    let waited = wait_until(name, START_LIMIT, || {
        server.running()?;
        Ok(!listening()?.contains(&false))
    });
    match waited {
        Ok(()) => Ok(server),
        Err(failure) => Err(server.complain(&failure.0)),
    }
}

/// The path of a program that .ci/mail-servers unpacked.
fn unpacked(program: &str) -> PathBuf {
    let root = std::env::var_os("MAIL_SERVERS").map_or_else(|| PathBuf::from(UNPACKED), PathBuf::from);
    root.join("usr/sbin").join(program)
}

/// Makes a self-signed certificate, as most mail servers have.
fn certificate(net: &Net) -> Result<(), Failure> {
    let mut command = Command::new("openssl");
    command.args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mx.postfix.example".split(' '));
    command.arg("-keyout").arg(net.folder.join("tls.key")).arg("-out").arg(net.folder.join("tls.pem"));
    net.run(command, "", START_LIMIT)?.success("openssl").map(drop)
}

/// Copies a folder of templates to `to`, with the folder `run` for `@RUN@`.
pub fn render(from: &Path, to: &Path, run: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(from).at(from)? {
        let entry = entry.at(from)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            make_folder(&target, 0o755)?;
            render(&entry.path(), &target, run)?;
        } else {
            let text = read(entry.path())?;
            write(&target, &text.replace("@RUN@", &run.display().to_string()))?;
        }
    }
    Ok(())
}

fn make_folder(path: &Path, mode: u32) -> Result<(), Failure> {
    fs::create_dir(path).at(path)?;
    chmod(path, mode)
}

fn chmod(path: &Path, mode: u32) -> Result<(), Failure> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at(path)
}

fn read(path: impl AsRef<Path>) -> Result<String, Failure> {
    fs::read_to_string(path.as_ref()).at(path.as_ref())
}

/// Writes a file that every server may read.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).at(path)?;
    chmod(path, 0o644)
}
