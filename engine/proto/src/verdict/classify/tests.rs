//! The rows of testdata/replies.txt, testdata/wordings.txt and testdata/parties.txt, unchanged and in other shapes.

use super::super::tests::{REPLIES, Row, assert_none, lines, reply, rows};
use super::*;
use std::net::IpAddr;

#[path = "../../../testdata/accuracy.rs"]
mod accuracy;
use accuracy::judged;

/// The recipient in the rows of parties.txt; `US` has our names there.
const ASKED: &str = "bob@example.com";
const US: Us<'_> = Us {
    reverse_path: "postmaster@probe.example",
    ehlo: "mail.probe.example",
    source: Some(IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 5))),
};

#[test]
fn rows_whose_parties_are_known_mean_what_they_say() {
    let mut wrong = Vec::new();
    for (line, number) in lines(include_str!("../../../testdata/parties.txt")) {
        let (class, text) = line.split_once(' ').expect(line);
        let reply = reply(text);
        let (stage, mx, recipient) = (Stage::Rcpt, "mx.example.com", Some(ASKED));
        let found = classify(&ReplyView { stage, mx, reply: &reply, recipient, us: US });
        let said = found.class.as_str();
        judged(
            "replies",
            class,
            said,
            (said == class, said != class),
            found.rule,
            &format!("parties.txt:{number}"),
        );
        if said != class {
            wrong.push(format!("{number}: not {class} but {found:?}: {text}"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn every_row_means_what_it_says() {
    let mut wrong = Vec::new();
    for row in rows() {
        let found = row.classified(&row.reply);
        let scope = if row.scope.is_empty() { "" } else { found.scope.as_str() };
        let is_right = (found.class.as_str(), scope) == (row.class, row.scope);
        judged("replies", row.class, found.class.as_str(), (is_right, !is_right), found.rule, row.place());
        if !is_right {
            wrong.push(format!("{row}: not {} {} but {found:?}", row.class, row.scope));
        }
    }
    assert_none(&wrong);
}

/// The text without its enhanced code.
fn without_code(text: &str, code: u16) -> String {
    match EnhancedCode::find_in(text, code) {
        Some(found) => text.replace(&found.to_string(), ""),
        None => text.to_owned(),
    }
}

/// Texts with the same meaning in other shapes.
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
        let meant = row.classified(&row.reply);
        for text in reshaped(row.reply.text()) {
            let found = row.classified(&Reply::new(row.reply.code(), &text));
            assert_eq!((found.class, found.scope), (meant.class, meant.scope), "{row}: {found:?} {text:?}");
        }
    }
}

#[test]
fn a_code_on_every_line_changes_nothing() {
    for row in rows() {
        let meant = row.classified(&row.reply);
        let text = row.reply.text();
        let Some(code) = EnhancedCode::find(&row.reply) else { continue };
        if !text.starts_with(&code.to_string()) {
            continue;
        }
        let text = without_code(text, row.reply.code()).replace(' ', &format!("\n{code} "));
        let found = row.classified(&Reply::new(row.reply.code(), &format!("{code} {text}")));
        assert_eq!((found.class, found.scope), (meant.class, meant.scope), "{row}: {found:?}");
    }
}

#[test]
fn a_missing_code_makes_no_statement_about_a_mailbox() {
    // RFC 7504 gives these reply codes a meaning of their own, which an enhanced code can only weaken.
    for row in rows().into_iter().filter(|row| ![521, 556].contains(&row.reply.code())) {
        let meant = reason_at_rcpt(&row.classified(&row.reply));
        let stripped = without_code(row.reply.text(), row.reply.code());
        for text in std::iter::once(stripped.clone()).chain(reshaped(&stripped)) {
            let found = row.classified(&Reply::new(row.reply.code(), &text));
            let reason = reason_at_rcpt(&found);
            assert!(reason == meant || reason == Reason::Unverifiable, "{row}: {found:?} {text:?}");
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
            let found = row.classified(&Reply::new(code, &format!("{status} {stripped}")));
            let reason = reason_at_rcpt(&found);
            let refuses = matches!(reason, Reason::MailboxNotFound | Reason::MailboxDisabled);
            // With 5.4.1, "Recipient address rejected: Access denied" is how Microsoft 365 says "unknown".
            let said_by_the_code = is_plain(row) || found.rule == "edge-blocking-5.4.1";
            assert!(!refuses || said_by_the_code, "{row}: {code} {status} {found:?}");
        }
    }
}

/// Whether only the enhanced code makes the row a refusal by policy.
fn is_plain(row: &Row) -> bool {
    let stripped = without_code(row.reply.text(), row.reply.code());
    row.classified(&Reply::new(550, &stripped)).class == Class::Unclear
}

#[test]
fn before_rcpt_nothing_is_about_a_recipient() {
    for row in rows() {
        for stage in [Stage::Banner, Stage::Ehlo, Stage::Mail] {
            let found = classify(&ReplyView::of_unknown(stage, row.mx, &row.reply));
            assert!(!matches!(found.scope, Scope::Recipient | Scope::Site), "{row}: {found:?}");
            assert_eq!(reason_at_rcpt(&found), Reason::Unverifiable, "{row}: {found:?}");
        }
    }
}

#[test]
fn a_transient_reply_never_condemns() {
    for row in rows() {
        for code in [421, 450, 451, 452, 455] {
            let text = row.reply.text().replace("5.", "4.");
            let found = row.classified(&Reply::new(code, &text));
            let reason = reason_at_rcpt(&found);
            assert!(!matches!(reason, Reason::MailboxNotFound | Reason::MailboxDisabled), "{row}");
            assert!(!found.permanent && found.class != Class::NotFound, "{row}: {found:?}");
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

    fn at_rcpt(code: u16, text: &str) -> Classification {
        classify(&ReplyView::of_unknown(Stage::Rcpt, "", &Reply::new(code, text)))
    }

    fn any_stage() -> impl Strategy<Value = Stage> {
        use Stage::*;
        prop::sample::select(vec![Banner, Ehlo, Mail, Rcpt, Control])
    }

    /// Words of the test data, in any order.
    fn telling_text() -> impl Strategy<Value = String> {
        let words: Vec<&str> = lines(REPLIES).flat_map(|(line, _)| line.split_whitespace()).collect();
        prop::collection::vec(prop::sample::select(words), 0..24).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn any_text_is_classified(stage in any_stage(), code in 200u16..600, text in "\\PC{0,300}", mx in "\\PC{0,40}") {
            let found = classify(&ReplyView::of_unknown(stage, &mx, &Reply::new(code, &text)));
            prop_assert!(stage == Stage::Rcpt || stage == Stage::Control || found.scope != Scope::Recipient);
        }

        #[test]
        fn punctuation_and_echoes_are_survived(code in 200u16..600, text in "[@<>\"' a-c.:/\\[\\]\u{fffd}é用]{0,80}") {
            classify(&ReplyView::of_unknown(Stage::Rcpt, "mx.example.com", &Reply::new(code, &text)));
        }

        #[test]
        fn telling_words_break_no_invariant(code in 200u16..600, text in telling_text()) {
            let found = at_rcpt(code, &text);
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
            prop_assert_eq!(at_rcpt(code, &text), at_rcpt(code, &split));
        }
    }
}

/// Replies with their sources, collected by people who knew neither the grammar nor the rules: LABEL, STAGE, REPLY, SOURCE. A
/// bar parts two labels that are both right.
#[test]
fn replies_by_another_author_are_read_right() {
    let (mut all, mut right, mut wrong, mut missed) = (0, 0, Vec::new(), Vec::new());
    for (line, number) in lines(include_str!("../../../testdata/unheard.tsv")) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [label, name, text, _] = fields[..] else { panic!("{number}: {line}") };
        let stage = match name {
            "greeting" | "banner" => Stage::Banner,
            "ehlo" => Stage::Ehlo,
            "mail" => Stage::Mail,
            _ => Stage::Rcpt,
        };
        let (reply, recipient) = (reply(text), Some("joe@example.com"));
        let found = classify(&ReplyView { stage, mx: "mx.example.com", reply: &reply, recipient, us: US });
        let said = match reason_at_rcpt(&found) {
            Reason::MailboxNotFound => "not_found",
            Reason::InboxFull => "full",
            Reason::MailboxDisabled => "disabled",
            Reason::MailboxExists => "accepted",
            _ => "none",
        };
        all += 1;
        // A mailbox that gets too much mail now exists, but need not be said to.
        let is_right = label.split('|').any(|label| label == said)
            || (label == "busy" && ["accepted", "none"].contains(&said));
        let place = format!("unheard.tsv:{number}");
        judged("unheard replies", label, said, (is_right, !is_right && said != "none"), found.rule, &place);
        if is_right {
            right += 1;
        } else if said == "none" {
            missed.push(format!("{number}: {label}: {text}"));
        } else {
            wrong.push(format!("{number}: {said}, not {label}: {text}"));
        }
    }
    println!("{right} of {all} right, {} definite and wrong; missed: {missed:#?}", wrong.len());
    assert_none(&wrong);
    assert!(right * 100 >= all * 92, "{right} of {all} right; missed: {missed:#?}");
}
