//! Sessions: their cookie, their list, their end.

use crate::harness::server::Server;
use crate::web::browser::{Browser, EMAIL, PASSWORD, signed_up};

fn sign_in(server: &Server) -> Browser {
    let mut browser = Browser::new(server);
    browser.extra = "User-Agent: Mozilla/5.0 (Windows NT 10.0) Firefox/130.0\r\n".into();
    let page = browser.get("/signin");
    browser.submit(&page, &[("email", EMAIL), ("password", PASSWORD)]).says("Overview");
    browser
}

fn is_signed_in(browser: &mut Browser) -> bool {
    browser.get_once("/sessions").status == 200
}

#[test]
fn signing_out_ends_the_session_for_every_copy_of_its_cookie() {
    let (_server, mut browser) = signed_up();
    let stolen = browser.cookies.clone();
    let page = browser.get("/");
    browser.press(&page, "/signout");
    browser.cookies = stolen;
    assert!(!is_signed_in(&mut browser));
}

#[test]
fn signing_in_makes_a_new_session_and_ends_the_one_before() {
    let (server, mut browser) = signed_up();
    // A cookie that an attacker planted is not used.
    let mut planted = Browser::new(&server);
    let chosen = "a".repeat(64);
    planted.cookies.insert("__Host-mailprobe".into(), chosen.clone());
    let page = planted.get("/signin");
    planted.submit(&page, &[("email", EMAIL), ("password", PASSWORD)]);
    assert_ne!(planted.cookies["__Host-mailprobe"], chosen);
    // A sign-in with an open session ends that session.
    let before = browser.cookies.clone();
    let token = browser.get("/").token();
    let form = format!("csrf={token}&email=joe%40example.com&password={}", PASSWORD.replace(' ', "+"));
    assert_eq!(browser.post("/signin", &form).status, 303);
    assert_ne!(browser.cookies, before);
    assert!(is_signed_in(&mut browser));
    browser.cookies = before;
    assert!(!is_signed_in(&mut browser));
}

#[test]
fn sessions_are_listed_and_ended_one_by_one_or_all() {
    let server = Server::start(&[]);
    let mut first = Browser::signed_up(&server, EMAIL);
    let (mut second, mut third) = (sign_in(&server), sign_in(&server));
    let page = first.get("/sessions");
    page.says("Firefox on Windows").says("This session");
    let ends: Vec<_> = page.forms().into_iter().filter(|(action, _)| action == "/sessions/end").collect();
    assert_eq!(ends.len(), 3);
    // The newest use is first: the last form, apart from our own, ends one of the two others.
    let page = first.press(&page, "/sessions/end-others");
    page.says("2 other sessions ended");
    assert!(is_signed_in(&mut first) && !is_signed_in(&mut second) && !is_signed_in(&mut third));

    sign_in(&server);
    let page = first.get("/sessions");
    first.press(&page, "/sessions/end-others").says("1 other session ended.");

    let mut fourth = sign_in(&server);
    let page = first.get("/sessions");
    let other = page.forms().into_iter().find(|(action, hidden)| {
        action == "/sessions/end" && hidden.iter().any(|(name, value)| name == "session" && !value.is_empty())
    });
    let (action, hidden) = other.unwrap();
    let body: Vec<String> = hidden.iter().map(|(name, value)| format!("{name}={value}")).collect();
    first.post(&action, &body.join("&"));
    assert_ne!(is_signed_in(&mut first), is_signed_in(&mut fourth), "exactly one was ended");
}

#[test]
fn a_session_ends_by_itself_when_idle_and_after_its_time() {
    let server = Server::start(&["--test-clock"]);
    let day = 24 * 60 * 60 * 1000;
    let advance = |days: u64| {
        server.advance(days * day);
    };
    let mut idle = Browser::signed_up(&server, EMAIL);
    let mut busy = sign_in(&server);
    for _ in 0..4 {
        advance(6);
        assert!(is_signed_in(&mut busy));
    }
    assert!(!is_signed_in(&mut idle), "24 days idle");
    advance(6);
    assert!(!is_signed_in(&mut busy), "30 days, however busy");
}

#[test]
fn a_session_outlives_a_restart_and_its_token_is_not_in_the_file() {
    let server = Server::start(&[]);
    let browser = Browser::signed_up(&server, EMAIL);
    let database = std::fs::read(server.data().join("mailprobe.redb")).unwrap();
    let token = browser.cookies["__Host-mailprobe"].clone();
    let holds = |needle: &[u8]| database.windows(needle.len()).any(|bytes| bytes == needle);
    let raw: Vec<u8> = (0..32).map(|n| u8::from_str_radix(&token[2 * n..2 * n + 2], 16).unwrap()).collect();
    assert!(!holds(token.as_bytes()) && !holds(&raw));
    assert!(!holds(EMAIL.as_bytes()) && !holds(PASSWORD.as_bytes()));
    let server = server.restart_after_kill();
    let cookies = browser.cookies.clone();
    let mut browser = Browser::new(&server);
    browser.cookies = cookies;
    assert!(is_signed_in(&mut browser));
}
