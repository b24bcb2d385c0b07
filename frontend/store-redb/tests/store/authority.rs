//! What was verified before a change still holds when the change happens, in every order of the steps.

use crate::world::{
    OPERATOR, PASSWORD, START, World, new_account, new_connection, new_user, new_webhook, redemption,
};
use store::webhooks::{WebhookChange, WebhookError, WebhookSecret};
use store::*;

const EMAIL: &str = "joe@example.com";
const NEXT: PasswordHash = PasswordHash { tag: [3; 32], ..PASSWORD };
/// The session that begins things, and another one of the same user.
const MINE: TokenHash = [1; 32];
const OTHER: TokenHash = [2; 32];
/// The session that a sign-in begins.
const NEW: TokenHash = [3; 32];

/// Something that needs a session or a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    SignIn,
    Key,
    Consent,
    Token,
    Change,
    Deletion,
    Webhook,
    /// A new secret of an endpoint.
    Rotation,
    /// A part of a list.
    Part,
    /// The end of the upload of a list.
    Upload,
    /// The start of a list that was read.
    Start,
    Check,
    Batch,
}

/// Something after which what rested on the old password or on the session must not happen any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Change,
    Reset,
    SignOut,
    SignOutEverywhere,
    Deletion,
}

const BEGUN: [Begun; 13] = [
    Begun::SignIn,
    Begun::Key,
    Begun::Consent,
    Begun::Token,
    Begun::Change,
    Begun::Deletion,
    Begun::Webhook,
    Begun::Rotation,
    Begun::Part,
    Begun::Upload,
    Begun::Start,
    Begun::Check,
    Begun::Batch,
];
/// What keys begin too.
const BY_KEY: [Begun; 7] =
    [Begun::Webhook, Begun::Rotation, Begun::Part, Begun::Upload, Begun::Start, Begun::Check, Begun::Batch];
const ENDS: [End; 5] = [End::Change, End::Reset, End::SignOut, End::SignOutEverywhere, End::Deletion];

fn user() -> (World, AccountId) {
    let mut world = World::new();
    let id = AccountId::new(world.now, world.random());
    let session = NewSession { hash: MINE, agent: "mine".into() };
    let new = new_user(new_account(id, "web 1"), EMAIL, session);
    world.sign_up(new, world.now).wait().unwrap();
    let other = NewSession { hash: OTHER, agent: "other".into() };
    world.begin_session(id, other, Authority::password(PASSWORD), world.now).wait().unwrap();
    world.create_webhook(new_webhook(id, 1), Authority::session(MINE), world.now).wait().unwrap();
    let made = world.create_list(&list(id, world.now), ListRoom::MOST, None, world.now).wait();
    assert_eq!(made, Ok(ListMade::Made));
    let read = ready(id, world.now);
    let uploaded = List { state: ListState::Uploading, ..read.clone() };
    let made = world.create_list(&uploaded, ListRoom::MOST, None, world.now).wait();
    assert_eq!(made, Ok(ListMade::Made));
    let put = world.put_list(&read, ListState::Uploading, None, world.now).wait();
    assert_eq!(put, Ok(true));
    (world, id)
}

/// The list that is being uploaded.
fn list(account: AccountId, now: UnixMs) -> List {
    List { bytes: 15, ..List::new(ListId::new(now, 1), account, now, "list.csv".into()) }
}

fn both(session: TokenHash) -> Authority {
    Authority { password: Some(PASSWORD), ..Authority::session(session) }
}

/// The list that was read, and is not started.
fn ready(account: AccountId, now: UnixMs) -> List {
    let read = List::new(ListId::new(now, 2), account, now, "read.csv".into());
    List { state: ListState::Ready, bytes: 15, rows: 1, addresses: 1, ..read }
}

/// Does a thing that was begun by the session, with what was verified then; returns whether it was refused as outdated.
fn finish(world: &mut World, id: AccountId, begun: Begun) -> Result<(), bool> {
    finish_by(world, id, begun, Authority::session(MINE))
}

