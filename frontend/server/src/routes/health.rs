//! `/livez`: the process answers. `/readyz`: the server takes requests. It is 503 while the server starts or drains,
//! and after the store has stopped writing, until a restart. Both answer for the server itself: `faults` names the faults of
//! the machine that make checks fail, and does not change the status.

use crate::router::Call;
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
}

/// `GET /livez`: 200 whenever the process answers.
pub async fn live(_call: Call) -> Result<Reply, Refusal> {
    Reply::json(200, &Health { status: "ok", faults: &[] })
}

/// `GET /readyz`: 200 if the server takes requests, otherwise 503.
pub async fn ready(call: Call) -> Result<Reply, Refusal> {
    let worker = &call.worker;
    readiness(worker.status.phase(), worker.checks.store.readiness(), &worker.shared.faults.names())
}

fn readiness(phase: Phase, store: Result<(), StoreError>, faults: &[&'static str]) -> Result<Reply, Refusal> {
    match phase {
        Phase::Ready => store?,
        Phase::Starting | Phase::Draining => return Err(Refusal::unready()),
    }
    Reply::json(200, &Health { status: "ok", faults })
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
            let status = readiness(phase, store, &["resolver"])
                .map_or_else(|refusal| refusal.body.error.status(), |reply| reply.status);
            assert_eq!(status, expected, "{phase:?}");
        }
    }

    #[test]
    fn faults_are_named() {
        for (faults, expected) in [
            (&[][..], r#"{"status":"ok"}"#),
            (&["resolver", "data folder"], r#"{"status":"ok","faults":["resolver","data folder"]}"#),
        ] {
            let reply = readiness(Phase::Ready, Ok(()), faults).ok().unwrap();
            assert_eq!(String::from_utf8(reply.body).unwrap(), expected);
        }
    }
}
