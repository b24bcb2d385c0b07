//! Every bound on what a peer can influence: lengths, counts and times of mail servers, resolvers, proxies and addresses. The
//! comments give the sources of the values or the reasons for them.
//!
//! The last words of a name say what a number counts: bytes or items. A [`Duration`] needs no unit. A test of `tools/xtask` refuses
//! constants named `*_MAX` or `*_LIMIT` elsewhere in the engine.

use std::time::Duration;

// Addresses.

/// Longest local part in bytes: RFC 5321 4.5.3.1.1.
pub const LOCAL_PART_BYTES_MAX: usize = 64;
/// Longest domain in bytes, in A-label form: RFC 5321 4.5.3.1.2, and RFC 1035 2.3.4 without the length byte of the root.
pub const DOMAIN_BYTES_MAX: usize = 253;
/// Longest label in bytes: RFC 1035 2.3.4.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest address in bytes that a path can carry: RFC 5321 4.5.3.1.3 (256 bytes) without the two angle brackets.
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest text in bytes that is read as an address. The limits above count A-labels. A domain in U-labels may take more bytes, up
/// to four for each character.
pub const ADDRESS_INPUT_BYTES_MAX: usize = LOCAL_PART_BYTES_MAX + 1 + 4 * DOMAIN_BYTES_MAX;
/// Longest domain, in characters, that is checked for a typing mistake. Even with two additional letters, the longest well-known
/// domain is shorter.
pub const TYPO_DOMAIN_CHARS_MAX: usize = 32;

const _: () = assert!(ADDRESS_BYTES_MAX == 256 - 2);
const _: () = assert!(LOCAL_PART_BYTES_MAX + 1 + DOMAIN_BYTES_MAX > ADDRESS_BYTES_MAX);

// Replies of mail servers.

/// Longest reply line in bytes, with CRLF. RFC 5321 4.5.3.1.5 says 512; some servers explain themselves at length, so four
/// times as many are accepted. A longer line ends the session.
pub const REPLY_LINE_BYTES_MAX: usize = 2048;
/// Most lines of one reply. EHLO replies of real servers have fewer than 20.
pub const REPLY_LINES_MAX: usize = 100;
/// Longest reply in bytes over all its lines.
pub const REPLY_BYTES_MAX: usize = 16 * 1024;
/// Highest subject of an enhanced status code that RFC 3463 and its registry define. A text with a higher number, such as a
/// version, is not an enhanced status code.
pub const STATUS_SUBJECT_MAX: u16 = 7;
/// Longest interval until a later try that a reply may name. A longer one is ignored: RFC 5321 4.5.4.1 has retries of half an hour
/// and more, and no greylisting lasts for a day.
pub const NAMED_INTERVAL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Size of the buffer for a read if one reply is due, such as that to EHLO. It is small, because a session holds its buffer while
/// it waits, and most sessions of a large list wait.
pub const SESSION_READ_BYTES: usize = 512;
/// Bytes of that buffer for each reply if several are due.
pub const SESSION_READ_BYTES_A_REPLY: usize = 96;
/// Most bytes of one read of a session: the replies to 100 recipients fit into two reads.
pub const SESSION_READ_BYTES_MAX: usize = 4096;
/// Bytes of one read of TLS ciphertext.
pub const TLS_READ_BYTES: usize = 4096;

const _: () = assert!(REPLY_LINE_BYTES_MAX >= 512 && REPLY_LINE_BYTES_MAX <= REPLY_BYTES_MAX);
const _: () = assert!(SESSION_READ_BYTES <= SESSION_READ_BYTES_MAX);

// Times of a session.

