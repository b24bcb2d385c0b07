//! A deleted account, in what PostgreSQL keeps of it: a dump at once, and the files of the tables after `VACUUM FULL`. Both have the
//! account before its deletion, so the search is able to find something.

use crate::cluster::TestCluster;
use crate::cluster::retention::{COPIES, files, open, program, run};
use aho_corasick::AhoCorasick;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use store::webhooks::{EventSet, NewWebhook, WebhookSecret};
use store::*;
use store_rules::Store;

/// The time for which changes of the index are kept, with room for a busy machine.
const CHANGES_KEPT_MAX: Duration = Duration::from_secs(100);

/// The time after which `VACUUM FULL` has removed everything, although other tests have transactions in the same database.
const VACUUM_MAX: Duration = Duration::from_secs(120);

/// A part of each text of the account, and of nothing else.
const CANARY: &str = "zqcanary23";

fn fill(store: &Store, now: UnixMs) -> AccountId {
    let id = AccountId::new(now, 1 << 61);
    let account = NewAccount { id, name: format!("{CANARY} account"), plan: "free".into() };
    let password = PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [1; 16], tag: [2; 32] };
    let session = NewSession { hash: [8; 32], agent: format!("{CANARY} browser") };
    let new = NewUser { account, email: format!("{CANARY}@example.com"), password, session };
    store.sign_up(new, now).wait().unwrap();
    let key = NewKey {
        id: KeyId::new(now, 2),
        account: id,
        mode: KeyMode::Live,
        hash: [7; 32],
        last4: *b"abcd",
        label: format!("{CANARY} key"),
        scopes: KeyScopes::ALL,
        expires_at: None,
    };
    store.create_key(key, Authority::OPERATOR, now).wait().unwrap();
    let grant = Grant { id: EntryId::new(now, 3), account: id, credits: 5, note: format!("{CANARY} note") };
    store.grant(grant, now).wait().unwrap();
    let connection = NewConnection {
        id: ConnectionId::new(now, 4),
        account: id,
        client: "https://assistant.example/client.json".into(),
        client_name: format!("{CANARY} client"),
        redirect_uri: format!("https://{CANARY}.example/back"),
        redirect_host: format!("{CANARY}.example"),
        code: [50; 32],
        challenge: [51; 32],
        allowance: 5,
        expires_at: now + 86_400_000,
    };
    store.consent(connection, Authority::OPERATOR, now).wait().unwrap();
    let (url, label) = (format!("https://{CANARY}.example/in"), format!("{CANARY} hook"));
    let (secret, hook) = (WebhookSecret([7; 24]), WebhookId::new(now, 5));
    let new = NewWebhook { id: hook, account: id, url, label, events: EventSet::ALL, secret };
    store.create_webhook(new, Authority::OPERATOR, now).wait().unwrap();
    let row = |email: String| NewRow { address: store.hash_address(&email), email };
    let rows = vec![row(format!("{CANARY}@batch.example"))];
    let (name, mode) = (Some(format!("{CANARY} batch")), BatchMode::Live);
    let batch = NewBatch { id: BatchId::new(now, 6), account: id, name, rows, idempotency: None, mode };
    store.create_batch(batch, Authority::OPERATOR, now).wait().unwrap();
    let list = List::new(ListId::new(now, 7), id, now, format!("{CANARY}.csv"));
    store.create_list(&list, ListRoom::MOST, None, now).wait().unwrap();
    let plain = format!("{CANARY}@list.example");
    let part = NewPart {
        number: 0,
        from: 0,
        to: plain.len() as u64,
        plain: plain.as_bytes(),
        by: Authority::OPERATOR,
    };
    store.put_list_part(&list, part, ListRoom::MOST, now).wait().unwrap();
    id
}

