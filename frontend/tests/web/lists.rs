//! Lists from upload to download.

use crate::harness::server::Server;
use crate::until;
use crate::web::browser::{Browser, Page, signed_up};
use crate::web::keys::make;
use api::WaitCause;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::Write as _;
use std::time::Duration;

/// Uploads a file like a browser, and follows the redirect.
pub fn upload(browser: &mut Browser, name: &str, content: &[u8], column: &str) -> Page {
    let token = browser.get("/lists").token();
    let page = send(browser, &token, name, content, column);
    browser.follow(page)
}

fn send(browser: &mut Browser, token: &str, name: &str, content: &[u8], column: &str) -> Page {
    let (head, body) = form(token, name, content, column);
    browser.exchange("/lists", &head, "Sec-Fetch-Site: same-origin\r\n", &body)
}

/// The first lines of the head, and the body, of the form that uploads a file.
pub fn form(token: &str, name: &str, content: &[u8], column: &str) -> (String, Vec<u8>) {
    let part =
        |disposition: &str| format!("------b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n");
    let mut body =
        format!("{}{token}\r\n{}{column}\r\n", part("name=\"csrf\""), part("name=\"column\"")).into_bytes();
    let name = name.replace('"', "%22");
    body.extend(part(&format!("name=\"file\"; filename=\"{name}\"")).into_bytes());
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n------b--\r\n");
    let head = format!(
        "POST /lists HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=----b\r\nContent-Length: {}\r\n",
        body.len()
    );
    (head, body)
}

#[test]
fn a_form_or_a_file_that_is_told_to_be_too_long_is_refused_before_it_comes() {
    let (server, mut browser) = signed_up();
    browser.get("/lists");
    let origin = format!("Origin: http://{}\r\nCookie: {}\r\n", server.address, browser.cookies());
    for path in ["/signin", "/keys"] {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        server.refuses_a_long_body(path, &format!("{origin}{kind}"));
    }
    let kind = "Content-Type: multipart/form-data; boundary=b\r\n";
    server.refuses_a_long_body("/lists", &format!("{origin}{kind}"));
}

/// Loads the page until it has this text.
#[track_caller]
pub fn wait(browser: &mut Browser, path: &str, text: &str) -> Page {
    until(|| match browser.get(path) {
        page if page.plain().contains(text) => Ok(page),
        page => Err(format!("no {text:?}: {}", page.plain())),
    })
}

fn rich(server: &Server, email: &str) -> Browser {
    let browser = Browser::signed_up(server, email);
    server.administer(&["account", "set-plan", email, "starter"]);
    browser
}

/// A list with this number of rows: every fifth row has no address.
fn list(rows: usize) -> String {
    let mut text = "id,name,E-Mail\n".to_owned();
    for n in 0..rows {
        let local = if n % 3 == 0 { "mailbox_exists" } else { "mailbox_not_found" };
        let address = if n % 5 == 4 { "none".to_owned() } else { format!("{local}@d{n}.example.com") };
        writeln!(text, "{n},\"Doe, {n}\",{address}").unwrap();
    }
    text
}

