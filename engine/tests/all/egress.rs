//! Sources: which of them asks a site, what follows if a site blocks a source, and proxies that work or fail.

mod socks;

use crate::support::{self, answer, submit, world};
use engine::config::{DriverChoice, EngineConfig, Pace, RuntimeChoice, SourceConfig, SourceWay};
use engine::{Client, Engine, Outage, Priority};
use mailnet::Running;
use socks::{Manner, Socks};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

/// Hosts that name their client in the greeting. `wary` blocks 127.0.0.1 and 127.0.0.2.
const PERSONALITIES: &str = "[[personality]]\nname = \"plain\"\nbanner = \"220 {host} sees {client}\"\n\
                             [[personality]]\nname = \"wary\"\nlike = \"plain\"\nblocks = [\"127.0.0.2\", \"127.0.0.1\"]\n";

/// `count` domains, each with its own host, the mailbox alice and the settings `more`.
fn domains(count: usize, server: &str, more: &str) -> String {
    let mut text = String::from(PERSONALITIES);
    for n in 0..count {
        write!(
            text,
            "[[domain]]\nname = \"d{n}.example\"\nserver = {server}\nmailboxes.ok = [\"alice\"]\n{more}\n"
        )
        .expect("text");
    }
    text
}

fn source(text: &str) -> SourceConfig {
    match text.strip_prefix("ipv6+") {
        Some(text) => {
            let mut source = source(text);
            let SourceWay::Proxy(proxy) = &mut source.way else { panic!("no proxy") };
            proxy.ipv6 = true;
            source
        }
        None if text.starts_with("socks5:") => SourceConfig::parse_proxy(text).expect("a proxy"),
        None => SourceConfig::parse_address(text).expect("an address"),
    }
}

fn start_on(net: &Running, sources: &[&str], runtime: RuntimeChoice) -> Engine {
    let driver = if runtime == RuntimeChoice::Glommio { DriverChoice::IoUring } else { DriverChoice::Epoll };
    let sources = sources.iter().map(|text| source(text)).collect();
    let config = support::config(net.dns(), net.smtp_port(), Pace::Lab);
    Engine::start(EngineConfig { sources, runtime, driver, ..config }).expect("the engine starts")
}

fn start(net: &Running, sources: &[&str]) -> (Engine, Client) {
    let engine = start_on(net, sources, RuntimeChoice::Monoio);
    let client = engine.client(200);
    (engine, client)
}

#[derive(Debug)]
struct Said {
    reason: &'static str,
    rule: &'static str,
    retry_after: u64,
    trace: String,
}

fn ask(client: &Client, address: &str) -> Said {
    let answer = support::ask(client, address, Priority::Single);
    let trace = answer.trace.join("\n");
    match answer.result {
        Ok(finding) => {
            let retry_after = finding.retry_after.map_or(0, |time| time.as_secs());
            Said { reason: finding.reason.as_str(), rule: finding.rule, retry_after, trace }
        }
        Err(Outage::Unavailable) => Said { reason: "unavailable", rule: "", retry_after: 0, trace },
        Err(outage) => panic!("{outage:?}"),
    }
}

