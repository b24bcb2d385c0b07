//! Limits of the system, io_uring, the data folder and the certificate.

use super::report::Finding;
use crate::config::{Config, StateFile};
use assistants::oauth::uri::Uri;
use checks::runtime::{self, Driver};
use engine::config::RuntimeChoice;
use learn::TableFile;
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::clock;

/// Open files besides connections and sessions: the database, DNS sockets, files of the runtimes.
const OTHER_FILES: usize = 200;
/// The memory of one ring in bytes, rounded up: 1,024 submissions of 64 bytes, and 2,048 completions of 16.
const RING_BYTES: u64 = 128 << 10;
/// The soft limit without which glommio refuses to start, in bytes.
const GLOMMIO_LOCKED: u64 = 512 << 10;
/// Free space in bytes below which a server soon stops, and below which it stops at once.
const SPACE_LOW: u64 = 1 << 30;
const SPACE_NONE: u64 = 64 << 20;
/// A sync that takes longer limits the rate of charged checks.
const SYNC_SLOW: Duration = Duration::from_millis(50);
const SYNCS: usize = 5;
/// Remaining validity of a certificate below which it should have been renewed.
const RENEW_BEFORE: u64 = 14 * 24 * 60 * 60;
const DAY: u64 = 24 * 60 * 60;

/// The limit of open files, against what the settings allow.
pub fn open_files(config: &Config) -> Finding {
    let wanted = (config.connections + config.engine.sessions + OTHER_FILES) as u64;
    let finding = |found: String| Finding::ok("open files", "", found);
    match getrlimit(Resource::Nofile).maximum {
        None => finding("no limit".into()),
        Some(limit) if limit >= wanted => finding(format!("up to {limit}")),
        Some(limit) => finding(format!("up to {limit}, and the settings allow {wanted}")).failure(
            "under load connections and sessions fail",
            format!("raise the hard limit to {wanted} (`LimitNOFILE=` in the unit, or `ulimit -Hn`), or lower --connections and --sessions"),
        ),
    }
}

/// The kernel interface of the runtimes.
pub fn driver(config: &Config) -> Finding {
    let finding = |found: String| Finding::ok("io_uring", "", found);
    match runtime::choose(config.engine.driver) {
        Ok(choice) => finding(format!("the server uses {} ({})", choice.driver.name(), choice.why)),
        Err(why) => finding(why).failure("the server does not start", "use --driver auto, or allow io_uring"),
    }
}

/// The limit of locked memory, against the rings of all threads.
pub fn locked_memory(config: &Config) -> Finding {
    let uses_io_uring =
        runtime::choose(config.engine.driver).is_ok_and(|choice| choice.driver != Driver::Epoll);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let shards = if config.engine.shards == 0 { cores } else { config.engine.shards };
    // The thread of batches has a ring too.
    let threads = (config.frontend_threads() + shards + 1) as u64;
    let release = rustix::system::uname();
    let wanted = if config.engine.runtime == RuntimeChoice::Glommio {
        GLOMMIO_LOCKED
    } else if !uses_io_uring || own_user() == 0 || !counts_rings(&release.release().to_string_lossy()) {
        0
    } else {
        threads * RING_BYTES
    };
    judge_locked_memory(getrlimit(Resource::Memlock).current, wanted)
}

fn judge_locked_memory(limit: Option<u64>, wanted: u64) -> Finding {
    let finding = |found: String| Finding::ok("locked memory", "", found);
    match limit {
        None => finding("no limit".into()),
        Some(limit) if limit >= wanted => finding(format!("up to {} KiB, which is enough", limit >> 10)),
        Some(limit) => {
            finding(format!("up to {} KiB, and io_uring needs {} KiB", limit >> 10, wanted >> 10)).failure(
                "threads run on epoll, which takes more processor time, or with --runtime glommio the server does not start",
                format!("raise the limit to {} KiB (`LimitMEMLOCK=` in the unit, or `ulimit -l`), or use --driver epoll", wanted >> 10),
            )
        }
    }
}

/// Whether this release of Linux counts rings of io_uring as locked memory: those before 5.12 do (io_uring_setup(2)).
fn counts_rings(release: &str) -> bool {
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (5, 12),
        _ => false,
    }
}