#[test]
fn a_running_list_says_what_it_has_found_and_what_it_waits_for() {
    let flags = ["--batch-wait", "6s", "--batch-outage-wait", "6s"];
    let (server, email) = (Server::start(&flags), "joe@example.com");
    let mut browser = rich(&server, email);
    let key = make(&mut browser, "", "live");
    let content = "email\nmailbox_exists@a.example\nMailbox_exists@a.example\ncatch_all@b.example\nlater.99@c.example\n\
        silent@d.example\nbudget@e.example\noutage@f.example\nnone\n";
    let page = upload(&mut browser, "list.csv", content.as_bytes(), "");
    let path = page.path.clone();
    let page = wait(&mut browser, &path, "Cost");
    page.says("hours 0, free: they get their earlier answers, and no mail server is asked about them");
    browser.press(&page, &format!("{path}/start"));
    let sum = |value: &Value| value.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    let (mut seen, mut has_waited) = (Value::Null, false);
    while seen["status"] != "completed" {
        seen = server.get(&key, &format!("/v1{path}")).json();
        let waits = seen["waiting"].as_array().unwrap();
        let waiting: u64 = waits.iter().filter_map(|wait| wait["addresses"].as_u64()).sum();
        assert_eq!(sum(&seen["counts"]), seen["checked"], "{seen}");
        let expected = if seen["status"] == "running" { 6 } else { seen["checked"].as_u64().unwrap() };
        assert_eq!(seen["checked"].as_u64().unwrap() + waiting, expected, "{seen}");
        let mut causes: Vec<&str> = waits.iter().filter_map(|wait| wait["cause"].as_str()).collect();
        causes.sort_unstable();
        if causes == ["no_answer", "outage", "refusal_budget", "retry_later"] && !has_waited {
            has_waited = true;
            assert!(waits.iter().all(|wait| wait["until"].is_string()), "{seen}");
            assert_eq!(seen["counts"], json!({"catch_all": 1, "mailbox_exists": 1}));
            // One word has one meaning in the API, on the page of the list and on that of the account.
            let credits = ["checked", "credits_charged", "credits_reserved"].map(|name| seen[name].as_u64());
            assert_eq!(credits, [Some(2), Some(0), Some(6)]);
            let page = browser.get(&path);
            let problem = seen["problem"].as_str().unwrap();
            assert!(problem.starts_with("No resolver gives a usable answer, or no mail server"), "{problem}");
            page.says(problem)
                .says("2 of 6 different addresses checked, 4 not checked yet")
                .says("0 credits charged, 6 reserved for checks under way");
            browser.get("/").says("6 more are reserved for checks under way").says(
                "No address was counted in the last 30 days. A batch is counted when it is complete, and a list in parts, each at its end.",
            );
            page.says("What the others wait for").says("No answer yet of the mail server or of DNS. 1 2");
        }
        // A key may poll 600 times in a minute, and each state of the list must be seen.
        std::thread::sleep(Duration::from_millis(110));
    }
    assert!(has_waited);
    // The server that took no connection is charged; what was not asked because of us is free.
    assert_eq!(seen["counts"], json!({"catch_all": 1, "mailbox_exists": 1, "unverifiable": 4}));
    assert_eq!((&seen["credits_charged"], &seen["credits_reserved"]), (&json!(4), &json!(0)));
    let causes = ["no_connection", "refusal_budget", "outage"];
    let causes = causes.map(|cause| json!({"cause": cause, "addresses": 1}));
    assert_eq!(seen["unverifiable"], json!(causes));
    let page = browser.get(&path);
    page.says("8 rows: 6 different addresses, 1 duplicate, 1 without an address.");
    page.says("4 credits charged; 2 addresses were free: 1 not answered in an outage of the service; 1 not asked because the budget")
        .says("Act on the cause: waiting does not help while mail servers refuse this machine")
        .says("Unverifiable addresses by cause Cause Next step Addresses The mail server accepted no connection. Check again after 24")
        .says("No cause is stored");
    browser
        .get(&format!("{path}/report"))
        .says("no_connection The mail server accepted no connection. Check again after 24 hours; if")
        .says("All unverifiable different addresses 4");
    browser.get("/lists").says("Different addresses Different addresses checked State").says("6 6 completed");
    assert_eq!(server.get(&key, "/v1/account").json()["credits_remaining"], 5_000 - 4);
    let shown = server.administer_json(&["account", "show", email]);
    assert_eq!(shown["account"]["balance"]["spent"], 4);
}

