//! Every wire limit, timeout and lifetime in one place: default, least, most, and where it comes from.
//!
//! Durations are [`Duration`]; sizes are bytes and counts are items, as the name's last words say.

use std::time::Duration;

/// Longest local part in bytes: RFC 5321 4.5.3.1.1.
pub const LOCAL_PART_BYTES_MAX: usize = 64;
/// Longest domain in bytes, in A-label form: RFC 5321 4.5.3.1.2 and RFC 1035 2.3.4 less the root's length byte.
pub const DOMAIN_BYTES_MAX: usize = 253;
/// Longest label in bytes: RFC 1035 2.3.4.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest address that a path can carry: RFC 5321 4.5.3.1.3 (256 bytes) less the two angle brackets.
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest text that is looked at as an address at all. U-labels can take more bytes than the A-labels that the
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

/// Longest TXT record that is kept, its strings joined. SPF and DMARC records have a few hundred bytes; RFC 7208
/// 3.4 asks for under 512.
pub const DNS_TXT_BYTES_MAX: usize = 4096;
/// Most records of one kind that are taken from one answer; what follows is left out.
pub const DNS_RECORDS_MAX: usize = 64;
/// Most CNAMEs that are followed inside one answer. Resolvers stop between 8 and 17.
pub const DNS_CNAMES_MAX: usize = 8;
/// The UDP payload size that EDNS offers (RFC 6891 6.2.3): what passes unfragmented, after DNS Flag Day 2020.
pub const DNS_UDP_PAYLOAD_BYTES: u16 = 1232;
/// Longest message over TCP: RFC 1035 4.2.2, the most that two length bytes count.
pub const DNS_TCP_MESSAGE_BYTES_MAX: usize = 65_535;

/// How long the first try at a DNS question waits while no round trip was measured, and the longest that a measured
/// retransmission time makes it wait: RFC 6298 2.1, and where RFC 1536 1 and every stub resolver start.
pub const DNS_TRY_TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest that a measured retransmission time makes the first try wait. RFC 6298 2.4 says 1 s for TCP, which has other ways to
/// notice a loss; a name that its resolver has to look up takes some 100 ms.
pub const DNS_TRY_TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// The longest that one try waits, however often it was doubled.
pub const DNS_TRY_TIMEOUT_MAX: Duration = Duration::from_secs(4);
/// How long an answer over TCP may take, connecting included.
pub const DNS_TCP_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a DNS question may take altogether, from when it is first sent.
pub const DNS_TOTAL_TIMEOUT: Duration = Duration::from_secs(8);
/// How often each resolver is asked at most, over datagrams that are not answered.
pub const DNS_ROUNDS: u32 = 5;
/// How often a resolver may say REFUSED to one question before that counts as its answer: dnsmasq says so while too many
/// questions are under way.
pub const DNS_REFUSALS_MAX: u8 = 4;
/// How long a question that was refused waits before its resolver is asked again; doubled with each refusal.
pub const DNS_REFUSAL_PAUSE: Duration = Duration::from_millis(100);
/// Most resolvers of which a lookup makes use.
pub const DNS_UPSTREAMS_MAX: usize = 8;
/// So many lookups in a row without a word from any resolver count as an outage. Each took up to
/// [`DNS_TOTAL_TIMEOUT`], many at once, so that it shows well within a minute.
pub const DNS_SILENT_LOOKUPS_MAX: u32 = 3;

const _: () = assert!(DNS_UDP_PAYLOAD_BYTES >= 512, "RFC 6891 6.2.3");
const _: () = assert!(DNS_TRY_TIMEOUT_MIN.as_millis() <= DNS_TRY_TIMEOUT.as_millis());
const _: () = assert!(DNS_TRY_TIMEOUT.as_millis() <= DNS_TRY_TIMEOUT_MAX.as_millis());
const _: () = assert!(DNS_TRY_TIMEOUT_MAX.as_millis() < DNS_TOTAL_TIMEOUT.as_millis());
const _: () = assert!(DNS_TCP_TIMEOUT.as_millis() < DNS_TOTAL_TIMEOUT.as_millis());

