//! Tests: a bundle gives the same keys wherever it is installed, and anything else is refused without a trace of a key.

use super::*;
use crate::{KeyClass, Place, Vault};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const HOUR: u64 = 500_400;
const NOW: UnixMs = HOUR * HOUR_MS + 7;
const PLACE: Place<'_> = Place { table: "t", row: b"r" };

fn keys_of(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(data.join(KEY_FOLDER)).unwrap();
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

/// A folder without a chain, with keys of this hour and of a later one, and one of the hour before.
fn redb_folder() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let vault = Vault::open(data.path()).unwrap();
    vault.keep().unwrap();
    vault.users_key().unwrap();
    for hour in [HOUR - 1, HOUR, HOUR + 30] {
        vault.sealing_key(KeyClass::LongResult, hour * HOUR_MS).unwrap();
    }
    data
}

fn error(text: &str) -> String {
    Bundle::from_text(text).map(drop).unwrap_err().to_string()
}

/// The text with a checksum that is right.
fn checked(lines: &str) -> String {
    format!("{lines}sha256 {}\n", HEXLOWER.encode(digest(&SHA256, lines.as_bytes()).as_ref()))
}

/// The lines of a bundle before the checksum.
fn lines_of(bundle: &Bundle) -> String {
    let text = bundle.to_text();
    text[..text.find("sha256 ").unwrap()].to_owned()
}

#[test]
fn a_bundle_is_its_text() {
    let bundle = Bundle::from_folder(redb_folder().path(), NOW).unwrap();
    let text = bundle.to_text();
    let names: Vec<&str> = text.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    let expected = [
        "mailprobe bundle",
        "hash",
        "users",
        "lineage",
        "hour",
        "chain",
        "key long-500400",
        "key long-500430",
        "sha256",
    ];
    assert_eq!(names, expected);
    let again = Bundle::from_text(&text).unwrap();
    assert_eq!(*again.to_text(), *text);
    let node = tempfile::tempdir().unwrap();
    again.install(node.path()).unwrap();
    assert_eq!(*Bundle::from_folder(node.path(), NOW).unwrap().to_text(), *text);
}

#[test]
fn nodes_with_one_bundle_have_the_same_keys_at_all_times() {
    let text = Bundle::create(NOW).unwrap().to_text();
    let nodes = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one, other] = nodes.each_ref().map(|node| {
        Bundle::from_text(&text).unwrap().install(node.path()).unwrap();
        Vault::open(node.path()).unwrap()
    });
    assert!(one.has_chain() && one.has_users_key() && !one.is_new());
    assert_eq!(one.fingerprint(), other.fingerprint());
    assert_eq!(one.hash("p", &[b"x"]), other.hash("p", &[b"x"]));
    let sealed = one.users_key().unwrap().seal(PLACE, b"address").unwrap();
    assert_eq!(other.users_key().unwrap().open(PLACE, &sealed).as_deref(), Some(&b"address"[..]));
    let expires_at = NOW + KeyClass::Batch.keep_ms();
    let sealed = one.sealing_key(KeyClass::Batch, expires_at).unwrap().seal(PLACE, b"x").unwrap();
    // Another node reads it until its hour is over, whenever it starts.
    for now in [NOW, NOW + 50 * HOUR_MS, expires_at] {
        other.expire(now).unwrap();
        let again = Vault::open(nodes[1].path()).unwrap();
        for vault in [&other, &again] {
            let key = vault.opening_key(KeyClass::Batch, expires_at).unwrap();
            assert_eq!(key.open(PLACE, &sealed).as_deref(), Some(&b"x"[..]));
        }
    }
    other.expire(expires_at + HOUR_MS).unwrap();
    assert!(other.opening_key(KeyClass::Batch, expires_at).is_none());
    assert!(one.opening_key(KeyClass::Batch, expires_at).is_some());
}

#[test]
fn every_change_of_a_text_is_found_and_no_error_has_a_key() {
    let bundle = Bundle::from_folder(redb_folder().path(), NOW).unwrap();
    let text = bundle.to_text();
    let keys: Vec<String> =
        [&bundle.hash, &bundle.users, &bundle.chain.secret].map(|key| HEXLOWER.encode(&key[..8])).into();
    let check = |changed: &str| {
        let error = error(changed);
        assert!(error.contains("mailprobe"), "there is no remedy: {error}");
        assert!(keys.iter().all(|key| !error.contains(key)), "{error}");
    };
    for at in 0..text.trim_end().len() {
        check(&text[..at]);
        let mut changed = text.as_bytes().to_vec();
        changed[at] ^= 1;
        check(std::str::from_utf8(&changed).unwrap());
    }
    check("");
    check(&text.replace('\n', "\r\n"));
    check(&format!("{}x", *text));
    // Newlines at the end are harmless.
    assert!(Bundle::from_text(&format!("{}\n\n", *text)).is_ok());
    assert!(Bundle::from_text(text.trim_end()).is_ok());
}

