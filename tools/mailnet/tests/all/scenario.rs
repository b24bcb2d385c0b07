//! The syntax of scenario files, its errors, and the ground truth.

use mailnet::{Expected, Scenario};
use std::collections::BTreeMap;

/// The rows of `errors.txt`.
#[test]
fn errors_name_the_key_and_what_is_allowed() {
    let rows = include_str!("errors.txt").lines().filter(|row| !row.starts_with('#'));
    for columns in rows.map(|row| row.split(" | ").collect::<Vec<_>>()) {
        let [kind, text, parts @ ..] = columns.as_slice() else { panic!("{columns:?}") };
        let text = text.replace("\\n", "\n");
        let text =
            if *kind == "domain" { format!("[[domain]]\nname = \"d.example\"\n{text}\n") } else { text };
        let error = Scenario::parse(&text).expect_err(&text).to_string();
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
        (include_str!("../../scenarios/conducts.toml"), 90),
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
