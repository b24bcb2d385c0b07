//! The model of a plan: the needs of a workload, from the costs of its parts. It is pure; docs/loadtest.md has the
//! formulas.

mod memory;

use crate::calibrate::distinct;
use crate::figures::{Figures, Parts};
use crate::providers::{ERRORS, Limits, OTHER, WINDOW_S, is_of_companies};
pub use memory::MemoryPart;
use serde::Serialize;

/// The interface that addresses use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Lists, with `mailprobe clean`.
    Clean,
    /// Single checks over the API.
    Api,
    /// Batches over the API.
    Batch,
}

/// The addresses of a period, with their properties.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    pub way: Way,
    /// The number of addresses, and the share of fast checks.
    pub addresses: f64,
    pub fast: f64,
    /// The length of the period in seconds.
    pub seconds: f64,
    /// Addresses per domain over the whole period.
    pub per_domain: f64,
    /// The round trip to a mail server in seconds, with its time to answer.
    pub round_trip_s: f64,
    /// The shares of addresses that are greylisted, at servers with TLS, and existing.
    pub greylisted: f64,
    pub tls: f64,
    pub exists: f64,
    /// The shares of addresses at providers, by their names in the table.
    pub providers: Vec<(String, f64)>,
}

/// The name of the third limit in [`Group::bound_by`].
pub const BUDGET: &str = "budget of refused recipients";

/// The needs of a group of sites: a provider is one site, all others are many.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub name: String,
    /// The number of sites, which have equal shares of the recipients.
    pub sites: f64,
    /// The number of recipients, with those that are asked about again.
    pub recipients: f64,
    pub sessions: f64,
    pub recipients_per_session: f64,
    /// The seconds from connect to close.
    pub session_life: f64,
    /// The average number of open sessions.
    pub open: f64,
    /// How many recipients per second one source address may ask one site of the group about; `None` for no limit.
    pub polite_rate: Option<f64>,
    /// The name of the limit that applies.
    pub bound_by: &'static str,
    /// The rate that sessions at once and new sessions per minute allow; `None` for no limit.
    pub pace_rate: Option<f64>,
    /// The refused recipients of each site in the whole period, with the control recipients of its domains.
    pub refused: f64,
    /// How many of them one source may get in [`WINDOW_S`] seconds; `None` for no limit.
    pub budget: Option<f64>,
    /// How many source addresses are needed to finish in time.
    pub sources: f64,
    /// How many seconds are needed with one source.
    pub seconds_with_one: f64,
}

impl Group {
    /// The recipients of each site.
    fn each(&self) -> f64 {
        self.recipients / self.sites
    }

    /// How many seconds this number of source addresses needs for the sites, each in a program of its own.
    pub fn seconds_with(&self, sources: f64) -> f64 {
        let pace = self.pace_rate.map_or(0.0, |rate| self.each() / rate);
        (pace / sources).max(self.budget_seconds(sources))
    }

    /// How many seconds the budget of refused recipients needs. A budget that is never used up needs none.
    fn budget_seconds(&self, sources: f64) -> f64 {
        let budgets = self.budget.map_or(0.0, |budget| self.refused / sources / budget);
        if budgets > 1.0 { budgets * WINDOW_S } else { 0.0 }
    }

    /// Completes the fields that follow from the limits, for a period of this length.
    fn bounded(mut self, by_sessions: f64, by_starts: f64, seconds: f64) -> Group {
        let (rate, name) = if by_sessions < by_starts {
            (by_sessions, "sessions at once")
        } else {
            (by_starts, "new sessions per minute")
        };
        self.pace_rate = rate.is_finite().then_some(rate);
        self.seconds_with_one = self.seconds_with(1.0);
        self.polite_rate = (self.seconds_with_one > 0.0).then(|| self.each() / self.seconds_with_one);
        self.bound_by = match self.polite_rate {
            Some(_) if self.budget_seconds(1.0) >= self.seconds_with_one => BUDGET,
            Some(_) => name,
            None => "nothing",
        };
        let pace = self.pace_rate.map_or(0.0, |rate| self.each() / seconds / rate);
        let windows = (seconds / WINDOW_S).max(1.0);
        let budget = self.budget.map_or(0.0, |budget| self.refused / (budget * windows));
        // A source more for a rounding error would be wrong.
        self.sources = (pace.max(budget) - 1e-9).ceil().max(1.0);
        self
    }
}

