//! Lists that were uploaded to the dashboard, and are checked batch by batch.

use super::super::id::{AccountId, ListId};
use super::{BatchCreated, UnixMs};
use api::Reason;
use std::fmt;

/// How long a list is kept, from its making.
pub const LIST_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// Lists of an account at once.
pub const LISTS_MAX: usize = 50;

/// How many bytes the content of lists may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRoom {
    /// Of one account's lists together.
    pub account: u64,
    /// Of all accounts' lists together.
    pub all: u64,
}

impl ListRoom {
    /// No bound.
    pub const MOST: ListRoom = ListRoom { account: u64::MAX, all: u64::MAX };
}

/// What came of the next batch of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOfList {
    /// It is there.
    Made(BatchCreated),
    /// It was there before.
    MadeBefore,
    /// The list does not run any longer.
    Gone,
}

/// What came of making a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMade {
    /// It is made.
    Made,
    /// The account has [`LISTS_MAX`] already, or this one.
    TooMany,
    /// The account's lists have too many bytes.
    AccountFull,
    /// All accounts' lists have too many bytes.
    StoreFull,
}

/// Where a list stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListState {
    /// Its parts are coming.
    Uploading,
    /// All parts are there; it is being looked through.
    Reading,
    /// It is no list that can be checked.
    Unfit,
    /// It waits for somebody to start it.
    Ready,
    /// It is checked.
    Running,
    /// It waits for credits.
    Paused,
    /// Every address has a verdict.
    Completed,
}

/// A list.
#[derive(Clone, PartialEq, Eq)]
pub struct List {
    /// Its id.
    pub id: ListId,
    /// Whose.
    pub account: AccountId,
    /// When it was made.
    pub created_at: UnixMs,
    /// Where it stands.
    pub state: ListState,
    /// The name of the file.
    pub name: String,
    /// The column that holds the addresses, by name or number; empty: it is looked for.
    pub column: String,
    /// Why it is unfit or paused; empty otherwise.
    pub why: String,
    /// Bytes; as long as it is uploading, those that are kept free for it.
    pub bytes: u64,
    /// Rows, without a header.
    pub rows: u64,
    /// Rows with an address; each takes a credit.
    pub addresses: u64,
    /// Addresses that are in batches.
    pub submitted: u64,
    /// Batches whose answers are here.
    pub done: u32,
    /// How often each reason is among them.
    pub counts: Vec<(Reason, u64)>,
}

impl List {
    /// One of which nothing has come yet but the name of its file.
    pub fn new(id: ListId, account: AccountId, created_at: UnixMs, name: String) -> List {
        List {
            id,
            account,
            created_at,
            state: ListState::Uploading,
            name,
            column: String::new(),
            why: String::new(),
            bytes: 0,
            rows: 0,
            addresses: 0,
            submitted: 0,
            done: 0,
            counts: Vec::new(),
        }
    }

    /// Addresses with a verdict.
    pub fn answered(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// When it is gone.
    pub fn expires_at(&self) -> UnixMs {
        self.created_at.saturating_add(LIST_KEEP_MS)
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({}, {:?}, {} of {})", self.id, self.state, self.submitted, self.addresses)
    }
}
