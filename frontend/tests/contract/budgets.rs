//! Budgets of refused recipients, canaries and withdrawn evidence, with the real engine.

use crate::contract::accounts::{Account, verify};
use crate::contract::world::{self, address, contacts, net, number};
use crate::harness::client::Answer;
use crate::until;
use mailnet::What;
use serde_json::{Value, json};
use std::time::Duration;

/// The hourly budget of a site while refusals outnumber accepts.
const BUDGET: u64 = 100;

fn unknown(count: u64, domain: &str) -> Vec<String> {
    (0..count).map(|_| address("nobody", domain)).collect()
}

/// The number of rows with this reason.
fn count(batch: &Value, reason: &str) -> u64 {
    let rows = batch["results"].as_array().unwrap();
    rows.iter().filter(|row| row["reason"] == reason).count() as u64
}

/// Refused recipients of a domain so far.
fn refused(domain: &str) -> u64 {
    let journal = net().journal();
    assert_eq!(journal.lost, 0);
    let of_domain = |address: &str| address.rsplit_once('@').is_some_and(|(_, of)| of == domain);
    let refusals = journal.events.iter().filter(
        |event| matches!(&event.what, What::Rcpt { address, code: 500..600, .. } if of_domain(address)),
    );
    refusals.count() as u64
}

#[track_caller]
fn assert_over_budget(answer: &Answer) {
    answer.assert_refused(503, "temporarily_unavailable");
    let wait = answer.number("retry-after");
    assert!((1..=3_900).contains(&wait), "{answer:?}");
}

#[test]
fn a_site_is_not_asked_beyond_its_budget_and_a_restart_begins_no_new_one() {
    let domain = "b1.example";
    let server = world::start(&["--pace", "polite"]);
    let account = server.account("roomy");
    let done = account.run(&unknown(200, domain));
    let asked = refused(domain);
    assert!((BUDGET / 2..=BUDGET).contains(&asked), "{asked} refused");
    let found = count(&done, "mailbox_not_found");
    assert!(found >= BUDGET / 2 && found + count(&done, "unverifiable") == 200, "{found} answered");
    let spent = 1_000_000 - account.credits();
    assert!(
        (found..=asked).contains(&spent),
        "what nobody was asked about is given back: {spent} of {asked}"
    );
    assert_over_budget(&account.call(verify(&address("nobody", domain))));
    assert_eq!(account.verify(&address("user", "b2.example"))["reason"], "mailbox_exists", "another site");
    let (name, live) = (account.name.clone(), account.live.clone());
    std::thread::sleep(Duration::from_secs(4));
    let server = server.restart_after_kill();
    let account = Account::known(&server, name, live);
    assert_over_budget(&account.call(verify(&address("nobody", domain))));
    assert_eq!(refused(domain), asked, "nothing more is asked");
    assert_eq!(account.credits(), 1_000_000 - spent - 1);
}

#[test]
fn the_address_of_a_canary_is_shown_nowhere() {
    let domain = "b3.example";
    let config = format!("[[canary]]\naddress = \"canary-7@{domain}\"\n");
    let server = world::with_more_config(&config, &["--log-format", "json"]);
    let account = server.account("roomy");
    // A long series of refusals is believed after a mailbox is accepted.
    let done = account.run(&unknown(40, domain));
    assert_eq!(count(&done, "mailbox_not_found"), 40, "{done}");
    assert!(net().journal().asked(domain).contains_key("canary-7"), "it was asked for");
    let single = account.call(verify(&address("user", domain)));
    let shown = [
        done.to_string(),
        single.body,
        server.log(),
        server.administer(&["metrics"]),
        server.administer(&["account", "show", &account.name, "--json"]),
    ];
    for text in shown {
        assert!(!text.contains("canary-7"), "{text}");
    }
}

#[test]
fn what_rests_on_a_server_that_stopped_telling_mailboxes_apart_is_asked_afresh() {
    let domain = "turning.example";
    let server = world::start(&[]);
    let account = server.account("roomy");
    let known = format!("user-{}@{domain}", number());
    assert_eq!(account.verify(&known)["reason"], "mailbox_exists");
    assert_eq!(account.verify(&known)["cached"], true);
    let (asked, before) = (contacts(domain).0, account.credits());
    let done = account.run(&unknown(60, domain));
    assert_eq!(count(&done, "mailbox_exists"), 0, "nobody who is not there is confirmed: {done}");
    assert!(contacts(domain).0 > asked);
    let afresh = until(|| {
        let answer = account.verify(&known);
        if answer["cached"] == json!(false) { Ok(answer) } else { Err(answer.to_string()) }
    });
    assert_ne!(afresh["reason"], "mailbox_exists", "everybody is accepted there now");
    assert_eq!(account.credits(), before - 61, "60 rows and one new check");
}
