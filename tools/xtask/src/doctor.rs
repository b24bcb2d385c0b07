//! `cargo xtask doctor`: plants one fault after another in a network namespace, and tests that `mailprobe doctor` names each.
//!
//! The zone of the root is served by BIND, signed by dnssec-signzone, and resolved by Unbound. smtp-sink of Postfix is the
//! mail server. A source is a public address on loopback of the namespace, which has no connection to the Internet.

use crate::failure::{Context, Failure};
use crate::interop::net::{Net, NetNamespace};
use crate::interop::process::{self, Finished, ServerProcess, sleep, wait_until};
use crate::interop::report::Tally;
use crate::isolation::ip;
use crate::soak::world::build;
use clap::Args;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const LIMIT: Duration = Duration::from_secs(90);
const START: Duration = Duration::from_secs(20);
/// The resolver, and servers of the zone with right, future and past signatures.
const UNBOUND: &str = "11.0.0.53";
const RIGHT: &str = "11.0.0.54";
const FUTURE: &str = "11.0.0.55";
const PAST: &str = "11.0.0.56";
/// Another Unbound, which denies every name.
const DENYING: &str = "11.0.0.57";
/// The mail server.
const MAIL: &str = "11.0.0.25";
const DAY: i64 = 24 * 60 * 60;

/// The zone of the root, with everything below it.
const ZONE: &str = include_str!("../testdata/doctor.zone");

/// The options of `cargo xtask doctor`.
#[derive(Args)]
pub struct DoctorOptions {
    /// Folder of a built mailprobe [default: build it]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Keep the folder of the run
    #[arg(long)]
    keep: bool,
}

/// The programs of the servers, with what installs them.
const TOOLS: [(&str, &str); 6] = [
    ("ip", "apt-get install iproute2"),
    ("unbound", "apt-get install unbound"),
    ("named", "apt-get install bind9"),
    ("dnssec-keygen", "apt-get install bind9-utils"),
    ("dnssec-signzone", "apt-get install bind9-utils"),
    ("smtp-sink", "apt-get install postfix"),
];

/// A planted fault.
struct PlantedFault {
    name: &'static str,
    flags: Vec<String>,
    /// A command before mailprobe, such as prlimit.
    before: Vec<String>,
    /// The check that names it, its severity, and words of what was found and of the remedy.
    expected: (&'static str, &'static str, &'static str, &'static str),
}

/// Plants each fault, and counts those that are named.
pub fn run(options: &DoctorOptions) -> Result<Tally, Failure> {
    process::require(&TOOLS)?;
    let net = Net::make(options.keep)?;
    let folder = match &options.bin_dir {
        Some(folder) => folder.clone(),
        None => build(&net.folder, false)?,
    };
    let program = std::path::absolute(folder.join("mailprobe"));
    let program = program.at(&folder)?;
    addresses(&net)?;
    let _servers = serve(&net)?;
    let certificate = expired_certificate(&net.folder)?;
    let data = net.folder.join("data");
    fs::create_dir(&data).at(&data)?;
    run_program(Command::new("chmod"), &net.folder, &["700", &data.display().to_string()])?;
    // A file system without space is mounted here.
    let small = net.folder.join("small");
    fs::create_dir(&small).at(&small)?;

    let mut tally = Tally::default();
    let basic = basic(&data);
    let healthy = examine(&net, &program, &[], &basic)?;
    tally.check("without a fault there are only ok lines", only_ok(&healthy));
    let text = text_of(&net, &program, &basic)?;
    tally.check("the text has the same lines", same_lines(&healthy, &text));
    for fault in faults(&basic, &certificate, &small)? {
        let found = examine(&net, &program, &fault.before, &fault.flags)?;
        tally.check(fault.name, names(&found, &fault));
    }
    Ok(tally)
}

fn basic(data: &Path) -> Vec<String> {
    let text = format!(
        "--resolver {UNBOUND} --ehlo probe.example --mx mx.example --blocklist list.example --data {}",
        data.display()
    );
    text.split(' ').map(str::to_owned).collect()
}

/// The rows of `testdata/doctor.txt`. `small` is the folder for the full disk.
fn faults(basic: &[String], certificate: &[PathBuf; 2], small: &Path) -> Result<Vec<PlantedFault>, Failure> {
    let [cert, key] = certificate.each_ref().map(|path| path.display().to_string());
    let small_text = small.display().to_string();
    let fault = |row: &'static str| {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [name, change, before, check, severity, found, remedy] = columns[..] else {
            return Err(Failure(format!("doctor.txt: no fault in `{row}`")));
        };
        let change = change.replace("@CERT@", &cert).replace("@KEY@", &key).replace("@SMALL@", &small_text);
        // A later value of a flag that is not repeatable wins; repeatable ones are replaced.
        let mut flags = basic.to_vec();
        for pair in change.split_whitespace().map(str::to_owned).collect::<Vec<_>>().chunks(2) {
            match flags.iter().position(|flag| *flag == pair[0]) {
                Some(at) => flags[at + 1].clone_from(&pair[1]),
                None => flags.extend_from_slice(pair),
            }
        }
        let before = match before {
            "full disk" => on_a_full_disk(small),
            _ => before.split_whitespace().map(str::to_owned).collect(),
        };
        Ok(PlantedFault { name, flags, before, expected: (check, severity, found, remedy) })
    };
    let rows = include_str!("../testdata/doctor.txt").lines().filter(|row| !row.starts_with('#'));
    rows.map(fault).collect()
}