fn finish_by(world: &mut World, id: AccountId, begun: Begun, mine: Authority) -> Result<(), bool> {
    let now = world.now;
    let is_outdated = |error: StoreError| error == StoreError::Outdated;
    match begun {
        Begun::Webhook => {
            let done = world.create_webhook(new_webhook(id, 2), mine, now).wait().map(drop);
            done.map_err(|error| matches!(error, WebhookError::Store(StoreError::Outdated)))
        }
        Begun::Rotation => {
            let change = WebhookChange { secret: Some(WebhookSecret([8; 24])), ..WebhookChange::default() };
            let hook = WebhookId::new(START, 1);
            let done = world.change_webhook(id, hook, change, mine, now).wait().map(drop);
            done.map_err(|error| matches!(error, WebhookError::Store(StoreError::Outdated)))
        }
        Begun::Part => {
            let part = NewPart { number: 0, from: 0, to: 15, plain: b"one@example.com", by: mine };
            let put = world.put_list_part(&list(id, START), part, ListRoom::MOST, now).wait();
            put.map(|put| assert_eq!(put, PartPut::Stored)).map_err(is_outdated)
        }
        Begun::Upload => {
            let ended = world.end_upload(&list(id, START), None, mine, now).wait();
            ended.map(|ended| assert_eq!(ended, UploadEnd::Done)).map_err(is_outdated)
        }
        Begun::Start => {
            let list = List { state: ListState::Running, ..ready(id, START) };
            let started = world.start_list(&list, ListState::Ready, mine, now).wait();
            started.map(|started| assert!(started)).map_err(is_outdated)
        }
        Begun::Check => {
            let hold = HoldRef { account: id, id: EntryId::new(now, world.random()) };
            let address = world.hash_address("one@example.com");
            let check = NewCheck { hold, connection: None, address, fair_use: None, by: mine };
            let begun = world.begin_check(check, now).wait().map(drop);
            begun.map_err(|error| matches!(error, AttemptError::Store(StoreError::Outdated)))
        }
        Begun::Batch => {
            let new = world.new_batch(id, &["one@example.com"]);
            let made = world.create_batch(new, mine, now).wait().map(drop);
            made.map_err(|error| matches!(error, BatchError::Store(StoreError::Outdated)))
        }
        Begun::SignIn => {
            let new = NewSession { hash: NEW, agent: "new".into() };
            let by = Authority::password(PASSWORD);
            let done = world.begin_session(id, new, by, now).wait();
            done.map_err(|error| {
                matches!(error, UserError::Outdated | UserError::Account(ChangeError::UnknownAccount))
            })
        }
        Begun::Key => {
            let new = world.new_key(id, "key");
            let done = world.create_key(new, mine, now).wait().map(drop);
            done.map_err(|error| matches!(error, ChangeError::Outdated | ChangeError::UnknownAccount))
        }
        Begun::Consent => {
            let new = new_connection(id, now, world.random());
            let done = world.consent(new, mine, now).wait();
            done.map_err(|error| matches!(error, ConnectError::Outdated))
        }
        Begun::Token => {
            let done = world.redeem(redemption(&new_connection(id, now, 0)), now).wait().map(drop);
            done.map_err(|error| matches!(error, GrantError::Unknown))
        }
        Begun::Change => {
            let changed = PasswordHash { tag: [4; 32], ..PASSWORD };
            let done = world.set_user(id, None, changed, both(MINE), now).wait();
            done.map_err(|error| {
                matches!(error, UserError::Outdated | UserError::Account(ChangeError::UnknownAccount))
            })
        }
        Begun::Deletion => {
            let done = world.close_account(id, both(MINE), now).wait();
            done.map_err(|error| matches!(error, ChangeError::Outdated))
        }
    }
}

