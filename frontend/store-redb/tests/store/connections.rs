//! Assistants: the rights, owner and duration of a consent, and the number of its checks.

use crate::world::{CALLBACK, CLIENT, DAY, OPERATOR, START, World, new_connection};
use api::Reason;
use store::*;

fn secret(seed: u8) -> SecretHash {
    [seed; 32]
}

fn next(seed: u8) -> NextTokens {
    NextTokens { access: secret(seed), refresh: secret(seed + 100) }
}

fn consent(world: &mut World, account: AccountId, code: u8, allowance: u32) -> NewConnection {
    let new = new_connection(account, world.now, world.random());
    NewConnection { code: secret(code), challenge: secret(200), allowance, ..new }
}

fn redemption(code: u8, seed: u8) -> Redemption {
    Redemption {
        code: secret(code),
        client: CLIENT.into(),
        redirect_uri: CALLBACK.into(),
        challenge: secret(200),
        family: secret(seed + 1),
        next: next(seed),
    }
}

fn renewal(family: u8, refresh: u8, seed: u8) -> Renewal {
    Renewal { family: secret(family), refresh: secret(refresh), client: CLIENT.into(), next: next(seed) }
}

/// A connection with the access token `secret(seed)`, refresh tokens of `secret(seed + 1)` and `secret(seed + 100)`,
/// and the code `secret(seed + 50)`.
fn connect(world: &mut World, account: AccountId, seed: u8, allowance: u32) -> ConnectionId {
    let new = consent(world, account, seed + 50, allowance);
    world.consent(new.clone(), OPERATOR, world.now).wait().unwrap();
    world.redeem(redemption(seed + 50, seed), world.now).wait().unwrap();
    new.id
}

fn holder(world: &World, access: u8) -> Option<ConnectionId> {
    world.connection_of(&secret(access), world.now).wait().unwrap().map(|found| found.id)
}

fn begin(
    world: &mut World,
    account: AccountId,
    id: ConnectionId,
    address: &str,
) -> (HoldRef, Result<Begun, AttemptError>) {
    let hold = HoldRef { account, id: world.entry_id() };
    let check = NewCheck {
        hold,
        connection: Some(id),
        address: world.hash_address(address),
        fair_use: None,
        by: OPERATOR,
    };
    (hold, world.begin_check(check, world.now).wait())
}

/// A check of an address that nobody knows; returns how many full checks the connection has left.
fn attempt(world: &mut World, account: AccountId, id: ConnectionId) -> Result<u32, AttemptError> {
    let (hold, begun) = begin(world, account, id, "unknown@example.com");
    assert!(matches!(begun?, Begun::Held(_)));
    world.settle(hold).unwrap();
    let all = world.connections(account, world.now).wait().unwrap();
    Ok(all.iter().find(|found| found.id == id).unwrap().left())
}

#[test]
fn a_code_is_worth_tokens_once_and_its_second_use_ends_the_connection() {
    let (mut world, account) = World::with_account("free");
    let new = consent(&mut world, account, 1, 3);
    world.consent(new.clone(), OPERATOR, world.now).wait().unwrap();
    assert_eq!(world.connections(account, world.now).wait(), Ok(vec![]), "nobody has it yet");
    let granted = world.redeem(redemption(1, 10), world.now).wait().unwrap();
    assert_eq!(granted, Granted { connection: new.id, access_expires_at: START + ACCESS_MS });
    assert_eq!(holder(&world, 10), Some(new.id));
    assert_eq!(holder(&world, 11), None, "a refresh token is no access token");
    assert_eq!(holder(&world, 1), None, "neither is a code");
    world.reopen();
    assert_eq!(holder(&world, 10), Some(new.id));
    assert_eq!(world.redeem(redemption(1, 20), world.now).wait(), Err(GrantError::Reused));
    assert_eq!((holder(&world, 10), holder(&world, 20)), (None, None));
    assert_eq!(world.renew(renewal(11, 110, 30), world.now).wait(), Err(GrantError::Unknown));
    assert_eq!(world.redeem(redemption(1, 20), world.now).wait(), Err(GrantError::Unknown));
}

