//! `/v1/lists`: upload whole and in parts, start, cancel, results, and what they cost.

use crate::harness::client::{Answer, Call};
use crate::harness::server::{Server, post_with};
use crate::http::batches;
use crate::{until, until_true};
use serde_json::{Value, json};
use std::time::Duration;

const LISTS: &str = "/v1/lists";

/// The upload of a whole list.
fn whole(key: &str, query: &str, content: impl Into<Vec<u8>>) -> Call {
    Call::new("POST", format!("{LISTS}{query}")).key(key).header("Content-Type", "text/csv").bytes(content)
}

fn upload(server: &Server, key: &str, query: &str, content: &str) -> Answer {
    server.send(whole(key, query, content).encode())
}

fn id(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["list_id"].as_str().unwrap().to_owned()
}

/// Creates a list for an upload in parts.
fn announce(server: &Server, key: &str, bytes: usize) -> String {
    id(&server.post(key, LISTS, &json!({ "bytes": bytes, "name": "parts.csv" }).to_string()))
}

/// The upload of a part, without its headers.
fn part(key: &str, id: &str, content: &[u8]) -> Call {
    Call::new("PATCH", format!("{LISTS}/{id}")).key(key).bytes(content)
}

fn append(server: &Server, key: &str, id: &str, offset: usize, last: bool, content: &[u8]) -> Answer {
    let part = part(key, id, content).header("Upload-Offset", &offset.to_string());
    server.send(if last { part.header("Upload-Complete", "?1") } else { part }.encode())
}

fn order(server: &Server, key: &str, method: &str, path: &str) -> Answer {
    server.send(Call::new(method, format!("{LISTS}/{path}")).key(key).encode())
}

fn show(server: &Server, key: &str, id: &str) -> Value {
    let got = server.get(key, &format!("{LISTS}/{id}"));
    assert_eq!(got.status, 200, "{got:?}");
    got.json()
}

/// Polls until the list has this status.
#[track_caller]
fn wait(server: &Server, key: &str, id: &str, status: &str) -> Value {
    until(|| {
        let list = show(server, key, id);
        if list["status"] == status { Ok(list) } else { Err(list.to_string()) }
    })
}

/// Uploads a list and waits until it is ready.
fn ready(server: &Server, key: &str, content: &str) -> String {
    let id = id(&upload(server, key, "?name=list.csv", content));
    wait(server, key, &id, "ready");
    id
}

fn start(server: &Server, key: &str, id: &str) -> Answer {
    order(server, key, "POST", &format!("{id}/start"))
}

/// Uploads a list, checks it, and returns it as it is then.
fn checked(server: &Server, key: &str, content: &str) -> Value {
    let id = ready(server, key, content);
    assert_eq!(start(server, key, &id).status, 202);
    wait(server, key, &id, "completed")
}

const CONTENT: &str = "name,email\nA,mailbox_exists@a.example\nB,mailbox_not_found@b.example\nC,Mailbox_Exists@A.example\nD,none\nE,catch_all@c.example\n";