/// The findings of a run.
fn examine(net: &Net, program: &Path, before: &[String], flags: &[String]) -> Result<Value, Failure> {
    let mut words = before.to_vec();
    words.extend([program.display().to_string(), "doctor".into(), "--json".into()]);
    words.extend_from_slice(flags);
    let mut command = net.command(NetNamespace::Probe, &words[0]);
    command.args(&words[1..]);
    let Finished { stdout, stderr, status, .. } = net.run(command, "", LIMIT)?;
    let report: Value = serde_json::from_str(&stdout)
        .map_err(|error| Failure(format!("no report: {error}: {stdout}{stderr}")))?;
    let expected = match report["severity"].as_str() {
        Some("ok") => 0,
        Some("warning") => 3,
        _ => 1,
    };
    match status.code() {
        Some(code) if code == expected => Ok(report),
        code => Err(Failure(format!("exit code {code:?}, and the report says {}", report["severity"]))),
    }
}

fn text_of(net: &Net, program: &Path, flags: &[String]) -> Result<String, Failure> {
    let mut command = net.command(NetNamespace::Probe, program);
    command.arg("doctor").args(flags);
    net.run(command, "", LIMIT)?.success("doctor")
}

fn findings(report: &Value) -> Vec<&Value> {
    report["findings"].as_array().into_iter().flatten().collect()
}

fn only_ok(report: &Value) -> Result<String, String> {
    let bad: Vec<String> = findings(report)
        .iter()
        .filter(|finding| finding["severity"] != "ok")
        .map(|it| it.to_string())
        .collect();
    let count = findings(report).len();
    if bad.is_empty() && count >= 11 {
        Ok(format!("{count} lines"))
    } else {
        Err(format!("{count} lines: {bad:?}"))
    }
}

fn same_lines(report: &Value, text: &str) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let wanted = findings(report).len();
    match lines.len() == wanted && lines.iter().all(|line| line.starts_with("ok       ")) {
        true => Ok(format!("{wanted} lines")),
        false => Err(text.to_owned()),
    }
}

fn names(report: &Value, fault: &PlantedFault) -> Result<String, String> {
    let (check, severity, found, remedy) = fault.expected;
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let named = findings(report).into_iter().find(|finding| {
        finding["check"] == check
            && finding["severity"] == severity
            && text(finding, "found").contains(found)
            && text(finding, "remedy").contains(remedy)
            && !text(finding, "meaning").is_empty()
    });
    named.map(|finding| text(finding, "found")).ok_or_else(|| report.to_string())
}

fn addresses(net: &Net) -> Result<(), Failure> {
    let [probe, mail] = [NetNamespace::Probe, NetNamespace::Mail].map(|space| net.space(space));
    for last in [2, 3, 4, 25, 53, 54, 55, 56, 57] {
        ip(&format!("-n {probe} address add 11.0.0.{last}/32 dev lo"))?;
    }
    ip(&format!("-n {probe} route replace default via 10.76.0.1 src 11.0.0.2"))?;
    // A public address, as a machine with IPv6 has it.
    ip(&format!("-n {probe} address add 2a10::2/128 dev lo nodad"))?;
    ip(&format!("-n {probe} -6 route replace default via fd76::1 src 2a10::2"))?;
    ip(&format!("-n {mail} route add 11.0.0.0/24 via 10.76.0.2"))
}

fn serve(net: &Net) -> Result<Vec<ServerProcess>, Failure> {
    let mut servers = Vec::new();
    for (address, from, until) in
        [(RIGHT, -DAY, 10 * DAY), (FUTURE, 2 * DAY + 60, 9 * DAY), (PAST, -9 * DAY, -2 * DAY - 60)]
    {
        servers.push(named(net, address, from, until)?);
    }
    let stub = format!("stub-zone:\n  name: \".\"\n  stub-addr: {RIGHT}\n");
    servers.push(unbound(net, UNBOUND, "", &stub)?);
    servers.push(unbound(net, DENYING, "  local-zone: \".\" always_nxdomain\n", "")?);
    let mut sink = net.command(NetNamespace::Probe, "smtp-sink");
    sink.args(["-u", "nobody", &format!("{MAIL}:25"), "16"]);
    servers.push(ServerProcess::start("smtp-sink", sink, &net.folder.join("smtp-sink.log"))?);
    for address in [RIGHT, FUTURE, PAST, UNBOUND, DENYING] {
        wait_until(address, START, || net.listens(NetNamespace::Probe, &format!("{address}:53")))?;
    }
    wait_until(MAIL, START, || net.listens(NetNamespace::Probe, &format!("{MAIL}:25")))?;
    // A server listens shortly before it has read its zone.
    sleep(Duration::from_secs(1))?;
    Ok(servers)
}

