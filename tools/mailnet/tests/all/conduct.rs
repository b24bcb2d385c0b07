//! Servers that mislead: they change after refusals, are pools of different nodes, filter names, defer, or close; and
//! the journal of their clients' actions.

use crate::common::{Client, addresses, start};
use mailnet::{Running, Scenario, What};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A domain with the mailboxes `real-#`, one host and a journal.
fn net(server: &str) -> Running {
    start(&scenario(server))
}

fn scenario(server: &str) -> String {
    format!(
        "seed = 3\njournal = true\n[[domain]]\nname = \"d.example\"\nserver = {server}\n\
         mailboxes.ok = [\"real-#\"]\n"
    )
}

fn changes(after: u64, counted: &str, to: &str) -> String {
    format!(
        "{{ personality = \"generic\", changes = [{{ after = {after}, counted = \"{counted}\", {to} }}] }}"
    )
}

/// The codes of unknown recipients in one session, with a real one in between.
async fn codes(client: &mut Client, names: &[&str]) -> Vec<String> {
    let mut codes = Vec::new();
    for name in names {
        codes.push(client.rcpt(&format!("{name}@d.example")).await[..3].to_owned());
    }
    codes
}

const UNKNOWN: [&str; 5] = ["gone-1", "gone-2", "gone-3", "gone-4", "gone-5"];

#[tokio::test]
async fn it_changes_in_the_middle_of_a_session_after_its_count() {
    for (to, unknown, real) in [
        ("to = \"accept\"", "250", "250"),
        ("to = \"refuse\"", "550", "550"),
        ("to = \"reply\", text = \"450 4.3.0 no\"", "450", "450"),
    ] {
        for counted in ["session", "client", "node", "host"] {
            let net = net(&changes(3, counted, to));
            let mut client = Client::mail(&net, "d.example").await;
            assert_eq!(codes(&mut client, &["real-1"]).await, ["250"]);
            assert_eq!(codes(&mut client, &UNKNOWN[..3]).await, ["550"; 3], "{counted} {to}");
            assert_eq!(codes(&mut client, &["gone-4", "real-1"]).await, [unknown, real], "{counted} {to}");
            // Another session starts with a new count only if the scope is the session.
            let mut other = Client::mail(&net, "d.example").await;
            let expected = if counted == "session" { ["550", "250"] } else { [unknown, real] };
            assert_eq!(codes(&mut other, &["gone-5", "real-2"]).await, expected, "{counted} {to}");
        }
    }
}

#[tokio::test]
async fn clients_are_counted_by_their_addresses() {
    let net = start(
        "journal = true\n[[host]]\nname = \"mx.d.example\"\naddresses = [\"127.1.9.9\", \"::1\"]\n\
         server = { personality = \"generic\", changes = [{ after = 2, counted = \"client\", to = \"accept\" }] }\n\
         [[domain]]\nname = \"d.example\"\nmx = [\"10 mx.d.example\"]\nmailboxes.ok = [\"real-#\"]\n",
    );
    for address in addresses(&net, "mx.d.example").await {
        let mut client = Client::to(SocketAddr::new(address, net.smtp_port())).await;
        client.reply().await;
        client.say("EHLO c.example").await;
        client.say("MAIL FROM:<>").await;
        assert_eq!(codes(&mut client, &UNKNOWN[..3]).await, ["550", "550", "250"], "{address}");
    }
}

#[tokio::test]
async fn a_change_can_wait_for_the_next_session_and_be_over_again() {
    let net = net(&changes(2, "host", "to = \"accept\", begins = \"next_session\", within_ms = 400"));
    let mut first = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut first, &UNKNOWN).await, ["550"; 5]);
    let mut second = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut second, &UNKNOWN).await, ["250"; 5]);
    tokio::time::sleep(Duration::from_millis(450)).await;
    let mut third = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut third, &UNKNOWN[..1]).await, ["550"]);
}

#[tokio::test]
async fn nodes_of_a_pool_take_turns() {
    let pool =
        "{ personality = \"generic\", nodes = [\"accept\", \"honest\", \"refuse\", \"451 4.3.0 down\"] }";
    let net = net(pool);
    for expected in [["250", "250"], ["550", "250"], ["550", "550"], ["451", "451"], ["250", "250"]] {
        let mut client = Client::mail(&net, "d.example").await;
        assert_eq!(codes(&mut client, &["gone-1", "real-1"]).await, expected);
    }
    let nodes: Vec<u32> = net
        .journal()
        .events
        .iter()
        .filter(|event| event.what == What::Begins)
        .map(|event| event.node)
        .collect();
    assert_eq!(nodes, [0, 1, 2, 3, 0]);
    let honest =
        net.journal().events.iter().filter(|e| matches!(e.what, What::Rcpt { honest: true, .. })).count();
    assert_eq!(honest, 2, "the honest node's alone");
}

