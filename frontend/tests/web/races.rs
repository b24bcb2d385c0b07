//! Requests that stop between what they verify and what they write, while a password, a session, a key or the account ends: in the
//! queue of passwords, before the last bytes of a body, and behind a page that was loaded before.

use crate::harness::client::{Answer, Connection, escape};
use crate::harness::server::{Server, mailprobe_with, post};
use crate::oauth::assistant;
use crate::web::browser::{Browser, EMAIL, PASSWORD, Page, signed_up};
use crate::web::keys::make;
use crate::web::lists::form;
use crate::web::shares::try_once;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

const NEXT: &str = "another horse battery";
/// Longer than the head of a request needs to be read.
const READ_PAUSE: Duration = Duration::from_millis(300);

/// What ends while something is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Change,
    Reset,
    SignOutEverywhere,
    Deletion,
    Revocation,
}

const OF_SESSIONS: [End; 4] = [End::Change, End::Reset, End::SignOutEverywhere, End::Deletion];
const OF_KEYS: [End; 2] = [End::Revocation, End::Deletion];

fn shown(server: &Server) -> Value {
    server.administer_json(&["account", "show", EMAIL])
}

fn end(server: &Server, owner: &mut Browser, of: End) {
    match of {
        End::Change => {
            let page = owner.get("/sessions");
            owner
                .submit(&page, &[("password", PASSWORD), ("new-password", NEXT)])
                .says("The password is set.");
        }
        End::Reset => {
            let data = server.data();
            let line = ["account", "set-password", EMAIL, "--data", data.to_str().unwrap()];
            assert!(mailprobe_with(&line, &format!("{NEXT}\n")).status.success());
        }
        End::SignOutEverywhere => {
            let page = owner.get("/sessions");
            assert_eq!(owner.press(&page, "/sessions/end-others").status, 200);
        }
        End::Deletion => {
            let name = shown(server)["account"]["name"].as_str().unwrap().to_owned();
            server.administer(&["account", "delete", "--yes", &name]);
        }
        End::Revocation => {
            let name = shown(server)["account"]["name"].as_str().unwrap().to_owned();
            let keys: Value = server.administer_json(&["key", "list", &name]);
            let keys = keys.as_array().or_else(|| keys["keys"].as_array()).unwrap();
            server.administer(&["key", "revoke", keys[0]["id"].as_str().unwrap()]);
        }
    }
}

/// A second session of the same user.
fn thief(server: &Server) -> Browser {
    let mut browser = Browser::new(server);
    let page = browser.get("/signin");
    assert_eq!(browser.submit(&page, &[("email", EMAIL), ("password", PASSWORD)]).status, 200);
    browser
}

/// A request without its last bytes, and these.
struct Halted {
    connection: Connection,
    rest: Vec<u8>,
}

impl Halted {
    /// Sends a request until before its last bytes, and waits until the server has read that.
    fn send(server: &Server, request: &[u8]) -> Halted {
        let (first, rest) = request.split_at(request.len() - 8);
        let mut connection = server.connect();
        connection.send(first);
        thread::sleep(READ_PAUSE);
        Halted { connection, rest: rest.to_vec() }
    }

    fn finish(mut self) -> Answer {
        // A server that has refused may have closed.
        self.connection.try_send(&self.rest);
        self.connection.read()
    }
}

/// The upload of a list by a browser.
fn upload(server: &Server, browser: &mut Browser) -> Vec<u8> {
    let token = browser.get("/lists").token();
    let (first, body) = form(&token, "list.csv", b"one@example.com\ntwo@example.com", "");
    let head = format!(
        "{first}Host: {0}\r\nOrigin: http://{0}\r\nSec-Fetch-Site: same-origin\r\nCookie: {1}\r\n\r\n",
        server.address,
        browser.cookies()
    );
    [head.as_bytes(), &body].concat()
}

