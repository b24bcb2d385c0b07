//! The check of a verdict: whether the answers of the servers allow it, and whether it came in time.

use super::ledger::{
    ACCEPTED, DISABLED, FULL, MARGIN, NOT_FOUND, RcptAnswer, ReplyLedger, UNCLEAR, Wrong, word,
};
use super::plan::{DnsTarget, FIRST_ADDRESS, Fate, HOST_ADDRESSES, PlannedHost, PlannedZone, WorldPlan};
use super::premises::Premise;
use engine::Priority;
use engine::config::Pace;
use engine_proto::limits::SINGLE_PATIENCE;
use engine_proto::verdict::Reason;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A verdict with its request, as the world compares it with the ledger and the truth.
pub struct Verdict {
    pub mailbox: u32,
    pub priority: Priority,
    pub reason: Reason,
}

/// How many wrong verdicts of single checks at a host are allowed.
const WRONG_MAX: u32 = 20;
/// How long a refused control recipient is evidence for single checks.
const BELIEVED: Duration = Duration::from_secs(600);

impl Verdict {
    /// Whether the verdict has the evidence that it needs, and does not contradict the truth.
    ///
    /// # Errors
    ///
    /// The text says which evidence is missing, or how the verdict differs from the truth.
    pub fn judge(&self, plan: &WorldPlan, ledger: &mut ReplyLedger) -> Result<(), String> {
        let entry = &plan.mailboxes[self.mailbox as usize];
        let domain = &plan.domains[entry.domain as usize];
        let dead = matches!(
            domain.zone,
            PlannedZone::NoSuchName | PlannedZone::NullMx | PlannedZone::NoHost | PlannedZone::Empty
        );
        Premise::DeadDomain.count(dead);
        if dead {
            return match self.reason {
                Reason::MailboxNotFound => Ok(()),
                other => Err(format!("{} at a domain that takes no mail", other.as_str())),
            };
        }
        self.count_premises(plan, ledger);
        match self.reason {
            Reason::MailboxExists | Reason::RoleAccount => self.is_no_false_confirmation(plan, ledger)?,
            Reason::MailboxNotFound => self.is_no_false_denial(plan, ledger)?,
            _ => {}
        }
        if !self.has_evidence(plan, ledger) {
            let said: Vec<_> =
                ledger.of_mailbox(self.mailbox).iter().map(|said| (said.host, said.word)).collect();
            return Err(format!("{} without evidence; {said:?} was said", self.reason.as_str()));
        }
        Ok(())
    }

    fn has_evidence(&self, plan: &WorldPlan, ledger: &ReplyLedger) -> bool {
        let entry = &plan.mailboxes[self.mailbox as usize];
        let said = ledger.of_mailbox(self.mailbox);
        let was_said = |word: u8| said.iter().any(|said| said.word == word);
        let strangers = ledger.of_strangers(entry.domain);
        // The same host accepted this recipient and gave a control recipient the same answer.
        let beside = |word: u8| {
            let accepts = said.iter().filter(|said| said.word == ACCEPTED);
            accepts.clone().any(|accept| {
                strangers.iter().any(|stranger| stranger.host == accept.host && stranger.word == word)
            })
        };
        let patient = self.priority != Priority::Single;
        match self.reason {
            Reason::MailboxExists | Reason::RoleAccount
                if entry.role != (self.reason == Reason::RoleAccount) =>
            {
                false
            }
            Reason::MailboxExists | Reason::RoleAccount => {
                said.iter().any(|accept| self.is_backed(entry.domain, ledger, accept, plan.is_apart()))
            }
            // A domain that accepted control recipients is not asked about each address.
            Reason::CatchAll if patient && !was_said(ACCEPTED) => accept_strangers(strangers, 2),
            Reason::CatchAll if patient => accept_strangers(strangers, 1),
            Reason::CatchAll => beside(ACCEPTED),
            Reason::MailboxNotFound => was_said(NOT_FOUND) || was_said(UNCLEAR) && !entry.exists(),
            Reason::InboxFull => was_said(FULL),
            Reason::MailboxDisabled => was_said(DISABLED),
            Reason::Unverifiable => true,
            _ => false,
        }
    }

