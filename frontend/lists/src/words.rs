//! Reasons and rules in plain words: the one source of these words for the command line, the reports and the dashboard.
//!
//! A text is a clause without a capital letter and a full stop, as in a table; [`sentence`] makes a sentence of it. Tests compare the
//! reasons with the table in README.md, and the rules with those of docs/verdicts.md.

pub use crate::domains::address_text;

use api::Reason;
use engine_proto::verdict::classify::rules;
use engine_proto::verdict::{Class, Scope};

/// A clause as a sentence.
pub fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(char::to_uppercase);
    let capital = !clause.starts_with("mailprobe");
    let begin = match first {
        Some(upper) if capital => upper.chain(letters).collect(),
        _ => clause.to_owned(),
    };
    format!("{begin}.")
}

/// The title of a reason.
pub fn title(reason: Reason) -> &'static str {
    match reason {
        Reason::MailboxExists => "Mailbox exists",
        Reason::RoleAccount => "Role address",
        Reason::InvalidSyntax => "Not an address",
        Reason::Disposable => "Disposable provider",
        Reason::Spamtrap => "Spam trap",
        Reason::InboxFull => "Mailbox full",
        Reason::MailboxDisabled => "Mailbox disabled",
        Reason::CatchAll => "Catch-all domain",
        Reason::MailboxNotFound => "Mailbox not found",
        Reason::Unverifiable => "Could not be confirmed",
        Reason::PossibleTypo => "Typing mistake",
        Reason::NoMx => "Domain accepts no mail",
        Reason::FastCheckPassed => "No problem found",
    }
}

/// What a reason means.
pub fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::MailboxExists => "the server accepts this mailbox, and refuses one that does not exist",
        Reason::RoleAccount => "the server accepts this mailbox, which is that of a function such as info@",
        Reason::FastCheckPassed => "a fast check found no fault; the mail server was not asked",
        Reason::CatchAll => "the server accepts every recipient, so the mailbox may not exist",
        Reason::MailboxNotFound => {
            "the server says that there is no such mailbox, or the domain takes no mail"
        }
        Reason::MailboxDisabled => "the mailbox is disabled, or takes no mail from outside",
        Reason::InboxFull => "the mailbox is full",
        Reason::NoMx => "a fast check found that the domain takes no mail",
        Reason::InvalidSyntax => "this is no address",
        Reason::PossibleTypo => "a fast check found that the domain looks like a typing mistake",
        Reason::Disposable => "the domain provides throw-away mailboxes",
        Reason::Spamtrap => "the address or its domain is on the list of spam traps",
        Reason::Unverifiable => "no server has given a clear answer",
    }
}

/// What to do with an address of this reason.
pub fn advice(reason: Reason) -> &'static str {
    match reason {
        Reason::MailboxExists => "send",
        Reason::RoleAccount => "send, if your mail suits a group",
        Reason::FastCheckPassed => "make a full check",
        Reason::CatchAll => "send only if you know the recipient; expect bounces",
        Reason::MailboxNotFound | Reason::MailboxDisabled | Reason::NoMx => "remove",
        Reason::InboxFull => "try again in some weeks",
        Reason::InvalidSyntax => "correct or remove",
        Reason::PossibleTypo => "ask the recipient for the right address",
        Reason::Disposable => "decide by your purpose",
        Reason::Spamtrap => "never send",
        Reason::Unverifiable => "check again later, if a later check can tell more",
    }
}

/// A rule in plain words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleWords {
    /// What has happened.
    pub meaning: &'static str,
    /// What to do about an address that is unverifiable by this rule.
    pub advice: &'static str,
}

const fn words(meaning: &'static str, advice: &'static str) -> RuleWords {
    RuleWords { meaning, advice }
}

const LATER: &str = "check again later";
const LATER_OR_DOCTOR: &str = "check again later; if most domains have this rule, run `mailprobe doctor`";
const AS_CATCH_ALL: &str = "no check can decide: decide as for catch_all";

/// The words for a rule that leaves an address unverifiable.
pub fn rule(name: &str) -> RuleWords {
    match name {
        "refusal_budget" => words(
            "not asked: the site of its mail server has refused as many recipients as mailprobe allows in an hour",
            "check again after an hour",
        ),
        "site_silent" => {
            words("not asked: the mail server did not answer about other addresses", LATER_OR_DOCTOR)
        }
        "no_answer_in_time" => words("the mail server did not answer in time", LATER_OR_DOCTOR),
        "hung_up" => words("the mail server ended the session before it answered", LATER_OR_DOCTOR),
        "no_connection" => words("the mail server accepted no connection", LATER_OR_DOCTOR),
        "control_unanswered" => words(
            "the mail server did not say whether it refuses mailboxes that do not exist",
            LATER_OR_DOCTOR,
        ),
        "control_unclear" => words(
            "the mail server gave no clear answer about a mailbox that does not exist",
            "check again after an hour; if the rule is the same, decide as for catch_all",
        ),
        "control_remembered" => words(
            "an earlier check got no clear answer about a mailbox that does not exist, so mailprobe did not ask about one again",
            "check again after an hour: mailprobe then asks again",
        ),
        "behaviour_changed" | "refusal_unproven" => words(
            "the mail server did not distinguish its mailboxes from others",
            "check again after an hour; if the rule is the same, decide as for catch_all",
        ),
        "accepts_everything" => {
            words("the mail server accepts every recipient, and refuses only after the message", AS_CATCH_ALL)
        }
        "source_rested" => words(
            "not asked: the site of its mail server has blocked this machine, and mailprobe leaves it alone for some time",
            "check again after the rest, which takes 5 minutes to 6 hours",
        ),
        "ipv6_only" | "no_source" => words(
            "no source address of this machine reaches the mail server",
            "see `mailprobe doctor`; give mailprobe a source with IPv6, or correct the sources",
        ),
        "no_smtputf8" => words(
            "the mail server takes no address with letters outside ASCII",
            "ask the recipient for an address in ASCII",
        ),
        "tls_failed" | "not_smtp" => words("the mail server is faulty", "check again after a day"),
        "dns_denial_unproven" => words("DNS denies the domain without a proof", LATER_OR_DOCTOR),
        _ if name.starts_with("dns_") => words("DNS gave no usable answer about the domain", LATER_OR_DOCTOR),
        _ => reply_rule(name),
    }
}

