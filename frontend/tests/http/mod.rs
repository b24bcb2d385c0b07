//! Servers with the scripted engine, which has outages, delays and defects on request, and what does not depend on an engine:
//! connections, signals, exit codes, the output of commands. `contract` tests the documented rules of the API.

mod backup;
mod batches;
mod budgets;
mod charging;
mod clean;
mod commands;
mod connections;
mod detail;
mod docs;
mod fast;
mod faults;
mod gateway;
mod learn;
mod lifecycle;
mod lists;
mod metrics;
mod openapi;
mod repeats;
mod scopes;
mod tls;
mod webhooks;
