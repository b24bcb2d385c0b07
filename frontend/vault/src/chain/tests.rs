//! Tests: derived keys never change, an hour that is over leaves nothing, and a crash at any step leaves a usable folder.

use super::*;
use crate::bundle::Bundle;
use crate::{HOUR_MS, Vault};
use data_encoding::HEXLOWER;
use proptest::prelude::*;
use std::fs;

const HOUR: u64 = 500_400;

fn chain() -> Chain {
    let secret = Secret::from(std::array::from_fn(|i| i as u8));
    Chain { lineage: *b"lineage!", hour: HOUR, secret }
}

fn key(chain: &Chain, class: KeyClass, hour: u64) -> Option<Secret> {
    chain.at(hour).map(|chain| chain.class_key(class))
}

/// Whether a file of the folder has these bytes anywhere.
fn is_in_folder(folder: &Path, bytes: &[u8]) -> bool {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

/// A data folder with the keys of a bundle, and its chain.
fn installed() -> (tempfile::TempDir, PathBuf, Chain) {
    let data = tempfile::tempdir().unwrap();
    Bundle::create(HOUR * HOUR_MS).unwrap().install(data.path()).unwrap();
    let folder = data.path().join(KEY_FOLDER);
    let chain = Chain::read(&folder).unwrap().unwrap();
    (data, folder, chain)
}

/// A copy of a data folder, as a crash would leave it.
fn copy(data: &Path) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    fs::create_dir(copied.path().join(KEY_FOLDER)).unwrap();
    for entry in fs::read_dir(data.join(KEY_FOLDER)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copied.path().join(KEY_FOLDER).join(entry.file_name())).unwrap();
    }
    copied
}

/// Checks that the folder opens, has the keys from `hour` on, and loses the secret of `before` at the next attempt.
#[track_caller]
fn check_usable(data: &Path, before: &Chain, hour: u64) {
    let folder = data.join(KEY_FOLDER);
    // A process that only reads finds the chain too, and changes nothing.
    let read = Chain::read(&folder).unwrap().unwrap();
    let vault = Vault::open(data).unwrap();
    let opened = Chain::read(&folder).unwrap().unwrap();
    assert_eq!((read.lineage, read.hour, &*read.secret), (opened.lineage, opened.hour, &*opened.secret));
    assert!(!draft(&folder).exists());
    for attempt in 0..2 {
        for later in [hour, hour + 1, hour + 200] {
            let found = vault.opening_key(KeyClass::List, later * HOUR_MS).unwrap();
            let expected = vault_key(&key(before, KeyClass::List, later).unwrap());
            let place = crate::Place { table: "t", row: b"r" };
            let sealed = found.seal(place, b"plain").unwrap();
            assert_eq!(expected.open(place, &sealed).as_deref(), Some(&b"plain"[..]));
        }
        if attempt == 0 {
            vault.expire(hour * HOUR_MS).unwrap();
        }
    }
    assert!(vault.opening_key(KeyClass::List, (hour - 1) * HOUR_MS).is_none());
    assert!(!is_in_folder(&folder, &before.secret[..]), "the secret of a past hour is left");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}

#[test]
fn derived_keys_have_always_these_values() {
    // With other values, the nodes of two versions could not read each other's data.
    let hex = |key: Option<Secret>| HEXLOWER.encode(&key.unwrap()[..]);
    let chain = chain();
    assert_eq!(
        hex(key(&chain, KeyClass::ShortResult, HOUR)),
        "5f0b767cbd547752ed043ba3662c8e58588e4124c68b6b607c4733370003bbcb"
    );
    assert_eq!(
        HEXLOWER.encode(&chain.at(HOUR + 1).unwrap().secret[..]),
        "be6cc581451986f2bff1196a9d6c0c7d54cfa545460b52eaa1c6da19f6f7e176"
    );
    assert_eq!(
        hex(key(&chain, KeyClass::List, HOUR + 2)),
        "427dfb8d89cae2df26ebd112ef82a52f91d8ae29a900f08e1a9cc24ff58be466"
    );
}

