//! Resolvers that deny names without proof, and resolvers that take few queries at once: the engine's answers, and their time.

use crate::support::{self, answer, submit, world};
use engine::config::Pace;
use engine::proto::address::Domain;
use engine::proto::lists::MailService;
use engine::{Answer, Client, Engine, MailHosts, Outage, Priority};
use mailnet::Running;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

const LIES: [&str; 8] =
    ["no_soa", "nodata_no_soa", "forged", "blocked", "censored", "filtered", "prohibited", "unspecified"];

/// The ticket of an answer, and its rule or an outage.
fn said(answer: Answer) -> (u64, &'static str) {
    let said = match answer.result {
        Ok(finding) => finding.rule,
        Err(Outage::Unavailable) => "unavailable",
        Err(_) => "another outage",
    };
    (answer.ticket, said)
}

fn ask(client: &Client, address: &str) -> &'static str {
    said(support::ask(client, address, Priority::Single)).1
}

fn mail_hosts(client: &Client, name: &str) -> Result<MailHosts, Outage> {
    let pending = client.mail_hosts(Domain::parse(name).expect("a domain")).expect("room");
    pending.answer_blocking(PATIENCE).expect("an answer")
}

/// A mailnet with two normal domains, two domains for each lie, and 600 domains with a null MX. `dns` has the resolver's options.
fn with_options(dns: &str) -> Running {
    let mut text = format!("[dns]\n{dns}\n[[domain]]\nname = \"ok.example\"\nmailboxes.ok = [\"a\"]\n");
    text.push_str("[[domain]]\nname = \"null.example\"\nmx = \"null\"\n");
    for lie in LIES {
        let name = lie.replace('_', "-");
        text.push_str(&format!("[[domain]]\nname = \"{name}.example\"\ndns = \"{lie}\"\n"));
        text.push_str(&format!("[[host]]\nname = \"mx.host-{name}.example\"\ndns = \"{lie}\"\n"));
        text.push_str(&format!(
            "[[domain]]\nname = \"host-{name}.example\"\nmx = [\"10 mx.host-{name}.example\"]\n"
        ));
    }
    text.push_str("[[group]]\nname = \"d{n}.many.example\"\ncount = 600\nmx = \"null\"\n");
    world(&text)
}

fn engine(nets: &[&Running]) -> Engine {
    let resolvers: Vec<SocketAddr> = nets.iter().map(|net| net.dns()).collect();
    support::engine(&*resolvers, nets.last().expect("a resolver").smtp_port(), Pace::Lab)
}

#[test]
fn some_names_that_are_denied_without_proof_are_unverifiable() {
    let net = with_options("");
    let engine = engine(&[&net]);
    let client = engine.client(64);
    for lie in LIES {
        let lie = lie.replace('_', "-");
        for name in [format!("{lie}.example"), format!("host-{lie}.example")] {
            assert_eq!(ask(&client, &format!("a@{name}")), "dns_denial_unproven", "{name}");
            assert_eq!(mail_hosts(&client, &name), Ok(MailHosts::Unknown), "{name}");
            let facts = client.facts(Domain::parse(&name).expect("a domain")).expect("room");
            assert_eq!(facts.answer_blocking(PATIENCE), Some(Ok(None)), "{name}");
        }
    }
    // Names that are denied with proof, and names that exist.
    assert_eq!(ask(&client, "a@nobody.example"), "nxdomain");
    assert_eq!(mail_hosts(&client, "nobody.example"), Ok(MailHosts::Absent));
    assert_eq!(mail_hosts(&client, "ok.example"), Ok(MailHosts::Seen(MailService::Own)));
    assert_eq!(ask(&client, "a@null.example"), "null_mx");
    engine.stop();
}

#[test]
fn a_resolver_that_denies_everything_is_an_outage_from_the_first_question() {
    for lie in LIES {
        let net = with_options(&format!("lie = \"{lie}\""));
        let engine = engine(&[&net]);
        let client = engine.client(64);
        for name in ["ok.example", "nobody.example", "null.example", "ok.example"] {
            assert_eq!(ask(&client, &format!("a@{name}")), "unavailable", "{lie}: {name}");
            assert_eq!(mail_hosts(&client, name), Err(Outage::Unavailable), "{lie}: {name}");
        }
        assert!(client.trouble().expect("trouble").is_from_start, "{lie}");
        engine.stop();
        assert_eq!(net.stop().sessions, 0);
    }
}

