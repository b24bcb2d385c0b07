use super::*;
use crate::{Bounce, Cause, Event, EventKind, Tally, read as read_file};

const NOW: u64 = 1_795_700_000;

fn learned(text: &str) -> (Vec<(String, EventKind)>, Result<Tally, LearnError>) {
    let mut events = Vec::new();
    let bytes = text.as_bytes().to_vec();
    let mut on_event = |event: Event| events.push((event.address.as_str().to_owned(), event.kind));
    let tally = read_file(Box::new(std::io::Cursor::new(bytes)), NOW, &mut on_event);
    (events, tally)
}

/// The form of each provider, with two definite bounces, one failure and one delivery where it has deliveries.
#[test]
fn exports_of_providers_are_read() {
    let not_found = EventKind::Bounced(Bounce::NotFound);
    for (name, text, deliveries) in [
        ("sendgrid", include_str!("../../testdata/exports/sendgrid.csv"), 0),
        ("ses", include_str!("../../testdata/exports/ses.csv"), 1),
        ("mailgun", include_str!("../../testdata/exports/mailgun.csv"), 1),
        ("postmark", include_str!("../../testdata/exports/postmark.csv"), 0),
        ("brevo", include_str!("../../testdata/exports/brevo.csv"), 0),
        ("mailchimp", include_str!("../../testdata/exports/mailchimp.csv"), 0),
    ] {
        let (events, tally) = learned(text);
        let tally = tally.unwrap_or_else(|error| panic!("{name}: {error}"));
        let kind = |address: &str| events.iter().find(|event| event.0 == address).map(|event| event.1);
        assert_eq!(kind("a@x.example"), Some(not_found), "{name}");
        assert_eq!(kind("b@x.example"), Some(not_found), "{name}");
        assert_eq!(kind("c@x.example"), Some(EventKind::Failed), "{name}");
        assert!(kind("e@x.example").is_none_or(|kind| kind == EventKind::Failed), "{name}");
        assert_eq!((tally.delivered, tally.undated), (deliveries, 0), "{name}");
    }
}

#[test]
fn events_without_words_of_a_server_are_not_definite() {
    let (_, tally) = learned(
        "email,event,timestamp\na@x.example,hard bounce,2026-11-25\nb@x.example,dropped,2026-11-25\n\
         c@x.example,hard bounce,\nd e,bounce,2026-11-25\n",
    );
    let tally = tally.unwrap();
    assert!(tally.definite.is_empty(), "{tally:?}");
    assert_eq!(tally.failed.get(&Cause::Suppressed), Some(&1));
    assert_eq!((tally.undated, tally.unreadable, tally.rows), (1, 1, 4));
}

#[test]
fn files_with_nothing_to_learn_are_refused() {
    for (text, expected) in [
        ("", "it is empty"),
        (" \n\n", "it is empty"),
        (
            "name,city\nx,y\n",
            "it is neither a message nor an mbox, and as CSV it has no column of addresses (one of: email, ",
        ),
        ("email,time\nx,y\n", "no column of events"),
        ("email,event\nx,y\n", "no column of times"),
        ("email,event,time\n", "it has a header of columns and no rows"),
        ("email,event,time\na@x.example,opened,2026-11-25\n", "none of its rows (1) has a known event"),
        ("From: a@b.example\nSubject: x\n\nhello\n", "none of its messages (1) is a bounce"),
        (
            "From a@b.example Thu Nov 26 10:00:00 2026\nSubject: x\n\nhello\n",
            "none of its messages (1) is a bounce",
        ),
    ] {
        let said = learned(text).1.unwrap_err().to_string();
        assert!(said.contains(expected) && !said.contains('\n'), "{text:?}: {said}");
    }
    let endless = format!("email,event,time\n\"{}", "x\n".repeat(2 << 20));
    let said = learned(&endless).1.unwrap_err().to_string();
    assert!(said.contains("a quote may have no end"), "{said}");
}

#[test]
fn times_are_read() {
    for (cell, expected) in [
        ("1795600000", Some(1_795_600_000)),
        ("1795600000123", Some(1_795_600_000)),
        ("1795600000.5", Some(1_795_600_000)),
        ("2026-11-25T09:46:40Z", Some(1_795_600_000)),
        ("2026-11-25T10:46:40+01:00", Some(1_795_600_000)),
        ("2026-11-25 09:46:40.123", Some(1_795_600_000)),
        ("2026-11-25 09:46:40", Some(1_795_600_000)),
        ("Wed, 25 Nov 2026 09:46:40 +0000", Some(1_795_600_000)),
        ("2026-11-25", Some(1_795_564_800)),
        ("7", None),
        ("NaN", None),
        ("", None),
        ("soon", None),
    ] {
        assert_eq!(time(cell), expected, "{cell}");
    }
}
