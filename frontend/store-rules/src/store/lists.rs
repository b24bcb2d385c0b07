//! The methods for lists of the dashboard: sealing and opening on the caller's thread.

use super::RowStore;
use crate::backend::{Backend, Class, Job, Lock, Prepared};
use crate::results::Results;
use crate::rows::{Rows, Walk};
use crate::shared::Shared;
use crate::tables::{LIST_CODES, LIST_PARTS, LISTS, account_range, list_key, part_key};
use crate::{batches, lists, reason};
use api::Reason;
use store::*;

const PARTS: &str = "list_parts";
const CODES: &str = "list_codes";

impl<B: Backend> ListStore for RowStore<B> {
    fn create_list(&self, list: &List, room: ListRoom, now: UnixMs) -> Pending<ListMade, StoreError> {
        let (account, id) = (list.account, list.id);
        let job = Job::of(account, Class::New).with_lock(Lock::Lists);
        match lists::seal(&self.shared().vault, list) {
            Ok(row) => self.write(job, move |txn| Ok(txn.create_list(account, id, &row, room, now)?)),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn put_list(
        &self,
        list: &List,
        expected: ListState,
        answers: Option<&[Reason]>,
    ) -> Pending<bool, StoreError> {
        let (vault, key) = (&self.shared().vault, list_key(list.account, list.id));
        // For the events of webhooks.
        let now = clock::now();
        let seal = || {
            let codes = match answers {
                Some(answers) => {
                    // The answers belong to the last batch that the list counts now.
                    let number = list.done.saturating_sub(1);
                    let codes: Vec<u8> = answers.iter().map(|&reason| reason::code(reason)).collect();
                    let sealed = lists::seal_part(vault, CODES, list, number, &codes)?;
                    Some((part_key(list.id, number), sealed))
                }
                None => None,
            };
            Ok((lists::seal(vault, list)?, codes))
        };
        match seal() {
            Ok((row, codes)) => self.write(Job::of(list.account, Class::New), move |txn| {
                Ok(txn.put_list(key, &row, expected, codes.as_ref(), now)?)
            }),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn submit_batch_of_list(
        &self,
        list: &List,
        new: NewBatch,
        now: UnixMs,
    ) -> Pending<BatchOfList, BatchError> {
        let key = list_key(list.account, list.id);
        let row = match lists::seal(&self.shared().vault, list) {
            Ok(row) => row,
            Err(error) => return Pending::ready(Err(error.into())),
        };
        let prepare = move |shared: &Shared, rows: &dyn Rows| {
            batches::prepare(Results(rows), &shared.vault, &new, now).map(Prepared::Write)
        };
        self.write_prepared(Job::of(list.account, Class::New), prepare, move |txn, batch| {
            txn.submit_batch_of_list(key, &row, batch, now)
        })
    }

    fn put_list_part(&self, list: &List, number: u32, plain: &[u8]) -> Pending<bool, StoreError> {
        let (key, part) = (list_key(list.account, list.id), part_key(list.id, number));
        match lists::seal_part(&self.shared().vault, PARTS, list, number, plain) {
            Ok(sealed) => self.write(Job::of(list.account, Class::New), move |txn| {
                Ok(txn.put_list_part(key, part, &sealed)?)
            }),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn list_part(&self, list: &List, number: u32) -> Pending<Option<Vec<u8>>, StoreError> {
        let list = list.clone();
        self.read(None, move |shared, rows| {
            let open = |sealed: &[u8]| lists::open_part(&shared.vault, PARTS, &list, number, sealed);
            Ok(LIST_PARTS.read(rows, &part_key(list.id, number), open)?.flatten())
        })
    }

    fn list_answers(&self, list: &List, number: u32) -> Pending<Option<Vec<Reason>>, StoreError> {
        let list = list.clone();
        self.read(None, move |shared, rows| {
            let open = |sealed: &[u8]| lists::open_part(&shared.vault, CODES, &list, number, sealed);
            let codes = LIST_CODES.read(rows, &part_key(list.id, number), open)?.flatten();
            Ok(codes.and_then(|codes| codes.into_iter().map(reason::of_code).collect()))
        })
    }

    fn list(&self, account: AccountId, id: ListId, now: UnixMs) -> Pending<Option<List>, StoreError> {
        self.read(None, move |shared, rows| {
            let key = list_key(account, id);
            Ok(LISTS.get(rows, &key)?.and_then(|row| lists::open(&shared.vault, &key, row, now)))
        })
    }

    fn lists(&self, account: AccountId, now: UnixMs) -> Pending<Vec<List>, StoreError> {
        self.read(None, move |shared, rows| {
            let mut found = Vec::new();
            LISTS.walk_back(rows, account_range(account), usize::MAX, |key, row| {
                found.extend(lists::open(&shared.vault, &key, row, now));
                Walk::On
            })?;
            Ok(found)
        })
    }

    fn lists_at_work(&self, now: UnixMs) -> Pending<Vec<List>, StoreError> {
        self.scan(move |shared, rows| {
            let mut found = Vec::new();
            LISTS.walk_all(rows, |key, row| {
                if matches!(row.state, ListState::Reading | ListState::Running) {
                    found.extend(lists::open(&shared.vault, &key, row, now));
                }
            })?;
            Ok(found)
        })
    }

    fn delete_list(&self, account: AccountId, id: ListId) -> Pending<bool, StoreError> {
        let key = list_key(account, id);
        self.write(Job::of(account, Class::New), move |txn| Ok(txn.delete_list(key)?))
    }

    fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError> {
        self.0.claim_lists()
    }

    fn delete_unfinished_lists(&self, of: Option<Vec<ListId>>) -> Pending<usize, StoreError> {
        let job = Job::general(Class::New).with_lock(Lock::Lists);
        self.write(job, move |txn| Ok(txn.delete_unfinished_lists(of.as_deref())?))
    }

    fn batch_of_list(&self, list: &List, number: u32) -> BatchId {
        lists::batch_of(&self.shared().vault, list, number)
    }
}
