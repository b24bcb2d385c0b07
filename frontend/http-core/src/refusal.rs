//! A refusal of a request: an error for the caller, and a line for the log.
//!
//! The message for the caller says what the caller can do. The line for the log says what happened in the server. Neither
//! contains an address or a key.

use api::{ErrorBody, ErrorCode, Issue};
use checks::CheckError;
use checks::engine_client::NoFinding;
use engine::Outage;
use engine::proto::limits::{REFUSALS_STEP, REFUSALS_STEPS};
use std::borrow::Cow;
use std::time::Duration;
use store::rate_limit::{RateLimited, Row, Standing, fair_use};
use store::{HoldError, KeyScope, SettleError, StoreError};

/// A refusal of a request.
#[derive(Clone)]
pub struct Refusal {
    /// The error for the caller. Boxed, because it is large and rare.
    pub body: Box<ErrorBody>,
    /// Headers of the answer.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// A line for the log only.
    pub inside: Option<String>,
}

/// Seconds until a caller can retry. A full queue drains within the time of an answer, a restart takes longer, and an outage
/// takes longest.
const RETRY_FULL_S: &str = "2";
/// The time after which a failover of the database may have ended.
const RETRY_AWAY_S: &str = "5";
/// The time after which a part of a caller's own share may be free again.
const RETRY_SHARE_S: &str = "5";
const RETRY_RESTART_S: &str = "5";
const RETRY_OUTAGE_S: &str = "30";

/// Longest wait, in seconds, for a mail server whose budget of refused recipients is used up: the time for which refusals
/// count.
const RETRY_BUDGET_MAX_S: u64 = REFUSALS_STEP.as_secs() * REFUSALS_STEPS as u64;

impl Refusal {
    /// A refusal with a code and a message only.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { body: Box::new(ErrorBody::new(code, message)), headers: Vec::new(), inside: None }
    }

    /// Adds a header to the answer.
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Refusal {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a line for the log.
    pub fn inside(mut self, what: impl ToString) -> Refusal {
        self.inside = Some(what.to_string());
        self
    }

    /// 400, with a list of all errors in the request.
    pub fn invalid(issues: Vec<Issue>) -> Refusal {
        let mut refusal = Refusal::new(ErrorCode::InvalidRequest, "The request is malformed; see detail.");
        refusal.body.detail = issues;
        refusal
    }

    /// 401: the API key is missing, unknown or revoked.
    pub fn unauthorized(code: ErrorCode) -> Refusal {
        let message = match code {
            ErrorCode::MissingApiKey => "Send your API key as `Authorization: Bearer <API_KEY>`.",
            ErrorCode::ApiKeyRevoked => "This API key was revoked. Use another key.",
            _ => "This API key is unknown. Check that you copied the whole key.",
        };
        Refusal::new(code, message).header("www-authenticate", "Bearer realm=\"mailprobe\"")
    }

    /// 401: the API key was revoked, or its time ended, after the request had begun.
    pub fn outdated_key() -> Refusal {
        let mut refusal = Refusal::unauthorized(ErrorCode::ApiKeyRevoked);
        refusal.body.message =
            "This API key was revoked or has expired during the request. Nothing was done. Use another key."
                .into();
        refusal
    }

    /// 401: the time of the API key is over. The code is that of a revoked key, since the contract has no other one.
    pub fn expired_key() -> Refusal {
        let mut refusal = Refusal::unauthorized(ErrorCode::ApiKeyRevoked);
        refusal.body.message = "This API key has expired. Use another key.".into();
        refusal
    }

    /// 403: the key is not allowed to make such requests.
    pub fn insufficient_scope(needed: KeyScope) -> Refusal {
        let webhooks = match needed {
            KeyScope::Account => " Webhooks need this scope too, whatever they report.",
            _ => "",
        };
        let message = format!(
            "This API key lacks the scope `{needed}` ({}).{webhooks} Use a key with this scope, or create one: the scopes of a \
             key cannot be changed.",
            needed.meaning()
        );
        Refusal::new(ErrorCode::InsufficientScope, message)
    }

    /// 403: the plan does not include batches and lists.
    pub fn no_batches() -> Refusal {
        let message = "Batches and lists are not included in this account's plan. Check addresses one by one, or change the plan.";
        Refusal::new(ErrorCode::PlanNotAllowed, message)
    }

    /// 404: there is nothing at the path.
    pub fn no_such_path() -> Refusal {
        Refusal::new(ErrorCode::NotFound, "There is nothing at this path.")
    }

    /// 405: `allow` lists the methods of the path.
    pub fn method(allow: String) -> Refusal {
        let message = format!("This path accepts only {allow}.");
        Refusal::new(ErrorCode::MethodNotAllowed, message).header("allow", allow)
    }

    /// 500: an internal error.
    pub fn defect() -> Refusal {
        Refusal::new(ErrorCode::InternalError, "Internal error. The request id helps to find its cause.")
    }

    /// 503: mail servers cannot be asked now.
    pub fn outage() -> Refusal {
        let message =
            "The service cannot reach DNS or mail servers now; nothing was charged and a retry is safe.";
        Refusal::new(ErrorCode::ProviderUnavailable, message).header("retry-after", RETRY_OUTAGE_S)
    }

    /// 503: too many checks at once.
    pub fn full() -> Refusal {
        let message = "Too many checks are in progress; nothing was charged and a retry is safe.";
        Refusal::new(ErrorCode::TemporarilyUnavailable, message).header("retry-after", RETRY_FULL_S)
    }

    /// 503: the budget of refused recipients of the recipient's mail server is used up. `after` is the time until it has room.
    /// `refuses_us`: the refusals were about us, and not about the recipients.
    pub fn over_budget(after: Duration, refuses_us: bool) -> Refusal {
        let wait =
            after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).clamp(1, RETRY_BUDGET_MAX_S);
        let why = match refuses_us {
            true => "refuses this service, for example because of a blocklist",
            false => "refused many addresses recently",
        };
        let message = format!(
            "The recipient's mail server {why}, so it gets no more questions for now; nothing was charged and a retry after {wait} s \
             is safe."
        );
        Refusal::new(ErrorCode::TemporarilyUnavailable, message).header("retry-after", wait.to_string())
    }

    /// 503: it is not known whether the request was processed. A charged check has a result, so its repeat is free. A repeated
    /// batch is a new batch, unless an idempotency key identifies it.
    pub fn unknown() -> Refusal {
        let message = "It is not known whether this request was processed. If you send it again with the same \
                       Idempotency-Key, it is charged once. You can also send a check without a key again. Before you \
                       send a batch without a key again, look at the credits of the account.";
        Refusal::new(ErrorCode::TemporarilyUnavailable, message).header("retry-after", RETRY_RESTART_S)
    }

    /// 503: the database of the nodes cannot be reached, as during its failover.
    pub fn away() -> Refusal {
        let message = "The service cannot reach its database; nothing was charged twice and a retry is safe.";
        Refusal::new(ErrorCode::TemporarilyUnavailable, message).header("retry-after", RETRY_AWAY_S)
    }

    /// 503: the server starts, drains, or cannot write.
    pub fn unready() -> Refusal {
        let message = "The service cannot process this request now; nothing was charged and a retry is safe.";
        Refusal::new(ErrorCode::TemporarilyUnavailable, message).header("retry-after", RETRY_RESTART_S)
    }
}

