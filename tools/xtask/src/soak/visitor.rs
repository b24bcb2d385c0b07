//! A user of the dashboard whose server is not killed: any unexpected answer is a failure.

use super::assistants::{self, CALLBACK};
use super::client::{HttpClient, HttpReply, HttpRequest, escape};
use super::transport::ServerEndpoint;
use crate::failure::{Failure, ensure};
use crate::interop::process::wait_until;
use std::time::Duration;

const PASSWORD: &str = "correct horse battery";
/// How long a list may take to be read and checked, also on a busy machine.
const LIST_LIMIT: Duration = Duration::from_secs(300);

/// A user who has signed up, with a browser's session.
pub struct Visitor {
    browser: HttpClient,
    csrf: String,
}

impl Visitor {
    /// Signs up with an email address and a password.
    pub fn sign_up(server: &ServerEndpoint, email: &str) -> Result<Visitor, Failure> {
        let mut browser = enter(server, "/signup", email)?;
        let page = expect(&mut browser, &HttpRequest::get("/lists"), 200)?;
        let csrf = page.hidden("/lists", "csrf");
        let csrf = csrf.ok_or_else(|| Failure("/lists: a form without its token".into()))?;
        Ok(Visitor { browser, csrf })
    }

    /// Signs in as a user who has signed up before, in a new browser, and returns the browser.
    pub fn sign_in(server: &ServerEndpoint, email: &str) -> Result<HttpClient, Failure> {
        enter(server, "/signin", email)
    }

    /// Signs out. The newest sessions of an account end its oldest ones, so a campaign that signs in often must sign out too.
    pub fn sign_out(mut browser: HttpClient) -> Result<(), Failure> {
        let page = expect(&mut browser, &HttpRequest::get("/"), 200)?;
        submit(&mut browser, "/signout", page.filled("/signout", &[])).map(drop)
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
        let client = expect(&mut program, &assistants::registration(), 201)?.word("client_id");
        let resource = format!("{}/mcp", server.origin());
        let page = self.look(&assistants::consent_path(&client, &resource))?;
        let allowed = submit(&mut self.browser, "/oauth/authorize", assistants::consent(&page, 10))?;
        let code = assistants::code(&allowed).ok_or_else(|| Failure("a consent without a code".into()))?;
        let tokens = expect(&mut program, &assistants::redemption(&client, &code, &resource), 200)?;
        match tokens.word("access_token") {
            token if token.is_empty() => Err(Failure("tokens without an access token".into())),
            token => Ok(token),
        }
    }

    /// Opens the consent page of a client that may not exist, and returns any answer.
    pub fn consent(&self, client: &str) -> Result<HttpReply, Failure> {
        let (client, callback) = (escape(client), escape(CALLBACK));
        let path = format!("/oauth/authorize?response_type=code&client_id={client}&redirect_uri={callback}");
        Ok(self.client().ask(&HttpRequest::get(path))?)
    }

    /// Another client of the same session, with its own connection.
    pub fn client(&self) -> HttpClient {
        self.browser.beside()
    }

    /// Sends all further requests to this server, which has the same data.
    pub fn moves(&mut self, server: &ServerEndpoint) {
        self.browser = self.browser.at(server);
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
            ensure!(!last.contains("cannot be checked"), "the list is refused");
            Ok(any.iter().any(|wanted| last.contains(wanted)))
        });
        waited.map_err(|failure| Failure(format!("{}: {last}", failure.0)))
    }
}

/// Signs up or in, in a new browser.
fn enter(server: &ServerEndpoint, action: &str, email: &str) -> Result<HttpClient, Failure> {
    let mut browser = HttpClient::browser(server.clone());
    let page = expect(&mut browser, &HttpRequest::get(action), 200)?;
    submit(&mut browser, action, page.filled(action, &[("email", email), ("password", PASSWORD)]))?;
    Ok(browser)
}

/// Sends a form, which the page must have had.
fn submit(browser: &mut HttpClient, action: &str, form: Option<HttpRequest>) -> Result<HttpReply, Failure> {
    expect(browser, &form.ok_or_else(|| Failure(format!("{action}: a page without its form")))?, 303)
}

/// Sends a request.
///
/// # Errors
///
/// There is no answer, or its status is another one.
pub fn expect(client: &mut HttpClient, request: &HttpRequest, status: u16) -> Result<HttpReply, Failure> {
    match client.ask(request)? {
        reply if reply.status == status => Ok(reply),
        reply => Err(Failure(format!("{}: {reply}", request.path()))),
    }
}
