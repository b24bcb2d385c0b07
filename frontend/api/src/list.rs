//! The answers of `/v1/lists`, and of the list of batches.

use crate::{BatchState, Reason, UnverifiableCause};
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
#[cfg(test)]
use utoipa::ToSchema;

/// The state of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ListStatus {
    /// Its content is being uploaded.
    Uploading,
    /// Its rows are being counted, and duplicates are searched.
    Reading,
    /// It waits for its start.
    Ready,
    /// It is being checked.
    Running,
    /// It has stopped, because it could not be charged. Start it again.
    Paused,
    /// Every address has a verdict.
    Completed,
    /// It was cancelled. The results so far can be read.
    Cancelled,
    /// It cannot be checked.
    Unfit,
}

/// How often each reason occurs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(pub Vec<(Reason, u64)>);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut counts: Vec<(&str, u64)> =
            self.0.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        counts.sort_unstable();
        let mut fields = serializer.serialize_map(Some(counts.len()))?;
        for (reason, count) in counts {
            fields.serialize_entry(reason, &count)?;
        }
        fields.end()
    }
}

/// A count of unusual rows or cells of a list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Noted {
    /// The number of these rows or cells.
    pub count: u64,
    /// The row of the first one, from 1. Titles and the header are rows here, as in a spreadsheet; blank lines are none.
    pub first_row: u64,
}

impl Noted {
    /// Counts one in this row, if there is one.
    pub fn add(&mut self, is_there: bool, row: u64) {
        if is_there && self.count == 0 {
            self.first_row = row;
        }
        self.count += u64::from(is_there);
    }
}

/// Where the addresses of a list were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct FoundAddresses {
    /// The name of the column, or the key of JSON lines; null if it has no name.
    pub column: Option<String>,
    /// The number of the column, from 1; null for JSON lines and plain text.
    pub column_number: Option<u32>,
    /// The number of columns; null for JSON lines and plain text.
    pub columns: Option<u32>,
    /// Whether there is a header, which is not checked; null for JSON lines and plain text, and if an earlier version of the
    /// server has read the list. If it is wrong, upload the list again with `header`.
    pub header: Option<bool>,
    /// The name of the sheet; null if the list is no spreadsheet.
    pub sheet: Option<String>,
    /// The number of the sheet, from 1; null if the list is no spreadsheet.
    pub sheet_number: Option<u32>,
    /// The number of sheets, with hidden ones; null if the list is no spreadsheet.
    pub sheets: Option<u32>,
    /// The time at which the list was read, in RFC 3339 with an offset. `credits_required` is the price at this time.
    #[cfg_attr(test, schema(format = DateTime))]
    pub read_at: String,
    /// Other columns, or keys of JSON lines, that have addresses and are not checked: their names, or their numbers if they have no
    /// names. At most 10. To check one of them, upload the list again with it as `column`.
    pub other_columns: Vec<String>,
    /// The cells with several addresses, of which only the first one is checked; null if there are none, or if an earlier
    /// version of the server has read the list.
    pub cells_with_more: Option<Noted>,
}

/// What an address without a verdict waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// Its mail server has given no final answer yet: it answered "later", as with greylisting, or in a way that proves
    /// nothing. It is asked again.
    RetryLater,
    /// No mail server of its domain could be reached, or answered in time; or DNS did not answer about the domain. It is tried again.
    NoAnswer,
    /// Its site has refused as many recipients as the budget of refused recipients allows for now.
    RefusalBudget,
    /// The service reaches no resolver, or no mail server at all.
    Outage,
    /// Its first answer: it was not asked yet, or is being asked for the first time.
    Queue,
}

impl WaitCause {
    /// All causes, in the order in which a list names them.
    pub const ALL: [WaitCause; 5] = [
        WaitCause::RetryLater,
        WaitCause::NoAnswer,
        WaitCause::RefusalBudget,
        WaitCause::Outage,
        WaitCause::Queue,
    ];

    /// The cause in a few words for people: those of the dashboard, of the progress of `clean`, and of docs/api-lists.md.
    pub fn words(self) -> &'static str {
        match self {
            WaitCause::RetryLater => "no final answer yet, as with greylisting",
            WaitCause::NoAnswer => "no answer yet of the mail server or of DNS",
            WaitCause::RefusalBudget => "the budget of refused recipients is used up for now",
            WaitCause::Outage => "no resolver gives a usable answer, or no mail server at all can be reached",
            WaitCause::Queue => {
                "no server has answered yet: not asked so far, or the first try is under way, which takes up to two minutes if \
                 no server answers"
            }
        }
    }
}

/// Addresses of a running list or batch that have no verdict for the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct ListWait {
    /// What they wait for.
    pub cause: WaitCause,
    /// The number of different addresses of a list, or of submitted addresses of a batch.
    pub addresses: u64,
    /// The latest time at which the last of them is tried once more, in RFC 3339 with an offset; null if it is not known. A mail
    /// server that gives no answer takes up to two minutes for this try.
    #[cfg_attr(test, schema(format = DateTime))]
    pub until: Option<String>,
}

/// Addresses of a list that are `unverifiable` for the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct UnverifiableAddresses {
    /// The cause. The description of `UnverifiableCause` has the next step for each.
    pub cause: UnverifiableCause,
    /// The number of different addresses.
    pub addresses: u64,
}

