//! The draw of a seed: sites, hosts with their manners, domains, mailboxes, and the requests with their times.
//!
//! The check of the engine uses only this plan and the ledger of `world.rs`; it asks the engine nothing.

use super::misleading::Tricks;
use super::texts::{Text, TextTopic, pick};
use engine::Priority;
use engine::config::Pace;
use engine_proto::pace::{Ceiling, Profile};
use fastrand::Rng;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A world before its start, with all truth about it.
pub struct WorldPlan {
    pub pace: Pace,
    pub shards: usize,
    /// The total of sessions that the engine may have.
    pub sessions: usize,
    /// The sessions are so few that one site can delay another.
    pub tight: bool,
    /// One query of so many is lost; 0: none.
    pub dns_loss: u32,
    /// Some sites mislead, so verdicts need the evidence of a session.
    pub misleads: bool,
    /// Hosts have IPv6 addresses.
    pub ipv6: bool,
    /// A request that is refused for a used-up budget is repeated.
    pub asks_again: bool,
    pub sites: Vec<Site>,
    pub hosts: Vec<PlannedHost>,
    pub domains: Vec<PlannedDomain>,
    pub mailboxes: Vec<Mailbox>,
    /// The requests: index of the mailbox, time, and priority.
    pub asked: Vec<(u32, Duration, Priority)>,
    pub by_address: HashMap<String, u32>,
    pub by_name: HashMap<String, DnsTarget>,
}

/// The object that a name of the DNS belongs to.
#[derive(Debug, Clone, Copy)]
pub enum DnsTarget {
    Domain(u32),
    Host(u32),
}

/// A site: the hosts under one registrable domain.
pub struct Site {
    pub name: String,
    pub ceiling: Ceiling,
    /// None of its properties prevents a true answer.
    pub well: bool,
    /// How many requests concern its addresses.
    pub asked: u32,
    pub domains: u32,
    /// The slowest round trip to it.
    pub round_trip: Duration,
    /// The priority of all requests about its addresses, if it is the same.
    pub priority: Option<Priority>,
}

/// A mail server with one IPv4 address.
pub struct PlannedHost {
    pub name: String,
    pub site: u32,
    pub address: Ipv4Addr,
    pub state: ConnectResult,
    pub manners: Manners,
    /// Its manners at its IPv6 address; `None`: it has no such address.
    pub ipv6: Option<Manners>,
}

/// What happens when a client connects to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectResult {
    Up,
    Refused,
    Silent,
    /// It accepts the connection and resets it.
    Reset,
}

/// The behaviour of a host in a session, apart from its answers.
#[derive(Debug, Clone)]
pub struct Manners {
    pub round_trip: Duration,
    /// The delay before each answer.
    pub thinks: Duration,
    pub pipelining: bool,
    pub helo_only: bool,
    pub starttls: StartTls,
    pub banner: Banner,
    pub mail: Option<Text>,
    pub delivery: Delivery,
    /// Answers have several lines.
    pub lines: bool,
    /// How many recipients of a transaction are accepted.
    pub recipients_max: u32,
    /// How many recipients of a session are answered before the 421.
    pub session_recipients_max: u32,
    /// How many recipients of a session are refused before the 421, or before the host hangs up without a reply.
    pub errors_max: u32,
    pub hangs_up: bool,
    /// A recipient's position in the session, and what happens instead of an answer to it.
    pub misdeed: Option<(u32, Misdeed)>,
    pub surplus: Option<Surplus>,
    /// How many connections are served at once; a further one gets 421.
    pub connections_max: u32,
    /// It accepts every recipient, as backups do.
    pub accepts_all: bool,
    /// Its answer about every recipient.
    pub everybody: Option<Fate>,
    pub tricks: Tricks,
}

/// The host's support for STARTTLS (RFC 3207).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTls {
    Absent,
    Refused,
    Broken,
}

/// The first reply of a session (RFC 5321 3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Banner {
    Good,
    Refuses(Text),
    Busy,
    Silent,
    Garbage,
}

