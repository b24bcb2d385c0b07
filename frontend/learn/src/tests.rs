//! Samples of bounces with known meaning, and messages that are made to mislead.

#[path = "../../../engine/proto/testdata/accuracy.rs"]
mod accuracy;
mod samples;
mod servers;

use crate::{Bounce, Cause, Event, EventKind, LearnError, Meaning, Tally, read};
pub(crate) use accuracy::judged;
use engine_proto::address::Address;
use flate2::read::GzDecoder;
use samples::samples;
use std::io::Read;

/// Some hours after the date of the samples.
const NOW: u64 = 1_795_700_000;

fn learn(bytes: &[u8]) -> (Vec<Event>, Result<Tally, LearnError>) {
    let mut events = Vec::new();
    let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let tally = read(input, NOW, &mut |event| events.push(event));
    (events, tally)
}

/// The meaning of the one recipient of a message.
fn meaning(tally: &Tally) -> Meaning {
    let one = |count: u64, meaning| (count == 1).then_some(meaning);
    let definite = tally.definite.keys().next().map(|bounce| Meaning::Definite(*bounce));
    let failed = tally.failed.keys().next().map(|cause| Meaning::Failed(*cause));
    definite
        .or(failed)
        .or(one(tally.delivered, Meaning::Delivered))
        .or(one(tally.delayed, Meaning::Delayed))
        .or(one(tally.passed, Meaning::Passed))
        .unwrap_or(Meaning::Unknown)
}

/// The requirement: of 500 bounces, at least 98 % are read right, and none is definite and wrong.
#[test]
fn bounces_of_many_servers_are_read_right() {
    for seed in [1, 2, 3] {
        let samples = samples(500, seed);
        let (mut wrong, mut misjudged) = (Vec::new(), Vec::new());
        for sample in &samples {
            let (_, tally) = learn(&sample.bytes);
            let found = meaning(&tally.unwrap_or_else(|error| panic!("{}: {error}", sample.name)));
            let line = format!("{found:?}, not {:?}: {}", sample.meaning, sample.name);
            let is_right = found == sample.meaning;
            let is_wrong = !is_right && matches!(found, Meaning::Definite(_));
            let (truth, said) = (format!("{:?}", sample.meaning), format!("{found:?}"));
            let server = sample.name.split(' ').nth(1).unwrap_or_default();
            judged("reports", &truth, &said, (is_right, is_wrong), "", server);
            if !is_right {
                if is_wrong {
                    misjudged.push(line.clone());
                }
                wrong.push(line);
            }
        }
        let definite = samples.iter().filter(|sample| matches!(sample.meaning, Meaning::Definite(_))).count();
        println!("seed {seed}: {} of 500 read right; {definite} are definite", 500 - wrong.len());
        assert!(misjudged.is_empty(), "definite and wrong: {misjudged:#?}");
        assert!(wrong.len() <= 10, "{} of 500 are wrong: {wrong:#?}", wrong.len());
    }
}

#[test]
fn an_mbox_of_samples_gives_the_same_counts() {
    let samples = samples(100, 4);
    let (mut mbox, mut single) = (Vec::new(), Tally::default());
    for sample in &samples {
        single.add(&learn(&sample.bytes).1.unwrap());
        mbox.extend_from_slice(b"From MAILER-DAEMON Wed Nov 25 10:00:00 2026\n");
        mbox.extend_from_slice(&sample.bytes);
        mbox.extend_from_slice(b"\n\n");
    }
    let (events, tally) = learn(&mbox);
    let tally = tally.unwrap();
    assert_eq!(tally, single);
    assert_eq!((tally.messages, tally.events()), (100, events.len() as u64));
}

/// A message with a text for people, a report (none if it is empty) and a copy of the mail.
fn with_parts(header: &str, kind: &str, text: &str, status: &str, copy: &str) -> String {
    let status = match status {
        "" => String::new(),
        status => format!("--b\nContent-Type: message/delivery-status\n\n{status}\n"),
    };
    format!(
        "{header}Content-Type: multipart/{kind}; report-type=delivery-status; boundary=b\n\n--b\n\n{text}\n{status}--b\n\
         Content-Type: message/rfc822\n\n{copy}\n--b--\n"
    )
}

