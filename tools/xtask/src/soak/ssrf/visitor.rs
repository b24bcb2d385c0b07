//! A user of the dashboard who is asked to consent to clients.

use crate::soak::{Failure, http};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const EMAIL: &str = "joe@probe.example";
const PASSWORD: &str = "correct horse battery";

/// A user who has signed up, and their cookies.
pub struct Visitor {
    server: SocketAddr,
    cookies: BTreeMap<String, String>,
}

/// A page: its status and its text.
pub struct Page {
    pub status: u16,
    pub text: String,
}

impl Visitor {
    /// Signs up.
    pub fn sign_up(server: SocketAddr) -> Result<Visitor, Failure> {
        let mut visitor = Visitor { server, cookies: BTreeMap::new() };
        let page = visitor.get("/signup")?;
        let token = field(&page.text, "csrf").ok_or_else(|| Failure("a form without a token".into()))?;
        let fields = [("csrf", token.as_str()), ("email", EMAIL), ("password", PASSWORD)];
        let fields = fields.map(|(name, value)| format!("{name}={}", escape(value))).join("&");
        let page = visitor.ask(
            &format!(
                "POST /signup HTTP/1.1\r\nOrigin: http://{server}\r\nSec-Fetch-Site: same-origin\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
                fields.len()
            ),
            &fields,
        )?;
        if page.status == 303 { Ok(visitor) } else { Err(Failure(format!("no sign-up: {}", page.text))) }
    }

    /// Is sent to consent to a client.
    pub fn consent(&mut self, client: &str) -> Result<Page, Failure> {
        let (client, redirect) = (escape(client), escape("http://127.0.0.1:49152/callback"));
        self.get(&format!("/oauth/authorize?response_type=code&client_id={client}&redirect_uri={redirect}"))
    }

    fn get(&mut self, path: &str) -> Result<Page, Failure> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nSec-Fetch-Site: none\r\n"), "")
    }

    fn ask(&mut self, head: &str, body: &str) -> Result<Page, Failure> {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let request = format!("{head}Host: {}\r\nConnection: close\r\n{cookies}\r\n{body}", self.server);
        let answer = http::exchange(self.server, request.as_bytes())
            .map_err(|error| Failure(format!("the dashboard: {error}")))?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        for line in head.lines() {
            let cookie = line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
            let pair =
                cookie.and_then(|(_, value)| value.split(';').next()).and_then(|pair| pair.split_once('='));
            if let Some((name, value)) = pair {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Failure(format!("the dashboard does not answer HTTP: {head}")))?;
        Ok(Page { status, text: text.to_owned() })
    }
}

/// The value of a field of a page's forms.
fn field(page: &str, name: &str) -> Option<String> {
    let tag = page.split("<input").find(|tag| tag.contains(&format!("name=\"{name}\"")))?;
    let value = tag.split('>').next()?.split("value=\"").nth(1)?;
    value.split('"').next().map(str::to_owned)
}

/// All but letters and digits as percent escapes.
fn escape(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let page = "<form><input name=\"email\" value=\"x\"><input type=\"hidden\" name=\"csrf\" value=\"a1\"></form>";
        assert_eq!(field(page, "csrf").as_deref(), Some("a1"));
        assert_eq!(field(page, "password"), None);
        assert_eq!(escape("https://[::1]/a"), "https%3A%2F%2F%5B%3A%3A1%5D%2Fa");
    }
}
