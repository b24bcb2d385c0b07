//! Requests over HTTPS, against a server of this test with rustls: private and unknown authorities, and both versions of TLS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::thread;

/// A server with a certificate of its own, which it writes to `ca`.
fn start(ca: &Path, versions: &[&'static SupportedProtocolVersion], closes: bool) -> SocketAddr {
    start_with(ca, versions, closes, IsCa::NoCa)
}

/// The same with a certificate that may be marked as an authority.
fn start_with(
    ca: &Path,
    versions: &[&'static SupportedProtocolVersion],
    closes: bool,
    is_ca: IsCa,
) -> SocketAddr {
    let signing_key = KeyPair::generate().unwrap();
    let mut wanted = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    wanted.is_ca = is_ca;
    let made = wanted.self_signed(&signing_key).unwrap();
    std::fs::write(ca, made.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            thread::spawn(move || serve(StreamOwned::new(session, stream), closes));
        }
    });
    address
}

/// Answers each request. The answer is longer than a record of TLS, and the description names a version. With `closes`, the
/// connection ends after each answer without the message of TLS for it.
fn serve(mut stream: StreamOwned<ServerConnection, TcpStream>, closes: bool) {
    let mut input = [0; 8192];
    while let Ok(count) = stream.read(&mut input) {
        if count == 0 {
            return;
        }
        let body = if input.starts_with(b"GET /v1/openapi.json") {
            r#"{"info":{"version":"9.8.7"}}"#.to_owned()
        } else {
            format!(r#"{{"reason":"mailbox_exists","cached":false,"pad":"{}"}}"#, "x".repeat(40_000))
        };
        let close = if closes { "Connection: close\r\n" } else { "" };
        let answer = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).is_err() || closes {
            return;
        }
    }
}

fn loadtest(folder: &Path, words: &str) -> (Output, Value) {
    crate::loadtest(folder, &["run", "--mix", "full=1", "--warm-up", "0s", "--duration", "500ms"], words)
}

#[test]
fn requests_go_through_tls() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    for (versions, closes) in [
        (&[&rustls::version::TLS13], false),
        (&[&rustls::version::TLS12], false),
        (&[&rustls::version::TLS13], true),
    ] {
        let server = start(&ca, versions, closes);
        let words = format!("--server https://{server} --ca {} --rate 100 --spread even", ca.display());
        let (output, report) = loadtest(folder.path(), &words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            (report["requests"].as_u64(), report["errors"].as_u64()),
            (Some(50), Some(0)),
            "{versions:?}"
        );
        assert_eq!(report["reasons"]["mailbox_exists"], 50);
        assert_eq!(report["origin"]["server"], "API 9.8.7");
        assert!(!report["origin"]["command"].as_str().unwrap().contains("mp_test"));
    }
}

#[test]
fn an_unknown_authority_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, other) = (folder.path().join("ca.pem"), folder.path().join("other.pem"));
    start(&other, &[&rustls::version::TLS13], false);
    let server = start(&ca, &[&rustls::version::TLS13], false);
    let words = format!("--server https://{server} --ca {} --rate 5", other.display());
    let (output, _) = loadtest(folder.path(), &words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = format!(
        "the certificate of {server} is not accepted: no certificate of {} signed it",
        other.display()
    );
    assert!(output.status.code() == Some(1) && error.contains(&wanted), "{error}");
    std::fs::write(&other, "no certificate").unwrap();
    let (output, _) = loadtest(folder.path(), &words);
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no certificate in PEM"));
    // A server with TLS does not answer plain HTTP.
    let (output, _) = loadtest(folder.path(), &format!("--server {server} --rate 20"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("does not answer HTTP"), "{error}");
    assert!(error.contains(&format!("write --server https://{server}")), "{error}");
    let (output, _) = loadtest(folder.path(), "--server ftp://x:1 --rate 5");
    assert_eq!(output.status.code(), Some(2));
}

/// The error of a run that must not begin.
fn refused(folder: &Path, words: &str) -> String {
    let (output, report) = loadtest(folder, words);
    assert_eq!((output.status.code(), report), (Some(1), Value::Null), "{words}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_fault_of_tls_is_named_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let versions: &[&'static SupportedProtocolVersion] = &[&rustls::version::TLS13];
    // The usual certificate of `openssl req -x509`.
    let server = start_with(&ca, versions, false, IsCa::Ca(BasicConstraints::Unconstrained));
    let error = refused(folder.path(), &format!("--server https://{server} --ca {} --rate 5", ca.display()));
    assert!(error.contains("-addext basicConstraints=critical,CA:FALSE"), "{error}");
    let server = start(&ca, versions, false);
    let words = format!("--server https://localhost:{} --ca {} --rate 5", server.port(), ca.display());
    let error = refused(folder.path(), &words);
    let wanted = format!("the certificate of localhost:{} is not accepted: ", server.port());
    assert!(error.contains(&wanted) && error.contains("not valid for name"), "{error}");
    assert!(!error.contains("--ca"), "{error}");
    // A port that closes each connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
        }
    });
    let error = refused(folder.path(), &format!("--server https://{closing} --ca {} --rate 5", ca.display()));
    assert!(
        error.contains(&format!("{closing} closes the connection during TLS: does this port serve HTTPS?"))
    );
}
