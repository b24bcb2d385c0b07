//! Restoring returns everything in a backup, and refuses all other files.

use super::*;
use crate::tests::{RedbStore, check_sums, create_account, open as open_at, open_redb};
use crate::{KEY_FOLDER, StoreOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use store::{EntryId, Grant, HoldRef, HoldRequest, PlanTable};
use tempfile::TempDir;

const NOW: UnixMs = 1_801_386_000_000;
/// Key files that expire in this hour and in the one before.
const KEPT: &str = "short-500385";
const EXPIRED: &str = "batch-500384";

fn open(folder: &Path) -> RedbStore {
    open_at(folder, NOW)
}

/// A store with several accounts, and two key files.
fn filled(folder: &Path) -> RedbStore {
    let store = open(folder);
    for n in 0..20 {
        let id = create_account(&store, n, "free", NOW);
        let grant = Grant { id: EntryId::new(NOW, 100), account: id, credits: 7, note: "ä".into() };
        store.grant(grant, NOW).wait().unwrap();
        let hold = HoldRef { account: id, id: EntryId::new(NOW, 200) };
        store.hold(HoldRequest { hold, credits: 3 }, NOW).wait().unwrap();
    }
    for name in [KEPT, EXPIRED, "short-x", "hash.new"] {
        fs::write(folder.join(KEY_FOLDER).join(name), [7; 32]).unwrap();
    }
    store
}

fn back_up(store: &RedbStore, path: &Path) -> BackupSummary {
    let mut file = fs::File::create(path).unwrap();
    store.backup(&mut file, NOW).unwrap()
}

struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Site {
        Site { folder: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn every_table_is_in_a_backup() {
    let site = Site::new();
    let store = open(&site.at("data"));
    assert_eq!(
        store_rules::rows::Table::KEPT.len(),
        store.sizes().wait().unwrap().rows.len(),
        "Table::KEPT must name every table of `create`"
    );
}

#[test]
fn what_is_restored_is_what_was_there() {
    let site = Site::new();
    let store = filled(&site.at("data"));
    let summary = back_up(&store, &site.at("backup"));
    // The key of hashes, the additional one, and those of results of this hour and the next.
    assert_eq!(summary.key_files, 6);
    assert_eq!(summary.bytes, fs::metadata(site.at("backup")).unwrap().len());
    assert_eq!(summary.rows, store.sizes().wait().unwrap().rows.iter().map(|(_, rows)| rows).sum::<u64>());
    assert_eq!(verify(&site.at("backup")).unwrap(), summary);
    let expected = store.accounts(None, 100, NOW).wait().unwrap();
    // Later changes are not in it.
    create_account(&store, 99, "free", NOW);

    let restored = site.at("a/restored");
    assert_eq!(restore(&site.at("backup"), &restored, NOW).unwrap(), summary);
    // Current holds are still open in it; the next opening voids them, as after a crash.
    let mut again = Vec::new();
    let database = Database::open(restored.join(super::super::DATABASE_FILE)).unwrap();
    dump(&database, &Vault::open(&restored).unwrap(), NOW, &mut again).unwrap();
    assert!(
        again == fs::read(site.at("backup")).unwrap(),
        "a backup of what was restored is the same backup"
    );
    drop(database);
    let (store, opening) = open_redb(&restored, PlanTable::standard(), StoreOptions::default(), NOW).unwrap();
    assert_eq!(opening.voided_holds, 20);
    check_sums(&store);
    let found = store.accounts(None, 100, NOW).wait().unwrap();
    assert_eq!(found.len(), 20);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!((&found.name, found.balance.granted), (&expected.name, expected.balance.granted));
        assert_eq!(found.balance.available(), expected.balance.available() + 3);
    }
    for (path, mode) in [("", 0o700), ("mailprobe.redb", 0o600), ("keys", 0o700), ("keys/hash", 0o600)] {
        let found = fs::metadata(restored.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path}");
    }
    assert_eq!(fs::read(restored.join(KEY_FOLDER).join(KEPT)).unwrap(), [7; 32]);
    let left = fs::read_dir(restored.join(KEY_FOLDER)).unwrap().count();
    restore(&site.at("backup"), &site.at("later"), NOW + 3_600_000).unwrap();
    assert!(!site.at("later").join(KEY_FOLDER).join(KEPT).exists(), "a key expires in a backup too");
    assert_eq!(left as u64, summary.key_files);
}

#[test]
fn a_backup_is_of_one_moment_while_writes_go_on() {
    let site = Site::new();
    let store = filled(&site.at("data"));
    let id = store.accounts(None, 1, NOW).wait().unwrap()[0].id;
    let done = std::sync::atomic::AtomicBool::new(false);
    let (store, done) = (&store, &done);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0.. {
                let grant =
                    Grant { id: EntryId::new(NOW, 1000 + n), account: id, credits: 1, note: String::new() };
                store.grant(grant, NOW).wait().unwrap();
                if done.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
            }
        });
        for n in 0..10 {
            back_up(store, &site.at(&format!("backup-{n}")));
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    for n in 0..10 {
        let folder = site.at(&format!("restored-{n}"));
        restore(&site.at(&format!("backup-{n}")), &folder, NOW).unwrap();
        check_sums(&open(&folder));
    }
}

#[test]
fn damage_is_noticed_and_nothing_is_left_behind() {
    let site = Site::new();
    back_up(&filled(&site.at("data")), &site.at("backup"));
    let whole = fs::read(site.at("backup")).unwrap();
    let mut tries: Vec<Vec<u8>> = vec![Vec::new(), b"x".to_vec(), b"mailprobe backup 2\n".to_vec()];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let at = random.usize(..whole.len());
        match random.u8(..3) {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 1 << random.u8(..8),
            _ => damaged.insert(at, random.u8(..)),
        }
        tries.push(damaged);
    }
    tries.push([&whole[..], b"x"].concat());
    for (n, damaged) in tries.iter().filter(|damaged| **damaged != whole).enumerate() {
        fs::write(site.at("damaged"), damaged).unwrap();
        let refused = restore(&site.at("damaged"), &site.at("restored"), NOW).unwrap_err();
        let told = matches!(refused, BackupError::Damaged(_) | BackupError::Newer);
        assert!(told && !refused.to_string().contains('\n'), "{n}: {refused}");
        assert!(!site.at("restored").exists());
    }
}

