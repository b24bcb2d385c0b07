//! The order of the jobs of the password thread.
//!
//! Strangers wait in one lane, in turns over their networks. Users who have signed in before wait in another, in turns over users. The
//! thread takes from both alternately, so strangers never fill the way of users, and users not that of strangers.

use engine::proto::sharing::{Bounds, FairQueue, ShareUse, UsedUp};
use std::net::IpAddr;
use std::sync::Arc;
use store::{AccountId, StoreError};

/// The most waiting jobs of a lane: of one waiter, and in all, which is a few seconds of work.
pub const BOUNDS: Bounds = Bounds { share: 4, all: 32 };

/// Who waits for a hash, and so has a share of its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waiter {
    /// A network from which strangers sign in or sign up.
    Network(IpAddr),
    /// A stranger, by a hash of the given mail address, where networks cannot be distinguished.
    Stranger([u8; 32]),
    /// A user who has signed in before, by a hash of the mail address.
    User([u8; 32]),
    /// The account of a session.
    Account(AccountId),
}

impl Waiter {
    fn is_known(&self) -> bool {
        matches!(self, Waiter::User(_) | Waiter::Account(_))
    }

    fn over_share(&self) -> StoreError {
        let who = match self {
            Waiter::Network(_) => "Your network",
            Waiter::Stranger(_) | Waiter::User(_) => "This user",
            Waiter::Account(_) => "This account",
        };
        let share = BOUNDS.share;
        StoreError::OverShare(format!(
            "{who} has all of its share of the password checks: {share} wait already. Try again in a few seconds."
        ))
    }
}

/// The waiting jobs of both lanes.
pub struct Lanes<J> {
    strangers: FairQueue<Waiter, J>,
    known: FairQueue<Waiter, J>,
    /// Whose turn it is, unless that lane is empty.
    known_is_next: bool,
}

impl<J> Default for Lanes<J> {
    fn default() -> Lanes<J> {
        let (strangers, known) =
            (FairQueue::new("passwords", BOUNDS), FairQueue::new("passwords_of_known_users", BOUNDS));
        Lanes { strangers, known, known_is_next: true }
    }
}

impl<J> Lanes<J> {
    /// Adds a job. Returns the job that is refused: this one, or one of the waiter with the most jobs, which gives way.
    pub fn push(&mut self, waiter: Waiter, job: J) -> Option<(J, StoreError)> {
        let lane = if waiter.is_known() { &mut self.known } else { &mut self.strangers };
        match lane.push(waiter, job) {
            Ok(gave_way) => gave_way.map(|job| (job, StoreError::Busy)),
            Err((UsedUp::Share, job)) => Some((job, waiter.over_share())),
            Err((UsedUp::All, job)) => Some((job, StoreError::Busy)),
        }
    }

    /// The next job: of both lanes alternately.
    pub fn pop(&mut self) -> Option<J> {
        let Lanes { strangers, known, known_is_next } = self;
        let (first, second) = if *known_is_next { (known, strangers) } else { (strangers, known) };
        *known_is_next = !*known_is_next;
        first.pop().or_else(|| second.pop()).map(|(_, job)| job)
    }

    /// The figures of both lanes.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        vec![self.strangers.figures(), self.known.figures()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Waiter {
        Waiter::Network(IpAddr::from([192, 0, 2, last]))
    }

    const OWNER: Waiter = Waiter::User([1; 32]);

    #[test]
    fn strangers_of_many_networks_do_not_keep_out_a_known_user() {
        let mut lanes = Lanes::default();
        let refused: Vec<_> = (0..48).filter_map(|last| lanes.push(network(last), "stranger")).collect();
        assert_eq!(refused.len(), 16);
        assert!(refused.iter().all(|(_, error)| *error == StoreError::Busy));
        assert_eq!(lanes.push(OWNER, "owner"), None);
        let order: Vec<_> = (0..3).filter_map(|_| lanes.pop()).collect();
        assert_eq!(order, ["owner", "stranger", "stranger"]);
    }

    #[test]
    fn known_users_do_not_starve_strangers() {
        let mut lanes = Lanes::default();
        for n in 0..8 {
            lanes.push(Waiter::User([n; 32]), "known");
            lanes.push(Waiter::Account(AccountId::new(1, n.into())), "known");
        }
        (0..4).for_each(|last| drop(lanes.push(network(last), "stranger")));
        let order: Vec<_> = (0..8).filter_map(|_| lanes.pop()).collect();
        assert_eq!(order, ["known", "stranger"].repeat(4));
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
        let [strangers, known] = &lanes.shares()[..] else { panic!("two lanes") };
        assert_eq!((strangers.used(), known.used(), strangers.refused(UsedUp::Share)), (32, 0, 1));
    }
}