    /// Counts whether an engine with a defect might have given a wrong verdict here.
    fn count_premises(&self, plan: &WorldPlan, ledger: &ReplyLedger) {
        let entry = &plan.mailboxes[self.mailbox as usize];
        let (said, patient) = (ledger.of_mailbox(self.mailbox), self.priority != Priority::Single);
        let accept = said.iter().rfind(|said| said.word == ACCEPTED);
        let unproven = accept.filter(|accept| !self.is_backed(entry.domain, ledger, accept, plan.is_apart()));
        Premise::Unproven.count(patient && unproven.is_some());
        let once_refused = |accept: &RcptAnswer| {
            ledger.is_behind_refused_control(entry.domain, accept, Duration::from_hours(24))
        };
        Premise::ControlExpired.count(!patient && unproven.is_some_and(once_refused));
        Premise::Misled.count(patient && !entry.exists() && accept.is_some_and(|accept| !accept.honest));
        Premise::Spared.count(patient && self.reason == Reason::CatchAll && accept.is_none());
        let denial = said.iter().rfind(|said| said.word == NOT_FOUND && entry.fate == Fate::Accepted);
        let known = |denial| ledger.is_behind_known_accept(entry.domain, denial, plan.is_apart());
        Premise::DeniedKnown.count(patient && denial.is_some_and(known));
    }

    /// Whether the host of this accept distinguished mailboxes. Patient work needs that evidence in the same session, unless the
    /// sessions with the host have no room for it.
    fn is_backed(&self, domain: u32, ledger: &ReplyLedger, accept: &RcptAnswer, is_apart: bool) -> bool {
        if accept.word != ACCEPTED {
            return false;
        }
        ledger.is_followed_by_refusal(domain, accept)
            || ledger.is_beside_refused_controls(domain, accept)
            || self.counts_as_single(domain, ledger, accept.host, is_apart)
                && ledger.is_behind_refused_control(domain, accept, BELIEVED + MARGIN)
    }

    fn counts_as_single(&self, domain: u32, ledger: &ReplyLedger, host: u32, is_apart: bool) -> bool {
        self.priority == Priority::Single || ledger.has_no_room_for_proof(domain, host, is_apart)
    }

    fn is_no_false_confirmation(&self, plan: &WorldPlan, ledger: &mut ReplyLedger) -> Result<(), String> {
        let entry = &plan.mailboxes[self.mailbox as usize];
        let said = ledger.of_mailbox(self.mailbox);
        let against = Err(format!("{} against the truth", self.reason.as_str()));
        let misled = said.iter().rev().find(|said| said.word == ACCEPTED && !said.honest).copied();
        if entry.exists() {
            // A server that accepts everyone may also accept a recipient whose mailbox is full.
            let open = word(&entry.fate) & (DISABLED | FULL) == 0;
            return if open || misled.is_some() { Ok(()) } else { against };
        }
        match misled {
            Some(said) if self.counts_as_single(entry.domain, ledger, said.host, plan.is_apart()) => {
                not_too_many(plan, ledger, said.host, Wrong::Confirmed)
            }
            _ => against,
        }
    }

