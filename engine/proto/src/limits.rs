//! Every bound on what a peer can influence: lengths, counts and times of mail servers, resolvers, proxies and addresses. The
//! comments give the sources of the values or the reasons for them. docs/glossary.md explains the words of the engine, such as
//! site, route, walk and work.
//!
//! Most names say what the number counts, before `_MAX` or `_MIN`: bytes, or items of a kind. A [`Duration`] needs no unit. A test
//! of `tools/xtask` refuses constants named `*_MAX` or `*_LIMIT` elsewhere in the engine, except two that no peer influences.

use std::time::Duration;

// Addresses.

/// Longest local part in bytes: RFC 5321 4.5.3.1.1.
pub const LOCAL_PART_BYTES_MAX: usize = 64;
/// Longest domain in bytes, in A-label form: RFC 5321 4.5.3.1.2, and RFC 1035 2.3.4 (255 bytes) without the length bytes of the
/// first label and of the root.
pub const DOMAIN_BYTES_MAX: usize = 253;
/// Longest label in bytes: RFC 1035 2.3.4.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest address in bytes that a path can carry: RFC 5321 4.5.3.1.3 (256 bytes) without the two angle brackets.
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest text in bytes that is read as an address. The limits above are for A-labels, and a domain in U-labels may have more
/// bytes: up to four for each character.
pub const ADDRESS_INPUT_BYTES_MAX: usize = LOCAL_PART_BYTES_MAX + 1 + 4 * DOMAIN_BYTES_MAX;
/// Longest domain, in characters, that is checked for a typing mistake. The longest well-known domain is shorter, even with two
/// additional letters.
pub const TYPO_DOMAIN_CHARS_MAX: usize = 32;

const _: () = assert!(ADDRESS_BYTES_MAX == 256 - 2);
const _: () = assert!(LOCAL_PART_BYTES_MAX + 1 + DOMAIN_BYTES_MAX > ADDRESS_BYTES_MAX);

// Replies of mail servers.

/// Longest reply line in bytes, with CRLF. RFC 5321 4.5.3.1.5 says 512, but some servers explain themselves at length, so four
/// times as many are accepted. A longer line ends the session.
pub const REPLY_LINE_BYTES_MAX: usize = 2048;
/// The largest number of lines of one reply. EHLO replies of real servers have fewer than 20.
pub const REPLY_LINES_MAX: usize = 100;
/// Longest text of a reply in bytes, over all its lines. The reply codes and the line ends are not counted.
pub const REPLY_BYTES_MAX: usize = 16 * 1024;
/// Highest subject of an enhanced status code that RFC 3463 and its registry define. A text with a higher number, such as a
/// version, is not an enhanced status code.
pub const STATUS_SUBJECT_MAX: u16 = 7;
/// Longest retry interval that mailprobe believes if a reply names it. Senders try again after half an hour or more (RFC 5321
/// 4.5.4.1), and no greylisting lasts for a day.
pub const NAMED_INTERVAL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Size of the buffer for a read if one reply is due, such as that to EHLO. The buffer is small, because a session holds its buffer
/// while it waits, and most sessions of a large list wait.
pub const SESSION_READ_BYTES: usize = 512;
/// If several replies are due, the buffer for a read has this size for each of them.
pub const SESSION_READ_BYTES_A_REPLY: usize = 96;
/// The largest number of bytes of one read of a session. The replies to 100 recipients usually fit into one or two reads.
pub const SESSION_READ_BYTES_MAX: usize = 4096;
/// Bytes of one read of TLS ciphertext.
pub const TLS_READ_BYTES: usize = 4096;

const _: () = assert!(REPLY_LINE_BYTES_MAX >= 512 && REPLY_LINE_BYTES_MAX <= REPLY_BYTES_MAX);
const _: () = assert!(SESSION_READ_BYTES <= SESSION_READ_BYTES_MAX);

// Times of a session.

