//! Accounts of the users of API gateways: one for each, with a reserved form of name.
//!
//! The name is the key: `gateway:NAME:USER`. So no separate table is needed, and lists of accounts show the user. The
//! index has these accounts by gateway and user, since every request of a gateway looks one up.

use crate::index::KeyChange;
use crate::tables::NAMES;
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use store::{Account, GatewayUser, NewAccount, UnixMs};
use store::{ChangeError, StoreError};

/// The start of the names of these accounts, which no others have.
const PREFIX: &str = "gateway:";

/// Whether a name has the form that is reserved for gateways' users.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn name_of(gateway: &str, user: &str) -> String {
    format!("{PREFIX}{gateway}:{user}")
}

/// The gateway and the user in an account's name. A gateway's name has no colon.
pub(crate) fn split_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PREFIX)?.split_once(':')
}

impl Txn<'_> {
    /// Creates the account of a gateway's user, or moves it to the user's plan.
    pub(crate) fn open_gateway_account(
        &mut self,
        user: &GatewayUser,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        let name = name_of(&user.gateway, &user.user);
        let Some(id) = NAMES.get(self.rows(), name.as_str())? else {
            if self.shared.index.gateway_users(&user.gateway) + self.new_users(&user.gateway)
                >= user.users_max
            {
                return refuse(ChangeError::TooMany);
            }
            return self.make_account(&NewAccount { id: user.id, name, plan: user.plan.clone() }, now);
        };
        let Some(account) = self.open_account(id, now)? else {
            return Err(StoreError::Failed("a name without its account".into()).into());
        };
        // Another write may have created or changed it since the look-up in the index.
        if account.row.plan == user.plan { Ok(account.view()) } else { self.set_plan(id, &user.plan, now) }
    }

    /// The users whose accounts this transaction has created, which the index does not have yet.
    fn new_users(&self, of: &str) -> usize {
        let is_new = |change: &&KeyChange| match change {
            KeyChange::Named(_, name) => split_name(name).is_some_and(|(gateway, _)| gateway == of),
            _ => false,
        };
        self.effects.key_changes.iter().filter(is_new).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart_again() {
        for (gateway, user) in [("rapid", "alice"), ("r_1", "a:b"), ("rapid", "gateway:rapid:alice")] {
            let name = name_of(gateway, user);
            assert!(is_reserved(&name));
            assert_eq!(split_name(&name), Some((gateway, user)));
        }
        assert!(!is_reserved("gateways") && split_name("gateway:alice").is_none());
    }
}