/// The grouping of an answer's bytes into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All answers of a group go out at once.
    Burst,
    Lines,
    Split,
    Drip,
}

/// Replies that a host sends in addition, after each reply to this command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surplus {
    /// The command; empty for the greeting.
    pub behind: &'static str,
    pub text: &'static str,
    pub count: u8,
    pub pause: Duration,
}

impl Surplus {
    fn draw(random: &mut Rng) -> Surplus {
        const TEXTS: [&str; 6] =
            ["220 mx", "250 ok", "354 go ahead", "421 4.3.2 closing", "550 5.1.1 no such user", "554 no"];
        Surplus {
            behind: ["", "EHLO", "MAIL", "RCPT", "RSET", "QUIT"][random.usize(..6)],
            // Those that look like replies about a recipient are the most harmful.
            text: if random.bool() { TEXTS[1 + 3 * random.usize(..2)] } else { TEXTS[random.usize(..6)] },
            count: random.u8(1..3),
            pause: Duration::from_millis([0, 0, 2, 300, 3000][random.usize(..5)]),
        }
    }
}

/// What a host does at a recipient instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misdeed {
    Hang,
    Close,
    Reset,
    Busy,
}

/// The answers of the DNS for a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedZone {
    Good,
    /// Only TCP has the whole answer.
    Truncated,
    NoSuchName,
    NullMx,
    /// An MX record whose host does not exist.
    NoHost,
    /// It has neither an MX record nor an address.
    Empty,
    ServFail,
    Silent,
}

/// A recipient domain with its zone, its hosts and its treatment of unknown recipients.
pub struct PlannedDomain {
    pub name: String,
    pub site: u32,
    pub zone: PlannedZone,
    pub hosts: Vec<(u16, u32)>,
    /// The answer about recipients that nobody owns.
    pub strangers: Fate,
    /// The answer about `postmaster`; `None`: that of a control recipient.
    pub postmaster: Option<Fate>,
}

/// The treatment of a recipient by a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Accepted,
    Refused(Text),
    /// A 450 for a while after the first try.
    Greylisted(Text),
}

/// An address that requests ask about, and the treatment of it.
pub struct Mailbox {
    pub address: String,
    pub domain: u32,
    pub fate: Fate,
    pub role: bool,
}

/// Domains of a hoster: more than the default limit on sessions of a site.
const HOSTED: u32 = 16;
/// The address of the first host. Those of all hosts are public.
pub(super) const FIRST_ADDRESS: u32 = 0x2d00_0000;
/// The addresses from one host to the next: eight hosts are in one network, as the pace counts them.
pub(super) const HOST_ADDRESSES: u32 = 32;
/// The IPv6 address of the first host; the host's number is added to it.
const FIRST_IPV6: u128 = 0x2a0d_0000_0000_0000_0000_0000_0000_0000;
/// The share of worlds that have misleading sites.
const MISLEADING_WORLDS: f32 = 0.5;
/// Numbers of addresses of a world: without misleading sites, and of the other sites in a world with them.
const ADDRESSES: [std::ops::Range<u32>; 2] = [950..1050, 250..350];

impl WorldPlan {
    /// Draws the world of a seed. The same seed always gives the same plan.
    pub fn draw(seed: u64) -> WorldPlan {
        let mut random = Rng::with_seed(seed);
        let pace = random.choice([Pace::Polite, Pace::Polite, Pace::Fast, Pace::Lab]).unwrap_or(Pace::Polite);
        let sessions = random.choice([1000, 1000, 1000, 40]).unwrap_or(1000);
        // A generator of its own, so that the other worlds of a seed stay unchanged.
        let mut misleading = Rng::with_seed(seed ^ 0x6d69_736c);
        let mut plan = WorldPlan {
            pace,
            shards: random.choice([1, 1, 2, 3]).unwrap_or(1),
            sessions,
            tight: sessions < 500,
            dns_loss: random.choice([0, 50, 10]).unwrap_or(0),
            misleads: misleading.f32() < MISLEADING_WORLDS,
            ipv6: false,
            asks_again: false,
            sites: Vec::new(),
            hosts: Vec::new(),
            domains: Vec::new(),
            mailboxes: Vec::new(),
            asked: Vec::new(),
            by_address: HashMap::new(),
            by_name: HashMap::new(),
        };
        for site in 0..random.u32(50..70) {
            plan.draw_site(site, &mut random);
        }
        plan.draw_mailboxes(&mut random);
        if plan.misleads {
            plan.ipv6 = misleading.bool();
            plan.asks_again = misleading.u8(..) < 64;
            plan.draw_misleading(&mut misleading);
        }
        plan.draw_asked(&mut random);
        plan
    }

