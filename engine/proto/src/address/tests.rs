use super::AddressError::*;
use super::*;
use proptest::prelude::*;

fn accepted(rows: &[(&str, &str)]) {
    for (input, expected) in rows {
        let address = Address::parse(input).unwrap_or_else(|e| panic!("{input:?}: {e}"));
        assert_eq!(address.as_str(), *expected, "{input:?}");
        assert_eq!(Address::parse(address.as_str()).as_ref(), Ok(&address), "{input:?} again");
        let joined = format!("{}@{}", address.local(), address.domain());
        assert_eq!(joined, *expected, "{input:?} in parts");
    }
}

fn unchanged(inputs: &[&str]) {
    for input in inputs {
        accepted(&[(input, input)]);
    }
}

fn refused(error: AddressError, inputs: &[&str]) {
    for input in inputs {
        assert_eq!(Address::parse(input), Err(error), "{input:?}");
    }
}

#[test]
fn dot_strings() {
    unchanged(&[
        "joe@example.com",
        "a@b.co",
        "1@2.example",
        "Smith@bar.com",
        "customer/department=shipping@example.com", // RFC 3696 3
        "$A12345@example.com",
        "!def!xyz%abc@example.com",
        "_somename@example.com",
        "user+mailbox@example.com",
        "+@example.com",
        "-@example.com",
        "--@example.com",
        "a.b.c.d.e@example.com",
        "{}|~`'*&#^?@example.com",
        "1.2.3@example.com",
        "x@y.z.w.v.u.t.s.r.q.p.example",
        "postmaster@a1.b2.c3",
    ]);
    refused(
        LocalDot,
        &[".a@x.com", "a.@x.com", "a..b@x.com", ".@x.com", "..@x.com", "a...b@x.com", "a.b.@x.com"],
    );
    refused(LocalEmpty, &["@x.com", "@"]);
    refused(
        LocalCharacter,
        &[
            "a b@x.com",
            " a@x.com",
            "a @x.com",
            "\ta@x.com",
            "a\r\n@x.com",
            "a\0@x.com",
            "a@b@x.com",
            "a@@x.com",
            "a(comment)@x.com",
            "(comment)a@x.com",
            "<a@x.com",
            "Joe <joe@x.com",
            "a,b@x.com",
            "a;b@x.com",
            "a:b@x.com",
            "mailto:a@x.com",
            "@x.com,@y.com:a@z.com", // the source route of RFC 5321 4.1.2
            "a\\b@x.com",
            "a[b]@x.com",
            "a\"b@x.com",
            "a\"b\"@x.com",
            "a.\"b\"@x.com", // obs-local-part of RFC 5322 4.4
            "a . b@x.com",
            "a\u{7f}@x.com",
        ],
    );
    refused(Empty, &[""]);
    refused(NoAtSign, &["a", "a.b", "example.com", " ", "\"a\"", "a\u{ff20}x.com", "\u{feff}"]);
}

#[test]
fn quoted_strings_lose_the_quotes_they_do_not_need() {
    accepted(&[
        ("\"joe\"@example.com", "joe@example.com"),
        ("\"Joe.Public\"@example.com", "Joe.Public@example.com"),
        ("\"j\\o\\e\"@example.com", "joe@example.com"),
        ("\"a\\ b\"@example.com", "\"a b\"@example.com"),
        ("\"\\\"\"@example.com", "\"\\\"\"@example.com"),
    ]);
    unchanged(&[
        "\"\"@example.com",
        "\" \"@example.com",
        "\"Joe Public\"@example.com",
        "\"Abc@def\"@example.com", // RFC 3696 3
        "\"Fred Bloggs\"@example.com",
        "\"Joe.\\\\Blow\"@example.com",
        "\"a..b\"@example.com",
        "\".a\"@example.com",
        "\"a.\"@example.com",
        "\"<>[]:,;@\\\\\\\"!#$%&'*+-/=?^_`{}| ~.a\"@example.com",
        "\"very.(),:;<>[]\\\".VERY.\\\"very@\\\\ \\\"very\\\".unusual\"@strange.example.com",
        "\"@\"@example.com",
    ]);
    refused(
        LocalQuote,
        &[
            "\"a@x.com",
            "\"@x.com",
            "\"a\"b@x.com",
            "\"a\".b@x.com",
            "\"a\\\"@x.com",
            "\"a\" @x.com",
            "\"\\@x.com",
        ],
    );
    refused(
        LocalCharacter,
        &[
            "\"a\tb\"@x.com",
            "\"a\r\n b\"@x.com",
            "\"a\0\"@x.com",
            "\"\\\t\"@x.com",
            "\"\\ö\"@x.com",
            "\"\u{7f}\"@x.com",
        ],
    );
}

/// Every ASCII character in every kind of place: 4 x 128 rows.
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
        // The at sign is taken for the one that parts, and what precedes it is no local part.
        let label = c.is_ascii_alphanumeric() || c == '-' || c == '.';
        assert_eq!(domain.is_ok(), label, "{c:?} in a domain");
    }
}