/// The needs of a list with its rows in random order, where they exceed those of a sorted list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Unsorted {
    /// The highest number of sessions.
    pub sessions: f64,
    /// The CPU seconds with these sessions.
    pub cpu_s: f64,
    /// The number of rows that `clean` has in progress.
    pub queue: f64,
}

/// The needs of a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Demand {
    pub fast: f64,
    pub full: f64,
    pub recipients: f64,
    pub domains: f64,
    pub sessions: f64,
    pub sessions_open: f64,
    /// The needs of a list in random order; `None` if the order makes no difference.
    pub unsorted: Option<Unsorted>,
    /// The total CPU seconds, and their parts.
    pub cpu_s: f64,
    pub cpu_parts: Vec<(&'static str, f64)>,
    pub memory_bytes: f64,
    pub memory_parts: Vec<MemoryPart>,
    pub groups: Vec<Group>,
}

impl Demand {
    /// The needs of a workload. `table` has the limits of providers; its row `other` has those of all other sites.
    pub fn of(workload: &Workload, figures: &Figures, table: &[Limits]) -> Demand {
        let fast = workload.addresses * workload.fast;
        let full = workload.addresses - fast;
        let domains = match workload.way {
            // A list is read once, and its domains occur in no other list.
            Way::Clean => full / workload.per_domain,
            // Checks have random domains, and fast checks have the same ones.
            Way::Api | Way::Batch => distinct(workload.addresses / workload.per_domain, workload.addresses),
        };
        let groups = groups(workload, figures, table, full * (1.0 + again(workload)), domains);
        let recipients: f64 = groups.iter().map(|group| group.recipients).sum();
        let sessions: f64 = groups.iter().map(|group| group.sessions).sum();
        let sessions_open: f64 = groups.iter().map(|group| group.open).sum();
        let counts = Counts { fast, recipients, domains, sessions };
        let cpu_parts = cpu(workload, &figures.cpu_us, &counts);
        let memory_parts = memory::parts(workload, &figures.memory, &groups, full, domains);
        let cpu_s = cpu_parts.iter().map(|(_, seconds)| seconds).sum();
        let unsorted = unsorted(workload, &figures.cpu_us, &groups, cpu_s);
        Demand {
            fast,
            full,
            recipients,
            domains,
            sessions,
            sessions_open,
            unsorted,
            cpu_s,
            cpu_parts,
            memory_bytes: memory_parts.iter().map(MemoryPart::bytes).sum(),
            memory_parts,
            groups,
        }
    }
}

/// How many recipients are asked about again, as a share of them. A single check does not wait for greylisting: it is
/// answered `unverifiable` at once.
fn again(workload: &Workload) -> f64 {
    if workload.way == Way::Api { 0.0 } else { workload.greylisted }
}

/// A list in random order: of the rows in progress, those of the same site share a session. The rows come in rounds as
/// long as the queue. Real sessions also take rows of the next round, so this is an upper bound.
fn unsorted(workload: &Workload, parts: &Parts, groups: &[Group], cpu_s: f64) -> Option<Unsorted> {
    if workload.way != Way::Clean {
        return None;
    }
    let recipients: f64 = groups.iter().map(|group| group.recipients).sum();
    let queue = memory::queue(groups);
    let rounds = (recipients / queue).max(1.0);
    let of = |group: &Group| {
        let sites = distinct(group.sites, group.recipients / rounds);
        (rounds * sites).min(group.recipients).max(group.sessions)
    };
    let sessions: f64 = groups.iter().map(of).sum();
    let more = sessions - groups.iter().map(|group| group.sessions).sum::<f64>();
    let cpu_s = cpu_s + more * (parts.session + workload.tls * parts.tls_session) / 1e6;
    (more > 0.5).then_some(Unsorted { sessions, cpu_s, queue })
}

