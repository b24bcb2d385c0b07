//! The budget of refused recipients applies over several runs, whatever their end.

use super::{Desk, count};
use crate::until_true;

/// The hourly budget of an unknown site.
const BUDGET: u64 = 100;

fn asked(desk: &Desk, domain: &str) -> u64 {
    desk.net.domain_stats(domain).unwrap().rcpt
}

fn unknown(domain: &str) -> impl Iterator<Item = String> {
    (0..300).map(move |n| format!("nobody.{n}@{domain}"))
}

#[test]
fn a_second_run_asks_no_more_than_the_first_has_left() {
    let desk = Desk::new();
    let (list, state) = (desk.list("one", unknown("one.example")), desk.path("state"));
    let state = ["--state", state.to_str().unwrap()];
    let (output, said) = desk.cleaned(&list, &state);
    let refused = count(&output, ",false,mailbox_not_found");
    assert!(refused >= 90 && asked(&desk, "one.example") <= BUDGET, "{refused}: {said}");
    assert_eq!(count(&output, ",false,unverifiable"), 300 - refused);
    let left = format!("\n    refusal_budget          {:>12}  not asked: ", 300 - refused);
    assert!(said.contains(&left), "{said}");
    let kept = std::fs::read_to_string(desk.path("state")).unwrap();
    assert!(!kept.contains("one") && !kept.contains("nobody"), "{kept}");

    let (output, _) = desk.cleaned(&list, &state);
    assert_eq!(count(&output, ",false,mailbox_not_found"), 0, "the budget of the hour is spent");
    assert!(asked(&desk, "one.example") <= BUDGET);
    // A check uses the same counts, and reports that.
    let checked = desk.mailprobe("check").arg("nobody@one.example").args(state).output().unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(
        checked.status.code() == Some(1) && said.contains("1 of the addresses was not checked: "),
        "{said}"
    );
    assert!(asked(&desk, "one.example") <= BUDGET);
    // Other sites have separate budgets, and a run without a state file starts with no counts.
    let others = desk.list("two", unknown("two.example"));
    assert!(count(&desk.cleaned(&others, &state).0, ",false,mailbox_not_found") >= 90);
    let (output, _) = desk.cleaned(&list, &["--state", "none"]);
    assert!(count(&output, ",false,mailbox_not_found") >= 90);
}

#[test]
fn a_kill_loses_no_counts() {
    let desk = Desk::new();
    let (list, state) = (desk.list("three", unknown("three.example")), desk.path("state"));
    let flags = ["--state", state.to_str().unwrap(), "--max-wait", "3600"];
    let mut run = desk.clean(&list, &flags);
    until_true("some recipients are asked about", || asked(&desk, "three.example") > 5);
    run.kill().unwrap();
    run.wait().unwrap();
    // The file is missing if no row was answered.
    let _ = std::fs::remove_file(desk.path("three.out.partial"));
    desk.cleaned(&list, &flags[..2]);
    let (asked, kept) = (asked(&desk, "three.example"), refused(&std::fs::read_to_string(&state).unwrap()));
    assert!(asked <= kept && kept <= BUDGET, "{asked} asked, {kept} kept");
}

#[test]
fn runs_at_once_share_the_budget() {
    let desk = Desk::new();
    let state = desk.path("state");
    let flags = ["--state", state.to_str().unwrap()];
    let lists: Vec<_> = (0..4).map(|n| desk.list(&format!("list-{n}"), unknown("three.example"))).collect();
    let runs: Vec<_> = lists.iter().map(|list| desk.clean(list, &flags)).collect();
    let checked = desk.mailprobe("check").arg("nobody@three.example").args(flags).output().unwrap();
    assert!(checked.status.code().is_some_and(|code| code < 2), "{checked:?}");
    let mut found = 0;
    for (run, list) in runs.into_iter().zip(&lists) {
        let said = super::said(&run.wait_with_output().unwrap());
        assert!(said.contains("refusal_budget"), "{said}");
        let output = std::fs::read_to_string(list.with_extension("out")).unwrap();
        found += count(&output, ",false,mailbox_not_found");
        assert_eq!(output.lines().count(), 300);
    }
    let (asked, kept) = (asked(&desk, "three.example"), refused(&std::fs::read_to_string(&state).unwrap()));
    assert!(asked == kept && kept <= BUDGET && found > 50, "{asked} asked, {kept} kept, {found} found");
}

/// All refusals in a state file.
fn refused(kept: &str) -> u64 {
    let steps =
        kept.lines().filter_map(|line| line.strip_prefix("site ")).flat_map(|line| line.split(' ').skip(1));
    steps.map(|step| step.split(':').nth(1).unwrap().parse::<u64>().unwrap()).sum()
}
