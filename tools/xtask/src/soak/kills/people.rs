//! Users of the dashboard: they sign up, create keys and revoke them, upload lists, connect assistants, and sign in
//! again. Then a new user replaces each of them.

use super::assistant::Assistant;
use super::client::{HttpClient, HttpReply, HttpRequest, Lost, hidden_fields};
use super::lists::ListFlow;
use super::programs::{Single, expect, full_check};
use super::records::{Account, Life, Purchase, Rule, Secret};
use super::{addresses, client};
use crate::soak::judge::{self, Reasons};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PASSWORD: &str = "correct horse battery";
/// How many checks are made with a key before it is revoked.
const CHECKS_OF_A_KEY: usize = 4;

/// One user with a plan of actions.
pub struct Person {
    server: SocketAddr,
    hands: Hands,
    email: String,
    stage: PersonStage,
    /// The remaining actions, in reverse order.
    plan: Vec<PersonKind>,
    random: fastrand::Rng,
}

/// The clients and the session that a user's actions use.
pub struct Hands {
    /// The client with the cookies of the session.
    pub browser: HttpClient,
    /// The client for keys and tokens.
    pub program: HttpClient,
    pub account: Arc<Account>,
    /// The token of the session's forms.
    pub csrf: String,
}

/// The result of a step of an action.
pub enum Next {
    /// The action has a further step, or repeats this one.
    More,
    /// The action is complete.
    Done,
}

enum PersonStage {
    SigningUp { doubt: bool },
    Looking,
    At(Box<Flow>),
    SigningIn,
}

enum Flow {
    Key(KeyFlow),
    List(ListFlow),
    Assistant(Assistant),
}

#[derive(Clone, Copy)]
enum PersonKind {
    Key,
    List,
    Assistant,
}

impl Person {
    /// A user who has no account yet.
    pub fn new(server: SocketAddr, number: u64, mut random: fastrand::Rng) -> Person {
        let email = format!("person-{number}@people.example");
        let hands = Hands {
            browser: HttpClient::browser(server),
            program: HttpClient::program(server),
            account: Account::of_user(&email),
            csrf: String::new(),
        };
        let mut plan = vec![
            PersonKind::Key,
            PersonKind::List,
            PersonKind::Assistant,
            PersonKind::Key,
            PersonKind::List,
            PersonKind::List,
        ];
        random.shuffle(&mut plan);
        Person { server, hands, email, stage: PersonStage::SigningUp { doubt: false }, plan, random }
    }

    /// Closes the connections: the server has ended.
    pub fn hang_up(&mut self) {
        self.hands.browser.hang_up();
        self.hands.program.hang_up();
    }

    /// Sends one request or two. Returns whether steps remain if no action is started.
    pub fn step(&mut self, life: &Life<'_>) -> bool {
        match &mut self.stage {
            PersonStage::SigningUp { doubt } => {
                if life.finishing && !*doubt {
                    return false;
                }
                self.sign_up(life);
            }
            PersonStage::Looking => {
                let Some(page) = look(life, &mut self.hands.browser, "/lists") else { return true };
                match page.hidden("/lists", "csrf") {
                    Some(csrf) => {
                        self.hands.csrf = csrf;
                        self.begin(life);
                    }
                    None => life.wrong("the page of lists", &page),
                }
            }
            PersonStage::At(flow) => {
                let next = match flow.as_mut() {
                    Flow::Key(flow) => flow.step(life, &mut self.hands),
                    Flow::List(flow) => flow.step(life, &mut self.hands),
                    Flow::Assistant(flow) => flow.step(life, &mut self.hands),
                };
                if matches!(next, Next::Done) {
                    self.begin(life);
                }
            }
            PersonStage::SigningIn => {
                if self.sign_in(life) {
                    let number = life.shared.numbers(1);
                    *self = Person::new(self.server, number, self.random.fork());
                }
            }
        }
        true
    }