/// A report with these groups, and the text for people.
fn report(groups: &str) -> Vec<u8> {
    format!(
        "Date: Wed, 25 Nov 2026 10:00:00 +0100\nTo: news@sender.example\nContent-Type: multipart/report; \
         report-type=delivery-status; boundary=b\n\n--b\n\nIt failed.\n\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: \
         dns; mail.sender.example\n\n{groups}\n--b--\n"
    )
    .into_bytes()
}

fn group(fields: &[(&str, &str)]) -> String {
    let known = [
        ("Final-Recipient", "rfc822; joe@example.com"),
        ("Action", "failed"),
        ("Status", "5.1.1"),
        ("Diagnostic-Code", "smtp; 550 5.1.1 no such user"),
    ];
    let mut text = String::new();
    for (name, value) in known {
        let given = fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value);
        if let Some(value) = given.or(Some(value)).filter(|value| !value.is_empty()) {
            text += &format!("{name}: {value}\n");
        }
    }
    for (name, value) in fields.iter().filter(|(field, _)| !known.iter().any(|(known, _)| known == field)) {
        text += &format!("{name}: {value}\n");
    }
    text + "\n"
}

#[test]
fn a_status_alone_or_words_alone_are_not_definite() {
    let not_found = Meaning::Definite(Bounce::NotFound);
    let dead = Meaning::Definite(Bounce::DomainDead);
    let failed = Meaning::Failed;
    for (fields, expected) in [
        (&[][..], not_found),
        (&[("Diagnostic-Code", "")], failed(Cause::NoWords)),
        (&[("Status", "")], not_found),
        (&[("Status", ""), ("Diagnostic-Code", "smtp; 550 refused")], failed(Cause::Policy)),
        (&[("Status", "5.7.1")], failed(Cause::Contradiction)),
        (&[("Status", "5.7.1"), ("Diagnostic-Code", "smtp; 550 no such user")], failed(Cause::Contradiction)),
        (&[("Diagnostic-Code", "smtp; 550 5.7.1 no such user")], failed(Cause::Contradiction)),
        (&[("Status", "4.4.7")], failed(Cause::Temporary)),
        (&[("Diagnostic-Code", "smtp; 450 4.1.1 no such user")], failed(Cause::Temporary)),
        (&[("Status", "5.1.2")], failed(Cause::Contradiction)),
        (
            &[("Status", "5.0.0"), ("Diagnostic-Code", "smtp; 550 mailbox unavailable")],
            failed(Cause::Contradiction),
        ),
        (&[("Status", "5.0.0"), ("Diagnostic-Code", "smtp; 550 no such user")], not_found),
        (&[("Status", "5.0.0"), ("Diagnostic-Code", "smtp; 550")], failed(Cause::Unclear)),
        (&[("Diagnostic-Code", "smtp; 550 5.1.1 blocked as spam")], failed(Cause::Policy)),
        (
            &[("Diagnostic-Code", "smtp; 550 5.1.1 your IP 192.0.2.1 is on a blocklist")],
            failed(Cause::Policy),
        ),
        (&[("Diagnostic-Code", "X-Postfix; unknown user: \"joe\"")], not_found),
        (&[("Diagnostic-Code", "X-Unix; 67")], failed(Cause::NoWords)),
        (&[("Diagnostic-Code", "smtp; 550")], failed(Cause::NoWords)),
        (&[("Diagnostic-Code", "smtp; 550 5.1.1 (in reply to RCPT TO command)")], failed(Cause::NoWords)),
        (&[("Diagnostic-Code", "smtp; 550 xyzzy")], failed(Cause::Unclear)),
        (&[("Status", "5.1.2"), ("Diagnostic-Code", "x; Over quota")], failed(Cause::NoWords)),
        (&[("Status", "5.1.2"), ("Diagnostic-Code", "x; 2.1.5 Ok")], failed(Cause::NoWords)),
        (
            &[("Status", "5.0.0"), ("Diagnostic-Code", "x; rejected: reverse DNS failed, host unknown")],
            failed(Cause::Policy),
        ),
        (
            &[("Status", "5.1.2"), ("Diagnostic-Code", "x; Relaying denied: unknown domain")],
            failed(Cause::Policy),
        ),
        (&[("Diagnostic-Code", "x; unknown user, a temporary error")], failed(Cause::Temporary)),
        (&[("Diagnostic-Code", "smtp; 550 5.1.1")], failed(Cause::NoWords)),
        (&[("Diagnostic-Code", "smtp; 550 5.1.1 <joe@example.com>")], failed(Cause::NoWords)),
        (&[("Status", "5.1.2"), ("Diagnostic-Code", "smtp; DNS Error: NXDOMAIN")], dead),
        (
            &[("Status", "5.4.4"), ("Diagnostic-Code", "smtp;550 5.4.4 SMTPSEND.DNS.NonExistentDomain; x")],
            dead,
        ),
        (
            &[("Status", "5.0.0"), ("Diagnostic-Code", "x; an MX or SRV record indicated no SMTP service")],
            dead,
        ),
        (
            &[("Status", "5.7.27"), ("Diagnostic-Code", "smtp; 550 5.7.27 the sender domain has a null MX")],
            failed(Cause::Policy),
        ),
        (&[("Status", "5.7.1"), ("Diagnostic-Code", "x; No such domain.")], failed(Cause::Contradiction)),
        (
            &[
                ("Status", "5.1.0"),
                ("Diagnostic-Code", "X-Postfix; Domain example.com does not accept mail (nullMX)"),
            ],
            dead,
        ),
        (&[("Status", "5.1.2 (bad destination system: no such domain)"), ("Diagnostic-Code", "")], dead),
        (
            &[("Status", "5.1.1 (bad destination mailbox address)"), ("Diagnostic-Code", "")],
            failed(Cause::NoWords),
        ),
        (&[("Status", "5.0.0"), ("Diagnostic-Code", "x; Die Domain existiert nicht: example.com")], dead),
        (
            &[("Status", "5.0.0"), ("Diagnostic-Code", "x; domain name not found, try again")],
            failed(Cause::Policy),
        ),
        (
            &[
                ("Status", "5.4.310"),
                (
                    "Diagnostic-Code",
                    "smtp; 550 5.4.310 DNS domain x does not exist [Message=InfoDomainNonexistent] [mail.sender.example]",
                ),
            ],
            dead,
        ),
        (
            &[
                ("Status", "5.4.4"),
                ("Remote-MTA", "dns; mx.example.com"),
                ("Diagnostic-Code", "smtp; 550 5.4.4 Invalid domain: no such domain example.com"),
            ],
            dead,
        ),
        (
            &[("Status", "5.1.2"), ("Diagnostic-Code", "smtp; 550 5.1.2 HELO mail.sender.example: NXDOMAIN")],
            failed(Cause::Policy),
        ),
        (
            &[("Diagnostic-Code", "X-Notes; \u{1b}$B%f!<%6!<\u{1b}(B joe \u{1b}$B$O8+$D$+$j$^$;$s\u{1b}(B")],
            not_found,
        ),
        (&[("Action", "")], Meaning::Unknown),
        (&[("Action", "delivered")], Meaning::Unknown),
        (&[("Action", "delayed")], Meaning::Delayed),
        (&[("Final-Recipient", "")], Meaning::Unknown),
        (&[("Final-Recipient", "x400; /S=joe/")], Meaning::Unknown),
        (&[("Final-Recipient", ""), ("Original-Recipient", "rfc822;joe@example.com")], not_found),
        (&[("Original-Recipient", "rfc822;JOE@example.com")], not_found),
        (&[("Original-Recipient", "rfc822;list@example.org")], failed(Cause::Forwarded)),
        (&[("X-Actual-Recipient", "RFC822; ann@example.org")], failed(Cause::Forwarded)),
        (&[("X-Actual-Recipient", "RFC822; joe@mail.example.com")], not_found),
        (&[("Status", ""), ("Diagnostic-Code", "smtp; 550 no such user")], not_found),
        (&[("Status", "5.0.0"), ("Diagnostic-Code", "x; no such user")], failed(Cause::Contradiction)),
        (
            &[
                ("Status", "5.0.0"),
                ("Diagnostic-Code", "x; LOCAL module(account joe) reports:\n unknown user"),
            ],
            not_found,
        ),
        (&[("Status", "5.0.0"), ("Diagnostic-Code", "x; DNS record not found: Non-Existent Domain")], dead),
        (&[("Diagnostic-Code", "X-Notes; =?utf-8?q?Benutzer_unbekannt?=")], not_found),
    ] {
        let tally = learn(&report(&group(fields))).1.unwrap();
        assert_eq!(meaning(&tally), expected, "{fields:?}");
    }
    let (events, _) = learn(&report(&group(&[("Original-Recipient", "rfc822;list@example.org")])));
    assert_eq!(events[0].address.as_str(), "list@example.org", "the mail was sent to the list");
}

