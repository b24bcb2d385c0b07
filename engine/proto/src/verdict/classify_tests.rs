//! The rows of testdata/replies.txt, as they stand and mutated.

use super::*;

const ROWS: &str = include_str!("../../testdata/replies.txt");

struct Row {
    class: &'static str,
    scope: &'static str,
    stage: Stage,
    mx: &'static str,
    reply: Reply,
    line: usize,
}

impl Row {
    fn view<'a>(&'a self, reply: &'a Reply) -> ReplyView<'a> {
        ReplyView { stage: self.stage, mx: self.mx, reply }
    }
}

fn stage(name: &str) -> Stage {
    match name {
        "banner" => Stage::Banner,
        "ehlo" => Stage::Ehlo,
        "mail" => Stage::Mail,
        "rcpt" => Stage::Rcpt,
        other => panic!("no stage {other}"),
    }
}

/// The reply of a row: a line may leave out the code that the first one carries.
fn reply(text: &str) -> Reply {
    let code = text[..3].parse().expect("a reply code");
    let lines: Vec<&str> = text
        .split("\\n")
        .map(|line| line.strip_prefix(&text[..3]).map_or(line, |rest| rest.get(1..).unwrap_or("")))
        .collect();
    Reply::new(code, &lines.join("\n"))
}

fn rows() -> Vec<Row> {
    let lines = ROWS.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let (head, text) = line.split_once(" | ").expect(line);
            let mut head = head.split(' ');
            let mut next = || head.next().expect(line);
            let (class, scope, stage, mx) = (next(), next(), stage(next()), next());
            Row { class, scope, stage, mx, reply: reply(text), line: number + 1 }
        })
        .collect()
}

#[test]
fn every_row_means_what_it_says() {
    let mut wrong = Vec::new();
    for row in rows() {
        let found = classify(&row.view(&row.reply));
        if (found.class.as_str(), found.scope.as_str()) != (row.class, row.scope) {
            let (line, class, scope, code, text) =
                (row.line, row.class, row.scope, row.reply.code(), row.reply.text());
            wrong.push(format!("{line}: not {class} {scope} but {found:?}: {code} {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