#[test]
fn a_list_goes_from_upload_to_results_and_pays_once_for_an_address() {
    let server = Server::start(&[]);
    let created = upload(&server, &server.live, "?name=june%20%2B1.csv&column=email", CONTENT);
    let id = id(&created);
    let body = created.json();
    assert_eq!(
        (body["name"].as_str(), body["bytes"].as_u64()),
        (Some("june +1.csv"), Some(CONTENT.len() as u64))
    );
    assert_eq!(body["offset"], body["bytes"]);
    let list = wait(&server, &server.live, &id, "ready");
    let numbers = ["rows", "addresses", "distinct", "checked", "credits_required", "credits_charged"]
        .map(|field| list[field].as_u64().unwrap());
    assert_eq!(numbers, [5, 4, 3, 0, 3, 0]);
    assert_eq!((list["problem"].clone(), list["counts"].clone()), (Value::Null, json!({})));
    assert_eq!(order(&server, &server.live, "GET", &format!("{id}/results")).status, 409);
    assert_eq!(server.credits(), 100, "an upload is free");
    for _ in 0..2 {
        let started = start(&server, &server.live, &id);
        assert_eq!(started.status, 202, "a second start changes nothing: {started:?}");
    }
    let list = wait(&server, &server.live, &id, "completed");
    assert_eq!((list["progress"].as_u64(), list["checked"].as_u64()), (Some(100), Some(3)));
    assert_eq!(list["counts"], json!({ "mailbox_exists": 1, "mailbox_not_found": 1, "catch_all": 1 }));
    assert_eq!((list["credits_charged"].as_u64(), server.credits()), (Some(3), 97));
    assert_eq!(start(&server, &server.live, &id).status, 202);
    assert_eq!(server.asked("Mailbox_Exists@A.example") + server.asked("mailbox_exists@a.example"), 1);

    let got = |query: &str| order(&server, &server.live, "GET", &format!("{id}/results{query}"));
    let Answer { head, body: own, .. } = got("");
    assert!(head.contains("200 OK") && head.contains("content-type: text/csv; charset=utf-8"), "{head}");
    assert!(head.contains(".results.csv\""), "{head}");
    let expected = "name,email,deliverable,reason\nA,mailbox_exists@a.example,true,mailbox_exists\n\
        B,mailbox_not_found@b.example,false,mailbox_not_found\nC,Mailbox_Exists@A.example,true,mailbox_exists\n\
        D,none,false,invalid_syntax\nE,catch_all@c.example,false,catch_all\n";
    assert_eq!(own, expected);
    let csv = got("?format=csv").body;
    assert_eq!(csv, own);
    let good = got("?class=deliverable").body;
    assert_eq!(good.lines().count(), 3);
    let bad = got("?class=unknown&class=undeliverable").body;
    assert_eq!(bad.lines().count(), 4);
    let Answer { head, body: json, .. } = got("?format=jsonl&class=unknown");
    assert!(head.contains("content-type: application/x-ndjson"), "{head}");
    assert!(head.contains(".unknown.jsonl\""), "{head}");
    assert_eq!(
        json,
        "{\"name\":\"E\",\"email\":\"catch_all@c.example\",\"deliverable\":false,\"reason\":\"catch_all\"}\n"
    );
    let reply = "scripted,recipient,250,";
    let bases =
        ["rule,scope,reply_code,enhanced_code", reply, "scripted,recipient,550,5.1.1", reply, ",,,", reply];
    // Another account has the same evidence.
    let stranger = server.stranger();
    let of_stranger = checked(&server, &stranger, CONTENT)["list_id"].as_str().unwrap().to_owned();
    for (key, id) in [(&server.live, &id), (&stranger, &of_stranger)] {
        let rows = order(&server, key, "GET", &format!("{id}/results?evidence=true")).body;
        let (rows, times): (Vec<_>, Vec<_>) = rows.lines().map(|row| row.rsplit_once(',').unwrap()).unzip();
        assert_eq!(rows, Vec::from_iter(own.lines().zip(bases).map(|(row, basis)| format!("{row},{basis}"))));
        let are_times = times.iter().map(|time| lists::utc_seconds(time).is_some());
        assert_eq!(Vec::from_iter(are_times), [false, true, true, true, false, true]);
    }
    for query in ["format=ods", "format=", "class=good", "format=csv&format=csv"] {
        got(&format!("?{query}")).assert_refused(400, "invalid_request");
    }
    assert_eq!(order(&server, &server.live, "DELETE", &id).status, 204);
    for (method, path) in
        [("DELETE", id.clone()), ("GET", format!("{id}/results")), ("POST", format!("{id}/start"))]
    {
        order(&server, &server.live, method, &path).assert_refused(404, "not_found");
    }
    assert_eq!(server.ledger(), (0, 3));
}

#[test]
fn known_addresses_are_free_and_a_repeat_of_the_list_too() {
    let server = Server::start(&[]);
    let single = server.get(&server.live, "/v1/verify?email=catch_all@c.example");
    assert_eq!(single.status, 200);
    let list = checked(&server, &server.live, CONTENT);
    assert_eq!((list["credits_required"].as_u64(), list["credits_charged"].as_u64()), (Some(2), Some(2)));
    assert_eq!(server.credits(), 97);
    let again = checked(&server, &server.live, CONTENT);
    assert_eq!((again["credits_required"].as_u64(), again["credits_charged"].as_u64()), (Some(0), Some(0)));
    assert_eq!((server.credits(), server.ledger()), (97, (0, 3)));
    // The account of the list pays for it, and other accounts know nothing.
    let stranger = server.stranger();
    let list = checked(&server, &stranger, CONTENT);
    assert_eq!(list["credits_charged"], 3);
}

