//! Tests of the connection to PostgreSQL. Most need a server on loopback: the URL of a superuser is in
//! `MAILPROBE_TEST_POSTGRES`, and the file with the server's certificate authority in `MAILPROBE_TEST_POSTGRES_CA`. Without them
//! these tests print a line and pass. `cargo xtask postgres -- cargo test -p store-pg` starts such a server.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod cluster;
mod connection;
mod cut;
mod figures;
mod groups;
mod hosts;
mod overlay;
mod proxy;
mod reads;
mod setting;
