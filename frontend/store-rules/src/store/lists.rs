//! Lists, whose parts are sealed and opened on the caller's thread.

use super::{Prepared, Store};
use crate::backend::{Class, Job, Lock, Want};
use crate::batches::PreparedKey;
use crate::lists::Cancelled;
use crate::results::Results;
use crate::rows::{Rows, Table, Walk};
use crate::shared::Shared;
use crate::tables::{
    LIST_CODES, LIST_PARTS, LIST_USE, LISTS, META, META_LIST_USE, account_range, index_key, list_key,
    part_key, split,
};
use crate::txn::Txn;
use crate::{batches, lists, reason};
use api::Reason;
use store::*;

const PARTS: &str = "list_parts";
const CODES: &str = "list_codes";

impl Store {
    /// Creates a list and reserves its bytes, if there is room for it. An idempotency key is looked up before the room. It is
    /// stored with a resumable list; otherwise [`Store::end_upload`] stores it.
    pub fn create_list(
        &self,
        list: &List,
        room: ListRoom,
        key: Option<Idempotency>,
        now: UnixMs,
    ) -> Pending<ListMade, StoreError> {
        let (account, id) = (list.account, list.id);
        let job = Job::of(account, Class::New).with_lock(Lock::Lists);
        let key = self.list_request(list, key);
        Pending::begin(|| {
            let row = lists::seal(&self.shared().vault, list)?;
            Ok(self.write(job, move |txn| txn.create_list((account, id), &row, room, key.as_ref(), now)))
        })
    }

    /// Ends the upload of a list, which is being read from then on. Refused with [`StoreError::Outdated`] if `by` does not hold any
    /// more, since an upload can take long. `bytes` of the list becomes its offset.
    pub fn end_upload(
        &self,
        list: &List,
        key: Option<Idempotency>,
        by: Authority,
        now: UnixMs,
    ) -> Pending<UploadEnd, StoreError> {
        let (account, id) = (list.account, list.id);
        let key = self.list_request(list, key);
        let job = Job::of(account, Class::New).with_wants(want_list(account, id));
        self.write(job, move |txn| txn.end_upload((account, id), key.as_ref(), &by, now))
    }

    /// Replaces a list if it has the expected state; returns whether it had. The answers of the batch with the number
    /// `done - 1` are stored with it. A new state that ends or pauses the list is an event for webhooks, of the time `now`.
    pub fn put_list(
        &self,
        list: &List,
        expected: ListState,
        answers: Option<&[Reason]>,
        now: UnixMs,
    ) -> Pending<bool, StoreError> {
        let (vault, key) = (&self.shared().vault, list_key(list.account, list.id));
        let seal_answers = |answers: &[Reason]| {
            // The answers belong to the last batch that the list counts now.
            let key = part_key(list.id, list.done.saturating_sub(1));
            let codes: Vec<u8> = answers.iter().map(|&reason| reason::code(reason)).collect();
            Ok::<_, StoreError>((key, lists::seal_part(vault, CODES, list, key, &codes)?))
        };
        Pending::begin(|| {
            let codes = answers.map(seal_answers).transpose()?;
            let row = lists::seal(vault, list)?;
            Ok(self.write(Job::of(list.account, Class::New), move |txn| {
                Ok(txn.put_list(key, &row, expected, codes.as_ref(), now)?)
            }))
        })
    }

    /// Gives a list that has the expected state the state of `list`, as its owner wants; returns whether it had. Refused with
    /// [`StoreError::Outdated`] if `by` does not hold any more.
    pub fn start_list(
        &self,
        list: &List,
        expected: ListState,
        by: Authority,
        now: UnixMs,
    ) -> Pending<bool, StoreError> {
        let (account, key) = (list.account, list_key(list.account, list.id));
        Pending::begin(|| {
            let row = lists::seal(&self.shared().vault, list)?;
            Ok(self.write(Job::of(account, Class::New), move |txn| {
                txn.check_caller(account, &by, now)?;
                Ok(txn.put_list(key, &row, expected, None, now)?)
            }))
        })
    }

    /// Creates the next batch of a running list and updates the list in one transaction, so that no batch of a deleted
    /// list is charged.
    pub fn submit_batch_of_list(
        &self,
        list: &List,
        new: NewBatch,
        now: UnixMs,
    ) -> Pending<BatchOfList, BatchError> {
        let key = list_key(list.account, list.id);
        let of_list = (!list.by_row).then_some(list.id);
        let prepare = move |shared: &Shared, rows: &dyn Rows| {
            batches::prepare(Results(rows), &shared.vault, &new, of_list, now).map(Prepared::Write)
        };
        Pending::begin(|| {
            let row = lists::seal(&self.shared().vault, list)?;
            Ok(self.write_prepared(Job::of(list.account, Class::New), prepare, move |txn, batch| {
                txn.submit_batch_of_list(key, &row, batch, now)
            }))
        })
    }