    /// The pace profile and limits that the engine runs with in this world.
    pub fn profile(&self) -> Profile {
        self.pace.into()
    }

    /// The behaviour of a host at its address of this family.
    pub fn manners(&self, host: u32, ipv6: bool) -> &Manners {
        let host = &self.hosts[host as usize];
        host.ipv6.as_ref().filter(|_| ipv6).unwrap_or(&host.manners)
    }

    fn draw_site(&mut self, index: u32, random: &mut Rng) {
        let name = format!("s{index}.example");
        // The first site is a hoster's: each of its domains has a host of its own.
        let hoster = index == 0;
        let well = hoster || random.u8(..) < 120;
        let ceiling = Ceiling::of(self.profile(), &name);
        let first = self.hosts.len() as u32;
        let count = if hoster { HOSTED } else { random.choice([1, 1, 2, 3]).unwrap_or(1) };
        for number in 0..count {
            self.draw_host(&name, index, number, well, random);
        }
        let round_trip = self.hosts[first as usize..].iter().map(|host| host.manners.round_trip).max();
        let domains = random.choice([1, 1, 1, 2, 3, 6]).unwrap_or(1);
        let domains = if hoster { HOSTED } else { domains };
        for number in 0..domains {
            let (first, count) = if hoster { (first + number, 1) } else { (first, count) };
            self.draw_domain(index, first, count, well, random);
        }
        let round_trip = round_trip.unwrap_or_default();
        self.sites.push(Site { name, ceiling, well, asked: 0, domains, round_trip, priority: None });
    }

    fn draw_host(&mut self, site: &str, index: u32, number: u32, well: bool, random: &mut Rng) {
        let id = self.hosts.len() as u32;
        let state = match (well, random.u8(..)) {
            (true, _) | (_, 56..) => ConnectResult::Up,
            (_, 0..20) => ConnectResult::Refused,
            (_, 20..40) => ConnectResult::Silent,
            _ => ConnectResult::Reset,
        };
        let name = format!("mx{number}.{site}");
        self.by_name.insert(name.clone(), DnsTarget::Host(id));
        self.hosts.push(PlannedHost {
            name,
            site: index,
            address: PlannedHost::ipv4_of(id),
            state,
            manners: if well { Manners::well(random) } else { Manners::odd(number, random) },
            ipv6: None,
        });
    }

    fn draw_domain(&mut self, site: u32, first: u32, count: u32, well: bool, random: &mut Rng) {
        let zone = match (well, random.u8(..)) {
            (true, 0..24) => PlannedZone::Truncated,
            (true, _) | (_, 80..) => PlannedZone::Good,
            (_, 0..15) => PlannedZone::NoSuchName,
            (_, 15..25) => PlannedZone::NullMx,
            (_, 25..35) => PlannedZone::NoHost,
            (_, 35..45) => PlannedZone::Empty,
            (_, 45..65) => PlannedZone::ServFail,
            _ => PlannedZone::Silent,
        };
        let mut hosts: Vec<(u16, u32)> = (first..first + count).map(|host| (10, host)).collect();
        if random.bool() {
            hosts.iter_mut().zip(1..).for_each(|((preference, _), place)| *preference = 10 * place);
        }
        let strangers = match (well, random.u8(..)) {
            (_, 0..40) => Fate::Accepted,
            (true, _) | (_, 90..) => Fate::Refused(pick(TextTopic::NotFound, random)),
            (_, 40..55) => Fate::Greylisted(pick(TextTopic::Greylisted, random)),
            (_, 55..70) => Fate::Refused(pick(TextTopic::Policy, random)),
            _ => Fate::Refused(pick(TextTopic::Temporary, random)),
        };
        let name = format!("d{}.example", self.domains.len());
        self.by_name.insert(name.clone(), DnsTarget::Domain(self.domains.len() as u32));
        self.domains.push(PlannedDomain { name, site, zone, hosts, strangers, postmaster: None });
    }

