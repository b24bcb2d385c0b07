//! What Patroni is told, and what it says of its server: the configuration of one member, and its REST interface.
//!
//! The configuration is JSON, which every reader of YAML accepts, so no text has to be quoted by hand.

use super::network::Member;
use super::setup::{EtcdApi, Setup};
use crate::failure::{Context, Failure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// The port of PostgreSQL in each server's namespace.
pub const POSTGRES_PORT: u16 = 5432;
/// The port of the REST interface of Patroni in each server's namespace.
const REST_PORT: u16 = 8008;
/// The port of etcd for clients in each of its namespaces.
pub const ETCD_PORT: u16 = 2379;
/// The superuser of the servers.
pub const SUPERUSER: &str = "postgres";
/// The user of standbys and of pg_rewind.
const REPLICATION_USER: &str = "replication";
/// A paused member accepts connections and does not answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// After this time in seconds without a word from the other side, a replication connection is closed. The default is 60: while the
/// synchronous standby is unreachable, no write is acknowledged until its connection is closed and Patroni appoints another one.
const REPLICATION_PATIENCE_S: u32 = 5;

/// The configuration of a server's Patroni. `folder` is the folder of the server, `shared` that of the certificate.
pub fn configuration(
    setup: &Setup,
    server: Member,
    folder: &Path,
    shared: &Path,
    programs: &Path,
    password: &str,
) -> String {
    let address = server.address();
    let etcd: Vec<String> =
        setup.etcd_members().iter().map(|member| format!("{}:{ETCD_PORT}", member.address())).collect();
    let section = match setup.etcd_api {
        EtcdApi::V2 => "etcd",
        EtcdApi::V3 => "etcd3",
    };
    let user = |name: &str| json!({ "username": name, "password": password });
    let file = |name: &str| shared.join(name).display().to_string();
    json!({
        "scope": "mailprobe",
        "name": server.to_string(),
        "restapi": {
            "listen": format!("{address}:{REST_PORT}"),
            "connect_address": format!("{address}:{REST_PORT}"),
        },
        section: { "hosts": etcd },
        "bootstrap": {
            "dcs": dynamic(setup),
            "initdb": [{ "encoding": "UTF8" }, { "locale": "C" }, "data-checksums", "no-sync"],
        },
        "postgresql": {
            "listen": format!("{address}:{POSTGRES_PORT}"),
            "connect_address": format!("{address}:{POSTGRES_PORT}"),
            "data_dir": folder.join("data"),
            "bin_dir": programs,
            "pgpass": folder.join("pgpass"),
            "use_unix_socket": true,
            "authentication": {
                "superuser": user(SUPERUSER),
                "replication": user(REPLICATION_USER),
                "rewind": user("rewind"),
            },
            "pg_hba": [
                "local all all scram-sha-256",
                "host all all 10.80.0.0/24 scram-sha-256",
                "host replication all 10.80.0.0/24 scram-sha-256",
            ],
            "parameters": {
                "unix_socket_directories": folder,
                "ssl": "on",
                "ssl_cert_file": file("server.crt"),
                "ssl_key_file": file("server.key"),
            },
        },
    })
    .to_string()
}

/// The configuration that etcd keeps, and that is the same for all members.
fn dynamic(setup: &Setup) -> Value {
    json!({
        "ttl": setup.ttl,
        "loop_wait": setup.loop_wait,
        // Patroni asks for `loop_wait + 2 * retry_timeout <= ttl`: a primary that cannot reach etcd must stop before its lock ends.
        "retry_timeout": (setup.ttl - setup.loop_wait) / 2,
        "synchronous_mode": !setup.no_sync,
        "synchronous_mode_strict": !setup.no_sync,
        "synchronous_node_count": setup.sync_standbys,
        "failsafe_mode": setup.failsafe,
        "postgresql": {
            "use_pg_rewind": true,
            "use_slots": true,
            "parameters": {
                // The suite of the store opens some connections for each of its tests.
                "max_connections": 400,
                "wal_sender_timeout": format!("{REPLICATION_PATIENCE_S}s"),
                "wal_receiver_timeout": format!("{REPLICATION_PATIENCE_S}s"),
                "wal_keep_size": "256MB",
            },
        },
    })
}

/// What Patroni says of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    /// PostgreSQL runs.
    pub is_running: bool,
    /// The server accepts writes, or would if a standby were there.
    pub is_primary: bool,
    /// The number of promotions in the history of its data, from 1; 0 is unknown.
    pub timeline: u64,
    /// etcd names the server as a synchronous standby.
    pub is_sync_standby: bool,
    /// The standbys that receive the log from this server.
    pub streaming: usize,
}

impl ServerState {
    fn of(answer: &Value) -> ServerState {
        let is = |field: &str, text: &str| answer.get(field).and_then(Value::as_str) == Some(text);
        let standbys = answer.get("replication").and_then(Value::as_array);
        let is_streaming =
            |standby: &&Value| standby.get("state").and_then(Value::as_str) == Some("streaming");
        ServerState {
            is_running: is("state", "running"),
            // From Patroni 4 on, the word is `primary`.
            is_primary: is("role", "master") || is("role", "primary"),
            timeline: answer.get("timeline").and_then(Value::as_u64).unwrap_or_default(),
            is_sync_standby: answer.get("sync_standby").and_then(Value::as_bool).unwrap_or_default(),
            streaming: standbys.map_or(0, |standbys| standbys.iter().filter(is_streaming).count()),
        }
    }
}

/// Asks the Patroni of a server; the caller is in the namespace of that server.
///
/// # Errors
///
/// There is no complete answer: Patroni has ended, starts, or is paused.
pub fn state(address: Ipv4Addr) -> Result<ServerState, Failure> {
    let what = format!("Patroni of {address}");
    let text = ask(address).about(&what)?;
    let (_, body) = text.split_once("\r\n\r\n").ok_or("no HTTP answer").about(&what)?;
    let answer: Value = serde_json::from_str(body).about(&what)?;
    Ok(ServerState::of(&answer))
}

fn ask(address: Ipv4Addr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, REST_PORT)), ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(b"GET /patroni HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_patroni() {
        let primary = json!({
            "state": "running", "role": "master", "timeline": 3,
            "replication": [
                { "application_name": "pg-2", "state": "streaming", "sync_state": "sync" },
                { "application_name": "pg-3", "state": "catchup", "sync_state": "async" },
            ],
        });
        let standby = json!({ "state": "running", "role": "replica", "timeline": 3, "sync_standby": true });
        let expected = ServerState {
            is_running: true,
            is_primary: true,
            timeline: 3,
            is_sync_standby: false,
            streaming: 1,
        };
        assert_eq!(ServerState::of(&primary), expected);
        let expected = ServerState { is_primary: false, is_sync_standby: true, streaming: 0, ..expected };
        assert_eq!(ServerState::of(&standby), expected);
        let starting = ServerState::of(&json!({ "state": "starting", "role": "replica" }));
        assert!(!starting.is_running && !starting.is_primary && starting.timeline == 0);
    }

    #[test]
    fn a_primary_without_etcd_stops_before_its_lock_ends() {
        for ttl in Setup::TTL_S {
            let setup = Setup { ttl, ..Setup::default() };
            let told = dynamic(&setup);
            let number = |name: &str| told[name].as_u64().unwrap();
            assert!(
                number("loop_wait") + 2 * number("retry_timeout") <= number("ttl"),
                "a lock of {ttl} s: {told}"
            );
            assert!(number("retry_timeout") >= 3, "Patroni needs 3 s: {told}");
        }
    }
}
