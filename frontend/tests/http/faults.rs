//! Failures below the server, and their effects on callers.

use crate::harness::server::{Server, mailprobe};
use crate::http::batches;
use crate::{until, until_true};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Prevents the creation of key files for the next hours, by folders with the names of their drafts.
fn block_new_keys(server: &Server) -> Vec<PathBuf> {
    let keys = server.data().join("keys");
    // The files of this hour and the next, for each of five classes, are created at the start.
    let known = until(|| {
        let names = fs::read_dir(&keys).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let known: Vec<(String, u64)> = names
            .filter_map(|name| {
                let (class, hour) = name.split_once('-')?;
                Some((class.to_owned(), hour.parse().ok()?))
            })
            .collect();
        if known.len() >= 10 { Ok(known) } else { Err(format!("{known:?}")) }
    });
    let is_last = |(class, hour): &(String, u64)| !known.contains(&(class.clone(), hour + 1));
    let last: Vec<_> = known.iter().filter(|key| is_last(key)).collect();
    assert!(last.len() >= 5, "{known:?}");
    let block = |(class, hour): &(String, u64), ahead: u64| {
        let path = keys.join(format!("{class}-{}.new", hour + ahead));
        fs::create_dir(&path).unwrap();
        path
    };
    last.iter().flat_map(|key| (1..=4).map(|ahead| block(key, ahead)).collect::<Vec<_>>()).collect()
}

fn await_ready(server: &Server, status: u16) {
    until_true(&format!("/readyz is {status}"), || server.get("", "/readyz").status == status);
}

#[test]
fn where_no_key_can_be_written_nothing_is_charged_and_all_goes_on_by_itself() {
    let server = Server::start(&["--test-clock", "--frontends", "1"]);
    await_ready(&server, 200);
    let batch = batches::submit(&server, &server.live, &["mailbox_exists-2000", "catch_all-2000"]);
    let batch = batches::id(&batch);
    let blocks = block_new_keys(&server);
    server.advance(2 * HOUR_MS);
    let check = |local: &str| server.verify(&server.live, &format!("{local}@example.com"));
    let (held, spent) = server.ledger();
    for _ in 0..3 {
        let refused = check("mailbox_not_found");
        refused.assert_refused(503, "temporarily_unavailable");
    }
    assert_eq!(server.ledger(), (held, spent));
    await_ready(&server, 503);
    assert_eq!(server.get("", "/livez").status, 200);
    // The answers of the batch exist, but cannot be written.
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(batches::poll(&server, &server.live, &batch)["status"], "processing");
    for block in blocks {
        fs::remove_dir(block).unwrap();
    }
    assert_eq!(check("mailbox_not_found").json()["reason"], "mailbox_not_found");
    assert_eq!(batches::reasons(&server, &server.live, &batch), ["mailbox_exists", "catch_all"]);
    await_ready(&server, 200);
    assert_eq!(server.ledger(), (0, 3), "each is charged once");
}

#[test]
fn a_server_without_its_keys_does_not_start() {
    let mut server = Server::start(&[]);
    let data = server.data();
    let of_data = |command: &str| mailprobe([command, "--data", data.to_str().unwrap()]);
    let refused = of_data("accept-keys");
    assert_eq!(refused.status.code(), Some(1), "a server has them: {refused:?}");
    server.signal(libc::SIGKILL);
    server.wait();
    let (keys, kept) = (data.join("keys"), data.join("kept"));
    fs::rename(&keys, &kept).unwrap();
    for _ in 0..2 {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        let refused = mailprobe(listen);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("has no keys") && said.contains("mailprobe accept-keys"), "{said}");
        assert!(!keys.exists());
    }
    let accepted = of_data("accept-keys");
    assert_eq!(accepted.status.code(), Some(0), "{accepted:?}");
    let server = server.restart_after_kill();
    assert_eq!(server.get(&server.live, "/v1/account").status, 200, "API keys are good still");
}

#[test]
fn a_grant_that_is_repeated_under_its_id_is_made_once() {
    let server = Server::start(&[]);
    let before = server.credits();
    let refused =
        mailprobe(["account", "grant", "default", "5", "--id", "nonsense", "--data", "/nonexistent"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let shown = server.administer(&["account", "grant", "default", "5"]);
    assert!(shown.contains("default"), "{shown}");
    assert_eq!(server.credits(), before + 5);
    let shown: Value = server.administer_json(&["account", "show", "default"]);
    // An id of another grant repeats nothing.
    let data = server.data();
    let entries = shown["entries"].as_array().unwrap_or_else(|| panic!("{shown}"));
    let id = entries.iter().find(|entry| entry["granted"] == 5).unwrap()["id"].as_str().unwrap();
    let other = mailprobe(["account", "grant", "default", "6", "--id", id, "--data", data.to_str().unwrap()]);
    assert!(String::from_utf8(other.stderr).unwrap().contains("the id is already in use"));
    assert_eq!(other.status.code(), Some(1));
    for _ in 0..2 {
        server.administer(&["account", "grant", "default", "5", "--id", id]);
        assert_eq!(server.credits(), before + 5);
    }
}
