//! Documentation of public items: each has a sentence that says more than its name.
//!
//! The scanner reads lines, as `rustfmt` lays them out: an item starts a line with `pub`, and the items of a public trait are
//! one level deeper than the trait. It leaves out tests, modules, re-exports, fields and variants. The text of a raw string is
//! not code.

use super::{Source, shipped, sources};

/// A shorter comment does not say what the item is.
const WORDS_MIN: usize = 4;
const ARTICLES: &[&str] = &["a", "an", "the"];
const QUALIFIERS: &[&str] = &["async", "const", "extern", "\"C\"", "unsafe"];
const KINDS: &[&str] = &["struct", "enum", "union", "trait", "fn", "type", "const", "static"];

#[test]
fn public_items_are_documented() {
    let broken: Vec<String> = shipped(sources("")).iter().flat_map(faults).collect();
    assert!(broken.is_empty(), "{} public items: {broken:#?}", broken.len());
}

#[test]
fn poor_documentation_is_found() {
    let text = r###"
pub struct Bare;
/// Two words.
#[derive(Debug)]
pub enum Short {}
/// A comment that does not end
pub(crate) const fn private() {}
/// A comment that does not end
pub const unsafe fn open_ended() {}
/// The limit of idle connections.
#[expect(
    unused,
    reason = "x"
)]
pub const IDLE_CONNECTIONS_LIMIT_OF: u32 = 1;
/// Connections that may be idle at once.
pub static IDLE_CONNECTIONS_MAX: u32 = 1;
// A plain comment of five words.
pub type Plain = u8;
/// Reads lines from a file.
pub trait Lines {
    fn next(&mut self) -> Option<String> {
        fn inner() {}
    }
    /// The lines that are left; none at the end.
    fn left(&self) -> usize;
}
fn outside() {
    pub_fn();
    let text = r##"
pub fn text() {}
"#
pub fn text() {}
"##;
}
pub use other::Name;
    pub async fn nested() {}
"###;
    let source = Source { path: "x".into(), text: text.into() };
    assert_eq!(
        faults(&source),
        [
            "x:2: Bare: has no documentation",
            "x:5: Short: has fewer than 4 words",
            "x:9: open_ended: does not end with a full stop",
            "x:15: IDLE_CONNECTIONS_LIMIT_OF: repeats its name",
            "x:19: Plain: has no documentation",
            "x:22: next: has no documentation",
            "x:37: nested: has no documentation",
        ]
    );
}

/// Each public item of a file whose documentation says too little.
fn faults(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    // The indentation of the public trait that the line is in.
    let mut inside_trait = None;
    let mut raw_string_end: Option<String> = None;
    for (at, line) in lines.iter().enumerate() {
        if let Some(end) = &raw_string_end {
            if line.contains(end.as_str()) {
                raw_string_end = None;
            }
            continue;
        }
        raw_string_end = open_raw_string(line);
        let indent = line.len() - line.trim_start().len();
        if inside_trait == Some(indent) && line.trim_start().starts_with('}') {
            inside_trait = None;
        }
        let in_trait = inside_trait.is_some_and(|outer| indent == outer + 4);
        let Some((kind, name)) = item(line.trim_start(), in_trait) else { continue };
        if kind == "trait" && !line.ends_with('}') {
            inside_trait = Some(indent);
        }
        if let Some(fault) = fault(&documentation(&lines[..at]), &name) {
            found.push(format!("{}:{}: {name}: {fault}", source.path, at + 1));
        }
    }
    found
}

/// The delimiter that ends the raw string that a line opens and does not close.
fn open_raw_string(line: &str) -> Option<String> {
    if line.trim_start().starts_with("//") {
        return None;
    }
    let (_, opened) = line.rsplit_once("r#")?;
    let hashes = opened.len() - opened.trim_start_matches('#').len() + 1;
    let text = opened.trim_start_matches('#').strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    (!text.contains(&end)).then_some(end)
}

/// Kind and name of the public item that a line starts.
fn item(line: &str, in_trait: bool) -> Option<(String, String)> {
    let declared = match line.strip_prefix("pub ") {
        Some(declared) => declared,
        None if in_trait => line,
        None => return None,
    };
    let words: Vec<&str> = declared.split_whitespace().collect();
    // `const` is a kind of item, and can precede `fn`.
    let kind = words.iter().position(|word| *word == "fn");
    let kind = kind.or_else(|| words.iter().position(|word| KINDS.contains(word)))?;
    if !words[..kind].iter().all(|word| QUALIFIERS.contains(word)) {
        return None;
    }
    let name: String =
        words.get(kind + 1)?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    // A macro's `$name` has its documentation in an attribute.
    (!name.is_empty()).then(|| (words[kind].to_owned(), name))
}

/// The text of the documentation comment above an item; attributes may be between.
fn documentation(above: &[&str]) -> String {
    let mut text = Vec::new();
    let mut inside_attribute = false;
    for line in above.iter().rev().map(|line| line.trim()) {
        if let Some(comment) = line.strip_prefix("///") {
            text.push(comment.trim());
        } else if line.starts_with("#[") {
            inside_attribute = false;
        } else if line.ends_with(")]") {
            inside_attribute = true;
        } else if !inside_attribute && !line.starts_with("//") {
            break;
        }
    }
    text.reverse();
    text.join("\n").trim().to_owned()
}

fn fault(documentation: &str, name: &str) -> Option<&'static str> {
    let words: Vec<String> = words(documentation);
    if words.is_empty() {
        Some("has no documentation")
    } else if words.len() < WORDS_MIN {
        Some("has fewer than 4 words")
    } else if !documentation.ends_with(['.', '|']) && !documentation.ends_with("```") {
        Some("does not end with a full stop")
    } else if repeats(&words, name) {
        Some("repeats its name")
    } else {
        None
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| c.is_whitespace() || c == '-')
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Whether every word is an article or a word of the name. A plural or a verb's `s` makes no difference.
fn repeats(words: &[String], name: &str) -> bool {
    let mut parts = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            parts.push(' ');
        }
        parts.extend(c.to_lowercase());
    }
    // A constant's capital letters are one word.
    let spaced = if name.chars().any(char::is_lowercase) { parts } else { name.to_lowercase() };
    let own: Vec<String> = spaced.split([' ', '_']).map(stem).collect();
    words.iter().all(|word| ARTICLES.contains(&word.as_str()) || own.contains(&stem(word)))
}

fn stem(word: &str) -> String {
    word.trim_end_matches('s').to_owned()
}