#[test]
fn recipients_of_one_report_are_separate() {
    let groups = [
        group(&[]),
        group(&[
            ("Final-Recipient", "rfc822; ann@example.com"),
            ("Status", "5.7.1"),
            ("Diagnostic-Code", "smtp; 550 5.7.1 spam"),
        ]),
        group(&[
            ("Final-Recipient", "rfc822; bob@example.com"),
            ("Action", "delivered"),
            ("Status", "2.0.0"),
        ]),
    ];
    // With an empty line between the groups, with several, and with none.
    for text in [groups.concat(), groups.join("\n\n\n"), groups.concat().replace("\n\n", "\n")] {
        let (events, tally) = learn(&report(&text));
        let found: Vec<_> = events.iter().map(|event| (event.address.local(), event.kind)).collect();
        let bounced = EventKind::Bounced(Bounce::NotFound);
        assert_eq!(
            found,
            [("joe", bounced), ("ann", EventKind::Failed(Cause::Policy)), ("bob", EventKind::Delivered)]
        );
        assert_eq!(tally.unwrap().reports, 1);
    }
}

#[test]
fn a_field_that_occurs_twice_decides_nothing() {
    for twice in ["Status: 4.2.2\n", "Action: delayed\n", "Diagnostic-Code: smtp; 550 spam\n"] {
        let text = group(&[]).trim_end().to_owned() + "\n" + twice + "\n";
        assert_eq!(
            meaning(&learn(&report(&text)).1.unwrap()),
            Meaning::Failed(Cause::Contradiction),
            "{twice}"
        );
    }
}

