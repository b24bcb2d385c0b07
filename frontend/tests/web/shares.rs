//! What strangers can take from users of the dashboard: places in the queue of passwords, and attempts to sign in.

use crate::at_once;
use crate::harness::client::{Answer, escape};
use crate::harness::server::Server;
use crate::web::browser::{Browser, EMAIL, PASSWORD, Page};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRONG: &str = "wrong horse battery";

fn sign_in(browser: &mut Browser, email: &str, password: &str) -> Page {
    let page = browser.get("/signin");
    browser.submit(&page, &[("email", email), ("password", password)])
}

fn signs_in(browser: &mut Browser) -> bool {
    let page = sign_in(browser, EMAIL, PASSWORD);
    (page.status, page.path.as_str()) == (200, "/")
}

/// Tries a password; `None` if the server has ended.
pub fn try_once(browser: &Browser, token: &str, email: &str) -> Option<Answer> {
    let body = format!("csrf={token}&email={}&password={}", escape(email), escape(WRONG));
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let first = format!("POST /signin HTTP/1.1\r\n{kind}\r\nContent-Length: {}\r\n", body.len());
    let mut connection = browser.try_begin(&first, "")?;
    connection.try_send(body);
    connection.try_read()
}

/// Ends a flood, also after a failed assertion. The attempts that wait are not waited for.
struct FloodEnd<'f> {
    is_over: &'f AtomicBool,
    server: &'f Server,
}

impl Drop for FloodEnd<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.server.signal(libc::SIGKILL);
    }
}

#[test]
fn a_flood_from_many_networks_does_not_keep_out_who_has_signed_in_before() {
    let server = Server::start(&[]);
    let mut owner = Browser::signed_up(&server, EMAIL);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 1..=48 {
            let mut browser = Browser::at(&server, [127, 0, 1, number]);
            let is_over = &is_over;
            scope.spawn(move || {
                let token = browser.get("/signin").token();
                while !is_over.load(Ordering::Relaxed) {
                    let answer = try_once(&browser, &token, &format!("user{number}@example.com"));
                    if answer.is_some_and(|answer| answer.status == 503) {
                        thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        let _end = FloodEnd { is_over: &is_over, server: &server };
        let began = Instant::now();
        while !server.get("", "/readyz").body.contains("\"used_up\":[\"passwords\"]") {
            assert!(began.elapsed() < Duration::from_secs(60), "the queue is never full");
        }
        assert!(signs_in(&mut Browser::new(&server)), "from a known network");
        let page = owner.get("/");
        owner.press(&page, "/signout");
        owner.source = [127, 0, 0, 9];
        assert!(signs_in(&mut owner), "in a known browser elsewhere");
    });
}

#[test]
fn attempts_without_a_place_count_neither_for_the_user_nor_for_the_network() {
    let server = Server::start(&[]);
    Browser::signed_up(&server, EMAIL);
    let mut browser = Browser::at(&server, [127, 0, 0, 9]);
    let token = browser.get("/signin").token();
    let answers = at_once(40, |_| try_once(&browser, &token, "jane@example.com").unwrap());
    let wrong = answers.iter().filter(|answer| answer.status == 401).count();
    let share = "Your network has all of its share of the password checks: 4 wait already.";
    let refused = answers.iter().filter(|answer| answer.body.contains(share)).count();
    assert_eq!(wrong + refused, 40);
    let left = 10 - wrong;
    assert!(left > 0, "only those that found a place count: {wrong}");
    for _ in 0..left {
        assert_eq!(sign_in(&mut browser, "jane@example.com", WRONG).status, 401);
    }
    let page = sign_in(&mut browser, "jane@example.com", WRONG);
    page.says("Too many attempts. Wait");
    assert!(signs_in(&mut browser), "the network has attempts left for another user");
}

#[test]
fn wrong_passwords_from_elsewhere_do_not_lock_out_the_owner() {
    let server = Server::start(&[]);
    let mut owner = Browser::signed_up(&server, EMAIL);
    let mut stranger = Browser::at(&server, [127, 0, 0, 2]);
    for _ in 0..10 {
        assert_eq!(sign_in(&mut stranger, EMAIL, WRONG).status, 401);
    }
    assert_eq!(sign_in(&mut stranger, EMAIL, PASSWORD).status, 429);
    assert!(signs_in(&mut Browser::new(&server)), "from the network of the sign-up");
    assert!(signs_in(&mut Browser::at(&server, [127, 0, 0, 3])), "from a network that is new");
    let cookies = owner.cookies.clone();
    owner.cookies.retain(|name, _| name.ends_with("-known"));
    assert_eq!(owner.cookies.len(), 1);
    owner.source = stranger.source;
    assert!(signs_in(&mut owner), "in a browser that has signed in before, from the network of the stranger");
    // A session needs the password for a new one, and the stranger's attempts do not count for it.
    owner.cookies = cookies;
    let page = owner.get("/sessions");
    let page = owner.submit(&page, &[("password", PASSWORD), ("new-password", "another horse battery")]);
    page.says("The password is set.");
    // What is known ends with the password, except in this browser.
    assert_eq!(sign_in(&mut stranger, EMAIL, "another horse battery").status, 429);
    owner.cookies.retain(|name, _| name.ends_with("-known"));
    assert_eq!(sign_in(&mut owner, EMAIL, "another horse battery").status, 200);
}
