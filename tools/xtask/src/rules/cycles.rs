//! Cycles of modules: in no crate do many files import each other.
//!
//! A module is a file. It imports another file if a path leads into that file: one that begins with `crate`, `super` or `self`, or
//! with the name of a module below it. Tests may import any module.
//!
//! The root of a crate counts as importing nothing from its modules: cycles through the root are not seen.

use super::{Source, code, crates, shipped, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Most files of a cycle, and its largest share of the lines of its crate in percent.
const CYCLE_FILES_MAX: usize = 10;
const CYCLE_PERCENT_MAX: usize = 20;
/// A cycle of this number of files is small, whatever its share is: the crates of a few files have such cycles.
const CYCLE_FILES_SMALL: usize = 6;

#[test]
fn cycles_of_modules_are_small() {
    let mut broken = Vec::new();
    for one in crates() {
        let folder = format!("{}/src", one.folder);
        let modules = Modules::read(&folder);
        let all: usize = modules.lines.values().sum();
        for cycle in modules.cycles() {
            let lines: usize = cycle.iter().map(|module| modules.lines[module]).sum();
            let is_large = cycle.len() > CYCLE_FILES_MAX || lines * 100 > all * CYCLE_PERCENT_MAX;
            if cycle.len() > CYCLE_FILES_SMALL && is_large {
                broken.push(format!("{folder}: {} files, {lines} of {all} lines: {cycle:?}", cycle.len()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn cycles_are_found() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let modules = Modules::of(
        "x/src",
        vec![
            source("x/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod e;\npub use crate::c::C;\n"),
            source("x/src/a.rs", "use crate::{b::{B, D,\n}, c::{\nX,\n},\ne,\n};\n"),
            source("x/src/b.rs", "fn f() { super::a::g() } // crate::c\n"),
            source("x/src/b/d.rs", "use super::super::c::C;\n"),
            source("x/src/e.rs", "mod f;\nuse f::F;\nfn g() { f::g(e::x, other::f::y) }\n"),
            source("x/src/e/f.rs", "use super::g;\n"),
            source("x/src/c.rs", "\"crate\"; self::c();\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
        ],
    );
    let cycle = |files: [&str; 2]| BTreeSet::from(files.map(str::to_owned));
    assert_eq!(modules.cycles(), [cycle(["a", "b"]), cycle(["e", "e/f"])]);
    assert_eq!(modules.imports["b/d"], BTreeSet::from(["c".to_owned()]));
    assert_eq!(modules.imports["a"], BTreeSet::from(["b", "c", "e"].map(str::to_owned)));
    assert!(modules.imports["c"].is_empty());
}

/// The modules of a crate by their paths below `src`; the root has the name `lib` or `main`.
struct Modules {
    lines: BTreeMap<String, usize>,
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Modules {
    fn read(folder: &str) -> Modules {
        Modules::of(folder, sources(folder))
    }

    fn of(folder: &str, sources: Vec<Source>) -> Modules {
        let name = |path: &str| {
            let path = path[folder.len() + 1..].trim_end_matches(".rs");
            path.strip_suffix("/mod").unwrap_or(path).to_owned()
        };
        let lines: BTreeMap<_, _> =
            sources.iter().map(|source| (name(&source.path), source.text.lines().count())).collect();
        let mut imports = BTreeMap::new();
        for source in shipped(sources) {
            let module = name(&source.path);
            let text: String = source.text.lines().map(code).flat_map(|line| [line, "\n"]).collect();
            let targets = paths(&text).into_iter().map(|path| target(&lines, &module, &path));
            let below = modules_below(&lines, &module, &text);
            imports.insert(module.clone(), targets.chain(below).filter(|other| *other != module).collect());
        }
        Modules { lines, imports }
    }

    /// Sets of at least two modules that import each other, directly or not.
    fn cycles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&String, BTreeSet<&String>> =
            self.lines.keys().map(|module| (module, self.reach(module))).collect();
        let mut cycles = Vec::new();
        for (module, reached) in &reach {
            let cycle: BTreeSet<String> = reached
                .iter()
                .filter(|other| reach[**other].contains(*module))
                .map(|other| (*other).clone())
                .collect();
            if cycle.len() > 1 && !cycles.contains(&cycle) {
                cycles.push(cycle);
            }
        }
        cycles
    }

    fn reach(&self, from: &String) -> BTreeSet<&String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = self.imports.get(from).into_iter().flatten().collect();
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(self.imports.get(module).into_iter().flatten());
            }
        }
        reached
    }
}

fn is_root(module: &str) -> bool {
    matches!(module, "lib" | "main")
}

/// The files of modules directly below `module` that a path begins with.
fn modules_below(modules: &BTreeMap<String, usize>, module: &str, text: &str) -> Vec<String> {
    if is_root(module) {
        // See the comment of this module.
        return Vec::new();
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let begins = |name: &str| {
        text.match_indices(&format!("{name}::"))
            .any(|(at, _)| !text[..at].ends_with(|c: char| is_name(c) || c == ':'))
    };
    let below = modules.keys().filter(|other| {
        let name = other.strip_prefix(module).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| !name.contains('/') && begins(name))
    });
    below.cloned().collect()
}

/// The file that a path leads into, from the position of a module.
fn target(modules: &BTreeMap<String, usize>, from: &str, path: &[String]) -> String {
    let mut at: Vec<&str> = if is_root(from) { Vec::new() } else { from.split('/').collect() };
    for part in path {
        match part.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            name => at.push(name),
        }
    }
    (1..=at.len())
        .rev()
        .map(|length| at[..length].join("/"))
        .find(|name| modules.contains_key(name))
        .unwrap_or_else(|| if modules.contains_key("lib") { "lib" } else { "main" }.to_owned())
}

/// Every path that begins with `crate`, `super` or `self`; the groups of a `use` are expanded.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((start, word)) = ["crate::", "super::", "self::"]
        .iter()
        .filter_map(|word| rest.find(word).map(|at| (at, *word)))
        .min_by_key(|(at, _)| *at)
    {
        let inside = rest[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let after = &rest[start..];
        if inside {
            rest = &after[word.len()..];
            continue;
        }
        let mut characters = after.chars();
        expand(&mut characters, &mut Vec::new(), &mut found);
        // The rest of a path that was read is not read again.
        let read = after.len() - characters.as_str().len();
        rest = &after[read.max(word.len())..];
    }
    found
}

/// Reads one path or group after `prefix`.
fn expand(text: &mut std::str::Chars<'_>, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let depth = prefix.len();
    loop {
        let trimmed = text.as_str().trim_start();
        *text = trimmed.chars();
        let name: String =
            trimmed.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '*')).collect();
        if name.is_empty() {
            break;
        }
        prefix.push(name.clone());
        let behind = &trimmed[name.len()..];
        *text = behind.chars();
        let Some(behind) = behind.strip_prefix("::") else { break };
        *text = behind.chars();
        if let Some(group) = behind.strip_prefix('{') {
            *text = group.chars();
            loop {
                expand(text, prefix, found);
                // Skips to the next entry, over `as name`.
                let next = text.as_str().find([',', '}']).unwrap_or(text.as_str().len());
                let ended = !text.as_str()[next..].starts_with(',');
                *text = text.as_str().get(next + 1..).unwrap_or_default().chars();
                // A group may end with a comma. Its brace is read here, or the group around it would take it for its own.
                if !ended && let Some(rest) = text.as_str().trim_start().strip_prefix('}') {
                    *text = rest.chars();
                    break;
                }
                if ended {
                    break;
                }
            }
            prefix.truncate(depth);
            return;
        }
    }
    if prefix.len() > depth {
        found.push(prefix.clone());
    }
    prefix.truncate(depth);
}
