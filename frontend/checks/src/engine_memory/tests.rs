//! The engine's knowledge is in the store a moment later, and also after a restart.

use super::*;
use api::Reason;
use engine::Withdrawn;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;
use store::{AccountId, EntryId, HoldRef, HoldRequest, Known, ResultRecord, Settlement, Verdict};
use store::{NewAccount, PlanTable};
use store_redb::StoreOptions;
use store_rules::Store;

const STEP_MS: UnixMs = 300_000;
/// The start of a step.
const NOW: UnixMs = 6_004_620 * STEP_MS;
const STEP: u64 = NOW / STEP_MS;

fn step(step: u64, refused: u32) -> KeptStep {
    KeptStep { step, refused, accepted: 1 }
}

fn counts(key: u64, steps: &[KeptStep]) -> KeptRefusals {
    KeptRefusals { key, steps: steps.to_vec() }
}

fn open(folder: &Path) -> Arc<Store> {
    store_redb::open(folder, PlanTable::standard(), StoreOptions::default(), NOW).unwrap().0
}

/// The answers of a test engine.
#[derive(Default, Clone)]
struct Said {
    refusals: Arc<Mutex<Vec<KeptRefusals>>>,
    withdrawn: Arc<Mutex<Vec<u64>>>,
}

impl Said {
    fn memory(&self, store: &Arc<Store>) -> EngineMemory {
        let (refusals, withdrawn) = (Arc::clone(&self.refusals), Arc::clone(&self.withdrawn));
        let at = UNIX_EPOCH;
        let kept = store.kept_refusals().wait().unwrap();
        EngineMemory {
            store: Arc::clone(store),
            refusals: Box::new(move || refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            withdrawn: Box::new(move || {
                let mut said = withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
                said.drain(..).map(|evidence| Withdrawn { evidence, at }).collect()
            }),
            kept: kept.into_iter().map(|kept| (kept.key, kept.steps)).collect(),
            unwritten: BTreeSet::new(),
        }
    }

    fn refuse(&self, counts: &[KeptRefusals]) {
        *self.refusals.lock().unwrap() = counts.to_vec();
    }
}

#[test]
fn counts_are_in_the_store_and_go_when_they_no_longer_count() {
    let folder = tempfile::tempdir().unwrap();
    let said = Said::default();
    let store = open(folder.path());
    let mut memory = said.memory(&store);
    said.refuse(&[counts(1, &[step(STEP, 7)]), counts(2, &[step(STEP, 1)])]);
    memory.write(NOW).unwrap();
    said.refuse(&[counts(1, &[step(STEP, 8)]), counts(2, &[step(STEP, 1)])]);
    memory.write(NOW).unwrap();
    let expected = [counts(1, &[step(STEP, 8)]), counts(2, &[step(STEP, 1)])];
    assert_eq!(store.kept_refusals().wait().unwrap(), expected);
    drop((memory, store));

    // After a restart the engine may have no counts of a site for a while, which must not remove the stored ones.
    let store = open(folder.path());
    let mut memory = said.memory(&store);
    said.refuse(&[]);
    memory.write(NOW).unwrap();
    assert_eq!(store.kept_refusals().wait().unwrap(), expected);
    said.refuse(&[counts(2, &[step(STEP, 1), step(STEP + 12, 3)])]);
    memory.write(NOW + 12 * STEP_MS).unwrap();
    assert_eq!(store.kept_refusals().wait().unwrap().len(), 2);
    memory.write(NOW + 13 * STEP_MS).unwrap();
    assert_eq!(store.kept_refusals().wait().unwrap(), [counts(2, &[step(STEP, 1), step(STEP + 12, 3)])]);
}

#[test]
fn of_too_many_steps_and_sites_the_newest_and_the_most_refused_are_kept() {
    let many: Vec<KeptStep> = (0..20).map(|number| step(number, 1)).collect();
    let cut = changed(&HashMap::new(), vec![counts(1, &many)], Duration::ZERO);
    assert_eq!(cut, [counts(1, &many[7..])]);
    let sites =
        vec![counts(1, &[step(1, 5)]), counts(2, &[step(1, 9)]), counts(3, &[step(1, 3), step(2, 3)])];
    let keys: Vec<u64> = most_refused(sites.clone(), 2).into_iter().map(|kept| kept.key).collect();
    assert_eq!(keys, [2, 3]);
    assert_eq!(most_refused(sites.clone(), 3), sites);
}

#[test]
fn a_node_takes_its_own_counts_and_clears_away_what_others_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let keys: Vec<u64> =
        (0..u64::from(u16::MAX) + 1).filter(|key| counts_are_of(Some(9), &counts(*key, &[]))).collect();
    let [own] = keys[..] else { panic!("one of all the values is that of the node") };
    let other = own ^ 1;
    let (old, new) = ([step(STEP - 13, 4)], [step(STEP, 3)]);
    let rows =
        [counts(own, &old), counts(own | 1 << 16, &new), counts(other, &old), counts(other | 1 << 16, &new)];
    store.keep_refusals(rows.to_vec()).wait().unwrap();
    let found = counts_of_node(&store, Some(9), NOW).unwrap();
    assert_eq!(found, rows[..2], "old ones too: the thread of this node removes them");
    let left = store.kept_refusals().wait().unwrap();
    assert_eq!(left.len(), 3, "those of another node remain while they count: {left:?}");
    assert!(!left.contains(&rows[2]));
    // The other node may have added to its counts after they were read.
    store.forget_refusals(vec![rows[3].key, 77], NOW).wait().unwrap();
    assert!(store.kept_refusals().wait().unwrap().contains(&rows[3]));
    assert_eq!(counts_of_node(&store, None, NOW).unwrap().len(), 3, "without nodes all are its own");
}

#[test]
fn more_rows_than_fit_one_write_are_all_written() {
    let folder = tempfile::tempdir().unwrap();
    let said = Said::default();
    let store = open(folder.path());
    let all: Vec<KeptRefusals> = (0..2_500).map(|key| counts(key, &[step(STEP, 1)])).collect();
    said.refuse(&all);
    said.memory(&store).write(NOW).unwrap();
    assert_eq!(store.kept_refusals().wait().unwrap(), all);
}

#[test]
fn withdrawals_reach_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let said = Said::default();
    let store = open(folder.path());
    let id = AccountId::new(NOW, 1);
    let account = NewAccount { id, name: "a".into(), plan: "free".into() };
    store.create_account(account, NOW).wait().unwrap();
    let address = store.hash_address("joe@example.com");
    let hold = HoldRef { account: id, id: EntryId::new(NOW, 2) };
    store.hold(HoldRequest { hold, credits: 1 }, NOW).wait().unwrap();
    let verdict = Verdict { evidence: Some(77), ..Reason::MailboxExists.into() };
    let with = Settlement { result: Some(ResultRecord { address, verdict }) };
    store.settle(hold, with, NOW).wait().unwrap();
    assert!(matches!(store.known(id, &address, NOW).wait(), Ok(Known::Own(_))));
    // More rows than one write has, and one of them twice.
    said.withdrawn.lock().unwrap().extend((0..2_500).chain([77]));
    let mut memory = said.memory(&store);
    memory.write(NOW + 500).unwrap();
    assert!(memory.unwritten.is_empty());
    assert_eq!(store.known(id, &address, NOW + 500).wait(), Ok(Known::Nothing));
}
