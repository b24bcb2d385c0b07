//! Rules with a duration of days: each just before its limit and one step after it, with a clock that the test moves.

use crate::contract::accounts::{Account, addresses, batch, created, verify};
use crate::contract::world::{self, DAY, HOUR, MARGIN, address, contacts, domain, mailbox};
use crate::harness::client::get;
use crate::harness::server::Server;
use serde_json::{Value, json};

/// An action of the server between two times of its clock.
struct Done {
    earliest: u64,
    latest: u64,
}

impl Done {
    fn when<T>(server: &Server, what: impl FnOnce() -> T) -> (T, Done) {
        let earliest = server.now();
        let result = what();
        (result, Done { earliest, latest: server.now() })
    }

    /// Calls `look` shortly before `age` has passed since the action, such that it ends before that.
    #[track_caller]
    fn just_before<T>(&self, server: &Server, age: u64, look: impl FnOnce() -> T) -> T {
        server.advance_to(self.earliest + age - MARGIN);
        let seen = look();
        assert!(server.now() < self.earliest + age, "the machine is too slow for this test");
        seen
    }

    /// Moves to one step after this age.
    fn just_after(&self, server: &Server, age: u64) {
        server.advance_to(self.latest + age + 1);
    }
}

#[test]
fn a_repeat_of_a_check_or_of_a_row_is_free_within_24_hours_and_not_after() {
    let server = world::with_clock();
    let account = server.account("free");
    let asked = [mailbox(), mailbox()];
    let (_, done) = Done::when(&server, || {
        account.verify(&asked[0]);
        account.run(&asked[1..]);
    });
    for before in done.just_before(&server, DAY, || asked.each_ref().map(|asked| account.verify(asked))) {
        assert_eq!((&before["cached"], &before["credits_remaining"]), (&json!(true), &Value::Null));
        assert_eq!(before["reason"], "mailbox_exists");
    }
    done.just_after(&server, DAY);
    for (asked, left) in asked.iter().zip([97, 96]) {
        let after = account.verify(asked);
        let told = (&after["cached"], &after["credits_remaining"]);
        assert_eq!(told, (&json!(false), &json!(left)), "a repeat prolongs nothing");
        assert_eq!(account.verify(asked)["cached"], true, "and the new check has a day of its own");
    }
}

#[test]
fn a_verdict_is_kept_for_7_days() {
    let server = world::with_clock();
    let (one, others) = (server.account("roomy"), [server.account("roomy"), server.account("roomy")]);
    let domain = domain();
    let asked = [address("user", &domain), address("nobody", &domain)];
    let (_, done) = Done::when(&server, || asked.each_ref().map(|asked| one.verify(asked)));
    let before = contacts(&domain);
    done.just_before(&server, 7 * DAY, || {
        for asked in &asked {
            assert_eq!(others[0].verify(asked)["cached"], false);
        }
    });
    assert_eq!(contacts(&domain), before, "the retained verdicts were reused");
    done.just_after(&server, 7 * DAY);
    for (asked, reason) in asked.iter().zip(["mailbox_exists", "mailbox_not_found"]) {
        let asked_before = contacts(&domain).0;
        assert_eq!(others[1].verify(asked)["reason"], reason);
        assert!(contacts(&domain).0 > asked_before, "{asked}: the server was asked anew");
    }
}

#[test]
fn inbox_full_and_catch_all_are_kept_for_1_day() {
    let server = world::with_clock();
    let (one, others) = (server.account("free"), [server.account("free"), server.account("free")]);
    let domain = domain();
    for (asked, reason) in
        [(address("full", &domain), "inbox_full"), (address("user", "catchall-counted.example"), "catch_all")]
    {
        let domain = asked.split_once('@').unwrap().1;
        let (_, done) = Done::when(&server, || one.verify(&asked));
        let before = contacts(domain);
        assert_eq!(done.just_before(&server, DAY, || others[0].verify(&asked))["reason"], reason);
        assert_eq!(contacts(domain), before);
        done.just_after(&server, DAY);
        assert_eq!(others[1].verify(&asked)["reason"], reason);
        assert!(contacts(domain).0 > before.0, "the server was asked anew");
    }
}

#[test]
fn unverifiable_is_kept_for_1_day_and_for_its_account_alone() {
    let server = world::with_clock();
    let (one, other) = (server.account("free"), server.account("free"));
    let asked = address("user", "grey.example");
    let (first, done) = Done::when(&server, || one.verify(&asked));
    assert_eq!(first["reason"], "unverifiable");
    // From now on the server would accept the recipient.
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(done.just_before(&server, DAY, || one.verify(&asked))["reason"], "unverifiable");
    assert_eq!(other.verify(&asked)["reason"], "mailbox_exists");
    done.just_after(&server, DAY);
    let again = one.verify(&asked);
    assert_eq!((&again["reason"], &again["cached"]), (&json!("mailbox_exists"), &json!(false)));
}

#[test]
fn between_24_hours_and_7_days_the_owner_pays_and_the_verdict_is_reused() {
    let server = world::with_clock();
    let account = server.account("free");
    let domain = domain();
    let asked = address("user", &domain);
    account.verify(&asked);
    let before = contacts(&domain);
    server.advance(2 * DAY);
    let result = account.verify(&asked);
    assert_eq!((&result["cached"], &result["credits_remaining"]), (&json!(false), &json!(98)));
    assert_eq!(contacts(&domain), before);
}