proptest! {
    #[test]
    fn a_key_is_the_same_from_every_hour_before_it(
        start in 0..HOUR,
        steps in prop::collection::vec(0u64..400, 0..4),
        class in prop::sample::select(&KeyClass::ALL[..]),
        ahead in 0u64..800,
    ) {
        let first = Chain { hour: start, ..chain() };
        let hour = start + steps.iter().sum::<u64>() + ahead;
        let expected = key(&first, class, hour).unwrap();
        let mut chain = first;
        for step in steps {
            chain = chain.at(chain.hour + step).unwrap();
            prop_assert_eq!(&*key(&chain, class, hour).unwrap(), &*expected);
        }
        let ratchet = Ratchet::new(chain);
        let all = ratchet.keys(start, &[(class, hour), (KeyClass::Batch, 0)]).unwrap();
        let (name, last) = all.last().unwrap();
        prop_assert_eq!(*name, KeyName { class, hour });
        prop_assert_eq!(&**last, &*expected);
        prop_assert_eq!(all.len() as u64, ahead + 1);
    }
}

#[test]
fn keys_of_other_hours_and_classes_differ() {
    let chain = chain();
    let mut keys = Vec::new();
    for class in KeyClass::ALL {
        keys.extend((HOUR..HOUR + 3).map(|hour| *key(&chain, class, hour).unwrap()));
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 15);
}

#[test]
fn there_is_no_key_before_the_chain_or_far_ahead() {
    let ratchet = Ratchet::new(chain());
    for (hour, exists) in [
        (0, false),
        (HOUR - 1, false),
        (HOUR, true),
        (HOUR + HOURS_AHEAD_MAX, true),
        (HOUR + HOURS_AHEAD_MAX + 1, false),
        (u64::MAX, false),
    ] {
        let found = ratchet.key(KeyName { class: KeyClass::Batch, hour });
        assert_eq!(found.is_some(), exists, "{hour}");
    }
}

#[test]
fn a_damaged_file_is_refused() {
    let (data, folder, chain) = installed();
    let path = folder.join(CHAIN_FILE);
    let whole = fs::read(&path).unwrap();
    let mut contents: Vec<Vec<u8>> = (0..whole.len()).map(|length| whole[..length].to_vec()).collect();
    contents.extend((0..whole.len()).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        changed
    }));
    contents.push(vec![0; whole.len()]);
    contents.push([&whole[..], &[0]].concat());
    // A wrong length with the right checksum.
    for content in [&whole[..CONTENT_BYTES - 1], &[&whole[..CONTENT_BYTES], &[0]].concat(), &[VERSION], &[]] {
        contents.push([content, digest(&SHA256, content).as_ref()].concat());
    }
    for content in contents {
        fs::write(&path, &content).unwrap();
        let refusal = Vault::open(data.path()).map(drop).unwrap_err().to_string();
        for part in ["keys/chain is damaged", "mailprobe cluster join", "mailprobe cluster init"] {
            assert!(refusal.contains(part), "{refusal}");
        }
        assert_eq!(fs::read(&path).unwrap(), content, "it is left for a closer look");
    }
    // A damaged draft does not replace it, and a complete one does.
    fs::write(&path, b"damaged").unwrap();
    fs::write(draft(&folder), &whole[1..]).unwrap();
    assert!(Vault::open(data.path()).is_err());
    fs::write(draft(&folder), &whole).unwrap();
    assert_eq!(*Chain::recover(&folder).unwrap().unwrap().secret, *chain.secret);
}

#[test]
fn another_version_is_refused() {
    let (data, folder, _) = installed();
    let path = folder.join(CHAIN_FILE);
    let mut content = fs::read(&path).unwrap();
    content.truncate(CONTENT_BYTES);
    content[0] = 2;
    content.extend_from_slice(b"more");
    content.extend_from_slice(digest(&SHA256, &content).as_ref());
    fs::write(&path, &content).unwrap();
    let refusal = Vault::open(data.path()).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("has version 2") && refusal.contains("newer"), "{refusal}");
}

#[test]
fn a_crash_at_any_step_leaves_a_usable_folder() {
    let (data, folder, before) = installed();
    let next = before.at(HOUR + 5).unwrap();
    let mut states = vec![copy(data.path())];
    let replaced = next.replace(&folder, &mut || {
        states.push(copy(data.path()));
        Ok(())
    });
    replaced.unwrap();
    assert_eq!(states.len(), 8);
    for (step, state) in states.iter().enumerate() {
        let has_old = is_in_folder(&state.path().join(KEY_FOLDER), &before.secret[..]);
        assert_eq!(has_old, step < 5, "step {step}");
        check_usable(state.path(), &before, HOUR + 5);
    }
}

