//! The selection of the counter for a request, and the refusals of scope (403), plan (403) and rate (429).
//!
//! Every request with a key counts once, whatever its answer, unless its key lacks the scope or the rate is too high. `/v1/verify`
//! has a counter for each mode. The query determines the mode, or the body if the query names none. If the mode is unknown
//! because the body is broken or cannot be read, the request counts as a full check.

use crate::router::{Feature, Limit, Route};
use crate::worker::Worker;
use api::Mode;
use api::request::{choice, mode_of};
use checks::auth::Caller;
use http_core::Method;
use http_core::Query;
use http_core::Refusal;
use store::Terms;
use store::clock;
use store::rate_limit::{RateLimited, Row, Standing};

/// The counter of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// The request is not counted.
    None,
    /// The request counts in this row.
    Row(Row),
    /// The counter is known after the body is read.
    InBody,
}

/// The counter, as far as the head determines it.
pub fn by_head(route: &Route, query: &str) -> Counter {
    match route.limit {
        Limit::Unlimited => Counter::None,
        Limit::Row(row) => Counter::Row(row),
        Limit::OfMode => match (mode_in(query), route.method) {
            (Some(mode), _) => Counter::Row(row_of(mode)),
            (None, Method::Get) => Counter::Row(Row::Verify),
            (None, _) => Counter::InBody,
        },
    }
}

/// The counter that the body determines; `None` stands for a body that could not be read.
pub fn by_body(body: Option<&[u8]>) -> Counter {
    Counter::Row(body.and_then(mode_of).map_or(Row::Verify, row_of))
}

/// The mode in a query; `None` if the query names no mode, or two, or is broken. The request is a full check then,
/// unless the body names a mode.
fn mode_in(query: &str) -> Option<Mode> {
    let query = Query::parse(query).ok()?;
    choice(["query", "mode"], query.get("mode").ok()??).ok()
}

fn row_of(mode: Mode) -> Row {
    match mode {
        Mode::Fast => Row::Fast,
        Mode::Full => Row::Verify,
    }
}

/// Counts a request and returns the state of its counter.
///
/// # Errors
///
/// 403 if the key lacks the scope of the request or the plan lacks the feature of the route, otherwise 429.
pub async fn count(
    worker: &Worker,
    route: &Route,
    caller: Option<Caller>,
    counter: Counter,
    standing: &mut Option<Standing>,
) -> Result<(), Refusal> {
    let (Some(caller), Counter::Row(row)) = (caller, counter) else { return Ok(()) };
    if let Some(needed) = route.access.scope(row).filter(|needed| !caller.scopes.has(*needed)) {
        return Err(Refusal::insufficient_scope(needed));
    }
    let terms = worker.checks.store.terms(caller.account);
    let terms = terms.ok_or_else(|| Refusal::defect().inside("a key's account is not there"))?;
    let counted =
        worker.checks.limiter.count((caller.account, caller.key), row, &terms.limits, clock::now()).await;
    *standing = Some(counted.unwrap_or_else(|limited| limited.0));
    judge(route.feature, &terms, counted)
}

/// The plan is judged first, since waiting would not help.
fn judge(
    feature: Option<Feature>,
    terms: &Terms,
    counted: Result<Standing, RateLimited>,
) -> Result<(), Refusal> {
    match feature {
        Some(Feature::Batches) if !terms.batches_allowed => Err(Refusal::no_batches()),
        Some(Feature::Batches) | None => counted.map(drop).map_err(Refusal::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router;
    use store::rate_limit::{Limits, Overrides};

    #[test]
    fn the_plan_comes_before_the_rate() {
        let standing =
            Standing { policy: "batch", quota: 30, window_s: 60, remaining: 0, now: 0, more_at: 10 };
        let check = |feature, batches_allowed, counted: Result<Standing, RateLimited>, expected| {
            let (limits, overrides) = (Limits::default(), Overrides::default());
            let judged = judge(feature, &Terms { batches_allowed, limits, overrides }, counted);
            assert_eq!(judged.map_err(|refusal| refusal.body.error.status()), expected);
        };
        let limited = Err(RateLimited(standing));
        check(Some(Feature::Batches), false, limited, Err(403));
        check(Some(Feature::Batches), false, Ok(standing), Err(403));
        check(Some(Feature::Batches), true, limited, Err(429));
        check(Some(Feature::Batches), true, Ok(standing), Ok(()));
        check(None, false, limited, Err(429));
        check(None, false, Ok(standing), Ok(()));
    }

    #[test]
    fn the_mode_picks_the_row_of_a_check() {
        let check = |method: &str, query: &str, expected: Counter| {
            let Ok((route, _)) = router::find(method, "/v1/verify") else { panic!("no route") };
            assert_eq!(by_head(route, query), expected, "{method} {query}");
        };
        let (fast, full) = (Counter::Row(Row::Fast), Counter::Row(Row::Verify));
        check("GET", "email=a&mode=fast", fast);
        check("GET", "mode=f%61st", fast);
        check("GET", "email=a&mode=full", full);
        for unknown in ["", "email=a", "mode=quick", "mode=", "mode=fast&mode=fast", "mode=fast&x=%zz"] {
            check("GET", unknown, full);
            check("POST", unknown, Counter::InBody);
        }
        check("POST", "mode=fast", fast);
        check("POST", "mode=full&detail=full", full);
        assert_eq!(by_body(Some(b"{\"mode\":\"fast\"}")), fast);
        for other in [&b"{}"[..], b"{\"mode\":\"full\"}", b"{\"mode\":\"quick\"}", b"not JSON", b""] {
            assert_eq!(by_body(Some(other)), full);
        }
        assert_eq!(by_body(None), full);
    }

    #[test]
    fn other_routes_have_one_row_or_none() {
        let check = |method: &str, path: &str, counter, feature| {
            let Ok((route, _)) = router::find(method, path) else { panic!("no route") };
            assert_eq!((by_head(route, "mode=fast"), route.feature), (counter, feature), "{method} {path}");
        };
        check("GET", "/v1/account", Counter::Row(Row::Account), None);
        check("POST", "/v1/verify/batch", Counter::Row(Row::Batch), Some(Feature::Batches));
        check("GET", "/v1/verify/batch/bat_1", Counter::Row(Row::Poll), None);
        check("GET", "/livez", Counter::None, None);
    }
}