/// The client addresses that the greetings in the trace name.
fn seen(said: &Said) -> BTreeSet<&str> {
    said.trace.split("sees ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect()
}

/// Runs each of the tests on each runtime.
macro_rules! on_each_runtime {
    ($($test:ident)*) => {
        mod on_monoio {
            $(#[test] fn $test() { super::$test(super::RuntimeChoice::Monoio); })*
        }

        #[cfg(feature = "glommio")]
        mod on_glommio {
            $(#[test] fn $test() { super::$test(super::RuntimeChoice::Glommio); })*
        }
    };
}

on_each_runtime!(each_site_has_one_source a_source_serves_its_family through_proxies);

fn each_site_has_one_source(runtime: RuntimeChoice) {
    let net = world(&domains(12, "\"plain\"", ""));
    let sources = ["127.0.0.2=a.example", "127.0.0.3=b.example"];
    let mut before = Vec::new();
    for round in 0..2 {
        let engine = start_on(&net, &sources, runtime);
        let client = engine.client(8);
        let mut chosen = Vec::new();
        for n in 0..12 {
            let said = ask(&client, &format!("alice@d{n}.example"));
            assert_eq!(said.reason, "mailbox_exists", "{}", said.trace);
            let seen = seen(&said);
            let (address, name) = match seen.contains("127.0.0.2") {
                true => ("127.0.0.2", "a.example"),
                false => ("127.0.0.3", "b.example"),
            };
            assert_eq!(seen.into_iter().collect::<Vec<_>>(), [address], "{}", said.trace);
            assert!(said.trace.contains(&format!("C: EHLO {name}\n")), "{}", said.trace);
            assert!(said.trace.contains(&format!("C: MAIL FROM:<postmaster@{name}>")), "{}", said.trace);
            assert!(said.trace.contains(&format!(" from {address}: open")), "{}", said.trace);
            chosen.push(address);
        }
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 2, "both are used");
        assert!(round == 0 || chosen == before, "the same after a restart");
        before = chosen;
        engine.stop();
    }
    assert_eq!(net.stop().violations, Default::default());
}

#[test]
fn who_comes_back_comes_from_where_it_came() {
    // The hosts greylist each combination of client, sender and recipient.
    let net = world(&domains(12, "\"plain\"", "mailboxes.greylisted = [\"bob\"]\ngreylist_ms = 100"));
    let (engine, client) = start(&net, &["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    for n in 0..12 {
        assert_eq!(ask(&client, &format!("bob@d{n}.example")).reason, "unverifiable");
    }
    // By then, no session is open any more.
    thread::sleep(Duration::from_millis(2500));
    for n in 0..12 {
        let said = ask(&client, &format!("bob@d{n}.example"));
        assert_eq!(said.reason, "mailbox_exists", "{}", said.trace);
    }
    engine.stop();
}

#[test]
fn a_source_that_is_blocked_rests_and_no_other_takes_its_place() {
    let net = world(&domains(12, "\"wary\"", ""));
    let (engine, client) = start(&net, &["127.0.0.2=a.example", "127.0.0.3=b.example"]);
    let mut blocked = Vec::new();
    for n in 0..12 {
        let said = ask(&client, &format!("alice@d{n}.example"));
        match said.rule {
            "blocklist" => {
                assert_eq!((said.reason, said.retry_after), ("unverifiable", 300), "{}", said.trace);
                blocked.push(n);
            }
            _ => assert_eq!(said.reason, "mailbox_exists", "{}", said.trace),
        }
    }
    assert!((1..12).contains(&blocked.len()), "{blocked:?}");
    let sessions = net.stats().sessions;
    for n in &blocked {
        let said = ask(&client, &format!("alice@d{n}.example"));
        assert_eq!((said.reason, said.rule), ("unverifiable", "source_rested"), "{}", said.trace);
        assert!((290..=300).contains(&said.retry_after), "{}", said.retry_after);
    }
    assert_eq!(net.stats().sessions, sessions, "nobody was asked");
    let figures = engine.gauge()();
    let told: Vec<_> =
        figures.sources.iter().map(|source| (source.name.as_str(), source.rests, source.resting)).collect();
    assert_eq!(told, [("127.0.0.2", blocked.len() as u64, blocked.len()), ("127.0.0.3", 0, 0)]);
    engine.stop();
}

#[test]
fn a_block_at_mail_counts_and_another_host_may_still_answer() {
    let blocked = "550 5.7.1 Service unavailable, client host blocked using zen.spamhaus.org";
    let fault = format!(
        "{{ personality = \"plain\", faults = [{{ at = \"mail\", does = \"reply\", text = \"{blocked}\" }}] }}"
    );
    let mut text = domains(1, &fault, "");
    // The first host of this domain blocks us, the second does not.
    write!(
        text,
        "[[domain]]\nname = \"two.example\"\nmx = [\"10 mx1.two.example\", \"20 mx2.two.example\"]\n\
         mailboxes.ok = [\"alice\"]\n[[host]]\nname = \"mx1.two.example\"\nserver = \"wary\"\n\
         [[host]]\nname = \"mx2.two.example\"\nserver = \"plain\"\n"
    )
    .expect("text");
    let net = world(&text);
    let (engine, client) = start(&net, &["127.0.0.2"]);
    let first = ask(&client, "alice@d0.example");
    assert_eq!((first.rule, first.retry_after), ("blocklist", 300), "{}", first.trace);
    assert_eq!(ask(&client, "alice@d0.example").rule, "source_rested");
    for _ in 0..2 {
        let said = ask(&client, "alice@two.example");
        assert_eq!(said.reason, "mailbox_exists", "{}", said.trace);
    }
    engine.stop();
}

const LISTED: &str = "554 5.7.1 Service unavailable; Client host blocked using zen.spamhaus.org";

/// A server of this personality that answers every RCPT with `text`.
fn says_to_all(text: &str, personality: &str) -> String {
    format!(
        "{{ personality = \"{personality}\", faults = [{{ at = \"rcpt\", does = \"reply\", text = \"{text}\" }}] }}"
    )
}

#[test]
fn a_block_at_rcpt_counts_once_everyone_has_heard_it() {
    let net = world(&domains(1, &says_to_all(LISTED, "plain"), ""));
    let (engine, client) = start(&net, &["127.0.0.2"]);
    for _ in 0..5 {
        let said = ask(&client, "alice@d0.example");
        assert_eq!(
            (said.reason, said.rule, said.retry_after),
            ("unverifiable", "blocklist", 0),
            "{}",
            said.trace
        );
    }
    let said = ask(&client, "alice@d0.example");
    assert_eq!((said.rule, engine.gauge()().sources[0].rests), ("source_rested", 1), "{}", said.trace);
    assert!((290..=300).contains(&said.retry_after), "{}", said.retry_after);
    engine.stop();
    assert_eq!(net.stop().rcpt, 5);
}

#[test]
fn without_sources_a_host_that_blocks_everyone_is_left_alone_for_a_minute() {
    let net = world(&domains(1, &says_to_all(LISTED, "plain"), ""));
    let (engine, client) = start(&net, &[]);
    for asked in 0..8 {
        // Whether or not the host was asked, the answer has no `retry_after`, because a later check alone does not help.
        let said = ask(&client, "alice@d0.example");
        let expected = ("unverifiable", "blocklist", 0);
        assert_eq!((said.reason, said.rule, said.retry_after), expected, "{asked}: {}", said.trace);
    }
    engine.stop();
    assert_eq!(net.stop().rcpt, 5);
}

#[test]
fn a_host_of_many_domains_may_block_us_for_one_of_them() {
    let server = says_to_all(LISTED, "plain");
    let mut text = format!("{PERSONALITIES}[[host]]\nname = \"mx.hosting.example\"\nserver = {server}\n");
    for n in 0..6 {
        write!(text, "[[domain]]\nname = \"d{n}.example\"\nmx = [\"10 mx.hosting.example\"]\n")
            .expect("text");
    }
    let net = world(&text);
    let (engine, client) = start(&net, &["127.0.0.2"]);
    for _ in 0..8 {
        let said = ask(&client, "alice@d0.example");
        assert_eq!((said.rule, said.retry_after), ("blocklist", 0), "{}", said.trace);
    }
    // Several shards ask a busy site. Each of them has to get this reply for several domains.
    let mut rules = (0..60).map(|n| ask(&client, &format!("alice@d{}.example", n % 6)).rule);
    assert!(rules.any(|rule| rule == "source_rested"));
    engine.stop();
    let asked = net.stop().rcpt;
    assert!((10..40).contains(&asked), "{asked} recipients were asked about");
}

#[test]
fn a_host_that_answers_for_somebody_blocks_not_everyone() {
    let text = format!(
        "[[personality]]\nname = \"picky\"\nreplies = {{ policy = \"{LISTED}\" }}\n\
         [[domain]]\nname = \"d0.example\"\nserver = \"picky\"\n\
         mailboxes = {{ ok = [\"alice\"], policy = [\"bob\"] }}\n"
    );
    let net = world(&text);
    let (engine, client) = start(&net, &[]);
    for _ in 0..3 {
        for (address, expected) in [("bob@d0.example", "unverifiable"); 4]
            .into_iter()
            .chain([("alice@d0.example", "mailbox_exists"), ("nobody@d0.example", "mailbox_not_found")])
        {
            let said = ask(&client, address);
            assert_eq!(said.reason, expected, "{}", said.trace);
        }
    }
    engine.stop();
    net.stop();
}

#[test]
fn a_host_that_knows_no_rcpt_is_asked_about_a_few_recipients_over_two_sessions() {
    let net = world(&domains(1, &says_to_all("500 5.3.0 Error: command failed", "no-pipelining"), ""));
    let (engine, client) = start(&net, &[]);
    for n in 0..200 {
        submit(&client, n, &format!("user-{n}@d0.example"), Priority::List);
    }
    for _ in 0..200 {
        let finding = answer(&client).result.expect("no outage");
        assert_eq!((finding.reason.as_str(), finding.rule), ("unverifiable", "protocol"));
    }
    engine.stop();
    let stats = net.stop();
    assert!((5..=12).contains(&stats.rcpt), "{} recipients were asked about", stats.rcpt);
    assert!((2..=8).contains(&stats.sessions), "over {} sessions", stats.sessions);
}

#[test]
fn without_sources_a_refusal_is_the_hosts() {
    let net = world(&domains(1, "\"wary\"", ""));
    let (engine, client) = start(&net, &[]);
    for _ in 0..2 {
        let said = ask(&client, "alice@d0.example");
        assert_eq!(
            (said.reason, said.rule, said.retry_after),
            ("unverifiable", "blocklist", 0),
            "{}",
            said.trace
        );
    }
    engine.stop();
}

/// One domain with a host on IPv6, and one with a host on IPv4.
const FAMILIES: &str = "[[domain]]\nname = \"six.example\"\nmx = [\"10 mx.six.example\"]\nmailboxes.ok = [\"alice\"]\n\
                        [[host]]\nname = \"mx.six.example\"\naddresses = [\"::1\"]\nserver = \"plain\"\n\
                        [[domain]]\nname = \"four.example\"\nserver = \"plain\"\nmailboxes.ok = [\"alice\"]\n";

fn a_source_serves_its_family(runtime: RuntimeChoice) {
    let net = world(&format!("{PERSONALITIES}{FAMILIES}"));
    let said = |sources: &[&str], address: &str| {
        let engine = start_on(&net, sources, runtime);
        let said = ask(&engine.client(8), address);
        engine.stop();
        (said.reason, said.rule, seen(&said).into_iter().next().map(str::to_owned))
    };
    let exists = |from: &str| Some(from.to_owned());
    assert_eq!(said(&["127.0.0.2"], "alice@six.example").1, "ipv6_only");
    assert_eq!(said(&["::1"], "alice@four.example").1, "no_source");
    assert_eq!(said(&["::1"], "alice@six.example").2, exists("::1"));
    assert_eq!(said(&["::1"], "alice@six.example").0, "mailbox_exists");
    assert_eq!(said(&["::1", "127.0.0.2"], "alice@six.example").2, exists("::1"));
    assert_eq!(said(&["::1", "127.0.0.2"], "alice@four.example").2, exists("127.0.0.2"));
    net.stop();
}

fn through_proxies(runtime: RuntimeChoice) {
    let net = world(&format!("{}{FAMILIES}", domains(1, "\"plain\"", "")));
    for (manner, login) in [
        (Manner::Open, ""),
        (Manner::Open, "user:secret@"),
        (Manner::Login, "user:secret@"),
        (Manner::Odd, "user:secret@"),
    ] {
        let proxy = Socks::start(manner);
        // If `localhost` resolves to `::1` first, the proxy listens only on its second address.
        let place = format!("localhost:{}", proxy.address.port());
        let engine = start_on(&net, &[&format!("ipv6+socks5://{login}{place}=p.example")], runtime);
        let client = engine.client(8);
        for (address, expected) in [
            ("alice@d0.example", "mailbox_exists"),
            ("nobody@d0.example", "mailbox_not_found"),
            ("alice@six.example", "mailbox_exists"),
        ] {
            let said = ask(&client, address);
            assert_eq!(said.reason, expected, "{manner:?}: {}", said.trace);
            assert!(!said.trace.contains("secret"), "{}", said.trace);
            assert!(said.trace.contains("C: MAIL FROM:<postmaster@p.example>"), "{}", said.trace);
        }
        assert!(proxy.asked().iter().all(|to| to.port() == net.smtp_port()));
        assert!(proxy.asked().iter().any(|to| to.is_ipv6()) && proxy.asked().iter().any(|to| to.is_ipv4()));
        engine.stop();
    }
    assert_eq!(net.stop().violations, Default::default());
}

/// The reason and the rule for alice through a proxy of this manner, and how long the answer took.
fn behind(manner: Manner, login: &str) -> (&'static str, &'static str, Duration) {
    let net = world(&domains(1, "\"plain\"", ""));
    let proxy = Socks::start(manner);
    let (engine, client) = start(&net, &[&format!("socks5://{login}{}", proxy.address)]);
    let began = Instant::now();
    let said = ask(&client, "alice@d0.example");
    assert_eq!(net.stats().sessions, 0);
    engine.stop();
    (said.reason, said.rule, began.elapsed())
}

#[test]
fn a_proxy_that_cannot_be_used_is_an_outage_of_ours() {
    let rows = [
        (Manner::ClosesAtGreeting, "user:secret@"),
        (Manner::HangsAtGreeting, ""),
        (Manner::SpeaksHttp, ""),
        (Manner::Login, ""),
        (Manner::Login, "user:wrong@"),
        (Manner::ClosesAtLogin, "user:secret@"),
        (Manner::Replies(7), ""),
        (Manner::Replies(99), ""),
        (Manner::GarblesReply, ""),
    ];
    let asked = rows.map(|(manner, login)| thread::spawn(move || behind(manner, login)));
    for (row, asked) in rows.into_iter().zip(asked) {
        let (reason, _, time) = asked.join().expect("no panic");
        assert_eq!(reason, "unavailable", "{row:?}");
        assert!(time > Duration::from_secs(5) && time < Duration::from_secs(30), "{row:?}: {time:?}");
    }
}

#[test]
fn a_destination_that_a_proxy_cannot_reach_is_the_hosts_fault() {
    let codes = [1, 2, 3, 4, 5, 6, 8].map(Manner::Replies);
    let rows = codes.into_iter().chain([Manner::ClosesAtConnect, Manner::CutsShort]);
    let asked: Vec<_> = rows.map(|manner| (manner, thread::spawn(move || behind(manner, "")))).collect();
    for (manner, asked) in asked {
        let (reason, rule, time) = asked.join().expect("no panic");
        assert_eq!((reason, rule), ("unverifiable", "no_connection"), "{manner:?}");
        assert!(time < Duration::from_secs(5), "{manner:?}: {time:?}");
    }
}

#[test]
fn an_outage_of_one_source_is_not_one_of_the_others_and_passes() {
    // So many that not all of them have the same source, whatever the port of the proxy is.
    const DOMAINS: u64 = 20;
    let net = world(&domains(DOMAINS as usize, "\"plain\"", ""));
    let proxy = Socks::start(Manner::SpeaksHttp);
    let (engine, client) = start(&net, &[&format!("socks5://{}", proxy.address), "127.0.0.3"]);
    for n in 0..DOMAINS {
        submit(&client, n, &format!("alice@d{n}.example"), Priority::Single);
    }
    let mut down = Vec::new();
    for _ in 0..DOMAINS {
        let answer = answer(&client);
        match answer.result {
            Ok(finding) => {
                assert_eq!(finding.reason.as_str(), "mailbox_exists");
                assert!(answer.trace.join("\n").contains("sees 127.0.0.3"));
            }
            Err(_) => down.push(answer.ticket),
        }
    }
    assert!((1..DOMAINS as usize).contains(&down.len()), "{down:?}");
    let figures = engine.gauge()();
    assert_eq!(figures.sources.iter().map(|source| source.down).collect::<Vec<_>>(), [true, false]);

    proxy.now(Manner::Open);
    let until = Instant::now() + Duration::from_secs(5);
    while ask(&client, &format!("alice@d{}.example", down[0])).reason != "mailbox_exists" {
        assert!(Instant::now() < until, "it does not pass");
        thread::sleep(Duration::from_millis(100));
    }
    for n in down {
        let said = ask(&client, &format!("alice@d{n}.example"));
        assert_eq!(said.reason, "mailbox_exists", "{}", said.trace);
        assert!(!said.trace.contains("sees 127.0.0.3"), "{}", said.trace);
        // A session that is still open shows no connection.
        assert!(!said.trace.contains("connect ") || said.trace.contains(" through "), "{}", said.trace);
    }
    engine.stop();
}