/// The data folder: its owner, its rights and its space.
pub fn data_folder(folder: &Path) -> Vec<Finding> {
    let finding = |found: String| Finding::ok("data folder", folder.display().to_string(), found);
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(_) => return vec![missing_folder(folder, finding)],
    };
    if !metadata.is_dir() {
        let found = finding("it is a file, not a folder".into());
        return vec![found.failure("the server does not start", "name another folder with --data")];
    }
    let own = own_user();
    if metadata.uid() != own {
        let found = format!(
            "it belongs to the user with the number {}, and this command runs as {own}",
            metadata.uid()
        );
        let remedy = format!("run this command as its owner, or run `chown -R` on {}", folder.display());
        return vec![finding(found).failure("a server of this user cannot use it", remedy)];
    }
    let rights = if metadata.mode() & 0o077 != 0 {
        let remedy = format!("run `chmod 700 {}`", folder.display());
        finding(format!("other users can read it (mode {:o})", metadata.mode() & 0o777))
            .warning("they can read accounts and keys", remedy)
    } else {
        finding("only its owner can read it".into())
    };
    vec![space(folder, rights)]
}

/// The finding about a folder that the server creates at its first start, or cannot create.
fn missing_folder(folder: &Path, finding: impl Fn(String) -> Finding) -> Finding {
    let parent = existing(folder);
    let place = parent.display();
    if fs::metadata(&parent).is_ok_and(|metadata| !metadata.is_dir()) {
        return finding(format!("{place} is a file, not a folder"))
            .failure("the server does not start", "name another folder with --data");
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    // The effective user is that of the server, and not the real one.
    let flags = rustix::fs::AtFlags::EACCESS;
    if rustix::fs::accessat(rustix::fs::CWD, &parent, access, flags).is_ok() {
        return space(&parent, finding("the server creates it at its first start".into()));
    }
    let user = own_user();
    let remedy = format!(
        "create the folder, give it to the user {user} with `chown`, or name another one with --data"
    );
    finding(format!("this user ({user}) cannot create it in {place}"))
        .failure("the server does not start", remedy)
}

/// The folder itself, or the nearest parent that exists. A path without a parent is relative to the current folder.
fn existing(folder: &Path) -> PathBuf {
    let named = folder.ancestors().filter(|path| !path.as_os_str().is_empty());
    let found = named.into_iter().find(|path| fs::symlink_metadata(path).is_ok());
    let otherwise = if folder.is_absolute() { "/" } else { "." };
    found.unwrap_or(Path::new(otherwise)).to_owned()
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The finding, or a worse one about the space.
fn space(folder: &Path, finding: Finding) -> Finding {
    let free = match rustix::fs::statvfs(folder) {
        Ok(status) => status.f_bavail.saturating_mul(status.f_frsize),
        Err(error) => {
            let found = format!("its space cannot be read: {error}");
            return Finding { found, ..finding }
                .warning("a full disk would not be noticed", "check it with `df`");
        }
    };
    let text = format!("{} MiB are free", free >> 20);
    let found = format!("{}; {text}", finding.found);
    let remedy = "make room, or move the folder to a larger disk";
    match free {
        0..SPACE_NONE => Finding { found: text, ..finding }
            .failure("the server cannot write, and answers charged checks with 503", remedy),
        SPACE_NONE..SPACE_LOW if finding.meaning.is_empty() => Finding { found, ..finding }
            .warning("the server stops charged checks when the disk is full", remedy),
        _ => Finding { found, ..finding },
    }
}

/// How long the disk takes to make a write durable, by a file that exists for a moment.
pub fn sync_time(folder: &Path) -> Option<Finding> {
    let folder = &existing(folder);
    if !fs::metadata(folder).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own_user()) {
        // The finding about its owner says it.
        return None;
    }
    let finding = |found: String| Finding::ok("disk", folder.display().to_string(), found);
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    let measure = || -> std::io::Result<Duration> {
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        let mut times = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let began = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(began.elapsed());
        }
        times.sort();
        Ok(times[SYNCS / 2])
    };
    let measured = measure();
    // It may not have been made.
    let _ = fs::remove_file(&path);
    Some(match measured {
        Ok(took) if took <= SYNC_SLOW => {
            finding(format!("a write is durable after {:.1} ms", took.as_secs_f64() * 1e3))
        }
        Ok(took) => finding(format!("a write is durable after {} ms", took.as_millis())).warning(
            "each group of charged checks waits for this",
            "use a disk with a faster sync, such as an SSD with power-loss protection",
        ),
        Err(error) => finding(format!("a file cannot be written: {error}")).failure(
            "the server cannot write, and answers charged checks with 503",
            "make room, or correct the rights of the folder",
        ),
    })
}

