//! Evidence of the operator's own mail, for the accounts of the operator.
//!
//! It is applied to the answer of one account, after all caches: the store keeps the verdicts of the mail servers, so the evidence
//! changes no answer of another account, and none after it is forgotten.

use api::Reason;
use engine::proto::address::Address;
use engine::proto::lists::Lists;
use learn::{Applied, Table};
use std::sync::{Arc, PoisonError, RwLock};
use store::{AccountId, clock};

/// The learned events, and the accounts that use them. The default is none.
#[derive(Debug, Default)]
pub struct OwnEvidence(RwLock<Option<Arc<LearnedFor>>>);

/// Learned events, and the accounts that use them.
#[derive(Debug)]
pub struct LearnedFor {
    accounts: Vec<AccountId>,
    table: Table,
}

impl OwnEvidence {
    /// Replaces the events for all later answers. With `None`, or without an account, no answer changes.
    pub fn replace(&self, accounts: Vec<AccountId>, table: Option<Table>) {
        let learned =
            table.filter(|_| !accounts.is_empty()).map(|table| Arc::new(LearnedFor { accounts, table }));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = learned;
    }

    /// Replaces the reasons of rows that are an answer to an account.
    pub fn apply_to_rows(&self, account: AccountId, rows: &mut [(String, Reason)], lists: &Lists) {
        let Some(learned) = self.of(account) else { return };
        for (text, reason) in rows {
            if let Ok(address) = Address::parse(text) {
                *reason = learned.apply(&address, *reason, lists).map_or(*reason, |applied| applied.reason);
            }
        }
    }

    /// The events that are evidence for an account; `None` for all but the named accounts.
    pub fn of(&self, account: AccountId) -> Option<Arc<LearnedFor>> {
        let learned = self.0.read().unwrap_or_else(PoisonError::into_inner);
        learned.as_ref().filter(|learned| learned.accounts.contains(&account)).map(Arc::clone)
    }
}

impl LearnedFor {
    /// The verdict in place of the reason that the mail servers gave; `None` if that reason stays.
    pub fn apply(&self, address: &Address, reason: Reason, lists: &Lists) -> Option<Applied> {
        let evidence = self.table.evidence(address, clock::now() / 1000)?;
        // No rule, as in the rows of a batch. Without it, a bounce of a domain changes nothing.
        evidence.apply(reason, "", lists.is_role(address.local()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::{Bounce, Event, EventKind, TableKey};

    #[test]
    fn only_the_answers_of_the_named_accounts_change() {
        let (operator, customer) = (AccountId::new(1, 1), AccountId::new(1, 2));
        let address = Address::parse("joe@example.com").unwrap();
        let mut table = Table::new(TableKey([1; 16]));
        let now = clock::now() / 1000;
        table.add(&Event {
            address: address.clone(),
            kind: EventKind::Bounced(Bounce::NotFound),
            at: now - 60,
        });
        let (evidence, lists) = (OwnEvidence::default(), Lists::default());
        let reason = |account, reason| {
            let learned = evidence.of(account);
            learned
                .and_then(|learned| learned.apply(&address, reason, &lists))
                .map_or(reason, |applied| applied.reason)
        };
        assert_eq!(reason(operator, Reason::CatchAll), Reason::CatchAll);
        evidence.replace(vec![operator], Some(table));
        assert_eq!(reason(operator, Reason::CatchAll), Reason::MailboxNotFound);
        assert_eq!(reason(operator, Reason::Unverifiable), Reason::MailboxNotFound);
        assert_eq!(reason(operator, Reason::MailboxExists), Reason::MailboxExists);
        assert_eq!(reason(customer, Reason::CatchAll), Reason::CatchAll);
        let rows = || {
            vec![
                ("joe@example.com".to_owned(), Reason::CatchAll),
                ("x@example.com".to_owned(), Reason::CatchAll),
            ]
        };
        let reasons = |account| {
            let mut rows = rows();
            evidence.apply_to_rows(account, &mut rows, &lists);
            rows.into_iter().map(|(_, reason)| reason).collect::<Vec<_>>()
        };
        assert_eq!(reasons(operator), [Reason::MailboxNotFound, Reason::CatchAll]);
        assert_eq!(reasons(customer), [Reason::CatchAll, Reason::CatchAll]);
        evidence.replace(vec![operator], None);
        assert_eq!(reason(operator, Reason::CatchAll), Reason::CatchAll);
    }
}