fn end(world: &World, id: AccountId, end: End) {
    let (store, now) = (world.store(), world.now);
    match end {
        End::Change => store.set_user(id, None, NEXT, both(OTHER), now).wait().unwrap(),
        End::Reset => {
            let email = Some(EMAIL.into());
            store.set_user(id, email, NEXT, OPERATOR, now).wait().unwrap();
        }
        End::SignOut => assert_eq!(store.end_session(id, MINE).wait(), Ok(true)),
        End::SignOutEverywhere => drop(store.end_sessions(id, Some(OTHER)).wait().unwrap()),
        End::Deletion => store.close_account(id, OPERATOR, now).wait().unwrap(),
    }
}

/// Whether something outlives an end. A sign-out leaves the password as it is, so who typed it may sign in. A deletion that was begun
/// twice has nothing left to do.
fn may_follow(begun: Begun, of: End) -> bool {
    match of {
        End::SignOut => matches!(begun, Begun::SignIn | Begun::Token),
        End::SignOutEverywhere => begun == Begun::SignIn,
        End::Deletion => begun == Begun::Deletion,
        End::Change | End::Reset => false,
    }
}

fn is_open(world: &World, hash: TokenHash) -> bool {
    world.session(&hash, world.now).wait().unwrap().is_some()
}

/// The endpoints, lists, batches and credits of an account.
fn others(world: &World, id: AccountId) -> impl PartialEq + std::fmt::Debug + use<> {
    let (store, now) = (world.store(), world.now);
    let balance = store.account(id, now).wait().unwrap().map(|account| account.balance);
    let batches = store.open_batches().wait().unwrap().len();
    (store.webhooks(id).wait().unwrap(), store.lists(id, now).wait().unwrap(), batches, balance)
}

#[test]
fn what_was_begun_with_what_has_been_replaced_is_refused() {
    for begun in BEGUN {
        for of in ENDS {
            let (mut world, id) = user();
            if begun == Begun::Token {
                finish(&mut world, id, Begun::Consent).unwrap();
            }
            end(&world, id, of);
            let (keys, before) = (world.keys(id).wait().unwrap().len(), world.user(id).wait());
            let others = others(&world, id);
            let expected = if may_follow(begun, of) { Ok(()) } else { Err(true) };
            assert_eq!(finish(&mut world, id, begun), expected, "{begun:?} after {of:?}");
            if expected.is_ok() {
                continue;
            }
            // Nothing of it has happened.
            assert!(!is_open(&world, NEW), "{begun:?} after {of:?}");
            assert_eq!(world.keys(id).wait().unwrap().len(), keys);
            assert_eq!(world.user(id).wait(), before);
            assert_eq!(world.connections(id, world.now).wait(), Ok(vec![]));
            assert_eq!(world.connection_of(&[53; 32], world.now).wait(), Ok(None));
            assert_eq!(self::others(&world, id), others, "{begun:?} after {of:?}");
        }
    }
}

#[test]
fn what_was_finished_before_an_end_goes_with_it() {
    for begun in [Begun::SignIn, Begun::Key, Begun::Consent, Begun::Token] {
        for of in ENDS {
            let (mut world, id) = user();
            if begun == Begun::Token {
                finish(&mut world, id, Begun::Consent).unwrap();
            }
            finish(&mut world, id, begun).unwrap();
            end(&world, id, of);
            let place = format!("{begun:?} before {of:?}");
            let is_deleted = of == End::Deletion;
            match begun {
                // The one who signs out here stays signed in elsewhere.
                Begun::SignIn => assert_eq!(is_open(&world, NEW), of == End::SignOut, "{place}"),
                // The page says that keys and connected assistants stay.
                Begun::Key => {
                    assert_eq!(world.keys(id).wait().unwrap().is_empty(), is_deleted, "{place}");
                }
                Begun::Token => {
                    let found = world.connection_of(&[53; 32], world.now).wait().unwrap();
                    assert_eq!(found.is_none(), is_deleted, "{place}");
                }
                Begun::Consent => {
                    let expected = match of {
                        End::SignOut => Ok(()),
                        _ => Err(true),
                    };
                    assert_eq!(finish(&mut world, id, Begun::Token), expected, "{place}");
                }
                // Not in this table.
                _ => {}
            }
        }
    }
}