    fn is_no_false_denial(&self, plan: &WorldPlan, ledger: &mut ReplyLedger) -> Result<(), String> {
        let entry = &plan.mailboxes[self.mailbox as usize];
        if entry.fate != Fate::Accepted {
            return Ok(());
        }
        let refusal = ledger.of_mailbox(self.mailbox).iter().rfind(|said| said.word == NOT_FOUND).copied();
        let Some(refusal) = refusal else {
            return Err("mailbox_not_found against the truth".into());
        };
        if !ledger.is_behind_known_accept(entry.domain, &refusal, plan.is_apart()) {
            // Nothing shows that this server ever distinguished mailboxes.
            return Ok(());
        }
        if self.priority == Priority::Single {
            // A pool with a node that refuses everyone misleads at any time: a single question meets only one node.
            let is_pool = plan.hosts[refusal.host as usize].manners.tricks.nodes.is_some();
            return if is_pool { Ok(()) } else { not_too_many(plan, ledger, refusal.host, Wrong::Denied) };
        }
        Err("mailbox_not_found against the truth, where another one had been accepted before".into())
    }
}

/// Whether one host accepted control recipients in at least `sessions` sessions.
fn accept_strangers(strangers: &[RcptAnswer], sessions: usize) -> bool {
    let accepted = || strangers.iter().filter(|said| said.word == ACCEPTED);
    accepted().any(|first| {
        let mut links: Vec<u32> =
            accepted().filter(|said| said.host == first.host).map(|said| said.link).collect();
        links.sort_unstable();
        links.dedup();
        links.len() >= sessions
    })
}

/// Counts a wrong verdict of a single check.
fn not_too_many(plan: &WorldPlan, ledger: &mut ReplyLedger, host: u32, wrong: Wrong) -> Result<(), String> {
    // Under this pace each shard asks every site, and knows only its own answers.
    let shards = if plan.pace == Pace::Lab { plan.shards as u32 } else { 1 };
    let count = ledger.count_wrong(host, wrong);
    Premise::SinglesMisled.count(count > WRONG_MAX / 2);
    if count <= WRONG_MAX * shards {
        return Ok(());
    }
    let name = &plan.hosts[host as usize].name;
    Err(format!("{count} single checks were misled by {name} ({wrong:?})"))
}

