//! The DNS server: the answers of a resolver, and every misbehaviour.

use crate::common::{ask, query, start, tcp, udp, udp_all};
use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata::opt::EdnsOption},
};
use mailnet::{DnsKind, Running};
use std::{
    str::FromStr,
    time::{Duration, Instant},
};

const WAIT: Duration = Duration::from_millis(400);

fn net() -> Running {
    start(include_str!("../../scenarios/reasons.toml"))
}

#[tokio::test]
async fn negative_answers_say_how_long_they_hold() {
    let net = start(
        "[dns]\nttl = 77\nnegative_ttl = 9\n[[domain]]\nname = \"a.d.example\"\nttl = 5\nmx = 1\n\
         [[host]]\nname = \"named.example\"\nttl = 7\n",
    );
    for (name, code) in [
        ("nobody.example", ResponseCode::NXDomain),
        ("b.d.example", ResponseCode::NXDomain),
        // Names with others below them exist (RFC 8020).
        ("d.example", ResponseCode::NoError),
        ("example", ResponseCode::NoError),
    ] {
        let answer = udp(&net, &query(name, RecordType::MX)).await;
        assert_eq!(answer.metadata.response_code, code, "{name}");
        assert!(answer.answers.is_empty());
        let soa = &answer.authorities[0];
        assert_eq!(soa.ttl, 9);
        assert!(matches!(&soa.data, RData::SOA(soa) if soa.minimum == 9));
    }
    for (name, kind, ttl) in [
        ("a.d.example", RecordType::MX, 5),
        ("mx1.a.d.example", RecordType::A, 77),
        ("named.example", RecordType::A, 7),
    ] {
        assert_eq!(udp(&net, &query(name, kind)).await.answers[0].ttl, ttl, "{name}");
    }
}

#[tokio::test]
async fn headers_are_those_of_a_resolver() {
    let net = net();
    let answer = udp(&net, &query("ok.example", RecordType::MX)).await;
    let head = &answer.metadata;
    assert!(head.recursion_available && head.recursion_desired && !head.authoritative && !head.truncation);
    assert_eq!(head.id, 4711);
    assert_eq!(answer.edns.as_ref().map(|edns| edns.max_payload()), Some(1232));
    let mut plain = query("ok.example", RecordType::MX);
    plain.edns = None;
    assert!(udp(&net, &plain).await.edns.is_none());
    let mixed = query("oK.eXAmple", RecordType::MX);
    let answer = udp_all(&net, &mixed.to_vec().unwrap(), WAIT).await.remove(0).1;
    assert!(
        answer.windows(11).any(|bytes| bytes == b"\x02oK\x07eXAmple"),
        "the case of the question is kept"
    );
}

#[tokio::test]
async fn silence_and_broken_answers_are_played() {
    let net = net();
    let asked = query("dns-timeout.example", RecordType::MX).to_vec().unwrap();
    assert!(udp_all(&net, &asked, WAIT).await.is_empty());
    for name in ["dns-garbage.example", "dns-cut-short.example"] {
        let asked = query(name, RecordType::MX).to_vec().unwrap();
        let answers = udp_all(&net, &asked, WAIT).await;
        assert_eq!(answers.len(), 1, "{name}");
        assert_eq!(answers[0].1[..2], 4711u16.to_be_bytes());
        assert!(Message::from_vec(&answers[0].1).is_err(), "{name}");
    }
}

#[tokio::test]
async fn what_does_not_fit_needs_tcp() {
    let net = net();
    let asked = query("truncated.example", RecordType::MX);
    let answer = udp(&net, &asked).await;
    assert!(answer.metadata.truncation && answer.answers.is_empty());
    let answer = tcp(&net, &asked).await;
    assert!(!answer.metadata.truncation && answer.answers.len() == 1);

    // Forty MX records: too many for 512 bytes, and few enough for 1,232.
    let mut asked = query("many-mx.example", RecordType::MX);
    assert_eq!(udp(&net, &asked).await.answers.len(), 40);
    asked.edns = None;
    assert!(udp(&net, &asked).await.metadata.truncation);
    assert_eq!(tcp(&net, &asked).await.answers.len(), 40);
    assert_eq!(net.stats().dns[&DnsKind::Tcp], 2);
}

