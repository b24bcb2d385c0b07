//! `mailprobe clean` as scripts meet it: files, exit codes, and what is said on standard error.

use crate::server::{mailprobe, scripted};
use std::fs;

#[test]
fn a_list_is_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The first answer comes last.
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
    assert!(said.starts_with("4 addresses in 0."), "{said}");
    assert!(said.contains("2 deliverable (50.0 %)") && !said.contains('@'), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn an_outage_ends_with_exit_code_1_and_resume_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("list.txt"), "catch_all@b.com\noutage-100@a.com\n").unwrap();
    let arguments = ["clean", &path("list.txt"), "-o", &path("out"), "--max-outage", "0"];
    let output = scripted(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("mailprobe: nobody can be asked: ") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_to_string(path("out.partial")).unwrap(), "catch_all@b.com,false,catch_all\n");

    let output = scripted(&[&arguments[..], &["--resume"]].concat());
    assert_eq!(output.status.code(), Some(1), "it is still down");
    fs::write(path("list.txt"), "catch_all@b.com\n").unwrap();
    assert!(scripted(&[&arguments[..], &["--resume"]].concat()).status.success());
    assert_eq!(fs::read_to_string(path("out")).unwrap(), "catch_all@b.com,false,catch_all\n");
}

#[test]
fn what_is_no_list_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.csv");
    let list = list.to_str().unwrap();
    fs::write(list, "id,name\n1,Joe\n").unwrap();
    for (arguments, code, expected) in [
        (&["clean", list][..], 2, "no column looks like addresses: the list has id, name; "),
        (&["clean", list, "--column", "email"], 2, "there is no column `email`: the list has id, name; "),
        (&["clean", list, "-o", list], 2, "would overwrite the input: "),
        (&["clean", list, "--resume"], 2, "--resume needs a file to go on with: "),
        (&["clean", "/nonexistent/list"], 1, "/nonexistent/list cannot be read: "),
        (&["clean"], 2, "<INPUT>"),
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
