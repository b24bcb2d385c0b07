//! The statements of all tables: fetches of what an overlay lacks, and writes of its changes.
//!
//! A statement is prepared when it is needed for the first time on a connection, which costs one round trip.

use crate::overlay::{End, KeyValue, Lack, Overlay, RangeLack, RowList, TableChanges};
use futures_util::future::{MaybeDone, maybe_done};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use store::credits::Balance;
use store_rules::row::Row as _;
use store_rules::rows::Table;
use store_rules::tables::AccountRow;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

/// The settings of a connection for these statements. All of them find rows by their keys, whatever the size of a table
/// seems to be. A plan that was made for a young table would otherwise scan it, and stay until the next ANALYZE although
/// the table has grown; and the estimate for a large table would start the compiler of statements, which takes longer than
/// any of them.
pub const PLANS: &str = "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off; ";

/// What a statement does to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    Lock,
    Peek,
    /// The rows of spans with an end.
    Walk {
        backwards: bool,
    },
    /// The rows of spans without an end.
    OpenWalk {
        backwards: bool,
    },
    Count,
    Insert,
    Update,
    Upsert,
    Remove,
}

/// The further columns of a table, which the statements of a node write.
enum Columns {
    None,
    /// Columns with the same value in each row, and the values.
    Fixed(&'static str, String),
    /// Columns with numbers, one list of them for each.
    Amounts,
}

/// The columns of [`Columns::Amounts`].
const AMOUNTS: [&str; 6] = ["plan_left", "pack_left", "held", "spent", "expired", "granted"];

impl Columns {
    fn of(table: Table, place: Option<(i64, i64)>) -> Columns {
        match (table, place) {
            (Table::Holds | Table::OpenBatches | Table::Lists, Some((node, epoch))) => {
                Columns::Fixed(", node, epoch", format!(", {node}, {epoch}"))
            }
            (Table::Accounts, Some(_)) => Columns::Amounts,
            _ => Columns::None,
        }
    }

    /// The statements that write rows: `shape` is that of an INSERT or UPDATE.
    fn write(&self, shape: Shape, table: &str) -> String {
        let (mut names, mut parameters, mut sets) = (String::new(), String::new(), String::new());
        if let Columns::Amounts = self {
            for (name, number) in AMOUNTS.iter().zip(3..) {
                let _ = write!(names, ", {name}");
                let _ = write!(parameters, ", ${number}::bigint[]");
                let _ = write!(sets, ", {name} = new.{name}");
            }
        }
        let new = format!("unnest($1::bytea[], $2::bytea[]{parameters}) AS new(k, v{names})");
        let (more, values) = match self {
            Columns::Fixed(names, values) => (*names, values.as_str()),
            _ => (names.as_str(), names.as_str()),
        };
        let insert = format!("INSERT INTO {table} (k, v{more}) SELECT k, v{values} FROM {new}");
        match shape {
            Shape::Insert => insert,
            Shape::Update => {
                format!("UPDATE {table} AS old SET v = new.v{sets} FROM {new} WHERE old.k = new.k")
            }
            _ => {
                let sets = sets.replace("new.", "excluded.");
                format!("{insert} ON CONFLICT (k) DO UPDATE SET v = excluded.v{sets}")
            }
        }
    }
}

/// The amounts in the rows of accounts, by column. A row that cannot be read gets amounts that the table refuses.
fn amounts(values: &[Vec<u8>]) -> [Vec<i64>; 6] {
    let mut columns = [const { Vec::new() }; 6];
    for value in values {
        let balance = AccountRow::decode(value).map(|row| row.subscription.balance);
        let amounts = balance.map_or([-1; 6], |balance| {
            let Balance { plan_left, pack_left, held, spent, expired, granted, .. } = balance;
            [plan_left, pack_left, held, spent, expired, granted].map(|n| i64::try_from(n).unwrap_or(-1))
        });
        for (column, amount) in columns.iter_mut().zip(amounts) {
            column.push(amount);
        }
    }
    columns
}

impl Shape {
    fn text(self, table: Table, place: Option<(i64, i64)>) -> String {
        let columns = Columns::of(table, place);
        let table = table.name();
        let walk = |backwards: bool, spans: &str, columns: &str, condition: &str| {
            let order = if backwards { "DESC" } else { "ASC" };
            format!(
                "SELECT span.number, found.k, found.v \
                 FROM unnest({spans}) WITH ORDINALITY AS span({columns}, number) CROSS JOIN LATERAL \
                 (SELECT k, v FROM {table} WHERE {condition} ORDER BY k {order} LIMIT span.most) AS found"
            )
        };
        match self {
            Shape::Lock => format!("SELECT k, v FROM {table} WHERE k = ANY($1) ORDER BY k FOR UPDATE"),
            Shape::Peek => format!("SELECT k, v FROM {table} WHERE k = ANY($1)"),
            Shape::Walk { backwards } => walk(
                backwards,
                "$1::bytea[], $2::bigint[], $3::bytea[]",
                "first, most, stop",
                "k >= span.first AND k < span.stop",
            ),
            Shape::OpenWalk { backwards } => {
                walk(backwards, "$1::bytea[], $2::bigint[]", "first, most", "k >= span.first")
            }
            Shape::Count => format!("SELECT count(*) FROM {table}"),
            Shape::Insert | Shape::Update | Shape::Upsert => columns.write(self, table),
            Shape::Remove => format!("DELETE FROM {table} WHERE k = ANY($1)"),
        }
    }
}

/// One statement of a fetch.
pub struct Fetch {
    table: Table,
    shape: Shape,
    keys: Vec<Vec<u8>>,
    ranges: Vec<RangeLack>,
}

impl Fetch {
    /// The statements for what is lacking, in the same order.
    pub fn all(lacks: BTreeSet<Lack>) -> Vec<Fetch> {
        let mut fetches: Vec<Fetch> = Vec::new();
        for lack in lacks {
            let (table, shape) = match &lack {
                Lack::Row(table, _) => (*table, Shape::Lock),
                Lack::Peek(table, _) => (*table, Shape::Peek),
                Lack::Range(table, RangeLack { backwards, span, .. }) => {
                    let backwards = *backwards;
                    let is_open = span.end == End::Never;
                    (*table, if is_open { Shape::OpenWalk { backwards } } else { Shape::Walk { backwards } })
                }
                Lack::Count(table) => (*table, Shape::Count),
            };
            let is_same = |fetch: &Fetch| fetch.table == table && fetch.shape == shape;
            let at = fetches.iter().rposition(is_same).unwrap_or_else(|| {
                fetches.push(Fetch { table, shape, keys: Vec::new(), ranges: Vec::new() });
                fetches.len() - 1
            });
            let fetch = &mut fetches[at];
            match lack {
                Lack::Row(_, key) | Lack::Peek(_, key) => fetch.keys.push(key),
                Lack::Range(_, range) => fetch.ranges.push(range),
                Lack::Count(_) => {}
            }
        }
        fetches
    }