/// Names and rows that only a forger writes, with a right checksum.
#[test]
fn a_forged_backup_does_no_harm() {
    let site = Site::new();
    let forge = |write: &dyn Fn(&mut BackupWriter<'_>)| {
        let mut file = fs::File::create(site.at("forged")).unwrap();
        let mut writer = BackupWriter::begin(&mut file).unwrap();
        write(&mut writer);
        writer.table("meta").unwrap();
        writer.row(b"format", &1u64.to_le_bytes()).unwrap();
        writer.end().unwrap();
        restore(&site.at("forged"), &site.at("restored"), NOW).map(drop)
    };
    for name in ["", ".", "..", "../../evil", "/evil", "a/b", "a\0", &"x".repeat(300)] {
        assert!(forge(&|writer| writer.key_file(name, b"x").unwrap()).is_err(), "{name}");
    }
    assert!(matches!(forge(&|writer| writer.table("of later").unwrap()), Err(BackupError::Newer)));
    assert!(forge(&|writer| writer.row(b"k", b"v").unwrap()).is_err());
    for (table, key) in [("accounts", &b"short"[..]), ("names", b"\xff")] {
        let result = forge(&|writer| {
            writer.table(table).unwrap();
            writer.row(key, &[0; 16]).unwrap();
        });
        assert!(matches!(result, Err(BackupError::Damaged(_))), "{table}");
        let left = fs::read_dir(site.at("restored")).unwrap().count();
        assert_eq!(left, 0, "{table}");
    }
    assert!(forge(&|_| {}).is_ok());
}

#[test]
fn only_an_empty_folder_is_filled() {
    let site = Site::new();
    back_up(&filled(&site.at("data")), &site.at("backup"));
    let before = fs::read(site.at("data").join(super::super::DATABASE_FILE)).unwrap();
    let refused = restore(&site.at("backup"), &site.at("data"), NOW).unwrap_err();
    assert!(matches!(refused, BackupError::NotEmpty(_)), "{refused}");
    assert!(before == fs::read(site.at("data").join(super::super::DATABASE_FILE)).unwrap());
    fs::create_dir(site.at("empty")).unwrap();
    restore(&site.at("backup"), &site.at("empty"), NOW).unwrap();
}

#[test]
fn compacting_keeps_all_and_gives_room_back() {
    let site = Site::new();
    assert_eq!(compact(&site.at("nowhere")).unwrap(), None);
    assert!(!site.at("nowhere").exists());
    let store = filled(&site.at("data"));
    assert!(matches!(compact(&site.at("data")), Err(OpenError::Locked(_))));
    let id = store.accounts(None, 1, NOW).wait().unwrap()[0].id;
    let many: Vec<_> = (0..3000)
        .map(|n| {
            let grant =
                Grant { id: EntryId::new(NOW, 1000 + n), account: id, credits: 1, note: "n".repeat(200) };
            store.grant(grant, NOW)
        })
        .collect();
    many.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
    let expected = store.accounts(None, 100, NOW).wait().unwrap();
    drop(store);
    let compacted = compact(&site.at("data")).unwrap().unwrap();
    assert!(compacted.after < compacted.before, "{compacted:?}");
    let store = open(&site.at("data"));
    check_sums(&store);
    let found = store.accounts(None, 100, NOW).wait().unwrap();
    assert_eq!(found.len(), expected.len());
}