#[test]
fn an_upload_in_parts_continues_at_its_offset_also_after_a_kill() {
    let server = Server::start(&[]);
    let mut content = "email\n".to_owned();
    for n in 0..9_000 {
        content.push_str(&format!("mailbox_exists@d{n}.example\n"));
    }
    let (content, key) = (content.as_bytes(), server.live.clone());
    let id = announce(&server, &key, content.len());
    let first = append(&server, &key, &id, 0, false, &content[..100_000]);
    assert_eq!((first.status, first.json()["offset"].as_u64()), (200, Some(100_000)), "{first:?}");
    assert_eq!(first.json()["status"], "uploading");
    for wrong in [0, 99_999, 100_001] {
        let got = append(&server, &key, &id, wrong, false, b"x");
        got.assert_refused(409, "offset_mismatch");
        assert_eq!(got.json()["offset"], 100_000);
    }
    append(&server, &key, &id, 100_000, true, b"").assert_refused(400, "invalid_request");
    let server = server.restart_after_kill();
    assert_eq!(show(&server, &key, &id)["offset"], 100_000);
    // A connection that breaks in the middle of a part: what has arrived is kept.
    let mut broken = server.connect();
    let part = part(&key, &id, &content[100_000..]).header("Upload-Offset", "100000");
    broken.send(&part.encode()[..90_000]);
    drop(broken);
    let kept = || show(&server, &key, &id)["offset"].as_u64().unwrap() as usize;
    until_true("a part is kept", || kept() > 100_000);
    std::thread::sleep(Duration::from_millis(200));
    let offset = kept();
    assert!(offset > 100_000 && offset < content.len());
    append(&server, &key, &id, offset, true, &content[offset - 1..]).assert_refused(413, "request_too_large");
    let last = append(&server, &key, &id, offset, true, &content[offset..]);
    assert_eq!((last.status, last.json()["offset"].as_u64()), (200, Some(content.len() as u64)), "{last:?}");
    let list = wait(&server, &key, &id, "ready");
    assert_eq!((list["rows"].as_u64(), list["distinct"].as_u64()), (Some(9_000), Some(9_000)));
    append(&server, &key, &id, content.len(), true, b"").assert_refused(409, "invalid_state");
}

#[test]
fn headers_of_a_part_are_read_strictly() {
    let server = Server::start(&[]);
    let id = announce(&server, &server.live, 10);
    for headers in [
        &[][..],
        &[("Upload-Offset", "x")],
        &[("Upload-Offset", "-1")],
        &[("Upload-Offset", "0"), ("Upload-Offset", "0")],
        &[("Upload-Offset", "0"), ("Upload-Complete", "true")],
        &[("Upload-Offset", "0"), ("Upload-Complete", "?1"), ("Upload-Complete", "?1")],
    ] {
        let part = part(&server.live, &id, b"a");
        let part = headers.iter().fold(part, |part, (name, value)| part.header(name, value));
        server.send(part.encode()).assert_refused(400, "invalid_request");
    }
    server.post(&server.live, LISTS, "{\"bytes\":0}").assert_refused(400, "invalid_request");
    let long = format!("?name={}", "n".repeat(101));
    upload(&server, &server.live, &long, CONTENT).assert_refused(400, "invalid_request");
    let named = server.post(&server.live, &format!("{LISTS}?name=a.csv"), "{\"bytes\":10.0}");
    assert_eq!(
        (named.status, named.json()["name"].as_str(), &named.json()["bytes"]),
        (201, Some("a.csv"), &json!(10))
    );
    for query in ["limit=0", "limit=101", "limit=x", "after=lst_1", "after="] {
        assert_eq!(server.get(&server.live, &format!("{LISTS}?{query}")).status, 400, "{query}");
        assert_eq!(server.get(&server.live, &format!("/v1/verify/batch?{query}")).status, 400, "{query}");
    }
}

