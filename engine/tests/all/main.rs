//! The tests of the engine through its public interface, except `sites.rs`. They are one program, because each further program
//! would have to be linked with all dependencies.

mod budgets;
mod changes;
mod controls;
mod egress;
mod greylisting;
mod habits;
mod inquiries;
mod lists;
mod mailnet;
mod outage;
mod resolvers;
#[cfg(feature = "sim")]
mod rests;
mod support;
mod surplus;
mod tarpits;
mod tls;
mod transactions;
mod turns;