struct Counts {
    fast: f64,
    recipients: f64,
    domains: f64,
    sessions: f64,
}

fn cpu(workload: &Workload, parts: &Parts, counts: &Counts) -> Vec<(&'static str, f64)> {
    let Counts { fast, recipients, domains, sessions } = *counts;
    let start = match workload.way {
        Way::Clean => parts.start,
        Way::Api | Way::Batch => parts.idle_second * workload.seconds,
    };
    let address = address_us(workload, parts, recipients);
    let tls = workload.tls * (sessions * parts.tls_session + recipients * parts.tls_address);
    [
        ("process", start),
        ("fast checks", fast * parts.fast.at(fast / workload.seconds)),
        ("addresses", recipients * address),
        ("domains", domains * parts.domain),
        ("sessions", sessions * parts.session),
        ("TLS", tls),
    ]
    .map(|(name, micros)| (name, micros / 1e6))
    .into()
}

/// The cost of a recipient without its domain and session.
pub fn address_us(workload: &Workload, parts: &Parts, recipients: f64) -> f64 {
    match workload.way {
        Way::Clean => parts.list_address,
        Way::Api => parts.api_address.at(recipients / workload.seconds),
        Way::Batch => parts.batch_row,
    }
}

fn groups(
    workload: &Workload,
    figures: &Figures,
    table: &[Limits],
    recipients: f64,
    domains: f64,
) -> Vec<Group> {
    let at_providers: f64 = workload.providers.iter().map(|(_, share)| share).sum();
    let mut groups = Vec::new();
    for (name, share) in &workload.providers {
        if let Some(limits) = table.iter().find(|limits| limits.name == *name) {
            let controls = if is_of_companies(name) { (domains * share).max(1.0) } else { 1.0 };
            groups.push(group(workload, figures, limits, recipients * share, 1.0, controls));
        }
    }
    let rest = (1.0 - at_providers).max(0.0);
    let other = table.iter().find(|limits| limits.name == OTHER);
    if let Some(limits) = other.filter(|_| rest > 1e-9) {
        groups.push(group(workload, figures, limits, recipients * rest, (domains * rest).max(1.0), 1.0));
    }
    groups
}

/// The sessions of this number of recipients at this number of sites, each with this number of control recipients.
fn group(
    workload: &Workload,
    figures: &Figures,
    limits: &Limits,
    recipients: f64,
    sites: f64,
    controls: f64,
) -> Group {
    let each = recipients / sites;
    let sessions = sites * sessions_of_site(workload, figures, limits, each);
    let recipients_per_session = recipients / sessions.max(1e-9);
    let waits = match workload.way {
        Way::Clean => 0.0,
        Way::Api | Way::Batch => {
            let wait = figures.session_idle_s;
            wait + (recipients_per_session - 1.0).max(0.0) * gap(each / workload.seconds, wait)
        }
    };
    let session_life = life(workload, recipients_per_session) + waits;
    let answered = each / (1.0 + again(workload));
    let refused = answered * (1.0 - workload.exists) + controls;
    let budget = limits.budget.refusals(refused / (answered + controls));
    let group = Group {
        name: limits.name.clone(),
        sites,
        recipients,
        sessions,
        recipients_per_session,
        session_life,
        open: sessions * session_life / workload.seconds,
        polite_rate: None,
        bound_by: "nothing",
        pace_rate: None,
        refused,
        budget: budget.is_finite().then_some(budget),
        sources: 1.0,
        seconds_with_one: 0.0,
    };
    let recipients = recipients_per_session.max(1.0);
    let (by_sessions, by_starts) = (limits.sessions / session_life, limits.starts / 60.0);
    group.bounded(by_sessions * recipients, by_starts * recipients, workload.seconds)
}

