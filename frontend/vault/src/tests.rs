//! Tests: keys are created, found, destroyed and distinguished, whatever was interrupted.

use super::*;
use std::os::unix::fs::PermissionsExt;

const HOUR: UnixMs = HOUR_MS;
/// The sorted names of the key files of a data folder.
fn key_files(data: &Path) -> Vec<String> {
    let files = std::fs::read_dir(data.join(KEY_FOLDER)).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const PLACE: Place<'_> = Place { table: "t", row: b"r" };

fn kept(data: &Path) -> Vault {
    let vault = Vault::open(data).unwrap();
    vault.keep().unwrap();
    vault
}

#[test]
fn a_value_opens_at_its_place_with_its_key_alone() {
    let vault = Vault::in_memory().unwrap();
    let key = vault.sealing_key(KeyClass::Batch, 5 * HOUR).unwrap();
    let sealed = key.seal(PLACE, b"plain").unwrap();
    assert_eq!(key.open(PLACE, &sealed).as_deref(), Some(&b"plain"[..]));
    assert_ne!(key.seal(PLACE, b"plain").unwrap(), sealed, "another nonce");
    for place in [
        Place { table: "u", ..PLACE },
        Place { row: b"s", ..PLACE },
        Place { table: "", row: b"t\0r" },
        Place { table: "t", row: b"" },
    ] {
        assert_eq!(key.open(place, &sealed), None);
    }
    for other in
        [(KeyClass::OpenBatch, 5 * HOUR), (KeyClass::Batch, 6 * HOUR), (KeyClass::Batch, 5 * HOUR - 1)]
    {
        let other = vault.sealing_key(other.0, other.1).unwrap();
        assert_eq!(other.open(PLACE, &sealed), None);
    }
    for cut in [0, 11, 12, 27, sealed.len() - 1] {
        assert_eq!(key.open(PLACE, &sealed[..cut]), None);
    }
    // The same hour has the same key.
    let same = vault.opening_key(KeyClass::Batch, 6 * HOUR - 1).unwrap();
    assert_eq!(same.open(PLACE, &sealed).as_deref(), Some(&b"plain"[..]));
}

#[test]
fn keys_are_files_for_their_owner_alone_and_come_back() {
    let data = tempfile::tempdir().unwrap();
    let vault = kept(data.path());
    let sealed = vault.sealing_key(KeyClass::ShortResult, 7 * HOUR).unwrap().seal(PLACE, b"x").unwrap();
    let hash = vault.hash("p", &[b"x"]);
    assert_eq!(key_files(data.path()), ["hash", "short-7"]);
    for file in key_files(data.path()) {
        let metadata = std::fs::metadata(data.path().join(KEY_FOLDER).join(file)).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, 32));
    }
    drop(vault);
    // The rest of an interrupted creation of another key.
    std::fs::write(data.path().join(KEY_FOLDER).join("long-9.new"), b"half").unwrap();
    let vault = kept(data.path());
    let key = vault.opening_key(KeyClass::ShortResult, 7 * HOUR).unwrap();
    assert_eq!(key.open(PLACE, &sealed).as_deref(), Some(&b"x"[..]));
    assert_eq!(vault.hash("p", &[b"x"]), hash);
    assert!(vault.opening_key(KeyClass::LongResult, 9 * HOUR).is_none());
    assert_eq!(key_files(data.path()), ["hash", "short-7"]);
}