#[test]
fn a_refusal_of_us_is_named_when_the_budget_is_used_up() {
    let refusal = "The mail server refuses this machine, for example because of a blocklist.";
    let server = Server::start(&["--batch-wait", "20s"]);
    let mut browser = rich(&server, "joe@example.com");
    let key = make(&mut browser, "", "live");
    let mut lists = ["blocked", "budget"].map(|local| {
        let path =
            upload(&mut browser, "list.csv", format!("email\n{local}@a.example\n").as_bytes(), "").path;
        let page = wait(&mut browser, &path, "Cost");
        browser.press(&page, &format!("{path}/start"));
        // A sentence there, so its first letter differs.
        let page = wait(&mut browser, &path, &WaitCause::RefusalBudget.words()[1..]);
        (local, page.plain().contains(refusal), server.get(&key, &format!("/v1{path}")).json(), path)
    });
    for (local, is_named, list, _) in &lists {
        assert_eq!(*is_named, *local == "blocked");
        let problem = list["problem"].as_str().unwrap_or_default();
        assert_eq!(problem.starts_with(refusal), *is_named, "{list}");
    }
    // A batch says so too, and both forget it at their end.
    let emails = json!({ "emails": ["blocked@b.example", "mailbox_exists@b.example"] }).to_string();
    let created = server.post(&key, "/v1/verify/batch", &emails).json();
    let batch = created["batch_id"].as_str().unwrap();
    let path = format!("/batches/{batch}");
    wait(&mut browser, &path, "1 of 2 addresses have a result");
    wait(&mut browser, &path, &WaitCause::RefusalBudget.words()[1..])
        .says(refusal)
        .says("so it gets no more questions for now. They are asked when it gets questions again.")
        .says("If the reason is the budget, they cost nothing: check again after an hour.");
    let waiting = &server.get(&key, &format!("/v1/verify/batch/{batch}")).json()["waiting"];
    assert_eq!((&waiting[0]["cause"], &waiting[0]["addresses"]), (&json!("refusal_budget"), &json!(1)));
    assert!(waiting[0]["until"].is_string() && waiting[1].is_null(), "{waiting}");
    let cancelled = server.post(&key, &format!("/v1/verify/batch/{batch}/cancel"), "").json();
    assert_eq!((&cancelled["checked"], &cancelled["status"]), (&json!(2), &json!("completed")));
    let page = browser.get(&path);
    page.says("2 of 2 addresses have a result 1 checked, 1 not checked.").says("1 credit charged.");
    page.says("here and in the API: 1 not checked because the batch was cancelled")
        .says("Not checked because the batch was cancelled. Check again. 1");
    assert!(!page.plain().contains(refusal), "{}", page.plain());
    browser.get("/batches").says("2 2 1 not checked completed");
    let created = server.post(&key, "/v1/lists", r#"{"bytes":10}"#).json();
    let unread = format!("/lists/{}", created["list_id"].as_str().unwrap());
    server.post(&key, &format!("/v1{unread}/cancel"), "");
    browser.get(&unread).says("cancelled The list was cancelled before it was read. Delete list");
    let path = &mut lists[0].3;
    server.post(&key, &format!("/v1{path}/cancel"), "");
    let page = browser.get(path);
    page.says("after 0 of 1 different addresses; 1 was not checked.");
    assert!(!page.plain().contains(refusal), "{}", page.plain());
}

#[test]
fn addresses_that_are_not_checked_are_named_until_the_end() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = rich(&server, email);
    let content = "email,second\nmailbox_exists@a.example,x@b.example\n\
                   mailbox_exists@c.example;z@c.example,y@d.example\n";
    let path = upload(&mut browser, "two.csv", content.as_bytes(), "email").path;
    let page = wait(&mut browser, &path, "Cost");
    let said = "Other columns with addresses";
    let unusual = "1 cell has several addresses; only the first one is checked (row 3)";
    let key = make(&mut browser, "", "live");
    let shown = server.get(&key, &format!("/v1{path}")).json();
    assert_eq!(shown["found"]["cells_with_more"], json!({ "count": 1, "first_row": 3 }));
    assert_eq!(shown["found"]["header"], true);
    page.says("Header yes");
    page.says(&format!("{said} second (not checked")).says(&format!("Unusual {unusual}"));
    assert_eq!([said, unusual].map(|said| page.plain().matches(said).count()), [1, 1]);
    browser.press(&page, &format!("{path}/start"));
    wait(&mut browser, &path, "Download result").says(&format!("{said}: second (not checked")).says(unusual);
    browser.get(&format!("{path}/report")).says(&format!("{said} second (not checked)")).says(unusual);
}

