//! Tests: users and lists are sealed, and the parts of a list are removed in steps.

use crate::tests::index_check::check_index;
use crate::tests::{create_account, key_files, open};
use crate::*;
use store::*;

const NOW: UnixMs = 1_801_386_600_000;
const NEEDLE: &str = "needle@example.com";

fn list(account: AccountId) -> List {
    let list = List::new(ListId::new(NOW, 1), account, NOW, NEEDLE.into());
    List { bytes: 18, rows: 1, addresses: 1, ..list }
}

fn part(number: u32, from: u64, plain: &str) -> NewPart<'_> {
    NewPart { number, from, to: from + plain.len() as u64, plain: plain.as_bytes(), by: Authority::OPERATOR }
}

#[test]
fn addresses_of_users_and_lists_are_sealed_and_a_lists_key_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), NOW);
    let id = AccountId::new(NOW, 1);
    let account = NewAccount { id, name: "a".into(), plan: "free".into() };
    let password = PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [0; 16], tag: [0; 32] };
    let session = NewSession { hash: [1; 32], agent: String::new() };
    let new = NewUser { account, email: NEEDLE.into(), password, session };
    store.sign_up(new, NOW).wait().unwrap();
    store.create_link(id, [2; 32], NOW).wait().unwrap();
    let list = list(id);
    store.create_list(&list, ListRoom::MOST, None, NOW).wait().unwrap();
    store.put_list_part(&list, part(0, 0, NEEDLE), ListRoom::MOST, NOW).wait().unwrap();
    store.end_upload(&list, None, Authority::OPERATOR, NOW).wait().unwrap();
    assert_eq!(store.put_list_index(&list, 0, NEEDLE.as_bytes()).wait(), Ok(true));
    check_index(&store);
    drop(store);
    let database = std::fs::read(folder.path().join(DATABASE_FILE)).unwrap();
    assert!(!database.windows(6).any(|bytes| bytes == b"needle"));
    let store = open(folder.path(), NOW);
    assert_eq!(store.list_part(&list, 0).wait().unwrap().as_deref(), Some(NEEDLE.as_bytes()));
    assert_eq!(store.user(id).wait().unwrap().unwrap().email, NEEDLE);
    let keys = || key_files(folder.path());
    let kept_until = list.created_at + LIST_KEEP_MS;
    let of_list = format!("list-{}", kept_until / 3_600_000);
    assert!(keys().contains(&of_list));
    let later = kept_until + 3_600_000;
    store.purge(later).wait().unwrap();
    assert!(!keys().contains(&of_list) && keys().contains(&"users".to_owned()));
    check_index(&store);
    assert_eq!(store.list_part(&list, 0).wait(), Ok(None));
    assert_eq!(store.user(id).wait().unwrap().unwrap().email, NEEDLE);
}

#[test]
fn the_parts_of_a_list_go_in_steps() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), NOW);
    let list = list(create_account(&store, 1, "free", NOW));
    store.create_list(&list, ListRoom::MOST, None, NOW).wait().unwrap();
    for number in 0..100 {
        assert_eq!(
            store.put_list_part(&list, part(number, number.into(), "x"), ListRoom::MOST, NOW).wait(),
            Ok(PartPut::Stored)
        );
    }
    assert_eq!(store.delete_list(list.account, list.id, NOW).wait(), Ok(Some(vec![])));
    assert_eq!(store.list(list.account, list.id, NOW).wait(), Ok(None));
    assert_eq!(store.delete_list(list.account, list.id, NOW).wait(), Ok(None));
    assert_eq!(store.put_list_part(&list, part(0, 0, "x"), ListRoom::MOST, NOW).wait(), Ok(PartPut::Gone));
    check_index(&store);
    let left = (0..100).filter(|&number| store.list_part(&list, number).wait().unwrap().is_some()).count();
    assert!((1..100).contains(&left), "{left} of 100 parts are left");
    assert_eq!(store.purge(NOW).wait().map(|purged| purged.lists), Ok(1));
    assert_eq!(store.list_part(&list, 99).wait(), Ok(None));
    check_index(&store);
}
