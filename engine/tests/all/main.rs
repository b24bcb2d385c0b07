//! The tests of the engine from the view of its callers, except `sites.rs`. They are one program, because each program links
//! everything again.

mod budgets;
mod changes;
mod controls;
mod egress;
mod greylisting;
mod inquiries;
mod mailnet;
mod outage;
mod resolvers;
#[cfg(feature = "sim")]
mod rests;
mod support;
mod tarpits;
mod tls;
mod transactions;