#[tokio::test]
async fn one_node_of_a_pool_can_change_by_its_own_count() {
    let net = net("{ personality = \"generic\", nodes = [\"honest\", \"honest\"], \
         changes = [{ after = 2, counted = \"node\", to = \"accept\" }] }");
    for expected in [vec!["550", "550", "250"], vec!["550", "550", "250"], vec!["250"]] {
        let mut client = Client::mail(&net, "d.example").await;
        assert_eq!(codes(&mut client, &UNKNOWN[..expected.len()]).await, expected);
    }
}

#[tokio::test]
async fn a_tarpit_holds_back_refusals_alone() {
    let net = net(&changes(1, "session", "to = \"delay\", ms = 120"));
    let mut client = Client::mail(&net, "d.example").await;
    for (name, code, slow) in
        [("gone-1", "550", false), ("gone-2", "550", true), ("real-1", "250", false), ("gone-3", "550", true)]
    {
        let began = std::time::Instant::now();
        assert_eq!(codes(&mut client, &[name]).await, [code]);
        assert_eq!(began.elapsed() >= Duration::from_millis(120), slow, "{name} {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_421_in_the_middle_ends_the_session_and_the_journal_tells_who_comes_back() {
    let net = net(&changes(
        2,
        "client",
        "within_ms = 60000, to = \"reply\", text = \"421 4.7.0 Too many unknown recipients, slow down\"",
    ));
    let mut client = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut client, &UNKNOWN[..3]).await, ["550", "550", "421"]);
    assert_eq!(client.end().await.0, b"");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut client = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut client, &["real-1"]).await, ["421"]);
    let journal = net.journal();
    let waits = journal.waits_after_closing("mx1.d.example");
    assert!(waits.len() == 1 && waits[0] >= Duration::from_millis(200), "{waits:?}");
    assert_eq!(journal.refusals_within("mx1.d.example", Duration::from_secs(3600)), 2);
    assert_eq!(net.host_stats("mx1.d.example").unwrap().rcpt_refused, 2);
    assert_eq!(journal.ehlo_names().into_iter().collect::<Vec<_>>(), ["client.example"]);
    assert_eq!(journal.asked("d.example").len(), 4);
    assert_eq!(journal.lost, 0);
}

#[tokio::test]
async fn a_filter_refuses_names_that_look_random_alone() {
    let text = "seed = 1\n[[domain]]\nname = \"d.example\"\nmailboxes.ok = [\"*\"]\n\
                server = { personality = \"generic\", filters_random = \"554 5.7.1 Access denied\" }\n";
    let net = start(text);
    let mut client = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut client, &["maria", "gone-1", "x7k2q9w4"]).await, ["250", "250", "554"]);
}

#[tokio::test]
async fn strangers_can_be_refused_in_words_that_say_nothing() {
    for (personality, words) in [
        ("access-denied", "554 5.7.1 <gone-1@d.example>: Recipient address rejected: Access denied\r\n"),
        ("bare-refusal", "550 \r\n"),
    ] {
        let net = net(&format!("\"{personality}\""));
        let mut client = Client::mail(&net, "d.example").await;
        assert_eq!(client.rcpt("gone-1@d.example").await, words);
        assert_eq!(codes(&mut client, &["real-1"]).await, ["250"]);
    }
}

#[tokio::test]
async fn greylisting_goes_by_triple_recipient_or_client() {
    for (by, other_sender, other_recipient) in
        [("triple", "450", "450"), ("recipient", "250", "450"), ("client", "250", "250")]
    {
        let text = format!(
            "[[domain]]\nname = \"d.example\"\nserver = \"postfix-verify\"\nmailboxes.ok = [\"real-#\"]\n\
             greylist_ms = 200\ngreylist_everyone = true\ngreylist_by = \"{by}\"\n"
        );
        let net = start(&text);
        let mut client = Client::mail(&net, "d.example").await;
        let said = client.rcpt("real-1@d.example").await;
        assert!(said.starts_with("450 4.1.1 ") && said.contains("verification in progress"), "{said}");
        tokio::time::sleep(Duration::from_millis(220)).await;
        assert_eq!(codes(&mut client, &["real-1"]).await, ["250"], "{by}");
        assert_eq!(codes(&mut client, &["real-2"]).await, [other_recipient], "{by}");
        client.say("RSET").await;
        client.say("MAIL FROM:<another@client.example>").await;
        assert_eq!(codes(&mut client, &["real-1"]).await, [other_sender], "{by}");
        // A mailbox that does not exist is first deferred and then refused.
        let later = if by == "client" { "550" } else { "450" };
        assert_eq!(codes(&mut client, &["gone-1"]).await, [later], "{by}");
        tokio::time::sleep(Duration::from_millis(220)).await;
        assert_eq!(codes(&mut client, &["gone-1"]).await, ["550"], "{by}");
    }
}