    fn draw_mailboxes(&mut self, random: &mut Rng) {
        let hot: Vec<usize> = (0..4).map(|_| random.usize(..self.domains.len())).collect();
        for number in 0..random.u32(ADDRESSES[usize::from(self.misleads)].clone()) {
            let popular = random.u8(..) < 64;
            let at =
                if popular { hot[random.usize(..hot.len())] } else { random.usize(..self.domains.len()) };
            let domain = &self.domains[at];
            let role = random.u8(..) < 8;
            let address =
                if role { format!("info@{}", domain.name) } else { format!("u{number}@{}", domain.name) };
            let index = self.mailboxes.len() as u32;
            if self.by_address.contains_key(&address) {
                continue;
            }
            let fate = Fate::draw(&domain.strangers, self.sites[domain.site as usize].well, random);
            self.by_address.insert(address.clone(), index);
            self.mailboxes.push(Mailbox { address, domain: at as u32, fate, role });
        }
    }

    fn draw_asked(&mut self, random: &mut Rng) {
        let span = random.choice([1, 5_000, 60_000]).unwrap_or(1);
        // The span is long enough for evidence of single checks to expire.
        let span = if self.misleads && random.u8(..) < 64 { 1_500_000 } else { span };
        let priorities = [Priority::Single, Priority::Batch, Priority::List];
        let (most, share) = (priorities[random.usize(..3)], random.u8(..));
        let repeats = random.usize(..50);
        let count = self.mailboxes.len();
        let repeated = (0..repeats).map(|_| random.u32(..count as u32)).collect::<Vec<_>>();
        for mailbox in (0..count as u32).chain(repeated) {
            let at = Duration::from_millis(random.u64(..span));
            let priority = if random.u8(..) < share { most } else { priorities[random.usize(..3)] };
            let domain = &self.domains[self.mailboxes[mailbox as usize].domain as usize];
            let site = &mut self.sites[domain.site as usize];
            site.asked += 1;
            self.asked.push((mailbox, at, site.priority.unwrap_or(priority)));
        }
    }
}

impl PlannedHost {
    /// The IPv4 address of the host with this index.
    pub(super) fn ipv4_of(id: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(FIRST_ADDRESS + id * HOST_ADDRESSES)
    }

    /// The IPv6 address of the host with this number.
    pub fn ipv6_of(number: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(FIRST_IPV6 + u128::from(number))
    }

    /// Whether it changes its behaviour, and every later session meets the change.
    pub fn changes_for_good(&self) -> bool {
        let tricks = &self.manners.tricks;
        tricks.nodes.is_none() && tricks.change.is_some_and(|change| change.lasts())
    }
}

impl Mailbox {
    /// Whether somebody owns the recipient.
    pub fn exists(&self) -> bool {
        !matches!(&self.fate, Fate::Refused(text) if matches!(text.kind, TextTopic::NotFound | TextTopic::Unclear))
    }
}

