//! Tests: a limit on notes withdraws more, and never less.

use crate::rows::ReadRows;
use crate::tests::index_check::check_index;
use crate::tests::open;
use ::redb::ReadableDatabase;
use store::StoreError;
use store_rules::backend::{Backend, Class, Job};
use store_rules::tables::WITHDRAWN;
use store_rules::task::write_task;
use store_rules::txn::Txn;
use store_rules::withdrawn::is_withdrawn;
use store_rules::write_error::WriteError;

#[test]
fn too_many_withdrawals_withdraw_more_and_never_less() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1);
    for evidence in 0..5u64 {
        let work = move |txn: &mut Txn<'_>| {
            Ok::<_, WriteError<StoreError>>(txn.withdraw_within(&[evidence], 100 + evidence, 3)?)
        };
        let (task, pending) = write_task(work);
        store.redb.write(Job::general(Class::New), task);
        pending.wait().unwrap();
        check_index(&store);
    }
    let read = ReadRows::new(store.database().begin_read().unwrap());
    assert_eq!(WITHDRAWN.count(&read), Ok(3));
    for (evidence, verdict_at, withdrawn) in [
        // The notes of 0 and 1 are removed: every verdict found until the later of them is withdrawn.
        (0, 100, true),
        (0, 101, true),
        (0, 102, false),
        (77, 101, true),
        (77, 102, false),
        (3, 103, true),
        (3, 104, false),
        (4, 104, true),
    ] {
        let found = is_withdrawn(&read, evidence, verdict_at);
        assert_eq!(found, Ok(withdrawn), "{evidence} {verdict_at}");
    }
}
