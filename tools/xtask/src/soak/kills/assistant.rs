//! A client of OAuth and MCP: it registers, its user consents, it checks addresses, renews its tokens and revokes them.

use super::addresses;
use super::client::{HttpReply, HttpRequest, Lost};
use super::people::{Hands, Next};
use super::programs::{Single, expect, judge};
use super::records::{Life, Purchase, Rule, Secret};
use crate::soak::assistants::{self, tool, tools};
use crate::soak::judge;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The number of full checks that the user allows.
const ALLOWED: u64 = 10;
/// How many full checks precede the renewal of the tokens, and how many follow it.
const FULL_CHECKS: u32 = 2;
/// A code is valid for a minute; it is not used after this time.
const CODE_LIFE: Duration = Duration::from_secs(50);

/// An assistant with its stage, tokens and counts. At first it is not registered.
#[derive(Default)]
pub struct Assistant {
    stage: AssistantStage,
    client_id: String,
    code: String,
    code_at: Option<Instant>,
    access: String,
    refresh: String,
    /// The request of this stage was sent and had no answer.
    doubt: bool,
    is_renewed: bool,
    single: Option<Single>,
    checks: u32,
    /// Full checks that the answers counted.
    taken: u64,
    /// Full checks without an answer, which may count.
    maybe_taken: u64,
}

#[derive(Default)]
enum AssistantStage {
    #[default]
    Register,
    Consent,
    Redeem,
    Use,
    Renew,
    Revoke,
    Revoked,
}

impl Assistant {
    /// Sends the next request of its stage.
    pub fn step(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        match self.stage {
            AssistantStage::Register => self.register(life, hands),
            AssistantStage::Consent => self.consent(life, hands),
            AssistantStage::Redeem => return self.redeem(life, hands),
            AssistantStage::Use => self.use_it(life, hands),
            AssistantStage::Renew => return self.renew(life, hands),
            AssistantStage::Revoke => self.revoke(life, hands),
            AssistantStage::Revoked => return self.is_refused(life, hands),
        }
        Next::More
    }

    fn register(&mut self, life: &Life<'_>, hands: &mut Hands) {
        match life.ask(&mut hands.program, "registration", "", &assistants::registration()) {
            Ok(reply) if reply.status == 201 => {
                self.client_id = reply.word("client_id");
                self.stage = AssistantStage::Consent;
            }
            other => expect(life, "registration", &other, &[503]),
        }
    }

    fn consent(&mut self, life: &Life<'_>, hands: &mut Hands) {
        let path = assistants::consent_path(&self.client_id, &resource(life));
        let page = life.ask(&mut hands.browser, "page", "/oauth/authorize", &HttpRequest::get(path));
        let consent = match &page {
            Ok(page) if page.status == 200 => assistants::consent(page, ALLOWED),
            other => return expect(life, "the page of consent", other, &[503]),
        };
        let Some(consent) = consent else {
            life.shared.fault(Rule::Answers, "a page of consent without its form");
            return;
        };
        match life.ask(&mut hands.browser, "consent", "", &consent) {
            Ok(reply) if reply.status == 303 => match assistants::code(&reply) {
                Some(code) => {
                    self.code = code;
                    self.code_at = Some(Instant::now());
                    self.stage = AssistantStage::Redeem;
                }
                None => life.wrong("consent", &reply),
            },
            other => expect(life, "consent", &other, &[503]),
        }
    }

    fn redeem(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        let request = assistants::redemption(&self.client_id, &self.code, &resource(life));
        match life.ask(&mut hands.program, "token", "", &request) {
            Ok(reply) if reply.status == 200 => {
                life.shared.verified("connections", 1);
                self.take_tokens(life, &reply);
                Next::More
            }
            // The attempt without an answer has used the code, or the code has expired.
            Ok(reply)
                if reply.status == 400
                    && (self.doubt || self.code_at.is_some_and(|at| at.elapsed() > CODE_LIFE)) =>
            {
                Next::Done
            }
            other => self.not_now(life, "token", &other),
        }
    }

