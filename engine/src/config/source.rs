//! Sources: the addresses of this machine and the SOCKS5 proxies (RFC 1928) from which the engine asks mail servers.

use std::fmt;
use std::net::IpAddr;

/// A source, with its EHLO name and its reverse-path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// The way from the source to mail servers.
    pub way: SourceWay,
    /// The argument of EHLO. `None`: [`super::EngineConfig::ehlo`]. If that is `None` too: the full name of this machine. If the
    /// machine has none, an address literal: the address of the source, or for a proxy the address of this machine.
    pub ehlo: Option<String>,
    /// The reverse-path of MAIL; empty for `<>`. `None`: [`super::EngineConfig::mail_from`]. If that is `None` too: `postmaster@`
    /// followed by the EHLO name of the source.
    pub mail_from: Option<String>,
}

/// How a source reaches mail servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceWay {
    /// From this address of this machine. It reaches only mail servers with an address of the same family.
    Address(IpAddr),
    /// Through a SOCKS5 proxy (RFC 1928).
    Proxy(Proxy),
}

/// A SOCKS5 proxy. Neither [`fmt::Debug`] nor [`fmt::Display`] shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The name or address of the proxy, with brackets around an IPv6 address.
    pub host: String,
    /// The TCP port of the proxy.
    pub port: u16,
    /// The user name, if the proxy requires one.
    pub user: Option<String>,
    /// The password, if the proxy requires one. The user name and the password have 1 to 255 bytes each.
    pub password: Option<String>,
    /// Whether the proxy also reaches hosts over IPv6. Every proxy is assumed to reach hosts over IPv4.
    pub ipv6: bool,
}

impl SourceConfig {
    /// Reads `192.0.2.1`, or `192.0.2.1=mx1.example.org` with an EHLO name.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse_address(text: &str) -> Result<SourceConfig, String> {
        let (address, ehlo) = split_name(text);
        let address = address
            .parse()
            .map_err(|_| format!("`{address}` is not an IP address; write ADDRESS or ADDRESS=EHLO-NAME"))?;
        Ok(SourceConfig { way: SourceWay::Address(address), ehlo, mail_from: None })
    }

    /// Reads `socks5://host:port` or `socks5://user:password@host:port`. An `=` with an EHLO name may follow.
    ///
    /// # Errors
    /// A sentence that says what is wrong. It repeats nothing of `text`, which may contain a password.
    pub fn parse_proxy(text: &str) -> Result<SourceConfig, String> {
        // The `=` of the EHLO name comes after the last `@`. An `=` before that `@` may belong to the password.
        let place = text.rfind('@').map_or(0, |at| at + 1);
        let (_, ehlo) = split_name(&text[place..]);
        let url = &text[..text.len() - ehlo.as_ref().map_or(0, |name| name.len() + 1)];
        Ok(SourceConfig { way: SourceWay::Proxy(Proxy::parse(url)?), ehlo, mail_from: None })
    }
}

fn split_name(text: &str) -> (&str, Option<String>) {
    match text.split_once('=') {
        Some((before, name)) => (before, Some(name.to_owned())),
        None => (text, None),
    }
}

impl Proxy {
    /// Reads `socks5://host:port` or `socks5://user:password@host:port`. In the user name and the password, `%` and two hexadecimal
    /// digits stand for a byte (RFC 3986 2.1).
    ///
    /// # Errors
    /// As [`SourceConfig::parse_proxy`].
    pub fn parse(url: &str) -> Result<Proxy, String> {
        const FORM: &str = "write socks5://HOST:PORT or socks5://USER:PASSWORD@HOST:PORT";
        let rest = url.strip_prefix("socks5://").ok_or_else(|| format!("it is not a proxy: {FORM}"))?;
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (host, port) = place
            .trim_end_matches('/')
            .rsplit_once(':')
            .ok_or_else(|| format!("the proxy has no port: {FORM}"))?;
        let port = port.parse().ok().filter(|port| *port != 0);
        let port = port.ok_or_else(|| format!("the proxy's port is not a number from 1 to 65535: {FORM}"))?;
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decode(user)?, decode(password)?),
            None => (None, None),
        };
        if login.is_some() && user.is_none() {
            return Err(format!("the proxy's user name is empty: {FORM}"));
        }
        Ok(Proxy { host: host_of(host)?, port, user, password, ipv6: false })
    }

    /// The host and the port, as logs show them.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Checks a host: a name, an IPv4 address, or an IPv6 address in brackets.
