//! What is written: further columns of results, classes of rows, several files, spreadsheets, and the report.

use super::*;
use calamine::{Data, Reader as _, Xlsx, open_workbook};
use lists::Class;
use std::collections::BTreeMap;

pub(super) fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

impl Desk {
    pub(super) fn writing(mut self, change: impl FnOnce(&mut OutputArgs)) -> Desk {
        change(&mut self.args.writing);
        self
    }

    fn to(mut self, name: &str) -> Desk {
        self.args.output = Some(self.path(name));
        self
    }

    /// The files of the folder except the input, without times of checks.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path == self.args.input {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = match name.to_lowercase().ends_with(".xlsx") {
                _ if name.ends_with(".closed") => String::new(),
                true => sheet(&path).iter().map(|row| row.join("|") + "\n").collect(),
                false => String::from_utf8(unpacked(&std::fs::read(&path).unwrap())).unwrap(),
            };
            files.insert(name, without_times(&text));
        }
        files
    }
}

/// The cells of the first sheet. All of them are texts.
fn sheet(path: &Path) -> Vec<Vec<String>> {
    let mut book: Xlsx<_> = open_workbook(path).unwrap();
    let name = book.sheet_names()[0].clone();
    assert!(book.worksheet_formula(&name).unwrap().is_empty(), "no formulas");
    let range = book.worksheet_range(&name).unwrap();
    let text = |cell: &Data| match cell {
        Data::String(text) => text.clone(),
        Data::Empty => String::new(),
        other => panic!("{other:?} is no text"),
    };
    range.rows().map(|row| row.iter().map(text).collect()).collect()
}

/// Replaces times of the current century by `NOW`.
pub(super) fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("20") {
        let is_time = rest.get(at..at + 20).is_some_and(|time| lists::utc_seconds(time).is_some());
        let length = if is_time { 20 } else { 2 };
        out += &rest[..at];
        out += if is_time { "NOW" } else { "20" };
        rest = &rest[at + length..];
    }
    out + rest
}

const ALL: &str =
    "suggestion,provider,role,free,disposable,rule,scope,reply_code,enhanced_code,score,checked_at";

