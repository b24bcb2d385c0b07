use super::AddressError::*;
use super::*;
use crate::tests::registrable_rows;
use proptest::prelude::*;

/// The rows of a table: each name with each of its texts.
fn rows(table: &str) -> Vec<(String, String)> {
    let tables: toml::Table = include_str!("../../testdata/addresses.toml").parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let rows = tables[table].as_table().unwrap().iter().flat_map(|(name, value)| match value.as_array() {
        Some(values) => values.iter().map(|value| (name.clone(), text(value))).collect(),
        None => vec![(name.clone(), text(value))],
    });
    rows.collect()
}

#[test]
fn addresses_have_one_form_each() {
    let unchanged = rows("unchanged").into_iter().map(|(_, text)| (text.clone(), text));
    for (input, expected) in unchanged.chain(rows("changed")) {
        let address = Address::parse(&input).unwrap_or_else(|e| panic!("{input:?}: {e}"));
        assert_eq!(address.as_str(), expected, "{input:?}");
        assert_eq!(Address::parse(address.as_str()).as_ref(), Ok(&address), "{input:?} again");
        let joined = format!("{}@{}", address.local(), address.domain());
        assert_eq!(joined, expected, "{input:?} in parts");
    }
}

#[test]
fn texts_are_refused_by_the_first_rule_that_they_break() {
    for (error, input) in rows("refused") {
        let found = Address::parse(&input).expect_err(&input);
        assert_eq!(format!("{found:?}"), error, "{input:?}");
        is_one_line(found);
    }
    [TooLong, LocalTooLong, DomainLabelTooLong, DomainTooLong].into_iter().for_each(is_one_line);
}

fn is_one_line(error: AddressError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains('\n') && !text.ends_with('.'), "{text}");
}

/// Tries each ASCII character in a local part (bare, quoted and escaped) and in a domain.
#[test]
fn each_ascii_character() {
    for c in (0..128u8).map(char::from) {
        let atext = c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
        let bare = Address::parse(&format!("a{c}b@x.com"));
        assert_eq!(bare.is_ok(), atext || c == '.', "{c:?} bare");
        let quoted = Address::parse(&format!("\"a{c}b\"@x.com"));
        assert_eq!(quoted.is_ok(), (' '..='~').contains(&c) && c != '"', "{c:?} quoted");
        let escaped = Address::parse(&format!("\"a\\{c}b\"@x.com"));
        assert_eq!(escaped.is_ok(), (' '..='~').contains(&c), "{c:?} escaped");
        let domain = Address::parse(&format!("a@x{c}y.com"));
        // `@` is refused as well: the last at sign ends the local part, and `a@x` is not a valid one.
        let label = c.is_ascii_alphanumeric() || c == '-' || c == '.';
        assert_eq!(domain.is_ok(), label, "{c:?} in a domain");
    }
}

#[test]
fn international_characters_of_local_parts() {
    let text = |c: u32| char::from_u32(c).map(|c| format!("a{c}b@x.com")).expect("a scalar value");
    for c in [
        0x80, 0x85, 0x9f, 0xa0, 0xad, 0x61c, 0x1680, 0x180e, 0x2000, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029,
        0x202a, 0x202e, 0x202f, 0x205f, 0x2060, 0x2066, 0x206f, 0x3000, 0x3164, 0xe000, 0xf8ff, 0xfdd0,
        0xfeff, 0xffa0, 0xfff9, 0xfffd, 0xfffe, 0xffff, 0x1fffe, 0x1ffff, 0x2fffe, 0xe0001, 0xe007f, 0xf0000,
        0x10ffff,
    ] {
        assert_eq!(Address::parse(&text(c)), Err(LocalCharacter), "U+{c:04X}");
    }
    for c in [0xa1, 0xff, 0x100, 0x200c, 0x200d, 0x3001, 0xfdef + 1, 0xfeff - 1, 0x1fffd, 0x20000, 0x2fa1d] {
        assert!(Address::parse(&text(c)).is_ok(), "U+{c:04X}");
    }
}

