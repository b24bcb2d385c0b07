//! The load of a run, and the server under test.

use crate::arrivals::Spread;
use crate::mix::Mix;
use crate::peer::Peer;
use crate::sampler::Watched;
use std::time::Duration;

/// The kind of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loop {
    /// This many requests per second, whatever the answers.
    Open(f64),
    /// This many clients, each with one request under way.
    Closed(usize),
}

/// The server under test, with its keys and process.
#[derive(Debug, Clone)]
pub struct Target {
    pub server: Peer,
    pub host: String,
    pub keys: Vec<String>,
    pub watched: Watched,
    /// The version of the server, if it is known.
    pub version: Option<String>,
}

/// The load of a run with its limits.
#[derive(Debug, Clone)]
pub struct Load {
    pub pressure: Loop,
    pub spread: Spread,
    pub mix: Mix,
    pub batch_size: u32,
    pub warm_up: Duration,
    pub duration: Duration,
    pub patience: Duration,
    pub connections: usize,
    pub threads: usize,
    /// Whether the sending threads never sleep.
    pub spin: bool,
    pub seed: u64,
}

impl Load {
    /// A load of one thread without a warm-up.
    pub fn of(pressure: Loop, mix: Mix, duration: Duration) -> Load {
        Load {
            pressure,
            spread: Spread::Poisson,
            mix,
            batch_size: 100,
            warm_up: Duration::ZERO,
            duration,
            patience: Duration::from_secs(60),
            connections: 512,
            threads: 1,
            spin: false,
            seed: 1,
        }
    }

    /// The requests per second of all threads; `None` in the closed loop.
    pub fn rate(&self) -> Option<f64> {
        match self.pressure {
            Loop::Open(rate) => Some(rate),
            Loop::Closed(_) => None,
        }
    }

    /// The number of clients in the closed loop.
    pub fn clients(&self) -> Option<usize> {
        match self.pressure {
            Loop::Open(_) => None,
            Loop::Closed(clients) => Some(clients),
        }
    }
}
