//! Deletion of accounts: access ends at once, the rest is removed in steps, and nothing of the account remains.

use crate::world::{
    InFolder, OPERATOR, START, World, new_account, new_connection, new_user, new_webhook, redemption,
};
use api::Reason::MailboxExists;
use std::collections::BTreeSet;
use store::RowOutcome::Verified;
use store::webhooks::NewWebhook;
use store::*;
use store_redb::{DATABASE_FILE, backup};
use store_rules::backup::{BackupReader, Record};

/// A word that is in every text that an account can give.
const CANARY: &str = "kanarienvogel";
/// The tables that [`fill`] leaves empty: they belong to no account (`clients`, `refusals`, `withdrawn`), have no texts (counts, limits,
/// answers), or rows only while a check is under way. A new table has to be filled there, or named here.
const OTHER_TABLES: &[&str] = &[
    "clients",
    "fair_use",
    "holds",
    "limits",
    "list_codes",
    "refusals",
    "stored_bytes",
    "windows",
    "withdrawn",
];
/// The secrets by which the account is found.
struct Traces {
    account: AccountId,
    key: KeyHash,
    list: List,
    open: BatchId,
    webhook: WebhookId,
}

/// An account with everything that an account can have.
fn fill(world: &mut World) -> Traces {
    let id = AccountId::new(world.now, world.random());
    let account = new_account(id, &format!("{CANARY} account"));
    let session = NewSession { hash: [8; 32], agent: format!("{CANARY} browser") };
    let new = new_user(account, &format!("{CANARY}@example.com"), session);
    world.sign_up(new, world.now).wait().unwrap();
    world.create_link(id, [9; 32], world.now).wait().unwrap();
    let key = NewKey { last4: *b"kana", ..world.new_key(id, &format!("{CANARY} key")) };
    world.create_key(key.clone(), OPERATOR, world.now).wait().unwrap();
    let revoked = world.new_key(id, &format!("{CANARY} old key"));
    world.create_key(revoked.clone(), OPERATOR, world.now).wait().unwrap();
    world.revoke_key(revoked.id, world.now).wait().unwrap();
    let grant = Grant { id: world.entry_id(), account: id, credits: 50, note: format!("{CANARY} note") };
    world.store().grant(grant, world.now).wait().unwrap();
    connect(world, id);
    let webhook = WebhookId::new(world.now, world.random());
    let (url, label) = (format!("https://{CANARY}.example/in"), format!("{CANARY} hook"));
    let new = NewWebhook { id: webhook, url, label, ..new_webhook(id, 0) };
    world.create_webhook(new, OPERATOR, world.now).wait().unwrap();
    world.verify(id, &format!("{CANARY}@checked.example"), MailboxExists);
    let mut batch = |addresses: &[&str]| {
        let mut new = world.new_batch(id, addresses);
        new.name = Some(format!("{CANARY} batch"));
        new.idempotency = Some(Idempotency { key: format!("{CANARY} {}", new.id), body: [1; 32] });
        let id = new.id;
        world.create(new).unwrap();
        id
    };
    let (open, complete) = (batch(&["a@x.example", "b@x.example"]), batch(&["c@x.example"]));
    world.answer(open, &[(0, Verified(MailboxExists.into()))]);
    // It makes a message to the webhook.
    world.answer(complete, &[(0, Verified(MailboxExists.into()))]);
    let list = List::new(ListId::new(world.now, world.random()), id, world.now, format!("{CANARY}.csv"));
    world.create_list(&list, ListRoom::MOST, None, world.now).wait().unwrap();
    let plain = format!("{CANARY}@list.example");
    let part = NewPart { number: 0, from: 0, to: plain.len() as u64, plain: plain.as_bytes(), by: OPERATOR };
    world.put_list_part(&list, part, ListRoom::MOST, world.now).wait().unwrap();
    Traces { account: id, key: key.hash, list, open, webhook }
}

fn connect(world: &mut World, account: AccountId) {
    let new = NewConnection {
        client_name: format!("{CANARY} client"),
        redirect_uri: format!("https://{CANARY}.example/back"),
        redirect_host: format!("{CANARY}.example"),
        ..new_connection(account, world.now, world.random())
    };
    world.consent(new.clone(), OPERATOR, world.now).wait().unwrap();
    world.redeem(redemption(&new), world.now).wait().unwrap();
}

fn step(world: &World, id: AccountId) -> DeletionStep {
    world.delete_step(id, world.now).wait().unwrap()
}

/// All rows of the store, with the words in them that are not sealed.
fn all_rows(world: &World) -> Vec<u8> {
    let mut rows = Vec::new();
    world.backup(&mut rows, world.now).unwrap();
    rows
}

/// The tables without a row in a backup.
fn empty_tables(backup: &[u8]) -> BTreeSet<String> {
    let (mut reader, mut last) = (BackupReader::begin(backup).unwrap(), String::new());
    let mut empty = BTreeSet::new();
    while let Some(record) = reader.next_record().unwrap() {
        match record {
            Record::KeyFile { .. } => {}
            Record::Table { name } => {
                empty.insert(name.clone());
                last = name;
            }
            Record::Row { .. } => drop(empty.remove(&last)),
        }
    }
    empty
}