    /// Starts the next action of the plan, or signs in again at its end.
    fn begin(&mut self, life: &Life<'_>) {
        let next = if life.finishing { None } else { self.plan.pop() };
        let number = life.shared.numbers(100);
        self.stage = match next {
            Some(PersonKind::Key) => PersonStage::At(Box::new(Flow::Key(KeyFlow::new(number)))),
            Some(PersonKind::List) => PersonStage::At(Box::new(Flow::List(ListFlow::new(
                life,
                &self.hands,
                number,
                &mut self.random,
            )))),
            Some(PersonKind::Assistant) => PersonStage::At(Box::new(Flow::Assistant(Assistant::default()))),
            None => PersonStage::SigningIn,
        };
    }

    fn sign_up(&mut self, life: &Life<'_>) {
        let Some(request) = credentials(life, &mut self.hands.browser, "/signup", &self.email) else {
            return;
        };
        let PersonStage::SigningUp { doubt } = &mut self.stage else { return };
        if !*doubt {
            life.shared.signing_up.fetch_add(1, Ordering::SeqCst);
        }
        match life.ask(&mut self.hands.browser, "sign-up", &self.email, &request) {
            Ok(reply) if reply.status == 303 => {
                life.shared.signing_up.fetch_sub(1, Ordering::SeqCst);
                life.shared.signed_up.fetch_add(1, Ordering::SeqCst);
                life.shared.add(Arc::clone(&self.hands.account));
                life.shared.verified("sign-ups", 1);
                self.stage = PersonStage::Looking;
            }
            Err(Lost::NotSent) if !*doubt => {
                life.shared.signing_up.fetch_sub(1, Ordering::SeqCst);
            }
            other => {
                *doubt = true;
                expect(life, "sign-up", &other, &[503]);
            }
        }
    }

    /// Signs in without an earlier cookie.
    fn sign_in(&mut self, life: &Life<'_>) -> bool {
        let mut browser = HttpClient::browser(self.server);
        let Some(request) = credentials(life, &mut browser, "/signin", &self.email) else { return false };
        match life.ask(&mut browser, "sign-in", &self.email, &request) {
            Ok(reply) if reply.status == 303 => {
                life.shared.verified("sign-ins after a sign-up", 1);
                true
            }
            Ok(reply) if reply.status == 401 => {
                life.shared.fault(Rule::SignUps, format!("{} cannot sign in", self.email));
                true
            }
            other => {
                expect(life, "sign-in", &other, &[503]);
                false
            }
        }
    }
}

/// The form to sign up or in, filled in.
fn credentials(life: &Life<'_>, browser: &mut HttpClient, action: &str, email: &str) -> Option<HttpRequest> {
    match &life.ask(browser, "page", action, &HttpRequest::get(action)) {
        Ok(page) if page.status == 200 => {
            let request = page.filled(action, &[("email", email), ("password", PASSWORD)]);
            if request.is_none() {
                life.wrong(action, page);
            }
            request
        }
        other => {
            expect(life, action, other, &[503]);
            None
        }
    }
}

/// A page for signed-in users, if the server can show it now.
pub fn look(life: &Life<'_>, browser: &mut HttpClient, path: &str) -> Option<HttpReply> {
    match life.ask(browser, "page", path, &HttpRequest::get(path)) {
        Ok(page) if page.status == 200 => Some(page),
        Ok(page) if page.status == 303 => {
            life.shared.fault(Rule::SignUps, format!("{path}: a session that was acknowledged is gone"));
            None
        }
        other => {
            expect(life, path, &other, &[503]);
            None
        }
    }
}

/// A key from its creation until after its revocation.
#[derive(Default)]
struct KeyFlow {
    label: String,
    stage: KeyStage,
    key: String,
    /// The form that creates the key, which is sent again if its answer is missing.
    form: Option<HttpRequest>,
    doubt: bool,
    single: Option<Single>,
    checked: Vec<(String, Reasons)>,
}

#[derive(Default)]
enum KeyStage {
    #[default]
    Make,
    Use,
    Revoke,
    Revoked,
}

impl KeyFlow {
    fn new(number: u64) -> KeyFlow {
        KeyFlow { label: format!("key-{number}"), ..KeyFlow::default() }
    }

    fn step(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        match self.stage {
            KeyStage::Make => self.make(life, hands),
            KeyStage::Use => self.use_it(life, hands),
            KeyStage::Revoke => self.revoke(life, hands),
            KeyStage::Revoked => return self.is_refused(life, hands),
        }
        Next::More
    }

