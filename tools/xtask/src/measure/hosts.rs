//! 20,000 addresses over 1,000 MX hosts, each of which is a site.

use super::bench::{Bench, TableRow};
use super::setting::{ExpectedVerdict, KnownNet, PeerAddresses, SampleList};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: SampleList = SampleList { domains: 1000, each: 20, rounds: 1 };
const LIMIT: Duration = Duration::from_secs(120);

/// A scenario of 1,000 domains with these mailboxes, whose hosts offer STARTTLS if `tls` is true.
fn scenario(mailboxes: &str, unknown: &str, tls: bool) -> String {
    let starttls = if tls { r#""STARTTLS", "# } else { "" };
    format!(
        r#"
seed = 4
[listen]
addresses = "wildcard"
[[personality]]
name = "bench"
like = "generic"
ehlo = ["PIPELINING", "SIZE 10485760", {starttls}"8BITMIME", "ENHANCEDSTATUSCODES"]
[[group]]
name = "d{{n}}.example"
count = {}
server = "bench"
unknown = "{unknown}"
mailboxes.{mailboxes}
"#,
        LIST.domains
    )
}

const HALF: (&str, &str) = (r#"ok = ["50% user-#"]"#, "not_found");

/// Measures hosts that accept all, refuse all, and know half of the recipients: without TLS, then with STARTTLS on
/// every host.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    TableRow::head();
    let dns = bench.world.mailnet(&scenario(HALF.0, HALF.1, false))?;
    for (flags, peer, expected) in [
        (&[][..], "smtp-sink, accepts all", &(|_: &str| "catch_all") as ExpectedVerdict<'_>),
        (&["-f", "rcpt"], "smtp-sink, refuses all", &|_: &str| "unverifiable"),
    ] {
        let sink = bench.sink(flags)?;
        // The cost of a load generator for as many recipients; it asks no DNS and has one host.
        if flags.is_empty() {
            let cost = bench.source(50, LIST.len(), LIST.each)?;
            let client = format!("smtp-source, 50 sessions, {} RCPT per MAIL", LIST.each);
            TableRow { client, peer: peer.into(), addresses: LIST.len(), right: None, cost }.print();
        }
        let peers = PeerAddresses::sink(&dns);
        bench.measure(LIST, (&peers, peer), &["--pace", "lab"], expected, LIMIT)?.check(tally);
        drop(sink);
    }
    dns.stop()?;
    for tls in [false, true] {
        let all = [
            ("ok = [\"user-#\"]", "ok", "accepts all"),
            ("ok = []", "not_found", "refuses all"),
            (HALF.0, HALF.1, "knows half"),
        ];
        for (mailboxes, unknown, what) in all {
            let net = KnownNet::start(bench, &scenario(mailboxes, unknown, tls))?;
            let peer = format!("mailnet{}, {what}", if tls { " with STARTTLS" } else { "" });
            let expected = |address: &str| net.reason(address);
            let peers = (&net.peers(), peer.as_str());
            bench.measure(LIST, peers, &["--pace", "lab"], &expected, LIMIT)?.check(tally);
            net.stop()?;
        }
    }
    Ok(())
}

/// Measures the list of which half exist, on every runtime and driver, on one shard and on two.
pub fn drivers(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    TableRow::head();
    let net = KnownNet::start(bench, &scenario(HALF.0, HALF.1, false))?;
    let expected = |address: &str| net.reason(address);
    for (runtime, driver) in
        [("monoio", "io_uring"), ("monoio", "epoll"), ("glommio", "io_uring"), ("auto", "auto")]
    {
        for shards in ["1", "2"] {
            let flags = ["--pace", "lab", "--runtime", runtime, "--driver", driver, "--shards", shards];
            let peers = (&net.peers(), "mailnet, knows half");
            let mut row = bench.measure(LIST, peers, &flags, &expected, LIMIT)?;
            row.client =
                format!("{runtime} on {driver}, {shards} shard{}", if shards == "1" { "" } else { "s" });
            row.check(tally);
        }
    }
    net.stop()?;
    report::line("");
    Ok(())
}
