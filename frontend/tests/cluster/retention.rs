//! Data whose time is over, in what PostgreSQL keeps of it: a dump, the WAL and a base backup from the time before. With the
//! keys that the nodes have afterwards, none of it is readable. With the keys of the time before all of it is, so the search
//! is able to find something.

use crate::cluster::TestCluster;
use aho_corasick::AhoCorasick;
use api::Reason::{CatchAll, MailboxExists};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::RowOutcome::Verified;
use store::*;
use store_pg::{NodeFolder, NodeTraits};
use store_rules::Store;
use vault::{KeyClass, Place, Vault, VaultKey};

const HOUR: UnixMs = 3_600_000;
const DAY: UnixMs = 24 * HOUR;
/// A part of each address, of each name of a batch or list, and of nothing else.
const CANARY: &str = "zqcanary17";
const COMPLETE: usize = 40;
const OPEN: usize = 20;
/// The addresses in a batch.
const ROWS: usize = 100;
const PARTS: u32 = 100;
/// The addresses in a part of the list.
const PART_ROWS: usize = 40;
/// The addresses of all batches and of the list.
const CANARIES: usize = (COMPLETE + OPEN) * ROWS + PARTS as usize * PART_ROWS;
const RESULTS: usize = 500;
/// Open batches are ended after six days, and are then readable for a week. Everything is over after this time.
const OVER: UnixMs = 16 * DAY;
/// How far ahead of the end keys are tried.
const TRIED: UnixMs = 48 * HOUR;
const WAL_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a sealed value that are searched for in the files of PostgreSQL: nonce and start of the ciphertext.
const NEEDLE: usize = 20;

/// The tests that copy the whole server of PostgreSQL take turns: one would slow the other down.
pub static COPIES: Mutex<()> = Mutex::new(());

/// What was written.
struct Written {
    account: AccountId,
    batches: Vec<BatchId>,
    list: List,
}

/// Numbers for the addresses and for the random bits of ids.
struct Numbers {
    id: u128,
    address: usize,
}

impl Numbers {
    fn id(&mut self) -> u128 {
        self.id += 1;
        1 << 61 | self.id
    }

    fn address(&mut self) -> String {
        self.address += 1;
        format!("{CANARY}-{}@{CANARY}.example", self.address)
    }
}

#[test]
fn what_is_over_is_unreadable_in_dump_wal_and_base_backup() {
    let Some(cluster) = TestCluster::get("retention") else { return };
    let _turn = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let (schema, now) = (cluster.schema.clone(), clock::now());
    cluster.run(Some(&schema), "cluster init --bundle keys --data one");
    cluster.run(Some(&schema), "cluster join keys --data two");
    // Its keys stay those of now: it never purges.
    cluster.run(Some(&schema), "cluster join keys --data before");
    let wal = WalCopy::start(&cluster);
    let store = open(&cluster, &cluster.url, "one", now);
    let written = fill(&store, now);
    let sealed = sealed_values(&cluster, now);

    let dump = cluster.path("dump.sql");
    run(program(&cluster, "pg_dump").args(["--no-owner", "--schema", &schema, "--file"]).arg(&dump));
    let base = cluster.path("base");
    run(program(&cluster, "pg_basebackup")
        .args(["--checkpoint=fast", "--wal-method=none", "--pgdata"])
        .arg(&base));

    // Both nodes learn that the time is over; an open batch is ended first.
    let other = open(&cluster, &cluster.url, "two", now);
    for time in [now + OVER / 2, now + OVER] {
        for node in [&store, &other] {
            while node.purge(time).wait().unwrap().more {}
        }
    }
    assert_eq!(readable(&store, &written, now), 0, "the running node reads what is over");
    drop((store, other));
    let wal = wal.stop();

    let artifacts = [("dump", files(&dump)), ("base backup", files(&base)), ("WAL", files(&wal))];
    for (name, files) in &artifacts {
        let found = check_text(name, files, &sealed);
        println!("{name}: {found} of {} sealed values, no canary in clear text", sealed.len());
        assert_eq!(found, sealed.len(), "{name}: sealed values");
    }
    for node in ["one", "two"] {
        check_keys(&cluster, node, &sealed, now);
    }
    check_restored(&cluster, &dump, &written, now);
}

