//! The world of a seed while it runs. It answers for all hosts and resolvers, keeps a ledger of all answers, and checks
//! the invariants of the engine.

use super::dns;
use super::judge::Verdict;
use super::plan::{ConnectResult, Manners, WorldPlan};
use super::premises::Premise;
use super::recipients::{AskedRecipient, Recipients};
use super::smtp::{Peer, Surroundings};
use engine::sim::{Connect, Link, Wire};
use engine::{Answer, Finding, Outage, Priority, Refusal, Request};
use engine_proto::address::Address;
use engine_proto::limits::{BULK_PATIENCE, RCPT_TIMEOUT, SINGLE_PATIENCE};
use fastrand::Rng;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The invariants of the engine, with the names of docs/testing.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    Answered,
    Truth,
    Manners,
    Fairness,
    Memory,
    Health,
    /// A rule that the engine asserts itself.
    Engine,
}

impl Invariant {
    /// The name of the invariant in docs/testing.md.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::Answered => "answered",
            Invariant::Truth => "truth",
            Invariant::Manners => "manners",
            Invariant::Fairness => "fairness",
            Invariant::Memory => "memory",
            Invariant::Health => "health",
            Invariant::Engine => "engine",
        }
    }
}

/// An invariant that did not hold, and the request that it concerns.
#[derive(Debug)]
pub struct Breach {
    pub invariant: Invariant,
    pub text: String,
    pub ticket: Option<u64>,
}

impl Breach {
    /// The kind of breach: the text without its figures and lists.
    pub fn kind(&self) -> String {
        let (mut kind, mut depth) = (String::new(), 0_usize);
        for letter in self.text.chars() {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if letter.is_ascii_digit() => {
                    if !kind.ends_with('#') {
                        kind.push('#');
                    }
                }
                _ => kind.push(letter),
            }
        }
        format!("{}: {}", self.invariant.name(), kind.replace("#.#", "#"))
    }
}

/// How many breaches are recorded in all, and how many of one kind.
const BREACHES_MAX: usize = 8;
const ALIKE_MAX: usize = 2;
/// The address of the only resolver.
pub const RESOLVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(45, 255, 0, 53)), 53);
/// How much later than its patience an answer may come: the engine looks for expired works at intervals.
const SLACK: Duration = Duration::from_secs(2);
/// How long an outage may be reported after a reply from any host.
const OUTAGE_GRACE: Duration = Duration::from_secs(4);
/// The longest latency of the resolver.
const DNS_LATENCY_MAX: Duration = Duration::from_millis(50);
/// A question without an answer is open for longer than this: its three tries take 1, 2 and 4 s.
const DNS_SILENCE: Duration = Duration::from_secs(6);
/// For how long a request is repeated after its site's budget is used up.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// How many sessions of a site may end without an answer to any request, in all and for each request about the site.
const IN_VAIN_MAX: u32 = 500;
const IN_VAIN_A_REQUEST_MAX: u32 = 20;
/// The shortest pause after a site has replied that we are too fast.
const PUSHED: Duration = Duration::from_secs(5);

/// A running world, with its peers and counts.
pub struct World {
    pub plan: Rc<WorldPlan>,
    random: Rng,
    links: Vec<Connection>,
    sites: Vec<Traffic>,
    hosts_open: Vec<u32>,
    pub tickets: Vec<Ticket>,
    recipients: Recipients,
    lost: HashMap<String, u8>,
    last_mail: Duration,
    /// The times of the last two answers of the resolver, newest first.
    last_dns: [Duration; 2],
    pub breaches: Vec<Breach>,
    pub told: Vec<String>,
    pub telling: Option<Telling>,
    pub trace: u64,
    pub crowded: u32,
}

/// The request about whose site the world tells what happens.
#[derive(Clone, Copy)]
pub struct Telling {
    pub ticket: u64,
    /// The engine traces the request too.
    pub is_traced: bool,
}

/// The peer of a connection.
enum Connection {
    Mail { host: u32, peer: Peer, open: bool, ipv6: bool },
    Dns(Vec<u8>),
    Nobody,
}

/// The sessions of a site, as the site counts them.
struct Traffic {
    open: u32,
    /// How many sessions may start now.
    starts: f64,
    filled: Duration,
    /// The connection and the time of each reply that the client is too fast.
    pushed: Vec<(u32, Duration)>,
    /// Sessions since the last answered request about the site.
    in_vain: u32,
}

/// A request and its result.
pub struct Ticket {
    pub mailbox: u32,
    pub priority: Priority,
    pub first: Duration,
    submitted: Duration,
    /// It was deferred because the budget of its site was used up.
    put_off: bool,
    owed: i32,
}

