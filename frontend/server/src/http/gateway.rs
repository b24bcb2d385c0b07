//! Requests of API gateways: the account that pays for them, and the refusals ([`gateway`](checks::gateway) has the
//! rules).

use crate::worker::Worker;
use api::{ErrorCode, NOT_AVAILABLE_ON};
use checks::auth::Caller;
use checks::gateway::{Gateway, GatewayGuest, Gateways, OFFERED_PATH};
use http_core::Refusal;
use hyper::header::{self, HeaderMap, HeaderValue};
use store::clock;
use store::id::random_bits;
use store::{AccountId, ChangeError, GatewayUser, KeyId, KeyMode, KeyScopes};

/// The gateway of a request; `None` if the request has no gateway secret.
///
/// # Errors
///
/// 403 for paths that gateways do not offer, 400 for a repeated secret, and 401 for a request that also has a key.
pub fn behind<'g>(
    path: &str,
    headers: &HeaderMap,
    gateways: &'g Gateways,
) -> Result<Option<&'g Gateway>, Refusal> {
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

/// The caller behind a gateway's request. The first request of a guest creates its account.
///
/// # Errors
///
/// 400 for fields that are missing, repeated or unclear.
pub async fn guest(gateway: &Gateway, headers: &HeaderMap, worker: &Worker) -> Result<Caller, Refusal> {
    let guest = gateway.guest(|name| values(headers, name)).map_err(Refusal::invalid)?;
    let account = account_of(gateway, guest, worker).await?;
    // A caller without a key is counted under the account's id: no key has the bits of an account.
    let key = KeyId::from_bytes(account.to_bytes());
    Ok(Caller { account, key, mode: KeyMode::Live, scopes: KeyScopes::ALL })
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
}

/// The guest's account. The store is read only for the first request, and for the first after a change of plan.
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
        // Plan and name were validated with the configuration and the headers.
        Err(other) => Err(Refusal::defect().inside(other)),
    }
}

fn not_offered(gateway: &Gateway) -> Refusal {
    let message = format!("Only single checks at {OFFERED_PATH} are offered through this gateway.");
    debug_assert!(gateway.not_offered.starts_with(NOT_AVAILABLE_ON));
    Refusal::new(ErrorCode::NotAvailableOn(gateway.not_offered), message)
}

/// The request names two callers: the gateway's user, and the owner of a key.
fn two_callers() -> Refusal {
    let message = "Send no `Authorization` through an API gateway: it says itself who calls.";
    let mut refusal = Refusal::unauthorized(ErrorCode::InvalidApiKey);
    refusal.body.message = message.into();
    refusal
}
