//! The server as its callers and operators meet it: a process, sockets, signals, exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auth;
mod backup;
mod batches;
mod charging;
mod clean;
mod client;
mod clock;
mod commands;
mod connections;
mod detail;
mod docs;
mod fast;
mod gateway;
mod idempotency;
mod lifecycle;
mod limits;
mod metrics;
mod openapi;
mod repeats;
mod requests;
mod scripted;
mod server;
mod test_mode;
mod tls;

/// No test: with the variable set this program is the server that the tests start.
#[test]
fn scripted_server() {
    if let Ok(arguments) = std::env::var(server::ARGUMENTS) {
        let arguments = std::iter::once("mailprobe").chain(arguments.lines()).map(Into::into);
        let code = scripted::main(arguments);
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}
