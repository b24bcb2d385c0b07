//! Addresses: any text is either refused or has one form that is stable, short enough and safe in a command.

use crate::grammar::Grammar;
use engine_proto::address::{Address, Domain};
use engine_proto::limits::{ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, LABEL_BYTES_MAX, LOCAL_PART_BYTES_MAX};
use fastrand::Rng;
use std::sync::LazyLock;

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar::of(include_str!("../../grammars/address.txt")));

pub fn grow(random: &mut Rng) -> Vec<u8> {
    GRAMMAR.grow("start", random).into_bytes()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    // A text in a list or a query is also parsed as a domain.
    if let Ok(domain) = Domain::parse(&text) {
        domain_holds(&domain)?;
    }
    let Ok(address) = Address::parse(&text) else { return Ok(()) };
    domain_holds(address.domain())?;
    let whole = address.as_str();
    if whole != format!("{}@{}", address.local(), address.domain().as_str()) {
        return Err("the parts are not the whole".into());
    }
    if whole.len() > ADDRESS_BYTES_MAX || address.local().len() > LOCAL_PART_BYTES_MAX {
        return Err(format!("{} octets, {} of them local", whole.len(), address.local().len()));
    }
    if whole.chars().any(char::is_control) {
        return Err("a control character would go into a command".into());
    }
    if address.needs_smtputf8() == whole.is_ascii() {
        return Err("SMTPUTF8 where it is not needed, or not where it is".into());
    }
    if Address::parse(whole).as_ref() != Ok(&address) {
        return Err(format!("its own form is another address: {:?}", Address::parse(whole)));
    }
    let canonical = address.canonical();
    match Address::parse(&canonical) {
        Ok(again) if again.canonical() == canonical => {}
        other => return Err(format!("the canonical form is not stable: {other:?}")),
    }
    let shown = format!("{address:?}");
    if shown != format!("Address(..@{})", address.domain()) {
        return Err("Debug shows more than the domain".into());
    }
    Ok(())
}

fn domain_holds(domain: &Domain) -> Result<(), String> {
    let text = domain.as_str();
    let fits = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    if text.len() > DOMAIN_BYTES_MAX || !text.split('.').all(fits) || !text.bytes().all(plain) {
        return Err(format!("no A-labels in lower case: {text}"));
    }
    if Domain::parse(text).as_ref() != Ok(domain) {
        return Err(format!("{text} becomes {:?}", Domain::parse(text)));
    }
    if !text.ends_with(domain.registrable()) {
        return Err(format!("{} is no end of {text}", domain.registrable()));
    }
    // The form for people leads back to the same domain, except for labels that are A-labels twice. UTS 46 (4.1)
    // forbids these since revision 33, the library accepts them, and no registry has one.
    let shown = domain.to_unicode();
    let twice = shown.split('.').any(|label| label.starts_with("xn--"));
    if !twice && Domain::parse(&shown).as_ref() != Ok(domain) {
        return Err(format!("{text} is shown as {shown}, which is {:?}", Domain::parse(&shown)));
    }
    Ok(())
}

/// Whether the input is an address.
#[cfg(test)]
pub fn passes(input: &[u8]) -> bool {
    std::str::from_utf8(input).is_ok_and(|text| Address::parse(text).is_ok())
}
