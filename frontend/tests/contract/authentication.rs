//! Keys: every endpoint with no key, a malformed, an unknown and a revoked key. `charging` and `batch` use test keys.

use crate::contract::accounts::{Account, addresses, batch, verify, verify_by_get};
use crate::contract::world::{mailbox, shared};
use crate::harness::client::{Answer, Call, get};
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
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.json().as_object().unwrap().len(), 2, "error and message alone: {answer:?}");
    for secret in secrets {
        assert!(!format!("{answer:?}").contains(secret), "{answer:?}");
    }
}

#[test]
fn what_is_no_key_is_missing_and_what_opens_nothing_is_invalid() {
    let account = shared().account("free");
    let calls = calls(&account);
    let real = account.live.as_str();
    let last = if real.ends_with('a') { "b" } else { "a" };
    let cut = &real[..real.len() - 1];
    let unknown = [KeyMode::Live, KeyMode::Test].map(|mode| ApiKey::generate(mode).unwrap());
    let [live, test] = unknown.each_ref().map(ApiKey::reveal);
    let missing = ["Bearer", "Basic dXNlcjpwYXNz", "Token open-sesame", "mp_live_abc", real];
    let missing = missing.map(|value| (vec![value.to_owned()], "missing_api_key"));
    let (mistyped, long, upper) = (cut.to_owned() + last, format!("{real}x"), real.to_uppercase());
    let invalid = ["nonsense", "mp_live_", &mistyped, cut, &long, &upper, "\u{1f511}", live, test];
    let invalid = invalid.map(|key| (vec![format!("Bearer {key}")], "invalid_api_key"));
    let twice = (vec![format!("Bearer {real}"); 2], "invalid_api_key");
    for (values, code) in [(Vec::new(), "missing_api_key"), twice].into_iter().chain(missing).chain(invalid) {
        for call in &calls {
            let call = values.iter().fold(call.clone(), |call, value| call.header("Authorization", value));
            // A short secret of hexadecimal digits, such as "abc", could occur in a random request id.
            let mut secrets = vec![account.name.as_str(), real];
            secrets.extend(values.iter().filter_map(|value| value.split(' ').nth(1)));
            assert_unauthorized(&account.server.call(&call), code, &secrets);
        }
    }
    assert_eq!(account.credits(), 99, "the batch of its own alone was charged");
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
fn a_key_is_shown_once_and_only_its_hash_is_stored() {
    let server = crate::contract::world::start(&[]);
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
