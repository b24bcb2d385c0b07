//! What `check` and `clean` say on standard error, and the lines of addresses without an answer.

use super::Desk;
use crate::until_true;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

impl Desk {
    /// The binary with the resolver of the mail internet, but without leave to contact its hosts.
    fn stranger(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailprobe"));
        let dns = self.net.dns().to_string();
        command.env_clear().args(arguments).args(["--resolver", &dns, "--ehlo", "probe.example"]);
        command.output().unwrap()
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn hosts_with_private_addresses_alone_are_told_once() {
    let desk = Desk::new();
    let addresses = ["user-1@gone.example", "user-1@ok.example", "user-2@ok.example", "user-1@slow.example"];
    let list = desk.list("list", addresses.map(str::to_owned));
    let list = list.to_str().unwrap();
    for arguments in [
        &[&["check", "--state", "none"][..], &addresses].concat()[..],
        &[&["check", "--fast"][..], &addresses].concat(),
        &["clean", list, "--state", "none"],
        &["clean", list, "--fast"],
        &["clean", list, "--fast", "--columns", "provider"],
    ] {
        let (_, said) = texts(&desk.stranger(arguments));
        let warning = " has only non-public addresses (127.1.0.";
        assert_eq!(said.matches(warning).count(), 1, "{arguments:?}: {said}");
        assert!(said.contains("which are not contacted; --allow-net allows them\n"), "{arguments:?}: {said}");
        assert!(!said.contains('@'), "no address is in a warning: {said}");
        let (_, said) = texts(&desk.stranger(&[arguments, &["--quiet"]].concat()));
        assert_eq!(said.matches(warning).count(), 0, "{arguments:?}: {said}");
    }
    let checked =
        desk.mailprobe("check").arg("user-1@ok.example").args(["--state", "none"]).output().unwrap();
    assert!(!texts(&checked).1.contains("non-public"));
    let (_, said) = texts(&desk.stranger(&["check", "--fast", "user-1@gone.example"]));
    assert!(!said.contains("non-public"), "{said}");
}

#[test]
fn a_check_names_the_fault_of_the_resolver_and_each_address() {
    let lying = Desk::with("[dns]\nlie = \"no_soa\"\n");
    let address = "user-1@ok.example";
    for (flags, one) in [
        (&["--fast"][..], format!("{address}\tnot checked\t-\toutage\n")),
        (&["--state", "none"], format!("{address}\tnot checked\t-\toutage\n")),
        (&["--fast", "--json"], format!("{{\"email\":\"{address}\",\"error\":\"outage\"}}\n")),
    ] {
        let checked = lying.mailprobe("check").arg(address).args(flags).output().unwrap();
        let (lines, said) = texts(&checked);
        assert_eq!((lines, checked.status.code()), (one, Some(1)), "{said}");
        let dns = lying.net.dns();
        let why = format!(
            "mailprobe: the address could not be checked: the resolver {dns} denies every name without proof"
        );
        assert!(said.contains(&why), "{flags:?}: {said}");
    }
    let traced = lying.mailprobe("check").args([address, "--trace", "--state", "none"]).output().unwrap();
    let (lines, said) = texts(&traced);
    assert!(lines.contains("\n    dns ok.example MX: failed"), "{lines}{said}");
    let two = lying.mailprobe("check").args([address, "nonsense", "--fast"]).output().unwrap();
    let (lines, said) = texts(&two);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(said.contains("mailprobe: 1 of 2 addresses could not be checked: "), "{said}");
}

#[test]
fn a_resolver_that_does_not_answer_is_named_within_seconds() {
    let desk = Desk::new();
    let list = desk.list("list", ["user-1@ok.example".to_owned()]);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (silent_place, closed) = (silent.local_addr().unwrap().to_string(), "127.0.0.1:9".to_owned());
    for (place, why) in [(silent_place, "gave no answer within 4 s"), (closed, "cannot be reached")] {
        let began = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailprobe"));
        command.env_clear().arg("clean").arg(&list).args(["--state", "none", "--ehlo", "probe.example"]);
        command.args(["-o", "/dev/null", "--resolver", &place]).stderr(Stdio::piped());
        let mut run = command.spawn().unwrap();
        let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
        let warning = format!("the DNS resolver {place} {why}, and no address can be checked");
        assert!(lines.any(|line| line.contains(&warning)), "{warning}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let error = format!("mailprobe: no address can be checked: the resolver {place} does not answer; ");
        assert!(lines.any(|line| line.starts_with(&error)), "{error}");
        assert_eq!(run.wait().unwrap().code(), Some(1));
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}

#[test]
fn a_signal_ends_a_list_with_the_way_to_continue() {
    for signal in [Signal::INT, Signal::TERM] {
        let desk = Desk::new();
        let fast = (0..40).map(|n| format!("user-{n}@ok.example"));
        let list = desk.list("list", fast.chain((0..40).map(|n| format!("user-{n}@slow.example"))));
        // With few sessions, which are divided among the shards, the slow site could have the only one of its shard first.
        let run = desk.clean(&list, &["--state", "none", "--unordered"]);
        until_true("rows are written", || {
            std::fs::read_to_string(desk.path("list.out.partial")).is_ok_and(|rows| rows.lines().count() > 5)
        });
        kill_process(Pid::from_child(&run), signal).unwrap();
        let ended = run.wait_with_output().unwrap();
        let (_, said) = texts(&ended);
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{said}");
        let rows = std::fs::read_to_string(desk.path("list.out.partial")).unwrap().lines().count();
        assert!(
            said.contains(&format!("mailprobe: stopped after {rows} rows"))
                && said.contains("; finished checks are kept ("),
            "{said}"
        );
        assert!(said.trim_end().ends_with("list.out.partial): continue with --resume"), "{said}");
    }
}

#[test]
fn a_run_that_was_killed_is_not_continued_with_other_options() {
    let two = |n: u32, domain: &str| format!("user-{n}@{domain},user-{}@ok.example", 100 + n);
    let first = (0..40).map(|n| two(n, "ok.example"));
    let rows: Vec<String> = first.chain((40..60).map(|n| two(n, "slow.example"))).collect();
    for (signal, order) in [(Signal::KILL, ""), (Signal::INT, "--unordered")] {
        let desk = Desk::new();
        let list = desk.list("list", std::iter::once("a,b".to_owned()).chain(rows.clone()));
        let run = |flags: &[&str]| {
            let order = Some(order).filter(|order| !order.is_empty());
            let flags: Vec<&str> = flags.iter().copied().chain(["--state", "none"]).chain(order).collect();
            desk.clean(&list, &flags)
        };
        let first = run(&["--column", "a"]);
        until_true("rows are written", || {
            std::fs::read_to_string(desk.path("list.out.partial")).is_ok_and(|rows| rows.lines().count() > 5)
        });
        kill_process(Pid::from_child(&first), signal).unwrap();
        first.wait_with_output().unwrap();
        let files =
            || ["list.out.partial", "list.out.results"].map(|name| std::fs::read(desk.path(name)).unwrap());
        // mailnet reads what the run had sent.
        std::thread::sleep(Duration::from_millis(300));
        let (before, asked) = (files(), || desk.net.stats().rcpt);
        let asked_before = asked();
        for (flags, expected) in [
            (&["--column", "b"][..], "(--column a; now --column b): repeat the command with --column a, "),
            (
                &["--column", "a", "--fast"],
                "(without --fast; now --fast): repeat the command without --fast, ",
            ),
            (
                &["--column", "a", "--columns", "rule"],
                "(without --columns; now --columns rule): repeat the command ",
            ),
        ] {
            let ended = run(&[&["--resume"], flags].concat()).wait_with_output().unwrap();
            let (_, said) = texts(&ended);
            let expected = format!("list.out.partial was made with other options {expected}");
            assert!(said.contains(&expected), "{flags:?}: {said}");
            assert_eq!((ended.status.code(), asked()), (Some(2), asked_before), "{said}");
        }
        assert_eq!(files(), before);
        let ended = run(&["--resume", "--max-wait", "5"]).wait_with_output().unwrap();
        let (_, said) = texts(&ended);
        assert!(ended.status.success() && said.contains(" of them by an earlier run"), "{said}");
        let rows = std::fs::read_to_string(desk.path("list.out")).unwrap();
        assert_eq!(super::count(&rows, ",true,mailbox_exists"), 60, "{rows}");
        assert!(!desk.path("list.out.results").exists());
    }
}

#[test]
fn a_signal_loses_no_result_of_a_stream() {
    let desk = Desk::new();
    let slow = (0..40).map(|n| format!("user-{n}@slow.example"));
    let list = desk.list("list", slow.chain((0..40).map(|n| format!("user-{n}@ok.example"))));
    let mut command = desk.mailprobe("clean");
    command.arg(&list).args(["--state", "none", "--compress", "gzip"]);
    let run = command.spawn().unwrap();
    until_true("the fast domain is done", || desk.net.domain_stats("ok.example").unwrap().rcpt >= 41);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let ended = run.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.signal(), Some(Signal::INT.as_raw()), "{said}");
    let mut rows = String::new();
    let plain = lists::decompressed(Box::new(std::io::Cursor::new(ended.stdout)));
    std::io::Read::read_to_string(&mut plain.unwrap(), &mut rows).unwrap();
    assert!(rows.matches("@ok.example,true,mailbox_exists\n").count() >= 38, "{said}{rows}");
    let written = format!("mailprobe: stopped; {} rows are written, and ", rows.lines().count());
    assert!(said.contains(&written) && said.contains(" without a result are left out; "), "{said}");
}

#[test]
fn a_state_file_that_cannot_be_written_is_wrong_usage() {
    let desk = Desk::new();
    let list = desk.list("list", ["user-1@ok.example".to_owned()]);
    let (list, folder) = (list.to_str().unwrap(), desk.folder.path().to_str().unwrap());
    for state in [&format!("{folder}/no/state"), &format!("{list}/state"), folder] {
        for arguments in [["check", "user-1@ok.example"], ["clean", list]] {
            let mut command = desk.mailprobe(arguments[0]);
            let (_, said) = texts(&command.args([arguments[1], "--state", state]).output().unwrap());
            assert_eq!(command.status().unwrap().code(), Some(2), "{said}");
            let expected = " cannot be written: ";
            assert!(
                said.contains(expected) && said.contains("name another state file with --state"),
                "{said}"
            );
        }
    }
    assert_eq!(desk.net.domain_stats("ok.example").unwrap().rcpt, 0);
}

#[test]
fn a_complete_output_is_not_replaced() {
    let desk = Desk::new();
    let list = desk.list("list", ["user-1@ok.example".to_owned()]);
    let flags = ["--state", "none", "--resume"];
    // The first run of a script that always gives --resume.
    let (output, said) = desk.cleaned(&list, &flags);
    let out = list.with_extension("out");
    let anew = format!("nothing to resume for {}: starting from the first row\n", out.display());
    assert_eq!(said.matches(&anew).count(), 1, "{said}");
    let again = |flags: &[&str]| {
        let mut again = desk.mailprobe("clean");
        let ended =
            again.arg(&list).arg("-o").arg(&out).args(["--state", "none"]).args(flags).output().unwrap();
        (ended.status.code(), texts(&ended).1)
    };
    // A script can repeat it: the list is compared.
    let (code, said) = again(&["--resume"]);
    assert!(code == Some(0) && said.contains("1 of them by an earlier run"), "{said}");
    assert!(!said.contains("nothing to resume"), "{said}");
    let (code, said) = again(&[]);
    let expected =
        format!("{} exists: name another file with -o, or replace it with --force; ", out.display());
    assert!(code == Some(2) && said.contains(&expected), "{said}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), output);
    let (_, said) = again(&["--resume", "--force"]);
    let expected =
        format!("there is no {0}.partial: this run begins anew, and replaces {0} at its end", out.display());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn names_of_outputs_fit_the_format_of_the_list() {
    let desk = Desk::new();
    std::fs::write(desk.path("list.csv"), "email\nuser-1@ok.example\n").unwrap();
    std::fs::write(desk.path("list.tsv"), "email\tn\nuser-1@ok.example\t1\n").unwrap();
    std::fs::write(desk.path("list.jsonl"), "{\"email\":\"user-1@ok.example\"}\n").unwrap();
    for (list, out, is_refused) in [
        ("list.csv", "a.jsonl", true),
        ("list.csv", "a.json", true),
        ("list.csv", "a.ndjson.gz", true),
        ("list.csv", "a.tsv", true),
        ("list.csv", "a.csv", false),
        ("list.csv", "a", false),
        ("list.csv", "a.txt", false),
        ("list.tsv", "b.tsv", false),
        ("list.tsv", "b.json", true),
        ("list.jsonl", "c.jsonl", false),
        ("list.jsonl", "c.json.zst", false),
        ("list.jsonl", "c.tsv", true),
        ("list.jsonl", "c.csv", false),
    ] {
        let mut command = desk.mailprobe("clean");
        let cleaned =
            command.arg(desk.path(list)).arg("-o").arg(desk.path(out)).arg("--fast").output().unwrap();
        let (_, said) = texts(&cleaned);
        assert_eq!(cleaned.status.code(), Some(if is_refused { 2 } else { 0 }), "{list} {out}: {said}");
        assert_eq!(said.contains(": the output has the format of INPUT, which is "), is_refused, "{said}");
        assert_eq!(desk.path(out).exists(), !is_refused, "{list} {out}");
    }
}

#[test]
fn the_summary_of_fast_checks_names_those_that_passed() {
    let desk = Desk::new();
    let rows = ["user-1@ok.example", "user-2@slow.example", "user-3@ok.example", "nonsense"];
    let (_, said) = desk.cleaned(&desk.list("list", rows.map(str::to_owned)), &["--fast"]);
    assert!(said.contains("; 3 passed (75.0 %), 1 undeliverable (25.0 %)\n"), "{said}");
    assert!(!said.contains("% of them deliverable"), "{said}");
}

#[test]
fn wrong_usage_names_the_command_and_the_flag_that_was_meant() {
    for (arguments, expected) in [
        (
            "serve --port 80",
            "unexpected argument '--port' found; tip: a similar argument exists: '--listen IP:PORT'; see `mailprobe serve --help`",
        ),
        // The command has no --listen.
        ("check a@b.example --port 80", "unexpected argument '--port' found; see `mailprobe check --help`"),
        ("-q clean a.csv --only good", "see `mailprobe clean --help`"),
        ("account create a --plan", "see `mailprobe account create --help`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailprobe"));
        let output = command.env_clear().args(arguments.split(' ')).output().unwrap();
        let (_, said) = texts(&output);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{arguments}: {said}");
    }
}
