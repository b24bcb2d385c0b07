//! The memory of large DNS answers: 20,000 domains with one MX record each, with 1.2 KB of MX records whose hosts all
//! domains share, and with as many records of separate hosts, whose names are shorter.

use super::bench::{Bench, TableRow};
use super::setting::{PeerAddresses, SERVER, SampleList};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: SampleList = SampleList { domains: 20_000, each: 1, rounds: 1 };
/// 24 records with 2 bytes of preference and 50 bytes of name have 1.2 KB in uncompressed form.
const RECORDS: usize = 24;
/// The allowed growth of resident memory.
const WANTED_MIB: f64 = 64.0;
const LIMIT: Duration = Duration::from_secs(600);

/// The MX records of every domain.
enum Exchanges {
    One,
    Shared,
    Own,
}

/// Measures each form of answers, and counts whether the growth of memory is within the limit.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    TableRow::head();
    let mut peaks = Vec::new();
    for (words, exchanges) in [
        ("one MX record", Exchanges::One),
        ("24 MX records of shared hosts", Exchanges::Shared),
        ("24 MX records of hosts of its own", Exchanges::Own),
    ] {
        let mailnet = bench.world.mailnet(&scenario(&exchanges))?;
        let peers = PeerAddresses::of(&mailnet);
        for flags in [&["--pace", "lab"][..], &["--fast"]] {
            let fast = flags == ["--fast"];
            let expected = |_: &str| if fast { "fast_check_passed" } else { "mailbox_exists" };
            let row = bench.measure(LIST, (&peers, words), flags, &expected, LIMIT)?;
            peaks.push(row.cost.peak_kib as f64 / 1024.0);
            row.check(tally);
        }
        mailnet.kill();
    }
    if let [full, fast, ..] = peaks[..] {
        let grown = |(at, peak): (usize, &f64)| peak - if at % 2 == 0 { full } else { fast };
        let most = peaks.iter().enumerate().map(grown).fold(0.0, f64::max);
        report::line(&format!(
            "\nThe peak memory grows by at most {most:.0} MiB; target: {WANTED_MIB:.0} MiB.\n"
        ));
    }
    Ok(())
}

fn scenario(exchanges: &Exchanges) -> String {
    let host = |at: usize| format!("mx{at:02}.inbound-mail-exchange.datacentre.provider.example");
    let shared = |count: usize| {
        let records: Vec<String> =
            (0..count).map(|at| format!("\"{} {}\"", 10 * (at + 1), host(at))).collect();
        let hosts = (0..count).map(|at| format!("[[host]]\nname = \"{}\"\nserver = \"bench\"\n", host(at)));
        (format!("[{}]", records.join(", ")), hosts.collect::<String>())
    };
    let (mx, hosts) = match exchanges {
        Exchanges::One => shared(1),
        Exchanges::Shared => shared(RECORDS),
        Exchanges::Own => (RECORDS.to_string(), String::new()),
    };
    let group = format!(
        "[[group]]\nname = \"d{{n}}.example\"\ncount = {}\nmx = {mx}\nserver = \"bench\"\nmailboxes.ok = [\"user-#\"]\n",
        LIST.domains
    );
    format!("[listen]\naddresses = \"wildcard\"\n{hosts}{group}{SERVER}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailnet::Scenario;

    #[test]
    fn the_records_of_a_domain_take_as_much_as_is_said() {
        for exchanges in [Exchanges::One, Exchanges::Shared, Exchanges::Own] {
            assert!(Scenario::parse(&scenario(&exchanges)).is_ok());
        }
        let mx = scenario(&Exchanges::Shared);
        let names = mx.split('"').filter(|part| part.contains(" mx"));
        let bytes: usize = names.map(|record| 2 + record.len() - 2).sum();
        assert!((1_200..1_500).contains(&bytes), "{bytes}");
    }
}