#[test]
fn a_thousand_rows_go_from_upload_to_download() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = rich(&server, email);
    let key = make(&mut browser, "", "live");
    let content = list(1_000);
    let page = upload(&mut browser, "my \"list\" <script>.csv", content.as_bytes(), "");
    let path = page.path.clone();
    let page = wait(&mut browser, &path, "Cost");
    page.says("Column of the addresses E-Mail (3 of 3)").says("The cost is as of");
    let shown = server.get(&key, &format!("/v1{path}")).json();
    assert_eq!((&shown["found"]["column"], &shown["found"]["column_number"]), (&json!("E-Mail"), &json!(3)));
    assert_eq!((&shown["found"]["columns"], &shown["found"]["sheet"]), (&json!(3), &Value::Null));
    page.says("Rows 1,000")
        .says("Rows with an address 800")
        .says("about 800 credits ; the account has 5,000");
    assert!(!page.text().contains("<script>."), "{}", page.text());
    for page in ["download", "report"] {
        assert_eq!(browser.get(&format!("{path}/{page}")).status, 409);
    }
    assert_eq!(server.get(&key, "/v1/account").json()["credits_remaining"], 5_000, "nothing is charged yet");
    browser.press(&page, &format!("{path}/start"));
    let page = wait(&mut browser, &path, "Download result");
    page.says("1,000 rows");
    assert_eq!(server.get(&key, "/v1/account").json()["credits_remaining"], 4_200);
    let result = browser.get(&format!("{path}/download"));
    assert_eq!(
        result.header("content-disposition"),
        Some("attachment; filename=\"my-list-script.results.csv\"")
    );
    let text = result.text();
    let (mut got, mut rows) = (text.lines(), content.lines());
    assert_eq!(got.next().unwrap(), format!("{},deliverable,reason", rows.next().unwrap()));
    for (n, row) in rows.enumerate() {
        let verdict = match n {
            n if n % 5 == 4 => "false,invalid_syntax",
            n if n % 3 == 0 => "true,mailbox_exists",
            _ => "false,mailbox_not_found",
        };
        assert_eq!(got.next().unwrap(), format!("{row},{verdict}"));
    }
    assert_eq!(got.next(), None);
    let result = browser.get(&format!("{path}/download?class=deliverable&format=jsonl"));
    assert_eq!(
        result.header("content-disposition"),
        Some("attachment; filename=\"my-list-script.deliverable.jsonl\"")
    );
    let good: Vec<&str> = text.lines().filter(|row| row.ends_with(",true,mailbox_exists")).collect();
    assert_eq!(result.text().lines().count(), good.len());
    assert!(
        result.text().lines().all(|row| row.ends_with("\"deliverable\":true,\"reason\":\"mailbox_exists\"}"))
    );
    let result = browser.get(&format!("{path}/download?class=&format=xlsx"));
    assert!(result.bytes.starts_with(b"PK"), "{:?}", result.header("content-type"));
    for query in ["class=good", "format=ods", "class=Deliverable"] {
        assert_eq!(browser.get(&format!("{path}/download?{query}")).status, 400, "{query}");
    }
    let report = browser.get(&format!("{path}/report"));
    assert_eq!(report.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(
        report.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    report.says("1,000 rows").says("mailbox_not_found").says("Rows without an address 200");
    assert!(!report.text().contains("<script>."));
    // A repeat of the list has the same price: rows of batches are charged, also repeats.
    let shown = server.administer(&["account", "show", email]);
    assert_eq!(["add up", "  list lst_"].map(|text| shown.matches(text).count()), [1, 1], "{shown}");
    browser.get("/usage").says("800");
    let usage = browser.get("/usage");
    let link = format!("List <a href=\"{path}\">");
    assert_eq!(usage.text().matches(&link).count(), 1, "one line for all its parts: {}", usage.text());
    let exported = server.get(&key, "/v1/account/export").json();
    let entries = exported["ledger"].as_array().unwrap().iter();
    let of_list = entries.filter(|entry| path.ends_with(entry["list_id"].as_str().unwrap_or("none")));
    assert_eq!(of_list.map(|entry| entry["spent"].as_u64().unwrap()).sum::<u64>(), 800);
    let report = browser.get(&format!("{path}/report"));
    assert!(report.text().contains(&format!("<a href=\"{path}\">Back to the list</a>")));
    browser.get("/lists").says("completed");
    let page = browser.get(&path);
    browser.press(&page, &format!("{path}/delete")).says("No lists yet");
    assert_eq!(browser.get(&path).status, 404);
}

#[test]
fn a_list_goes_on_after_a_kill_and_is_charged_once() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = rich(&server, email);
    let mut content = String::new();
    for n in 0..1_500 {
        writeln!(content, "mailbox_exists-{}@d{n}.example.com", n % 300).unwrap();
    }
    let path = upload(&mut browser, "plain.txt", content.as_bytes(), "").path;
    let page = wait(&mut browser, &path, "Cost");
    browser.press(&page, &format!("{path}/start"));
    wait(&mut browser, &path, "of 1,500 different addresses checked");
    let server = server.restart_after_kill();
    let cookies = browser.cookies.clone();
    let mut browser = Browser::new(&server);
    browser.cookies = cookies;
    wait(&mut browser, &path, "Download result");
    let text = browser.get(&format!("{path}/download")).text();
    assert_eq!(text.lines().count(), 1_500);
    assert!(text.lines().all(|line| line.ends_with(",true,mailbox_exists")));
    browser.get("/").says("3,500");
    assert!(server.administer(&["account", "show", email]).contains("add up"));
}

