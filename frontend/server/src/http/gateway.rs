//! Requests of API gateways: who is billed for them, and what is refused ([`gateway`](checks::gateway) judges).

use crate::worker::Worker;
use api::{ErrorCode, NOT_AVAILABLE_ON};
use checks::auth::Caller;
use checks::gateway::{Gateway, GatewayGuest, OFFERED_PATH};
use http_core::Refusal;
use hyper::header::{self, HeaderMap, HeaderValue};
use store::clock;
use store::id::random_bits;
use store::{AccountId, ChangeError, GatewayUser, KeyId, KeyMode};

/// The gateway behind a request; none where no secret is shown.
///
/// # Errors
/// 403 for what gateways do not offer, whatever else is wrong, and what is not said once and clearly.
pub fn behind<'w>(
    path: &str,
    headers: &HeaderMap,
    worker: &'w Worker,
) -> Result<Option<&'w Gateway>, Refusal> {
    let gateways = &worker.shared.gateways;
    let (gateway, doubled) = match gateways.behind(|name| values(headers, name)) {
        Ok(None) => return Ok(None),
        Ok(Some(gateway)) => (gateway, None),
        Err((gateway, issue)) => (gateway, Some(issue)),
    };
    if path != OFFERED_PATH {
        return Err(not_offered(gateway));
    }
    if let Some(issue) = doubled {
        return Err(Refusal::invalid(vec![issue]));
    }
    if headers.contains_key(header::AUTHORIZATION) {
        return Err(two_callers());
    }
    Ok(Some(gateway))
}

/// For whom the gateway's request is. Their account is opened by it, if it is their first.
///
/// # Errors
/// 400 for what is not said once and clearly.
pub async fn guest(gateway: &Gateway, headers: &HeaderMap, worker: &Worker) -> Result<Caller, Refusal> {
    let guest = gateway.guest(|name| values(headers, name)).map_err(Refusal::invalid)?;
    let account = account_of(gateway, guest, worker).await?;
    // Whoever has no key is counted under the account's id: no key has the bits of an account.
    Ok(Caller { account, key: KeyId::from_bytes(account.to_bytes()), mode: KeyMode::Live })
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
}

/// The guest's account. From memory, but for the first request and the first after a change of plan.
async fn account_of(
    gateway: &Gateway,
    guest: GatewayGuest<'_>,
    worker: &Worker,
) -> Result<AccountId, Refusal> {
    let GatewayGuest { user, plan } = guest;
    if let Some(account) = worker.checks.store.gateway_account(&gateway.name, &user, plan) {
        return Ok(account);
    }
    let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
    let now = clock::now();
    let user = GatewayUser {
        id: AccountId::new(now, bits),
        gateway: gateway.name.clone(),
        user,
        plan: plan.to_owned(),
        users_max: gateway.users_max,
    };
    match worker.checks.store.open_gateway_account(user, now).await {
        Ok(account) => Ok(account.id),
        Err(ChangeError::TooMany) => {
            let inside = format!("the gateway {} has as many users as its users_max", gateway.name);
            Err(Refusal::unready().inside(inside))
        }
        Err(ChangeError::Store(error)) => Err(error.into()),
        // The plan and the name were looked at when the configuration and the headers were.
        Err(other) => Err(Refusal::defect().inside(other)),
    }
}

fn not_offered(gateway: &Gateway) -> Refusal {
    let message = format!("Only single checks at {OFFERED_PATH} are offered through this gateway.");
    debug_assert!(gateway.not_offered.starts_with(NOT_AVAILABLE_ON));
    Refusal::new(ErrorCode::NotAvailableOn(gateway.not_offered), message)
}

/// The gateway says that its user calls, and the key that somebody else does.
fn two_callers() -> Refusal {
    let message = "Send no `Authorization` through an API gateway: it says itself who calls.";
    let mut refusal = Refusal::unauthorized(ErrorCode::InvalidApiKey);
    refusal.body.message = message.into();
    refusal
}
