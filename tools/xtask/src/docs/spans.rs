//! The code spans of a page: the text between backticks, outside the fenced blocks.

use super::blocks::is_list_item;

/// The spans of numbered lines, each with the number of the line on which it begins. A span can continue on the next line of
/// its paragraph.
pub fn spans(prose: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut paragraph: Vec<(usize, &str)> = Vec::new();
    for (number, line) in prose {
        let content = line.trim_start();
        let is_new = content.is_empty() || content.starts_with(['|', '#', '>']) || is_list_item(content);
        if is_new || paragraph.last().is_some_and(|(last, _)| last + 1 != *number) {
            found.append(&mut spans_of(&paragraph));
            paragraph.clear();
        }
        paragraph.push((*number, line));
    }
    found.append(&mut spans_of(&paragraph));
    found
}

fn spans_of(paragraph: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let Some((first, start)) = paragraph.first() else { return found };
    let text = paragraph.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
    let mut at = 0;
    while let Some(open) = text[at..].find('`').map(|offset| at + offset) {
        let ticks = text[open..].len() - text[open..].trim_start_matches('`').len();
        let inside = open + ticks;
        let Some(length) = closing(&text[inside..], ticks) else {
            at = inside;
            continue;
        };
        let line = first + text[..open].matches('\n').count();
        let mut span = text[inside..inside + length].split_whitespace().collect::<Vec<_>>().join(" ");
        if start.trim_start().starts_with('|') {
            span = span.replace("\\|", "|");
        }
        found.push((line, span));
        at = inside + length + ticks;
    }
    found
}

/// Where the run of exactly this number of backticks begins that closes a span.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(run) = text[at..].find('`').map(|offset| at + offset) {
        let length = text[run..].len() - text[run..].trim_start_matches('`').len();
        if length == ticks {
            return Some(run);
        }
        at = run + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_between_backticks() {
        let rows: [(&str, &[(usize, &str)]); 7] = [
            ("a `b` c `d e`", &[(1, "b"), (1, "d e")]),
            ("a `b\n  c` d\n`e`", &[(1, "b c"), (3, "e")]),
            ("a ``b ` c`` `d`", &[(1, "b ` c"), (1, "d")]),
            ("a ` b\n\n`c`", &[(3, "c")]),
            ("- a ` b\n- `c`\n1. ` `d` e", &[(2, "c"), (3, "")]),
            ("| a | `b \\| c` |\n| ` | `d` |", &[(1, "b | c"), (2, "|")]),
            ("", &[]),
        ];
        for (text, expected) in rows {
            let prose: Vec<(usize, &str)> =
                text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
            let expected: Vec<(usize, String)> =
                expected.iter().map(|(line, span)| (*line, (*span).to_owned())).collect();
            assert_eq!(spans(&prose), expected, "{text:?}");
        }
        let apart = [(1, "a `b"), (9, "c` d")];
        assert_eq!(spans(&apart), [], "a block is between the lines");
    }
}
