//! SMTP peers that behave well: mailboxes, limits, and the rules for their clients.

use crate::common::{self, Client, PATIENCE, place, start, start_server};
use mailnet::{Running, Violation};
use std::time::{Duration, Instant};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

#[tokio::test]
async fn every_mailbox_has_its_reply() {
    let net = start(
        r#"
        [[domain]]
        name = "d.example"
        server = "generic"
        greylist_ms = 60000
        [domain.mailboxes]
        ok = ["alice"]
        not_found = ["never"]
        full = ["full"]
        full_temporary = ["full-today"]
        disabled = ["disabled"]
        greylisted = ["grey"]
        policy = ["policy"]
        throttled = ["throttled"]
        exists_throttled = ["popular"]
        relay = ["relay"]
        temporary = ["temporary"]
        restricted = ["restricted"]
        "#,
    );
    let mut client = Client::mail(&net, "d.example").await;
    for (local, reply) in [
        ("alice", "250 2.1.5 "),
        ("ALICE", "250 2.1.5 "),
        ("nobody", "550 5.1.1 <nobody@d.example>"),
        ("never", "550 5.1.1 "),
        ("full", "552 5.2.2 "),
        ("full-today", "452 4.2.2 "),
        ("disabled", "550 5.2.1 "),
        ("grey", "450 4.7.1 "),
        ("policy", "550 5.7.1 "),
        ("throttled", "450 4.7.0 "),
        ("popular", "450 4.2.1 "),
        ("relay", "550 5.7.1 <relay@d.example>: relaying denied"),
        ("temporary", "451 4.3.0 "),
        ("restricted", "550 5.7.1 "),
    ] {
        let said = client.rcpt(&format!("{local}@d.example")).await;
        assert!(said.starts_with(reply), "{local}: {said}");
    }
    assert!(client.rcpt("alice@elsewhere.example").await.contains("relaying denied"));
    assert!(client.rcpt("postmaster").await.starts_with("250"));
    assert!(client.rcpt("\"a b>@c\"@d.example").await.starts_with("550 5.1.1"));
    let stats = net.stats();
    assert_eq!((stats.rcpt, stats.rcpt_accepted, stats.mail), (17, 3, 1));
    assert_eq!(net.domain_stats("d.example").unwrap().rcpt, 17);
    assert!(stats.violations.is_empty(), "{stats:?}");
}

#[tokio::test]
async fn a_space_before_a_path_is_a_violation_that_some_servers_accept() {
    for (accepts, replies) in [(false, ["501", "503"]), (true, ["250", "250"])] {
        let net = start(&format!(
            r#"
            [[personality]]
            name = "any"
            space_before_path = {accepts}
            [[domain]]
            name = "d.example"
            server = "any"
            mailboxes.ok = ["alice"]
            "#
        ));
        let mut client = Client::greet(&net, "d.example").await;
        for (command, reply) in
            ["MAIL FROM: <a@client.example>", "RCPT TO: <alice@d.example>"].iter().zip(replies)
        {
            let said = client.say(command).await;
            assert!(said.starts_with(reply), "{command}: {said}");
        }
        let violations = net.stats().violations;
        assert_eq!(violations.get(&Violation::Syntax), Some(&if accepts { 2 } else { 1 }), "{violations:?}");
    }
}

#[tokio::test]
async fn mailboxes_can_end_the_session() {
    let net = start(
        r#"
        [[domain]]
        name = "d.example"
        [domain.mailboxes]
        closing = ["closing"]
        hangup = ["hangup"]
        reset = ["reset"]
        silent = ["silent"]
        "#,
    );
    for (local, text, end) in [
        ("closing", "421 4.3.2", common::End::Closed),
        ("hangup", "", common::End::Closed),
        ("reset", "", common::End::Reset),
    ] {
        let mut client = Client::mail(&net, "d.example").await;
        client.send(&format!("RCPT TO:<{local}@d.example>\r\n")).await;
        let (said, how) = client.end().await;
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with(text) && said.is_empty() == text.is_empty(), "{local}: {said}");
        assert_eq!(how, end, "{local}");
    }
    let mut client = Client::mail(&net, "d.example").await;
    client.send("RCPT TO:<silent@d.example>\r\n").await;
    assert!(client.is_silent().await);
}

