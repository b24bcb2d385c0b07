//! The parts of a list, each in a process of its own, and their join.

use super::{Desk, count, said};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// The domains of these tests.
fn domains() -> Vec<String> {
    let groups = [("full", 8), ("empty", 4)];
    let mut domains = vec!["gmail.com".to_owned()];
    domains.extend(
        groups.iter().flat_map(|(name, count)| (1..=*count).map(move |n| format!("{name}{n}.example"))),
    );
    domains
}

/// Three addresses of each of 13 domains, duplicates of all of them, and rows without an address.
fn list() -> Vec<String> {
    let mut rows = Vec::new();
    for again in ["user", "USER"] {
        for n in 0..3 {
            rows.extend(domains().iter().map(|domain| format!("{again}-{n}@{domain}")));
            rows.push("nonsense".to_owned());
        }
    }
    rows
}

impl Desk {
    fn clean_to(&self, list: &Path, out: &str, flags: &[&str]) -> std::process::Child {
        let mut command = self.mailprobe("clean");
        command.arg(list).arg("-o").arg(self.path(out)).arg("--no-progress").args(flags).spawn().unwrap()
    }

    /// How often the hosts were asked about each address of the list.
    fn asked(&self) -> BTreeMap<String, u64> {
        let (journal, mut asked) = (self.net.journal(), BTreeMap::new());
        for domain in domains() {
            let locals = journal.asked(&domain).into_iter().filter(|(local, _)| local.starts_with("user-"));
            asked.extend(locals.map(|(local, times)| (format!("{local}@{domain}"), times)));
        }
        asked
    }
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn parts_in_three_processes_ask_once_and_join_to_the_output_of_one() {
    let desk = Desk::new();
    let list = desk.list("list.txt", list());
    let flags = ["0/3", "1/3", "2/3"];
    let parts = flags
        .map(|part| desk.clean_to(&list, "out.csv", &["--pace", "lab", "--state", "none", "--part", part]));
    let mut rows = 0;
    for part in parts {
        let said = said(&part.wait_with_output().unwrap());
        let line = said.lines().find_map(|line| line.split_once(" rows in "));
        rows += line.and_then(|(rows, _)| rows.parse::<usize>().ok()).unwrap();
    }
    assert_eq!(rows, 84);
    let asked = desk.asked();
    assert_eq!(asked.len(), 39);
    assert!(asked.values().all(|&times| times == 1), "{asked:?}");

    let said = said(&desk.clean_to(&list, "out.csv", &["--join"]).wait_with_output().unwrap());
    assert!(said.contains("84 rows in "), "{said}");
    let joined = std::fs::read_to_string(desk.path("out.csv")).unwrap();
    let counts =
        [",mailbox_exists", ",mailbox_not_found", ",invalid_syntax"].map(|reason| count(&joined, reason));
    assert_eq!(counts, [54, 24, 6], "{joined}");
    assert_eq!(desk.asked(), asked, "the join asks nobody");

    let (whole, _) = desk.cleaned(&list, &["--pace", "lab", "--state", "none"]);
    assert_eq!(joined, whole);
}

#[test]
fn the_command_line_refuses_what_cannot_be() {
    let desk = Desk::new();
    let list = desk.list("list.txt", list());
    for (flags, expected) in [
        (&["--part", "3/3"][..], "'--part <I/N>': the first of 3 parts is 0, the last one is 2"),
        (&["--part", "one"], "'--part <I/N>': write I/N, for example 0/3 for the first of three parts"),
        (&["--part", "0/3", "--join"], "cannot be used with '--join'"),
        (&["--part", "0/3", "--unordered"], "cannot be used with '--unordered'"),
        (&["--join", "--fast"], "cannot be used with '--fast'"),
        (&["--join"], "out.csv has no parts: make them with --part I/N"),
    ] {
        let said = complaint(&desk.clean_to(&list, "out.csv", flags).wait_with_output().unwrap());
        assert!(said.contains(expected), "{flags:?}: {said}");
    }
}
