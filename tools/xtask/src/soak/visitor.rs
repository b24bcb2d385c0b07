//! A user of the dashboard whose server is not killed: any unexpected answer is a failure.

use super::client::{HttpClient, HttpReply, HttpRequest, Lost, escape};
use super::transport::ServerEndpoint;
use crate::failure::Failure;
use crate::interop::process::wait_until;
use serde_json::json;
use std::time::Duration;

const PASSWORD: &str = "correct horse battery";
/// Where an assistant takes its codes.
pub const CALLBACK: &str = "http://127.0.0.1:49152/callback";
/// The example of RFC 7636, appendix B.
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// How long a list may take to be read and checked, also on a busy machine.
const LIST_LIMIT: Duration = Duration::from_secs(300);

/// The page on which a user consents to an assistant.
pub fn consent_path(client: &str, resource: &str) -> String {
    let query = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        ("state", "s"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", resource),
        ("scope", "verify"),
    ];
    let query = query.map(|(name, value)| format!("{name}={}", escape(value)));
    format!("/oauth/authorize?{}", query.join("&"))
}

/// A user who has signed up, with a browser's session.
pub struct Visitor {
    browser: HttpClient,
    csrf: String,
}

impl Visitor {
    /// Signs up with an email address and a password.
    pub fn sign_up(server: &ServerEndpoint, email: &str) -> Result<Visitor, Failure> {
        let mut browser = HttpClient::browser(server.clone());
        let page = expect(&mut browser, &HttpRequest::get("/signup"), 200)?;
        let mut fields = form(&page, "/signup")?;
        fields.extend([("email".into(), email.into()), ("password".into(), PASSWORD.into())]);
        expect(&mut browser, &HttpRequest::form("/signup", &borrowed(&fields)), 303)?;
        let page = expect(&mut browser, &HttpRequest::get("/lists"), 200)?;
        let csrf = form(&page, "/lists")?.into_iter().find(|(name, _)| name == "csrf");
        let (_, csrf) = csrf.ok_or_else(|| Failure("/lists: a form without its token".into()))?;
        Ok(Visitor { browser, csrf })
    }

    /// Signs in as a user who has signed up before, in a new browser, and returns the browser.
    pub fn sign_in(server: &ServerEndpoint, email: &str) -> Result<HttpClient, Failure> {
        let mut browser = HttpClient::browser(server.clone());
        let page = expect(&mut browser, &HttpRequest::get("/signin"), 200)?;
        let mut fields = form(&page, "/signin")?;
        fields.extend([("email".into(), email.into()), ("password".into(), PASSWORD.into())]);
        expect(&mut browser, &HttpRequest::form("/signin", &borrowed(&fields)), 303)?;
        Ok(browser)
    }

    /// Signs out. The newest sessions of an account end its oldest ones, so a campaign that signs in often must sign out too.
    pub fn sign_out(mut browser: HttpClient) -> Result<(), Failure> {
        let page = expect(&mut browser, &HttpRequest::get("/"), 200)?;
        let fields = form(&page, "/signout")?;
        expect(&mut browser, &HttpRequest::form("/signout", &borrowed(&fields)), 303).map(drop)
    }

    /// Requests a page, which must be there.
    pub fn look(&mut self, path: &str) -> Result<HttpReply, Failure> {
        expect(&mut self.browser, &HttpRequest::get(path), 200)
    }

    /// A request as this user's browser sends it, for another connection.
    pub fn request(&self, path: &str) -> Vec<u8> {
        self.browser.encode(&HttpRequest::get(path))
    }

    /// An upload as this user's browser sends it.
    pub fn upload_request(&self, name: &str, content: &[u8]) -> Vec<u8> {
        let fields = [("csrf", self.csrf.as_str()), ("column", "")];
        self.browser.encode(&HttpRequest::upload("/lists", &fields, (name, content)))
    }

