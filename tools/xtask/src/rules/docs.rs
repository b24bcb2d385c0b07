//! The rules of the documentation: its links lead to files and headings, and it avoids words that make sentences hard to read.

use super::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Relative pronouns of persons: a sentence with one is two sentences.
const WORDS: [&str; 2] = ["who", "whose"];

#[test]
fn links_lead_to_files_and_headings() {
    let broken: Vec<String> = pages()
        .iter()
        .flat_map(|page| {
            let text = read(page);
            let links: Vec<String> = links(&text).map(str::to_owned).collect();
            links
                .into_iter()
                .filter(|link| !leads_somewhere(page, link))
                .map(|link| name(page, &link))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn no_relative_pronouns_of_persons() {
    let is_bad = |word: &str| WORDS.contains(&word.to_ascii_lowercase().as_str());
    let mut found = Vec::new();
    for page in pages() {
        for (number, line) in read(&page).lines().enumerate() {
            if line.split(|c: char| !c.is_alphanumeric()).any(is_bad) {
                found.push(name(&page, &format!("{}: {line}", number + 1)));
            }
        }
    }
    assert!(found.is_empty(), "lines with one of {WORDS:?}:\n{}", found.join("\n"));
}

#[test]
fn alerts_and_dashboard_name_metrics_of_the_server() {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let named = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("mailprobe_"));
        let family = |word: &str| {
            let suffixes = ["_bucket", "_sum", "_count"];
            suffixes.iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word).to_owned()
        };
        words.map(family).collect()
    };
    let folder = root().join("frontend/server/src/metrics");
    let sources = ["render.rs", "text.rs", "process.rs"].map(|name| read(&folder.join(name))).concat();
    let known = named(&sources);
    for name in ["alerts.yml", "grafana.json"] {
        let used = named(&read(&root().join("tools/packaging/monitoring").join(name)));
        let unknown: Vec<&String> = used.difference(&known).collect();
        assert!(used.len() > 5 && unknown.is_empty(), "{name}: {unknown:?}");
    }
}

#[test]
fn the_rules_see_links_and_headings() {
    let text = "[a](b.md), [c](../d.md#the-end) and [e](https://x.example/)\n## The *end*, at `last`\n";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "../d.md#the-end", "https://x.example/"]);
    assert!(has_heading(text, "the-end-at-last") && !has_heading(text, "the-end"));
}

/// All pages of the documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root().join(page)).into();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).unwrap()
}

fn name(page: &Path, rest: &str) -> String {
    format!("{}: {rest}", page.strip_prefix(root()).unwrap().display())
}

/// The targets of the links of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

fn leads_somewhere(page: &Path, link: &str) -> bool {
    if link.starts_with("https://") {
        return true;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    target.exists() && (heading.is_empty() || has_heading(&read(&target), heading))
}

/// Whether a page has a heading with this anchor, as GitHub makes anchors.
fn has_heading(text: &str, anchor: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).eq(anchor.chars())
    })
}