#[test]
fn a_request_is_repeated_under_its_idempotency_key() {
    let server = Server::start(&[]);
    let upload = |query: &str, content: &str| {
        server.send(whole(&server.live, query, content).header("Idempotency-Key", "k").encode())
    };
    let first = upload("?name=a", CONTENT);
    // The content is not compared.
    let again = upload("?name=a", "x@example.com\n");
    assert_eq!((id(&first), first.header("idempotent-replayed")), (id(&again), None));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    upload("?name=b", CONTENT).assert_refused(422, "idempotency_key_reused");
    let in_parts =
        |body: &str| server.send(post_with(&server.live, LISTS, "Idempotency-Key: parts\r\n", body));
    let first = in_parts("{\"bytes\":10,\"name\":\"x\"}");
    let again = in_parts("{ \"name\": \"x\", \"bytes\": 10 }");
    assert_eq!((id(&first), again.header("idempotent-replayed")), (id(&again), Some("true")));
    assert_eq!(in_parts("{\"bytes\":11,\"name\":\"x\"}").status, 422);
    assert_eq!(server.get(&server.live, LISTS).json()["lists"].as_array().unwrap().len(), 2);
    // The list that the key created is gone.
    assert_eq!(order(&server, &server.live, "DELETE", &id(&first)).status, 204);
    assert_eq!(in_parts("{\"bytes\":10,\"name\":\"x\"}").status, 404);
}

#[test]
fn a_broken_or_empty_upload_of_a_whole_list_leaves_nothing() {
    let server = Server::start(&[]);
    let mut broken = server.connect();
    broken.send(&whole(&server.live, "", [b'a'; 200_000]).encode()[..150_000]);
    let lists = || server.get(&server.live, LISTS).json()["lists"].as_array().unwrap().len();
    until_true("the list is there", || lists() == 1);
    drop(broken);
    until_true("the list is gone", || lists() == 0);
    let empty = upload(&server, &server.live, "", "");
    empty.assert_refused(400, "invalid_request");
    assert!(empty.json()["detail"].to_string().contains("it is empty"), "{empty:?}");
    until_true("the empty list is gone", || lists() == 0);
    for (kind, content, status) in [
        ("multipart/form-data; boundary=b", "a@b.example\n", 415),
        ("application/x-www-form-urlencoded", "emaila@b.examplec@b.example", 400),
        ("application/x-www-form-urlencoded", "email\ra@b.example\rc@b.example", 201),
        ("application/x-www-form-urlencoded", "a@b.example", 201),
        ("text/csv", "emaila@b.examplec@b.example", 201),
    ] {
        let call = Call::new("POST", LISTS).key(&server.live).header("Content-Type", kind).bytes(content);
        let answer = server.send(call.encode());
        assert_eq!(answer.status, status, "{kind}, {content:?}: {answer:?}");
        assert_eq!(answer.body.contains("(`-d` removes the line ends)"), status != 201, "{answer:?}");
    }
    until_true("only the accepted lists are left", || lists() == 3);
}

#[test]
fn lists_come_in_pages_and_belong_to_their_account_and_mode() {
    let server = Server::start(&[]);
    let ids: Vec<String> = (0..5).map(|_| announce(&server, &server.live, 10)).collect();
    let test = announce(&server, &server.test, 10);
    let page = |key: &str, query: &str| server.get(key, &format!("{LISTS}?{query}")).json();
    let mut found = Vec::new();
    let mut next = String::new();
    for _ in 0..3 {
        let page = page(&server.live, &format!("limit=2{next}"));
        let lists = page["lists"].as_array().unwrap();
        found.extend(lists.iter().map(|list| list["list_id"].as_str().unwrap().to_owned()));
        next = page["next"].as_str().map_or(String::new(), |next| format!("&after={next}"));
    }
    assert_eq!((found.iter().rev().collect::<Vec<_>>(), next.as_str()), (ids.iter().collect(), ""));
    let own = page(&server.test, "");
    assert_eq!((own["lists"].as_array().unwrap().len(), &own["next"]), (1, &Value::Null));
    let stranger = server.stranger();
    for (key, id) in [(&stranger, &ids[0]), (&server.test, &ids[0]), (&server.live, &test)] {
        for (method, path) in [
            ("GET", id.clone()),
            ("DELETE", id.clone()),
            ("POST", format!("{id}/start")),
            ("POST", format!("{id}/cancel")),
            ("GET", format!("{id}/results")),
        ] {
            order(&server, key, method, &path).assert_refused(404, "not_found");
        }
        assert_eq!(append(&server, key, id, 0, false, b"x").status, 404);
    }
    for unknown in ["x", "lst_", "lst_01kdvds2j0f0srt7c5m2q9z3ab"] {
        assert_eq!(order(&server, &server.live, "GET", unknown).status, 404);
    }
}

