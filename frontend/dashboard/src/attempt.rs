//! `/try`: checks one address in the same way as the API, with the same repeats, charges and limits.
//!
//! The limits treat the dashboard as one more key of the account.

use super::form::token_field;
use super::page::{notice, time};
use super::signin::EMAIL_BYTES_MAX;
use super::{chart, page, plan};
use crate::problem::Problem;
use crate::visit::Visit;
use api::{AFTER_REPEATS, Findings, Reason, UnverifiableCause};
use checks::counters::CountedCheck;
use checks::full::Payer;
use checks::{fast, full};
use engine::proto::address::Address;
use engine::proto::limits::SINGLE_PATIENCE;
use http_core::Reply;
use lists::numbers::{duration_text, grouped};
use lists::words::{address_text, advice, sentence};
use maud::{Markup, html};
use store::clock;
use store::rate_limit::Row;
use store::{AccountId, Authority, KeyId, UnixMs};

/// The result of a check.
struct Outcome {
    email: String,
    reason: Reason,
    /// Why the address is `unverifiable`, if that is known.
    cause: Option<UnverifiableCause>,
    suggestion: Option<String>,
    cost: Markup,
    /// The time from which on a check asks the mail server again, if this is a stored answer.
    repeats_until: Option<UnixMs>,
}

/// `GET /try`: the form for an address.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    render(&visit, "", None, None).await
}

/// `POST /try`: checks the address and shows the result.
pub async fn submit(visit: Visit) -> Result<Reply, Problem> {
    let account = visit.signed_in()?.account;
    let email = visit.form.text("email").trim().to_owned();
    if email.is_empty() || email.len() > EMAIL_BYTES_MAX {
        return refuse(&visit, &email, "Enter an address.", 400).await;
    }
    let is_fast = visit.form.text("mode") == "fast";
    if let Err(problem) = count(&visit, account, if is_fast { Row::Fast } else { Row::Verify }).await {
        return refuse(&visit, &email, problem.message(), problem.status()).await;
    }
    let checked =
        if is_fast { check_fast(&visit, email.clone()).await } else { check(&visit, account, &email).await };
    match checked {
        Ok(outcome) => {
            let mode = if is_fast { "fast" } else { "full" };
            visit.checks.tally.checked(CountedCheck { mode, reason: outcome.reason.as_str() });
            render(&visit, &email, None, Some(outcome)).await
        }
        Err(problem) => refuse(&visit, &email, problem.message(), problem.status()).await,
    }
}

/// Counts a check against the account's limits, under the account's id. No key has the id of an account.
pub async fn count(visit: &Visit, account: AccountId, row: Row) -> Result<(), Problem> {
    let terms = visit.checks.store.terms(account).ok_or_else(Problem::not_found)?;
    let key = KeyId::from_bytes(account.to_bytes());
    let counted = visit.checks.limiter.count((account, key), row, &terms.limits, clock::now()).await;
    counted.map(drop).map_err(|limited| Problem::too_often(limited.0.wait_s()))
}

async fn check(visit: &Visit, account: AccountId, email: &str) -> Result<Outcome, Problem> {
    let (reason, cause, suggestion, repeats_until, cost) = match Address::parse(email) {
        Err(_) => {
            let cost = html! { "Nothing: the check of an invalid address is free." };
            (Reason::InvalidSyntax, None, without_name(email), None, cost)
        }
        Ok(address) => {
            let lists = visit.checks.engine.lists();
            let suggestion = lists.suggest(address.domain().as_str());
            let suggestion = suggestion.map(|domain| format!("{}@{domain}", address.local()));
            let by = Authority::session(visit.signed_in()?.session);
            let checked =
                full::check(&visit.checks, Payer { account, connection: None, by }, address).await?;
            let cost = match checked.repeats_until {
                Some(until) => html! {
                    "Nothing: this is your own answer from the last 24 hours. A new check asks the mail server from "
                    (time(until)) " on."
                },
                None => html! { "1 credit." },
            };
            (checked.reason, checked.cause, suggestion, checked.repeats_until, cost)
        }
    };
    let cause = cause.filter(|_| reason == Reason::Unverifiable);
    Ok(Outcome { email: email.to_owned(), reason, cause, suggestion, cost, repeats_until })
}