/// The sessions of one site with `each` recipients.
fn sessions_of_site(workload: &Workload, figures: &Figures, limits: &Limits, each: f64) -> f64 {
    let refused = (1.0 - workload.exists).max(1e-9);
    let errors = if limits.recipients.is_finite() { ERRORS / refused } else { f64::INFINITY };
    let most = limits.recipients.min(errors).max(1.0);
    match workload.way {
        // A list asks a site about all its recipients at once: there is a first session, and further ones for a long
        // queue.
        Way::Clean => (1.0 + (each - 1.0).max(0.0) / figures.recipients_per_session).max(each / most),
        // A check that arrives while a session is idle needs no new one.
        Way::Api | Way::Batch => {
            let per_second = each / workload.seconds;
            let alone = (-per_second * figures.session_idle_s).exp();
            (each * alone).max(each / most).max(each.min(1.0))
        }
    }
}

/// How long a session waits on average for a check that still finds it: the mean of an exponential gap below the idle
/// time.
fn gap(per_second: f64, wait: f64) -> f64 {
    let passed = per_second * wait;
    // At a very low rate all times are equally likely.
    if passed < 1e-6 { wait / 2.0 } else { 1.0 / per_second - wait / passed.exp_m1() }
}

/// The round trips of a session: three for connect, greeting and EHLO; three more for STARTTLS, the handshake (one in
/// TLS 1.3) and EHLO again; then a group of recipients, the control recipient, and QUIT.
fn life(workload: &Workload, recipients: f64) -> f64 {
    let groups = (recipients / GROUP).ceil().max(1.0);
    (3.0 + 3.0 * workload.tls + groups + 1.0 + 1.0) * workload.round_trip_s
}

