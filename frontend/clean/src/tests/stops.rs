//! What is finished survives the end of a run, whatever ends it, and nobody is asked twice.

use super::*;
use signal_hook::consts::SIGINT;

/// A run of this list whose first row gets no answer while the rows behind it do.
fn stopped(list: &str) -> (Desk, String) {
    stop(desk("list.csv", list))
}

/// A run that a signal ends at once. The next run of this desk continues it.
pub(super) fn stop(mut desk: Desk) -> (Desk, String) {
    desk.args.writing.stop.arrive(SIGINT);
    desk.checker.capacity = 1000;
    let said = desk.error();
    desk.args.writing.stop = StopSignal::default();
    desk.args.resume = true;
    (desk, said)
}

/// The addresses that a resumed run asks about.
pub(super) fn asked_again(desk: &mut Desk) -> Vec<String> {
    desk.checker = fake();
    (desk.args.max_wait, desk.args.silence) = (0, Duration::from_millis(50));
    desk.run().unwrap();
    desk.checker.submitted_addresses()
}

#[test]
fn results_behind_an_open_row_are_kept() {
    // The row of the outage is answered last, and ends the run.
    let (list, cleaned) = rows(30);
    let mut desk = desk("list.csv", list);
    desk.checker.down = Some("deliverable@d0.com");
    let said = desk.error();
    assert!(said.ends_with("; finished checks are kept (out.partial): continue with --resume"), "{said}");
    let first: Vec<String> = desk.checker.submitted.keys().cloned().collect();
    assert!(first.len() > 5, "{first:?}");
    assert_eq!(desk.partial().lines().count(), 1, "no row could be written");
    let stored = std::fs::read(desk.path("out.results")).unwrap();
    assert!(!stored.windows(5).any(|bytes| bytes == b"d4.co"), "no address is in the file");

    // With another list of the same form, nothing is lost either.
    desk.args.resume = true;
    let own = desk.args.input.clone();
    desk.args.input = desk.path("other.csv");
    std::fs::write(&desk.args.input, "n,email\n0,other@x.com\n").unwrap();
    assert_eq!(
        desk.error(),
        "out.partial was made with other options (INPUT @/list.csv; now INPUT @/other.csv): repeat the command with INPUT @/list.csv, \
         or name another output with -o"
            .replace("@/", "")
    );
    assert_eq!(std::fs::read(desk.path("out.results")).unwrap(), stored);

    desk.args.input = own;
    // The list may have grown.
    let mut file = std::fs::OpenOptions::new().append(true).open(&desk.args.input).unwrap();
    std::io::Write::write_all(&mut file, b"30,nobody@d30.com\n").unwrap();
    desk.checker.down = None;
    let again = asked_again(&mut desk);
    let asked_twice: Vec<_> = first.iter().filter(|address| again.contains(address)).collect();
    assert_eq!(asked_twice, ["deliverable@d0.com"], "that of the outage");
    assert_eq!(again.len() + first.len() - 1, 21, "the address of the outage is asked about again");
    assert_eq!(desk.output(), cleaned + "30,nobody@d30.com,false,mailbox_not_found\n");
    assert!(!desk.path("out.results").exists());
}

#[test]
fn a_signal_waits_for_replies_and_keeps_them() {
    let list = "email\nhang@x.com\nnobody@x.com\nlisted@y.com\nnobody@x.com\n";
    let (mut desk, said) = stopped(list);
    assert_eq!(
        said,
        "stopped after 0 rows, 2 results that wait for the rows before them, and 1 row that needs no check; finished checks are \
         kept (out.partial): continue with --resume"
    );
    assert_eq!(desk.checker.recalls, 1);
    (desk.args.max_wait, desk.args.silence) = (0, Duration::from_millis(50));
    desk.checker = fake();
    let summary = desk.run().unwrap();
    assert_eq!((desk.checker.submitted_addresses(), summary.settled.rows()), (vec!["hang@x.com".into()], 1));
    let said = summary.to_string();
    let resumed = ", 2 of them by an earlier run (0 rows, and 2 results that waited for the rows before); ";
    assert!(said.contains(resumed), "the same number as at the end of the first run: {said}");
    assert_eq!(
        desk.output(),
        "email,deliverable,reason\nhang@x.com,false,unverifiable\nnobody@x.com,false,mailbox_not_found\n\
         listed@y.com,false,unverifiable\nnobody@x.com,false,mailbox_not_found\n"
    );
}

/// A run to a stream that a signal ends: what it wrote, and what it said.
fn stopped_stream(change: impl FnOnce(&mut CleanArgs)) -> (Vec<u8>, String) {
    let list = "a,b\nnobody@x.com,deliverable@y.com\nhang@x.com,deliverable@z.com\nnobody@z.com,hang@y.com\n\
                nobody@y.com,\nhang@x.com,nobody@x.com\n";
    let mut desk = desk("list.csv", list);
    let fifo = desk.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    desk.args.output = Some(fifo.clone());
    desk.args.writing.stop.arrive(SIGINT);
    desk.checker.capacity = 1000;
    change(&mut desk.args);
    let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
    let said = desk.error();
    (reader.join().unwrap(), said)
}

