//! Control names, EHLO names, tarpits, blanket refusals, and IPv4 after IPv6.

use super::{CheckOutcome, CheckSetting, HOST, MannersCheck, check, count, domain, rows, wrong};
use crate::interop::report::outcome;
use crate::soak::peers::{self, CleanRun};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

const DOMAINS: usize = 20;
/// How many domains of two installations may have the same control name.
const SAME_MAX: usize = 1;
const LIMIT: Duration = Duration::from_secs(300);
/// Twenty recipients get the same refusal before the host is left alone. Five transactions of ten recipients may be
/// under way then.
const BLANKET_MAX: u64 = 70;

/// The checks of names, delays and refusals.
pub fn checks() -> Vec<MannersCheck> {
    let blanket = |name: &str, text: &'static str| {
        let name_of_run = format!("blanket-{name}");
        check(format!("a blanket refusal by \"{text}\""), move |place| blanket(place, &name_of_run, text))
    };
    vec![
        check("one control name for a domain and a day", controls),
        check("EHLO without a name of ours", ehlo),
        check("a tarpit is waited out", tarpit),
        blanket("policy", "550 5.7.1 denied"),
        blanket("bare", "550 "),
        blanket("other", "554 Ask somebody else"),
        check("IPv4 after IPv6, refused in the banner", |place| {
            ipv6(place, "banner", "554 5.7.1 [{client}] has no PTR record, see RFC 1912")
        }),
        check("IPv4 after IPv6, refused at RCPT", |place| {
            ipv6(place, "rcpt", "550 5.7.25 Service unavailable, [{client}] has no reverse DNS entry")
        }),
    ]
}

/// The local parts of each domain that are on no list.
type Names = BTreeMap<String, BTreeSet<String>>;

/// Compares the control names of two runs of one installation and one run of another.
fn controls(place: &CheckSetting<'_>) -> CheckOutcome {
    let domains: String =
        (0..DOMAINS).map(|n| domain(&format!("d{n}.example"), "{ personality = \"generic\" }")).collect();
    let mut names = Vec::new();
    for installations in [&["one", "one"][..], &["other"]] {
        let net = peers::start(&place.scenario(&domains))?;
        for (run, installation) in installations.iter().enumerate() {
            let words = ["real", "gone"].into_iter();
            let row = |word| (0..DOMAINS).map(move |n| format!("{word}-{run}@d{n}.example"));
            let rows: Vec<String> = words.flat_map(row).collect();
            let name = format!("controls-{installation}-{run}");
            place.clean(&net, (&name, &format!("controls-{installation}")), &rows, &[])?;
        }
        let journal = net.journal();
        let of = |n| {
            let domain = format!("d{n}.example");
            let asked = journal.asked(&domain).into_keys();
            let controls = asked.filter(|name| !name.starts_with("real-") && !name.starts_with("gone-"));
            (domain, controls.filter(|name| name != "postmaster").collect())
        };
        names.push((0..DOMAINS).map(of).collect::<Names>());
    }
    judge_controls(&names[0], &names[1])
}

fn judge_controls(one: &Names, other: &Names) -> CheckOutcome {
    let several = one.values().filter(|names| names.len() != 1).count();
    let same =
        one.iter().filter(|(domain, names)| other.get(*domain).is_some_and(|set| set == *names)).count();
    let sample: Vec<&str> = one.values().flatten().map(String::as_str).take(3).collect();
    let figures = format!(
        "{several} of {} domains have not one control name over two runs, {same} the same at another installation \
         ({}, ...)",
        one.len(),
        sample.join(", ")
    );
    outcome(several == 0 && same <= SAME_MAX, figures)
}

/// The default EHLO name of a machine without a name is an address literal (RFC 5321 4.1.1.1).
fn ehlo(place: &CheckSetting<'_>) -> CheckOutcome {
    let net = place.net("{ personality = \"generic\" }")?;
    let rows = rows("real", 0..3);
    let run = CleanRun { name: "ehlo", rows: &rows, flags: &[], named: false, state: "ehlo", limit: LIMIT };
    peers::clean(place.world, &net, &run)?;
    let names = net.journal().ehlo_names();
    let right = !names.is_empty() && names.iter().all(|name| is_ehlo_name(name));
    outcome(right, names.into_iter().collect::<Vec<_>>().join(", "))
}

fn is_ehlo_name(name: &str) -> bool {
    let literal = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match literal {
        Some(address) => {
            let v6 = address.strip_prefix("IPv6:").is_some_and(|v6| v6.parse::<Ipv6Addr>().is_ok());
            v6 || address.parse::<std::net::Ipv4Addr>().is_ok()
        }
        None => name.contains('.') && name.split('.').all(|label| !label.is_empty()),
    }
}