#[tokio::test]
async fn strangers_are_answered_as_the_domain_says() {
    for (unknown, reply) in [
        ("ok", "250"),
        ("not_found", "550 5.1.1"),
        ("temporary", "451 4.3.0"),
        ("policy", "550 5.7.1"),
        ("throttled", "450 4.7.0"),
        ("relay", "550 5.7.1"),
        ("closing", "421"),
        ("hangup", ""),
    ] {
        let net = start(&format!(
            "[[domain]]\nname = \"d.example\"\nserver = \"generic\"\nunknown = \"{unknown}\"\nmailboxes.ok = [\"alice\"]"
        ));
        let mut client = Client::mail(&net, "d.example").await;
        assert!(client.rcpt("alice@d.example").await.starts_with("250"));
        let said = client.rcpt("q7w8e9r0@d.example").await;
        assert!(said.starts_with(reply) && said.is_empty() == reply.is_empty(), "{unknown}: {said}");
    }
}

#[tokio::test]
async fn greylisting_remembers_the_triple() {
    let net = start(
        r#"
        [[domain]]
        name = "listed.example"
        greylist_ms = 1500
        mailboxes.greylisted = ["grey"]
        mailboxes.ok = ["alice"]
        [[domain]]
        name = "everyone.example"
        greylist_ms = 1500
        greylist_everyone = true
        mailboxes.ok = ["alice"]
        "#,
    );
    let mut listed = Client::mail(&net, "listed.example").await;
    let mut everyone = Client::mail(&net, "everyone.example").await;
    assert!(listed.rcpt("alice@listed.example").await.starts_with("250"));
    assert!(listed.rcpt("grey@listed.example").await.starts_with("450"));
    assert!(listed.rcpt("grey@listed.example").await.starts_with("450"));
    assert!(everyone.rcpt("alice@everyone.example").await.starts_with("450"));
    assert!(everyone.rcpt("nobody@everyone.example").await.starts_with("450"));
    tokio::time::sleep(Duration::from_millis(1600)).await;
    assert!(listed.rcpt("grey@listed.example").await.starts_with("250"));
    assert!(everyone.rcpt("alice@everyone.example").await.starts_with("250"));
    assert!(everyone.rcpt("nobody@everyone.example").await.starts_with("550"));
    assert!(everyone.rcpt("other@everyone.example").await.starts_with("450"));
    assert!(listed.say("RSET").await.starts_with("250"));
    assert!(listed.say("MAIL FROM:<other@client.example>").await.starts_with("250"));
    assert!(listed.rcpt("grey@listed.example").await.starts_with("450"), "another sender waits again");
}

fn custom(keys: &str) -> Running {
    start(&format!(
        "[[personality]]\nname = \"own\"\n{keys}\n[[domain]]\nname = \"d.example\"\nserver = \"own\"\n\
         mailboxes.ok = [\"alice\", \"ok-#\"]\n"
    ))
}

#[tokio::test]
async fn refusals_slow_a_session_down_and_end_it() {
    let net = custom("errors_slow = 2\nslow_ms = 600\nerrors_max = 4");
    let mut client = Client::mail(&net, "d.example").await;
    for n in 1..=2 {
        let before = Instant::now();
        assert!(client.rcpt(&format!("no{n}@d.example")).await.starts_with("550"));
        assert!(before.elapsed() < Duration::from_millis(600));
    }
    let before = Instant::now();
    assert!(client.rcpt("no3@d.example").await.starts_with("550"));
    assert!(client.rcpt("alice@d.example").await.starts_with("250"));
    assert!(before.elapsed() >= Duration::from_millis(1200), "both waited");
    // The rest of the group is never answered.
    client.send("RCPT TO:<no4@d.example>\r\nRCPT TO:<alice@d.example>\r\n").await;
    assert!(client.reply().await.starts_with("550"));
    assert!(client.reply().await.starts_with("421 4.7.0"));
    assert_eq!(client.end().await, (Vec::new(), common::End::Closed));
}

