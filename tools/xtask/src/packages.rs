//! `cargo xtask packages`: tests what `cargo xtask dist` has made, as its users would use it.
//!
//! - The Debian package in a fresh Debian 12 without a network: install, start by the command of the unit, check an address
//!   with the test key, purge. Only data may be left.
//! - The container's file system under bwrap, as nobody, with io_uring refused.
//! - The unit, the pages for man, the completions, the checksums and the bill of materials, by the tools that read them.
//!
//! It needs root, npm, debootstrap, bubblewrap, lintian, man-db, prometheus (promtool), zsh and fish, and downloads Debian's packages.

use crate::bare::root::{DEBIAN, DEBOOTSTRAP_LIMIT};
use crate::confined::refuse_io_uring;
use crate::failure::{Context, Failure};
use crate::interop::drivers::first_key;
use crate::interop::process::{self, Finished, ServerProcess};
use crate::interop::report::{Tally, outcome};
use crate::soak::client::{HttpClient, HttpRequest};
use crate::soak::visitor::expect;
use crate::soak::world::listening;
use clap::Args;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const START: Duration = Duration::from_secs(20);
/// The highest exposure of the unit, in tenths.
const EXPOSURE_MAX: &str = "--threshold=20";

const TOOLS: [(&str, &str); 10] = [
    ("npx", "apt-get install npm"),
    ("debootstrap", "apt-get install debootstrap"),
    ("bwrap", "apt-get install bubblewrap"),
    ("lintian", "apt-get install lintian"),
    ("man", "apt-get install man-db"),
    ("promtool", "apt-get install prometheus"),
    ("zsh", "apt-get install zsh"),
    ("fish", "apt-get install fish"),
    ("ip", "apt-get install iproute2"),
    ("systemd-analyze", "apt-get install systemd"),
];

/// The options of `cargo xtask packages`.
#[derive(Args)]
pub struct PackagesOptions {
    /// Folder that `cargo xtask dist` has filled
    #[arg(long, value_name = "DIR", default_value = "target/package")]
    dir: PathBuf,
}

/// Tests all files of the folder, and counts the tests.
pub fn run(PackagesOptions { dir }: &PackagesOptions) -> Result<Tally, Failure> {
    process::require(&TOOLS)?;
    let dir = dir.canonicalize().map_err(|error| {
        Failure(format!("{}: {error}; `cargo xtask dist` makes this folder", dir.display()))
    })?;
    let folder = tempfile::Builder::new().prefix("packages-").tempdir();
    let folder = folder.about("no folder")?;
    let mut tally = Tally::default();
    texts(&dir, folder.path(), &mut tally)?;
    tally.check(
        "the container's root runs as nobody without io_uring",
        container(&dir, folder.path()).map_err(String::from),
    );
    debian(&dir, folder.path(), &mut tally)?;
    Ok(tally)
}

/// What other programs say about the files.
fn texts(dir: &Path, folder: &Path, tally: &mut Tally) -> Result<(), Failure> {
    let mut check = |name: &str, program: &str, arguments: &[&str]| -> Result<(), Failure> {
        let Finished { status, stdout, stderr } = run_tool(program, dir, folder, arguments)?;
        let said = format!("{stdout}{stderr}");
        let last = said.lines().last().unwrap_or_default().to_owned();
        tally.check(name, if status.success() { Ok(last) } else { Err(said) });
        Ok(())
    };
    check("the checksums are right", "sha256sum", &["--check", "--quiet", "SHA256SUMS"])?;
    let exposure = ["security", "--offline=true", "--no-pager", EXPOSURE_MAX, "./mailprobe.service"];
    check("the unit is hardened", "systemd-analyze", &exposure)?;
    let package = debian_package(dir)?;
    check("lintian finds no error", "lintian", &["--allow-root", "--fail-on", "error", &package])?;
    let load = "compgen() { :; }; . completions/mailprobe.bash && complete -p mailprobe";
    check("bash loads the completions", "bash", &["-euc", load])?;
    let load =
        "autoload -Uz compinit && compinit -u -D && . ./completions/_mailprobe && whence -w _mailprobe";
    check("zsh loads the completions", "zsh", &["-fc", load])?;
    let load =
        "source completions/mailprobe.fish; and complete -C 'mailprobe doc' | string match -q 'doctor*'";
    check("fish completes a command", "fish", &["--no-config", "-c", load])?;
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/monitoring/alerts.yml");
    check("promtool accepts the alerts", "promtool", &["check", "rules", rules])?;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let (description, ruleset) =
        (format!("{source}/frontend/api/openapi.json"), format!("{source}/tools/packaging/spectral.yaml"));
    let lint =
        ["--yes", "--package", "@stoplight/spectral-cli", "spectral", "lint", "--fail-severity", "warn"];
    let lint = [&lint[..], &["--ruleset", &ruleset, &description]].concat();
    check("spectral has no warning", "npx", &lint)?;
    let pages = "set -e; export MANWIDTH=160; for page in man/*.1; do test -z \"$(man --warnings -l \"$page\" 2>&1 >/dev/null)\"; done; ls man | wc -l";
    check("man renders every page", "sh", &["-c", pages])?;
    let bill = fs::read_to_string(dir.join("mailprobe.cdx.json")).unwrap_or_default();
    let bill: Value = serde_json::from_str(&bill).unwrap_or_default();
    let parts = bill["components"].as_array().map_or(0, Vec::len);
    let named = bill["bomFormat"] == "CycloneDX" && parts > 100;
    let said = format!("{parts} components");
    tally.check("the bill of materials names the packages", outcome(named, said));
    Ok(())
}

