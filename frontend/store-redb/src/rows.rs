//! Tables of redb as tables of bytes. The types in the file stay those that its first version declared: [`with_types`] has
//! them, and [`Raw`] passes values of such a type as bytes.

use ::redb::{
    Key, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, TypeName,
    Value, WriteTransaction,
};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::rc::Rc;
use store::StoreError;
use store_rules::rows::{Each, KeyRange, Rows, RowsMut, Table, Walk};

/// An operation on a table with its types.
pub(crate) trait WithTypes {
    /// The result.
    type Output;

    /// The operation.
    fn with<K: Key + 'static, V: Value + 'static>(self, name: &'static str) -> Self::Output;
}

/// Calls an operation with the types that a table has in the file.
pub(crate) fn with_types<W: WithTypes>(table: Table, operation: W) -> W::Output {
    macro_rules! with {
        ($key:ty, $value:ty) => {
            operation.with::<$key, $value>(table.name())
        };
    }
    match table {
        Table::Meta => with!(&str, u64),
        Table::Names => with!(&str, &[u8; 16]),
        Table::Accounts
        | Table::Keys
        | Table::Limits
        | Table::FairUse
        | Table::Users
        | Table::Clients
        | Table::ListUse => with!(&[u8; 16], &[u8]),
        Table::OpenBatches | Table::Emails => with!(&[u8; 16], &[u8; 16]),
        Table::WebhookTurns => with!(&[u8; 24], &[u8; 16]),
        Table::OutboxDue => with!(&[u8; 40], ()),
        Table::Windows => with!(&[u8; 17], &[u8]),
        Table::StoredBytes => with!(&[u8; 20], u64),
        Table::Days | Table::ListParts | Table::ListCodes => with!(&[u8; 20], &[u8]),
        Table::Holds
        | Table::Ledger
        | Table::Results
        | Table::Batches
        | Table::BatchRows
        | Table::Idempotency
        | Table::Sessions
        | Table::SignInLinks
        | Table::Lists
        | Table::Connections
        | Table::Tokens
        | Table::Webhooks
        | Table::Outbox
        | Table::Deliveries
        // Only several nodes need it; no file has it.
        | Table::UnderWay => with!(&[u8; 32], &[u8]),
        Table::Expiries => with!(&[u8; 41], ()),
        Table::SessionsOf => with!(&[u8; 48], ()),
        Table::Refusals => with!(u64, &[u8]),
        Table::Withdrawn => with!(u64, u64),
    }
}

/// A type of redb whose values are passed as the bytes in the file.
struct Raw<T>(PhantomData<T>);

impl<T> std::fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Raw")
    }
}

impl<T: Value> Value for Raw<T> {
    type SelfType<'a>
        = &'a [u8]
    where
        Self: 'a;
    type AsBytes<'a>
        = &'a [u8]
    where
        Self: 'a;

    fn fixed_width() -> Option<usize> {
        T::fixed_width()
    }

    fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
    where
        Self: 'a,
    {
        data
    }

    fn as_bytes<'a, 'b: 'a>(value: &'a Self::SelfType<'b>) -> &'a [u8]
    where
        Self: 'b,
    {
        value
    }

    fn type_name() -> TypeName {
        T::type_name()
    }
}

impl<T: Key> Key for Raw<T> {
    fn compare(one: &[u8], other: &[u8]) -> Ordering {
        T::compare(one, other)
    }
}

/// An open table, whatever its types.
trait AnyTable {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError>;
    fn walk(&self, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError>;
    fn count(&self) -> Result<u64, StoreError>;
}

/// An open table of a write transaction.
trait AnyTableMut: AnyTable {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError>;
}

macro_rules! any_table {
    ($table:ty) => {
        impl<K: Key + 'static, V: Value + 'static> AnyTable for $table {
            fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
                let found = ReadableTable::get(self, key)?;
                Ok(found.map(|value| read(value.value())).is_some())
            }

            fn walk(&self, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
                let mut rows = ReadableTable::range::<&[u8]>(self, (range.from, range.to))?;
                for _ in 0..range.most {
                    let next = if range.backwards { rows.next_back() } else { rows.next() };
                    let Some((key, value)) = next.transpose()? else { break };
                    if each(key.value(), value.value())? == Walk::Stop {
                        break;
                    }
                }
                Ok(())
            }

            fn count(&self) -> Result<u64, StoreError> {
                Ok(ReadableTableMetadata::len(self)?)
            }
        }
    };
}
any_table!(ReadOnlyTable<Raw<K>, Raw<V>>);
any_table!(::redb::Table<'_, Raw<K>, Raw<V>>);

impl<K: Key + 'static, V: Value + 'static> AnyTableMut for ::redb::Table<'_, Raw<K>, Raw<V>> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.insert(key, value)?;
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        ::redb::Table::remove(self, key)?;
        Ok(())
    }
}

