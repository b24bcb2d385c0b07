//! Bounces and deliveries of the operator's own mail: reports (RFC 3464), other bounces, mbox files and exports of providers.
//!
//! An input is the file.

use crate::grammar::Grammar;
use crate::input::{Pieces, one_line};
use fastrand::Rng;
use learn::{BOUNCE_SECONDS_MAX, DELIVERY_SECONDS_MAX, Event, LearnError, Tally};
use std::io::{Cursor, Read};
use std::sync::LazyLock;

/// 2026-11-01: the time of the reading.
const NOW: u64 = 1_793_491_200;

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar::of(include_str!("../../grammars/learn.txt")));

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let text = GRAMMAR.grow("start", random);
    if random.u8(..6) == 0 { text.replace('\n', "\r\n") } else { text }.into_bytes()
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