#[test]
fn a_key_goes_when_its_hour_is_over_and_its_file_is_overwritten() {
    let data = tempfile::tempdir().unwrap();
    let vault = kept(data.path());
    vault.sealing_key(KeyClass::ShortResult, 7 * HOUR).unwrap();
    vault.sealing_key(KeyClass::LongResult, 8 * HOUR - 1).unwrap();
    vault.sealing_key(KeyClass::Batch, 8 * HOUR).unwrap();
    // Another name for the same bytes shows their content.
    let folder = data.path().join(KEY_FOLDER);
    std::fs::hard_link(folder.join("short-7"), data.path().join("link")).unwrap();
    assert_eq!(vault.expire(8 * HOUR - 1), Ok(0));
    assert_ne!(std::fs::read(data.path().join("link")).unwrap(), [0; 32]);
    let left = |now| key_files(data.path()).into_iter().filter(|file| is_kept(file, now)).count();
    assert_eq!((left(8 * HOUR - 1), left(8 * HOUR)), (4, 2));
    assert_eq!(vault.expire(8 * HOUR), Ok(2));
    assert_eq!(std::fs::read(data.path().join("link")).unwrap(), [0; 32]);
    assert_eq!(key_files(data.path()), ["batch-8", "hash"]);
    assert!(vault.opening_key(KeyClass::ShortResult, 7 * HOUR).is_none());
    // A file that was removed by others is also destroyed.
    std::fs::remove_file(folder.join("batch-8")).unwrap();
    assert_eq!(vault.expire(9 * HOUR), Ok(1));
    assert_eq!(key_files(data.path()), ["hash"]);
}

#[test]
fn a_key_that_cannot_be_made_durable_seals_nothing() {
    let data = tempfile::tempdir().unwrap();
    let vault = kept(data.path());
    // A folder at the path of the draft cannot be written, not even by root.
    std::fs::create_dir(data.path().join(KEY_FOLDER).join("open-3.new")).unwrap();
    let failed = vault.sealing_key(KeyClass::OpenBatch, 3 * HOUR).map(drop);
    assert!(matches!(failed, Err(StoreError::NotDone(why)) if why.contains("keys/open-3")));
    assert!(vault.opening_key(KeyClass::OpenBatch, 3 * HOUR).is_none());
    assert!(vault.health().is_err(), "nobody is told");
    std::fs::remove_dir(data.path().join(KEY_FOLDER).join("open-3.new")).unwrap();
    vault.prepare(HOUR).unwrap();
    assert_eq!(vault.health(), Ok(()));
}

#[test]
fn a_damaged_key_file_is_told_at_opening() {
    let data = tempfile::tempdir().unwrap();
    drop(kept(data.path()));
    std::fs::write(data.path().join(KEY_FOLDER).join("hash"), b"short").unwrap();
    assert!(matches!(Vault::open(data.path()), Err(OpenError::Folder(..))));
}

#[test]
fn a_key_of_zeros_is_none() {
    let data = tempfile::tempdir().unwrap();
    let vault = kept(data.path());
    vault.sealing_key(KeyClass::Batch, 3 * HOUR).unwrap();
    vault.users_key().unwrap();
    drop(vault);
    // The state after a crash between overwriting and unlinking.
    let folder = data.path().join(KEY_FOLDER);
    std::fs::write(folder.join("batch-3"), [0; KEY_BYTES]).unwrap();
    let vault = kept(data.path());
    assert!(vault.opening_key(KeyClass::Batch, 3 * HOUR).is_none());
    assert_eq!(key_files(data.path()), ["hash", "users"]);
    drop(vault);
    for file in ["hash", "users"] {
        let whole = std::fs::read(folder.join(file)).unwrap();
        std::fs::write(folder.join(file), [0; KEY_BYTES]).unwrap();
        let refusal = Vault::open(data.path()).map(drop).unwrap_err().to_string();
        assert!(refusal.contains("damaged") && refusal.contains(file), "{refusal}");
        std::fs::write(folder.join(file), whole).unwrap();
    }
}

#[test]
fn a_key_that_cannot_be_destroyed_keeps_none_of_the_others() {
    let data = tempfile::tempdir().unwrap();
    let vault = kept(data.path());
    for class in [KeyClass::ShortResult, KeyClass::LongResult, KeyClass::Batch] {
        vault.sealing_key(class, 3 * HOUR).unwrap();
    }
    // A folder cannot be written as a file.
    let stuck = data.path().join(KEY_FOLDER).join("long-3");
    std::fs::remove_file(&stuck).unwrap();
    std::fs::create_dir(&stuck).unwrap();
    let failed = vault.expire(4 * HOUR);
    assert!(matches!(failed, Err(StoreError::NotDone(why)) if why.contains("keys/long-3")));
    assert_eq!(key_files(data.path()), ["hash", "long-3"]);
    std::fs::remove_dir(&stuck).unwrap();
    assert_eq!(vault.expire(4 * HOUR), Ok(1), "it is tried again");
}