/// The sender of a message chooses its contents, so a bounce inside a message may be forged.
#[test]
fn a_bounce_inside_a_message_is_no_bounce() {
    let bounce = String::from_utf8(report(&group(&[]))).unwrap();
    let head = "From: x@example.org\nSubject: look\nDate: Wed, 25 Nov 2026 10:00:00 +0100\n";
    let status = format!("Content-Type: message/delivery-status\n\n{}", group(&[]));
    for forged in [
        format!("{head}Content-Type: message/rfc822\n\n{bounce}"),
        format!(
            "{head}Content-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: message/rfc822\n\n{bounce}\n--m--\n"
        ),
        format!("{head}Content-Type: multipart/mixed; boundary=m\n\n--m\n{status}\n--m--\n"),
        format!("{head}Content-Type: multipart/mixed; boundary=m\n\n--m\n{bounce}\n--m--\n"),
        format!("{head}Content-Type: text/plain\n\n{bounce}"),
        format!("{head}\nOn Monday they wrote:\n\n{bounce}"),
        format!("{head}{}", status.replace("message/", "text/plain; x=message/")),
        format!(
            "{head}Content-Type: multipart/report; boundary=m\n\n--m\nContent-Type: message/rfc822\n\n{bounce}\n--m--\n"
        ),
        format!("{head}Content-Type: multipart/report\n\n--m\n{status}\n--m--\n"),
    ] {
        let (events, tally) = learn(forged.as_bytes());
        assert!(events.is_empty() && tally.is_err(), "{forged}");
    }
    // A report that returns another bounce is about its own recipient only.
    let own = group(&[
        ("Final-Recipient", "rfc822; ann@example.com"),
        ("Diagnostic-Code", "smtp; 550 5.7.1 spam"),
        ("Status", "5.7.1"),
    ]);
    let quoting = String::from_utf8(report(&own)).unwrap();
    let quoting =
        quoting.replace("\n--b--\n", &format!("\n--b\nContent-Type: message/rfc822\n\n{bounce}\n--b--\n"));
    let events = learn(quoting.replace("=b\n\n--b", "=b0\n\n--b").replace("--b\n", "--b0\n").as_bytes()).0;
    let found: Vec<_> = events.iter().map(|event| (event.address.local(), event.kind)).collect();
    assert_eq!(found, [("ann", EventKind::Failed(Cause::Policy))]);
}

#[test]
fn complaints_are_counted_and_teach_nothing() {
    let complaint = "From: x@example.org\nContent-Type: multipart/report; report-type=feedback-report; boundary=b\n\n--b\n\nx\n--b\n\
        Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nOriginal-Rcpt-To: joe@example.com\n\n--b--\n";
    let (events, tally) = learn(complaint.as_bytes());
    assert_eq!((events.len(), tally.unwrap().complaints), (0, 1));
}

