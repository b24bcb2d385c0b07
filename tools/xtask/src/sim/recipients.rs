//! What every host says about every recipient, and the counts that follow from it.

use super::budget::{Allowance, Refusals};
use super::change::{Refused, Turn};
use super::judge::Verdict;
use super::ledger::{Ledger, MARGIN, NOT_FOUND, Said, UNCLEAR, Whom, word};
use super::plan::{Delivery, Fate, Manners, Plan};
use super::texts::{Kind, Text};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How long a greylisted recipient is put off.
const GREYLISTED: Duration = Duration::from_secs(60);
/// So many recipients who are refused alike show that a host refuses everybody.
const ALIKE: usize = 20;
/// How long such a host is left alone at least.
const REST: Duration = Duration::from_secs(5);
/// How much later than computed a client may have an answer of a server that writes a few bytes at a time, or takes its time with
/// each refusal.
const SLOW_MARGIN: Duration = Duration::from_secs(30);
/// After so long a silence the client may have forgotten them.
const FORGOTTEN: Duration = Duration::from_secs(100);
/// Questions that are allowed meanwhile: those of sessions that were open, and one to see whether it still does.
const LOOKS: u32 = 4;

/// A recipient that a client asks about.
pub struct Asked<'a> {
    pub address: &'a str,
    /// The connection, and which of its recipients this is.
    pub link: u32,
    pub place: u32,
    /// Unknown recipients of the session so far.
    pub unknown: u32,
    /// The node of the host deals so with everybody.
    pub node: Option<Turn>,
    pub now: Duration,
    /// When the answer is with the client.
    pub heard: Duration,
}

/// What was said about recipients, and what was counted.
pub struct Recipients {
    pub ledger: Ledger,
    greylist: HashMap<String, Duration>,
    /// Unknown recipients that were refused, at each host and each site.
    unknown_at_hosts: Vec<u32>,
    unknown_at_sites: Vec<u32>,
    allowances: Vec<Option<Allowance>>,
    refusals: Vec<Refusals>,
    /// By host and domain, for a host may say so of one of the domains that it serves; and by words, for it may say something
    /// else at its other address.
    alike: HashMap<(u32, u32, &'static str), Alike>,
    /// Control recipients, of each domain.
    controls: HashMap<u32, HashSet<String>>,
}

/// Those whom a host that refuses everybody has refused.
#[derive(Default)]
struct Alike {
    addresses: HashSet<String>,
    /// When the last one was.
    last: Duration,
    /// When the client knew enough.
    known: Option<Duration>,
    looks: u32,
}

impl Recipients {
    pub fn new(plan: &Plan) -> Recipients {
        Recipients {
            ledger: Ledger::new(plan),
            greylist: HashMap::new(),
            unknown_at_hosts: vec![0; plan.hosts.len()],
            unknown_at_sites: vec![0; plan.sites.len()],
            allowances: (0..plan.sites.len() as u32).map(|site| Allowance::of(plan, site)).collect(),
            refusals: plan.sites.iter().map(|_| Refusals::default()).collect(),
            alike: HashMap::new(),
            controls: HashMap::new(),
        }
    }

    /// What a host with these manners says about a recipient; what the client must not have done is added to `breaches`.
    pub fn decide(
        &mut self,
        plan: &Plan,
        host: u32,
        manners: &Manners,
        asked: &Asked<'_>,
        breaches: &mut Vec<String>,
    ) -> Fate {
        let domain = asked.address.rsplit_once('@').and_then(|(_, domain)| plan.domain(domain));
        let Some(domain) = domain else {
            return Fate::Refused(Text { kind: Kind::Relay, words: "550 5.7.1 Relaying denied" });
        };
        let whom = whom(plan, asked.address);
        let (site, fate) = (plan.hosts[host as usize].site as usize, true_fate(plan, domain, whom));
        let refused = Refused {
            session: asked.unknown,
            client: self.unknown_at_sites[site],
            host: self.unknown_at_hosts[host as usize],
        };
        let change = manners.tricks.change.and_then(|change| change.now(refused, asked.now));
        let (fate, honest) = match (&manners.everybody, asked.node.or(change)) {
            (Some(fate), _) => (fate.clone(), false),
            (_, Some(Turn::AcceptsAll)) => (Fate::Accepted, false),
            (_, Some(Turn::RefusesAll(text))) => (Fate::Refused(text), false),
            _ if manners.accepts_all => (Fate::Accepted, false),
            _ => (fate.clone(), true),
        };
        let fate = self.put_off(fate, asked);
        self.count(site, asked, &fate, breaches);
        self.is_left_alone((host, domain), manners, asked, breaches);
        self.is_named_alike(plan, domain, whom, asked, breaches);
        let word = word(&fate);
        let unknown = u32::from(word & (NOT_FOUND | UNCLEAR) != 0);
        self.unknown_at_sites[site] += unknown;
        self.unknown_at_hosts[host as usize] += unknown;
        let said = Said {
            host,
            link: asked.link,
            place: asked.place,
            word,
            permanent: is_permanent(&fate),
            sent: asked.now,
            heard: asked.heard,
            honest,
        };
        self.ledger.said(plan, domain, whom, said);
        fate
    }

