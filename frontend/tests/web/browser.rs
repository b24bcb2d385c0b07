//! A browser without script: it keeps cookies, follows redirects, and sends the forms of pages unchanged.

use crate::harness::client::{Answer, Connection, escape, values};
use crate::harness::server::{Server, connect_from};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;

pub const EMAIL: &str = "joe@example.com";
pub const PASSWORD: &str = "correct horse battery";

/// One visitor.
pub struct Browser {
    address: SocketAddr,
    /// The address of loopback from which it connects.
    pub source: [u8; 4],
    pub cookies: BTreeMap<String, String>,
    /// Headers of every request, in addition to those of a browser.
    pub extra: String,
}

/// One page: an answer, with the path after redirects.
#[derive(Debug)]
pub struct Page {
    pub path: String,
    answer: Answer,
}

impl Deref for Page {
    type Target = Answer;

    fn deref(&self) -> &Answer {
        &self.answer
    }
}

/// A new server, and a visitor who has made an account there as [`EMAIL`].
pub fn signed_up() -> (Server, Browser) {
    let server = Server::start(&[]);
    let browser = Browser::signed_up(&server, EMAIL);
    (server, browser)
}

impl Browser {
    pub fn new(server: &Server) -> Browser {
        Browser::at(server, [127, 0, 0, 1])
    }

    /// A visitor with this address.
    pub fn at(server: &Server, source: [u8; 4]) -> Browser {
        Browser { address: server.address, source, cookies: BTreeMap::new(), extra: String::new() }
    }

    /// With the cookies of another browser.
    pub fn with(self, other: &Browser) -> Browser {
        Browser { cookies: other.cookies.clone(), ..self }
    }

    /// A visitor with a new account.
    pub fn signed_up(server: &Server, email: &str) -> Browser {
        let mut browser = Browser::new(server);
        let page = browser.get("/signup");
        let page = browser.submit(&page, &[("email", email), ("password", PASSWORD)]);
        assert_eq!((page.status, page.path.as_str()), (200, "/"), "{}", page.text());
        browser
    }

    /// Opens a page and follows its redirects.
    pub fn get(&mut self, path: &str) -> Page {
        let page = self.get_once(path);
        self.follow(page)
    }

    /// Opens a page without following redirects.
    pub fn get_once(&mut self, path: &str) -> Page {
        let head = format!("GET {path} HTTP/1.1\r\n");
        self.exchange(path, &head, "Sec-Fetch-Site: none\r\n", &[])
    }

    /// Sends the page's first form that has all of these fields, with these values.
    pub fn submit(&mut self, page: &Page, fields: &[(&str, &str)]) -> Page {
        let form = page.form(fields);
        self.submit_to(&form.0, form.1, fields)
    }

    /// Sends the form of the page with this target.
    pub fn press(&mut self, page: &Page, action: &str) -> Page {
        let form = page.forms().into_iter().find(|(at, _)| at == action);
        let (at, hidden) = form.unwrap_or_else(|| panic!("no form to {action}: {}", page.text()));
        self.submit_to(&at, hidden, &[])
    }