#[test]
fn a_misspelt_parameter_is_refused_with_the_name_that_was_meant() {
    let server = Server::start(&[]);
    let answer =
        upload(&server, &server.live, "?name=two&colum=private", "work,private\na@b.example,c@d.example\n");
    answer.assert_refused(400, "invalid_request");
    let issue = &answer.json()["detail"][0];
    assert_eq!((&issue["loc"], &issue["input"]), (&json!(["query"]), &json!("colum")));
    assert_eq!(
        (&issue["type"], &issue["ctx"]["expected"]),
        (&json!("enum"), &json!(["name", "column", "header"]))
    );
    assert_eq!(issue["msg"], "unknown parameter; did you mean `column`?");
    let lists = server.get(&server.live, "/v1/lists").json();
    assert_eq!(lists["lists"], json!([]));
    // What the contract has ignores it.
    assert_eq!(server.get(&server.live, "/v1/account?colum=x").status, 200);
}

#[test]
fn a_test_key_pays_nothing_and_asks_nobody() {
    let server = Server::start(&[]);
    let content =
        "deliverable@a.example\ncatch_all+x@b.example\nsomebody@c.example\ndeliverable@a.example\nnone\n";
    let list = checked(&server, &server.test, content);
    assert_eq!((list["credits_required"].as_u64(), list["credits_charged"].as_u64()), (Some(0), Some(0)));
    assert_eq!(list["distinct"], 3);
    let id = list["list_id"].as_str().unwrap();
    let rows = order(&server, &server.test, "GET", &format!("{id}/results")).body;
    let expected = "deliverable@a.example,true,mailbox_exists\ncatch_all+x@b.example,false,catch_all\n\
        somebody@c.example,false,mailbox_not_found\ndeliverable@a.example,true,mailbox_exists\nnone,false,invalid_syntax\n";
    assert_eq!(rows, expected);
    assert_eq!((server.asked("deliverable@a.example"), server.credits()), (0, 100));
}

#[test]
fn a_cancelled_list_pays_only_for_what_has_an_answer() {
    let server = Server::start(&[]);
    let content =
        "email\nmailbox_exists@a.example\nnever@b.example\nnone\nnever@c.example\nnever@b.example\n";
    let id = ready(&server, &server.live, content);
    start(&server, &server.live, &id);
    until_true("a row is checked", || show(&server, &server.live, &id)["checked"] == 1);
    assert_eq!(server.ledger(), (3, 0));
    for _ in 0..2 {
        let cancelled = order(&server, &server.live, "POST", &format!("{id}/cancel"));
        assert_eq!((cancelled.status, cancelled.json()["status"].as_str()), (202, Some("cancelled")));
        assert_eq!(cancelled.json()["credits_charged"], 1);
    }
    assert_eq!(server.ledger(), (0, 1));
    let rows = order(&server, &server.live, "GET", &format!("{id}/results")).body;
    assert_eq!(
        rows,
        "email,deliverable,reason\nmailbox_exists@a.example,true,mailbox_exists\nnone,false,invalid_syntax\n"
    );
    start(&server, &server.live, &id).assert_refused(409, "invalid_state");
    // A new list pays only for the rest.
    let again = ready(&server, &server.live, content);
    assert_eq!(show(&server, &server.live, &again)["credits_required"], 2);
    // A list without results was cancelled before it was read.
    let early = announce(&server, &server.live, 10);
    assert_eq!(order(&server, &server.live, "POST", &format!("{early}/cancel")).status, 202);
    assert_eq!(order(&server, &server.live, "GET", &format!("{early}/results")).status, 409);
    assert_eq!(append(&server, &server.live, &early, 0, true, b"x").status, 409);
}

#[test]
fn a_running_list_is_deleted_and_refunded() {
    let server = Server::start(&[]);
    let id = ready(&server, &server.live, "never@a.example\nnever@b.example\n");
    start(&server, &server.live, &id);
    until_true("both rows are held", || server.ledger() == (2, 0));
    assert_eq!(order(&server, &server.live, "DELETE", &id).status, 204);
    assert_eq!((server.ledger(), server.credits()), ((0, 0), 100));
}

