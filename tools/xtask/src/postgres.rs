//! `cargo xtask postgres -- COMMAND...`: runs a command with a fresh PostgreSQL server beside it.
//!
//! The server has its own folder, a free port of loopback, a superuser with a password, and a certificate. Nothing of an
//! installed server is used or changed. The command finds the server in three variables:
//!
//! - `MAILPROBE_TEST_POSTGRES`: the URL of the database `postgres`, for the superuser;
//! - `MAILPROBE_TEST_POSTGRES_CA`: the file with the certificate, which is its own authority;
//! - `MAILPROBE_TEST_POSTGRES_PROGRAMS`: the folder with the programs of PostgreSQL.
//!
//! The server is stopped and its folder removed when the command ends, also after Ctrl-C.

use crate::failure::{Context, Failure};
use crate::interop::process::{self, ServerProcess};
use crate::interop::report::{Tally, outcome};
use clap::Args;
use data_encoding::BASE64;
use ring::digest::{SHA256, digest};
use ring::hmac::{self, HMAC_SHA256};
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The options of `cargo xtask postgres`.
#[derive(Args)]
pub struct PostgresOptions {
    /// Do not wait for the disk. This is faster, but a crash of the machine can destroy the data.
    #[arg(long)]
    no_fsync: bool,
    /// Folder with the programs of PostgreSQL; the newest below /usr/lib/postgresql by default.
    #[arg(long, value_name = "PATH")]
    postgres_dir: Option<PathBuf>,
    /// Additional settings of the server.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The command with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Where Debian installs PostgreSQL, one folder per version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The user that runs the server: PostgreSQL refuses to run as root.
const USER: &str = "postgres";
const START_LIMIT: Duration = Duration::from_secs(60);
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Runs the command beside a server, which ends with it.
pub fn run(options: &PostgresOptions) -> Result<Tally, Failure> {
    let mut settings = options.set.clone();
    if options.no_fsync {
        settings.push("fsync=off".into());
    }
    let programs = options.postgres_dir.clone().map_or_else(newest_programs, Ok)?;
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]);
    let mut tally = Tally::default();
    let outcome = beside_server(programs, &std::env::temp_dir(), &settings, command)?;
    tally.check(&options.command[0].to_string_lossy(), outcome);
    Ok(tally)
}

/// Runs a command beside a fresh server of the newest version, whose data is in a new folder below `parent`. The command finds
/// the server in the variables that this module describes.
///
/// # Errors
///
/// The server does not start or stop.
pub fn beside(
    parent: &Path,
    settings: &[String],
    command: Command,
) -> Result<Result<String, String>, Failure> {
    beside_server(newest_programs()?, parent, settings, command)
}

fn beside_server(
    programs: PathBuf,
    parent: &Path,
    settings: &[String],
    command: Command,
) -> Result<Result<String, String>, Failure> {
    let folder = tempfile::Builder::new().prefix("postgres-").tempdir_in(parent);
    let folder = folder.about("folder")?;
    let single = SingleServer::make(programs, folder.path())?;
    let server = single.start(settings)?;
    let outcome = single.accompany(command);
    single.stop()?;
    drop(server);
    outcome
}

/// A server's folder and the facts about it.
struct SingleServer {
    folder: PathBuf,
    programs: PathBuf,
    /// User and group of the server, if this process is root: PostgreSQL refuses to run as root.
    owner: Option<(u32, u32)>,
    port: u16,
    password: String,
}

impl SingleServer {
    fn make(programs: PathBuf, folder: &Path) -> Result<SingleServer, Failure> {
        let owner =
            if rustix::process::geteuid().is_root() { Some((id_of("-u")?, id_of("-g")?)) } else { None };
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.about("no free port")?.port();
        let password = std::iter::repeat_with(fastrand::alphanumeric).take(20).collect();
        let single = SingleServer { folder: folder.into(), programs, owner, port, password };
        single.give(folder)?;
        single.write("password", &verifier(&single.password))?;
        let mut initdb = single.command("initdb");
        initdb.arg("--pgdata").arg(folder.join("data")).args(["--username", USER, "--auth", "scram-sha-256"]);
        initdb.arg("--pwfile").arg(folder.join("password"));
        initdb.args(["--encoding", "UTF8", "--no-locale", "--no-sync"]);
        process::run(initdb, "", folder, STEP_LIMIT)?.success("initdb")?;
        let names = ["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
        let made = rcgen::generate_simple_self_signed(names).about("no certificate")?;
        single.write("server.crt", &made.cert.pem())?;
        single.write("server.key", &made.signing_key.serialize_pem())?;
        Ok(single)
    }

    /// A program of PostgreSQL, run as the server's user in the folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder);
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    /// Writes a file that only the server's user may read.
    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let private = fs::Permissions::from_mode(0o600);
        let written = fs::write(&path, text).and_then(|()| fs::set_permissions(&path, private));
        written.about(name)?;
        self.give(&path)
    }

