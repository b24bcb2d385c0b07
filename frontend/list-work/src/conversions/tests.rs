//! Conversions in turns, and what remains of them.

use super::*;
use crate::tests::{ods, xlsx_of};
use crate::work::tests::{sent, store_with_account};
use store::{NewAccount, clock};

fn look(conversions: &Conversions, list: &List) -> Result<ConvertedSheet, SourceError> {
    loop {
        match conversions.look(list) {
            Some(found) => return found,
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[test]
fn a_sheet_is_converted_once_for_many_openings() {
    let (_folder, store, account) = store_with_account();
    let files = TempFiles::new(&std::env::temp_dir());
    let conversions = Conversions::start(Arc::clone(&store), Arc::clone(&files)).unwrap();
    let list = sent(&store, account, &xlsx_of((0..10).map(|n| format!("{n}@example.com"))));
    assert!(conversions.look(&list).is_none());
    look(&conversions, &list).map(drop).unwrap();
    let used = files.figures().used();
    assert!(used > 0 && used < 1_000, "the copy of the file is gone: {used}");
    for _ in 0..3 {
        assert!(matches!(conversions.look(&list), Some(Ok(_))), "it is kept");
    }
    assert_eq!(files.figures().used(), used);
    files.forget(list.id);
    assert_eq!(files.figures().used(), 0);
    assert!(conversions.look(&list).is_none());
}

#[test]
fn a_failure_is_told_once() {
    let (_folder, store, account) = store_with_account();
    let files = TempFiles::new(&std::env::temp_dir());
    let conversions = Conversions::start(Arc::clone(&store), Arc::clone(&files)).unwrap();
    let list = sent(&store, account, &ods("")[..50]);
    for _ in 0..3 {
        assert!(matches!(look(&conversions, &list), Err(SourceError::Unfit(_))));
    }
    assert!(conversions.0.lock().asked.is_empty());
}

#[test]
fn accounts_have_one_conversion_at_a_time_and_small_files_a_thread_of_their_own() {
    let (_folder, store, first) = store_with_account();
    let others = [AccountId::new(0, 2), AccountId::new(0, 3)];
    for (number, id) in others.into_iter().enumerate() {
        let new = NewAccount { id, name: format!("n{number}"), plan: "scale".into() };
        store.create_account(new, clock::now()).wait().unwrap();
    }
    let files = TempFiles::new(&std::env::temp_dir());
    let conversions = Conversions::without_threads(Arc::clone(&store), files);
    let list = |account, number, bytes| List {
        bytes,
        ..List::new(ListId::new(0, number), account, 0, String::new())
    };
    let large = 10 << 20;
    for list in [list(first, 1, large), list(first, 2, 10), list(others[0], 3, large), list(others[1], 4, 10)]
    {
        assert!(conversions.look(&list).is_none());
    }
    let mut state = conversions.0.lock();
    let mut next = |work_max| Shared::next(&mut state, work_max).map(|list| list.id);
    assert_eq!(next(SMALL_WORK), Some(ListId::new(0, 4)));
    assert_eq!(next(u64::MAX), Some(ListId::new(0, 1)));
    assert_eq!(next(SMALL_WORK), None, "the account of the other small file has one in progress");
    assert_eq!(next(u64::MAX), Some(ListId::new(0, 3)));
    assert_eq!(next(u64::MAX), None);
}

#[test]
fn a_full_queue_is_no_failure_of_the_list() {
    let (_folder, store, account) = store_with_account();
    let conversions = Conversions::without_threads(store, TempFiles::new(&std::env::temp_dir()));
    let list = |account, number| List::new(ListId::new(0, number), account, 0, String::new());
    for other in 0..u128::from(WAITING.all) {
        assert!(conversions.look(&list(AccountId::new(9, other), other + 1)).is_none());
    }
    let late = list(account, 1_000);
    assert!(conversions.look(&late).is_none() && !conversions.is_asked(late.id));
    Shared::next(&mut conversions.0.lock(), u64::MAX).unwrap();
    assert!(conversions.look(&late).is_none() && conversions.is_asked(late.id), "it asks again");
}
