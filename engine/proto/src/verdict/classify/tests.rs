//! The rows of testdata/replies.txt and testdata/wordings.txt, unchanged and mutated.

use super::*;

const ROWS: &str = include_str!("../../../testdata/replies.txt");
const WORDINGS: &str = include_str!("../../../testdata/wordings.txt");

struct Row {
    class: &'static str,
    /// Empty where the class alone is stated.
    scope: &'static str,
    stage: Stage,
    mx: &'static str,
    reply: Reply,
    line: usize,
}

impl Row {
    fn view<'a>(&'a self, reply: &'a Reply) -> ReplyView<'a> {
        ReplyView { stage: self.stage, mx: self.mx, reply, recipient: None, us: Us::default() }
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
    let lines = |text: &'static str| {
        let numbered = text.lines().zip(1..);
        numbered.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
    };
    let mut rows = Vec::new();
    for (text, line) in lines(ROWS) {
        let (head, text) = text.split_once(" | ").expect(text);
        let mut head = head.split(' ');
        let mut next = || head.next().expect(text);
        let (class, scope, stage, mx) = (next(), next(), stage(next()), next());
        rows.push(Row { class, scope, stage, mx, reply: reply(text), line });
    }
    for (text, line) in lines(WORDINGS) {
        let (class, text) = text.split_once(' ').expect(text);
        rows.push(Row {
            class,
            scope: "",
            stage: Stage::Rcpt,
            mx: "mx.example.org",
            reply: reply(text),
            line,
        });
    }
    rows
}

const PARTIES: &str = include_str!("../../../testdata/parties.txt");

/// Who asks about whom in the rows of parties.txt.
const ASKED: &str = "bob@example.com";
const US: Us<'_> = Us {
    reverse_path: "postmaster@probe.example",
    ehlo: "mail.probe.example",
    source: Some(IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 5))),
};