    async fn send(&self, client: &Client, statement: &Statement) -> Result<Vec<Row>, Error> {
        match self.shape {
            Shape::Walk { .. } | Shape::OpenWalk { .. } => {
                let from: Vec<&[u8]> = self.ranges.iter().map(|range| range.span.from.as_slice()).collect();
                let most = self.ranges.iter().map(|range| i64::try_from(range.most).unwrap_or(i64::MAX));
                let most: Vec<i64> = most.collect();
                let ends = self.ranges.iter().filter_map(|range| match &range.span.end {
                    End::Before(end) => Some(end.as_slice()),
                    End::Never => None,
                });
                let ends: Vec<&[u8]> = ends.collect();
                if ends.is_empty() {
                    client.query(statement, &[&from, &most]).await
                } else {
                    client.query(statement, &[&from, &most, &ends]).await
                }
            }
            Shape::Count => client.query(statement, &[]).await,
            _ => client.query(statement, &[&self.keys]).await,
        }
    }

    fn add_to(self, overlay: &mut Overlay, rows: &[Row]) -> Result<(), Error> {
        let pair = |row: &Row, at| Ok::<_, Error>((row.try_get(at)?, row.try_get(at + 1)?));
        match self.shape {
            Shape::Walk { backwards } | Shape::OpenWalk { backwards } => {
                let mut found: Vec<Vec<KeyValue>> = self.ranges.iter().map(|_| Vec::new()).collect();
                for row in rows {
                    let number: i64 = row.try_get(0)?;
                    if let Some(found) = usize::try_from(number - 1).ok().and_then(|at| found.get_mut(at)) {
                        found.push(pair(row, 1)?);
                    }
                }
                for (range, mut found) in self.ranges.iter().zip(found) {
                    // The order of a subquery is not promised for the whole.
                    found.sort_unstable_by(|a, b| if backwards { b.cmp(a) } else { a.cmp(b) });
                    overlay.add_range(self.table, range, found);
                }
            }
            Shape::Count => {
                let count = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
                overlay.add_count(self.table, count.unsigned_abs());
            }
            _ => {
                let found: Result<Vec<KeyValue>, Error> = rows.iter().map(|row| pair(row, 0)).collect();
                overlay.add_rows(self.table, self.keys, found?, self.shape == Shape::Lock);
            }
        }
        Ok(())
    }
}

/// One statement of a write.
pub struct TableWrite<'c> {
    table: Table,
    shape: Shape,
    keys: &'c [Vec<u8>],
    values: Option<&'c [Vec<u8>]>,
}

