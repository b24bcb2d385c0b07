//! API gateways: the account that pays, the refusals, and that their headers have no meaning without the secret.

use crate::at_once;
use crate::harness::client::{Answer, Call};
use crate::harness::server::{Server, get, mailprobe, post};
use serde_json::{Value, json};
use std::fs;

const SECRET: &str = "correct-horse-battery-staple";
const OLD_SECRET: &str = "tr0ub4dor-and-3-more-words";

/// Two gateways with different names of headers.
fn config(secrets: &str) -> String {
    let gateway = |name: &str, word: &str, secrets: &str, more: &str| {
        format!(
            "[[gateway]]\nname = \"{name}\"\nheader = \"X-{word}-Secret\"\nsecrets = {secrets}\n\
             user_header = \"X-{word}-User\"\nplan_header = \"X-{word}-Plan\"\n{more}\
             [gateway.plans]\nBASIC = \"free\"\nPRO = \"starter\"\n"
        )
    };
    let tight = "[[plan]]\nid = \"tight\"\nname = \"Tight\"\nmonthly_credits = 9\n\
                 [plan.limits]\nverify = 2\nfast = 1\nfair_use_per_second = 1\nfair_use_burst = 1\n";
    let plans = "[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 100\n\
                 [[plan]]\nid = \"starter\"\nname = \"Starter\"\nmonthly_credits = 5000\n";
    let rapid = gateway("rapid", "Rapid", secrets, "users_max = 3\n");
    let other = gateway("other", "Other", "[\"another-secret\"]", "");
    format!("{plans}{tight}{rapid}TIGHT = \"tight\"\n{other}")
}

fn start_with(secrets: &str) -> Server {
    Server::start_with(&config(secrets), &[])
}

fn start() -> Server {
    start_with(&format!("[\"{SECRET}\"]"))
}

fn body(address: &str) -> String {
    json!({ "email": address }).to_string()
}

/// A request with these headers and no key.
fn send(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let call = Call::new(method, path).header("Content-Type", "application/json").bytes(body);
    server.send(headers.iter().fold(call, |call, (name, value)| call.header(name, value)).encode())
}

/// The headers in which the gateway names a user.
fn of<'h>(user: &'h str, plan: &'h str) -> [(&'h str, &'h str); 3] {
    [("X-Rapid-Secret", SECRET), ("X-Rapid-User", user), ("X-Rapid-Plan", plan)]
}

fn check(server: &Server, user: &str, plan: &str, address: &str) -> Answer {
    send(server, "POST", "/v1/verify", &of(user, plan), &body(address))
}

/// The command line's output about a gateway's user.
fn account(server: &Server, name: &str) -> Value {
    let shown = server.administer_json(&["account", "show", name]);
    assert_eq!(shown["audit"]["faults"], json!([]));
    shown["account"].clone()
}

fn spent(server: &Server, name: &str) -> u64 {
    account(server, name)["balance"]["spent"].as_u64().unwrap()
}

/// The number of accounts apart from the first.
fn guests(server: &Server) -> usize {
    let list: Value = server.administer_json(&["account", "list"]);
    list.as_array().unwrap().len() - 1
}

/// The log of a server after its end.
fn whole_log(mut server: Server) -> String {
    server.signal(libc::SIGTERM);
    assert!(server.wait().success());
    server.log()
}