pub fn open(cluster: &TestCluster, url: &str, data: &str, now: UnixMs) -> Arc<Store> {
    let folder = NodeFolder::open(&cluster.path(data)).unwrap();
    let traits = NodeTraits { egress: None, version: "1".into(), reuse: true };
    let mut place = cluster.place(&cluster.schema);
    place.target = store_pg::Target::parse(url).unwrap();
    store_pg::open_node(&place, folder, traits, PlanTable::standard(), now).unwrap().0
}

/// Writes all canaries.
fn fill(store: &Store, now: UnixMs) -> Written {
    let mut numbers = Numbers { id: 1, address: 0 };
    let id = AccountId::new(now, numbers.id());
    let new = NewAccount { id, name: "a".into(), plan: "growth".into() };
    let account = store.create_account(new, now).wait().unwrap().id;
    let id = EntryId::new(now, numbers.id());
    store.grant(Grant { id, account, credits: 50_000, note: "x".into() }, now).wait().unwrap();
    let mut batches = Vec::new();
    for number in 0..COMPLETE + OPEN {
        let id = BatchId::new(now, numbers.id());
        let row = |email: String| NewRow { address: store.hash_address(&email), email };
        let rows = (0..ROWS).map(|_| row(numbers.address())).collect();
        let (name, mode) = (Some(format!("{CANARY} {number}")), BatchMode::Live);
        store
            .create_batch(
                NewBatch { id, account, name, rows, idempotency: None, mode },
                Authority::OPERATOR,
                now,
            )
            .wait()
            .unwrap();
        // Of an open batch, one row is answered.
        let answered = if number < COMPLETE { ROWS } else { 1 };
        let answer = |index: usize| RowAnswer {
            batch: id,
            index: u32::try_from(index).unwrap(),
            outcome: Verified(if index.is_multiple_of(2) { MailboxExists } else { CatchAll }.into()),
        };
        store.answer_rows((0..answered).map(answer).collect(), now).wait().unwrap();
        batches.push(id);
    }
    let mut list = List::new(ListId::new(now, numbers.id()), account, now, format!("{CANARY}.csv"));
    assert_eq!(store.create_list(&list, ListRoom::MOST, None, now).wait(), Ok(ListMade::Made));
    for part in 0..PARTS {
        let text: String = (0..PART_ROWS).map(|_| numbers.address() + "\n").collect();
        let to = list.offset + text.len() as u64;
        let new =
            NewPart { number: part, from: list.offset, to, plain: text.as_bytes(), by: Authority::OPERATOR };
        assert_eq!(store.put_list_part(&list, new, ListRoom::MOST, now).wait(), Ok(PartPut::Stored));
        list.offset = to;
    }
    list.state = ListState::Running;
    assert_eq!(store.put_list(&list, ListState::Uploading, None, clock::now()).wait(), Ok(true));
    for number in 0..RESULTS {
        let hold = HoldRef { account, id: EntryId::new(now, numbers.id()) };
        store.hold(HoldRequest { hold, credits: 1 }, now).wait().unwrap();
        let address = store.hash_address(&format!("{CANARY}-result-{number}@{CANARY}.example"));
        let result = Some(ResultRecord { address, verdict: MailboxExists.into() });
        store.settle(hold, Settlement { result }, now).wait().unwrap();
    }
    Written { account, batches, list }
}