/// The numbers for the headers about rate limits.
pub struct LimitNumbers {
    name: &'static str,
    window_s: u64,
    wait_s: u64,
    /// `X-RateLimit-Limit`.
    pub quota: u32,
    /// `X-RateLimit-Remaining`.
    pub remaining: u32,
    /// `X-RateLimit-Reset`: seconds since 1970, as most servers send it. The other headers count from now.
    pub reset_s: u64,
}

impl LimitNumbers {
    /// The numbers of a counter.
    pub fn of(standing: &Standing) -> LimitNumbers {
        let Standing { policy: name, quota, window_s, remaining, more_at, .. } = *standing;
        let (wait_s, reset_s) = (standing.wait_s(), more_at.div_ceil(1000));
        LimitNumbers { name, window_s, wait_s, quota, remaining, reset_s }
    }

    /// The value of the header `RateLimit-Policy`.
    pub fn policy(&self) -> String {
        named(self.name, [(";q=", self.quota.into()), (";w=", self.window_s)])
    }

    /// The value of the header `RateLimit`.
    pub fn standing(&self) -> String {
        named(self.name, [(";r=", self.remaining.into()), (";t=", self.wait_s)])
    }

    fn headers(&self) -> [(&'static str, Cow<'static, str>); 5] {
        [
            ("ratelimit-policy", self.policy().into()),
            ("ratelimit", self.standing().into()),
            ("x-ratelimit-limit", self.quota.to_string().into()),
            ("x-ratelimit-remaining", self.remaining.to_string().into()),
            ("x-ratelimit-reset", self.reset_s.to_string().into()),
        ]
    }
}

/// A string with parameters, in the form of structured fields (RFC 9651).
fn named(name: &str, parameters: [(&str, u64); 2]) -> String {
    let mut text = String::with_capacity(48);
    text.extend(["\"", name, "\""]);
    for (parameter, value) in parameters {
        text.push_str(parameter);
        text.push_str(itoa::Buffer::new().format(value));
    }
    text
}