#[test]
fn a_guest_is_billed_once_on_an_account_of_its_own() {
    let server = start();
    let answer = check(&server, "alice", "BASIC", "mailbox_exists@example.com");
    let expected = json!({
        "email": "mailbox_exists@example.com", "deliverable": true, "reason": "mailbox_exists",
        "credits_remaining": 99, "cached": false,
    });
    assert_eq!((answer.status, answer.json()), (200, expected));
    let alice = account(&server, "gateway:rapid:alice");
    assert_eq!((alice["plan"].as_str(), alice["balance"]["spent"].as_u64()), (Some("free"), Some(1)));
    assert_eq!(server.credits(), 100, "the first account pays for nobody else");

    // GET is offered too, and so are fast checks, which are free.
    let answer = send(&server, "GET", "/v1/verify?email=role_account@example.com", &of("alice", "BASIC"), "");
    assert_eq!(answer.json()["credits_remaining"], 98);
    let fast = json!({ "email": "a@example.com", "mode": "fast" }).to_string();
    let answer = send(&server, "POST", "/v1/verify", &of("alice", "BASIC"), &fast);
    assert_eq!((answer.status, answer.json()["mode"].as_str()), (200, Some("fast")));
    assert_eq!(check(&server, "alice", "BASIC", "no address").json()["reason"], "invalid_syntax");
    assert_eq!((spent(&server, "gateway:rapid:alice"), guests(&server)), (2, 1));
}

#[test]
fn a_guest_is_not_cut_short_either() {
    let server = start();
    let answer = check(&server, "alice", "BASIC", "mailbox_exists-44900@example.com");
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (200, Some("mailbox_exists")));
}