    /// Connects an assistant and returns its token.
    pub fn connect_assistant(&mut self, server: &ServerEndpoint) -> Result<String, Failure> {
        let mut program = HttpClient::program(server.clone());
        let metadata = json!({ "client_name": "A program", "redirect_uris": [CALLBACK] });
        let made = expect(&mut program, &HttpRequest::json("/oauth/register", &metadata), 201)?.json();
        let client = made["client_id"].as_str().unwrap_or_default();
        let resource = format!("{}/mcp", server.origin());
        let page = self.look(&consent_path(client, &resource))?;
        let mut fields = form(&page, "/oauth/authorize")?;
        let decision = [("full_checks", "10"), ("days", "1"), ("decision", "allow")];
        fields.extend(decision.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let allow = HttpRequest::form("/oauth/authorize", &borrowed(&fields));
        let allowed = expect(&mut self.browser, &allow, 303)?;
        let to = allowed.header("location").unwrap_or_default();
        let code = to.split(['?', '&']).find_map(|pair| pair.strip_prefix("code="));
        let code = code.ok_or_else(|| Failure(format!("a consent without a code: {to}")))?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("client_id", client),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("resource", &resource),
        ];
        let tokens = expect(&mut program, &HttpRequest::form("/oauth/token", &fields), 200)?.json();
        let token = tokens["access_token"].as_str().map(str::to_owned);
        token.ok_or_else(|| Failure("tokens without an access token".into()))
    }

    /// Opens the consent page of a client that may not exist, and returns any answer.
    pub fn consent(&self, client: &str) -> Result<HttpReply, Failure> {
        let (client, callback) = (escape(client), escape(CALLBACK));
        let path = format!("/oauth/authorize?response_type=code&client_id={client}&redirect_uri={callback}");
        answer(&mut self.client(), &HttpRequest::get(path))
    }

    /// Another client of the same session, with its own connection.
    pub fn client(&self) -> HttpClient {
        self.browser.beside()
    }

    /// Sends all further requests to this server, which has the same data.
    pub fn moves(&mut self, server: &ServerEndpoint) {
        self.browser.moves(server.clone());
    }

    /// Uploads a list, has it checked, and returns the path of its download.
    pub fn checked_list(&mut self, name: &str, content: &[u8]) -> Result<String, Failure> {
        let fields = [("csrf", self.csrf.as_str()), ("column", "")];
        let reply = expect(&mut self.browser, &HttpRequest::upload("/lists", &fields, (name, content)), 303)?;
        let path = reply.header("location").unwrap_or_default().to_owned();
        let (start, end) = (format!("{path}/start"), format!("{path}/download"));
        self.wait_for(&path, &[&start, &end])?;
        if self.look(&path)?.text().contains(&start) {
            expect(&mut self.browser, &HttpRequest::form(start, &[("csrf", &self.csrf)]), 303)?;
        }
        self.wait_for(&path, &[&end])?;
        Ok(end)
    }

    fn wait_for(&mut self, path: &str, any: &[&str]) -> Result<(), Failure> {
        let mut last = String::new();
        let waited = wait_until(path, LIST_LIMIT, || {
            last = self.look(path)?.text();
            if last.contains("cannot be checked") {
                return Err(Failure("the list is refused".into()));
            }
            Ok(any.iter().any(|wanted| last.contains(wanted)))
        });
        waited.map_err(|failure| Failure(format!("{}: {last}", failure.0)))
    }
}

fn form(page: &HttpReply, action: &str) -> Result<Vec<(String, String)>, Failure> {
    page.form(action).ok_or_else(|| Failure(format!("{action}: a page without its form")))
}

fn borrowed(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Sends a request.
///
/// # Errors
///
/// There is no answer, or its status is another one.
pub fn expect(client: &mut HttpClient, request: &HttpRequest, status: u16) -> Result<HttpReply, Failure> {
    match answer(client, request)? {
        reply if reply.status == status => Ok(reply),
        reply => Err(Failure(format!("{}: {} {}", request.path(), reply.status, reply.text()))),
    }
}

/// Sends a request that must be answered.
fn answer(client: &mut HttpClient, request: &HttpRequest) -> Result<HttpReply, Failure> {
    let path = request.path();
    match client.send(request) {
        Ok(reply) => Ok(reply),
        Err(Lost::NotSent) => Err(Failure(format!("{path}: no connection"))),
        Err(Lost::NoAnswer(why)) => Err(Failure(format!("{path}: no answer: {why}"))),
    }
}
