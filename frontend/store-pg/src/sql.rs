//! Statements for tests of crates that do not depend on the client.

use crate::connect::{Connector, Target};
use crate::database::on_connection;
use store::StoreError;
use tokio_postgres::SimpleQueryMessage;

/// Executes statements on a connection of its own, and returns the rows, whose columns are text. The thread blocks meanwhile.
///
/// # Errors
///
/// The server is away, or refuses a statement.
pub fn execute(target: Target, statements: &str) -> Result<Vec<Vec<String>>, StoreError> {
    let connector = Connector::new(target, false).map_err(StoreError::Failed)?;
    on_connection(&connector, async |client| {
        let messages = client.simple_query(statements).await;
        let messages = messages.map_err(|error| StoreError::Failed(crate::connect::explain(&error)))?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let columns = |row: &tokio_postgres::SimpleQueryRow| {
            (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect()
        };
        Ok(rows.map(columns).collect())
    })
}