/// A result as text, without the times of replies: they count from the start of the process, which differs between runs.
fn told(result: &Result<Finding, Outage>) -> String {
    let Ok(finding) = result else { return format!("{result:?}") };
    let observed = finding.observed.as_ref().map(|observed| {
        (&observed.host, observed.reply.map(|reply| (reply.code, reply.status, reply.scope)))
    });
    format!("{:?} {observed:?}", Finding { observed: None, ..finding.clone() })
}

impl World {
    /// A world at its start.
    pub fn new(plan: Rc<WorldPlan>, seed: u64, telling: Option<Telling>) -> World {
        let starts = |site: &super::plan::Site| site.ceiling.starts_a_minute.min(site.ceiling.sessions);
        let traffic = |site| Traffic {
            open: 0,
            starts: f64::from(starts(site)),
            filled: Duration::ZERO,
            pushed: Vec::new(),
            in_vain: 0,
        };
        let ticket = |&(mailbox, at, priority)| Ticket {
            mailbox,
            priority,
            first: at,
            submitted: at,
            put_off: false,
            owed: 1,
        };
        World {
            random: Rng::with_seed(seed ^ 0x5157_0bad),
            links: Vec::new(),
            sites: plan.sites.iter().map(traffic).collect(),
            hosts_open: vec![0; plan.hosts.len()],
            tickets: plan.asked.iter().map(ticket).collect(),
            recipients: Recipients::new(&plan),
            lost: HashMap::new(),
            last_mail: Duration::ZERO,
            last_dns: [Duration::ZERO; 2],
            breaches: Vec::new(),
            told: Vec::new(),
            telling,
            trace: seed,
            crowded: 0,
            plan,
        }
    }

    /// All requests with their times of arrival.
    pub fn arrivals(&self) -> Vec<(Duration, Request)> {
        let all = (0..self.tickets.len() as u64)
            .filter_map(|ticket| Some((self.tickets[ticket as usize].first, self.request(ticket)?)));
        all.collect()
    }

    fn request(&self, ticket: u64) -> Option<Request> {
        let entry = &self.tickets[ticket as usize];
        let address = Address::parse(&self.plan.mailboxes[entry.mailbox as usize].address).ok()?;
        let trace = self.telling.is_some_and(|telling| telling.ticket == ticket && telling.is_traced);
        Some(Request { ticket, address, priority: entry.priority, owner: ticket % 3, trace, observed: true })
    }

    /// Records a breach, unless enough breaches of its kind are recorded.
    pub fn breach(&mut self, invariant: Invariant, ticket: Option<u64>, text: String) {
        let breach = Breach { invariant, text, ticket };
        if invariant == Invariant::Health {
            // An unhealthy shard breaks other invariants as well, so this breach is listed first.
            return self.breaches.insert(0, breach);
        }
        let kind = breach.kind();
        let alike = self.breaches.iter().filter(|other| other.kind() == kind).count();
        if alike < ALIKE_MAX && self.breaches.len() < BREACHES_MAX {
            self.breaches.push(breach);
        }
    }

    /// Checks at the end that every request was answered.
    pub fn close(&mut self) {
        let owed = |ticket: &Ticket| ticket.owed > 0;
        if let Some(at) = self.tickets.iter().position(owed) {
            let count = self.tickets.iter().filter(|ticket| owed(ticket)).count();
            self.breach(Invariant::Answered, Some(at as u64), format!("{count} tickets got no answer"));
        }
    }

