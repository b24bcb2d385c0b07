//! The block that `detail=full` adds to the answer of a full check.

use crate::openapi::wire::{DmarcPolicy, Grade};
use serde::Serialize;
use utoipa::ToSchema;

/// What is known of an address and its domain. What comes from the domain's DNS is null where that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Detail {
    /// The grade that the score makes: `A`, `B`, `C`, `D` or `F`.
    #[schema(inline, value_type = Option<Grade>)]
    pub grade: Option<&'static str>,
    /// From 0 to 100.
    #[schema(minimum = 0, maximum = 100)]
    pub score: Option<u8>,
    /// Who runs the mailboxes or the filter before them, as a slug.
    #[schema(value_type = Option<String>)]
    pub inbox_provider: Option<&'static str>,
    /// What holds of the address.
    pub flags: Flags,
    /// What the domain's DNS says.
    pub dns: Option<Dns>,
}

/// What holds of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Flags {
    /// Anybody may have a mailbox at the domain for nothing.
    pub free_email: bool,
    /// The local part names a function.
    pub role_account: bool,
    /// The domain is a throw-away provider's.
    pub disposable: bool,
    /// The domain accepts every recipient.
    pub catch_all: bool,
    /// Whether there is such a mailbox; null when nobody knows.
    pub mailbox_exists: Option<bool>,
}

/// What a domain's DNS says about its mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Dns {
    /// A host takes the domain's mail.
    pub mx: bool,
    /// The hosts that do, by preference.
    #[schema(value_type = Vec<String>)]
    pub mx_hosts: Vec<Box<str>>,
    /// There is an SPF record.
    pub spf: bool,
    /// `none`, `quarantine` or `reject`; null without a DMARC record.
    #[schema(inline, value_type = Option<DmarcPolicy>)]
    pub dmarc_policy: Option<&'static str>,
    /// Common DKIM selectors that have a key.
    #[schema(value_type = Vec<String>)]
    pub dkim_selectors: Vec<&'static str>,
    /// There is a brand indicator.
    pub bimi: bool,
    /// The address of the first mail host has a name.
    pub ptr: bool,
}