/// Starts the container's program with its root, its user and its environment, and checks an address.
fn container(dir: &Path, folder: &Path) -> Result<String, Failure> {
    let context = dir.join("container");
    let file = context.join("Containerfile");
    let text = fs::read_to_string(&file).at(&file)?;
    for part in
        ["FROM scratch", "USER 65534:65534", "ENV MAILPROBE_DATA=/data", "ENTRYPOINT [\"/mailprobe\"]"]
    {
        if !text.contains(part) {
            return Err(Failure(format!("the Containerfile has no `{part}`")));
        }
    }
    let data = folder.join("volume");
    fs::create_dir(&data).at(&data)?;
    std::os::unix::fs::chown(&data, Some(65534), Some(65534)).at(&data)?;
    // A container runtime adds these to the image.
    let image = folder.join("image");
    let (root, copy) = (context.join("root").display().to_string(), image.display().to_string());
    run_tool("cp", folder, folder, &["--recursive", &root, &copy])?.success("cp")?;
    for point in ["data", "dev", "proc"] {
        fs::create_dir(image.join(point)).about(point)?;
    }
    fs::write(image.join("etc/resolv.conf"), "nameserver 127.0.0.1\n").about("resolv.conf")?;
    // The folder of the run belongs to root, and the container to nobody.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).at(folder)?;
    let mut command = Command::new("bwrap");
    command.arg("--ro-bind").arg(&image).arg("/");
    command.arg("--bind").arg(&data).arg("/data");
    command.args(["--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]);
    command.args(["--setenv", "MAILPROBE_DATA", "/data", "--setenv", "MAILPROBE_LISTEN", "127.0.0.1:0"]);
    command.args(["/mailprobe", "serve", "--ehlo", "probe.example"]);
    command.uid(65534).gid(65534);
    // SAFETY: the child calls only prctl before it execs.
    #[expect(unsafe_code, reason = "the filter is set between fork and exec")]
    unsafe {
        command.pre_exec(|| refuse_io_uring(libc::EPERM));
    }
    let mut server = ServerProcess::start("bwrap", command, &folder.join("container.log"))?;
    let address = listening(&mut server)?.ok_or_else(|| server.complain("it ended before it listened"))?;
    if !server.log()?.contains("frontend: monoio on epoll") {
        return Err(server.complain("it does not run on epoll"));
    }
    let key = first_key(&data, "test")?;
    let request = HttpRequest::get("/v1/verify?email=catch_all@example.com").bearer(&key);
    let answer = expect(&mut HttpClient::program(address), &request, 200)?.text();
    server.terminate(START)?;
    let is_right = answer.contains("\"reason\":\"catch_all\"");
    if is_right { Ok("epoll, catch_all".into()) } else { Err(Failure(answer)) }
}

/// The package in a fresh Debian: install, use, purge.
fn debian(dir: &Path, folder: &Path, tally: &mut Tally) -> Result<(), Failure> {
    let root = folder.join("debian");
    let package = debian_package(dir)?;
    let target = root.display().to_string();
    let include = "--include=adduser,ca-certificates";
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", include, "bookworm", &target, DEBIAN]);
    process::run(command, "", folder, DEBOOTSTRAP_LIMIT)?.success("debootstrap")?;
    let copied = root.join("tmp/mailprobe.deb");
    fs::copy(dir.join(&package), &copied).about(&package)?;
    let before = listing(&root, folder)?;
    let mut check = |name: &str, script: &str, expected: &str| -> Result<(), Failure> {
        let Finished { status, stdout, stderr } = inside(&root, folder, script)?;
        let said = format!("{stdout}{stderr}");
        let good = status.success() && said.contains(expected);
        tally.check(name, if good { Ok(expected.to_owned()) } else { Err(said) });
        Ok(())
    };
    check("the package is installed", "dpkg --install /tmp/mailprobe.deb", "Setting up mailprobe")?;
    check("the program starts", "mailprobe --version", "mailprobe 0.")?;
    check("the unit's command serves, and a test key gets its answer", USE, "\"reason\":\"catch_all\"")?;
    check(
        "the doctor accepts the configuration",
        "mailprobe doctor --config /etc/mailprobe/mailprobe.toml || true",
        "ok       configuration",
    )?;
    // This is the last thing that dpkg prints of a purge.
    let remains = "mailprobe: /var/lib/mailprobe and the user mailprobe remain";
    check("the package is purged, and says what remains", "dpkg --purge mailprobe", remains)?;
    let after = listing(&root, folder)?;
    let left: Vec<&str> = after.lines().filter(|line| !before.lines().any(|known| known == *line)).collect();
    let only_data = left.iter().all(|path| path.starts_with("./var/lib/mailprobe"));
    let said = left.join(" ");
    tally.check("only data is left", outcome(only_data && !left.is_empty(), said));
    Ok(())
}

/// Starts the command of the unit as its user, and checks an address with bash alone.
const USE: &str = r#"
echo 'nameserver 127.0.0.1' >/etc/resolv.conf
command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/mailprobe.service)
setpriv --reuid=mailprobe --regid=mailprobe --init-groups $command >/tmp/out 2>/tmp/err &
server=$!
for _ in $(seq 200); do grep -q '^listening' /tmp/out && break; sleep 0.1; done
key=$(sed -n 's/^test:* *//p' /var/lib/mailprobe/first-keys)
exec 3<>/dev/tcp/127.0.0.1/8080 || { cat /tmp/out /tmp/err; exit 1; }
printf 'GET /v1/verify?email=catch_all@example.com HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n' "$key" >&3
cat <&3
kill $server
wait $server
rm /tmp/out /tmp/err
"#;

/// Runs a script in the Debian, without a network but loopback.
fn inside(root: &Path, folder: &Path, script: &str) -> Result<Finished, Failure> {
    let at = root.display();
    let outer =
        format!("ip link set lo up; mount -t proc proc {at}/proc; exec chroot {at} /bin/bash -euc \"$1\"");
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", &outer, "sh", script]);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("DEBIAN_FRONTEND", "noninteractive");
    process::run(command, "", folder, LIMIT)
}

/// The files of the Debian, without those that every installation of a package changes.
fn listing(root: &Path, folder: &Path) -> Result<String, Failure> {
    let skip = "! -path './var/lib/dpkg/*' ! -path './var/cache/*' ! -path './var/log/*' ! -path './proc/*' ! -path './tmp/*' ! -path './run/*' \
                ! -path './etc/passwd-' ! -path './etc/group-' ! -path './etc/shadow-' ! -path './etc/gshadow-' \
                ! -path './etc/subuid-' ! -path './etc/subgid-' ! -path './etc/.pwd.lock'";
    run_tool("sh", root, folder, &["-c", &format!("find . {skip} | sort")])?.success("find")
}

fn debian_package(dir: &Path) -> Result<String, Failure> {
    let entries = fs::read_dir(dir).at(dir)?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .find(|name| name.ends_with(".deb"))
        .ok_or_else(|| Failure("no package; run `cargo xtask dist`".into()))
}

fn run_tool(program: &str, dir: &Path, folder: &Path, arguments: &[&str]) -> Result<Finished, Failure> {
    let mut command = Command::new(program);
    command.current_dir(dir).args(arguments);
    process::run(command, "", folder, LIMIT)
}