/// BIND with the zone, whose signatures begin and end at these seconds from now.
fn named(net: &Net, address: &str, from: i64, until: i64) -> Result<ServerProcess, Failure> {
    let folder = net.folder.join(format!("named-{address}"));
    fs::create_dir(&folder).at(&folder)?;
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).about(name);
    write("root.zone", ZONE)?;
    for flag in [&["-a", "ED25519", "."][..], &["-a", "ED25519", "-f", "KSK", "."]] {
        run_program(Command::new("dnssec-keygen"), &folder, flag)?;
    }
    let at = |offset: i64| format!("now{offset:+}");
    let (from, until) = (at(from), at(until));
    let signer = ["-P", "-S", "-z", "-o", ".", "-s", &from, "-e", &until, "root.zone"];
    run_program(Command::new("dnssec-signzone"), &folder, &signer)?;
    write(
        "named.conf",
        &format!(
            "options {{ directory \"{0}\"; pid-file \"{0}/pid\"; session-keyfile \"{0}/key\"; listen-on {{ {address}; }};\n\
             listen-on-v6 {{ none; }}; recursion no; allow-query {{ any; }}; dnssec-validation no; empty-zones-enable no; }};\n\
             controls {{ }};\nzone \".\" {{ type primary; file \"root.zone.signed\"; }};\n",
            folder.display()
        ),
    )?;
    let mut command = net.command(NetNamespace::Probe, "named");
    command.args(["-g", "-c"]).arg(folder.join("named.conf"));
    ServerProcess::start("named", command, &folder.join("log"))
}

fn unbound(net: &Net, address: &str, server: &str, more: &str) -> Result<ServerProcess, Failure> {
    let path = net.folder.join(format!("unbound-{address}.conf"));
    let text = format!(
        "server:\n  interface: {address}\n  access-control: 0.0.0.0/0 allow\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  \
         directory: \"{}\"\n  module-config: \"iterator\"\n  use-syslog: no\n  do-ip6: no\n{server}\
         remote-control:\n  control-enable: no\n{more}",
        net.folder.display()
    );
    fs::write(&path, text).at(&path)?;
    let mut command = net.command(NetNamespace::Probe, "unbound");
    command.args(["-d", "-c"]).arg(&path);
    ServerProcess::start("unbound", command, &net.folder.join(format!("unbound-{address}.log")))
}

/// A certificate that expired two days ago, with its key.
fn expired_certificate(folder: &Path) -> Result<[PathBuf; 2], Failure> {
    let wrong = |error: rcgen::Error| Failure(format!("no certificate: {error}"));
    let mut parameters = rcgen::CertificateParams::new(["probe.example".to_owned()]).map_err(wrong)?;
    let ago = |seconds: i64| SystemTime::now() - Duration::from_secs(seconds.unsigned_abs());
    parameters.not_before = ago(90 * DAY).into();
    parameters.not_after = ago(2 * DAY + 600).into();
    let key = rcgen::KeyPair::generate().map_err(wrong)?;
    let made = parameters.self_signed(&key).map_err(wrong)?;
    let paths = [folder.join("cert.pem"), folder.join("key.pem")];
    for (path, text) in paths.iter().zip([made.pem(), key.serialize_pem()]) {
        fs::write(path, text).at(path)?;
    }
    Ok(paths)
}

/// A command that mounts a file system without space at a folder, for itself and the command after it.
fn on_a_full_disk(folder: &Path) -> Vec<String> {
    let at = folder.display();
    let script = format!("mount -t tmpfs -o size=64k,mode=700 tmpfs {at}; exec \"$@\"");
    ["unshare", "--mount", "sh", "-euc", &script, "sh"].map(str::to_owned).to_vec()
}

fn run_program(mut command: Command, folder: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.current_dir(folder).args(arguments);
    process::run(command, "", folder, LIMIT)?.success(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_fault() {
        let certificate = [PathBuf::from("/c"), PathBuf::from("/k")];
        let faults = faults(&basic(Path::new("/d")), &certificate, Path::new("/s")).unwrap();
        assert_eq!(faults.len(), 16);
        assert!(faults.iter().all(|fault| !fault.flags.iter().any(|flag| flag.contains('@'))));
    }
}
