//! What is finished survives the end of a run, whatever ends it, and nobody is asked twice.

use super::*;
use signal_hook::consts::SIGINT;

/// A run of this list whose first row gets no answer while the rows behind it do.
fn stopped(list: &str) -> (Desk, String) {
    let mut desk = desk("list.csv", list);
    desk.args.writing.stop.arrive(SIGINT);
    desk.checker.capacity = 1000;
    let said = desk.error();
    desk.args.writing.stop = StopSignal::default();
    desk.args.resume = true;
    (desk, said)
}

/// The addresses that a resumed run asks about.
fn asked_again(desk: &mut Desk) -> Vec<String> {
    desk.checker = fake();
    (desk.args.max_wait, desk.args.silence) = (0, Duration::from_millis(50));
    desk.run().unwrap();
    let mut asked: Vec<String> = desk.checker.submitted.keys().cloned().collect();
    asked.sort_unstable();
    asked
}

#[test]
fn results_behind_an_open_row_are_kept() {
    // The row of the outage is answered last, and ends the run.
    let (list, cleaned) = rows(30);
    let open = list.replacen("deliverable@d0.com", "outage@d0.com", 1);
    let mut desk = desk("list.csv", &open);
    let said = desk.error();
    assert!(said.ends_with("; finished rows are in out.partial: continue with --resume"), "{said}");
    let first: Vec<String> = desk.checker.submitted.keys().cloned().collect();
    assert!(first.len() > 5, "{first:?}");
    assert_eq!(desk.partial().lines().count(), 1, "no row could be written");
    let stored = std::fs::read(desk.path("out.results")).unwrap();
    assert!(!stored.windows(5).any(|bytes| bytes == b"d4.co"), "no address is in the file");

    std::fs::write(&desk.args.input, &list).unwrap();
    desk.args.resume = true;
    let again = asked_again(&mut desk);
    assert!(first.iter().all(|address| !again.contains(address)), "{first:?} {again:?}");
    assert_eq!(again.len() + first.len() - 1, 20, "each address is asked about once; the outage was none");
    assert_eq!(desk.output(), cleaned);
    assert!(!desk.path("out.results").exists());
}

#[test]
fn a_signal_waits_for_replies_and_keeps_them() {
    let list = "email\nhang@x.com\nnobody@x.com\ndeliverable@y.com\nnobody@x.com\n";
    let (mut desk, said) = stopped(list);
    assert_eq!(
        said,
        "stopped after 0 rows and 3 results that wait for the rows before them; finished rows are in out.partial: continue \
         with --resume"
    );
    assert_eq!(desk.checker.recalls, 1);
    assert_eq!(asked_again(&mut desk), ["hang@x.com"]);
    assert_eq!(
        desk.output(),
        "email,deliverable,reason\nhang@x.com,false,unverifiable\nnobody@x.com,false,mailbox_not_found\n\
         deliverable@y.com,true,mailbox_exists\nnobody@x.com,false,mailbox_not_found\n"
    );
}

#[test]
fn a_run_can_be_stopped_again_and_again() {
    let mut list = String::from("n,email\n0,hang@d.com\n");
    (1..40).for_each(|n| list += &format!("{n},nobody@d{n}.com\n"));
    let mut desk = desk("list.csv", &list);
    let mut asked: HashMap<String, u32> = HashMap::new();
    for round in 0..6 {
        desk.args.writing.stop = StopSignal::default();
        desk.args.writing.stop.arrive(SIGINT);
        desk.args.resume = round > 0;
        desk.checker = Fake { capacity: 6, ..fake() };
        assert!(desk.error().contains("continue with --resume"));
        for (address, times) in desk.checker.submitted.drain() {
            *asked.entry(address).or_default() += times;
        }
    }
    desk.args.writing.stop = StopSignal::default();
    let again = asked_again(&mut desk);
    assert!(again.iter().all(|address| !asked.contains_key(address) || address == "hang@d.com"), "{again:?}");
    assert_eq!(again.len() + asked.len() - 1, 40);
    assert!(asked.iter().all(|(address, times)| *times == 1 || address == "hang@d.com"), "{asked:?}");
    assert_eq!(desk.output().lines().count(), 41);
}

#[test]
fn further_results_are_kept_too() {
    let (list, _) = rows(30);
    let columns: Vec<String> = ["rule", "scope", "reply_code", "enhanced_code"].map(String::from).into();
    let mut whole = desk("list.csv", &list);
    whole.args.writing.columns = columns.clone();
    whole.run().unwrap();
    let mut desk = desk("list.csv", list.replacen("deliverable@d0.com", "outage@d0.com", 1));
    desk.args.writing.columns = columns;
    desk.error();
    std::fs::write(&desk.args.input, &list).unwrap();
    desk.args.resume = true;
    asked_again(&mut desk);
    assert_eq!(desk.output(), whole.output());
}

#[test]
fn results_are_of_one_kind_of_run() {
    let (mut desk, _) = stopped("email\nhang@x.com\nnobody@x.com\n");
    desk.args.fast = true;
    assert!(
        desk.error().starts_with("out.results is of a run with other options: --fast and --columns must")
    );
    desk.args.fast = false;
    // To start again, the user deletes the file of the rows: the results of that run do not count any more.
    std::fs::remove_file(desk.path("out.partial")).unwrap();
    desk.args.resume = false;
    assert_eq!(asked_again(&mut desk), ["hang@x.com", "nobody@x.com"]);
    assert!(!desk.path("out.results").exists());
}
