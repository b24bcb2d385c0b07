//! `/`: what this is, or the overview of an account.

use super::session::SignedIn;
use super::{Problem, Visit, page};
use crate::clock;
use crate::router::Reply;
use maud::html;

/// `GET /`.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    match &visit.signed_in {
        Some(signed_in) => overview(&visit, signed_in),
        None => Ok(landing(&visit)),
    }
}

fn landing(visit: &Visit) -> Reply {
    let body = html! {
        section.hero {
            h1 { "Know before you send" }
            p.lead {
                "mailprobe asks the recipient's mail servers whether an address takes mail, and says yes or no with a "
                "reason. It never sends a message."
            }
            p.actions {
                @if visit.web.sign_up { a.button href="/signup" { "Sign up for free" } " " }
                a.button.quiet href="/signin" { "Sign in" }
            }
        }
    };
    page::page("Mail address verification", None, body)
}

fn overview(visit: &Visit, signed_in: &SignedIn) -> Result<Reply, Problem> {
    let account = visit.worker.store.account(signed_in.account, clock::now())?;
    let account = account.ok_or_else(Problem::not_found)?;
    let body = html! {
        h1 { "Overview" }
        p { "Credits left: " strong { (account.balance.available()) } }
    };
    Ok(page::page_at("Overview", Some("/"), Some(signed_in), body))
}
