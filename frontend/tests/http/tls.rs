//! HTTPS: the certificate from its files, its replacement on SIGHUP, and peers that never finish a handshake.

use crate::harness::client::Connection;
use crate::harness::server::{Server, get, mailprobe, post};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A certificate with its key, in files.
struct Pair {
    folder: TempDir,
    root: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let root = Pair::write(&folder);
        Pair { folder, root }
    }

    fn write(folder: &TempDir) -> CertificateDer<'static> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("cert.pem"), cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), signing_key.serialize_pem()).unwrap();
        cert.der().clone()
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn serve(&self, flags: &[&str]) -> Server {
        let (cert, key) = (self.path("cert.pem"), self.path("key.pem"));
        Server::start(&[&["--tls-cert", &cert, "--tls-key", &key][..], flags].concat())
    }
}

fn client(root: &CertificateDer<'static>, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    builder.with_root_certificates(roots).with_no_client_auth()
}

type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// A connection after its handshake.
fn try_connect(server: &Server, config: ClientConfig) -> std::io::Result<TlsClient> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

fn connect(server: &Server, root: &CertificateDer<'static>) -> Connection {
    Connection::over(try_connect(server, client(root, rustls::ALL_VERSIONS)).unwrap())
}

#[test]
fn requests_go_over_tls_1_2_and_1_3() {
    let pair = Pair::new();
    for driver in ["auto", "epoll"] {
        let server = pair.serve(&["--driver", driver]);
        for (version, name) in [
            (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
            (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
        ] {
            let mut config = client(&pair.root, &[version]);
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let stream = try_connect(&server, config).unwrap();
            assert_eq!(stream.conn.protocol_version(), Some(name));
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
            let mut connection = Connection::over(stream);
            for _ in 0..3 {
                connection.send(get(&server.live, "/v1/account"));
                assert_eq!(connection.read().status, 200);
            }
            // The body is larger than a record, and is nevertheless answered.
            connection.send(post(&server.live, "/v1/verify", &"x".repeat(200_000)));
            assert_eq!(connection.read().status, 400);
            connection.send(get("", "/livez").replacen("\r\n", "\r\nConnection: close\r\n", 1));
            assert_eq!(connection.read().status, 200);
            assert!(connection.try_read().is_none());
        }
    }
}

#[test]
fn many_answers_at_once_arrive_whole() {
    let pair = Pair::new();
    let server = pair.serve(&[]);
    let mut connection = connect(&server, &pair.root);
    connection.send(get(&server.test, "/v1/account").repeat(250));
    for _ in 0..250 {
        assert_eq!(connection.read().json()["credits_remaining"], 100);
    }
}

#[test]
fn what_is_no_tls_gets_no_answer() {
    let pair = Pair::new();
    let server = pair.serve(&[]);
    let mut plain = TcpStream::connect(server.address).unwrap();
    std::io::Write::write_all(&mut plain, get("", "/livez").as_bytes()).unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    let mut config = client(&pair.root, rustls::ALL_VERSIONS);
    config.alpn_protocols = vec![b"h2".to_vec()];
    assert!(try_connect(&server, config).is_err(), "nothing is spoken that was not agreed on");
    let mut connection = connect(&server, &pair.root);
    connection.send(get("", "/livez"));
    let answer = connection.read();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"));
    let server = Server::start(&[]);
    assert_eq!(server.get("", "/livez").header("strict-transport-security"), None, "there is no TLS");
}

#[test]
fn a_handshake_has_its_time_and_a_place() {
    let pair = Pair::new();
    let server = pair.serve(&["--frontends", "1", "--connections", "2"]);
    let began = Instant::now();
    let mut silent: Vec<_> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(200));
    // Two handshakes that never end use both connections until their time limit.
    let mut third = connect(&server, &pair.root);
    third.send(get("", "/livez"));
    assert_eq!(third.read().status, 200);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(8) && took < Duration::from_secs(20), "{took:?}");
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    }
}

#[test]
fn a_certificate_is_exchanged_on_sighup_and_a_bad_one_is_not() {
    let pair = Pair::new();
    let server = pair.serve(&[]);
    let mut old = connect(&server, &pair.root);
    // A certificate without its key, as after writing only one of the files.
    let key = fs::read(pair.path("key.pem")).unwrap();
    let next = Pair::write(&pair.folder);
    let next_key = fs::read(pair.path("key.pem")).unwrap();
    fs::write(pair.path("key.pem"), key).unwrap();
    server.signal(libc::SIGHUP);
    server.logs("nothing changed because of an error: the key ", 1);
    connect(&server, &pair.root);
    fs::write(pair.path("key.pem"), next_key).unwrap();
    server.signal(libc::SIGHUP);
    server.logs("the configuration was read again: ", 1);
    let mut new = connect(&server, &next);
    assert!(try_connect(&server, client(&pair.root, rustls::ALL_VERSIONS)).is_err());
    for connection in [&mut old, &mut new] {
        connection.send(get("", "/livez"));
        assert_eq!(connection.read().status, 200, "connections go on");
    }
}

#[test]
fn a_certificate_stays_if_the_plans_are_refused() {
    let plan = |id: &str| format!("[[plan]]\nid = \"{id}\"\nname = \"{id}\"\nmonthly_credits = 5\n");
    let pair = Pair::new();
    let config = pair.path("mailprobe.toml");
    fs::write(&config, plan("free") + &plan("gold")).unwrap();
    let server = pair.serve(&["--config", &config]);
    server.administer(&["account", "create", "acme", "--plan", "gold"]);
    let before = pair.root.clone();
    Pair::write(&pair.folder);
    fs::write(&config, plan("free")).unwrap();
    server.signal(libc::SIGHUP);
    server.logs("nothing changed because of an error: ", 1);
    connect(&server, &before);
}

#[test]
fn a_wrong_pair_is_told_at_the_start() {
    let (pair, other) = (Pair::new(), Pair::new());
    let data: PathBuf = pair.folder.path().join("data");
    let refused = |flags: &[&str], code: i32, expected: &str| {
        let base = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        let output = mailprobe([&base[..], flags].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.lines().count() == 1 && said.contains(expected), "{said}");
        assert!(!data.exists());
    };
    let (cert, key) = (pair.path("cert.pem"), pair.path("key.pem"));
    refused(&["--tls-cert", &cert], 2, "with --tls-key");
    refused(&["--tls-key", &key], 2, "with --tls-cert");
    refused(&["--tls-cert", "/nonexistent", "--tls-key", &key], 1, "/nonexistent: No such file");
    refused(
        &["--tls-cert", &cert, "--tls-key", &other.path("key.pem")],
        1,
        "does not belong to the certificate",
    );
}