    /// Counts a new session of a host's site.
    fn start(&mut self, host: u32, now: Duration) {
        let site = self.plan.hosts[host as usize].site as usize;
        let ticket = self.ticket_of(site as u32);
        let (ceiling, traffic) = (self.plan.sites[site].ceiling, &mut self.sites[site]);
        let most = f64::from(ceiling.starts_a_minute.min(ceiling.sessions));
        let rate = f64::from(ceiling.starts_a_minute) / 60.0;
        traffic.starts = (traffic.starts + (now - traffic.filled).as_secs_f64() * rate).min(most) - 1.0;
        traffic.filled = now;
        traffic.open += 1;
        traffic.in_vain += 1;
        let (open, starts, in_vain) = (traffic.open, traffic.starts, traffic.in_vain);
        let waits = |&(_, pushed): &(u32, Duration)| now < pushed + PUSHED;
        Premise::TooFast.count(traffic.pushed.iter().any(|pushed| !waits(pushed)));
        traffic.pushed.retain(waits);
        // A session that begins at the moment of the reply may have been decided on before it.
        let pushed = traffic.pushed.iter().map(|&(_, pushed)| pushed).find(|&pushed| pushed < now);
        if let Some(pushed) = pushed.filter(|_| !self.plan.is_apart()) {
            let text = format!(
                "a session with {} {:.1} s after it said that we are too fast",
                self.plan.sites[site].name,
                (now - pushed).as_secs_f64()
            );
            self.breach(Invariant::Manners, ticket, text);
        }
        Premise::SiteFull.count(open == ceiling.sessions);
        Premise::StartsSpent.count(starts < 1.0);
        if open > ceiling.sessions {
            let text =
                format!("{open} sessions with {}, {} may be", self.plan.sites[site].name, ceiling.sessions);
            self.breach(Invariant::Manners, ticket, text);
        }
        if in_vain == IN_VAIN_MAX + IN_VAIN_A_REQUEST_MAX * self.plan.sites[site].asked {
            let name = &self.plan.sites[site].name;
            let text = format!("{in_vain} sessions with {name} since it last brought an answer");
            self.breach(Invariant::Manners, ticket, text);
        }
        if starts < -0.01 {
            let text = format!("too many session starts with {}", self.plan.sites[site].name);
            self.breach(Invariant::Manners, ticket, text);
        }
    }

    /// A request with a trace that mentions the site.
    fn ticket_of(&self, site: u32) -> Option<u64> {
        let its = |ticket: &Ticket| {
            let domain = self.plan.mailboxes[ticket.mailbox as usize].domain;
            self.plan.domains[domain as usize].site == site
        };
        self.tickets.iter().position(its).map(|at| at as u64)
    }

    /// Calls `act` with a connection's peer, and records how many recipients it `asked` about.
    fn with_peer(
        &mut self,
        link: Link,
        wire: &mut Wire,
        asked: usize,
        act: impl FnOnce(&mut Peer, &mut Surroundings<'_>),
    ) {
        let Some(Connection::Mail { host, peer, ipv6, .. }) = self.links.get_mut(link.id as usize) else {
            return;
        };
        let (host, plan) = (*host, Rc::clone(&self.plan));
        let manners = plan.manners(host, *ipv6);
        let (mut breaches, mut said, recipients) = (Vec::new(), Vec::new(), &mut self.recipients);
        let (telling, mut decided) = (self.telling.is_some(), 0);
        let mut decide = |asked: &AskedRecipient<'_>, breaches: &mut Vec<String>| {
            decided += 1;
            let fate = recipients.decide(&plan, host, manners, asked, breaches);
            if telling {
                said.push(format!("{} {}", fate.words(), asked.address));
            }
            fate
        };
        let mut surroundings = Surroundings {
            now: link.now,
            link: link.id,
            manners,
            random: &mut self.random,
            wire,
            decide: &mut decide,
            breaches: &mut breaches,
        };
        act(peer, &mut surroundings);
        let (recipients, refused) = (peer.recipients, peer.refused);
        let site = plan.hosts[host as usize].site;
        self.recipients.lost(site, asked.saturating_sub(decided), link.now);
        if let Some(pushed) = peer.pushed.take() {
            let site = &mut self.sites[site as usize];
            site.pushed.push((link.id, pushed));
            said.push(format!("421, too fast; heard at {:.3} s", pushed.as_secs_f64()));
        }
        let ceiling = plan.sites[site as usize].ceiling;
        Premise::SessionRecipients.count(decided > 0 && recipients == ceiling.session_recipients);
        Premise::SessionRefusals.count(decided > 0 && refused == ceiling.session_refusals);
        if recipients > ceiling.session_recipients {
            breaches.push(format!("{recipients} recipients in a session"));
        }
        if refused > ceiling.session_refusals {
            breaches.push(format!("{refused} refused recipients in a session"));
        }
        said.into_iter().for_each(|said| self.add_line(link, &format!("says {said}")));
        for text in breaches {
            let host = &plan.hosts[host as usize];
            let ticket = self.ticket_of(host.site);
            self.breach(Invariant::Manners, ticket, format!("{}, connection {}: {text}", host.name, link.id));
        }
    }

    /// Repeats a request without a verdict after this time.
    fn ask_again(&mut self, now: Duration, ticket: u64, after: Duration) -> Option<(Duration, Request)> {
        let entry = &mut self.tickets[ticket as usize];
        (entry.owed, entry.submitted) = (1, now + after);
        Some((after, self.request(ticket)?))
    }

    fn resolved(&mut self, now: Duration) {
        if now > self.last_dns[0] + DNS_LATENCY_MAX {
            self.last_dns[1] = self.last_dns[0];
        }
        self.last_dns[0] = now;
    }