/// How long a mail server may take for its greeting. RFC 5321 4.5.3.2.1 says 5 minutes, for a client that holds mail which must
/// not be lost. A probe holds no mail and can return, so it waits for a shorter time.
pub const BANNER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a mail server may take for the replies to EHLO, HELO, STARTTLS and RSET. RFC 5321 names no time for them. They need
/// no look-up at the server, except for the reverse DNS of our address.
pub const EHLO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the TLS handshake may take, with all its round trips.
pub const TLS_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a mail server may take for the reply to MAIL: RFC 5321 4.5.3.2.2 says 5 minutes. Servers look up our domain here
/// (SPF, DNS lists).
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a mail server may take for the reply to one RCPT: RFC 5321 4.5.3.2.3 says 5 minutes. Servers that first ask another
/// server (Postfix `reject_unverified_recipient`: 9 s; Exim callout: 30 s) or that delay unknown clients are faster than this.
pub const RCPT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a TCP connection may take to open: the SYN and four retransmissions (RFC 6298: at 1, 3, 7 and 15 s).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a session waits for more work before it says QUIT.
pub const SESSION_IDLE: Duration = Duration::from_secs(2);
/// How long a session listens for unexpected bytes of the server before it is used again.
pub const SESSION_QUIET: Duration = Duration::from_millis(1);
/// How long a transaction with several recipients may take if one of them is a single check. This is less than for one recipient
/// alone, because the server may hang at a recipient before the single check.
pub const SHARED_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(12);

/// Most recipients in one transaction: RFC 5321 4.5.3.1.8 obliges every server to take 100.
pub const TRANSACTION_RECIPIENTS_MAX: usize = 100;
/// Most bytes of one pipelined group. The group fits into the send buffer of any common host, and its replies into the receive
/// buffer, so neither side blocks the other (RFC 2920 3.1).
pub const GROUP_BYTES_MAX: usize = 32 * 1024;

const _: () = assert!(TRANSACTION_RECIPIENTS_MAX * (ADDRESS_BYTES_MAX + 14) < GROUP_BYTES_MAX);
const _: () = assert!(SHARED_TRANSACTION_TIMEOUT.as_secs() < RCPT_TIMEOUT.as_secs());

/// A reply that comes within this time after the one before is not delayed by a tarpit.
pub const TARPIT_QUICK: Duration = Duration::from_millis(250);
/// A reply that comes this long after the one before may be delayed by a tarpit (Postfix `smtpd_error_sleep_time`: 1 s).
pub const TARPIT_SLOW: Duration = Duration::from_millis(700);
/// Number of quick replies before a server counts as quick. A server that is slow from the start is no tarpit.
pub const TARPIT_QUICK_REPLIES_MIN: u32 = 4;
/// Number of slow replies in a row from a quick server that show a tarpit.
pub const TARPIT_SLOW_REPLIES_MIN: u32 = 2;

// DNS.

/// Longest TXT record in bytes that is kept, with its strings joined. SPF and DMARC records have a few hundred bytes; RFC 7208
/// 3.4 asks for fewer than 512.
pub const DNS_TXT_BYTES_MAX: usize = 4096;
/// Most tags that are read of one DMARC or DKIM record. RFC 7489 6.3 and RFC 6376 3.6.1 define fewer than 12.
pub const TXT_TAGS_MAX: usize = 32;
/// Most records of one kind that are taken from one answer. The rest is ignored.
pub const DNS_RECORDS_MAX: usize = 64;
/// Most CNAMEs that are followed in one answer. Resolvers stop between 8 and 17.
pub const DNS_CNAMES_MAX: usize = 8;
/// UDP payload in bytes that EDNS offers (RFC 6891 6.2.3): what passes without fragments, by DNS Flag Day 2020.
pub const DNS_UDP_PAYLOAD_BYTES: u16 = 1232;
/// Bytes of the buffer for one datagram: more than EDNS lets a resolver send.
pub const DNS_DATAGRAM_BYTES: usize = 2048;
/// Most datagrams that are read from a socket before other sockets are read.
pub const DNS_DATAGRAMS_A_TURN_MAX: usize = 64;
/// Longest message in bytes over TCP: RFC 1035 4.2.2, the most that two length bytes can count.
pub const DNS_TCP_MESSAGE_BYTES_MAX: usize = 65_535;

const _: () = assert!(DNS_DATAGRAM_BYTES >= DNS_UDP_PAYLOAD_BYTES as usize);

/// Number of sockets for the questions to one resolver. Random ports make forged answers harder (RFC 5452 9.2).
pub const DNS_PORTS: usize = 16;
/// Most questions over one socket. Then another socket, with another port, replaces it.
pub const DNS_PORT_USES_MAX: u32 = 2_000;
/// How long one socket is used at most.
pub const DNS_PORT_LIFE: Duration = Duration::from_secs(60);
/// How long a socket is not used after an error.
pub const DNS_PORT_ERROR_PAUSE: Duration = Duration::from_millis(10);

