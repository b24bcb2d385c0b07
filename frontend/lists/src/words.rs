//! Reasons and rules in plain words: the one source of these words for the command line, the reports and the dashboard.
//!
//! A text is a clause without a capital letter and a full stop, as in a table; [`sentence`] makes a sentence of it. Tests compare the
//! reasons with the table in README.md, and the rules with those of docs/verdicts.md.

pub use crate::domains::address_text;

use api::{CauseWords, Reason, UnverifiableCause as Cause, WaitCause};
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
        Reason::Unverifiable => {
            "act on the cause: waiting does not help while mail servers refuse this machine \
             (run `mailprobe doctor`, or ask the operator of the server)"
        }
    }
}

/// The words for a rule that leaves an address unverifiable.
pub fn rule(name: &str) -> CauseWords {
    const UNKNOWN: CauseWords =
        CauseWords { meaning: "the check gave no clear answer", advice: "check again later" };
    cause(name).map_or(UNKNOWN, Cause::words)
}

/// The cause of an address that is unverifiable by this rule; `None` for an unknown rule.
pub fn cause(rule: &str) -> Option<Cause> {
    Some(match rule {
        "refusal_budget" => Cause::RefusalBudget,
        "site_silent" => Cause::SiteSilent,
        "no_answer_in_time" => Cause::NoAnswer,
        "hung_up" => Cause::HungUp,
        "no_connection" => Cause::NoConnection,
        "control_unanswered" => Cause::ControlUnanswered,
        "control_unclear" => Cause::ControlUnclear,
        "control_remembered" => Cause::ControlRemembered,
        "behaviour_changed" | "refusal_unproven" => Cause::NotDistinguished,
        "accepts_everything" => Cause::AcceptsEverything,
        "source_rested" => Cause::SourceRests,
        "ipv6_only" | "no_source" => Cause::NoSource,
        "no_smtputf8" => Cause::NoSmtputf8,
        // Outputs of earlier versions have `tls_failed`.
        "tls_failed" | "not_smtp" | "replies_out_of_step" => Cause::FaultyServer,
        "dns_denial_unproven" => Cause::DnsDenial,
        _ if rule.starts_with("dns_") => Cause::Dns,
        _ => {
            let (_, class, scope, _) = rules().find(|(known, ..)| *known == rule)?;
            of_reply(class, scope)
        }
    })
}

/// The cause by the class and the scope of a rule about a reply.
fn of_reply(class: Class, scope: Scope) -> Cause {
    match (class, scope) {
        (Class::Greylisted, _) => Cause::Greylisted,
        (Class::Throttled | Class::ExistsThrottled, _) => Cause::Throttled,
        (Class::AuthRequired | Class::ExistsRestricted, _) => Cause::NeedsAccount,
        (Class::Relay, _) => Cause::NotServed,
        (Class::Unclear, _) => Cause::NotUnderstood,
        (Class::Policy, Scope::Us) => Cause::RefusesMachine,
        (Class::Policy, Scope::Sender) => Cause::RefusesSender,
        (Class::Policy, _) => Cause::RefusesSession,
        (Class::Temporary, _) => Cause::Temporary,
        _ => Cause::ProvesNothing,
    }
}

/// Why addresses wait in an outage, in sentences.
pub fn outage() -> String {
    format!("{} The check goes on by itself.", sentence(WaitCause::Outage.words()))
}

/// Why addresses wait for the budget of a site that refuses us by this rule, in sentences.
pub fn refusal_of_us(name: &str) -> String {
    let because = sentence(rule(name).meaning);
    format!(
        "{because} Its refusals count in the budget of refused recipients, which is used up, so further addresses wait."
    )
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
            assert!(todo.starts_with(&plain(advice(reason))), "{}: {todo}", reason.as_str());
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