/// The files below a path that have the canary, as text or as hex digits.
fn files_with_canary(path: &Path) -> Vec<PathBuf> {
    let hex = data_encoding::HEXLOWER.encode(CANARY.as_bytes());
    let searched = AhoCorasick::new([CANARY, &hex]).unwrap();
    let mut found = files(path);
    found.retain(|file| searched.is_match(&fs::read(file).unwrap()));
    found
}

/// The files of a dump and of a base backup that have the canary.
fn copies(cluster: &TestCluster, name: &str) -> [Vec<PathBuf>; 2] {
    let dump = cluster.path(&format!("{name}.sql"));
    run(program(cluster, "pg_dump").args(["--no-owner", "--schema", &cluster.schema, "--file"]).arg(&dump));
    let base = cluster.path(name);
    run(program(cluster, "pg_basebackup")
        .args(["--checkpoint=fast", "--wal-method=none", "--pgdata"])
        .arg(&base));
    let found = [files_with_canary(&dump), files_with_canary(&base)];
    fs::remove_dir_all(&base).unwrap();
    found
}

#[test]
fn a_deleted_account_is_in_no_dump_and_after_vacuum_full_in_no_file() {
    let Some(cluster) = TestCluster::get("deletion") else { return };
    let _turn = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let (schema, now) = (cluster.schema.clone(), clock::now());
    cluster.run(Some(&schema), "cluster init --bundle keys --data one");
    cluster.run(Some(&schema), "cluster join keys --data two");
    let store = open(&cluster, &cluster.url, "one", now);
    let other = open(&cluster, &cluster.url, "two", now);
    let id = fill(&store, now);
    assert!(copies(&cluster, "before").iter().all(|files| !files.is_empty()));
    // A server does this by itself from time to time. It must not copy values of rows to its statistics.
    store_pg::sql::execute(cluster.place(&schema).target, "ANALYZE").unwrap();

    store.close_account(id, Authority::OPERATOR, now).wait().unwrap();
    // The other node removes the rest.
    while other.delete_step(id, now).wait().unwrap() == DeletionStep::More {}
    assert_eq!(other.delete_step(id, now).wait(), Ok(DeletionStep::Complete));
    while other.purge(now).wait().unwrap().more {}
    // The changes of the index have names and labels. The newest one is the deletion.
    let changes = format!("SELECT count(*)::text FROM {schema}.changes");
    let began = Instant::now();
    while store_pg::sql::execute(cluster.place(&schema).target, &changes).unwrap()[0][0] != "1" {
        assert!(began.elapsed() < CHANGES_KEPT_MAX, "old changes are not removed");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(other.audit(None).wait().unwrap().faults, Vec::<String>::new());
    let sql = |text: &str| store_pg::sql::execute(cluster.place(&schema).target, text).unwrap();
    let began = Instant::now();
    loop {
        for row in sql(&format!("SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")) {
            sql(&format!("VACUUM FULL {schema}.{}", row[0]));
        }
        let [in_dump, in_files] = copies(&cluster, "after");
        assert_eq!(in_dump, Vec::<PathBuf>::new());
        if in_files.is_empty() {
            break;
        }
        // PostgreSQL keeps removed rows for older transactions, such as those of other tests.
        let older = "SELECT pid::text, backend_xmin::text, state, left(query, 60) FROM pg_stat_activity \
             WHERE backend_xmin IS NOT NULL ORDER BY age(backend_xmin) DESC";
        let relations = "SELECT pg_relation_filenode(oid)::text, oid::regclass::text FROM pg_class";
        let mut relations = sql(relations);
        relations.retain(|row| !row[0].is_empty() && in_files.iter().any(|file| file.ends_with(&row[0])));
        let what = || format!("{in_files:?} {relations:?}, with {:?}", sql(older));
        assert!(began.elapsed() < VACUUM_MAX, "the files still have the account: {}", what());
    }
    for folder in ["one", "two"] {
        assert_eq!(files_with_canary(&cluster.path(folder)), Vec::<PathBuf>::new(), "{folder}");
    }
}
