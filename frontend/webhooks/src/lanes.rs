//! The lanes of attempts: which endpoints may be attempted now, in turns over accounts, and then over their endpoints.
//!
//! An endpoint that took long at its last attempt is slow. It is attempted in a lane with few places, and all others in the prompt
//! lane. There an attempt has a place for [`PROMPT_TIME_MAX`] at most: after this time the attempt goes on without its place, and
//! the endpoint is slow. So silent endpoints, however many, keep no place from others for longer. Endpoints that have not been
//! attempted yet have only some of the places, so those that are known to be prompt do not wait for them.

use engine_proto::sharing::{Bounds, Quota, ShareUse, Taken, Turns};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::webhooks::DueWebhook;
use store::{AccountId, WebhookId};

/// How long an attempt has a place of the prompt lane. An endpoint that needs longer is slow.
pub const PROMPT_TIME_MAX: Duration = Duration::from_secs(2);
/// The places of the prompt lane.
const PROMPT: Bounds = Bounds { share: 4, all: 32 };
/// Those for endpoints that have not been attempted yet.
const FIRST: Bounds = Bounds { share: 2, all: 24 };
/// The places for slow endpoints.
const SLOW: Bounds = Bounds { share: 2, all: 16 };
/// How many endpoints are remembered at least. Twice as many are at most.
const REMEMBERED: usize = 8192;

/// How long an endpoint took at its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At most [`PROMPT_TIME_MAX`].
    Prompt,
    /// Longer.
    Slow,
}

impl Pace {
    /// The pace of an attempt that took this long.
    pub fn of(took: Duration) -> Pace {
        if took <= PROMPT_TIME_MAX { Pace::Prompt } else { Pace::Slow }
    }
}

/// The lanes, with the order of accounts.
pub struct Lanes {
    prompt: Arc<Quota<AccountId>>,
    first: Arc<Quota<AccountId>>,
    slow: Arc<Quota<AccountId>>,
    turns: Turns<AccountId>,
    paces: Paces,
}

/// The places of an attempt, until they are dropped.
pub struct LanePlaces {
    account: AccountId,
    webhook: WebhookId,
    is_slow: bool,
    taken: Vec<Taken<AccountId>>,
}

/// The paces of endpoints that were attempted lately.
#[derive(Default)]
struct Paces {
    recent: HashMap<WebhookId, Pace>,
    older: HashMap<WebhookId, Pace>,
}

impl Paces {
    fn set(&mut self, webhook: WebhookId, pace: Pace) {
        if self.recent.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(webhook, pace);
    }

    fn of(&self, webhook: WebhookId) -> Option<Pace> {
        self.recent.get(&webhook).or_else(|| self.older.get(&webhook)).copied()
    }
}

impl Lanes {
    /// Lanes with free places.
    pub fn new() -> Lanes {
        Lanes {
            prompt: Quota::new("webhooks", PROMPT),
            first: Quota::new("first_webhooks", FIRST),
            slow: Quota::new("slow_webhooks", SLOW),
            turns: Turns::default(),
            paces: Paces::default(),
        }
    }

