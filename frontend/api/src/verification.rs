//! The answer of `/v1/verify`.

use crate::Reason;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::fmt;

/// The result of a full check.
///
/// `deliverable` is not a field: the reason decides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verification {
    /// The address, as submitted.
    pub email: String,
    /// The answer.
    pub reason: Reason,
    /// The balance after the call; `None` (null) when nothing was charged.
    pub credits_remaining: Option<u64>,
    /// Answered free from the caller's own check of the last 24 hours.
    pub cached: bool,
}

/// What `mailprobe check --json` prints: the API's answer and what only the command line tells.
#[derive(Serialize)]
pub struct Checked<'a> {
    /// The API's answer.
    #[serde(flatten)]
    pub verification: &'a Verification,
    /// Name of the rule that decided.
    pub rule: &'a str,
    /// The story, a line a step, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<&'a [String]>,
}

impl Serialize for Verification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Verification", 5)?;
        fields.serialize_field("email", &self.email)?;
        fields.serialize_field("deliverable", &self.reason.deliverable())?;
        fields.serialize_field("reason", &self.reason)?;
        fields.serialize_field("credits_remaining", &self.credits_remaining)?;
        fields.serialize_field("cached", &self.cached)?;
        fields.end()
    }
}

/// Without the address: it is personal data and this may end in a log.
impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verification")
            .field("reason", &self.reason)
            .field("credits_remaining", &self.credits_remaining)
            .field("cached", &self.cached)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_is_the_contract_s() {
        let mut result = Verification {
            email: "a@example.com".into(),
            reason: Reason::MailboxExists,
            credits_remaining: Some(99),
            cached: false,
        };
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"email":"a@example.com","deliverable":true,"reason":"mailbox_exists","credits_remaining":99,"cached":false}"#
        );
        result.reason = Reason::InvalidSyntax;
        result.credits_remaining = None;
        assert_eq!(
            serde_json::to_string(&Checked { verification: &result, rule: "syntax", trace: None }).unwrap(),
            r#"{"email":"a@example.com","deliverable":false,"reason":"invalid_syntax","credits_remaining":null,"cached":false,"rule":"syntax"}"#
        );
        assert!(!format!("{result:?}").contains("example.com"));
    }
}
