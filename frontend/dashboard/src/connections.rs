//! `/connections`: the assistants that can act for the account, and their use of full checks. The user can end them.

use crate::form::token_field;
use crate::page::{self, time};
use crate::problem::Problem;
use crate::redirect;
use crate::session::SignedIn;
use crate::visit::Visit;
use http_core::Reply;
use maud::{Markup, html};
use store::clock;
use store::{Connection, GrantError};

/// `GET /connections`: the account's connections with their remaining full checks.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let connections = visit.checks.store.connections(signed_in.account, clock::now()).await?;
    let body = html! {
        h1 { "Connections" }
        p { "These assistants can check addresses for you, within the limits that you set." }
        @if visit.query("ended").is_some() {
            p.notice.good role="status" { "The connection is ended. Its access stopped at once." }
        }
        @if connections.is_empty() {
            p.empty { "No assistant is connected." }
        } @else {
            (table(&connections, signed_in))
        }
        (how(&visit))
    };
    Ok(page::page_at("Connections", Some("/connections"), Some(signed_in), body))
}

/// `POST /connections/end`: ends a connection of the account.
pub async fn end(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let id = visit.form.text("connection").parse().map_err(|_| Problem::not_found())?;
    match visit.checks.store.end_connection(signed_in.account, id).await {
        Ok(()) => Ok(redirect::see_other("/connections?ended=1")),
        // A connection of another account is not found.
        Err(GrantError::Unknown | GrantError::Reused) => Err(Problem::not_found()),
        Err(GrantError::Store(error)) => Err(error.into()),
    }
}

fn table(connections: &[Connection], signed_in: &SignedIn) -> Markup {
    html! {
        (page::table("Connections", &["Assistant", "Full checks", "Last used", "Expires", "End"], html! {
            @for connection in connections { (row(connection, signed_in)) }
        }))
    }
}

fn row(connection: &Connection, signed_in: &SignedIn) -> Markup {
    html! {
        tr {
            td.wrap data-label="Assistant" { strong { (connection.client_name) } br; span.soft { (connection.redirect_host) } }
            td data-label="Full checks" { (connection.used) " of " (connection.allowance) }
            td data-label="Last used" { (time(connection.last_used_at)) }
            td data-label="Expires" { (time(connection.expires_at)) }
            td {
                form method="post" action="/connections/end" {
                    (token_field(&signed_in.csrf))
                    input type="hidden" name="connection" value=(connection.id.to_string());
                    button.small.danger type="submit" aria-label={ "End the connection of " (connection.client_name) } { "End" }
                }
            }
        }
    }
}

/// Explains how to connect an assistant, if this server supports it.
fn how(visit: &Visit) -> Markup {
    html! {
        h2 { "New connection" }
        @match &visit.dashboard.assistants {
            Some(assistants) => {
                p { "Add a remote MCP server (in many assistants: a custom connector) with this address:" }
                pre { (assistants.site.resource()) }
                p { "The assistant then opens a page of this site. There you choose how many full checks it can make, and for how long." }
            }
            None => p.notice.warn {
                "Assistants cannot connect to this server. The operator must set " code { "public_url" }
                " to an https address without a path."
            },
        }
    }
}
