use super::*;
use crate::dns::tests::{TestReply, name, question};
use crate::limits::{DNS_CNAMES_MAX, DNS_RECORDS_MAX, DNS_TXT_BYTES_MAX};
use hickory_proto::op::{Edns, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, RData, rdata};
use proptest::prelude::*;

const UNPROVEN: Response = Response::Unproven(Doubt::NoSoa);

const CAPITALS: [u64; 4] = [0x5555_5555_5555_5555; 4];

/// The response that is read from a reply to the question.
fn check(question: &Question, make: impl FnOnce(TestReply) -> TestReply) -> Response {
    let sent = encode(question, 0x1234, CAPITALS, Extension::Edns);
    let reply = make(TestReply::to(sent.bytes()));
    decode(&sent, question, &reply.bytes()).expect("a reply to the question")
}

fn mx(preference: u16, host: &str) -> Mx {
    Mx { preference, exchange: Exchange::Host(name(host)) }
}

#[test]
fn a_question_is_encoded_to_the_octet() {
    let asked = question("ab.example", RecordKind::Mx);
    let sent = encode(&asked, 0xabcd, [0b1010, 0, 0, 0], Extension::None);
    let expected = b"\xab\xcd\x01\x00\0\x01\0\0\0\0\0\0\x02aB\x07eXample\0\0\x0f\0\x01";
    assert_eq!(sent.bytes(), expected);
    assert_eq!(sent.id(), 0xabcd);
    assert_eq!(sent.framed(), [b"\0\x1c".as_slice(), expected].concat());
    // OPT at the root, UDP payload 1232, no flags, no options.
    let sent = encode(&asked, 0xabcd, [0; 4], Extension::Edns);
    assert!(sent.bytes().ends_with(b"\0\0\x29\x04\xd0\0\0\0\0\0\0"), "{:x?}", sent.bytes());
    assert_eq!(sent.bytes()[10..12], [0, 1]);
    let sent = encode(&asked, 0xabcd, [0; 4], Extension::Dnssec);
    assert!(sent.bytes().ends_with(b"\0\0\x29\x04\xd0\0\0\x80\0\0\0"), "{:x?}", sent.bytes());
}

#[test]
fn the_root_is_encoded() {
    let asked = Question { name: Name::root(), kind: RecordKind::A };
    let sent = encode(&asked, 1, CAPITALS, Extension::Edns);
    assert_eq!(sent.bytes()[12..17], [0, 0, 1, 0, 1]);
    let reply = TestReply::to(sent.bytes()).soa(".", 60, 60);
    assert_eq!(decode(&sent, &asked, &reply.bytes()), Ok(Response::NoData(60)));
}

#[test]
fn every_letter_has_a_bit() {
    let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(61));
    let asked = question(&long, RecordKind::Txt);
    for bit in [0, 1, 63, 64, 127, 128, 191, 192, 249] {
        let mut capitals = [0; 4];
        capitals[bit / 64] = 1 << (bit % 64);
        let sent = encode(&asked, 1, capitals, Extension::None);
        let letters: Vec<u8> = sent.bytes()[12..].iter().copied().filter(u8::is_ascii_alphabetic).collect();
        let found: Vec<usize> = (0..letters.len()).filter(|&n| letters[n] == b'A').collect();
        assert_eq!(found, [bit]);
    }
}

#[test]
fn all_kinds_of_names_can_be_asked_for() {
    for text in ["_dmarc.example.com", "x", "4.3.2.1.in-addr.arpa", "sel._domainkey.example.com"] {
        let asked = question(text, RecordKind::Txt);
        let sent = encode(&asked, 7, CAPITALS, Extension::Edns);
        let reply = TestReply::to(sent.bytes());
        assert_eq!(reply.0.queries[0].name().to_ascii().to_ascii_lowercase(), format!("{text}."));
        assert_eq!(decode(&sent, &asked, &reply.bytes()), Ok(UNPROVEN), "{text}");
    }
}