/// How long the first try of a DNS question waits if no round trip was measured, and the longest that a measured
/// retransmission time makes it wait: RFC 6298 2.1. RFC 1536 1 and common stub resolvers begin with this value too.
pub const DNS_TRY_TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest wait of the first try, however short the measured retransmission time is. RFC 6298 2.4 says 1 s, but TCP also
/// notices losses in other ways. If a resolver has to look up a name, this takes some 100 ms.
pub const DNS_TRY_TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// The longest wait of one try, however often it was doubled.
pub const DNS_TRY_TIMEOUT_MAX: Duration = Duration::from_secs(4);
/// How long an answer over TCP may take, including the time to connect.
pub const DNS_TCP_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a DNS question may take in all, from its first datagram.
pub const DNS_TOTAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Number of rounds over all resolvers for one question. Each resolver gets one turn in a round.
pub const DNS_ROUNDS: u32 = 5;
/// After this number of REFUSED replies to one question, a resolver is not asked again. Before that it is, because dnsmasq says
/// REFUSED while it has too many questions under way.
pub const DNS_REFUSALS_MAX: u8 = 4;
/// How long a refused question waits before its resolver is asked again. Each refusal doubles it.
pub const DNS_REFUSAL_PAUSE: Duration = Duration::from_millis(100);
/// Most resolvers that mailprobe uses.
pub const DNS_UPSTREAMS_MAX: usize = 8;
/// Number of lookups in a row without a reply from any resolver that count as an outage. Each takes up to
/// [`DNS_TOTAL_TIMEOUT`] and many run at once, so an outage shows within a minute.
pub const DNS_SILENT_LOOKUPS_MAX: u32 = 3;

const _: () = assert!(DNS_UDP_PAYLOAD_BYTES >= 512, "RFC 6891 6.2.3");
const _: () = assert!(DNS_TRY_TIMEOUT_MIN.as_millis() <= DNS_TRY_TIMEOUT.as_millis());
const _: () = assert!(DNS_TRY_TIMEOUT.as_millis() <= DNS_TRY_TIMEOUT_MAX.as_millis());
const _: () = assert!(DNS_TRY_TIMEOUT_MAX.as_millis() < DNS_TOTAL_TIMEOUT.as_millis());
const _: () = assert!(DNS_TCP_TIMEOUT.as_millis() < DNS_TOTAL_TIMEOUT.as_millis());

/// The window at first: how many questions may be under way at a resolver. Even resolvers for a household take 64 and more.
pub const DNS_WINDOW_INITIAL: u32 = 32;
/// The smallest window in questions: losses do not reduce it further.
pub const DNS_WINDOW_MIN: u32 = 8;
/// The window in questions at which the first slow start ends: below the 150 questions that dnsmasq takes (`dns-forward-max`).
pub const DNS_WINDOW_SLOW_START: u32 = 128;
/// The most questions under way at a resolver. A datagram costs its receiver at least 768 bytes, so the default receive buffer of
/// Linux (212,992 bytes) holds 277 of them.
pub const DNS_WINDOW_MAX: u32 = 256;
/// How long the answer to an earlier try is still awaited after a later try was answered. If it comes in this time, the earlier try
/// was slow and not lost.
pub const DNS_LATE_ANSWER: Duration = Duration::from_millis(50);

const _: () = assert!(DNS_WINDOW_MIN > 0 && DNS_WINDOW_MIN <= DNS_WINDOW_INITIAL);
const _: () = assert!(DNS_WINDOW_INITIAL <= DNS_WINDOW_SLOW_START && DNS_WINDOW_SLOW_START <= DNS_WINDOW_MAX);
const _: () = assert!(DNS_WINDOW_MAX * 768 < 212_992);