/// A client that evades a tarpit starts a new session after every few refusals.
fn tarpit(place: &CheckSetting<'_>) -> CheckOutcome {
    const AFTER: usize = 3;
    let ms = place.of(3000, 1000);
    let server = format!(
        "{{ personality = \"generic\", changes = [{{ after = {AFTER}, counted = \"session\", to = \"delay\", ms = {ms} }}] }}"
    );
    let net = place.net(&server)?;
    let size = 60;
    let cleaned = place.clean(&net, ("tarpit", "tarpit"), &rows("gone", 0..size), &[])?;
    let sessions = net.host_stats(HOST).map_or(0, |host| host.sessions) as usize;
    let right = count(&cleaned, "mailbox_not_found");
    let figures =
        format!("{sessions} sessions, {right} of {size} right in {:.0} s", cleaned.took.as_secs_f64());
    // Ten sessions may begin before the delay is known.
    outcome(right == size && sessions <= 10 + size / AFTER / 4, figures)
}

fn blanket(place: &CheckSetting<'_>, name: &str, text: &str) -> CheckOutcome {
    let net = place.net(&format!(
        "{{ personality = \"generic\", faults = [{{ at = \"rcpt\", does = \"reply\", text = \"{text}\" }}] }}"
    ))?;
    let size = 300;
    let rows = [rows("real", 0..size / 2), rows("gone", 0..size / 2)].concat();
    let cleaned = place.clean(&net, (name, name), &rows, &[])?;
    let asked = net.host_stats(HOST).map_or(0, |host| host.rcpt);
    let unverifiable = count(&cleaned, "unverifiable");
    let figures = format!(
        "{asked} recipients asked about, at most {BLANKET_MAX}; {unverifiable} of {size} unverifiable in {:.0} s",
        cleaned.took.as_secs_f64()
    );
    outcome(asked <= BLANKET_MAX && unverifiable == size, figures)
}

fn ipv6(place: &CheckSetting<'_>, at: &str, text: &str) -> CheckOutcome {
    let server = format!(
        "{{ personality = \"generic\", faults = [{{ at = \"{at}\", does = \"reply\", family = \"ipv6\", text = \"{text}\" }}] }}"
    );
    let net = peers::start(&place.scenario(&format!(
        "[[host]]\nname = \"mx.d.example\"\naddresses = [\"::1\", \"127.1.66.1\"]\nserver = {server}\n\
         [[domain]]\nname = \"d.example\"\nmx = [\"10 mx.d.example\"]\nmailboxes.ok = [\"real-#\"]\n"
    )))?;
    let list = [rows("real", 0..10), rows("gone", 0..10)].concat();
    let name = format!("ipv6-{at}");
    let cleaned = place.clean(&net, (&name, &name), &list, &[])?;
    let by_ipv6 = net.journal().events.iter().any(|event| event.client.is_ipv6());
    let wrong = wrong(&net, &cleaned);
    let figures = format!(
        "{wrong} of {} wrong in {:.0} s, IPv6 {}",
        list.len(),
        cleaned.took.as_secs_f64(),
        if by_ipv6 { "tried" } else { "never tried" }
    );
    outcome(wrong == 0 && by_ipv6, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ehlo_names_are_qualified_or_literals() {
        for (name, right) in [
            ("mx.example.org", true),
            ("[192.0.2.1]", true),
            ("[IPv6:2001:db8::1]", true),
            ("localhost", false),
            ("box", false),
            ("[box]", false),
            ("[2001:db8::1]", false),
            ("a..b", false),
            ("", false),
        ] {
            assert_eq!(is_ehlo_name(name), right, "{name}");
        }
    }

    #[test]
    fn control_names_are_one_for_a_domain_and_others_elsewhere() {
        let names = |rows: &[(&str, &[&str])]| -> Names {
            let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            rows.iter().map(|(domain, names)| ((*domain).to_owned(), set(names))).collect()
        };
        let one = names(&[("a", &["x1"]), ("b", &["x2"]), ("c", &["x3"])]);
        let other = names(&[("a", &["y1"]), ("b", &["x2"]), ("c", &["y3"])]);
        assert!(judge_controls(&one, &other).is_ok());
        assert!(judge_controls(&one, &one).is_err(), "the same everywhere");
        assert!(judge_controls(&names(&[("a", &["x1", "x2"])]), &other).is_err(), "two");
        assert!(judge_controls(&names(&[("a", &[])]), &other).is_err(), "none");
    }
}