#[test]
fn a_first_password_is_set_once() {
    let mut world = World::new();
    let id = world.account("a", "free");
    for hash in [MINE, OTHER] {
        let new = NewSession { hash, agent: "link".into() };
        world.begin_session(id, new, OPERATOR, world.now).wait().unwrap();
    }
    let first = |session, email: &str| {
        let by = Authority::session(session);
        world.set_user(id, Some(email.into()), PASSWORD, by, world.now).wait()
    };
    assert_eq!(first(MINE, EMAIL), Ok(()));
    // This one has ended.
    assert_eq!(first(OTHER, "other@example.com"), Err(UserError::Outdated));
    // This one saw an account without a user.
    assert_eq!(first(MINE, "other@example.com"), Err(UserError::Outdated));
    assert_eq!(world.user(id).wait().unwrap().unwrap().email, EMAIL);
    // Nothing that another account's session allows.
    let b = world.account("b", "free");
    let new = world.new_key(b, "key");
    let made = world.create_key(new, Authority::session(MINE), world.now).wait();
    assert_eq!(made, Err(ChangeError::Outdated));
    // A session that has expired allows nothing.
    let late = world.now + SESSION_MS;
    let new = world.new_key(id, "key");
    let made = world.create_key(new, Authority::session(MINE), late).wait();
    assert_eq!(made, Err(ChangeError::Outdated));
}

#[test]
fn what_is_begun_is_done_while_its_session_or_key_is_valid() {
    for begun in BEGUN {
        let (mut world, id) = user();
        if begun == Begun::Token {
            finish(&mut world, id, Begun::Consent).unwrap();
        }
        assert_eq!(finish(&mut world, id, begun), Ok(()), "{begun:?}");
    }
    for begun in BY_KEY {
        let (mut world, id) = user();
        let key = world.new_key(id, "key");
        world.create_key(key.clone(), OPERATOR, world.now).wait().unwrap();
        assert_eq!(finish_by(&mut world, id, begun, Authority::key(key.id)), Ok(()), "{begun:?}");
    }
}

#[test]
fn what_a_key_began_is_refused_after_its_end() {
    for begun in BY_KEY {
        for of in ["revocation", "expiry", "deletion", "key of another account"] {
            let (mut world, id) = user();
            let owner = if of.starts_with("key") { world.account("b", "free") } else { id };
            let expires_at = Some(world.now + 1000);
            let key = NewKey { expires_at, ..world.new_key(owner, "key") };
            world.create_key(key.clone(), OPERATOR, world.now).wait().unwrap();
            match of {
                "revocation" => drop(world.revoke_key(key.id, world.now).wait().unwrap()),
                "expiry" => world.now += 1000,
                "deletion" => world.close_account(id, OPERATOR, world.now).wait().unwrap(),
                _ => {}
            }
            let before = others(&world, id);
            let done = finish_by(&mut world, id, begun, Authority::key(key.id));
            assert_eq!(done, Err(true), "{begun:?} after {of}");
            assert_eq!(others(&world, id), before, "{begun:?} after {of}");
        }
    }
}

#[test]
fn a_session_that_has_ended_ends_no_others() {
    let (world, id) = user();
    assert_eq!(world.end_session(id, MINE).wait(), Ok(true));
    assert_eq!(world.end_sessions(id, Some(MINE)).wait(), Ok(0));
    assert!(is_open(&world, OTHER));
    assert_eq!(world.end_sessions(id, None).wait(), Ok(1), "the operator needs no session");
}