/// Questions that may be under way at a resolver at first. Resolvers that serve a household take 64 and more.
pub const DNS_WINDOW_INITIAL: u32 = 32;
/// The least that losses reduce the window to.
pub const DNS_WINDOW_MIN: u32 = 8;
/// Where the first slow start ends: below the 150 questions that dnsmasq takes (`dns-forward-max`).
pub const DNS_WINDOW_SLOW_START: u32 = 128;
/// The most questions under way at a resolver. A datagram costs its receiver at least 768 bytes, so that Linux's default receive
/// buffer of 212,992 bytes holds 277 of them.
pub const DNS_WINDOW_MAX: u32 = 256;
/// How long the late answer to an earlier try is awaited after a later one was answered: when it comes, the earlier one was
/// slow and not lost.
pub const DNS_LATE_ANSWER: Duration = Duration::from_millis(50);

const _: () = assert!(DNS_WINDOW_MIN > 0 && DNS_WINDOW_MIN <= DNS_WINDOW_INITIAL);
const _: () = assert!(DNS_WINDOW_INITIAL <= DNS_WINDOW_SLOW_START && DNS_WINDOW_SLOW_START <= DNS_WINDOW_MAX);
const _: () = assert!(DNS_WINDOW_MAX * 768 < 212_992);

/// So many names in a row that were denied without proof count as a resolver that denies everything.
pub const DNS_DENIALS_IN_A_ROW: usize = 20;
/// So many names in a row that were answered with proof end that.
pub const DNS_HONEST_IN_A_ROW: u32 = 20;
/// A top-level domain that is denied without proof counts as a resolver that denies everything, unless it has answered with
/// proof within this time: then it denies a part.
pub const DNS_HONEST_WINDOW: Duration = Duration::from_secs(10);
/// How often a resolver that denies everything is asked whether it still does.
pub const DNS_DENIAL_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer to that question is awaited.
pub const DNS_DENIAL_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest lifetime of a positive answer. Zones with a TTL of 0 would be asked once an address.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest lifetime of a positive answer. RFC 1035 allows 68 years, RFC 8767 4 suggests 7 days; a moved mail
/// service should be seen within a day.
pub const DNS_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest lifetime of a negative answer: the same domain comes a thousand times in one list.
pub const DNS_NEGATIVE_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest lifetime of a negative answer: RFC 2308 5 finds one to three hours sensible.
pub const DNS_NEGATIVE_TTL_MAX: Duration = Duration::from_secs(3 * 3600);
/// Lifetime of a failure: RFC 9520 3.2 asks for 1 s at least and allows 5 minutes.
pub const DNS_FAILURE_TTL: Duration = Duration::from_secs(30);
/// Lifetime of a failure that may be a loss or a moment's load: silence, REFUSED, a denial without proof. What ends so again
/// lives as long as any failure.
pub const DNS_SILENCE_TTL: Duration = Duration::from_secs(1);

const _: () = assert!(DNS_TTL_MIN.as_secs() <= DNS_TTL_MAX.as_secs());
const _: () = assert!(DNS_NEGATIVE_TTL_MIN.as_secs() <= DNS_NEGATIVE_TTL_MAX.as_secs());
const _: () = assert!(DNS_NEGATIVE_TTL_MAX.as_secs() <= 3 * 3600, "RFC 2308 5");
const _: () = assert!(DNS_FAILURE_TTL.as_secs() >= 1 && DNS_FAILURE_TTL.as_secs() <= 300, "RFC 9520 3.2");
const _: () = assert!(DNS_SILENCE_TTL.as_secs() >= 1, "RFC 9520 3.2");
const _: () = assert!(DNS_SILENCE_TTL.as_millis() < DNS_FAILURE_TTL.as_millis());