#[test]
fn a_guest_pays_for_no_check_that_was_not_made() {
    let server = start();
    for (local, code) in [("outage", "provider_unavailable"), ("budget", "temporarily_unavailable")] {
        let answer = check(&server, "alice", "BASIC", &format!("{local}@example.com"));
        answer.assert_refused(503, code);
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(spent(&server, "gateway:rapid:alice"), 0);
}

#[test]
fn guests_are_apart_from_each_other() {
    let server = start();
    let address = "mailbox_exists@example.com";
    assert_eq!(check(&server, "alice", "BASIC", address).json()["cached"], false);
    let again = check(&server, "alice", "BASIC", address).json();
    assert_eq!((&again["cached"], &again["credits_remaining"]), (&json!(true), &Value::Null));
    assert_eq!(check(&server, "bob", "BASIC", address).json()["cached"], false, "bob's own check");
    // A user with the same name at another gateway, and one with other letter case.
    let other = [("X-Other-Secret", "another-secret"), ("X-Other-User", "alice"), ("X-Other-Plan", "BASIC")];
    let answer = send(&server, "POST", "/v1/verify", &other, &body(address));
    assert_eq!(answer.json()["cached"], false);
    assert_eq!(check(&server, "ALICE", "BASIC", address).json()["cached"], false);
    for name in ["gateway:rapid:alice", "gateway:rapid:bob", "gateway:other:alice", "gateway:rapid:ALICE"] {
        assert_eq!(spent(&server, name), 1, "{name}");
    }
    // One address on many connections at once, by a new user: one account, one charge.
    let eve = [("X-Other-Secret", "another-secret"), ("X-Other-User", "eve"), ("X-Other-Plan", "PRO")];
    let asked = body("role_account-200@example.com");
    let answers = at_once(8, |_| send(&server, "POST", "/v1/verify", &eve, &asked));
    assert_eq!(answers.iter().filter(|answer| answer.json()["cached"] == false).count(), 1);
    assert_eq!((spent(&server, "gateway:other:eve"), guests(&server)), (1, 5));
}

#[test]
fn without_the_secret_the_headers_mean_nothing() {
    let server = start();
    let paid = check(&server, "alice", "BASIC", "mailbox_exists@example.com");
    assert_eq!(paid.status, 200);
    let (user, plan) = (("X-Rapid-User", "alice"), ("X-Rapid-Plan", "BASIC"));
    for headers in [
        vec![user, plan],
        vec![("X-Rapid-Secret", "wrong-horse-battery-staple"), user, plan],
        vec![("X-Rapid-Secret", ""), user, plan],
        vec![("X-Rapid-Secret", &SECRET[..27]), user, plan],
        vec![("X-Rapid-Secret", &SECRET.to_uppercase()), user, plan],
        // A secret in another gateway's header, and a header with a list.
        vec![("X-Other-Secret", SECRET), user, plan],
        vec![("X-Rapid-Secret", "another-secret"), user, plan],
        vec![("X-Rapid-Secret", &format!("{SECRET}, {SECRET}")), user, plan],
        vec![("X-Rapid-Secret", "wrong-horse"), ("X-Rapid-Secret", "wrong-horse"), user, plan],
        // A header with another name is ignored.
        vec![("X_Rapid_Secret", SECRET), user, plan],
    ] {
        for path in ["/v1/verify", "/v1/verify/batch"] {
            let answer = send(&server, "POST", path, &headers, &body("mailbox_exists@example.com"));
            answer.assert_refused(401, "missing_api_key");
        }
    }
    // With a key the request belongs to the key, whatever the headers name.
    let request = post(&server.live, "/v1/verify", &body("mailbox_exists@example.com"));
    let request = request.replacen("\r\n", "\r\nX-Rapid-User: alice\r\nX-Rapid-Plan: BASIC\r\n", 1);
    let answer = server.send(request);
    assert_eq!((answer.json()["cached"].as_bool(), server.credits()), (Some(false), 99));
    assert_eq!((spent(&server, "gateway:rapid:alice"), guests(&server)), (1, 1));
}

#[test]
fn nothing_but_single_checks_is_offered() {
    let server = start();
    let batch = json!({ "emails": ["mailbox_exists@example.com"] }).to_string();
    let made = server.post(&server.live, "/v1/verify/batch", &batch).json()["batch_id"].to_string();
    let poll = format!("/v1/verify/batch/{}", made.trim_matches('"'));
    let headers = of("alice", "BASIC");
    for (method, path) in [
        ("POST", "/v1/verify/batch"),
        ("GET", poll.as_str()),
        ("GET", "/v1/verify/batch"),
        ("POST", "/v1/verify/batch/bat_x/cancel"),
        ("POST", "/v1/lists"),
        ("GET", "/v1/lists"),
        ("PATCH", "/v1/lists/lst_x"),
        ("DELETE", "/v1/lists/lst_x"),
        ("POST", "/v1/lists/lst_x/start"),
        ("GET", "/v1/lists/lst_x/results"),
        ("GET", "/v1/account"),
        ("HEAD", "/v1/account"),
        ("GET", "/v1/openapi.json"),
        ("GET", "/readyz"),
        ("GET", "/"),
        ("GET", "/docs"),
        ("GET", "/signin"),
        ("POST", "/signin"),
        ("POST", "/mcp"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/nothing/here"),
        ("GET", "/v1/verify/"),
        ("GET", "/v1//verify"),
        ("GET", "/v1/verify%2Fbatch"),
    ] {
        if method == "HEAD" {
            let mut connection = server.connect();
            connection.send(format!("HEAD {path} HTTP/1.1\r\nHost: t\r\nX-Rapid-Secret: {SECRET}\r\n\r\n"));
            assert_eq!(connection.read_head().status, 403);
            continue;
        }
        send(&server, method, path, &headers, &batch).assert_refused(403, "not_available_on_rapid");
        // Leaving out the user or adding a key does not help.
        let secret_alone = &headers[..1];
        send(&server, method, path, secret_alone, &batch).assert_refused(403, "not_available_on_rapid");
        let key = format!("Bearer {}", server.live);
        let with_key = [headers[0], ("Authorization", &key)];
        send(&server, method, path, &with_key, &batch).assert_refused(403, "not_available_on_rapid");
    }
    let answer = send(&server, "DELETE", "/v1/verify", &headers, "");
    answer.assert_refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET, POST"));
    assert_eq!((guests(&server), server.credits()), (0, 99));
}

#[test]
fn what_is_not_said_exactly_once_is_refused() {
    let server = start();
    let [secret, user, plan] = of("alice", "BASIC");
    let long = "a".repeat(129);
    let key = format!("Bearer {}", server.live);
    for (headers, status, code) in [
        (vec![secret], 400, "invalid_request"),
        (vec![secret, user], 400, "invalid_request"),
        (vec![secret, plan], 400, "invalid_request"),
        (vec![secret, secret, user, plan], 400, "invalid_request"),
        (vec![secret, ("X-Rapid-Secret", "wrong"), user, plan], 400, "invalid_request"),
        (vec![("X-Rapid-Secret", "wrong"), secret, user, plan], 400, "invalid_request"),
        (vec![secret, user, user, plan], 400, "invalid_request"),
        (vec![secret, user, ("x-rapid-user", "bob"), plan], 400, "invalid_request"),
        (vec![secret, user, plan, plan], 400, "invalid_request"),
        (vec![secret, user, plan, ("X-RAPID-PLAN", "PRO")], 400, "invalid_request"),
        (vec![secret, ("X-Rapid-User", ""), plan], 400, "invalid_request"),
        (vec![secret, ("X-Rapid-User", "alice, bob"), plan], 400, "invalid_request"),
        (vec![secret, ("X-Rapid-User", "al ice"), plan], 400, "invalid_request"),
        (vec![secret, ("X-Rapid-User", "alic\u{e9}"), plan], 400, "invalid_request"),
        (vec![secret, ("X-Rapid-User", &long), plan], 400, "invalid_request"),
        (vec![secret, user, ("X-Rapid-Plan", "")], 400, "invalid_request"),
        (vec![secret, user, ("X-Rapid-Plan", "basic")], 400, "invalid_request"),
        (vec![secret, user, ("X-Rapid-Plan", "ULTRA")], 400, "invalid_request"),
        (vec![secret, ("X-Other-Secret", "another-secret"), user, plan], 400, "invalid_request"),
        (vec![secret, user, plan, ("Authorization", &key)], 401, "invalid_api_key"),
        (vec![secret, user, plan, ("Authorization", "Basic YWxpY2U6YQ==")], 401, "invalid_api_key"),
        (vec![secret, user, plan, ("Authorization", "")], 401, "invalid_api_key"),
    ] {
        let answer = send(&server, "POST", "/v1/verify", &headers, &body("mailbox_exists@example.com"));
        answer.assert_refused(status, code);
        let told = answer.json();
        assert_eq!(told["detail"].is_array(), status == 400, "{told}");
        assert!(!answer.body.contains("alice") && !answer.body.contains("al ice"), "{told}");
    }
    // A folded line (obs-fold, RFC 9112 5.2) is not a header.
    let folded = format!("X-Rapid-Secret: {SECRET}\r\nX-Rapid-User: al\r\n ice\r\nX-Rapid-Plan: BASIC");
    let answer =
        server.send(format!("GET /v1/verify?email=a@example.com HTTP/1.1\r\nHost: t\r\n{folded}\r\n\r\n"));
    assert_eq!(answer.status, 400);
    // The longest allowed name.
    assert_eq!(check(&server, &long[1..], "BASIC", "mailbox_exists@example.com").status, 200);
    assert_eq!((guests(&server), server.credits()), (1, 100));
}

/// If a gateway forwards a body that contains a second request, that request must not get its secret.
#[test]
fn a_request_in_the_body_of_another_stays_in_it() {
    let server = start();
    let inner = get(&server.live, "/v1/account");
    let headers = of("alice", "BASIC");
    let answer = send(&server, "POST", "/v1/verify", &headers, &inner);
    answer.assert_refused(400, "invalid_request");
    // Two lengths, or a length and chunks: hyper answers 400, or reads chunks and closes.
    let [secret, user, plan] = headers.map(|(name, value)| format!("{name}: {value}\r\n"));
    for framing in [
        "Content-Length: 4\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip, chunked, identity\r\n\r\n0\r\n\r\n",
    ] {
        let mut connection = server.connect();
        connection
            .send(format!("POST /v1/verify HTTP/1.1\r\nHost: t\r\n{secret}{user}{plan}{framing}{inner}"));
        let first = connection.read();
        assert_eq!(first.status, 400, "{framing:?}");
        assert!(connection.try_read().is_none(), "a second answer after {framing:?}");
    }
    assert_eq!(server.credits(), 100);
}

#[test]
fn a_secret_is_changed_without_a_gap() {
    let both = format!("[\"{OLD_SECRET}\", \"{SECRET}\"]");
    let mut server = start_with(&both);
    let old = [("X-Rapid-Secret", OLD_SECRET), ("X-Rapid-User", "alice"), ("X-Rapid-Plan", "BASIC")];
    let address = "mailbox_exists@example.com";
    assert_eq!(send(&server, "POST", "/v1/verify", &old, &body(address)).json()["cached"], false);
    assert_eq!(check(&server, "alice", "BASIC", address).json()["cached"], true);
    let path = server.folder().join("mailprobe.toml");
    fs::write(&path, config(&format!("[\"{SECRET}\"]"))).unwrap();
    server = server.restart_after(libc::SIGTERM);
    send(&server, "POST", "/v1/verify", &old, &body(address)).assert_refused(401, "missing_api_key");
    // The account is the earlier one.
    assert_eq!(check(&server, "alice", "BASIC", address).json()["cached"], true);
    assert_eq!((spent(&server, "gateway:rapid:alice"), guests(&server)), (1, 1));
}

#[test]
fn an_account_follows_its_user_s_plan() {
    let server = start();
    assert_eq!(
        check(&server, "alice", "BASIC", "mailbox_exists@example.com").json()["credits_remaining"],
        99
    );
    assert_eq!(check(&server, "alice", "PRO", "role_account@example.com").json()["credits_remaining"], 4998);
    assert_eq!(account(&server, "gateway:rapid:alice")["plan"], "starter");
    assert_eq!(check(&server, "alice", "BASIC", "catch_all@example.com").json()["credits_remaining"], 97);
    assert_eq!(account(&server, "gateway:rapid:alice")["plan"], "free");
    // This also holds for a repeat, and results that were paid before remain.
    let repeat = check(&server, "alice", "PRO", "catch_all@example.com").json();
    assert_eq!(
        (&repeat["cached"], &account(&server, "gateway:rapid:alice")["plan"]),
        (&json!(true), &json!("starter"))
    );

    // A subscription that an operator has paused remains paused, and the user gets the usual answer.
    server.administer(&["account", "set-status", "gateway:rapid:alice", "paused"]);
    check(&server, "alice", "PRO", "unverifiable@example.com").assert_refused(402, "subscription_inactive");
}

#[test]
fn limits_count_per_guest() {
    let server = start();
    let ask = |user: &str, address: &str| check(&server, user, "TIGHT", address);
    assert_eq!(ask("alice", "mailbox_exists@example.com").header("x-ratelimit-remaining"), Some("1"));
    // Fair use: one charged check per second. The request counts nevertheless.
    ask("alice", "role_account@example.com").assert_refused(429, "rate_limited");
    let third = ask("alice", "mailbox_exists@example.com");
    third.assert_refused(429, "rate_limited");
    assert!(third.header("retry-after").is_some());
    let bob = ask("bob", "mailbox_exists@example.com");
    assert_eq!((bob.status, bob.header("x-ratelimit-remaining")), (200, Some("1")));
    let fast = json!({ "email": "a@example.com", "mode": "fast" }).to_string();
    let fast = |user| send(&server, "POST", "/v1/verify", &of(user, "TIGHT"), &fast).status;
    assert_eq!((fast("alice"), fast("alice"), fast("bob")), (200, 429, 200));
}

#[test]
fn a_gateway_has_so_many_guests_and_no_more() {
    let server = start();
    for user in ["a", "b", "c"] {
        assert_eq!(check(&server, user, "BASIC", "mailbox_exists@example.com").status, 200);
    }
    let answer = check(&server, "d", "BASIC", "mailbox_exists@example.com");
    answer.assert_refused(503, "temporarily_unavailable");
    assert_eq!(
        check(&server, "b", "PRO", "role_account@example.com").status,
        200,
        "those that are there go on"
    );
    assert_eq!(guests(&server), 3);
    assert!(whole_log(server).contains("the gateway rapid has as many users as its users_max"));
}

#[test]
fn nobody_else_can_have_a_guest_s_account() {
    let server = start();
    let data = server.data();
    let made = mailprobe(["account", "create", "gateway:rapid:alice", "--data", data.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&made.stderr).contains("reserved for users of gateways"));
    assert_eq!(check(&server, "alice", "BASIC", "mailbox_exists@example.com").status, 200);
}

#[test]
fn neither_the_log_nor_the_configuration_has_a_secret() {
    let server = start();
    let path = server.folder().join("mailprobe.toml");
    for headers in
        [&of("alice", "BASIC")[..], &[("X-Rapid-Secret", "nearly-the-secret"), ("X-Rapid-User", "alice")]]
    {
        send(&server, "POST", "/v1/verify", headers, &body("mailbox_exists@example.com"));
        send(&server, "POST", "/v1/account", headers, "");
    }
    let shown = mailprobe(["config", "--config", path.to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("name = \"rapid\"") && shown.contains("(not shown)"), "{shown}");
    let log = whole_log(server);
    assert!(log.contains("/v1/verify"), "{log}");
    for text in [log, shown] {
        assert!(
            !text.contains(SECRET) && !text.contains("nearly-the-secret") && !text.contains("alice"),
            "{text}"
        );
    }
}

#[test]
fn secrets_and_plans_are_exchanged_on_sighup() {
    let server = start_with(&format!("[\"{OLD_SECRET}\"]"));
    let path = server.folder().join("mailprobe.toml");
    let status = |secret: &str| {
        let headers = [("X-Rapid-Secret", secret), ("X-Rapid-User", "ann"), ("X-Rapid-Plan", "PRO")];
        send(&server, "POST", "/v1/verify", &headers, &body("ok@example.com")).status
    };
    let reload = |text: &str, expected: &str, times: usize| {
        fs::write(&path, text).unwrap();
        server.signal(libc::SIGHUP);
        server.logs(expected, times);
    };
    assert_eq!((status(OLD_SECRET), status(SECRET)), (200, 401));
    let both = config(&format!("[\"{OLD_SECRET}\", \"{SECRET}\"]"));
    reload(&both, "the configuration was read again: ", 1);
    assert_eq!((status(OLD_SECRET), status(SECRET)), (200, 200));

    // Whatever is wrong: nothing changes.
    let nothing = "nothing changed because of an error: ";
    let new = config(&format!("[\"{SECRET}\"]"));
    reload(&format!("{new}smtp_prt = 1\n"), nothing, 1);
    reload(&new.replace("id = \"starter\"", "id = \"other\""), nothing, 2);
    reload(&format!("lists_role = \"missing\"\n{new}"), nothing, 3);
    assert_eq!((status(OLD_SECRET), status(SECRET)), (200, 200));

    // What needs a restart is named; the rest is used.
    let more = "[[plan]]\nid = \"team\"\nname = \"Team\"\nmonthly_credits = 70\n";
    reload(&format!("queue = 99\nsessions = 7\n{new}{more}"), "need a restart", 1);
    assert!(server.log().contains("keys=\"sessions, queue\""), "{}", server.log());
    assert_eq!((status(OLD_SECRET), status(SECRET)), (401, 200));
    assert!(server.administer(&["account", "create", "crew", "--plan", "team"]).contains("crew"));
    let log = server.log();
    assert!(!log.contains(SECRET) && !log.contains(OLD_SECRET), "{log}");
}