impl<'c> TableWrite<'c> {
    /// The statements for these changes, in their order.
    pub fn all(changes: &'c [TableChanges]) -> Vec<TableWrite<'c>> {
        let writes = changes.iter().flat_map(|changes| {
            let TableChanges { table, inserts, updates, upserts, removes } = changes;
            let rows = |shape, list: &'c RowList| TableWrite {
                table: *table,
                shape,
                keys: &list.keys,
                values: Some(&list.values),
            };
            [
                rows(Shape::Insert, inserts),
                rows(Shape::Update, updates),
                rows(Shape::Upsert, upserts),
                TableWrite { table: *table, shape: Shape::Remove, keys: removes, values: None },
            ]
        });
        writes.filter(|write| !write.keys.is_empty()).collect()
    }

    async fn send(&self, client: &Client, statement: &Statement) -> Result<(), Error> {
        match &self.values {
            // A statement of a node has more columns.
            Some(values) if statement.params().len() > 2 => {
                let [plan_left, pack_left, held, spent, expired, granted] = amounts(values);
                let parameters: [&(dyn ToSql + Sync); 8] =
                    [&self.keys, values, &plan_left, &pack_left, &held, &spent, &expired, &granted];
                client.execute(statement, &parameters).await
            }
            Some(values) => client.execute(statement, &[&self.keys, values]).await,
            None => client.execute(statement, &[&self.keys]).await,
        }
        .map(|_| ())
    }
}

/// Fetches or writes with their statements.
pub struct Ready<T>(Vec<(T, Statement)>);

/// The prepared statements of a connection.
#[derive(Default)]
pub struct Statements {
    prepared: RefCell<HashMap<(Table, Shape), Statement>>,
    /// The number and the epoch of the node whose columns are written.
    place: Option<(i64, i64)>,
    /// How often statements had to be prepared.
    trips: Cell<u64>,
}

impl Statements {
    /// The statements of a node, which write the columns of [`schema`](crate::schema).
    pub fn for_node(node: i64, epoch: i64) -> Statements {
        Statements { place: Some((node, epoch)), ..Statements::default() }
    }

    /// The number of round trips in which statements were prepared.
    pub fn trips(&self) -> u64 {
        self.trips.get()
    }

    /// Prepares what these fetches need.
    pub async fn fetches(&self, client: &Client, fetches: Vec<Fetch>) -> Result<Ready<Fetch>, Error> {
        self.ready(client, fetches, |fetch| (fetch.table, fetch.shape)).await
    }

    /// Prepares what these writes need.
    pub async fn writes<'c>(
        &self,
        client: &Client,
        writes: Vec<TableWrite<'c>>,
    ) -> Result<Ready<TableWrite<'c>>, Error> {
        self.ready(client, writes, |write| (write.table, write.shape)).await
    }

    async fn ready<T>(
        &self,
        client: &Client,
        items: Vec<T>,
        kind: fn(&T) -> (Table, Shape),
    ) -> Result<Ready<T>, Error> {
        let find = |item: &T| self.prepared.borrow().get(&kind(item)).cloned();
        let missing: Vec<(Table, Shape)> =
            items.iter().filter(|item| find(item).is_none()).map(kind).collect();
        if !missing.is_empty() {
            self.trips.set(self.trips.get() + 1);
            let texts: Vec<String> =
                missing.iter().map(|(table, shape)| shape.text(*table, self.place)).collect();
            let statements = in_order(texts.iter().map(|text| client.prepare(text))).await;
            for (missing, statement) in missing.into_iter().zip(statements) {
                self.prepared.borrow_mut().insert(missing, statement?);
            }
        }
        let ready = items.into_iter().filter_map(|item| {
            let statement = find(&item);
            statement.map(|statement| (item, statement))
        });
        Ok(Ready(ready.collect()))
    }
}

impl Ready<Fetch> {
    /// Sends all fetches at once, and waits for their answers.
    pub async fn send(&self, client: &Client) -> Result<Vec<Vec<Row>>, Error> {
        let sent = self.0.iter().map(|(fetch, statement)| fetch.send(client, statement));
        in_order(sent).await.into_iter().collect()
    }

    /// Adds the answers to the overlay.
    pub fn add_to(self, overlay: &mut Overlay, answers: &[Vec<Row>]) -> Result<(), Error> {
        self.0.into_iter().zip(answers).try_for_each(|((fetch, _), rows)| fetch.add_to(overlay, rows))
    }
}

impl Ready<TableWrite<'_>> {
    /// Sends all writes at once, and waits for their answers. The error is the first one: those after it follow from it.
    pub async fn send(&self, client: &Client) -> Result<(), Error> {
        let sent = self.0.iter().map(|(write, statement)| write.send(client, statement));
        in_order(sent).await.into_iter().collect()
    }
}

/// Waits for all, and polls them in their order: so all have sent their messages, in this order, when this has been polled
/// once. `join_all` does not promise it, and COMMIT must not overtake a write.
async fn in_order<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Pin<Box<MaybeDone<F>>>> =
        futures.into_iter().map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|cx| {
        let mut is_ready = true;
        for future in &mut all {
            is_ready &= future.as_mut().poll(cx).is_ready();
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.iter_mut().filter_map(|future| future.as_mut().take_output()).collect()
}
