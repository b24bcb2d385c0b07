//! Addresses: any text is either refused or has one form that is stable, short enough and safe in a command.

use crate::input::one;
use engine_proto::address::{Address, Domain};
use engine_proto::limits::{ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, LABEL_BYTES_MAX, LOCAL_PART_BYTES_MAX};
use fastrand::Rng;

const ATOMS: [&str; 16] = [
    "alice",
    "a",
    "A.b",
    "x+tag",
    "first.last",
    "!#$%&'*",
    "info",
    "用户",
    "ö",
    "o'neil",
    "\u{1f600}",
    "{|}~",
    "--",
    "a..b",
    ".",
    "\u{301}e",
];
const QUOTED: [&str; 10] = ["a b", "\\\"", "\\\\", "@", "..", "", "\t", "\\a", "ü", "\r\nRCPT TO:<x>"];
const LABELS: [&str; 22] = [
    "example",
    "com",
    "xn--mnchen-3ya",
    "münchen",
    "straße",
    "faß",
    "例え",
    "テスト",
    "xn--zckzah",
    "xn--",
    "xn--a",
    "a-b",
    "-a",
    "a-",
    "1",
    "127",
    "é",
    "e\u{301}",
    "\u{200d}",
    "ａｂ",
    "\u{3002}",
    "MIXED",
];

/// A text that mostly has the form of an address, sometimes with a part that is too long or invalid.
pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    match random.u8(..8) {
        0..=4 => dotted(random, &ATOMS, &mut text),
        5 | 6 => {
            text.push('"');
            (0..random.usize(..5)).for_each(|_| text.push_str(one(random, &QUOTED)));
            text.push('"');
        }
        _ => text.push_str(&"a".repeat(random.usize(..80))),
    }
    text.push_str(one(random, &["@", "@", "@", "@", "@", "", "@@", " @", "＠"]));
    match random.u8(..12) {
        0 => {
            text.push_str(one(random, &["[127.0.0.1]", "[IPv6:::1]", "localhost", "example.com.", "1.2.3.4"]))
        }
        1 => text.push_str(&format!("{}.com", "ü".repeat(random.usize(..70)))),
        2 => text.push_str(&"abcdefgh.".repeat(random.usize(..36))),
        _ => dotted(random, &LABELS, &mut text),
    }
    text.into_bytes()
}

/// The first words of each list can be combined; the others mostly make the text invalid.
fn dotted(random: &mut Rng, words: &[&str], text: &mut String) {
    for number in 0..random.usize(1..5) {
        if number > 0 {
            text.push('.');
        }
        let words = if random.u8(..8) == 0 { words } else { &words[..7] };
        text.push_str(one(random, words));
        if random.u8(..16) == 0 {
            text.push_str(one(random, words));
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_addresses_and_many_are_not() {
        let mut random = Rng::with_seed(1);
        let mut taken = || Address::parse(&String::from_utf8(grow(&mut random)).unwrap()).is_ok();
        let share = (0..1000).filter(|_| taken()).count();
        assert!((150..850).contains(&share), "{share} of 1000");
    }
}