    fn renew(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        let resource = resource(life);
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", self.refresh.as_str()),
            ("client_id", &self.client_id),
            ("resource", &resource),
        ];
        let outcome =
            life.ask(&mut hands.program, "renewal", "", &HttpRequest::form("/oauth/token", &fields));
        match outcome {
            Ok(reply) if reply.status == 200 => {
                life.shared.verified("renewals", 1);
                self.is_renewed = true;
                self.take_tokens(life, &reply);
                Next::More
            }
            // The attempt without an answer was executed, so this request had a used token: that ends the connection.
            Ok(reply) if reply.status == 400 && self.doubt => {
                life.shared.is_being_revoked(&self.access);
                self.stage = AssistantStage::Revoked;
                Next::More
            }
            other => self.not_now(life, "renewal", &other),
        }
    }

    fn not_now(&mut self, life: &Life<'_>, kind: &str, outcome: &Result<HttpReply, Lost>) -> Next {
        self.doubt |= !matches!(outcome, Err(Lost::NotSent));
        expect(life, kind, outcome, &[503]);
        Next::More
    }

    fn take_tokens(&mut self, life: &Life<'_>, reply: &HttpReply) {
        // The token still works, but the next renewal would end that.
        life.shared.is_being_revoked(&self.access);
        (self.access, self.refresh, self.doubt) =
            (reply.word("access_token"), reply.word("refresh_token"), false);
        life.shared.works(Secret::Token, &self.access);
        (self.stage, self.checks) = (AssistantStage::Use, 0);
    }

    fn use_it(&mut self, life: &Life<'_>, hands: &mut Hands) {
        if self.single.is_none() {
            if self.checks >= FULL_CHECKS || life.finishing {
                self.stage = if self.is_renewed { AssistantStage::Revoke } else { AssistantStage::Renew };
                return;
            }
            let email = addresses::live(life.shared.numbers(1));
            let arguments = json!({ "email": email, "mode": "fast" });
            let outcome = life.ask(&mut hands.program, "tool, fast", &email, &tool(&self.access, &arguments));
            if !matches!(&outcome, Ok(reply) if reply.status == 200) {
                expect(life, "tool, fast", &outcome, &[503]);
            }
            let reasons = judge::reasons(&life.shared.scenario, &email);
            self.single = Some(Single { email, reasons, purchase: Purchase::new(&hands.account, 1) });
        }
        let Some(mut single) = self.single.take() else { return };
        single.purchase.asks();
        let arguments = json!({ "email": single.email, "mode": "full" });
        match life.ask(&mut hands.program, "tool, full", &single.email, &tool(&self.access, &arguments)) {
            Ok(reply) if reply.status == 200 => {
                let result = reply.json()["result"].take();
                if result["isError"] == json!(false) {
                    self.checked(life, &mut single, &result["structuredContent"]);
                    self.checks += 1;
                    return;
                }
                self.maybe_taken += 1;
                let why = result["content"][0]["text"].as_str().unwrap_or_default();
                if why.contains("nothing was charged") {
                    single.purchase.refused();
                } else {
                    single.purchase.unknown();
                    if self.are_used_up(life, why) {
                        return;
                    }
                }
            }
            Err(Lost::NotSent) => {}
            other => {
                self.maybe_taken += 1;
                single.purchase.unknown();
                expect(life, "tool, full", &other, &[503]);
            }
        }
        self.single = Some(single);
    }

    /// Records an answer: it is paid once, and counts as one of the allowed full checks.
    fn checked(&mut self, life: &Life<'_>, single: &mut Single, answer: &Value) {
        life.shared.judge(Rule::Charges, "checks of assistants", judge(single, answer));
        single.purchase.paid();
        if answer["cached"] == json!(false) {
            self.taken += 1;
        }
        let left = answer["full_checks_left"].as_u64().unwrap_or(u64::MAX);
        let (least, most) =
            (ALLOWED.saturating_sub(self.taken + self.maybe_taken), ALLOWED - self.taken.min(ALLOWED));
        if left < least || left > most {
            let fault = format!("{left} full checks left, and {least} to {most} can be: {answer}");
            life.shared.fault(Rule::Charges, fault);
        }
    }

    /// Whether attempts without an answer may have used all allowed full checks. Then the result of the last one is
    /// unknown.
    fn are_used_up(&mut self, life: &Life<'_>, why: &str) -> bool {
        if why.starts_with("full_checks_used_up") && self.taken + self.maybe_taken >= ALLOWED {
            self.checks = FULL_CHECKS;
            return true;
        }
        if !why.starts_with("temporarily_unavailable") {
            life.shared.fault(Rule::Answers, format!("a tool: {why}"));
        }
        false
    }

    fn revoke(&mut self, life: &Life<'_>, hands: &mut Hands) {
        life.shared.is_being_revoked(&self.access);
        let fields = [("token", self.refresh.as_str()), ("client_id", &self.client_id)];
        match life.ask(&mut hands.program, "revoke token", "", &HttpRequest::form("/oauth/revoke", &fields)) {
            Ok(reply) if reply.status == 200 => self.stage = AssistantStage::Revoked,
            other => expect(life, "revoke token", &other, &[503]),
        }
    }

    fn is_refused(&mut self, life: &Life<'_>, hands: &mut Hands) -> Next {
        life.shared.is_revoked(Secret::Token, &self.access);
        let outcome = life.ask(&mut hands.program, "revoked token", "", &tools(&self.access));
        match outcome {
            Ok(reply) if reply.status == 401 => life.shared.verified("connections ended", 1),
            Ok(reply) if reply.status != 503 => {
                life.shared
                    .fault(Rule::Secrets, format!("a token is revoked: {} {}", reply.status, reply.text()));
            }
            _ => return Next::More,
        }
        Next::Done
    }
}

fn resource(life: &Life<'_>) -> String {
    format!("http://{}/mcp", life.shared.server)
}
