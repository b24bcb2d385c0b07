//! Results of an earlier output, and estimates from a sample.

use super::outputs::{names, without_times};
use super::stops::stop;
use super::*;
use lists::utc_text;

/// A time this many hours before now.
pub(super) fn ago(hours: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    utc_text(now - hours * 3600)
}

#[test]
fn results_of_an_earlier_output_are_used_again() {
    let checked_at = ago(100);
    let old = format!(
        "email,deliverable,reason,rule,checked_at\nA@x.com,true,mailbox_exists,accepted,{checked_at}\n\
         b@x.com,false,catch_all,,{}\nc@x.com,true,mailbox_exists,,{}\nd@x.com,,fast_check_passed,,{}\n",
        ago(100),
        ago(200),
        ago(1),
    );
    for columns in [Vec::new(), vec!["rule".to_owned(), "checked_at".to_owned()]] {
        for (unordered, resume) in [(false, false), (true, false), (false, true)] {
            let list = "email\na@x.com\nb@x.com\na@X.com\nc@x.com\nd@x.com\ne@x.com\n";
            let mut desk = with_known(list, &old);
            desk.args.unordered = unordered;
            desk.args.resume = resume;
            desk.args.writing.columns = columns.clone();
            let summary = desk.run().unwrap();
            assert_eq!(desk.checker.submitted_addresses(), ["b@x.com", "c@x.com", "d@x.com", "e@x.com"]);
            assert_eq!((summary.known, summary.duplicates, summary.total()), (1, 1, 6));
            let expected = match columns.len() {
                0 => format!("a@x.com,true,mailbox_exists,{checked_at}\n"),
                _ => format!("a@x.com,true,mailbox_exists,accepted,{checked_at}\n"),
            };
            assert!(desk.output().contains(&expected), "{}", desk.output());
            assert!(summary.to_string().contains("1 address not asked about"));
            assert!(summary.to_string().contains("\n3 results of the earlier output not used: too old"));
            assert!(!summary.to_string().contains("warning"));
        }
    }
}

#[test]
fn the_age_of_a_result_can_be_set_and_is_that_of_the_file() {
    for (name, old) in [
        ("old.csv", "email,deliverable,reason\na@x.com,true,mailbox_exists\n"),
        ("old.csv", "a@x.com,true,mailbox_exists\n"),
        ("old.jsonl", "{\"email\":\"a@x.com\",\"deliverable\":true,\"reason\":\"mailbox_exists\"}\n"),
    ] {
        for (hours, days, asked) in [(1, None, 0), (24 * 8, None, 1), (24 * 8, Some(9), 0), (1, Some(0), 1)] {
            let mut desk = desk("list.csv", "email\na@x.com\n");
            let path = desk.path(name);
            std::fs::write(&path, old).unwrap();
            touch(&path, hours);
            desk.args.writing.known = Some(path);
            desk.args.writing.known_days = days;
            desk.run().unwrap();
            assert_eq!(desk.checker.submitted.len(), asked, "{name} {hours} {days:?}");
        }
    }
}

/// A desk with a list, and with an earlier output for `--known`.
fn with_known(list: &str, old: &str) -> Desk {
    let mut desk = desk("list.csv", list);
    desk.write("old.csv", old);
    desk.args.writing.known = Some(desk.path("old.csv"));
    desk
}