/// After this number of names in a row that were denied without proof, the resolvers count as denying everything.
pub const DNS_DENIALS_IN_A_ROW: usize = 20;
/// After this number of names in a row that were answered with proof, the resolvers no longer count as denying everything.
pub const DNS_PROVEN_IN_A_ROW: u32 = 20;
/// If a top-level domain is denied without proof, the resolvers count as denying everything, unless there was an answer with proof
/// within this time before. Such an answer shows that only some names are denied.
pub const DNS_PROVEN_WINDOW: Duration = Duration::from_secs(10);
/// How long the resolvers may be silent after the start before they are asked about our own name. The answer to that is awaited for
/// the same time before a warning names the resolvers.
pub const DNS_START_PATIENCE: Duration = Duration::from_secs(2);
/// Interval between the tests of resolvers that deny everything.
pub const DNS_DENIAL_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a test of resolvers that deny everything waits for answers.
pub const DNS_DENIAL_PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Most names that such a test asks about again. They are those that were denied last.
pub const DNS_DENIED_NAMES_MAX: usize = 7;
/// Most names that are remembered because one resolver denied them without proof and another did not.
pub const DNS_DISPUTED_NAMES_MAX: usize = 256;

/// Shortest lifetime of a positive answer. Otherwise zones with a TTL of 0 would be asked again for each address.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest lifetime of a positive answer. RFC 1035 allows 68 years, and RFC 8767 4 suggests 7 days. The new hosts of a mail service
/// that has moved should be seen within a day.
pub const DNS_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest lifetime of a negative answer: the same domain may occur a thousand times in one list.
pub const DNS_NEGATIVE_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest lifetime of a negative answer: RFC 2308 5 finds one to three hours sensible.
pub const DNS_NEGATIVE_TTL_MAX: Duration = Duration::from_secs(3 * 3600);
/// Lifetime of a failure: RFC 9520 3.2 asks for at least 1 s and allows 5 minutes.
pub const DNS_FAILURE_TTL: Duration = Duration::from_secs(30);
/// Lifetime of a failure that may pass soon: silence, REFUSED or a denial without proof. The second such failure in a row is kept
/// for [`DNS_FAILURE_TTL`].
pub const DNS_SILENCE_TTL: Duration = Duration::from_secs(1);

const _: () = assert!(DNS_TTL_MIN.as_secs() <= DNS_TTL_MAX.as_secs());
const _: () = assert!(DNS_NEGATIVE_TTL_MIN.as_secs() <= DNS_NEGATIVE_TTL_MAX.as_secs());
const _: () = assert!(DNS_NEGATIVE_TTL_MAX.as_secs() <= 3 * 3600, "RFC 2308 5");
const _: () = assert!(DNS_FAILURE_TTL.as_secs() >= 1 && DNS_FAILURE_TTL.as_secs() <= 300, "RFC 9520 3.2");
const _: () = assert!(DNS_SILENCE_TTL.as_secs() >= 1, "RFC 9520 3.2");
const _: () = assert!(DNS_SILENCE_TTL.as_millis() < DNS_FAILURE_TTL.as_millis());

/// How long a fast check waits for DNS. Its walk continues, so the next check of the domain finds the result.
pub const FAST_PATIENCE: Duration = Duration::from_secs(3);
/// How long the look-up of the DNS facts of a domain may take.
pub const FACTS_PATIENCE: Duration = Duration::from_secs(3);
/// Most DNS questions at once for the facts of one domain.
pub const DNS_BURST_MAX: usize = 16;
/// Most inquiries under way. An inquiry is a question that DNS alone answers.
pub const INQUIRIES_MAX: usize = 4096;

const _: () =
    assert!(FAST_PATIENCE.as_millis() > DNS_TRY_TIMEOUT.as_millis(), "one lost datagram is no failure");

// Walks and hosts.

/// Most mail hosts of one domain that are contacted. RFC 5321 4.5.3.1 sets no limit, and 5.1 wants at least two addresses tried.
/// The largest providers list fewer than 10.
pub const MX_HOSTS_MAX: usize = 16;
/// Most addresses of one mail host that are contacted, for each family.
pub const MX_ADDRESSES_MAX: usize = 8;
/// Most routes of a group. A work has one bit for each route.
pub const ROUTES_MAX: usize = u64::BITS as usize;

const _: () = assert!(MX_HOSTS_MAX >= 2 && MX_HOSTS_MAX <= DNS_RECORDS_MAX, "RFC 5321 5.1");
const _: () = assert!(MX_ADDRESSES_MAX >= 2, "RFC 5321 5.1");
const _: () = assert!(ROUTES_MAX >= MX_HOSTS_MAX);

