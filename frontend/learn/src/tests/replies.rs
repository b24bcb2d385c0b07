//! Refusals as servers word them, with their meaning. `{}` is the address.

use crate::{Bounce, Cause, Meaning};

/// A refusal with its true meaning.
pub(super) struct Refusal {
    pub meaning: Meaning,
    pub status: &'static str,
    /// The reply; the first three characters of each line are its code.
    pub reply: &'static str,
    pub host: &'static str,
}

const fn refusal(meaning: Meaning, status: &'static str, reply: &'static str, host: &'static str) -> Refusal {
    Refusal { meaning, status, reply, host }
}

const NOT_FOUND: Meaning = Meaning::Definite(Bounce::NotFound);
const DISABLED: Meaning = Meaning::Definite(Bounce::Disabled);
const DEAD: Meaning = Meaning::Definite(Bounce::DomainDead);
const FULL: Meaning = Meaning::Failed(Cause::Full);
const POLICY: Meaning = Meaning::Failed(Cause::Policy);
const TEMPORARY: Meaning = Meaning::Failed(Cause::Temporary);
const MESSAGE: Meaning = Meaning::Failed(Cause::Message);

const GMAIL: &str = "gmail-smtp-in.l.google.com";
const M365: &str = "example-com.mail.protection.outlook.com";
const YAHOO: &str = "mta5.am0.yahoodns.net";
const ANY: &str = "mx.example.com";