/// The number of canaries that the store returns.
fn readable(store: &Store, written: &Written, now: UnixMs) -> usize {
    let mut seen = BTreeSet::new();
    let mut note = |text: &str| {
        let is_canary = text.starts_with(CANARY);
        assert!(is_canary && seen.insert(text.to_owned()), "{text}");
    };
    for batch in &written.batches {
        let view = store.batch(written.account, *batch, now).wait().unwrap();
        let results = view.and_then(|view| view.results).unwrap_or_default();
        results.iter().for_each(|(email, _)| note(email));
        if results.is_empty() {
            store.unanswered(*batch).wait().unwrap_or_default().iter().for_each(|row| note(&row.email));
        }
    }
    for part in 0..PARTS {
        let text = store.list_part(&written.list, part).wait().unwrap().unwrap_or_default();
        String::from_utf8(text).unwrap().lines().for_each(&mut note);
    }
    seen.len()
}

/// A sealed value with the place that it is bound to.
struct Sealed {
    table: &'static str,
    row: Vec<u8>,
    bytes: Vec<u8>,
}

impl Sealed {
    fn opens(&self, key: &VaultKey) -> bool {
        key.open(Place { table: self.table, row: &self.row }, &self.bytes).is_some()
    }
}

/// The sealed values of all tables, found by the keys of the present.
fn sealed_values(cluster: &TestCluster, now: UnixMs) -> Vec<Sealed> {
    let folder = cluster.path("before");
    let vault = Vault::open(&folder).unwrap();
    let mut keys = Vec::new();
    for class in KeyClass::ALL {
        for hour in [0, HOUR] {
            keys.extend(vault.opening_key(class, now + class.keep_ms() + hour));
        }
    }
    let mut values = Vec::new();
    for table in ["results", "batch_rows", "lists", "list_parts"] {
        let query = format!("SELECT encode(k, 'hex'), encode(v, 'hex') FROM {}.{table}", cluster.schema);
        let rows = store_pg::sql::execute(cluster.place(&cluster.schema).target, &query).unwrap();
        assert!(!rows.is_empty(), "{table}");
        for row in rows {
            let [row, value] =
                [&row[0], &row[1]].map(|text| data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap());
            let at = |(begin, end): (usize, usize)| Sealed {
                table,
                row: row.clone(),
                bytes: value[begin..end].into(),
            };
            let opened =
                bounds(table, &value).map(at).find(|sealed| keys.iter().any(|key| sealed.opens(key)));
            values.push(opened.unwrap_or_else(|| panic!("a row of {table} has no sealed value")));
        }
    }
    values
}

/// Where a sealed value may begin and end in the value of a row.
fn bounds(table: &str, value: &[u8]) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (length, is_within) = (value.len(), table == "lists");
    (0..length).flat_map(move |begin| {
        let first = if is_within { begin + NEEDLE } else { length };
        (first..=length).map(move |end| (begin, end))
    })
}

/// No canary is in these files in clear text. Returns how many of the sealed values are in them, as bytes or as hex digits.
fn check_text(name: &str, files: &[PathBuf], sealed: &[Sealed]) -> usize {
    let clear = AhoCorasick::builder().ascii_case_insensitive(true).build([CANARY]).unwrap();
    let needles = sealed.iter().map(|sealed| &sealed.bytes[..NEEDLE]);
    let hex = needles.clone().map(|bytes| data_encoding::HEXLOWER.encode(bytes).into_bytes());
    let searched = AhoCorasick::new(needles.map(<[u8]>::to_vec).chain(hex)).unwrap();
    let mut found = BTreeSet::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        assert!(!clear.is_match(&bytes), "{name}: {} has a canary in clear text", file.display());
        found.extend(searched.find_iter(&bytes).map(|found| found.pattern().as_usize() % sealed.len()));
    }
    found.len()
}

