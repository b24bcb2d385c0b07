//! `POST /oauth/token` and `POST /oauth/revoke`: exchange of codes and refresh tokens for tokens (OAuth 2.1 3.2), and
//! revocation (RFC 7009). The store decides each request in one transaction.

use super::pkce;
use super::secret::{RefreshToken, Secret};
use super::site::SCOPE;
use super::{failed, json_error, json_reply};
use crate::call::Call;
use http_core::Query;
use http_core::Reply;
use serde_json::json;
use store::clock;
use store::{GrantError, Granted, NextTokens, Redemption, Renewal, URI_BYTES_MAX, UnixMs};

/// Exchanges a code or a refresh token for new tokens.
pub async fn exchange(call: Call) -> Reply {
    let outcome = match Fields::read(&call.body) {
        Ok(fields) => match fields.required("grant_type") {
            Ok("authorization_code") => redeem(&call, &fields).await,
            Ok("refresh_token") => renew(&call, &fields).await,
            Ok(_) => Err(json_error(
                400,
                "unsupported_grant_type",
                "grant_type must be authorization_code or refresh_token",
            )),
            Err(reply) => Err(reply),
        },
        Err(reply) => Err(reply),
    };
    outcome.unwrap_or_else(|reply| reply)
}

/// Revokes an access token. Revoking a refresh token ends the whole connection. An unknown token is not an error.
pub async fn revoke(call: Call) -> Reply {
    let ended = async {
        let fields = Fields::read(&call.body)?;
        let (token, client) = (fields.required("token")?, fields.required("client_id")?);
        let secret = match (Secret::parse_access(token), RefreshToken::parse(token)) {
            (Some(access), _) => access.hash(),
            (None, Some(refresh)) => refresh.family_hash(),
            (None, None) => return Ok(()),
        };
        match call.checks.store.give_back(secret, client.to_owned()).await {
            Ok(()) | Err(GrantError::Unknown | GrantError::Reused) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    };
    ended.await.map_or_else(|reply| reply, |()| json_reply(200, &json!({})))
}

async fn redeem(call: &Call, fields: &Fields) -> Result<Reply, Reply> {
    let code = fields.required("code")?;
    let (client, redirect_uri) = (fields.required("client_id")?, fields.required("redirect_uri")?);
    let verifier = fields.required("code_verifier")?;
    fields.check_resource(call)?;
    let (Some(code), Some(challenge)) = (Secret::parse_code(code), pkce::answer(verifier)) else {
        return Err(invalid_grant());
    };
    let refresh = RefreshToken::first().map_err(|error| failed(&error))?;
    let access = Secret::access().map_err(|error| failed(&error))?;
    let redemption = Redemption {
        code: code.hash(),
        client: client.to_owned(),
        redirect_uri: redirect_uri.to_owned(),
        challenge,
        family: refresh.family_hash(),
        next: NextTokens { access: access.hash(), refresh: refresh.hash() },
    };
    let now = clock::now();
    let granted = call.checks.store.redeem(redemption, now).await;
    answer(granted, &access, &refresh, now)
}

async fn renew(call: &Call, fields: &Fields) -> Result<Reply, Reply> {
    let (token, client) = (fields.required("refresh_token")?, fields.required("client_id")?);
    fields.check_resource(call)?;
    let before = RefreshToken::parse(token).ok_or_else(invalid_grant)?;
    let refresh = before.next().map_err(|error| failed(&error))?;
    let access = Secret::access().map_err(|error| failed(&error))?;
    let renewal = Renewal {
        family: before.family_hash(),
        refresh: before.hash(),
        client: client.to_owned(),
        next: NextTokens { access: access.hash(), refresh: refresh.hash() },
    };
    let now = clock::now();
    let granted = call.checks.store.renew(renewal, now).await;
    answer(granted, &access, &refresh, now)
}

/// The answer with new tokens (OAuth 2.1 3.2.3).
fn answer(
    granted: Result<Granted, GrantError>,
    access: &Secret,
    refresh: &RefreshToken,
    now: UnixMs,
) -> Result<Reply, Reply> {
    let granted = match granted {
        Ok(granted) => granted,
        Err(GrantError::Reused) => {
            tracing::warn!("a code or refresh token was used twice; its connection has ended");
            return Err(invalid_grant());
        }
        Err(GrantError::Unknown) => return Err(invalid_grant()),
        Err(error @ GrantError::Store(_)) => return Err(failed(&error)),
    };
    Ok(json_reply(
        200,
        &json!({
            "access_token": access.reveal(),
            "token_type": "Bearer",
            "expires_in": granted.access_expires_at.saturating_sub(now) / 1000,
            "refresh_token": refresh.reveal(),
            "scope": SCOPE,
        }),
    ))
}

fn invalid_grant() -> Reply {
    let why = "the code or token is unknown, was used before, has ended, or belongs to another client; connect again";
    json_error(400, "invalid_grant", why)
}

/// The fields of a request's body.
pub struct Fields(Query);

impl Fields {
    /// Reads the fields of a form.
    ///
    /// # Errors
    ///
    /// The answer `invalid_request`.
    pub fn read(body: &[u8]) -> Result<Fields, Reply> {
        let text = std::str::from_utf8(body).ok();
        let query = text.and_then(|text| Query::parse(text).ok());
        query.map(Fields).ok_or_else(|| json_error(400, "invalid_request", "the body cannot be read"))
    }

    fn given(&self, name: &'static str) -> Result<Option<&str>, Reply> {
        let twice = |_| json_error(400, "invalid_request", &format!("{name} is given more than once"));
        self.0.get(name).map_err(twice)
    }

    /// The value of a required field.
    ///
    /// # Errors
    ///
    /// The answer `invalid_request`, if it is missing or occurs more than once.
    pub fn required(&self, name: &'static str) -> Result<&str, Reply> {
        let missing = || json_error(400, "invalid_request", &format!("{name} is missing or too long"));
        self.given(name)?
            .filter(|value| !value.is_empty() && value.len() <= URI_BYTES_MAX)
            .ok_or_else(missing)
    }

    /// Checks the resource, if the request names one. Tokens are only for this resource (RFC 8707 2.2).
    fn check_resource(&self, call: &Call) -> Result<(), Reply> {
        match self.given("resource")? {
            Some(resource) if !call.assistants.site.is_resource(resource) => {
                let why = format!("resource must be {}", call.assistants.site.resource());
                Err(json_error(400, "invalid_target", &why))
            }
            _ => Ok(()),
        }
    }
}
