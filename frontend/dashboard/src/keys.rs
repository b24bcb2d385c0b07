//! `/keys`: the account's API keys. A key is shown once, in the answer to the form that created it.
//!
//! The id of a new key is derived from a value in the form. So a form that is sent twice creates one key. The caller cannot
//! choose the id: rate limits count accounts and connections under ids with the bits of their own ids.

use super::form::{Form, token_field};
use super::page::{self, notice, time};
use super::session::SignedIn;
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use checks::auth::ApiKey;
use checks::throttle::TooOften;
use http_core::Reply;
use maud::{Markup, html};
use ring::hmac;
use store::clock;
use store::credits::calendar::DAY_MS;
use store::id::{Uuid7, random_bits};
use store::{
    Authority, ChangeError, KEYS_MAX, KeyId, KeyInfo, KeyMode, KeyScope, KeyScopes, NewKey, StoreError,
    TokenHash, UnixMs,
};

/// Most revoked and expired keys that the page shows. It shows the newest ones.
const ENDED_SHOWN_MAX: usize = 100;
/// The lives of a key that the form offers, in days.
const LIVES_DAYS: [u64; 5] = [7, 30, 90, 180, 365];
/// Longest label, in characters.
const LABEL_CHARS_MAX: usize = 100;

/// `GET /keys`: the account's keys and the form for a new one.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    render(&visit, None, None).await
}

/// `POST /keys`: creates a key and shows it once.
pub async fn create(visit: Visit) -> Result<Reply, Problem> {
    let account = visit.signed_in()?.account;
    let label = visit.form.text("label").trim().to_owned();
    let mode = match visit.form.text("mode") {
        "live" => KeyMode::Live,
        "test" => KeyMode::Test,
        _ => return refuse(&visit, "Choose the kind of the key: live or test.", 400).await,
    };
    if label.chars().count() > LABEL_CHARS_MAX {
        return refuse(&visit, "A label can have at most 100 characters.", 400).await;
    }
    let (scopes, expires_at) = match rights(&visit.form, clock::now()) {
        Ok(rights) => rights,
        Err(why) => return refuse(&visit, why, 400).await,
    };
    let Ok(nonce) = visit.form.text("nonce").parse::<KeyId>() else { return Err(Problem::not_found()) };
    let id = KeyId(id_of(&visit.signed_in()?.session, nonce.0, clock::now()));
    if let Err(TooOften { wait_s }) = visit.dashboard.throttle.new_key(account, clock::now()) {
        let problem = Problem::too_often(wait_s);
        return Ok(refuse(&visit, problem.message(), problem.status())
            .await?
            .header("retry-after", wait_s.to_string()));
    }
    let key = ApiKey::generate(mode).map_err(|error| Problem::unready().inside(error))?;
    let (hash, last4) = (key.hash(), key.last4());
    let new = NewKey { id, account, mode, hash, last4, label, scopes, expires_at };
    let by = Authority::session(visit.signed_in()?.session);
    match visit.checks.store.create_key(new, by, clock::now()).await {
        Ok(info) => render(&visit, None, Some((&key, &info))).await,
        Err(ChangeError::Exists) => {
            refuse(
                &visit,
                "This key already exists and cannot be shown again. Revoke it and create another key.",
                409,
            )
            .await
        }
        Err(ChangeError::Outdated | ChangeError::UnknownAccount) => Err(Problem::outdated()),
        Err(ChangeError::TooManyKeys) => {
            let why = format!("The account has {KEYS_MAX} valid keys. Revoke a key that you do not use.");
            refuse(&visit, &why, 409).await
        }
        Err(ChangeError::BadText) => refuse(&visit, "A label cannot contain control characters.", 400).await,
        Err(ChangeError::Store(StoreError::OldFormat { .. })) => {
            let why = "A part of this server is an older version, which knows no scopes and no expiry. Create the key without \
                       them, or try again when the operator has finished the upgrade.";
            refuse(&visit, why, 503).await
        }
        Err(error) => Err(Problem::unready().inside(format!("a key was not made: {error}"))),
    }
}

/// The scopes and the expiry of a form. The page of an older version has no fields for them.
fn rights(form: &Form, now: UnixMs) -> Result<(KeyScopes, Option<UnixMs>), &'static str> {
    let days =
        form.get("expires").ok_or("This page is from an older version of the server. Load it again.")?;
    let chosen = KeyScope::ALL.into_iter().filter(|scope| form.get(scope.as_str()).is_some());
    let scopes = KeyScopes::of(chosen).ok_or("Choose at least one scope.")?;
    if days.is_empty() {
        return Ok((scopes, None));
    }
    let known = LIVES_DAYS.into_iter().find(|known| known.to_string() == days);
    let days = known.ok_or("Choose one of the times after which the key expires.")?;
    Ok((scopes, Some(now.saturating_add(days * DAY_MS))))
}