#[test]
fn records_of_each_kind() {
    let asked = question("example.com", RecordKind::Mx);
    let found = check(&asked, |r| {
        r.mx("example.com", 300, 20, "b.Example.COM").mx("EXAMPLE.com", 200, 10, "a.example.com")
    });
    assert_eq!(
        found,
        Response::Records(Records::Mx(vec![mx(20, "b.example.com"), mx(10, "a.example.com")]), 200)
    );

    let found = check(&question("h.example", RecordKind::A), |r| r.a("h.example", 5, [192, 0, 2, 1]));
    assert_eq!(found, Response::Records(Records::A(vec![Ipv4Addr::new(192, 0, 2, 1)]), 5));

    let found = check(&question("h.example", RecordKind::Aaaa), |r| r.aaaa("h.example", 5, "2001:db8::1"));
    let expected = "2001:db8::1".parse().expect("an address");
    assert_eq!(found, Response::Records(Records::Aaaa(vec![expected]), 5));

    let txt = |parts: &[&[u8]]| RData::TXT(rdata::TXT::from_bytes(parts.to_vec()));
    let found = check(&question("h.example", RecordKind::Txt), |r| {
        r.record("h.example", 5, txt(&[b"v=spf1 in", b"clude:x"])).record("h.example", 5, txt(&[b"\xff"]))
    });
    assert_eq!(found, Response::Records(Records::Txt(vec!["v=spf1 include:x".into(), "\u{fffd}".into()]), 5));

    let reverse =
        Question { name: Name::reverse("192.0.2.1".parse().expect("an address")), kind: RecordKind::Ptr };
    let ptr = RData::PTR(rdata::PTR("Mail.Example.com.".parse().expect("a name")));
    let found = check(&reverse, |r| r.record("1.2.0.192.in-addr.arpa", 5, ptr));
    assert_eq!(found, Response::Records(Records::Ptr(vec![name("mail.example.com")]), 5));
}

#[test]
fn exchanges() {
    let asked = question("example.com", RecordKind::Mx);
    for (target, expected) in [
        (".", Exchange::Null),
        ("a.example", Exchange::Host(name("a.example"))),
        ("_dc-mx.a.example", Exchange::Host(name("_dc-mx.a.example"))),
        ("192.0.2.1", Exchange::Host(name("192.0.2.1"))),
        ("a b.example", Exchange::Invalid),
        ("b\u{fc}cher.example", Exchange::Invalid),
        ("*.example", Exchange::Invalid),
    ] {
        let found = check(&asked, |r| r.mx("example.com", 60, 0, target));
        let expected = Records::Mx(vec![Mx { preference: 0, exchange: expected }]);
        assert_eq!(found, Response::Records(expected, 60), "{target}");
    }
}

#[test]
fn cnames_are_followed() {
    let asked = question("www.example.com", RecordKind::A);
    let found = check(&asked, |r| {
        r.a("c.example.net", 500, [192, 0, 2, 1]) // the order of the records does not matter
            .cname("B.example.net", 400, "c.example.net")
            .cname("www.example.com", 300, "b.example.net")
    });
    assert_eq!(found, Response::Records(Records::A(vec![Ipv4Addr::new(192, 0, 2, 1)]), 300));

    let found =
        check(&asked, |r| r.cname("www.example.com", 300, "x.example.net").soa("example.net", 900, 800));
    assert_eq!(found, Response::NoData(800), "of the target");
    let found = check(&asked, |r| {
        r.cname("www.example.com", 300, "x.example.net")
            .soa("example.net", 70, 800)
            .code(ResponseCode::NXDomain)
    });
    assert_eq!(found, Response::NxDomain(70), "of the target");
    // The resolver stops at the alias, with no SOA record or only one of another zone.
    for (zone, code) in [
        (None, ResponseCode::NoError),
        (None, ResponseCode::NXDomain),
        (Some("example.com"), ResponseCode::NoError),
        (Some("example.com"), ResponseCode::NXDomain),
    ] {
        let found = check(&asked, |r| {
            let r = r
                .cname("www.example.com", 300, "b.example.com")
                .cname("b.example.com", 200, "x.example.net")
                .code(code);
            zone.into_iter().fold(r, |r, zone| r.soa(zone, 900, 800))
        });
        assert_eq!(found, Response::Alias(name("x.example.net"), 200), "{zone:?} {code}");
    }
    let unreadable = check(&asked, |r| r.cname("www.example.com", 300, "a b.example.net"));
    assert_eq!(unreadable, UNPROVEN);
}

