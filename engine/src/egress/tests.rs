use super::*;
use crate::config::{DriverChoice, RuntimeChoice};
use crate::runtime::{self, Main, Runtime};
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};

fn config(sources: &[&str]) -> EngineConfig {
    let read = |text: &&str| match text.starts_with("socks5:") {
        true => SourceConfig::parse_proxy(text).unwrap(),
        false => SourceConfig::parse_address(text).unwrap(),
    };
    EngineConfig {
        sources: sources.iter().map(read).collect(),
        ehlo: Some("probe.example".into()),
        mail_from: Some("postmaster@probe.example".into()),
        ..EngineConfig::default()
    }
}

#[test]
fn what_cannot_be_a_source_is_refused_with_what_to_do() {
    let check = |sources: &[&str], expected: &str| {
        let said = Pool::on_this_host(&config(sources)).err().map(|error| error.0).unwrap_or_default();
        assert!(said.contains(expected) && !said.contains("secret"), "{sources:?}: {said}");
    };
    check(&["127.0.0.2"], "");
    check(&["192.0.2.1"], "192.0.2.1 is not an address of this machine: add it to an interface");
    check(&["0.0.0.0"], "not the address of a single host");
    check(&["224.0.0.1"], "not the address of a single host");
    check(&["127.0.0.2", "127.0.0.2=a.example"], "127.0.0.2 is named twice");
    check(&["127.0.0.2=a_b"], "the EHLO name of the source 127.0.0.2: `a_b` is not a full name");
    check(&["socks5://u:secret@127.0.0.1:1", "socks5://u:secret2@127.0.0.1:1"], "named twice");
    check(&["socks5://u:secret@127.0.0.1:1", "socks5://v:secret@127.0.0.1:1"], "");
    check(&["socks5://u@127.0.0.1:1"], "a user name and no password");
    check(&["socks5://name.invalid:1"], "the proxy name.invalid:1 has no address");
    check(&[&format!("socks5://u:secret{}@127.0.0.1:1", "x".repeat(255))], "1 to 255 bytes");
}

#[test]
fn each_source_has_a_name_and_a_reverse_path_of_its_own() {
    let mut config = config(&["127.0.0.2=a.example", "socks5://u:secret@127.0.0.1:1=b.example"]);
    config.sources[1].mail_from = Some("bounce@c.example".into());
    let pool = Pool::new(&config).unwrap();
    let said: Vec<(&str, &str, &str)> = pool
        .sources
        .iter()
        .map(|source| (source.label.as_str(), &*source.dialog.ehlo, &*source.dialog.reverse_path))
        .collect();
    assert_eq!(
        said,
        [
            ("127.0.0.2", "a.example", "postmaster@a.example"),
            ("127.0.0.1:1 as b.example", "b.example", "bounce@c.example"),
        ]
    );
    let pool = Pool::new(&self::config(&[])).unwrap();
    assert_eq!(&*pool.sources[0].dialog.reverse_path, "postmaster@probe.example");
    assert!(!pool.named);
}

#[test]
fn a_source_serves_its_family_alone() {
    let addresses = |text: &[&str]| text.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
    let (v4, v6) = (addresses(&["192.0.2.1"]), addresses(&["2001:db8::1"]));
    let pool = |sources: &[&str]| Pool::new(&config(sources)).unwrap();
    let choose = |pool: &Pool, hosts: &[IpAddr]| pool.choose("site", hosts.iter().copied());
    let four = pool(&["127.0.0.2"]);
    assert_eq!((choose(&four, &v4), choose(&four, &v6), four.has_ipv6()), (Some(0), None, Some(false)));
    let proxy = pool(&["socks5://127.0.0.1:1"]);
    assert_eq!((choose(&proxy, &v4), choose(&proxy, &v6), proxy.has_ipv6()), (Some(0), None, Some(false)));
    let kernel = pool(&[]);
    assert_eq!((choose(&kernel, &v4), choose(&kernel, &v6), kernel.has_ipv6()), (Some(0), Some(0), None));
}

/// Connects from a source and tells how that went.
struct Try {
    source: Arc<Source>,
    destination: SocketAddr,
    told: Sender<String>,
}

impl Main for Try {
    async fn run<R: Runtime>(self) {
        let done = self.source.connect::<R>(self.destination, R::now() + Duration::from_secs(5)).await;
        let said = done.map_or_else(|error| error.to_string(), |(_, early)| format!("open {}", early.len()));
        self.told.send(said).unwrap();
    }
}

#[test]
fn an_address_that_is_gone_is_our_fault_and_a_host_that_refuses_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let check = |flavor, source: &str, destination, expected: &str| {
        // Without a look at the host, as if the address had been there when the engine started.
        let pool = Pool::new(&config(&[source])).unwrap();
        let (told, said) = channel();
        let main = Try { source: Arc::clone(&pool.sources[0]), destination, told };
        let thread = std::thread::spawn(move || runtime::run(flavor, main));
        let said = said.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(said.contains(expected), "{source} to {destination}: {said}");
        thread.join().unwrap().unwrap();
    };
    let monoio = (RuntimeChoice::Monoio, DriverChoice::Epoll);
    let glommio = cfg!(feature = "glommio").then_some((RuntimeChoice::Glommio, DriverChoice::IoUring));
    for (runtime, driver) in std::iter::once(monoio).chain(glommio) {
        let flavor = runtime::choose(runtime, driver).unwrap().flavor;
        check(flavor, "127.0.0.2", open, "open 0");
        check(flavor, "127.0.0.2", closed, "refused");
        check(
            flavor,
            "192.0.2.1",
            open,
            "the source cannot be used: the address is no longer an address of this machine",
        );
        check(
            flavor,
            &format!("socks5://{closed}"),
            open,
            "the source cannot be used: the proxy cannot be reached",
        );
    }
}

#[test]
fn the_host_needs_no_name_where_every_source_has_one() {
    let mut config = config(&["127.0.0.2=a.example", "127.0.0.3=b.example"]);
    (config.ehlo, config.mail_from) = (None, None);
    config.resolvers = vec![([127, 0, 0, 1], 53).into()];
    crate::machine::complete(&mut config).unwrap();
    let pool = Pool::new(&config).unwrap();
    let paths: Vec<&str> = pool.sources.iter().map(|source| &*source.dialog.reverse_path).collect();
    assert_eq!(paths, ["postmaster@a.example", "postmaster@b.example"]);
    config.mail_from = Some("all@c.example".into());
    config.sources[0].mail_from = None;
    crate::machine::complete(&mut config).unwrap();
    assert_eq!(&*Pool::new(&config).unwrap().sources[0].dialog.reverse_path, "all@c.example");
}
