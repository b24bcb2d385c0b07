//! The fenced blocks of a page, and the rule for each language.
//!
//! | language | rule |
//! | --- | --- |
//! | `sh` | the commands run |
//! | `json`, `text` after an `sh` block of the same section | the output of the commands |
//! | `text` elsewhere | nothing runs: a diagram, a formula, an example of a program's output |
//! | `toml` | the program of the page reads it |
//! | `rust` | a crate compiles the page as a part of its documentation |
//! | `python`, `ts` | `tools/clients/check` runs the blocks of docs/clients.md |
//! | `mermaid` | skipped |
//! | `python`, `js` | `tools/browser/webhooks.mjs` runs the blocks of docs/webhooks.md |
//!
//! Any other block is a fault, and so is an indented block, because it has no language.

/// A fenced block of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of its first line.
    pub line: usize,
    /// The word after the fence.
    pub language: String,
    /// The lines between the fences.
    pub text: String,
    /// The number of headings above it.
    section: usize,
}

/// A block of commands.
#[derive(Debug, PartialEq, Eq)]
pub struct Commands {
    /// The number of its first line.
    pub line: usize,
    /// The text for the shell.
    pub text: String,
    /// The output that the page shows.
    pub output: Option<String>,
}

/// A page, divided by what tests it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Examples<'a> {
    /// The blocks that run, in the order of the page.
    pub commands: Vec<Commands>,
    /// The blocks in TOML.
    pub toml: Vec<Block>,
    /// Whether a block is Rust.
    pub has_rust: bool,
    /// Whether a block uses a client of the API.
    pub has_client_code: bool,
    /// A first block without a language. `.ci/run` runs its commands in other forms.
    pub opening: Option<Block>,
    /// The lines outside the blocks, with their numbers.
    pub prose: Vec<(usize, &'a str)>,
}

/// Divides a page by the rules; `may_open` allows a first block without a language.
///
/// # Errors
///
/// The first line that breaks a rule.
pub fn examples(page: &str, may_open: bool) -> Result<Examples<'_>, String> {
    let (blocks, prose) = divide(page)?;
    let mut found = Examples { prose, ..Examples::default() };
    let mut last_section = 0;
    for (number, block) in blocks.into_iter().enumerate() {
        let line = block.line;
        // Commands of this section whose output is not known yet.
        let asked =
            found.commands.last_mut().filter(|last| last_section == block.section && last.output.is_none());
        match (block.language.as_str(), asked) {
            ("", _) if may_open && number == 0 => found.opening = Some(block),
            ("", _) => return Err(format!("line {line}: the block has no language")),
            ("json" | "text", Some(Commands { output, .. })) => *output = Some(block.text),
            ("json", None) => return Err(format!("line {line}: `json` without commands before it")),
            ("text" | "mermaid", _) => {}
            ("rust", _) => found.has_rust = true,
            ("python" | "js" | "ts", _) => found.has_client_code = true,
            ("toml", _) => found.toml.push(block),
            ("sh", _) => {
                last_section = block.section;
                found.commands.push(Commands { line, text: block.text, output: None });
            }
            (other, _) => return Err(format!("line {line}: no rule for blocks of `{other}`")),
        }
    }
    Ok(found)
}

/// A page's blocks and the numbered lines between them.
type Divided<'a> = (Vec<Block>, Vec<(usize, &'a str)>);

