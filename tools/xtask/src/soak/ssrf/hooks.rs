//! URLs of webhooks. An account has ten endpoints, so ten hosts are tested at once: each gets a test message.

use super::cases::{HostCase, HostRoute, host};
use super::{CONTACT_LIMIT, HTTPS, SMTP, SsrfCampaign, seen_all};
use crate::failure::ensure;
use crate::interop::process::wait_until;
use crate::interop::report;
use crate::soak::api::Api;
use crate::soak::client::{HttpReply, HttpRequest};
use serde_json::{Value, json};
use std::time::Duration;

/// The endpoints of an account.
const AT_ONCE: usize = 10;
/// Longer than an attempt, and the wait before the next one.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);

/// More URLs that must not be accepted, one a line; [`super::SPELLINGS`] are hosts of others.
const URLS: &str = include_str!("../../../soak/refused-urls.txt");
/// A URL with a line end in it.
const TWO_LINES: &str = "https://hooks.example:6379/\r\nSET x y";

/// An endpoint with a test message.
struct Hook<'c> {
    id: String,
    case: &'c HostCase,
    host: String,
}

impl SsrfCampaign {
    /// Hosts with only forbidden addresses: the attempt fails because of the address, after a look-up.
    pub(super) fn refuses_hooks(&self, api: Api<'_>) -> Result<String, String> {
        let mut said = Vec::new();
        let all: Vec<usize> = (0..self.refused.len()).collect();
        for some in all.chunks(AT_ONCE) {
            let hooks = self.create(api, some, &self.refused, ("hook", 'r'))?;
            for hook in &hooks {
                let attempts = attempts(api, &hook.id, 1)?;
                if attempts[0]["error"] != "address_not_allowed" {
                    said.push(format!("{}: {attempts:?}", hook.case.name));
                } else if self.resolver.asked(&hook.host) == 0 {
                    said.push(format!("{}: another resolver was asked", hook.case.name));
                }
            }
            delete(api, &hooks)?;
        }
        report::faultless(format!("{} refused", self.refused.len()), &said)
    }

    /// URLs that are refused when an endpoint is created or changed.
    pub(super) fn refuses_hook_urls(&self, api: Api<'_>) -> Result<String, String> {
        let (_, hosts) = self.literals();
        let urls = hosts.iter().flat_map(|host| {
            [format!("https://{host}/"), format!("https://{host}:8443/"), format!("http://{host}/")]
        });
        let urls: Vec<String> = urls.chain(URLS.lines().chain([TWO_LINES]).map(str::to_owned)).collect();
        let made = create(api, "https://hooks.example/")?;
        let mut said = Vec::new();
        for url in &urls {
            let body = json!({ "url": url }).to_string();
            for (method, path) in [("POST", "/v1/webhooks"), ("PATCH", &format!("/v1/webhooks/{made}"))] {
                let answer = call(api, method, path, &body)?;
                if answer.status != 400 {
                    said.push(format!("{method} {url}: {answer}"));
                }
            }
        }
        call(api, "DELETE", &format!("/v1/webhooks/{made}"), "")?;
        report::faultless(format!("{} refused", urls.len() * 2), &said)
    }

    /// Hosts with a public address are contacted there, and after the change of their records no longer.
    pub(super) fn asks_hooks(&self, api: Api<'_>) -> Result<String, String> {
        self.sniffer.forget()?;
        let asked: Vec<usize> =
            (0..self.mixed.len()).filter(|index| self.mixed[*index].way != HostRoute::Implicit).collect();
        let mut rebound = 0;
        for some in asked.chunks(AT_ONCE) {
            let hooks = self.create(api, some, &self.mixed, ("hook", 'm'))?;
            for hook in &hooks {
                let attempts = attempts(api, &hook.id, 1 + usize::from(hook.case.is_rebound()))?;
                if !hook.case.is_rebound() {
                    continue;
                }
                rebound += 1;
                if attempts[1]["error"] != "address_not_allowed" || self.resolver.asked(&hook.host) < 2 {
                    return Err(format!("{}, again: {attempts:?}", hook.case.name));
                }
            }
            delete(api, &hooks)?;
        }
        let seen = self.sniffer.seen()?;
        // Sessions of the checks before may still begin.
        let seen = seen.into_iter().filter(|packet| packet.port != SMTP).collect();
        let asked = asked.iter().map(|index| &self.mixed[*index]);
        Ok(format!("{}, {rebound} of them rebound", seen_all(asked, Some(HTTPS), &seen)?))
    }

    /// Without the filter, the same hosts are contacted.
    pub(super) fn open_hooks(&self, api: Api<'_>) -> Result<String, String> {
        let cases = self.open_cases();
        let cases: Vec<_> =
            cases.into_iter().filter(|(_, case)| case.is_sample && case.way == HostRoute::Mx).collect();
        let step = if self.small { cases.len().div_ceil(AT_ONCE) } else { 1 };
        let cases: Vec<_> = cases.into_iter().step_by(step.max(1)).collect();
        let indices: Vec<usize> = cases.iter().map(|(index, _)| *index).collect();
        for some in indices.chunks(AT_ONCE) {
            let hooks = self.create(api, some, &self.refused, ("open", 'r'))?;
            for hook in &hooks {
                attempts(api, &hook.id, 1)?;
            }
            delete(api, &hooks)?;
        }
        let seen = self.sniffer.seen()?;
        let seen = seen.into_iter().filter(|packet| packet.port == HTTPS).collect();
        seen_all(cases.iter().map(|(_, case)| case), Some(HTTPS), &seen)
    }

    /// Creates an endpoint for each of these hosts, and sends a test to it.
    fn create<'c>(
        &self,
        api: Api<'_>,
        indices: &[usize],
        cases: &'c [HostCase],
        (place, kind): (&str, char),
    ) -> Result<Vec<Hook<'c>>, String> {
        let make = |index: &usize| {
            let host = host(place, kind, *index);
            let id = create(api, &format!("https://{host}/hook"))?;
            let path = format!("/v1/webhooks/{id}/test");
            let tested = call(api, "POST", &path, "")?;
            ensure!(tested.status == 202, "{host}: {tested}");
            Ok(Hook { id, case: &cases[*index], host })
        };
        indices.iter().map(make).collect()
    }
}

fn create(api: Api<'_>, url: &str) -> Result<String, String> {
    let made = api.post("/v1/webhooks", &json!({ "url": url }))?;
    if made.status == 201 { Ok(made.word("webhook_id")) } else { Err(format!("{url}: {made}")) }
}

fn call(api: Api<'_>, method: &'static str, path: &str, body: &str) -> Result<HttpReply, String> {
    api.send(HttpRequest::new(method, path, body).header("Content-Type", "application/json"))
}

fn delete(api: Api<'_>, hooks: &[Hook<'_>]) -> Result<(), String> {
    hooks.iter().try_for_each(|hook| {
        let path = format!("/v1/webhooks/{}", hook.id);
        call(api, "DELETE", &path, "").map(drop)
    })
}

/// Waits for so many attempts of the first message of an endpoint.
fn attempts(api: Api<'_>, id: &str, count: usize) -> Result<Vec<Value>, String> {
    let path = format!("/v1/webhooks/{id}/deliveries");
    let mut found = Vec::new();
    let waited = wait_until("attempts", ATTEMPT_LIMIT.max(CONTACT_LIMIT), || {
        let log = api.get(&path)?;
        found = log.json()["deliveries"][0]["attempts"].as_array().cloned().unwrap_or_default();
        Ok(found.len() >= count)
    });
    waited.map(|()| found.clone()).map_err(|failure| format!("{}: {found:?}", failure.0))
}
