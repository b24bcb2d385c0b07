//! Servers that mislead, and the journal of their clients' actions.

use crate::common::{Client, start};
use mailnet::{Running, What};
use std::time::{Duration, Instant};

/// A domain with the mailboxes `real-#`, one host and a journal.
fn net(server: &str) -> Running {
    start(&format!(
        "seed = 3\njournal = true\n[[domain]]\nname = \"d.example\"\nserver = {server}\n\
         mailboxes.ok = [\"real-#\"]\n"
    ))
}

/// The codes of unknown recipients in one session, with a real one in between.
async fn codes(client: &mut Client, names: &[&str]) -> Vec<String> {
    let mut codes = Vec::new();
    for name in names {
        codes.push(client.rcpt(&format!("{name}@d.example")).await[..3].to_owned());
    }
    codes
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
async fn a_421_in_the_middle_ends_the_session_and_the_journal_tells_who_comes_back() {
    let net =
        net("{ personality = \"generic\", changes = [{ after = 2, counted = \"client\", within_ms = 60000, \
         to = \"reply\", text = \"421 4.7.0 Too many unknown recipients, slow down\" }] }");
    let mut client = Client::mail(&net, "d.example").await;
    assert_eq!(codes(&mut client, &["gone-1", "gone-2", "gone-3"]).await, ["550", "550", "421"]);
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
async fn a_misdeed_can_be_for_a_share() {
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
