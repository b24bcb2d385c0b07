//! Every protocol decision that mailprobe takes, as pure code.
//!
//! Bytes, time and randomness go in; bytes, deadlines and events come out. Nothing here opens a socket,
//! reads a clock or draws a random number, so every rule can be tested by a table, a scenario file or a
//! seeded simulation on a virtual clock.
//!
//! Inside the crate the imports go one way: [`limits`] <- [`address`] <- [`dns`], [`smtp`] (which never see
//! each other) <- [`verdict`].

#![deny(missing_docs)]

pub mod address;
pub mod dns;
pub mod egress;
pub mod facts;
pub mod limits;
pub mod lists;
pub mod outage;
pub mod pace;
pub mod refusals;
pub mod score;
pub mod smtp;
pub mod socks5;
pub mod typo;
pub mod verdict;
