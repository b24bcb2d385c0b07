//! The actions of the clients as a sequence of events, and evaluations of it: refusals in an hour, names asked about,
//! sessions after a 421, EHLO names.
//!
//! A scenario enables it with `journal = true`; otherwise nothing is recorded.

use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

/// One event in one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Milliseconds since the start of the mail internet.
    pub at_ms: u64,
    /// The number of the session, from 1, over all hosts.
    pub session: u64,
    /// The host's name.
    pub host: Box<str>,
    /// The node of the host's pool; 0 for a host without a pool.
    pub node: u32,
    /// The client's address.
    pub client: IpAddr,
    /// The kind of the event.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum What {
    /// The session began.
    Begins,
    /// The client sent EHLO or HELO.
    Ehlo {
        /// The name in the command.
        name: String,
    },
    /// The client asked about a recipient.
    Rcpt {
        /// The address as it was sent.
        address: String,
        /// The code of the reply; 0 if there was none.
        code: u16,
        /// Whether the reply is the truth, without a change, node, filter or misdeed.
        honest: bool,
    },
    /// The replies to all recipients of the session so far were written.
    Written,
    /// A 421 was sent.
    Closing,
    /// The session ended.
    Ends,
}

/// All events so far in the order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// The events themselves.
    pub events: Vec<Event>,
    /// How many events were not recorded because there were too many: then the journal proves nothing.
    pub lost: u64,
}

impl Journal {
    /// The largest number of permanent refusals (5yz to RCPT) that a host sent to one client within any period of this
    /// length. An empty name stands for all hosts together.
    pub fn refusals_within(&self, host: &str, time: Duration) -> u64 {
        let span = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut windows: BTreeMap<IpAddr, (VecDeque<u64>, usize)> = BTreeMap::new();
        for event in self.of(host) {
            let What::Rcpt { code: 500..600, .. } = event.what else { continue };
            let (window, most) = windows.entry(event.client).or_default();
            window.push_back(event.at_ms);
            while window.front().is_some_and(|&first| first.saturating_add(span) <= event.at_ms) {
                window.pop_front();
            }
            *most = window.len().max(*most);
        }
        windows.values().map(|(_, most)| *most as u64).max().unwrap_or(0)
    }

    /// How often each local part of a domain was asked about; keys are in lower case.
    pub fn asked(&self, domain: &str) -> BTreeMap<String, u64> {
        let mut asked = BTreeMap::new();
        for event in &self.events {
            let What::Rcpt { address, .. } = &event.what else { continue };
            match address.rsplit_once('@') {
                Some((local, of)) if of.eq_ignore_ascii_case(domain) => {
                    *asked.entry(local.to_ascii_lowercase()).or_default() += 1;
                }
                _ => {}
            }
        }
        asked
    }

    /// For each 421 of a host, the time until the next session of the same client at that host. Of several 421 before a
    /// session, the last one counts. A 421 without a later session is left out.
    pub fn waits_after_closing(&self, host: &str) -> Vec<Duration> {
        let mut closed: BTreeMap<IpAddr, u64> = BTreeMap::new();
        let mut waits = Vec::new();
        for event in self.of(host) {
            match event.what {
                What::Closing => drop(closed.insert(event.client, event.at_ms)),
                What::Begins => {
                    let waited = closed.remove(&event.client).map(|since| event.at_ms.saturating_sub(since));
                    waits.extend(waited.map(Duration::from_millis));
                }
                _ => {}
            }
        }
        waits
    }

    /// The names that clients sent in EHLO or HELO.
    pub fn ehlo_names(&self) -> BTreeSet<String> {
        let name = |event: &Event| match &event.what {
            What::Ehlo { name } => Some(name.clone()),
            _ => None,
        };
        self.events.iter().filter_map(name).collect()
    }

    fn of<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| host.is_empty() || &*event.host == host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_s: u64, client: u8, what: What) -> Event {
        let client = IpAddr::from([127, 0, 0, client]);
        Event { at_ms: at_s * 1000, session: 1, host: "mx.example".into(), node: 0, client, what }
    }

    fn rcpt(address: &str, code: u16) -> What {
        What::Rcpt { address: address.into(), code, honest: true }
    }

    #[test]
    fn refusals_are_counted_in_the_worst_window_of_a_client() {
        let mut journal = Journal::default();
        for (at_s, client, code) in
            [(0, 1, 550), (1, 1, 550), (5, 1, 250), (9, 1, 554), (10, 1, 550), (10, 2, 550), (30, 1, 450)]
        {
            journal.events.push(event(at_s, client, rcpt("a@d.example", code)));
        }
        for (host, seconds, most) in [
            ("mx.example", 3600, 4),
            ("mx.example", 10, 3),
            ("mx.example", 1, 1),
            ("", 3600, 4),
            ("other", 3600, 0),
        ] {
            assert_eq!(journal.refusals_within(host, Duration::from_secs(seconds)), most, "{host} {seconds}");
        }
    }

    #[test]
    fn names_are_counted_without_regard_to_case() {
        let events = [("A@d.example", 250), ("a@D.example", 550), ("b@d.example", 250), ("a@e.example", 250)];
        let events = events.map(|(address, code)| event(0, 1, rcpt(address, code))).into();
        let journal = Journal { events, lost: 0 };
        assert_eq!(journal.asked("d.example"), BTreeMap::from([("a".into(), 2), ("b".into(), 1)]));
    }

    #[test]
    fn the_wait_after_a_421_ends_with_the_next_session_of_the_client() {
        let events = vec![
            event(0, 1, What::Begins),
            event(1, 1, What::Closing),
            event(2, 2, What::Begins),
            event(3, 1, What::Closing),
            event(8, 1, What::Begins),
            event(9, 1, What::Begins),
            event(10, 1, What::Closing),
        ];
        let journal = Journal { events, lost: 0 };
        assert_eq!(journal.waits_after_closing("mx.example"), [Duration::from_secs(5)]);
    }
}