/// MX targets that are aliases of the name after `=`: the resolver follows them, or with `!` leaves that to the client.
#[test]
fn mx_targets_that_are_aliases_end_as_the_names_to_which_they_lead() {
    let aliases = [
        "gone=nobody.example",
        "!gone-bare=nobody.example",
        "!empty=nothing.test",
        "!chain=mx.gone.example",
        "!bare-chain=mx.gone-bare.example",
        "!loop-a=mx.loop-b.example",
        "!loop-b=mx.loop-a.example",
        "!silent=silent.test",
        "!failing=failing.test",
        "!unproven=unproven.test",
        "!there=mx1.ok.example",
    ];
    let mut text = "[[domain]]\nname = \"ok.example\"\nmailboxes.ok = [\"a\"]\n".to_owned();
    for (name, dns) in
        [("nothing", "nodata"), ("silent", "timeout"), ("failing", "servfail"), ("unproven", "no_soa")]
    {
        text.push_str(&format!("[[host]]\nname = \"{name}.test\"\ndns = \"{dns}\"\n"));
    }
    for alias in aliases {
        let (name, target) = alias.trim_start_matches('!').split_once('=').expect(alias);
        let dns = if alias.starts_with('!') { "alias_only" } else { "ok" };
        let cname = format!("cname = \"{target}\"\ndns = \"{dns}\"\n");
        text.push_str(&format!("[[host]]\nname = \"mx.{name}.example\"\n{cname}"));
        text.push_str(&format!(
            "[[domain]]\nname = \"{name}.example\"\nmx = [\"10 mx.{name}.example\"]\nmailboxes.ok = [\"a\"]\n"
        ));
        text.push_str(&format!("[[domain]]\nname = \"itself-{name}.example\"\n{cname}"));
        text.push_str(&format!("[[domain]]\nname = \"beside-{name}.example\"\nmx = [\"10 mx.{name}.example\", \"20 mx1.ok.example\"]\nmailboxes.ok = [\"a\"]\n"));
    }
    let net = world(&text);
    let engine = engine(&[&net]);
    let client = engine.client(64);
    for (name, rule) in [
        ("gone", "no_mail_host"),
        ("gone-bare", "no_mail_host"),
        ("empty", "no_mail_host"),
        ("chain", "no_mail_host"),
        ("bare-chain", "no_mail_host"),
        ("itself-gone", "nxdomain"),
        ("itself-gone-bare", "nxdomain"),
        ("itself-empty", "no_mail_host"),
        ("loop-a", "dns_failed"),
        ("silent", "dns_timeout"),
        ("failing", "dns_servfail"),
        ("itself-failing", "dns_servfail"),
        ("unproven", "dns_denial_unproven"),
        ("there", "control_refused"),
        ("beside-gone", "control_refused"),
        ("beside-gone-bare", "control_refused"),
        ("beside-loop-a", "control_refused"),
        ("beside-failing", "control_refused"),
    ] {
        let began = Instant::now();
        assert_eq!(ask(&client, &format!("a@{name}.example")), rule, "{name}");
        let is_prompt = began.elapsed() < Duration::from_secs(1);
        assert!(is_prompt || rule.starts_with("dns_"), "{name}: {:?}", began.elapsed());
    }
    engine.stop();
}