    /// Writes a part of the content of a list during its upload, with the new offset of the list.
    pub fn put_list_part(
        &self,
        list: &List,
        part: NewPart<'_>,
        room: ListRoom,
        now: UnixMs,
    ) -> Pending<PartPut, StoreError> {
        let NewPart { number, from, to, plain, by } = part;
        let (key, part) = (list_key(list.account, list.id), part_key(list.id, number));
        let job = Job::of(list.account, Class::New).with_wants(want_list(list.account, list.id));
        Pending::begin(|| {
            let sealed = lists::seal_part(&self.shared().vault, PARTS, list, part, plain)?;
            let put =
                move |txn: &mut Txn<'_>| txn.put_list_part(key, (&part, &sealed), (from, to), room, &by, now);
            Ok(self.write(job, put))
        })
    }

    /// Writes a part of the index of a list while it is read: see [`Store::list_index`].
    pub fn put_list_index(&self, list: &List, number: u32, plain: &[u8]) -> Pending<bool, StoreError> {
        let (key, part) = (list_key(list.account, list.id), index_key(list.id, number));
        let job = Job::of(list.account, Class::New).with_wants(want_list(list.account, list.id));
        Pending::begin(|| {
            let sealed = lists::seal_part(&self.shared().vault, PARTS, list, part, plain)?;
            Ok(self.write(job, move |txn| Ok(txn.put_list_index(key, &part, &sealed)?)))
        })
    }

    /// A part of the index of a list's addresses; `None` after the last. The index says for each row with an address which of the
    /// different addresses it has. A list without duplicates has none.
    pub fn list_index(&self, list: &List, number: u32) -> Pending<Option<Vec<u8>>, StoreError> {
        self.read_part(list, index_key(list.id, number))
    }

    /// For each of these addresses, whether the account has checked it within 24 hours, so that a list gets it for free.
    pub fn is_own(
        &self,
        account: AccountId,
        addresses: Vec<AddressHash>,
        now: UnixMs,
    ) -> Pending<Vec<bool>, StoreError> {
        self.read(None, move |shared, rows| {
            let results = Results(rows);
            results.expect_own(account, addresses.iter());
            let is_own = |address| Ok(results.own(&shared.vault, account, address, now)?.is_some());
            addresses.iter().map(is_own).collect()
        })
    }

    /// A part of the content; `None` after the last.
    pub fn list_part(&self, list: &List, number: u32) -> Pending<Option<Vec<u8>>, StoreError> {
        self.read_part(list, part_key(list.id, number))
    }

    /// The answers of a batch in the order of its addresses; `None` before they are stored. An address that was not asked before
    /// the cancellation of the list has no answer.
    pub fn list_answers(&self, list: &List, number: u32) -> Pending<Option<Vec<Option<Reason>>>, StoreError> {
        let list = list.clone();
        self.read(None, move |shared, rows| {
            let key = part_key(list.id, number);
            let open = |sealed: &[u8]| lists::open_part(&shared.vault, CODES, &list, key, sealed);
            let codes = LIST_CODES.read(rows, &key, open)?.flatten();
            Ok(codes.map(|codes| codes.into_iter().map(reason::of_code).collect()))
        })
    }

    /// A list of this account.
    pub fn list(&self, account: AccountId, id: ListId, now: UnixMs) -> Pending<Option<List>, StoreError> {
        self.read(None, move |shared, rows| {
            let key = list_key(account, id);
            Ok(LISTS.get(rows, &key)?.and_then(|row| lists::open(&shared.vault, &key, row, now)))
        })
    }

    /// A list as it is now, with its progress: what it has taken of its batches, and the answers in its other batches. All of it is
    /// of the same moment. It reads one row for each of these batches, and none of their addresses.
    pub fn list_progress(&self, list: &List, now: UnixMs) -> Pending<(List, ListProgress), StoreError> {
        let (list, key) = (list.clone(), list_key(list.account, list.id));
        let batches = lists::open_batches(&self.shared().vault, &list);
        let wants = move |out: &mut Vec<Want>| {
            out.push(Want::row(Table::Lists, &key));
            out.extend(batches.iter().map(|key| Want::peek(Table::Batches, key)));
        };
        self.read(Some(Box::new(wants)), move |shared, rows| {
            let row = LISTS.get(rows, &key)?;
            // A list that was deleted meanwhile is shown as it was.
            let list = row
                .and_then(|row| lists::open(&shared.vault, &key, row, now))
                .unwrap_or_else(|| list.clone());
            let progress = lists::progress(rows, &shared.vault, &list, now)?;
            Ok((list, progress))
        })
    }

    /// The batches of a list whose answers it has not taken yet.
    pub fn open_batches_of(&self, list: &List) -> Vec<BatchId> {
        let keys = lists::open_batches(&self.shared().vault, list);
        keys.iter().map(|key| BatchId::from_bytes(split(key).1)).collect()
    }

    /// The account's lists, newest first.
    pub fn lists(&self, account: AccountId, now: UnixMs) -> Pending<Vec<List>, StoreError> {
        self.read(None, move |shared, rows| {
            let mut found = Vec::new();
            LISTS.walk_back(rows, account_range(account), usize::MAX, |key, row| {
                found.extend(lists::open(&shared.vault, &key, row, now));
                Walk::On
            })?;
            Ok(found)
        })
    }