    /// So many recipients were asked about at the site that no answer came for.
    pub fn lost(&mut self, site: u32, count: usize, now: Duration) {
        (0..count).for_each(|_| self.refusals[site as usize].lost(now));
    }

    /// Judges a verdict.
    pub fn judge(&mut self, plan: &Plan, verdict: &Verdict) -> Result<(), String> {
        verdict.judge(plan, &mut self.ledger)
    }

    /// Whether the client may say that it has used up the budget of a site.
    pub fn is_budget_cause(&mut self, site: u32, now: Duration) -> bool {
        self.refusals[site as usize].is_cause(self.allowances[site as usize], now)
    }

    fn put_off(&mut self, fate: Fate, asked: &Asked<'_>) -> Fate {
        if !matches!(fate, Fate::Greylisted(_)) {
            return fate;
        }
        let first = *self.greylist.entry(asked.address.to_owned()).or_insert(asked.now);
        if asked.now >= first + GREYLISTED { Fate::Accepted } else { fate }
    }

    /// Counts an answer against the budget of the site.
    fn count(&mut self, site: usize, asked: &Asked<'_>, fate: &Fate, breaches: &mut Vec<String>) {
        let Some(allowance) = self.allowances[site] else { return };
        let answered = self.refusals[site].answered(allowance, asked.now, asked.heard, is_permanent(fate));
        breaches.extend(answered.err());
    }

    /// The control recipients of a domain have the same names all day.
    fn is_named_alike(
        &mut self,
        plan: &Plan,
        domain: u32,
        whom: Whom,
        asked: &Asked<'_>,
        breaches: &mut Vec<String>,
    ) {
        if whom != Whom::Stranger {
            return;
        }
        let names = self.controls.entry(domain).or_default();
        if names.insert(asked.address.to_owned()) && names.len() == CONTROLS_MAX + 1 {
            let name = &plan.domains[domain as usize].name;
            breaches.push(format!("more than {CONTROLS_MAX} control recipients of {name}"));
        }
    }

    /// A host that has refused so many of a domain alike, and nobody otherwise, is left alone.
    fn is_left_alone(
        &mut self,
        (host, domain): (u32, u32),
        manners: &Manners,
        asked: &Asked<'_>,
        breaches: &mut Vec<String>,
    ) {
        // Words that deny a mailbox may be true of everybody who is asked about: what a session proves decides there.
        let Some(Fate::Refused(Text { kind, words })) = &manners.everybody else { return };
        // What is put off may be granted later: greylisting puts off everybody.
        if *kind == Kind::NotFound || !words.starts_with('5') {
            return;
        }
        let alike = self.alike.entry((host, domain, words)).or_default();
        if asked.now > alike.last + FORGOTTEN {
            *alike = Alike::default();
        }
        alike.last = asked.now;
        alike.addresses.insert(asked.address.to_owned());
        match alike.known {
            None if alike.addresses.len() >= ALIKE => {
                let is_slow = manners.delivery == Delivery::Drip || manners.tricks.tarpit.is_some();
                let margin = if is_slow { SLOW_MARGIN } else { MARGIN };
                alike.known = Some(asked.heard + margin);
            }
            Some(known) if asked.now > known && asked.now < known + REST => {
                alike.looks += 1;
                if alike.looks == LOOKS + 1 {
                    breaches.push(format!("it refused {ALIKE} recipients alike ({kind:?}), and is asked on"));
                }
            }
            _ => {}
        }
    }
}

/// Control recipients of a domain: of two shapes, and others on the next day.
const CONTROLS_MAX: usize = 4;

/// Whom an address of a domain is of.
fn whom(plan: &Plan, address: &str) -> Whom {
    match plan.by_address.get(address) {
        Some(&mailbox) => Whom::Mailbox(mailbox),
        None if address.starts_with("postmaster@") => Whom::Postmaster,
        None => Whom::Stranger,
    }
}

/// What an honest host of the domain says.
fn true_fate(plan: &Plan, domain: u32, whom: Whom) -> &Fate {
    let domain = &plan.domains[domain as usize];
    match whom {
        Whom::Mailbox(mailbox) => &plan.mailboxes[mailbox as usize].fate,
        Whom::Stranger => &domain.strangers,
        Whom::Postmaster => domain.postmaster.as_ref().unwrap_or(&domain.strangers),
    }
}

fn is_permanent(fate: &Fate) -> bool {
    matches!(fate, Fate::Refused(text) if text.words.starts_with('5'))
}
