//! A mail internet on loopback: DNS and SMTP peers that behave and misbehave, made from a scenario file.
//!
//! It is a witness: it knows what a strict verifier must answer ([`Scenario::expected`]) and which rules of the
//! protocols a client broke ([`Stats::violations`]), and it shares no line with the verifier that it tests.
//!
//! ```
//! let scenario = mailnet::Scenario::parse(r#"
//!     [[domain]]
//!     name = "ok.example"
//!     mailboxes.ok = ["alice", "user-#"]
//! "#)?;
//! assert_eq!(scenario.expected("alice@ok.example").reason, mailnet::Expected::MailboxExists);
//! let net = mailnet::Mailnet::start(scenario)?;
//! println!("ask {} and connect to port {}", net.dns(), net.smtp_port());
//! assert_eq!(net.stats().sessions, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! docs/mailnet.md describes the scenario format. Inside the crate: [`Scenario`] is read by `spec` and `values`,
//! filled in by `world`, and played by `running`, which serves `dns` (its answers come from `answer`) and SMTP
//! (`connection` drives `session`, and does `misdeed`; `conduct` says when a server stops telling the truth).

mod answer;
mod conduct;
mod connection;
mod dns;
mod expected;
mod journal;
mod listen;
mod mailbox;
mod misdeed;
mod personality;
mod random;
mod running;
mod scenario;
mod session;
mod spec;
mod stats;
mod tls;
mod values;
mod world;
mod zone;

pub use expected::{Addresses, Expected, ExpectedVerdict};
pub use journal::{Event, Journal, What};
pub use listen::raise_open_files;
pub use running::{Mailnet, Running, StartError};
pub use scenario::{Scenario, ScenarioError};
pub use spec::{Listen, ListenMode};
pub use stats::{DnsKind, HostStats, Stats, Violation};
