//! The choice of a host and the errors of servers that are not usable, against servers that speak only the beginning of the
//! protocol. No PostgreSQL is needed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use store_pg::connect::{Connector, Target};

/// How a fake server behaves.
#[derive(Clone)]
enum Conduct {
    /// It answers the greeting with these settings: version, `transaction_read_only`, `synchronous_standby_names`.
    Answers(&'static str, &'static str, &'static str),
    /// As `Answers` of a usable server, with this timeline, after this time.
    Writable(u32, Duration),
    /// It refuses every login.
    Refuses,
    /// It accepts connections and says nothing.
    Silent,
    /// It knows no TLS.
    WithoutTls,
    /// As `Answers` of a usable server, over TLS.
    Encrypted(Arc<ServerConfig>),
}

const USABLE: Conduct = Conduct::Answers("150004", "off", "*");

/// Starts a fake server, and returns its port.
fn start(conduct: Conduct) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let conduct = conduct.clone();
            thread::spawn(move || serve(stream.unwrap(), &conduct));
        }
    });
    port
}

/// A port on which nothing listens. It is below those that the system gives to others: one that was just closed may already be that
/// of another test.
const CLOSED_PORT: u16 = 9;

fn serve(mut stream: TcpStream, conduct: &Conduct) -> io::Result<()> {
    match conduct {
        Conduct::Silent => {
            let _ = stream.read_to_end(&mut Vec::new());
            Ok(())
        }
        Conduct::WithoutTls => {
            read_message(&mut stream, false)?;
            stream.write_all(b"N")
        }
        Conduct::Refuses => {
            read_message(&mut stream, false)?;
            stream.write_all(&message(b'E', b"SFATAL\0VFATAL\0C28P01\0Mno such role\0\0"))
        }
        Conduct::Encrypted(config) => {
            read_message(&mut stream, false)?;
            stream.write_all(b"S")?;
            let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            greet(&mut StreamOwned::new(connection, stream), ["150004", "off", "*", "00000001"])
        }
        Conduct::Answers(version, read_only, standbys) => {
            let timeline = if *read_only == "off" { "00000001" } else { "" };
            greet(&mut stream, [version, read_only, standbys, timeline])
        }
        Conduct::Writable(timeline, after) => {
            thread::sleep(*after);
            greet(&mut stream, ["150004", "off", "*", &format!("{timeline:08X}")])
        }
    }
}

/// Accepts the login, and answers one query with a row.
fn greet(stream: &mut (impl Read + Write), row: [&str; 4]) -> io::Result<()> {
    read_message(stream, false)?;
    stream.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat())?;
    read_message(stream, true)?;
    let (mut names, mut values) = (vec![0, 4], vec![0, 4]);
    for value in row {
        names.extend(b"x\0");
        names.extend([0; 18]);
        values.extend((value.len() as u32).to_be_bytes());
        values.extend(value.bytes());
    }
    let answer =
        [message(b'T', &names), message(b'D', &values), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")];
    stream.write_all(&answer.concat())?;
    let _ = stream.read_to_end(&mut Vec::new());
    Ok(())
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], length.as_slice(), body].concat()
}

fn read_message(stream: &mut impl Read, has_type: bool) -> io::Result<()> {
    let start = usize::from(has_type);
    let mut head = vec![0; start + 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes(head[start..].try_into().unwrap());
    stream.read_exact(&mut vec![0; length as usize - 4])
}

/// Connects on both drivers; the host that was taken, or the error.
fn connect(url: &str, requires_sync: bool) -> Result<String, String> {
    let ring = run(url, requires_sync, true);
    let epoll = run(url, requires_sync, false);
    assert_eq!(ring, epoll);
    epoll
}

fn run(url: &str, requires_sync: bool, on_ring: bool) -> Result<String, String> {
    let connector = Connector::new(Target::parse(url).unwrap(), requires_sync).unwrap();
    let test = || async {
        match connector.connect().await {
            Ok(session) => Ok(session.host().to_string()),
            Err(error) => Err(error.to_string()),
        }
    };
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            if on_ring && let Ok(mut runtime) = RuntimeBuilder::<IoUringDriver>::new().enable_timer().build()
            {
                return runtime.block_on(test());
            }
            RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().unwrap().block_on(test())
        });
        run.join().unwrap()
    })
}

fn url(ports: &[u16], parameters: &str) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://node:hunter2@{}/db?{parameters}", hosts.join(","))
}

/// Connects with one connector again and again; the hosts that were taken, or the errors, and the longest time.
fn connect_often(url: &str, before: &[&dyn Fn()]) -> (Vec<Result<String, String>>, Duration) {
    let connector = Connector::new(Target::parse(url).unwrap(), true).unwrap();
    let mut longest = Duration::ZERO;
    let mut taken = Vec::new();
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().unwrap();
    for step in before {
        step();
        let began = Instant::now();
        let session = runtime.block_on(async {
            let session = connector.connect().await.map_err(|error| error.to_string())?;
            assert!(connector.is_current(&session));
            Ok(session.host().to_string())
        });
        longest = longest.max(began.elapsed());
        taken.push(session);
    }
    (taken, longest)
}

fn at_once(timeline: u32) -> Conduct {
    Conduct::Writable(timeline, Duration::ZERO)
}

/// A former primary still accepts writes.
#[test]
fn the_highest_timeline_is_taken() {
    let ports = [start(at_once(9)), start(at_once(0x1A)), start(at_once(0x1A)), start(at_once(0x19))];
    let taken = Ok(format!("127.0.0.1:{}", ports[1]));
    assert_eq!(connect(&url(&ports, "sslmode=disable"), true), taken);
}

