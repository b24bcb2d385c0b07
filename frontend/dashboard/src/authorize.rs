//! `/oauth/authorize`: a client asks for access, and the signed-in user decides (OAuth 2.1 4.1.1).
//!
//! Only a button or a link redirects the user. An error in a request is shown here, with a link that reports the error to
//! the client, because anyone can create a client with any redirect URI (RFC 9700 4.11.2).
//!
//! The consent form carries the whole request. When the form arrives, the request is read and checked again.

use crate::form::{Form, token_field};
use crate::page;
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use assistants::Assistants;
use assistants::oauth::client::{self, Client, NoClient};
use assistants::oauth::document::NoDocument;
use assistants::oauth::fetch::FetchError;
use assistants::oauth::pkce;
use assistants::oauth::secret::Secret;
use assistants::oauth::site::Site;
use assistants::oauth::uri::Uri;
use http_core::Reply;
use maud::{Markup, html};
use std::sync::Arc;
use store::clock;
use store::credits::calendar::DAY_MS;
use store::id::random_bits;
use store::{
    ATTEMPTS_MAX, Authority, CONNECTION_MS_MAX, CONNECTIONS_MAX, ConnectError, ConnectionId, NewConnection,
    StoreError,
};

const DAYS_MAX: u64 = CONNECTION_MS_MAX / DAY_MS;
/// The values that the form proposes.
const DAYS: u64 = 7;
const FULL_CHECKS: u32 = 5;

/// Longest `state` that is returned to the client, in bytes.
const STATE_BYTES_MAX: usize = 2048;

/// The parameters of a request. The form repeats them.
const PARAMETERS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "scope",
];

/// A request with a known client and a valid redirect URI.
struct Request<'f> {
    assistants: Arc<Assistants>,
    client: Client,
    redirect: Uri,
    state: Option<&'f str>,
    fields: &'f Form,
}

/// An error in the rest of a request: an OAuth error code, and a sentence.
pub type Wrong = (&'static str, &'static str);

/// `GET /oauth/authorize`: the consent page for a client's request.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let fields = Form::parse(visit.head.query.as_bytes());
    let fields = fields.map_err(|_| Problem::new(400, "The request from the assistant cannot be read."))?;
    let request = Request::read(&visit, &fields).await?;
    match request.challenge() {
        Ok(_) => request.ask(&visit, FULL_CHECKS, DAYS, None),
        Err(wrong) => request.refuse(&visit, wrong),
    }
}

/// `POST /oauth/authorize`: stores the user's decision and returns to the client.
pub async fn decide(visit: Visit) -> Result<Reply, Problem> {
    let request = Request::read(&visit, &visit.form).await?;
    let challenge = match request.challenge() {
        Ok(challenge) => challenge,
        Err(wrong) => return request.refuse(&visit, wrong),
    };
    if visit.form.text("decision") != "allow" {
        return Ok(redirect::see_other(request.back(&[("error", "access_denied")])));
    }
    let full_checks = visit.form.text("full_checks").parse().ok().filter(|&checks| checks <= ATTEMPTS_MAX);
    let days = visit.form.text("days").parse().ok().filter(|days| (1..=DAYS_MAX).contains(days));
    let (Some(allowance), Some(days)) = (full_checks, days) else {
        let wrong = format!("Choose 0 to {ATTEMPTS_MAX} full checks and 1 to {DAYS_MAX} days.");
        let (checks, days) = (full_checks.unwrap_or(FULL_CHECKS), days.unwrap_or(DAYS));
        return Ok(page::with_status(request.ask(&visit, checks, days, Some(&wrong))?, 400));
    };
    request.connect(&visit, challenge, allowance, days).await
}

