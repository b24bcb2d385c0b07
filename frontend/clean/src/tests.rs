//! Lists with a simulated engine. The local part of an address determines its answer; answers come out of order.

use super::*;
use api::Reason;
use engine::proto::address::Address;
use engine::proto::smtp::status::EnhancedCode;
use engine::proto::verdict::{ObservedReply, Scope};
use engine::{Outage, Refusal};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

mod forms;
mod long_lists;
mod outputs;
mod parts;
mod resumed;
mod reuse;
mod stalls;
mod stops;

/// Answers by local part: `deliverable@` exists; `later@` exists at the second try; `outage@` and `stop@` fail; `hang@` gets no
/// answer before a recall; `budget@` has no budget at the first try. All other mailboxes do not exist.
#[derive(Default)]
struct Fake {
    capacity: usize,
    asked: Vec<(u64, Address)>,
    /// Number of submissions of each address.
    submitted: HashMap<String, u32>,
    /// Maximum number of addresses in progress at once.
    most: usize,
    /// This address gets its answer only when no other address is in progress and nothing else is left to do.
    held: Option<&'static str>,
    /// Number of addresses submitted before the held one got its answer.
    before_held: usize,
    retry_after: Duration,
    /// Maximum number of addresses per domain in progress; for others the site is full.
    crowd: Option<usize>,
    /// Number of answers that the site is full.
    crowded: u64,
    /// Whether a recall is pending.
    recalled: bool,
    /// Number of recalls.
    recalls: u32,
    /// The value of `answer_count`.
    heard: u64,
    /// How long the budget is spent.
    budget_after: Duration,
    /// There is an outage for this address.
    down: Option<&'static str>,
}

/// A state with this amount of memory, and its folder.
pub(super) fn state(memory: usize) -> (TempDir, State) {
    let folder = TempDir::new().unwrap();
    let state = State::open(Some(&folder.path().join("out")), memory).unwrap();
    (folder, state)
}

fn fake() -> Fake {
    Fake { capacity: 7, retry_after: Duration::from_millis(5), ..Fake::default() }
}

impl Checker for Fake {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        if address.local() == "stop" {
            return Err(Refusal::Stopping);
        }
        if self.asked.len() == self.capacity {
            return Err(Refusal::Full);
        }
        *self.submitted.entry(address.as_str().to_owned()).or_default() += 1;
        self.asked.push((ticket, address));
        self.most = self.most.max(self.asked.len());
        Ok(())
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        // The latest first, to change the order.
        for _ in 0..self.asked.len() {
            let answers = |address: &Address| {
                Some(address.as_str()) != self.held && (self.recalled || address.local() != "hang")
            };
            let free = self.asked.iter().rposition(|(_, address)| answers(address));
            let at = match free {
                Some(at) => at,
                None if self.held.is_none() || patience.is_zero() || !into.is_empty() => break,
                None => {
                    self.held = None;
                    self.before_held = self.submitted.len();
                    0
                }
            };
            let (ticket, address) = self.asked.remove(at);
            into.push(self.answer(ticket, &address));
        }
        self.recalled = false;
        if into.is_empty() {
            std::thread::sleep(patience.min(Duration::from_millis(1)));
        }
    }

    fn answer_count(&self) -> u64 {
        self.heard
    }

    fn recall(&mut self) {
        self.recalled = true;
        self.recalls += 1;
    }
}

impl Fake {
    /// The addresses that were submitted.
    fn submitted_addresses(&self) -> Vec<String> {
        let mut addresses: Vec<String> = self.submitted.keys().cloned().collect();
        addresses.sort_unstable();
        addresses
    }

