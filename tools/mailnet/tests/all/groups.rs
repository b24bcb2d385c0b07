//! Groups: domains from the seed, their variants, and hosts that are down.

use crate::common::{Client, addresses, ask, start};
use hickory_proto::{
    op::ResponseCode,
    rr::{RData, RecordType},
};
use mailnet::{Expected, Scenario};

const GROUP: &str = r#"
seed = 12
[[group]]
name = "d{n}.example"
count = 400
first = 11
mx = [1, 3]
equal = true
server = "qmail"
mailboxes.ok = ["user-#"]
txt."@" = ["v=spf1 -all"]
[[group.variant]]
percent = 25
server = "gmail"
mailboxes = { full = ["user-#"] }
[[group.variant]]
percent = 25
mx = "null"
[[group.variant]]
percent = 10
dns = "servfail"
[[group.variant]]
percent = 10
unknown = "ok"
[[group.variant]]
percent = 10
greylist_ms = 500
greylist_everyone = true
"#;

fn near(count: usize, percent: usize) -> bool {
    (percent * 4).abs_diff(count) <= 24
}

#[test]
fn variants_get_their_share() {
    let scenario = Scenario::parse(GROUP).unwrap();
    assert_eq!(scenario.domains(), 400);
    let verdicts: Vec<_> = (11..411).map(|n| scenario.expected(&format!("user-1@d{n}.example"))).collect();
    let count = |expected| verdicts.iter().filter(|verdict| verdict.patient == expected).count();
    assert!(near(count(Expected::InboxFull), 25), "{}", count(Expected::InboxFull));
    assert!(near(count(Expected::MailboxNotFound), 25), "{}", count(Expected::MailboxNotFound));
    assert!(near(count(Expected::Unverifiable), 10), "{}", count(Expected::Unverifiable));
    assert!(near(count(Expected::CatchAll), 10), "{}", count(Expected::CatchAll));
    assert!(near(count(Expected::MailboxExists), 30), "{}", count(Expected::MailboxExists));
    let waiting = verdicts.iter().filter(|verdict| verdict.reason != verdict.patient).count();
    assert!(near(waiting, 10), "{waiting}");
    assert_eq!(scenario.expected("user-1@d10.example").reason, Expected::MailboxNotFound, "before the first");
}

#[tokio::test]
async fn members_are_served_as_their_variant_says() {
    let net = start(GROUP);
    let mut seen = [0; 4];
    for n in 11..61 {
        let domain = format!("d{n}.example");
        let (code, records) = ask(&net, &domain, RecordType::MX).await;
        let mx: Vec<_> = records
            .iter()
            .filter_map(|data| match data {
                RData::MX(mx) => Some((mx.preference, mx.exchange.is_root())),
                _ => None,
            })
            .collect();
        if code == ResponseCode::ServFail {
            seen[0] += 1;
        } else if mx == [(0, true)] {
            seen[1] += 1;
        } else {
            assert!((1..=3).contains(&mx.len()) && mx.iter().all(|record| *record == (10, false)), "{mx:?}");
            assert_eq!(ask(&net, &domain, RecordType::TXT).await.1.len(), 1);
            let is_full = net.expected(&format!("user-1@{domain}")).reason == Expected::InboxFull;
            let banner = Client::connect(&net, &domain).await.reply().await;
            assert_eq!(banner.contains("google"), is_full, "{banner}");
            seen[2 + usize::from(is_full)] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[tokio::test]
async fn a_share_of_the_hosts_is_down() {
    let net = start(
        "seed = 3\n[[group]]\nname = \"d{n}.example\"\ncount = 300\nrefused_hosts = 20\nblackhole_hosts = 25\n\
         mailboxes.ok = [\"a\"]\n",
    );
    let (mut holes, mut dead) = (0, 0);
    for n in 1..=300 {
        let domain = format!("d{n}.example");
        let address = addresses(&net, &format!("mx1.{domain}")).await[0];
        let is_hole = address.to_string().starts_with("127.250.");
        let is_dead = net.expected(&format!("a@{domain}")).reason == Expected::Unverifiable;
        holes += usize::from(is_hole);
        dead += usize::from(is_dead);
        if !is_hole {
            let refused = tokio::net::TcpStream::connect((address, net.smtp_port())).await.is_err();
            assert_eq!(refused, is_dead, "{domain}");
        }
    }
    // A quarter of the four fifths that are not refused.
    assert!((40..80).contains(&holes), "{holes}");
    assert!((95..145).contains(&dead), "{dead}");
}
