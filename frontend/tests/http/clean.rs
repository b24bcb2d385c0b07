//! `mailprobe clean` from the view of scripts: files, exit codes, and the text on standard error.

use crate::harness::server::{mailprobe, scripted};
use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

#[test]
fn a_list_is_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The first row is answered last.
    let list = "id,email\n1,mailbox_exists-200@a.com\n2,catch_all@b.com\n3,nobody\n4,role_account@c.com\n";
    fs::write(path("list.csv"), list).unwrap();
    let output = scripted(&["clean", &path("list.csv"), "-o", &path("out.csv"), "--no-progress"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        fs::read_to_string(path("out.csv")).unwrap(),
        "id,email,deliverable,reason\n1,mailbox_exists-200@a.com,true,mailbox_exists\n\
         2,catch_all@b.com,false,catch_all\n3,nobody,false,invalid_syntax\n4,role_account@c.com,true,role_account\n"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("4 rows in 0."), "{said}");
    assert!(said.contains("2 deliverable (50.0 %)") && !said.contains('@'), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn an_outage_ends_with_exit_code_1_and_resume_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("list.txt"), "catch_all@b.com\noutage-100@a.com\n").unwrap();
    let arguments =
        ["clean", &path("list.txt"), "-o", &path("out"), "--max-outage", "0", "--resolver", "192.0.2.53"];
    let output = scripted(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("mailprobe: no address can be checked: ") && said.lines().count() == 1,
        "{said}"
    );
    assert!(said.contains(" the DNS resolver gives no credible answers, "), "{said}");
    assert_eq!(fs::read_to_string(path("out.partial")).unwrap(), "catch_all@b.com,false,catch_all\n");

    let output = scripted(&[&arguments[..], &["--resume"]].concat());
    assert_eq!(output.status.code(), Some(1), "it is still down");
    fs::write(path("list.txt"), "catch_all@b.com\n").unwrap();
    assert!(scripted(&[&arguments[..], &["--resume"]].concat()).status.success());
    assert_eq!(fs::read_to_string(path("out")).unwrap(), "catch_all@b.com,false,catch_all\n");
}

#[test]
fn a_resolver_that_denies_everything_is_named() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let resolver = socket.local_addr().unwrap().to_string();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let ends = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("list.txt"), "a@example.com\nnobody\nb@example.net\n").unwrap();
    // Only the default wait is short.
    for (flags, least_s) in [(&[][..], 5), (&["--fast", "--max-outage", "7"], 7)] {
        let (list, began) = (path("list.txt"), Instant::now());
        let arguments = [&["clean", &list, "--resolver", &resolver], flags].concat();
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut message = [0; 4096];
                while !ends.load(SeqCst) {
                    let Ok((length, client)) = socket.recv_from(&mut message) else { continue };
                    // NXDOMAIN, without an SOA record.
                    message[2..4].copy_from_slice(&[0x81, 0x83]);
                    socket.send_to(&message[..length], client).unwrap();
                }
            });
            let output = mailprobe(arguments);
            ends.store(true, SeqCst);
            output
        });
        ends.store(false, SeqCst);
        let lasted_s = began.elapsed().as_secs();
        assert!((least_s..60).contains(&lasted_s), "{flags:?}: {lasted_s} s");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected =
            format!("mailprobe: no address can be checked: the resolver {resolver} denies every name");
        assert!(said.lines().last().is_some_and(|line| line.starts_with(&expected)), "{said}");
        assert!(said.contains("--resolver"), "{said}");
    }
}

#[test]
fn what_is_no_list_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.csv");
    let list = list.to_str().unwrap();
    fs::write(list, "id,name\n1,Joe\n").unwrap();
    for (arguments, code, expected) in [
        (
            &["clean", list][..],
            2,
            "has no address in its first rows, read as CSV, separated by `,`, in UTF-8, with 2 columns (id, name): ",
        ),
        (&["clean", list, "--column", "email"], 2, "there is no column `email`: the list has id, name; "),
        (&["clean", list, "-o", list], 2, "would overwrite the input: "),
        (&["clean", list, "--resume"], 2, "--resume needs an output file: "),
        (&["clean", "/nonexistent/list"], 2, "/nonexistent/list cannot be read: "),
        (&["clean", "--fast"], 2, "<INPUT>"),
        (&["clean", list, "--format", "xls"], 2, "xls"),
    ] {
        let output = mailprobe(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.starts_with("mailprobe: ") && said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(fs::read_to_string(list).unwrap(), "id,name\n1,Joe\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn runs_share_a_state_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("list.txt"), "mailbox_exists-6000@a.com\n").unwrap();
    fs::write(path("short.txt"), "catch_all@a.com\n").unwrap();
    let (list, out, state) = (path("list.txt"), path("out"), path("state"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| scripted(&["clean", &list, "-o", &out, "--state", &state]));
        while !folder.path().join("state").exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Another run works, with the same counts, without counts, with another state file, and as a fast check.
        for arguments in [
            &["--state", &state][..],
            &["--state", "none"],
            &["--state", &path("other")],
            &["--fast", "--state", &state],
        ] {
            let output =
                scripted(&[&["clean", &path("short.txt"), "-o", "/dev/null"][..], arguments].concat());
            assert!(output.status.success() && !first.is_finished(), "{output:?}");
        }
        assert!(scripted(&["check", "catch_all@a.com", "--state", &state]).status.success());
        assert!(first.join().unwrap().status.success());
    });
    let kept = fs::read_to_string(&state).unwrap();
    assert!(kept.starts_with("mailprobe state 1\nsecret ") && !kept.contains("a.com"), "{kept}");

    fs::write(&state, &kept[..kept.len() / 2]).unwrap();
    for command in [&["clean", &path("short.txt"), "-o", &path("out3")][..], &["check", "catch_all@a.com"]] {
        let output = scripted(&[command, &["--state", &state]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("state is damaged at line 2: restore a copy, or move the file away"), "{said}");
    }
    assert!(!folder.path().join("out3").exists());
}

#[test]
fn a_spent_budget_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("list.txt"), "budget@a.com\ncatch_all@b.com\n").unwrap();
    let output = scripted(&["clean", &path("list.txt"), "-o", &path("out"), "--summary", &path("summary")]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("\n    refusal_budget                     1  not asked: "), "{said}");
    assert!(
        said.contains(": check again after an hour; --max-wait 1h tries again within one run; many rows"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(path("out")).unwrap(),
        "budget@a.com,false,unverifiable\ncatch_all@b.com,false,catch_all\n"
    );
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(path("summary")).unwrap()).unwrap();
    assert_eq!(summary["left"][0]["rule"], "refusal_budget");
    assert_eq!(summary["left"][0]["max_wait_s"], 3600);

    let output = scripted(&["check", "budget@a.com", "catch_all@b.com"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 of the addresses was not checked: ") && said.contains("in 40 min"), "{said}");
}