#[test]
fn numbers_are_true_with_several_columns() {
    let list = "work,home\nnobody@x.com,deliverable@x.com\nnobody@x.com,\nx,nobody@x.com\n";
    let mut desk = desk("list.csv", list).to("out.csv");
    desk.args.column = names("work,home");
    desk.args.summary = Some(desk.path("s.json"));
    desk.args.writing.report = Some(desk.path("r.html"));
    let said = desk.run().unwrap().to_string();
    assert!(
        said.starts_with("6 cells of 3 rows in ")
            && said.contains(" undeliverable (83.3 %) (1 of them empty), "),
        "{said}"
    );
    for line in
        ["\n2 duplicate cells\n", "\n2 cells without an address: 1 empty, 1 with a text that is no address\n"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(said.contains("out.csv (3 rows)\n"), "{said}");
    let json = desk.json("s.json");
    assert_eq!((&json["rows"], &json["list_rows"], &json["empty"]), (&6.into(), &3.into(), &1.into()));
    assert_eq!(json["files"][0]["rows"], 3);
    let page = String::from_utf8(desk.read("r.html")).unwrap();
    assert!(page.contains("6 cells of 3 rows") && page.contains("All cells") && !page.contains("All rows"));
    assert!(page.contains("(1 of them empty)"));
    desk.args.output = Some(desk.path("out.xlsx"));
    assert_eq!(desk.run().unwrap().files[0].rows, 3);
    // The summary advises what works: --retry does not.
    let mut desk = self::desk("list.csv", "work,home\nbudget@x.com,listed@x.com\n");
    (desk.args.column, desk.args.max_wait) = (names("work,home"), 0);
    let said = desk.run().unwrap().to_string();
    let (list, out) = (desk.args.input.display(), desk.path("out"));
    let command =
        format!("`mailprobe clean {list} --column work --column home --known {} -o NEW`\n", out.display());
    assert!(
        said.contains(&command) && said.contains(": check again after an hour; --max-wait 1h "),
        "{said}"
    );
    assert!(!said.contains("--retry") && !desk.path("out.closed").exists(), "{said}");
}

#[test]
fn the_advised_command_keeps_the_options_of_the_run() {
    for [flags, expected] in text_rows(include_str!("../../testdata/advised.txt")) {
        let mut args = desk("LIST", "").command_line(flags);
        (args.input, args.writing.engine) = ("LIST".into(), " ENGINE".into());
        let said = later(&args, &args.delivery().unwrap(), args.column.len().max(1), true);
        assert_eq!(
            said.unwrap_or("mailprobe clean none".into()),
            format!("mailprobe clean {expected}"),
            "{flags}"
        );
    }
}

const LIST: &str =
    "id,email\n1,deliverable@x.com\n2,nobody@x.com\n3,never@x.com\n4,nonsense\n5,deliverable@x.com\n";

/// Checks the parts of an entry of `outputs.txt`: files that are read, files that are written, and lines that are said.
#[track_caller]
pub(super) fn check_parts(mut desk: Desk, parts: &[(&str, String)]) {
    let known = desk.args.writing.known.clone();
    let is_read = |name: &str| known.as_ref().is_some_and(|path| path.ends_with(name));
    for (name, text) in parts.iter().filter(|(name, _)| is_read(name)) {
        desk.write(name, text.replace("NOW", &reuse::ago(1)));
    }
    let mut said = Job::open(desk.args.clone()).unwrap().warnings().join("\n");
    said += &desk.run().unwrap().to_string();
    let mut files = desk.files();
    for (name, text) in parts {
        match *name {
            "says" => text.trim_end().lines().for_each(|line| assert!(said.contains(line), "{line}: {said}")),
            name if is_read(name) => drop(files.remove(name)),
            name => {
                let found = files.remove(name).unwrap_or_else(|| panic!("{name}: {said}"));
                let is_sorted = desk.args.unordered && sorted(&found) == sorted(text);
                assert!(is_sorted || found == *text, "{name}: {found}{said}");
            }
        }
    }
    assert!(files.keys().all(|name| name.ends_with(".closed")), "{files:?}");
}

#[test]
fn spreadsheets_of_all_lists() {
    for (name, list, expected) in [
        (
            "list.csv",
            &b"sep=;\nemail;name\nnobody@x.com;M\xfcller\n"[..],
            &["email|name|deliverable|reason", "nobody@x.com|Müller|false|mailbox_not_found"][..],
        ),
        (
            "list.csv",
            b"\xff\xfee\0m\0a\0i\0l\0\n\0n\0@\0x\0.\0c\0o\0m\0\n\0",
            &["email|deliverable|reason", "n@x.com|false|mailbox_not_found"],
        ),
    ] {
        let mut desk = desk(name, list).to("out.xlsx");
        desk.run().unwrap();
        let rows: Vec<String> = sheet(&desk.path("out.xlsx")).iter().map(|row| row.join("|")).collect();
        assert_eq!(rows, expected, "{name}");
        // The reader of lists reads it again, with the earlier columns.
        let again = Source::open(&desk.path("out.xlsx"), &ReadOptions::default()).unwrap();
        assert!(again.description().ends_with("cleaned before"), "{}", again.description());
    }
}

#[test]
fn what_cannot_be_written_is_refused_at_the_start() {
    let folder_name = |desk: &Desk| desk.folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    for [flags, expected] in text_rows(include_str!("../../testdata/refused.txt")) {
        let mut desk = desk("list.csv", LIST);
        desk.args = desk.command_line(&flags.replace("DESK", &folder_name(&desk)));
        let error = desk.run().expect_err("an error");
        assert_eq!(error.exit, 2, "{flags}");
        let said = error.message.replace(&format!("{}/", desk.folder.path().display()), "");
        let said = said.replace(&folder_name(&desk), "DESK");
        assert!(said.starts_with(expected), "{flags}: {said}");
        assert_eq!(desk.checker.submitted.len(), 0);
        assert_eq!(std::fs::read_dir(desk.folder.path()).unwrap().count(), 1, "nothing is written");
    }
    // The files of the end of a run are tried too, and stay as they were.
    for folder in ["out.unknown.csv", "out.deliverable.csv.packed"] {
        let mut desk = desk("list.csv", LIST).to("out.csv").writing(|args| args.split = true);
        desk.args.summary = Some(desk.path("s.json"));
        std::fs::write(desk.path("s.json"), "old").unwrap();
        std::os::unix::fs::symlink(desk.path("target"), desk.path("report")).unwrap();
        desk.args.writing.report = Some(desk.path("report"));
        std::fs::create_dir(desk.path(folder)).unwrap();
        assert_eq!(desk.error(), format!("{folder} cannot be written: it is a folder; name a file with -o"));
        std::fs::remove_dir(desk.path(folder)).unwrap();
        let job = Job::open(desk.args.clone()).map(drop);
        assert!(job.is_ok() && !desk.path("target").exists() && desk.read("s.json") == b"old", "{job:?}");
        desk.run().unwrap();
        assert!(desk.path("target").exists() && desk.read("s.json").starts_with(b"{"));
    }
    // An existing file is the same by any name.
    let mut linked = desk("list.csv", LIST).to("out.csv");
    std::fs::write(linked.path("out.csv"), "").unwrap();
    std::fs::hard_link(linked.path("out.csv"), linked.path("report.html")).unwrap();
    linked.args.writing.report = Some(linked.path("report.html"));
    assert_eq!(linked.error(), "report.html would overwrite the output: name another file with --report");
    // Devices can be named twice, and the output can replace the earlier one.
    linked.args.output = Some("/dev/null".into());
    linked.args.writing.report = Some("/dev/null".into());
    linked.run().unwrap();
    let mut again = desk("list.csv", "email\na@x.com\n").to("out.csv");
    again.run().unwrap();
    again.args.writing.known = again.args.output.clone();
    assert_eq!(again.run().unwrap().known, 1);
    // Any other ending is the format of the list.
    let mut desk = desk("list.csv", LIST).to("out.list");
    desk.run().unwrap();
    assert!(desk.files()["out.list"].starts_with("id,email,deliverable,reason\n1,"));
}

/// Each combination of options gives the same files after a kill, wherever it cuts the file, and checks no address twice.
#[test]
fn each_output_is_continued_from_every_cut() {
    let lists = [
        (
            "list.csv",
            "\u{feff}email;n\r\ndeliverable@gmial.com;\"a\nb\"\r\nnonsense;\"\"\"\"\r\nnobody@x.com;\r\ndeliverable@gmial.com;2\r\n",
        ),
        (
            "list.jsonl",
            "{\"email\":\"deliverable@gmial.com\"}\n{\"email\":1}\n{\"email\":\"nobody@x.com\",\"reason\":1}\n",
        ),
        ("list.txt", "deliverable@gmial.com\n\nnonsense\nnobody@x.com"),
    ];
    type Change = fn(&mut CleanArgs);
    let combinations: [(&str, Change); 9] = [
        ("out.csv", |args| args.writing.columns = names(ALL)),
        ("out.csv", |args| args.writing.split = true),
        ("out.csv.gz", |args| {
            args.writing.split = true;
            args.writing.columns = names(ALL);
        }),
        ("out.csv", |args| args.writing.only = vec![Class::Undeliverable]),
        ("out.csv", |args| {
            args.writing.drop_duplicates = true;
            args.writing.columns = names("score,rule");
        }),
        ("out.xlsx", |args| args.writing.columns = names("checked_at,suggestion")),
        ("out.xlsx", |args| {
            args.writing.split = true;
            args.writing.drop_duplicates = true;
        }),
        ("out.csv", |args| {
            args.unordered = true;
            args.writing.columns = names(ALL);
        }),
        ("out.csv", |args| {
            args.unordered = true;
            args.writing.drop_duplicates = true;
            args.writing.only = vec![Class::Deliverable, Class::Unknown];
        }),
    ];
    for (name, list) in lists {
        for (n, (output, change)) in combinations.iter().enumerate() {
            let mut desk = desk(name, list).to(output);
            change(&mut desk.args);
            desk.run().unwrap();
            let expected = desk.files();
            // The working file is the same for all selections: that of a run without them.
            let selection = std::mem::take(&mut desk.args.writing.only);
            let split = std::mem::take(&mut desk.args.writing.split);
            let mut whole =
                Desk { folder: TempDir::new().unwrap(), args: desk.args.clone(), checker: fake() };
            whole.args.output = Some(whole.path("whole"));
            whole.run().unwrap();
            let partial = std::fs::read(whole.path("whole")).unwrap();
            (desk.args.writing.only, desk.args.writing.split) = (selection, split);
            desk.args.resume = true;
            // All bytes together: each combination takes another part of them.
            let cuts = (n % 5..partial.len()).step_by(5).chain(std::iter::once(partial.len()));
            for cut in cuts {
                for file in expected.keys() {
                    std::fs::remove_file(desk.path(file)).unwrap();
                }
                std::fs::write(desk.path(&format!("{output}.partial")), &partial[..cut]).unwrap();
                desk.checker = fake();
                desk.run().unwrap();
                let files = desk.files();
                if desk.args.unordered {
                    for (file, expected) in files.values().zip(expected.values()) {
                        assert_eq!(sorted(file), sorted(expected), "{name} {n} cut at {cut}");
                    }
                } else {
                    assert_eq!(files, expected, "{name} {n} cut at {cut}");
                }
                assert!(desk.checker.submitted.values().all(|&times| times == 1), "{name} {n} cut at {cut}");
            }
            assert_eq!(desk.checker.submitted.len(), 0, "a complete list needs no check");
        }
    }
}

#[test]
fn other_columns_than_before_are_refused_when_resuming() {
    for (list, was, now) in
        [(LIST, "role", "free"), (LIST, "role", "role,free"), ("nobody@x.com\n", "role", "rule,score")]
    {
        let mut desk = desk("list.csv", list).writing(|args| args.columns = names(was));
        desk.run().unwrap();
        std::fs::rename(desk.path("out"), desk.path("out.partial")).unwrap();
        desk.args.resume = true;
        desk.args.writing.columns = names(now);
        assert!(desk.error().starts_with("out.partial does not fit this list or these options: "), "{list}");
    }
}

#[test]
fn streams_get_the_selected_rows() {
    let mut desk = desk("list.csv", LIST).writing(|args| args.only = vec![Class::Unknown]);
    let fifo = desk.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    desk.args.output = Some(fifo.clone());
    let reader = std::thread::spawn(move || std::fs::read_to_string(fifo).unwrap());
    desk.run().unwrap();
    assert_eq!(reader.join().unwrap(), "id,email,deliverable,reason\n3,never@x.com,false,unverifiable\n");
}

#[test]
fn parts_with_columns_are_joined_to_each_output() {
    for (output, change) in [("out.csv", None), ("out.xlsx", None), ("out.csv", Some(Class::Deliverable))] {
        let mut desk =
            desk("list.csv", LIST).to(output).writing(|args| args.columns = names("suggestion,rule,role"));
        desk.all_parts(2);
        desk.args.writing.only = change.into_iter().collect();
        let mut whole = Desk { folder: TempDir::new().unwrap(), args: desk.args.clone(), checker: fake() };
        whole.args.output = Some(whole.path(output));
        whole.run().unwrap();
        desk.join().unwrap();
        let joined = desk.files().remove(output);
        assert_eq!(joined, whole.files().remove(output).filter(|_| joined.is_some()));
    }
}

#[test]
fn the_report_is_a_page_about_the_list() {
    let mut desk =
        desk("<b>.csv", "email\ndeliverable@x.com\nnever@y.com\na@gmial.com\na@gmial.com\nb@gmial.com\n");
    desk.args.max_wait = 0;
    desk.args.writing.report = Some(desk.path("report.html"));
    desk.args.writing.command = Some("mailprobe clean <b>.csv".into());
    desk.run().unwrap();
    let page = std::fs::read_to_string(desk.path("report.html")).unwrap();
    for text in [
        "&lt;b&gt;.csv",
        "gmial.com",
        "gmail.com",
        "greylisted",
        "--max-wait 15m",
        "The mail server asks to come back after some minutes (greylisting).",
        "The mailbox is confirmed.",
        "1 of them duplicates",
        "UTC",
        "UTF-8",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("<b>") && !page.contains("<script"));
    (desk.args.writing.drop_duplicates, desk.args.writing.force) = (true, true);
    desk.run().unwrap();
    let page = std::fs::read_to_string(desk.path("report.html")).unwrap();
    assert!(
        page.contains(">4 rows. ")
            && !page.contains("of them duplicates")
            && page.contains("1 row, left out")
    );
}

#[test]
fn the_summary_names_the_files() {
    let mut desk = desk("list.csv", LIST).to("out.csv").writing(|args| args.split = true);
    desk.args.summary = Some(desk.path("summary.json"));
    let said = desk.run().unwrap().to_string();
    let name = desk.path("out.deliverable.csv").display().to_string();
    assert!(said.contains(&format!("\nwrote {name} (2 rows)\n")), "{said}");
    assert!(
        said.contains(
            "\nread as CSV, separated by `,`, in UTF-8, addresses in column 2 (email), header in row 1\n"
        ),
        "{said}"
    );
    let json = desk.json("summary.json");
    assert_eq!((&json["files"][0]["file"], &json["files"][2]["class"]), (&name.into(), &"unknown".into()));
}