#[test]
fn errors_name_the_fault() {
    let bundle = Bundle::from_folder(redb_folder().path(), NOW).unwrap();
    let text = bundle.to_text();
    let lines = lines_of(&bundle);
    assert!(Bundle::from_text(&checked(&lines)).is_ok());
    for (changed, says) in [
        ("a list".into(), "not a bundle"),
        (text.replace("bundle 1", "bundle 0"), "not a bundle"),
        (text.replace("bundle 1", "bundle 2"), "version 2"),
        (lines.clone(), "the end of the bundle is missing"),
        (text.replace("hour 5", "hour 6"), "was changed"),
        (checked(&lines.replace("users ", "user ")), "line 3 "),
        (checked(&lines.replace("lineage ", "lineage 0")), "line 4 "),
        (checked(&lines.replace("hour 5", "hour x")), "line 5 "),
        (checked(&lines.replace("key long-500430", "key other-7")), "line 8 "),
        (checked(&lines.replace("key long-500430", "key ../long-5")), "line 8 "),
        (checked(&lines.replace("long-500430", "long-500400")), "line 8 "),
        (checked(&lines.replace("key long-500430 ", "key ")), "line 8 "),
        (checked(&lines.replace("hash ", &format!("hash {}\n", "0".repeat(64)))), "line 2 "),
        (checked("mailprobe bundle 1\n"), "line 2 "),
    ] {
        let error = error(&changed);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_folder_gets_its_keys_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("a/b");
    let bundle = Bundle::from_folder(redb_folder().path(), NOW).unwrap();
    bundle.install(&data).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join(KEY_FOLDER))), (0o700, 0o700));
    let files = keys_of(&data);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["chain", "hash", "long-500400", "long-500430", "users"]);
    for file in files.keys() {
        assert_eq!(mode(&data.join(KEY_FOLDER).join(file)), 0o600, "{file}");
    }
    // Keys are never replaced.
    let refused = Bundle::create(NOW).unwrap().install(&data);
    assert!(matches!(refused, Err(BundleError::HasKeys(_))));
    assert!(matches!(bundle.install(redb_folder().path()), Err(BundleError::HasKeys(_))));
    assert_eq!(keys_of(&data), files);
    // A folder without a file in it is no obstacle.
    let empty = parent.path().join("empty");
    fs::create_dir_all(empty.join(KEY_FOLDER)).unwrap();
    bundle.install(&empty).unwrap();
    assert_eq!(keys_of(&empty), files);
    assert_eq!(mode(&empty.join(KEY_FOLDER)), 0o700);
}

#[test]
fn an_interrupted_installation_leaves_all_keys_or_none() {
    let bundle = Bundle::from_folder(redb_folder().path(), NOW).unwrap();
    let whole = tempfile::tempdir().unwrap();
    let mut steps = 0;
    let counted = bundle.install_step_by_step(whole.path(), &mut || {
        steps += 1;
        Ok(())
    });
    counted.unwrap();
    assert_eq!(steps, 7);
    for last in 1..=steps {
        let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut step = 0;
        let stopped = bundle.install_step_by_step(data.path(), &mut || {
            step += 1;
            if step < last {
                return Ok(());
            }
            // The state after a crash, in which nothing is cleaned up.
            for folder in [FOLDER_DRAFT, KEY_FOLDER] {
                let Ok(entries) = fs::read_dir(data.path().join(folder)) else { continue };
                fs::create_dir(state.path().join(folder))?;
                for entry in entries {
                    let entry = entry?;
                    fs::copy(entry.path(), state.path().join(folder).join(entry.file_name()))?;
                }
            }
            Err(io::Error::other("no space"))
        });
        assert!(matches!(stopped, Err(BundleError::Folder(..))));
        assert!(!data.path().join(FOLDER_DRAFT).exists());
        let has_keys = state.path().join(KEY_FOLDER).exists();
        assert_eq!(has_keys, last == steps);
        if !has_keys {
            assert!(state.path().join(FOLDER_DRAFT).exists());
            bundle.install(state.path()).unwrap();
        }
        assert!(!state.path().join(FOLDER_DRAFT).exists());
        assert_eq!(keys_of(state.path()), keys_of(whole.path()));
    }
}