/// The requests of a key that have a body.
fn by_key(key: &str) -> [(&'static str, Vec<u8>); 4] {
    let list = "one@example.com\ntwo@example.com\n";
    let content = format!(
        "POST /v1/lists?name=list.csv HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {key}\r\nContent-Type: text/csv\r\n\
         Content-Length: {}\r\n\r\n{list}",
        list.len()
    );
    let hook = json!({ "url": "https://hooks.example/" }).to_string();
    let batch = json!({ "emails": ["one@example.com"] }).to_string();
    let check = json!({ "email": "one@example.com", "mode": "fast" }).to_string();
    [
        ("upload", content.into_bytes()),
        ("webhook", post(key, "/v1/webhooks", &hook).into_bytes()),
        ("batch", post(key, "/v1/verify/batch", &batch).into_bytes()),
        ("check", post(key, "/v1/verify", &check).into_bytes()),
    ]
}

#[test]
fn an_upload_ends_with_its_session() {
    let (server, mut owner) = signed_up();
    let mut browser = thief(&server);
    let whole = Halted::send(&server, &upload(&server, &mut browser)).finish();
    assert_eq!(whole.status, 303, "the session is valid: {whole:?}");
    for of in OF_SESSIONS {
        let (server, mut owner) = signed_up();
        let mut browser = thief(&server);
        let halted = Halted::send(&server, &upload(&server, &mut browser));
        end(&server, &mut owner, of);
        let answer = halted.finish();
        assert_eq!(answer.status, 403, "{of:?}: {answer:?}");
        assert_eq!(browser.get_once("/sessions").status, 303, "{of:?}");
        if matches!(of, End::Change | End::SignOutEverywhere) {
            is_gone(&mut owner);
        }
    }
    assert!(owner.get("/lists").text().contains("list.csv"));
}

#[test]
fn a_request_ends_with_its_key() {
    let (server, mut owner) = signed_up();
    let key = make(&mut owner, "", "live");
    for (what, request) in by_key(&key) {
        let answer = Halted::send(&server, &request).finish();
        assert!((200..300).contains(&answer.status), "{what}: the key is valid: {answer:?}");
    }
    for of in OF_KEYS {
        let (server, mut owner) = signed_up();
        let key = make(&mut owner, "", "live");
        let halted = by_key(&key).map(|(what, request)| (what, Halted::send(&server, &request)));
        end(&server, &mut owner, of);
        for (what, halted) in halted {
            let answer = halted.finish();
            assert_eq!((answer.status, answer.error().as_str()), (401, "api_key_revoked"), "{what} {of:?}");
        }
        if of == End::Revocation {
            owner.get("/batches").says("No batches.");
            owner.get("/webhooks").says("There are no webhooks.");
            is_gone(&mut owner);
        }
    }
}

/// Waits until the list is gone: its deletion is not awaited before the answer.
fn is_gone(owner: &mut Browser) {
    let gone = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        !owner.get("/lists").text().contains("list.csv")
    });
    assert!(gone, "the list of an upload that was refused stays");
}

#[test]
fn pages_and_codes_from_before_an_end_are_worth_nothing() {
    for of in OF_SESSIONS {
        let (server, mut owner) = signed_up();
        let mut browser = thief(&server);
        let client = assistant::register(&server, assistant::CALLBACK);
        let consent = browser.get(&assistant::consent_path(&assistant::asking(&server, &client)));
        let code = assistant::allowed(&server, &mut browser, &client, 1, 1);
        let (keys, hooks) = (browser.get("/keys"), browser.get("/webhooks"));
        end(&server, &mut owner, of);
        let leads_to_sign_in =
            |page: &Page| page.header("location").is_some_and(|to| to.starts_with("/signin"));
        let send = |browser: &mut Browser, page: &Page, action: &str, fields: &str| {
            let (_, hidden) = page.forms().into_iter().find(|(at, _)| at == action).unwrap();
            let hidden: Vec<String> =
                hidden.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
            browser.post(action, &format!("{}&{fields}", hidden.join("&")))
        };
        let key = send(&mut browser, &keys, "/keys", "label=&mode=live&expires=&fast=1");
        assert!(leads_to_sign_in(&key), "{of:?}: {}", key.status);
        let hook =
            send(&mut browser, &hooks, "/webhooks", "url=https://hooks.example/&label=&batch.completed=1");
        assert!(leads_to_sign_in(&hook), "{of:?}: {}", hook.status);
        let decided = assistant::decide(&mut browser, &consent, "1", "1", "allow");
        assert!(leads_to_sign_in(&decided), "{of:?}: {}", decided.status);
        assert_eq!(assistant::redeem(&server, &client, &code).status, 400, "{of:?}");
        if matches!(of, End::Change | End::SignOutEverywhere) {
            owner.get("/keys").says("There are no active keys");
            owner.get("/webhooks").says("There are no webhooks.");
            owner.get("/connections").says("No assistant is connected.");
        }
    }
}

#[test]
fn a_message_of_an_assistant_ends_with_its_connection() {
    let (server, mut owner) = signed_up();
    let tokens = assistant::connect(&server, &mut owner, 1, 1);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} }).to_string();
    let request = post(&tokens.access, "/mcp", &body).into_bytes();
    assert_ne!(Halted::send(&server, &request).finish().status, 401, "the token is valid");
    let halted = Halted::send(&server, &request);
    let page = owner.get("/connections");
    owner.press(&page, "/connections/end").says("The connection is ended.");
    assert_eq!(halted.finish().status, 401);
}