fn host_of(text: &str) -> Result<String, String> {
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let sound = match inside {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            (1..=253).contains(&text.len()) && text.chars().all(fits)
        }
    };
    if sound {
        Ok(text.to_owned())
    } else {
        Err("the proxy's host is neither a name nor an address; write an IPv6 address in brackets".into())
    }
}

/// Decodes the percent-encoding. Returns `None` for an empty text.
fn decode(text: &str) -> Result<Option<String>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err("write a % in the proxy's user name or password as %25".into()),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| "the proxy's user name or password is not UTF-8")?;
    Ok((!text.is_empty()).then_some(text))
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = self.user.as_ref().map(|user| format!("{}@", encode(user))).unwrap_or_default();
        write!(f, "socks5://{login}{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(text: &str) -> Option<(Proxy, Option<String>)> {
        let source = SourceConfig::parse_proxy(text).ok()?;
        match source.way {
            SourceWay::Proxy(proxy) => Some((proxy, source.ehlo)),
            SourceWay::Address(_) => None,
        }
    }

    #[test]
    fn addresses_are_read_with_their_names() {
        let read = |text: &str| SourceConfig::parse_address(text).map(|source| (source.way, source.ehlo));
        let way = |text: &str| SourceWay::Address(text.parse().unwrap());
        assert_eq!(read("192.0.2.1"), Ok((way("192.0.2.1"), None)));
        assert_eq!(read("2001:db8::1=a.example"), Ok((way("2001:db8::1"), Some("a.example".into()))));
        for wrong in ["", "a.example", "192.0.2.1:25", "192.0.2.256", "[::1]", "=a.example"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn proxies_are_read_with_their_logins_and_names() {
        type Row = (
            &'static str,
            &'static str,
            u16,
            Option<&'static str>,
            Option<&'static str>,
            Option<&'static str>,
        );
        let rows: [Row; 7] = [
            ("socks5://p.example:1080", "p.example", 1080, None, None, None),
            ("socks5://p.example:1080/", "p.example", 1080, None, None, None),
            ("socks5://[::1]:9=a.example", "[::1]", 9, None, None, Some("a.example")),
            ("socks5://u:p@192.0.2.1:1", "192.0.2.1", 1, Some("u"), Some("p"), None),
            ("socks5://u@192.0.2.1:1", "192.0.2.1", 1, Some("u"), None, None),
            ("socks5://u:a=b@c:d%40@h:1=a.example", "h", 1, Some("u"), Some("a=b@c:d@"), Some("a.example")),
            ("socks5://%C3%A9:%25@h:1", "h", 1, Some("é"), Some("%"), None),
        ];
        for (text, host, port, user, password, ehlo) in rows {
            let (read, name) = proxy(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((read.host.as_str(), read.port), (host, port), "{text}");
            assert_eq!((read.user.as_deref(), read.password.as_deref()), (user, password), "{text}");
            assert_eq!(name.as_deref(), ehlo, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_proxy_is_said_without_its_password() {
        for wrong in [
            "",
            "http://u:secret@h:1",
            "u:secret@h:1",
            "socks5://u:secret@h",
            "socks5://u:secret@h:0",
            "socks5://u:secret@h:99999",
            "socks5://u:secret@:1",
            "socks5://u:secret@::1:1",
            "socks5://:secret@h:1",
            "socks5://u:secret%2@h:1",
            "socks5://u:secret%ff@h:1",
            "socks5://u:secret@a/b:1",
        ] {
            let said = SourceConfig::parse_proxy(wrong).unwrap_err();
            assert!(!said.contains("secret"), "{wrong}: {said}");
        }
        let (proxy, _) = proxy("socks5://us%65r:secret@[::1]:1080").unwrap();
        assert_eq!(proxy.to_string(), "socks5://user@[::1]:1080");
        assert_eq!(format!("{proxy:?}"), "Proxy(socks5://user@[::1]:1080)");
    }
}