/// Asks again until the outage is over.
fn ask_until_available(client: &Client, address: &str) -> &'static str {
    let began = Instant::now();
    loop {
        let rule = ask(client, address);
        if rule != "unavailable" {
            return rule;
        }
        assert!(began.elapsed() < Duration::from_secs(8), "{address}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn service_returns_by_itself() {
    for lie in ["no_soa", "blocked", "unspecified"] {
        let net = with_options(&format!("lie = \"{lie}\"\nlie_until_ms = 2500"));
        let engine = engine(&[&net]);
        let client = engine.client(64);
        assert_eq!(ask(&client, "a@null.example"), "unavailable", "{lie}");
        let denied = format!("a@{}.example", lie.replace('_', "-"));
        for (address, rule) in [
            ("a@null.example", "null_mx"),
            ("a@nobody.example", "nxdomain"),
            // The resolver still denies this name without proof, but that is no outage.
            (&*denied, "dns_denial_unproven"),
        ] {
            assert_eq!(ask_until_available(&client, address), rule, "{lie}: {address}");
        }
        engine.stop();
    }
}

/// The client asks about one name only, so no other name can show that the outage is over.
#[test]
fn service_returns_if_only_a_name_is_asked_for_that_is_denied_for_ever() {
    for lie in ["no_soa", "blocked", "unspecified"] {
        let net = with_options(&format!("lie = \"{lie}\"\nlie_until_ms = 2500"));
        let engine = engine(&[&net]);
        let client = engine.client(64);
        let denied = format!("a@{}.example", lie.replace('_', "-"));
        assert_eq!(ask(&client, &denied), "unavailable", "{lie}");
        assert_eq!(ask_until_available(&client, &denied), "dns_denial_unproven", "{lie}");
        engine.stop();
    }
}

#[test]
fn a_lie_that_begins_in_the_middle_of_a_list_is_an_outage() {
    for lie in ["no_soa", "prohibited", "unspecified"] {
        let net = with_options(&format!("lie = \"{lie}\"\nlie_from_ms = 1500"));
        let engine = engine(&[&net]);
        let client = engine.client(1000);
        let began = Instant::now();
        for n in 1..=300 {
            submit(&client, n, &format!("a@d{n}.many.example"), Priority::List);
        }
        for _ in 1..=300 {
            assert_eq!(said(answer(&client)).1, "null_mx");
        }
        std::thread::sleep(Duration::from_millis(1700).saturating_sub(began.elapsed()));
        for n in 301..=600 {
            submit(&client, n, &format!("a@d{n}.many.example"), Priority::List);
        }
        for _ in 301..=600 {
            assert_eq!(said(answer(&client)).1, "unavailable", "{lie}");
        }
        assert!(!client.trouble().expect("trouble").is_from_start, "{lie}");
        // Records that were found before are still used.
        assert_eq!(ask(&client, "a@d7.many.example"), "null_mx", "{lie}");
        engine.stop();
    }
}

#[test]
fn a_second_honest_resolver_is_enough() {
    for lie in LIES {
        let (liar, honest) = (with_options(&format!("lie = \"{lie}\"")), with_options(""));
        let engine = engine(&[&liar, &honest]);
        let client = engine.client(64);
        for (name, rule) in [("null.example", "null_mx"), ("nobody.example", "nxdomain")] {
            assert_eq!(ask(&client, &format!("a@{name}")), rule, "{lie}: {name}");
        }
        assert_eq!(mail_hosts(&client, "ok.example"), Ok(MailHosts::Seen(MailService::Own)), "{lie}");
        for n in 1..=100 {
            submit(&client, n, &format!("a@d{n}.many.example"), Priority::List);
            assert_eq!(said(answer(&client)).1, "null_mx", "{lie}");
        }
        engine.stop();
        let asked = liar.stop().dns[&mailnet::DnsKind::Udp];
        assert!(asked < 30, "{lie}: the liar is asked {asked} times");
    }
}

#[test]
fn a_second_honest_resolver_is_enough_however_slow_it_is() {
    let (liar, honest) = (with_options("lie = \"unspecified\""), with_options("latency_ms = 1300"));
    let engine = engine(&[&liar, &honest]);
    assert_eq!(ask(&engine.client(64), "a@null.example"), "null_mx");
    engine.stop();
}

#[test]
fn records_that_one_resolver_denies_are_asked_of_the_others() {
    let denies = "[[domain]]\nname = \"split.example\"\nmx = \"none\"\n";
    let denies = world(&format!("{denies}[[domain]]\nname = \"bare.example\"\nmx = \"none\"\n"));
    let knows = "[[domain]]\nname = \"split.example\"\nmx = \"null\"\n";
    let knows = world(&format!("{knows}[[domain]]\nname = \"bare.example\"\nmx = \"none\"\n"));
    let engine = engine(&[&denies, &knows]);
    let client = engine.client(64);
    assert_eq!(ask(&client, "a@split.example"), "null_mx");
    assert_eq!(ask(&client, "a@bare.example"), "no_mail_host", "no resolver knows any record");
    engine.stop();
    let asked = denies.stop().dns[&mailnet::DnsKind::Udp];
    assert!(asked < 12, "the first resolver is asked {asked} times");
}

/// A resolver that falls silent with lookups under way decides about few domains, whether the lookups began at once or in turn.
#[test]
fn a_resolver_that_falls_silent_with_lookups_under_way_decides_about_few_domains() {
    for apart in [Duration::ZERO, Duration::from_millis(10)] {
        let net = with_options("latency_ms = [50, 3000]");
        let engine = engine(&[&net]);
        let client = engine.client(1000);
        for n in 1..=300 {
            submit(&client, n, &format!("a@d{n}.many.example"), Priority::List);
            std::thread::sleep(apart);
        }
        (0..20).for_each(|_| assert_eq!(said(answer(&client)).1, "null_mx"));
        net.stop();
        let rest: Vec<&str> = (20..300).map(|_| said(answer(&client)).1).collect();
        let decided = rest.iter().filter(|rule| rule.starts_with("dns_")).count();
        // The first ones show that the resolver is silent.
        assert!(decided <= 8, "{decided}: {rest:?}");
        engine.stop();
    }
}

#[test]
fn an_inquiry_after_the_resolver_has_gone_is_an_outage() {
    let net = with_options("");
    let engine = engine(&[&net]);
    let client = engine.client(64);
    assert_eq!(ask(&client, "a@null.example"), "null_mx");
    net.stop();
    assert_eq!(mail_hosts(&client, "ok.example"), Err(Outage::Unavailable));
    engine.stop();
}

/// Asks about 600 domains, half of which do not exist, at a resolver with these options. All answers are right within 5 s.
fn all_are_right_soon(options: &str) {
    let net = with_options(options);
    for fast in [false, true] {
        let engine = engine(&[&net]);
        let client = engine.client(1000);
        let began = Instant::now();
        let name = |n: u64| {
            if n.is_multiple_of(2) { format!("d{n}.many.example") } else { format!("dead{n}.example") }
        };
        if fast {
            let asked: Vec<_> = (1..=600)
                .map(|n| client.mail_hosts(Domain::parse(&name(n)).expect("a domain")).expect("room"))
                .collect();
            for pending in asked {
                assert_eq!(pending.answer_blocking(PATIENCE), Some(Ok(MailHosts::Absent)), "{options}");
            }
        } else {
            (1..=600).for_each(|n| submit(&client, n, &format!("a@{}", name(n)), Priority::List));
            for _ in 1..=600 {
                let (ticket, rule) = said(answer(&client));
                assert_eq!(
                    rule,
                    if ticket.is_multiple_of(2) { "null_mx" } else { "nxdomain" },
                    "{options}: {ticket}"
                );
            }
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{options}, fast {fast}: {:?}", began.elapsed());
        engine.stop();
    }
}

#[test]
fn a_resolver_that_drops_what_exceeds_its_room_loses_nobody() {
    all_are_right_soon("under_way_max = 64\nlatency_ms = 5");
    all_are_right_soon("under_way_max = 64\nlatency_ms = 50");
    all_are_right_soon("under_way_max = 64\nlatency_ms = [10, 150]");
}

#[test]
fn a_resolver_that_refuses_what_exceeds_its_room_loses_nobody() {
    all_are_right_soon("under_way_max = 100\nrefuse = true\nlatency_ms = 20");
}

#[test]
fn a_resolver_that_loses_one_question_in_ten_loses_nobody() {
    all_are_right_soon("drop_every = 10\nlatency_ms = 1");
}

#[test]
fn a_silent_resolver_is_an_outage_for_what_is_taken_back_before_its_look_up_ends() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let engine = support::engine(silent.local_addr().expect("its address"), 1, Pace::Lab);
    for take_back in [Client::recall, Client::drain] {
        let client = engine.client(1);
        submit(&client, 1, "a@ok.example", Priority::List);
        take_back(&client);
        assert_eq!(said(answer(&client)), (1, "unavailable"));
    }
    engine.stop();
}