/// How long a mail server may take for its greeting. RFC 5321 4.5.3.2.1 says 5 minutes, for a client that holds mail which must not
/// be lost. A probe holds no mail and can return, so it waits for a shorter time.
pub const BANNER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a mail server may take for the replies to EHLO, HELO and STARTTLS. RFC 5321 names no time for them. The server
/// has to look up nothing for them, except for the reverse DNS of our address.
pub const EHLO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the TLS handshake may take, with all its round trips.
pub const TLS_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a mail server may take for the reply to MAIL. RFC 5321 4.5.3.2.2 says 5 minutes. Servers look up our domain here (SPF,
/// DNS lists).
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a mail server may take for the reply to one RCPT. RFC 5321 4.5.3.2.3 says 5 minutes. Less is enough for servers that
/// first ask another server (Postfix `reject_unverified_recipient`: 9 s; Exim callout: 30 s) or that delay unknown clients.
pub const RCPT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a mail server may take for the reply to RSET, which needs no work.
pub const RSET_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a mail server that offers PIPELINING may take for the reply to the first RCPT of a group, until it has answered one.
/// After this time, the next session sends one command at a time.
pub const GROUP_TIMEOUT: Duration = Duration::from_secs(7);
/// The most RSET in a group of commands. They make the number of its commands differ from those of earlier groups.
pub const GROUP_PADDING_MAX: usize = 16;
/// So many RSET cost less than another group.
pub const GROUP_PADDING_FEW: usize = 4;
/// The most RSET in all groups of a session. Postfix counts each one as an error from the 101st on (`smtpd_junk_command_limit`).
pub const SESSION_PADDING_MAX: usize = 64;
/// If no surplus reply has come for this time after a reply, the host sends none. A session of that age shows it for all later ones.
pub const IN_STEP_AGE_MAX: Duration = Duration::from_secs(5);
/// How long the replies to a group of commands are expected to take, at most. If they take longer, EHLO may be sent after them.
pub const IN_STEP_AHEAD: Duration = Duration::from_millis(750);
/// After this number of sessions in a row with a surplus reply, the route to the host is left out for a while.
pub const OUT_OF_STEP_MAX: u8 = 3;
/// How many of the latest recipients a reply about another recipient is compared with, to notice that it is about one of them.
pub const ECHOES_MAX: usize = 3;
/// How many addresses in a reply are compared with recipients.
pub const ECHOED_MAX: usize = 16;
/// How many domains a route remembers as those that were asked about last.
pub const RECENT_DOMAINS_MAX: usize = 32;
/// How long a TCP connection may take to open: the SYN and four retransmissions (RFC 6298: at 1, 3, 7 and 15 s).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a session waits for more work before it says QUIT.
pub const SESSION_IDLE: Duration = Duration::from_secs(2);
/// How long a session listens for unexpected bytes of the server before it is used again.
pub const SESSION_QUIET: Duration = Duration::from_millis(1);
/// How long a transaction with several recipients may take if one of them is a single check. It is less than for one recipient
/// alone, because the server may hang at a recipient before that of the single check.
pub const SHARED_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(12);

/// The largest number of recipients in one transaction: RFC 5321 4.5.3.1.8 obliges every server to take 100. Their pipelined
/// commands take less than 32 KiB, which fits into the send buffer of any common host, so neither side blocks the other (RFC 2920
/// 3.1).
pub const TRANSACTION_RECIPIENTS_MAX: usize = 100;

const _: () = assert!(TRANSACTION_RECIPIENTS_MAX * (ADDRESS_BYTES_MAX + 14) < 32 * 1024);
const _: () = assert!(SHARED_TRANSACTION_TIMEOUT.as_secs() < RCPT_TIMEOUT.as_secs());

/// A reply counts as quick if it comes within this time after the previous reply, or after the transaction began if that was later.
pub const TARPIT_QUICK: Duration = Duration::from_millis(250);
/// A reply counts as slow, as from a tarpit, if it comes at least this long after the instant that counts for [`TARPIT_QUICK`]
/// (Postfix `smtpd_error_sleep_time`: 1 s).
pub const TARPIT_SLOW: Duration = Duration::from_millis(700);
/// Number of quick replies after which a server counts as quick. A server that is slow from the start is no tarpit.
pub const TARPIT_QUICK_REPLIES_MIN: u32 = 4;
/// Number of slow replies in a row from a quick server that show a tarpit, if the first of them is a refusal.
pub const TARPIT_SLOW_REPLIES_MIN: u32 = 2;

// DNS.

/// Longest TXT record in bytes that is kept, with its strings joined. SPF and DMARC records have a few hundred bytes; RFC 7208 3.4
/// asks for fewer than 512.
pub const DNS_TXT_BYTES_MAX: usize = 4096;
/// The largest number of tags that are read from one DMARC, DKIM or BIMI record. RFC 7489 6.3 and RFC 6376 3.6.1 define fewer than
/// 12, and BIMI fewer still.
pub const TXT_TAGS_MAX: usize = 32;
/// The largest number of records of one kind that are taken from one answer. Further records are ignored.
pub const DNS_RECORDS_MAX: usize = 64;
/// The largest number of CNAMEs that are followed in one answer. Resolvers stop between 8 and 17.
pub const DNS_CNAMES_MAX: usize = 8;
/// UDP payload in bytes that EDNS offers (RFC 6891 6.2.3). DNS Flag Day 2020 recommends this size, because such datagrams are not
/// fragmented.
pub const DNS_UDP_PAYLOAD_BYTES: u16 = 1232;
/// Bytes of the buffer for one datagram: more than EDNS lets a resolver send.
pub const DNS_DATAGRAM_BYTES: usize = 2048;
/// The largest number of datagrams that are read from a socket before other sockets are read.
pub const DNS_DATAGRAMS_A_TURN_MAX: usize = 64;
/// Longest message in bytes over TCP: RFC 1035 4.2.2, the most that two length bytes can count.
pub const DNS_TCP_MESSAGE_BYTES_MAX: usize = 65_535;

const _: () = assert!(DNS_DATAGRAM_BYTES >= DNS_UDP_PAYLOAD_BYTES as usize);

/// Number of sockets of a shard for the questions to one resolver. Random ports make forged answers harder (RFC 5452 9.2).
pub const DNS_PORTS: usize = 16;
/// The largest number of questions over one socket. After that, a socket with another port replaces it.
pub const DNS_PORT_USES_MAX: u32 = 2_000;
/// The longest time for which one socket is used.
pub const DNS_PORT_LIFE: Duration = Duration::from_secs(60);
/// How long a socket is not read after an error.
pub const DNS_PORT_ERROR_PAUSE: Duration = Duration::from_millis(10);

/// How long the first try of a DNS question waits while no round trip has been measured yet (RFC 6298 2.1), and the longest wait of
/// any first try.
pub const DNS_TRY_TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest wait of the first try, however short the measured round trips are. RFC 6298 2.4 says 1 s for TCP. Less is enough
/// here: if a resolver has to look up a name elsewhere, this takes some 100 ms.
pub const DNS_TRY_TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// The longest wait of one try. Each round doubles the wait, up to this limit.
pub const DNS_TRY_TIMEOUT_MAX: Duration = Duration::from_secs(4);
/// How long an answer over TCP may take, including the time to connect.
pub const DNS_TCP_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a DNS question may take in all, from its first datagram.
pub const DNS_TOTAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Number of rounds over all resolvers for one question. In each round, each resolver gets one turn, unless the lookup has given up
/// on it.
pub const DNS_ROUNDS: u32 = 5;
/// A resolver that has replied REFUSED to a question this number of times is not asked that question again. One such reply is not
/// enough, because dnsmasq says REFUSED while it has too many questions under way.
pub const DNS_REFUSALS_MAX: u8 = 4;
/// How long a lookup waits before its next round if the last resolver of a round has replied REFUSED. Each further REFUSED of this
/// resolver doubles the time.
pub const DNS_REFUSAL_PAUSE: Duration = Duration::from_millis(100);
/// The largest number of resolvers that mailprobe uses.
pub const DNS_UPSTREAMS_MAX: usize = 8;
/// Number of lookups in a row without a reply from any resolver that count as an outage. Before the last of them counts, our own
/// name is looked up.
pub const DNS_SILENT_LOOKUPS_MAX: u32 = 3;

const _: () = assert!(DNS_UDP_PAYLOAD_BYTES >= 512, "RFC 6891 6.2.3");
const _: () = assert!(DNS_TRY_TIMEOUT_MIN.as_millis() <= DNS_TRY_TIMEOUT.as_millis());
const _: () = assert!(DNS_TRY_TIMEOUT.as_millis() <= DNS_TRY_TIMEOUT_MAX.as_millis());
const _: () = assert!(DNS_TRY_TIMEOUT_MAX.as_millis() < DNS_TOTAL_TIMEOUT.as_millis());
const _: () = assert!(DNS_TCP_TIMEOUT.as_millis() < DNS_TOTAL_TIMEOUT.as_millis());

/// The initial window: how many questions may be under way at a resolver at first. Even household resolvers take 64 or more.
pub const DNS_WINDOW_INITIAL: u32 = 32;
/// The smallest window, in questions. Losses do not reduce it further.
pub const DNS_WINDOW_MIN: u32 = 8;
/// The window, in questions, at which the first slow start ends. It is below the 150 questions that dnsmasq takes
/// (`dns-forward-max`).
pub const DNS_WINDOW_SLOW_START: u32 = 128;
/// The largest window, in questions. A datagram costs its receiver at least 768 bytes, so the default receive buffer of Linux
/// (212,992 bytes) holds 277 datagrams.
pub const DNS_WINDOW_MAX: u32 = 256;
/// How long after the end of a lookup the answer to an overdue try is still awaited, if the resolver of this try has answered
/// another try of the lookup. A try with such a late answer was slow and not lost.
pub const DNS_LATE_ANSWER: Duration = Duration::from_millis(50);

const _: () = assert!(DNS_WINDOW_MIN > 0 && DNS_WINDOW_MIN <= DNS_WINDOW_INITIAL);
const _: () = assert!(DNS_WINDOW_INITIAL <= DNS_WINDOW_SLOW_START && DNS_WINDOW_SLOW_START <= DNS_WINDOW_MAX);
const _: () = assert!(DNS_WINDOW_MAX * 768 < 212_992);

/// After this number of different names in a row that were denied without proof, the resolvers count as denying everything. A
/// denial is without proof if it lacks an SOA record, or if it may be forged ([`crate::dns::message::Doubt`]).
pub const DNS_DENIALS_IN_A_ROW: usize = 20;
/// After this number of answers in a row that are records or a proven "no such name", the resolvers no longer count as denying
/// everything.
pub const DNS_PROVEN_IN_A_ROW: u32 = 20;
/// If a top-level domain is denied without proof, the resolvers count as denying everything, unless an answer with proof came
/// within this time before the denial. Such an answer shows that they deny only some names.
pub const DNS_PROVEN_WINDOW: Duration = Duration::from_secs(10);
/// If several lookups or an urgent one are under way and none has been answered for this time, the resolvers are asked about our own
/// name. After the start, this is so without a lookup too, and if there is no answer within the same time again, a warning names the
/// resolvers.
pub const DNS_SILENCE: Duration = Duration::from_secs(2);
/// Interval between two tests of whether resolvers that denied everything still do. It is also the interval between two checks in
/// which a shard finds out whether they have begun to.
pub const DNS_DENIAL_TEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long such a test or check waits for answers.
pub const DNS_DENIAL_TEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest number of questions that a test of the resolvers repeats. They are the last ones that were denied.
pub const DNS_DENIED_NAMES_MAX: usize = 7;
/// The largest number of names for which a shard remembers that some resolvers denied the name's addresses without proof while
/// another gave a credible answer.
pub const DNS_DISPUTED_NAMES_MAX: usize = 256;

/// Shortest lifetime of a positive answer. With less, a zone with a TTL of 0 would be asked again for each address.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest lifetime of a positive answer. RFC 1035 allows 68 years, and RFC 8767 4 suggests 7 days. But if a mail service moves,
/// mailprobe should find its new hosts within a day.
pub const DNS_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest lifetime of a negative answer. The same domain may occur a thousand times in one list.
pub const DNS_NEGATIVE_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest lifetime of a negative answer: RFC 2308 5 finds one to three hours sensible.
pub const DNS_NEGATIVE_TTL_MAX: Duration = Duration::from_secs(3 * 3600);
/// Lifetime of a failure: RFC 9520 3.2 asks for at least 1 s and allows 5 minutes.
pub const DNS_FAILURE_TTL: Duration = Duration::from_secs(30);
/// Lifetime of a failure that may soon be over: silence, a resolver that cannot be reached, REFUSED or a denial without proof. If
/// another such failure comes less than [`DNS_FAILURE_TTL`] after the end of this lifetime, it is kept for [`DNS_FAILURE_TTL`].
pub const DNS_SILENCE_TTL: Duration = Duration::from_secs(1);

const _: () = assert!(DNS_TTL_MIN.as_secs() <= DNS_TTL_MAX.as_secs());
const _: () = assert!(DNS_NEGATIVE_TTL_MIN.as_secs() <= DNS_NEGATIVE_TTL_MAX.as_secs());
const _: () = assert!(DNS_NEGATIVE_TTL_MAX.as_secs() <= 3 * 3600, "RFC 2308 5");
const _: () = assert!(DNS_FAILURE_TTL.as_secs() >= 1 && DNS_FAILURE_TTL.as_secs() <= 300, "RFC 9520 3.2");
const _: () = assert!(DNS_SILENCE_TTL.as_secs() >= 1, "RFC 9520 3.2");
const _: () = assert!(DNS_SILENCE_TTL.as_millis() < DNS_FAILURE_TTL.as_millis());

/// How long a fast check waits for DNS. The lookups continue, so the next check of the domain finds their result.
pub const FAST_PATIENCE: Duration = Duration::from_secs(3);
/// How long the lookup of the DNS facts of a domain may take.
pub const FACTS_PATIENCE: Duration = Duration::from_secs(3);
/// The largest number of DNS questions at once for the facts of one domain.
pub const DNS_BURST_MAX: usize = 16;
/// The largest number of inquiries under way. An inquiry is a question that DNS alone answers.
pub const INQUIRIES_MAX: usize = 4096;

const _: () =
    assert!(FAST_PATIENCE.as_millis() > DNS_TRY_TIMEOUT.as_millis(), "one lost datagram is no failure");

// Walks and hosts.

/// The largest number of mail hosts of one domain that are contacted. RFC 5321 4.5.3.1 sets no limit, and 5.1 wants at least two
/// addresses tried. The largest providers list fewer than 10.
pub const MX_HOSTS_MAX: usize = 16;
/// The largest number of addresses of one mail host that are contacted, for each family.
pub const MX_ADDRESSES_MAX: usize = 8;
/// The largest number of routes of a group. A work has one bit for each route, to note whether the route was tried.
pub const ROUTES_MAX: usize = u64::BITS as usize;

const _: () = assert!(MX_HOSTS_MAX >= 2 && MX_HOSTS_MAX <= DNS_RECORDS_MAX, "RFC 5321 5.1");
const _: () = assert!(MX_ADDRESSES_MAX >= 2, "RFC 5321 5.1");
const _: () = assert!(ROUTES_MAX >= MX_HOSTS_MAX);

/// How long the result of a walk is kept. So a DNS record may be used for up to this time after it has expired.
pub const WALK_TTL: Duration = Duration::from_secs(60);
/// The largest number of results of walks that a shard keeps.
pub const WALKS_MAX: usize = 10_000;
/// The largest number of bytes of all kept results of walks, over all shards.
pub const WALKS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The largest number of patient works that wait for one walk. Otherwise one walk with silent name servers could fill the engine.
pub const WALK_WAITERS_MAX: usize = 256;
/// A shard begins walks for patient works only while fewer than this number of its walks are fresh. A list brings thousands of
/// domains at once. Looking all of them up together would take memory and overflow the sockets of the resolver, and would not be
/// faster.
pub const WALKS_FRESH_MAX: usize = 200;
/// How long a walk counts as fresh. An older walk probably waits for silent name servers, and does not delay other walks.
pub const WALK_FRESH: Duration = Duration::from_secs(1);
/// The largest number of bytes of all kept DNS outcomes, over all shards.
pub const DNS_CACHE_BYTES_MAX: usize = 12 * 1024 * 1024;
/// If groups take more bytes than this, over all shards, idle groups are forgotten at once if nothing was learned about their sites
/// and hosts.
pub const GROUPS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Each shard may keep at least this number of bytes of walks, of DNS outcomes and of groups, however many shards there are.
pub const SHARD_CACHE_BYTES_MIN: usize = 256 * 1024;
/// How long a group without work is kept after its last session, or after its beginning if it had none.
pub const GROUP_IDLE: Duration = Duration::from_secs(120);
/// Like [`GROUP_IDLE`], but for a group about which nothing was learned: nothing about its site, its hosts or its domains. This is
/// a little longer than [`SESSION_IDLE`].
pub const GROUP_IDLE_FRESH: Duration = Duration::from_secs(5);

const _: () = assert!(SESSION_IDLE.as_secs() < GROUP_IDLE_FRESH.as_secs());

/// How long a route is out of use, for example because its host could not be reached or refused us, and how long a host is not
/// asked about a domain that it refuses as a whole. Also the delay after which most unverifiable findings suggest another check.
pub const ROUTE_DOWN: Duration = Duration::from_secs(60);
/// How long a route rests after a failed connection if the cause may be over soon, such as the restart of a server.
pub const ROUTE_RETRY: Duration = Duration::from_secs(2);
/// After this number of connections in a row that fail, or that end or time out before RCPT, a route is taken out of use. If only
/// single checks wait for it, one is enough.
pub const STRIKES_MAX: u8 = 3;
/// After this number of sessions in a row that end at RCPT, before any answer for a recipient, a route is taken out of use. These
/// sessions and the connections of [`STRIKES_MAX`] are counted together.
pub const HANGUPS_MAX: u8 = 10;
/// If a host ended this number of sessions because we are not wanted, and accepted no recipient in between, the route of these
/// sessions is taken out of use.
pub const WARNINGS_MAX: u8 = 3;
/// If a host changed its behaviour in this number of sessions in a row, the route of these sessions is taken out of use.
pub const CHANGES_MAX: u8 = 2;
/// How many times a work may be returned to the queue, for example because the site pushed back or because a session ended at its
/// recipient. The next time, the work is answered with what is known. A single check is answered as early as its second return, if
/// the session ended both times before any reply arrived.
pub const RETURNS_MAX: u8 = 4;

/// Number of equal refusals in a row that count as a blanket refusal (the same refusal for every recipient), if their words or
/// codes clearly show that the recipients are not the cause.
pub const BLANKET_CERTAIN_MIN: u8 = 5;
/// Number of equal refusals in a row that count as a blanket refusal, whatever their words and codes are.
pub const BLANKET_ANY_MIN: u8 = 20;
/// For a blanket refusal by the whole host, the recipients' domain must also have changed this number of times from one refused
/// recipient to the next, because a host may refuse a single domain on behalf of its owner. No change is needed if the host and the
/// domain that was refused last have the same registrable domain.
pub const BLANKET_DOMAIN_CHANGES_MIN: u8 = 2;
/// The largest number of domains for which a route counts equal refusals. Also the largest number of domains that mailprobe leaves
/// out for a while when it asks over a route.
pub const BLANKET_DOMAINS_MAX: usize = 16;

const _: () = assert!(BLANKET_CERTAIN_MIN <= BLANKET_ANY_MIN);

// Sites.

/// Number of patient works that a site admits for each session that it may have: as many as a full transaction has.
pub const SITE_WORKS_A_SESSION: usize = TRANSACTION_RECIPIENTS_MAX;
/// A site that may have fewer sessions than this admits as many patient works as if it might have this number.
pub const SITE_SESSIONS_MIN: usize = 10;
/// One site gets at most the number of tickets divided by this, but at least [`SITE_WORKS_A_SESSION`]. So it takes several sites to
/// fill the engine with patient works.
pub const SITES_TO_FILL: usize = 4;
/// How long a new patient work waits for a single try at a site that has given no answer for [`BULK_PATIENCE`]: long enough for the
/// longest pause and the try. A row of a batch that waits at such a site for this time is answered with what is known, and its
/// batch submits it again later.
pub const SITE_LAST_TRY: Duration = Duration::from_secs(90);
/// The longest rest or pause that is worth waiting for. If a preferred host rests for no longer than this, patient works wait for
/// it and do not go to a backup. If a site pauses for no longer than this, single checks wait for it.
pub const REST_SHORT: Duration = Duration::from_secs(5);
/// A group begins with one session for patient works, and may have one more whenever this number of further answers has been
/// proven. The reason: if a host changes its behaviour, the answers of all open sessions are worthless. Trusted operators have no
/// such limit, and there is none while single checks wait.
pub const PROVEN_ANSWERS_A_SESSION: u32 = 500;
/// A group may also have one more session for each period of this length for which it has had open sessions without a break, so
/// that a slow server does not stay at one session for long.
pub const UNPROVEN_SESSION_AFTER: Duration = Duration::from_secs(2);
/// A group gets another session if enough works wait for each open one. The longer the group has had open sessions, the fewer works
/// are enough, so that slow servers get more sessions: after this time half as many, after twice this time a third, and so on.
pub const SLOW_GROUP_AFTER: Duration = Duration::from_secs(10);
/// The number of works that are enough for another session is divided by at most this.
pub const SLOW_GROUP_SHARES_MAX: usize = 10;
/// If all sessions of its group are busy, a single check waits for this time before another session is opened for it.
pub const STUCK_AFTER: Duration = Duration::from_secs(2);
/// If this number of sessions is open, neither a slow server nor a stuck single check is a reason for another one.
pub const STUCK_SESSIONS_MAX: u32 = 8;
/// How many times in a row a class of works may be passed over for a higher class while it has works waiting. So at least one work
/// in ten is of a lower class, as long as such works wait.
pub const QUEUE_PASSED_MAX: u8 = 9;
/// For so long after a single check, rows give way if the processor is busy.
pub const URGENT_LASTS: Duration = Duration::from_secs(5);
/// How late timers fire on a machine that is not busy: they have steps of a millisecond.
pub const LATE_USUALLY: Duration = Duration::from_millis(1);
/// If timers fire so much later than usual, groups with rows only get fewer sessions while single checks arrive.
pub const LATE_TOO_MUCH: Duration = Duration::from_millis(1);
/// If timers fire at most so much later than usual, such groups get more sessions again.
pub const LATE_ENOUGH: Duration = Duration::from_micros(500);
/// Groups with rows only may always have one session in so many.
pub const ROWS_SESSIONS_MIN_SHARE: usize = 10;

const _: () = assert!(SITE_LAST_TRY.as_secs() > PACE_PAUSE_MAX.as_secs());

/// Budget of refused recipients in a session at a site of which nothing is known (see [`crate::pace`]), or less if the ceiling is
/// lower. This is the hard limit of Postfix (`smtpd_hard_error_limit`).
pub const PACE_ERRORS_INITIAL: u32 = 20;
/// The largest number of sessions at once at a site of which nothing is known, or fewer if the ceiling is lower.
pub const PACE_SESSIONS_INITIAL: u32 = 10;
/// Number of sessions that a shard may have at once with the hosts of one network, before any of them has answered.
pub const NETWORK_SESSIONS_INITIAL: u32 = 8;
/// How many sites of a network have to say that there are too many sessions, before the sessions with the network are blamed.
pub const NETWORK_COMPLAINTS_MIN: usize = 4;
/// How long such a statement of a site counts.
pub const NETWORK_COMPLAINT_LASTS: Duration = Duration::from_secs(10);
/// The least number of such sessions, whatever the hosts say. If this is too many, each site lowers its own pace.
pub const NETWORK_SESSIONS_MIN: u32 = 4;
/// Number of answers of a session after which the share of refused recipients can be estimated.
pub const PACE_STRETCH_ANSWERS: u32 = 20;
/// Number of times that a learned limit has to be reached before it is doubled, to see whether it still holds.
pub const PACE_TRY_AFTER: u32 = 8;
/// [`PACE_TRY_AFTER`] doubles each time that the learned limit turns out to hold, up to this maximum.
pub const PACE_TRY_AFTER_MAX: u32 = 256;
/// Shortest wait until a session may start.
pub const PACE_WAIT_MIN: Duration = Duration::from_millis(1);
/// Pause of a site after its first push-back. Each further push-back without a successful transaction in between doubles it.
pub const PACE_PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause of a site that pushes back. The actual pause differs from it at random, by up to a quarter.
pub const PACE_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Shortest pause of a site that says that we are too fast.
pub const PACE_PAUSE_TOO_FAST: Duration = Duration::from_secs(5);
/// The rate of new sessions is at least this share of the full rate, however often it was halved.
pub const PACE_SHARE_MIN: f64 = 1.0 / 64.0;
/// The share of the full rate that each successful transaction gives back.
pub const PACE_SHARE_STEP: f64 = 1.0 / 256.0;

const _: () = assert!(PACE_PAUSE_MIN.as_millis() < PACE_PAUSE_MAX.as_millis());

// Proofs.

/// How long the answer for a control recipient (a recipient that does not exist) counts for its domain.
pub const CONTROL_TTL: Duration = Duration::from_secs(3600);
/// How long the answer for a control recipient counts for a single check, except at a trusted operator. The time is shorter,
/// because such a check gets its answer from the old reply alone, without a new proof.
pub const CONTROL_SINGLE_TTL: Duration = Duration::from_secs(600);
/// Number of accepted single checks at a host for which one refused control recipient counts. After that, a control recipient has
/// to be refused again.
pub const CONTROL_ACCEPTS_MAX: u32 = 15;
/// How long a control recipient is not asked about again after an unclear reply.
pub const CONTROL_UNKNOWN_TTL: Duration = Duration::from_secs(60);
/// How long a control recipient is not asked about again after a transient reply: less than [`crate::retry::SINGLE_RETRY_MIN`].
pub const CONTROL_TRANSIENT_TTL: Duration = Duration::from_secs(4);
/// If this number of sessions in a row end at the control recipient of a domain, the answer for the domain counts as unclear.
pub const CONTROL_ATTEMPTS_MAX: u8 = 3;
/// The largest number of pairs of a domain and a host for which a shard remembers the findings of control recipients.
pub const KNOWN_DOMAINS_MAX: usize = 50_000;
/// Once a host has refused this number of single checks in a row, over all sessions, the last of these refusals and each further
/// one need a proof: mailprobe asks about a known mailbox of the host, if there is one.
pub const REFUSALS_SINGLE_MAX: u32 = 6;
/// The largest number of refused single checks in a row in one session that need no proof. The number is lower than
/// [`REFUSALS_SINGLE_MAX`], because several sessions may get refusals at once before a change of the host is noticed.
pub const REFUSALS_SINGLE_SESSION_MAX: u32 = 3;
/// How long a mailbox that a host accepted counts as a known mailbox of this host.
pub const KNOWN_MAILBOX_TTL: Duration = Duration::from_secs(3600 + 600);
/// A known mailbox of this age is replaced by the next mailbox that the host accepts. But if the session of the known mailbox also
/// showed that the host refuses unknown recipients (the mailbox is proven), only another proven mailbox replaces it. An unproven
/// mailbox that the host later refuses is forgotten within this time.
pub const KNOWN_MAILBOX_AGE: Duration = Duration::from_secs(600);
/// The largest number of hosts for which a shard remembers a known mailbox. The same number bounds the hosts with counts of single
/// checks, and those with a change of behaviour.
pub const KNOWN_MAILBOXES_MAX: usize = 4096;
/// Number of held answers at which the first checkpoint of a session is due, if none is due earlier because a caller waits.
pub const CHECKPOINT_ANSWERS_MIN: u32 = 20;
/// The largest number of held answers at which a checkpoint is due. Each successful checkpoint doubles the number for the next one.
pub const CHECKPOINT_ANSWERS_MAX: u32 = 320;
/// A checkpoint asks its questions in at most this number of transactions.
pub const CHECKPOINT_ROUNDS_MAX: usize = 12;
/// Number of short checkpoints in a row that count as a long one, if each of them shows only that one domain accepts everyone.
pub const CATCH_ALL_CHECKPOINTS_MIN: u32 = 3;
/// This number of refusals in a row needs a proof even if the host has no known mailbox, unless the host has recently refused the
/// `postmaster` address of the domain. The same number of refused recipients shows that a domain does not accept everyone.
pub const REFUSALS_IN_A_ROW_MIN: u32 = 12;
/// The largest number of refusals of a session that the next session can prove. Some servers end a session after one or two
/// refusals (Postfix under stress: after one), so it is too late to ask whether the server still accepts mailboxes. If the session
/// accepted a mailbox before the refusal, the next session proves the refusal by an accept at its beginning. With more refusals,
/// the server may have changed within the session, so an accept in the next one would prove nothing.
pub const REFUSALS_CARRIED_MAX: u32 = 2;
/// The largest number of domains that a session remembers because one of their recipients was greylisted.
pub const GREYLISTED_DOMAINS_MAX: usize = 20;
/// The largest number of notes of withdrawn evidence that are kept for the caller to read.
pub const WITHDRAWN_MAX: usize = 100_000;

const _: () = assert!(REFUSALS_SINGLE_SESSION_MAX <= REFUSALS_SINGLE_MAX);
const _: () =
    assert!(REFUSALS_IN_A_ROW_MIN <= CHECKPOINT_ANSWERS_MIN && REFUSALS_CARRIED_MAX < REFUSALS_IN_A_ROW_MIN);

// Waiting times of addresses.

/// How long a single check may take in all. A client waits for it.
pub const SINGLE_PATIENCE: Duration = Duration::from_secs(45);
/// How long a row of a batch or list may take in all. After that, the row is answered with what is known. If a site has given
/// no answer for this time, new rows wait only for a single try at the site.
pub const BULK_PATIENCE: Duration = Duration::from_secs(600);
/// If a transient reply names an interval up to this, a single check is asked about once more, after
/// [`crate::retry::SINGLE_RETRY_MIN`] or a little later. If the interval is longer, there is no second try.
pub const SINGLE_NAMED_INTERVAL_MAX: Duration = Duration::from_secs(30);
/// Longest delay after which DNS is asked again for a single check. A check is answered at once if the delay would be longer.
pub const SINGLE_DNS_RETRY_MAX: Duration = Duration::from_secs(8);

const _: () = assert!(SINGLE_NAMED_INTERVAL_MAX.as_secs() < SINGLE_PATIENCE.as_secs());

// Outages.

/// Number of sites that have to be out of reach in an outage. If there are fewer, the cause is probably the sites.
pub const OUTAGE_SITES_MIN: usize = 10;
/// An outage needs this time without a successful connection, counted from the first failure. Failures come quickly, because some
/// hosts refuse connections at once, but a successful connection takes round trips and perhaps retransmissions (RFC 6298: the third
/// SYN leaves after 3 s).
pub const OUTAGE_SILENCE: Duration = Duration::from_secs(5);
/// How long a failed connection counts towards an outage.
pub const OUTAGE_WINDOW: Duration = Duration::from_secs(60);
/// Interval between the attempts during an outage. Each attempt asks about one address.
pub const OUTAGE_TRY_INTERVAL: Duration = Duration::from_secs(1);
/// Number of places in which failures of sites are noted. The hash of a site selects its place. Two sites with the same place count
/// once.
pub const OUTAGE_SITE_PLACES: usize = 512;

const _: () = assert!(OUTAGE_SILENCE.as_secs() < OUTAGE_WINDOW.as_secs());
const _: () = assert!(CONNECT_TIMEOUT.as_secs() < OUTAGE_WINDOW.as_secs());
const _: () = assert!(OUTAGE_SITES_MIN < OUTAGE_SITE_PLACES);

// Sources and proxies.

/// The largest number of sources of one pool. Each takes some 4 KiB.
pub const SOURCES_MAX: usize = 256;
/// How long a source first rests at a site that blocks it.
pub const SOURCE_REST_MIN: Duration = Duration::from_secs(5 * 60);
/// The longest rest, however often it was doubled.
pub const SOURCE_REST_MAX: Duration = Duration::from_secs(6 * 3600);
/// The largest number of rests that a shard remembers. If a block finds no room for a further rest, only its route is taken out of
/// use.
pub const SOURCE_RESTS_MAX: usize = 20_000;
/// How long our connection to a proxy and the login there may take. The proxy belongs to the operator of mailprobe, so it should be
/// quick.
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
/// Number of steps that count: those of the last hour, and the step that has just begun.
pub const REFUSALS_STEPS: usize = 13;
/// If a site accepts more than it refuses, the budget allows at least one refusal for this number of accepts, unless the budget is
/// fixed.
pub const REFUSALS_ACCEPTS_SHARE: u32 = 4;
/// Number of cells for the counts of a site and source: one for each of those steps, one for the next step, and one for the step
/// that has just ceased to count.
pub const REFUSALS_CELLS: usize = REFUSALS_STEPS + 2;
/// Number of pairs of a site and a source for which a table of counts has room. A table in memory has room for this number for each
/// shard, up to [`REFUSALS_SHARDS_MAX`] shards.
pub const REFUSALS_SITES_MAX: usize = 32_768;
/// The largest number of shards for which a table in memory gets more room.
pub const REFUSALS_SHARDS_MAX: usize = 8;
/// The largest number of processes of mailprobe that can share a table of counts.
pub const REFUSALS_RUNS_MAX: usize = 64;
/// Recipients of the budget that are kept for the questions that prove the answers of a session.
pub const REFUSALS_KEPT_FOR_PROOF: usize = 2;
/// The smallest part of a budget that a node gets if several nodes share an IP address: one recipient, and those that are kept for
/// proof.
pub const REFUSALS_LEAST: u32 = REFUSALS_KEPT_FOR_PROOF as u32 + 1;

const _: () = assert!(
    REFUSALS_STEP.as_secs() * (REFUSALS_STEPS as u64 - 1) == 3600,
    "a budget is the number of recipients in an hour"
);
