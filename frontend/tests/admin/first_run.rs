//! The first account and its keys.

use crate::admin::{NOW, Site, open};
use checks::auth::authenticate;
use server::admin::first_run::{FIRST_KEYS_FILE, first_run};
use std::os::unix::fs::PermissionsExt;
use store::{KeyMode, PlanTable};
use store_redb::StoreOptions;

#[test]
fn it_happens_once_and_leaves_the_keys_for_their_owner() {
    let site = Site::stopped();
    let store = open(site.path());
    let made = first_run(&store, site.path(), NOW).unwrap().unwrap();
    assert_eq!((made.account.name.as_str(), made.account.plan.as_str()), ("default", "free"));
    let text = std::fs::read_to_string(&made.path).unwrap();
    assert_eq!(made.path, site.path().join(FIRST_KEYS_FILE));
    assert_eq!(std::fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        text,
        format!("account {}\nlive {}\ntest {}\n", made.account.id, made.live.reveal(), made.test.reveal())
    );
    for (key, mode) in [(&made.live, KeyMode::Live), (&made.test, KeyMode::Test)] {
        let header = format!("Bearer {}", key.reveal());
        let caller =
            authenticate(Some(header.as_bytes()), crate::admin::NOW, |hash| store.key_by_hash(hash)).unwrap();
        assert_eq!((caller.account, caller.mode), (made.account.id, mode));
    }
    assert!(first_run(&store, site.path(), NOW).unwrap().is_none());
    made.remove_file().unwrap();
    assert!(first_run(&store, site.path(), NOW).unwrap().is_none());
    assert!(!made.path.exists());
}

#[test]
fn a_crash_before_the_account_is_made_leaves_nothing_wrong() {
    let site = Site::stopped();
    // The rest of such a crash: a file of keys that were never stored.
    std::fs::write(site.path().join(FIRST_KEYS_FILE), "live mp_live_lost\n").unwrap();
    let store = open(site.path());
    let made = first_run(&store, site.path(), NOW).unwrap().unwrap();
    assert!(std::fs::read_to_string(&made.path).unwrap().contains(made.live.reveal()));
}

#[test]
fn a_store_that_has_an_account_needs_none() {
    let site = Site::stopped();
    site.run(&["account", "create", "mine"]).unwrap();
    let store = open(site.path());
    assert!(first_run(&store, site.path(), NOW).unwrap().is_none());
    assert!(!site.path().join(FIRST_KEYS_FILE).exists());
}

#[test]
fn without_the_plan_or_the_file_nothing_is_made() {
    let site = Site::stopped();
    let no_plans = PlanTable::new([]).unwrap();
    let (store, _) = store_redb::open(site.path(), no_plans, StoreOptions::default(), NOW).unwrap();
    let refused = first_run(&store, site.path(), NOW).map(drop).unwrap_err().to_string();
    assert!(refused.contains("no plan \"free\""), "{refused}");
    assert!(!site.path().join(FIRST_KEYS_FILE).exists());
    drop(store);

    let store = open(site.path());
    let elsewhere = site.path().join("missing");
    let refused = first_run(&store, &elsewhere, NOW).map(drop).unwrap_err().to_string();
    assert!(refused.contains("cannot write the first keys to"), "{refused}");
    assert!(store.accounts(None, 1, NOW).wait().unwrap().is_empty());
}
