//! The record of every call of a client: in memory for the judge, and as lines of JSON in a file for people.

use crate::failure::{Context, Failure};
use crate::soak::client::{HttpReply, Lost};
use crate::soak::crowd::lock;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// What a client has asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRequest {
    /// A full check of an address.
    Check(String),
    /// A batch: its Idempotency-Key, and the number of its rows.
    Batch(String, u64),
    /// The state of a batch, by the id of the batch.
    Poll(String),
    /// A fast check with the live key.
    Fast,
    /// A check with a test key.
    TestKey,
    /// The account with its credits.
    Account,
}

impl NodeRequest {
    /// The word for tables.
    pub fn name(&self) -> &'static str {
        match self {
            NodeRequest::Check(_) => "check",
            NodeRequest::Batch(..) => "batch",
            NodeRequest::Poll(_) => "poll",
            NodeRequest::Fast => "fast check",
            NodeRequest::TestKey => "test key",
            NodeRequest::Account => "account",
        }
    }
}

/// The parts of an answer that the judge needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The status code.
    pub status: u16,
    /// There is a `Retry-After` header.
    pub retry_after: bool,
    /// The answer is a copy of an earlier one.
    pub replayed: bool,
    /// The check was a free repeat.
    pub cached: bool,
    /// The field `credits_remaining`.
    pub credits: Option<u64>,
    /// The reason of a verdict, or the code of an error.
    pub word: String,
    /// The id of a batch.
    pub batch: String,
}

/// A call with its times, in milliseconds since the start of the campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterCall {
    /// The position of the account.
    pub account: usize,
    /// The position of the node.
    pub node: usize,
    pub begin: u64,
    pub end: u64,
    pub kind: NodeRequest,
    /// The answer, or the reason why there is none.
    pub result: Result<NodeAnswer, Lost>,
}

impl ClusterCall {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&NodeAnswer> {
        self.result.as_ref().ok()
    }

    /// The answer of a call that succeeded.
    pub fn success(&self) -> Option<&NodeAnswer> {
        self.answer().filter(|answer| matches!(answer.status, 200 | 202))
    }

    /// The request may have been executed, and the client does not know it. A 503 is not certain either: a settlement that
    /// could not reach the database is tried again.
    pub fn is_unknown(&self) -> bool {
        match &self.result {
            Ok(answer) => answer.status >= 500,
            Err(Lost::NotSent) => false,
            Err(Lost::NoAnswer(_)) => true,
        }
    }

    /// A check that was answered and charged.
    pub fn is_charged_check(&self) -> bool {
        matches!(self.kind, NodeRequest::Check(_)) && self.success().is_some_and(|answer| !answer.cached)
    }

    /// A write that was acknowledged: a charged check, or a new batch.
    pub fn is_write(&self) -> bool {
        let is_new_batch = matches!(self.kind, NodeRequest::Batch(..))
            && self.success().is_some_and(|answer| !answer.replayed);
        self.is_charged_check() || is_new_batch
    }

    /// The call as a line of JSON.
    pub fn to_json(&self) -> Value {
        let (asked, rows) = match &self.kind {
            NodeRequest::Check(what) | NodeRequest::Poll(what) => (what.as_str(), None),
            NodeRequest::Batch(once, rows) => (once.as_str(), Some(rows)),
            NodeRequest::Fast | NodeRequest::TestKey | NodeRequest::Account => ("", None),
        };
        let end = match &self.result {
            Err(lost) => json!(lost.to_string()),
            Ok(answer) => json!({
                "status": answer.status, "retry_after": answer.retry_after, "replayed": answer.replayed,
                "cached": answer.cached, "credits": answer.credits, "word": answer.word, "batch": answer.batch,
            }),
        };
        json!({
            "account": self.account, "node": self.node + 1, "begin": self.begin, "end": self.end,
            "call": self.kind.name(), "asked": asked, "rows": rows, "result": end,
        })
    }
}

/// The parts of an answer that the judge needs.
pub fn answer_of(reply: &HttpReply) -> NodeAnswer {
    let body = reply.json();
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let word = if reply.status < 400 { text("reason") } else { text("error") };
    NodeAnswer {
        status: reply.status,
        retry_after: reply.header("retry-after").is_some(),
        replayed: reply.is_replay(),
        cached: body.get("cached").and_then(Value::as_bool).unwrap_or_default(),
        credits: body.get("credits_remaining").and_then(Value::as_u64),
        word,
        batch: text("batch_id"),
    }
}

/// All calls so far.
pub struct CallLog {
    start: Instant,
    kept: Mutex<(Vec<ClusterCall>, File)>,
}

impl CallLog {
    /// Starts a log with its file.
    pub fn make(path: &Path) -> Result<CallLog, Failure> {
        let file = File::create(path).at(path)?;
        Ok(CallLog { start: Instant::now(), kept: Mutex::new((Vec::new(), file)) })
    }

    /// The time in milliseconds since the start of the campaign.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a call. The line is in the file when this returns.
    pub fn add(&self, call: ClusterCall) -> Result<(), Failure> {
        let line = format!("{}\n", call.to_json());
        let mut kept = lock(&self.kept);
        kept.0.push(call);
        kept.1.write_all(line.as_bytes()).about("the log of calls")
    }

    /// The number of acknowledged writes since a time at this node, or at any node.
    pub fn writes_since(&self, since: u64, node: Option<usize>) -> usize {
        let kept = lock(&self.kept);
        // The end of the list is nearly in the order of time.
        let recent = kept.0.iter().rev().take_while(|call| call.end + 120_000 > since);
        let fits = |call: &&ClusterCall| {
            call.begin >= since && node.is_none_or(|node| call.node == node) && call.is_write()
        };
        recent.filter(fits).count()
    }

    /// A copy of all calls.
    pub fn calls(&self) -> Vec<ClusterCall> {
        lock(&self.kept).0.clone()
    }
}