/// Sets the time of the last change of a file to this many hours before now.
fn touch(path: &Path, hours: u64) {
    let time = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn results_do_not_become_younger_from_run_to_run() {
    for (name, list, old) in [
        ("list.csv", "email\na@x.com\n", "email,deliverable,reason\na@x.com,true,mailbox_exists\n"),
        ("list.csv", "1,a@x.com\n", "1,a@x.com,true,mailbox_exists\n"),
        ("list.txt", "a@x.com\n", "a@x.com,true,mailbox_exists\n"),
        (
            "list.jsonl",
            "{\"email\":\"a@x.com\"}\n",
            "{\"email\":\"a@x.com\",\"deliverable\":true,\"reason\":\"mailbox_exists\"}\n",
        ),
    ] {
        let mut desk = desk(name, list);
        let output = name.replace("list", "first").replace("txt", "csv");
        std::fs::write(desk.path("old"), old).unwrap();
        touch(&desk.path("old"), 100);
        desk.args.writing.known = Some(desk.path("old"));
        desk.args.output = Some(desk.path(&output));
        let summary = desk.run().unwrap();
        assert_eq!((summary.known, desk.checker.submitted.len()), (1, 0), "{name}");
        let said = summary.to_string();
        assert!(said.contains("\nwarning: the earlier output has results without checked_at"), "{said}");
        // The output of now has a result that is 100 hours old.
        desk.args.writing.known = Some(desk.path(&output));
        desk.args.output = Some(desk.path("second"));
        desk.args.writing.known_days = Some(5);
        let summary = desk.run().unwrap();
        assert_eq!((summary.known, desk.checker.submitted.len()), (1, 0), "{name}");
        assert!(!summary.to_string().contains("warning"));
        desk.args.writing.known_days = Some(4);
        desk.args.output = Some(desk.path("third"));
        desk.run().unwrap();
        assert_eq!(desk.checker.submitted.len(), 1, "{name}");
    }
}

#[test]
fn a_time_in_the_future_is_that_of_the_file() {
    let future = utc_text(store::clock::now() / 1000 + 1_000_000);
    for (hours, asked) in [(1, 0), (24 * 8, 1)] {
        let old = format!("email,deliverable,reason,checked_at\na@x.com,true,mailbox_exists,{future}\n");
        let mut desk = with_known("email\na@x.com\n", &old);
        touch(&desk.path("old.csv"), hours);
        let summary = desk.run().unwrap();
        assert_eq!(desk.checker.submitted.len(), asked, "{hours}");
        assert_eq!(summary.known_undated, asked == 0);
        assert!(!desk.output().contains(&future));
    }
}

#[test]
fn rows_that_no_later_check_settles_are_not_open_without_the_column_rule_either() {
    let rows = "email\nlisted@x.com\nlater@x.com\nListed@X.com\nlisted@y.com\n";
    for name in ["list.csv", "list.jsonl"] {
        let list = match name {
            "list.csv" => rows.to_owned(),
            _ => rows.lines().skip(1).map(|row| format!("{{\"email\":\"{row}\"}}\n")).collect(),
        };
        let mut first = desk(name, list);
        first.args.max_wait = 0;
        let said = first.run().unwrap().to_string();
        let closed = first.path("out.closed");
        assert!(said.contains(&format!(" rows) and {}, which --retry needs\n", closed.display())), "{said}");
        assert!(!String::from_utf8_lossy(&std::fs::read(&closed).unwrap()).contains("listed"), "{name}");
        // In another order, as an office program writes it. The files move together.
        let written = first.output();
        let mut lines: Vec<&str> = written.lines().collect();
        lines[1..].reverse();
        let old = name.replace("list", "old");
        let mut second = desk(&old, lines.join("\n") + "\n");
        std::fs::copy(&closed, second.path(&(old.clone() + ".closed"))).unwrap();
        (second.args.writing.retry, second.args.max_wait) = (true, 0);
        let said = second.run().unwrap().to_string();
        assert_eq!(second.checker.submitted.keys().collect::<Vec<_>>(), ["later@x.com"], "{name}");
        let advice = "\n  3 closed in the earlier output: a later check alone would not settle them\n  after you have removed the cause";
        assert!(said.contains(advice) && !said.contains("` checks those"), "{said}");
        // The new output has the file, too; in place, it grows no more.
        let size = std::fs::metadata(second.path("out.closed")).unwrap().len();
        second.args.input = second.path("out");
        second.args.format = Some(if name == "list.csv" { FormatArg::Csv } else { FormatArg::Jsonl });
        second.args.writing.force = true;
        for _ in 0..2 {
            second.checker.submitted.clear();
            second.run().unwrap();
            assert_eq!(second.checker.submitted.keys().collect::<Vec<_>>(), ["later@x.com"], "{name}");
            assert_eq!(std::fs::metadata(second.path("out.closed")).unwrap().len(), size);
        }
        // An output with the column needs no file, and a new list does not inherit it.
        (second.args.writing.retry, second.args.format) = (false, None);
        second.args.writing.columns = vec!["rule".to_owned()];
        second.args.input = second.path(&old);
        second.run().unwrap();
        assert!(!second.path("out.closed").exists(), "{name}");
    }
}

#[test]
fn an_output_keeps_its_closed_rows_until_another_one_takes_its_place() {
    let mut desk = desk("list.csv", "email\nlisted@x.com\nlater@x.com\nhang@y.com\n");
    (desk.args.max_wait, desk.args.silence) = (0, Duration::from_millis(50));
    desk.run().unwrap();
    let closed = std::fs::read(desk.path("out.closed")).unwrap();
    desk.args.writing.force = true;
    let stopped = |desk: Desk| {
        let desk = stop(desk).0;
        assert_eq!(std::fs::read(desk.path("out.closed")).unwrap(), closed);
        desk
    };
    desk = stopped(desk);
    std::fs::remove_file(desk.path("out.partial")).unwrap();
    let list = desk.path("list.csv");
    desk.args = desk.command_line("--retry -o @/out --force --format csv");
    desk.args.input = desk.path("out");
    desk.checker = fake();
    desk = stopped(desk);
    assert!(desk.path("out.partial").exists());
    std::fs::remove_file(desk.path("out.partial")).unwrap();
    // The parts are those of another list.
    desk.args = CleanArgs { input: list, ..desk.command_line("-o @/out --force --max-wait 0") };
    desk.args.silence = Duration::from_millis(50);
    desk.all_parts(2);
    desk.write("list.csv", "email\nlisted@x.com\nlater@x.com\nhung@y.com\n");
    assert!(desk.join().unwrap_err().message.contains("row 3 of INPUT"));
    assert_eq!(std::fs::read(desk.path("out.closed")).unwrap(), closed);
    assert!(!desk.path("out.partial.closed").exists());
}

#[test]
fn each_output_has_what_a_retry_needs_or_the_summary_says_that_it_does_not() {
    // The number of addresses that a retry asks about.
    for (flags, out, asked, says) in [
        ("", "out.csv", 1, "out.csv.closed, which --retry needs"),
        ("--unordered", "out.csv.gz", 1, "out.csv.gz.closed, which --retry needs"),
        ("", "out.xlsx", 1, "out.xlsx.closed, which --retry needs"),
        ("--split", "out.unknown.csv", 1, "out.unknown.csv.closed, which --retry needs"),
        ("--only unknown", "out.csv", 1, "out.csv.closed, which --retry needs"),
        ("--known @/old.csv", "out.csv", 1, "out.csv.closed, which --retry needs"),
        ("--columns rule", "out.csv", 1, "  3: a later try alone does not help\n"),
        ("--join", "out.csv", 1, "out.csv.closed, which --retry needs"),
        ("--join", "out.csv", 3, "may settle\n3 unverifiable rows of parts without their files .closed: "),
        (
            "--sample 9",
            "out.csv",
            4,
            "  --retry checks 3 of these again, because this output has no OUT.closed",
        ),
    ] {
        let mut desk = desk("list.csv", "email\nlisted@x.com\nlater@x.com\nlisted@y.com\nlisted@z.com\n");
        desk = desk.flags(&format!("{flags} -o @/{}", out.replace(".unknown", "")).replace("--join", ""));
        desk.args.max_wait = 0;
        desk.write("old.csv", "email,deliverable,reason,rule\nlisted@y.com,false,unverifiable,blocklist\n");
        let summary = if flags == "--join" {
            desk.all_parts(2);
            // The part of x.com and y.com loses its file.
            let lost = desk.path("out.csv.part-0-of-2.closed");
            (asked == 3).then(|| std::fs::remove_file(lost).unwrap());
            desk.join()
        } else {
            desk.run()
        };
        let said = summary.unwrap().to_string();
        assert!(said.contains(says), "{flags} {out}: {said}");
        assert!(out == "out.csv" || !desk.path("out.csv.closed").exists());
        desk.args.input = desk.path(out);
        desk.args = CleanArgs { max_wait: 0, ..desk.command_line("--retry -o @/again.csv") };
        desk.checker = fake();
        desk.run().unwrap();
        assert_eq!(desk.checker.submitted.len(), asked, "{flags} {out}");
    }
}

#[test]
fn an_output_without_a_header_is_read_again_with_the_columns_of_its_run() {
    for columns in ["rule,reply_code", "reply_code", "checked_at", "checked_at,rule"] {
        let mut desk = desk("list.csv", "deliverable@x.com\nlater@x.com\nnobody@y.com\n");
        desk = desk.flags(&format!("--columns {columns} -o @/out.csv --max-wait 0"));
        let said = desk.run().unwrap().to_string();
        let command = format!("out.csv --columns {columns} --retry -o NEW.csv");
        assert!(said.contains(&command), "{said}");
        let output = std::fs::read_to_string(desk.path("out.csv")).unwrap();
        desk.args.input = desk.path("out.csv");
        desk.args = desk.command_line(&format!("--columns {columns} --retry -o @/again.csv"));
        desk.checker = fake();
        desk.run().unwrap();
        assert_eq!(desk.checker.submitted_addresses(), ["later@x.com"], "{columns}");
        let again = std::fs::read_to_string(desk.path("again.csv")).unwrap();
        for (row, before) in again.lines().zip(output.lines()).filter(|(row, _)| !row.starts_with("later")) {
            assert_eq!(row, before, "{columns}");
        }
    }
    let mut desk = desk("old.csv", "email,deliverable,reason\nlater@x.com,false,unverifiable\n");
    desk = desk.flags("--columns rule --retry -o @/again.csv");
    assert!(desk.error().starts_with("the header of old.csv names its columns"));
}

/// The output of a run with the columns `a` and `b`.
const TWO: &str = "a,b,deliverable,reason,b_deliverable,b_reason\n\
                   nobody@x.com,deliverable@x.com,false,mailbox_not_found,true,mailbox_exists\n\
                   deliverable@y.com,later@y.com,true,mailbox_exists,false,unverifiable\n";

/// Runs a list with these columns and an earlier output: the output, and the addresses that were asked about.
fn with_columns(columns: &str, list: &str, old: &str) -> (String, Vec<String>) {
    let mut desk = with_known(list, old);
    desk.args.column = names(columns);
    desk.run().unwrap();
    (without_times(&desk.output()), desk.checker.submitted_addresses())
}

#[test]
fn a_verdict_is_never_that_of_another_column() {
    let (exists, not_found) = (",true,mailbox_exists,NOW", ",false,mailbox_not_found,NOW");
    // As the refusal of --retry says: the results of both columns are used again, and the open rows are checked.
    for (columns, asked, rows) in [
        ("a,b", &["later@y.com"][..], [[not_found, exists], [exists, exists]]),
        ("b", &["later@y.com"], [["", exists], ["", exists]]),
        ("a", &[], [["", not_found], ["", exists]]),
        // The verdict without a name is of the first column of the earlier run, which is not known.
        (
            "b,a",
            &["deliverable@y.com", "later@y.com", "nobody@x.com"],
            [[exists, not_found], [exists, exists]],
        ),
    ] {
        let (output, submitted) = with_columns(columns, TWO, TWO);
        assert_eq!(submitted, asked, "{columns}");
        let [first, second] = rows.map(|row| row.concat());
        let expected =
            format!("nobody@x.com,deliverable@x.com{first}\ndeliverable@y.com,later@y.com{second}\n");
        assert!(output.ends_with(&expected), "{columns}: {output}");
    }
    // Without a header, nothing says which verdict is of which column.
    let rows = TWO.split_once('\n').unwrap().1;
    assert_eq!(with_columns("1,2", rows, rows).1.len(), 4);
    // A list without the second column was cleaned with it before, and the other way round.
    assert_eq!(with_columns("a", "a\nnobody@x.com\n", TWO).1.len(), 0);
    let old = "a,deliverable,reason\nnobody@x.com,true,mailbox_exists\n";
    assert_eq!(with_columns("a,b", TWO, old).1.len(), 3);
}

#[test]
fn verdicts_that_are_lost_or_doubtful_are_named() {
    let job = |flags: &str, list: &str| Job::open(desk("list.csv", list).command_line(flags)).unwrap();
    let lost = |flags: &str| retry::of_others(job(flags, TWO).source.shape(), "lost");
    let said = lost("--column b").unwrap();
    assert_eq!(
        said,
        "the earlier verdicts in `deliverable` are of another column than this run checks, or may be: lost"
    );
    assert_eq!(lost("--column a --column b"), None);
    let one = "a,b,deliverable,reason\nnobody@x.com,deliverable@x.com,false,mailbox_not_found\n";
    let said = job("--retry", one).left_out().unwrap();
    assert!(
        said.ends_with("they count for `a`; if they are of `b`, stop this run, and give `--column b` first"),
        "{said}"
    );
    let mut desk = desk("old.csv", TWO).flags("--retry --column b");
    assert_eq!(desk.run().unwrap_err().exit, 2);
    assert_eq!(job("--retry", "a,n,deliverable,reason\nb@x.com,1,true,mailbox_exists\n").left_out(), None);
}

#[test]
fn a_retry_can_replace_the_earlier_output() {
    let mut desk = desk("old.csv", "email,deliverable,reason\nnobody@x.com,false,unverifiable\n");
    desk.args.writing.retry = true;
    desk.args.output = Some(desk.args.input.clone());
    desk.args.writing.force = false;
    assert!(desk.error().starts_with(
        "old.csv exists: name another file with -o, or replace it with --force, also if it is INPUT: "
    ));
    desk.args.writing.force = true;
    desk.run().unwrap();
    let replaced = std::fs::read_to_string(&desk.args.input).unwrap();
    assert_eq!(replaced, "email,deliverable,reason\nnobody@x.com,false,mailbox_not_found\n");
    desk.args.input = "-".into();
    assert!(desk.error().starts_with("--retry reads INPUT twice"));
}

#[test]
fn parts_with_known_results_name_the_time_of_checks() {
    let mut desk = with_known("email\na@x.com\n", "email,deliverable,reason\na@x.com,true,mailbox_exists\n");
    desk.args.part = Some(ListPart::new(0, 1).unwrap());
    assert!(desk.error().starts_with("a part with --known has the column checked_at"));
    desk.args.writing.columns = vec!["checked_at".to_owned()];
    desk.run().unwrap();
    desk.args.part = None;
    desk.args.writing.known = None;
    desk.join().unwrap();
    assert!(desk.output().starts_with("email,deliverable,reason,checked_at\na@x.com,true,mailbox_exists,"));
}

#[test]
fn an_earlier_list_without_results_is_an_error() {
    let mut desk = with_known("email\na@x.com\n", "email,n\na@x.com,1\n");
    let refused = |desk: &mut Desk, expected: &str| {
        assert_eq!(desk.run().unwrap_err().exit, 2, "{expected}");
        assert!(desk.error().starts_with(expected), "{expected}");
    };
    refused(&mut desk, "old.csv has no results of mailprobe");
    desk.nothing_written();
    desk.args.writing.known = Some(desk.path("missing.csv"));
    refused(&mut desk, "missing.csv cannot be read");
    // The earlier output is INPUT.
    (desk.args.writing.known, desk.args.writing.retry) = (None, true);
    refused(&mut desk, "list.csv has no results of mailprobe");
}

#[test]
fn many_known_results_take_little_memory() {
    let mut old = String::from("email,deliverable,reason\n");
    let mut list = String::from("email\n");
    for n in 0..20_000 {
        list += &format!("user{n}@d{}.com\n", n % 97);
        if n % 4 != 0 {
            old += &format!("user{n}@d{}.com,true,mailbox_exists\n", n % 97);
        }
    }
    let mut desk = with_known(&list, &old);
    let summary = desk.run().unwrap();
    assert_eq!((summary.known, desk.checker.submitted.len()), (15_000, 5000));
}

#[test]
fn a_continued_run_counts_the_results_of_the_earlier_output_like_one_run() {
    // The results have no time. The address of the fourth row is that of the first one.
    let list = "email,deliverable,reason,rule\na@x.com,true,mailbox_exists,\nnobody@x.com,,,\n\
                listed@x.com,false,unverifiable,blocklist\nA@x.com,true,mailbox_exists,\nb@x.com,true,mailbox_exists,\n";
    let known = "--known @/old.csv --columns rule";
    for flags in [known, &format!("{known} --unordered"), &format!("{known} --drop-duplicates"), "--retry"] {
        let mut desk = desk("list.csv", list).flags(flags);
        desk.write("old.csv", list);
        let counts = |summary: Summary| {
            let Summary { known, known_undated, of_earlier_output, of_earlier_run, .. } = summary;
            (known, known_undated, of_earlier_output, of_earlier_run)
        };
        let whole = counts(desk.run().unwrap());
        assert_eq!(whole, (3, flags != "--retry", 1, 0), "{flags}");
        let written = desk.output();
        desk.args.resume = true;
        for (cut, _) in written.match_indices('\n') {
            assert_eq!(counts(desk.resume_from(&written[..=cut])), whole, "{flags} {cut}");
        }
    }
}

/// A list with this number of rows of each kind, some of them twice.
fn population(deliverable: usize, nobody: usize, never: usize) -> String {
    let mut list = String::from("n,email\n");
    let kinds = [("deliverable", deliverable), ("nobody", nobody), ("never", never)];
    for (local, count) in kinds {
        for n in 0..count {
            let row = format!("{n},{local}@d{n}.com\n");
            list += &row.repeat(1 + n % 2);
        }
    }
    list + "x,nonsense\n"
}

#[test]
fn a_sample_estimates_the_classes() {
    let mut desk = desk("list.csv", population(300, 150, 50));
    desk.args.output = None;
    desk.args.max_wait = 0;
    desk.args.summary = Some(desk.path("summary.json"));
    desk.args.writing.sample = Some(200);
    desk.args.writing.seed = Some(7);
    let summary = desk.run().unwrap();
    let estimate = summary.estimate.clone().unwrap();
    assert_eq!((estimate.rows, estimate.distinct, estimate.without_address), (751, 500, 1));
    assert_eq!((estimate.checked, desk.checker.submitted.len()), (200, 200));
    for (class, truth) in estimate.classes.iter().zip([0.6, 0.3, 0.1]) {
        assert!(class.low <= truth && truth <= class.high, "{class:?}");
        assert!(class.high - class.low < 0.13);
    }
    let said = summary.to_string();
    assert!(
        said.contains("estimate from 200 addresses (--seed 7), with the 95 % interval:\n  deliverable "),
        "{said}"
    );
    let json = desk.json("summary.json");
    assert_eq!(json["sample"]["classes"][0]["class"], "deliverable");
    assert_eq!(json["sample"]["distinct"], 500);
    // The same seed asks the same addresses, another seed others.
    let first = std::mem::replace(&mut desk.checker, fake()).submitted;
    desk.run().unwrap();
    assert_eq!(desk.checker.submitted, first);
    desk.args.writing.seed = Some(8);
    desk.checker = fake();
    desk.run().unwrap();
    assert_ne!(desk.checker.submitted, first);
    assert_eq!(std::fs::read_dir(desk.folder.path()).unwrap().count(), 2, "no list is written");
    // With an output, the sample is written.
    desk.args.output = Some(desk.path("out"));
    desk.run().unwrap();
    assert_eq!(desk.output().lines().count(), 201);
}

#[test]
fn a_small_list_is_checked_completely() {
    let mut desk = desk("list.csv", population(3, 1, 0));
    desk.args.output = None;
    desk.args.writing.sample = Some(100);
    let estimate = desk.run().unwrap().estimate.unwrap();
    assert_eq!((estimate.checked, estimate.distinct), (4, 4));
    let shares: Vec<_> = estimate.classes.iter().map(|class| (class.share, class.low, class.high)).collect();
    assert_eq!(shares, [(0.75, 0.75, 0.75), (0.25, 0.25, 0.25), (0.0, 0.0, 0.0)]);
    let mut empty = super::desk("list.csv", "email\n");
    empty.args.writing.sample = Some(10);
    assert_eq!(empty.run().unwrap().estimate.unwrap().checked, 0);
}

/// 1,000 samples of lists of known truth with checks: the interval covers the truth in at least 930.
#[test]
fn intervals_cover_the_truth_of_lists() {
    let list = population(60, 30, 10);
    let mut covered = 0;
    let mut desk = desk("list.csv", &list);
    desk.args.output = None;
    desk.args.max_wait = 0;
    desk.args.writing.sample = Some(40);
    for seed in 0..1000 {
        desk.args.writing.seed = Some(seed);
        desk.checker = Fake { capacity: 1000, ..fake() };
        let estimate = desk.run().unwrap().estimate.unwrap();
        let class = estimate.classes[0];
        covered += u32::from((class.low..=class.high).contains(&0.6));
    }
    assert!(covered >= 930, "{covered} of 1,000");
}

#[test]
fn a_sample_without_a_file_has_no_rows_to_check_again() {
    let mut desk = desk("list.csv", "email\nnever@x.com\n").flags("--sample 3 --seed 7");
    desk.args.output = None;
    let said = desk.run().unwrap().to_string();
    let open = "  1 for now: a later try may tell more: the same command with --seed 7 checks the same addresses again\n";
    assert!(said.contains(open) && !said.contains("mailprobe clean"), "{said}");
}

#[test]
fn a_sample_that_fails_leaves_nothing() {
    let rows: String = (0..50).map(|n| format!("deliverable@d{n}.com\n")).collect();
    for (name, list, expected) in [
        (
            "list.jsonl",
            "{\"email\":\"a@x.com\"}\n{\"email\":\n".to_owned(),
            "list.jsonl: line 2 is not a JSON object: write one object per line",
        ),
        ("list.csv", format!("email\n{rows}stop@x.com\n"), "the engine was stopped; run the command again"),
    ] {
        let mut desk = desk(name, list);
        desk.args.writing.sample = Some(100);
        desk.args.writing.seed = Some(1);
        assert_eq!(desk.error(), expected);
        desk.nothing_written();
        assert!(!desk.path("out.state").exists());
    }
}

#[test]
fn a_sample_does_not_take_the_files_of_another_run() {
    let mut desk = desk("list.csv", "email\ndeliverable@x.com\n");
    desk.args.writing.sample = Some(10);
    std::fs::write(desk.path("out.partial"), "email,deliverable,reason\n").unwrap();
    let other = State::open(desk.args.output.as_deref(), 0).unwrap();
    assert_eq!(
        desk.error(),
        "out.partial is left from an earlier run, and --force does not replace it: delete it to start again"
    );
    assert!(desk.path("out.state").exists());
    drop(other);
}