#[tokio::test]
async fn a_server_may_not_know_edns() {
    let net = net();
    let mut asked = query("no-edns.example", RecordType::MX);
    let answer = udp(&net, &asked).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
    assert!(answer.edns.is_none() && answer.queries.len() == 1);
    asked.edns = None;
    assert_eq!(udp(&net, &asked).await.answers.len(), 1);
}

#[tokio::test]
async fn forged_answers_come_first() {
    let net = net();
    for name in ["spoofed-id", "spoofed-question", "spoofed-port", "spoofed-case"] {
        let asked = query(&format!("{name}.example"), RecordType::MX);
        let answers = udp_all(&net, &asked.to_vec().unwrap(), WAIT).await;
        assert_eq!(answers.len(), 2, "{name}");
        let (lie, truth) =
            (Message::from_vec(&answers[0].1).unwrap(), Message::from_vec(&answers[1].1).unwrap());
        assert_eq!(lie.metadata.response_code, ResponseCode::NXDomain, "{name}");
        assert_eq!(truth.answers.len(), 1, "{name}");
        assert_eq!(answers[1].0, net.dns());
        assert_eq!(lie.metadata.id != 4711, name == "spoofed-id");
        assert_eq!(answers[0].0 != net.dns(), name == "spoofed-port");
        let name_sent = &asked.queries[0].name;
        assert_eq!(lie.queries[0].name != *name_sent, name == "spoofed-question");
        let same_case = lie.queries[0].name.to_ascii() == name_sent.to_ascii();
        assert_eq!(!same_case, matches!(name, "spoofed-case" | "spoofed-question"), "{name}");
    }
}

#[tokio::test]
async fn latency_and_loss_are_played() {
    let net = start("[dns]\nlatency_ms = [80, 90]\ndrop_every = 3\n[[domain]]\nname = \"d.example\"\n");
    let asked = query("d.example", RecordType::MX);
    let before = Instant::now();
    udp(&net, &asked).await;
    assert!(before.elapsed() >= Duration::from_millis(80));
    udp(&net, &asked).await;
    assert!(udp_all(&net, &asked.to_vec().unwrap(), Duration::from_millis(300)).await.is_empty());
    udp(&net, &asked).await;
    let stats = net.stats();
    assert_eq!((stats.dns[&DnsKind::Udp], stats.dns[&DnsKind::Dropped]), (4, 1));
}

#[tokio::test]
async fn what_is_no_query_is_refused_or_ignored() {
    let net = net();
    let raw = async |bytes: &[u8]| udp_all(&net, bytes, WAIT).await.len();
    assert_eq!(raw(b"").await, 0);
    assert_eq!(raw(b"xy").await, 0);
    assert_eq!(raw(&[0x12, 0x67, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 99]).await, 1, "FORMERR");
    let mut two = query("ok.example", RecordType::MX);
    two.add_query(two.queries[0].clone());
    assert_eq!(udp(&net, &two).await.metadata.response_code, ResponseCode::FormErr);
    let mut answer = query("ok.example", RecordType::MX);
    answer.metadata.message_type = hickory_proto::op::MessageType::Response;
    assert_eq!(raw(&answer.to_vec().unwrap()).await, 0, "answers are never answered");
    let mut update = query("ok.example", RecordType::MX);
    update.metadata.op_code = hickory_proto::op::OpCode::Update;
    assert_eq!(udp_all(&net, &update.to_vec().unwrap(), WAIT).await.len(), 1);
}

#[tokio::test]
async fn the_root_zone_is_known() {
    let net = net();
    for (kind, answers, authorities) in [
        (RecordType::NS, vec![RecordType::NS], vec![]),
        (RecordType::SOA, vec![RecordType::SOA], vec![]),
        (RecordType::MX, vec![], vec![RecordType::SOA]),
    ] {
        let mut root = query("ok.example", kind);
        root.queries[0].name = Name::from_str(".").unwrap();
        let answer = udp(&net, &root).await;
        let types = |records: &[Record]| records.iter().map(Record::record_type).collect::<Vec<_>>();
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{kind}");
        assert_eq!((types(&answer.answers), types(&answer.authorities)), (answers, authorities), "{kind}");
    }
}

