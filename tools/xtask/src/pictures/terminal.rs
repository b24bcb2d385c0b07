//! The page of a terminal: the output of a command, with the codes of its colours (ECMA-48), as HTML.

/// The page that shows a prompt with `command`, and the output below it.
pub fn page(command: &str, output: &str) -> String {
    let command = escaped(command);
    format!(
        "<!doctype html><meta charset=utf-8><title>Terminal</title><style>{STYLE}</style>\
         <main><header><i></i><i></i><i></i></header>\
         <pre><b class=prompt>$</b> <b>{command}</b>\n{}</pre></main>",
        coloured(output)
    )
}

const STYLE: &str = "
body { margin: 0; background: transparent; }
main { display: inline-block; background: #16181d; color: #d7dae0; border-radius: 10px; overflow: hidden; }
header { display: flex; gap: 7px; padding: 11px 14px 3px; }
i { width: 11px; height: 11px; border-radius: 50%; background: #3d424d; }
pre { margin: 0; padding: 8px 22px 16px 16px; font: 14px/1.42 'DejaVu Sans Mono', monospace; tab-size: 8; }
b { color: #fff; }
.prompt { color: #6cb6ff; }
.c31 { color: #ff7b72; } .c32 { color: #4ade80; font-weight: bold; } .c33 { color: #f0c869; }
";

/// The output as HTML. Each code of a colour begins a span, and the next code ends it. Other codes have no effect.
fn coloured(output: &str) -> String {
    let mut html = String::new();
    let mut open = false;
    let mut parts = output.split("\u{1b}[");
    html += &escaped(parts.next().unwrap_or_default());
    for part in parts {
        let (code, text) = part.split_once('m').unwrap_or(("", part));
        if open {
            html += "</span>";
        }
        open = matches!(code, "31" | "32" | "33");
        if open {
            html += &format!("<span class=c{code}>");
        }
        html += &escaped(text);
    }
    if open {
        html += "</span>";
    }
    html
}

/// The text for HTML, with the line ends of a file: a terminal has CR LF.
fn escaped(text: &str) -> String {
    text.replace('\r', "").replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_spans() {
        let rows = [
            ("plain\r\n", "plain\n"),
            ("a\t\u{1b}[32myes\u{1b}[0m\tb", "a\t<span class=c32>yes</span>\tb"),
            ("\u{1b}[31mno\u{1b}[33mperhaps", "<span class=c31>no</span><span class=c33>perhaps</span>"),
            ("\u{1b}[1mbold\u{1b}[0m", "bold"),
            ("<a@b.example> & c", "&lt;a@b.example> &amp; c"),
        ];
        for (output, html) in rows {
            assert_eq!(coloured(output), html, "{output:?}");
        }
    }

    #[test]
    fn the_page_has_the_command_and_its_output() {
        let page = page("mailprobe check <", "\u{1b}[32mok\u{1b}[0m");
        assert!(page.contains("<b>mailprobe check &lt;</b>\n<span class=c32>ok</span></pre>"), "{page}");
    }
}