/// The keys of a node, as it has them afterwards, open none of the values.
fn check_keys(cluster: &TestCluster, node: &str, sealed: &[Sealed], now: UnixMs) {
    let vault = Vault::open(&cluster.path(node)).unwrap();
    let over = now + OVER;
    for class in KeyClass::ALL {
        let mut time = now - DAY;
        while time < over - HOUR {
            assert!(vault.opening_key(class, time).is_none(), "{node} has a key for {class:?} from {time}");
            time += HOUR;
        }
        for later in 0..TRIED / HOUR {
            let key = vault.opening_key(class, over + later * HOUR).unwrap();
            assert!(!sealed.iter().any(|sealed| sealed.opens(&key)), "{node}: {class:?} opens something");
        }
    }
}

/// The dump of the time before, restored, and nodes on it whose clock is set back.
fn check_restored(cluster: &TestCluster, dump: &Path, written: &Written, now: UnixMs) {
    let database = format!("{}_restored", cluster.schema);
    let target = || cluster.place(&cluster.schema).target;
    store_pg::sql::execute(target(), &format!("CREATE DATABASE {database}")).unwrap();
    let url = cluster.url.replacen("/postgres?", &format!("/{database}?"), 1);
    let mut psql = Command::new(programs().join("psql"));
    psql.args(["--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", &url, "--file"])
        .arg(dump)
        .stdout(Stdio::null());
    run(&mut psql);
    for node in ["one", "two"] {
        assert_eq!(readable(&open(cluster, &url, node, now), written, now), 0, "{node}");
    }
    let readable = readable(&open(cluster, &url, "before", now), written, now);
    assert_eq!(readable, CANARIES - OPEN, "with the keys of before; each open batch has one answered row");
    store_pg::sql::execute(target(), &format!("DROP DATABASE {database} WITH (FORCE)")).unwrap();
}

/// The folder with the programs of PostgreSQL.
fn programs() -> PathBuf {
    std::env::var_os("MAILPROBE_TEST_POSTGRES_PROGRAMS").unwrap().into()
}

/// A program of PostgreSQL that connects to the server of the tests.
pub fn program(cluster: &TestCluster, name: &str) -> Command {
    let mut command = Command::new(programs().join(name));
    command.args(["--dbname", &cluster.url]);
    command
}

#[track_caller]
pub fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{:?}: {status}", command.get_program());
}

/// All files below a path, or the file itself.
pub fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect()
}

/// A program that copies the WAL as it is written, as an archive does. It is killed on drop. A slot keeps the WAL that it has not
/// copied yet.
struct WalCopy<'c> {
    child: Child,
    folder: PathBuf,
    cluster: &'c TestCluster,
}

impl WalCopy<'_> {
    fn start(cluster: &TestCluster) -> WalCopy<'_> {
        let folder = cluster.path("wal");
        fs::create_dir(&folder).unwrap();
        let receive = || {
            let mut command = program(cluster, "pg_receivewal");
            command.args(["--slot", &cluster.schema]);
            command
        };
        run(receive().arg("--create-slot"));
        let child = receive().arg("--directory").arg(&folder).spawn().unwrap();
        let copy = WalCopy { child, folder, cluster };
        copy.wait("the copy of the WAL begins", || !files(&copy.folder).is_empty());
        copy
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + WAL_LIMIT;
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until everything is copied; returns the folder.
    fn stop(self) -> PathBuf {
        let last = self.sql("SELECT pg_walfile_name(pg_switch_wal())").unwrap()[0][0].clone();
        self.wait("the last WAL is copied", || self.folder.join(&last).exists());
        self.folder.clone()
    }

    fn sql(&self, text: &str) -> Result<Vec<Vec<String>>, StoreError> {
        store_pg::sql::execute(self.cluster.place(&self.cluster.schema).target, text)
    }
}

impl Drop for WalCopy<'_> {
    fn drop(&mut self) {
        // It may have ended by itself, with an error that it has printed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Until the server knows that the program has ended, it keeps the slot.
        let end = Instant::now() + WAL_LIMIT;
        let drop_slot = format!("SELECT pg_drop_replication_slot('{}')", self.cluster.schema);
        while let Err(error) = self.sql(&drop_slot) {
            if Instant::now() > end {
                println!("the slot stays: {error}");
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
