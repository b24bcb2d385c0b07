//! The cases: for each an address, the reply of its server to RCPT, and the expected reason.

/// One address with the expectations about it.
pub struct KnownAddress {
    /// The name for `--only` and the report.
    pub name: &'static str,
    /// The address that is asked about.
    pub address: &'static str,
    /// The reason that mailprobe must give at the first attempt.
    pub reason: &'static str,
    /// The condition which proves, before mailprobe runs, that the servers are as the case expects.
    pub witness: ExpectedWitness,
}

/// An observation by swaks or dig.
pub enum ExpectedWitness {
    /// The server at this address answers RCPT with a reply that begins with this text.
    Rcpt(&'static str, &'static str),
    /// The same without STARTTLS, which the server does not offer or offers without success.
    ClearRcpt(&'static str, &'static str),
    /// The server at this address answers the connection with a reply that begins with this text.
    Banner(&'static str, &'static str),
    /// The resolver answers an MX question for the domain with this status and these words.
    Dns(&'static str, &'static str),
}

use ExpectedWitness::{Banner, ClearRcpt, Dns, Rcpt};

const POSTFIX: &str = "10.77.0.10";
const EXIM: &str = "10.77.0.20";
const OPENSMTPD: &str = "10.77.0.30";

const fn case(
    name: &'static str,
    address: &'static str,
    reason: &'static str,
    witness: ExpectedWitness,
) -> KnownAddress {
    KnownAddress { name, address, reason, witness }
}

