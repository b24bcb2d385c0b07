//! `[[canary]]`: the operator's own mailboxes, which exist. If a host accepted one and later refuses it, the host has changed
//! its behaviour, and its earlier refusals no longer count.

use super::keys::{Entry, Fault, canonical, tables, unknown};
use engine::proto::address::Address;
use std::collections::HashSet;
use toml::Spanned;
use toml::de::DeValue;

/// Maximum number of canaries: one per domain is enough.
const CANARIES_MAX: usize = 10_000;

/// Reads all tables. No message repeats an address.
///
/// # Errors
/// The first error: an unknown key, an invalid address, an address that needs SMTPUTF8, or an address that is listed twice.
pub fn read(value: &Spanned<DeValue<'_>>) -> Result<Vec<Address>, Fault> {
    let (mut read, mut seen) = (Vec::new(), HashSet::new());
    for (at, table) in tables("canary", value)? {
        let fault = |why: String| Fault { at, why: format!("canary: {why}") };
        let mut address = None;
        for entry in table.iter() {
            address = Some(read_address(entry)?);
        }
        let address = address.ok_or_else(|| fault("`address` is missing".into()))?;
        if !seen.insert(address.canonical()) {
            return Err(fault("this address is listed twice".into()));
        }
        if read.len() == CANARIES_MAX {
            return Err(fault(format!("the maximum is {CANARIES_MAX} canaries")));
        }
        read.push(address);
    }
    Ok(read)
}

fn read_address((key, value): Entry<'_, '_>) -> Result<Address, Fault> {
    if canonical(key.get_ref()) != "address" {
        return Err(unknown(key.span().start, key.get_ref(), ["address"].into_iter()));
    }
    let fault = |why: &str| Fault { at: value.span().start, why: format!("canary.address: {why}") };
    let text = value.get_ref().as_str().ok_or_else(|| fault("must be a string"))?;
    let address = Address::parse(text).map_err(|_| fault("this is not an address"))?;
    if address.needs_smtputf8() {
        return Err(fault("it has characters outside ASCII, and many hosts always refuse such addresses"));
    }
    Ok(address)
}

/// A canary as a table of the file.
pub fn to_toml(address: &Address) -> String {
    format!("[[canary]]\naddress = {}\n", toml::Value::String(address.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::{Config, file};
    use super::*;
    use std::path::Path;

    fn check(text: &str, expected: Result<&[&str], (usize, &str)>) {
        let mut config = Config::default();
        match (file::apply(text, Path::new("/"), &mut config), expected) {
            (Ok(()), Ok(expected)) => {
                let read: Vec<&str> = config.canaries.iter().map(Address::as_str).collect();
                assert_eq!(read, expected);
                let printed: String = config.canaries.iter().map(to_toml).collect();
                let mut again = Config::default();
                assert!(file::apply(&printed, Path::new("/"), &mut again).is_ok());
                assert_eq!(again.canaries, config.canaries);
                assert_eq!(config.engine_config().unwrap().canaries, config.canaries);
            }
            (Err(fault), Err((line, why))) => {
                assert_eq!((1 + text[..fault.at].matches('\n').count(), &*fault.why), (line, why));
            }
            (got, _) => panic!("{text}: {:?}", got.map_err(|fault| fault.why)),
        }
    }

    #[test]
    fn canaries_are_read_and_faults_name_their_line() {
        check("", Ok(&[]));
        check(
            "[[canary]]\naddress = \"me@example.com\"\n[[canary]]\naddress = \"\\\"a b\\\"@example.net\"\n",
            Ok(&["me@example.com", "\"a b\"@example.net"]),
        );
        check("canary = \"me@example.com\"", Err((1, "canary: write each canary as a table [[canary]]")));
        check("canary = [1]", Err((1, "canary: write each canary as a table [[canary]]")));
        check("\n[[canary]]\n", Err((2, "canary: `address` is missing")));
        check("[[canary]]\naddress = 1", Err((2, "canary.address: must be a string")));
        check("[[canary]]\naddress = \"secret\"", Err((2, "canary.address: this is not an address")));
        check(
            "[[canary]]\naddress = \"josé@example.com\"",
            Err((
                2,
                "canary.address: it has characters outside ASCII, and many hosts always refuse such addresses",
            )),
        );
        check("[[canary]]\nadress = \"a@b.co\"", Err((2, "unknown key `adress`; did you mean `address`?")));
        check(
            "[[canary]]\naddress = \"me@example.com\"\n[[canary]]\naddress = \"Me@EXAMPLE.com\"\n",
            Err((3, "canary: this address is listed twice")),
        );
        check("[[canari]]\naddress = \"a@b.co\"", Err((1, "unknown key `canari`; did you mean `canary`?")));
    }
}
