//! Backups of a running server, and their restoration.

use crate::harness::server::{Server, mailprobe};
use crate::http::batches;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

fn run(data: &Path, arguments: &[&OsStr]) -> Output {
    mailprobe(arguments.iter().copied().chain(["--data".as_ref(), data.as_os_str()]))
}

fn back_up(data: &Path, file: &Path) -> Output {
    run(data, &["backup".as_ref(), file.as_os_str()])
}

fn restore(file: &Path, data: &Path) -> Output {
    run(data, &["restore".as_ref(), file.as_os_str()])
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.starts_with("mailprobe: ") && said.lines().count() == 1, "{said}");
    said
}

fn account(server: &Server) -> Value {
    server.administer_json(&["account", "show", "default"])
}

fn check(server: &Server, local: &str) -> u16 {
    server.verify(&server.live, &format!("{local}@example.com")).status
}

#[test]
fn a_server_is_restored_as_it_was() {
    let server = Server::start(&[]);
    for n in 0..5 {
        assert_eq!(check(&server, &format!("mailbox_exists-{n}")), 200);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("backup");
    let done = AtomicBool::new(false);
    // The first backup is written during checks; the second without any, and it is restored.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                for n in 0..10 {
                    assert_eq!(check(server, &format!("role_account-{}", thread * 10 + n)), 200);
                }
                done.store(true, Ordering::SeqCst);
            });
        }
        let busy = elsewhere.path().join("busy");
        let mut backups = 0;
        while backups == 0 || !done.load(Ordering::SeqCst) {
            let output = run(&server.data(), &["backup".as_ref(), busy.as_ref(), "--force".as_ref()]);
            assert!(output.status.success(), "{output:?}");
            backups += 1;
        }
        let data = elsewhere.path().join("from-busy");
        assert!(restore(&busy, &data).status.success());
        let output =
            run(&data, &["account".as_ref(), "show".as_ref(), "default".as_ref(), "--json".as_ref()]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&shown["audit"]["faults"], &shown["audit"]["open_holds"]), (&json!([]), &json!(0)));
    });
    let batch = batches::id(&batches::submit(&server, &server.live, &["catch_all-9", "mailbox_exists-9"]));
    let results = batches::completed(&server, &server.live, &batch);
    let expected = account(&server);
    let output = back_up(&server.data(), &file);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!elsewhere.path().join("backup.new").exists());
    // Later changes are not in the backup, and it needs nothing of the killed server.
    assert_eq!(check(&server, "catch_all"), 200);
    let (live, test) = (server.live.clone(), server.test.clone());
    let old = server.data();
    server.signal(libc::SIGKILL);

    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let output = restore(&file, &data);
    assert!(output.status.success(), "{output:?}");
    // The file is not part of a backup, but the test reads its keys there.
    fs::copy(old.join("first-keys"), data.join("first-keys")).unwrap();
    let server = Server::start_in(folder, &[]);
    assert_eq!((&server.live, &server.test), (&live, &test));
    let found = account(&server);
    for part in ["account", "entries", "audit"] {
        assert_eq!(found[part], expected[part], "{part}");
    }
    assert_eq!(found["keys"].as_array().map(Vec::len), expected["keys"].as_array().map(Vec::len));
    assert_eq!(server.credits(), 53);
    assert_eq!(batches::poll(&server, &server.live, &batch), results, "what is sealed can be opened");
    let known = server.verify(&server.live, "mailbox_exists-3@example.com");
    assert_eq!(known.json()["cached"], true);
    assert_eq!(check(&server, "mailbox_exists"), 200);
    assert_eq!(server.get(&server.test, "/v1/account").status, 200);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let mut server = Server::start(&[]);
    let data = server.data();
    let file = server.folder().join("backup");
    assert!(back_up(&data, &file).status.success());
    assert!(refused(&back_up(&data, &file)).contains("exists; name another file"));
    let draft = server.folder().join("other.new");
    fs::write(&draft, "x").unwrap();
    assert!(refused(&back_up(&data, &server.folder().join("other"))).contains("use --force"));
    assert_eq!(fs::read(&draft).unwrap(), b"x");
    assert!(refused(&back_up(&data, Path::new("/nonexistent/file"))).contains("choose another path"));
    // Neither a running nor a stopped server's folder is restored over, and a folder in use is not compacted.
    assert!(refused(&restore(&file, &data)).contains("is in use by another mailprobe"));
    assert!(refused(&run(&data, &["compact".as_ref()])).contains("is in use by another mailprobe; stop it"));
    server.signal(libc::SIGTERM);
    server.wait();
    assert!(refused(&restore(&file, &data)).contains("is not empty; move its content away"));
    assert!(
        refused(&restore(&data.join("first-keys"), &server.folder().join("n")))
            .contains("not a backup of mailprobe")
    );
    let output = run(&data, &["compact".as_ref()]);
    assert!(output.status.success(), "{output:?}");
    let output = run(&data, &["backup".as_ref(), file.as_ref(), "--force".as_ref()]);
    assert!(output.status.success(), "a stopped store is backed up too: {output:?}");
}
