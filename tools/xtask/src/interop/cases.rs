//! The cases: for each an address, the reply of its server to RCPT, and the expected reason. They are rows of
//! `testdata/interop.txt`.

use crate::failure::Failure;

/// One address with the expectations about it.
pub struct KnownAddress {
    /// The name for `--only` and the report.
    pub name: &'static str,
    /// The address that is asked about.
    pub address: &'static str,
    /// The reason that mailprobe must give at the first attempt.
    pub reason: &'static str,
    /// The condition which proves, before mailprobe runs, that the servers are as the case expects.
    pub witness: ExpectedWitness,
}

/// An observation by swaks or dig.
pub enum ExpectedWitness {
    /// The server at this address answers RCPT with a reply that begins with this text.
    Rcpt(&'static str, &'static str),
    /// The same without STARTTLS, which the server does not offer or offers without success.
    ClearRcpt(&'static str, &'static str),
    /// The server at this address answers the connection with a reply that begins with this text.
    Banner(&'static str, &'static str),
    /// The resolver answers an MX question for the domain with this status and these words.
    Dns(&'static str, &'static str),
}

/// All cases of the suite, in the order of the report.
///
/// # Errors
///
/// A row cannot be read.
pub fn cases() -> Result<Vec<KnownAddress>, Failure> {
    let rows = include_str!("../../testdata/interop.txt").lines().filter(|row| !row.starts_with('#'));
    rows.map(|row| case(row).ok_or_else(|| Failure(format!("interop.txt: no case in `{row}`")))).collect()
}

fn case(row: &'static str) -> Option<KnownAddress> {
    let (columns, text) = row.strip_suffix('"')?.split_once('"')?;
    let columns: Vec<&str> = columns.split_whitespace().collect();
    let [name, address, reason, kind, at] = columns[..] else { return None };
    let witness = match kind {
        "rcpt" => ExpectedWitness::Rcpt(at, text),
        "clear-rcpt" => ExpectedWitness::ClearRcpt(at, text),
        "banner" => ExpectedWitness::Banner(at, text),
        "dns" => ExpectedWitness::Dns(at, text),
        _ => return None,
    };
    Some(KnownAddress { name, address, reason, witness })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_row_is_a_case() {
        assert!(super::cases().unwrap().len() > 50);
    }
}
