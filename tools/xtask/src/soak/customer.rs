//! A customer: an account whose requests have to succeed beside any other account and any stranger, and how long each takes.

use super::api::Api;
use super::client::{HttpClient, HttpRequest};
use super::crowd::{each, host, lock};
use super::slow_peers::percentile;
use super::transport::ServerEndpoint;
use super::visitor::{Visitor, expect};
use crate::failure::{Failure, ensure};
use crate::interop::process::{sleep, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The number of domains of the scenario: `a-1.example` and so on, with the mailboxes `user-#`.
const DOMAINS: u64 = 50;
const ROWS: u64 = 1_000;
const BATCH_ROWS: u64 = 20;
const UPLOAD_BYTES: usize = 2 << 20;
/// A downloaded result has at least this many bytes, and each of its rows these.
const DOWNLOAD_BYTES: usize = 4_000_000;
const DOWNLOAD_ROW_BYTES: usize = 190;
const LOOK: Duration = Duration::from_millis(20);
/// A step that takes longer has failed, whatever it took before.
const STEP_LIMIT: Duration = Duration::from_secs(120);
/// The pause between two actions of one kind.
const PAUSE: Duration = Duration::from_millis(2);

/// What a customer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Account,
    FastCheck,
    /// A full check of a mailbox that exists.
    FullCheck,
    /// A full check of a mailbox that does not exist. A refusal is verified, and the mail server determines how long that takes.
    UnknownCheck,
    Page,
    SignIn,
    Batch,
    Webhook,
    Upload,
    List,
    Download,
}

impl Action {
    /// Actions of milliseconds: their median and a percentile count.
    pub const SHORT: [Action; 3] = [Action::FastCheck, Action::FullCheck, Action::Page];
    /// Actions of less than a second: the median counts.
    pub const MEDIUM: [Action; 3] = [Action::SignIn, Action::Batch, Action::Webhook];
    /// Actions of seconds: the worst counts.
    pub const LONG: [Action; 3] = [Action::Upload, Action::List, Action::Download];
}

/// The times of all actions that succeeded.
pub type ActionTimes = BTreeMap<Action, Vec<Duration>>;

/// An account with credits, and a user with an account of its own.
pub struct Customer {
    server: ServerEndpoint,
    key: String,
    visitor: Visitor,
    email: String,
    /// What medium and long actions need.
    means: Option<CustomerMeans>,
    /// The number of the next address, so that no check is a repeat.
    next: AtomicU64,
    /// Single full checks that were answered. No check is a repeat, so each was charged.
    pub charged: AtomicU64,
}

/// A list with a long result, and an endpoint of webhooks.
struct CustomerMeans {
    webhook: String,
    delivered: Mutex<Receiver<Instant>>,
    download: String,
}

impl Customer {
    /// A customer that can do the short actions. The key is that of an account without limits.
    pub fn sign_up(server: &ServerEndpoint, key: String, email: &str) -> Result<Customer, Failure> {
        let visitor = Visitor::sign_up(server, email)?;
        let (server, email) = (server.clone(), email.to_owned());
        let (next, charged) = (AtomicU64::new(1), AtomicU64::new(0));
        Ok(Customer { server, key, visitor, email, means: None, next, charged })
    }

    /// Prepares the medium and the long actions.
    ///
    /// # Errors
    ///
    /// A step failed.
    pub fn prepare(&mut self) -> Result<(), Failure> {
        // One address, so that the list costs one credit.
        let note = "n".repeat(150);
        let rows = DOWNLOAD_BYTES / DOWNLOAD_ROW_BYTES + 1;
        let content = format!("email,note\n{}", format!("user-0@a-1.example,{note}\n").repeat(rows));
        let download = self.visitor.checked_list("long.csv", content.as_bytes())?;
        let (url, delivered) = receiver()?;
        let body = json!({ "url": url, "events": ["list.unfit"] });
        let made = Api::new(self.server.address, &self.key).post("/v1/webhooks", &body)?;
        let webhook = made.word("webhook_id");
        ensure!(made.status == 201 && !webhook.is_empty(), "a webhook: {made}");
        self.means = Some(CustomerMeans { webhook, delivered: Mutex::new(delivered), download });
        Ok(())
    }

