//! The ledger of all answers to RCPT: their session, their position in it, and whether they were true.

use super::plan::{Fate, WorldPlan};
use super::texts::TextTopic;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// The kinds of answers, as bits of a set.
pub(super) const ACCEPTED: u8 = 1;
pub(super) const NOT_FOUND: u8 = 2;
pub(super) const FULL: u8 = 4;
pub(super) const DISABLED: u8 = 8;
/// A permanent refusal whose words name no mailbox.
pub(super) const UNCLEAR: u8 = 16;
pub(super) const OTHER: u8 = 32;

/// A permanent refusal of the recipient itself.
const OWN_REFUSAL: u8 = NOT_FOUND | FULL | DISABLED;

/// An answer to a RCPT, as the ledger keeps it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RcptAnswer {
    pub host: u32,
    /// The session.
    pub link: u32,
    /// The position of the recipient in the session.
    pub place: u32,
    pub word: u8,
    /// The answer is a permanent refusal.
    pub permanent: bool,
    /// The time at which the host sent the answer, and the time at which the client has it.
    pub sent: Duration,
    pub heard: Duration,
    /// The host treated the recipient as the owner of the domain intends.
    pub honest: bool,
}

/// The recipient that an answer is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    Mailbox(u32),
    /// A control recipient: nobody owns it.
    Stranger,
    Postmaster,
}

/// Every answer to a RCPT, with indices for the rules of `judge.rs`.
pub struct ReplyLedger {
    mailboxes: Vec<Vec<RcptAnswer>>,
    strangers: Vec<Vec<RcptAnswer>>,
    /// The answers of a session for each domain, with their recipients.
    sessions: HashMap<(u32, u32), Vec<(RcptAnswer, Whom)>>,
    /// Positions within a session: of the last recipient that nobody owns and that was rightly refused for itself, and
    /// of the last recipient.
    refused: HashMap<u32, [u32; 2]>,
    /// For each session, how many recipients it accepted or refused for good, from the first accept on.
    since_accept: HashMap<u32, u32>,
    /// The hosts that have had room in a session for an accept and its proof, each with the domains that it had room for.
    roomy: HashMap<u32, HashSet<u32>>,
    /// Accepts of mailboxes that exist, for each domain and for each host.
    known: [HashMap<u32, Vec<RcptAnswer>>; 2],
    /// When a host refused a mailbox that it had accepted before.
    taken_back: HashMap<u32, Vec<Duration>>,
    /// Wrong verdicts of single checks at a host since it last was honest.
    wrong: HashMap<(u32, Wrong), u32>,
}

/// The kinds of verdicts that contradict the truth. A single check has too little time for a proof, so a few are
/// allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    Confirmed,
    Denied,
}

impl ReplyLedger {
    /// An empty ledger without any answers.
    pub fn new(plan: &WorldPlan) -> ReplyLedger {
        ReplyLedger {
            mailboxes: vec![Vec::new(); plan.mailboxes.len()],
            strangers: vec![Vec::new(); plan.domains.len()],
            sessions: HashMap::new(),
            refused: HashMap::new(),
            since_accept: HashMap::new(),
            roomy: HashMap::new(),
            known: Default::default(),
            taken_back: HashMap::new(),
            wrong: HashMap::new(),
        }
    }

    /// Records the answer of a host for a recipient of a domain.
    pub(super) fn said(&mut self, plan: &WorldPlan, domain: u32, whom: Whom, said: RcptAnswer) {
        match whom {
            Whom::Mailbox(mailbox) => {
                let answers = &mut self.mailboxes[mailbox as usize];
                if said.word != ACCEPTED
                    && answers.iter().any(|before| before.word == ACCEPTED && before.host == said.host)
                {
                    self.taken_back.entry(said.host).or_default().push(said.heard);
                }
                answers.push(said);
                // A host that accepts everyone shows nothing about its mailboxes. If it refuses everyone later, that
                // looks the same as a host that knows its mailboxes again.
                let tells = said.honest && plan.domains[domain as usize].strangers != Fate::Accepted;
                if said.word == ACCEPTED && tells && plan.mailboxes[mailbox as usize].exists() {
                    let [domains, hosts] = &mut self.known;
                    domains.entry(domain).or_default().push(said);
                    hosts.entry(said.host).or_default().push(said);
                }
            }
            Whom::Stranger => {
                self.strangers[domain as usize].push(said);
                if !plan.hosts[said.host as usize].changes_for_good() {
                    // A client that believes the host from now on has new evidence.
                    self.wrong.remove(&(said.host, Wrong::Confirmed));
                }
            }
            Whom::Postmaster => {}
        }
        if said.honest && said.permanent && said.word & OWN_REFUSAL != 0 {
            let last = self.refused.entry(said.link).or_default();
            last[1] = said.place + 1;
            if whom == Whom::Stranger {
                last[0] = last[1];
            }
        }
        if said.word == ACCEPTED || said.permanent && self.since_accept.contains_key(&said.link) {
            let since = self.since_accept.entry(said.link).or_default();
            *since += 1;
            // Of two recipients, one may be needed to find a mailbox that the host knows.
            if *since > 2 {
                self.roomy.entry(said.host).or_default().insert(domain);
            }
        }
        self.sessions.entry((domain, said.link)).or_default().push((said, whom));
    }

