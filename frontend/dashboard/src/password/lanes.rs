//! The order of the jobs of the password thread.
//!
//! There are three lanes: strangers in turns over their networks, users who have signed in before in turns over users, and sessions in
//! turns over accounts. The thread takes from one lane after another, so none of these groups can keep out another. Anybody can have many users of their own: if these fill a lane, the next one waits as a stranger of its network.

use engine::proto::sharing::{Bounds, FairQueue, ShareUse, UsedUp};
use std::net::IpAddr;
use std::sync::Arc;
use store::{AccountId, StoreError};

/// The most waiting jobs of a lane: of one holder, and in all, which is a few seconds of work.
pub const BOUNDS: Bounds = Bounds { share: 4, all: 32 };

/// Who waits for a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// What is known of them besides their place.
    pub who: Who,
    /// From where they come.
    pub place: Place,
}

/// From where a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The site of the peer: an IPv4 address, or 48 bits of IPv6.
    Network(IpAddr),
    /// A hash of the mail address that was given, where networks cannot be distinguished.
    Given([u8; 32]),
}

/// What is known of somebody who waits for a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Nobody that is known: they wait by their place alone.
    Stranger,
    /// A user who has signed in before, by a hash of the mail address.
    User([u8; 32]),
    /// The account of a session.
    Account(AccountId),
}

/// Who has a share of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    Place(Place),
    User([u8; 32]),
    Account(AccountId),
}

/// The jobs that wait for the thread.
pub struct Lanes<J> {
    strangers: FairQueue<Holder, J>,
    users: FairQueue<Holder, J>,
    sessions: FairQueue<Holder, J>,
    /// The number of the lane from which the next job is taken, unless it is empty.
    next: usize,
}

impl<J> Default for Lanes<J> {
    fn default() -> Lanes<J> {
        Lanes {
            strangers: FairQueue::new("passwords", BOUNDS),
            users: FairQueue::new("passwords_of_known_users", BOUNDS),
            sessions: FairQueue::new("passwords_of_sessions", BOUNDS),
            next: 0,
        }
    }
}

impl<J> Lanes<J> {
    /// Adds a job. Returns the job that is refused: this one, or one of the holder with the most jobs, which gives way.
    pub fn push(&mut self, waiter: Waiter, job: J) -> Option<(J, StoreError)> {
        let outcome = match waiter.who {
            Who::Stranger => Err((UsedUp::All, job)),
            Who::User(user) => self.users.push(Holder::User(user), job),
            Who::Account(account) => self.sessions.push(Holder::Account(account), job),
        };
        let (outcome, who) = match (outcome, waiter.who) {
            (Err((UsedUp::All, job)), _) => {
                let who =
                    if matches!(waiter.place, Place::Network(_)) { "Your network" } else { "This user" };
                (self.strangers.push(Holder::Place(waiter.place), job), who)
            }
            (outcome, Who::Account(_)) => (outcome, "This account"),
            (outcome, Who::Stranger | Who::User(_)) => (outcome, "This user"),
        };
        match outcome {
            Ok(gave_way) => gave_way.map(|job| (job, StoreError::Busy)),
            Err((UsedUp::Share, job)) => Some((job, over_share(who))),
            Err((UsedUp::All, job)) => Some((job, StoreError::Busy)),
        }
    }

    /// The next job: of one lane after another.
    pub fn pop(&mut self) -> Option<J> {
        let Lanes { strangers, users, sessions, next } = self;
        let mut lanes = [sessions, users, strangers];
        let (before, from) = lanes.split_at_mut(*next);
        *next = (*next + 1) % 3;
        from.iter_mut().chain(before).find_map(|lane| lane.pop()).map(|(_, job)| job)
    }

    /// The figures of all lanes.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        [&self.strangers, &self.users, &self.sessions].map(FairQueue::figures).into()
    }
}

fn over_share(who: &str) -> StoreError {
    let share = BOUNDS.share;
    StoreError::OverShare(format!(
        "{who} has all of its share of the password checks: {share} wait already. Try again in a few seconds."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Waiter {
        let place = Place::Network(IpAddr::from([192, 0, 2, last]));
        Waiter { who: Who::Stranger, place }
    }

    fn user(number: u8, last: u8) -> Waiter {
        Waiter { who: Who::User([number; 32]), ..network(last) }
    }

    fn account(number: u8, last: u8) -> Waiter {
        Waiter { who: Who::Account(AccountId::new(1, number.into())), ..network(last) }
    }

    #[test]
    fn strangers_of_many_networks_do_not_keep_out_a_known_user() {
        let mut lanes = Lanes::default();
        let refused: Vec<_> = (0..48).filter_map(|last| lanes.push(network(last), "stranger")).collect();
        assert_eq!(refused.len(), 16);
        assert!(refused.iter().all(|(_, error)| *error == StoreError::Busy));
        assert_eq!(lanes.push(user(1, 1), "owner"), None);
        assert_eq!(lanes.push(account(1, 1), "session"), None);
        let order: Vec<_> = (0..4).filter_map(|_| lanes.pop()).collect();
        assert_eq!(order, ["session", "owner", "stranger", "stranger"]);
    }

    #[test]
    fn no_lane_starves_another() {
        let mut lanes = Lanes::default();
        for n in 0..4 {
            lanes.push(user(n, n), "user");
            lanes.push(account(n, n), "session");
            lanes.push(network(n), "stranger");
        }
        let order: Vec<_> = (0..12).filter_map(|_| lanes.pop()).collect();
        assert_eq!(order, ["session", "user", "stranger"].repeat(4));
        assert_eq!(lanes.pop(), None);
    }

    #[test]
    fn who_finds_its_lane_full_of_others_waits_as_a_stranger() {
        let mut lanes = Lanes::default();
        // One network has 40 users and 40 accounts of its own. Then each lane is full, and the rest has the share of the network.
        let refused = (0..40).filter_map(|n| lanes.push(user(n, 1), "attacker")).count();
        assert_eq!(refused, 4);
        let refused = (0..40).filter_map(|n| lanes.push(account(n, 1), "attacker")).count();
        assert_eq!(refused, 8);
        assert_eq!(lanes.push(user(99, 2), "victim"), None);
        assert_eq!(lanes.push(account(99, 3), "victim"), None);
        let order: Vec<_> = std::iter::from_fn(|| lanes.pop()).collect();
        assert!(order[..9].iter().filter(|who| **who == "victim").count() == 2, "{:?}", &order[..12]);
    }

    #[test]
    fn the_last_of_who_has_the_most_gives_way() {
        let mut lanes = Lanes::default();
        for last in 0..8 {
            assert!((0..4).all(|n| lanes.push(network(last), (last, n)).is_none()));
        }
        let refused = lanes.push(network(0), (0, 4));
        assert!(
            matches!(&refused, Some(((0, 4), StoreError::OverShare(why))) if why.starts_with("Your network")),
            "{refused:?}"
        );
        let gave_way = lanes.push(network(9), (9, 0));
        assert!(matches!(gave_way, Some(((0..8, 3), StoreError::Busy))), "{gave_way:?}");
        let [strangers, users, sessions] = &lanes.shares()[..] else { panic!("three lanes") };
        assert_eq!((strangers.used(), users.used(), sessions.used()), (32, 0, 0));
        assert_eq!(strangers.refused(UsedUp::Share), 1);
    }
}
