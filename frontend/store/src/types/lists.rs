//! Lists that were uploaded to the dashboard, and are checked in batches.

use super::super::id::{AccountId, ListId};
use super::{BatchCreated, UnixMs};
use api::Reason;
use std::fmt;

/// How long a list is kept after its creation, in milliseconds.
pub const LIST_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// The largest number of lists of an account.
pub const LISTS_MAX: usize = 50;

/// Limits on the bytes of the contents of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRoom {
    /// The limit for the lists of one account.
    pub account: u64,
    /// The limit for the lists of all accounts.
    pub all: u64,
}

impl ListRoom {
    /// No limit on the bytes.
    pub const MOST: ListRoom = ListRoom { account: u64::MAX, all: u64::MAX };
}

/// The result of creating the next batch of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOfList {
    /// The batch was created.
    Made(BatchCreated),
    /// The batch already existed.
    MadeBefore,
    /// The list is not running any longer.
    Gone,
}

/// The result of creating a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMade {
    /// The list was created.
    Made,
    /// The account already has [`LISTS_MAX`] lists, or this one.
    TooMany,
    /// The lists of the account would exceed their limit of bytes.
    AccountFull,
    /// The lists of all accounts would exceed their limit of bytes.
    StoreFull,
}

/// The state of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListState {
    /// Its parts are being uploaded.
    Uploading,
    /// All parts are stored; the list is being read.
    Reading,
    /// The list cannot be checked.
    Unfit,
    /// The list waits for its owner to start it.
    Ready,
    /// The list is being checked.
    Running,
    /// The list waits for credits.
    Paused,
    /// Every address has a verdict.
    Completed,
}

/// A list of the dashboard with its progress.
#[derive(Clone, PartialEq, Eq)]
pub struct List {
    /// The id of the list.
    pub id: ListId,
    /// The account of the list.
    pub account: AccountId,
    /// The time of creation.
    pub created_at: UnixMs,
    /// The state of the list.
    pub state: ListState,
    /// The name of the file.
    pub name: String,
    /// The column with the addresses, by name or number; empty if the program must find it.
    pub column: String,
    /// The reason why it is unfit or paused; otherwise empty.
    pub why: String,
    /// The size in bytes; during the upload, the reserved size.
    pub bytes: u64,
    /// The number of rows without the header.
    pub rows: u64,
    /// The number of rows with an address; each costs a credit.
    pub addresses: u64,
    /// The number of addresses in batches.
    pub submitted: u64,
    /// The number of batches with stored answers.
    pub done: u32,
    /// How often each reason occurs in the answers.
    pub counts: Vec<(Reason, u64)>,
}

impl List {
    /// A list before its upload, of which only the name of the file is known.
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

    /// The number of addresses with a verdict.
    pub fn answered(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The time at which the list expires.
    pub fn expires_at(&self) -> UnixMs {
        self.created_at.saturating_add(LIST_KEEP_MS)
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({}, {:?}, {} of {})", self.id, self.state, self.submitted, self.addresses)
    }
}

/// The lists of one of several nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedLists {
    /// All that the node has.
    pub own: Vec<ListId>,
    /// Those that it did not have at the last call.
    pub new: Vec<ListId>,
}
