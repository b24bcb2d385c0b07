//! Keys: every endpoint with no key, a malformed, an unknown, a revoked, a test and another account's key.

use crate::contract::accounts::{Account, addresses, batch, verify, verify_by_get};
use crate::contract::client::{Answer, Call, get};
use crate::contract::world::{mailbox, shared};
use checks::auth::ApiKey;
use store::KeyMode;

/// Every call that needs a key. The batch belongs to that account.
fn calls(account: &Account<'_>) -> Vec<Call> {
    let batch_id = account.start(&addresses(1))["batch_id"].as_str().unwrap().to_owned();
    vec![
        verify(&mailbox()),
        verify_by_get(&mailbox(), ""),
        batch(&addresses(1)),
        get(format!("/v1/verify/batch/{batch_id}")),
        get("/v1/account"),
    ]
}

/// Checks for 401 with this code, and that the answer has none of the secrets.
#[track_caller]
fn assert_unauthorized(answer: &Answer, code: &str, secrets: &[&str]) {
    answer.assert_refused(401, code);
    assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"mailprobe\""));
    assert_eq!(answer.json().as_object().unwrap().len(), 2, "error and message alone: {answer:?}");
    for secret in secrets {
        assert!(!format!("{answer:?}").contains(secret), "{answer:?}");
    }
}

#[track_caller]
fn check_all(with: impl Fn(Call) -> Call, code: &str, secrets: &[&str]) {
    let account = shared().account("free");
    for call in calls(&account) {
        let answer = account.server.call(&with(call));
        assert_unauthorized(&answer, code, &[secrets, &[account.name.as_str()]].concat());
    }
    assert_eq!(account.credits(), 99, "the batch of its own alone was charged");
}

#[test]
fn no_key_is_missing_api_key() {
    check_all(|call| call, "missing_api_key", &[]);
}

#[test]
fn another_scheme_is_missing_api_key() {
    for value in ["Basic dXNlcjpwYXNz", "Token abc", "mp_live_abc"] {
        check_all(|call| call.header("Authorization", value), "missing_api_key", &[value]);
    }
}

#[test]
fn a_malformed_key_is_invalid_api_key() {
    let real = shared().account("free").live;
    let mut mistyped = real.clone();
    let last = if mistyped.pop() == Some('a') { 'b' } else { 'a' };
    mistyped.push(last);
    let cut = &real[..real.len() - 1];
    for key in ["nonsense", "mp_live_", &mistyped, cut, &format!("{real}x"), &real.to_uppercase()] {
        check_all(|call| call.key(key), "invalid_api_key", &[key, &real]);
    }
}

#[test]
fn an_unknown_key_is_invalid_api_key() {
    for mode in [KeyMode::Live, KeyMode::Test] {
        let key = ApiKey::generate(mode).unwrap();
        check_all(|call| call.key(key.reveal()), "invalid_api_key", &[key.reveal()]);
    }
}

#[test]
fn a_revoked_key_is_api_key_revoked_and_at_once() {
    let account = shared().account("free");
    let calls = calls(&account);
    account.account();
    account.revoke();
    for call in calls {
        let answer = account.call(call);
        assert_unauthorized(&answer, "api_key_revoked", &[&account.live, &account.name]);
    }
    // The other keys of the account still work.
    account.server.call(&get("/v1/account").key(account.test())).ok();
    account.server.call(&get("/v1/account").key(&account.another_key())).ok();
}

#[test]
fn a_test_key_is_let_in_everywhere() {
    let account = shared().account("free");
    for call in calls(&account) {
        let answer = account.server.call(&call.key(account.test()));
        assert!([200, 202].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(account.credits(), 99);
}

#[test]
fn another_accounts_key_sees_nothing_of_this_one() {
    let (account, other) = (shared().account("five"), shared().account("free"));
    let email = mailbox();
    account.verify(&email);
    let id = account.start(&addresses(1))["batch_id"].as_str().unwrap().to_owned();
    assert_eq!(other.credits(), 100, "a balance of its own");
    assert_eq!(other.verify(&email)["cached"], false, "no repeat of somebody else's check");
    other.call(get(format!("/v1/verify/batch/{id}"))).assert_refused(404, "not_found");
    assert_eq!(account.credits(), 3, "and it spends nothing of it");
}

#[test]
fn live_and_test_keys_have_their_prefixes() {
    let account = shared().account("free");
    for (key, prefix) in [(&account.live, "mp_live_"), (&account.test().to_owned(), "mp_test_")] {
        let rest = key.strip_prefix(prefix).unwrap();
        assert!(
            rest.len() == 49 && rest.chars().all(|c| c.is_ascii_alphanumeric()),
            "43 and 6 characters of base62"
        );
    }
}

#[test]
fn a_key_is_shown_once_and_only_its_hash_is_stored() {
    let server = crate::contract::world::Server::start(&[]);
    let account = server.account("free");
    account.verify(&mailbox());
    let (secret, test) = (&account.live["mp_live_".len()..], &account.test()["mp_test_".len()..]);
    let shown = server.administer(&["key", "list", &account.name, "--json"]);
    assert!(!shown.contains(secret) && !shown.contains(test));
    for entry in std::fs::read_dir(server.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!holds(secret) && !holds(test), "{}", path.display());
        }
    }
    assert!(!server.log().contains(secret));
}

#[test]
fn the_openapi_description_needs_no_key() {
    shared().call(&get("/v1/openapi.json")).ok();
    let with_nonsense = shared().call(&get("/v1/openapi.json").key("nonsense"));
    assert_eq!(with_nonsense.status, 200);
}
