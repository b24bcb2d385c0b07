//! `/sessions`: where the account's user is signed in, and the end of that.

use super::form::token_field;
use super::guard::hex;
use super::session::SignedIn;
use super::{Problem, Visit, page};
use crate::clock;
use crate::credits::calendar::Iso8601;
use crate::router::Reply;
use crate::store::Session;
use maud::{Markup, html};

/// `GET /sessions`.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let ended = visit.query("ended").and_then(|ended| ended.parse::<u32>().ok());
    render(&visit, ended.map(|ended| format!("{ended} other sessions ended.")))
}

/// `POST /sessions/end`: one of them, or our own.
pub async fn end(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let named = visit.form.text("session");
    let sessions = visit.worker.store.sessions(signed_in.account, clock::now())?;
    let session = sessions.iter().find(|session| hex(&session.hash) == named);
    // Another account's sessions are not in the list: as good as not there.
    let session = session.ok_or_else(Problem::not_found)?;
    visit.worker.store.end_session(signed_in.account, session.hash).await?;
    Ok(page::see_other("/sessions"))
}

/// `POST /sessions/end-others`: all but this one.
pub async fn end_others(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let ended = visit.worker.store.end_sessions(signed_in.account, Some(signed_in.session)).await?;
    Ok(page::see_other(format!("/sessions?ended={ended}")))
}

fn render(visit: &Visit, done: Option<String>) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let sessions = visit.worker.store.sessions(signed_in.account, clock::now())?;
    let user = visit.worker.store.user(signed_in.account)?;
    let body = html! {
        h1 { "Sessions" }
        @if let Some(done) = done { p.notice.good role="status" { (done) } }
        @match user {
            Some(user) => p { "You sign in as " strong.wrap { (user.email) } "." },
            None => p.notice.warn {
                "This account has no password yet. Its operator sets one with "
                code { "mailprobe account set-password" } "."
            },
        }
        div.scroll tabindex="0" role="region" aria-label="Sessions" {
            table {
                thead { tr { th scope="col" { "Browser" } th scope="col" { "Signed in" } th scope="col" { "Last use" } th scope="col" { "End" } } }
                tbody { @for session in &sessions { (row(session, signed_in)) } }
            }
        }
        form method="post" action="/sessions/end-others" {
            (token_field(&signed_in.csrf))
            button.danger type="submit" { "Sign out everywhere else" }
        }
    };
    Ok(page::page_at("Sessions", Some("/sessions"), Some(signed_in), body))
}

fn row(session: &Session, signed_in: &SignedIn) -> Markup {
    let own = session.hash == signed_in.session;
    html! {
        tr {
            td { (session.agent) " " @if own { span.tag.good { "This one" } } }
            td { (time(session.created_at)) }
            td { (time(session.seen_at)) }
            td {
                form method="post" action="/sessions/end" {
                    (token_field(&signed_in.csrf))
                    input type="hidden" name="session" value=(hex(&session.hash));
                    button.small.quiet type="submit" aria-label={ "End the session of " (session.agent) } { "End" }
                }
            }
        }
    }
}

/// A time to the minute, in UTC.
pub fn time(at: u64) -> Markup {
    let exact = Iso8601(at).to_string();
    let shown = exact.get(..16).unwrap_or(&exact).replace('T', " ");
    html! { time datetime=(exact) { (shown) } }
}