#[test]
fn a_list_shows_its_price_without_duplicates_and_can_be_cancelled() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = rich(&server, email);
    let content =
        "mailbox_exists@a.example\nMAILBOX_EXISTS@A.example\nnever@b.example\nnever@c.example\nnone\n";
    let path = upload(&mut browser, "plain.txt", content.as_bytes(), "").path;
    let page = wait(&mut browser, &path, "Cost");
    page.says("Rows with an address 4").says("Different addresses 3").says("Rows with a duplicate 1, free");
    page.says("3 credits ;");
    browser.press(&page, &format!("{path}/start"));
    let page = wait(&mut browser, &path, "1 of 3 different addresses checked");
    browser.press(&page, &format!("{path}/cancel"));
    let again = browser.press(&page, &format!("{path}/cancel"));
    again.says("There is nothing to cancel: the check was cancelled, which is final. Upload the list again");
    let page = browser.get(&path);
    page.says(
        "The check was cancelled after 1 of 3 different addresses; 2 were not checked. \
         5 rows: 3 different addresses, 1 duplicate, 1 without an address. 1 credit charged.",
    );
    assert_eq!(
        browser.get(&format!("{path}/download")).text(),
        "mailbox_exists@a.example,true,mailbox_exists\nMAILBOX_EXISTS@A.example,true,mailbox_exists\n\
         none,false,invalid_syntax\n"
    );
    browser.get("/").says("Credits left 4,999");
    browser.get("/batches").says("No batches");
}