#[test]
fn a_code_is_bound_to_its_client_redirect_and_verifier_and_to_a_minute() {
    type Change = fn(&mut Redemption);
    let changes: [Change; 3] = [
        |it| it.client = "cli_other".into(),
        |it| it.redirect_uri = "https://assistant.example/other".into(),
        |it| it.challenge = secret(201),
    ];
    for change in changes {
        let mut world = World::new();
        let account = world.account("a", "free");
        let new = consent(&mut world, account, 1, 3);
        world.consent(new, OPERATOR, world.now).wait().unwrap();
        let mut wrong = redemption(1, 10);
        change(&mut wrong);
        assert_eq!(world.redeem(wrong, world.now).wait(), Err(GrantError::Unknown));
        let right = world.redeem(redemption(1, 10), world.now).wait();
        assert_eq!(right, Err(GrantError::Unknown), "whoever had it, it is worth nothing any longer");
    }
    let (mut world, account) = World::with_account("free");
    for (code, late, good) in [(1, CODE_MS - 1, true), (2, CODE_MS, false)] {
        let new = consent(&mut world, account, code, 3);
        world.consent(new, OPERATOR, world.now).wait().unwrap();
        let redeemed = world.redeem(redemption(code, 10 * code), world.now + late).wait();
        assert_eq!(redeemed.is_ok(), good, "{late}");
    }
}

#[test]
fn refresh_tokens_rotate_and_an_old_one_ends_the_connection() {
    let (mut world, account) = World::with_account("free");
    let id = connect(&mut world, account, 10, 3);
    for (old, new) in [(10, 20), (20, 30), (30, 40)] {
        world.now += 1000;
        world.renew(renewal(11, old + 100, new), world.now).wait().unwrap();
        assert_eq!(holder(&world, new), Some(id));
        assert_eq!(holder(&world, old), Some(id), "requests under way have the one before");
    }
    assert_eq!(holder(&world, 20), None, "and none older than that");
    assert_eq!(world.renew(renewal(11, 120, 50), world.now).wait(), Err(GrantError::Reused));
    assert_eq!((holder(&world, 40), holder(&world, 50)), (None, None));
    assert_eq!(world.renew(renewal(11, 140, 50), world.now).wait(), Err(GrantError::Unknown));

    let id = connect(&mut world, account, 60, 3);
    let other = Renewal { client: "cli_other".into(), ..renewal(61, 160, 70) };
    assert_eq!(world.renew(other, world.now).wait(), Err(GrantError::Reused));
    assert_eq!(holder(&world, 60), None, "{id} is ended");
}

#[test]
fn nothing_outlives_its_time_or_that_of_its_connection() {
    let (mut world, account) = World::with_account("free");
    let id = connect(&mut world, account, 10, 3);
    world.now = START + ACCESS_MS - 1;
    assert_eq!(holder(&world, 10), Some(id));
    world.now += 1;
    assert_eq!(holder(&world, 10), None);
    world.now = START + 2 * DAY - 1000;
    let granted = world.renew(renewal(11, 110, 20), world.now).wait().unwrap();
    assert_eq!(granted.access_expires_at, START + 2 * DAY);
    assert_eq!(attempt(&mut world, account, id).unwrap(), 2);
    world.now = START + 2 * DAY;
    assert_eq!(holder(&world, 20), None);
    assert_eq!(attempt(&mut world, account, id), Err(AttemptError::Ended));
    assert_eq!(world.renew(renewal(11, 120, 30), world.now).wait(), Err(GrantError::Unknown));
    assert_eq!(world.connections(account, world.now).wait(), Ok(vec![]));
    assert_eq!(world.purge().connections, 1);
}

#[test]
fn an_attempt_and_its_credit_are_taken_together_or_not_at_all() {
    let mut world = World::new();
    let (account, other) = (world.account("a", "free"), world.account("b", "free"));
    let id = connect(&mut world, account, 10, 2);
    let left = |world: &World| world.connections(account, world.now).wait().unwrap()[0].left();
    let before = world.read(account).balance.available();
    assert_eq!(attempt(&mut world, account, id).unwrap(), 1);
    assert_eq!((left(&world), world.read(account).balance.available()), (1, before - 1));

    assert_eq!(attempt(&mut world, other, id), Err(AttemptError::Ended), "it is not theirs");
    world.store().set_status(account, SubscriptionStatus::Paused, world.now).wait().unwrap();
    assert!(matches!(attempt(&mut world, account, id), Err(AttemptError::Hold(_))));
    world.store().set_status(account, SubscriptionStatus::Active, world.now).wait().unwrap();
    assert_eq!((left(&world), world.read(account).balance.available()), (1, before - 1));

    world.verify(other, "joe@example.com", Reason::MailboxExists);
    let (_, begun) = begin(&mut world, account, id, "joe@example.com");
    assert!(matches!(begun, Ok(Begun::Charged(_, balance)) if balance.available() == before - 2));
    assert_eq!(left(&world), 0);
    let (_, begun) = begin(&mut world, account, id, "joe@example.com");
    assert!(matches!(begun, Ok(Begun::Own(_))), "a repeat uses no full check");
    world.reopen();
    assert_eq!(attempt(&mut world, account, id), Err(AttemptError::Spent { allowance: 2 }));
    assert_eq!((left(&world), world.read(account).balance.available()), (0, before - 2));
    assert_eq!(world.audit(None).wait().unwrap().faults, Vec::<String>::new());

    let none = connect(&mut world, account, 20, 0);
    assert_eq!(attempt(&mut world, account, none), Err(AttemptError::Spent { allowance: 0 }));
}