/// The certificate for HTTPS: whether it fits its key, and when it expires.
pub fn certificate(config: &Config) -> Option<Finding> {
    let (certificate, key) = match config.tls_files() {
        Ok(files) => files?,
        Err(error) => {
            let found = Finding::ok("certificate", "", error.0);
            return Some(found.failure("the server does not start", "set both, or neither of them"));
        }
    };
    let finding = |found: String| Finding::ok("certificate", certificate.display().to_string(), found);
    let renew = "renew it, and send SIGHUP to the server";
    let until = server::tls::Tls::load(certificate.to_owned(), key.to_owned())
        .and_then(|_| server::tls::expires_at(certificate));
    let now = clock::now() / 1000;
    Some(match until {
        Err(why) => {
            finding(why).failure("the server does not start", "name a certificate and its key in PEM")
        }
        Ok(None) => finding("it does not expire soon".into()),
        Ok(Some(until)) if until <= now => finding(format!("it expired {} days ago", (now - until) / DAY))
            .failure("clients refuse the connection", renew),
        Ok(Some(until)) if until - now < RENEW_BEFORE => {
            finding(format!("it expires in {} days", (until - now) / DAY))
                .warning("clients soon refuse the connection", renew)
        }
        Ok(Some(until)) => finding(format!("it is valid for {} days", (until - now) / DAY)),
    })
}

/// The dashboard, if browsers do not keep its `Secure` cookies at its URL: they do over HTTPS and at loopback.
pub fn dashboard(config: &Config) -> Option<Finding> {
    let url = config.reachable_at();
    let is_here = config.public_url.is_none() && config.listen.ip().is_loopback();
    let keeps_cookies = is_here || url.starts_with("https://") || Uri::parse(&url).is_some();
    (config.dashboard.enabled && !keeps_cookies).then(|| {
        Finding::ok("dashboard", url, "the URL is not https").warning(
            "people can sign in only over HTTPS or from this machine",
            "set tls_cert and tls_key, or, behind a proxy with TLS, set public_url = \"https://NAME\" with its name",
        )
    })
}

