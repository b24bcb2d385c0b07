//! Sites that mislead: servers that change their behaviour, nodes that do not know their mailboxes, refusals of
//! everyone, unclear words for control recipients, budgets of unknown recipients, tarpits, and refused IPv6.

use super::change::{HostChange, Nodes, Trigger, Turn};
use super::plan::{
    Banner, ConnectResult, DnsTarget, Fate, Mailbox, Manners, PlannedDomain, PlannedHost, PlannedZone, Site,
    WorldPlan,
};
use super::texts::{self, TextTopic, pick};
use engine::Priority;
use engine::config::Pace;
use engine_proto::pace::Ceiling;
use fastrand::Rng;
use std::time::Duration;

/// The ways in which a host misleads.
#[derive(Debug, Clone, Default)]
pub struct Tricks {
    pub change: Option<HostChange>,
    pub nodes: Option<Nodes>,
    /// The 421 that names our rate, at the recipient after [`Manners::errors_max`] refused ones.
    pub busy: Option<&'static str>,
    pub tarpit: Option<Tarpit>,
    /// Its banner is that of a Cisco gateway, which limits unknown recipients.
    pub cisco: bool,
}

/// The settings of a server that delays each refusal after the first few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tarpit {
    /// How many refused recipients of a session are not delayed.
    pub free: u32,
    pub delay: Duration,
}

/// The ways in which a site misleads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trick {
    Change,
    Nodes,
    Unclear,
    Everybody,
    Busy,
    Tarpit,
    Ipv6,
    Cisco,
    /// The site has more unknown recipients than an hour's budget.
    Mill,
}

const TRICKS: [Trick; 9] = [
    Trick::Change,
    Trick::Nodes,
    Trick::Unclear,
    Trick::Everybody,
    Trick::Busy,
    Trick::Tarpit,
    Trick::Ipv6,
    Trick::Cisco,
    Trick::Mill,
];

/// How many sites of a world mislead.
const SITES: std::ops::Range<u32> = 4..8;
/// Numbers of unknown recipients after which a server changes.
const CHANGES: [u32; 4] = [3, 7, 12, 20];

impl WorldPlan {
    /// Adds the sites that mislead, with their hosts, domains and mailboxes.
    pub(super) fn draw_misleading(&mut self, random: &mut Rng) {
        for _ in 0..random.u32(SITES) {
            let trick = TRICKS[random.usize(..TRICKS.len())];
            let also = Some(TRICKS[random.usize(..TRICKS.len())]).filter(|_| random.u8(..) < 64);
            self.draw_misleading_site(trick, also, random);
        }
    }

    fn draw_misleading_site(&mut self, trick: Trick, also: Option<Trick>, random: &mut Rng) {
        let index = self.sites.len() as u32;
        let name = format!("s{index}.example");
        let first = self.hosts.len() as u32;
        let hosts = random.choice([1, 1, 2, 3]).unwrap_or(1);
        for number in 0..hosts {
            let mut manners = Manners::well(random);
            // Of several hosts, the one with a trick is a backup, or a node with a name of its own.
            let all = random.bool();
            let here = |trick: &Trick| all || number == hosts - 1 || *trick == Trick::Cisco;
            for trick in [Some(trick), also].into_iter().flatten().filter(here) {
                manners.mislead(trick, random);
            }
            let ipv6 = (trick == Trick::Ipv6 || also == Some(Trick::Ipv6)).then(|| manners.refusing(random));
            self.draw_misleading_host(&name, index, number, manners, ipv6);
        }
        let domains = random.choice([1, 1, 1, 2, 3]).unwrap_or(1);
        for number in 0..domains {
            let strangers =
                Fate::of_strangers(trick == Trick::Unclear || also == Some(Trick::Unclear), random);
            let postmaster = match random.u8(..) {
                0..160 => Fate::Accepted,
                _ => strangers.clone(),
            };
            let mut hosts: Vec<(u16, u32)> = (first..first + hosts).map(|host| (10, host)).collect();
            if random.bool() {
                hosts.iter_mut().zip(1..).for_each(|((preference, _), place)| *preference = 10 * place);
            }
            let name = format!("d{}.example", self.domains.len());
            self.by_name.insert(name.clone(), DnsTarget::Domain(self.domains.len() as u32));
            let zone = PlannedZone::Good;
            self.domains.push(PlannedDomain {
                name,
                site: index,
                zone,
                hosts,
                strangers,
                postmaster: Some(postmaster),
            });
            let mill = number == 0 && (trick == Trick::Mill || also == Some(Trick::Mill));
            let count = how_many(mill, self.pace, random);
            self.draw_misleading_mailboxes(count, if mill { 140..=255 } else { 20..=230 }, random);
        }
        let ceiling = Ceiling::of(self.profile(), &name);
        let priority =
            random.choice([None, Some(Priority::Single), Some(Priority::List), Some(Priority::Batch)]);
        let round_trip = self.hosts[first as usize..].iter().map(|host| host.manners.round_trip).max();
        self.sites.push(Site {
            name,
            ceiling,
            // The host serves us at this address, however it answers at its other address.
            well: trick == Trick::Ipv6 && also.is_none(),
            asked: 0,
            domains,
            round_trip: round_trip.unwrap_or_default(),
            priority: priority.flatten(),
        });
    }