pub(super) const REFUSALS: &[Refusal] = &[
    // The mailbox does not exist.
    refusal(
        NOT_FOUND,
        "5.1.1",
        "550-5.1.1 The email account that you tried to reach does not exist. Please try\n550-5.1.1 double-checking the recipient's \
         email address for typos or\n550-5.1.1 unnecessary spaces. For more information, go to\n550 5.1.1  \
         https://support.google.com/mail/?p=NoSuchUser a1-20020 - gsmtp",
        GMAIL,
    ),
    refusal(
        NOT_FOUND,
        "5.1.10",
        "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient {} not found by SMTP address lookup",
        M365,
    ),
    refusal(
        NOT_FOUND,
        "5.4.1",
        "550 5.4.1 Recipient address rejected: Access denied. [AM6EUR05FT032.eop-eur05.prod.protection.outlook.com]",
        M365,
    ),
    refusal(
        NOT_FOUND,
        "5.0.0",
        "554 delivery error: dd This user doesn't have a yahoo.com account ({}) [0] - mta4",
        YAHOO,
    ),
    refusal(
        NOT_FOUND,
        "5.1.1",
        "550 5.1.1 <{}>: Recipient address rejected: User unknown in virtual mailbox table",
        ANY,
    ),
    refusal(
        NOT_FOUND,
        "5.1.1",
        "550 5.1.1 <{}>: Recipient address rejected: User unknown in local recipient table",
        ANY,
    ),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 <{}>... User unknown", ANY),
    refusal(NOT_FOUND, "5.0.0", "550 No such user here", ANY),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 unknown or illegal alias: {}", "mx01.mail.icloud.com"),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 sorry, no mailbox here by that name (#5.1.1)", ANY),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 user unknown", "mx.zoho.com"),
    refusal(NOT_FOUND, "5.1.1", "553 5.1.1 Unbekannter Empf\u{e4}nger: Der Benutzer existiert nicht", ANY),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 El usuario no existe", ANY),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 Adresse inconnue: cet utilisateur n'existe pas", ANY),
    refusal(
        NOT_FOUND,
        "5.1.1",
        "550 5.1.1 <{}>: Email address could not be found, or was misspelled (G8)",
        "mx1.emailsrvr.com",
    ),
    refusal(
        NOT_FOUND,
        "5.1.1",
        "550 #5.1.1 The email address you entered couldn't be found. Please check the recipient's email address and try to resend the message.",
        ANY,
    ),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 RCPT TO: <{}> is not a valid mailbox", ANY),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 Mailbox does not exist!", ANY),
    refusal(NOT_FOUND, "5.1.1", "550 5.1.1 unrouteable address", ANY),
    refusal(NOT_FOUND, "5.1.6", "550 5.1.6 recipient no longer on server: {}", "mx01.mail.icloud.com"),
    // The mailbox is disabled.
    refusal(
        DISABLED,
        "5.2.1",
        "550-5.2.1 The email account that you tried to reach is disabled. For more\n550-5.2.1 information, go to\n550 5.2.1  \
         https://support.google.com/mail/?p=DisabledUser a1-2 - gsmtp",
        GMAIL,
    ),
    refusal(DISABLED, "5.2.1", "550 5.2.1 Mailbox cannot be accessed", M365),
    refusal(DISABLED, "5.2.1", "550 5.2.1 <{}>: this account has been disabled", ANY),
    refusal(DISABLED, "5.1.1", "550 5.1.1 <{}>: inactive email address", "mx01.mail.icloud.com"),
    // The domain takes no mail.
    refusal(
        DEAD,
        "5.1.2",
        "553 5.1.2 We weren't able to find the recipient domain. Please check for any spelling errors",
        GMAIL,
    ),
    refusal(DEAD, "5.1.10", "556 5.1.10 Domain does not accept mail (nullMX)", ANY),
    // The mailbox is full.
    refusal(
        FULL,
        "5.2.2",
        "552-5.2.2 The email account that you tried to reach is over quota. Please direct\n552-5.2.2 the recipient to\n552 5.2.2  https://support.google.com/mail/?p=OverQuotaPerm c1-2 - gsmtp",
        GMAIL,
    ),
    refusal(FULL, "4.2.2", "452 4.2.2 <{}>: mailbox full", ANY),
    refusal(FULL, "5.2.2", "554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException", M365),
    refusal(FULL, "5.1.1", "552 5.1.1 <{}> Quota exceeded (mailbox for user is full)", ANY),
    // Policy, reputation and spam, also with a status that says another thing.
    refusal(POLICY, "5.7.1", "550 5.7.1 Message rejected as spam by Content Filtering.", ANY),
    refusal(
        POLICY,
        "5.7.1",
        "550-5.7.1 [192.0.2.1] Our system has detected an unusual rate of unsolicited mail\n550 5.7.1 originating from your IP address.",
        GMAIL,
    ),
    refusal(
        POLICY,
        "5.7.26",
        "550-5.7.26 This mail has been blocked because the sender is unauthenticated.\n550 5.7.26 Gmail requires all senders to authenticate with either SPF or DKIM.",
        GMAIL,
    ),
    refusal(
        POLICY,
        "5.7.606",
        "550 5.7.606 Access denied, banned sending IP [192.0.2.1]. To request removal from this list please visit https://sender.office.com/",
        M365,
    ),
    refusal(
        POLICY,
        "5.7.1",
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org",
        ANY,
    ),
    refusal(POLICY, "5.1.1", "550 5.1.1 Blocked by our spam policy", ANY),
    refusal(POLICY, "5.0.0", "550 High probability of spam", ANY),
    refusal(
        POLICY,
        "5.0.0",
        "554 Message not allowed - [PH01] Email not accepted for policy reasons.",
        YAHOO,
    ),
    refusal(
        POLICY,
        "5.1.8",
        "550 5.1.8 <news@sender.example>: Sender address rejected: Domain not found",
        ANY,
    ),
    refusal(POLICY, "5.7.1", "554 5.7.1 <{}>: Relay access denied", ANY),
    refusal(
        POLICY,
        "5.7.133",
        "550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required; Delivery restriction check failed because the sender was not authenticated when sending to this group",
        M365,
    ),
    refusal(
        POLICY,
        "5.7.1",
        "550 5.7.1 Your email was rejected because it appears to be a phishing message",
        ANY,
    ),
    refusal(
        POLICY,
        "5.7.1",
        "550 5.7.1 Unauthenticated email from sender.example is not accepted due to domain's DMARC policy",
        ANY,
    ),
    refusal(POLICY, "5.3.0", "553 5.3.0 <{}>... Mail from 192.0.2.1 refused, see http://dnsbl.example", ANY),
    refusal(
        POLICY,
        "5.2.1",
        "550 5.2.1 mail from <news@sender.example> refused: message rejected due to local policy",
        ANY,
    ),
    // The sending server gave up, or the server was too busy.
    refusal(
        TEMPORARY,
        "4.7.1",
        "450 4.7.1 <{}>: Recipient address rejected: Greylisted, see http://postgrey.example/",
        ANY,
    ),
    refusal(TEMPORARY, "4.3.1", "452 4.3.1 Insufficient system storage", ANY),
    refusal(
        TEMPORARY,
        "4.2.1",
        "450-4.2.1 The user you are trying to contact is receiving mail at a rate that\n450-4.2.1 prevents additional messages from being delivered.\n450 4.2.1 Please resend your message at a later time.",
        GMAIL,
    ),
    refusal(TEMPORARY, "4.4.7", "451 4.4.7 Message expired", ANY),
    refusal(
        TEMPORARY,
        "4.1.1",
        "450 4.1.1 <{}>: Recipient address rejected: unverified address: Address verification in progress",
        ANY,
    ),
    // The message.
    refusal(MESSAGE, "5.3.4", "552 5.3.4 Message size exceeds fixed limit", ANY),
    refusal(MESSAGE, "5.2.3", "550 5.2.3 Message exceeds the maximum size for this recipient", ANY),
];