    fn note(&mut self, number: u64, bytes: &[u8]) {
        let mut hash = self.trace ^ number;
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        self.trace = hash;
    }

    /// Adds a line to the trace, if the connection is with a host of the traced site.
    fn add_line(&mut self, link: Link, what: &str) {
        let Some(ticket) = self.telling.and_then(|telling| self.tickets.get(telling.ticket as usize)) else {
            return;
        };
        let site = self.plan.domains[self.plan.mailboxes[ticket.mailbox as usize].domain as usize].site;
        let its = |line: &Connection| matches!(line, Connection::Mail { host, .. } if self.plan.hosts[*host as usize].site == site);
        if self.links.get(link.id as usize).is_some_and(its) {
            self.told.push(format!("{:>9.3} s  connection {}: {what}", link.now.as_secs_f64(), link.id));
        }
    }

    fn judge_time(&mut self, now: Duration, ticket: u64) {
        let entry = &self.tickets[ticket as usize];
        let patience = match entry.priority {
            Priority::Single => SINGLE_PATIENCE,
            Priority::Batch | Priority::List => BULK_PATIENCE,
        };
        let taken = now - entry.submitted;
        // Patient work at a server that hangs is answered at the end of the session's own time.
        let slack = if entry.priority == Priority::Single { SLACK } else { SLACK + RCPT_TIMEOUT };
        if taken > patience + slack {
            let text = format!("answered after {:.1} s", taken.as_secs_f64());
            self.breach(Invariant::Answered, Some(ticket), text);
        }
    }

    fn judge_outage(&mut self, now: Duration, ticket: u64, outage: Outage) {
        // If an answer arrived while a question was open, only that question failed.
        let arrived = self.last_dns.into_iter().find(|&at| at + DNS_LATENCY_MAX < now);
        let resolved = arrived.is_some_and(|at| at > Duration::ZERO && now < at + DNS_SILENCE);
        let heard = now < self.last_mail + OUTAGE_GRACE && resolved;
        if outage == Outage::Stopping || heard {
            self.breach(Invariant::Truth, Some(ticket), format!("{outage:?}, without cause"));
        }
    }
}

impl engine::sim::World for World {
    fn connect(&mut self, link: Link, to: SocketAddr, wire: &mut Wire) -> Connect {
        self.note(u64::from(link.id), to.to_string().as_bytes());
        if to == RESOLVER {
            self.links.push(Connection::Dns(Vec::new()));
            return Connect::Open(Duration::from_millis(5));
        }
        let Some(host) = self.plan.host_at(to) else {
            self.links.push(Connection::Nobody);
            return Connect::Silent;
        };
        self.start(host, link.now);
        let open = self.plan.hosts[host as usize].state == ConnectResult::Up;
        self.links.push(Connection::Mail { host, peer: Peer::default(), open, ipv6: to.is_ipv6() });
        self.add_line(link, &format!("to {} at {to}", Rc::clone(&self.plan).hosts[host as usize].name));
        let Manners { round_trip, connections_max: most, .. } = *self.plan.manners(host, to.is_ipv6());
        match self.plan.hosts[host as usize].state {
            ConnectResult::Silent => Connect::Silent,
            ConnectResult::Refused => Connect::Refused(round_trip),
            ConnectResult::Reset => {
                wire.reset(round_trip * 2);
                Connect::Open(round_trip)
            }
            ConnectResult::Up => {
                self.last_mail = self.last_mail.max(link.now + round_trip);
                self.hosts_open[host as usize] += 1;
                let busy = self.hosts_open[host as usize] > most;
                self.with_peer(link, wire, 0, |peer, surroundings| {
                    peer.greet(round_trip * 2, busy, surroundings)
                });
                Connect::Open(round_trip)
            }
        }
    }