    fn answer(&mut self, ticket: u64, address: &Address) -> Answered {
        let under_way = self.asked.iter().filter(|(_, other)| other.domain() == address.domain()).count();
        if self.crowd.is_some_and(|crowd| under_way >= crowd) {
            self.crowded += 1;
            return Answered::new(ticket, Err(Outage::SiteFull));
        }
        let again = self.submitted[address.as_str()] > 1;
        let reason = match address.local().to_ascii_lowercase().as_str() {
            "deliverable" => Reason::MailboxExists,
            "later" | "short" if again => Reason::MailboxExists,
            "budget" if again => Reason::MailboxExists,
            "later" | "never" | "hang" | "listed" => Reason::Unverifiable,
            _ => Reason::MailboxNotFound,
        };
        let outage = self.down == Some(address.as_str())
            || address.local() == "outage"
            || address.local() == "short" && !again;
        let result = match address.local() {
            _ if outage => Err(Outage::Unavailable),
            "budget" if !again => Err(Outage::OverBudget { after: self.budget_after, refused_us: None }),
            _ => Ok(reason),
        };
        let (rule, retry_after) = match address.local() {
            "later" | "never" => ("greylisted", Some(self.retry_after)),
            "hang" => ("session-closing", Some(Duration::from_secs(60))),
            "nobody" => ("unknown_user", None),
            "listed" => ("blocklist", None),
            _ => ("", None),
        };
        let provider = if address.domain().as_str() == "gmail.com" { "google" } else { "other" };
        let score = (reason == Reason::MailboxExists).then_some(85);
        let status = Some(EnhancedCode::new(5, 1, 1));
        let refusal = ObservedReply { code: 550, status, scope: Scope::Recipient, at: Instant::now() };
        let reply = (rule == "unknown_user").then_some(refusal);
        Answered { rule, reply, retry_after, provider, score, ..Answered::new(ticket, result) }
    }
}

struct Desk {
    folder: TempDir,
    args: CleanArgs,
    checker: Fake,
}

fn desk(name: &str, list: impl AsRef<[u8]>) -> Desk {
    let folder = TempDir::new().unwrap();
    let input = folder.path().join(name);
    std::fs::write(&input, list).unwrap();
    let flags = "-o @/out --force --no-progress --max-wait 3600 --max-outage 0";
    let args = CleanArgs { memory: 0, ..command_line(folder.path(), &input, flags) };
    Desk { folder, args, checker: fake() }
}

/// The arguments of `clean` with this list and these flags, in which `@` is the folder.
fn command_line(folder: &Path, input: &Path, flags: &str) -> CleanArgs {
    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: CleanArgs,
    }
    let line = format!("clean {} {flags}", input.display());
    let line = line.trim_end().replace('@', &folder.display().to_string());
    let parts = line.split_whitespace().map(|part| part.replace('␣', " "));
    <CommandLine as clap::Parser>::try_parse_from(parts).unwrap().args
}

impl Desk {
    fn command_line(&self, flags: &str) -> CleanArgs {
        command_line(self.folder.path(), &self.args.input, flags)
    }

    /// The desk with these flags, and its own output if they name none.
    fn flags(mut self, flags: &str) -> Desk {
        let args = self.command_line(flags);
        self.args = CleanArgs { output: args.output.clone().or(self.args.output), ..args };
        self
    }

    fn run(&mut self) -> Result<Summary, CleanError> {
        Job::open(self.args.clone())?.run(&mut self.checker)
    }

    /// Resumes a run that was killed when it had written this much.
    fn resume_from(&mut self, partial: impl AsRef<[u8]>) -> Summary {
        std::fs::remove_file(self.path("out")).unwrap();
        std::fs::write(self.path("out.partial"), partial).unwrap();
        self.checker = fake();
        self.run().unwrap()
    }

