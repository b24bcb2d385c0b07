//! The contract with callers, rule by rule: a test for each row of each table, in the order of the documentation. Every
//! test uses HTTP and the real server, with a mail internet on loopback.

mod account;
mod accounts;
mod authentication;
mod batch;
mod budgets;
mod charging;
mod concurrency;
mod crash;
mod detail;
mod endpoints;
mod errors;
mod fast;
mod headers;
mod idempotency;
mod lies;
mod limits;
mod openapi;
mod order;
mod outage;
mod rate_limits;
mod reasons;
mod resolver;
pub mod shapes;
mod states;
mod test_mode;
mod time;
mod verification;
mod versioning;
mod world;
