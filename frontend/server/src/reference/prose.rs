//! The part of Markdown that the description uses: paragraphs, inline code, lists, tables.

use super::table;
use maud::{Markup, html};

/// Markup for a text with several paragraphs, lists and tables.
pub fn prose(text: &str) -> Markup {
    let blocks = text.split("\n\n").map(str::trim).filter(|block| !block.is_empty());
    html! {
        @for block in blocks {
            @if block.starts_with('|') { (rows(block)) }
            @else if let Some(items) = block.strip_prefix("- ") { (list(items)) }
            @else { p { (inline(block)) } }
        }
    }
}

/// Markup for a text in one line, with code between backticks.
pub fn inline(text: &str) -> Markup {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Markup for a list without the hyphen of its first item.
fn list(items: &str) -> Markup {
    html! { ul { @for item in items.split("\n- ") { li { (inline(item)) } } } }
}

fn rows(block: &str) -> Markup {
    let mut lines = block.lines().map(cells);
    let head = lines.next().unwrap_or_default();
    let label = head.join(", ");
    let is_rule = |row: &Vec<&str>| row.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')));
    let body: Vec<Vec<&str>> = lines.filter(|row| !is_rule(row)).collect();
    let rows = html! {
        thead { tr { @for cell in &head { th scope="col" { (inline(cell)) } } } }
        tbody {
            @for row in &body {
                tr {
                    @for (number, cell) in row.iter().enumerate() {
                        @if number == 0 { th scope="row" { (inline(cell)) } } @else { td { (inline(cell)) } }
                    }
                }
            }
        }
    };
    table(&label, rows)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_code_lists_and_tables() {
        let check = |text: &str, expected: &str| assert_eq!(prose(text).into_string(), expected);
        check("", "");
        check("One `a` and\ntwo.\n\nNext.", "<p>One <code>a</code> and\ntwo.</p><p>Next.</p>");
        check("- One `a`\n- two - 2;", "<ul><li>One <code>a</code></li><li>two - 2;</li></ul>");
        check(
            "| a | b |\n| --- | --- |\n| `1` | 2 & 3 |",
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"a, b\"><table><thead><tr>\
             <th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead><tbody><tr>\
             <th scope=\"row\"><code>1</code></th><td>2 &amp; 3</td></tr></tbody></table></div>",
        );
    }
}