#[test]
fn hashes_of_other_parts_differ() {
    let vault = Vault::in_memory().unwrap();
    let mut all = vec![
        vault.hash("p", &[b"ab", b"c"]),
        vault.hash("p", &[b"a", b"bc"]),
        vault.hash("p", &[b"abc"]),
        vault.hash("q", &[b"abc"]),
        vault.hash("p", &[b"abc", b""]),
    ];
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5);
    assert_eq!(vault.hash("p", &[b"abc"]), vault.hash("p", &[b"abc"]));
}

#[test]
fn names_of_other_files_are_no_keys() {
    for file in ["hash", "short", "short-", "short-07", "short-+7", "else-7", "short-7.new", "short-7-7"] {
        assert_eq!(KeyName::parse(file), None, "{file}");
        assert_eq!(is_kept(file, 0), file == "hash", "{file}");
    }
    for class in KeyClass::ALL {
        let name = KeyName { class, hour: u64::MAX };
        assert_eq!(KeyName::parse(&name.file()), Some(name));
    }
}

/// A data folder with the keys of a new bundle, at hour 100.
fn ratchet_folder() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    bundle::Bundle::create(100 * HOUR).unwrap().install(data.path()).unwrap();
    data
}

fn opens(vault: &Vault, (class, expires_at): (KeyClass, UnixMs), sealed: &[u8]) -> bool {
    vault.opening_key(class, expires_at).is_some_and(|key| key.open(PLACE, sealed).is_some())
}

#[test]
fn derived_keys_make_no_files_and_end_with_their_hour() {
    let data = ratchet_folder();
    let vault = kept(data.path());
    vault.prepare(100 * HOUR).unwrap();
    vault.prepare_for_result(100 * HOUR).unwrap();
    let at = (KeyClass::ShortResult, 124 * HOUR);
    let sealed = vault.sealing_key(at.0, at.1).unwrap().seal(PLACE, b"x").unwrap();
    assert_eq!(key_files(data.path()), ["chain", "hash", "users"]);
    assert_eq!(vault.expire(125 * HOUR - 1), Ok(24 * 5));
    assert!(opens(&vault, at, &sealed) && opens(&kept(data.path()), at, &sealed));
    assert_eq!(vault.expire(99 * HOUR), Ok(0), "it never goes back");
    assert_eq!(vault.expire(125 * HOUR), Ok(5));
    for vault in [&vault, &kept(data.path())] {
        assert!(vault.opening_key(at.0, at.1).is_none());
        let refused = vault.sealing_key(at.0, at.1).map(drop);
        assert!(matches!(refused, Err(StoreError::NotDone(why)) if why.contains("keys/short-124")));
        assert_eq!(vault.health(), Ok(()));
        vault.prepare(125 * HOUR).unwrap();
    }
    // A clock that is far beyond all data neither blocks the vault nor moves the chain.
    assert!(vault.expire(UnixMs::MAX).is_err_and(|error| error.to_string().contains("correct the clock")));
    assert_eq!(vault.expire(126 * HOUR), Ok(5));
    assert_eq!(key_files(data.path()), ["chain", "hash", "users"]);
}

#[test]
fn imported_keys_take_precedence_and_are_destroyed() {
    let data = tempfile::tempdir().unwrap();
    let before = kept(data.path());
    let imported = (KeyClass::Batch, 110 * HOUR);
    let sealed = before.sealing_key(imported.0, imported.1).unwrap().seal(PLACE, b"before").unwrap();
    let node = tempfile::tempdir().unwrap();
    bundle::Bundle::from_folder(data.path(), 100 * HOUR).unwrap().install(node.path()).unwrap();
    let vault = kept(node.path());
    assert!(opens(&vault, imported, &sealed));
    let new = vault.sealing_key(imported.0, imported.1).unwrap().seal(PLACE, b"new").unwrap();
    assert!(opens(&before, imported, &new), "the imported key seals as well");
    // Other classes and hours of the chain have keys of their own.
    for other in [(KeyClass::List, 110 * HOUR), (KeyClass::Batch, 111 * HOUR)] {
        let sealed = vault.sealing_key(other.0, other.1).unwrap().seal(PLACE, b"x").unwrap();
        assert!(opens(&vault, other, &sealed) && !opens(&vault, imported, &sealed));
    }
    link_to(node.path(), "batch-110");
    assert_eq!(vault.expire(111 * HOUR), Ok(11 * 5 + 1));
    assert_eq!(std::fs::read(node.path().join("link")).unwrap(), [0; KEY_BYTES]);
    for vault in [&vault, &kept(node.path())] {
        assert!(vault.opening_key(imported.0, imported.1).is_none());
    }
    assert_eq!(key_files(node.path()), ["chain", "hash", "users"]);
}

