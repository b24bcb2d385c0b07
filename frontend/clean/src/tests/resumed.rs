//! A run is continued with its own options only: nobody is asked with others, and no file changes.

use super::stops::{asked_again, stop};
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// An earlier output, for `--retry` too. Without an answer to the first row, no row in order is written.
const LIST: &str = "a,b,deliverable,reason\nhang@x.com,hang@y.com,false,unverifiable\nnobody@x.com,deliverable@y.com,,\n\
                    Nobody@x.com,nobody@y.com,,\ndeliverable@x.com,b@y.com,,\n";
const KNOWN: &str = "a,deliverable,reason\nnobody@x.com,false,mailbox_not_found\n";

/// The files of the folder.
fn files(desk: &Desk) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(desk.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// A run with these flags that was stopped.
fn stopped_with(flags: &str) -> Desk {
    let desk = desk("list.csv", LIST);
    desk.write("old.csv", KNOWN);
    desk.write("older.csv", KNOWN.replace("nobody", "deliverable"));
    stop(desk.flags(flags)).0
}

/// The message that refuses these flags for the next run.
#[track_caller]
fn refusal(desk: &mut Desk, flags: &str) -> String {
    let before = files(desk);
    desk.args =
        CleanArgs { output: desk.args.output.clone(), ..desk.command_line(&format!("--resume {flags}")) };
    desk.checker = fake();
    let exit = desk.run().map_err(|error| error.exit).err();
    assert_eq!((exit, desk.checker.submitted.len()), (Some(2), 0), "{flags}");
    let said = desk.error();
    assert!(files(desk) == before, "no file changes: {said}");
    said
}

/// The next run has the flags of the first one, and others that may change.
#[track_caller]
fn continued(mut desk: Desk, flags: &str) {
    let max_wait = if flags.contains("--fast") { "" } else { "--max-wait 1" };
    desk = desk.flags(&format!(
        "--resume {flags} {max_wait} --memory 1 --force --no-progress --compress gzip --summary @/s.json --report @/r.html"
    ));
    let asked = asked_again(&mut desk);
    assert!(asked.iter().all(|address| address.starts_with("hang@")), "{flags}: {asked:?}");
    let left = ["out.partial", "out.results", "out.partial.closed"];
    assert!(left.into_iter().all(|name| !desk.path(name).exists()), "{flags}");
}

#[test]
fn other_options_are_named_with_their_values() {
    for [first, second, expected] in text_rows(include_str!("../../testdata/resumed.txt")) {
        let mut desk = stopped_with(first);
        assert_eq!(refusal(&mut desk, second), expected, "{first} {second}");
        continued(desk, first);
    }
}

/// The options with their values.
fn options(flags: &str) -> BTreeSet<String> {
    let parts = flags.split("--").filter(|part| !part.is_empty());
    parts.map(|part| format!("--{}", part.trim_end())).collect()
}

#[test]
fn each_pair_of_options_is_compared() {
    let all = [
        "",
        "--column b",
        "--column a --column b",
        "--format text",
        "--columns rule",
        "--fast",
        "--unordered",
        "--drop-duplicates",
        "--known @/old.csv",
        "--known @/older.csv --columns role",
        "--known @/old.csv --known-days 3",
        "--retry",
        "--retry --unordered",
    ];
    for first in all {
        let mut desk = stopped_with(first);
        for second in all.into_iter().filter(|second| *second != first) {
            let said = refusal(&mut desk, second);
            let named = said.split_once('(').and_then(|(_, rest)| rest.split_once("): ")).unwrap().0;
            let named: BTreeSet<&str> =
                named.split([' ', ',', ';']).filter(|word| word.starts_with("--")).collect();
            let (was, now) = (options(first), options(second));
            let mut differing: BTreeSet<&str> =
                was.symmetric_difference(&now).map(|option| option.split(' ').next().unwrap()).collect();
            // Plain text has no columns.
            differing.extend(first.contains("text").then_some("--column"));
            differing.extend(second.contains("text").then_some("--column"));
            assert_eq!(named, differing, "{first} {second}: {said}");
        }
        continued(desk, first);
    }
}

#[test]
fn files_of_an_earlier_release_are_continued_and_compared_as_far_as_they_tell() {
    let title = "mailprobe clean: results of rows that are not written yet\n";
    let older = |flags: &str, kind: &str| {
        let desk = stopped_with(flags);
        let file = desk.read("out.results");
        let head = file.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0;
        let start = spill::keyed::ListStart::text(&desk.args.input);
        desk.write(
            "out.results",
            [title.as_bytes(), kind.as_bytes(), start.as_bytes(), &file[head..]].concat(),
        );
        desk
    };
    for (flags, kind) in [
        ("", "full"),
        ("--fast", "fast"),
        ("--columns rule,scope", "full,rule,scope"),
        ("--known @/older.csv --columns rule", "full,rule,checked_at"),
        ("--retry", "full"),
        ("--column b", "full"),
    ] {
        continued(older(flags, kind), flags);
    }
    let mut desk = older("--columns rule", "full,rule");
    assert_eq!(
        refusal(&mut desk, "--fast"),
        "out.partial was made with other options (--columns rule, without --fast; now without --columns, --fast): repeat the command \
         with --columns rule and without --fast, or name another output with -o"
    );
    assert!(
        refusal(&mut desk, "--columns rule --unordered").contains("(without --unordered; now --unordered)")
    );
    desk.write("other.csv", LIST.replace("hang", "other"));
    desk.args.input = desk.path("other.csv");
    assert!(refusal(&mut desk, "--columns rule").contains("(the INPUT of that run; now INPUT other.csv)"));
    // A stream has no name, and nothing of it is compared.
    let desk = stopped_with("--column a");
    let pipe = desk.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let mut desk = Desk { args: CleanArgs { input: pipe.clone(), ..desk.args.clone() }, ..desk };
    let writer = std::thread::spawn(move || std::fs::write(pipe, LIST));
    assert_eq!(asked_again(&mut desk), ["hang@x.com"]);
    writer.join().unwrap().unwrap();
    // Without results, there was no such file.
    let desk = stopped_with("");
    std::fs::remove_file(desk.path("out.results")).unwrap();
    desk.write("out.partial", "a,b,deliverable,reason\nhang@x.com,hang@y.com,false,unverifiable\n");
    let mut desk = desk.flags("--resume");
    assert_eq!(asked_again(&mut desk), ["deliverable@x.com", "nobody@x.com"]);
}

#[test]
fn a_resumed_run_tells_the_causes_of_all_rows() {
    let list = "email\nnever@x.com\nlisted@x.com\nhang@x.com\nbudget@x.com\nListed@x.com\ndown@x.com\nlisted@y.com\n\
                budget@y.com\nnever@z.com\n";
    for flags in ["", "--columns rule", "--unordered"] {
        let mut desk = desk("list.csv", list).flags(flags);
        (desk.args.max_wait, desk.args.max_outage, desk.args.silence) =
            (0, Some(0), Duration::from_millis(50));
        // The row of the outage is answered last, or after rows that are written.
        for capacity in [7, 2] {
            desk.checker = Fake { capacity, down: Some("down@x.com"), ..fake() };
            assert!(desk.error().contains("continue with --resume"));
            desk.args.resume = true;
        }
        let causes = |desk: &mut Desk| {
            desk.checker = fake();
            let summary = desk.run().unwrap();
            (summary.left.clone(), summary.settled.clone(), summary.unexplained())
        };
        let resumed = causes(&mut desk);
        (desk.args.resume, desk.args.writing.force) = (false, true);
        assert_eq!((&resumed, resumed.0.rows(), resumed.1.rows()), (&causes(&mut desk), 5, 2), "{flags}");
    }
}

#[test]
fn the_options_are_there_before_the_first_row_and_go_with_the_rows() {
    // A kill can end the run before or after the first byte of each file.
    for (partial, results) in
        [(Some(""), None), (Some(""), Some("")), (Some(""), Some("mailprobe clean: res")), (None, Some(""))]
    {
        let desk = desk("list.csv", "email\nnobody@x.com\n").flags("--resume");
        partial.into_iter().for_each(|text| desk.write("out.partial", text));
        results.into_iter().for_each(|text| desk.write("out.results", text));
        let mut desk = desk;
        assert_eq!(asked_again(&mut desk), ["nobody@x.com"]);
        assert!(!desk.path("out.partial").exists() && !desk.path("out.results").exists());
    }
    // Results beside an empty file stay, whatever ends the next run.
    let (mut desk, _) = stop(desk("list.txt", "hang@x.com\nnobody@x.com\n"));
    assert_eq!(desk.read("out.partial"), b"");
    assert!(refusal(&mut desk, "--fast").contains("(without --fast; now --fast)"));
    desk.write("out.state", "my own file");
    desk.args.fast = false;
    assert!(desk.error().starts_with("out.state exists and belongs to no run"));
    std::fs::remove_file(desk.path("out.state")).unwrap();
    assert_eq!(asked_again(&mut desk), ["hang@x.com"]);
    // A run that leaves no row leaves no file.
    let mut desk = self::desk("list.csv", "email\noutage@x.com\n");
    desk.error();
    assert_eq!(files(&desk).len(), 1);
}

#[test]
fn a_join_and_a_check_do_not_continue_each_other() {
    let mut desk = desk("list.csv", "email\nhang@x.com\nnobody@x.com\n");
    (desk.args.max_wait, desk.args.silence) = (0, Duration::from_millis(50));
    desk.all_parts(1);
    let (mut desk, _) = stop(desk);
    let said = desk.join().unwrap_err().message;
    assert!(
        said.contains("out.partial was made with other options (without --join; now --join): "),
        "{said}"
    );
    assert_eq!(asked_again(&mut desk), ["hang@x.com"]);
}

#[test]
fn a_complete_output_tells_its_options() {
    let list = "a,b\nnobody@x.com,b@y.com\ndeliverable@x.com,\n";
    let out = "a,b,deliverable,reason\nnobody@x.com,b@y.com,false,mailbox_not_found\ndeliverable@x.com,,true,mailbox_exists\n";
    let fast = "a,b,deliverable,reason\nnobody@x.com,b@y.com,,fast_check_passed\ndeliverable@x.com,,,fast_check_passed\n";
    for (flags, written, expected) in [
        ("", out, None),
        ("--fast", fast, None),
        ("--column b", out, Some("(another --column): repeat the command with that one, or ")),
        ("--fast", out, Some("(without --fast; now --fast): repeat the command without --fast, or ")),
        ("", fast, Some("(--fast; now without --fast): repeat the command with --fast, or ")),
    ] {
        let mut desk = desk("list.csv", list);
        desk.write("out", written);
        desk.write(
            "out.closed",
            "mailprobe clean: unverifiable rows that --retry leaves out\n0123456789abcdef0123456789abcdef",
        );
        let before = files(&desk);
        match expected {
            Some(expected) => {
                let said = refusal(&mut desk, flags);
                assert!(said.starts_with(&format!("out was made with other options {expected}")), "{said}");
            }
            None => {
                desk = desk.flags(&format!("--resume {flags}"));
                assert!(asked_again(&mut desk).is_empty());
            }
        }
        assert!(files(&desk) == before, "also the file of closed rows stays: {flags}");
    }
    // An output with other columns names the option that gave them.
    let mut desk = desk("list.csv", list).flags("--known @/old.csv");
    desk.write("old.csv", KNOWN);
    desk.run().unwrap();
    desk.args = CleanArgs { resume: true, ..desk.command_line("-o @/out") };
    assert!(desk.error().contains(" --columns, --known, --retry, --unordered "));
    // A retry in place was killed before it could remove the file of options.
    let mut desk = stopped_with("--retry");
    std::fs::rename(desk.path("out.partial"), desk.path("old.partial")).unwrap();
    let written = "a,b,deliverable,reason\nhang@x.com,hang@y.com,false,unverifiable\n";
    (desk.args.input, desk.args.writing.force) = (desk.path("out"), false);
    desk.write("out", written);
    assert!(asked_again(&mut desk).is_empty());
    assert!(desk.read("out") == written.as_bytes() && !desk.path("out.results").exists());
    // So was another run, and the next one names another column.
    let mut desk = stopped_with("");
    std::fs::rename(desk.path("out.partial"), desk.path("out")).unwrap();
    assert!(
        refusal(&mut desk, "--column b")
            .starts_with("out was made with other options (--column a; now --column b): ")
    );
}

#[test]
fn rows_of_a_complete_output_show_another_column_or_input() {
    // All rows have two addresses. One address of `b` would have two verdicts.
    let list = "a,b\nnobody@x.com,b@y.com\ndeliverable@x.com,b@y.com\n";
    let mut desk = desk("list.csv", list).flags("--column a");
    desk.run().unwrap();
    let said = refusal(&mut desk, "--column b");
    assert!(said.starts_with("out was made with other options (another --column): repeat "), "{said}");
    desk = desk.flags("--resume --column a");
    assert!(asked_again(&mut desk).is_empty());
    // What the earlier output has found out is in the new one too.
    let old = "a,deliverable,reason\nnobody@x.com,false,mailbox_not_found\n";
    let mut desk = self::desk("old.csv", old).flags("--retry");
    desk.run().unwrap();
    desk.write("old.csv", old.replace("false,mailbox_not_found", "true,mailbox_exists"));
    let said = refusal(&mut desk, "--retry");
    assert!(said.starts_with("out was made with other options (another INPUT): repeat "), "{said}");
}

#[test]
fn a_complete_output_without_an_order_is_compared() {
    for flags in ["--unordered", "--unordered --columns rule", "--unordered --drop-duplicates"] {
        let mut desk =
            desk("list.csv", "email\nnobody@x.com\ndeliverable@x.com\nnobody@x.com\n").flags(flags);
        let rows = desk.run().unwrap().files[0].rows;
        let before = files(&desk);
        desk = desk.flags(&format!("--resume {flags}"));
        desk.checker = fake();
        let summary = desk.run().unwrap();
        assert_eq!((summary.resumed, summary.files[0].rows), (rows, rows), "{flags}");
        assert!(desk.checker.submitted.is_empty() && files(&desk) == before, "{flags}");
        desk.write("list.csv", "email\nnobody@x.com\n");
        assert!(desk.error().starts_with("out does not fit this list"), "{flags}");
        desk.write("list.csv", "email\nnobody@x.com\ndeliverable@x.com\nnobody@x.com\nnew@x.com\n");
        let said = desk.error();
        assert!(said.contains(" -o NEW` uses its results") && files(&desk).len() == before.len());
    }
}

#[test]
fn a_pipe_loses_no_row() {
    // The rows that are read to find the form of a list are the first 64 KiB.
    let (list, cleaned) = rows(6000);
    let mut desk = desk("list.csv", "");
    desk.args.input = desk.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &desk.args.input, rustix::fs::Mode::RWXU).unwrap();
    let pipe = desk.args.input.clone();
    let writer = std::thread::spawn(move || std::fs::write(pipe, list));
    desk.checker.capacity = 1000;
    desk.run().unwrap();
    writer.join().unwrap().unwrap();
    assert!(desk.output() == cleaned);
}
