//! The syntax of scenario files, its errors, and the ground truth.

use mailnet::{Expected, Scenario};
use std::collections::BTreeMap;

fn error(text: &str) -> String {
    Scenario::parse(text).expect_err(text).to_string()
}

#[test]
fn errors_name_the_key_and_what_is_allowed() {
    let domain = |keys: &str| format!("[[domain]]\nname = \"d.example\"\n{keys}\n");
    let rows: &[(String, &[&str])] = &[
        ("sed = 1".into(), &["sed", "`seed`", "`domain`"]),
        ("seed = \"x\"".into(), &["seed", "u64"]),
        ("[listen]\nport = 1".into(), &["port", "`smtp_port`"]),
        ("[listen]\naddresses = \"few\"".into(), &["few", "`each`", "`wildcard`"]),
        ("[dns]\nlatency_ms = \"5\"".into(), &["latency_ms", "[least, most]"]),
        ("[dns]\nlatency_ms = [9, 5]".into(), &["latency_ms", "[least, most]"]),
        (domain("mxx = 1"), &["mxx", "`mx`"]),
        (domain("mx = 0"), &["mx", "1 to 100"]),
        (domain("mx = \"nul\""), &["nul", "\"null\"", "\"implicit\""]),
        (domain("mx = [\"mx1.example\"]"), &["mx1.example", "10 mx1.example"]),
        (domain("mx = [\"10 mx1.example\"]"), &["mx1.example", "not declared"]),
        (domain("dns = \"broken\""), &["broken", "`servfail`", "`truncated`"]),
        (domain("unknown = \"maybe\""), &["maybe", "`not_found`", "`hangup`"]),
        (domain("unknown = \"full\""), &["d.example", "unknown"]),
        (domain("mailboxes.okay = [\"a\"]"), &["okay", "`ok`", "`disabled`"]),
        (domain("mailboxes.ok = [\"101% a\"]"), &["101% a", "100%"]),
        (domain("mailboxes.greylisted = [\"a\"]"), &["greylist_ms"]),
        (domain("greylist_ms = 1"), &["greylist_ms"]),
        (domain("server = \"postfax\""), &["postfax", "`postfix`", "`gmail`"]),
        (domain("server = { latency = 1 }"), &["latency", "`latency_ms`", "`faults`"]),
        (domain("server = { certificate = \"good\" }"), &["good", "`self_signed`", "`expired`"]),
        (domain("server = { faults = [{ at = \"data\", does = \"hang\" }] }"), &["data", "`rcpt`"]),
        (domain("server = { faults = [{ at = \"rcpt\", does = \"sleep\" }] }"), &["sleep", "`hang`", "`drip`"]),
        (domain("server = { faults = [{ at = \"rcpt\", does = \"reply\" }] }"), &["text"]),
        (domain("server = { faults = [{ at = \"rcpt\", does = \"hang\", text = \"x\" }] }"), &["text"]),
        (domain("server = { faults = [{ at = \"connect\", does = \"drip\" }] }"), &["connect", "only close"]),
        (domain("server = { faults = [{ at = \"rcpt\", does = \"inject\" }] }"), &["starttls"]),
        (domain("server = { faults = [{ at = \"rcpt\", does = \"hang\", from = 0 }] }"), &["count from 1"]),
        (
            domain("server = { personality = \"qmail\", faults = [{ at = \"tls\", does = \"hang\" }] }"),
            &["qmail", "STARTTLS"],
        ),
        (domain("mx = \"null\"\nserver = \"postfix\""), &["server", "[[host]]"]),
        (domain("expected = \"fine\""), &["fine", "`mailbox_exists`"]),
        ("[[domain]]\nname = \"not a name\"".into(), &["not a name", "labels"]),
        (domain("") + &domain(""), &["d.example", "twice"]),
        ("[[host]]\nname = \"h.example\"\nstate = \"down\"".into(), &["down", "`refused`", "`blackhole`"]),
        ("[[host]]\nname = \"h.example\"\naddresses = [\"x\"]".into(), &["addresses", "IP"]),
        (
            "[[host]]\nname = \"h.example\"\naddresses = [\"::1\"]\n[[host]]\nname = \"i.example\"\naddresses = [\"::1\"]"
                .into(),
            &["::1", "two hosts"],
        ),
        (
            "[[host]]\nname = \"h.example\"\naddresses = [\"127.0.0.9\"]\nstate = \"blackhole\"".into(),
            &["127.250.0.0/16"],
        ),
        ("[[group]]\nname = \"d.example\"\ncount = 2".into(), &["{n}"]),
        ("[[group]]\nname = \"d{n}.example\"".into(), &["count"]),
        (
            "[[group]]\nname = \"d{n}.example\"\ncount = 2\n[[group.variant]]\npercent = 101".into(),
            &["100 percent"],
        ),
        ("[[personality]]\nbanner = \"220 x\"".into(), &["`name` is missing"]),
        ("[[personality]]\nname = \"p\"\nlike = \"q\"".into(), &["`q`", "`postfix`"]),
        ("[[personality]]\nname = \"postfix\"".into(), &["postfix", "twice"]),
        ("[[personality]]\nname = \"p\"\nbanner = \"hello\"".into(), &["hello", "200 to 599"]),
        ("[[personality]]\nname = \"p\"\nreplies.fine = \"250 x\"".into(), &["fine", "`not_found`"]),
        ("[[personality]]\nname = \"p\"\nreplies.ok = \"250 {x}\"".into(), &["x", "`rcpt`"]),
    ];
    for (text, parts) in rows {
        let error = error(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{text}\n-> {error}");
    }
}

#[test]
fn every_scenario_file_can_be_read() {
    for (text, domains) in [
        (include_str!("../../scenarios/reasons.toml"), 40),
        (include_str!("../../scenarios/providers.toml"), 30),
        (include_str!("../../scenarios/hostile.toml"), 80),
        (include_str!("../../scenarios/bulk.toml"), 2220),
        (include_str!("../../scenarios/catchall.toml"), 250),
    ] {
        let scenario = Scenario::parse(text).unwrap();
        assert!(scenario.domains() >= domains, "{scenario:?}");
    }
}

/// Checks the verdict at once, and after greylisting.
fn check(scenario: &Scenario, address: &str, reason: &str, patient: &str) {
    let expected = scenario.expected(address);
    assert_eq!((expected.reason.as_str(), expected.patient.as_str()), (reason, patient), "{address}");
}

#[test]
fn the_truth_about_reasons() {
    let scenario = Scenario::parse(include_str!("../../scenarios/reasons.toml")).unwrap();
    for (address, reason) in [
        ("alice@ok.example", "mailbox_exists"),
        ("Alice@OK.Example", "mailbox_exists"),
        ("info@ok.example", "role_account"),
        ("trap@ok.example", "spamtrap"),
        ("anyone@trapped.example", "spamtrap"),
        ("anyone@mailinator.com", "disposable"),
        ("full@ok.example", "inbox_full"),
        ("full-today@ok.example", "inbox_full"),
        ("gone@ok.example", "mailbox_disabled"),
        ("staff-only@ok.example", "mailbox_disabled"),
        ("popular@ok.example", "mailbox_exists"),
        ("nobody@ok.example", "mailbox_not_found"),
        ("later@ok.example", "unverifiable"),
        ("blocked@ok.example", "unverifiable"),
        ("slow-down@ok.example", "unverifiable"),
        ("elsewhere@ok.example", "unverifiable"),
        ("hang-up@ok.example", "unverifiable"),
        ("alice@catchall.example", "catch_all"),
        ("nobody@catchall.example", "catch_all"),
        ("größe@ok.example", "mailbox_not_found"),
        ("\"a b\"@ok.example", "mailbox_not_found"),
        ("alice@@ok.example", "invalid_syntax"),
        ("alice", "invalid_syntax"),
        ("@ok.example", "invalid_syntax"),
        ("a..b@ok.example", "invalid_syntax"),
        ("alice@ok", "invalid_syntax"),
        ("alice@-ok.example", "invalid_syntax"),
        ("\"a\"b\"@ok.example", "invalid_syntax"),
        ("alice@unheard-of.example", "mailbox_not_found"),
        ("alice@nxdomain.example", "mailbox_not_found"),
        ("alice@nullmx.example", "mailbox_not_found"),
        ("alice@nomail.example", "mailbox_not_found"),
        ("alice@mx-nxdomain.example", "mailbox_not_found"),
        ("alice@mx-private.example", "mailbox_not_found"),
        ("alice@alias-nowhere.example", "mailbox_not_found"),
        ("alice@servfail.example", "unverifiable"),
        ("alice@refused.example", "unverifiable"),
        ("alice@dns-timeout.example", "unverifiable"),
        ("alice@dns-garbage.example", "unverifiable"),
        ("alice@dns-cut-short.example", "unverifiable"),
        ("alice@loop-a.example", "unverifiable"),
        ("alice@mx-servfail.example", "unverifiable"),
        ("alice@implicit.example", "mailbox_exists"),
        ("alice@truncated.example", "mailbox_exists"),
        ("alice@many-mx.example", "mailbox_exists"),
        ("alice@no-edns.example", "mailbox_exists"),
        ("alice@spoofed-id.example", "mailbox_exists"),
        ("alice@spoofed-question.example", "mailbox_exists"),
        ("alice@spoofed-port.example", "mailbox_exists"),
        ("alice@spoofed-case.example", "mailbox_exists"),
        ("alice@alias.example", "mailbox_exists"),
        ("alice@chain.example", "mailbox_exists"),
        ("alice@mx-cname.example", "mailbox_exists"),
        ("alice@failover.example", "mailbox_exists"),
        ("alice@half-dead.example", "mailbox_exists"),
        ("alice@v6.example", "mailbox_exists"),
        ("alice@all-dead.example", "unverifiable"),
        ("alice@all-silent.example", "unverifiable"),
    ] {
        check(&scenario, address, reason, reason);
    }
    for control in ["temporary", "policy", "throttled", "relay", "421", "hangup", "reset", "silent"] {
        check(&scenario, &format!("alice@control-{control}.example"), "unverifiable", "unverifiable");
    }
    check(&scenario, "alice@grey.example", "unverifiable", "mailbox_exists");
    check(&scenario, "nobody@grey.example", "mailbox_not_found", "mailbox_not_found");
    check(&scenario, "alice@postgrey.example", "unverifiable", "mailbox_exists");
    check(&scenario, "nobody@postgrey.example", "unverifiable", "mailbox_not_found");
}

#[test]
fn the_truth_about_hostile_servers() {
    let scenario = Scenario::parse(include_str!("../../scenarios/hostile.toml")).unwrap();
    for (name, reason) in [
        ("connect-hang", "unverifiable"),
        ("banner-early", "unverifiable"),
        ("rcpt-closing", "unverifiable"),
        ("banner-521", "mailbox_not_found"),
        ("slow-drip", "unverifiable"),
        ("must-tls-garbage", "unverifiable"),
        ("must-tls-refused", "unverifiable"),
        ("may-tls-garbage", "mailbox_exists"),
        ("starttls-inject", "mailbox_exists"),
        ("expired-certificate", "mailbox_exists"),
        ("rcpt-drip", "mailbox_exists"),
        ("rset-close", "mailbox_exists"),
        ("first-421", "mailbox_exists"),
        ("third-rcpt-421", "mailbox_exists"),
    ] {
        check(&scenario, &format!("alice@{name}.example"), reason, reason);
    }
}

#[test]
fn the_truth_about_accepts_that_prove_nothing() {
    let scenario = Scenario::parse(include_str!("../../scenarios/providers.toml")).unwrap();
    check(&scenario, "alice@yahoo.example", "unverifiable", "unverifiable");
    check(&scenario, "nobody@yahoo.example", "mailbox_not_found", "mailbox_not_found");
    check(&scenario, "alice@gmail.example", "mailbox_exists", "mailbox_exists");
}

#[test]
fn without_smtputf8_nothing_is_known_of_utf8_addresses() {
    let scenario = Scenario::parse(
        "[[domain]]\nname = \"d.example\"\nserver = \"qmail\"\nmailboxes.ok = [\"größe\"]\n\
         [[domain]]\nname = \"u.example\"\nserver = \"postfix\"\nmailboxes.ok = [\"größe\"]\n",
    )
    .unwrap();
    check(&scenario, "größe@d.example", "unverifiable", "unverifiable");
    check(&scenario, "größe@u.example", "mailbox_exists", "mailbox_exists");
}

#[test]
fn who_takes_everyone_is_a_catch_all_however_it_is_written() {
    let scenario = Scenario::parse(
        "[[domain]]\nname = \"d.example\"\nmailboxes.ok = [\"*\"]\n\
         [[domain]]\nname = \"e.example\"\nmailboxes.ok = [\"alice\"]\nmailboxes.temporary = [\"*\"]\n",
    )
    .unwrap();
    check(&scenario, "alice@d.example", "catch_all", "catch_all");
    check(&scenario, "alice@e.example", "unverifiable", "unverifiable");
    let scenario = Scenario::parse(
        "[[domain]]\nname = \"d.example\"\ngreylist_ms = 9\nmailboxes.ok = [\"alice\"]\n\
         mailboxes.greylisted = [\"*\"]\n",
    )
    .unwrap();
    check(&scenario, "alice@d.example", "unverifiable", "catch_all");
    check(&scenario, "nobody@d.example", "unverifiable", "catch_all");
}

#[test]
fn roles_can_be_chosen() {
    let scenario = Scenario::parse(
        "roles = [\"boss\"]\n[[domain]]\nname = \"d.example\"\nmailboxes.ok = [\"boss\", \"info\"]\n",
    )
    .unwrap();
    check(&scenario, "Boss@d.example", "role_account", "role_account");
    check(&scenario, "info@d.example", "mailbox_exists", "mailbox_exists");
}

#[test]
fn addresses_are_repeatable_and_half_of_them_exist() {
    let scenario = Scenario::parse(include_str!("../../scenarios/bulk.toml")).unwrap();
    let list: Vec<_> = scenario.addresses(20_000, 5).collect();
    assert_eq!(list, scenario.addresses(20_000, 5).collect::<Vec<_>>());
    assert_ne!(list, scenario.addresses(20_000, 6).collect::<Vec<_>>());
    let mut counts: BTreeMap<Expected, usize> = BTreeMap::new();
    for (address, expected) in &list {
        assert_eq!(*expected, scenario.expected(address));
        *counts.entry(expected.reason).or_default() += 1;
    }
    assert!((9_000..10_500).contains(&counts[&Expected::MailboxExists]), "{counts:?}");
    assert!((9_000..10_800).contains(&counts[&Expected::MailboxNotFound]), "{counts:?}");
    assert!(counts[&Expected::CatchAll] > 200, "{counts:?}");
    assert!(Scenario::parse("").unwrap().addresses(5, 1).next().is_none());
}

/// The seed determines a group.
#[test]
fn groups_come_from_the_seed() {
    let parse = |seed: u32| {
        let text = include_str!("../../scenarios/bulk.toml").replace("seed = 42", &format!("seed = {seed}"));
        Scenario::parse(&text).unwrap()
    };
    assert_eq!(parse(1).hosts(), parse(1).hosts());
    assert_ne!(parse(1).hosts(), parse(2).hosts());
}