    /// The error without the name of the folder.
    fn error(&mut self) -> String {
        let error = self.run().expect_err("an error");
        assert!(!error.message.contains('\n'));
        error.message.replace(&format!("{}/", self.folder.path().display()), "")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn output(&self) -> String {
        assert!(!self.path("out.partial").exists() && !self.path("out.state").exists());
        String::from_utf8(std::fs::read(self.path("out")).unwrap()).unwrap()
    }

    fn partial(&self) -> String {
        assert!(!self.path("out").exists() && !self.path("out.state").exists());
        std::fs::read_to_string(self.path("out.partial")).unwrap()
    }

    #[track_caller]
    fn nothing_written(&self) {
        let names = ["out", "out.partial", "out.closed", "out.partial.closed"];
        assert!(names.into_iter().all(|name| !self.path(name).exists()));
    }

    /// Runs a part with a new engine.
    fn part(&mut self, index: u32, count: u32) -> Result<Summary, CleanError> {
        self.checker = fake();
        self.checker.retry_after = Duration::from_millis(1);
        self.args.part = Some(ListPart::new(index, count).unwrap());
        let result = self.run();
        self.args.part = None;
        result
    }

    fn all_parts(&mut self, count: u32) {
        for index in 0..count {
            self.part(index, count).unwrap();
        }
    }

    fn join(&mut self) -> Result<Summary, CleanError> {
        Job::open(CleanArgs { join: true, ..self.args.clone() })?.join()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let bytes = std::io::Cursor::new(bytes.to_vec());
    lists::decompressed(Box::new(bytes)).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

/// The rows of a file of `testdata` behind its comment, each with `N` lines. `(none)` is an empty line.
fn text_rows<const N: usize>(text: &'static str) -> Vec<[&'static str; N]> {
    let lines = text.split_once("\n\n").unwrap().1.lines().map(str::trim_start);
    let lines = lines.map(|line| line.trim_start_matches("-> ").trim_start_matches("(none)"));
    let lines: Vec<_> = lines.collect();
    let (rows, []) = lines.as_chunks() else { panic!("{lines:?}") };
    rows.to_vec()
}

/// The lines, sorted.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// The lists in `outputs.txt`, which explains its form.
#[test]
fn lists_and_their_outputs() {
    for section in include_str!("../testdata/outputs.txt").split("\n=== ").skip(1) {
        let (title, section) = section.split_once("\n--- ").unwrap();
        println!("{title}");
        let (head, texts) = section.split_once('\n').unwrap();
        let marks =
            [("␄\n", ""), ("␍", "\r"), ("{BOM}", "\u{feff}"), ("{ZWSP}", "\u{200b}"), ("{NBSP}", "\u{a0}")];
        let text = |text: &str| marks.iter().fold(text.to_owned(), |text, (mark, c)| text.replace(mark, c));
        let (name, flags) = head.split_once(' ').unwrap_or((head, ""));
        let mut parts = texts.split("--- ");
        let list = text(parts.next().unwrap());
        let parts: Vec<(&str, String)> =
            parts.map(|part| part.split_once('\n').unwrap()).map(|(name, part)| (name, text(part))).collect();
        match &parts[..] {
            [("error", error)] => check_refused(desk(name, list).flags(flags), error.trim_end()),
            [("out", output)] if flags.is_empty() => {
                forms::check_bytes(name, list.as_bytes(), output.as_bytes());
            }
            parts => outputs::check_parts(desk(name, list).flags(flags), parts),
        }
    }
}

#[test]
fn bytes_that_are_no_utf_8_stay() {
    let mut desk = desk("list.csv", b"email,name\ndeliverable@x.com,M\xfcller\nm\xfcller@x.com,1\n");
    desk.run().unwrap();
    assert_eq!(
        std::fs::read(desk.path("out")).unwrap(),
        b"email,name,deliverable,reason\ndeliverable@x.com,M\xfcller,true,mailbox_exists\n\
          m\xfcller@x.com,1,false,mailbox_not_found\n"
    );
}

#[track_caller]
fn check_refused(mut desk: Desk, expected: &str) {
    let error = desk.run().unwrap_err();
    // A row is read only in the run.
    let exit = if error.message.contains("longer than 1 MiB") { 1 } else { 2 };
    assert_eq!(error.exit, exit, "{error}");
    let said = desk.error();
    assert!(said.starts_with(expected), "{said}");
    desk.nothing_written();
}

#[test]
fn lists_that_are_none() {
    let refused = |name: &str, list: &[u8], expected: &str| check_refused(desk(name, list), expected);
    refused(
        "a.txt",
        b"\xff\xfea\0",
        "a.txt has no address in its first rows, read as plain text, in UTF-16LE, and no column of addresses: a list is CSV, ",
    );
    refused("a.txt", b"\xff\xfea", "a.txt cannot be read: it ends within a character of UTF-16");
    refused("a.txt", b"\xff\xfe\0\0a\0\0\0", "a.txt is UTF-32: save it as CSV in UTF-8");
    refused("a.csv", b"a\0b", "a.csv is not text: save it as CSV in UTF-8");
    for damaged in [&b"a\0b"[..], b""] {
        refused("a.xlsx", damaged, "a.xlsx is damaged: its name ends with .xlsx, but it is neither");
    }
    refused(
        "a.csv",
        b"name|email\n\x83\x81|a@example.jp\n\x93\xfa\x96\x7b|b@example.jp\n",
        "a.csv is separated by `|` in Shift_JIS, where characters contain this byte: save it in UTF-8",
    );
    refused("a.csv", b"PK\x03\x04...", "a.csv cannot be read: it is damaged or incomplete (the directory");
    let mut long = b"email,x\na@b.co,\"".to_vec();
    long.resize(3 * 1024 * 1024, b'x');
    refused(
        "a.csv",
        &long,
        "a.csv: the row at line 2 is longer than 1 MiB: look for an unclosed quote or for many blank lines",
    );
    refused("a.txt", &vec![b'x'; 3 * 1024 * 1024], "a.txt: the row at line 1 is longer than 1 MiB");
}

#[test]
fn arguments_that_cannot_be() {
    let mut desk = desk("list.csv", "email\na@b.co\n");
    desk.args.output = Some(desk.args.input.clone());
    assert_eq!(desk.run().unwrap_err().exit, 2);
    assert_eq!(desk.error(), "list.csv would overwrite the input: name another file with -o");
    std::os::unix::fs::symlink(&desk.args.input, desk.path("link")).unwrap();
    desk.args.output = Some(desk.path("link"));
    assert!(desk.error().ends_with("would overwrite the input: name another file with -o"));
    assert_eq!(std::fs::read_to_string(&desk.args.input).unwrap(), "email\na@b.co\n");

    desk.args.output = None;
    desk.args.input = desk.path("missing.csv");
    assert!(desk.error().starts_with("missing.csv cannot be read: "));
    assert_eq!(desk.run().unwrap_err().exit, 2);
    desk.args.input = desk.folder.path().to_owned();
    assert!(desk.error().ends_with("cannot be read: it is a folder; name a file"));
}

/// `deliverable@`, `nobody@` and nonsense in turn.
fn rows(count: usize) -> (String, String) {
    let mut list = String::from("n,email\n");
    let mut cleaned = String::from("n,email,deliverable,reason\n");
    for n in 0..count {
        let (local, verdict) = match n % 3 {
            0 => ("deliverable", "true,mailbox_exists"),
            1 => ("nobody", "false,mailbox_not_found"),
            _ => ("", "false,invalid_syntax"),
        };
        list.push_str(&format!("{n},{local}@d{n}.com\n"));
        cleaned.push_str(&format!("{n},{local}@d{n}.com,{verdict}\n"));
    }
    (list, cleaned)
}

#[test]
fn who_says_later_is_asked_again() {
    let mut desk = desk("list.txt", "later@x.com\nnever@x.com\ndeliverable@x.com\n");
    desk.run().unwrap();
    assert_eq!(
        desk.output(),
        "later@x.com,true,mailbox_exists\nnever@x.com,false,unverifiable\ndeliverable@x.com,true,mailbox_exists\n"
    );
    let asked = |who: &str| desk.checker.submitted[&format!("{who}@x.com")];
    assert_eq!((asked("later"), asked("never"), asked("deliverable")), (2, 9, 1));
}

#[test]
fn an_outage_stops_and_keeps_what_was_done() {
    let (list, cleaned) = rows(60);
    let mut desk = desk("list.csv", list);
    desk.checker.down = Some("nobody@d31.com");
    let said = desk.error();
    assert!(said.starts_with("no address can be checked: the DNS resolver gives no "), "{said}");
    assert!(said.contains("; name another resolver with --resolver, "), "{said}");
    assert!(said.ends_with("; finished checks are kept (out.partial): continue with --resume"), "{said}");
    let partial = desk.partial();
    assert!(cleaned.starts_with(&partial), "no verdict was invented");
    assert!(partial.lines().count() > 20);

    // A run without --resume loses nothing.
    assert!(desk.error().starts_with(
        "out.partial is left from an earlier run, and --force does not replace it: delete it to start again"
    ));
    assert_eq!(desk.partial(), partial);

    desk.checker.down = None;
    desk.args.resume = true;
    let error = desk.run();
    assert!(error.is_ok(), "{error:?}: the row that failed had not been written");
    assert_eq!(desk.output(), cleaned);
}

#[test]
fn an_outage_that_passes_is_outlasted() {
    let mut desk = desk("list.csv", "email\nshort@x.com\nnobody@x.com\n");
    desk.args.max_outage = Some(60);
    desk.run().unwrap();
    assert!(
        desk.output().ends_with("short@x.com,true,mailbox_exists\nnobody@x.com,false,mailbox_not_found\n")
    );
    assert_eq!(desk.checker.submitted["short@x.com"], 2);
}

#[test]
fn an_engine_that_stops_ends_the_run() {
    let mut desk = desk("list.txt", "deliverable@x.com\nstop@x.com\n");
    assert!(desk.error().starts_with("the engine was stopped"));
}

#[test]
fn where_nothing_was_done_nothing_is_left() {
    let mut desk = desk("list.csv", "email\noutage@x.com\n");
    assert!(desk.error().starts_with("no address can be checked: "));
    desk.nothing_written();
}

/// A kill may cut the file at any byte: from each one, a resumed run writes the same list. Its rows may have any order.
#[test]
fn resuming_works_from_every_cut() {
    for (unordered, name, list) in [
        (
            false,
            "a.csv",
            "\u{feff}email,n\r\ndeliverable@x.com,\"a\nb\"\r\nnonsense,\"\"\"\"\r\nnobody@x.com,\r\n",
        ),
        (
            false,
            "a.jsonl",
            "{\"email\":\"deliverable@x.com\"}\n{\"email\":1}\n{\"email\":\"nobody@x.com\",\"reason\":1}\n",
        ),
        (false, "a.txt", "deliverable@x.com\n\nnonsense\nnobody@x.com"),
        (
            true,
            "a.csv",
            "email,n\r\ndeliverable@x.com,\"a\nb\"\r\nnonsense,\"\"\"\"\r\nnobody@x.com,\r\n\
             deliverable@x.com,\"a\nb\"\r\ndeliverable@x.com,2\r\n",
        ),
        (
            true,
            "a.jsonl",
            "{\"email\":\"deliverable@x.com\",\"q\":\"\\\"\"}\n{\"email\":1}\n{\"email\":\"nobody@x.com\"}\n",
        ),
        (true, "a.txt", "deliverable@x.com\n\nnonsense\nnobody@x.com\n\"\n"),
    ] {
        let mut desk = desk(name, list);
        desk.args.unordered = unordered;
        desk.checker.held = unordered.then_some("deliverable@x.com");
        let whole = desk.run().unwrap();
        let cleaned = desk.output();
        desk.args.resume = true;
        for cut in 0..=cleaned.len() {
            let at = format!("{name} {unordered} cut at {cut}");
            let summary = desk.resume_from(&cleaned.as_bytes()[..cut]);
            let output = desk.output();
            assert!(
                sorted(&output) == sorted(&cleaned) && (unordered || output == cleaned),
                "{at}: {output}"
            );
            assert_eq!(summary.reasons, whole.reasons, "{at}");
            assert!(desk.checker.submitted.values().all(|&times| times == 1), "{at}");
            let asked = desk.checker.submitted.len() as u64;
            let is_counted = asked <= 2 && summary.resumed <= 3 && asked + summary.resumed >= 2;
            assert!(unordered || is_counted, "{at}");
        }
        assert_eq!(desk.checker.submitted.len(), 0, "a complete list needs no check");
    }
}

#[test]
fn resuming_another_list_is_refused() {
    let left = "email,n,deliverable,reason\nnobody@x.com,1,false,mailbox_not_found\n";
    for (unordered, list, more) in [
        (false, "email,n\nnobody@y.com,1\n", ""),
        (false, "email,m\nnobody@x.com,1\n", ""),
        (false, "email,n\n", ""),
        (false, "nobody@x.com,1\n", ""),
        (true, "email,n\nnobody@y.com,1\n", ""),
        (true, "email,m\nnobody@x.com,1\n", ""),
        (true, "email,n\nnobody@x.com,1\n", "nobody@x.com,1,false,mailbox_not_found\n"),
        (true, "email,n\nnobody@x.com,1\n", "something else\n"),
    ] {
        let mut desk = desk("list.csv", list);
        (desk.args.resume, desk.args.unordered) = (true, unordered);
        let left = format!("{left}{more}");
        desk.write("out.partial", &left);
        let said = desk.error();
        assert!(unordered || !said.contains("; finished checks are kept"), "{said}");
        assert_eq!(
            said.split("; finished").next().unwrap(),
            "out.partial does not fit this list or these options: use the INPUT, --format, --sheet, --column, --columns, --known, \
             --retry, --unordered and --drop-duplicates of the run that made it, or name another output with -o",
            "{list}"
        );
        // Rows without an order are written before the list is read to its end.
        let (partial, asked) = (desk.partial(), desk.checker.submitted.len());
        assert!(partial.starts_with(&left) && (unordered || partial == left && asked == 0), "{list}");
    }
}

#[test]
fn two_runs_do_not_share_a_file() {
    let mut desk = desk("list.csv", "email\nnobody@x.com\n");
    desk.args.resume = true;
    let other = Sink::open(desk.args.output.as_deref(), SinkOptions::default()).unwrap();
    let said = desk.error();
    let expected =
        "out.partial cannot be written: another run uses it; wait until it ends, or write to another file";
    assert_eq!(said, expected);
    drop(other);
    desk.run().unwrap();
}

#[test]
fn a_broken_line_far_down_keeps_what_was_done() {
    let mut desk = desk("list.jsonl", "{\"email\":\"deliverable@x.com\"}\n{\"email\":\n");
    let said = desk.error();
    assert!(said.starts_with("list.jsonl: line 2 is not a JSON object: write one object per line"), "{said}");
}

#[test]
fn devices_are_written_to_directly() {
    let mut desk = desk("list.csv", "email\nnobody@x.com\n");
    desk.args.output = Some("/dev/null".into());
    desk.run().unwrap();
    assert!(!Path::new("/dev/null.partial").exists());
}

#[test]
fn the_summary_goes_to_standard_error() {
    let desk = desk("list.csv", "email\nnobody@x.com\ndeliverable@x.com\n");
    let mut errors = Vec::new();
    clean(desk.args.clone(), |_| Ok(fake()), &mut errors).unwrap();
    let said = String::from_utf8(errors).unwrap();
    assert!(said.starts_with("2 rows in "), "{said}");
    assert!(said.contains("1 deliverable (50.0 %)"), "{said}");

    let mut started = false;
    let missing = CleanArgs { input: desk.path("missing"), ..desk.args.clone() };
    let start = |_: &OutputArgs| {
        started = true;
        Ok(fake())
    };
    assert!(clean(missing, start, &mut Vec::new()).is_err());
    assert!(!started, "no engine for an unreadable list");
}
