//! The URL of the database, `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?NAME=VALUE&...`, as the
//! documentation of PostgreSQL describes it ("Connection URIs" of libpq).
//!
//! Two differences make mistakes visible. The server is verified unless `sslmode=disable` says otherwise, and a
//! parameter that mailprobe does not know is refused. No error contains a part of the URL that may be the password.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The port of PostgreSQL if the URL names none.
const PORT: u16 = 5432;
/// Most hosts of a URL.
const HOSTS_MAX: usize = 16;
/// How long one address of a host may take to connect and log in, if the URL does not say it.
const ADDRESS_TIME: Duration = Duration::from_secs(5);
/// The largest `connect_timeout`, in seconds.
const CONNECT_TIMEOUT_S_MAX: u64 = 60;
/// The name of the connections in `pg_stat_activity`, if the URL does not say it.
const APPLICATION: &str = "mailprobe";

/// A text that appears in no output: its `Debug` shows three dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the login only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// A name or an IP address, with the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name or the IP address, without the brackets of IPv6.
    pub name: String,
    /// The TCP port of the server.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// How a connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// `sslmode=disable`: no encryption, for loopback and trusted networks.
    Plain,
    /// `sslmode=verify-full`: TLS, with a certificate for the host's name from an authority of the system.
    SystemAuthorities,
    /// `sslmode=verify-full` with `sslrootcert`: TLS, with a certificate from an authority in this file.
    AuthoritiesIn(PathBuf),
}

/// The parts of the URL, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The servers. All are asked.
    pub hosts: Vec<Host>,
    /// The role that logs in.
    pub user: String,
    /// The password of the role; without one, the server must ask for none.
    pub password: Option<Secret>,
    /// The name of the database.
    pub database: String,
    /// The protection of the connection to each host.
    pub protection: Protection,
    /// How long one address of a host may take to connect and log in.
    pub address_time: Duration,
    /// The name of the connections in `pg_stat_activity`.
    pub application: String,
}

/// The defect of a URL, in one line, without its password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URL of the store is not usable: {0}")]
pub struct UrlError(String);

fn wrong<T>(why: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError(why.into()))
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// One line that names the defective part. It quotes only parts that cannot belong to the password.
    pub fn parse(url: &str) -> Result<Target, UrlError> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let Some(rest) = rest else { return wrong("it does not begin with `postgres://`") };
        // A password with one of these characters ends too early, and its rest looks like a host, a path or a parameter.
        if rest.matches('@').count() > 1 || rest.contains(['#', ' ']) || misplaced_at_sign(rest) {
            return wrong("the password has a character that must be percent-encoded, such as `@` as `%40`");
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let Some((login, hosts)) = authority.split_once('@') else { return wrong("it has no user") };
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        let user = decode(user, "the user")?;
        if user.is_empty() {
            return wrong("it has no user");
        }
        let database = decode(database, "the name of the database")?;
        if database.is_empty() {
            return wrong("it has no name of a database, as in `postgres://user@host/mailprobe`");
        }
        let mut target = Target {
            hosts: read_hosts(hosts)?,
            user,
            password: password.map(|text| decode(text, "the password")).transpose()?.map(Secret),
            database,
            protection: Protection::SystemAuthorities,
            address_time: ADDRESS_TIME,
            application: APPLICATION.into(),
        };
        target.read_parameters(query)?;
        Ok(target)
    }

    fn read_parameters(&mut self, query: &str) -> Result<(), UrlError> {
        let (mut is_plain, mut authorities) = (false, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value, "a parameter")?;
            match (name, value.as_str()) {
                ("sslmode", "disable") => is_plain = true,
                ("sslmode", "verify-full") => is_plain = false,
                ("sslmode", _) => {
                    return wrong(
                        "`sslmode` is neither `verify-full` nor `disable`; others do not verify the server",
                    );
                }
                ("sslrootcert", "") => return wrong("`sslrootcert` names no file"),
                ("sslrootcert", "system") => authorities = None,
                ("sslrootcert", path) => authorities = Some(PathBuf::from(path)),
                ("connect_timeout", text) => self.address_time = read_timeout(text)?,
                ("application_name", text) => self.application = text.into(),
                // It is what mailprobe does anyway, and usual in the URL of a cluster.
                ("target_session_attrs", "read-write" | "primary") => {}
                ("target_session_attrs", _) => return wrong("`target_session_attrs` must be `read-write`"),
                _ => {
                    return wrong(
                        "it has an unknown parameter; known are `sslmode`, `sslrootcert`, `connect_timeout`, \
                         `application_name` and `target_session_attrs`",
                    );
                }
            }
        }
        self.protection = match authorities {
            Some(_) if is_plain => return wrong("`sslrootcert` has no effect with `sslmode=disable`"),
            Some(path) => Protection::AuthoritiesIn(path),
            None if is_plain => Protection::Plain,
            None => Protection::SystemAuthorities,
        };
        Ok(())
    }
}

/// Whether the `@` comes after the end of the authority.
fn misplaced_at_sign(rest: &str) -> bool {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    rest[end..].contains('@')
}

fn read_timeout(text: &str) -> Result<Duration, UrlError> {
    match text.parse() {
        Ok(seconds @ 1..=CONNECT_TIMEOUT_S_MAX) => Ok(Duration::from_secs(seconds)),
        _ => wrong(format!("`connect_timeout` is not a number of seconds from 1 to {CONNECT_TIMEOUT_S_MAX}")),
    }
}