impl Fate {
    /// The reply text that stands for this treatment.
    pub fn words(&self) -> &'static str {
        match self {
            Fate::Accepted => "250",
            Fate::Refused(text) | Fate::Greylisted(text) => text.words,
        }
    }

    /// Draws the treatment of a mailbox that exists, at a domain that treats control recipients like this.
    fn draw(strangers: &Fate, well: bool, random: &mut Rng) -> Fate {
        let number = random.u8(..);
        match number {
            0..128 => Fate::Accepted,
            128..208 if *strangers == Fate::Accepted => Fate::Accepted,
            128..208 => Fate::Refused(pick(TextTopic::NotFound, random)),
            208..218 => Fate::Refused(pick(TextTopic::Full, random)),
            218..228 => Fate::Refused(pick(TextTopic::Disabled, random)),
            228..236 => Fate::Greylisted(pick(TextTopic::Greylisted, random)),
            _ if well => Fate::Accepted,
            236..242 => Fate::Refused(pick(TextTopic::Policy, random)),
            242..246 => Fate::Refused(pick(TextTopic::Temporary, random)),
            246..250 => Fate::Refused(pick(TextTopic::Throttled, random)),
            250..253 => Fate::Refused(pick(TextTopic::Relay, random)),
            _ => Fate::Refused(pick(TextTopic::Auth, random)),
        }
    }
}

impl Manners {
    pub(super) fn well(random: &mut Rng) -> Manners {
        Manners {
            round_trip: Duration::from_millis(random.u64(1..300)),
            thinks: Duration::from_millis(random.u64(..20)),
            pipelining: random.u8(..) < 200,
            helo_only: random.u8(..) < 12,
            starttls: random
                .choice([StartTls::Absent, StartTls::Absent, StartTls::Refused])
                .unwrap_or(StartTls::Absent),
            banner: Banner::Good,
            mail: None,
            delivery: random
                .choice([Delivery::Burst, Delivery::Lines, Delivery::Split])
                .unwrap_or(Delivery::Burst),
            lines: random.bool(),
            recipients_max: if random.u8(..) < 30 { random.u32(5..20) } else { u32::MAX },
            session_recipients_max: u32::MAX,
            errors_max: if random.bool() { 20 } else { u32::MAX },
            hangs_up: false,
            misdeed: None,
            surplus: None,
            connections_max: u32::MAX,
            accepts_all: false,
            everybody: None,
            tricks: Tricks::default(),
        }
    }

    /// Draws a good host with one or two defects.
    fn odd(number: u32, random: &mut Rng) -> Manners {
        let mut manners = Manners::well(random);
        for _ in 0..random.u8(1..3) {
            match random.u8(..18) {
                0 => manners.banner = Banner::Refuses(pick(TextTopic::Policy, random)),
                1 => manners.banner = Banner::Busy,
                2 => manners.banner = Banner::Silent,
                3 => manners.banner = Banner::Garbage,
                4 => manners.mail = Some(pick(TextTopic::Policy, random)),
                5 => manners.mail = Some(pick(TextTopic::Temporary, random)),
                6 => manners.delivery = Delivery::Drip,
                7 => manners.recipients_max = random.u32(1..4),
                8 => manners.session_recipients_max = random.u32(1..20),
                9 => (manners.errors_max, manners.hangs_up) = (random.u32(1..10), random.bool()),
                10 => manners.misdeed = Some((random.u32(1..6), Misdeed::Hang)),
                11 => manners.misdeed = Some((random.u32(1..6), Misdeed::Close)),
                12 => manners.misdeed = Some((random.u32(1..6), Misdeed::Reset)),
                13 => manners.misdeed = Some((random.u32(1..6), Misdeed::Busy)),
                14 => manners.connections_max = random.u32(1..4),
                15 | 16 => manners.surplus = Some(Surplus::draw(random)),
                _ => manners.starttls = StartTls::Broken,
            }
        }
        manners.accepts_all = number > 0 && random.bool();
        if random.u8(..) < 24 {
            let kind = [
                TextTopic::Policy,
                TextTopic::Temporary,
                TextTopic::Relay,
                TextTopic::Throttled,
                TextTopic::Greylisted,
            ];
            manners.everybody = Some(Fate::Refused(pick(kind[random.usize(..kind.len())], random)));
        }
        manners
    }
}
