//! The answers of every host about every recipient, and the counts that follow from them.

use super::budget::{Allowance, Refusals};
use super::change::{Refused, Turn};
use super::judge::Verdict;
use super::ledger::{MARGIN, NOT_FOUND, RcptAnswer, ReplyLedger, UNCLEAR, Whom, word};
use super::plan::{Delivery, Fate, Manners, WorldPlan};
use super::premises::Premise;
use super::texts::{Text, TextTopic};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How long a greylisted recipient is deferred.
const GREYLISTED: Duration = Duration::from_secs(60);
/// So many recipients that are refused alike show that a host refuses everyone.
const ALIKE: usize = 20;
/// The shortest pause that a client must leave such a host.
const REST: Duration = Duration::from_secs(5);
/// How much later than computed a client may get an answer of a server that writes a few bytes at a time, or delays
/// each refusal.
const SLOW_MARGIN: Duration = Duration::from_secs(30);
/// After a silence of this length the client may have forgotten the refusals.
const FORGOTTEN: Duration = Duration::from_secs(100);
/// How many further recipients may be asked about: those of open sessions, and one that tests whether the host still
/// refuses everyone.
const LOOKS: u32 = 4;

/// A recipient that a client asks about, with the state of its session.
pub struct AskedRecipient<'a> {
    pub address: &'a str,
    /// The number of the connection, and the position of this recipient in it.
    pub link: u32,
    pub place: u32,
    /// How many unknown recipients the session had so far.
    pub unknown: u32,
    /// The behaviour that the node of the host has for everyone, if it has one.
    pub node: Option<Turn>,
    pub now: Duration,
    /// The time at which the client has the answer.
    pub heard: Duration,
}

/// The answers about recipients, and the counts of them.
pub struct Recipients {
    pub ledger: ReplyLedger,
    greylist: HashMap<String, Duration>,
    /// How many unknown recipients were refused, at each host and each site.
    unknown_at_hosts: Vec<u32>,
    unknown_at_sites: Vec<u32>,
    allowances: Vec<Option<Allowance>>,
    refusals: Vec<Refusals>,
    /// By host, domain and words. A host may refuse all recipients of only one of its domains, and may use other words
    /// at its other address.
    alike: HashMap<(u32, u32, &'static str), Alike>,
    /// The names of the control recipients of each domain.
    controls: HashMap<u32, HashSet<String>>,
}

/// The recipients that a host refused alike.
#[derive(Default)]
struct Alike {
    addresses: HashSet<String>,
    /// The time of the last refusal.
    last: Duration,
    /// The time from which the client knew that the host refuses everyone.
    known: Option<Duration>,
    looks: u32,
}

impl Recipients {
    /// The counts of a world before its start.
    pub fn new(plan: &WorldPlan) -> Recipients {
        Recipients {
            ledger: ReplyLedger::new(plan),
            greylist: HashMap::new(),
            unknown_at_hosts: vec![0; plan.hosts.len()],
            unknown_at_sites: vec![0; plan.sites.len()],
            allowances: (0..plan.sites.len() as u32).map(|site| Allowance::of(plan, site)).collect(),
            refusals: plan.sites.iter().map(|_| Refusals::default()).collect(),
            alike: HashMap::new(),
            controls: HashMap::new(),
        }
    }