fn read_hosts(text: &str) -> Result<Vec<Host>, UrlError> {
    let hosts: Result<Vec<Host>, UrlError> = text.split(',').map(read_host).collect();
    let hosts = hosts?;
    if hosts.len() > HOSTS_MAX { wrong(format!("it has more than {HOSTS_MAX} hosts")) } else { Ok(hosts) }
}

fn read_host(text: &str) -> Result<Host, UrlError> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, port)) if port.starts_with(':') => (name, Some(&port[1..])),
            _ => return wrong(format!("the host `{text}` has no `]`")),
        },
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() {
        return wrong("a host has no name; sockets of the file system are not supported");
    }
    let name = decode(name, "a host")?;
    if name.starts_with('/') {
        return wrong("sockets of the file system are not supported; name a host");
    }
    match port.map(str::parse) {
        None => Ok(Host { name, port: PORT }),
        Some(Ok(port)) if port > 0 => Ok(Host { name, port }),
        Some(_) => wrong(format!("the port of the host `{name}` is not a number from 1 to 65535")),
    }
}

/// Replaces `%XX` by the byte (RFC 3986 section 2.1).
fn decode(text: &str, part: &str) -> Result<String, UrlError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => decoded.push((high * 16 + low) as u8),
            _ => return wrong(format!("{part} has a `%` without two hexadecimal digits after it")),
        }
    }
    match String::from_utf8(decoded) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => wrong(format!("{part} is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    #[test]
    fn every_part_is_read() {
        let url = "postgres://node:p%40ss%2Fw%C3%B6rd@db1:5433,db2.example,[::1]:6000,10.0.0.1/mail%20probe\
                   ?sslmode=verify-full&sslrootcert=/etc/ca.pem&connect_timeout=3&application_name=n1\
                   &target_session_attrs=read-write";
        let target = Target::parse(url).unwrap();
        let hosts = [host("db1", 5433), host("db2.example", 5432), host("::1", 6000), host("10.0.0.1", 5432)];
        assert_eq!(target.hosts, hosts);
        assert_eq!(target.hosts[2].to_string(), "[::1]:6000");
        assert_eq!((target.user.as_str(), target.database.as_str()), ("node", "mail probe"));
        assert_eq!(target.password.unwrap().reveal(), "p@ss/wörd");
        assert_eq!(target.protection, Protection::AuthoritiesIn("/etc/ca.pem".into()));
        assert_eq!(target.address_time, Duration::from_secs(3));
        assert_eq!(target.application, "n1");
    }

    #[test]
    fn the_server_is_verified_unless_the_url_says_otherwise() {
        let protection =
            |query: &str| Target::parse(&format!("postgresql://u@h/d{query}")).unwrap().protection;
        assert_eq!(protection(""), Protection::SystemAuthorities);
        assert_eq!(protection("?sslrootcert=system"), Protection::SystemAuthorities);
        assert_eq!(protection("?sslmode=disable"), Protection::Plain);
    }

    #[test]
    fn a_defect_is_named_without_the_password() {
        for (url, expected) in [
            ("mysql://u:hunter2@h/d", "does not begin with `postgres://`"),
            ("postgres://h/d", "no user"),
            ("postgres://:hunter2@h/d", "no user"),
            ("postgres://u:hunter2@h", "no name of a database"),
            ("postgres://u:hunter2@/d", "a host has no name"),
            ("postgres://u:hunter2@%2Fvar%2Frun/d", "sockets of the file system"),
            ("postgres://u:hunter2@h:x/d", "port of the host `h`"),
            ("postgres://u:hunter2@h:0/d", "port of the host `h`"),
            ("postgres://u:hunter2@[::1/d", "has no `]`"),
            ("postgres://u:hunter2%4@h/d", "the password has a `%`"),
            ("postgres://u:hunter2%FF@h/d", "the password is not UTF-8"),
            ("postgres://u:hunt@er2@h/d", "percent-encoded"),
            ("postgres://u:hunt/er2@h/d", "percent-encoded"),
            ("postgres://u:hunt?er2@h/d", "percent-encoded"),
            ("postgres://u:hunt#er2@h/d", "percent-encoded"),
            ("postgres://u:hunter2@h/d?sslmode=require", "`sslmode` is neither"),
            ("postgres://u:hunter2@h/d?sslmode=disable&sslrootcert=a", "`sslrootcert` has no effect"),
            ("postgres://u:hunter2@h/d?connect_timeout=0", "`connect_timeout`"),
            ("postgres://u:hunter2@h/d?target_session_attrs=any", "`target_session_attrs`"),
            ("postgres://u@h/d?password=hunter2", "unknown parameter"),
        ] {
            let why = Target::parse(url).unwrap_err().to_string();
            assert!(why.contains(expected) && !why.contains('\n'), "{url}: {why}");
            assert!(!why.contains("hunt") && !why.contains("er2"), "{url}: {why}");
        }
        assert!(Target::parse(&format!("postgres://u@{}h/d", "h,".repeat(16))).is_err());
    }

    #[test]
    fn debug_hides_the_password() {
        let target = Target::parse("postgres://u:hunter2@h/d").unwrap();
        assert!(!format!("{target:?}").contains("hunter2"));
    }
}