/// Whether an address of a well site got a true answer in time. The time follows from the site's ceiling and its own
/// work alone; the work of other sites does not count.
pub fn fair(
    plan: &WorldPlan,
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
    Premise::Fair.count(true);
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

/// The time for all of a site's work, with a margin: sessions that end after five recipients, in sequence, on half of
/// the sessions that the ceiling allows.
fn bound(plan: &WorldPlan, site: u32) -> Duration {
    let hosts = plan.hosts.iter().filter(|host| host.site == site);
    // The client tries these addresses without success, and more than once.
    let at_ipv6 = 3 * hosts.filter(|host| host.ipv6.is_some()).count() as u32;
    let site = &plan.sites[site as usize];
    let sessions = site.asked / 5 + 2 * site.domains + 2 + at_ipv6;
    let starts = Duration::from_secs(60) * sessions / site.ceiling.starts_a_minute.max(1);
    // Two of the round trips are for EHLO after a transaction.
    let each = site.round_trip * 16 + Duration::from_secs(1);
    let beside = (site.ceiling.sessions.min(10) / 2).max(1);
    Duration::from_secs(14) + starts + each * sessions / beside
}

/// The one true verdict at a well site; `None` where it depends on the time.
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

impl WorldPlan {
    /// Whether the domains of a site are distributed over the shards, as they are without a pace.
    pub fn is_apart(&self) -> bool {
        self.pace == Pace::Lab && self.shards > 1
    }

    /// The index of the domain with this name.
    pub fn domain(&self, name: &str) -> Option<u32> {
        match self.by_name.get(name) {
            Some(DnsTarget::Domain(index)) => Some(*index),
            _ => None,
        }
    }

    /// The index of the host with this address.
    pub fn host_at(&self, address: SocketAddr) -> Option<u32> {
        let index = match address.ip() {
            IpAddr::V4(address) => address.to_bits().checked_sub(FIRST_ADDRESS)? / HOST_ADDRESSES,
            IpAddr::V6(address) => {
                (address.to_bits().checked_sub(PlannedHost::ipv6_of(0).to_bits())?).try_into().ok()?
            }
        };
        ((index as usize) < self.hosts.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::{HostChange, Trigger, Turn};
    use super::super::plan::Mailbox;
    use super::super::recipients::{AskedRecipient, Recipients};
    use super::super::texts::{Text, TextTopic};
    use super::*;

    const UNKNOWN: Fate = Fate::Refused(Text { kind: TextTopic::NotFound, words: "550 5.1.1 No such user" });
    const DENIED: Fate = Fate::Refused(Text { kind: TextTopic::Unclear, words: "550 Access denied" });
    const ACCEPTS_ALL: Option<Turn> = Some(Turn::AcceptsAll);
    const REFUSES_ALL: Option<Turn> =
        Some(Turn::RefusesAll(Text { kind: TextTopic::NotFound, words: "550 5.1.1 No such user" }));

    /// A world with one host and one domain: `a` and `b` exist, `x` and `y` do not, and two letters are a control
    /// recipient. After `changes.0` unknown recipients of a session the host changes.
    fn world(strangers: Fate, changes: Option<(u32, Turn)>) -> WorldPlan {
        let mut plan =
            (1..).map(WorldPlan::draw).find(|plan| plan.hosts[0].manners.everybody.is_none()).unwrap();
        (plan.misleads, plan.pace) = (true, Pace::Polite);
        plan.domains[0].strangers = strangers.clone();
        plan.hosts[0].manners.accepts_all = false;
        plan.hosts[0].manners.tricks.change =
            changes.map(|(most, turn)| HostChange { trigger: Trigger::Session(most), turn });
        plan.mailboxes.clear();
        plan.by_address.clear();
        for (local, fate) in
            [("a", Fate::Accepted), ("b", Fate::Accepted), ("x", strangers.clone()), ("y", strangers)]
        {
            let address = format!("{local}@{}", plan.domains[0].name);
            plan.by_address.insert(address.clone(), plan.mailboxes.len() as u32);
            plan.mailboxes.push(Mailbox { address, domain: 0, fate, role: false });
        }
        plan
    }

    /// Asks about recipients: `1a` is `a` in session 1, and a number alone is a pause in seconds.
    fn ask(plan: &WorldPlan, script: &str) -> Recipients {
        let mut recipients = Recipients::new(plan);
        let (mut now, mut unknown) = (Duration::ZERO, [0; 10]);
        for (place, word) in (0..).zip(script.split_whitespace()) {
            if let Ok(seconds) = word.parse() {
                now += Duration::from_secs(seconds);
                continue;
            }
            let (link, local) = (u32::from(word.as_bytes()[0] - b'0'), &word[1..]);
            now += Duration::from_secs(3);
            let address = format!("{local}@{}", plan.domains[0].name);
            let unknown = &mut unknown[link as usize];
            let asked = AskedRecipient {
                address: &address,
                link,
                place,
                unknown: *unknown,
                node: None,
                now,
                heard: now,
            };
            let fate = recipients.decide(plan, 0, &plan.hosts[0].manners, &asked, &mut Vec::new());
            *unknown += u32::from(word_of(&fate) & (NOT_FOUND | UNCLEAR) != 0);
        }
        recipients
    }

    fn word_of(fate: &Fate) -> u8 {
        super::word(fate)
    }

    /// Whether a verdict about the mailbox with this number is allowed after the script.
    fn holds(plan: &WorldPlan, script: &str, mailbox: u32, priority: Priority, reason: Reason) -> bool {
        ask(plan, script).judge(plan, &Verdict { mailbox, priority, reason }).is_ok()
    }

    #[test]
    fn a_verdict_needs_the_evidence_of_a_session_that_is_honest_to_its_end() {
        use Priority::{List, Single};
        use Reason::{CatchAll, MailboxExists, MailboxNotFound, Unverifiable};
        let (a, b, x, y) = (0, 1, 2, 3);
        for (strangers, changes, script, mailbox, priority, reason, expected) in [
            (UNKNOWN, None, "1a 1x", a, List, MailboxExists, true),
            (UNKNOWN, None, "1a 1pq", a, List, MailboxExists, true),
            (UNKNOWN, None, "1x 1a", a, List, MailboxExists, false),
            (UNKNOWN, None, "1a 2x", a, List, MailboxExists, false),
            (UNKNOWN, None, "1a", a, List, Unverifiable, true),
            (UNKNOWN, None, "1x 1a", a, Single, MailboxExists, false),
            (UNKNOWN, None, "1pq 2a", a, Single, MailboxExists, true),
            (UNKNOWN, None, "1pq 700 2a", a, Single, MailboxExists, false),
            (UNKNOWN, None, "1x", x, List, MailboxNotFound, true),
            (UNKNOWN, None, "1y", x, List, MailboxNotFound, false),
            // It accepts everyone after two.
            (UNKNOWN, ACCEPTS_ALL, "1a 1x 1pq 1y", y, List, MailboxExists, false),
            (UNKNOWN, ACCEPTS_ALL, "1a 1x 1pq 1y", y, Single, MailboxExists, true),
            (UNKNOWN, ACCEPTS_ALL, "1a 1x 1pq 1y", y, List, Unverifiable, true),
            (UNKNOWN, ACCEPTS_ALL, "1a 1x 1pq 1b", a, List, MailboxExists, true),
            (UNKNOWN, ACCEPTS_ALL, "1a 1x 1pq 1b", b, List, MailboxExists, false),
            // It refuses everyone after two.
            (UNKNOWN, REFUSES_ALL, "1a 1x 1pq 1b", b, List, MailboxNotFound, false),
            (UNKNOWN, REFUSES_ALL, "1x 1pq 1b", b, List, MailboxNotFound, true),
            (UNKNOWN, REFUSES_ALL, "1x 1pq 1b 1a", b, List, MailboxNotFound, true),
            (UNKNOWN, REFUSES_ALL, "1a 3600 1x 1pq 1b", b, List, MailboxNotFound, true),
            (UNKNOWN, REFUSES_ALL, "1a 1x 1pq 1b", b, Single, MailboxNotFound, true),
            // Its refusals name no recipient.
            (DENIED, None, "1a 1pq 1pr 1b", a, List, MailboxExists, true),
            (DENIED, None, "1a 1pq 1pr 1b", b, List, MailboxExists, true),
            (DENIED, None, "1a 1pq 1b", a, List, MailboxExists, false),
            (DENIED, None, "1a 1pq 1pr", a, List, MailboxExists, false),
            (DENIED, None, "1x", x, List, MailboxNotFound, true),
            (DENIED, ACCEPTS_ALL, "1a 1pq 1pr 1x", x, List, MailboxExists, false),
            // It accepts control recipients.
            (Fate::Accepted, None, "1a 1pq", a, List, CatchAll, true),
            (Fate::Accepted, None, "1pq", b, List, CatchAll, false),
            (Fate::Accepted, None, "1pq 1pr", b, List, CatchAll, false),
            (Fate::Accepted, None, "1pq 2pr", b, List, CatchAll, true),
            (Fate::Accepted, None, "1pq 2pr", b, Single, CatchAll, false),
        ] {
            let plan = world(strangers, changes.map(|turn| (2, turn)));
            let held = holds(&plan, script, mailbox, priority, reason);
            assert_eq!(held, expected, "{script}: {} of {mailbox}, {changes:?}", reason.as_str());
        }
    }

    #[test]
    fn single_checks_are_misled_so_often_and_no_more() {
        let plan = world(UNKNOWN, Some((1, Turn::AcceptsAll)));
        let mut recipients = ask(&plan, "1a 1pq 1x");
        let verdict = Verdict { mailbox: 2, priority: Priority::Single, reason: Reason::MailboxExists };
        let held = (0..25).filter(|_| recipients.judge(&plan, &verdict).is_ok()).count();
        assert_eq!(held, 20);
    }
}