/// How long the result of a walk is kept. It outlives none of its records by more than this.
pub const WALK_TTL: Duration = Duration::from_secs(60);
/// Most results of walks that a shard keeps.
pub const WALKS_MAX: usize = 10_000;
/// Most bytes of all kept results of walks, over all shards.
pub const WALKS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most patient works that wait for one walk. A walk with silent name servers must not fill the engine.
pub const WALK_WAITERS_MAX: usize = 256;
/// Most walks for patient works that may be fresh at the same time. A list brings thousands of domains at once. If all were looked
/// up together, they would take memory and overflow the sockets of the resolver, and no answer would come sooner.
pub const WALKS_FRESH_MAX: usize = 200;
/// How long a walk is fresh after it begins. Older walks do not count, so domains with silent name servers delay no others.
pub const WALK_FRESH: Duration = Duration::from_secs(1);
/// Most bytes of all kept DNS outcomes, over all shards.
pub const DNS_CACHE_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Above this number of bytes for groups, over all shards, idle groups are forgotten at once.
pub const GROUPS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The least bytes that each shard may keep of walks, of DNS outcomes and of groups, however many shards there are.
pub const SHARD_CACHE_BYTES_MIN: usize = 256 * 1024;
/// A group without work is forgotten after this time.
pub const GROUP_IDLE: Duration = Duration::from_secs(120);
/// A group without work is forgotten after this time if nothing was learned about its hosts. This is a little longer than
/// [`SESSION_IDLE`].
pub const GROUP_IDLE_FRESH: Duration = Duration::from_secs(5);

const _: () = assert!(SESSION_IDLE.as_secs() < GROUP_IDLE_FRESH.as_secs());

/// How long a host is not asked after mailprobe could not reach it, or after it refused us.
pub const HOST_DOWN: Duration = Duration::from_secs(60);
/// How long a route is not used after a failure that may pass at once, such as the restart of a server.
pub const HOST_RETRY: Duration = Duration::from_secs(2);
/// Number of connections in a row that fail or end without a reply after which a host counts as down for patient work.
pub const STRIKES_MAX: u8 = 3;
/// Number of sessions in a row that a host ends before any answer for a recipient, after which it counts as down.
pub const HANGUPS_MAX: u8 = 10;
/// Number of sessions in a row that a host ends with a refusal of us, after which it counts as down.
pub const WARNINGS_MAX: u8 = 3;
/// Number of sessions in a row in which a host changes its behaviour, after which it counts as down.
pub const CHANGES_MAX: u8 = 2;
/// How often a work may be put back because the site pushed back, or because a session ended at its recipient. The next time, it is
/// answered with what is known.
pub const RETURNS_MAX: u8 = 4;

/// Number of equal refusals in a row that make a blanket refusal if their words leave no doubt.
pub const BLANKET_CERTAIN_MIN: u8 = 5;
/// Number of equal refusals in a row that make a blanket refusal whatever their words are.
pub const BLANKET_ANY_MIN: u8 = 20;
/// Number of changes from one recipient's domain to another within equal refusals, after which these count for the whole host. A
/// host may refuse a single domain because the owner of that domain wants it. If the name of the host is in the domain itself, no
/// change is needed.
pub const BLANKET_DOMAIN_CHANGES_MIN: u8 = 2;
/// Most domains of equal refusals that are counted for a route, and most domains that a route does not ask about.
pub const BLANKET_DOMAINS_MAX: usize = 16;

const _: () = assert!(BLANKET_CERTAIN_MIN <= BLANKET_ANY_MIN);

// Sites.