    fn make(&mut self, life: &Life<'_>, hands: &mut Hands) {
        let Some(form) = &self.form else {
            let Some(page) = look(life, &mut hands.browser, "/keys") else { return };
            let mut fields = vec![("label", self.label.as_str()), ("mode", "live"), ("expires", "")];
            fields.extend(["fast", "full", "batches", "lists", "account"].map(|scope| (scope, "1")));
            self.form = page.filled("/keys", &fields);
            if self.form.is_none() {
                life.wrong("/keys", &page);
            }
            return;
        };
        match life.ask(&mut hands.browser, "new key", &self.label, form) {
            Ok(page) if page.status == 200 => {
                let text = page.text();
                let tag = text.split("id=\"new-key\"").nth(1).and_then(|rest| rest.split('>').next());
                match tag.and_then(|tag| client::attribute(tag, "value")) {
                    Some(key) => {
                        life.shared.works(Secret::Key, &key);
                        life.shared.verified("keys made", 1);
                        self.key = key;
                        self.stage = KeyStage::Use;
                    }
                    None => life.wrong("new key", &page),
                }
            }
            // The attempt without an answer created the key.
            Ok(page) if page.status == 409 && self.doubt => self.stage = KeyStage::Revoke,
            Err(Lost::NotSent) => {}
            other => {
                self.doubt = true;
                expect(life, "new key", &other, &[503]);
            }
        }
    }

    fn use_it(&mut self, life: &Life<'_>, hands: &mut Hands) {
        if self.single.is_none() {
            if self.checked.len() >= CHECKS_OF_A_KEY || (life.finishing && !self.checked.is_empty()) {
                life.shared.is_being_revoked(&self.key);
                self.stage = KeyStage::Revoke;
                return;
            }
            let email = addresses::live(life.shared.numbers(1));
            let reasons = judge::reasons(&life.shared.scenario, &email);
            self.single = Some(Single { email, reasons, purchase: Purchase::new(&hands.account, 1) });
        }
        let Some(single) = self.single.take() else { return };
        match full_check(life, &mut hands.program, &self.key, single) {
            Ok(checked) => self.checked.push(checked),
            Err(single) => self.single = Some(single),
        }
    }

    fn revoke(&mut self, life: &Life<'_>, hands: &mut Hands) {
        let Some(page) = look(life, &mut hands.browser, "/keys") else { return };
        let text = page.text();
        let rows: Vec<&str> =
            text.split("<tr>").filter(|row| row.contains(&format!(">{}<", self.label))).collect();
        if rows.len() != 1 {
            let fault = format!("{} keys are called {}", rows.len(), self.label);
            life.shared.fault(Rule::Secrets, fault);
        }
        let fields = rows.first().and_then(|row| hidden_fields(row, "/keys/revoke"));
        let id = fields.and_then(|fields| fields.into_iter().find(|(name, _)| name == "id"));
        let Some((_, id)) = id else {
            // The button is missing: an attempt without an answer has revoked the key.
            self.stage = KeyStage::Revoked;
            return;
        };
        let fields = [("csrf", hands.csrf.as_str()), ("id", id.as_str())];
        match life.ask(
            &mut hands.browser,
            "revoke key",
            &self.label,
            &HttpRequest::form("/keys/revoke", &fields),
        ) {
            Ok(reply) if reply.status == 303 => self.stage = KeyStage::Revoked,
            other => expect(life, "revoke key", &other, &[503]),
        }
    }

    fn is_refused(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        if self.key.is_empty() {
            return Next::Done;
        }
        life.shared.is_revoked(Secret::Key, &self.key);
        let request =
            HttpRequest::json("/v1/verify", &json!({ "email": addresses::live(1) })).bearer(&self.key);
        match life.ask(&mut hands.program, "revoked key", &self.label, &request) {
            Ok(reply) if reply.status == 401 => life.shared.verified("keys revoked", 1),
            Ok(reply) if reply.status != 503 => {
                life.shared.fault(Rule::Secrets, format!("{} is revoked: {}", self.label, reply.status));
            }
            _ => return Next::More,
        }
        Next::Done
    }
}