#[tokio::test]
async fn a_stock_postfix_hangs_up_after_twenty_refusals() {
    let net = custom("like = \"postfix\"\nslow_ms = 0");
    let mut client = Client::mail(&net, "d.example").await;
    for n in 1..20 {
        assert!(client.rcpt(&format!("no{n}@d.example")).await.starts_with("550"), "{n}");
    }
    assert!(client.rcpt("no20@d.example").await.starts_with("550"));
    assert!(client.reply().await.starts_with("421"));
}

#[tokio::test]
async fn transactions_and_sessions_are_limited() {
    let net = custom("rcpt_max = 2\ntransactions_max = 2\nsessions_max = 1");
    let mut client = Client::mail(&net, "d.example").await;
    let mut second = Client::connect(&net, "d.example").await;
    assert!(second.reply().await.starts_with("421 4.7.0"), "one session at a time");
    for reply in ["250", "550", "452 4.5.3"] {
        let local = if reply == "550" { "nobody" } else { "alice" };
        assert!(client.rcpt(&format!("{local}@d.example")).await.starts_with(reply));
    }
    assert!(client.say("RSET").await.starts_with("250"));
    assert!(client.say("MAIL FROM:<>").await.starts_with("250"));
    assert!(client.rcpt("alice@d.example").await.starts_with("250"), "counted anew");
    assert!(client.say("RSET").await.starts_with("250"));
    assert!(client.say("MAIL FROM:<>").await.starts_with("421"));
}

#[tokio::test]
async fn harvesters_hear_of_policy_alone() {
    let net = custom("not_found_max = 3");
    let mut client = Client::mail(&net, "d.example").await;
    for _ in 0..3 {
        assert!(client.rcpt("nobody@d.example").await.starts_with("550 5.1.1"));
    }
    let mut client = Client::mail(&net, "d.example").await;
    assert!(client.rcpt("alice@d.example").await.starts_with("550 5.7.1"), "in every session of the client");
}

#[tokio::test]
async fn pauses_are_kept() {
    let net = custom("banner_delay_ms = 120\naccept_pause_ms = 600");
    let before = Instant::now();
    let mut client = Client::mail(&net, "d.example").await;
    assert!(before.elapsed() >= Duration::from_millis(120));
    let before = Instant::now();
    client.rcpt("alice@d.example").await;
    assert!(before.elapsed() >= Duration::from_millis(600));
    let before = Instant::now();
    client.rcpt("ok-1@d.example").await;
    assert!(before.elapsed() < Duration::from_millis(600), "once a transaction");

    let net = start_server("{ latency_ms = [80, 100] }");
    let mut client = Client::mail(&net, "d.example").await;
    let before = Instant::now();
    client.send(&"RCPT TO:<alice@d.example>\r\n".repeat(20)).await;
    for _ in 0..20 {
        assert!(client.reply().await.starts_with("250"));
    }
    let took = before.elapsed();
    assert!(
        took >= Duration::from_millis(80) && took < Duration::from_millis(1600),
        "once a batch: {took:?}"
    );
}

#[tokio::test]
async fn a_group_is_answered_in_one_piece() {
    let net = start_server("\"generic\"");
    let mut client = Client::greet(&net, "d.example").await;
    let group = "MAIL FROM:<>\r\n".to_owned() + &"RCPT TO:<alice@d.example>\r\n".repeat(10) + "RSET\r\n";
    client.send(&group).await;
    client.more().await;
    assert_eq!(String::from_utf8_lossy(&client.held).matches("\r\n").count(), 12);
}

#[tokio::test]
async fn a_server_may_know_helo_alone() {
    let net = start_server("\"helo-only\"");
    let mut client = Client::connect(&net, "d.example").await;
    client.reply().await;
    assert!(client.say("EHLO client.example").await.starts_with("502"));
    assert_eq!(client.say("HELO client.example").await, "250 mx1.d.example\r\n");
    assert!(client.say("MAIL FROM:<>").await.starts_with("250"));
    assert!(client.rcpt("alice@d.example").await.starts_with("250"));
    assert!(client.say("QUIT").await.starts_with("221"));
    assert!(net.stats().violations.is_empty());
    assert_eq!(client.end().await.1, common::End::Closed);
    assert_eq!(net.stats().sessions_without_quit, 0);
}

