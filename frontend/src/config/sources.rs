//! `[[source]]`, `--source` and `--proxy`: addresses and proxies for connections to mail servers.
//!
//! No message repeats the value of a proxy, and no output contains its password.

use super::keys::{Fault, canonical, unknown};
use super::values::{address, host_name};
use super::{Config, ConfigError};
use engine::config::{Proxy, SourceConfig, SourceWay};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Value;
use toml::de::DeTable;

pub(super) const KEYS: [&str; 6] = ["address", "proxy", "password_file", "ipv6", "ehlo", "mail_from"];

/// A password has at most 255 bytes (RFC 1929). Its file may have a line end too.
const PASSWORD_FILE_BYTES_MAX: u64 = 1024;

/// A source, with the file that is read when the engine starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The source for the engine, perhaps without its password.
    pub source: SourceConfig,
    /// The file of the proxy's password.
    pub password_file: Option<PathBuf>,
}

impl Source {
    fn is_proxy(&self) -> bool {
        matches!(self.source.way, SourceWay::Proxy(_))
    }

    /// The source for the engine, with its password.
    ///
    /// # Errors
    /// The password cannot be read.
    pub fn complete(&self) -> Result<SourceConfig, ConfigError> {
        let mut source = self.source.clone();
        if let (SourceWay::Proxy(proxy), Some(path)) = (&mut source.way, &self.password_file) {
            proxy.password = Some(read_password(path)?);
        }
        Ok(source)
    }
}

/// Replaces the configured addresses with the values of `--source`.
pub fn set_addresses(config: &mut Config, given: &[String]) -> Result<(), String> {
    set(config, given, false, SourceConfig::parse_address)
}

/// Replaces the configured proxies with the values of `--proxy`.
pub fn set_proxies(config: &mut Config, given: &[String]) -> Result<(), String> {
    set(config, given, true, SourceConfig::parse_proxy)
}

fn set(
    config: &mut Config,
    given: &[String],
    proxies: bool,
    read: fn(&str) -> Result<SourceConfig, String>,
) -> Result<(), String> {
    let mut sources = Vec::with_capacity(given.len());
    for text in given {
        let source = read(text)?;
        source.ehlo.as_deref().map(host_name).transpose()?;
        sources.push(Source { source, password_file: None });
    }
    config.sources.retain(|source| source.is_proxy() != proxies);
    config.sources.append(&mut sources);
    Ok(())
}

/// Reads one table; `at` is its position, and its paths are relative to `folder`.
pub fn read(at: usize, table: &DeTable<'_>, folder: &Path) -> Result<Source, Fault> {
    let (mut way, mut ipv6) = (None, None);
    let mut source = Source {
        source: SourceConfig {
            way: SourceWay::Address(std::net::Ipv4Addr::UNSPECIFIED.into()),
            ehlo: None,
            mail_from: None,
        },
        password_file: None,
    };
    for (key, value) in table.iter() {
        let at = key.span().start;
        let name = canonical(key.get_ref());
        let fault = |why: String| Fault { at, why: format!("source: {name}: {why}") };
        let value = value.get_ref();
        let text = || value.as_str().ok_or_else(|| "must be a string".to_owned());
        match name.as_str() {
            "address" | "proxy" if way.is_some() => {
                return Err(fault("a source has either an address or a proxy".into()));
            }
            "address" => way = Some(text().and_then(ip_address).map_err(fault)?),
            "proxy" => way = Some(SourceWay::Proxy(text().and_then(Proxy::parse).map_err(fault)?)),
            "password_file" => source.password_file = Some(folder.join(text().map_err(fault)?)),
            "ipv6" => ipv6 = Some(value.as_bool().ok_or_else(|| fault("must be true or false".into()))?),
            "ehlo" => source.source.ehlo = Some(text().and_then(host_name).map_err(fault)?),
            "mail_from" => source.source.mail_from = Some(text().and_then(address).map_err(fault)?),
            _ => return Err(unknown(at, key.get_ref(), KEYS.into_iter())),
        }
    }
    let fault = |why: &str| Fault { at, why: format!("source: {why}") };
    match way {
        None => return Err(fault("`address` or `proxy` is missing")),
        Some(SourceWay::Address(_)) if source.password_file.is_some() || ipv6.is_some() => {
            return Err(fault("`password_file` and `ipv6` are only for proxies"));
        }
        Some(SourceWay::Address(address)) => source.source.way = SourceWay::Address(address),
        Some(SourceWay::Proxy(mut proxy)) => {
            if source.password_file.is_some() && (proxy.user.is_none() || proxy.password.is_some()) {
                return Err(fault("`password_file` needs a user name and no password in `proxy`"));
            }
            proxy.ipv6 = ipv6.unwrap_or(false);
            source.source.way = SourceWay::Proxy(proxy);
        }
    }
    Ok(source)
}

fn ip_address(text: &str) -> Result<SourceWay, String> {
    text.parse().map(SourceWay::Address).map_err(|_| format!("`{text}` is not an IP address"))
}

/// A source as a table of the file.
pub fn to_toml(source: &Source) -> String {
    let Source { source: SourceConfig { way, ehlo, mail_from }, password_file } = source;
    let text = |text: &str| Value::String(text.to_owned()).to_string();
    let mut table = String::from("[[source]]\n");
    let _ = match way {
        SourceWay::Address(address) => writeln!(table, "address = {}", text(&address.to_string())),
        SourceWay::Proxy(proxy) => {
            let hidden = if proxy.password.is_some() { " # its password is not shown" } else { "" };
            let _ = writeln!(table, "proxy = {}{hidden}", text(&proxy.to_string()));
            writeln!(table, "ipv6 = {}", proxy.ipv6)
        }
    };
    let password_file = password_file.as_ref().map(|path| path.display().to_string());
    for (key, value) in [("password_file", &password_file), ("ehlo", ehlo), ("mail_from", mail_from)] {
        if let Some(value) = value {
            let _ = writeln!(table, "{key} = {}", text(value));
        }
    }
    table
}

/// Reads the password without its line end.
fn read_password(path: &Path) -> Result<String, ConfigError> {
    let text = super::read_file(path, PASSWORD_FILE_BYTES_MAX, "the password in")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests;
