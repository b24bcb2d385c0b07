//! The choice of a host: the usable one with the highest timeline.
//!
//! A server that accepts writes may be a former primary: if its Patroni was killed, nobody stops it when another server is
//! promoted. The timeline tells the two apart, as each promotion raises it. So all hosts are asked, and the highest timeline
//! that was ever seen is remembered for all connections of the process; a server with a lower one is refused.
//!
//! A host that does not answer delays the choice for [`OTHERS_TIME`] only, once a usable host is known. It may be the new
//! primary, and then a process that has not seen it before takes the former one. That costs time and nothing else:
//!
//! - Writes are safe. The renewal of the lease and the marker of every group are synchronous writes, and the former primary
//!   acknowledges none, since its synchronous standby is the new primary. They end after the patience of their lane, which
//!   then asks all hosts again.
//! - Reads are safe, because [`Session::confirm`] is such a write.

use super::{Connector, HostError, NoServer, Session};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use monoio::time::timeout;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a usable host waits for the answers of the other ones.
const OTHERS_TIME: Duration = Duration::from_secs(1);

/// The answer of each host that has answered, by its place in the URL.
type Answers = Vec<(usize, Result<Session, HostError>)>;

impl Connector {
    /// Connects to the usable host with the highest timeline; of two with the same, to the first in the URL. It needs a
    /// runtime of monoio with a timer.
    ///
    /// # Errors
    ///
    /// No host is usable, each for its own reason.
    pub async fn connect(&self) -> Result<Session, NoServer> {
        let answers = match &self.target.hosts[..] {
            [host] => vec![(0, self.connect_to(host).await)],
            _ => self.ask_all().await,
        };
        self.choose(answers)
    }

    /// Asks all hosts at the same time.
    async fn ask_all(&self) -> Answers {
        let hosts = self.target.hosts.iter().enumerate();
        let mut asked: FuturesUnordered<_> =
            hosts.map(|(at, host)| async move { (at, self.connect_to(host).await) }).collect();
        let mut answers = Vec::new();
        let mut end = None;
        loop {
            let next = asked.next();
            let answer = match end {
                None => next.await,
                Some(end) => timeout(remaining(end), next).await.unwrap_or(None),
            };
            let Some((at, answer)) = answer else { return answers };
            if answer.as_ref().is_ok_and(|session| self.is_current(session)) {
                end.get_or_insert_with(|| Instant::now() + OTHERS_TIME);
            }
            answers.push((at, answer));
        }
    }

    fn choose(&self, mut answers: Answers) -> Result<Session, NoServer> {
        answers.sort_by_key(|(at, _)| *at);
        let timelines = answers.iter().filter_map(|(_, answer)| Some(answer.as_ref().ok()?.timeline()));
        let found = timelines.max().unwrap_or(0);
        let highest = self.highest.fetch_max(found, Ordering::Relaxed).max(found);
        let mut tried = Vec::new();
        for (at, answer) in answers {
            let why = match answer {
                Ok(session) if session.timeline() == highest => return Ok(session),
                Ok(session) => HostError::Superseded { timeline: session.timeline(), highest },
                Err(why) => why,
            };
            tried.push((self.target.hosts[at].clone(), why));
        }
        Err(NoServer { tried })
    }
}

fn remaining(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}