#[test]
fn cnames_end_somewhere() {
    let asked = question("n0.example", RecordKind::A);
    let chain = |r: TestReply, length: usize| {
        let linked =
            (0..length).fold(r, |r, n| r.cname(&format!("n{n}.example"), 60, &format!("n{}.example", n + 1)));
        linked.a(&format!("n{length}.example"), 60, [192, 0, 2, 1])
    };
    assert!(matches!(check(&asked, |r| chain(r, DNS_CNAMES_MAX)), Response::Records(..)));
    let endless = Response::Failed(Failure::CnameLoop);
    assert_eq!(check(&asked, |r| chain(r, DNS_CNAMES_MAX + 1)), endless);
    assert_eq!(check(&asked, |r| r.cname("n0.example", 60, "n0.example")), endless);
    assert_eq!(check(&asked, |r| r.cname("n0.example", 60, "b.").cname("b.", 60, "n0.example")), endless);
}

#[test]
fn what_was_not_asked_for_is_ignored() {
    let asked = question("example.com", RecordKind::A);
    let found = check(&asked, |r| {
        r.a("other.example", 60, [192, 0, 2, 1])
            .mx("example.com", 60, 1, "mx.example.com")
            .a("mx.example.com", 60, [192, 0, 2, 2])
            .cname("other.example", 60, "example.com")
    });
    assert_eq!(found, UNPROVEN);
    let chaos = check(&asked, |r| {
        let mut r = r.a("example.com", 60, [192, 0, 2, 1]);
        r.0.answers[0].dns_class = DNSClass::CH;
        r
    });
    assert_eq!(chaos, UNPROVEN);
}

#[test]
fn negative_answers() {
    let asked = question("a.example.com", RecordKind::Mx);
    for (zone, ttl, minimum, expected) in [
        ("example.com", 3600, 600, Some(600)),
        ("example.com", 60, 600, Some(60)),
        ("a.example.com", 60, 600, Some(60)),
        (".", 86_400, 86_400, Some(86_400)),
        ("example.net", 60, 600, None),
        ("b.a.example.com", 60, 600, None),
    ] {
        let with = |r: TestReply| r.soa(zone, ttl, minimum);
        assert_eq!(check(&asked, with), expected.map_or(UNPROVEN, Response::NoData), "{zone}");
        let found = check(&asked, |r| with(r).code(ResponseCode::NXDomain));
        assert_eq!(found, expected.map_or(UNPROVEN, Response::NxDomain), "{zone}");
    }
    assert_eq!(check(&asked, |r| r), UNPROVEN);
}

/// Adds the Extended DNS Error `code` (RFC 8914) to a reply, after another one that does not mean forgery.
fn extended(mut reply: TestReply, code: u16) -> TestReply {
    let mut edns = Edns::new();
    for code in [3, code] {
        let data = [code.to_be_bytes().as_slice(), b"because"].concat();
        edns.options_mut().insert(EdnsOption::Unknown(15, data));
    }
    reply.0.set_edns(edns);
    reply
}

#[test]
fn forged_denials_prove_nothing() {
    for kind in [RecordKind::Mx, RecordKind::A] {
        let asked = question("a.example.com", kind);
        let soa = |r: TestReply| r.soa("example.com", 60, 60);
        for code in FORGED {
            let doubt = Response::Unproven(Doubt::Extended(code));
            assert_eq!(check(&asked, |r| extended(soa(r), code)), doubt);
            assert_eq!(check(&asked, |r| extended(soa(r), code).code(ResponseCode::NXDomain)), doubt);
            let lie = check(&asked, |r| {
                extended(r, code).a("a.example.com", 60, [192, 0, 2, 1]).mx(
                    "a.example.com",
                    60,
                    1,
                    "mx.example",
                )
            });
            assert_eq!(lie, doubt, "records can be forged as well");
        }
        // Other errors, such as Stale NXDOMAIN or DNSSEC Indeterminate, do not show a filter.
        for code in [0, 5, 14, 19, 22] {
            assert_eq!(check(&asked, |r| extended(soa(r), code)), Response::NoData(60), "{code}");
        }
        let short = check(&asked, |r| {
            let mut r = soa(r);
            let mut edns = Edns::new();
            edns.options_mut().insert(EdnsOption::Unknown(15, vec![15]));
            r.0.set_edns(edns);
            r
        });
        assert_eq!(short, Response::NoData(60), "no code");
    }
}

