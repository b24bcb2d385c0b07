//! What was said about whom, and whether a verdict may rest on it.

use super::plan::{Fate, Named, Plan, Zone};
use super::texts::Kind;
use engine::Priority;
use engine_proto::limits::SINGLE_PATIENCE;
use engine_proto::verdict::Reason;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// What a host can have said.
const ACCEPTED: u8 = 1;
const NOT_FOUND: u8 = 2;
const FULL: u8 = 4;
const DISABLED: u8 = 8;
const OTHER: u8 = 16;

/// Every answer to a RCPT.
pub struct Ledger {
    /// Host and what it said, of each mailbox.
    mailboxes: Vec<Vec<(u32, u8)>>,
    /// The same of recipients that nobody owns, of each domain.
    strangers: Vec<Vec<(u32, u8)>>,
}

impl Ledger {
    pub fn new(plan: &Plan) -> Ledger {
        Ledger {
            mailboxes: vec![Vec::new(); plan.mailboxes.len()],
            strangers: vec![Vec::new(); plan.domains.len()],
        }
    }

    pub fn said(&mut self, mailbox: u32, host: u32, fate: &Fate) {
        self.mailboxes[mailbox as usize].push((host, word(fate)));
    }

    pub fn said_of_stranger(&mut self, domain: u32, host: u32, fate: &Fate) {
        self.strangers[domain as usize].push((host, word(fate)));
    }

    /// Whether a host of the domain accepted a recipient that nobody owns.
    fn takes_strangers(&self, domain: u32) -> bool {
        self.strangers[domain as usize].iter().any(|(_, word)| *word == ACCEPTED)
    }

    /// Whether a verdict has the evidence that it needs, and does not contradict the truth.
    pub fn judge(&self, plan: &Plan, mailbox: u32, priority: Priority, reason: Reason) -> Result<(), String> {
        let entry = &plan.mailboxes[mailbox as usize];
        let domain = &plan.domains[entry.domain as usize];
        let dead = matches!(domain.zone, Zone::NoSuchName | Zone::NullMx | Zone::NoHost | Zone::Empty);
        if dead {
            return match reason {
                Reason::MailboxNotFound => Ok(()),
                other => Err(format!("{} at a domain that takes no mail", other.as_str())),
            };
        }
        let said = &self.mailboxes[mailbox as usize];
        let was_said = |word: u8| said.iter().any(|(_, known)| *known == word);
        // The same host accepted this one and dealt so with a stranger.
        let beside = |word: u8| {
            let accepts = said.iter().filter(|(_, known)| *known == ACCEPTED);
            accepts.clone().any(|(host, _)| self.strangers[entry.domain as usize].contains(&(*host, word)))
        };
        let holds = match reason {
            Reason::MailboxExists => !entry.role && beside(NOT_FOUND),
            Reason::RoleAccount => entry.role && beside(NOT_FOUND),
            // Rows of a domain that accepted a stranger are not asked about one by one.
            Reason::CatchAll if priority != Priority::Single => self.takes_strangers(entry.domain),
            Reason::CatchAll => beside(ACCEPTED),
            Reason::MailboxNotFound => was_said(NOT_FOUND),
            Reason::InboxFull => was_said(FULL),
            Reason::MailboxDisabled => was_said(DISABLED),
            Reason::Unverifiable => true,
            _ => false,
        };
        if !holds {
            return Err(format!("{} without evidence; {:?} was said", reason.as_str(), said));
        }
        match (reason, &entry.fate) {
            (Reason::MailboxExists | Reason::RoleAccount, fate)
                if word(fate) & (NOT_FOUND | DISABLED | FULL) != 0 =>
            {
                Err(format!("{} against the truth", reason.as_str()))
            }
            (Reason::MailboxNotFound, Fate::Accepted) => Err("mailbox_not_found against the truth".into()),
            _ => Ok(()),
        }
    }
}

fn word(fate: &Fate) -> u8 {
    match fate {
        Fate::Accepted => ACCEPTED,
        Fate::Greylisted(_) => OTHER,
        Fate::Refused(text) => match text.kind {
            Kind::NotFound => NOT_FOUND,
            Kind::Full => FULL,
            Kind::Disabled => DISABLED,
            _ => OTHER,
        },
    }
}

/// Whether an address of a well site was answered truly and in a time that follows from the site's ceiling and its own
/// work alone, whatever others do.
pub fn fair(
    plan: &Plan,
    mailbox: u32,
    priority: Priority,
    taken: Duration,
    reason: Reason,
) -> Result<(), String> {
    let entry = &plan.mailboxes[mailbox as usize];
    let domain = &plan.domains[entry.domain as usize];
    let site = &plan.sites[domain.site as usize];
    if !site.well || plan.tight {
        return Ok(());
    }
    let bound = bound(plan, domain.site);
    if priority == Priority::Single && bound > SINGLE_PATIENCE - Duration::from_secs(5) {
        return Ok(());
    }
    if taken > bound {
        return Err(format!(
            "a well site's address took {:.1} s, {:.1} s is enough",
            taken.as_secs_f64(),
            bound.as_secs_f64()
        ));
    }
    if reason == Reason::CatchAll && priority != Priority::Single && domain.strangers == Fate::Accepted {
        return Ok(());
    }
    match expected(&entry.fate, &domain.strangers, entry.role) {
        Some(expected) if expected != reason => {
            Err(format!("{} at a well site, {} is true", reason.as_str(), expected.as_str()))
        }
        _ => Ok(()),
    }
}

/// How long all of a site's work takes with room to spare: sessions that are left after five recipients, one behind
/// the other on half of the sessions that the ceiling allows.
fn bound(plan: &Plan, site: u32) -> Duration {
    let site = &plan.sites[site as usize];
    let sessions = site.asked / 5 + 2 * site.domains + 2;
    let starts = Duration::from_secs(60) * sessions / site.ceiling.starts_a_minute.max(1);
    let each = site.round_trip * 14 + Duration::from_secs(1);
    let beside = (site.ceiling.sessions.min(10) / 2).max(1);
    Duration::from_secs(12) + starts + each * sessions / beside
}

/// The one true verdict at a well site; `None` where time decides.
fn expected(fate: &Fate, strangers: &Fate, role: bool) -> Option<Reason> {
    let refused = |fate: &Fate| word(fate) == NOT_FOUND;
    match fate {
        Fate::Greylisted(_) => None,
        Fate::Accepted if *strangers == Fate::Accepted => Some(Reason::CatchAll),
        Fate::Accepted if refused(strangers) && role => Some(Reason::RoleAccount),
        Fate::Accepted if refused(strangers) => Some(Reason::MailboxExists),
        Fate::Accepted => None,
        fate => match word(fate) {
            NOT_FOUND => Some(Reason::MailboxNotFound),
            FULL => Some(Reason::InboxFull),
            DISABLED => Some(Reason::MailboxDisabled),
            _ => None,
        },
    }
}

impl Plan {
    /// The domain of this name.
    pub fn domain(&self, name: &str) -> Option<u32> {
        match self.by_name.get(name) {
            Some(Named::Domain(index)) => Some(*index),
            _ => None,
        }
    }

    /// The host at this address.
    pub fn host_at(&self, address: SocketAddr) -> Option<u32> {
        let IpAddr::V4(address) = address.ip() else { return None };
        let index = address.to_bits().checked_sub(0x2d00_0000)?;
        ((index as usize) < self.hosts.len()).then_some(index)
    }
}