#[tokio::test]
async fn long_texts_are_cut_into_strings() {
    let text = "k".repeat(600);
    let net = start(&format!(
        "[[domain]]\nname = \"d.example\"\n[domain.txt]\n\"s._domainkey\" = [\"{text}\"]\n\"@\" = [\"one\", \"two\"]\n"
    ));
    let (_, records) = ask(&net, "s._domainkey.d.example", RecordType::TXT).await;
    let RData::TXT(txt) = &records[0] else { panic!("{records:?}") };
    assert_eq!(txt.txt_data.iter().map(|string| string.len()).collect::<Vec<_>>(), [255, 255, 90]);
    assert_eq!(ask(&net, "d.example", RecordType::TXT).await.1.len(), 2);
    assert_eq!(ask(&net, "_domainkey.d.example", RecordType::TXT).await, (ResponseCode::NoError, Vec::new()));
}

#[tokio::test]
async fn denials_that_prove_nothing_are_played() {
    for (lie, code, has_soa, error) in [
        ("no_soa", ResponseCode::NXDomain, false, None),
        ("nodata_no_soa", ResponseCode::NoError, false, None),
        ("forged", ResponseCode::NXDomain, true, Some(4)),
        ("blocked", ResponseCode::NXDomain, true, Some(15)),
        ("censored", ResponseCode::NXDomain, true, Some(16)),
        ("filtered", ResponseCode::NXDomain, true, Some(17)),
        ("prohibited", ResponseCode::NXDomain, true, Some(18)),
        ("unspecified", ResponseCode::NoError, true, None),
    ] {
        let of_one =
            format!("[[domain]]\nname = \"d.example\"\ndns = \"{lie}\"\n[[domain]]\nname = \"e.example\"\n");
        let of_all = format!("[dns]\nlie = \"{lie}\"\n[[domain]]\nname = \"d.example\"\n");
        for (scenario, other_exists) in [(of_one, true), (of_all, false)] {
            let net = start(&scenario);
            let answer = udp(&net, &query("d.example", RecordType::MX)).await;
            assert_eq!(answer.metadata.response_code, code, "{lie}");
            assert!(answer.answers.is_empty(), "{lie}");
            assert_eq!(answer.authorities.len(), usize::from(has_soa), "{lie}");
            let options = answer.edns.as_ref().unwrap().options().as_ref();
            let said = options.iter().find_map(|(_, option)| match option {
                EdnsOption::Unknown(15, data) => Some(u16::from_be_bytes(*data.first_chunk().unwrap())),
                _ => None,
            });
            assert_eq!(said, error, "{lie}");
            let other = ask(&net, "e.example", RecordType::MX).await;
            assert_eq!(!other.1.is_empty(), other_exists, "{lie}");
            let addresses = ask(&net, "d.example", RecordType::A).await.1;
            let is_unspecified =
                addresses.first().and_then(RData::ip_addr).is_some_and(|ip| ip.is_unspecified());
            assert_eq!(is_unspecified && addresses.len() == 1, lie == "unspecified", "{lie}");
        }
    }
}

#[tokio::test]
async fn a_resolver_without_room_drops_or_refuses() {
    for (refuse, code) in [(false, None), (true, Some(ResponseCode::Refused))] {
        let net = start(&format!(
            "[dns]\nlatency_ms = 200\nunder_way_max = 2\nrefuse = {refuse}\n[[domain]]\nname = \"d.example\"\n"
        ));
        let asked = query("d.example", RecordType::MX).to_vec().unwrap();
        let all = [0, 1, 2].map(|_| udp_all(&net, &asked, WAIT));
        let [a, b, c] = all;
        let answers = tokio::join!(a, b, c);
        let codes = [answers.0, answers.1, answers.2].map(|answers| {
            answers.first().map(|(_, bytes)| Message::from_vec(bytes).unwrap().metadata.response_code)
        });
        assert_eq!(codes.iter().filter(|said| **said == Some(ResponseCode::NoError)).count(), 2, "{codes:?}");
        assert_eq!(codes.iter().filter(|said| **said == code).count(), 1, "{codes:?}");
        assert_eq!(net.stats().dns[&DnsKind::Dropped], 1);
        udp(&net, &query("d.example", RecordType::MX)).await;
    }
}
