//! Cycles of modules: a crate of the frontend has no large cycle.
//!
//! A module is a file. It imports another file if a path that begins with `crate`, `super` or `self` leads into that
//! file. Tests may import any module.

use super::{Source, code, folders_of_frontend, shipped, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The largest cycle of modules, in percent of the lines of its crate.
const CYCLE_PERCENT_MAX: usize = 25;

#[test]
fn cycles_of_modules_are_small() {
    let mut broken = Vec::new();
    for folder in folders_of_frontend() {
        let modules = Modules::read(&folder);
        let all: usize = modules.lines.values().sum();
        for cycle in modules.cycles() {
            let lines: usize = cycle.iter().map(|module| modules.lines[module]).sum();
            if lines * 100 > all * CYCLE_PERCENT_MAX {
                broken.push(format!("{folder}: {lines} of {all} lines import each other: {cycle:?}"));
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
            source("x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::C;\n"),
            source("x/src/a.rs", "use crate::{b::{B, D}, c};\n"),
            source("x/src/b.rs", "fn f() { super::a::g() } // crate::c\n"),
            source("x/src/b/d.rs", "use super::super::c::C;\n"),
            source("x/src/c.rs", "\"crate\"; self::c();\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
        ],
    );
    assert_eq!(modules.cycles(), [BTreeSet::from(["a".to_owned(), "b".to_owned()])]);
    assert_eq!(modules.imports["b/d"], BTreeSet::from(["c".to_owned()]));
    assert!(modules.imports["c"].is_empty());
}

/// The modules of a crate by their paths below `src`; the root has the name `lib`.
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
            imports.insert(module.clone(), targets.filter(|other| *other != module).collect());
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

/// The file that a path leads into, from the position of a module.
fn target(modules: &BTreeMap<String, usize>, from: &str, path: &[String]) -> String {
    let mut at: Vec<&str> = if from == "lib" { Vec::new() } else { from.split('/').collect() };
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
        .unwrap_or_else(|| "lib".to_owned())
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
                if ended || text.as_str().trim_start().starts_with('}') {
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
