//! Rules of the source tree that a compiler does not check: the dependencies and the size of crates, and the length of
//! files.
//!
//! Each rule reads the files on disk and names every line that breaks it.

mod cycles;
mod docs;
mod limits;
mod public_docs;
mod test_layout;
mod type_names;

use crate::docs::cargo::packages;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A longer file must be divided.
const FILE_LINES_MAX: usize = 700;
/// A larger crate must be divided.
const CRATE_LINES_MAX: usize = 12_000;
/// The crates, each with those that it may depend on. `docs/architecture.md` describes their purpose.
const EDGES: &str = "\
engine-proto:
engine: engine-proto
api:
store: api engine usage
tls-stream:
vault: store
store-pg: store store-rules tls-stream vault
store-redb: store store-rules vault
store-rules: api engine store vault
lists: api engine-proto spill usage
learn: api engine-proto lists spill
checks: api engine learn lists store store-rules
spill:
clean: api checks engine learn lists spill store usage
list-work: api checks engine lists spill store store-rules
http-core: api checks engine store
outbound: engine
webhooks: api engine-proto outbound store store-rules
assistants: api checks engine http-core outbound store
dashboard: api assistants checks engine http-core list-work lists outbound store store-rules webhooks
server: api assistants checks dashboard engine http-core list-work lists outbound store store-rules tls-stream webhooks
frontend: api assistants checks clean dashboard engine learn list-work lists outbound server store store-pg store-redb store-rules usage vault webhooks
usage:
mailnet: usage
fuzz: api assistants checks dashboard engine-proto frontend http-core learn lists store store-rules
xtask: engine engine-proto fuzz mailnet usage
loadtest: usage
bench:
";
/// Libraries that determine the design of their users, and the crates that may depend on them.
const OWNERS: &[(&str, &[&str])] = &[
    // The store converts the errors of redb for store-redb only.
    ("redb", &["store", "store-redb"]),
    ("hyper", &["http-core", "loadtest", "server", "xtask"]),
    ("monoio", &["checks", "engine", "http-core", "loadtest", "server", "store-pg", "tls-stream"]),
    ("glommio", &["engine"]),
    ("tokio-postgres", &["store-pg"]),
    ("io-uring", &["checks", "engine"]),
    ("maud", &["dashboard", "lists", "server"]),
    ("clap", &["clean", "frontend", "loadtest", "mailnet", "usage", "xtask"]),
];
/// Crates whose tests must not depend on another crate of the project either.
const WITHOUT_TEST_EDGES: &[&str] = &["api", "engine-proto", "loadtest", "mailnet"];
/// Crates that test the engine independently.
const WITNESSES: &[&str] = &["tools/mailnet", "loadtest"];

/// A source file with its path from the root.
struct Source {
    path: String,
    text: String,
}

