//! Crashes while counts of refusals are stored, and while the evidence of verdicts is withdrawn.

use super::*;
use api::Reason;
use engine::{KeptRefusals, KeptStep};
use std::collections::{BTreeMap, BTreeSet};

const HOSTS: u64 = 12;

/// The answers before the crash.
#[derive(Default)]
pub(super) struct Told {
    /// By key: the counts that were stored last, and all that were requested after them.
    counts: BTreeMap<u64, (u32, BTreeSet<u32>)>,
    /// Addresses with a verdict, by number, and the host that is its evidence.
    verdicts: BTreeMap<u128, u64>,
    /// Hosts whose withdrawal was requested, and whether it was answered; they have no verdict afterwards.
    withdrawn: BTreeMap<u64, bool>,
    next: u128,
}

fn address(store: &RedbStore, number: u128) -> AddressHash {
    store.hash_address(&format!("{number}@example.com"))
}

impl Told {
    fn keep(&mut self, store: &RedbStore, rng: &mut fastrand::Rng) {
        let key = rng.u64(0..HOSTS);
        let refused = rng.u32(1..1_000_000);
        let counts = self.counts.entry(key).or_default();
        counts.1.insert(refused);
        let steps = vec![KeptStep { step: NOW / 300_000, refused, accepted: 0 }];
        if store.keep_refusals(vec![KeptRefusals { key, steps }]).wait().is_ok() {
            *counts = (refused, BTreeSet::new());
        }
    }

    fn verify(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng) {
        let host = rng.u64(0..HOSTS);
        if self.withdrawn.contains_key(&host) {
            return;
        }
        self.next += 1;
        let hold = HoldRef { account, id: EntryId::new(NOW, self.next) };
        let verdict = Verdict { evidence: Some(host), ..Reason::MailboxExists.into() };
        let record = ResultRecord { address: address(store, self.next), verdict };
        if charge(store, hold, record).is_some_and(|(_, answered)| answered) {
            self.verdicts.insert(self.next, host);
        }
    }

    fn withdraw(&mut self, store: &RedbStore, rng: &mut fastrand::Rng) {
        let host = rng.u64(0..HOSTS);
        let answered = store.withdraw(vec![host], NOW).wait().is_ok();
        *self.withdrawn.entry(host).or_default() |= answered;
    }
}

impl Load for Told {
    const ROUNDS: u32 = 60;
    const SEED: u64 = SEED + 3;

    fn load(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng) {
        for _ in 0..rng.u32(1..20) {
            self.keep(store, rng);
            self.verify(store, account, rng);
            if rng.u8(0..24) == 0 {
                self.withdraw(store, rng);
            }
        }
    }

    fn check(&mut self, store: &RedbStore, account: AccountId) {
        let kept: BTreeMap<u64, u32> = store
            .kept_refusals()
            .wait()
            .unwrap()
            .iter()
            .map(|kept| (kept.key, kept.steps[0].refused))
            .collect();
        for (key, (last, asked)) in &mut self.counts {
            let found = kept.get(key).copied().unwrap_or(0);
            assert!(found == *last || asked.contains(&found), "counts that were kept are lost");
            (*last, *asked) = (found, BTreeSet::new());
        }
        for (&number, host) in &self.verdicts {
            let known = store.known(account, &address(store, number), NOW).wait().unwrap();
            match self.withdrawn.get(host) {
                None => assert!(matches!(known, store::Known::Own(_)), "a verdict is lost"),
                Some(true) => assert_eq!(known, store::Known::Nothing, "a withdrawn verdict is back"),
                // The request was not answered, so both results are possible.
                Some(false) => {}
            }
        }
    }
}

fn survive_learned(crash: Crash) {
    let told: Told = crash_often(crash);
    let withdrawn = told.withdrawn.values().filter(|answered| **answered).count();
    assert!(withdrawn > 3 && told.verdicts.len() > 20 && told.counts.len() > 3, "too little was answered");
}

#[test]
fn a_killed_process_forgets_nothing_that_was_learned() {
    survive_learned(Crash::Kill);
}

#[test]
fn lost_power_forgets_nothing_that_was_learned() {
    survive_learned(Crash::PowerLoss);
}
