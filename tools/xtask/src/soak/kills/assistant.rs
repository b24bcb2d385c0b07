//! A client of OAuth and MCP: it registers, its user consents, it checks addresses, renews its tokens and revokes them.

use super::addresses;
use super::client::{HttpReply, HttpRequest, Lost};
use super::gate::ClientResult;
use super::people::Person;
use super::records::{Records, Rule, Secret, Single};
use crate::soak::assistants::{self, tool, tools};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The number of full checks that the user allows.
const ALLOWED: u64 = 10;
/// How many full checks precede the renewal of the tokens, and how many follow it.
const FULL_CHECKS: u32 = 2;
/// A code is valid for a minute; it is not used after this time.
const CODE_LIFE: Duration = Duration::from_secs(50);

/// The tokens of an assistant, and the full checks that it has made.
#[derive(Default)]
struct Connected {
    access: String,
    refresh: String,
    /// Full checks that the answers counted.
    taken: u64,
    /// Full checks without an answer, which may count.
    maybe_taken: u64,
}

impl Person<'_> {
    /// Connects an assistant, uses it, renews its tokens, uses it again and ends the connection.
    pub fn assistant(&mut self) -> ClientResult {
        let records = self.records;
        let resource = format!("http://{}/mcp", records.server);
        let registration = assistants::registration();
        let (reply, _) = self.program.insist("registration", "", &registration, &[201])?;
        let client_id = reply.word("client_id");
        let (code, code_at) = (self.consent(&client_id, &resource)?, Instant::now());
        let request = assistants::redemption(&client_id, &code, &resource);
        let (reply, doubt) = self.program.insist("token", "", &request, &[200, 400])?;
        if reply.status == 400 {
            // The attempt without an answer has used the code, or the code has expired.
            let is_right = doubt || code_at.elapsed() > CODE_LIFE;
            return if is_right { Ok(()) } else { Err(records.wrong("token", &reply)) };
        }
        records.verified("connections", 1);
        let mut connected = Connected::default();
        self.use_tokens(&mut connected, &reply)?;
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", connected.refresh.as_str()),
            ("client_id", &client_id),
            ("resource", &resource),
        ];
        let request = HttpRequest::form("/oauth/token", &fields);
        let (reply, doubt) = self.program.insist("renewal", "", &request, &[200, 400])?;
        match reply.status {
            200 => {
                records.verified("renewals", 1);
                self.use_tokens(&mut connected, &reply)?;
                records.is_being_revoked(&connected.access);
                let fields = [("token", connected.refresh.as_str()), ("client_id", &client_id)];
                let request = HttpRequest::form("/oauth/revoke", &fields);
                self.program.insist("revoke token", "", &request, &[200])?;
            }
            // The attempt without an answer was executed, so this request had a used token: that ends the connection.
            _ if doubt => records.is_being_revoked(&connected.access),
            _ => return Err(records.wrong("renewal", &reply)),
        }
        records.is_revoked(Secret::Token, &connected.access);
        let request = tools(&connected.access);
        let (reply, _) = self.program.insist("revoked token", "", &request, &[200, 401])?;
        if reply.status == 200 {
            return Err(records.stop(Rule::Secrets, format!("a token is revoked: {reply}")));
        }
        records.verified("connections ended", 1);
        Ok(())
    }

    /// The user consents. Returns the code.
    fn consent(&mut self, client_id: &str, resource: &str) -> ClientResult<String> {
        let records = self.records;
        let request = HttpRequest::get(assistants::consent_path(client_id, resource));
        loop {
            let (page, _) = self.browser.insist("page", "/oauth/authorize", &request, &[200])?;
            let consent = assistants::consent(&page, ALLOWED);
            let consent =
                consent.ok_or_else(|| records.wrong("a page of consent without its form", &page))?;
            match self.browser.ask("consent", "", &consent)? {
                Ok(reply) if reply.status == 303 => {
                    return assistants::code(&reply).ok_or_else(|| records.wrong("consent", &reply));
                }
                other => records.expect("consent", &other, &[503])?,
            }
        }
    }

    /// Takes the tokens of an answer, and makes some checks with them.
    fn use_tokens(&mut self, connected: &mut Connected, reply: &HttpReply) -> ClientResult {
        let records = self.records;
        // The token still works, but the next renewal would end that.
        records.is_being_revoked(&connected.access);
        (connected.access, connected.refresh) = (reply.word("access_token"), reply.word("refresh_token"));
        records.works(Secret::Token, &connected.access);
        for _ in 0..FULL_CHECKS {
            if records.gate.now().is_finishing() {
                return Ok(());
            }
            let email = addresses::live(records.numbers(1));
            let fast = tool(&connected.access, &json!({ "email": email, "mode": "fast" }));
            let outcome = self.program.ask("tool, fast", &email, &fast)?;
            records.expect("tool, fast", &outcome, &[200, 503])?;
            let single = records.single(&self.account, email);
            if !self.full_check_by_tool(connected, single)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes a full check. Returns whether it was answered; otherwise attempts without an answer have used up the allowed checks.
    fn full_check_by_tool(&mut self, connected: &mut Connected, mut single: Single) -> ClientResult<bool> {
        let records = self.records;
        let full = tool(&connected.access, &json!({ "email": single.email, "mode": "full" }));
        loop {
            single.purchase.asks();
            match self.program.ask("tool, full", &single.email, &full)? {
                Ok(reply) if reply.status == 200 => {
                    let result = reply.json()["result"].take();
                    if result["isError"] == json!(false) {
                        connected.checked(records, &mut single, &result["structuredContent"]);
                        return Ok(true);
                    }
                    connected.maybe_taken += 1;
                    let why = result["content"][0]["text"].as_str().unwrap_or_default();
                    if why.contains("nothing was charged") {
                        single.purchase.refused();
                        continue;
                    }
                    single.purchase.unknown();
                    let may_be_used_up = connected.taken + connected.maybe_taken >= ALLOWED;
                    if why.starts_with("full_checks_used_up") && may_be_used_up {
                        return Ok(false);
                    }
                    if !why.starts_with("temporarily_unavailable") {
                        return Err(records.stop(Rule::Answers, format!("a tool: {why}")));
                    }
                }
                Err(Lost::NotSent) => {}
                other => {
                    connected.maybe_taken += 1;
                    single.purchase.unknown();
                    records.expect("tool, full", &other, &[503])?;
                }
            }
        }
    }
}

impl Connected {
    /// Records an answer: it is paid once, and counts as one of the allowed full checks.
    fn checked(&mut self, records: &Records, single: &mut Single, answer: &Value) {
        records.judge(Rule::Charges, "checks of assistants", single.judge(answer));
        single.purchase.paid();
        self.taken += u64::from(answer["cached"] == json!(false));
        let left = answer["full_checks_left"].as_u64().unwrap_or(u64::MAX);
        let most = ALLOWED.saturating_sub(self.taken);
        let least = most.saturating_sub(self.maybe_taken);
        if !(least..=most).contains(&left) {
            let fault = format!("{left} full checks left, and {least} to {most} can be: {answer}");
            records.fault(Rule::Charges, fault);
        }
    }
}