#[test]
fn a_write_that_stops_halfway_leaves_a_usable_folder() {
    let (data, _, before) = installed();
    let (old, new) = (before.to_bytes(), before.at(HOUR + 1).unwrap().to_bytes());
    for bytes in 0..=FILE_BYTES {
        // The draft is incomplete.
        let state = copy(data.path());
        fs::write(draft(&state.path().join(KEY_FOLDER)), &new[..bytes]).unwrap();
        check_usable(state.path(), &before, HOUR + 1);
        // The old file is overwritten in part, from either end.
        let from_start = [&vec![0; bytes], &old[bytes..]].concat();
        let from_end = [&old[..bytes], &vec![0; FILE_BYTES - bytes]].concat();
        for content in [from_start, from_end] {
            let state = copy(data.path());
            fs::write(draft(&state.path().join(KEY_FOLDER)), &new).unwrap();
            fs::write(state.path().join(KEY_FOLDER).join(CHAIN_FILE), content).unwrap();
            check_usable(state.path(), &before, HOUR + 1);
        }
    }
}

#[test]
fn an_attempt_that_failed_is_repeated() {
    for failing_step in 1..=7 {
        let (data, folder, before) = installed();
        let ratchet = Ratchet::new(Chain::recover(&folder).unwrap().unwrap());
        let mut step = 0;
        let failed = before.at(HOUR + 1).unwrap().replace(&folder, &mut || {
            step += 1;
            if step == failing_step { Err(io::Error::other("no space")) } else { Ok(()) }
        });
        assert!(failed.is_err());
        assert_eq!(ratchet.advance(&folder, HOUR + 2).unwrap(), 2, "step {failing_step}");
        assert_eq!(ratchet.advance(&folder, HOUR + 1).unwrap(), 0);
        check_usable(data.path(), &before, HOUR + 2);
    }
}

#[test]
fn both_the_old_file_and_a_draft_are_overwritten() {
    let (data, folder, before) = installed();
    let vault = Vault::open(data.path()).unwrap();
    // Other names for the same bytes show their content.
    fs::hard_link(folder.join(CHAIN_FILE), data.path().join("old")).unwrap();
    fs::write(draft(&folder), before.at(HOUR + 1).unwrap().to_bytes()).unwrap();
    fs::hard_link(draft(&folder), data.path().join("draft")).unwrap();
    assert_eq!(vault.expire((HOUR + 3) * HOUR_MS), Ok(15));
    for link in ["old", "draft"] {
        assert_eq!(fs::read(data.path().join(link)).unwrap(), [0; FILE_BYTES]);
    }
}

#[test]
fn a_file_that_was_lost_or_exchanged_is_noticed() {
    let (_data, folder, before) = installed();
    let ratchet = Ratchet::new(before);
    fs::remove_file(folder.join(CHAIN_FILE)).unwrap();
    let error = ratchet.advance(&folder, HOUR + 1).unwrap_err().to_string();
    assert!(error.contains("is missing") && error.contains("cluster join"), "{error}");
    chain().write_new(&folder).unwrap();
    let error = ratchet.advance(&folder, HOUR + 1).unwrap_err().to_string();
    assert!(error.contains("another cluster"), "{error}");
    let kept = Chain::read(&folder).unwrap().unwrap();
    assert_eq!((kept.hour, *kept.secret), (HOUR, *chain().secret), "a foreign chain is left as it is");
}

#[test]
fn a_derived_key_is_kept_until_its_hour_is_over() {
    let (_data, folder, before) = installed();
    let ratchet = Ratchet::new(before);
    let names = [HOUR, HOUR + 1, HOUR + 168].map(|hour| KeyName { class: KeyClass::LongResult, hour });
    for name in names.into_iter().chain(names) {
        ratchet.key(name).unwrap();
    }
    let kept = || names.map(|name| ratchet.read().keys.contains_key(&name));
    assert_eq!((ratchet.read().keys.len(), kept()), (3, [true; 3]));
    ratchet.advance(&folder, HOUR + 1).unwrap();
    assert_eq!((ratchet.read().keys.len(), kept()), (2, [false, true, true]));
}
