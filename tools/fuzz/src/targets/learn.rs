//! Bounces and deliveries of the operator's own mail: reports (RFC 3464), other bounces, mbox files and exports of providers.
//!
//! An input is the file.

use crate::input::{Pieces, one, one_line};
use fastrand::Rng;
use learn::{BOUNCE_SECONDS_MAX, DELIVERY_SECONDS_MAX, Event, LearnError, Tally};
use std::fmt::Write as _;
use std::io::{Cursor, Read};

/// 2026-11-01: the time of the reading.
const NOW: u64 = 1_793_491_200;

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    match random.u8(..4) {
        0 => export(random, &mut text),
        1 => message(random, &mut text),
        _ => {
            for _ in 0..random.usize(1..3) {
                text.push_str("From MAILER-DAEMON Sun Nov  1 00:00:00 2026\n");
                message(random, &mut text);
                text.push('\n');
            }
        }
    }
    if random.u8(..6) == 0 {
        text = text.replace('\n', "\r\n");
    }
    text.into_bytes()
}

fn message(random: &mut Rng, text: &mut String) {
    text.push_str(one(
        random,
        &["From: MAILER-DAEMON@mx.example\n", "Return-Path: <>\nFrom: a@mx.example\n"],
    ));
    text.push_str(one(
        random,
        &["Date: Sun, 1 Nov 2026 00:00:00 +0000\n", "Date: Thu, 1 Jan 2099 00:00:00 +0000\n", ""],
    ));
    match random.u8(..6) {
        0 => text.push_str(
            "X-Failed-Recipients: a@b.example\n\n  a@b.example\n    SMTP error: 550 5.1.1 unknown user\n",
        ),
        1 => text.push_str(
            "\nHi. This is the qmail-send program at mx.example.\n\n<a@b.example>:\n550 5.1.1 unknown user\n",
        ),
        _ => report(random, text),
    }
}

fn report(random: &mut Rng, text: &mut String) {
    text.push_str(one(
        random,
        &[
            "Content-Type: multipart/report; report-type=delivery-status; boundary=XyZ\n\n",
            "Content-Type: multipart/report; report-type=\"feedback-report\"; boundary=XyZ\n\n",
            "Content-Type: multipart/mixed; boundary=\"XyZ\"\n\n",
        ],
    ));
    text.push_str("--XyZ\nContent-Type: text/plain\n\nYour mail failed.\n--XyZ\n");
    text.push_str(one(
        random,
        &["Content-Type: message/delivery-status\n", "Content-Type: message/global-delivery-status\n"],
    ));
    text.push_str(one(random, &["\n", "\n", "Content-Transfer-Encoding: quoted-printable\n\n"]));
    text.push_str("Reporting-MTA: dns; mx.example\n");
    text.push_str(one(random, &["Arrival-Date: Sat, 31 Oct 2026 00:00:00 +0000\n", ""]));
    for _ in 0..random.usize(..4) {
        text.push('\n');
        text.push_str(one(
            random,
            &[
                "Final-Recipient: rfc822; a@b.example\n",
                "Original-Recipient: rfc822; c@d.example\nFinal-Recipient: rfc822; a@b.example\n",
                "Final-Recipient: utf-8; \\x{fc}@b.example\n",
                "Final-Recipient: nobody\n",
            ],
        ));
        let action = one(random, &["failed", "failed", "delivered", "delayed", "relayed", "expanded", "x"]);
        let status = one(random, &["5.1.1", "5.2.2", "5.7.1", "4.4.1", "2.0.0", "5.0.0", "x"]);
        // Writing to a string cannot fail.
        let _ = write!(text, "Action: {action}\nStatus: {status}\n");
        text.push_str(one(
            random,
            &[
                "Diagnostic-Code: smtp; 550 5.1.1 <a@b.example> unknown user\n",
                "Diagnostic-Code: smtp; 550-5.1.1 unknown\n 550 5.1.1 user\n",
                "Diagnostic-Code: smtp; 554 5.7.1 blocked\nRemote-MTA: dns; mx.b.example\n",
                "",
            ],
        ));
    }
    text.push_str(one(
        random,
        &["\n--XyZ--\n", "\n--XyZ\nContent-Type: message/rfc822\n\nTo: a@b.example\n--XyZ--\n", ""],
    ));
}

