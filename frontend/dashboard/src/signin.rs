//! `/signin`: sign-in with an address and a password, or with a link from the operator (`mailprobe account sign-in-link`).
//!
//! The answer does not reveal whether an address has an account: its text and its time are the same in both cases. Attempts
//! are counted before the password is checked.

use super::form::token_field;
use super::session::{Beginning, FORM_COOKIE, SESSION_COOKIE, set_cookie, token_hash};
use super::{guard, page, proof};
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use checks::throttle::TooOften;
use http_core::Reply;
use maud::html;
use store::clock;
use store::{Authority, ChangeError, StoreError, UserError};

/// Longest address that is read, in bytes, as in the API.
pub const EMAIL_BYTES_MAX: usize = 320;

impl From<TooOften> for Problem {
    fn from(too_often: TooOften) -> Problem {
        Problem::too_often(too_often.wait_s)
    }
}

/// `GET /signin`: the form for address and password.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let next = visit.query("next").unwrap_or_default();
    if visit.signed_in.is_some() {
        return Ok(redirect::see_other(redirect::next(&next).to_owned()));
    }
    render(&visit, &next, "", None)
}

/// `POST /signin`: starts a session if the password is right.
pub async fn submit(visit: Visit) -> Result<Reply, Problem> {
    let (email, password) = (visit.form.text("email").trim(), visit.form.text("password"));
    let next = visit.form.text("next");
    if email.is_empty() || email.len() > EMAIL_BYTES_MAX || password.is_empty() {
        return Ok(page::with_status(
            render(&visit, next, email, Some("Enter your address and your password."))?,
            400,
        ));
    }
    if let Some(reply) = enter(&visit, email, password, next).await? {
        return Ok(reply);
    }
    let wrong = "No account has this address and password. Check both. If you have lost the password, ask the operator of this service to set a new one.";
    Ok(page::with_status(render(&visit, next, email, Some(wrong))?, 401))
}

/// Begins a session and redirects to `next` if an account has this address and password.
pub async fn enter(visit: &Visit, email: &str, password: &str, next: &str) -> Result<Option<Reply>, Problem> {
    let throttle = &visit.dashboard.throttle;
    let user = visit.checks.store.user_of(email).await?;
    let claimant = proof::claimant(visit, email, user.as_ref());
    let attempt = throttle.sign_in(&claimant, clock::now())?;
    let waiter = proof::waiter(visit, claimant.user, attempt.is_known);
    let kept = user.as_ref().map(|user| user.password);
    let (is_it, attempt) = proof::verify(visit, attempt, waiter, password, kept).await?;
    let Some(user) = user.filter(|_| is_it) else { return Ok(None) };
    let (session, cookie) = Beginning::new(&visit.head)?.split();
    let by = Authority::password(user.password);
    match visit.checks.store.begin_session(user.account, session, by, clock::now()).await {
        Ok(()) => {}
        // The password was replaced, or the account deleted, while this one was being verified: it is wrong now.
        Err(UserError::Outdated | UserError::Account(ChangeError::UnknownAccount)) => return Ok(None),
        Err(error) => {
            throttle.give_back(attempt);
            return Err(Problem::unready().inside(error));
        }
    }
    throttle.signed_in(&claimant, attempt, clock::now());
    end_former(visit).await?;
    let known = proof::known_cookie(&user.password);
    Ok(Some(Beginning::send_to(cookie, next).header("set-cookie", known)))
}

/// Ends the session that was open in this browser before the new one began.
pub async fn end_former(visit: &Visit) -> Result<(), Problem> {
    if let Some(former) = &visit.signed_in {
        visit.checks.store.end_session(former.account, former.session).await?;
    }
    Ok(())
}

/// Converts an error of the password thread. Its queue can be full, or the share of this visitor.
pub fn busy(error: StoreError) -> Problem {
    match error {
        StoreError::Busy => Problem::new(503, "Many users are signing in. Try again in a few seconds.")
            .header("retry-after", "5"),
        other => other.into(),
    }
}

fn render(visit: &Visit, next: &str, email: &str, wrong: Option<&str>) -> Result<Reply, Problem> {
    let (token, cookie) = guard::form_token(&visit.head, visit.signed_in.as_ref())?;
    let body = html! {
        section.narrow {
            h1 { "Sign-in" }
            (page::notice(wrong))
            form method="post" action="/signin" {
                (token_field(&token))
                @if redirect::next(next) != "/" { input type="hidden" name="next" value=(next); }
                label for="email" { "E-mail address" }
                input #email name="email" type="email" autocomplete="username" required maxlength="320" value=(email);
                label for="password" { "Password" }
                input #password name="password" type="password" autocomplete="current-password" required;
                button type="submit" { "Sign in" }
            }
            @if visit.dashboard.sign_up {
                p { "No account yet? " a href="/signup" { "Sign up" } " for the free plan." }
            }
        }
    };
    let mut reply = page::page("Sign-in", visit.signed_in.as_ref(), body);
    reply.headers.extend(cookie);
    Ok(reply)
}

/// `GET /signin/link?token=`. Loading the page does not use up the link, because some programs load every link in a
/// message.
pub async fn show_link(visit: Visit) -> Result<Reply, Problem> {
    let link = visit.query("token").unwrap_or_default();
    let now = clock::now();
    visit.dashboard.throttle.of_network(visit.head.peer, now)?;
    if visit.checks.store.link(&token_hash(&link), now).await?.is_none() {
        return Err(used_up());
    }
    let (token, cookie) = guard::form_token(&visit.head, visit.signed_in.as_ref())?;
    let body = html! {
        section.narrow {
            h1 { "Sign-in" }
            p { "This link signs you in once." }
            form method="post" action="/signin/link" {
                (token_field(&token))
                input type="hidden" name="token" value=(link);
                button type="submit" { "Sign in" }
            }
        }
    };
    let mut reply = page::page("Sign-in", visit.signed_in.as_ref(), body);
    reply.headers.extend(cookie);
    Ok(reply)
}

/// `POST /signin/link`: exchanges a link for a session.
pub async fn submit_link(visit: Visit) -> Result<Reply, Problem> {
    let now = clock::now();
    visit.dashboard.throttle.of_network(visit.head.peer, now)?;
    let (session, cookie) = Beginning::new(&visit.head)?.split();
    let link = token_hash(visit.form.text("token"));
    // Guesses do not reach the queue of writes.
    visit.checks.store.link(&link, now).await?.ok_or_else(used_up)?;
    visit.checks.store.use_link(link, session, now).await?.ok_or_else(used_up)?;
    end_former(&visit).await?;
    Ok(Beginning::send_to(cookie, "/"))
}

fn used_up() -> Problem {
    Problem::new(
        404,
        "This sign-in link was used, is older than 15 minutes, or was made before the password was set. Ask for a new link.",
    )
}

/// `POST /signout`: ends the session of this request.
pub async fn sign_out(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    visit.checks.store.end_session(signed_in.account, signed_in.session).await?;
    // All cookies but the one that the browser has signed in before.
    Ok(redirect::see_other("/")
        .header("set-cookie", set_cookie(SESSION_COOKIE, "", 0))
        .header("set-cookie", set_cookie(FORM_COOKIE, "", 0))
        .header("clear-site-data", "\"cache\", \"storage\""))
}