/// The recipients of one pipelined group.
const GROUP: f64 = 100.0;

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::figures::{Curve, Memory};
    use crate::providers::{Pace, built_in};

    /// Round figures for tests.
    pub fn figures() -> Figures {
        Figures {
            machine: "2 cores, test".into(),
            origin: None,
            cores: 2,
            cpu_us: Parts {
                start: 50_000.0,
                idle_second: 1000.0,
                fast: Curve(vec![(1.0, 100.0)]),
                list_address: 10.0,
                api_address: Curve(vec![(1.0, 200.0)]),
                batch_row: 50.0,
                domain: 100.0,
                session: 200.0,
                tls_session: 500.0,
                tls_address: 5.0,
            },
            memory: Memory { base: 5e7, session: 1e4, tls_session: 2e4, domain: 1000.0, batch_row: 300.0 },
            recipients_per_session: 20.0,
            session_idle_s: 2.0,
            other_load: None,
            fitted: Vec::new(),
        }
    }

    /// A workload for tests.
    pub fn workload(way: Way) -> Workload {
        Workload {
            way,
            addresses: 1e6,
            fast: 0.0,
            seconds: 10_000.0,
            per_domain: 10.0,
            round_trip_s: 0.05,
            greylisted: 0.0,
            tls: 0.0,
            exists: 0.5,
            providers: Vec::new(),
        }
    }

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= wanted.abs() * 1e-6, "{found} for {wanted}");
    }

    #[test]
    fn a_list_adds_up() {
        let demand = Demand::of(&workload(Way::Clean), &figures(), &built_in(Pace::Lab));
        close(demand.domains, 1e5);
        // A first session, and one more for every twenty of nine more recipients.
        close(demand.sessions, 1e5 * (1.0 + 9.0 / 20.0));
        let cpu = 0.05 + 1e6 * 10e-6 + 1e5 * 100e-6 + 1.45e5 * 200e-6;
        close(demand.cpu_s, cpu);
        // Six round trips each.
        close(demand.sessions_open, 1.45e5 * 6.0 * 0.05 / 10_000.0);
        assert_eq!(demand.groups[0].polite_rate, None);
    }

    #[test]
    fn tls_and_greylisting_cost() {
        let (plain, mut other) = (workload(Way::Clean), workload(Way::Clean));
        (other.tls, other.greylisted) = (1.0, 0.1);
        let table = built_in(Pace::Lab);
        let (one, two) = (Demand::of(&plain, &figures(), &table), Demand::of(&other, &figures(), &table));
        close(two.recipients, one.recipients * 1.1);
        let tls = two.cpu_parts.iter().find(|(name, _)| *name == "TLS").unwrap().1;
        close(tls, two.sessions * 500e-6 + two.recipients * 5e-6);
        close(two.groups[0].session_life, 9.0 * 0.05);
    }

    #[test]
    fn checks_share_sessions_by_chance() {
        for (rate, alone) in [(0.01, (-0.02f64).exp()), (1.0, (-2.0f64).exp())] {
            let mut work = workload(Way::Api);
            work.per_domain = rate * work.seconds;
            let demand = Demand::of(&work, &figures(), &built_in(Pace::Lab));
            close(demand.sessions / demand.recipients, alone);
        }
        let mut fast = workload(Way::Api);
        fast.fast = 1.0;
        let demand = Demand::of(&fast, &figures(), &built_in(Pace::Lab));
        assert!(demand.sessions < 1e-6, "{}", demand.sessions);
        close(demand.cpu_parts[1].1, 100.0);
    }

    #[test]
    fn a_session_lives_while_checks_find_it() {
        // By simulation: gaps are drawn until one is longer than the idle time.
        let (per_second, wait) = (0.4, 2.0);
        let mut random = crate::random::Random::new(5);
        let (mut sum, mut count) = (0.0, 0.0);
        for _ in 0..200_000 {
            let drawn = random.exponential() / per_second;
            if drawn < wait {
                (sum, count) = (sum + drawn, count + 1.0);
            }
        }
        assert!((gap(per_second, wait) - sum / count).abs() < 0.01, "{}", gap(per_second, wait));
        close(gap(1e-9, 2.0), 1.0);
        let mut work = workload(Way::Api);
        work.per_domain = per_second * work.seconds;
        let group = &Demand::of(&work, &figures(), &built_in(Pace::Lab)).groups[0];
        let each = (per_second * wait).exp();
        close(group.recipients_per_session, each);
        close(group.session_life, 6.0 * 0.05 + wait + (each - 1.0) * gap(per_second, wait));
    }

    #[test]
    fn politeness_bounds_providers() {
        let mut work = workload(Way::Clean);
        work.providers = vec![("google".into(), 0.4), ("icloud".into(), 0.1)];
        let figures = Figures { recipients_per_session: 1e6, ..figures() };
        let demand = Demand::of(&work, &figures, &built_in(Pace::Polite));
        let google = &demand.groups[0];
        close(google.recipients, 4e5);
        // Half are refused, so ten errors end a session after twenty recipients.
        close(google.recipients_per_session, 20.0);
        close(google.pace_rate.unwrap(), 100.0 / 60.0 * 20.0);
        let icloud = &demand.groups[1];
        close(icloud.recipients_per_session, 5.0);
        close(icloud.pace_rate.unwrap(), 100.0 / 60.0 * 5.0);
        assert_eq!(demand.groups.len(), 3);
        assert_eq!(demand.groups[2].sources, 1.0);
        // Without refusals, the pace alone counts.
        work.exists = 1.0;
        let google = &Demand::of(&work, &figures, &built_in(Pace::Polite)).groups[0];
        close(google.recipients_per_session, 50.0);
        close(google.seconds_with_one, 4e5 / (100.0 / 60.0 * 50.0));
        assert_eq!((google.bound_by, google.sources), ("new sessions per minute", 1.0));
    }

    #[test]
    fn budgets_of_refused_recipients_bound_sites() {
        let starts = "new sessions per minute";
        // Site, share of existing addresses, addresses, pace; the limit, the budgets that one source uses up, and the
        // sources for a day. A day has 22.15 budgets of 65 minutes.
        for (name, exists, addresses, pace, bound_by, budgets, sources) in [
            ("google", 0.8, 50_000.0, Pace::Polite, BUDGET, 10_001.0 / 6000.0, 1.0),
            ("google", 0.8, 6e6, Pace::Polite, BUDGET, 1_200_001.0 / 6000.0, 10.0),
            ("google", 0.5, 10_000.0, Pace::Polite, BUDGET, 5001.0 / 3000.0, 1.0),
            ("google", 0.2, 1e6, Pace::Polite, BUDGET, 800_001.0 / 3000.0, 13.0),
            ("google", 0.8, 6e6, Pace::Fast, BUDGET, 1_200_001.0 / 30_000.0, 2.0),
            ("google", 0.8, 25_000.0, Pace::Polite, starts, 0.0, 1.0),
            ("google", 0.85, 1e6, Pace::Polite, starts, 0.0, 1.0),
            ("google", 0.2, 1e6, Pace::Lab, "nothing", 0.0, 1.0),
            ("gmx", 0.7, 10_000.0, Pace::Polite, BUDGET, 3001.0 / 600.0, 1.0),
            ("cisco", 0.9, 1000.0, Pace::Polite, BUDGET, 101.0 / 25.0, 1.0),
            (OTHER, 0.4, 1000.0, Pace::Polite, BUDGET, 601.0 / 100.0, 1.0),
            (OTHER, 0.4, 150.0, Pace::Polite, starts, 0.0, 1.0),
        ] {
            let mut work = Workload { addresses, exists, seconds: 86_400.0, ..workload(Way::Clean) };
            work.per_domain = addresses;
            work.providers = [(name.to_owned(), 1.0)].into_iter().filter(|(name, _)| name != OTHER).collect();
            let group = &Demand::of(&work, &figures(), &built_in(pace)).groups[0];
            let case = format!("{name}, {exists} exist, {addresses}: {group:?}");
            assert_eq!((group.bound_by, group.sources), (bound_by, sources), "{case}");
            if bound_by == BUDGET {
                assert!((group.seconds_with_one / (budgets * WINDOW_S) - 1.0).abs() < 1e-6, "{case}");
                close(group.polite_rate.unwrap(), addresses / group.seconds_with_one);
            }
        }
    }

    #[test]
    fn control_recipients_and_greylisting_count_once() {
        let mut work = workload(Way::Clean);
        (work.exists, work.greylisted) = (0.8, 0.1);
        work.providers = vec![("microsoft365".into(), 0.5), ("google".into(), 0.5)];
        let groups = Demand::of(&work, &figures(), &built_in(Pace::Polite)).groups;
        // Half of the domains of ten addresses are at Microsoft, each with a control recipient.
        close(groups[0].refused, 5e5 * 0.2 + 5e4);
        close(groups[1].refused, 5e5 * 0.2 + 1.0);
        close(groups[1].recipients, 5e5 * 1.1);
    }

    #[test]
    fn the_order_of_a_list_counts() {
        let figures = Figures { recipients_per_session: 1e6, ..figures() };
        // Addresses, addresses per domain, and the measured sessions of lists in random order, at the pace `lab`.
        for (addresses, per_domain, measured) in
            [(30_000.0, 10.0, Some(6668.0)), (300_000.0, 100.0, Some(66_647.0)), (9000.0, 3.0, None)]
        {
            let work = Workload { addresses, per_domain, ..workload(Way::Clean) };
            let demand = Demand::of(&work, &figures, &built_in(Pace::Lab));
            assert_eq!(demand.unsorted.is_some(), measured.is_some(), "{addresses}: {:?}", demand.unsorted);
            if let (Some(unsorted), Some(measured)) = (demand.unsorted, measured) {
                let ratio = unsorted.sessions / measured;
                assert!((1.0..1.5).contains(&ratio), "{addresses}: {unsorted:?}");
                close(unsorted.cpu_s - demand.cpu_s, (unsorted.sessions - demand.sessions) * 200e-6);
            }
        }
        let api = Demand::of(&workload(Way::Api), &figures, &built_in(Pace::Polite));
        assert_eq!(api.unsorted, None);
        // Never more sessions than recipients.
        let work = Workload { addresses: 1e7, per_domain: 1.0, ..workload(Way::Clean) };
        assert_eq!(Demand::of(&work, &figures, &built_in(Pace::Polite)).unsorted, None);
    }
}
