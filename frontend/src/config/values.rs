//! The values of settings: texts to values and back.

use super::StateFile;
use engine::proto::address::Address;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use toml::Value;
use usage::values::{self, Unit, grouped_bound, whole_time};

/// Longest EHLO name: the longest domain name.
const NAME_BYTES_MAX: usize = 253;

/// Longest base address of the API, in bytes.
const URL_BYTES_MAX: usize = 2048;

pub(super) fn one(given: &[String]) -> &str {
    given.last().map_or("", String::as_str)
}

pub(super) fn each<T>(given: &[String], read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    given.iter().map(|text| read(text)).collect()
}

/// Parses a number from `min` to `max`.
pub(super) fn number<T: TryFrom<u64> + PartialOrd + Display>(
    text: &str,
    min: T,
    max: T,
) -> Result<T, String> {
    let (least, most) = (grouped_bound(&min), grouped_bound(&max));
    let wrong = format!("`{text}` is not a number from {least} to {most}");
    values::number(text, min, max).map_err(|_| wrong)
}

/// Parses a time of up to one day. A number without a unit is in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let read = whole_time(Unit::Seconds, 0..=24 * 60 * 60u64)(text);
    read.map(Duration::from_secs).map_err(|rule| format!("`{text}`: {rule}"))
}

pub(super) fn choice<T: Copy>(text: &str, names: &[(&str, T)]) -> Result<T, String> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

pub(super) fn socket(text: &str) -> Result<SocketAddr, String> {
    // The name of loopback is the same everywhere (RFC 6761 6.3). Other names may have several addresses, and may change.
    let loopback = || match text.strip_prefix("localhost:") {
        Some(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse::<u16>().map_err(drop)?))),
        None => Err(()),
    };
    let read = text.parse().map_err(drop).or_else(|()| loopback());
    read.map_err(|()| format!("`{text}` is not IP:PORT, such as 127.0.0.1:8080 or [::1]:8080"))
}

pub(super) fn resolver(text: &str) -> Result<SocketAddr, String> {
    let plain = || text.parse::<IpAddr>().map(|ip| SocketAddr::from((ip, 53)));
    let read = text.parse().or_else(|_| plain());
    read.map_err(|_| format!("`{text}` is not an IP or IP:PORT, such as 192.0.2.53 or 127.0.0.1:53"))
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the path is empty".into()) } else { Ok(text.into()) }
}

pub(super) fn state_file(text: &str) -> Result<StateFile, String> {
    if text == StateFile::NONE { Ok(StateFile::None) } else { path(text).map(StateFile::At) }
}

/// Parses a host name or an address literal. Other characters are refused, because they could end or split a command.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '[' | ']' | ':');
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(fits) {
        return Err(format!("`{text}` is not a host name"));
    }
    Ok(text.to_owned())
}

/// Parses a base address. It ends without a slash, because paths are appended to it.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    let url = text.trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
    if host.is_empty() || url.len() > URL_BYTES_MAX || !url.chars().all(fits) {
        return Err(format!("`{text}` is not a URL such as https://api.example.com"));
    }
    Ok(url.to_owned())
}

/// Parses an address that needs no SMTPUTF8.
pub(super) fn address(text: &str) -> Result<String, String> {
    match Address::parse(text) {
        Ok(address) if !address.needs_smtputf8() => Ok(address.as_str().to_owned()),
        _ => Err(format!("`{text}` is not an address")),
    }
}

/// Parses the name or the id of an account. Whether there is one shows at the start of the server.
pub(super) fn account_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("the name of the account is empty".into()) } else { Ok(text.to_owned()) }
}

pub(super) fn text(value: impl ToString) -> Option<Value> {
    Some(Value::String(value.to_string()))
}

pub(super) fn name<T: PartialEq>(value: T, names: &[(&str, T)]) -> Option<Value> {
    names.iter().find(|(_, known)| *known == value).and_then(|(name, _)| text(name))
}

pub(super) fn list<T: ToString>(values: &[T]) -> Option<Value> {
    Some(Value::Array(values.iter().filter_map(|value| text(value.to_string())).collect()))
}
