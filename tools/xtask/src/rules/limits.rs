//! Bounds of the engine: each constant named `*_MAX` or `*_LIMIT` is in `engine/proto/src/limits.rs`.

use super::{Source, code, shipped, sources, without};

const LIMITS: &str = "engine/proto/src/limits.rs";
/// Constants that no peer can influence, with their files.
const OTHERS: &[(&str, &str)] = &[
    // A bound of the kernel's interface.
    ("engine/src/runtime/mod.rs", "SEGMENTS_MAX"),
    // The simulation notices a task that does not stop.
    ("engine/src/runtime/sim/executor.rs", "STEPS_AN_INSTANT_MAX"),
];

/// The name of a bound that the line defines.
fn bound(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("const ")?;
    let (name, _) = after.split_once(':')?;
    let is_item = before.trim().is_empty() || before.trim_start().starts_with("pub");
    let is_bound =
        ["_MAX", "_LIMIT"].iter().any(|end| name.ends_with(end)) || matches!(name, "MAX" | "LIMIT");
    (is_item && is_bound).then_some(name)
}

/// The bounds that a source defines outside the file of limits.
fn misplaced(source: &Source) -> Vec<String> {
    let lines = source.text.lines().filter_map(|line| bound(code(line)));
    let is_allowed = |name: &str| OTHERS.contains(&(source.path.as_str(), name));
    lines.filter(|name| !is_allowed(name)).map(|name| format!("{}: {name}", source.path)).collect()
}

#[test]
fn bounds_of_the_engine_are_in_one_file() {
    let all = shipped(sources("engine"));
    let tests = without(all, &["engine/tests/", "engine/proto/tests/", LIMITS]);
    let broken: Vec<String> = tests.iter().flat_map(misplaced).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    for (path, name) in OTHERS {
        let text = &sources("engine").into_iter().find(|source| source.path == *path).unwrap().text;
        assert!(text.lines().any(|line| bound(code(line)) == Some(name)), "{path} has no {name}");
    }
}

#[test]
fn the_rule_sees_bounds() {
    for (line, expected) in [
        ("const WORKS_MAX: usize = 1;", Some("WORKS_MAX")),
        ("    pub(crate) const READ_LIMIT: usize = 1;", Some("READ_LIMIT")),
        ("pub const MAX: u8 = 1;", Some("MAX")),
        ("const WORKS_MIN: usize = 1;", None),
        ("const fn works_max() -> usize {", None),
        ("use crate::limits::WORKS_MAX;", None),
    ] {
        assert_eq!(bound(line), expected, "{line}");
    }
    let source = |path: &str| Source { path: path.into(), text: "const SEGMENTS_MAX: usize = 32;\n".into() };
    assert_eq!(misplaced(&source("engine/src/site.rs")), ["engine/src/site.rs: SEGMENTS_MAX"]);
    assert!(misplaced(&source("engine/src/runtime/mod.rs")).is_empty());
    assert!(bound(code("// const WORKS_MAX: usize = 1;")).is_none());
}