fn divide(page: &str) -> Result<Divided<'_>, String> {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let (mut section, mut in_list, mut after_blank) = (0, false, true);
    // The block that is open, and the indentation of its fence.
    let mut open: Option<(Block, usize)> = None;
    for (number, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some((mut block, outer)) = open.take() {
            if content.trim_end() == "```" {
                blocks.push(block);
            } else {
                block.text += &line[outer.min(indent)..];
                block.text.push('\n');
                open = Some((block, outer));
            }
            continue;
        }
        if content.starts_with("~~~") {
            return Err(format!("line {number}: a fence of tildes; use ```"));
        }
        if let Some(language) = content.strip_prefix("```") {
            let block =
                Block { line: number, language: language.trim().into(), text: String::new(), section };
            open = Some((block, indent));
            continue;
        }
        if after_blank && !content.is_empty() {
            in_list = is_list_item(content) || in_list && indent > 0;
        }
        if after_blank && indent >= 4 && !content.is_empty() && !in_list {
            return Err(format!("line {number}: an indented block has no language; use ```"));
        }
        after_blank = content.is_empty();
        section += usize::from(line.starts_with('#'));
        prose.push((number, line));
    }
    match open {
        Some((block, _)) => Err(format!("line {}: the block has no end", block.line)),
        None => Ok((blocks, prose)),
    }
}

/// Whether a line begins an item of a list.
pub fn is_list_item(content: &str) -> bool {
    let after_digits = content.trim_start_matches(|c: char| c.is_ascii_digit());
    let ordered = after_digits.len() < content.len() && after_digits.starts_with(". ");
    ordered || content.starts_with("- ") || content.starts_with("* ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(line: usize, text: &str, output: Option<&str>) -> Commands {
        Commands { line, text: text.into(), output: output.map(str::to_owned) }
    }

    #[test]
    fn each_language_has_its_rule() {
        let page = "\
# A

```
cargo test
```

Text:

```sh
echo a
```

It prints:

```text
a
```

```sh
true
```

## B

```text
a diagram
```

```toml
x = 1
```

- item

  ```rust
  fn f() {
      g();
  }
  ```

      a second paragraph of the item

```mermaid
pie
```

```python
import mailprobe
```
";
        let found = examples(page, true).unwrap();
        assert_eq!(found.commands, [commands(9, "echo a\n", Some("a\n")), commands(19, "true\n", None)]);
        assert_eq!(found.toml.iter().map(|block| block.text.as_str()).collect::<Vec<_>>(), ["x = 1\n"]);
        assert!(found.has_rust);
        assert!(found.has_client_code);
        assert_eq!(found.opening.unwrap().text, "cargo test\n");
        assert_eq!(found.prose.first(), Some(&(1, "# A")));
        assert!(!found.prose.iter().any(|(_, line)| line.contains("echo") || line.contains("f()")));
        let (blocks, _) = divide(page).unwrap();
        assert_eq!(blocks[6].text, "fn f() {\n    g();\n}\n", "the indentation of the fence is removed");
    }

    #[test]
    fn blocks_without_a_rule_are_refused() {
        let rows = [
            ("no language", "a\n\n```\nls\n```\n", "line 3: the block has no language"),
            ("a second one", "```sh\ntrue\n```\n\n```\nls\n```\n", "line 5: the block has no language"),
            ("json alone", "```json\n{}\n```\n", "line 1: `json` without commands before it"),
            (
                "json in another section",
                "```sh\ntrue\n```\n\n## B\n\n```json\n{}\n```\n",
                "line 7: `json` without commands before it",
            ),
            (
                "a second output",
                "```sh\ntrue\n```\n\n```json\n{}\n```\n\n```json\n{}\n```\n",
                "line 9: `json` without commands before it",
            ),
            ("a language without a rule", "```ruby\n1\n```\n", "line 1: no rule for blocks of `ruby`"),
            ("no end", "a\n```sh\nls\n", "line 2: the block has no end"),
            ("tildes", "~~~\nls\n~~~\n", "line 1: a fence of tildes; use ```"),
            ("indented", "Run:\n\n    ls\n", "line 3: an indented block has no language; use ```"),
            (
                "indented after a list",
                "- a\n\nRun:\n\n    ls\n",
                "line 5: an indented block has no language; use ```",
            ),
        ];
        for (name, page, fault) in rows {
            assert_eq!(examples(page, false).err().as_deref(), Some(fault), "{name}");
        }
        let opening = examples("```\nls\n```\n", true).unwrap().opening;
        assert_eq!(opening.map(|block| block.line), Some(1));
    }
}