#[test]
fn cut_and_huge_messages_end() {
    let whole = report(&group(&[]));
    for end in 0..whole.len() {
        let (events, _) = learn(&whole[..end]);
        assert!(events.iter().all(|event| event.address.as_str() == "joe@example.com"));
    }
    assert_eq!(learn(&whole[..whole.len() - 6]).0.len(), 1, "the last boundary may be missing");
    let lines = format!("X-Filler: {}\n", "x".repeat(70)).repeat(9_000);
    let huge = [lines.as_bytes(), &whole].concat();
    assert!(huge.len() < crate::MESSAGE_BYTES_MAX);
    learn(&huge).1.unwrap_err();
    let nested = "Content-Type: message/rfc822\n\n".repeat(30_000);
    learn(format!("From: x@y.example\n{nested}").as_bytes()).1.unwrap_err();
    let opened = "--b\nContent-Type: multipart/mixed; boundary=b\n\n".repeat(20_000);
    learn(format!("From: x@y.example\nContent-Type: multipart/report; boundary=b\n\n{opened}").as_bytes())
        .1
        .unwrap_err();
    let many = report(&group(&[]).repeat(5_000));
    assert_eq!(learn(&many).0.len(), 1000);
}

#[test]
fn events_of_the_future_are_of_now_and_those_without_a_time_are_not_used() {
    let dated = |date: &str| {
        String::from_utf8(report(&group(&[]))).unwrap().replace("Wed, 25 Nov 2026 10:00:00 +0100", date)
    };
    let (events, _) = learn(dated("Wed, 25 Nov 2099 10:00:00 +0100").as_bytes());
    assert_eq!(events[0].at, NOW);
    let (events, tally) = learn(dated("soon").as_bytes());
    assert_eq!((events.len(), tally.unwrap().undated), (0, 1));
    let (events, tally) = learn(dated("Wed, 25 Nov 2020 10:00:00 +0100").as_bytes());
    assert_eq!((events.len(), tally.unwrap().expired), (0, 1));
}

#[test]
fn bounces_of_qmail_and_old_exim_are_read() {
    let qmail = include_str!("../testdata/qmail.eml");
    let bounced = EventKind::Bounced(Bounce::NotFound);
    let (events, _) = learn(qmail.as_bytes());
    let found: Vec<_> = events.iter().map(|event| (event.address.local(), event.kind)).collect();
    assert_eq!(found, [("joe", bounced), ("ann", bounced), ("bob", EventKind::Failed(Cause::Policy))]);
    assert_eq!(learn(qmail.replace('\n', "\r\n").as_bytes()).0, events);
    let exim = include_str!("../testdata/exim.eml");
    let (events, _) = learn(exim.as_bytes());
    assert_eq!((events.len(), events[0].address.local()), (1, "joe"));
}