/// The highest timeline is remembered, so a former primary is refused also if its successor is unreachable.
#[test]
fn a_former_primary_is_refused() {
    let former = start(at_once(3));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = url(&[former, port], "sslmode=disable");
    let serve_once = || {
        let listener = listener.try_clone().unwrap();
        thread::spawn(move || serve(listener.accept().unwrap().0, &at_once(4)));
    };
    // Then nobody accepts its connections: they are in the queue of the kernel, as with a server that is paused.
    let url = format!("{url}&connect_timeout=2");
    let (taken, longest) = connect_often(&url, &[&serve_once, &|| {}]);
    assert_eq!(taken[0], Ok(format!("127.0.0.1:{port}")));
    let why = taken[1].as_ref().unwrap_err();
    assert!(why.contains(&format!("127.0.0.1:{former}: it is a former primary")), "{why}");
    assert!(why.contains(&format!("127.0.0.1:{port}: it did not answer in time")), "{why}");
    assert!(longest < Duration::from_secs(4), "{longest:?}");
}

/// A host without an answer delays the choice for a second, whatever its time for a connection is.
#[test]
fn a_slow_host_delays_the_choice_for_a_second() {
    let (slow, soon) = (Duration::from_secs(8), Duration::from_millis(400));
    let ports = [start(Conduct::Writable(7, slow)), start(at_once(5)), start(Conduct::Writable(6, soon))];
    let url = url(&ports, "sslmode=disable&connect_timeout=20");
    let (taken, longest) = connect_often(&url, &[&|| {}]);
    assert_eq!(taken, [Ok(format!("127.0.0.1:{}", ports[2]))]);
    assert!((Duration::from_millis(900)..Duration::from_secs(4)).contains(&longest), "{longest:?}");
}

#[test]
fn the_first_usable_host_is_taken() {
    let standby = Conduct::Answers("150004", "on", "");
    let alone = Conduct::Answers("150004", "off", "");
    let ports =
        [CLOSED_PORT, start(Conduct::Refuses), start(standby), start(alone), start(USABLE), start(USABLE)];
    let url = url(&ports, "sslmode=disable");
    assert_eq!(connect(&url, true), Ok(format!("127.0.0.1:{}", ports[4])));
    assert_eq!(connect(&url, false), Ok(format!("127.0.0.1:{}", ports[3])));
}

#[test]
fn each_host_has_its_reason() {
    let old = Conduct::Answers("140011", "off", "*");
    let ports = [
        CLOSED_PORT,
        start(Conduct::Refuses),
        start(Conduct::Answers("160001", "on", "*")),
        start(Conduct::Answers("150004", "off", "")),
        start(old),
        start(Conduct::Answers("", "", "")),
    ];
    let why = connect(&url(&ports, "sslmode=disable"), true).unwrap_err();
    let reasons = [
        "no connection: ",
        "no such role (SQLSTATE 28P01)",
        "it is read-only, like a standby",
        "it has no synchronous standby",
        "it runs PostgreSQL 14; mailprobe needs 15 or later",
        "it does not say what it is",
    ];
    assert!(why.starts_with("no PostgreSQL server is usable: "), "{why}");
    for (port, reason) in ports.iter().zip(reasons) {
        assert!(why.contains(&format!("127.0.0.1:{port}: {reason}")), "{why}");
    }
    assert!(!why.contains("hunter2") && !why.contains('\n'), "{why}");
}

#[test]
fn a_silent_host_takes_its_time_only() {
    let ports = [start(Conduct::Silent), start(USABLE)];
    let began = Instant::now();
    let url = url(&ports, "sslmode=disable&connect_timeout=1");
    assert_eq!(connect(&url, true), Ok(format!("127.0.0.1:{}", ports[1])));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn names_are_looked_up() {
    let port = start(USABLE);
    let url =
        format!("postgres://u@no-such-name.invalid,localhost:{port}/db?sslmode=disable&connect_timeout=20");
    assert_eq!(connect(&url, true), Ok(format!("localhost:{port}")));
}

#[test]
fn tls_proves_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let port = start(Conduct::Encrypted(certify(&["127.0.0.1", "localhost"], folder.path(), "right.pem")));
    let stranger = start(Conduct::Encrypted(certify(&["db.example"], folder.path(), "stranger.pem")));
    let with = |ports: &[u16], file: &str| {
        url(ports, &format!("sslrootcert={}", folder.path().join(file).display()))
    };
    assert_eq!(connect(&with(&[port], "right.pem"), true), Ok(format!("127.0.0.1:{port}")));
    let why = connect(&with(&[port], "stranger.pem"), true).unwrap_err();
    assert!(why.contains("TLS") && why.contains("certificate"), "{why}");
    let why = connect(&with(&[stranger], "stranger.pem"), true).unwrap_err();
    assert!(why.contains("not valid for name"), "{why}");
    let plain = start(Conduct::WithoutTls);
    let why = connect(&with(&[plain], "right.pem"), true).unwrap_err();
    assert!(why.contains("does not support TLS"), "{why}");
}

/// A certificate for these names, which is its own authority, as a file in PEM and as the configuration of a server.
fn certify(names: &[&str], folder: &Path, file: &str) -> Arc<ServerConfig> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(folder.join(file), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    Arc::new(config)
}