/// `POST /keys/revoke`: revokes a key of the account.
pub async fn revoke(visit: Visit) -> Result<Reply, Problem> {
    let account = visit.signed_in()?.account;
    let id: KeyId = visit.form.text("id").parse().map_err(|_| Problem::not_found())?;
    let keys = visit.checks.store.keys(account).await?;
    // A key of another account is not in the list, so it is not found.
    keys.iter().find(|key| key.id == id).ok_or_else(Problem::not_found)?;
    let revoked = visit.checks.store.revoke_key(id, clock::now()).await;
    revoked.map_err(|error| Problem::unready().inside(format!("a key was not revoked: {error}")))?;
    Ok(redirect::see_other("/keys"))
}

/// The id of what this form of this session creates. Its time is the time of the form, so the same form gives the same id again.
pub fn id_of(session: &TokenHash, nonce: Uuid7, now: UnixMs) -> Uuid7 {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, session), &nonce.to_bytes());
    let bits = tag.as_ref().iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    Uuid7::new(nonce.made_at().min(now), bits)
}

async fn refuse(visit: &Visit, why: &str, status: u16) -> Result<Reply, Problem> {
    Ok(page::with_status(render(visit, Some(why), None).await?, status))
}

async fn render(
    visit: &Visit,
    wrong: Option<&str>,
    made: Option<(&ApiKey, &KeyInfo)>,
) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let mut keys = visit.checks.store.keys(signed_in.account).await?;
    keys.reverse();
    let now = clock::now();
    let (in_force, ended): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.ended_at(now).is_none());
    let bits = random_bits().map_err(|error| Problem::unready().inside(error))?;
    let body = html! {
        h1 { "API keys" }
        (notice(wrong))
        @if let Some((key, info)) = made { (shown_once(key, info)) }
        @if in_force.is_empty() {
            p.empty { "There are no active keys. Create a key below. Your programs need a key to call the API." }
        } @else {
            (table("Active keys", "Revoke", html! { @for key in in_force { (row(key, Some(signed_in), now)) } }))
        }
        (form(signed_in, KeyId::new(now, bits), wrong.map(|_| &visit.form)))
        @if !ended.is_empty() {
            details {
                summary { "Revoked and expired keys (" (ended.len()) ")" }
                (table("Revoked and expired keys", "Ended", html! {
                    @for key in ended.iter().take(ENDED_SHOWN_MAX) { (row(key, None, now)) }
                }))
                @if ended.len() > ENDED_SHOWN_MAX { p.soft { "Only the newest " (ENDED_SHOWN_MAX) " keys are shown." } }
            }
        }
    };
    Ok(page::page_at("API keys", Some("/keys"), Some(signed_in), body))
}

/// A table of keys; `last` is the head of its last column.
fn table(label: &str, last: &str, rows: Markup) -> Markup {
    let heads = ["Label", "Kind", "Ends in", "Created", "Last used", "Scopes", "Expires", last];
    page::table(label, &heads, rows)
}

fn shown_once(key: &ApiKey, info: &KeyInfo) -> Markup {
    html! {
        section.card aria-labelledby="new-key-title" {
            h2 #new-key-title { "Your new " (kind(info.mode)) " key" }
            p { "Copy the key now and keep it on your server. The key cannot be shown again." }
            label for="new-key" { "API key" }
            input.key #new-key type="text" readonly value=(key.reveal()) autocomplete="off" spellcheck="false";
            button type="button" data-copy="new-key" hidden { "Copy" }
        }
    }
}