    /// Does lines of actions at the same time: each so often, one action after the other.
    ///
    /// # Errors
    ///
    /// An action did not succeed.
    pub fn act(&self, lines: &[(&[Action], usize)]) -> Result<ActionTimes, Failure> {
        let times = each(lines.len(), lines.len(), |line| self.act_in_turn(lines[line].0, lines[line].1))?;
        times.into_iter().try_fold(ActionTimes::new(), |mut all, times| {
            all.extend(times?);
            Ok(all)
        })
    }

    fn act_in_turn(&self, actions: &[Action], count: usize) -> Result<ActionTimes, Failure> {
        let mut times = ActionTimes::new();
        for _ in 0..count {
            for action in actions {
                let took = self.once(*action).map_err(|why| Failure(format!("{action:?}: {}", why.0)))?;
                times.entry(*action).or_default().push(took);
                sleep(PAUSE)?;
            }
        }
        Ok(times)
    }

    fn once(&self, action: Action) -> Result<Duration, Failure> {
        let began = Instant::now();
        match action {
            Action::Account => {
                let answer = self.send(HttpRequest::get("/v1/account"), 200)?;
                right(answer["credits_remaining"].is_u64(), &answer)?;
            }
            Action::FastCheck => {
                let body = json!({ "email": "user-1@a-1.example", "mode": "fast" });
                let answer = self.send(HttpRequest::json("/v1/verify", &body), 200)?;
                let is_right = answer["reason"] == "fast_check_passed" && answer["checks"]["mx"] == true;
                right(is_right, &answer)?;
            }
            Action::FullCheck => self.full_check(self.address_in(0), "mailbox_exists")?,
            Action::UnknownCheck => {
                self.full_check(format!("nobody-{}", self.address_in(0)), "mailbox_not_found")?;
            }
            Action::Page => {
                let page = expect(&mut self.visitor.client(), &HttpRequest::get("/lists"), 200)?;
                right(page.form("/lists").is_some(), &Value::from(page.text()))?;
            }
            Action::SignIn => {
                let browser = Visitor::sign_in(&self.server, &self.email)?;
                let took = began.elapsed();
                Visitor::sign_out(browser)?;
                return Ok(took);
            }
            Action::Batch => self.batch()?,
            Action::Webhook => return self.webhook(),
            Action::Upload => drop(self.upload(&"x@a-1.example\n".repeat(UPLOAD_BYTES / 14), "unread")?),
            Action::List => self.list()?,
            Action::Download => {
                let request = HttpRequest::get(self.means()?.download.as_str());
                let reply = expect(&mut self.visitor.client(), &request, 200)?;
                right(reply.body.len() >= DOWNLOAD_BYTES, &json!(reply.body.len()))?;
            }
        }
        Ok(began.elapsed())
    }

    fn means(&self) -> Result<&CustomerMeans, Failure> {
        self.means.as_ref().ok_or_else(|| Failure("the action is not prepared".into()))
    }

    fn full_check(&self, email: String, reason: &str) -> Result<(), Failure> {
        let answer = self.send(HttpRequest::json("/v1/verify", &json!({ "email": email })), 200)?;
        self.charged.fetch_add(1, Ordering::Relaxed);
        right(answer["email"] == email.as_str() && answer["reason"] == reason, &answer)
    }

    /// An address for a batch or a list that was never asked about.
    fn address(&self) -> String {
        self.address_in(1)
    }

