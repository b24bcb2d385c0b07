//! A server of the Model Context Protocol for assistants, with two tools.
//!
//! Each caller has an access token of a connection ([`crate::oauth`]). Each message gets its own answer, in JSON. There are
//! no sessions and no streams, because this server never starts an exchange.

pub mod message;
pub mod tools;

use crate::oauth::site::Site;
use api::{ErrorCode, Findings, Mode, Reason, Verification};
use checks::Checks;
use checks::full::{self, Payer};
use checks::{CheckError, convert, counters, fast};
use engine::proto::address::Address;
use http_core::Refusal;
use message::{Age, Answer, Headers, LEGACY, Message, Request};
use serde_json::{Map, Value, json};
use std::rc::Rc;
use store::KeyId;
use store::clock;
use store::credits::calendar::Iso8601;
use store::rate_limit::Row;
use store::{AttemptError, Authority, Connection};
use tools::VerifyCall;

/// How long a client can cache content that is the same for all users of a version, in milliseconds.
const KEPT_MS: u64 = 60 * 60 * 1000;

const INSTRUCTIONS: &str = "Checks e-mail addresses for deliverability. Fast checks are free. Full checks ask the \
    recipient's mail server, and their number is limited: the user sets how many this connection can make. Check only \
    addresses that the user asks about.";

/// The connection of a request, and the state for the answer.
pub struct Visit<'v> {
    /// The state of the thread.
    pub checks: &'v Rc<Checks>,
    /// The URLs of this server, for links to the page of connections.
    pub site: &'v Site,
    /// The connection, as it was when the request arrived.
    pub connection: &'v Connection,
}

/// The error of a tool, as a message for the model. The model can react to it or tell its user.
struct ToolError(String);

