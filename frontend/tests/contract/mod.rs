//! The contract with callers, rule by rule, in the order of the documentation. Every test uses HTTP and the real server, with a mail
//! internet on loopback. The tests of the crates `api`, `checks` and `server` have the cases of single headers and bodies, and those
//! of the description.

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
mod world;