/// The learned bounces and deliveries, if the settings name their file or accounts that use it.
pub fn learned(config: &Config) -> Option<Finding> {
    let path =
        match &config.learned {
            Some(StateFile::At(path)) => path,
            _ if config.learned_accounts.is_empty() => return None,
            _ => {
                let found =
                    Finding::ok("learned", "", "accounts that use the learned events are named, and no file");
                return Some(found.failure(
                    "the server does not start",
                    "name the file of `mailprobe learn` with --learned",
                ));
            }
        };
    let finding = |found: String| Finding::ok("learned", path.display().to_string(), found);
    Some(match TableFile::new(path.clone()).read() {
        Ok(Some(table)) => {
            let counts = table.counts(clock::now() / 1000);
            finding(format!(
                "{} addresses with a bounce or a delivery that counts now",
                counts.bounced + counts.delivered
            ))
        }
        Ok(None) => finding("there is no such file".into()).warning(
            "no bounce and no delivery is used",
            "make the file with `mailprobe learn`, or correct --learned",
        ),
        Err(error) => finding(error.to_string()).failure("no command starts that uses it", "see the message"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::report::Severity;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_folder_is_judged_by_its_rights_and_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let findings = data_folder(folder.path());
        assert!(findings.iter().all(|finding| finding.severity != Severity::Failure), "{findings:?}");
        assert!(findings[0].found.contains("only its owner"), "{findings:?}");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let findings = data_folder(folder.path());
        assert!(
            findings[0].severity == Severity::Warning && findings[0].remedy.starts_with("run `chmod 700 ")
        );
        let missing = data_folder(&folder.path().join("a/b"));
        assert!(missing[0].found.contains("first start"), "{missing:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays behind");
        let file = folder.path().join("list.csv");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("data")] {
            let found = &data_folder(&path)[0];
            assert_eq!(found.severity, Severity::Failure, "{found:?}");
            assert!(found.found.ends_with("is a file, not a folder"), "{found:?}");
        }
        // Root may write to each folder.
        if !rustix::process::geteuid().is_root() {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
            let found = &data_folder(&folder.path().join("a/b"))[0];
            assert_eq!(found.severity, Severity::Failure, "{found:?}");
            assert!(found.found.contains("cannot create it in "), "{found:?}");
        }
    }

    #[test]
    fn a_folder_that_does_not_exist_is_judged_by_its_nearest_parent() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path();
        for (path, expected) in [
            (there.to_owned(), there),
            (there.join("a/b"), there),
            (PathBuf::from("no-such-folder"), Path::new(".")),
            (PathBuf::from("no-such-folder/data"), Path::new(".")),
            (PathBuf::from("/no-such-folder/data"), Path::new("/")),
        ] {
            assert_eq!(existing(&path), expected, "{}", path.display());
        }
        let found = sync_time(&there.join("no-such-folder"));
        assert!(found.is_some_and(|found| found.subject == there.display().to_string()));
    }

    #[test]
    fn the_learned_events_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("learned");
        let severity = |config: &Config| learned(config).map(|finding| finding.severity);
        let mut config = Config::default();
        assert_eq!(severity(&config), None);
        config.learned_accounts = vec!["default".into()];
        assert_eq!(severity(&config), Some(Severity::Failure));
        config.learned = Some(StateFile::At(file.clone()));
        assert_eq!(severity(&config), Some(Severity::Warning));
        TableFile::new(file.clone()).update::<_, learn::TableError>(|_| Ok(())).unwrap();
        assert_eq!(severity(&config), Some(Severity::Ok));
        fs::write(&file, "damaged").unwrap();
        assert_eq!(severity(&config), Some(Severity::Failure));
    }

    #[test]
    fn limits_are_compared_with_the_settings() {
        let mut config = Config { connections: 1, ..Config::default() };
        config.engine.sessions = 1;
        assert_eq!(open_files(&config).severity, Severity::Ok);
        config.connections = usize::MAX >> 20;
        let found = open_files(&config);
        assert!(found.severity == Severity::Failure || found.found == "no limit", "{found:?}");
    }

    #[test]
    fn locked_memory_is_compared_with_the_rings() {
        for (limit, wanted, severity) in [
            (None, 1 << 20, Severity::Ok),
            (Some(0), 0, Severity::Ok),
            (Some(8 << 20), 1 << 20, Severity::Ok),
            (Some(64 << 10), GLOMMIO_LOCKED, Severity::Failure),
        ] {
            assert_eq!(judge_locked_memory(limit, wanted).severity, severity, "{limit:?} {wanted}");
        }
        for (release, counts) in [
            ("5.10.0-30-amd64", true),
            ("5.11", true),
            ("5.12.1", false),
            ("6.1.0", false),
            ("4.19", true),
            ("x", false),
        ] {
            assert_eq!(counts_rings(release), counts, "{release}");
        }
    }

    #[test]
    fn a_certificate_is_judged_by_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let check = |days: i64, severity: Severity, said: &str| {
            let mut parameters = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
            let at = |ms: u64| UNIX_EPOCH + Duration::from_millis(ms);
            let away = (days.unsigned_abs() * DAY + 3600) * 1000;
            let end = if days < 0 { clock::now() - away } else { clock::now() + away };
            parameters.not_before = at(DAY * 1000).into();
            parameters.not_after = at(end).into();
            let key = rcgen::KeyPair::generate().unwrap();
            let made = parameters.self_signed(&key).unwrap();
            let (cert, pem) = (folder.path().join("cert"), folder.path().join("key"));
            fs::write(&cert, made.pem()).unwrap();
            fs::write(&pem, key.serialize_pem()).unwrap();
            let config = Config { tls_cert: Some(cert), tls_key: Some(pem), ..Config::default() };
            let found = certificate(&config).unwrap();
            assert_eq!(found.severity, severity, "{found:?}");
            assert!(found.found.contains(said), "{found:?}");
        };
        check(90, Severity::Ok, "valid for 90 days");
        check(3, Severity::Warning, "expires in 3 days");
        check(-2, Severity::Failure, "expired 2 days ago");
        let config =
            Config { tls_cert: Some("/none".into()), tls_key: Some("/none".into()), ..Config::default() };
        assert_eq!(certificate(&config).unwrap().severity, Severity::Failure);
        for (cert, key, said) in [
            (
                Some("/a".into()),
                None,
                "tls_cert: give the key of the certificate too, with --tls-key (in the file: tls_key)",
            ),
            (
                None,
                Some("/a".into()),
                "tls_key: give the certificate of the key too, with --tls-cert (in the file: tls_cert)",
            ),
        ] {
            let config = Config { tls_cert: cert, tls_key: key, ..Config::default() };
            let found = certificate(&config).unwrap();
            assert_eq!((found.severity, found.found.as_str()), (Severity::Failure, said));
        }
        assert!(certificate(&Config::default()).is_none());
    }

    #[test]
    fn people_sign_in_over_https_or_at_loopback() {
        for (listen, public_url, has_tls, warns) in [
            ("127.0.0.2:1", None, false, false),
            ("0.0.0.0:1", None, true, false),
            ("0.0.0.0:1", None, false, true),
            ("0.0.0.0:1", Some("https://192.0.2.2"), false, false),
            ("0.0.0.0:1", Some("http://api.example.com"), true, true),
            ("127.0.0.1:1", Some("http://192.0.2.2:1/base"), false, true),
            ("0.0.0.0:1", Some("http://localhost:3000/base"), false, false),
        ] {
            let (listen, public_url) = (listen.parse().unwrap(), public_url.map(str::to_owned));
            let tls_cert = has_tls.then(|| "cert".into());
            let config = Config { listen, public_url, tls_cert, ..Config::default() };
            let severity = dashboard(&config).map(|finding| finding.severity);
            assert_eq!(severity, warns.then_some(Severity::Warning), "{}", config.reachable_at());
        }
    }
}
