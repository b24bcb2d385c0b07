//! Third-party API gateways. The functions are pure: they use neither a store nor a clock.
//!
//! A gateway sells single checks to its own users and forwards their requests. It adds a secret that only the gateway
//! and this server know, and headers that name its user and plan. A request with the secret belongs to the gateway,
//! whatever else it has; in any other request these headers have no meaning. Any client can send any header to a
//! gateway, so a value that is not given exactly once and exactly right is refused, never guessed.

use api::{Issue, IssueType};
use std::collections::BTreeMap;
use std::fmt;

/// The only path that gateways offer.
pub const OFFERED_PATH: &str = "/v1/verify";

/// The longest name of a gateway's user, in bytes.
pub const USER_BYTES_MAX: usize = 128;

/// The SHA-256 of a gateway's secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// A gateway as the operator has configured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// The name of the gateway, of `a-z`, `0-9` and `_`.
    pub name: String,
    /// The error code for paths that it does not offer: [`api::NOT_AVAILABLE_ON`] and its name.
    pub not_offered: &'static str,
    /// The name of the header with the secret, in lower case.
    pub header: String,
    /// One secret, or an old and a new one.
    pub secrets: Vec<Secret>,
    /// The header with the name of its user.
    pub user_header: String,
    /// The header with the plan that its user has at the gateway.
    pub plan_header: String,
    /// Our plan id for each plan of the gateway.
    pub plans: BTreeMap<String, String>,
    /// How many of its users may get accounts.
    pub users_max: usize,
}

/// All configured gateways of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gateways(pub Vec<Gateway>);

/// The user of a gateway behind a request.
#[derive(PartialEq, Eq)]
pub struct GatewayGuest<'g> {
    /// The user's name at the gateway.
    pub user: String,
    /// The id of our plan for the user.
    pub plan: &'g str,
}

impl Secret {
    /// The hash that is kept of a secret.
    pub fn new(text: &[u8]) -> Secret {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, text).as_ref());
        Secret(hash)
    }

    /// Compares in constant time: hashes are compared, and always to the end.
    fn is(&self, other: &Secret) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Gateways {
    /// The gateway whose secret is in a request; `values` returns all values of a header.
    ///
    /// # Errors
    ///
    /// The secret occurs, but not exactly once, so the source of the headers is unclear.
    pub fn behind<'h>(
        &self,
        values: impl Fn(&str) -> Vec<&'h [u8]>,
    ) -> Result<Option<&Gateway>, (&Gateway, Issue)> {
        let mut found = None;
        for gateway in &self.0 {
            let sent = values(&gateway.header);
            if !gateway.is_shown_by(&sent) {
                continue;
            }
            if sent.len() > 1 || found.is_some() {
                let issue =
                    Issue::new(&["header", "secret"], IssueType::Duplicate, "more than one secret was sent");
                return Err((gateway, issue));
            }
            found = Some(gateway);
        }
        Ok(found)
    }
}

impl Gateway {
    fn is_shown_by(&self, sent: &[&[u8]]) -> bool {
        let mut shown = false;
        for value in sent {
            let value = Secret::new(value);
            for secret in &self.secrets {
                shown |= secret.is(&value);
            }
        }
        shown
    }

    /// The user behind a request of the gateway.
    ///
    /// # Errors
    ///
    /// All defects of the headers.
    pub fn guest<'h>(&self, values: impl Fn(&str) -> Vec<&'h [u8]>) -> Result<GatewayGuest<'_>, Vec<Issue>> {
        let user = one("user", &values(&self.user_header)).and_then(user_name);
        let plan = one("plan", &values(&self.plan_header)).and_then(|value| self.plan(value));
        match (user, plan) {
            (Ok(user), Ok(plan)) => Ok(GatewayGuest { user, plan }),
            (user, plan) => Err(user.err().into_iter().chain(plan.err()).collect()),
        }
    }

    fn plan(&self, value: &[u8]) -> Result<&str, Issue> {
        let known = std::str::from_utf8(value).ok().and_then(|name| self.plans.get(name));
        let unknown =
            || Issue::new(&["header", "plan"], IssueType::Enum, "this plan of the gateway is not known here");
        known.map(String::as_str).ok_or_else(unknown)
    }
}