#[test]
fn what_cannot_be_checked_says_why() {
    let server = Server::start(&["--dashboard-upload-mib", "1"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let mut unfit = |content: &[u8], column: &str, why: &str| {
        let path = upload(&mut browser, "x.csv", content, column).path;
        let page = wait(&mut browser, &path, "cannot be checked");
        page.says(why).says("To upload the list again, use the form on the page Lists");
        // Words of the API, which the form does not have.
        assert!(!page.plain().contains("`column`") && !page.plain().contains("option"), "{}", page.plain());
    };
    unfit(b"id,name\n1,Joe\n", "", "The list has no address in its first rows, read as CSV");
    unfit(
        b"id,email\n1,a@b.co\n",
        "mail",
        "There is no column mail : the list has id, email. Enter one of them, or its number, in the field Address column.",
    );
    unfit(
        b"email\nnobody\n",
        "",
        "with 1 column (email). Enter the name of the column of the addresses, or its number, in the field Address column.",
    );
    unfit(
        b"1,a@b.co\n",
        "mail",
        "and no header is recognized. Enter its number, such as 1, in the field Address column.",
    );
    unfit(b"{\"a\":\"a@b.co\"}\n", "mail", "the list has a. Enter one of them in the field Address column.");
    unfit(b"", "", "The list has no address. If another column has the addresses, enter its name");
    unfit(b"PK\x03\x04\0\0", "", "The list");
    let wide = format!("email{}\na@example.com\n", ",x".repeat(1_000));
    unfit(wide.as_bytes(), "", "The list has more than 1000 columns");
    let mut window = zstd::Encoder::new(Vec::new(), 3).unwrap();
    window.window_log(24).unwrap();
    window.write_all(b"a@example.com\n").unwrap();
    unfit(&window.finish().unwrap(), "", "The list cannot be read");
    let nothing = zstd::encode_all(&b""[..], 3).unwrap().repeat(100_000);
    unfit(&nothing, "", "a long part of the compressed data has no content");
    let page = upload(&mut browser, "two.csv", b"a,b\nx@example.com,y@example.com\n", "2");
    wait(&mut browser, &page.path, "Cost").says("Rows with an address 1");
    let big = upload(&mut browser, "big.csv", "a@example.com\n".repeat(100_000).as_bytes(), "");
    assert_eq!(big.status, 413, "{}", big.plain());
    assert!(!browser.get("/lists").plain().contains("big.csv"), "nothing of it is kept");
    let none = upload(&mut browser, "", b"", "");
    assert_eq!(none.status, 400);
    none.says("Choose a file first.");
}

#[test]
fn an_account_fills_no_more_than_its_room() {
    let server = Server::start(&["--dashboard-upload-mib", "1"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let content = "a@example.com\n".repeat(60_000);
    let first = upload(&mut browser, "first.txt", content.as_bytes(), "").path;
    upload(&mut browser, "second.txt", content.as_bytes(), "");
    let refused = upload(&mut browser, "third.txt", content.as_bytes(), "");
    assert_eq!(refused.status, 413, "{}", refused.plain());
    refused.says("have all bytes of its share");
    upload(&mut browser, "small.txt", b"a@example.com\n", "");
    let page = wait(&mut browser, &first, "Cost");
    browser.press(&page, &format!("{first}/delete"));
    let third = upload(&mut browser, "third.txt", content.as_bytes(), "");
    wait(&mut browser, &third.path, "Cost").says("Rows with an address 60,000");
}

#[test]
fn an_upload_whose_list_or_connection_is_gone_ends() {
    let (_server, mut browser) = signed_up();
    let token = browser.get("/lists").token();
    let begin = |browser: &Browser| {
        let head = "POST /lists HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9000000\r\n";
        let mut connection = browser.begin(head, "Sec-Fetch-Site: same-origin\r\n");
        let fields = format!(
            "--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{token}\r\n\
             --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"l.txt\"\r\n\r\n{}",
            "a@example.com\n".repeat(1_000)
        );
        connection.send(fields);
        connection
    };
    let mut connection = begin(&browser);
    let text = wait(&mut browser, "/lists", "uploading").text();
    let at = text.find("/lists/lst_").unwrap();
    let path = text[at..].split('"').next().unwrap();
    let page = browser.get(path);
    browser.press(&page, &format!("{path}/delete")).says("No lists yet");
    connection.send("a@example.com\n".repeat(10_000));
    assert_eq!(connection.read_head().status, 409);
    drop(connection);
    let connection = begin(&browser);
    wait(&mut browser, "/lists", "uploading");
    drop(connection);
    wait(&mut browser, "/lists", "No lists yet");
}

/// Blank lines are no rows, and their compressed form is short: they are read in slices.
#[test]
fn what_lies_far_apart_is_found() {
    let server = Server::start(&["--dashboard-upload-mib", "1"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let gap = "\n".repeat(5 << 20);
    let text = format!("mailbox_exists@a.example.com{gap}mailbox_exists@b.example.com{gap}none{gap}");
    let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let path = upload(&mut browser, "far.txt.zst", &packed, "").path;
    let page = wait(&mut browser, &path, "Cost");
    page.says("Rows 3").says("Rows with an address 2");
    browser.press(&page, &format!("{path}/start"));
    wait(&mut browser, &path, "Download result");
    assert_eq!(
        browser.get(&format!("{path}/download")).text(),
        "mailbox_exists@a.example.com,true,mailbox_exists\nmailbox_exists@b.example.com,true,mailbox_exists\n\
         none,false,invalid_syntax\n"
    );
}

#[test]
fn a_list_that_costs_more_than_is_left_does_not_start_and_one_that_runs_out_stops() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = Browser::signed_up(&server, email);
    let path = upload(&mut browser, "l.csv", list(200).as_bytes(), "").path;
    let page = wait(&mut browser, &path, "Cost");
    let refused = browser.press(&page, &format!("{path}/start"));
    assert_eq!(refused.status, 402);
    refused.says(
        "cost about 160 credits, and the account has 100. Get more credits, then start the list again.",
    );
    refused.says("The account lacks 60 credits. The check can start when it has them. The account gets new credits at 20");
    refused.says("The operator of this service can add credits or change the plan at any time.");
    server.administer(&["account", "grant", email, "1000"]);
    server.administer(&["account", "grant", email, "9000"]);
    let mut content = String::new();
    for n in 0..6_000 {
        writeln!(content, "mailbox_exists-1000@d{n}.example.com").unwrap();
    }
    let path = upload(&mut browser, "l.txt", content.as_bytes(), "").path;
    let page = wait(&mut browser, &path, "Cost");
    browser.press(&page, &format!("{path}/start"));
    // It stops when it cannot charge, and continues from there.
    server.administer(&["account", "set-status", email, "paused"]);
    let until =
        "The check stops when the addresses under way have their results: the subscription is paused.";
    wait(&mut browser, &path, until).says("if that is done before, the list goes on by itself.");
    let page = wait(&mut browser, &path, "The check stopped: the subscription is paused.");
    page.says("paused: could not be charged The check stopped");
    page.says("The list does not go on by itself: the button Continue the check starts it again.");
    assert_eq!(browser.press(&page, &format!("{path}/start")).status, 402);
    server.administer(&["account", "set-status", email, "active"]);
    browser.press(&page, &format!("{path}/start"));
    wait(&mut browser, &path, "Download result");
    browser.get("/").says("Credits left 4,100");
}

#[test]
fn a_list_without_credits_says_what_it_waits_for_and_when_it_goes_on() {
    let (server, email) = (Server::start(&[]), "joe@example.com");
    let mut browser = Browser::signed_up(&server, email);
    let key = make(&mut browser, "", "live");
    server.administer(&["account", "grant", email, "8500"]);
    // Each can be paid alone. At most 4,000 of each are under way at the same time, for five seconds.
    let paths = [4_600, 4_500].map(|rows| {
        let rows = (0..rows).map(|n| format!("mailbox_exists-5000@l{rows}-{n}.example.com\n"));
        let path = upload(&mut browser, "l.txt", rows.collect::<String>().as_bytes(), "").path;
        wait(&mut browser, &path, "Cost");
        path
    });
    for path in &paths {
        let page = browser.get(path);
        browser.press(&page, &format!("{path}/start"));
    }
    let under_way = "The check stops when the addresses under way have their results: not enough credits: ";
    let path = until(|| {
        let short = paths.iter().find(|path| browser.get(path).plain().contains(under_way));
        short.ok_or_else(|| format!("{paths:?} can be paid"))
    });
    let page = browser.get(path);
    page.says("left. Get more credits: if that is done before, the list goes on by itself. The account gets new credits at 20");
    let problem = server.get(&key, &format!("/v1{path}")).json()["problem"].clone();
    page.says(problem.as_str().unwrap());
    let page = wait(&mut browser, path, "The check stopped: not enough credits: ");
    page.says("Get more credits, then start the list again.")
        .says("The account has 0. The account gets new credits at 20");
    page.says("The list does not go on by itself: the button Continue the check starts it again.");
    assert!(page.text().contains("can add credits or change the <a href=\"/plan\">plan</a>"));
    let problem = server.get(&key, &format!("/v1{path}")).json()["problem"].clone();
    page.says(problem.as_str().unwrap());
    server.administer(&["account", "grant", email, "1000"]);
    let page = browser.get(path);
    page.says("The account has 1,000. That is enough: the check can go on.");
    browser.press(&page, &format!("{path}/start"));
    let page = wait(&mut browser, path, "Download result");
    assert!(!page.plain().contains("not enough credits"), "{}", page.plain());
}

#[test]
fn lists_are_their_owners_and_forged_uploads_are_not_kept() {
    let server = Server::start(&[]);
    let mut owner = Browser::signed_up(&server, "joe@example.com");
    let path = upload(&mut owner, "l.csv", list(10).as_bytes(), "").path;
    let page = wait(&mut owner, &path, "Cost");
    let mut other = Browser::signed_up(&server, "jane@example.com");
    let token = other.get("/lists").token();
    assert_eq!(other.get(&path).status, 404);
    assert_eq!(other.get(&format!("{path}/download")).status, 404);
    for action in ["start", "delete"] {
        assert_eq!(other.post(&format!("{path}/{action}"), &format!("csrf={token}")).status, 404);
    }
    owner.press(&page, &format!("{path}/start"));
    wait(&mut owner, &path, "Download result");
    // The token of another session, no token, or a token after the file.
    assert_eq!(send(&mut owner, &token, "forged.csv", b"a@example.com\n", "").status, 403);
    assert_eq!(send(&mut owner, "", "forged.csv", b"a@example.com\n", "").status, 403);
    let own = owner.get("/lists").token();
    let body =
        "--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n".to_owned() + &own + "\r\n--b--\r\n";
    let head = format!(
        "POST /lists HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n",
        body.len()
    );
    assert_eq!(owner.exchange("/lists", &head, "", body.as_bytes()).status, 400, "no file");
    assert_eq!(
        owner.exchange("/lists", &head, "Origin: https://evil.example\r\n", body.as_bytes()).status,
        403
    );
    assert!(!owner.get("/lists").plain().contains("forged.csv"));
    // The uploaded content cannot be read in the files.
    let database = std::fs::read(server.data().join("mailprobe.redb")).unwrap();
    assert!(!database.windows(12).any(|bytes| bytes == b"mailbox_exis"));
}

#[test]
fn a_list_is_gone_after_a_week() {
    let server = Server::start(&["--test-clock"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    let path = upload(&mut browser, "l.csv", list(10).as_bytes(), "").path;
    wait(&mut browser, &path, "Cost");
    server.advance(6 * 24 * 60 * 60 * 1000);
    assert_eq!(browser.get(&path).status, 200);
    server.advance(24 * 60 * 60 * 1000);
    assert_eq!(browser.get(&path).status, 404);
}
