//! Why an address is `unverifiable`: the causes, with their words for people.

use serde::Serialize;
#[cfg(test)]
use utoipa::ToSchema;

/// A cause, or a rule, in plain words. A text is a clause without a capital letter and a full stop, as in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CauseWords {
    /// What has happened.
    pub meaning: &'static str,
    /// What to do about an address that is unverifiable by this cause.
    pub advice: &'static str,
}

impl CauseWords {
    /// Whether the advice names a command or an option of mailprobe, which only the operator of a server can use.
    pub fn is_for_operator(&self) -> bool {
        self.advice.contains("`mailprobe") || self.advice.contains("--")
    }
}

/// Defines the causes: each with its code, what has happened, and what to do.
macro_rules! causes {
    ($($name:ident = $code:literal, $meaning:literal, $advice:expr;)*) => {
        // The numbers are the codes in stored rows: none ever changes its meaning.
        /// Why an address is `unverifiable`. Further causes can be added.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[cfg_attr(test, derive(ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum UnverifiableCause {
            $(#[doc = $meaning] $name = $code,)*
        }

        impl UnverifiableCause {
            /// All causes, in the order of docs/api-lists.md.
            pub const ALL: &[UnverifiableCause] = &[$(UnverifiableCause::$name),*];

            /// Whether the service itself is the reason: no mail server has answered about the address, so it is free, and no repeat is
            /// stored. The next check asks again.
            pub fn is_free(self) -> bool {
                matches!(self, UnverifiableCause::RefusalBudget | UnverifiableCause::Outage)
            }

            /// The advice to the users of a server, which repeats an answer to its account for 24 hours: so a check again is one
            /// `when` they are over. Where there is no answer to repeat, the advice stays as it is.
            pub fn advice_of_server(self, when: &str) -> String {
                let advice = self.words().advice;
                match advice.strip_prefix("check again ") {
                    Some(time) if !self.is_free() => {
                        let rest = time.find([',', ';', ':']).map_or("", |end| &time[end..]);
                        format!("check again {when}{rest}")
                    }
                    _ => advice.to_owned(),
                }
            }

            /// The words for people: those of the command line, the reports and the dashboard.
            pub fn words(self) -> CauseWords {
                let (meaning, advice) = match self {
                    $(UnverifiableCause::$name => ($meaning, $advice),)*
                };
                CauseWords { meaning, advice }
            }
        }
    };
}

/// When the server asks again about an address that it has just answered.
pub const AFTER_REPEATS: &str = "after 24 hours";

const LATER: &str = "check again later";
const LATER_OR_DOCTOR: &str = "check again later; if most domains have this cause, run `mailprobe doctor`";
const AS_CATCH_ALL: &str = "no check can decide: decide as for catch_all";
const HOUR_THEN_CATCH_ALL: &str =
    "check again after an hour; if the cause is the same, decide as for catch_all";

causes! {
    Greylisted = 20, "the mail server asks to come back after some minutes (greylisting)", "check again after 15 minutes";
    Throttled = 21, "the mail server limits how much it takes in a time", "check again after an hour, with no faster --pace";
    Temporary = 22, "the mail server cannot answer for now", LATER;
    RefusesMachine = 23, "the mail server refuses this machine, for example because of a blocklist",
        "see `mailprobe doctor`, and remove the cause";
    RefusesSender = 24, "the mail server refuses the sender address of the check",
        "see `mailprobe doctor`, and set --mail-from to an address that accepts mail";
    RefusesSession = 25, "the mail server refuses the session", LATER_OR_DOCTOR;
    NeedsAccount = 26, "the mail server demands an account or encryption", AS_CATCH_ALL;
    NotServed = 27, "the mail server does not serve this domain", "check again after a day: the domain may have new hosts by then";
    NotUnderstood = 28, "mailprobe does not understand the refusal", "read it with `mailprobe check --trace`";
    ProvesNothing = 29, "the mail server gave an answer that proves nothing", LATER;
    NoConnection = 30, "the mail server accepted no connection", LATER_OR_DOCTOR;
    NoAnswer = 31, "the mail server did not answer in time", LATER_OR_DOCTOR;
    HungUp = 32, "the mail server ended the session before it answered", LATER_OR_DOCTOR;
    SiteSilent = 33, "not asked: the mail server did not answer about other addresses", LATER_OR_DOCTOR;
    ControlUnanswered = 34, "the mail server did not say whether it refuses mailboxes that do not exist", LATER_OR_DOCTOR;
    ControlUnclear = 35, "the mail server gave no clear answer about a mailbox that does not exist", HOUR_THEN_CATCH_ALL;
    ControlRemembered = 36, "an earlier check got no clear answer about a mailbox that does not exist, so mailprobe did not ask about one again",
        "check again after an hour: mailprobe then asks again";
    NotDistinguished = 37, "the mail server did not distinguish its mailboxes from others", HOUR_THEN_CATCH_ALL;
    AcceptsEverything = 38, "the mail server accepts every recipient, and refuses only after the message", AS_CATCH_ALL;
    SourceRests = 39, "not asked: the site of its mail server has blocked this machine, and mailprobe leaves it alone for some time",
        "check again after the rest of 5 minutes to 6 hours";
    NoSource = 40, "no source address of this machine reaches the mail server",
        "see `mailprobe doctor`; give mailprobe a source with IPv6, or correct the sources";
    NoSmtputf8 = 41, "the mail server takes no address with letters outside ASCII", "ask the recipient for an address in ASCII";
    FaultyServer = 42, "the mail server is faulty", "check again after a day";
    Dns = 43, "DNS gave no usable answer about the domain", LATER_OR_DOCTOR;
    DnsDenial = 44, "DNS denies the domain without a proof", LATER_OR_DOCTOR;
    RefusalBudget = 248, "not asked: the site of its mail server has refused, or left without a reply, as many recipients as mailprobe allows in an hour",
        "check again after an hour";
    Outage = 249, "not answered in an outage: no resolver gave a usable answer, or no mail server at all could be reached", LATER;
}