const TABLES: usize = Table::ALL.len();

/// The tables of a snapshot. Each is opened at its first use.
pub(crate) struct ReadRows {
    transaction: ReadTransaction,
    open: RefCell<[Option<Rc<dyn AnyTable>>; TABLES]>,
}

impl ReadRows {
    /// The tables of a snapshot.
    pub fn new(transaction: ReadTransaction) -> ReadRows {
        ReadRows { transaction, open: RefCell::new([const { None }; TABLES]) }
    }

    fn table(&self, table: Table) -> Result<Rc<dyn AnyTable>, StoreError> {
        struct Open<'a>(&'a ReadTransaction);
        impl WithTypes for Open<'_> {
            type Output = Result<Rc<dyn AnyTable>, StoreError>;
            fn with<K: Key + 'static, V: Value + 'static>(self, name: &'static str) -> Self::Output {
                Ok(Rc::new(self.0.open_table(TableDefinition::<Raw<K>, Raw<V>>::new(name))?))
            }
        }
        let slot = &mut self.open.borrow_mut()[table as usize];
        Ok(match slot {
            Some(open) => Rc::clone(open),
            None => Rc::clone(slot.insert(with_types(table, Open(&self.transaction))?)),
        })
    }
}

impl Rows for ReadRows {
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.table(table)?.get(key, read)
    }

    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.table(table)?.walk(range, each)
    }

    fn count(&self, table: Table) -> Result<u64, StoreError> {
        self.table(table)?.count()
    }
}

/// The tables of a write transaction. Each is opened at its first use.
pub(crate) struct WriteRows<'t> {
    transaction: &'t WriteTransaction,
    open: RefCell<[Option<Box<dyn AnyTableMut + 't>>; TABLES]>,
}

struct OpenMut<'t>(&'t WriteTransaction);

impl<'t> WithTypes for OpenMut<'t> {
    type Output = Result<Box<dyn AnyTableMut + 't>, StoreError>;

    fn with<K: Key + 'static, V: Value + 'static>(self, name: &'static str) -> Self::Output {
        Ok(Box::new(self.0.open_table(TableDefinition::<Raw<K>, Raw<V>>::new(name))?))
    }
}

impl<'t> WriteRows<'t> {
    /// Creates a table that is missing.
    pub fn create(transaction: &'t WriteTransaction, table: Table) -> Result<(), StoreError> {
        with_types(table, OpenMut(transaction)).map(drop)
    }

    /// The tables of a transaction.
    pub fn new(transaction: &'t WriteTransaction) -> WriteRows<'t> {
        WriteRows { transaction, open: RefCell::new([const { None }; TABLES]) }
    }

    fn with<T>(
        &self,
        table: Table,
        work: impl FnOnce(&mut (dyn AnyTableMut + 't)) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let slot = &mut self.open.borrow_mut()[table as usize];
        let open = match slot {
            Some(open) => open,
            None => slot.insert(with_types(table, OpenMut(self.transaction))?),
        };
        work(open.as_mut())
    }
}

impl Rows for WriteRows<'_> {
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.with(table, |open| open.get(key, read))
    }

    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.with(table, |open| open.walk(range, each))
    }

    fn count(&self, table: Table) -> Result<u64, StoreError> {
        self.with(table, |open| open.count())
    }
}

impl RowsMut for WriteRows<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.with(table, |open| open.put(key, value))
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.with(table, |open| open.remove(key))
    }
}
