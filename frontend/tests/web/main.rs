//! The dashboard as a browser without script meets it: pages, forms, cookies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod attacks;
mod browser;
#[expect(dead_code, reason = "shared with the tests of the API, which use all of it")]
#[path = "../http/client.rs"]
mod client;
mod credentials;
mod downloads;
mod keys;
mod lists;
#[path = "../http/scripted.rs"]
mod scripted;
#[expect(dead_code, reason = "shared with the tests of the API, which use all of it")]
#[path = "../http/server.rs"]
mod server;
mod sessions;
mod sign_in;
mod sign_up;

/// No test: with the variable set this program is the server that the tests start.
#[test]
fn scripted_server() {
    if let Ok(arguments) = std::env::var(server::ARGUMENTS) {
        let arguments = std::iter::once("mailprobe").chain(arguments.lines()).map(Into::into);
        let code = scripted::main(arguments);
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}
