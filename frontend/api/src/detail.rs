//! The block `detail` that `detail=full` adds to the answer of a full check.

#[cfg(test)]
use crate::openapi::tests::generator::wire::{DmarcPolicy, EvidenceScope, Grade};
use serde::Serialize;
#[cfg(test)]
use utoipa::ToSchema;

/// Further facts about an address and its domain. Facts from the domain's DNS are null if it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Detail {
    /// The grade of the score: `A` from 90, `B` from 75, `C` from 60, `D` from 40, else `F`; null if the score is null.
    #[cfg_attr(test, schema(inline, value_type = Option<Grade>))]
    pub grade: Option<&'static str>,
    /// The score, from 0 to 100: the sum of these points. The reason: 60 for `mailbox_exists` and `role_account`, 25 for `catch_all`, 15
    /// for `unverifiable`, -40 for `mailbox_not_found` and `mailbox_disabled`, -60 for `disposable` and `invalid_syntax`, -100 for
    /// `spamtrap`. The address: 15 if it is no role address, 5 if its provider is not free. The domain: 5 for SPF, 3 for DMARC, 2 for a
    /// DMARC policy other than `none`, 5 for DKIM, 3 if the first mail host has a PTR record, 2 for BIMI. Null if the mail hosts, SPF or
    /// DMARC of the domain could not be read.
    #[cfg_attr(test, schema(minimum = 0, maximum = 100))]
    pub score: Option<u8>,
    /// The operator of the mailboxes, or of the filter in front of them: `google`, `microsoft`, `yahoo`, `icloud`, `zoho`,
    /// `proton`, `fastmail`, `yandex`, `mailru`, `gmx`, `ionos`, `t-online`, `orange`, `qq`, `netease`, `aliyun`, `naver`, `kakao`,
    /// `proofpoint`, `mimecast`, `barracuda`, `cisco`, `symantec`, `trendmicro`, `trellix`, `sophos`, `hornetsecurity`,
    /// `spamexperts`, `siteground`, `cloudflare`, `godaddy`, `rackspace`, `namecheap`, `hostinger`, `titan`, `ovh`, `gandi`,
    /// `migadu`, `mailbox.org`, `tuta`, `mailgun`, `sendgrid`, `improvmx`, `forwardemail`, or `other`. Null without a mail host,
    /// and if the domain could not be read. New versions can add values.
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub inbox_provider: Option<&'static str>,
    /// Properties of the address.
    pub flags: Flags,
    /// Facts from the domain's DNS.
    pub dns: Option<Dns>,
    /// Why the domain counts as disposable: the public lists that have it, `operator` for the operator's list, or `mail host: ` with the
    /// entry, the date and the source of the table of MX hosts. Absent if the domain does not count as disposable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(required = false))]
    pub disposable_sources: Vec<String>,
    /// The basis of the result; absent if an earlier version of mailprobe has stored the result without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Evidence, required = false))]
    pub evidence: Option<Evidence>,
}

/// The basis of a result. It never has the text of a reply, because many servers repeat addresses in their texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Evidence {
    /// The name of the rule that decided. `unknown` is the rule for servers that say that they do not know the recipient. New versions can add and rename rules.
    pub rule: String,
    /// The subject of the reply: `recipient`, `sender`, `session`, `host`, `site` or `us`; null without a reply.
    #[cfg_attr(test, schema(inline, value_type = Option<EvidenceScope>))]
    pub scope: Option<&'static str>,
    /// The name of the mail host; null if the result rests on no single host.
    pub host: Option<String>,
    /// The reply code (RFC 5321) of the host's reply about the address, or about the nonexistent recipient if that reply leaves the
    /// address `unverifiable`; null without a reply.
    #[cfg_attr(test, schema(minimum = 200, maximum = 599))]
    pub reply_code: Option<u16>,
    /// The enhanced code (RFC 3463) of a refusal; null if the refusal has none.
    pub enhanced_code: Option<String>,
    /// The time of the reply, or of the operator's own bounce or delivery. Without either, and if the result was known already when it
    /// was charged, the time of the answer. ISO 8601 with offset.
    #[cfg_attr(test, schema(format = DateTime))]
    pub observed_at: String,
}

/// Properties of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Flags {
    /// The domain offers free mailboxes to everyone.
    pub free_email: bool,
    /// The local part names a function.
    pub role_account: bool,
    /// The domain belongs to a disposable provider.
    pub disposable: bool,
    /// The domain accepts every recipient.
    pub catch_all: bool,
    /// Whether the mailbox exists; null if that is unknown.
    pub mailbox_exists: Option<bool>,
}

/// Facts from a domain's DNS about its mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Dns {
    /// A mail host of the domain was found. False also if DNS gave no usable answer.
    pub mx: bool,
    /// The mail hosts by preference.
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub mx_hosts: Vec<Box<str>>,
    /// The domain has an SPF record.
    pub spf: bool,
    /// `none`, `quarantine` or `reject`; null without a DMARC record.
    #[cfg_attr(test, schema(inline, value_type = Option<DmarcPolicy>))]
    pub dmarc_policy: Option<&'static str>,
    /// Common DKIM selectors with a key.
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub dkim_selectors: Vec<&'static str>,
    /// The domain has a brand indicator (BIMI).
    pub bimi: bool,
    /// The address of the first mail host has a name (a PTR record).
    pub ptr: bool,
}