#[test]
fn the_unspecified_address_is_a_denial() {
    let (v4, v6) = (question("h.example", RecordKind::A), question("h.example", RecordKind::Aaaa));
    let doubt = Response::Unproven(Doubt::Unspecified);
    assert_eq!(check(&v4, |r| r.a("h.example", 60, [0, 0, 0, 0])), doubt);
    assert_eq!(check(&v6, |r| r.aaaa("h.example", 60, "::")), doubt);
    let mixed = check(&v4, |r| r.a("h.example", 60, [0, 0, 0, 0]).a("h.example", 60, [192, 0, 2, 1]));
    assert!(matches!(mixed, Response::Records(Records::A(found), 60) if found.len() == 2));
}

#[test]
fn answers_that_are_none() {
    let asked = question("example.com", RecordKind::Mx);
    for (code, why) in [
        (ResponseCode::ServFail, Failure::ServFail),
        (ResponseCode::Refused, Failure::Refused),
        (ResponseCode::FormErr, Failure::FormErr),
        (ResponseCode::NotImp, Failure::NotImp),
        (ResponseCode::NotAuth, Failure::OtherCode),
    ] {
        assert_eq!(check(&asked, |r| r.code(code)), Response::Failed(why), "{code}");
        // The code is a failure even if there are records.
        let found = check(&asked, |r| r.code(code).mx("example.com", 60, 1, "mx.example.com"));
        assert_eq!(found, Response::Failed(why), "{code} with records");
    }
    let badvers = check(&asked, |r| {
        let mut r = r.code(ResponseCode::BADVERS);
        r.0.set_edns(Edns::new());
        r
    });
    assert_eq!(badvers, Response::Failed(Failure::FormErr));
    let referral = check(&asked, |r| r.ns("com", "a.gtld-servers.net"));
    assert_eq!(referral, Response::Failed(Failure::Referral));
    let both = check(&asked, |r| r.mx("example.com", 60, 1, "mx.example").code(ResponseCode::NXDomain));
    assert_eq!(both, Response::Failed(Failure::Malformed), "exists and does not");
}

#[test]
fn a_truncated_answer_is_not_read() {
    let asked = question("example.com", RecordKind::Mx);
    let sent = encode(&asked, 1, CAPITALS, Extension::Edns);
    let whole = TestReply::to(sent.bytes()).mx("example.com", 60, 1, "mx.example.com").truncated().bytes();
    for end in sent.bytes().len() - 11..=whole.len() {
        assert_eq!(decode(&sent, &asked, &whole[..end]), Ok(Response::Truncated), "cut at {end}");
    }
}

#[test]
fn strangers_are_ignored() {
    let asked = question("example.com", RecordKind::Mx);
    let sent = encode(&asked, 0x1234, [0b1, 0, 0, 0], Extension::Edns);
    let good = TestReply::to(sent.bytes()).mx("example.com", 60, 1, "mx.example.com").bytes();
    assert!(decode(&sent, &asked, &good).is_ok());
    let not_ours = |bytes: &[u8], what: &str| {
        assert_eq!(decode(&sent, &asked, bytes), Err(Unrelated::NotOurs), "{what}");
    };
    not_ours(&TestReply::to(sent.bytes()).id(0x1235).bytes(), "another id");
    not_ours(&TestReply::to(sent.bytes()).asking("eXample.com", RecordType::A).bytes(), "another kind");
    not_ours(&TestReply::to(sent.bytes()).asking("examplf.com", RecordType::MX).bytes(), "another name");
    not_ours(sent.bytes(), "our own question");
    let mut two = TestReply::to(sent.bytes());
    two.0.queries.push(two.0.queries[0].clone());
    not_ours(&two.bytes(), "two questions");
    let mut none = TestReply::to(sent.bytes());
    none.0.queries.clear();
    not_ours(&none.bytes(), "no question");
    let mut status = good.clone();
    status[2] |= 0x10;
    not_ours(&status, "another opcode");
    for end in 0..sent.question_end {
        not_ours(&good[..end], "cut within the question");
    }
    let lower = TestReply::to(sent.bytes()).asking("example.com", RecordType::MX).mx(
        "example.com",
        60,
        1,
        "mx.example",
    );
    assert_eq!(decode(&sent, &asked, &lower.bytes()), Err(Unrelated::CaseDiffers));

    // A bare header counts only with FORMERR or NOTIMP, which say that the server could not read the question.
    let bare = |code| [0x12, 0x34, 0x80, code, 0, 0, 0, 0, 0, 0, 0, 0];
    for code in [1, 4] {
        assert_eq!(decode(&sent, &asked, &bare(code)), Ok(Response::Failed(Failure::FormErr)));
    }
    for code in [0, 2, 3, 5] {
        not_ours(&bare(code), "a bare header");
    }
}