/// The form for a new key, with the values of a form that was refused.
fn form(signed_in: &SignedIn, nonce: KeyId, sent: Option<&Form>) -> Markup {
    let text = |name| sent.map_or("", |form| form.text(name));
    let is_test = text("mode") == "test";
    html! {
        section.card {
            h2 { "New key" }
            form method="post" action="/keys" {
                (token_field(&signed_in.csrf))
                input type="hidden" name="nonce" value=(nonce);
                label for="label" { "Label" }
                input #label name="label" maxlength=(LABEL_CHARS_MAX) value=(text("label")) autocomplete="off" aria-describedby="label-hint";
                p.hint #label-hint { "The purpose of the key, for example \u{201c}shop, production\u{201d}." }
                fieldset {
                    legend { "Kind" }
                    label.choice { input type="radio" name="mode" value="live" checked[!is_test]; span { "Live: checks addresses and uses credits" } }
                    label.choice { input type="radio" name="mode" value="test" checked[is_test]; span { "Test: returns made-up answers, is free and asks no mail server" } }
                }
                fieldset {
                    legend { "Scopes" }
                    p.hint { "A request outside of the scopes of its key is refused. The scopes cannot be changed later." }
                    @for scope in KeyScope::ALL {
                        label.choice { input type="checkbox" name=(scope.as_str()) value="1" checked[sent.is_none_or(|form| form.get(scope.as_str()).is_some())]; span { code { (scope) } ": " (scope.meaning()) } }
                    }
                }
                label for="expires" { "Expiry" }
                select #expires name="expires" {
                    option value="" { "The key does not expire" }
                    @for days in LIVES_DAYS { option value=(days) selected[text("expires") == days.to_string()] { "After " (days) " days" } }
                }
                button type="submit" { "Create key" }
            }
        }
    }
}

fn row(key: &KeyInfo, signed_in: Option<&SignedIn>, now: UnixMs) -> Markup {
    html! {
        tr {
            td.wrap data-label="Label" { @if key.label.is_empty() { span.soft { "none" } } @else { (key.label) } }
            td data-label="Kind" { (kind(key.mode)) }
            td.mono.whole data-label="Ends in" { "…" (key.last4) }
            td data-label="Created" { (time(key.created_at)) }
            td data-label="Last used" { @match key.last_used_at { Some(at) => (time(at)), None => span.soft { "never" } } }
            td.wrap data-label="Scopes" { (key.scopes.to_string().replace(',', ", ")) }
            td data-label="Expires" { @match key.expires_at { Some(at) => (time(at)), None => span.soft { "never" } } }
            td data-label=[signed_in.is_none().then_some("Ended")] {
                @match (signed_in, key.ended_at(now)) {
                    (Some(signed_in), _) => {
                        details.confirm {
                            summary aria-label={ "Revoke the key that ends in " (key.last4) } { "Revoke" }
                            form method="post" action="/keys/revoke" {
                                (token_field(&signed_in.csrf))
                                input type="hidden" name="id" value=(key.id);
                                p.soft { "Programs that use this key are refused at once." }
                                button.small.danger type="submit" { "Revoke key" }
                            }
                        }
                    }
                    (None, Some(at)) => { @if key.expires_at == Some(at) { "expired " } @else { "revoked " } (time(at)) }
                    (None, None) => {}
                }
            }
        }
    }
}

fn kind(mode: KeyMode) -> &'static str {
    match mode {
        KeyMode::Live => "live",
        KeyMode::Test => "test",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_chooses_scopes_and_expiry() {
        let some = |scopes: &[KeyScope]| KeyScopes::of(scopes.iter().copied()).unwrap();
        let cases = [
            ("label=x&fast=1", Err(())),
            ("expires=&fast=1&full=1&batches=1&lists=1&account=1", Ok((KeyScopes::ALL, None))),
            ("expires=&fast=1&lists=1", Ok((some(&[KeyScope::Fast, KeyScope::Lists]), None))),
            ("expires=30&full=1", Ok((some(&[KeyScope::Full]), Some(30 * DAY_MS + 5)))),
            ("expires=", Err(())),
            ("expires=31&full=1", Err(())),
            ("expires=-1&full=1", Err(())),
        ];
        for (form, expected) in cases {
            let form = Form::parse(form.as_bytes()).unwrap();
            assert_eq!(rights(&form, 5).map_err(drop), expected);
        }
    }

    #[test]
    fn an_id_is_the_forms_and_not_the_callers() {
        const NOW: UnixMs = 1_800_000_000_000;
        let (session, nonce) = ([1; 32], Uuid7::new(NOW - 1, 7));
        let id = id_of(&session, nonce, NOW);
        assert!(id != nonce, "it may have the bits of an account");
        assert_eq!(id.made_at(), NOW - 1);
        assert!(id_of(&session, nonce, NOW + 60_000) == id, "the same form makes the same id");
        let others = [
            id_of(&[2; 32], nonce, NOW),
            id_of(&session, Uuid7::new(NOW - 1, 8), NOW),
            id_of(&session, Uuid7::new(NOW - 2, 7), NOW),
        ];
        assert!(!others.contains(&id));
        assert_eq!(
            id_of(&session, Uuid7::from_bytes([0xff; 16]), NOW).made_at(),
            NOW,
            "none is of a time to come"
        );
    }
}