#[test]
fn international_local_parts() {
    unchanged(&[
        "Pelé@example.com",
        "δοκιμή@example.com",
        "我買@example.com",
        "甲斐@example.com",
        "чебурашка@example.com",
        "संपर्क@example.com",
        "می‌خواهم@example.com", // with a zero-width non-joiner
        "\"Pelé a\"@example.com",
        "e\u{301}@example.com", // not NFC
        "😀@example.com",
        "💩.x@example.com",
    ]);
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
fn domains() {
    accepted(&[
        ("a@EXAMPLE.com", "a@example.com"),
        ("a@bücher.example", "a@xn--bcher-kva.example"),
        ("a@BÜCHER.example", "a@xn--bcher-kva.example"),
        ("a@XN--BCHER-KVA.example", "a@xn--bcher-kva.example"),
        ("a@faß.de", "a@xn--fa-hia.de"), // non-transitional: not fass.de
        ("a@例え.テスト", "a@xn--r8jz45g.xn--zckzah"),
        ("a@例え。テスト", "a@xn--r8jz45g.xn--zckzah"),
        ("a@ｅｘａｍｐｌｅ.com", "a@example.com"),
        ("a@пример.рф", "a@xn--e1afmkfd.xn--p1ai"),
        ("a@בדיקה.co.il", "a@xn--5dbedt4e.co.il"),
        ("a@उदाहरण.परीक्षा", "a@xn--p1b6ci4b4b3a.xn--11b5bs3a9aj6g"),
        ("a@e\u{301}.com", "a@xn--9ca.com"),
    ]);
    unchanged(&[
        "a@x-y.com",
        "a@a--b.com",
        "a@ab--cd.com",
        "a@1.com",
        "a@1.2.3.4a",
        "a@192.0.2.1.com",
        "a@x.c",
        "a@x.c0m",
        "a@xn--p1ai.xn--p1ai",
        "a@localhost.localdomain",
        "a@example.test",
    ]);
    refused(DomainEmpty, &["a@", "\"a\"@"]);
    refused(DomainOneLabel, &["a@localhost", "a@com", "a@x", "a@xn--p1ai", "a@1", "a@例え"]);
    refused(DomainDot, &["a@.com", "a@x.com.", "a@x..com", "a@.", "a@com.", "a@..", "a@x.com..", "a@例え。"]);
    refused(
        DomainLiteral,
        &["a@[192.0.2.1]", "a@[IPv6:2001:db8::1]", "a@[]", "a@[x]", "a@[127.0.0.1", "a@[Foo-bar:x]"],
    );
    refused(DomainNumeric, &["a@192.0.2.1", "a@1.2", "a@x.123", "a@x.0", "a@example.com.1", "a@１.２"]);
    refused(
        DomainCharacter,
        &[
            "a@x_y.com",
            "a@_x.com",
            "a@-x.com",
            "a@x-.com",
            "a@x.-com",
            "a@x.com-",
            "a@x y.com",
            "a@ x.com",
            "a@x.com ",
            "a@x.com\r\n",
            "a@x.com\0",
            "a@x.com>",
            "a@x.com(comment)",
            "a@(comment)x.com",
            "a@x.com,b.com",
            "a@x,com",
            "a@x/y.com",
            "a@x:25.com",
            "a@x.com:25",
            "a@x!y.com",
            "a@x*y.com",
            "a@\"x\".com",
            "a@x]",
            "a@2001:db8::1",
            "a@xn--.com",
            "a@xn--a.com", // decodes to a control character
            "a@xn--zzzzzzzz99999.com",
            "a@xn--fa-hia\u{2e}xn--x\u{301}",
            "a@\u{301}x.com",   // begins with a combining mark
            "a@a\u{200d}b.com", // a joiner out of context
            "a@אa.com",         // breaks the bidi rule
            "a@x\u{fffd}.com",
            "a@☃\u{e000}.com",
        ],
    );
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
    // 3 x 64 bytes, then the rest and `.com`.
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

    // A-labels count: 59 x "ü" is far longer in U-labels than the A-label it makes.
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
    for (domain, expected) in [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("mail.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("x.y.unknown-tld-of-nobody", "y.unknown-tld-of-nobody"),
        ("y.unknown-tld-of-nobody", "y.unknown-tld-of-nobody"),
        ("mx.example.xn--p1ai", "example.xn--p1ai"),
        ("a.b.c.test", "c.test"),
        ("www.city.kobe.jp", "city.kobe.jp"),
        ("a.b.c.kobe.jp", "b.c.kobe.jp"),
        ("me.github.io", "me.github.io"),
        ("x.me.github.io", "me.github.io"),
    ] {
        let domain = Domain::parse(domain).expect("a domain");
        assert_eq!(domain.registrable(), expected, "{domain}");
    }
}

#[test]
fn domains_are_shown_in_u_labels() {
    let shown = |text: &str| Domain::parse(text).expect("a domain").to_unicode();
    assert_eq!(shown("xn--bcher-kva.example"), "bücher.example");
    assert_eq!(shown("EXAMPLE.com"), "example.com");
}

#[test]
fn each_error_is_one_line() {
    for error in [
        Empty,
        NoAtSign,
        TooLong,
        LocalEmpty,
        LocalTooLong,
        LocalDot,
        LocalCharacter,
        LocalQuote,
        DomainEmpty,
        DomainLiteral,
        DomainOneLabel,
        DomainDot,
        DomainLabelTooLong,
        DomainTooLong,
        DomainNumeric,
        DomainCharacter,
    ] {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n') && !text.ends_with('.'), "{text}");
    }
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