#[test]
fn lengths_hold_to_the_byte() {
    let of = |local: usize, domain: &str| Address::parse(&format!("{}@{domain}", "l".repeat(local)));
    assert!(of(64, "x.com").is_ok());
    assert_eq!(of(65, "x.com"), Err(LocalTooLong));
    let quoted = |n: usize| Address::parse(&format!("\"{} \"@x.com", "q".repeat(n)));
    assert!(quoted(61).is_ok());
    assert_eq!(quoted(62), Err(LocalTooLong), "the quotes count");
    let umlauts = |n: usize| Address::parse(&format!("{}@x.com", "ö".repeat(n)));
    assert!(umlauts(32).is_ok());
    assert_eq!(umlauts(33), Err(LocalTooLong), "bytes count, not characters");

    let label = |n: usize| format!("{}.com", "d".repeat(n));
    assert!(of(1, &label(63)).is_ok());
    assert_eq!(of(1, &label(64)), Err(DomainLabelTooLong));
    // A domain of `n` bytes: three labels of 63 bytes and a shorter one, each with its dot, and `com`.
    let domain =
        |n: usize| format!("{}{}.com", format!("{}.", "d".repeat(63)).repeat(3), "d".repeat(n - 196));
    assert_eq!(domain(252).len(), 252);
    assert!(of(1, &domain(252)).is_ok(), "254 bytes");
    assert_eq!(of(2, &domain(252)), Err(TooLong));
    assert_eq!(of(1, &domain(253)), Err(TooLong));
    assert_eq!(of(1, &domain(254)), Err(DomainTooLong));
    let two = |n: usize| format!("{}.{}.{}.com", "d".repeat(63), "d".repeat(63), "d".repeat(n - 132));
    assert!(of(64, &two(189)).is_ok(), "64 + 1 + 189 bytes");
    assert_eq!(of(64, &two(190)), Err(TooLong));

    // The A-label counts: 50 x "ü" has 100 bytes, which is too long for a label, but its A-label is shorter.
    assert!(Domain::parse(&format!("{}.com", "ü".repeat(50))).is_ok());
    assert_eq!(Address::parse(&"x".repeat(10_000)), Err(TooLong));
    assert_eq!(Address::parse(&format!("a@{}", "ü.".repeat(10_000))), Err(TooLong));
}

#[test]
fn the_same_address() {
    let canonical = |text: &str| Address::parse(text).expect("an address").canonical();
    for same in [
        "joe@bücher.example",
        "JOE@BÜCHER.example",
        "\"Joe\"@xn--bcher-kva.EXAMPLE",
        "\"\\j\\o\\e\"@bücher.example",
    ] {
        assert_eq!(canonical(same), "joe@xn--bcher-kva.example", "{same}");
    }
    assert_eq!(canonical("\"Joe Public\"@x.com"), "\"joe public\"@x.com");
    assert_eq!(canonical("Joe+Tag@x.com"), "joe+tag@x.com", "tags are the server's business");
    assert_ne!(canonical("PELÉ@x.com"), canonical("pelé@x.com"), "only ASCII is folded");
    assert_eq!(canonical("PELÉ@x.com"), "pelÉ@x.com");
}

#[test]
fn smtputf8_is_for_local_parts() {
    let needs = |text: &str| Address::parse(text).expect("an address").needs_smtputf8();
    assert!(needs("pelé@example.com"));
    assert!(needs("\"pelé x\"@example.com"));
    assert!(!needs("pele@bücher.example"));
    assert!(!needs("pele@example.com"));
}

#[test]
fn debug_shows_no_local_part() {
    let address = Address::parse("secret@example.com").expect("an address");
    assert_eq!(format!("{address:?}"), "Address(..@example.com)");
}

#[test]
fn registrable_domains() {
    for [name, _, expected] in registrable_rows() {
        if let Ok(domain) = Domain::parse(name) {
            let expected = if expected == "-" { domain.as_str() } else { expected };
            assert!(domain.registrable().eq_ignore_ascii_case(expected), "{domain}");
        }
    }
}

#[test]
fn domains_are_shown_in_u_labels() {
    let shown = |text: &str| Domain::parse(text).expect("a domain").to_unicode();
    assert_eq!(shown("xn--bcher-kva.example"), "bücher.example");
    assert_eq!(shown("EXAMPLE.com"), "example.com");
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,80}") {
        let _ = Address::parse(&text);
    }

    #[test]
    fn what_looks_like_an_address_keeps_its_form(text in "[a-zA-Zö\"\\\\. @!(\u{200b}]{0,12}@[a-zA-Z0-9ßöü.。_-]{0,20}\\.[a-z0-9]{1,3}") {
        if let Ok(address) = Address::parse(&text) {
            let again = Address::parse(address.as_str());
            prop_assert_eq!(again.as_ref(), Ok(&address));
            prop_assert!(address.as_str().len() <= ADDRESS_BYTES_MAX);
            prop_assert!(address.domain().as_str().is_ascii());
            let canonical = Address::parse(&address.canonical());
            prop_assert_eq!(canonical.expect("still an address").canonical(), address.canonical());
        }
    }
}