#[test]
fn a_list_without_credits_is_refused_or_stops_and_goes_on_after_a_grant() {
    let server = Server::start(&[]);
    let content: String = (0..250).map(|n| format!("mailbox_exists@d{n}.example\n")).collect();
    let id = ready(&server, &server.live, &content);
    let refused = start(&server, &server.live, &id);
    refused.assert_refused(402, "insufficient_credits");
    let body = refused.json();
    assert_eq!(
        (body["credits_required"].as_u64(), body["credits_remaining"].as_u64()),
        (Some(250), Some(100))
    );
    server.administer(&["account", "grant", "default", "200"]);
    let other: String = (0..250).map(|n| format!("mailbox_exists@s{n}.example\n")).collect();
    let list = checked(&server, &server.live, &other);
    assert_eq!((list["credits_charged"].as_u64(), server.credits()), (Some(250), 50));
    server.administer(&["account", "set-status", "default", "paused"]);
    start(&server, &server.live, &id).assert_refused(402, "subscription_inactive");
    server.administer(&["account", "set-status", "default", "active"]);
    server.administer(&["account", "grant", "default", "200"]);
    assert_eq!(start(&server, &server.live, &id).status, 202);
    let list = wait(&server, &server.live, &id, "completed");
    assert_eq!((list["credits_charged"].as_u64(), server.credits()), (Some(250), 0));
    assert_eq!(server.ledger(), (0, 500));
}

#[test]
fn lists_that_cannot_be_checked_say_why_and_large_ones_are_refused() {
    let server = Server::start(&["--dashboard-upload-mib", "1"]);
    let unfit = id(&upload(&server, &server.live, "", "id,name\n1,Joe\n"));
    let list = wait(&server, &server.live, &unfit, "unfit");
    assert!(list["problem"].as_str().unwrap().contains("has no address in its first rows"), "{list}");
    assert_eq!(start(&server, &server.live, &unfit).status, 409);
    assert_eq!(order(&server, &server.live, "DELETE", &unfit).status, 204);
    server.post(&server.live, LISTS, "{\"bytes\":1048577}").assert_refused(413, "request_too_large");
    server.refuses_a_long_body(
        LISTS,
        &format!("Authorization: Bearer {}\r\nContent-Type: text/csv\r\n", server.live),
    );
    // A content whose length is not stated.
    let mut connection = server.connect();
    connection.send(format!(
        "POST {LISTS} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.live
    ));
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    for _ in 0..17 {
        connection.try_send(&chunk);
    }
    assert_eq!(connection.read().status, 413);
}

#[test]
fn plans_and_limits_hold_for_lists() {
    let config = "[[plan]]\nid = \"free\"\nname = \"Free\"\nmonthly_credits = 100\nbatches = false\n\
                  [plan.limits]\nlist = 3\n";
    let server = Server::start_with(config, &[]);
    upload(&server, &server.live, "", CONTENT).assert_refused(403, "plan_not_allowed");
    assert_eq!(server.post(&server.test, LISTS, "{\"bytes\":1}").status, 403);
    assert_eq!(server.get(&server.live, LISTS).status, 200, "lists can be read on any plan");
    for _ in 0..2 {
        assert_eq!(order(&server, &server.live, "DELETE", "lst_x").status, 404);
    }
    let limited = order(&server, &server.live, "DELETE", "lst_x");
    limited.assert_refused(429, "rate_limited");
    assert!(limited.header("ratelimit-policy").unwrap().starts_with("\"list\";q=3;w=60"), "{limited:?}");
    assert_eq!(server.get(&server.live, LISTS).status, 200);
}

