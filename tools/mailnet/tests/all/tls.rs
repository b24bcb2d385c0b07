//! STARTTLS: its success, and every kind of failure.
#![expect(clippy::unwrap_used, reason = "a helper that fails shall fail its test")]

use crate::common::{self, Client, faulty, start_server};
use mailnet::{Running, Violation};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Accepts any certificate, as opportunistic TLS does.
#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

async fn handshake(stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let provider = ring::default_provider();
    let config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from("mx1.d.example").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A session up to the 220 of STARTTLS.
async fn ready(net: &Running) -> Client {
    let mut client = Client::greet(net, "d.example").await;
    assert!(client.say("STARTTLS").await.starts_with("220"));
    client
}

/// Sends one command under TLS; returns the bytes of one read.
async fn say(stream: &mut TlsStream<TcpStream>, command: &str) -> String {
    stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    let mut buffer = vec![0; 4096];
    let bytes = timeout(common::PATIENCE, stream.read(&mut buffer)).await.expect("a reply").unwrap();
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

#[tokio::test]
async fn a_session_begins_anew_under_tls() {
    let net = start_server("\"tls-required\"");
    let mut client = Client::greet(&net, "d.example").await;
    assert!(client.say("MAIL FROM:<>").await.starts_with("530 5.7.0"));
    assert!(client.say("STARTTLS").await.starts_with("220"));
    let mut stream = handshake(client.stream).await.unwrap();
    let ehlo = say(&mut stream, "EHLO c.example").await;
    assert!(ehlo.starts_with("250-") && !ehlo.contains("STARTTLS"), "{ehlo}");
    assert!(say(&mut stream, "MAIL FROM:<>").await.starts_with("250"));
    assert!(say(&mut stream, "RCPT TO:<alice@d.example>").await.starts_with("250"));
    assert!(say(&mut stream, "RCPT TO:<nobody@d.example>").await.starts_with("550"));
    assert!(say(&mut stream, "QUIT").await.starts_with("221"));
    let stats = net.stats();
    assert_eq!(stats.sessions_tls, 1);
    assert!(stats.violations.is_empty(), "{stats:?}");
}

#[tokio::test]
async fn what_was_said_in_clear_is_forgotten() {
    let net = start_server("\"generic\"");
    let mut stream = handshake(ready(&net).await.stream).await.unwrap();
    assert!(say(&mut stream, "MAIL FROM:<>").await.starts_with("503"));
    assert!(say(&mut stream, "STARTTLS").await.starts_with("503"));
    let violations = net.stats().violations;
    assert_eq!(violations[&Violation::MailBeforeEhlo], 1);
    assert_eq!(violations[&Violation::StarttlsNotOffered], 1);
}

#[tokio::test]
async fn commands_behind_starttls_are_dropped_and_counted() {
    let net = start_server("\"generic\"");
    let mut client = Client::greet(&net, "d.example").await;
    client.send("STARTTLS\r\nEHLO smuggled.example\r\n").await;
    assert!(client.reply().await.starts_with("220"));
    let mut stream = handshake(client.stream).await.unwrap();
    assert!(say(&mut stream, "MAIL FROM:<>").await.starts_with("503"), "the EHLO in clear was not heard");
    assert_eq!(net.stats().violations[&Violation::PipelinedPastGroupEnd], 1);
}

#[tokio::test]
async fn certificates_are_self_signed_or_expired() {
    for (certificate, runs_out) in [("self_signed", "2099"), ("expired", "0112310000")] {
        let net = start_server(&format!("{{ personality = \"generic\", certificate = \"{certificate}\" }}"));
        let stream = handshake(ready(&net).await.stream).await.unwrap();
        let chain = stream.get_ref().1.peer_certificates().unwrap();
        let shown = chain[0].windows(runs_out.len()).any(|bytes| bytes == runs_out.as_bytes());
        assert!(shown, "{certificate}");
    }
}

#[tokio::test]
async fn handshakes_fail() {
    for does in ["close", "reset", "garbage"] {
        let net = faulty("tls", does);
        let error = handshake(ready(&net).await.stream).await.expect_err(does);
        let is_garbage = error.kind() == io::ErrorKind::InvalidData;
        assert_eq!(is_garbage, does == "garbage", "{does}: {error}");
        assert_eq!((net.stats().misdeeds, net.stats().sessions_tls), (1, 0));
    }
    let net = faulty("tls", "hang");
    let shaking = handshake(ready(&net).await.stream);
    assert!(timeout(common::SILENCE, shaking).await.is_err());
}

#[tokio::test]
async fn replies_are_injected_behind_the_220() {
    let net = faulty("starttls", "inject");
    let mut client = Client::greet(&net, "d.example").await;
    client.send("STARTTLS\r\n").await;
    assert!(client.reply().await.starts_with("220"));
    assert_eq!(client.reply().await, "250 2.1.5 Ok, said in clear\r\n");
    let mut stream = handshake(client.stream).await.unwrap();
    assert!(say(&mut stream, "EHLO c.example").await.starts_with("250-mx1"));
}

#[tokio::test]
async fn replies_to_starttls_are_spoilt() {
    for (does, said) in
        [("garbage", "\u{15}"), ("wrong_code", "354"), ("mixed_codes", "250-"), ("long_line", "220 x")]
    {
        let net = faulty("starttls", does);
        let mut client = Client::greet(&net, "d.example").await;
        client.send("STARTTLS\r\n").await;
        client.more().await;
        assert!(client.held.starts_with(said.as_bytes()), "{does}");
    }
    // An unusual but readable reply still leads to TLS.
    for does in ["drip", "nul", "bare_lf"] {
        let net = faulty("starttls", does);
        handshake(ready(&net).await.stream).await.expect(does);
    }
}