#[test]
fn bounces_of_other_forms_are_read_if_one_recipient_is_meant() {
    let not_found = Some(EventKind::Bounced(Bounce::NotFound));
    let [disabled, dead] =
        [Bounce::Disabled, Bounce::DomainDead].map(|bounce| Some(EventKind::Bounced(bounce)));
    let [failed, full] = [Cause::Unclear, Cause::Full].map(|cause| Some(EventKind::Failed(cause)));
    for (from, text, expected) in [
        ("postmaster@x.example", "To: joe@example.com\nReason: no (550 5.1.1 User unknown)", not_found),
        ("postmaster@x.example", "To <joe@example.com>:\nIt said: 550 5.1.1 User unknown", not_found),
        (
            "MAILER-DAEMON@x.example",
            "Sent <<< RCPT TO:<joe@example.com>\nReceived >>> 550 No such user",
            not_found,
        ),
        (
            "MAILER-DAEMON@x.example",
            "joe@example.com\n\n-------server message\n550 5.1.1 no such user",
            not_found,
        ),
        ("MAILER-DAEMON@x.example", "<joe@example.com>\n\nIt was rejected by a remote mail server.", failed),
        ("MAILER-DAEMON@x.example", "Could not be delivered to: <joe@example.com>\nUnknown user", failed),
        (
            "MAILER-DAEMON@x.example",
            "Could not be delivered to: <joe@example.com>\nDue to unknown domain name.",
            dead,
        ),
        (
            "postmaster@x.example",
            "It could not be delivered:\n-- joe@example.com\n\nReason:\n-- 5.2.1 Mailbox disabled",
            disabled,
        ),
        (
            "x@x.example",
            "This is a permanent error.\n\n\"joe@example.com\":\nSMTP error from remote server after RCPT command:\nhost: a.b\nUnknown user",
            not_found,
        ),
        ("x@x.example", "Sie konnte nicht zugestellt werden.\n\njoe@example.com: Unknown domain", dead),
        ("x@x.example", "\u{130}leti teslim edilemedi:\n\njoe@example.com: Posta kutusu dolu", full),
        (
            "postmaster@x.example",
            "joe@example.com\nRemote Server returned '550 5.1.10 RecipientNotFound; not found'",
            not_found,
        ),
        (
            "postmaster@x.example",
            "joe@example.com\n#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##",
            not_found,
        ),
        (
            "postmaster@x.example",
            "收件人\u{ff1a}joe@example.com\n\nRCPT TO: 550 5.1.1 No such user",
            not_found,
        ),
        (
            "x@x.example",
            "The following recipients returned permanent errors: joe@example.com. Reason: 550 No such user\n\n\
             The following recipients returned permanent errors: ann@example.com. Reason: 550 spam",
            not_found,
        ),
        (
            "x@x.example",
            "- joe@example.com : refus\n  550 5.1.1 No such user\n- ann@example.com : refus\n  550 spam",
            not_found,
        ),
        ("x@x.example", "A message is delayed:\n\njoe@example.com: 450 4.1.1 later", None),
        ("postmaster@x.example", "joe@example.com\nnews@sender.example: 550 5.1.1 User unknown", None),
        ("postmaster@x.example", "It said: 550 5.1.1 User unknown", None),
        ("postmaster@x.example", "To joe@example.com or ann@example.com: it said: 550 User unknown", None),
        ("postmaster@x.example", "To joe@example.com it said: 450 later.\nIt will be retried.", None),
        ("postmaster@x.example", "I am away. Please write to joe@example.com.", None),
        ("ann@x.example", "To joe@example.com it said:\n550 5.1.1 User unknown", None),
        (
            "MAILER-DAEMON@mail.example.com",
            "Undeliverable to the following:\n\tjoe@example.com (no such user)",
            not_found,
        ),
        (
            "MAILER-DAEMON@mail.example.com",
            "Undeliverable to the following:\n\tjoe@example.com (Unrouteable address)",
            Some(EventKind::Failed(Cause::Contradiction)),
        ),
        (
            "Mailer-Daemon@x.example",
            "|--- Failed addresses follow: ---|\n <ann@example.com>\n   550 spam\n <joe@example.com> ... unknown user / Teilnehmer existiert nicht",
            not_found,
        ),
        (
            "mailer-daemon@x.example",
            "It could not be delivered:\n\n<joe@example.com>\n\nReason:\nSMTP error, reason: 550 5.1.1 User unknown\n\n<ann@example.com>\n\nReason:\n550 spam",
            not_found,
        ),
        (
            "postmaster@x.example",
            "Host mx.example.com(192.0.2.7) said RCPT TO:<joe@example.com> 550 5.1.1 Addressee unknown",
            not_found,
        ),
        (
            "postmaster@x.example",
            "邮件被退回\n\n无法发送到 joe@example.com\n\nHost or domain name not found. Name service error for name=example.com type=A: Host not found",
            dead,
        ),
        ("postmaster@x.example", "The user(s) account is temporarily over quota.\n\n<joe@example.com>", full),
        (
            "postmaster@x.example",
            "It had PERMANENT fatal delivery errors!\n\n> joe@example.com\n\n--- Session Transcript ---\n9:31: Resolving MX record for example.com (DNS Server: 192.0.2.1)...\n9:31: *  Domain example.com does not exist",
            dead,
        ),
        (
            "MAILER-DAEMON@x.example",
            "It could not be delivered:\n\n  ann@example.org\n    (generated from joe@example.com)\n    550 5.1.1 User unknown",
            Some(EventKind::Failed(Cause::Forwarded)),
        ),
    ] {
        let head = "Date: Wed, 25 Nov 2026 10:00:00 +0100\nTo: news@sender.example\nReturn-Path: <>";
        let events = learn(
            format!("{head}\nFrom: {from}\n\n{text}\n\nReceived: from a\nTo: b@c.example\n").as_bytes(),
        )
        .0;
        let of_joe = events.iter().find(|event| event.address.as_str() == "joe@example.com");
        assert_eq!(of_joe.map(|event| event.kind), expected, "{text}");
    }
}

