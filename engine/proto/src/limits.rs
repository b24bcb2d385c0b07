//! Every wire limit, timeout and lifetime in one place: default, least, most, and where it comes from.
//!
//! Durations are [`Duration`]; sizes are bytes and counts are items, as the name's last words say.

use std::time::Duration;

/// Longest local part in octets: RFC 5321 4.5.3.1.1.
pub const LOCAL_PART_BYTES_MAX: usize = 64;
/// Longest domain in octets, in A-label form: RFC 5321 4.5.3.1.2 and RFC 1035 2.3.4 less the root's length octet.
pub const DOMAIN_BYTES_MAX: usize = 253;
/// Longest label in octets: RFC 1035 2.3.4.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest address that a path can carry: RFC 5321 4.5.3.1.3 (256 octets) less the two angle brackets.
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest text that is looked at as an address at all. U-labels can take more octets than the A-labels that the
/// limits above count, four a character at most.
pub const ADDRESS_INPUT_BYTES_MAX: usize = LOCAL_PART_BYTES_MAX + 1 + 4 * DOMAIN_BYTES_MAX;

/// Longest reply line that is read, CRLF included. RFC 5321 4.5.3.1.5 says 512; servers that explain themselves
/// at length go over it, so four times that is let pass and anything longer ends the session.
pub const REPLY_LINE_BYTES_MAX: usize = 2048;
/// Most lines of one reply. EHLO replies of real servers have under 20.
pub const REPLY_LINES_MAX: usize = 100;
/// Longest reply over all its lines.
pub const REPLY_BYTES_MAX: usize = 16 * 1024;

const _: () = assert!(REPLY_LINE_BYTES_MAX >= 512 && REPLY_LINE_BYTES_MAX <= REPLY_BYTES_MAX);
const _: () = assert!(ADDRESS_BYTES_MAX == 256 - 2);
const _: () = assert!(LOCAL_PART_BYTES_MAX + 1 + DOMAIN_BYTES_MAX > ADDRESS_BYTES_MAX);

/// How long a recipient's server may take for its greeting. RFC 5321 4.5.3.2.1 says 5 minutes, for a client that
/// holds mail which must not be lost; a probe holds none and can come back, so it gives up far sooner.
pub const BANNER_TIMEOUT: Duration = Duration::from_secs(30);
/// For the answer to EHLO, HELO, STARTTLS and RSET. RFC 5321 names no time for them; they need no look-up at the
/// server, other than the reverse DNS of our address.
pub const EHLO_TIMEOUT: Duration = Duration::from_secs(30);
/// For the TLS handshake, all its round trips together.
pub const TLS_TIMEOUT: Duration = Duration::from_secs(30);
/// For the answer to MAIL: RFC 5321 4.5.3.2.2 says 5 minutes. Servers look up our domain here (SPF, DNS lists).
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(45);
/// For the answer to each RCPT: RFC 5321 4.5.3.2.3 says 5 minutes. A server that asks another one first (Postfix
/// `reject_unverified_recipient`: 9 s; Exim callout: 30 s) or that holds back strangers stays below this.
pub const RCPT_TIMEOUT: Duration = Duration::from_secs(60);
/// For a TCP connection: the SYN and four retransmissions of it (RFC 6298: at 1, 3, 7 and 15 s).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Most recipients in one transaction: RFC 5321 4.5.3.1.8 obliges every server to take 100.
pub const TRANSACTION_RECIPIENTS_MAX: usize = 100;
/// Most bytes of one pipelined group. It fits the send buffer and its replies the receive buffer of any common
/// host, so that neither side ever blocks on the other (RFC 2920 3.1).
pub const GROUP_BYTES_MAX: usize = 32 * 1024;

const _: () = assert!(TRANSACTION_RECIPIENTS_MAX * (ADDRESS_BYTES_MAX + 14) < GROUP_BYTES_MAX);