    fn draw_misleading_host(
        &mut self,
        site: &str,
        index: u32,
        number: u32,
        manners: Manners,
        ipv6: Option<Manners>,
    ) {
        let id = self.hosts.len() as u32;
        let name = format!("mx{number}.{site}");
        self.by_name.insert(name.clone(), DnsTarget::Host(id));
        let address = PlannedHost::ipv4_of(id);
        self.hosts.push(PlannedHost { name, site: index, address, state: ConnectResult::Up, manners, ipv6 });
    }

    /// Adds mailboxes to the newest domain. `unknown` of 256 addresses that are asked about belong to nobody.
    fn draw_misleading_mailboxes(
        &mut self,
        count: u32,
        unknown: std::ops::RangeInclusive<u8>,
        random: &mut Rng,
    ) {
        let unknown = random.u8(unknown);
        let at = self.domains.len() - 1;
        let accepts_all = self.domains[at].strangers == Fate::Accepted;
        for number in 0..count {
            let role = number > 0 && random.u8(..) < 8;
            let local = if role { format!("info{number}") } else { format!("u{number}") };
            let address = format!("{local}@{}", self.domains[at].name);
            let fate = match random.u8(..) {
                known if known >= unknown || accepts_all => Fate::Accepted,
                0..4 => Fate::Refused(pick(TextTopic::Full, random)),
                _ => self.domains[at].strangers.clone(),
            };
            self.by_address.insert(address.clone(), self.mailboxes.len() as u32);
            self.mailboxes.push(Mailbox { address, domain: at as u32, fate, role: false });
        }
    }
}

/// How many addresses of a domain are asked about. A mill gets more than its budget.
fn how_many(mill: bool, pace: Pace, random: &mut Rng) -> u32 {
    match (mill, pace) {
        (true, Pace::Fast) => random.u32(500..800),
        (true, _) => random.u32(110..300),
        (false, _) => match random.u8(..) {
            0..80 => random.u32(5..20),
            80..180 => random.u32(20..60),
            _ => random.u32(60..140),
        },
    }
}

impl Fate {
    fn of_strangers(unclear: bool, random: &mut Rng) -> Fate {
        match random.u8(..) {
            _ if unclear => Fate::Refused(pick(TextTopic::Unclear, random)),
            0..24 => Fate::Accepted,
            _ => Fate::Refused(pick(TextTopic::NotFound, random)),
        }
    }
}

impl Manners {
    fn mislead(&mut self, trick: Trick, random: &mut Rng) {
        match trick {
            Trick::Change => {
                let change = HostChange { trigger: Trigger::draw(random), turn: Turn::draw(random) };
                self.tricks.change = Some(change);
            }
            Trick::Nodes => {
                self.tricks.nodes = Some(Nodes { share: random.u8(30..160), turn: Turn::draw(random) });
            }
            Trick::Everybody => {
                let kind = [
                    TextTopic::Unclear,
                    TextTopic::Policy,
                    TextTopic::NotFound,
                    TextTopic::Full,
                    TextTopic::Relay,
                ];
                self.everybody = Some(Fate::Refused(pick(kind[random.usize(..kind.len())], random)));
            }
            Trick::Busy => {
                self.errors_max = random.u32(2..10);
                self.tricks.busy = random.choice(texts::RATE);
            }
            Trick::Tarpit => {
                let delay = Duration::from_millis(random.u64(800..3000));
                self.tricks.tarpit = Some(Tarpit { free: random.u32(4..9), delay });
            }
            Trick::Cisco => self.tricks.cisco = true,
            Trick::Unclear | Trick::Ipv6 | Trick::Mill => {}
        }
    }

    /// The same host at its IPv6 address, where it refuses us for our own properties.
    fn refusing(&self, random: &mut Rng) -> Manners {
        let mut manners = self.clone();
        let text = pick(TextTopic::Policy, random);
        match random.u8(..) {
            0..100 => manners.banner = Banner::Refuses(text),
            100..200 => manners.mail = Some(text),
            _ => manners.everybody = Some(Fate::Refused(text)),
        }
        manners
    }
}

impl Trigger {
    fn draw(random: &mut Rng) -> Trigger {
        let most = CHANGES[random.usize(..CHANGES.len())];
        match random.u8(..) {
            0..80 => Trigger::Session(most.min(9)),
            80..150 => Trigger::Client(most),
            150..220 => Trigger::Host(most, random.u32(..3)),
            _ => Trigger::Time(Duration::from_millis(random.u64(..60_000))),
        }
    }
}

impl Turn {
    fn draw(random: &mut Rng) -> Turn {
        if random.u8(..) < 144 {
            Turn::AcceptsAll
        } else {
            Turn::RefusesAll(pick(TextTopic::NotFound, random))
        }
    }
}
