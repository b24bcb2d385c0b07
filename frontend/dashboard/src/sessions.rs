//! `/sessions`: the sessions of the account's user. The user can end them and set the password.

use super::form::token_field;
use super::page::notice;
use super::session::SignedIn;
use super::signin::EMAIL_BYTES_MAX;
use super::{page, password, proof};
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use data_encoding::HEXLOWER;
use engine::proto::address::Address;
use http_core::Reply;
use maud::{Markup, html};
use store::clock;
use store::{Authority, ChangeError, Session, User, UserError};

/// `GET /sessions`: the open sessions, and the form for a new password.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let ended = visit.query("ended").and_then(|ended| ended.parse::<u32>().ok());
    let notice = ended.map(|ended| match ended {
        1 => "1 other session ended.".to_owned(),
        _ => format!("{ended} other sessions ended."),
    });
    render(&visit, notice, None).await
}

/// `POST /sessions/end`: ends one session. It can be the session of this request.
pub async fn end(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let named = visit.form.text("session");
    let sessions = visit.checks.store.sessions(signed_in.account, clock::now()).await?;
    let session = sessions.iter().find(|session| HEXLOWER.encode(&session.hash) == named);
    // A session of another account is not in the list, so it is not found.
    let session = session.ok_or_else(Problem::not_found)?;
    visit.checks.store.end_session(signed_in.account, session.hash).await?;
    Ok(redirect::see_other("/sessions"))
}

/// `POST /sessions/end-others`: ends all sessions except the session of this request.
pub async fn end_others(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let ended = visit.checks.store.end_sessions(signed_in.account, Some(signed_in.session)).await?;
    Ok(redirect::see_other(format!("/sessions?ended={ended}")))
}

/// `POST /sessions/password`: sets the password and ends every other session. A user that came by a link and has no
/// password yet gives an address instead of the current password.
pub async fn set_password(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?.clone();
    let (store, now) = (&visit.checks.store, clock::now());
    let new = visit.form.text("new-password");
    let user = store.user(signed_in.account).await?;
    let email = match &user {
        Some(user) => user.email.as_str(),
        None => visit.form.text("email").trim(),
    };
    if user.is_none() && (email.len() > EMAIL_BYTES_MAX || Address::parse(email).is_err()) {
        return refuse(&visit, "Enter a valid e-mail address.", 400).await;
    }
    if let Err(why) = password::check(new, email) {
        return refuse(&visit, &why, 400).await;
    }
    let mut attempt = visit.dashboard.throttle.in_session(signed_in.session, now)?;
    let waiter = proof::waiter_of(&visit, signed_in.account);
    if let Some(user) = &user {
        let is_it;
        let given = visit.form.text("password");
        (is_it, attempt) = proof::verify(&visit, attempt, waiter, given, Some(user.password)).await?;
        if !is_it {
            return refuse(&visit, "The current password is wrong.", 403).await;
        }
    }
    let (made, _counts) = proof::hash(&visit, attempt, waiter, new).await?;
    let address = user.is_none().then(|| email.to_owned());
    let by = Authority {
        password: user.as_ref().map(|user| user.password),
        ..Authority::session(signed_in.session)
    };
    match store.set_user(signed_in.account, address, made, by, clock::now()).await {
        Ok(()) => {
            proof::has_set_password(&visit, email, &made);
            let done =
                "The password is set. All other sessions have ended. API keys and assistants still work.";
            let reply = render(&visit, Some(done.into()), None).await?;
            Ok(reply.header("set-cookie", proof::known_cookie(&made)))
        }
        Err(UserError::Outdated | UserError::Account(ChangeError::UnknownAccount)) => {
            Err(Problem::outdated())
        }
        Err(UserError::EmailTaken) => refuse(&visit, "Another account has this address.", 409).await,
        Err(error) => Err(Problem::unready().inside(format!("a password was not set: {error}"))),
    }
}

async fn refuse(visit: &Visit, why: &str, status: u16) -> Result<Reply, Problem> {
    Ok(page::with_status(render(visit, None, Some(why)).await?, status))
}

fn password_form(signed_in: &SignedIn, user: Option<&User>) -> Markup {
    html! {
        section.card {
            h2 { "Password" }
            form method="post" action="/sessions/password" {
                (token_field(&signed_in.csrf))
                @if user.is_some() {
                    label for="password" { "Current password" }
                    input #password name="password" type="password" autocomplete="current-password" required;
                } @else {
                    label for="email" { "E-mail address for sign-in" }
                    input #email name="email" type="email" autocomplete="username" required maxlength="320";
                }
                label for="new-password" { "New password" }
                input #new-password name="new-password" type="password" autocomplete="new-password" required
                    minlength=(password::PASSWORD_CHARS_MIN) aria-describedby="password-hint";
                p.hint #password-hint { "At least " (password::PASSWORD_CHARS_MIN) " characters. A new password ends all other sessions. It does not end " a href="/keys" { "API keys" } " and " a href="/connections" { "assistants" } ": if somebody else may have used this account, look at both pages too." }
                button type="submit" { "Set password" }
            }
        }
    }
}

async fn render(visit: &Visit, done: Option<String>, wrong: Option<&str>) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let sessions = visit.checks.store.sessions(signed_in.account, clock::now()).await?;
    let user = visit.checks.store.user(signed_in.account).await?;
    let body = html! {
        h1 { "Password and sessions" }
        @if let Some(done) = done { p.notice.good role="status" { (done) } }
        (notice(wrong))
        @match &user {
            Some(user) => p { "You sign in as " strong.wrap { (user.email) } "." },
            None => p.notice.warn {
                "This account has no password yet. Set a password. Without one, you can sign in only with a link from \
                 the operator."
            },
        }
        (password_form(signed_in, user.as_ref()))
        section.card {
            h2 { "Sessions" }
            (page::table("Sessions", &["Browser", "Signed in", "Last used", "End"], html! { @for session in &sessions { (row(session, signed_in)) } }))
            form method="post" action="/sessions/end-others" {
                (token_field(&signed_in.csrf))
                button.danger type="submit" { "Sign out everywhere else" }
            }
        }
        section.card {
            h2 { "Data of the account" }
            form method="post" action="/account/export" {
                (token_field(&signed_in.csrf))
                button.quiet type="submit" { "Export account data" }
            }
            p { a.button.danger href="/account/delete" { "Delete account" } }
        }
    };
    Ok(page::page_at("Password and sessions", Some("/sessions"), Some(signed_in), body))
}

fn row(session: &Session, signed_in: &SignedIn) -> Markup {
    let own = session.hash == signed_in.session;
    html! {
        tr {
            td.wrap data-label="Browser" { (session.agent) " " @if own { span.tag.good { "This session" } } }
            td data-label="Signed in" { (page::time(session.created_at)) }
            td data-label="Last used" { (page::time(session.seen_at)) }
            td {
                form method="post" action="/sessions/end" {
                    (token_field(&signed_in.csrf))
                    input type="hidden" name="session" value=(HEXLOWER.encode(&session.hash));
                    button.small.quiet type="submit" aria-label={ "End the session of " (session.agent) } { "End" }
                }
            }
        }
    }
}