/// Another name for the same bytes, which shows their content.
fn link_to(data: &Path, file: &str) {
    std::fs::hard_link(data.join(KEY_FOLDER).join(file), data.join("link")).unwrap();
}

#[test]
fn a_chain_that_cannot_be_moved_does_not_keep_imported_keys() {
    let data = ratchet_folder();
    let folder = data.path().join(KEY_FOLDER);
    std::fs::write(folder.join("long-101"), [7; KEY_BYTES]).unwrap();
    let vault = kept(data.path());
    // A folder at the path of the draft cannot be written, not even by root.
    std::fs::create_dir(folder.join("chain.new")).unwrap();
    let failed = vault.expire(102 * HOUR);
    assert!(matches!(failed, Err(StoreError::NotDone(why)) if why.contains("keys/chain")));
    assert!(!folder.join("long-101").exists());
    std::fs::remove_dir(folder.join("chain.new")).unwrap();
    assert_eq!(vault.expire(102 * HOUR), Ok(10), "it is tried again");
}

#[test]
fn a_backup_has_the_derived_keys_and_not_the_chain() {
    let data = ratchet_folder();
    std::fs::write(data.path().join(KEY_FOLDER).join("list-120"), [7; KEY_BYTES]).unwrap();
    let vault = kept(data.path());
    let now = 103 * HOUR + 5;
    let chain = std::fs::read(data.path().join(KEY_FOLDER).join("chain")).unwrap();
    let restored = tempfile::tempdir().unwrap();
    let folder = restored.path().join(KEY_FOLDER);
    std::fs::create_dir(&folder).unwrap();
    let keys = vault.keys_for_backup(now).unwrap();
    for (name, key) in &keys {
        assert!(is_kept(name, now), "{name}");
        assert!(!chain.windows(KEY_BYTES).any(|window| window == &key[..]), "{name} is of the chain");
        std::fs::write(folder.join(name), &key[..]).unwrap();
    }
    let hours = |class: KeyClass| class.keep_ms() / HOUR + 2;
    let derived: u64 = KeyClass::ALL.into_iter().map(hours).sum();
    assert_eq!(keys.len() as u64, derived + 2);
    // A folder without a chain has the same keys for all data that was sealed until now.
    let again = kept(restored.path());
    assert!(!again.has_chain() && !again.is_new());
    assert_eq!(again.fingerprint(), vault.hash_key_fingerprint());
    assert_ne!(again.fingerprint(), vault.fingerprint());
    for class in KeyClass::ALL {
        for expires_at in [now, 120 * HOUR, now + class.keep_ms(), now + class.keep_ms() + HOUR] {
            let sealed = vault.sealing_key(class, expires_at).unwrap().seal(PLACE, b"x").unwrap();
            assert!(opens(&again, (class, expires_at), &sealed), "{class:?} {expires_at}");
        }
    }
    let sealed = vault.users_key().unwrap().seal(PLACE, b"x").unwrap();
    assert!(again.users_key().unwrap().open(PLACE, &sealed).is_some());
    let own = again.keys_for_backup(now).unwrap();
    let same = own.iter().map(|(name, key)| (name, **key)).eq(keys.iter().map(|(name, key)| (name, **key)));
    assert!(same, "its own backup has the same keys");
    // A permanent key is never left out.
    std::fs::write(folder.join("hash"), [0; KEY_BYTES]).unwrap();
    assert!(again.keys_for_backup(now).is_err());
}