async fn check_fast(visit: &Visit, email: String) -> Result<Outcome, Problem> {
    let verification = fast::check(&visit.checks, email).await?;
    let suggestion = match verification.findings {
        Findings::Fast(findings) => findings.suggestion.or_else(|| without_name(&verification.email)),
        Findings::Full { .. } => None,
    };
    let cost = html! { "Nothing: fast checks are free." };
    let (email, reason) = (verification.email, verification.reason);
    Ok(Outcome { email, reason, cause: None, suggestion, cost, repeats_until: None })
}

/// The address of a text that has more than an address, such as a name before it.
fn without_name(text: &str) -> Option<String> {
    let address = Address::parse(text).is_err().then(|| lists::address_in_cell(text)).flatten();
    address.map(|address| address.as_str().to_owned())
}

async fn refuse(visit: &Visit, email: &str, why: &str, status: u16) -> Result<Reply, Problem> {
    Ok(page::with_status(render(visit, email, Some(why), None).await?, status))
}

async fn render(
    visit: &Visit,
    email: &str,
    wrong: Option<&str>,
    outcome: Option<Outcome>,
) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let account = visit.checks.store.account(signed_in.account, clock::now()).await?;
    let account = account.ok_or_else(Problem::not_found)?;
    let credits = account.balance.available();
    let is_fast = visit.form.text("mode") == "fast";
    let body = html! {
        h1 { "Single check" }
        (notice(wrong))
        @if let Some(outcome) = outcome { (result(&outcome)) }
        section.card {
            form method="post" action="/try" {
                (token_field(&signed_in.csrf))
                label for="email" { "Address" }
                // Not of type `email`, because an invalid address gets an answer too.
                input #email name="email" type="text" inputmode="email" autocomplete="off" autocapitalize="none" spellcheck="false" required maxlength="320" value=(email);
                fieldset {
                    legend { "Check" }
                    label.choice { input type="radio" name="mode" value="full" checked[!is_fast]; span { "Full: asks the mail server unless a recent verdict is known, costs 1 credit, " (takes()) } }
                    label.choice { input type="radio" name="mode" value="fast" checked[is_fast]; span { "Fast: checks syntax, domain and lists, is free" } }
                }
                button type="submit" { "Check" }
            }
            p.soft { "Credits left: " strong #credits { (grouped(credits)) } @if credits == 0 { ". " (plan::more_credits(&account)) } }
        }
    };
    Ok(page::page_at("Single check", Some("/try"), Some(signed_in), body))
}

/// How long a full check takes.
fn takes() -> String {
    format!(
        "takes some seconds, and at most {} if the mail server is slow or silent",
        duration_text(SINGLE_PATIENCE)
    )
}

fn result(outcome: &Outcome) -> Markup {
    html! {
        section.card role="status" aria-labelledby="result-title" {
            h2.wrap #result-title { (address_text(&outcome.email)) }
            dl {
                dt { "Verdict" } dd { (chart::tag(outcome.reason)) }
                dt { "Reason" } dd { (chart::named(outcome.reason)) }
                @if let Some(cause) = outcome.cause { dt { "Cause" } dd { (sentence(cause.words().meaning)) } }
                @if let Some(suggestion) = &outcome.suggestion { dt { "Did you mean" } dd { (address_text(suggestion)) } }
                dt { "Advice" } dd { (what_to_do(outcome)) }
                dt { "Cost" } dd { (outcome.cost) }
            }
        }
    }
}

/// The advice for the cause or the reason. For 24 hours, a later check gives the same answer: the end of this time is named once.
fn what_to_do(outcome: &Outcome) -> Markup {
    let until = outcome.repeats_until.map(|until| format!("after {}", page::minute(until)));
    let when = until.as_deref().unwrap_or(AFTER_REPEATS);
    let of_cause = outcome.cause.map(|cause| cause.advice_of_server(when));
    let advice = of_cause.unwrap_or_else(|| advice(outcome.reason).to_owned());
    html! {
        (page::with_code(&sentence(&advice)))
        @if outcome.reason == Reason::Unverifiable && !advice.contains(when) { " A new check asks again only " (when) "." }
        @if outcome.cause.is_some_and(|cause| cause.words().is_for_operator()) { " " (chart::FOR_OPERATOR) }
    }
}
