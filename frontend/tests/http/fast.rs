//! `mode=fast`: free for every key, without contact to a mail server.

use crate::harness::server::{Server, checked, scripted};
use serde_json::{Value, json};

fn fast(server: &Server, key: &str, email: &str) -> Value {
    let got = server.post(key, "/v1/verify?mode=fast", &json!({ "email": email }).to_string());
    assert_eq!(got.status, 200, "{email}: {}", got.body);
    got.json()
}

fn checks(mx: bool, disposable: bool, role_account: bool, free_email: bool) -> Value {
    json!({ "mx": mx, "disposable": disposable, "role_account": role_account, "free_email": free_email })
}

#[test]
fn an_outage_is_told_where_the_answer_hangs_on_it() {
    let server = Server::start(&[]);
    for (email, code) in
        [("a@outage.example", "provider_unavailable"), ("a@full.example", "temporarily_unavailable")]
    {
        let got =
            server.post(&server.live, "/v1/verify", &json!({ "email": email, "mode": "fast" }).to_string());
        assert_eq!((got.status, got.error().as_str()), (503, code), "{email}");
        assert!(got.header("retry-after").is_some());
    }
}

#[test]
fn the_command_line_checks_fast_too() {
    let lines = checked(&["--fast", "joe@absent.example", "nobody"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["reason"], &lines[0]["mode"]), (&json!("no_mx"), &json!("fast")));
    assert_eq!((&lines[1]["reason"], &lines[1]["checks"]), (&json!("invalid_syntax"), &json!(null)));

    let output = scripted(&["check", "--fast", "joe@gmial.com"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains(
            "joe@gmial.com\tnot deliverable\tpossible_typo\tfast\n    did you mean joe@gmail.com?\n"
        ),
        "{said}"
    );

    let output = scripted(&["check", "--fast", "a@outage.example"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("list.txt"), "a@some.example\na@absent.example\nnobody@\na@gmial.com\n").unwrap();
    let output = scripted(&["clean", "--fast", &path("list.txt"), "-o", &path("out")]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        std::fs::read_to_string(path("out")).unwrap(),
        "a@some.example,,fast_check_passed\na@absent.example,false,no_mx\nnobody@,false,invalid_syntax\n\
         a@gmial.com,false,possible_typo\n"
    );
}

#[test]
fn the_lists_of_the_operator_come_first_and_are_exchanged_on_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let lists = ["allowed", "disposable", "role", "free", "typo_targets"];
    let keys: String = lists.iter().map(|list| format!("{list} = \"{list}\"\n")).collect();
    file("mailprobe.toml", &format!("[lists]\n{keys}"));
    file("allowed", "mailinator.com # ours\n");
    file("disposable", "throw.example\n");
    file("role", "kasse\n");
    file("free", "post.example\n");
    file("typo_targets", "ourcompany.example\n");
    let config = folder.path().join("mailprobe.toml");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let key = server.test.clone();
    let check = |email: &str, reason: &str, of: [bool; 4]| {
        let got = fast(&server, &key, email);
        assert_eq!(got["reason"], reason, "{email}");
        assert_eq!(got["checks"], checks(of[0], of[1], of[2], of[3]), "{email}");
        got
    };
    check("Kasse@mailinator.com", "fast_check_passed", [true, false, true, false]);
    check("a@x.throw.example", "disposable", [true, true, false, false]);
    check("a@post.example", "fast_check_passed", [true, false, false, true]);
    let got = check("a@ourcompnay.example", "possible_typo", [true, false, false, false]);
    assert_eq!(got["suggestion"], "a@ourcompany.example");

    // A domain that this thread has in its cache too.
    file("disposable", "post.example\nnot a domain\n");
    server.signal(libc::SIGHUP);
    server.logs("disposable:2: ", 1);
    check("a@post.example", "fast_check_passed", [true, false, false, true]);
    file("disposable", "post.example\n");
    server.signal(libc::SIGHUP);
    server.logs("the configuration was read again: ", 1);
    check("a@post.example", "disposable", [true, true, false, true]);
    check("a@x.throw.example", "fast_check_passed", [true, false, false, false]);
}
