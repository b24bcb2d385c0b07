//! What was said about whom: every answer to a RCPT, with the session and the place in it, and whether it was true.

use super::plan::{Fate, Plan};
use super::texts::Kind;
use std::collections::HashMap;
use std::time::Duration;

/// What a host can have said.
pub(super) const ACCEPTED: u8 = 1;
pub(super) const NOT_FOUND: u8 = 2;
pub(super) const FULL: u8 = 4;
pub(super) const DISABLED: u8 = 8;
/// A permanent refusal in words that name no mailbox.
pub(super) const UNCLEAR: u8 = 16;
pub(super) const OTHER: u8 = 32;

/// A permanent refusal of the recipient itself.
const OWN_REFUSAL: u8 = NOT_FOUND | FULL | DISABLED;

/// An answer to a RCPT.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub host: u32,
    /// The session.
    pub link: u32,
    /// Which recipient of the session it answers.
    pub place: u32,
    pub word: u8,
    /// It is a refusal for good.
    pub permanent: bool,
    /// When the host said it, and when the client has it.
    pub sent: Duration,
    pub heard: Duration,
    /// The host dealt with the recipient as its owner wants.
    pub honest: bool,
}

/// Whom an answer is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    Mailbox(u32),
    /// Nobody owns it: a control recipient.
    Stranger,
    Postmaster,
}

/// Every answer to a RCPT.
pub struct Ledger {
    mailboxes: Vec<Vec<Said>>,
    strangers: Vec<Vec<Said>>,
    /// Whom a session's answers were about, of each domain.
    sessions: HashMap<(u32, u32), Vec<(Said, Whom)>>,
    /// The place of the last recipient that nobody owns and that a session refused for itself, and rightly; and of the last
    /// of all recipients.
    refused: HashMap<u32, [u32; 2]>,
    /// Accepts of mailboxes that exist, of each domain and of each host.
    known: [HashMap<u32, Vec<Said>>; 2],
    /// Wrong verdicts of single checks at a host since it was seen to be honest.
    wrong: HashMap<(u32, Wrong), u32>,
}

/// A verdict that contradicts the truth, for somebody who could not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    Confirmed,
    Denied,
}

impl Ledger {
    pub fn new(plan: &Plan) -> Ledger {
        Ledger {
            mailboxes: vec![Vec::new(); plan.mailboxes.len()],
            strangers: vec![Vec::new(); plan.domains.len()],
            sessions: HashMap::new(),
            refused: HashMap::new(),
            known: Default::default(),
            wrong: HashMap::new(),
        }
    }

    /// A host answers for a recipient of a domain.
    pub(super) fn said(&mut self, plan: &Plan, domain: u32, whom: Whom, said: Said) {
        match whom {
            Whom::Mailbox(mailbox) => {
                self.mailboxes[mailbox as usize].push(said);
                // A host that accepts everyone shows nothing of its mailboxes. That one which did so and refuses everyone now
                // has changed for the worse, nobody can tell: one that knows its mailboxes again looks the same.
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
                    // Whoever believes it from now on has asked again.
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
        self.sessions.entry((domain, said.link)).or_default().push((said, whom));
    }

    pub(super) fn of_mailbox(&self, mailbox: u32) -> &[Said] {
        &self.mailboxes[mailbox as usize]
    }

    pub(super) fn of_strangers(&self, domain: u32) -> &[Said] {
        &self.strangers[domain as usize]
    }

    /// Whether a recipient of the domain was refused for itself after this accept, in the same session.
    pub(super) fn is_followed_by_refusal(&self, domain: u32, accept: &Said) -> bool {
        let refused = |said: &Said| said.permanent && said.word & OWN_REFUSAL != 0;
        let session = self.session(domain, accept.link);
        session.iter().any(|(said, _)| said.place > accept.place && refused(said))
    }

    /// Whether this accept stands in a session where two control recipients or more were refused for good, in whatever
    /// words, between two accepts.
    pub(super) fn is_beside_refused_controls(&self, domain: u32, accept: &Said) -> bool {
        self.tells_apart(domain, accept.link)
    }

    /// Whether single checks may believe a host for this accept: a control recipient was refused shortly before, in words
    /// that deny the mailbox, or as one of two.
    pub(super) fn is_behind_refused_control(&self, domain: u32, accept: &Said, believed: Duration) -> bool {
        let recent = |said: &&Said| {
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

    /// Whether a mailbox that exists had been accepted there before this answer: of the same domain, or at the same host. It
    /// is known for an hour where its session showed that it tells mailboxes apart, otherwise for a while. Where strangers
    /// were accepted, too, only the refusal of another stranger shows that: who accepts everyone may refuse a mailbox that
    /// it closed. `apart`: what is known of the host for one domain need not be known for another.
    pub(super) fn is_behind_known_accept(&self, domain: u32, answer: &Said, apart: bool) -> bool {
        let [domains, hosts] = &self.known;
        let accepts_strangers = self.strangers[domain as usize].iter().any(|said| {
            said.word == ACCEPTED && said.sent <= answer.sent && answer.sent < said.heard + RECENT
        });
        let before = |said: &Said| {
            let [stranger, anybody] =
                self.refused.get(&said.link).map_or([false; 2], |last| last.map(|at| at > said.place + 1));
            let known = if anybody { RECENT } else { UNPROVEN };
            let counts = stranger || !accepts_strangers;
            said.heard + MARGIN <= answer.sent && answer.sent < said.heard + known && counts
        };
        [domains.get(&domain), hosts.get(&answer.host).filter(|_| !apart)]
            .into_iter()
            .flatten()
            .any(|known| known.iter().any(before))
    }

    /// Counts a wrong verdict of a single check at a host: how many there are by now.
    pub(super) fn count_wrong(&mut self, host: u32, wrong: Wrong) -> u32 {
        let count = self.wrong.entry((host, wrong)).or_default();
        *count += 1;
        *count
    }

    fn session(&self, domain: u32, link: u32) -> &[(Said, Whom)] {
        self.sessions.get(&(domain, link)).map_or(&[], Vec::as_slice)
    }
}

/// How long a mailbox that was accepted is known, with room to spare.
const RECENT: Duration = Duration::from_secs(3500);
/// The same where no session has proven the accept.
const UNPROVEN: Duration = Duration::from_secs(550);
/// How much later than computed a client may have an answer: servers may be slow to write.
pub(super) const MARGIN: Duration = Duration::from_secs(3);

/// What a host says by dealing so with a recipient.
pub(super) fn word(fate: &Fate) -> u8 {
    match fate {
        Fate::Accepted => ACCEPTED,
        Fate::Greylisted(_) => OTHER,
        Fate::Refused(text) => match text.kind {
            Kind::NotFound => NOT_FOUND,
            Kind::Full => FULL,
            Kind::Disabled => DISABLED,
            Kind::Unclear => UNCLEAR,
            _ => OTHER,
        },
    }
}