/// Number of works that a site admits for each session that it may have: those of a full transaction.
pub const SITE_WORKS_A_SESSION: usize = TRANSACTION_RECIPIENTS_MAX;
/// A site that may have fewer sessions admits as many works as one with this number of sessions.
pub const SITE_SESSIONS_MIN: usize = 10;
/// Number of sites that can fill the engine with patient works: each site gets at most this share of the tickets.
pub const SITES_TO_FILL: usize = 4;
/// How long a new patient work waits for a single try at a site that has pushed back for [`BULK_PATIENCE`]: long enough for the
/// longest pause and the try.
pub const SITE_LAST_TRY: Duration = Duration::from_secs(90);
/// The longest rest or pause that is worth waiting for. Patient works wait for a preferred host that rests for no longer, and do
/// not go to a backup. Single checks wait for a pause of a site that is no longer.
pub const REST_SHORT: Duration = Duration::from_secs(5);
/// A group begins with one session for patient works, and may have one more each time that this number of answers was proven. If a
/// host changes its behaviour, the answers of all open sessions are worthless, so it first has to show that it does not. There is
/// no such limit for trusted operators, or while single checks wait.
pub const PROVEN_ANSWERS_A_SESSION: u32 = 500;
/// Each time this duration has passed, such a group may have one more session, so that a slow server does not have only one session
/// for long.
pub const UNPROVEN_SESSION_AFTER: Duration = Duration::from_secs(2);
/// The longer a group has had open sessions, the fewer waiting works are worth another session: after this time half of the initial
/// number, after twice this time a third, and so on. So slow servers get more sessions.
pub const SLOW_GROUP_AFTER: Duration = Duration::from_secs(10);
/// The initial number of works that are worth another session is divided by no more than this.
pub const SLOW_GROUP_SHARES_MAX: usize = 10;
/// How long a single check waits while all sessions of its group are busy, before another session is opened for it.
pub const STUCK_AFTER: Duration = Duration::from_secs(2);
/// A group with this number of open sessions gets no further one for a slow server or for a stuck single check.
pub const STUCK_SESSIONS_MAX: u32 = 8;
/// How often in a row a waiting class of works may be passed over for a higher class. So at least one work in ten is of a lower
/// class, as long as such works wait.
pub const QUEUE_PASSED_MAX: u8 = 9;

const _: () = assert!(SITE_LAST_TRY.as_secs() > PACE_PAUSE_MAX.as_secs());

/// Most refused recipients in a session at a site of which nothing is known: the hard limit of Postfix (`smtpd_hard_error_limit`).
/// If the ceiling is lower, it applies.
pub const PACE_ERRORS_INITIAL: u32 = 20;
/// Most sessions at once at a site of which nothing is known. If the ceiling is lower, it applies.
pub const PACE_SESSIONS_INITIAL: u32 = 10;
/// Number of answers in a session from which its share of refused recipients can be estimated.
pub const PACE_STRETCH_ANSWERS: u32 = 20;
/// A learned limit is doubled, to see whether it still holds, after it was reached this often.
pub const PACE_TRY_AFTER: u32 = 8;
/// Each time that the limit held after all, that number doubles, up to this maximum.
pub const PACE_TRY_AFTER_MAX: u32 = 256;
/// Shortest wait until a session may start.
pub const PACE_WAIT_MIN: Duration = Duration::from_millis(1);
/// Pause of a site after its first push-back. Each further push-back without a successful transaction in between doubles it.
pub const PACE_PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause of a site that pushes back. The actual pause differs from it at random, by up to a quarter.
pub const PACE_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Shortest pause of a site that says that we are too fast.
pub const PACE_PAUSE_TOO_FAST: Duration = Duration::from_secs(5);
/// The lowest share of the rate of new sessions that remains, however often it was halved.
pub const PACE_SHARE_MIN: f64 = 1.0 / 64.0;
/// The part of the full rate that each successful transaction gives back.
pub const PACE_SHARE_STEP: f64 = 1.0 / 256.0;

const _: () = assert!(PACE_PAUSE_MIN.as_millis() < PACE_PAUSE_MAX.as_millis());

// Proofs.