#[test]
fn a_credit_that_is_given_back_leaves_the_attempt_taken() {
    let (mut world, account) = World::with_account("free");
    let id = connect(&mut world, account, 10, 2);
    let (hold, begun) = begin(&mut world, account, id, "joe@example.com");
    assert!(matches!(begun, Ok(Begun::Held(_))));
    world.void(hold).unwrap();
    assert_eq!(world.connections(account, world.now).wait().unwrap()[0].left(), 1);
    assert_eq!(world.read(account).balance.spent, 0);
}

#[test]
fn a_connection_ends_for_its_account_or_its_client_alone() {
    let mut world = World::new();
    let (account, other) = (world.account("a", "free"), world.account("b", "free"));
    let id = connect(&mut world, account, 10, 2);
    assert_eq!(world.end_connection(other, id).wait(), Err(GrantError::Unknown));
    assert_eq!(world.give_back(secret(11), "cli_other".into()).wait(), Err(GrantError::Unknown));
    assert_eq!(holder(&world, 10), Some(id));
    world.give_back(secret(10), CLIENT.into()).wait().unwrap();
    assert_eq!(holder(&world, 10), None, "the access token alone");
    world.renew(renewal(11, 110, 20), world.now).wait().unwrap();
    world.give_back(secret(11), CLIENT.into()).wait().unwrap();
    assert_eq!((holder(&world, 20), world.connections(account, world.now).wait()), (None, Ok(vec![])));

    let id = connect(&mut world, account, 30, 2);
    world.end_connection(account, id).wait().unwrap();
    assert_eq!(holder(&world, 30), None);
    assert_eq!(world.end_connection(account, id).wait(), Err(GrantError::Unknown));
    assert_eq!(world.redeem(redemption(80, 40), world.now).wait(), Err(GrantError::Unknown));
}

#[test]
fn bounds_are_kept() {
    let (mut world, account) = World::with_account("free");
    type Change = fn(&mut NewConnection, UnixMs);
    let changes: [Change; 7] = [
        |it, _| it.allowance = ATTEMPTS_MAX + 1,
        |it, now| it.expires_at = now + CONNECTION_MS_MAX + 1,
        |it, now| it.expires_at = now,
        |it, _| it.client_name = "a\nb".into(),
        |it, _| it.client_name = "x".repeat(CLIENT_NAME_CHARS_MAX + 1),
        |it, _| it.redirect_uri = "x".repeat(URI_BYTES_MAX + 1),
        |it, _| it.client = String::new(),
    ];
    for change in changes {
        let mut new = consent(&mut world, account, 1, 3);
        change(&mut new, world.now);
        assert_eq!(world.consent(new, OPERATOR, world.now).wait(), Err(ConnectError::Bad));
    }
    let mut new = consent(&mut world, account, 1, 3);
    new.client = ClientId::new(1, 1).to_string();
    assert_eq!(world.consent(new, OPERATOR, world.now).wait(), Err(ConnectError::Unknown));
    let stranger = AccountId::new(1, 1);
    let new = consent(&mut world, stranger, 1, 3);
    assert_eq!(world.consent(new, OPERATOR, world.now).wait(), Err(ConnectError::Outdated));
    for code in 0..CONNECTIONS_MAX {
        let new = consent(&mut world, account, code as u8, 3);
        world.consent(new, OPERATOR, world.now).wait().unwrap();
    }
    let new = consent(&mut world, account, 254, 3);
    assert_eq!(world.consent(new.clone(), OPERATOR, world.now).wait(), Err(ConnectError::TooMany));
    world.now += CODE_MS;
    assert_eq!(world.purge().connections, CONNECTIONS_MAX as u64, "codes that nobody redeemed");
    world.consent(new, OPERATOR, world.now).wait().unwrap();
}