    /// The figures for metrics.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        [&self.prompt, &self.first, &self.slow].map(|quota| quota.figures()).to_vec()
    }

    /// Chooses endpoints as far as there are places: one of each account, then a second one, and so on. An account that got none keeps
    /// its turn before those that got one.
    pub fn choose(&mut self, due: Vec<DueWebhook>) -> Vec<(DueWebhook, LanePlaces)> {
        let mut waiting: HashMap<AccountId, VecDeque<DueWebhook>> = HashMap::new();
        for due in due {
            self.turns.add(due.account);
            waiting.entry(due.account).or_default().push_back(due);
        }
        let (mut chosen, mut served) = (Vec::new(), Vec::new());
        let mut round: Vec<AccountId> = std::iter::from_fn(|| self.turns.take()).collect();
        round.retain(|account| waiting.contains_key(account));
        let mut passed = Vec::new();
        while !round.is_empty() {
            let mut again = Vec::new();
            for account in round {
                let next = waiting.get_mut(&account).and_then(|of_account| {
                    let mut places = of_account.iter().enumerate();
                    let (at, places) = places.find_map(|(at, due)| Some((at, self.enter(due)?)))?;
                    Some((of_account.remove(at)?, places))
                });
                match next {
                    Some(next) => {
                        chosen.push(next);
                        again.push(account);
                    }
                    // It gets none in a later round either.
                    None if served.contains(&account) => {}
                    None => passed.push(account),
                }
            }
            served.extend(
                again.iter().filter(|account| !served.contains(account)).copied().collect::<Vec<_>>(),
            );
            round = again;
        }
        passed.into_iter().chain(served).for_each(|account| self.turns.add(account));
        chosen
    }

    /// Takes the places for an attempt.
    fn enter(&self, due: &DueWebhook) -> Option<LanePlaces> {
        let quotas: &[&Arc<Quota<AccountId>>] = match self.paces.of(due.webhook) {
            Some(Pace::Prompt) => &[&self.prompt],
            Some(Pace::Slow) => &[&self.slow],
            None => &[&self.first, &self.prompt],
        };
        let taken = quotas.iter().map(|quota| quota.take(due.account, 1).ok()).collect::<Option<Vec<_>>>()?;
        let is_slow = self.paces.of(due.webhook) == Some(Pace::Slow);
        Some(LanePlaces { account: due.account, webhook: due.webhook, is_slow, taken })
    }

    /// Notes the pace of an attempt that has ended.
    pub fn note(&mut self, webhook: WebhookId, pace: Pace) {
        self.paces.set(webhook, pace);
    }

    /// Ends the time of an attempt in the prompt lane. It counts as slow, and goes on also if no place for slow endpoints is free.
    pub fn leave_prompt(&mut self, places: &mut LanePlaces) {
        if !places.is_slow {
            places.is_slow = true;
            self.paces.set(places.webhook, Pace::Slow);
            places.taken = self.slow.take(places.account, 1).into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endpoint of an account. The numbers of endpoints are different over all accounts.
    fn due(account: u128, webhook: u128) -> DueWebhook {
        DueWebhook { since: 1, webhook: WebhookId::new(1, webhook), account: AccountId::new(1, account) }
    }

    /// Endpoints of accounts, those of one account after those of the one before.
    fn all(accounts: std::ops::Range<u128>, each: u128) -> Vec<DueWebhook> {
        accounts
            .flat_map(|account| (0..each).map(move |number| due(account, account * 100 + number)))
            .collect()
    }

    fn count(chosen: &[(DueWebhook, LanePlaces)], account: u128) -> usize {
        chosen.iter().filter(|(due, _)| due.account == AccountId::new(1, account)).count()
    }

    #[test]
    fn accounts_take_turns_and_none_has_all_places() {
        let mut lanes = Lanes::new();
        let mut waiting = all(0..8, 10);
        waiting.push(due(8, 800));
        let chosen = lanes.choose(waiting);
        assert_eq!((0..8).map(|account| count(&chosen, account)).collect::<Vec<_>>(), [2; 8]);
        assert_eq!(count(&chosen, 8), 1);
        assert_eq!(lanes.shares()[1].used(), 17);
        drop(chosen);
        assert_eq!(lanes.shares()[1].used(), 0);
    }

    #[test]
    fn who_got_nothing_is_the_next() {
        let mut lanes = Lanes::new();
        let chosen = lanes.choose(all(0..30, 1));
        assert_eq!(chosen.len(), 24);
        assert_eq!((count(&chosen, 23), count(&chosen, 24)), (1, 0));
        drop(chosen);
        // The first accounts have further endpoints, which are due for as long.
        let chosen = lanes.choose(all(0..30, 1));
        assert_eq!((24..30).map(|account| count(&chosen, account)).collect::<Vec<_>>(), [1; 6]);
        assert_eq!(chosen.len(), 24);
    }

    #[test]
    fn slow_endpoints_have_few_places_and_others_do_not_wait_for_them() {
        let mut lanes = Lanes::new();
        let mut chosen = lanes.choose(all(0..8, 10));
        // They are silent.
        chosen.iter_mut().for_each(|(_, places)| lanes.leave_prompt(places));
        assert_eq!((lanes.shares()[0].used(), lanes.shares()[2].used()), (0, 16));
        let again = lanes.choose(chosen.iter().map(|(due, _)| *due).collect());
        assert!(again.is_empty(), "all places for slow endpoints are taken");
        let mut others = lanes.choose(vec![due(9, 900), due(9, 901), due(9, 902)]);
        assert_eq!(others.len(), 2, "two that have not been attempted yet");
        // An attempt goes on without a place.
        lanes.leave_prompt(&mut others[0].1);
        assert_eq!((lanes.shares()[0].used(), lanes.shares()[2].used()), (1, 16));
        drop((chosen, others));
        assert!(lanes.shares().iter().all(|share| share.used() == 0));
    }

    #[test]
    fn endpoints_that_are_known_to_be_prompt_have_places_of_their_own() {
        let mut lanes = Lanes::new();
        let known = all(100..103, 4);
        known.iter().for_each(|due| lanes.note(due.webhook, Pace::of(PROMPT_TIME_MAX)));
        let first = lanes.choose(all(0..20, 2));
        assert_eq!(first.len(), 24);
        assert_eq!(lanes.choose(known).len(), 8);
        assert_eq!(Pace::of(PROMPT_TIME_MAX + Duration::from_millis(1)), Pace::Slow);
    }

    #[test]
    fn few_paces_are_kept() {
        let mut paces = Paces::default();
        let id = |number: usize| WebhookId::new(1, number as u128);
        (0..3 * REMEMBERED).for_each(|number| paces.set(id(number), Pace::Slow));
        assert!(paces.recent.len() + paces.older.len() <= 2 * REMEMBERED);
        assert_eq!((paces.of(id(3 * REMEMBERED - 1)), paces.of(id(0))), (Some(Pace::Slow), None));
    }
}