/// How long the answer for a control recipient counts for its domain.
pub const CONTROL_TTL: Duration = Duration::from_secs(3600);
/// How long it counts for a single check, which cannot wait until the control recipient is refused again.
pub const CONTROL_SINGLE_TTL: Duration = Duration::from_secs(600);
/// Most accepted single checks at a host after a control recipient was refused there. For further ones, a control recipient has to
/// be refused again.
pub const CONTROL_ACCEPTS_MAX: u32 = 15;
/// How long a control recipient is not asked about again after an unclear reply.
pub const CONTROL_UNKNOWN_TTL: Duration = Duration::from_secs(60);
/// How long a control recipient is not asked about again after a transient reply: less than [`crate::retry::SINGLE_RETRY_MIN`].
pub const CONTROL_TRANSIENT_TTL: Duration = Duration::from_secs(4);
/// Number of sessions that end at a control recipient after which the answer for its domain counts as unclear.
pub const CONTROL_ATTEMPTS_MAX: u8 = 3;
/// Most pairs of a domain and a host for which a shard remembers what control recipients have shown.
pub const KNOWN_DOMAINS_MAX: usize = 50_000;
/// If a host refuses this number of single checks in a row, over all its sessions, then the last and each further refusal needs a
/// proof: mailprobe asks about a known mailbox of the host, if there is one.
pub const REFUSALS_SINGLE_MAX: u32 = 6;
/// Most refused single checks in a row in one session that need no proof. This is lower, because several sessions may get refusals
/// at once before a change of the host is noticed.
pub const REFUSALS_SINGLE_SESSION_MAX: u32 = 3;
/// How long after a mailbox was accepted its host counts as one that does not refuse everyone.
pub const KNOWN_MAILBOX_TTL: Duration = Duration::from_secs(3600 + 600);
/// A known mailbox of this age is replaced by the next accepted one. So a host has a known mailbox for at least an hour after
/// its last accept.
pub const KNOWN_MAILBOX_AGE: Duration = Duration::from_secs(600);
/// Most hosts for which a shard remembers a known mailbox.
pub const KNOWN_MAILBOXES_MAX: usize = 4096;
/// Number of answers that the first checkpoint of a session releases.
pub const CHECKPOINT_MIN: u32 = 20;
/// Number of answers that the longest checkpoint releases.
pub const CHECKPOINT_MAX: u32 = 320;
/// Most transactions in which the questions of one checkpoint are asked.
pub const CHECKPOINT_ROUNDS_MAX: usize = 12;
/// Number of short checkpoints in a row that count as a long one if each shows that the same domain accepts everyone.
pub const CATCH_ALL_CHECKPOINTS_MIN: u32 = 3;
/// This number of refusals in a row needs a proof even if the host has no known mailbox.
pub const REFUSALS_IN_A_ROW_MIN: u32 = 12;
/// Some servers end a session after one or two refusals (Postfix under stress: after one), so it cannot be asked afterwards whether
/// the server still accepts mailboxes. If such a refusal came after an accept of the same session, the next session can prove it:
/// it begins with an accept, unless the server has changed. With more refusals than this, the server may have changed in this
/// session alone, so they cannot be proven in this way.
pub const REFUSALS_CARRIED_MAX: u32 = 2;
/// Most domains that a session remembers because one of their recipients was greylisted.
pub const GREYLISTED_DOMAINS_MAX: usize = 20;
/// Most notes of withdrawn evidence that wait until the caller reads them.
pub const WITHDRAWN_MAX: usize = 100_000;

const _: () = assert!(REFUSALS_SINGLE_SESSION_MAX <= REFUSALS_SINGLE_MAX);
const _: () =
    assert!(REFUSALS_IN_A_ROW_MIN <= CHECKPOINT_MIN && REFUSALS_CARRIED_MAX < REFUSALS_IN_A_ROW_MIN);

// Waiting times of addresses.

/// How long a single check may take in all: a caller waits for it.
pub const SINGLE_PATIENCE: Duration = Duration::from_secs(45);
/// How long a row of a batch or list may take in all. It is then answered with what is known. At a site that has pushed back for
/// this time, new rows wait for a single try.
pub const BULK_PATIENCE: Duration = Duration::from_secs(600);
/// Longest interval in a transient reply that a single check waits for, to be asked about once more.
pub const SINGLE_NAMED_INTERVAL_MAX: Duration = Duration::from_secs(30);
/// Longest delay after which DNS is asked again for a single check. If the delay would be longer, the check is answered.
pub const SINGLE_DNS_RETRY_MAX: Duration = Duration::from_secs(8);

const _: () = assert!(SINGLE_NAMED_INTERVAL_MAX.as_secs() < SINGLE_PATIENCE.as_secs());

// Outages.