#[test]
fn crates_depend_only_downward() {
    let crates = crates();
    let edges: BTreeMap<&str, Vec<&str>> = EDGES
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, allowed)| (name, allowed.split_whitespace().collect()))
        .collect();
    let mut broken = Vec::new();
    for Crate { name, dependencies, .. } in &crates {
        let Some(allowed) = edges.get(name.as_str()) else {
            broken.push(format!("{name} is not in EDGES"));
            continue;
        };
        let with_dev = WITHOUT_TEST_EDGES.contains(&name.as_str());
        for dependency in dependencies.iter().filter(|dependency| with_dev || !dependency.dev) {
            let other = dependency.name.as_str();
            if crates.iter().any(|known| known.name == other) && !allowed.contains(&other) {
                broken.push(format!("{name} depends on {other}"));
            }
            if OWNERS.iter().any(|(library, owners)| *library == other && !owners.contains(&name.as_str())) {
                broken.push(format!("{name} depends on {other}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    for known in edges.keys() {
        assert!(crates.iter().any(|one| one.name == *known), "{known} is no crate of the workspace");
    }
}

#[test]
fn engine_proto_is_pure() {
    let crates = crates();
    let proto = crates.iter().find(|one| one.name == "engine-proto").unwrap();
    let impure = "serde serde_json fastrand getrandom rand tokio monoio glommio socket2 libc";
    for dependency in proto.dependencies.iter().filter(|dependency| !dependency.dev) {
        let is_impure = impure.split(' ').any(|name| name == dependency.name);
        assert!(!is_impure, "engine-proto depends on {}", dependency.name);
    }
    let words = "TcpStream TcpListener UdpSocket SystemTime Instant::now std::fs std::process std::env std::thread \
                 serde:: derive(Serialize fastrand:: getrandom:: RandomState";
    // Tests may read a clock: the first `Instant` has no other source.
    forbid(&shipped(sources("engine/proto/src")), &|line| {
        words.split_whitespace().any(|word| line.contains(word))
    });
}

#[test]
fn engine_proto_imports_one_way() {
    let all = sources("engine/proto/src");
    let rows: [(&str, &[&str]); 5] = [
        ("limits", &["address", "dns", "smtp", "verdict", "pace", "retry", "score"]),
        ("address", &["dns", "smtp", "verdict", "pace", "retry", "score"]),
        ("dns", &["smtp", "verdict", "retry"]),
        ("smtp", &["dns", "verdict", "retry"]),
        ("verdict", &["retry"]),
    ];
    for (module, forbidden) in rows {
        let (file, folder) = (format!("engine/proto/src/{module}.rs"), format!("engine/proto/src/{module}/"));
        let own = all.iter().filter(|source| source.path == file || source.path.starts_with(&folder));
        forbid(own, &|line| forbidden.iter().any(|other| line.contains(&format!("crate::{other}"))));
    }
}

#[test]
fn only_the_clock_asks_for_the_time() {
    let others = without(shipped(sources("frontend")), &["frontend/store/src/clock.rs", "frontend/tests/"]);
    forbid(&others, &|line| line.contains("SystemTime"));
}

#[test]
fn only_the_seam_names_a_runtime() {
    let others = without(sources("engine/src"), &["engine/src/runtime/", "engine/src/runtime.rs"]);
    forbid(&others, &|line| names(line, "monoio") || names(line, "glommio") || names(line, "io_uring"));
}

#[test]
fn witnesses_never_import_the_engine() {
    for folder in WITNESSES {
        forbid(&sources(folder), &|line| names(line, "engine") || names(line, "engine_proto"));
    }
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources("")
        .iter()
        .filter(|source| source.text.lines().count() > FILE_LINES_MAX)
        .map(|source| format!("{}: {} lines", source.path, source.text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn no_crate_of_the_frontend_is_too_large() {
    let of_frontend: Vec<Crate> =
        crates().into_iter().filter(|one| one.folder.starts_with("frontend")).collect();
    assert!(of_frontend.len() > 10);
    for Crate { folder, .. } in of_frontend {
        let lines: usize =
            sources(&format!("{folder}/src")).iter().map(|source| source.text.lines().count()).sum();
        assert!(0 < lines && lines <= CRATE_LINES_MAX, "{folder}: {lines} lines");
    }
}

#[test]
fn the_rules_see_what_they_forbid() {
    for line in
        ["use redb::Database;", "    redb::Builder::new()", "use redb;", "#[redb::x]", "use {redb::A, b::C};"]
    {
        assert!(names(line, "redb"), "{line}");
    }
    for line in [
        "// redb::Database",
        "let redb_path = 1;",
        "\"redb\"",
        "use store::redb_file;",
        "mod redb;",
        "super::redb::x",
    ] {
        assert!(!names(code(line), "redb"), "{line}");
    }
    assert!(sources("").len() > 10, "the tree is where the rules look");
}

/// Fails with every line of `sources` that `breaks` a rule; comments are ignored.
fn forbid<'a>(sources: impl IntoIterator<Item = &'a Source>, breaks: &dyn Fn(&str) -> bool) {
    let mut broken = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            if breaks(code(line)) {
                broken.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The line without its comment. A `//` in a string also ends it, which can only hide a fault.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether the line names the crate: `name::` or `use name;`, and not a module or a word of the same name.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        let starts = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '"');
        let path = after.starts_with("::");
        let import = before.trim_end().ends_with("use") && after.trim_start().starts_with([';', ' ']);
        starts && (path || import)
    })
}

/// A crate of the workspace, as cargo reads its manifest.
struct Crate {
    name: String,
    /// Below the root of the tree.
    folder: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// Whether only its tests, examples and benches need it.
    dev: bool,
}

/// The crates of the workspace.
fn crates() -> Vec<Crate> {
    let name = |of: &Value| of["name"].as_str().unwrap().to_owned();
    let dependency = |of: &Value| Dependency { name: name(of), dev: of["kind"] == "dev" };
    let list = |of: &Value, key: &str| of[key].as_array().unwrap().clone();
    let folder = |of: &Value| {
        let manifest = Path::new(of["manifest_path"].as_str().unwrap()).canonicalize().unwrap();
        manifest.parent().unwrap().strip_prefix(root()).unwrap().display().to_string()
    };
    packages()
        .unwrap()
        .iter()
        .map(|one| Crate {
            name: name(one),
            folder: folder(one),
            dependencies: list(one, "dependencies").iter().map(dependency).collect(),
        })
        .collect()
}

fn without(sources: Vec<Source>, exempt: &[&str]) -> Vec<Source> {
    sources.into_iter().filter(|source| !exempt.iter().any(|path| source.path.starts_with(path))).collect()
}

/// The sources without their tests: files of tests, and the test module at the end of a file.
fn shipped(sources: Vec<Source>) -> Vec<Source> {
    let mut shipped = Vec::new();
    for Source { path, mut text } in sources {
        if path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let ends = ["", "pub(crate) ", "pub(super) "];
        let ends = ends.map(|visibility| text.find(&format!("#[cfg(test)]\n{visibility}mod tests {{")));
        if let Some(end) = ends.into_iter().flatten().min() {
            text.truncate(end);
        }
        shipped.push(Source { path, text });
    }
    shipped
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file below a folder of the workspace; none if the folder is not there.
fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !name.starts_with("target") {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push(Source { text: fs::read_to_string(&path).unwrap(), path: relative });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