/// Made by Postfix 3.7 on loopback: mail to a user who does not exist.
#[test]
fn a_bounce_of_a_real_server_is_read() {
    let (events, tally) = learn(include_bytes!("../testdata/postfix-unknown-user.eml"));
    assert_eq!(meaning(&tally.unwrap()), Meaning::Definite(Bounce::NotFound));
    assert_eq!(events[0].address.local(), "nosuchuser");
}

/// Damaged messages: pieces that are missing, repeated or exchanged. Nothing panics, and no address is invented.
#[test]
fn damaged_bounces_name_no_other_address() {
    let mut random = fastrand::Rng::with_seed(7);
    let samples = samples(200, 5);
    for _ in 0..5_000 {
        let mut bytes = samples[random.usize(..samples.len())].bytes.clone();
        for _ in 0..random.usize(1..6) {
            let (from, to) = (random.usize(..bytes.len()), random.usize(..bytes.len()));
            let piece = bytes[from.min(to)..from.max(to).min(from.min(to) + 200)].to_vec();
            match random.u8(..4) {
                0 => drop(bytes.drain(from.min(to)..(from.min(to) + piece.len()))),
                1 => drop(bytes.splice(from..from, piece)),
                2 => bytes[from] = random.u8(..),
                _ => bytes[from..].fill(b'\n'),
            }
            if bytes.is_empty() {
                bytes.push(b'x');
            }
        }
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let is_encoded = text.contains("base64") || text.contains("quoted-printable") || text.contains('+');
        for event in learn(&bytes).0 {
            let address = event.address.canonical();
            assert!(is_encoded || text.contains(&address), "{address} is not in the message");
        }
    }
}

/// Reports in an mbox, written by people who did not know this reader, with a table: MESSAGE, RECIPIENT, LABEL, SOURCE.
#[test]
fn reports_by_another_author_are_read_right() {
    let compressed: &[u8] = include_bytes!("../testdata/unheard.mbox.gz");
    let mut mbox = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut mbox).expect("a whole file");
    let starts_here =
        |at: &usize| mbox[*at..].starts_with(b"From MAILER-DAEMON") && (*at == 0 || mbox[*at - 1] == b'\n');
    let starts: Vec<usize> = (0..mbox.len()).filter(starts_here).chain([mbox.len()]).collect();
    let read: Vec<Vec<Event>> = starts.windows(2).map(|ends| learn(&mbox[ends[0]..ends[1]]).0).collect();
    let (mut all, mut right, mut wrong, mut missed) = (0, 0, Vec::new(), Vec::new());
    for line in include_str!("../testdata/unheard.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, recipient, label, source] = fields[..] else { panic!("{line}") };
        let number: usize = file.trim_end_matches(".eml").parse().expect("a number");
        let address = Address::parse(recipient).expect("an address").canonical();
        let of_recipient = |event: &&Event| event.address.canonical() == address;
        let said = match read[number - 1].iter().find(of_recipient).map(|event| event.kind) {
            Some(EventKind::Bounced(Bounce::NotFound)) => "not_found",
            Some(EventKind::Bounced(Bounce::Disabled)) => "disabled",
            Some(EventKind::Bounced(Bounce::DomainDead)) => "no_domain",
            Some(EventKind::Failed(_)) => "failure",
            Some(EventKind::Delivered) => "delivered",
            None => "nothing",
        };
        all += 1;
        let line = format!("{file} {recipient}: {said}, not {label} ({source})");
        let is_right = said == label;
        let is_wrong = !is_right && matches!(said, "not_found" | "disabled" | "no_domain");
        judged("unheard reports", label, said, (is_right, is_wrong), "", file);
        match is_right {
            true => right += 1,
            false if is_wrong => wrong.push(line),
            false => missed.push(line),
        }
    }
    println!("{right} of {all} right, {} definite and wrong; missed: {missed:#?}", wrong.len());
    assert!(wrong.is_empty(), "definite and wrong: {wrong:#?}");
    assert!(right * 10 >= all * 9, "{right} of {all} right; missed: {missed:#?}");
}