#[test]
fn a_batch_is_readable_for_7_days_from_its_completion() {
    let server = world::with_clock();
    let account = server.account("free");
    let created = account.start(&addresses(2));
    let id = created["batch_id"].as_str().unwrap();
    let (results, done) = Done::when(&server, || account.finish(id));
    assert_eq!(done.just_before(&server, 7 * DAY, || account.poll(id)), results);
    done.just_after(&server, 7 * DAY);
    account.call(get(format!("/v1/verify/batch/{id}"))).assert_refused(404, "not_found");
}

#[test]
fn a_batch_of_short_lived_results_is_readable_as_long() {
    let server = world::with_clock();
    let account = server.account("free");
    let emails = [
        address("user", "catchall.example"),
        address("full", "ok.example"),
        address("rené", "no-utf8.example"),
    ];
    let created = account.start(&emails);
    let id = created["batch_id"].as_str().unwrap();
    let results = account.finish(id);
    server.advance(6 * DAY);
    assert_eq!(account.poll(id), results);
}

#[test]
fn an_idempotency_key_is_replayed_within_24_hours_and_not_after() {
    let server = world::with_clock();
    let account = server.account("free");
    let call = batch(&addresses(1)).header("Idempotency-Key", "k");
    let (first, done) = Done::when(&server, || account.call(call.clone()));
    created(&first);
    let replay = done.just_before(&server, DAY, || account.call(call.clone()));
    assert_eq!((replay.header("idempotent-replayed"), replay.json()), (Some("true"), first.json()));
    let other = batch(&addresses(1)).header("Idempotency-Key", "k");
    account.call(other).assert_refused(422, "idempotency_key_reused");
    assert!(server.now() < done.earliest + DAY, "the machine is too slow for this test");
    done.just_after(&server, DAY);
    let fresh = account.call(call);
    assert_eq!(fresh.header("idempotent-replayed"), None);
    assert_ne!(created(&fresh)["batch_id"], first.json()["batch_id"]);
    assert_eq!(account.credits(), 98);
}

/// Shortly before the end of the account's period.
#[track_caller]
fn before_the_end(account: &Account<'_>, look: impl FnOnce()) {
    let end = account.period_end();
    account.server.advance_to(end - MARGIN);
    look();
    assert!(account.server.now() < end, "the machine is too slow for this test");
    account.server.advance_to(end + 1);
}

#[test]
fn plan_credits_reset_at_period_end_and_pack_credits_stay() {
    let server = world::with_clock();
    let account = server.account("five");
    account.grant(3);
    account.start(&addresses(6));
    account.verify(&mailbox());
    let shown = account.account();
    assert_eq!((&shown["credits_remaining"], &shown["pack_credits"]), (&json!(1), &json!(1)));
    before_the_end(&account, || assert_eq!(account.account(), shown));
    let next = account.account();
    assert_eq!((&next["credits_remaining"], &next["pack_credits"]), (&json!(6), &json!(1)));
    assert_eq!(next["credits_total"], 5);
    assert_ne!(next["period_end"], shown["period_end"]);
    let ahead = account.period_end() - server.now();
    assert!((27 * DAY..=31 * DAY).contains(&ahead), "a month");
}

#[test]
fn periods_roll_also_when_nobody_calls() {
    let server = world::with_clock();
    let account = server.account("five");
    account.verify(&mailbox());
    server.advance(100 * DAY);
    let shown = account.account();
    assert_eq!(shown["credits_remaining"], 5, "unused credits are not carried over");
    let ahead = account.period_end() - server.now();
    assert!(ahead <= 31 * DAY, "the period is the present one");
    server.call(&verify(&mailbox()).key(&account.live)).ok();
    assert_eq!(account.credits(), 4);
}

#[test]
fn a_plan_that_never_resets_never_does() {
    let server = world::with_clock();
    let account = server.account("endless");
    account.verify(&mailbox());
    server.advance(400 * DAY);
    let shown = account.account();
    assert_eq!((&shown["credits_remaining"], &shown["period_end"]), (&json!(99), &Value::Null));
}

#[test]
fn cancel_at_period_end_turns_into_canceled_at_period_end() {
    let server = world::with_clock();
    let account = server.account("free");
    server.administer(&["account", "set-status", &account.name, "canceled", "--at-period-end"]);
    before_the_end(&account, || {
        let shown = account.account();
        assert_eq!((&shown["status"], &shown["cancel_at_period_end"]), (&json!("active"), &json!(true)));
        account.verify(&mailbox());
    });
    let shown = account.account();
    assert_eq!(shown["status"], "canceled");
    account.call(verify(&mailbox())).assert_refused(402, "subscription_inactive");
    account.fast(&mailbox());
}

#[test]
fn periods_are_calendar_months_from_the_accounts_start() {
    let server = world::with_clock();
    let account = server.account("free");
    let day_of = |end: &Value| end.as_str().unwrap()[8..10].parse::<u32>().unwrap();
    let mut ends = Vec::new();
    for _ in 0..12 {
        ends.push(day_of(&account.account()["period_end"]));
        server.advance_to(account.period_end() + HOUR);
    }
    let start = *ends.iter().max().unwrap();
    assert!(
        ends.iter().all(|&day| day == start || (28..start).contains(&day)),
        "one day of the month: {ends:?}"
    );
}