fn has(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

fn check_closed(world: &World, traces: &Traces) {
    let (store, now) = (world.store(), world.now);
    assert_eq!(store.key_by_hash(&traces.key), None);
    assert_eq!(store.keys(traces.account).wait().unwrap(), []);
    assert!(store.session(&[8; 32], now).wait().unwrap().is_none());
    assert!(store.user_of(&format!("{CANARY}@example.com")).wait().unwrap().is_none());
    assert!(store.account_named(&format!("{CANARY} account"), now).wait().unwrap().is_none());
    assert!(store.connection_of(&[53; 32], now).wait().unwrap().is_none());
    let session = NewSession { hash: [60; 32], agent: String::new() };
    assert_eq!(store.use_link([9; 32], session, now).wait(), Ok(None));
}

#[test]
fn a_deleted_account_leaves_nothing_and_the_others_as_they_are() {
    let (mut world, other) = World::with_account("free");
    let key = world.new_key(other, "other");
    world.create_key(key.clone(), OPERATOR, world.now).wait().unwrap();
    let others = world.batch(other, &["a@x.example"]);
    let traces = fill(&mut world);
    let id = traces.account;
    let before = world.read(id).balance;
    let rows = all_rows(&world);
    assert!(has(&rows, CANARY.as_bytes()));
    assert_eq!(empty_tables(&rows).into_iter().collect::<Vec<_>>(), OTHER_TABLES, "`fill` misses a table");
    assert_eq!(world.delete_step(id, world.now).wait(), Ok(DeletionStep::Complete), "it is not closed");
    assert!(world.key_by_hash(&traces.key).is_some());

    let hold = world.hold(id, 3).unwrap();
    world.close_account(id, OPERATOR, world.now).wait().unwrap();
    check_closed(&world, &traces);
    world.close_account(id, OPERATOR, world.now).wait().unwrap();
    assert_eq!(world.closed_accounts().wait().unwrap(), [id]);
    // The check under way ends as always.
    let mut steps = 0;
    while step(&world, id) == DeletionStep::More {
        world.check_sums();
        steps += 1;
        assert!(steps < 100);
    }
    assert!(steps > 3, "{steps}");
    assert_eq!(step(&world, id), DeletionStep::ChecksUnderWay);
    world.settle(hold).unwrap();
    while step(&world, id) == DeletionStep::More {
        world.check_sums();
    }
    assert_eq!(step(&world, id), DeletionStep::Complete);
    assert_eq!(world.closed_accounts().wait().unwrap(), []);
    assert!(world.store().account(id, world.now).wait().unwrap().is_none());
    assert_eq!(world.store().batch(id, traces.open, world.now).wait().unwrap().map(drop), None);
    assert_eq!(world.list(id, traces.list.id, world.now).wait().unwrap().map(drop), None);
    assert_eq!(world.webhook(id, traces.webhook).wait().unwrap().map(drop), None);
    assert_eq!(
        world.close_account(id, OPERATOR, world.now).wait(),
        Err(ChangeError::UnknownAccount),
        "a repetition"
    );
    // A late answer to its batch changes nothing.
    world.answer(traces.open, &[(1, Verified(MailboxExists.into()))]);
    world.purge();
    assert!(world.list_part(&traces.list, 0).wait().unwrap().is_none());
    let rows = all_rows(&world);
    assert!(!has(&rows, CANARY.as_bytes()));
    assert!(!has(&rows, &traces.key));
    world.check_sums();
    assert!(before.spent > 0);

    assert!(world.key_by_hash(&key.hash).is_some());
    assert_eq!(world.open_batches().wait().unwrap().len(), 1);
    world.answer(others, &[(0, Verified(MailboxExists.into()))]);
    world.reopen();
    check_closed(&world, &traces);
    assert!(world.key_by_hash(&key.hash).is_some());
    // The name and the address are free again.
    fill(&mut world);
    world.check_sums();
}

#[test]
fn a_deletion_continues_after_each_restart() {
    let mut world = World::new();
    let traces = fill(&mut world);
    let id = traces.account;
    world.hold(id, 2).unwrap();
    world.close_account(id, OPERATOR, world.now).wait().unwrap();
    let mut steps = 0;
    loop {
        world.reopen();
        check_closed(&world, &traces);
        world.check_sums();
        assert_eq!(world.closed_accounts().wait().unwrap(), [id]);
        if step(&world, id) == DeletionStep::Complete {
            break;
        }
        steps += 1;
        assert!(steps < 100);
    }
    world.reopen();
    world.check_sums();
    assert!(!has(&all_rows(&world), CANARY.as_bytes()));
    let account = new_account(AccountId::new(START, 77), "default");
    let first = world.first_run(FirstRun { account, keys: Vec::new() }, world.now).wait();
    assert_eq!(first, Ok(None), "the store had an account");
}

#[test]
fn the_file_of_the_database_has_nothing_of_a_deleted_account_after_compaction() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut world = World::of(Box::new(InFolder(folder.path().to_owned())));
    let traces = fill(&mut world);
    let file = || std::fs::read(folder.path().join(DATABASE_FILE)).unwrap();
    assert!(has(&file(), format!("{CANARY} key").as_bytes()));
    world.close_account(traces.account, OPERATOR, world.now).wait().unwrap();
    while step(&world, traces.account) == DeletionStep::More {}
    world.purge();
    drop(world);
    backup::compact(folder.path()).unwrap();
    assert!(!has(&file(), CANARY.as_bytes()));
    assert!(!has(&file(), &traces.key));
    for key in std::fs::read_dir(folder.path().join(store_redb::KEY_FOLDER)).unwrap() {
        assert!(!has(&std::fs::read(key.unwrap().path()).unwrap(), CANARY.as_bytes()));
    }
}
