//! `/livez`: the process answers. `/readyz`: the server takes requests. It is 503 while the server starts or drains,
//! and after the store has stopped writing, until a restart. Both answer for the server itself: `faults` names the faults of
//! the machine that make checks fail, `used_up` what accounts share and has nothing left. Neither changes the status.

use crate::call::Call;
use crate::status::Phase;
use http_core::Refusal;
use http_core::Reply;
use serde::Serialize;
use store::StoreError;

#[derive(Serialize)]
struct Health<'f> {
    status: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faults: &'f [&'static str],
    /// Shared things of which nothing is left for anybody.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    used_up: &'f [&'static str],
}

/// `GET /livez`: 200 whenever the process answers.
pub async fn live(_call: Call) -> Result<Reply, Refusal> {
    Reply::json(200, &Health { status: "ok", faults: &[], used_up: &[] })
}

/// `GET /readyz`: 200 if the server takes requests, otherwise 503.
pub async fn ready(call: Call) -> Result<Reply, Refusal> {
    let worker = &call.worker;
    let shares = worker.shared.shares.iter().filter(|share| share.is_used_up());
    let used_up: Vec<&'static str> = shares.map(|share| share.name).collect();
    readiness(worker.status.phase(), worker.checks.store.readiness(), &worker.shared.faults.names(), &used_up)
}

fn readiness(
    phase: Phase,
    store: Result<(), StoreError>,
    faults: &[&'static str],
    used_up: &[&'static str],
) -> Result<Reply, Refusal> {
    match phase {
        Phase::Ready => store?,
        Phase::Starting | Phase::Draining => return Err(Refusal::unready()),
    }
    Reply::json(200, &Health { status: "ok", faults, used_up })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_needs_a_phase_and_a_store() {
        let broken = || Err(StoreError::Failed("no space".into()));
        for (phase, store, expected) in [
            (Phase::Ready, Ok(()), 200),
            (Phase::Ready, broken(), 503),
            (Phase::Ready, Err(StoreError::Closed), 503),
            (Phase::Starting, Ok(()), 503),
            (Phase::Draining, broken(), 503),
        ] {
            let status = readiness(phase, store, &["resolver"], &["downloads"])
                .map_or_else(|refusal| refusal.body.error.status(), |reply| reply.status);
            assert_eq!(status, expected, "{phase:?}");
        }
    }

    #[test]
    fn faults_and_what_is_used_up_are_named() {
        for (faults, used_up, expected) in [
            (&[][..], &[][..], r#"{"status":"ok"}"#),
            (&["resolver", "data folder"], &[], r#"{"status":"ok","faults":["resolver","data folder"]}"#),
            (&[], &["passwords"], r#"{"status":"ok","used_up":["passwords"]}"#),
        ] {
            let reply = readiness(Phase::Ready, Ok(()), faults, used_up).ok().unwrap();
            assert_eq!(String::from_utf8(reply.body).unwrap(), expected);
        }
    }
}
