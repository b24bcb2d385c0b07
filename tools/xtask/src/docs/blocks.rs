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

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

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
pub struct Examples {
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
    /// The code spans outside the blocks, each with the number of the line on which it begins.
    pub spans: Vec<(usize, String)>,
}

/// Divides a page by the rules; `may_open` allows a first block without a language.
///
/// # Errors
///
/// The first line that breaks a rule.
pub fn examples(page: &str, may_open: bool) -> Result<Examples, String> {
    let (blocks, spans) = divide(page)?;
    let mut found = Examples { spans, ..Examples::default() };
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

/// The blocks of a page, and its code spans with their lines.
type Divided = (Vec<Block>, Vec<(usize, String)>);

fn divide(page: &str) -> Result<Divided, String> {
    let line_ends: Vec<usize> = page.match_indices('\n').map(|(at, _)| at).collect();
    let (mut blocks, mut spans, mut section) = (Vec::new(), Vec::new(), 0);
    let mut open: Option<Block> = None;
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        let line = line_ends.partition_point(|end| *end < range.start) + 1;
        match event {
            Event::Start(Tag::Heading { .. }) => section += 1,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                return Err(format!("line {line}: an indented block has no language; use ```"));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                let source = page[range].trim_end();
                if source.starts_with("~~~") {
                    return Err(format!("line {line}: a fence of tildes; use ```"));
                }
                if source.lines().skip(1).last().is_none_or(|end| end.trim() != "```") {
                    return Err(format!("line {line}: the block has no end"));
                }
                let language = language.trim().to_owned();
                open = Some(Block { line, language, text: String::new(), section });
            }
            Event::Text(text) => open.iter_mut().for_each(|block| block.text += &text),
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            Event::Code(code) => {
                spans.push((line, code.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
            _ => {}
        }
    }
    Ok((blocks, spans))
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

  a second paragraph of the item with a `span`

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
        assert_eq!(found.spans, [(41, "span".to_owned())]);
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
    #[test]
    fn spans_are_between_backticks() {
        let rows: [(&str, &[(usize, &str)]); 7] = [
            ("a `b` c `d e`", &[(1, "b"), (1, "d e")]),
            ("a `b\n  c` d\n`e`", &[(1, "b c"), (3, "e")]),
            ("a ``b ` c`` `d`", &[(1, "b ` c"), (1, "d")]),
            ("a ` b\n\n`c`", &[(3, "c")]),
            ("- a ` b\n- `c`\n1. ` `d` e", &[(2, "c"), (3, "")]),
            ("| a | b |\n| --- | --- |\n| ` | `b \\| c` |\n| ` | `d` |", &[(3, "b | c"), (4, "d")]),
            ("a `b\n\n```sh\n`x`\n```\n\nc` d", &[]),
        ];
        for (text, expected) in rows {
            let expected: Vec<(usize, String)> =
                expected.iter().map(|(line, span)| (*line, (*span).to_owned())).collect();
            assert_eq!(divide(text).unwrap().1, expected, "{text:?}");
        }
    }
}
