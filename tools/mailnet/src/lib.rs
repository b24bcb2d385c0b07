//! A mail internet on loopback: DNS and SMTP peers that behave and misbehave, made from a scenario file.
//!
//! It is an independent witness: it knows the answers of a strict verifier ([`Scenario::expected`]) and the protocol
//! rules that a client broke ([`Stats::violations`]). It shares no code with the verifier under test.
//! [`Mailnet::start`] serves a scenario, and [`Running`] gives access to its counters and its [`Journal`].
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
//! Invariants: the same scenario with the same seed gives the same net on every machine. An unknown key of a scenario
//! is an error. docs/mailnet.md describes the format.
//!
//! The modules: `spec` and `values` read a [`Scenario`], and `world` fills it in. `running` serves it: `dns` with the
//! answers of `answer`, and SMTP with `connection`, which drives `session` and executes `misdeed`. `conduct` decides
//! when a server stops answering truly.

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
mod recipients;
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

/// The Rust of docs/mailnet.md compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mailnet.md")]
struct Page;