#[test]
fn rows_whose_parties_are_known_mean_what_they_say() {
    let mut wrong = Vec::new();
    for (line, number) in
        PARTIES.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
    {
        let (class, text) = line.split_once(' ').expect(line);
        let reply = reply(text);
        let view = ReplyView {
            stage: Stage::Rcpt,
            mx: "mx.example.com",
            reply: &reply,
            recipient: Some(ASKED),
            us: US,
        };
        let found = classify(&view);
        if found.class.as_str() != class {
            wrong.push(format!(
                "{number}: not {class} but {} by {}: {text}",
                found.class.as_str(),
                found.rule
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_means_what_it_says() {
    let mut wrong = Vec::new();
    for row in rows() {
        let found = classify(&row.view(&row.reply));
        let scope = if row.scope.is_empty() { "" } else { found.scope.as_str() };
        if (found.class.as_str(), scope) != (row.class, row.scope) {
            let (line, class, scope, code, text) =
                (row.line, row.class, row.scope, row.reply.code(), row.reply.text());
            wrong.push(format!("{line}: not {class} {scope} but {found:?}: {code} {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The text with its enhanced code at the head of each line, or without any.
fn without_code(text: &str, code: u16) -> String {
    match EnhancedCode::find_in(text, code) {
        Some(found) => text.replace(&found.to_string(), ""),
        None => text.to_owned(),
    }
}

/// Texts that say the same in another shape.
fn reshaped(text: &str) -> Vec<String> {
    let nested =
        ["<sales@no-such-user.example>: ", "quota.full@user-unknown.com ", "[disabled@greylist.fr]: "];
    let mut texts = vec![
        text.to_uppercase(),
        text.to_lowercase(),
        text.replace(' ', "  "),
        text.replace(' ', "\t"),
        text.replace('\'', "\u{2019}"),
        text.replace('\'', "\u{fffd}"),
        format!("{text} (host mx.user-unknown.net[192.0.2.9], in reply to RCPT TO)"),
        format!("{text} \"blocked\""),
    ];
    for every in 1..6 {
        let words: Vec<&str> = text.split(' ').collect();
        let lines: Vec<String> = words.chunks(every).map(|line| line.join(" ")).collect();
        texts.push(lines.join("\n"));
    }
    for echo in nested {
        // An echo follows the enhanced code, if there is one.
        texts.push(match text.split_once(' ') {
            Some((code, rest)) if code.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("{code} {echo}{rest}")
            }
            _ => format!("{echo}{text}"),
        });
    }
    texts
}

#[test]
fn the_shape_of_a_text_changes_nothing() {
    for row in rows() {
        let meant = classify(&row.view(&row.reply));
        for text in reshaped(row.reply.text()) {
            let found = classify(&row.view(&Reply::new(row.reply.code(), &text)));
            assert_eq!(
                (found.class, found.scope),
                (meant.class, meant.scope),
                "line {}: {found:?} {text:?}",
                row.line
            );
        }
    }
}

#[test]
fn a_code_on_every_line_changes_nothing() {
    for row in rows() {
        let meant = classify(&row.view(&row.reply));
        let text = row.reply.text();
        let Some(code) = EnhancedCode::find(&row.reply) else { continue };
        if !text.starts_with(&code.to_string()) {
            continue;
        }
        let text = without_code(text, row.reply.code()).replace(' ', &format!("\n{code} "));
        let found = classify(&row.view(&Reply::new(row.reply.code(), &format!("{code} {text}"))));
        assert_eq!((found.class, found.scope), (meant.class, meant.scope), "line {}: {found:?}", row.line);
    }
}

#[test]
fn a_missing_code_makes_no_statement_about_a_mailbox() {
    // RFC 7504 gives these reply codes a meaning of their own, which an enhanced code can only temper.
    for row in rows().into_iter().filter(|row| ![521, 556].contains(&row.reply.code())) {
        let meant = reason_at_rcpt(&classify(&row.view(&row.reply)));
        let stripped = without_code(row.reply.text(), row.reply.code());
        for text in std::iter::once(stripped.clone()).chain(reshaped(&stripped)) {
            let found = classify(&row.view(&Reply::new(row.reply.code(), &text)));
            let reason = reason_at_rcpt(&found);
            assert!(
                reason == meant || reason == Reason::Unverifiable,
                "line {}: {found:?} {text:?}",
                row.line
            );
        }
    }
}

#[test]
fn no_code_turns_a_block_of_us_into_a_missing_mailbox() {
    let codes = ["5.1.1", "5.1.0", "5.1.10", "5.2.1", "5.2.2", "5.4.1", "5.7.1", "5.0.0"];
    for row in rows().iter().filter(|row| row.class == "POL" && row.reply.text().len() > 16) {
        let stripped = without_code(row.reply.text(), row.reply.code());
        for (code, status) in
            [550, 551, 553, 554].into_iter().flat_map(|code| codes.map(|status| (code, status)))
        {
            let found = classify(&row.view(&Reply::new(code, &format!("{status} {stripped}"))));
            let reason = reason_at_rcpt(&found);
            let refuses = matches!(reason, Reason::MailboxNotFound | Reason::MailboxDisabled);
            // With 5.4.1, "Recipient address rejected: Access denied" is how Microsoft 365 says "unknown".
            let said_by_the_code = row.line_is_plain() || found.rule == "edge-blocking-5.4.1";
            assert!(!refuses || said_by_the_code, "line {}: {code} {status} {found:?} {stripped}", row.line);
        }
    }
}

impl Row {
    /// True where nothing but the enhanced code makes the row a policy.
    fn line_is_plain(&self) -> bool {
        let stripped = without_code(self.reply.text(), self.reply.code());
        let bare = Reply::new(550, &stripped);
        classify(&self.view(&bare)).class == Class::Unclear
    }
}

#[test]
fn before_rcpt_nothing_is_about_a_recipient() {
    for row in rows() {
        for stage in [Stage::Banner, Stage::Ehlo, Stage::Mail] {
            let found = classify(&ReplyView {
                stage,
                mx: row.mx,
                reply: &row.reply,
                recipient: None,
                us: Us::default(),
            });
            assert!(!matches!(found.scope, Scope::Recipient | Scope::Site), "line {}: {found:?}", row.line);
            assert_eq!(reason_at_rcpt(&found), Reason::Unverifiable, "line {}: {found:?}", row.line);
        }
    }
}

#[test]
fn a_transient_reply_never_condemns() {
    for row in rows() {
        for code in [421, 450, 451, 452, 455] {
            let text = row.reply.text().replace("5.", "4.");
            let found = classify(&row.view(&Reply::new(code, &text)));
            let reason = reason_at_rcpt(&found);
            assert!(
                !matches!(reason, Reason::MailboxNotFound | Reason::MailboxDisabled),
                "line {}",
                row.line
            );
            assert!(!found.permanent && found.class != Class::NotFound, "line {}: {found:?}", row.line);
        }
    }
}

#[test]
fn the_page_lists_the_rules_in_order() {
    let page = include_str!("../../../../../docs/verdicts.md");
    let (_, section) = page.split_once("\n## Rules\n").expect("the page has its section");
    let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let rows = rules().map(|(name, class, scope, source)| {
        format!("| `{name}` | {} | {} | {source} |", class.as_str(), scope.as_str())
    });
    assert_eq!(listed, rows.collect::<Vec<_>>());
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let names: std::collections::HashSet<&str> = rules().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), rules().count());
    for (name, _, _, source) in rules() {
        assert!(source.split(' ').all(|letter| "SFZKROW".contains(letter)) && !source.is_empty(), "{name}");
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn any_stage() -> impl Strategy<Value = Stage> {
        use Stage::*;
        prop::sample::select(vec![Banner, Ehlo, Mail, Rcpt, Control])
    }

    /// Words that rules listen to, in any order.
    fn telling_text() -> impl Strategy<Value = String> {
        let words: Vec<&str> =
            ROWS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
        prop::collection::vec(prop::sample::select(words), 0..24).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn any_text_is_classified(stage in any_stage(), code in 200u16..600, text in "\\PC{0,300}", mx in "\\PC{0,40}") {
            let reply = Reply::new(code, &text);
            let found = classify(&ReplyView { stage, mx: &mx, reply: &reply, recipient: None, us: Us::default() });
            prop_assert!(stage == Stage::Rcpt || stage == Stage::Control || found.scope != Scope::Recipient);
        }

        #[test]
        fn punctuation_and_echoes_are_survived(code in 200u16..600, text in "[@<>\"' a-c.:/\\[\\]\u{fffd}é用]{0,80}") {
            classify(&ReplyView { stage: Stage::Rcpt, mx: "mx.example.com", reply: &Reply::new(code, &text), recipient: None, us: Us::default() });
        }

        #[test]
        fn telling_words_break_no_invariant(code in 200u16..600, text in telling_text()) {
            let found = classify(&ReplyView { stage: Stage::Rcpt, mx: "", reply: &Reply::new(code, &text), recipient: None, us: Us::default() });
            if code / 100 != 5 {
                prop_assert!(!matches!(reason_at_rcpt(&found), Reason::MailboxNotFound | Reason::MailboxDisabled));
            }
            if code / 100 != 2 {
                prop_assert!(found.class != Class::Accepted);
            }
        }

        #[test]
        fn lines_may_break_anywhere(code in 400u16..600, text in telling_text(), seed: u64) {
            let mut at = 0;
            let split: String = text.chars().map(|c| {
                at += 1;
                if c == ' ' && seed.rotate_left(at) & 1 == 1 { '\n' } else { c }
            }).collect();
            let view = |text: &str| classify(&ReplyView { stage: Stage::Rcpt, mx: "", reply: &Reply::new(code, text), recipient: None, us: Us::default() });
            prop_assert_eq!(view(&text), view(&split));
        }
    }
}
