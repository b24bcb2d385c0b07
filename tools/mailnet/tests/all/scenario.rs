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
        ("[dns]\nlie = \"servfail\"".into(), &["lie", "proves nothing"]),
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
        (domain("mailboxes.ok = [\"60% u#\", \"60% u#\"]"), &["exceed 100%"]),
        (domain("mailboxes.ok = [\"50% *\"]"), &["must not have a share"]),
        (domain("mailboxes.ok = [\"0% u#\"]"), &["above 0%"]),
        (domain("mailboxes.ok = [\"\"]"), &["1 to 64"]),
        (domain("mailboxes.ok = [\"a\", \"A\"]"), &["twice"]),
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

/// The rows of `truth.txt`. An address may contain spaces.
#[test]
fn the_truth_about_the_scenario_files() {
    let scenarios = [
        ("reasons", include_str!("../../scenarios/reasons.toml")),
        ("hostile", include_str!("../../scenarios/hostile.toml")),
        ("providers", include_str!("../../scenarios/providers.toml")),
    ];
    let scenarios = scenarios.map(|(name, text)| (name, Scenario::parse(text).unwrap()));
    let rows = include_str!("truth.txt").lines().filter(|row| !row.starts_with('#'));
    for columns in rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>()) {
        let [file, address, reason, patient] = columns[..] else { panic!("{columns:?}") };
        let (_, scenario) = scenarios.iter().find(|(name, _)| *name == file).unwrap();
        check(scenario, address, reason, patient);
    }
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
