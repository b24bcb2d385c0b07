//! The limit of the client itself: the same threads against a server that answers at once without any work. A run at
//! half of this rate or less measures its server and not the client.

use crate::addresses::Addresses;
use crate::load::{Load, Loop, Target};
use crate::mix::{Endpoint, Mix};
use crate::origin::Origin;
use crate::peer::{Peer, ServerPlace};
use crate::run::run;
use crate::sampler::Watched;
use crate::summary::Summary;
use crate::{End, say};
use clap::Args;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use usage::values::whole_number;

/// The options of `ceiling`.
#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole_number(1u16..=1000))]
    clients: u16,
    /// Measure with HTTPS
    #[arg(long)]
    https: bool,
    /// Length of the run
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = crate::objective::time)]
    duration: Duration,
}

const BODY: &str =
    r#"{"email":"user@d1.example","deliverable":null,"reason":"fast_check_passed","credits_remaining":null}"#;

/// Measures the highest rate of the client.
///
/// # Errors
///
/// One line: a socket or thread could not be created.
pub fn ceiling(args: &CeilingArgs, stop: &Arc<AtomicBool>) -> Result<End, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("cannot start a bare server: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| wrong(&error))?;
    let address = listener.local_addr().map_err(|error| wrong(&error))?;
    let host = address.to_string();
    let (server, tls) = if args.https {
        let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
        let ca = folder.path().join("cert.pem");
        let (certificate, config) = certificate().map_err(|error| wrong(&error))?;
        crate::world::write(&ca, &certificate)?;
        let place: ServerPlace = format!("https://{host}").parse()?;
        (Peer::of(&place, Some(&ca))?, Some(config))
    } else {
        (Peer::plain(address), None)
    };
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tls = tls.clone();
            std::thread::spawn(move || serve(stream, tls));
        }
    });
    let target = Target {
        server,
        host,
        keys: vec!["mp_test_none".into()],
        watched: Watched::default(),
        version: Some("a server that does nothing".into()),
    };
    let load = Load {
        warm_up: Duration::from_secs(1),
        patience: Duration::from_secs(5),
        ..Load::of(Loop::Closed(args.clients.into()), Mix::only(Endpoint::Fast), args.duration)
    };
    let (outcome, _) = run(&target, &load, Addresses::counted(1000), stop)?;
    let mut summary = Summary::of(&outcome, &[]);
    summary.origin = Some(Origin::now(target.version));
    say(&summary.text())?;
    say(&format!(
        "a thread of this client needs {:.1} us of CPU per request: {:.0} requests/s on one core of its own",
        summary.client.us_per_request,
        1e6 / summary.client.us_per_request
    ))?;
    Ok(End::Met)
}

/// A certificate for loopback as PEM, and the settings of a server that has it.
fn certificate() -> Result<(String, Arc<ServerConfig>), Box<dyn std::error::Error>> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    Ok((made.cert.pem(), Arc::new(config)))
}

fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>) {
    match tls {
        None => answer(stream),
        Some(config) => {
            if let Ok(session) = ServerConnection::new(config) {
                answer(StreamOwned::new(session, stream));
            }
        }
    }
}

/// Answers each read with one answer: the client sends one request in one write and waits.
fn answer(mut stream: impl Read + Write) {
    let whole = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut input = [0; 4096];
    while stream.read(&mut input).is_ok_and(|count| count > 0) {
        if stream.write_all(whole.as_bytes()).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}