    /// An address that was never asked about, in one half of the domains. A single check in the session of a list waits for the
    /// proof of the list's answers, so single checks have the other half: what attackers take is measured, and not the own list.
    fn address_in(&self, half: u64) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("user-{number}@a-{}.example", number % (DOMAINS / 2) * 2 + 1 + half)
    }

    fn batch(&self) -> Result<(), Failure> {
        let emails: Vec<String> = (0..BATCH_ROWS).map(|_| self.address()).collect();
        let body = json!({ "emails": emails });
        let made = self.send(HttpRequest::json("/v1/verify/batch", &body), 202)?;
        let path = format!("/v1/verify/batch/{}", text(&made, "batch_id")?);
        let last = self.wait_for(&path, "completed")?;
        let exist = last["results"]
            .as_array()
            .map(|rows| rows.iter().filter(|row| row["reason"] == "mailbox_exists").count() as u64);
        right(exist == Some(BATCH_ROWS), &last)
    }

    /// The time from the request for a message to its delivery.
    fn webhook(&self) -> Result<Duration, Failure> {
        let CustomerMeans { delivered, webhook, .. } = self.means()?;
        let delivered = lock(delivered);
        while delivered.try_recv().is_ok() {}
        let began = Instant::now();
        self.send(HttpRequest::json(format!("/v1/webhooks/{webhook}/test"), &json!({})), 202)?;
        let arrived = delivered.recv_timeout(STEP_LIMIT);
        arrived.map(|at| at - began).map_err(|_| Failure("the message did not arrive".into()))
    }

    /// Uploads a list and deletes it, unless its check is wanted.
    fn upload(&self, content: &str, what: &str) -> Result<String, Failure> {
        let path = format!("/v1/lists?name={what}");
        let made = self.send(HttpRequest::content(path, content.as_bytes()), 201)?;
        let path = format!("/v1/lists/{}", text(&made, "list_id")?);
        if what == "unread" {
            self.delete(&path)?;
        }
        Ok(path)
    }

    fn list(&self) -> Result<(), Failure> {
        let rows: String = (0..ROWS).map(|_| format!("{}\n", self.address())).collect();
        let path = self.upload(&format!("email\n{rows}"), "checked")?;
        self.wait_for(&path, "ready")?;
        self.send(HttpRequest::json(format!("{path}/start"), &json!({})), 202)?;
        let last = self.wait_for(&path, "completed")?;
        right(last["credits_charged"] == ROWS, &last)?;
        self.delete(&path)
    }

    fn delete(&self, path: &str) -> Result<(), Failure> {
        self.send(HttpRequest::new("DELETE", path, ""), 204).map(drop)
    }

    fn wait_for(&self, path: &str, status: &str) -> Result<Value, Failure> {
        let mut last = Value::Null;
        let waited = wait_until(path, STEP_LIMIT, || {
            last = self.send(HttpRequest::get(path), 200)?;
            sleep(LOOK)?;
            Ok(last["status"] == status)
        });
        waited.map_err(|failure| Failure(format!("{}: {last}", failure.0)))?;
        Ok(last)
    }

    fn send(&self, request: HttpRequest, status: u16) -> Result<Value, Failure> {
        let mut client = HttpClient::program(self.server.clone());
        Ok(expect(&mut client, &request.bearer(&self.key), status)?.json())
    }
}

/// The scenario of a customer and of those beside it, with servers of this personality.
pub fn scenario(personality: &str) -> String {
    format!(
        "seed = 1\n[[group]]\nname = \"a-{{n}}.example\"\ncount = {DOMAINS}\nserver = \"{personality}\"\n\
         mailboxes.ok = [\"user-#\"]\n"
    )
}

/// The 99th percentile of the times of each action.
pub fn percentiles(times: &ActionTimes) -> BTreeMap<Action, Duration> {
    times.iter().map(|(action, times)| (*action, percentile(times.clone()))).collect()
}

fn right(is_right: bool, answer: &Value) -> Result<(), Failure> {
    if is_right { Ok(()) } else { Err(Failure(format!("a wrong answer: {answer}"))) }
}

fn text(answer: &Value, field: &str) -> Result<String, Failure> {
    let found = answer[field].as_str().map(str::to_owned);
    found.ok_or_else(|| Failure(format!("an answer without {field}: {answer}")))
}

/// A receiver of webhooks, which tells when a message has arrived.
fn receiver() -> Result<(String, Receiver<Instant>), Failure> {
    let (arrived, arrivals) = channel();
    let address = host("a receiver of webhooks", move |mut stream| {
        let mut request = [0; 16 * 1024];
        // A message fits into one read, or the answer comes early, which the sender permits.
        if stream.read(&mut request).is_ok_and(|length| length > 0)
            && stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").is_ok()
        {
            // The customer may have gone.
            let _ = arrived.send(Instant::now());
        }
    })?;
    Ok((format!("http://{address}/"), arrivals))
}
