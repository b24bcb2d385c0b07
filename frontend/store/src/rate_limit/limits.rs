//! The limits by name: those of a plan, and those that an operator set for a single account.

use super::Row;
use serde::{Deserialize, Serialize};

/// The smallest limit: with zero, `Retry-After` would have no value.
pub const LIMIT_MIN: u32 = 1;
/// The largest limit that can be set.
pub const LIMIT_MAX: u32 = 1_000_000_000;

/// The keys of an account that can make all their fast checks at the same time, unless the operator sets another limit.
pub const FAST_KEYS: u32 = 10;

/// Defines the limits: their names, which are also those in the configuration, and their defaults. They are in the order of the rows in
/// the store.
macro_rules! limits {
    ($($(#[$meta:meta])* $name:ident = $default:literal,)*) => {
        /// A value for each limit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub struct PerLimit<T> {
            $($(#[$meta])* pub $name: T,)*
        }

        /// The number of limits.
        const COUNT: usize = [$(stringify!($name)),*].len();

        impl<T> PerLimit<T> {
            /// Each value with the name of the limit.
            pub fn each(self) -> [(&'static str, T); COUNT] {
                [$((stringify!($name), self.$name)),*]
            }

            /// Mutable references to each value, in the same order.
            pub fn each_mut(&mut self) -> [(&'static str, &mut T); COUNT] {
                [$((stringify!($name), &mut self.$name)),*]
            }
        }

        /// The default limits of the contract.
        impl Default for Limits {
            fn default() -> Limits {
                PerLimit { $($name: $default),* }
            }
        }

        /// No override for any limit.
        impl Default for Overrides {
            fn default() -> Overrides {
                PerLimit { $($name: None),* }
            }
        }
    };
}
limits! {
    /// `/v1/verify` with `mode=fast`, per key in 60 seconds.
    fast = 600,
    /// `/v1/verify` in full mode, per key in 60 seconds.
    verify = 600,
    /// `POST /v1/verify/batch`, per key in 60 seconds.
    batch = 30,
    /// Reads and cancellations of batches, and reads of lists, per key in 60 seconds.
    poll = 600,
    /// `/v1/account`, per key in 60 seconds.
    account = 300,
    /// The sustained rate of charged full checks of an account, per second.
    fair_use_per_second = 5,
    /// The number of charged full checks of an account that may come at once after a pause.
    fair_use_burst = 600,
    /// Changes and downloads of lists, per key in 60 seconds.
    #[serde(default)]
    list = 120,
    /// `/v1/verify` with `mode=fast`, per account in 60 seconds; 0 stands for [`FAST_KEYS`] times that of a key.
    #[serde(default)]
    fast_account = 0,
}

/// The limits that apply to an account and its keys.
pub type Limits = PerLimit<u32>;

/// The limits that an account has instead of its plan's.
pub type Overrides = PerLimit<Option<u32>>;

impl Limits {
    /// The limit of a row: requests of a key in 60 seconds.
    pub fn row(&self, row: Row) -> u32 {
        match row {
            Row::Fast => self.fast,
            Row::Verify => self.verify,
            Row::Batch => self.batch,
            Row::Poll => self.poll,
            Row::Account => self.account,
            Row::List => self.list,
            Row::FastAccount => match self.fast_account {
                0 => self.fast.saturating_mul(FAST_KEYS),
                limit => limit,
            },
        }
    }

    /// These limits, with the value of the one that follows from another.
    pub fn stated(self) -> Limits {
        Limits { fast_account: self.row(Row::FastAccount), ..self }
    }

    /// These limits, with an account's own ones where it has them.
    pub fn with(mut self, overrides: &Overrides) -> Limits {
        for ((_, limit), (_, own)) in self.each_mut().into_iter().zip(overrides.each()) {
            *limit = own.unwrap_or(*limit);
        }
        self
    }
}

impl Overrides {
    /// Whether there is no override, so that all limits are the plan's.
    pub fn is_none(&self) -> bool {
        self.each().iter().all(|(_, own)| own.is_none())
    }

    /// These overrides, replaced by later ones where those have a value.
    pub fn with(mut self, later: &Overrides) -> Overrides {
        for ((_, own), (_, later)) in self.each_mut().into_iter().zip(later.each()) {
            *own = later.or(*own);
        }
        self
    }

    /// Whether every override is between [`LIMIT_MIN`] and [`LIMIT_MAX`].
    pub fn is_within_bounds(&self) -> bool {
        self.each().iter().all(|(_, own)| own.is_none_or(|own| (LIMIT_MIN..=LIMIT_MAX).contains(&own)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_limits_stand_before_the_plan_s() {
        let own = Overrides { batch: Some(2), ..Overrides::default() };
        let later = Overrides { batch: Some(3), poll: Some(4), ..Overrides::default() };
        let limits = Limits::default().with(&own.with(&later));
        assert_eq!(limits, Limits { batch: 3, poll: 4, ..Limits::default() });
        assert_eq!(Limits::default().with(&own).batch, 2);
        assert!(Overrides::default().is_none() && !own.is_none());
        assert!(own.is_within_bounds() && !Overrides { fast: Some(0), ..own }.is_within_bounds());
    }

    #[test]
    fn the_fast_checks_of_an_account_follow_those_of_a_key() {
        let limit = |fast, fast_account| {
            Limits { fast, fast_account, ..Limits::default() }.stated().row(Row::FastAccount)
        };
        assert_eq!((limit(600, 0), limit(7, 0), limit(7, 9), limit(u32::MAX, 0)), (6_000, 70, 9, u32::MAX));
        let own = Overrides { fast: Some(1_000), ..Overrides::default() };
        assert_eq!(Limits::default().with(&own).row(Row::FastAccount), 10_000);
    }

    #[test]
    fn rows_and_limits_have_the_same_names() {
        let numbered = Limits {
            fast: 0,
            verify: 1,
            batch: 2,
            poll: 3,
            account: 4,
            list: 5,
            fast_account: 6,
            ..Limits::default()
        };
        for (number, row) in (0..).zip(Row::ALL) {
            let (_, limit) = numbered.each().into_iter().find(|(name, _)| *name == row.as_str()).unwrap();
            assert_eq!((numbered.row(row), limit), (number, number));
        }
    }
}