impl From<RateLimited> for Refusal {
    fn from(RateLimited(standing): RateLimited) -> Refusal {
        let Standing { policy, quota, window_s, .. } = standing;
        let wait = standing.wait_s();
        let message = if policy == fair_use::POLICY {
            format!("Fair use of full checks is used up for this account. Wait {wait} s.")
        } else if policy == Row::FastAccount.as_str() {
            format!(
                "The keys of this account have used its {quota} fast checks in {window_s} s. Wait {wait} s."
            )
        } else {
            format!("This key has used all {quota} requests of this kind in {window_s} s. Wait {wait} s.")
        };
        let mut refusal = Refusal::new(ErrorCode::RateLimited, message);
        refusal.headers.extend(LimitNumbers::of(&standing).headers());
        refusal.header("retry-after", wait.to_string())
    }
}

impl From<CheckError> for Refusal {
    fn from(error: CheckError) -> Refusal {
        match error {
            CheckError::Store(error) => error.into(),
            CheckError::Hold(error) => error.into(),
            CheckError::RateLimited(limited) => limited.into(),
            CheckError::NoFinding(none) => none.into(),
            CheckError::TimedOut => Refusal::full().inside("the engine did not answer in time"),
            CheckError::NotSettled { hold, error } => {
                let refusal = match &error {
                    SettleError::Store(StoreError::Unknown(_)) => Refusal::unknown(),
                    SettleError::Store(StoreError::Away(_)) => Refusal::away(),
                    _ => Refusal::unready(),
                };
                refusal.inside(format!("hold {hold} was not settled: {error}"))
            }
            CheckError::NoRandomBits(error) => Refusal::unready().inside(error),
            CheckError::Defect(what) => Refusal::defect().inside(what),
            // A check for a connection reports this error in its own words, before this conversion.
            CheckError::Attempt(error) => Refusal::defect().inside(error),
        }
    }
}

impl From<NoFinding> for Refusal {
    fn from(none: NoFinding) -> Refusal {
        match none {
            NoFinding::Outage(Outage::Unavailable) => Refusal::outage(),
            NoFinding::Refused(engine::Refusal::Full) | NoFinding::Outage(Outage::SiteFull) => {
                Refusal::full()
            }
            NoFinding::Outage(Outage::OverBudget { after, refused_us }) => {
                Refusal::over_budget(after, refused_us.is_some())
            }
            NoFinding::Outage(Outage::Stopping) | NoFinding::Refused(engine::Refusal::Stopping) => {
                Refusal::unready()
            }
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match error {
            StoreError::Busy => Refusal::full().inside("the store's queue is full"),
            StoreError::OverShare(share) => {
                Refusal::new(ErrorCode::RateLimited, share).header("retry-after", RETRY_SHARE_S)
            }
            StoreError::Outdated => Refusal::outdated_key(),
            StoreError::OverQuota(share) => Refusal::new(ErrorCode::RequestTooLarge, share),
            StoreError::Away(_) => Refusal::away().inside(error),
            StoreError::Unknown(_) => Refusal::unknown().inside(error),
            StoreError::Closed
            | StoreError::NotDone(_)
            | StoreError::Failed(_)
            | StoreError::OldFormat { .. } => Refusal::unready().inside(error),
        }
    }
}

impl From<HoldError> for Refusal {
    fn from(error: HoldError) -> Refusal {
        let (code, message, left) = match error {
            HoldError::Insufficient { available } => {
                (ErrorCode::InsufficientCredits, "No credits are left.".to_owned(), available)
            }
            HoldError::Inactive { status, available } => {
                (ErrorCode::SubscriptionInactive, status.refusal(), available)
            }
            HoldError::Store(error) => return error.into(),
            // The account was deleted after this request was admitted, or another node deleted it just now.
            HoldError::UnknownAccount => return Refusal::unauthorized(ErrorCode::ApiKeyRevoked),
            // The server chose the id and the amount. So each of these errors is a defect.
            HoldError::Exists | HoldError::TooOld | HoldError::BadAmount => {
                return Refusal::defect().inside(error);
            }
        };
        let mut refusal = Refusal::new(code, message);
        refusal.body.credits_remaining = Some(left);
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_over_a_budget_waits_for_whole_seconds_within_bounds() {
        for (after, wait) in [
            (Duration::ZERO, "1"),
            (Duration::from_millis(90_500), "91"),
            (Duration::from_secs(2_400), "2400"),
            (Duration::MAX, "3900"),
        ] {
            let refusal = Refusal::over_budget(after, false);
            assert_eq!(refusal.body.error, ErrorCode::TemporarilyUnavailable);
            assert_eq!(refusal.headers, [("retry-after", Cow::Borrowed(wait))]);
            assert!(refusal.body.message.contains(&format!("after {wait} s")), "{}", refusal.body.message);
            let blocked = Refusal::over_budget(after, true).body.message;
            assert!(blocked.contains("blocklist") && !blocked.contains("many addresses"), "{blocked}");
        }
    }
}
