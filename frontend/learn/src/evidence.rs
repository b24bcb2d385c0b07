//! The use of learned evidence: it changes a verdict that the servers left open.

use crate::meaning::Bounce;
use api::Reason;

/// How long a bounce counts, in seconds: 180 days. An address may be given to another person, so no bounce counts forever. A mailbox
/// that is created again earlier shows itself by a delivery.
pub const BOUNCE_SECONDS_MAX: u64 = 180 * 24 * 3600;

/// How long a delivery counts, in seconds: 90 days. Mailboxes are closed more often than closed ones are opened again, and a wrong
/// `mailbox_exists` costs a bounce. So a delivery counts for less time than a bounce.
pub const DELIVERY_SECONDS_MAX: u64 = 90 * 24 * 3600;

/// How long after a delivery a bounce may follow, in seconds: a server gives up after 4 to 5 days (RFC 5321 4.5.4.1).
pub const GIVE_UP_SECONDS: u64 = 5 * 24 * 3600;

const _: () = assert!(GIVE_UP_SECONDS < DELIVERY_SECONDS_MAX && DELIVERY_SECONDS_MAX < BOUNCE_SECONDS_MAX);

/// The evidence of the operator's own mail about an address. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Mail came back, and none was delivered since.
    Bounced {
        /// What the bounce shows.
        bounce: Bounce,
        /// The time of the bounce, in seconds since 1970.
        at: u64,
    },
    /// Mail was delivered, and no bounce followed.
    Delivered {
        /// The time of the delivery.
        at: u64,
    },
}

/// A verdict that follows from evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The new reason.
    pub reason: Reason,
    /// The name of the rule: `own_bounce` or `own_delivery`.
    pub rule: &'static str,
    /// The time of the evidence in seconds since 1970.
    pub at: u64,
}

impl Evidence {
    /// The verdict that this evidence gives in place of `reason`, which `rule` decided; `None` if the verdict stays. `is_role` is
    /// true for a role address.
    ///
    /// Only a reason that leaves the mailbox open is replaced: `catch_all`, `unverifiable`, `fast_check_passed`.
    pub fn apply(self, reason: Reason, rule: &str, is_role: bool) -> Option<Applied> {
        let is_open = matches!(reason, Reason::CatchAll | Reason::Unverifiable | Reason::FastCheckPassed);
        let changed = match self {
            _ if !is_open => return None,
            Evidence::Bounced { bounce: Bounce::NotFound, .. } => Reason::MailboxNotFound,
            Evidence::Bounced { bounce: Bounce::Disabled, .. } => Reason::MailboxDisabled,
            // A server that answers for the domain refutes the bounce: the sender's resolver had a fault, or the domain is back.
            Evidence::Bounced { bounce: Bounce::DomainDead, .. } if found_no_server(reason, rule) => {
                Reason::MailboxNotFound
            }
            // Of an unverifiable address, the live check itself could not see whether its server takes mail now.
            Evidence::Delivered { .. } if reason == Reason::CatchAll && is_role => Reason::RoleAccount,
            Evidence::Delivered { .. } if reason == Reason::CatchAll => Reason::MailboxExists,
            _ => return None,
        };
        let (rule, at) = match self {
            Evidence::Bounced { at, .. } => ("own_bounce", at),
            Evidence::Delivered { at } => ("own_delivery", at),
        };
        Some(Applied { reason: changed, rule, at })
    }
}

/// Whether the check found no server of the domain that answers.
fn found_no_server(reason: Reason, rule: &str) -> bool {
    reason == Reason::Unverifiable && (rule == "no_connection" || rule.starts_with("dns_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_verdicts_change() {
        let bounced = |bounce| Evidence::Bounced { bounce, at: 7 };
        let delivered = Evidence::Delivered { at: 7 };
        for (evidence, reason, rule, expected) in [
            (bounced(Bounce::NotFound), Reason::CatchAll, "control_accepted", Some(Reason::MailboxNotFound)),
            (bounced(Bounce::NotFound), Reason::Unverifiable, "greylisted", Some(Reason::MailboxNotFound)),
            (bounced(Bounce::NotFound), Reason::FastCheckPassed, "", Some(Reason::MailboxNotFound)),
            (bounced(Bounce::Disabled), Reason::CatchAll, "control_accepted", Some(Reason::MailboxDisabled)),
            (bounced(Bounce::DomainDead), Reason::CatchAll, "control_accepted", None),
            (bounced(Bounce::DomainDead), Reason::FastCheckPassed, "", None),
            (bounced(Bounce::DomainDead), Reason::Unverifiable, "greylisted", None),
            (
                bounced(Bounce::DomainDead),
                Reason::Unverifiable,
                "no_connection",
                Some(Reason::MailboxNotFound),
            ),
            (
                bounced(Bounce::DomainDead),
                Reason::Unverifiable,
                "dns_servfail",
                Some(Reason::MailboxNotFound),
            ),
            (delivered, Reason::CatchAll, "control_remembered", Some(Reason::MailboxExists)),
            (delivered, Reason::Unverifiable, "greylisted", None),
            (delivered, Reason::FastCheckPassed, "", None),
        ] {
            let applied = evidence.apply(reason, rule, false);
            assert_eq!(applied.map(|applied| applied.reason), expected, "{evidence:?} {reason:?} {rule}");
            let name =
                if matches!(evidence, Evidence::Delivered { .. }) { "own_delivery" } else { "own_bounce" };
            assert!(applied.is_none_or(|applied| applied.rule == name && applied.at == 7));
        }
        let role = delivered.apply(Reason::CatchAll, "control_accepted", true).map(|applied| applied.reason);
        assert_eq!(role, Some(Reason::RoleAccount));
    }

    #[test]
    fn a_definite_answer_of_a_server_always_stays() {
        let open = [Reason::CatchAll, Reason::Unverifiable, Reason::FastCheckPassed];
        for reason in Reason::ALL.into_iter().filter(|reason| !open.contains(reason)) {
            for bounce in [Bounce::NotFound, Bounce::Disabled, Bounce::DomainDead] {
                assert_eq!(Evidence::Bounced { bounce, at: 1 }.apply(reason, "no_connection", false), None);
            }
            assert_eq!(Evidence::Delivered { at: 1 }.apply(reason, "unknown", true), None);
        }
    }
}
