//! Names of types: within one crate, a name of a type has one meaning.
//!
//! Tests may use a name again.

use super::{Source, code, crates, shipped, sources};
use std::collections::BTreeMap;

#[test]
fn type_names_have_one_meaning_per_crate() {
    let mut broken = Vec::new();
    for one in crates() {
        for (name, places) in repeated(&shipped(sources(&format!("{}/src", one.folder)))) {
            broken.push(format!("{name}: {places:?}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn repeated_type_names_are_found() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let sources = [
        source("a.rs", "pub struct Row;\nimpl X for Row {\n    type Output = u8;\n}\nstruct Rows(u8);\n"),
        source("b.rs", "// struct Rows\nmod c {\n    pub(super) enum Row<T> {}\n}\ntype Output = u8;\n"),
        source("c.rs", "fn f() {\n    struct Own;\n}\nfn g() {\n    struct Own;\n}\n"),
        source("d.rs", "impl A for B {\n    type Output = u8;\n}\ntrait Own {}\n"),
    ];
    let expected = BTreeMap::from([("Own", vec!["c.rs", "c.rs", "d.rs"]), ("Row", vec!["a.rs", "b.rs"])]);
    assert_eq!(repeated(&sources), expected);
}

/// The names of types with more than one definition, with the file of each.
fn repeated(sources: &[Source]) -> BTreeMap<&str, Vec<&str>> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for name in source.text.lines().filter_map(|line| defined(code(line))) {
            places.entry(name).or_default().push(&source.path);
        }
    }
    places.retain(|_, files| files.len() > 1);
    places
}

/// The name of the type that a line of code defines. An indented `type` is a part of a trait or of its implementation.
fn defined(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item = match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => item,
    };
    let (keyword, rest) = item.split_once(' ')?;
    let defines = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (defines && end > 0).then(|| &rest[..end])
}
