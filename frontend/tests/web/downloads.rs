//! A download with a slow caller, among other connections.

use crate::harness::server::{Server, get};
use crate::web::browser::Browser;
use crate::web::lists::{upload, wait};
use std::time::{Duration, Instant};

#[test]
fn a_download_is_not_idle_while_there_is_more_of_it() {
    let server = Server::start(&["--connections", "2", "--frontends", "1"]);
    let mut browser = Browser::signed_up(&server, "joe@example.com");
    // More bytes than all buffers on the way hold.
    let note = "x".repeat(900_000);
    let row = |n| format!("mailbox_exists@d{n}.example.com,{note}\n");
    let content: String = std::iter::once("email,note\n".to_owned()).chain((0..12).map(row)).collect();
    let page = upload(&mut browser, "list.csv", content.as_bytes(), "email");
    let path = page.path.clone();
    let page = wait(&mut browser, &path, "Cost");
    browser.press(&page, &format!("{path}/start"));
    wait(&mut browser, &path, "Download result");

    let mut slow = server.connect_with_small_buffers();
    let cookies = browser.cookies();
    slow.send(format!(
        "GET {path}/download HTTP/1.1\r\nHost: {}\r\nCookie: {cookies}\r\n\r\n",
        server.address
    ));
    assert_eq!(slow.read_head().status, 200);
    let mut idle = server.connect();
    idle.send(get("", "/livez"));
    assert_eq!(idle.read().status, 200);
    let began = Instant::now();
    let mut newcomer = server.connect();
    newcomer.send(get("", "/livez"));
    assert_eq!(newcomer.read().status, 200);
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for the download");
    assert!(idle.try_read().is_none(), "the one that was idle gave way");
}