impl<'f> Request<'f> {
    /// Reads the client and the redirect URI. Both must be valid before anything else is done.
    async fn read(visit: &Visit, fields: &'f Form) -> Result<Request<'f>, Problem> {
        let assistants = visit.dashboard.assistants.clone().ok_or_else(Problem::not_found)?;
        let id = fields.get("client_id").unwrap_or_default();
        let (account, peer) = (visit.signed_in()?.account, visit.head.peer);
        let client = client::find(&visit.checks, &assistants, id, account, peer).await.map_err(no_client)?;
        let wrong = "The assistant wants you to be sent to an address that it has not registered. Nothing was allowed. \
                     Remove the connection in the assistant and add it again.";
        let redirect = fields.get("redirect_uri").and_then(|asked| client.redirect(asked));
        let redirect = redirect.ok_or_else(|| Problem::new(400, wrong))?;
        let state = fields.get("state").filter(|state| state.len() <= STATE_BYTES_MAX);
        Ok(Request { assistants, client, redirect, state, fields })
    }

    /// The PKCE challenge of the request, if the rest of the request is valid too.
    fn challenge(&self) -> Result<[u8; 32], Wrong> {
        challenge(self.fields, &self.assistants.site)
    }

    /// The URL that returns the user to the client with an answer. `iss` identifies this server (RFC 9207).
    fn back(&self, answer: &[(&str, &str)]) -> String {
        let mut parameters = answer.to_vec();
        parameters.extend(self.state.map(|state| ("state", state)));
        parameters.push(("iss", self.assistants.site.issuer()));
        self.redirect.with(&parameters)
    }

    /// Renders the consent page.
    fn ask(&self, visit: &Visit, full_checks: u32, days: u64, wrong: Option<&str>) -> Result<Reply, Problem> {
        let signed_in = visit.signed_in()?;
        let body = html! {
            section.narrow {
                h1 { "Assistant connection" }
                @if let Some(wrong) = wrong { p.notice.bad role="alert" { (wrong) } }
                p { strong.wrap { (self.client.name) } " wants to check e-mail addresses for you." }
                (self.who())
                p { "If you allow the connection, the assistant can:" }
                ul {
                    li { "make fast checks, which are free;" }
                    li { "make as many full checks as you choose below; each costs one credit;" }
                    li { "see your plan and the number of credits left." }
                }
                p { "The assistant cannot see your keys, lists or results. You can end the connection at any time." }
                form method="post" action="/oauth/authorize" {
                    (token_field(&signed_in.csrf))
                    @for name in PARAMETERS {
                        @if let Some(value) = self.fields.get(name) { input type="hidden" name=(name) value=(value); }
                    }
                    label for="full_checks" { "Full checks" }
                    input #full_checks name="full_checks" type="number" inputmode="numeric" min="0" max=(ATTEMPTS_MAX)
                        value=(full_checks) required aria-describedby="full_checks_hint";
                    p.hint #full_checks_hint { "0 to " (ATTEMPTS_MAX) " in total. 0 blocks full checks." }
                    label for="days" { "Days" }
                    input #days name="days" type="number" inputmode="numeric" min="1" max=(DAYS_MAX) value=(days)
                        required aria-describedby="days_hint";
                    p.hint #days_hint { "1 to " (DAYS_MAX) ". After that, the connection ends automatically." }
                    div.actions {
                        button type="submit" name="decision" value="allow" { "Allow" }
                        button.quiet type="submit" name="decision" value="deny" formnovalidate { "Deny" }
                    }
                }
            }
        };
        let reply = page::page("Assistant connection", Some(signed_in), body);
        // The answer to the form redirects to the client, and the client can redirect again.
        let target = if self.redirect.is_loopback() { "http: https:" } else { "https:" };
        Ok(page::allow_form_target(reply, target))
    }

    /// Describes the client. The client chose its name itself, so the hosts are shown too.
    fn who(&self) -> Markup {
        let port = self.redirect.is_loopback().then(|| format!(":{}", self.redirect.port()));
        html! {
            dl {
                dt { "Name that it chose" }
                dd.wrap { (self.client.name) }
                @if let Some(host) = &self.client.host {
                    dt { "Described at" }
                    dd.wrap { (host) }
                }
                dt { "Returns you to" }
                dd.wrap { strong { (self.redirect.host()) @if let Some(port) = port { (port) } } }
            }
            @if self.redirect.is_loopback() {
                p.notice.warn {
                    "This is a program on the computer that you use now. Allow the connection only if you have just \
                     started it there yourself."
                }
            } @else {
                p.notice { "Allow the connection only if you know this address and have just started the connection yourself." }
            }
        }
    }

    /// Shows the error, with a link that returns to the client and reports the error.
    fn refuse(&self, visit: &Visit, (code, why): Wrong) -> Result<Reply, Problem> {
        let back = self.back(&[("error", code), ("error_description", why)]);
        let body = html! {
            section.narrow {
                h1 { "Invalid request from the assistant" }
                p.notice.bad role="alert" { (why) "." }
                p { "Nothing was allowed. The developer of " strong.wrap { (self.client.name) } " must correct the request." }
                p { a href=(back) rel="noreferrer" { "Return to " (self.redirect.host()) " with this error" } }
                p { a href="/connections" { "Show connections" } }
            }
        };
        Ok(page::with_status(page::page("Not connected", visit.signed_in.as_ref(), body), 400))
    }

    /// Stores the consent, and returns the user to the client with the code.
    async fn connect(
        &self,
        visit: &Visit,
        challenge: [u8; 32],
        allowance: u32,
        days: u64,
    ) -> Result<Reply, Problem> {
        let unready = |error: std::io::Error| Problem::unready().inside(error);
        let now = clock::now();
        let code = Secret::code().map_err(unready)?;
        let new = NewConnection {
            id: ConnectionId::new(now, random_bits().map_err(unready)?),
            account: visit.signed_in()?.account,
            client: self.client.id.clone(),
            client_name: self.client.name.clone(),
            redirect_uri: self.redirect.as_str().to_owned(),
            redirect_host: self.redirect.host().to_owned(),
            code: code.hash(),
            challenge,
            allowance,
            expires_at: now + days * DAY_MS,
        };
        let by = Authority::session(visit.signed_in()?.session);
        match visit.checks.store.consent(new, by, now).await {
            Ok(()) => Ok(redirect::see_other(self.back(&[("code", code.reveal())]))),
            Err(ConnectError::TooMany) => {
                let message =
                    format!("This account has {CONNECTIONS_MAX} connections. End one, then connect again.");
                Err(Problem::new(409, message))
            }
            Err(ConnectError::Outdated) => Err(Problem::outdated()),
            Err(ConnectError::Unknown) => Err(no_client(NoClient::Unknown)),
            Err(error @ ConnectError::Bad) => Err(Problem::defect().inside(error)),
            Err(ConnectError::Store(error)) => Err(error.into()),
        }
    }
}

/// The PKCE challenge of a request, if the rest of the request is valid too.
///
/// # Errors
/// An OAuth error code and a sentence.
pub fn challenge(fields: &Form, site: &Site) -> Result<[u8; 32], Wrong> {
    let invalid = |why| ("invalid_request", why);
    if fields.get("response_type") != Some("code") {
        return Err(("unsupported_response_type", "response_type must be code"));
    }
    if fields.get("code_challenge_method") != Some(pkce::METHOD) {
        return Err(invalid("code_challenge_method must be S256: PKCE is required"));
    }
    let challenge = fields.get("code_challenge").and_then(pkce::challenge);
    let challenge =
        challenge.ok_or(invalid("code_challenge must be the SHA-256 of a verifier, in base64url"))?;
    match fields.get("resource") {
        Some(resource) if site.is_resource(resource) => Ok(challenge),
        _ => Err(("invalid_target", "resource must name the MCP endpoint of this server")),
    }
}

fn no_client(why: NoClient) -> Problem {
    match why {
        NoClient::Unknown => Problem::new(
            400,
            "This assistant is not known here, or is no longer known. Nothing was allowed. Remove the connection in \
             the assistant and add it again.",
        ),
        NoClient::Document(NoDocument::Fetch(FetchError::Busy)) => Problem::unready(),
        NoClient::Document(NoDocument::Fetch(FetchError::OverShare(share))) => {
            StoreError::OverShare(share.into()).into()
        }
        NoClient::Document(NoDocument::Fetch(error)) => Problem::new(
            400,
            format!("The metadata of the assistant could not be read: {error}. Nothing was allowed."),
        ),
        NoClient::Document(NoDocument::Bad(why)) => Problem::new(
            400,
            format!("The metadata of the assistant is not valid: {why}. Nothing was allowed."),
        ),
        NoClient::Store(error) => error.into(),
    }
}