fn client(world: &mut World, name: &str) -> NewClient {
    let id = ClientId::new(world.now, world.random());
    NewClient { id, name: name.into(), redirect_uris: vec![CALLBACK.into()] }
}

/// Consents to a registered client, which redeems its code.
fn connect_client(world: &mut World, account: AccountId, client: &NewClient) -> NewConnection {
    let mut new = consent(world, account, 1, 3);
    new.client = client.id.to_string();
    world.consent(new.clone(), OPERATOR, world.now).wait().unwrap();
    let redemption = Redemption { client: new.client.clone(), ..redemption(1, 10) };
    world.redeem(redemption, world.now).wait().unwrap();
    new
}

#[test]
fn a_client_is_forgotten_unless_it_is_connected() {
    let (mut world, account) = World::with_account("free");
    let [used, unused, left] = ["used", "unused", "left"].map(|name| client(&mut world, name));
    for new in [&used, &unused, &left] {
        world.register_client(new.clone(), world.now).wait().unwrap();
    }
    // A consent with an unredeemed code is no connection.
    world.now = START + CLIENT_UNUSED_MS - CODE_MS / 2;
    let mut new = consent(&mut world, account, 2, 3);
    new.client = left.id.to_string();
    world.consent(new, OPERATOR, world.now).wait().unwrap();
    let new = connect_client(&mut world, account, &used);
    world.reopen();
    let found = world.client(unused.id, START + CLIENT_UNUSED_MS - 1).wait().unwrap().unwrap();
    assert_eq!((found.name, found.redirect_uris), ("unused".into(), vec![CALLBACK.to_owned()]));
    world.now = START + CLIENT_UNUSED_MS;
    assert_eq!(world.client(unused.id, world.now).wait(), Ok(None));
    assert!(world.client(used.id, world.now).wait().unwrap().is_some());
    assert!(world.client(left.id, world.now).wait().unwrap().is_some(), "its code is still good");
    assert_eq!(world.purge().clients, 1);
    world.now += CODE_MS / 2;
    assert_eq!(world.client(left.id, world.now).wait(), Ok(None));
    let purged = world.purge();
    assert_eq!((purged.clients, purged.connections), (1, 1));
    world.now = new.expires_at + CLIENT_KEEP_MS;
    assert_eq!(world.client(used.id, world.now).wait(), Ok(None));
    let purged = world.purge();
    assert_eq!((purged.clients, purged.connections), (1, 1));
}

#[test]
fn when_too_many_clients_register_the_oldest_unused_one_goes() {
    let (mut world, account) = World::with_account("free");
    let used = client(&mut world, "used");
    let oldest = client(&mut world, "oldest");
    for new in [&used, &oldest] {
        world.register_client(new.clone(), world.now).wait().unwrap();
    }
    connect_client(&mut world, account, &used);
    world.now += 1;
    let crowd: Vec<NewClient> = (2..CLIENTS_MAX).map(|_| client(&mut world, "x")).collect();
    let registered: Vec<_> = crowd.into_iter().map(|new| world.register_client(new, world.now)).collect();
    registered.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
    assert!(world.client(oldest.id, world.now).wait().unwrap().is_some(), "there is room for all of them");
    let last = client(&mut world, "last");
    world.register_client(last.clone(), world.now).wait().unwrap();
    let known = |id| world.client(id, world.now).wait().unwrap().is_some();
    assert_eq!((known(oldest.id), known(used.id), known(last.id)), (false, true, true));
}

#[test]
fn a_client_has_bounds() {
    let mut world = World::new();
    type Change = fn(&mut NewClient);
    let changes: [Change; 5] = [
        |it| it.redirect_uris.clear(),
        |it| it.redirect_uris = vec![CALLBACK.into(); REDIRECT_URIS_MAX + 1],
        |it| it.redirect_uris[0].push(' '),
        |it| it.name = "\u{1b}[31m".into(),
        |it| it.name = "x".repeat(CLIENT_NAME_CHARS_MAX + 1),
    ];
    for change in changes {
        let mut new = client(&mut world, "x");
        change(&mut new);
        assert_eq!(world.register_client(new, world.now).wait(), Err(ConnectError::Bad));
    }
}
