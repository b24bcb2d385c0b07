//! Resolvers that deny names without proof: no answer says that a mailbox does not exist, and nothing is charged.

use crate::contract::accounts::{Account, batch, fast, verify, verify_by_get};
use crate::contract::resolver::{Lie, Resolver, Says};
use crate::contract::world::{self, address, number};
use crate::harness::client::Answer;
use crate::until;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[track_caller]
fn assert_down(answer: &Answer) {
    answer.assert_refused(503, "provider_unavailable");
    assert!(answer.number("retry-after") >= 1, "{answer:?}");
}

/// An address that exists, in a domain that its server was not asked about recently.
fn fresh() -> String {
    address("user", &format!("l{}.example", 1 + number() % 60))
}

/// Asks about other addresses until one is confirmed.
fn until_back(account: &Account<'_>) {
    until(|| {
        let answer = account.call(verify(&fresh()));
        if answer.status == 200 {
            assert_eq!(answer.json()["reason"], "mailbox_exists");
            return Ok(());
        }
        assert_down(&answer);
        Err(format!("{answer:?}"))
    });
}

fn reasons(batch: &Value) -> Vec<&str> {
    batch["results"].as_array().unwrap().iter().map(|row| row["reason"].as_str().unwrap()).collect()
}

#[test]
fn a_resolver_that_denies_every_name_counts_as_down() {
    for lie in Lie::ALL {
        let resolver = Resolver::that(Says::Denial(lie));
        let server = world::with_resolver(resolver.address, &["--frontends", "1"]);
        let account = server.account("roomy");
        for _ in 0..3 {
            assert_down(&account.call(verify(&fresh())));
        }
        // With detail, and by GET.
        let email = fresh();
        assert_down(&account.call(verify_by_get(&email, "&detail=full")));
        // A fast check has no answer either, or one that does not depend on DNS.
        let answer = account.call(fast(&fresh()));
        if answer.status == 200 {
            assert_eq!(answer.json()["reason"], "fast_check_passed", "{lie:?}");
        } else {
            assert_down(&answer);
        }
        let emails = [fresh(), fresh()];
        let created = account.start(&emails);
        let id = created["batch_id"].as_str().unwrap().to_owned();
        assert_eq!(account.poll(&id)["checked"], 0, "{lie:?}");
        assert_eq!(account.credits(), 1_000_000 - 2, "only the batch holds credits: {lie:?}");

        resolver.say(Says::Truth);
        until_back(&account);
        assert_eq!(reasons(&account.finish(&id)), ["mailbox_exists"; 2], "{lie:?}");
        assert_eq!(account.credits(), 1_000_000 - 3, "{lie:?}");
    }
}

#[test]
fn a_resolver_that_begins_to_lie_counts_as_down_from_then_on() {
    for lie in [Lie::Bare, Lie::Null, Lie::Error(15)] {
        let resolver = Resolver::that(Says::Truth);
        let server = world::with_resolver(resolver.address, &["--frontends", "1"]);
        let account = server.account("roomy");
        assert_eq!(account.verify(&fresh())["reason"], "mailbox_exists");
        resolver.say(Says::Denial(lie));
        let began = Instant::now();
        // The resolver was honest a moment ago, so a denial may be true of the domain.
        let mut verdicts = 0;
        loop {
            let answer = account.call(verify(&fresh()));
            if answer.status == 503 {
                assert_down(&answer);
                break;
            }
            assert_eq!(answer.json()["reason"], "unverifiable", "{lie:?}");
            verdicts += 1;
            assert!(
                verdicts <= 20 && began.elapsed() < Duration::from_secs(60),
                "{lie:?}: {verdicts} verdicts"
            );
        }
        assert_eq!(account.credits(), 1_000_000 - 1 - verdicts, "{lie:?}");
        resolver.say(Says::Truth);
        until_back(&account);
    }
}

#[test]
fn a_denial_of_some_names_is_their_affair() {
    for lie in Lie::ALL {
        let denied = "ok.example";
        let resolver = Resolver::that(Says::DenialOf(denied, lie));
        let server = world::with_resolver(resolver.address, &["--frontends", "1"]);
        let account = server.account("roomy");
        let emails: Vec<String> =
            (0..6).map(|n| if n % 2 == 0 { address("user", denied) } else { fresh() }).collect();
        let created = account.call(batch(&emails)).json();
        let done = account.finish(created["batch_id"].as_str().unwrap());
        assert_eq!(reasons(&done), ["unverifiable", "mailbox_exists"].repeat(3), "{lie:?}");
        let single = account.verify(&address("user", denied));
        assert_eq!(single["reason"], json!("unverifiable"), "{lie:?}");
        assert_eq!(account.fast(&address("user", denied))["reason"], json!("fast_check_passed"), "{lie:?}");
        assert_eq!(account.verify(&fresh())["reason"], json!("mailbox_exists"), "{lie:?}");
    }
}

#[test]
fn a_second_resolver_that_is_honest_is_enough() {
    for lie in Lie::ALL {
        let liar = Resolver::that(Says::Denial(lie));
        let honest = Resolver::that(Says::Truth);
        let second = honest.address.to_string();
        let server = world::with_resolver(liar.address, &["--frontends", "1", "--resolver", &second]);
        let account = server.account("roomy");
        for _ in 0..5 {
            assert_eq!(account.verify(&fresh())["reason"], "mailbox_exists", "{lie:?}");
        }
        assert_eq!(account.fast(&fresh())["reason"], "fast_check_passed", "{lie:?}");
    }
}