    /// The answer of a host with these manners about a recipient. Adds to `breaches` what the client did wrong by
    /// asking.
    pub fn decide(
        &mut self,
        plan: &WorldPlan,
        host: u32,
        manners: &Manners,
        asked: &AskedRecipient<'_>,
        breaches: &mut Vec<String>,
    ) -> Fate {
        let domain = asked.address.rsplit_once('@').and_then(|(_, domain)| plan.domain(domain));
        let Some(domain) = domain else {
            return Fate::Refused(Text { kind: TextTopic::Relay, words: "550 5.7.1 Relaying denied" });
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
        if manners.surplus.is_none() {
            // At a host with surplus replies, the client cannot know for which recipient a reply is.
            self.count(site, asked, &fate, breaches);
            self.is_left_alone((host, domain), manners, asked, breaches);
        }
        self.is_named_alike(plan, domain, whom, asked, breaches);
        let word = word(&fate);
        let unknown = u32::from(word & (NOT_FOUND | UNCLEAR) != 0);
        self.unknown_at_sites[site] += unknown;
        self.unknown_at_hosts[host as usize] += unknown;
        let said = RcptAnswer {
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

    /// Counts recipients of a site whose answers never arrive.
    pub fn lost(&mut self, site: u32, count: usize, now: Duration) {
        (0..count).for_each(|_| self.refusals[site as usize].lost(now));
    }

    /// Checks a verdict against the ledger and the truth.
    ///
    /// # Errors
    ///
    /// As [`Verdict::judge`].
    pub fn judge(&mut self, plan: &WorldPlan, verdict: &Verdict) -> Result<(), String> {
        verdict.judge(plan, &mut self.ledger)
    }

    /// Whether the client may answer that it has used up the budget of a site. The answers of hosts with surplus replies were not
    /// counted.
    pub fn is_budget_cause(&mut self, plan: &WorldPlan, site: u32, now: Duration) -> bool {
        self.refusals[site as usize].is_cause(self.allowances[site as usize], now)
            || plan.hosts.iter().any(|host| host.site == site && host.manners.surplus.is_some())
    }

    fn put_off(&mut self, fate: Fate, asked: &AskedRecipient<'_>) -> Fate {
        if !matches!(fate, Fate::Greylisted(_)) {
            return fate;
        }
        let first = *self.greylist.entry(asked.address.to_owned()).or_insert(asked.now);
        if asked.now >= first + GREYLISTED { Fate::Accepted } else { fate }
    }

    /// Counts an answer against the budget of the site.
    fn count(&mut self, site: usize, asked: &AskedRecipient<'_>, fate: &Fate, breaches: &mut Vec<String>) {
        let Some(allowance) = self.allowances[site] else { return };
        let answered = self.refusals[site].answered(allowance, asked.now, asked.heard, is_permanent(fate));
        breaches.extend(answered.err());
    }

    /// Whether the control recipients of a domain have the same names for a whole day.
    fn is_named_alike(
        &mut self,
        plan: &WorldPlan,
        domain: u32,
        whom: Whom,
        asked: &AskedRecipient<'_>,
        breaches: &mut Vec<String>,
    ) {
        if whom != Whom::Stranger {
            return;
        }
        let names = self.controls.entry(domain).or_default();
        let is_new = names.insert(asked.address.to_owned());
        Premise::Controls.count(is_new && names.len() > 1);
        if is_new && names.len() == CONTROLS_MAX + 1 {
            let name = &plan.domains[domain as usize].name;
            breaches.push(format!("more than {CONTROLS_MAX} control recipients of {name}"));
        }
    }

    /// Checks that the client leaves a host alone after it has refused many recipients of a domain alike, and none
    /// otherwise.
    fn is_left_alone(
        &mut self,
        (host, domain): (u32, u32),
        manners: &Manners,
        asked: &AskedRecipient<'_>,
        breaches: &mut Vec<String>,
    ) {
        // Words that deny that a mailbox exists may be true of every recipient. The evidence of a session decides
        // there.
        let Some(Fate::Refused(Text { kind, words })) = &manners.everybody else { return };
        // A deferred recipient may be accepted later: greylisting defers everyone.
        if *kind == TextTopic::NotFound || !words.starts_with('5') {
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
            // The client asked again after the pause, as it might have done before.
            Some(known) if asked.now >= known + REST => {
                Premise::RefusedAlike.count(true);
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

/// How many control recipients a domain may have: two shapes, and two more on the next day.
const CONTROLS_MAX: usize = 4;

/// The kind of recipient that an address of a domain is.
fn whom(plan: &WorldPlan, address: &str) -> Whom {
    match plan.by_address.get(address) {
        Some(&mailbox) => Whom::Mailbox(mailbox),
        None if address.starts_with("postmaster@") => Whom::Postmaster,
        None => Whom::Stranger,
    }
}

/// The answer of an honest host of the domain.
fn true_fate(plan: &WorldPlan, domain: u32, whom: Whom) -> &Fate {
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
