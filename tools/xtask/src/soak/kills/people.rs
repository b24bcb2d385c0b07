//! Users of the dashboard: they sign up, create keys and revoke them, upload lists, connect assistants, and sign in
//! again. Then a new user replaces each of them.

use super::gate::ClientResult;
use super::records::{Account, KilledClient, Records, Rule, Secret};
use super::{addresses, client};
use crate::soak::client::{HttpReply, HttpRequest, Lost, hidden_fields};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PASSWORD: &str = "correct horse battery";
/// How many checks are made with a key before it is revoked.
const CHECKS_OF_A_KEY: usize = 4;

/// A user who has signed up, with the clients and the session.
pub struct Person<'s> {
    pub records: &'s Arc<Records>,
    /// The client with the cookies of the session.
    pub browser: KilledClient,
    /// The client for keys and tokens.
    pub program: KilledClient,
    pub account: Arc<Account>,
    /// The token of the session's forms.
    pub csrf: String,
    pub random: fastrand::Rng,
}

/// What a user does.
type PersonAction = fn(&mut Person<'_>) -> ClientResult;

/// Lets users act one after the other until the clients finish. Each of them does everything in random order.
pub fn live(records: &Arc<Records>, mut random: fastrand::Rng) -> ClientResult {
    loop {
        let email = format!("person-{}@people.example", records.numbers(1));
        let Some(mut person) = Person::sign_up(records, &email, random.fork())? else { return Ok(()) };
        let (key, list): (PersonAction, PersonAction) = (|person| person.key(), |person| person.list());
        let mut plan = [key, list, |person| person.assistant(), key, list, list];
        random.shuffle(&mut plan);
        for action in plan {
            if !records.gate.now().is_finishing() {
                action(&mut person)?;
            }
        }
        sign_in(records, &email)?;
    }
}

/// Signs in without an earlier cookie.
fn sign_in(records: &Arc<Records>, email: &str) -> ClientResult {
    let mut browser = KilledClient::browser(records);
    let request = credentials(records, &mut browser, "/signin", email)?;
    let (reply, _) = browser.insist("sign-in", email, &request, &[303, 401])?;
    if reply.status == 401 {
        return Err(records.stop(Rule::SignUps, format!("{email} cannot sign in")));
    }
    records.verified("sign-ins after a sign-up", 1);
    Ok(())
}

/// The form to sign up or in, filled in.
fn credentials(
    records: &Arc<Records>,
    browser: &mut KilledClient,
    action: &str,
    email: &str,
) -> ClientResult<HttpRequest> {
    let (page, _) = browser.insist("page", action, &HttpRequest::get(action), &[200])?;
    let request = page.filled(action, &[("email", email), ("password", PASSWORD)]);
    request.ok_or_else(|| records.wrong(action, &page))
}

impl<'s> Person<'s> {
    /// Signs up; `None` if the clients finish before the form was sent.
    fn sign_up(
        records: &'s Arc<Records>,
        email: &str,
        random: fastrand::Rng,
    ) -> ClientResult<Option<Person<'s>>> {
        let (mut browser, account) = (KilledClient::browser(records), Account::of_user(email));
        let mut doubt = false;
        loop {
            if records.gate.now().is_finishing() && !doubt {
                return Ok(None);
            }
            let request = credentials(records, &mut browser, "/signup", email)?;
            if !doubt {
                records.signing_up.fetch_add(1, Ordering::SeqCst);
            }
            match browser.ask("sign-up", email, &request)? {
                Ok(reply) if reply.status == 303 => break,
                Err(Lost::NotSent) if !doubt => drop(records.signing_up.fetch_sub(1, Ordering::SeqCst)),
                other => {
                    doubt = true;
                    records.expect("sign-up", &other, &[503])?;
                }
            }
        }
        records.signing_up.fetch_sub(1, Ordering::SeqCst);
        records.signed_up.fetch_add(1, Ordering::SeqCst);
        records.add(Arc::clone(&account));
        records.verified("sign-ups", 1);
        let program = KilledClient::program(records);
        let mut person = Person { records, browser, program, account, csrf: String::new(), random };
        let page = person.look("/lists")?;
        let csrf = page.hidden("/lists", "csrf");
        person.csrf = csrf.ok_or_else(|| records.wrong("the page of lists", &page))?;
        Ok(Some(person))
    }

    /// A page for signed-in users.
    pub fn look(&mut self, path: &str) -> ClientResult<HttpReply> {
        let request = HttpRequest::get(path);
        let (page, _) = self.browser.insist("page", path, &request, &[200, 303])?;
        if page.status == 303 {
            let fault = format!("{path}: a session that was acknowledged is gone");
            return Err(self.records.stop(Rule::SignUps, fault));
        }
        Ok(page)
    }

    /// Creates a key, uses it and revokes it.
    fn key(&mut self) -> ClientResult {
        let records = self.records;
        let label = format!("key-{}", records.numbers(1));
        let key = self.new_key(&label)?;
        if let Some(key) = &key {
            records.works(Secret::Key, key);
            records.verified("keys made", 1);
            for check in 0..CHECKS_OF_A_KEY {
                if check == 0 || !records.gate.now().is_finishing() {
                    let single = records.single(&self.account, addresses::live(records.numbers(1)));
                    self.program.full_check("full check", key, single)?;
                }
            }
            records.is_being_revoked(key);
        }
        self.revoke(&label)?;
        let Some(key) = key else { return Ok(()) };
        records.is_revoked(Secret::Key, &key);
        let body = json!({ "email": addresses::live(1) });
        let request = HttpRequest::json("/v1/verify", &body).bearer(&key);
        let (reply, _) = self.program.insist("revoked key", &label, &request, &[200, 401])?;
        if reply.status == 200 {
            return Err(records.stop(Rule::Secrets, format!("{label} is revoked, and works")));
        }
        records.verified("keys revoked", 1);
        Ok(())
    }

    /// Creates a key; `None` if an attempt without an answer has created it, so that it is not known.
    fn new_key(&mut self, label: &str) -> ClientResult<Option<String>> {
        let page = self.look("/keys")?;
        let mut fields = vec![("label", label), ("mode", "live"), ("expires", "")];
        fields.extend(["fast", "full", "batches", "lists", "account"].map(|scope| (scope, "1")));
        let form = page.filled("/keys", &fields).ok_or_else(|| self.records.wrong("/keys", &page))?;
        let (page, doubt) = self.browser.insist("new key", label, &form, &[200, 409])?;
        if page.status == 409 && doubt {
            return Ok(None);
        }
        let text = page.text();
        let tag = text.split("id=\"new-key\"").nth(1).and_then(|rest| rest.split('>').next());
        let key = tag.and_then(|tag| client::attribute(tag, "value"));
        key.map(Some).ok_or_else(|| self.records.wrong("new key", &page))
    }

    fn revoke(&mut self, label: &str) -> ClientResult {
        loop {
            let text = self.look("/keys")?.text();
            let rows: Vec<&str> =
                text.split("<tr>").filter(|row| row.contains(&format!(">{label}<"))).collect();
            if rows.len() != 1 {
                let fault = format!("{} keys are called {label}", rows.len());
                return Err(self.records.stop(Rule::Secrets, fault));
            }
            let fields = hidden_fields(rows[0], "/keys/revoke");
            let id = fields.and_then(|fields| fields.into_iter().find(|(name, _)| name == "id"));
            // If the button is missing, an attempt without an answer has revoked the key.
            let Some((_, id)) = id else { return Ok(()) };
            let form = HttpRequest::form("/keys/revoke", &[("csrf", &self.csrf), ("id", &id)]);
            match self.browser.ask("revoke key", label, &form)? {
                Ok(reply) if reply.status == 303 => return Ok(()),
                other => self.records.expect("revoke key", &other, &[503])?,
            }
        }
    }
}
