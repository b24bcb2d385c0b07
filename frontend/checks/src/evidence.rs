//! The evidence of an answer: the rule that decided, and what was observed of the mail host.
//!
//! The store keeps it with the verdict, so a repeat and a verdict from another account's check have it as well.

use api::Evidence;
use engine::Finding;
use learn::Applied;
use store::credits::calendar::Iso8601;
use store::{Basis, BasisReply, UnixMs};

/// The evidence as the API shows it.
pub fn shown(basis: &Basis) -> Evidence {
    let reply = basis.reply;
    Evidence {
        rule: basis.rule.to_string(),
        scope: reply.map(|reply| reply.scope.as_str()),
        host: basis.host.clone(),
        reply_code: reply.map(|reply| reply.code),
        enhanced_code: reply.and_then(|reply| reply.status).map(|status| status.to_string()),
        observed_at: Iso8601(basis.observed_at).to_string(),
    }
}

/// The basis of a finding of the engine. `now`: the time of the verdict.
pub fn of_finding(finding: &Finding, now: UnixMs) -> Basis {
    let observed = finding.observed.as_deref();
    let reply = observed.and_then(|observed| observed.reply);
    // The store's clock is the one of all times in answers.
    let ago = reply.map_or(0, |reply| UnixMs::try_from(reply.at.elapsed().as_millis()).unwrap_or(0));
    Basis {
        rule: finding.rule.into(),
        host: observed.map(|observed| observed.host.to_string()),
        reply: reply.map(|reply| BasisReply { scope: reply.scope, code: reply.code, status: reply.status }),
        observed_at: now.saturating_sub(ago),
    }
}

/// The basis of an event of the operator's own mail.
pub fn of_event(applied: &Applied) -> Basis {
    let (rule, observed_at) = (applied.rule.into(), applied.at.saturating_mul(1000));
    Basis { rule, host: None, reply: None, observed_at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Reason;
    use engine::Observation;
    use engine::proto::smtp::status::EnhancedCode;
    use engine::proto::verdict::{ObservedReply, Reason as Found, Scope};
    use std::time::{Duration, Instant};

    #[test]
    fn each_kind_of_finding_has_its_fields() {
        let (now, seen) = (1_795_658_584_999, Instant::now());
        let reply = |code, status: Option<(u8, u16, u16)>, scope| {
            let status = status.map(|(class, subject, detail)| EnhancedCode::new(class, subject, detail));
            let at = seen.checked_sub(Duration::from_secs(60)).unwrap();
            Some(ObservedReply { code, status, scope, at })
        };
        let at = |host: &str, reply| Some(Box::new(Observation { host: host.into(), reply }));
        let refused = reply(550, Some((5, 1, 1)), Scope::Recipient);
        let (replied, now_text) = ("2026-11-26T02:02:04+00:00", "2026-11-26T02:03:04+00:00");
        for (rule, observed, expected) in [
            ("nxdomain", None, (None, None, None, None, now_text)),
            ("no_connection", at("mx.a.example", None), (None, Some("mx.a.example"), None, None, now_text)),
            (
                "unknown",
                at("mx.a.example", refused),
                (Some("recipient"), Some("mx.a.example"), Some(550), Some("5.1.1"), replied),
            ),
            (
                "control_accepted",
                at("mx.a.example", reply(250, None, Scope::Recipient)),
                (Some("recipient"), Some("mx.a.example"), Some(250), None, replied),
            ),
            (
                "blocklist",
                at("mx.a.example", reply(554, None, Scope::Us)),
                (Some("us"), Some("mx.a.example"), Some(554), None, replied),
            ),
        ] {
            let finding =
                Finding { reason: Found::Unverifiable, rule, retry_after: None, evidence: None, observed };
            let got = shown(&of_finding(&finding, now));
            let (host, enhanced) = (got.host.as_deref(), got.enhanced_code.as_deref());
            let found = (got.scope, host, got.reply_code, enhanced, got.observed_at.as_str());
            assert_eq!((got.rule.as_str(), found), (rule, expected));
        }
    }

    #[test]
    fn an_event_of_the_own_mail_has_its_time_and_no_host() {
        let applied = Applied { reason: Reason::MailboxNotFound, rule: "own_bounce", at: 1_795_658_584 };
        let got = shown(&of_event(&applied));
        assert_eq!(
            (got.rule.as_str(), got.observed_at.as_str()),
            ("own_bounce", "2026-11-26T02:03:04+00:00")
        );
        assert_eq!((got.scope, got.host, got.reply_code, got.enhanced_code), (None, None, None, None));
    }
}