    fn on_bytes(&mut self, link: Link, bytes: &[u8], wire: &mut Wire) {
        if let Some(Connection::Dns(heard)) = self.links.get_mut(link.id as usize) {
            heard.extend_from_slice(bytes);
            let query = heard.get(2..).and_then(dns::read);
            if let Some(answer) = query.and_then(|query| dns::answer(&query, &self.plan, true)) {
                let mut framed = (answer.len() as u16).to_be_bytes().to_vec();
                framed.extend(answer);
                wire.send(Duration::from_millis(5), framed);
                self.resolved(link.now);
            }
            return;
        }
        // Bytes under TLS depend on other random numbers than ours.
        if bytes.first() != Some(&0x16) {
            self.note(u64::from(link.id), bytes);
            self.add_line(link, &String::from_utf8_lossy(bytes).replace("\r\n", " | "));
        }
        self.last_mail = self.last_mail.max(link.now);
        let asked = bytes.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"RCPT TO:")).count();
        self.with_peer(link, wire, asked, |peer, surroundings| peer.on_bytes(bytes, surroundings));
    }

    fn hung_up(&mut self, link: Link, is_unread: bool) {
        self.add_line(link, "closed");
        let Some(line) = self.links.get_mut(link.id as usize) else { return };
        if let Connection::Mail { host, open, .. } = std::mem::replace(line, Connection::Nobody) {
            let site = &mut self.sites[self.plan.hosts[host as usize].site as usize];
            site.open -= 1;
            // A reply that we are too fast is the last one of its session.
            site.pushed.retain(|&(other, _)| other != link.id || !is_unread);
            self.hosts_open[host as usize] -= u32::from(open);
            self.note(u64::from(link.id), b"closed");
        }
    }

    fn datagram(&mut self, now: Duration, _to: SocketAddr, payload: &[u8]) -> Vec<(Duration, Vec<u8>)> {
        self.note(now.as_nanos() as u64, payload);
        let Some(query) = dns::read(payload) else { return Vec::new() };
        if self.plan.dns_loss > 0 && self.random.u32(..self.plan.dns_loss) == 0 {
            // No question loses more packets than the resolver's retries allow.
            let lost = self.lost.entry(query.name.clone()).or_default();
            *lost += 1;
            if *lost <= 2 {
                return Vec::new();
            }
        }
        let Some(answer) = dns::answer(&query, &self.plan, false) else { return Vec::new() };
        self.resolved(now);
        vec![(Duration::from_millis(self.random.u64(1..40)), answer)]
    }

    fn answered(&mut self, now: Duration, answer: Answer) -> Option<(Duration, Request)> {
        let ticket = answer.ticket;
        self.note(ticket, format!("{now:?} {}", told(&answer.result)).as_bytes());
        if self.telling.is_some_and(|telling| telling.ticket == ticket) {
            self.told.push(format!("{:>9.3} s  answer: {:?}", now.as_secs_f64(), answer.result));
            self.told.extend(answer.trace);
        }
        let entry = &mut self.tickets[ticket as usize];
        entry.owed -= 1;
        if entry.owed < 0 {
            self.breach(Invariant::Answered, Some(ticket), "answered twice".into());
            return None;
        }
        let domain = self.plan.mailboxes[entry.mailbox as usize].domain;
        self.sites[self.plan.domains[domain as usize].site as usize].in_vain = 0;
        self.judge_time(now, ticket);
        match answer.result {
            Err(Outage::SiteFull) if self.tickets[ticket as usize].priority != Priority::Single => {
                self.crowded += 1;
                return self.ask_again(now, ticket, Duration::from_millis(500));
            }
            Err(Outage::OverBudget { after, .. }) => {
                Premise::OverBudget.count(true);
                self.tickets[ticket as usize].put_off = true;
                let Ticket { mailbox, priority, .. } = self.tickets[ticket as usize];
                let domain = self.plan.mailboxes[mailbox as usize].domain;
                let site = self.plan.domains[domain as usize].site;
                if !self.recipients.is_budget_cause(&self.plan, site, now) {
                    self.breach(Invariant::Truth, Some(ticket), "over budget, without cause".into());
                }
                if self.plan.asks_again && priority != Priority::Single && now + after < PATIENCE {
                    return self.ask_again(now, ticket, after);
                }
            }
            Err(outage) => self.judge_outage(now, ticket, outage),
            Ok(finding) => {
                let entry = &self.tickets[ticket as usize];
                let Ticket { mailbox, priority, put_off, .. } = *entry;
                let taken = now - entry.first;
                let verdict = Verdict { mailbox, priority, reason: finding.reason };
                if let Err(text) = self.recipients.judge(&self.plan, &verdict) {
                    let text = format!("{text} (rule {})", finding.rule);
                    self.breach(Invariant::Truth, Some(ticket), text);
                }
                let fair = super::judge::fair(&self.plan, mailbox, priority, taken, finding.reason);
                if let Some(text) = fair.err().filter(|_| !put_off) {
                    let text = format!("{text} (rule {})", finding.rule);
                    self.breach(Invariant::Fairness, Some(ticket), text);
                }
            }
        }
        None
    }

    fn refused(&mut self, _now: Duration, ticket: u64, refusal: Refusal) {
        self.breach(Invariant::Answered, Some(ticket), format!("not taken: {refusal:?}"));
    }
}
