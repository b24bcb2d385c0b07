//! Customers of a server: an account with its keys, and its most frequent requests.

use crate::contract::shapes;
use crate::contract::world::number;
use crate::harness::client::{Answer, Call, Connection, escape, get, post};
use crate::harness::server::Server;
use crate::until;
use serde_json::{Value, json};
use std::sync::OnceLock;

pub struct Account<'s> {
    pub server: &'s Server,
    pub name: String,
    pub live: String,
    test: OnceLock<String>,
}

impl Server {
    /// A new account on this plan, with a live key.
    pub fn account(&self, plan: &str) -> Account<'_> {
        let name = format!("account-{}", number());
        self.administer(&["account", "create", &name, "--plan", plan]);
        let live = self.administer(&["key", "create", &name]).trim().to_owned();
        Account::known(self, name, live)
    }
}

impl<'s> Account<'s> {
    /// An existing account with its live key.
    pub fn known(server: &'s Server, name: String, live: String) -> Account<'s> {
        Account { server, name, live, test: OnceLock::new() }
    }

    /// The test key of the account.
    pub fn test(&self) -> &str {
        self.test.get_or_init(|| {
            let made = self.server.administer(&["key", "create", &self.name, "--test"]);
            made.trim().to_owned()
        })
    }

    /// A call with the live key.
    #[track_caller]
    pub fn call(&self, call: Call) -> Answer {
        self.server.call(&call.key(&self.live))
    }

    /// `POST /v1/verify` with the live key.
    #[track_caller]
    pub fn verify(&self, email: &str) -> Value {
        verified(&self.call(verify(email)))
    }

    /// `POST /v1/verify` in fast mode with the live key.
    #[track_caller]
    pub fn fast(&self, email: &str) -> Value {
        verified(&self.call(fast(email)))
    }

    /// The `detail` of a full check with the live key.
    #[track_caller]
    pub fn detail(&self, email: &str) -> Value {
        let call = post("/v1/verify?detail=full", &json!({ "email": email }));
        verified(&self.call(call))["detail"].clone()
    }

    /// `GET /v1/account` with the live key.
    #[track_caller]
    pub fn account(&self) -> Value {
        let account = self.call(get("/v1/account")).ok();
        shapes::account(&account);
        account
    }

    #[track_caller]
    pub fn credits(&self) -> u64 {
        self.account()["credits_remaining"].as_u64().unwrap()
    }

    /// Submits a batch with the live key and returns its creation response.
    #[track_caller]
    pub fn start(&self, emails: &[String]) -> Value {
        created(&self.call(batch(emails)))
    }

    /// The status of a batch.
    #[track_caller]
    pub fn poll(&self, id: &str) -> Value {
        let status = self.call(get(format!("/v1/verify/batch/{id}"))).ok();
        shapes::batch(&status);
        assert_eq!(status["batch_id"], id);
        status
    }

    /// Polls until the batch is completed.
    #[track_caller]
    pub fn finish(&self, id: &str) -> Value {
        until(|| {
            let status = self.poll(id);
            if status["status"] == "completed" { Ok(status) } else { Err(status.to_string()) }
        })
    }

    /// Submits a batch and waits for its results.
    #[track_caller]
    pub fn run(&self, emails: &[String]) -> Value {
        self.finish(self.start(emails)["batch_id"].as_str().unwrap())
    }

    pub fn grant(&self, credits: u64) {
        self.server.administer(&["account", "grant", &self.name, &credits.to_string()]);
    }

    pub fn set_status(&self, status: &str) {
        self.server.administer(&["account", "set-status", &self.name, status]);
    }

    /// Another live key.
    pub fn another_key(&self) -> String {
        self.server.administer(&["key", "create", &self.name]).trim().to_owned()
    }

    /// Revokes the live key of the account.
    pub fn revoke(&self) {
        let keys: Value = self.server.administer_json(&["key", "list", &self.name]);
        let keys = keys.as_array().unwrap();
        let live = keys.iter().find(|key| self.live.ends_with(key["last4"].as_str().unwrap())).unwrap();
        self.server.administer(&["key", "revoke", live["id"].as_str().unwrap()]);
    }

    /// The end of the period in milliseconds since 1970.
    pub fn period_end(&self) -> u64 {
        let shown = self.server.administer_json(&["account", "show", &self.name]);
        shown["account"]["period_end"].as_u64().unwrap_or_else(|| panic!("{shown}"))
    }
}

/// The call `POST /v1/verify` of an address.
pub fn verify(email: &str) -> Call {
    post("/v1/verify", &json!({ "email": email }))
}

/// The call `GET /v1/verify` of an address, with a suffix of the query.
pub fn verify_by_get(email: &str, more: &str) -> Call {
    get(format!("/v1/verify?email={}{more}", escape(email)))
}

/// The call `POST /v1/verify` in fast mode.
pub fn fast(email: &str) -> Call {
    post("/v1/verify", &json!({ "email": email, "mode": "fast" }))
}

/// The call `POST /v1/verify/batch` of these addresses.
pub fn batch(emails: &[String]) -> Call {
    post("/v1/verify/batch", &json!({ "emails": emails }))
}

/// The verification result of an answer 200.
#[track_caller]
pub fn verified(answer: &Answer) -> Value {
    let result = answer.ok();
    shapes::verification(&result);
    result
}

/// The creation response of an answer 202.
#[track_caller]
pub fn created(answer: &Answer) -> Value {
    assert_eq!(answer.status, 202, "{answer:?}");
    let created = answer.json();
    shapes::batch_created(&created);
    created
}

/// `addresses(3)`: three deliverable addresses that no other test asks about.
pub fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|_| crate::contract::world::mailbox()).collect()
}

/// Repeats a call on one connection until it is refused or was sent this often. Returns how often it was admitted, and
/// the refusal.
pub fn until_refused(connection: &mut Connection, call: &Call, most: usize) -> (usize, Option<Answer>) {
    for passed in 0..most {
        let answer = connection.call(call);
        if answer.status == 429 {
            return (passed, Some(answer));
        }
    }
    (most, None)
}
