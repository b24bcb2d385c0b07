//! `/account/export` and `/account/delete`: a copy of the account's data for its user, and the deletion of the account by its user,
//! who gives the password again and types the name.

use super::form::token_field;
use super::page::{self, notice};
use super::proof;
use super::session::{SESSION_COOKIE, set_cookie};
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use checks::deletion::remove_rows;
use http_core::Reply;
use lists::numbers::grouped;
use maud::html;
use store::clock;
use store::{Account, Authority, ChangeError, StoreError, User};

/// How many steps a request takes. The periodic work of the server takes the others.
const STEPS_MAX: usize = 50;

/// `POST /account/export`: the data of the account as a file. It counts like a new key: both are rare.
pub async fn export(visit: Visit) -> Result<Reply, Problem> {
    let id = visit.signed_in()?.account;
    visit.dashboard.throttle.new_key(id, clock::now())?;
    let exported = checks::export::export(&visit.checks.store, id, clock::now()).await?;
    let exported = exported.ok_or_else(Problem::not_found)?;
    let reply = Reply::json(200, &exported)
        .map_err(|refusal| Problem::unready().inside(refusal.inside.unwrap_or_default()))?;
    Ok(reply
        .header("content-disposition", "attachment; filename=\"mailprobe-account.json\"")
        .header("cache-control", "no-store"))
}

/// `GET /account/delete`: what is deleted, and the form.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    render(&visit, None).await
}

/// `POST /account/delete`: deletes the account, and signs out.
pub async fn submit(visit: Visit) -> Result<Reply, Problem> {
    let id = visit.signed_in()?.account;
    let (store, now) = (&visit.checks.store, clock::now());
    let session = visit.signed_in()?.session;
    let Some(account) = store.account(id, now).await? else { return Ok(gone()) };
    let Some(user) = store.user(id).await? else {
        // A double click sends the form twice: the first one has deleted the user and the session meanwhile.
        if store.session(&session, now).await?.is_none() {
            return Ok(gone());
        }
        return refuse(&visit, "Set a password first, on the page Password and sessions.", 403).await;
    };
    if visit.form.text("name").trim() != account.name {
        return refuse(&visit, "The typed name is not the name of the account. Nothing was deleted.", 400)
            .await;
    }
    let attempt = visit.dashboard.throttle.in_session(session, now)?;
    let given = visit.form.text("password");
    let waiter = proof::waiter_of(&visit, id);
    let verified = proof::verify(&visit, attempt, waiter, given, Some(user.password));
    let (is_it, _counts) = verified.await?;
    if !is_it {
        return refuse(&visit, "The password is wrong. Nothing was deleted.", 403).await;
    }
    let by = Authority { password: Some(user.password), ..Authority::session(session) };
    match store.close_account(id, by, clock::now()).await {
        Ok(()) => {}
        Err(ChangeError::UnknownAccount) => return Ok(gone()),
        Err(ChangeError::Outdated) => return Err(Problem::outdated()),
        Err(ChangeError::Store(StoreError::OldFormat { .. })) => {
            let why = "A part of this server is an older version, which cannot delete accounts. Try again when the operator has \
                       finished the upgrade.";
            return refuse(&visit, why, 503).await;
        }
        Err(error) => return Err(Problem::unready().inside(format!("an account was not deleted: {error}"))),
    }
    let mut steps = 0;
    let may_continue = || {
        steps += 1;
        steps <= STEPS_MAX
    };
    // The account is closed in any case. The periodic work of the server continues.
    if let Err(error) = remove_rows(store, id, clock::now, may_continue).await {
        tracing::warn!("the rows of a deleted account could not be removed yet: {error}");
    }
    Ok(gone())
}

/// Leads to the page that says goodbye, and signs out.
fn gone() -> Reply {
    redirect::see_other("/goodbye")
        .header("set-cookie", set_cookie(SESSION_COOKIE, "", 0))
        .header("clear-site-data", "\"cache\", \"cookies\", \"storage\"")
}

/// `GET /goodbye`: what happens after a deletion.
pub async fn goodbye(_: Visit) -> Result<Reply, Problem> {
    let body = html! {
        h1 { "Deleted account" }
        p { "The account is deleted. Its keys no longer work. The server removes the data of the account from the database. This can take some minutes. Results of checks stay for at most a week, without the account. Earlier backups of the operator have the data of the account until the operator deletes these backups." }
    };
    Ok(page::page("Deleted account", None, body))
}

async fn refuse(visit: &Visit, why: &str, status: u16) -> Result<Reply, Problem> {
    Ok(page::with_status(render(visit, Some(why)).await?, status))
}

/// What the account has, in words.
async fn content(visit: &Visit, account: &Account, user: Option<&User>) -> Result<Vec<String>, Problem> {
    let (store, now) = (&visit.checks.store, clock::now());
    let keys = store.keys(account.id).await?;
    let (lists, webhooks) = (store.lists(account.id, now).await?, store.webhooks(account.id).await?);
    let connections = store.connections(account.id, now).await?;
    let active = keys.iter().filter(|key| key.ended_at(now).is_none()).count();
    let mut content = vec![
        format!("credits, which cannot be restored: {}", grouped(account.balance.available())),
        format!("API keys, which stop working at once: {active}"),
        format!("lists with their results: {}", lists.len()),
        format!("webhooks with their log: {}", webhooks.len()),
        format!("connections of assistants: {}", connections.len()),
        "all batches, the usage by day and the ledger".to_owned(),
    ];
    content.extend(user.map(|user| format!("the sign-in of {}, and all sessions", user.email)));
    Ok(content)
}

async fn render(visit: &Visit, wrong: Option<&str>) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let (store, now) = (&visit.checks.store, clock::now());
    let account = store.account(signed_in.account, now).await?.ok_or_else(Problem::not_found)?;
    let user = store.user(signed_in.account).await?;
    let content = content(visit, &account, user.as_ref()).await?;
    let body = html! {
        h1 { "Account deletion" }
        (notice(wrong))
        p { "A deletion cannot be undone. It ends all lists and batches of the account that are under way, and deletes:" }
        ul { @for part in &content { li.wrap { (part) } } }
        form method="post" action="/account/export" {
            (token_field(&signed_in.csrf))
            button.quiet type="submit" { "Export account data" }
        }
        @if user.is_none() {
            p.notice.warn { "This account has no password yet. Set one on the page " a href="/sessions" { "Password and sessions" } " first." }
        } @else {
            section.card {
                form method="post" action="/account/delete" {
                    (token_field(&signed_in.csrf))
                    label for="name" { "Name of the account: " strong.wrap { (account.name) } }
                    input #name name="name" autocomplete="off" spellcheck="false" required aria-describedby="name-hint";
                    p.hint #name-hint { "Type the name to confirm the deletion." }
                    label for="password" { "Password" }
                    input #password name="password" type="password" autocomplete="current-password" required;
                    button.danger type="submit" { "Delete account" }
                }
            }
        }
    };
    Ok(page::page_at("Account deletion", Some("/sessions"), Some(signed_in), body))
}