/// A list with its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct List {
    /// The id of the list.
    pub list_id: String,
    /// The name of the list; null if it has none.
    pub name: Option<String>,
    /// The state of the list.
    pub status: ListStatus,
    /// The size in bytes; during the upload, the size that the request announced.
    pub bytes: u64,
    /// The number of bytes that are stored. An upload continues here.
    pub offset: u64,
    /// Where the addresses are; null until the list is read.
    pub found: Option<FoundAddresses>,
    /// The number of rows; null until the list is read, as all other numbers of rows and addresses.
    pub rows: Option<u64>,
    /// The number of rows with a valid address.
    pub addresses: Option<u64>,
    /// The number of different addresses.
    pub distinct: Option<u64>,
    /// The number of different addresses with a verdict.
    pub checked: u64,
    /// The share of different addresses with a verdict in whole percent, rounded down.
    pub progress: u64,
    /// The estimated price: the number of different addresses that the account had not checked within 24 hours when the server read
    /// the list.
    pub credits_required: Option<u64>,
    /// The credits that were charged so far, as the ledger has them. A part of the list, of up to 200 addresses, is charged when it
    /// ends. An `unverifiable` address is charged too, also if it was not asked about because its mail server had refused others or
    /// had not answered. Only the causes `refusal_budget` and `outage` are free.
    pub credits_charged: u64,
    /// The credits that are reserved for the parts that are being checked. What is not charged when a part ends comes back.
    pub credits_reserved: u64,
    /// How often each reason occurs among the different addresses with a verdict, so far. Reasons that do not occur are absent. The sum
    /// is `checked`.
    #[cfg_attr(test, schema(value_type = crate::openapi::tests::generator::wire::CountsSchema))]
    pub counts: Counts,
    /// Why addresses are `unverifiable`, so far, the most frequent cause first. The sum of `addresses` is less than `unverifiable` of
    /// `counts` if the cause of some is not known: for example, an earlier version has checked them.
    pub unverifiable: Vec<UnverifiableAddresses>,
    /// What the addresses without a verdict wait for. The sum of `addresses` and `checked` is `distinct`. Empty unless the list is
    /// `running`.
    pub waiting: Vec<ListWait>,
    /// Why the list is `unfit` or `paused`, or why the service cannot go on with it now, while it is `reading` or `running`. Otherwise
    /// null.
    pub problem: Option<String>,
    /// The time of creation, in RFC 3339 with an offset.
    #[cfg_attr(test, schema(format = DateTime))]
    pub created_at: String,
    /// The time at which the list and its results are deleted.
    #[cfg_attr(test, schema(format = DateTime))]
    pub expires_at: String,
}

/// A page of lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct ListPage {
    /// The lists, newest first.
    pub lists: Vec<List>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// A batch without its results. `status` and `progress` follow from the counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSummary {
    /// The id of the batch.
    pub batch_id: String,
    /// The name that the request gave it; null if it has none.
    pub name: Option<String>,
    /// Whether every row has a result.
    pub completed: bool,
    /// The number of submitted addresses, with duplicates.
    pub total: u32,
    /// The number of submitted addresses that have a result. After a cancellation these are all: an address without an answer has the
    /// result `unverifiable`.
    pub checked: u32,
    /// The time of creation, in RFC 3339 with an offset.
    pub created_at: String,
}

impl Serialize for BatchSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let progress = (u64::from(self.checked) * 100).checked_div(self.total.into()).unwrap_or(0);
        let mut fields = serializer.serialize_struct("BatchSummary", 7)?;
        fields.serialize_field("batch_id", &self.batch_id)?;
        fields.serialize_field("name", &self.name)?;
        let status = if self.completed { BatchState::Completed } else { BatchState::Processing };
        fields.serialize_field("status", &status)?;
        fields.serialize_field("progress", &progress)?;
        fields.serialize_field("total", &self.total)?;
        fields.serialize_field("checked", &self.checked)?;
        fields.serialize_field("created_at", &self.created_at)?;
        fields.end()
    }
}

/// A page of batches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct BatchPage {
    /// The batches, newest first.
    #[cfg_attr(test, schema(value_type = Vec<crate::openapi::tests::generator::wire::BatchSummarySchema>))]
    pub batches: Vec<BatchSummary>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_an_object() {
        let counts = Counts(vec![(Reason::RoleAccount, 2), (Reason::CatchAll, 1)]);
        assert_eq!(serde_json::to_string(&counts).unwrap(), r#"{"catch_all":1,"role_account":2}"#);
    }

    #[test]
    fn the_documentation_has_the_same_words_for_each_cause() {
        let docs = include_str!("../../../docs/api-lists.md");
        for cause in WaitCause::ALL {
            let value = serde_json::to_value(cause).unwrap();
            let row = format!("| `{}` | {} |", value.as_str().unwrap(), cause.words());
            assert!(docs.lines().any(|line| line.starts_with(&row)), "{row}");
        }
        for cause in UnverifiableCause::ALL {
            let (name, meaning) = (serde_json::to_value(cause).unwrap(), cause.words().meaning);
            let advice = cause.advice_of_server(crate::AFTER_REPEATS);
            let row = format!("| `{}` | {meaning} | {advice} |", name.as_str().unwrap());
            assert!(docs.lines().any(|line| line == row), "{row}");
            let is_other = |time| !cause.is_free() && advice.contains(time);
            assert!(!["minutes", "hour ", "a day", "later", "rest"].into_iter().any(is_other), "{row}");
        }
    }

    #[test]
    fn a_batch_in_a_list_has_no_results() {
        let batch = BatchSummary {
            batch_id: "bat_1".into(),
            name: None,
            completed: false,
            total: 3,
            checked: 2,
            created_at: "2027-01-31T09:00:00+00:00".into(),
        };
        assert_eq!(
            serde_json::to_string(&batch).unwrap(),
            r#"{"batch_id":"bat_1","name":null,"status":"processing","progress":66,"total":3,"checked":2,"created_at":"2027-01-31T09:00:00+00:00"}"#
        );
    }
}