#[test]
fn a_stream_gets_all_finished_rows() {
    let rest = "; with an output file (-o), --resume continues such a run";
    let (written, said) = stopped_stream(|_| {});
    assert_eq!(
        String::from_utf8(written).unwrap(),
        "a,b,deliverable,reason\nnobody@x.com,deliverable@y.com,false,mailbox_not_found\n\
         nobody@z.com,hang@y.com,false,mailbox_not_found\nnobody@y.com,,false,mailbox_not_found\n"
    );
    assert_eq!(said, format!("stopped; 3 rows are written, and 2 rows without a result are left out{rest}"));
    // A row is written as a whole or not at all.
    let two = |args: &mut CleanArgs| args.column = vec!["a".into(), "b".into()];
    let expected = "a,b,deliverable,reason,b_deliverable,b_reason\n\
         nobody@x.com,deliverable@y.com,false,mailbox_not_found,true,mailbox_exists\n\
         nobody@y.com,,false,mailbox_not_found,false,invalid_syntax\n";
    let (written, said) = stopped_stream(two);
    assert_eq!(String::from_utf8(written).unwrap(), expected);
    assert!(said.contains("2 rows are written, and 3 rows without a result"), "{said}");
    // A compressed stream has its end.
    let (written, _) = stopped_stream(|args| {
        two(args);
        args.compress = Some(Compression::Gzip);
    });
    assert_eq!(String::from_utf8(unpacked(&written)).unwrap(), expected);
    let (written, said) = stopped_stream(|args| args.unordered = true);
    assert_eq!(written.iter().filter(|&&byte| byte == b'\n').count(), 4);
    assert!(said.starts_with("stopped; 3 rows are written, and "), "{said}");
}

#[test]
fn rows_with_several_addresses_are_continued_in_their_middle() {
    let mut desk = desk("list.csv", "a,b\nnobody@x.com,hang@x.com\nnobody@y.com,deliverable@y.com\n");
    desk.args.column = vec!["a".into(), "b".into()];
    let (mut desk, said) = stop(desk);
    assert!(
        said.starts_with("stopped after 0 rows and 2 results that wait for the rows before them; "),
        "{said}"
    );
    assert_eq!(asked_again(&mut desk), ["hang@x.com"]);
    assert_eq!(
        desk.output(),
        "a,b,deliverable,reason,b_deliverable,b_reason\nnobody@x.com,hang@x.com,false,mailbox_not_found,false,unverifiable\n\
         nobody@y.com,deliverable@y.com,false,mailbox_not_found,true,mailbox_exists\n"
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
    let mut desk = desk("list.csv", &list);
    desk.checker.down = Some("deliverable@d0.com");
    desk.args.writing.columns = columns;
    desk.error();
    desk.checker.down = None;
    desk.args.resume = true;
    asked_again(&mut desk);
    assert_eq!(desk.output(), whole.output());
}

#[test]
fn results_count_no_more_without_the_rows_of_their_run() {
    let (mut desk, _) = stopped("email\nhang@x.com\nnobody@x.com\n");
    // To start again, the user deletes the file of the rows.
    std::fs::remove_file(desk.path("out.partial")).unwrap();
    desk.args.fast = true;
    desk.args.resume = false;
    assert_eq!(asked_again(&mut desk), ["hang@x.com", "nobody@x.com"]);
    assert!(!desk.path("out.results").exists());
}

#[test]
fn a_file_with_contents_is_replaced_only_by_force() {
    for [flags, existing, expected] in text_rows(include_str!("../../testdata/existing.txt")) {
        let mut desk = desk("list.csv", "email\nnobody@x.com\n");
        desk.args = desk.command_line(&format!("-o @/out.csv {flags}"));
        let path = desk.path(existing);
        std::fs::write(&path, "precious").unwrap();
        let error = desk.run().unwrap_err();
        assert_eq!((error.exit, desk.checker.submitted.len()), (2, 0), "{existing}");
        assert_eq!(desk.error(), expected, "{existing}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        // An empty file has nothing to lose.
        std::fs::write(&path, "").unwrap();
        if desk.args.part.is_none() {
            desk.run().unwrap();
        }
    }
    // A run with --force that was interrupted is continued.
    let mut desk = desk("list.csv", "email\nnobody@x.com\n");
    std::fs::write(desk.path("out"), "precious").unwrap();
    std::fs::write(desk.path("out.partial"), "email,deliverable,reason\n").unwrap();
    (desk.args.writing.force, desk.args.resume) = (false, true);
    desk.run().unwrap();
    assert_eq!(desk.output(), "email,deliverable,reason\nnobody@x.com,false,mailbox_not_found\n");
}

/// A script that repeats a command with --resume until it succeeds ends, also if a kill came after the list was complete.
#[test]
fn a_complete_list_is_compared_and_nobody_is_asked() {
    let (list, cleaned) = rows(30);
    for name in ["out.csv", "out.csv.gz"] {
        let mut desk = desk("list.csv", &list);
        desk.args.output = Some(desk.path(name));
        desk.run().unwrap();
        let before = std::fs::read(desk.path(name)).unwrap();
        (desk.args.resume, desk.args.writing.force) = (true, false);
        assert!(asked_again(&mut desk).is_empty());
        assert_eq!(std::fs::read(desk.path(name)).unwrap(), before);
        std::fs::write(&desk.args.input, format!("{list}31,nobody@other.com\n")).unwrap();
        let said = desk.error();
        assert!(said.starts_with(&format!("{name} does not fit this list or these options")), "{said}");
        assert_eq!(std::fs::read(desk.path(name)).unwrap(), before);
    }
    // A selection of the rows shows only a part of the results.
    let mut desk = desk("list.csv", &list);
    desk.args.writing.only = vec![lists::Class::Deliverable];
    desk.run().unwrap();
    (desk.args.resume, desk.args.writing.force) = (true, false);
    let said = desk.error();
    assert!(
        said.starts_with("out exists, and there is no out.partial that --resume could continue: "),
        "{said}"
    );
    assert!(cleaned.contains("mailbox_not_found"));
}
