//! All tests of the engine from the view of its callers. They are one program, because each program links everything again.

mod budgets;
mod egress;
mod greylisting;
mod inquiries;
mod mailnet;
mod outage;
mod resolvers;
#[cfg(feature = "sim")]
mod rests;
mod sites;
mod support;
mod tarpits;