#[tokio::test]
async fn extensions_are_listed_and_held_to() {
    let net = start_server("\"no-pipelining\"");
    let mut client = Client::connect(&net, "d.example").await;
    assert_eq!(client.reply().await, "220 mx1.d.example ESMTP\r\n");
    let ehlo = client.say("EHLO client.example").await;
    assert_eq!(
        ehlo,
        "250-mx1.d.example at your service\r\n250-SIZE 10485760\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n"
    );
    assert!(client.say("MAIL FROM:<a@b.example> SIZE=100 BODY=8BITMIME").await.starts_with("250"));
    assert!(net.stats().violations.is_empty());

    let net = start_server("\"generic\"");
    let mut client = Client::greet(&net, "d.example").await;
    assert!(client.say("MAIL FROM:<größe@b.example> SMTPUTF8").await.starts_with("250"));
    assert!(client.rcpt("größe@d.example").await.starts_with("550 5.1.1 <größe@d.example>"));
    assert!(net.stats().violations.is_empty());
}

/// A script that a client sends after the greeting of a personality, and the rule that it breaks.
async fn breaks(server: &str, script: &[&str], violation: Violation, times: u64) {
    let net = start_server(&format!("\"{server}\""));
    let mut client = Client::connect(&net, "d.example").await;
    client.reply().await;
    for step in script {
        client.send(step).await;
        for _ in 0..step.matches('\n').count() {
            client.reply().await;
        }
    }
    let violations = net.stats().violations;
    assert_eq!(violations.into_iter().collect::<Vec<_>>(), [(violation, times)], "{script:?}");
}

#[tokio::test]
async fn broken_rules_are_counted() {
    use Violation::*;
    const EHLO: &str = "EHLO c.example\r\n";
    const MAIL: &str = "MAIL FROM:<>\r\n";
    let long = format!("NOOP {}\r\n", "x".repeat(510));
    let rows: &[(&str, &[&str], Violation, u64)] = &[
        ("no-pipelining", &[EHLO, "MAIL FROM:<>\r\nRCPT TO:<a@d.example>\r\n"], PipeliningNotOffered, 1),
        ("generic", &["EHLO c.example\r\nMAIL FROM:<>\r\n"], PipeliningNotOffered, 1),
        ("generic", &[EHLO, "NOOP\r\nRSET\r\n"], PipelinedPastGroupEnd, 1),
        ("generic", &[EHLO, MAIL, MAIL], NestedMail, 1),
        ("generic", &[EHLO, "RCPT TO:<a@d.example>\r\n"], RcptBeforeMail, 1),
        ("generic", &[MAIL], MailBeforeEhlo, 1),
        ("generic", &[EHLO, "DATA\r\n", "BDAT 0 LAST\r\n"], Data, 2),
        ("generic", &[EHLO, "vrfy a\r\n"], Vrfy, 1),
        ("generic", &[EHLO, "Expn a\r\n"], Expn, 1),
        ("generic", &[EHLO, "AUTH PLAIN\r\n"], Auth, 1),
        ("no-pipelining", &[EHLO, "STARTTLS\r\n"], StarttlsNotOffered, 1),
        ("generic", &["STARTTLS\r\n"], StarttlsNotOffered, 1),
        ("generic", &[EHLO, &long], LineTooLong, 1),
        ("generic", &["EHLO c.example\n"], BareLf, 1),
        ("no-pipelining", &[EHLO, "MAIL FROM:<> SMTPUTF8\r\n"], ParameterNotOffered, 1),
        ("generic", &["HELO c.example\r\n", "MAIL FROM:<> SIZE=1\r\n"], ParameterNotOffered, 1),
        ("generic", &[EHLO, MAIL, "RCPT TO:<größe@d.example>\r\n"], ParameterNotOffered, 1),
        ("generic", &[EHLO, "MAIL FROM: <>\r\n"], Syntax, 1),
        ("generic", &[EHLO, MAIL, "RCPT TO:<>\r\n"], Syntax, 1),
        ("generic", &["EHLO\r\n"], Syntax, 1),
        ("generic", &["HTTP/1.1 GET /\r\n"], UnknownCommand, 1),
        ("generic", &["X\r\n"], UnknownCommand, 1),
    ];
    for (server, script, violation, times) in rows {
        breaks(server, script, *violation, *times).await;
    }
}

