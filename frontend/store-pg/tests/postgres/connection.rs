//! Connections to a real server: TLS, logins, versions and standbys.

use crate::setting::{TestServer, connect, on_each_driver};
use std::time::{Duration, Instant};
use store_pg::connect::{Connector, Target};

/// The error of a URL that does not lead to a connection.
async fn refusal(url: &str, requires_sync: bool) -> String {
    let connector = Connector::new(Target::parse(url).unwrap(), requires_sync).unwrap();
    match connector.connect().await {
        Ok(session) => panic!("connected to {}", session.host()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn tls_proves_the_server() {
    let Some(server) = TestServer::get("TLS") else { return };
    let Ok(authority) = std::env::var("MAILPROBE_TEST_POSTGRES_CA") else {
        println!("skipped: TLS needs MAILPROBE_TEST_POSTGRES_CA");
        return;
    };
    let trusted = server.url(&format!("sslmode=verify-full&sslrootcert={authority}"));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.pem");
    let pem = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap().cert.pem();
    std::fs::write(&other, pem).unwrap();
    let untrusted = server.url(&format!("sslrootcert={}", other.display()));
    on_each_driver(async |_| {
        let session = connect(&trusted).await;
        let row =
            session.client().query_one("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]);
        assert_eq!(row.await.unwrap().get::<_, &str>(0), "TLSv1.3");
        // Both directions carry more than one buffer.
        let (large, length) = (vec![b'x'; 3 << 20], 3 << 20);
        let row = session.client().query_one("SELECT $1::bytea", &[&large]).await.unwrap();
        assert_eq!(row.get::<_, &[u8]>(0).len(), length);
        let why = refusal(&untrusted, false).await;
        assert!(why.contains("TLS") && why.contains("certificate"), "{why}");
    });
}

#[test]
fn a_refused_login_shows_no_password() {
    let Some(server) = TestServer::get("logins") else { return };
    let (before, _) = server.url("").split_once("://").map(|(scheme, _)| (scheme.to_owned(), ())).unwrap();
    let url = format!("{before}://postgres:hunter2@{}/postgres?sslmode=disable", server.address());
    on_each_driver(async |_| {
        let why = refusal(&url, false).await;
        assert!(why.contains("28P01") && !why.contains("hunter2"), "{why}");
        let why = refusal(&url.replace(":hunter2", ""), false).await;
        assert!(why.contains("password missing"), "{why}");
    });
}

#[test]
fn the_first_usable_host_is_taken() {
    let Some(server) = TestServer::get("hosts") else { return };
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let hosts = format!("{closed},localhost:{port},{}", server.address());
    let url = server.url_at(&hosts);
    on_each_driver(async |_| {
        let session = connect(&url).await;
        assert_eq!(session.host().to_string(), format!("localhost:{port}"));
        let why = refusal(&server.url("sslmode=disable"), true).await;
        assert!(why.contains("synchronous_standby_names"), "{why}");
        session
            .client()
            .batch_execute("ALTER ROLE postgres SET default_transaction_read_only = on")
            .await
            .unwrap();
        let why = refusal(&server.url("sslmode=disable"), false).await;
        session
            .client()
            .batch_execute("ALTER ROLE postgres RESET default_transaction_read_only")
            .await
            .unwrap();
        assert!(why.contains("read-only"), "{why}");
    });
}

#[test]
fn a_dropped_session_closes_its_socket() {
    let Some(server) = TestServer::get("dropped sessions") else { return };
    on_each_driver(async |_| {
        let witness = server.session().await;
        let session = server.session().await;
        let pid: i32 = session.client().query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        // A statement is under way.
        let slow = monoio::time::timeout(
            Duration::from_millis(100),
            session
                .client()
                .batch_execute("SET client_connection_check_interval = '50ms'; SELECT pg_sleep(60)"),
        );
        assert!(slow.await.is_err());
        drop(session);
        let began = Instant::now();
        let text = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
        while witness.client().query_one(text, &[&pid]).await.unwrap().get::<_, i64>(0) > 0 {
            assert!(began.elapsed() < Duration::from_secs(5));
            monoio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