/// Most mail hosts of one domain that are contacted. RFC 5321 4.5.3.1 leaves it open and 5.1 wants two addresses
/// tried at least; the largest providers list under 10.
pub const MX_HOSTS_MAX: usize = 16;
/// Most addresses of one mail host that are contacted, for each family.
pub const MX_ADDRESSES_MAX: usize = 8;

const _: () = assert!(MX_HOSTS_MAX >= 2 && MX_HOSTS_MAX <= DNS_RECORDS_MAX, "RFC 5321 5.1");
const _: () = assert!(MX_ADDRESSES_MAX >= 2, "RFC 5321 5.1");

/// How long a control recipient's answer speaks for its domain.
pub const CONTROL_TTL: Duration = Duration::from_secs(3600);
/// How long it speaks for the domain where somebody waits for the answer and no later refusal can be waited for.
pub const CONTROL_SINGLE_TTL: Duration = Duration::from_secs(600);
/// So many accepts of a host are believed then before a control recipient is asked again.
pub const CONTROL_ACCEPTS_MAX: u32 = 15;
/// So many single checks in a row may be refused at a host with a known mailbox before that is asked about.
pub const REFUSALS_SINGLE_MAX: u32 = 6;
/// And so many by one session: several sessions may be refused at a time before the host is seen to have changed.
pub const REFUSALS_SINGLE_SESSION_MAX: u32 = 3;
const _: () = assert!(REFUSALS_SINGLE_SESSION_MAX <= REFUSALS_SINGLE_MAX);
/// How long a mailbox that was accepted shows that its host still accepts anybody.
pub const KNOWN_MAILBOX_TTL: Duration = Duration::from_secs(3600 + 600);
/// A known mailbox of this age is replaced by the next one that is accepted. So a host has a known mailbox for at least an
/// hour after its last accept.
pub const KNOWN_MAILBOX_AGE: Duration = Duration::from_secs(600);
/// Most hosts of which a shard knows such a mailbox.
pub const KNOWN_MAILBOXES_MAX: usize = 4096;
/// So many sessions in a row in which a host changed its behaviour, and it rests.
pub const CHANGES_MAX: u8 = 2;
/// How long a control recipient that gave no clear answer is not asked again.
pub const CONTROL_UNKNOWN_TTL: Duration = Duration::from_secs(60);
/// A single check is asked about once more 5 to 8 s after a transient reply: Postfix's postscreen and its verification of
/// recipients have an answer by then.
pub const SINGLE_RETRY_MIN: Duration = Duration::from_secs(5);
/// How long a control recipient that met a transient reply is not asked again: shorter than the time after which the address
/// is asked about once more.
pub const CONTROL_TRANSIENT_TTL: Duration = Duration::from_secs(4);
const _: () = assert!(CONTROL_TRANSIENT_TTL.as_millis() < SINGLE_RETRY_MIN.as_millis());
/// How many sessions may end at a control recipient before its domain counts as unclear.
pub const CONTROL_ATTEMPTS_MAX: u8 = 3;
/// Most domains that a shard remembers control recipients of.
pub const KNOWN_DOMAINS_MAX: usize = 50_000;
/// How often a recipient may be put back, by throttling or by sessions that ended at it, before it is given up.
pub const RETURNS_MAX: u8 = 4;
/// Connections in a row that may die without a word before a host counts as down for patient work.
pub const STRIKES_MAX: u8 = 3;
/// How long a session waits for more work before it says QUIT.
pub const SESSION_IDLE: Duration = Duration::from_secs(2);