impl Visit<'_> {
    /// Answers one POST request.
    pub async fn answer(&self, headers: Headers<'_>, body: &[u8]) -> Answer {
        let request = match message::read(body, headers) {
            Ok(Message::Request(request)) => request,
            Ok(Message::Notification) => return Answer { status: 202, body: None },
            Err(answer) => return answer,
        };
        match (request.age, request.method.as_str()) {
            (Age::Legacy, "initialize") => request.result(handshake(&request.params)),
            (Age::Legacy, "ping") => request.result(json!({})),
            (Age::Modern, "server/discover") => request.result(discovery()),
            (_, "tools/list") => request.result(list(request.age)),
            (_, "tools/call") => self.call(&request).await,
            _ => request.unknown_method(),
        }
    }

    async fn call(&self, request: &Request) -> Answer {
        let none = Map::new();
        let arguments = match request.params.get("arguments") {
            None => &none,
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return request.invalid_params("arguments must be an object"),
        };
        let outcome = match request.params.get("name").and_then(Value::as_str) {
            Some(tools::VERIFY) => self.verify(arguments).await,
            Some(tools::ACCOUNT) => self.account(arguments).await,
            _ => return request.invalid_params("there is no such tool"),
        };
        request.result(match outcome {
            Ok(value) => {
                json!({ "content": text(&value.to_string()), "structuredContent": value, "isError": false })
            }
            Err(ToolError(why)) => json!({ "content": text(&why), "isError": true }),
        })
    }

    async fn verify(&self, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
        let call = tools::read_verify(arguments).map_err(|why| ToolError(why.into()))?;
        let Connection { allowance, .. } = self.connection;
        if call.full && *allowance == 0 {
            return Err(self.spent(0));
        }
        let mode = if call.full { Mode::Full } else { Mode::Fast };
        self.count(if call.full { Row::Verify } else { Row::Fast }).await?;
        let verification = match mode {
            Mode::Fast => fast::check(self.checks, call.email).await?,
            Mode::Full => self.full_check(call).await?,
        };
        let mode = if mode == Mode::Full { "full" } else { "fast" };
        self.checks.tally.checked(counters::CountedCheck { mode, reason: verification.reason.as_str() });
        let mut value =
            serde_json::to_value(&verification).map_err(|error| Refusal::defect().inside(error))?;
        value["full_checks_left"] = self.left().await?.into();
        Ok(value)
    }

    async fn full_check(&self, call: VerifyCall) -> Result<Verification, ToolError> {
        let VerifyCall { email, .. } = call;
        let Ok(address) = Address::parse(&email) else {
            let findings = Findings::Full { cached: false, detail: None };
            return Ok(Verification {
                email,
                reason: Reason::InvalidSyntax,
                credits_remaining: None,
                findings,
            });
        };
        let payer = Payer {
            account: self.connection.account,
            connection: Some(self.connection.id),
            by: Authority::OPERATOR,
        };
        match full::check(self.checks, payer, address).await {
            Ok(checked) => Ok(Verification {
                email,
                reason: checked.reason,
                credits_remaining: checked.credits_remaining,
                findings: Findings::Full { cached: checked.repeats_until.is_some(), detail: None },
            }),
            Err(CheckError::Attempt(AttemptError::Spent { allowance })) => Err(self.spent(allowance)),
            Err(CheckError::Attempt(_)) => Err(self.ended()),
            Err(error) => Err(error.into()),
        }
    }

    async fn account(&self, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
        tools::read_account(arguments).map_err(|why| ToolError(why.into()))?;
        self.count(Row::Account).await?;
        let store = &self.checks.store;
        let account = store.account(self.connection.account, clock::now()).await?;
        let account =
            account.ok_or_else(|| Refusal::defect().inside("a connection's account is not there"))?;
        let plan = store.plans().find(&account.plan).cloned();
        let account = convert::account(account, plan.as_ref());
        let mut value = serde_json::to_value(&account).map_err(|error| Refusal::defect().inside(error))?;
        value["connection"] = json!({
            "full_checks_allowed": self.connection.allowance,
            "full_checks_left": self.connection.left(),
            "expires_at": Iso8601(self.connection.expires_at).to_string(),
        });
        Ok(value)
    }

    /// Counts a call. A connection has the same limits as a key of its account.
    async fn count(&self, row: Row) -> Result<(), ToolError> {
        let terms = self.checks.store.terms(self.connection.account);
        let terms = terms.ok_or_else(|| Refusal::defect().inside("a connection's account is not there"))?;
        let key = KeyId(self.connection.id.0);
        let caller = (self.connection.account, key);
        self.checks.limiter.count(caller, row, &terms.limits, clock::now()).await.map_err(Refusal::from)?;
        Ok(())
    }

    /// How many full checks are left now.
    async fn left(&self) -> Result<u32, Refusal> {
        let all = self.checks.store.connections(self.connection.account, clock::now()).await?;
        Ok(all.iter().find(|found| found.id == self.connection.id).map_or(0, Connection::left))
    }

    fn spent(&self, allowance: u32) -> ToolError {
        let connections = self.site.url("/connections");
        ToolError(match allowance {
            0 => format!(
                "full_checks_not_allowed: the user allows this connection no full checks. Use mode \"fast\", which is \
                 free, or ask the user to connect again and to allow full checks ({connections})."
            ),
            _ => format!(
                "full_checks_used_up: this connection has made all of its {allowance} full checks. Use mode \"fast\", \
                 which is free, or ask the user to connect again ({connections})."
            ),
        })
    }

    fn ended(&self) -> ToolError {
        let connections = self.site.url("/connections");
        ToolError(format!("connection_ended: ask the user to connect again ({connections})."))
    }
}

/// Converts errors of the API to a form that a model can act on. Errors that only the operator can act on are logged.
impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> ToolError {
        if let Some(inside) = &refusal.inside {
            match refusal.body.error {
                ErrorCode::InternalError => tracing::error!("a tool of an assistant: {inside}"),
                _ => tracing::warn!("a tool of an assistant: {inside}"),
            }
        }
        ToolError(format!("{}: {}", refusal.body.error.as_str(), refusal.body.message))
    }
}

impl From<CheckError> for ToolError {
    fn from(error: CheckError) -> ToolError {
        Refusal::from(error).into()
    }
}

impl From<store::StoreError> for ToolError {
    fn from(error: store::StoreError) -> ToolError {
        Refusal::from(error).into()
    }
}

fn text(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// Answers `initialize` with the client's revision if it is supported, otherwise with the newest one that has a handshake.
fn handshake(params: &Map<String, Value>) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let version = LEGACY.into_iter().find(|known| Some(*known) == asked).unwrap_or(LEGACY[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": message::server_info(),
        "instructions": INSTRUCTIONS,
    })
}

fn discovery() -> Value {
    json!({
        "supportedVersions": message::versions(),
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
        "ttlMs": KEPT_MS,
        "cacheScope": "public",
    })
}

fn list(age: Age) -> Value {
    match age {
        Age::Legacy => json!({ "tools": tools::definitions() }),
        Age::Modern => json!({ "tools": tools::definitions(), "ttlMs": KEPT_MS, "cacheScope": "public" }),
    }
}
