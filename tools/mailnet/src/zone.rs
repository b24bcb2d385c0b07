//! All names of the mail internet and their records.

use crate::spec::DnsBehaviour;
use hickory_proto::rr::Name;
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

/// The records of one name.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub behaviour: DnsBehaviour,
    pub ttl: Option<u32>,
    pub cname: Option<(Box<str>, Name)>,
    pub mx: Vec<(u16, Box<str>, Name)>,
    pub addresses: Vec<IpAddr>,
    pub txt: Vec<Vec<Box<[u8]>>>,
    pub ptr: Option<Name>,
}

/// Names in lower case without a final dot, and their records.
#[derive(Debug, Default)]
pub(crate) struct Zone {
    names: HashMap<Box<str>, Records>,
    /// Names without records that have names below them: they exist (RFC 8020).
    between: HashSet<Box<str>>,
}

/// The longest CNAME chain that one answer carries.
pub(crate) const CHAIN_MAX: usize = 64;

impl Zone {
    pub(crate) fn find(&self, name: &str) -> Option<&Records> {
        self.names.get(name)
    }

    /// Whether a name exists without records of its own.
    pub(crate) fn is_between(&self, name: &str) -> bool {
        self.between.contains(name)
    }

    /// Adds a name; an error if it exists.
    pub(crate) fn add(&mut self, name: &str) -> Result<&mut Records, String> {
        if self.names.contains_key(name) {
            return Err(format!("the name `{name}` is defined twice"));
        }
        Ok(self.names.entry(name.into()).or_default())
    }

    /// The records of a name, which is added if it is new.
    pub(crate) fn at(&mut self, name: &str) -> &mut Records {
        self.names.entry(name.into()).or_default()
    }

    /// Adds the names above every name, after all are known.
    pub(crate) fn finish(&mut self) {
        for name in self.names.keys() {
            let mut rest: &str = name;
            while let Some((_, parent)) = rest.split_once('.') {
                if !self.between.insert(parent.into()) {
                    break;
                }
                rest = parent;
            }
        }
        self.between.insert("".into());
    }
}

/// Checks a name in the form of scenarios (A-labels, no final dot) and returns it in lower case.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if text.len() > 253 || !text.split('.').all(fits) {
        return Err(format!(
            "`{text}` is not a domain name (labels of 1 to 63 letters, digits, - and _, 253 bytes in all)"
        ));
    }
    Ok(text.to_ascii_lowercase())
}

/// The wire form of a name that [`name`] has checked.
pub(crate) fn wire(text: &str) -> Result<Name, String> {
    let labels = text.split('.').map(str::as_bytes);
    let name = if text.is_empty() { Ok(Name::root()) } else { Name::from_labels(labels) };
    name.map_err(|error| format!("`{text}`: {error}"))
}

/// The name of the PTR record of an address.
pub(crate) fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let mut name = String::with_capacity(72);
            for byte in v6.octets().iter().rev() {
                name.push_str(&format!("{:x}.{:x}.", byte & 15, byte >> 4));
            }
            name + "ip6.arpa"
        }
    }
}