    fn submit_to(&mut self, action: &str, hidden: Vec<(String, String)>, fields: &[(&str, &str)]) -> Page {
        let mut all = hidden;
        for (name, value) in fields {
            all.retain(|(known, _)| known != name);
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
        let body: Vec<String> =
            all.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        let page = self.post(action, &body.join("&"));
        self.follow(page)
    }

    /// Sends this form.
    pub fn post(&mut self, path: &str, body: &str) -> Page {
        self.post_with(
            path,
            &format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", self.address),
            body,
        )
    }

    /// Sends a form with these headers instead of a browser's.
    pub fn post_with(&mut self, path: &str, headers: &str, body: &str) -> Page {
        let head = format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.exchange(path, &head, headers, body.as_bytes())
    }

    pub fn follow(&mut self, mut page: Page) -> Page {
        for _ in 0..5 {
            if page.status != 303 {
                return page;
            }
            let to = page.header("location").unwrap().to_owned();
            assert!(to.starts_with('/') && !to.starts_with("//"), "sent to {to}");
            page = self.get_once(&to);
        }
        panic!("too many redirects");
    }

    /// Sends one request on a new connection.
    pub fn exchange(&mut self, path: &str, first: &str, headers: &str, body: &[u8]) -> Page {
        let mut connection = self.begin(first, headers);
        // A server that refuses may close before it has read everything.
        connection.try_send(body);
        let answer = connection.try_read().unwrap_or_else(|| panic!("no answer for {path}"));
        for cookie in values(&answer.head, "set-cookie") {
            self.take_cookie(cookie);
        }
        Page { path: path.to_owned(), answer }
    }

    /// Sends only the head of a request.
    pub fn begin(&self, first: &str, headers: &str) -> Connection {
        self.try_begin(first, headers).unwrap()
    }

    /// As [`Browser::begin`]; `None` if the server has ended meanwhile.
    pub fn try_begin(&self, first: &str, headers: &str) -> Option<Connection> {
        let mut head =
            format!("{first}Host: {}\r\nConnection: close\r\n{headers}{}", self.address, self.extra);
        if !self.cookies.is_empty() {
            let _ = write!(head, "Cookie: {}\r\n", self.cookies());
        }
        head.push_str("\r\n");
        let mut connection = connect_from(self.source, self.address).ok()?;
        connection.try_send(head).then_some(connection)
    }

    /// The value of the header `Cookie`.
    pub fn cookies(&self) -> String {
        let all: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        all.join("; ")
    }

    fn take_cookie(&mut self, header: &str) {
        let (name, rest) = header.split_once('=').unwrap();
        let value = rest.split(';').next().unwrap();
        assert!(name.starts_with("__Host-"), "{header}");
        for needed in ["; Path=/;", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
            assert!(header.contains(needed), "{header}");
        }
        if header.contains("Max-Age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}

impl Page {
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap()
    }

    /// Checks that the page has this text, without tags.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Page {
        let plain = self.plain();
        assert!(plain.contains(text), "{} does not say {text:?}: {plain}", self.path);
        self
    }

    /// The text without tags and with single spaces.
    pub fn plain(&self) -> String {
        let mut plain = String::new();
        let mut inside = false;
        for c in self.text().chars() {
            match c {
                '<' => inside = true,
                '>' => {
                    inside = false;
                    plain.push(' ');
                }
                c if !inside => plain.push(c),
                _ => {}
            }
        }
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Every form: its target and its hidden fields.
    pub fn forms(&self) -> Vec<(String, Vec<(String, String)>)> {
        forms_in(&self.text()).map(read_form).collect()
    }

    fn form(&self, fields: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
        let text = self.text();
        let fits = |form: &&str| fields.iter().all(|(name, _)| form.contains(&format!("name=\"{name}\"")));
        read_form(forms_in(&text).find(fits).unwrap_or_else(|| panic!("no such form: {text}")))
    }

    /// The token in its forms.
    pub fn token(&self) -> String {
        let forms = self.forms();
        let field = forms.iter().flat_map(|(_, hidden)| hidden).find(|(name, _)| name == "csrf");
        field.unwrap().1.clone()
    }
}

/// The forms in the text of a page, each without its end.
fn forms_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("<form").skip(1).map(|piece| piece.split("</form>").next().unwrap())
}

/// The target of a form and its hidden fields.
fn read_form(form: &str) -> (String, Vec<(String, String)>) {
    let inputs = form.split("<input").skip(1).map(|input| input.split('>').next().unwrap());
    let hidden = inputs.filter(|input| attribute(input, "type").as_deref() == Some("hidden"));
    let field = |input| (attribute(input, "name").unwrap(), attribute(input, "value").unwrap_or_default());
    (attribute(form, "action").unwrap(), hidden.map(field).collect())
}

/// The unescaped value of an attribute.
pub fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let value = rest.split('"').next()?;
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}
