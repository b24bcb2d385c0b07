//! Tests look like tests: those of `x.rs` that have a file of their own are in `x/tests.rs` or below `x/tests/`, and those of
//! a whole crate in `src/tests.rs` or below `src/tests/`.

use super::{Source, code, sources};

/// Files that declare test modules of other names: the rules over the tree are the tests of the whole workspace.
const EXEMPT_FILES: &[&str] = &["tools/xtask/src/main.rs"];

#[test]
fn modules_of_tests_are_called_tests() {
    let broken: Vec<String> = sources("").iter().flat_map(broken).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn other_names_are_found() {
    let breaks =
        |path: &str, text: &str| !broken(&Source { path: path.into(), text: text.into() }).is_empty();
    for module in ["mod tests;\nmod y;", "pub(crate) mod tests;", "mod helpers {\n}"] {
        assert!(!breaks("a/src/x.rs", &format!("#[cfg(test)]\n{module}\n")), "{module}");
    }
    let renamed = "#[path = \"x_tests.rs\"]\nmod tests;";
    for module in ["mod crash;", "pub(super) mod crash;", renamed] {
        assert!(breaks("a/src/x.rs", &format!("#[cfg(test)]\n{module}\n")), "{module}");
    }
    assert!(!breaks("a/src/x.rs", "#[cfg(any(test, fuzzing))]\nmod fuzzing;\n"));
    assert!(!breaks(EXEMPT_FILES[0], "#[cfg(test)]\nmod rules;\n"));
    for path in ["a/src/x/tests.rs", "a/src/x/tests/crash.rs", "a/tests/rest_tests.rs"] {
        assert!(!breaks(path, "mod crash;\n"), "{path}");
    }
    for path in ["a/src/x_tests.rs", "a/src/testing.rs"] {
        assert!(breaks(path, ""), "{path}");
    }
}

/// What breaks the rule in a file.
fn broken(source: &Source) -> Vec<String> {
    let Source { path, text } = source;
    let mut broken = Vec::new();
    if path.contains("/src/") && (path.ends_with("_tests.rs") || path.ends_with("/testing.rs")) {
        broken.push(path.clone());
    }
    if EXEMPT_FILES.contains(&path.as_str()) {
        return broken;
    }
    let mut for_tests = false;
    for (number, line) in text.lines().enumerate() {
        let line = code(line).trim();
        let module = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")).map(|(_, name)| name);
        if for_tests && (line.starts_with("#[path") || module.is_some_and(|name| name != "tests")) {
            broken.push(format!("{path}:{}: {line}", number + 1));
        }
        for_tests = line == "#[cfg(test)]" || for_tests && line.starts_with("#[");
    }
    broken
}