#[tokio::test]
async fn impatient_clients_are_noticed() {
    // A command that arrives before the greeting is sent.
    let net = custom("banner_delay_ms = 500");
    let mut client = Client::connect(&net, "d.example").await;
    client.send("EHLO c.example\r\n").await;
    assert!(client.reply().await.starts_with("220"));
    assert!(client.reply().await.starts_with("250"));
    assert_eq!(net.stats().violations.into_iter().collect::<Vec<_>>(), [(Violation::EarlyTalker, 1)]);

    // A command in a separate packet, but before the previous reply.
    let net = start_server("{ personality = \"no-pipelining\", latency_ms = 600 }");
    let mut client = Client::greet(&net, "d.example").await;
    client.send("MAIL FROM:<>\r\n").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.send("RCPT TO:<alice@d.example>\r\n").await;
    assert!(client.reply().await.starts_with("250"));
    assert!(client.reply().await.starts_with("250"));
    assert_eq!(
        net.stats().violations.into_iter().collect::<Vec<_>>(),
        [(Violation::PipeliningNotOffered, 1)]
    );
}

#[tokio::test]
async fn a_refused_mail_excuses_the_recipients_behind_it() {
    let net = start_server(
        "{ faults = [{ at = \"mail\", does = \"reply\", text = \"451 4.7.1 {sender} later\" }] }",
    );
    let mut client = Client::greet(&net, "d.example").await;
    client.send("MAIL FROM:<p@c.example>\r\nRCPT TO:<alice@d.example>\r\n").await;
    assert!(client.reply().await.starts_with("451 4.7.1"));
    assert!(client.reply().await.starts_with("503"));
    assert!(net.stats().violations.is_empty());
}

#[tokio::test]
async fn a_line_without_end_ends_the_session() {
    let net = start_server("\"generic\"");
    let mut client = Client::greet(&net, "d.example").await;
    client.send(&"x".repeat(70_000)).await;
    assert!(client.reply().await.starts_with("500"));
    assert_eq!(net.stats().violations[&Violation::LineTooLong], 1);
}

#[tokio::test]
async fn sessions_are_counted() {
    let net = start_server("\"generic\"");
    let first = Client::greet(&net, "d.example").await;
    let second = Client::greet(&net, "d.example").await;
    let stats = net.stats();
    assert_eq!((stats.sessions, stats.sessions_open, stats.sessions_peak), (2, 2, 2));
    drop((first, second));
    timeout(PATIENCE, async {
        while net.stats().sessions_open > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("sessions end");
    assert_eq!(net.stats().sessions_without_quit, 2);
    let host = net.host_stats("mx1.d.example").unwrap();
    assert_eq!((host.sessions, host.sessions_open, host.sessions_peak), (2, 0, 2));
    assert!(net.host_stats("d.example").is_none());
}

#[tokio::test]
async fn stopping_frees_the_ports_and_ends_sessions() {
    let net = start_server("\"generic\"");
    let place = place(&net, "d.example").await;
    let dns = net.dns();
    let mut client = Client::greet(&net, "d.example").await;
    let stats = net.stop();
    assert_eq!(stats.sessions, 1);
    assert!(TcpStream::connect(place).await.is_err());
    assert!(std::net::UdpSocket::bind(dns).is_ok());
    let mut rest = Vec::new();
    assert!(timeout(PATIENCE, client.stream.read_to_end(&mut rest)).await.is_ok());
}