/// Number of sites that have to be out of reach for an outage. With fewer, the cause is probably the sites.
pub const OUTAGE_SITES_MIN: usize = 10;
/// An outage needs this time without a successful connection. Many failures can come within a moment, because hosts refuse
/// connections at once. A successful connection among them needs more time, for its round trips and retransmissions (RFC 6298: the
/// third SYN leaves after 3 s).
pub const OUTAGE_SILENCE: Duration = Duration::from_secs(5);
/// How long a failed connection counts.
pub const OUTAGE_WINDOW: Duration = Duration::from_secs(60);
/// Interval between the attempts during an outage. Each attempt asks about one address.
pub const OUTAGE_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Number of places in which failures of sites are noted. Two sites with the same place count once.
pub const OUTAGE_SITE_PLACES: usize = 512;

const _: () = assert!(OUTAGE_SILENCE.as_secs() < OUTAGE_WINDOW.as_secs());
const _: () = assert!(CONNECT_TIMEOUT.as_secs() < OUTAGE_WINDOW.as_secs());
const _: () = assert!(OUTAGE_SITES_MIN < OUTAGE_SITE_PLACES);

// Sources and proxies.

/// Most sources of one pool. Each takes some 4 KiB.
pub const SOURCES_MAX: usize = 256;
/// How long a source first rests at a site that blocks it.
pub const SOURCE_REST_MIN: Duration = Duration::from_secs(5 * 60);
/// The longest rest, however often it was doubled.
pub const SOURCE_REST_MAX: Duration = Duration::from_secs(6 * 3600);
/// Most rests that a shard remembers. If there are more, a block counts only for its host, as without a pool of sources.
pub const SOURCE_RESTS_MAX: usize = 20_000;
/// How long a proxy may take for its connection and its login. It is a host of the operator.
pub const PROXY_TIMEOUT: Duration = Duration::from_secs(10);
/// The most addresses of a proxy's name that are tried for a connection.
pub const PROXY_ADDRESSES_MAX: usize = 4;
/// Longest user name or password for a proxy in bytes: RFC 1929 2 counts them in one byte.
pub const SOCKS_CREDENTIAL_BYTES_MAX: usize = 255;
/// Longest reply of a proxy in bytes: to CONNECT, with a name of 255 bytes as the bound address (RFC 1928 6).
pub const SOCKS_REPLY_BYTES_MAX: usize = 4 + 1 + 255 + 2;

const _: () = assert!(SOURCE_REST_MIN.as_secs() < SOURCE_REST_MAX.as_secs());
const _: () = assert!(PROXY_TIMEOUT.as_secs() < CONNECT_TIMEOUT.as_secs());

// Budgets of refused recipients.

/// Refused recipients are counted in steps of this length.
pub const REFUSALS_STEP: Duration = Duration::from_secs(300);
/// Number of steps that count: those of an hour, and the step that has just begun.
pub const REFUSALS_STEPS: usize = 13;
/// If a site accepts more than it refuses, the budget allows at least one refusal for this number of accepts.
pub const REFUSALS_ACCEPTS_SHARE: u32 = 4;
/// Number of cells for the counts of a site and source: one for each of those steps, one for the next step, and one for the step
/// that has just ceased to count.
pub const REFUSALS_CELLS: usize = REFUSALS_STEPS + 2;
/// Number of pairs of a site and a source for which a table of counts has room. A table in memory has room for this number for each
/// shard.
pub const REFUSALS_SITES_MAX: usize = 32_768;
/// Number of shards up to which a table in memory grows.
pub const REFUSALS_SHARDS_MAX: usize = 8;
/// Most runs of mailprobe that can share a table of counts.
pub const REFUSALS_RUNS_MAX: usize = 64;
/// Recipients of the budget that are kept for the questions that prove the answers of a session.
pub const REFUSALS_KEPT_FOR_PROOF: usize = 2;
/// The smallest part of a budget that a node gets if several nodes share an address: one recipient, and those that are kept for
/// proof.
pub const REFUSALS_LEAST: u32 = REFUSALS_KEPT_FOR_PROOF as u32 + 1;

const _: () = assert!(
    REFUSALS_STEP.as_secs() * (REFUSALS_STEPS as u64 - 1) == 3600,
    "a budget is the number of recipients in an hour"
);
