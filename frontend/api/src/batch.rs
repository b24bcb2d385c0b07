//! The answers of `/v1/verify/batch`.

use crate::{ListWait, Reason};
use serde::{Serialize, Serializer, ser::SerializeStruct};
#[cfg(test)]
use utoipa::ToSchema;

/// The state of a batch: first processing, then completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// Some rows have no result yet.
    Processing,
    /// All rows have a result, also because the batch was cancelled.
    Completed,
}

/// The answer to an accepted batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct BatchCreated {
    /// The id for polling.
    pub batch_id: String,
    /// The number of submitted addresses.
    pub emails_submitted: u32,
    /// The state of the batch.
    pub status: BatchState,
    /// The balance after the charge; null if nothing was charged.
    pub credits_remaining: Option<u64>,
}

/// The answer to `GET /v1/verify/batch/{batch_id}`.
///
/// `status` and `progress` are not fields, since they follow from the results and the counts.
#[derive(Clone, PartialEq, Eq)]
pub struct BatchStatus {
    /// The id of the batch.
    pub batch_id: String,
    /// The number of submitted addresses, with duplicates.
    pub total: u32,
    /// The number of submitted addresses that have a result. After a cancellation these are all: an address without an answer has the
    /// result `unverifiable`.
    pub checked: u32,
    /// A row for each address in the order of the request, once the batch is completed.
    pub results: Option<Vec<ResultRow>>,
    /// What the addresses without a result wait for. Absent once the batch is completed.
    pub waiting: Vec<ListWait>,
}

/// The answer about one address of a batch. `deliverable` is not a field, since it follows from the reason.
#[derive(Clone, PartialEq, Eq)]
pub struct ResultRow {
    /// The address as submitted.
    pub email: String,
    /// The reason of the verdict.
    pub reason: Reason,
}

impl BatchStatus {
    /// The state, which follows from the presence of results.
    pub fn state(&self) -> BatchState {
        if self.results.is_some() { BatchState::Completed } else { BatchState::Processing }
    }

    /// The progress in whole percent, rounded down: 100 means that all rows are answered.
    pub fn progress(&self) -> u64 {
        match self.results {
            Some(_) => 100,
            None => (u64::from(self.checked) * 100).checked_div(self.total.into()).unwrap_or(0),
        }
    }
}

impl Serialize for BatchStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("BatchStatus", 7)?;
        fields.serialize_field("batch_id", &self.batch_id)?;
        fields.serialize_field("status", &self.state())?;
        fields.serialize_field("progress", &self.progress())?;
        fields.serialize_field("total", &self.total)?;
        fields.serialize_field("checked", &self.checked)?;
        fields.serialize_field("results", &self.results)?;
        if self.results.is_none() {
            fields.serialize_field("waiting", &self.waiting)?;
        }
        fields.end()
    }
}

impl Serialize for ResultRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ResultRow", 3)?;
        fields.serialize_field("email", &self.email)?;
        // The value is unknown only in fast mode, which batches do not have.
        fields.serialize_field("deliverable", &self.reason.deliverable().unwrap_or(false))?;
        fields.serialize_field("reason", &self.reason)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &BatchStatus, expected: &str) {
        assert_eq!(serde_json::to_string(status).unwrap(), expected);
    }

    #[test]
    fn the_wire_form_is_the_contract_s() {
        let created = BatchCreated {
            batch_id: "bat_1".into(),
            emails_submitted: 3,
            status: BatchState::Processing,
            credits_remaining: Some(97),
        };
        assert_eq!(
            serde_json::to_string(&created).unwrap(),
            r#"{"batch_id":"bat_1","emails_submitted":3,"status":"processing","credits_remaining":97}"#
        );
        let wait = ListWait { cause: crate::WaitCause::NoAnswer, addresses: 1, until: None };
        let (batch_id, waiting) = ("bat_1".into(), vec![wait]);
        let mut status = BatchStatus { batch_id, total: 3, checked: 2, results: None, waiting };
        check(
            &status,
            r#"{"batch_id":"bat_1","status":"processing","progress":66,"total":3,"checked":2,"results":null,"waiting":[{"cause":"no_answer","addresses":1,"until":null}]}"#,
        );
        status.checked = 3;
        status.results = Some(vec![
            ResultRow { email: "a@b.example".into(), reason: Reason::RoleAccount },
            ResultRow { email: "c@b.example".into(), reason: Reason::CatchAll },
        ]);
        check(
            &status,
            r#"{"batch_id":"bat_1","status":"completed","progress":100,"total":3,"checked":3,"results":[{"email":"a@b.example","deliverable":true,"reason":"role_account"},{"email":"c@b.example","deliverable":false,"reason":"catch_all"}]}"#,
        );
    }

    #[test]
    fn progress_is_whole_only_at_the_end() {
        let (batch_id, waiting) = (String::new(), Vec::new());
        let mut status = BatchStatus { batch_id, total: 200, checked: 0, results: None, waiting };
        assert_eq!(status.progress(), 0);
        status.checked = 199;
        assert_eq!(status.progress(), 99);
    }
}