#[test]
fn counts_and_lengths_are_bounded() {
    let asked = question("example.com", RecordKind::A);
    let found = check(&asked, |r| (0..=255).fold(r, |r, n| r.a("example.com", 60, [192, 0, 2, n])));
    let Response::Records(Records::A(found), _) = found else { panic!("{found:?}") };
    assert_eq!(found.len(), DNS_RECORDS_MAX);

    let asked = question("example.com", RecordKind::Txt);
    let long = |n: usize| {
        let text = "t".repeat(n);
        let parts: Vec<&[u8]> = text.as_bytes().chunks(255).collect();
        RData::TXT(rdata::TXT::from_bytes(parts))
    };
    let found = check(&asked, |r| r.record("example.com", 60, long(DNS_TXT_BYTES_MAX)));
    assert!(matches!(found, Response::Records(..)));
    let found = check(&asked, |r| r.record("example.com", 60, long(DNS_TXT_BYTES_MAX + 1)));
    assert_eq!(found, Response::NoData(60), "a longer record is as good as none");
}

fn frames(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut reader = FrameReader::default();
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let used = reader.feed(rest);
            rest = &rest[used..];
            if let Some(message) = reader.message() {
                found.push(message);
            } else {
                assert!(rest.is_empty(), "nothing is left over without a message");
            }
        }
    }
    found
}

#[test]
fn frames_are_cut_out_of_the_stream() {
    let stream = b"\0\x03abc\0\x01d\0\x00\0\x02ef\0\x05gh";
    for cut in 1..=stream.len() {
        let found = frames(stream.chunks(cut).map(<[u8]>::to_vec));
        assert_eq!(found, [b"abc".to_vec(), b"d".to_vec(), Vec::new(), b"ef".to_vec()], "pieces of {cut}");
    }
    let longest = [vec![0xff, 0xff], vec![7; DNS_TCP_MESSAGE_BYTES_MAX]].concat();
    assert_eq!(frames([longest].into_iter()), [vec![7; DNS_TCP_MESSAGE_BYTES_MAX]]);
    assert_eq!(FrameReader::default().wanted(), 2);
}

proptest! {
    #[test]
    fn no_message_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let asked = question("example.com", RecordKind::Mx);
        let sent = encode(&asked, 0x1234, CAPITALS, Extension::Edns);
        let _ = decode(&sent, &asked, &bytes);
        // The same bytes after a header and a question that match.
        let mut matching = sent.bytes()[..sent.question_end].to_vec();
        matching[2] = 0x80;
        matching.extend_from_slice(&bytes);
        for (at, byte) in (6..12).zip(&bytes) {
            matching[at] = byte & 3;
        }
        prop_assert!(decode(&sent, &asked, &matching).is_ok());
    }

    #[test]
    fn no_damage_panics(damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6)) {
        let asked = question("example.com", RecordKind::Mx);
        let sent = encode(&asked, 0x1234, CAPITALS, Extension::Edns);
        let mut bytes = TestReply::to(sent.bytes())
            .cname("example.com", 60, "a.example.net")
            .mx("a.example.net", 60, 1, "mx.example.com")
            .mx("a.example.net", 60, 2, "mx2.example.com")
            .soa("example.net", 60, 60)
            .bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode(&sent, &asked, &bytes);
    }

    #[test]
    fn cuts_do_not_change_frames(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        cuts in proptest::collection::vec(1..9usize, 1..60),
    ) {
        let framed = |m: &Vec<u8>| [&(m.len() as u16).to_be_bytes()[..], m].concat();
        let stream: Vec<u8> = messages.iter().flat_map(framed).collect();
        let mut rest = stream.as_slice();
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece.to_vec());
            rest = behind;
        }
        prop_assert_eq!(frames(pieces.into_iter()), messages);
    }
}
