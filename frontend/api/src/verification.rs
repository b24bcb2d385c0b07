//! The answer of `/v1/verify`.

use crate::{Detail, Mode, Reason};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::fmt;
#[cfg(test)]
use utoipa::ToSchema;

/// The result of a check.
///
/// `deliverable` is not a field, since it follows from the reason.
#[derive(Clone, PartialEq)]
pub struct Verification {
    /// The address as submitted.
    pub email: String,
    /// The reason of the result.
    pub reason: Reason,
    /// The balance after the call; `None` (null) if nothing was charged.
    pub credits_remaining: Option<u64>,
    /// The fields of the mode.
    pub findings: Findings,
}

/// The fields of an answer that depend on the mode.
#[derive(Clone, PartialEq)]
pub enum Findings {
    /// The fields of a full check.
    Full {
        /// Whether it is a free repeat of the caller's own check of the last 24 hours.
        cached: bool,
        /// The block of `detail=full`; absent if it was not requested or is not available.
        detail: Option<Box<Detail>>,
    },
    /// The fields of a fast check.
    Fast(FastFindings),
}

/// The results of a fast check.
#[derive(Clone, PartialEq, Eq)]
pub struct FastFindings {
    /// The address with a corrected domain.
    pub suggestion: Option<String>,
    /// Each check; `None` (null) for a text that is not an address.
    pub checks: Option<Checks>,
}

/// The checks of a fast check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Checks {
    /// A mail host of the domain was found. False also if DNS gave no usable answer.
    pub mx: bool,
    /// The domain belongs to a disposable provider.
    pub disposable: bool,
    /// The local part names a function.
    pub role_account: bool,
    /// The domain offers free mailboxes to everyone.
    pub free_email: bool,
}

/// The output of `mailprobe check --json`: the API's answer with fields of the command line.
#[derive(Serialize)]
pub struct Checked<'a> {
    /// The API's answer.
    #[serde(flatten)]
    pub verification: &'a Verification,
    /// The name of the rule that decided; fast checks have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// The time of the operator's own bounce or delivery that decided (RFC 3339), if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_at: Option<&'a str>,
    /// The trace with one line per step, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<&'a [String]>,
}

impl Serialize for Verification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Verification", 7)?;
        fields.serialize_field("email", &self.email)?;
        fields.serialize_field("deliverable", &self.reason.deliverable())?;
        fields.serialize_field("reason", &self.reason)?;
        fields.serialize_field("credits_remaining", &self.credits_remaining)?;
        match &self.findings {
            Findings::Full { cached, detail } => {
                fields.serialize_field("cached", cached)?;
                match detail {
                    Some(detail) => fields.serialize_field("detail", detail)?,
                    None => fields.skip_field("detail")?,
                }
            }
            Findings::Fast(FastFindings { suggestion, checks }) => {
                fields.serialize_field("mode", &Mode::Fast)?;
                fields.serialize_field("suggestion", suggestion)?;
                fields.serialize_field("checks", checks)?;
            }
        }
        fields.end()
    }
}

/// Without the address, which is personal data, since this may be logged.
impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verification")
            .field("reason", &self.reason)
            .field("credits_remaining", &self.credits_remaining)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Flags};

    #[test]
    fn the_wire_form_is_the_contract_s() {
        let mut result = Verification {
            email: "a@example.com".into(),
            reason: Reason::MailboxExists,
            credits_remaining: Some(99),
            findings: Findings::Full { cached: false, detail: None },
        };
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"email":"a@example.com","deliverable":true,"reason":"mailbox_exists","credits_remaining":99,"cached":false}"#
        );
        result.reason = Reason::InvalidSyntax;
        result.credits_remaining = None;
        assert_eq!(
            serde_json::to_string(&Checked {
                verification: &result,
                rule: Some("syntax"),
                learned_at: None,
                trace: None
            })
            .unwrap(),
            r#"{"email":"a@example.com","deliverable":false,"reason":"invalid_syntax","credits_remaining":null,"cached":false,"rule":"syntax"}"#
        );
        let flags = Flags {
            free_email: false,
            role_account: false,
            disposable: false,
            catch_all: false,
            mailbox_exists: None,
        };
        let detail = Detail {
            grade: None,
            score: None,
            inbox_provider: None,
            flags,
            dns: None,
            disposable_sources: Vec::new(),
            evidence: None,
        };
        let block = r#""cached":true,"detail":{"grade":null,"score":null,"inbox_provider":null,"flags":{"free_email":false,"role_account":false,"disposable":false,"catch_all":false,"mailbox_exists":null},"dns":null"#;
        result.findings = Findings::Full { cached: true, detail: Some(Box::new(detail.clone())) };
        assert!(serde_json::to_string(&result).unwrap().ends_with(&format!("{block}}}}}")));
        let mut evidence = Evidence {
            rule: "nxdomain".into(),
            scope: None,
            host: None,
            reply_code: None,
            enhanced_code: None,
            observed_at: "2026-11-26T02:03:04+00:00".into(),
        };
        for expected in [
            r#""evidence":{"rule":"nxdomain","scope":null,"host":null,"reply_code":null,"enhanced_code":null,"observed_at":"2026-11-26T02:03:04+00:00"}"#,
            r#""evidence":{"rule":"unknown","scope":"recipient","host":"mx1.example.net","reply_code":550,"enhanced_code":"5.1.1","observed_at":"2026-11-26T02:03:04+00:00"}"#,
        ] {
            let detail = Detail { evidence: Some(evidence.clone()), ..detail.clone() };
            result.findings = Findings::Full { cached: true, detail: Some(Box::new(detail)) };
            assert!(serde_json::to_string(&result).unwrap().ends_with(&format!("{block},{expected}}}}}")));
            evidence = Evidence {
                rule: "unknown".into(),
                scope: Some("recipient"),
                host: Some("mx1.example.net".into()),
                reply_code: Some(550),
                enhanced_code: Some("5.1.1".into()),
                ..evidence
            };
        }
        result.findings = Findings::Fast(FastFindings { suggestion: None, checks: None });
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"email":"a@example.com","deliverable":false,"reason":"invalid_syntax","credits_remaining":null,"mode":"fast","suggestion":null,"checks":null}"#
        );
        result.reason = Reason::FastCheckPassed;
        let checks = Checks { mx: true, disposable: false, role_account: true, free_email: false };
        result.findings =
            Findings::Fast(FastFindings { suggestion: Some("a@example.org".into()), checks: Some(checks) });
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"email":"a@example.com","deliverable":null,"reason":"fast_check_passed","credits_remaining":null,"mode":"fast","suggestion":"a@example.org","checks":{"mx":true,"disposable":false,"role_account":true,"free_email":false}}"#
        );
        assert!(!format!("{result:?}").contains("example"));
    }
}