    /// Whether no session with the host has had room for an accept and its proof so far. Then accepts of patient work have to do with
    /// the evidence that single checks have. With `apart`, only sessions about this domain count.
    pub(super) fn has_no_room_for_proof(&self, domain: u32, host: u32, apart: bool) -> bool {
        self.roomy.get(&host).is_none_or(|domains| apart && !domains.contains(&domain))
    }

    pub(super) fn of_mailbox(&self, mailbox: u32) -> &[RcptAnswer] {
        &self.mailboxes[mailbox as usize]
    }

    pub(super) fn of_strangers(&self, domain: u32) -> &[RcptAnswer] {
        &self.strangers[domain as usize]
    }

    /// Whether a recipient of the domain was refused for itself after this accept, in the same session.
    pub(super) fn is_followed_by_refusal(&self, domain: u32, accept: &RcptAnswer) -> bool {
        let refused = |said: &RcptAnswer| said.permanent && said.word & OWN_REFUSAL != 0;
        let session = self.session(domain, accept.link);
        session.iter().any(|(said, _)| said.place > accept.place && refused(said))
    }

    /// Whether the session of this accept permanently refused at least two control recipients, in any words, between
    /// two accepts.
    pub(super) fn is_beside_refused_controls(&self, domain: u32, accept: &RcptAnswer) -> bool {
        self.tells_apart(domain, accept.link)
    }

    /// Whether single checks may believe this accept of a host. A control recipient must have been refused shortly
    /// before: in words that deny that the mailbox exists, or together with a second one.
    pub(super) fn is_behind_refused_control(
        &self,
        domain: u32,
        accept: &RcptAnswer,
        believed: Duration,
    ) -> bool {
        let recent = |said: &&RcptAnswer| {
            said.host == accept.host && said.permanent && accept.heard <= said.heard + believed
        };
        let mut controls = self.strangers[domain as usize].iter().filter(recent);
        controls.any(|said| said.word == NOT_FOUND || self.tells_apart(domain, said.link))
    }

    fn tells_apart(&self, domain: u32, link: u32) -> bool {
        let session = self.session(domain, link);
        let accepts = || session.iter().filter(|(said, _)| said.word == ACCEPTED).map(|(said, _)| said.place);
        let (Some(first), Some(last)) = (accepts().min(), accepts().max()) else { return false };
        let controls = session.iter().filter(|(said, whom)| {
            *whom == Whom::Stranger && said.permanent && (first..last).contains(&said.place)
        });
        controls.count() >= 2
    }

    /// Whether a mailbox that exists was accepted before this answer, in the same domain or at the same host. The
    /// mailbox is known for an hour if its session proved that it distinguishes mailboxes, otherwise for a shorter
    /// time. If control recipients were accepted as well, a refusal must be that of another control recipient, since a
    /// host that accepts everyone may refuse a mailbox that it closed. With `apart`, knowledge of the host from one
    /// domain does not count for another domain.
    pub(super) fn is_behind_known_accept(&self, domain: u32, answer: &RcptAnswer, apart: bool) -> bool {
        let [domains, hosts] = &self.known;
        let accepts_strangers = self.strangers[domain as usize].iter().any(|said| {
            said.word == ACCEPTED && said.sent <= answer.sent && answer.sent < said.heard + RECENT
        });
        let before = |said: &RcptAnswer| {
            let [stranger, anybody] =
                self.refused.get(&said.link).map_or([false; 2], |last| last.map(|at| at > said.place + 1));
            let known = if anybody { RECENT } else { UNPROVEN };
            // A client forgets an unproven mailbox that is refused later, and takes no other unproven one soon after that.
            let refusals = self.taken_back.get(&answer.host).filter(|_| !anybody);
            if refusals.is_some_and(|at| at.iter().any(|at| (said.heard..answer.sent).contains(at))) {
                return false;
            }
            let counts = stranger || !accepts_strangers;
            said.heard + MARGIN <= answer.sent && answer.sent < said.heard + known && counts
        };
        [domains.get(&domain), hosts.get(&answer.host).filter(|_| !apart)]
            .into_iter()
            .flatten()
            .any(|known| known.iter().any(before))
    }

    /// Counts a wrong verdict of a single check at a host, and returns the new count.
    pub(super) fn count_wrong(&mut self, host: u32, wrong: Wrong) -> u32 {
        let count = self.wrong.entry((host, wrong)).or_default();
        *count += 1;
        *count
    }

    fn session(&self, domain: u32, link: u32) -> &[(RcptAnswer, Whom)] {
        self.sessions.get(&(domain, link)).map_or(&[], Vec::as_slice)
    }
}

/// How long a mailbox that was accepted is known, with a margin.
const RECENT: Duration = Duration::from_secs(3500);
/// How long it is known if no session has proved the accept.
const UNPROVEN: Duration = Duration::from_secs(550);
/// How much later than computed a client may get an answer: servers may write slowly.
pub(super) const MARGIN: Duration = Duration::from_secs(3);

/// The kind of answer that a host gives by treating a recipient like this.
pub(super) fn word(fate: &Fate) -> u8 {
    match fate {
        Fate::Accepted => ACCEPTED,
        Fate::Greylisted(_) => OTHER,
        Fate::Refused(text) => match text.kind {
            TextTopic::NotFound => NOT_FOUND,
            TextTopic::Full => FULL,
            TextTopic::Disabled => DISABLED,
            TextTopic::Unclear => UNCLEAR,
            _ => OTHER,
        },
    }
}