/// The value of a header that must occur once.
fn one<'h>(header: &'static str, values: &[&'h [u8]]) -> Result<&'h [u8], Issue> {
    let issue = |kind, msg| Err(Issue::new(&["header", header], kind, msg));
    match values {
        [] => issue(IssueType::Missing, "the gateway did not send this header"),
        [[]] => issue(IssueType::Missing, "the gateway sent this header without a value"),
        [value] => Ok(value),
        _ => issue(IssueType::Duplicate, "this header was sent more than once"),
    }
}

/// Visible ASCII without a comma: a comma is a sign that a proxy has joined two headers.
fn user_name(value: &[u8]) -> Result<String, Issue> {
    let issue = |kind, msg: &'static str| Err(Issue::new(&["header", "user"], kind, msg));
    if value.len() > USER_BYTES_MAX {
        return issue(IssueType::StringTooLong, "the user's name is too long");
    }
    match std::str::from_utf8(value) {
        Ok(name) if name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') => Ok(name.to_owned()),
        _ => issue(
            IssueType::StringPatternMismatch,
            "a user's name is visible ASCII without blanks and commas",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sent = Vec<(&'static str, &'static [u8])>;

    fn gateway(name: &str, header: &str, secrets: &[&str]) -> Gateway {
        Gateway {
            name: name.into(),
            not_offered: "not_available_on_test",
            header: header.into(),
            secrets: secrets.iter().map(|secret| Secret::new(secret.as_bytes())).collect(),
            user_header: "x-user".into(),
            plan_header: "x-plan".into(),
            plans: BTreeMap::from([("BASIC".into(), "free".into()), ("PRO".into(), "growth".into())]),
            users_max: 10,
        }
    }

    fn values(sent: &Sent) -> impl Fn(&str) -> Vec<&'static [u8]> {
        |name| sent.iter().filter(|(sent, _)| *sent == name).map(|(_, value)| *value).collect()
    }

    #[test]
    fn a_gateway_is_behind_a_request_that_shows_its_secret_once() {
        let both = Gateways(vec![
            gateway("one", "x-one", &["old secret", "new secret"]),
            gateway("two", "x-two", &["other"]),
        ]);
        let check = |sent: Sent, expected: Result<Option<&str>, ()>| {
            let behind = both.behind(values(&sent)).map_err(drop);
            assert_eq!(behind.map(|it| it.map(|it| it.name.as_str())), expected, "{sent:?}");
        };
        check(vec![], Ok(None));
        check(vec![("x-one", b"old secret")], Ok(Some("one")));
        check(vec![("x-one", b"new secret")], Ok(Some("one")));
        check(vec![("x-two", b"other")], Ok(Some("two")));
        check(vec![("x-one", b"wrong"), ("x-two", b"other")], Ok(Some("two")));
        for wrong in [&b""[..], b"old", b"old secret ", b"Old secret", b"other", b"old secret, old secret"] {
            check(vec![("x-one", wrong)], Ok(None));
            check(vec![("x-one", wrong), ("x-one", wrong)], Ok(None));
            check(vec![("x-one", wrong), ("x-one", b"old secret")], Err(()));
            check(vec![("x-one", b"new secret"), ("x-one", wrong)], Err(()));
        }
        check(vec![("x-one", b"old secret"), ("x-one", b"old secret")], Err(()));
        check(vec![("x-one", b"old secret"), ("x-two", b"other")], Err(()));
        assert!(Gateways::default().behind(|_| panic!("no header is looked at")).is_ok());
    }

    #[test]
    fn a_guest_is_named_once_and_exactly() {
        let gateway = gateway("one", "x-one", &["secret"]);
        let check = |sent: Sent, expected: Result<(&str, &str), Vec<IssueType>>| {
            let guest = gateway.guest(values(&sent));
            let guest = guest.map_err(|issues| issues.iter().map(|issue| issue.kind).collect());
            assert_eq!(
                guest.as_ref().map(|it| (it.user.as_str(), it.plan)),
                expected.as_ref().copied(),
                "{sent:?}"
            );
        };
        let plan = ("x-plan", &b"PRO"[..]);
        check(vec![("x-user", b"alice"), plan], Ok(("alice", "growth")));
        check(vec![("x-user", b"a:b/c@d.example"), ("x-plan", b"BASIC")], Ok(("a:b/c@d.example", "free")));
        use IssueType::*;
        check(vec![], Err(vec![Missing, Missing]));
        check(vec![("x-user", b""), ("x-plan", b"")], Err(vec![Missing, Missing]));
        check(vec![("x-user", b"alice"), ("x-user", b"alice"), plan], Err(vec![Duplicate]));
        check(vec![("x-user", b"alice"), plan, plan], Err(vec![Duplicate]));
        check(vec![("x-user", b"alice"), ("x-plan", b"pro")], Err(vec![Enum]));
        check(vec![("x-user", b"alice"), ("x-plan", b"\xff")], Err(vec![Enum]));
        check(vec![("x-user", &[b'a'; USER_BYTES_MAX]), plan], Ok((&"a".repeat(USER_BYTES_MAX), "growth")));
        check(vec![("x-user", &[b'a'; USER_BYTES_MAX + 1]), plan], Err(vec![StringTooLong]));
        for odd in [&b"alice, bob"[..], b"a,b", b"a b", b"\xc3\xa9", b"a\tb", b"\xff"] {
            check(vec![("x-user", odd), plan], Err(vec![StringPatternMismatch]));
        }
    }

    #[test]
    fn nothing_shows_a_secret() {
        let shown = format!("{:?}", Gateways(vec![gateway("one", "x-one", &["swordfish"])]));
        assert!(shown.contains("[Secret]") && !shown.contains("swordfish"), "{shown}");
    }
}