/// Passwords that wait, `each` from every one of these networks, in a turn over the networks.
fn crowd<'s>(scope: &'s thread::Scope<'s, '_>, server: &'s Server, networks: &[[u8; 4]], each: usize) {
    for &network in networks {
        let mut browser = Browser::at(server, network);
        let token = browser.get("/signin").token();
        for number in 0..each {
            let email = format!("user{number}.{}@example.com", network[3]);
            let (browser, token) = (Browser::at(server, network).with(&browser), token.clone());
            scope.spawn(move || try_once(&browser, &token, &email));
        }
    }
    thread::sleep(READ_PAUSE);
}

/// Sends the form of a page, and returns the answer without a redirect, with its time.
fn wait_for(mut browser: Browser, page: &Page, fields: &[(&str, &str)]) -> (Browser, Page, Instant) {
    let page = browser.submit(page, fields);
    (browser, page, Instant::now())
}

/// Repeats a race until it is one. On a busy machine, what should wait may be over before its end is acknowledged.
fn until_it_waits(race: impl Fn() -> bool) {
    assert!((0..5).any(|_| race()), "it never waited for long enough");
}

#[test]
fn what_waits_in_the_queue_of_passwords_ends_with_the_password() {
    for of in [End::Reset, End::Deletion] {
        until_it_waits(|| waits_in_the_queue(of));
    }
}

/// Whether everything waited until its end was acknowledged, and ended with it.
fn waits_in_the_queue(of: End) -> bool {
    let (server, mut owner) = signed_up();
    let browser = thief(&server);
    let mut at_sign_in = Browser::at(&server, [127, 0, 0, 8]);
    let mut at_sign_up = Browser::at(&server, [127, 0, 0, 9]);
    let sign_in = at_sign_in.get("/signin");
    let sign_up = at_sign_up.get("/signup");
    let mut at_change = Browser::new(&server).with(&browser);
    let change = at_change.get("/sessions");
    thread::scope(|scope| {
        let networks: Vec<[u8; 4]> = (1..=8).map(|last| [127, 0, 1, last]).collect();
        crowd(scope, &server, &networks, 3);
        let old = [("email", EMAIL), ("password", PASSWORD)];
        let sign_in = scope.spawn(move || wait_for(at_sign_in, &sign_in, &old));
        // After a deletion, a sign-up would make another account.
        let sign_up = (of == End::Reset).then(|| scope.spawn(move || wait_for(at_sign_up, &sign_up, &old)));
        let fields = [("password", PASSWORD), ("new-password", "a third horse battery")];
        let change = scope.spawn(move || wait_for(at_change, &change, &fields));
        thread::sleep(READ_PAUSE);
        end(&server, &mut owner, of);
        let acknowledged = Instant::now();
        let waited =
            [("sign-in", Some(sign_in), 401), ("sign-up", sign_up, 409), ("change", Some(change), 403)];
        for (what, waiting, status) in waited {
            let Some((browser, page, at)) = waiting.map(|waiting| waiting.join().unwrap()) else {
                continue;
            };
            if at <= acknowledged {
                return false;
            }
            assert_eq!(page.status, status, "{what} {of:?}: {}", page.plain());
            let mut browser = browser;
            assert_eq!(browser.get_once("/sessions").status, 303, "{what} {of:?}");
        }
        true
    })
}

#[test]
fn a_sign_in_that_waits_ends_with_a_change_that_overtakes_it() {
    until_it_waits(|| {
        let (server, mut owner) = signed_up();
        let network = [127, 0, 0, 8];
        let mut browser = Browser::at(&server, network);
        let page = browser.get("/signin");
        let waited = thread::scope(|scope| {
            // The sign-in is the fourth of its network, and the change is alone in its lane.
            crowd(scope, &server, &[network, [127, 0, 1, 1], [127, 0, 1, 2]], 3);
            let old = [("email", EMAIL), ("password", PASSWORD)];
            let waiting = scope.spawn(move || wait_for(browser, &page, &old));
            thread::sleep(READ_PAUSE / 3);
            end(&server, &mut owner, End::Change);
            let acknowledged = Instant::now();
            let (mut browser, page, at) = waiting.join().unwrap();
            if at <= acknowledged {
                return false;
            }
            assert_eq!(page.status, 401, "{}", page.plain());
            assert_eq!(browser.get_once("/sessions").status, 303);
            true
        });
        assert_eq!(owner.get_once("/sessions").status, 200);
        waited
    });
}