    /// Every list that is being read or checked.
    pub fn lists_at_work(&self, now: UnixMs) -> Pending<Vec<List>, StoreError> {
        self.scan(move |shared, rows| {
            let mut found = Vec::new();
            if META.peek(rows, META_LIST_USE)?.is_none() {
                LISTS.walk_all(rows, |key, row| {
                    if row.is_at_work() {
                        found.extend(lists::open(&shared.vault, &key, row, now));
                    }
                })?;
                return Ok(found);
            }
            let mut keys = Vec::new();
            LIST_USE.walk_all(rows, |account, used| {
                keys.extend(used.at_work.iter().map(|id| list_key(AccountId::from_bytes(account), *id)));
            })?;
            for key in keys {
                let row = LISTS.get(rows, &key)?;
                found.extend(row.and_then(|row| lists::open(&shared.vault, &key, row, now)));
            }
            Ok(found)
        })
    }

    /// Ends the check of a list, in any state except those that are final. Rows without an answer are refunded, and a later
    /// answer to them is ignored. `None` if there is no such list.
    pub fn cancel_list(
        &self,
        account: AccountId,
        id: ListId,
        now: UnixMs,
    ) -> Pending<Option<CancelledList>, StoreError> {
        self.end_list(account, id, None, now)
    }

    /// Ends a list as unfit for this reason, as [`Store::cancel_list`] ends it: what was answered stays charged, and the rest is
    /// refunded.
    pub fn give_up_list(
        &self,
        account: AccountId,
        id: ListId,
        why: String,
        now: UnixMs,
    ) -> Pending<Option<CancelledList>, StoreError> {
        self.end_list(account, id, Some(why), now)
    }

    /// Deletes a list, whose check is cancelled first. Returns the batches that this ended; `None` if there is no such list.
    pub fn delete_list(
        &self,
        account: AccountId,
        id: ListId,
        now: UnixMs,
    ) -> Pending<Option<Vec<BatchId>>, StoreError> {
        let key = list_key(account, id);
        Pending::begin(|| {
            let finishing_key = batches::finishing_key(&self.shared().vault, now)?;
            let job = Job::of(account, Class::New).with_wants(want_list(account, id));
            Ok(self.write(job, move |txn| Ok(txn.delete_list(key, &finishing_key, now)?)))
        })
    }

    /// Claims the lists that nobody works on: those from before the start, and those of nodes that have died. `None`: all lists
    /// are this process's.
    pub fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError> {
        self.backend.claim_lists()
    }

    /// Deletes lists whose upload was interrupted by the end of a process and cannot continue, of these or of all; returns their
    /// number.
    pub fn delete_unfinished_lists(&self, of: Option<Vec<ListId>>) -> Pending<usize, StoreError> {
        let job = Job::general(Class::New).with_lock(Lock::Lists);
        self.write(job, move |txn| Ok(txn.delete_unfinished_lists(of.as_deref())?))
    }

    /// The id of the list's batch with this number, whether or not it exists.
    pub fn batch_of_list(&self, list: &List, number: u32) -> BatchId {
        lists::batch_of(&self.shared().vault, list.id, list.created_at, number)
    }

    /// Ends a list, as unfit if there is a reason, otherwise as cancelled.
    fn end_list(
        &self,
        account: AccountId,
        id: ListId,
        why: Option<String>,
        now: UnixMs,
    ) -> Pending<Option<CancelledList>, StoreError> {
        let key = list_key(account, id);
        Pending::begin(|| {
            let finishing_key = batches::finishing_key(&self.shared().vault, now)?;
            let job = Job::of(account, Class::New).with_wants(want_list(account, id));
            Ok(self.write(job, move |txn| {
                let Some(Cancelled { row, batches }) =
                    txn.end_list(key, why.as_deref(), &finishing_key, now)?
                else {
                    return Ok(None);
                };
                let list = lists::open(&txn.shared.vault, &key, row, now);
                Ok(list.map(|list| CancelledList { list, batches }))
            }))
        })
    }

    fn list_request(&self, list: &List, key: Option<Idempotency>) -> Option<PreparedKey> {
        let vault = &self.shared().vault;
        key.map(|key| batches::prepare_key(&key, vault, list.account, list.mode, KeyEndpoint::Lists))
    }

    fn read_part(&self, list: &List, key: [u8; 20]) -> Pending<Option<Vec<u8>>, StoreError> {
        let list = list.clone();
        self.read(None, move |shared, rows| {
            let open = |sealed: &[u8]| lists::open_part(&shared.vault, PARTS, &list, key, sealed);
            Ok(LIST_PARTS.read(rows, &key, open)?.flatten())
        })
    }
}

/// The wants of a write that changes a list.
fn want_list(account: AccountId, id: ListId) -> impl Fn(&mut Vec<Want>) + Send + 'static {
    move |out| out.push(Want::row(Table::Lists, &list_key(account, id)))
}