/// Why addresses wait for the budget of a site that refuses us by this rule, in sentences.
pub fn refusal_of_us(name: &str) -> String {
    let because = sentence(rule(name).meaning);
    format!(
        "{because} Its refusals count in the budget of refused recipients, which is used up, so further addresses wait."
    )
}

/// The words for a rule about a reply, by the class and the scope of the rule.
fn reply_rule(name: &str) -> RuleWords {
    let known = rules().find(|(known, ..)| *known == name).map(|(_, class, scope, _)| (class, scope));
    match known {
        Some((Class::Greylisted, _)) => words(
            "the mail server asks to come back after some minutes (greylisting)",
            "check again after 15 minutes",
        ),
        Some((Class::Throttled | Class::ExistsThrottled, _)) => words(
            "the mail server limits how much it takes in a time",
            "check again after an hour, with no faster --pace",
        ),
        Some((Class::AuthRequired | Class::ExistsRestricted, _)) => {
            words("the mail server demands an account or encryption", AS_CATCH_ALL)
        }
        Some((Class::Relay, _)) => words(
            "the mail server does not serve this domain",
            "check again after a day: the domain may have new hosts by then",
        ),
        Some((Class::Unclear, _)) => {
            words("mailprobe does not understand the refusal", "read it with `mailprobe check --trace`")
        }
        Some((Class::Policy, Scope::Us)) => words(
            "the mail server refuses this machine, for example because of a blocklist",
            "see `mailprobe doctor`, and remove the cause",
        ),
        Some((Class::Policy, Scope::Sender)) => words(
            "the mail server refuses the sender address of the check",
            "see `mailprobe doctor`, and set --mail-from to an address that accepts mail",
        ),
        Some((Class::Policy, _)) => words("the mail server refuses the session", LATER_OR_DOCTOR),
        Some((Class::Temporary, _)) => words("the mail server cannot answer for now", LATER),
        Some(_) => words("the mail server gave an answer that proves nothing", LATER),
        None => words("the check gave no clear answer", LATER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell of a table without links and marks of code.
    fn plain(cell: &str) -> String {
        let mut text = cell.trim().replace('`', "");
        while let Some((before, rest)) = text.split_once(" ([")
            && let Some((_, after)) = rest.split_once("))")
        {
            text = format!("{before}{after}");
        }
        text
    }

    #[test]
    fn the_readme_has_the_same_words() {
        let readme = include_str!("../../../README.md");
        for reason in Reason::ALL {
            let row = readme.lines().find(|line| line.starts_with(&format!("| `{}` |", reason.as_str())));
            let row = row.filter(|row| row.matches('|').count() == 5);
            let cells: Vec<String> =
                row.unwrap_or_else(|| panic!("{}", reason.as_str())).split('|').map(plain).collect();
            let [_, _, _, said, todo, _] = &cells[..] else { panic!("{cells:?}") };
            assert!(said.starts_with(meaning(reason)), "{}: {said}", reason.as_str());
            assert!(todo.starts_with(advice(reason)), "{}: {todo}", reason.as_str());
        }
    }

    #[test]
    fn each_rule_of_the_documentation_has_words() {
        let docs = include_str!("../../../docs/verdicts.md");
        let (_, section) = docs.split_once("## Acting on `unverifiable`").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let unknown = rule("a rule that does not exist");
        let mut seen = 0;
        for line in section.lines().filter(|line| line.starts_with("| `")) {
            let names = line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2);
            let names = names.filter(|name| name.contains(|c: char| c.is_ascii_lowercase()) && *name != "us");
            for name in names.filter(|name| *name != "sender") {
                assert_ne!(rule(name), unknown, "{name}");
                seen += 1;
            }
        }
        assert!(seen > 30, "{seen}");
        assert!(rules().all(|(name, ..)| rule(name) != unknown));
    }

    #[test]
    fn clauses_become_sentences() {
        assert_eq!(sentence("the mailbox is full"), "The mailbox is full.");
        assert_eq!(sentence("DNS gave no answer"), "DNS gave no answer.");
        assert_eq!(sentence("mailprobe does not know"), "mailprobe does not know.");
        assert_eq!(sentence(""), ".");
    }
}
