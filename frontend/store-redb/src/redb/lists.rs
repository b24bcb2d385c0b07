//! The methods for lists of the dashboard: sealing and opening on the caller's thread.

use super::super::row::Row;
use super::super::tables::{LIST_CODES, LIST_PARTS, LISTS, ListRow, account_range, list_key, part_key};
use super::super::writer::Class;
use super::super::{lists, reason};
use super::RedbStore;
use ::redb::{ReadableDatabase, ReadableTable};
use api::Reason;
use store::*;
use store::{AccountId, BatchError, BatchId, ListId, Pending, StoreError};

const PARTS: &str = "list_parts";
const CODES: &str = "list_codes";

impl ListStore for RedbStore {
    fn create_list(&self, list: &List, room: ListRoom, now: UnixMs) -> Pending<ListMade, StoreError> {
        let (account, id) = (list.account, list.id);
        match lists::seal(&self.vault, list) {
            Ok(row) => {
                self.writer.submit(Class::New, move |txn| Ok(txn.create_list(account, id, row, room, now)?))
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn put_list(
        &self,
        list: &List,
        expected: ListState,
        answers: Option<&[Reason]>,
    ) -> Pending<bool, StoreError> {
        let key = list_key(list.account, list.id);
        let seal = || {
            let codes = match answers {
                Some(answers) => {
                    // The answers belong to the last batch that the list counts now.
                    let number = list.done.saturating_sub(1);
                    let codes: Vec<u8> = answers.iter().map(|&reason| reason::code(reason)).collect();
                    let sealed = lists::seal_part(&self.vault, CODES, list, number, &codes)?;
                    Some((part_key(list.id, number), sealed))
                }
                None => None,
            };
            Ok((lists::seal(&self.vault, list)?, codes))
        };
        match seal() {
            Ok((row, codes)) => {
                self.writer.submit(Class::New, move |txn| Ok(txn.put_list(key, row, expected, codes)?))
            }
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
        let row = match lists::seal(&self.vault, list) {
            Ok(row) => row,
            Err(error) => return Pending::ready(Err(error.into())),
        };
        match self.prepare_batch(new, now) {
            Ok(batch) => {
                self.writer.submit(Class::New, move |txn| txn.submit_batch_of_list(key, row, batch, now))
            }
            Err(refusal) => Pending::ready(Err(refusal)),
        }
    }

    fn put_list_part(&self, list: &List, number: u32, plain: &[u8]) -> Pending<bool, StoreError> {
        let (key, part) = (list_key(list.account, list.id), part_key(list.id, number));
        match lists::seal_part(&self.vault, PARTS, list, number, plain) {
            Ok(sealed) => {
                self.writer.submit(Class::New, move |txn| Ok(txn.put_list_part(key, part, &sealed)?))
            }
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn list_part(&self, list: &List, number: u32) -> Pending<Option<Vec<u8>>, StoreError> {
        Pending::of(|| {
            let parts = self.database.begin_read()?.open_table(LIST_PARTS)?;
            let sealed = parts.get(&part_key(list.id, number))?;
            Ok(sealed.and_then(|sealed| lists::open_part(&self.vault, PARTS, list, number, sealed.value())))
        })
    }

    fn list_answers(&self, list: &List, number: u32) -> Pending<Option<Vec<Reason>>, StoreError> {
        Pending::of(|| {
            let codes = self.database.begin_read()?.open_table(LIST_CODES)?;
            let sealed = codes.get(&part_key(list.id, number))?;
            let codes =
                sealed.and_then(|sealed| lists::open_part(&self.vault, CODES, list, number, sealed.value()));
            Ok(codes.and_then(|codes| codes.into_iter().map(reason::of_code).collect()))
        })
    }

    fn list(&self, account: AccountId, id: ListId, now: UnixMs) -> Pending<Option<List>, StoreError> {
        Pending::of(|| {
            let lists = self.database.begin_read()?.open_table(LISTS)?;
            let key = list_key(account, id);
            let row = lists.get(&key)?.map(|row| ListRow::decode(row.value())).transpose()?;
            Ok(row.and_then(|row| lists::open(&self.vault, &key, row, now)))
        })
    }

    fn lists(&self, account: AccountId, now: UnixMs) -> Pending<Vec<List>, StoreError> {
        Pending::of(|| {
            let lists = self.database.begin_read()?.open_table(LISTS)?;
            let range = account_range(account);
            let mut found = Vec::new();
            for next in lists.range::<&[u8; 32]>(range.start()..=range.end())?.rev() {
                let (key, row) = next?;
                found.extend(lists::open(&self.vault, key.value(), ListRow::decode(row.value())?, now));
            }
            Ok(found)
        })
    }

    fn lists_at_work(&self, now: UnixMs) -> Pending<Vec<List>, StoreError> {
        Pending::of(|| {
            let lists = self.database.begin_read()?.open_table(LISTS)?;
            let mut found = Vec::new();
            for next in lists.iter()? {
                let (key, row) = next?;
                let row = ListRow::decode(row.value())?;
                if matches!(row.state, ListState::Reading | ListState::Running) {
                    found.extend(lists::open(&self.vault, key.value(), row, now));
                }
            }
            Ok(found)
        })
    }

    fn delete_list(&self, account: AccountId, id: ListId) -> Pending<bool, StoreError> {
        let key = list_key(account, id);
        self.writer.submit(Class::New, move |txn| Ok(txn.delete_list(key)?))
    }

    fn delete_unfinished_lists(&self) -> Pending<usize, StoreError> {
        self.writer.submit(Class::New, move |txn| Ok(txn.delete_unfinished_lists()?))
    }

    fn batch_of_list(&self, list: &List, number: u32) -> BatchId {
        lists::batch_of(&self.vault, list, number)
    }
}