#[test]
fn a_bundle_of_a_folder_without_a_chain_has_its_keys() {
    let data = redb_folder();
    let before = keys_of(data.path());
    let bundle = Bundle::from_folder(data.path(), NOW).unwrap();
    assert_eq!(keys_of(data.path()), before, "the folder is only read");
    assert_eq!(bundle.chain.hour, HOUR);
    let node = tempfile::tempdir().unwrap();
    bundle.install(node.path()).unwrap();
    for (file, key) in keys_of(node.path()).iter().filter(|(file, _)| *file != "chain") {
        assert_eq!(before.get(file), Some(key), "{file}");
    }
    // A key for users exists from the beginning.
    fs::remove_file(data.path().join(KEY_FOLDER).join(USERS_KEY_FILE)).unwrap();
    let node = tempfile::tempdir().unwrap();
    Bundle::from_folder(data.path(), NOW).unwrap().install(node.path()).unwrap();
    assert!(Vault::open(node.path()).unwrap().has_users_key());
}

#[test]
fn a_bundle_of_a_node_has_no_past_keys() {
    let node = tempfile::tempdir().unwrap();
    let first = Bundle::create(NOW).unwrap();
    first.install(node.path()).unwrap();
    let later = Bundle::from_folder(node.path(), NOW + 3 * HOUR_MS).unwrap();
    assert_eq!((later.chain.hour, later.chain.lineage), (HOUR + 3, first.chain.lineage));
    assert_eq!(*later.chain.secret, *first.chain.at(HOUR + 3).unwrap().secret);
    // A clock that is behind changes nothing.
    assert_eq!(Bundle::from_folder(node.path(), 0).unwrap().chain.hour, HOUR);
}

#[test]
fn a_folder_without_all_its_keys_gives_no_bundle() {
    let data = tempfile::tempdir().unwrap();
    let refusal = |data: &Path| Bundle::from_folder(data, NOW).map(drop).unwrap_err().to_string();
    assert!(refusal(data.path()).contains("has no keys"));
    Bundle::create(NOW).unwrap().install(data.path()).unwrap();
    let folder = data.path().join(KEY_FOLDER);
    let whole = keys_of(data.path());
    for (file, says) in [("users", "users is missing beside the chain"), ("hash", "has no keys")] {
        fs::remove_file(folder.join(file)).unwrap();
        assert!(refusal(data.path()).contains(says));
        let opened = Vault::open(data.path()).map(drop).unwrap_err().to_string();
        assert!(opened.contains("is missing beside the chain") && opened.contains("join"), "{opened}");
        fs::write(folder.join(file), &whole[file]).unwrap();
    }
    fs::write(folder.join("chain"), b"damaged").unwrap();
    assert!(refusal(data.path()).contains("keys/chain is damaged"));
}

#[test]
fn a_backup_gives_a_bundle_with_a_new_chain() {
    let node = tempfile::tempdir().unwrap();
    let first = Bundle::create(NOW).unwrap();
    first.install(node.path()).unwrap();
    let vault = Vault::open(node.path()).unwrap();
    let keys = vault.keys_for_backup(NOW).unwrap();
    let mut keys: BTreeMap<String, Vec<u8>> =
        keys.into_iter().map(|(name, key)| (name, key.to_vec())).collect();
    assert!(vault.has_keys(&keys, NOW).unwrap());
    // Keys of past hours are not needed.
    keys.insert(format!("short-{}", HOUR - 1), vec![1; KEY_BYTES]);
    assert!(vault.has_keys(&keys, NOW).unwrap());
    let bundle = Bundle::from_backup(&keys, NOW).unwrap();
    assert_ne!((bundle.chain.lineage, *bundle.chain.secret), (first.chain.lineage, *first.chain.secret));
    assert!(!bundle.hour_keys.contains_key(&format!("short-{}", HOUR - 1)));
    let other = tempfile::tempdir().unwrap();
    bundle.install(other.path()).unwrap();
    let restored = Vault::open(other.path()).unwrap();
    assert_eq!(restored.fingerprint(), bundle.fingerprint());
    assert_ne!(restored.fingerprint(), vault.fingerprint());
    assert!(restored.has_keys(&keys, NOW).unwrap());
    // A key that the vault has in another form.
    keys.insert(format!("short-{}", HOUR + 2), vec![1; KEY_BYTES]);
    assert!(!vault.has_keys(&keys, NOW).unwrap());
    keys.insert(format!("short-{}", HOUR + 2), vec![0; KEY_BYTES]);
    assert!(Bundle::from_backup(&keys, NOW).map(drop).unwrap_err().to_string().contains("damaged key"));
    keys.remove(HASH_KEY_FILE);
    assert!(!vault.has_keys(&keys, NOW).unwrap());
    assert!(Bundle::from_backup(&keys, NOW).map(drop).unwrap_err().to_string().contains("no key for hashes"));
}

#[test]
fn the_file_of_a_bundle_is_its_owners_and_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle");
    let bundle = Bundle::create(NOW).unwrap();
    bundle.write_new(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Bundle::read(&path).unwrap().fingerprint(), bundle.fingerprint());
    assert!(bundle.write_new(&path).unwrap_err().to_string().contains("cannot use"));
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert_eq!(Bundle::read(&path).map(drop), Err(BundleError::NotABundle));
}