#[tokio::test]
async fn a_misdeed_can_be_for_one_family_and_for_a_share() {
    let net = start(
        "[[host]]\nname = \"mx.d.example\"\naddresses = [\"::1\", \"127.1.9.8\"]\n\
         server = { personality = \"generic\", faults = [{ at = \"banner\", does = \"reply\", family = \"ipv6\", \
         text = \"550 5.7.25 [{client}] has no PTR record\" }] }\n\
         [[domain]]\nname = \"d.example\"\nmx = [\"10 mx.d.example\"]\nmailboxes.ok = [\"real-#\"]\n",
    );
    assert_eq!(net.expected("real-1@d.example").reason.as_str(), "mailbox_exists");
    for (address, banner) in [("[::1]", "550 5.7.25 [::1] has no PTR"), ("127.1.9.8", "220 ")] {
        let mut client = Client::to(format!("{address}:{}", net.smtp_port()).parse().unwrap()).await;
        let said = client.reply().await;
        assert!(said.starts_with(banner), "{said}");
    }
    let net = start(
        "[[domain]]\nname = \"d.example\"\nmailboxes.ok = [\"real-#\"]\nserver = { personality = \"generic\", \
         faults = [{ at = \"rcpt\", does = \"reply\", text = \"450 4.3.0 no\", percent = 50 }] }\n",
    );
    let mut client = Client::mail(&net, "d.example").await;
    let mut refused = 0;
    for _ in 0..200 {
        refused += u32::from(codes(&mut client, &["real-1"]).await[0] == "450");
    }
    assert!((70..130).contains(&refused), "{refused}");
}

#[test]
fn what_exists_is_known_whatever_the_servers_say() {
    let text =
        |server: &str, more: &str| format!("[[domain]]\nname = \"d.example\"\nserver = {server}\n{more}");
    let exists = |text: &str, address: &str| Scenario::parse(text).unwrap().exists(address);
    let accepts =
        text("{ nodes = [\"accept\"] }", "mailboxes.ok = [\"real-#\"]\nmailboxes.full = [\"full\"]\n");
    assert_eq!(exists(&accepts, "real-7@d.example"), Some(true));
    assert_eq!(exists(&accepts, "full@d.example"), Some(true));
    assert_eq!(exists(&accepts, "gone-7@d.example"), Some(false));
    assert_eq!(exists(&accepts, "real-7@nowhere.example"), Some(false));
    assert_eq!(exists(&text("\"generic\"", "mailboxes.ok = [\"*\"]\n"), "x@d.example"), None);
    assert_eq!(exists(&text("\"generic\"", "unknown = \"ok\"\n"), "x@d.example"), None);
    assert_eq!(exists(&text("\"generic\"", "mailboxes.policy = [\"p\"]\n"), "p@d.example"), None);
}

#[tokio::test]
async fn the_journal_tells_when_a_reply_was_written() {
    let net = net("{ personality = \"generic\", latency_ms = 150 }");
    let mut client = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut client, &["real-1", "gone-1"]).await, ["250", "550"]);
    let times = |wanted: fn(&What) -> bool| -> Vec<u64> {
        let events = net.journal().events;
        events.iter().filter(|event| wanted(&event.what)).map(|event| event.at_ms).collect()
    };
    let written = || times(|what| *what == What::Written);
    let began = Instant::now();
    // The client may have a reply before the server notes that it was written.
    while written().len() < 2 && began.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (asked, written) = (times(|what| matches!(what, What::Rcpt { .. })), written());
    let waits: Vec<u64> = written.iter().zip(&asked).map(|(written, asked)| written - asked).collect();
    assert!(waits.len() == 2 && waits.iter().all(|&wait| wait >= 149), "{waits:?}");
}