fn export(random: &mut Rng, text: &mut String) {
    text.push_str(one(
        random,
        &[
            "email,event,reason,timestamp\n",
            "Recipient;Status;Diagnostic Code;Time\n",
            "timestamp,recipient,bounceType,diagnosticCode\n",
            "email,opened\n",
        ],
    ));
    for _ in 0..random.usize(..6) {
        let address = one(random, &["a@b.example", "\"N <c@d.example>\"", "nobody", ""]);
        let event = one(
            random,
            &["bounce", "hard_bounce", "delivered", "Permanent", "deferred", "spamreport", "open"],
        );
        let reply = one(random, &["550 5.1.1 unknown user", "\"552, full\"", "", "\"open"]);
        let time = one(random, &["2026-10-01T00:00:00Z", "1790000000", "2099-01-01 00:00:00", "yesterday"]);
        let order = match random.u8(..4) {
            0 => [time, address, event, reply],
            _ => [address, event, reply, time],
        };
        text.push_str(&order.join(if random.u8(..4) == 0 { ";" } else { "," }));
        text.push('\n');
    }
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let whole = read(Cursor::new(input.to_vec()));
    let again = read(Pieces::of(input));
    if said(&whole) != said(&again) {
        return Err(format!("in pieces it is {:?}, whole it is {:?}", again.0, whole.0));
    }
    let (tally, events) = whole;
    let tally = match tally {
        Ok(tally) => tally,
        Err(why) => return without_address(&why.to_string()),
    };
    if tally.events() != events.len() as u64 {
        return Err(format!("{} events, and the counts say {}", events.len(), tally.events()));
    }
    for event in &events {
        if event.at > NOW || NOW - event.at > BOUNCE_SECONDS_MAX.max(DELIVERY_SECONDS_MAX) {
            return Err(format!("an event at {}", event.at));
        }
        let shown = format!("{event:?}");
        if shown.contains(event.address.as_str()) {
            return Err("the address is in the event's debug text".into());
        }
    }
    if !events.is_empty() && !tally.is_recognised() {
        return Err("events of a file that is not recognised".into());
    }
    Ok(())
}

/// An error is for a log, where no address may be.
fn without_address(why: &str) -> Result<(), String> {
    one_line(why)?;
    if why.contains('@') { Err(format!("the message has an address: {why:?}")) } else { Ok(()) }
}

/// The counts or the error of a file, and its events.
type Learned = (Result<Tally, LearnError>, Vec<Event>);

fn read(input: impl Read + 'static) -> Learned {
    let mut events = Vec::new();
    let tally = learn::read(Box::new(input), NOW, &mut |event| events.push(event));
    (tally, events)
}

/// What must not depend on the pieces. An error's words may: they name the place of a fault.
fn said((tally, events): &Learned) -> (Option<&Tally>, &[Event]) {
    (tally.as_ref().ok(), events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_have_events_of_each_kind() {
        let mut random = Rng::with_seed(1);
        let mut sum = Tally::default();
        for _ in 0..1000 {
            if let (Ok(tally), _) = read(Cursor::new(grow(&mut random))) {
                sum.add(&tally);
            }
        }
        let counts =
            [sum.events(), sum.reports, sum.rows, sum.delivered, sum.delayed, sum.passed, sum.complaints];
        assert!(counts.iter().all(|count| *count > 20), "{sum:?}");
        assert!(sum.definite.values().sum::<u64>() > 300 && sum.failed.len() > 1, "{sum:?}");
    }
}