/// How long a single check may take in all; somebody waits for it.
pub const SINGLE_PATIENCE: Duration = Duration::from_secs(45);
/// So many sites that could not be reached make an outage of ours: with fewer it is theirs.
pub const OUTAGE_SITES_MIN: usize = 10;
/// How long nobody at all must have been reached. Hosts that refuse do so at once: the first connection that succeeds
/// among theirs has to be given its round trips and retransmissions (RFC 6298: the third SYN goes out after 3 s).
pub const OUTAGE_SILENCE: Duration = Duration::from_secs(5);
/// How long a failure counts.
pub const OUTAGE_WINDOW: Duration = Duration::from_secs(60);
/// How often an address is asked about while nobody can be reached.
pub const OUTAGE_PROBE_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(OUTAGE_SILENCE.as_secs() < OUTAGE_WINDOW.as_secs());
const _: () = assert!(CONNECT_TIMEOUT.as_secs() < OUTAGE_WINDOW.as_secs());

/// How long a fast check waits for DNS. Its walk goes on, so that the next one about the domain finds it done.
pub const FAST_PATIENCE: Duration = Duration::from_secs(3);
/// How long the DNS facts of a domain may take to gather.
pub const FACTS_PATIENCE: Duration = Duration::from_secs(3);
/// Most DNS questions that are asked at once for the facts of one domain.
pub const DNS_BURST_MAX: usize = 16;
/// Most questions under way that DNS alone answers.
pub const INQUIRIES_MAX: usize = 4096;

const _: () = assert!(FAST_PATIENCE.as_millis() > DNS_TRY_TIMEOUT.as_millis(), "one lost datagram is borne");

/// How long a row of a batch or a line of a list may take while its site throttles us.
pub const BULK_PATIENCE: Duration = Duration::from_secs(600);

/// How long the way to a domain's hosts is kept. It is made of records that hold for [`DNS_TTL_MIN`] at least, so
/// it outlives none of them by more than this.
pub const WALK_TTL: Duration = Duration::from_secs(60);
/// Most ways to hosts that a shard keeps.
pub const WALKS_MAX: usize = 10_000;
/// Most bytes that all those ways take, over all shards.
pub const WALKS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes that the DNS outcomes take that are kept, over all shards.
pub const DNS_CACHE_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Bytes that all that is known of hosts takes before what is idle is forgotten at once, over all shards.
pub const GROUPS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The least that a shard may keep of each of the three, however many shards there are.
pub const SHARD_CACHE_BYTES_MIN: usize = 256 * 1024;

/// Most sources of one pool; each keeps some 4 KiB.
pub const SOURCES_MAX: usize = 256;
/// How long a source first rests at a site that blocks it.
pub const SOURCE_REST_MIN: Duration = Duration::from_secs(5 * 60);
/// The longest that it rests, however often that was doubled.
pub const SOURCE_REST_MAX: Duration = Duration::from_secs(6 * 3600);
/// Most rests that a shard remembers; beyond, a block counts for the host alone, as without a pool.
pub const SOURCE_RESTS_MAX: usize = 20_000;
/// How long a proxy may take to let itself be connected to and to hear who we are. It is a host of the operator's.
pub const PROXY_TIMEOUT: Duration = Duration::from_secs(10);

const _: () = assert!(SOURCE_REST_MIN.as_secs() < SOURCE_REST_MAX.as_secs());
const _: () = assert!(PROXY_TIMEOUT.as_secs() < CONNECT_TIMEOUT.as_secs());

/// The counts of refused recipients are kept in steps of this length.
pub const REFUSALS_STEP: Duration = Duration::from_secs(300);
/// So many steps count: an hour, and the one that has begun.
pub const REFUSALS_STEPS: usize = 13;
/// Where accepts outweigh refusals, one refusal for so many accepts is within the budget.
pub const REFUSALS_ACCEPTS_SHARE: u32 = 4;
/// Most sites of which a shard keeps counts of refusals.
pub const REFUSALS_SITES_MAX: usize = 20_000;

const _: () =
    assert!(REFUSALS_STEP.as_secs() * (REFUSALS_STEPS as u64 - 1) == 3600, "a budget is of an hour");