#[test]
fn batches_are_listed_and_cancelled() {
    let server = Server::start(&[]);
    let batch = |locals: &[&str]| batches::id(&batches::submit(&server, &server.live, locals));
    let (done, open) = (batch(&["mailbox_exists"]), batch(&["never", "catch_all"]));
    batches::completed(&server, &server.live, &done);
    checked(&server, &server.live, CONTENT);
    let page = server.get(&server.live, "/v1/verify/batch?limit=1").json();
    let (first, next) = (&page["batches"][0], page["next"].as_str().unwrap());
    assert_eq!(
        (first["batch_id"].as_str(), first["status"].as_str()),
        (Some(open.as_str()), Some("processing"))
    );
    assert!(first.get("results").is_none() && first["total"] == 2 && first["created_at"].is_string());
    let rest = server.get(&server.live, &format!("/v1/verify/batch?after={next}")).json();
    assert_eq!(
        (rest["batches"].as_array().unwrap().len(), &rest["next"]),
        (1, &Value::Null),
        "none of a list"
    );
    assert_eq!(rest["batches"][0]["batch_id"], done.as_str());
    let cancel = |key: &str, id: &str| server.post(key, &format!("/v1/verify/batch/{id}/cancel"), "");
    until_true("a row is checked", || batches::poll(&server, &server.live, &open)["checked"] == 1);
    assert_eq!(cancel(&server.stranger(), &open).status, 404);
    // A test key may read it, and not end it.
    cancel(&server.test, &open).assert_refused(403, "live_key_required");
    assert_eq!(batches::poll(&server, &server.test, &open)["status"], "processing");
    for _ in 0..2 {
        let cancelled = cancel(&server.live, &open);
        let body = cancelled.json();
        assert_eq!((cancelled.status, body["status"].as_str()), (202, Some("completed")));
        let reasons: Vec<_> =
            body["results"].as_array().unwrap().iter().map(|row| row["reason"].clone()).collect();
        assert_eq!(reasons, ["unverifiable", "catch_all"]);
    }
    // One of the batch that was complete, one of the cancelled one, three of the list.
    assert_eq!(server.ledger(), (0, 5));
    assert_eq!(cancel(&server.live, "bat_x").status, 404);
}

/// A spreadsheet (ods) with this row: an archive of one part, which is not compressed.
fn ods(row: &str) -> Vec<u8> {
    let part = format!("<d><table:table table:name=\"a\">{row}</table:table></d>");
    let name = "content.xml";
    let length = u32::try_from(part.len()).unwrap().to_le_bytes();
    let name_length = u16::try_from(name.len()).unwrap().to_le_bytes();
    let fields = |from: &[u8], zeros: usize| [from, &vec![0; zeros]].concat();
    let sizes = [length, length].concat();
    let local =
        [b"PK\x03\x04".to_vec(), vec![0; 14], sizes.clone(), name_length.to_vec(), vec![0; 2]].concat();
    let local = [&local, name.as_bytes(), part.as_bytes()].concat();
    let entry = [b"PK\x01\x02".to_vec(), vec![0; 16], sizes, name_length.to_vec(), vec![0; 16]].concat();
    let entry = [&entry, name.as_bytes()].concat();
    let at = u32::try_from(local.len()).unwrap().to_le_bytes();
    let end = [fields(b"PK\x05\x06", 6), vec![1, 0], fields(&[], 4), at.to_vec(), vec![0; 2]].concat();
    [local, entry, end].concat()
}

const ROW: &str = "<table:table-row><table:table-cell><text:p>mailbox_exists@b.example.com</text:p></table:table-cell></table:table-row>";

#[test]
fn a_list_is_read_when_the_folder_of_temporary_files_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let server = Server::start_in(folder, &[]);
    let send = |row: &str| id(&server.send(whole(&server.live, "", ods(row)).encode()));
    let paid = send(ROW);
    wait(&server, &server.live, &paid, "ready");
    std::fs::remove_dir(&temporary).unwrap();
    let list = send(ROW);
    let why = until(|| {
        let list = show(&server, &server.live, &list);
        assert_eq!(list["status"], "reading", "{list}");
        list["problem"].as_str().map(str::to_owned).ok_or_else(|| list.to_string())
    });
    assert!(why.contains("tries the list again by itself"), "{why}");
    std::fs::create_dir(&temporary).unwrap();
    let read = wait(&server, &server.live, &list, "ready");
    assert_eq!((&read["problem"], &read["rows"]), (&Value::Null, &json!(1)));
    // A list that takes too much work for its size is refused, and what lists share is measured.
    let repeated =
        ROW.replace("<table:table-row>", "<table:table-row table:number-rows-repeated=\"1048576\">");
    let list = send(&repeated);
    let unfit = wait(&server, &server.live, &list, "unfit");
    let why = "The list cannot be read: it takes too much work for its size: save it as CSV";
    assert_eq!(unfit["problem"], why);
    let metrics = server.administer(&["metrics"]);
    for of in ["list_temporary_bytes", "spreadsheet_conversions", "downloads_open", "lists_being_read"] {
        assert!(metrics.contains(&format!("mailprobe_share_used{{of=\"{of}\"}}")), "{of}");
    }
    start(&server, &server.live, &paid);
    wait(&server, &server.live, &paid, "completed");
}
