//! Every protocol decision of mailprobe, as pure code: bytes, time and randomness in; bytes, deadlines and events out.
//!
//! # Entry points
//!
//! - [`address::Address::parse`] reads an address.
//! - [`dns::lookup`] asks resolvers one question; [`dns::mx`] turns MX records into a list of hosts.
//! - [`smtp::dialog::Dialog`] is one SMTP session.
//! - [`mod@verdict::classify`] gives one reply its meaning; [`verdict::evidence`] judges the replies of a session together.
//! - [`decision`] turns the meaning of a reply or of the end of a session into its effects.
//! - [`pace::SitePace`] decides when a session with a site may start; [`refusals`] bounds how many recipients a site may refuse.
//! - [`retry::Schedule`] decides when mailprobe asks about an address again.
//! - [`sharing`] divides resources among many accounts or networks: each has a bound, and they take turns.
//! - [`limits`] has every bound on what a peer can influence.
//!
//! # Invariants
//!
//! - Nothing here opens a socket, reads a clock or draws a random number. So a table, a scenario file or a seeded simulation on a
//!   virtual clock can test every rule.
//! - No input of a peer causes a panic, or takes more memory than [`limits`] allows.
//! - The imports have one direction: [`limits`] <- [`address`] <- [`dns`], [`smtp`] <- [`verdict`] <- [`retry`], [`decision`].
//!   [`dns`] and [`smtp`] do not import each other.

#![deny(missing_docs)]

pub mod address;
pub mod decision;
pub mod dns;
pub mod egress;
pub mod facts;
pub mod limits;
pub mod lists;
pub mod outage;
pub mod pace;
pub mod public_suffix;
pub mod refusals;
pub mod retry;
pub mod score;
pub mod sharing;
pub mod smtp;
pub mod socks5;
mod tables;
#[cfg(test)]
mod tests;
pub mod typo;
pub mod verdict;