    fn give(&self, path: &Path) -> Result<(), Failure> {
        let Some((user, group)) = self.owner else { return Ok(()) };
        chown(path, Some(user), Some(group)).about("chown")
    }

    fn start(&self, settings: &[String]) -> Result<ServerProcess, Failure> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.folder.join("data")).args(["-p", &self.port.to_string()]);
        command.arg("-k").arg(&self.folder);
        let setting = |name: &str, file: &str| format!("{name}={}", self.folder.join(file).display());
        let own = [
            "listen_addresses=127.0.0.1".to_owned(),
            "ssl=on".into(),
            setting("ssl_cert_file", "server.crt"),
            setting("ssl_key_file", "server.key"),
        ];
        for setting in own.iter().chain(settings) {
            command.args(["-c", setting]);
        }
        let mut server = ServerProcess::start("postgres", command, &self.folder.join("log"))?;
        let ready = process::wait_until("postgres accepts connections", START_LIMIT, || {
            server.running()?;
            let mut ask = self.command("pg_isready");
            ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            Ok(process::run(ask, "", &self.folder, STEP_LIMIT)?.status.success())
        });
        ready.map_err(|Failure(why)| server.complain(&why))?;
        Ok(server)
    }

    /// Runs the command to its end, beside the server.
    fn accompany(&self, mut child: Command) -> Result<Result<String, String>, Failure> {
        let url = format!("postgres://{USER}:{}@127.0.0.1:{}/postgres", self.password, self.port);
        child.env("MAILPROBE_TEST_POSTGRES", url);
        child.env("MAILPROBE_TEST_POSTGRES_CA", self.certificate()?);
        child.env("MAILPROBE_TEST_POSTGRES_PROGRAMS", &self.programs);
        let status = process::accompany(child)?;
        Ok(outcome(status.success(), status.to_string()))
    }

    /// The certificate in a place that the command can read, whoever runs it.
    fn certificate(&self) -> Result<PathBuf, Failure> {
        let path = self.folder.join("server.crt");
        let readable = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let done = readable(&self.folder, 0o755).and_then(|()| readable(&path, 0o644));
        done.about("server.crt")?;
        Ok(path)
    }

    /// Ends the server without waiting for its clients.
    fn stop(&self) -> Result<(), Failure> {
        let mut stop = self.command("pg_ctl");
        stop.arg("stop").arg("-D").arg(self.folder.join("data")).args(["-m", "fast", "-w"]);
        process::run(stop, "", &self.folder, STEP_LIMIT)?.success("pg_ctl stop").map(|_| ())
    }
}

/// What PostgreSQL keeps of a password for SCRAM (RFC 5802, section 3; it takes a text of this form as it is). A password that is
/// given to it in plain text costs each connection 4,096 rounds of a hash, which a debug build takes a large part of a second for;
/// tests open thousands of connections, and this password needs no protection.
fn verifier(password: &str) -> String {
    let hash = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text);
    let salt: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
    // The first and only round: the salt and the number of the block.
    let salted = hash(password.as_bytes(), &[&salt[..], &[0, 0, 0, 1]].concat());
    let stored = digest(&SHA256, hash(salted.as_ref(), b"Client Key").as_ref());
    let server = hash(salted.as_ref(), b"Server Key");
    let text = |bytes: &[u8]| BASE64.encode(bytes);
    format!("SCRAM-SHA-256$1:{}${}:{}", text(&salt), text(stored.as_ref()), text(server.as_ref()))
}

/// The folder with the programs of the newest version.
pub fn newest_programs() -> Result<PathBuf, Failure> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |name: OsString| name.to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(|version| number(version.file_name())).max();
    let newest = newest.ok_or_else(|| {
        Failure(format!("no PostgreSQL below {VERSIONS}: apt-get install postgresql-15, or --postgres-dir"))
    })?;
    Ok(Path::new(VERSIONS).join(newest.to_string()).join("bin"))
}

/// The number of the server's user (`-u`) or of its group (`-g`).
pub fn id_of(what: &str) -> Result<u32, Failure> {
    let output = Command::new("id").args([what, USER]).output().about("id")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| Failure(format!("the system has no user {USER}")))
}
