//! `/signup`: creates an account on the free plan, with a user that can sign in.
//!
//! The address is not verified, because the service sends no mail. The name of the account is generated: names are not
//! secret, and an address is personal data.

use super::form::token_field;
use super::page::notice;
use super::session::{Beginning, token_hash};
use super::signin::{EMAIL_BYTES_MAX, end_former, enter};
use super::{guard, page, password, proof};
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use engine::proto::address::Address;
use http_core::Reply;
use maud::html;
use store::clock;
use store::id::random_bits;
use store::{AccountId, NewAccount, NewUser, UserError};

/// The id of the plan of new accounts.
const PLAN: &str = "free";

/// `GET /signup`: the form for a new account.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    if !visit.dashboard.sign_up {
        return Ok(closed(&visit));
    }
    if visit.signed_in.is_some() {
        return Ok(redirect::see_other("/"));
    }
    render(&visit, "", None)
}

/// `POST /signup`: creates an account and starts its first session.
pub async fn submit(visit: Visit) -> Result<Reply, Problem> {
    if !visit.dashboard.sign_up {
        return Ok(closed(&visit));
    }
    let (email, password) = (visit.form.text("email").trim(), visit.form.text("password"));
    let refuse = |why: &str, status| Ok(page::with_status(render(&visit, email, Some(why))?, status));
    if email.len() > EMAIL_BYTES_MAX || Address::parse(email).is_err() {
        return refuse("Enter a valid e-mail address.", 400);
    }
    if let Err(why) = password::check(password, email) {
        return refuse(&why, 400);
    }
    let now = clock::now();
    let attempt = visit.dashboard.throttle.sign_up(visit.head.peer, now)?;
    let waiter = proof::waiter(&visit, token_hash(&email.to_lowercase()), attempt.is_known);
    let (password, _counts) = proof::hash(&visit, attempt, waiter, password).await?;
    let bits = random_bits().map_err(|error| Problem::unready().inside(error))?;
    let id = AccountId::new(now, bits);
    let (session, cookie) = Beginning::new(&visit.head)?.split();
    let account = NewAccount { id, name: name(id), plan: PLAN.into() };
    let new = NewUser { account, email: email.to_owned(), password, session };
    match visit.checks.store.sign_up(new, now).await {
        Ok(_) => proof::has_set_password(&visit, email, &password),
        // This form may have created the account: its answer was lost, or stated that the result is unknown.
        Err(UserError::EmailTaken) => {
            return match enter(&visit, email, visit.form.text("password"), "/").await? {
                Some(reply) => Ok(reply),
                None => refuse("This address has an account already. Sign in instead.", 409),
            };
        }
        Err(error) => return Err(Problem::unready().inside(format!("a sign-up failed: {error}"))),
    }
    end_former(&visit).await?;
    Ok(Beginning::send_to(cookie, "/").header("set-cookie", proof::known_cookie(&password)))
}

/// A name that is as unique as the id, but is not a valid id.
fn name(id: AccountId) -> String {
    let id = id.to_string();
    format!("web-{}", id.split_once('_').map_or(id.as_str(), |(_, rest)| rest))
}

fn closed(visit: &Visit) -> Reply {
    let body = html! {
        section.narrow {
            h1 { "Sign-up" }
            p { "Sign-up is closed. The operator of this service creates accounts. Ask the operator for an account." }
            p { "Do you have an account? " a href="/signin" { "Sign in" } "." }
        }
    };
    page::with_status(page::page("Sign-up", visit.signed_in.as_ref(), body), 403)
}

fn render(visit: &Visit, email: &str, wrong: Option<&str>) -> Result<Reply, Problem> {
    let (token, cookie) = guard::form_token(&visit.head, visit.signed_in.as_ref())?;
    let plans = visit.checks.store.plans();
    let free = plans.find(PLAN);
    let body = html! {
        section.narrow {
            h1 { "Sign-up" }
            @if let Some(free) = free {
                p { "The plan " strong { (free.name) } " includes " (free.monthly_credits) " full checks per month and the whole API." }
            }
            (notice(wrong))
            form method="post" action="/signup" {
                (token_field(&token))
                label for="email" { "E-mail address" }
                input #email name="email" type="email" autocomplete="username" required maxlength="320" value=(email);
                label for="password" { "Password" }
                input #password name="password" type="password" autocomplete="new-password" required
                    minlength=(password::PASSWORD_CHARS_MIN) aria-describedby="password-hint";
                p.hint #password-hint { "At least " (password::PASSWORD_CHARS_MIN) " characters. Several words in a row make a good password." }
                button type="submit" { "Create account" }
            }
            p { "Do you have an account? " a href="/signin" { "Sign in" } "." }
        }
    };
    let mut reply = page::page("Sign-up", visit.signed_in.as_ref(), body);
    reply.headers.extend(cookie);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_ids() {
        let id = AccountId::new(1_800_000_000_000, 7);
        assert!(name(id).parse::<AccountId>().is_err());
        assert_ne!(name(id), name(AccountId::new(1_800_000_000_000, 8)));
    }
}