/// All cases of the suite, in the order of the report.
pub const CASES: &[KnownAddress] = &[
    case("postfix-existing", "existing@postfix.example", "mailbox_exists", Rcpt(POSTFIX, "250 2.1.5 Ok")),
    case(
        "postfix-missing",
        "missing@postfix.example",
        "mailbox_not_found",
        Rcpt(
            POSTFIX,
            "550 5.1.1 <missing@postfix.example>: Recipient address rejected: User unknown in virtual",
        ),
    ),
    case(
        "postfix-missing-local",
        "missing@postfix-local.example",
        "mailbox_not_found",
        Rcpt(
            POSTFIX,
            "550 5.1.1 <missing@postfix-local.example>: Recipient address rejected: User unknown in local",
        ),
    ),
    case(
        "postfix-existing-local",
        "existing@postfix-local.example",
        "mailbox_exists",
        Rcpt(POSTFIX, "250 2.1.5 Ok"),
    ),
    case(
        "postfix-missing-relay",
        "missing@postfix-relay.example",
        "mailbox_not_found",
        Rcpt(
            POSTFIX,
            "550 5.1.1 <missing@postfix-relay.example>: Recipient address rejected: User unknown in relay",
        ),
    ),
    case("postfix-role", "info@postfix.example", "role_account", Rcpt(POSTFIX, "250 2.1.5 Ok")),
    case("postfix-catchall", "whoever@postfix-catchall.example", "catch_all", Rcpt(POSTFIX, "250 2.1.5 Ok")),
    case(
        "postfix-full",
        "full@postfix.example",
        "inbox_full",
        Rcpt(POSTFIX, "552 5.2.2 <full@postfix.example>"),
    ),
    case(
        "postfix-over",
        "over@postfix.example",
        "inbox_full",
        Rcpt(POSTFIX, "452 4.2.2 <over@postfix.example>"),
    ),
    case(
        "postfix-disabled",
        "disabled@postfix.example",
        "mailbox_disabled",
        Rcpt(POSTFIX, "550 5.2.1 <disabled@postfix.example>"),
    ),
    case(
        "postfix-suspended",
        "suspended@postfix.example",
        "mailbox_disabled",
        Rcpt(POSTFIX, "554 5.2.1 <suspended@postfix.example>"),
    ),
    case(
        "greylisted",
        "existing@greylisted.example",
        "unverifiable",
        Rcpt(POSTFIX, "450 4.2.0 <existing@greylisted"),
    ),
    case(
        "unverified",
        "missing@unverified.example",
        "unverifiable",
        Rcpt(POSTFIX, "450 4.1.1 <missing@unverified.example>: Recipient address rejected: unverified"),
    ),
    case(
        "tempfail",
        "existing@tempfail.example",
        "unverifiable",
        Rcpt(POSTFIX, "451 4.3.5 <existing@tempfail"),
    ),
    case(
        "relay-deferred",
        "existing@elsewhere.example",
        "unverifiable",
        Rcpt(POSTFIX, "454 4.7.1 <existing@elsewhere.example>: Relay access denied"),
    ),
    case(
        "relay-denied",
        "existing@norelay.example",
        "unverifiable",
        Rcpt("10.77.0.16", "554 5.7.1 <existing@norelay.example>: Relay access denied"),
    ),
    case("encrypted", "existing@encrypted.example", "mailbox_exists", Rcpt("10.77.0.11", "250 2.1.5 Ok")),
    case("hangup-existing", "existing@hangup.example", "mailbox_exists", Rcpt("10.77.0.12", "250 2.1.5 Ok")),
    case("hangup-missing", "missing@hangup.example", "mailbox_not_found", Rcpt("10.77.0.12", "550 5.1.1 ")),
    case(
        "blocked",
        "existing@blocked.example",
        "unverifiable",
        Rcpt("10.77.0.13", "554 5.7.1 <probe.example[10.76.0.2]>: Client host rejected"),
    ),
    case(
        "blocklisted",
        "existing@blocklisted.example",
        "unverifiable",
        Rcpt("10.77.0.14", "554 5.7.1 Service unavailable; Client host [10.76.0.2] blocked using"),
    ),
    case("shut", "existing@shut.example", "unverifiable", Banner("10.77.0.15", "554 5.7.1 ")),
    case("exim-existing", "existing@exim.example", "mailbox_exists", Rcpt(EXIM, "250 Accepted")),
    case("exim-missing", "missing@exim.example", "mailbox_not_found", Rcpt(EXIM, "550 Unrouteable address")),
    case("exim-role", "info@exim.example", "role_account", Rcpt(EXIM, "250 Accepted")),
    case("exim-catchall", "whoever@exim-catchall.example", "catch_all", Rcpt(EXIM, "250 Accepted")),
    case("exim-full", "full@exim.example", "inbox_full", Rcpt(EXIM, "552 5.2.2 ")),
    case("exim-over", "over@exim.example", "inbox_full", Rcpt(EXIM, "451 mailbox is over quota")),
    case("exim-disabled", "disabled@exim.example", "mailbox_disabled", Rcpt(EXIM, "550 5.2.1 ")),
    case(
        "exim-relay",
        "existing@exim-elsewhere.example",
        "unverifiable",
        Rcpt(EXIM, "550 relay not permitted"),
    ),
    case(
        "exim-drop-existing",
        "existing@exim-drop.example",
        "mailbox_exists",
        Rcpt("10.77.0.21", "250 Accepted"),
    ),
    case(
        "exim-drop-missing",
        "missing@exim-drop.example",
        "mailbox_not_found",
        Rcpt("10.77.0.21", "550 Unrouteable"),
    ),
    case(
        "opensmtpd-existing",
        "existing@opensmtpd.example",
        "mailbox_exists",
        ClearRcpt(OPENSMTPD, "250 2.1.5 "),
    ),
    // A virtual table without the user has this result, whatever the words.
    case(
        "opensmtpd-missing",
        "missing@opensmtpd.example",
        "mailbox_not_found",
        ClearRcpt(OPENSMTPD, "524 5.2.4 Mailing list expansion problem: <missing@opensmtpd.example>"),
    ),
    case(
        "opensmtpd-missing-local",
        "missing@opensmtpd-local.example",
        "mailbox_not_found",
        ClearRcpt(OPENSMTPD, "550 "),
    ),
    case(
        "opensmtpd-missing-listed",
        "missing@opensmtpd-listed.example",
        "mailbox_not_found",
        ClearRcpt(OPENSMTPD, "550 Invalid recipient: <missing@opensmtpd-listed.example>"),
    ),
    case("opensmtpd-role", "info@opensmtpd.example", "role_account", ClearRcpt(OPENSMTPD, "250 2.1.5 ")),
    case(
        "opensmtpd-catchall",
        "whoever@opensmtpd-catchall.example",
        "catch_all",
        ClearRcpt(OPENSMTPD, "250 2.1.5 "),
    ),
    case("opensmtpd-full", "full@opensmtpd.example", "inbox_full", ClearRcpt(OPENSMTPD, "552 5.2.2 ")),
    case("opensmtpd-over", "over@opensmtpd.example", "inbox_full", ClearRcpt(OPENSMTPD, "452 4.2.2 ")),
    case(
        "opensmtpd-disabled",
        "disabled@opensmtpd.example",
        "mailbox_disabled",
        ClearRcpt(OPENSMTPD, "550 5.2.1 "),
    ),
    case(
        "opensmtpd-broken-tls",
        "existing@brokentls.example",
        "mailbox_exists",
        ClearRcpt("10.77.0.31", "250 2.1.5 "),
    ),
    case("nxdomain", "existing@nosuchdomain.example", "mailbox_not_found", Dns("NXDOMAIN", "")),
    case("null-mx", "existing@nullmx.example", "mailbox_not_found", Dns("NOERROR", "0 .")),
    case("implicit-mx", "existing@implicit.example", "mailbox_exists", Dns("NOERROR", "")),
    case("no-mail-host", "existing@nomail.example", "mailbox_not_found", Dns("NOERROR", "")),
    case(
        "mx-without-address",
        "existing@nohost.example",
        "mailbox_not_found",
        Dns("NOERROR", "mx.nohost.example."),
    ),
    case(
        "dead-first-mx",
        "existing@deadfirst.example",
        "mailbox_exists",
        Dns("NOERROR", "20 mx2.deadfirst.example."),
    ),
    case(
        "silent-first-mx",
        "existing@silentfirst.example",
        "mailbox_exists",
        Dns("NOERROR", "10 mx1.silentfirst"),
    ),
    case("all-mx-dead", "existing@alldead.example", "unverifiable", Dns("NOERROR", "mx1.deadfirst.example.")),
    case("lame-delegation", "existing@lame.example", "unverifiable", Dns("SERVFAIL", "")),
    case("bogus-dnssec", "existing@bogus.example", "unverifiable", Dns("SERVFAIL", "")),
    case("idn", "anna@bücher.example", "mailbox_exists", Dns("NOERROR", "mx.postfix.example.")),
    case("ipv6-only", "existing@ipv6only.example", "mailbox_exists", Rcpt("fd77::10", "250 2.1.5 Ok")),
];
