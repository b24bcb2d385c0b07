//! Crashes at every kind of moment, on a disk that loses, tears or reorders unsynced data. Each round continues with
//! the image that the last one left, so damage would accumulate.
//!
//! A failure prints the seed and the round, which reproduce it. [`power`] is the campaign of `cargo xtask soak power`.

mod batches;
mod connections;
mod faults;
mod learned;
mod power;

use super::index_check::check_index;
use super::{RedbStore, check_sums, create_account};
use ::redb::StorageBackend;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use store::*;
use vault::Vault;

const SEED: u64 = 0x6d61_696c;
const SECTOR: usize = 512;
const NOW: UnixMs = 1_801_386_000_000;

/// The effect of a crash on data that was written but not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The process is killed: the system keeps all written data.
    Kill,
    /// The power fails: each unsynced sector is written or not.
    PowerLoss,
}

#[derive(Debug, Clone)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The contents for reads.
    live: Vec<u8>,
    /// The contents that survive a crash.
    durable: Vec<u8>,
    /// Writes since the last sync, each with its offset.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Writes that a failed sync has lost: no later sync writes them, since systems drop them.
    given_up: Vec<(usize, Vec<u8>)>,
    /// How many writes and syncs remain until the crash.
    left: u32,
    /// One sync of so many does nothing: a planted defect, which the tests must find.
    lies: Option<u32>,
    syncs: u32,
    faults: faults::Faults,
}

impl Disk {
    fn new(image: Vec<u8>, left: u32) -> Disk {
        let (live, durable) = (image.clone(), image);
        let state = State {
            live,
            durable,
            unsynced: Vec::new(),
            given_up: Vec::new(),
            left,
            lies: None,
            syncs: 0,
            faults: faults::Faults::default(),
        };
        Disk(Arc::new(Mutex::new(state)))
    }

    fn lying(self, lies: Option<u32>) -> Disk {
        self.0.lock().unwrap().lies = lies;
        self
    }

    /// Whether the power is off.
    fn is_off(&self) -> bool {
        self.0.lock().unwrap().left == 0
    }

    /// The contents of the disk after the crash.
    fn image(&self, crash: Crash, rng: &mut fastrand::Rng) -> Vec<u8> {
        let state = self.0.lock().unwrap();
        if crash == Crash::Kill {
            return state.live.clone();
        }
        let mut image = state.durable.clone();
        if rng.bool() {
            image.resize(state.live.len(), 0);
        }
        // Each part of each write reached the disk or not, independently of the earlier ones.
        for (start, written) in state.given_up.iter().chain(&state.unsynced) {
            let mut at = *start;
            while at < start + written.len() {
                let end = (at / SECTOR * SECTOR + SECTOR).min(start + written.len());
                if rng.bool() && end <= image.len() {
                    image[at..end].copy_from_slice(&written[at - start..end - start]);
                }
                at = end;
            }
        }
        image
    }

    fn spend(state: &mut State) -> io::Result<()> {
        state.left = state.left.checked_sub(1).ok_or_else(|| io::Error::other("the power is off"))?;
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let found = state.live.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        Disk::spend(&mut state)?;
        state.faults.of_write()?;
        state.live.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        Disk::spend(&mut state)?;
        state.syncs += 1;
        if state.lies.is_some_and(|one_of| state.syncs.is_multiple_of(one_of)) {
            return Ok(());
        }
        if let Err(error) = state.faults.of_sync() {
            let unsynced = std::mem::take(&mut state.unsynced);
            state.given_up.extend(unsynced);
            return Err(error);
        }
        let state = &mut *state;
        // The truncated part is gone, and the rest has its last contents.
        let before = std::mem::replace(&mut state.durable, state.live.clone());
        for (start, written) in &state.given_up {
            let end = (start + written.len()).min(before.len()).min(state.durable.len());
            if *start < end {
                state.durable[*start..end].copy_from_slice(&before[*start..end]);
            }
        }
        for (start, written) in std::mem::take(&mut state.unsynced) {
            state.durable[start..start + written.len()].copy_from_slice(&written);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        Disk::spend(&mut state)?;
        let (data, failed) = match state.faults.of_write() {
            Ok(()) => (data, Ok(())),
            Err(error) => (&data[..state.faults.written_of(data.len())], Err(error)),
        };
        let start = offset as usize;
        if state.live.len() < start + data.len() {
            state.live.resize(start + data.len(), 0);
        }
        state.live[start..start + data.len()].copy_from_slice(data);
        state.unsynced.push((start, data.to_vec()));
        failed
    }
}

/// A kind of load, with the answers before the crash.
trait Load: Default {
    const ROUNDS: u32;
    const SEED: u64 = SEED;
    /// The limit on writes and syncs before a crash.
    const LEFT_MAX: u32 = 250;

    /// Loads the store until it fails or the load is over.
    fn load(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng);

    /// Checks that the store after the crash agrees with its answers before it. Unknown results become known.
    fn check(&mut self, store: &RedbStore, account: AccountId);

    /// Whether the writes during the check must survive the round, because the next check depends on their answers.
    fn keeps_the_check(_rng: &mut fastrand::Rng) -> bool {
        true
    }
}

/// The facts about a hold that must be true after the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The hold was not answered, or was refused because the store failed.
    MaybeHeld,
    Held,
    MaybeSettled,
    Settled,
    MaybeVoided,
    Voided,
}

#[derive(Default)]
struct Told {
    holds: HashMap<HoldRef, (u64, Known)>,
    /// Keys whose creation was answered, and whether their revocation was requested and answered.
    keys: HashMap<KeyHash, (KeyId, bool, bool)>,
    next: u128,
}

impl Told {
    fn next(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    fn answer_holds(&mut self, store: &RedbStore, rng: &mut fastrand::Rng) {
        let mut held: Vec<_> =
            self.holds.iter().filter(|(_, known)| known.1 == Known::Held).map(|(hold, _)| *hold).collect();
        // The order of a map does not depend on the seed.
        held.sort_by_key(|hold| hold.id);
        let mut answers = Vec::new();
        for hold in held {
            match rng.u8(0..3) {
                0 => {
                    self.know(hold, Known::MaybeSettled);
                    answers.push((hold, Known::Settled, store.settle(hold, Settlement::default(), NOW)));
                }
                1 => {
                    self.know(hold, Known::MaybeVoided);
                    answers.push((hold, Known::Voided, store.void(hold, NOW)));
                }
                _ => {}
            }
        }
        for (hold, known, pending) in answers {
            if pending.wait().is_ok() {
                self.know(hold, known);
            }
        }
    }

    fn know(&mut self, hold: HoldRef, known: Known) {
        self.holds.get_mut(&hold).unwrap().1 = known;
    }

    fn new_key(&mut self, account: AccountId) -> NewKey {
        let number = self.next();
        let mut hash = [0; 32];
        hash[..16].copy_from_slice(&number.to_le_bytes());
        let (mode, last4, label) = (KeyMode::Live, *b"abcd", String::new());
        let (scopes, expires_at) = (KeyScopes::ALL, None);
        NewKey { id: KeyId::new(NOW, number), account, mode, hash, last4, label, scopes, expires_at }
    }
}

impl Load for Told {
    const ROUNDS: u32 = 120;

    /// Several writes are always under way.
    fn load(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng) {
        for _ in 0..rng.u32(1..12) {
            let placed: Vec<_> = (0..rng.u32(1..8))
                .map(|_| {
                    let hold = HoldRef { account, id: EntryId::new(NOW, self.next()) };
                    let credits = rng.u64(1..5);
                    self.holds.insert(hold, (credits, Known::MaybeHeld));
                    (hold, store.hold(HoldRequest { hold, credits }, NOW))
                })
                .collect();
            let key = self.new_key(account);
            let making = store.create_key(key.clone(), Authority::OPERATOR, NOW);
            for (hold, pending) in placed {
                if pending.wait().is_ok() {
                    self.know(hold, Known::Held);
                }
            }
            if making.wait().is_ok() {
                self.keys.insert(key.hash, (key.id, false, false));
                if rng.bool() {
                    let answered = store.revoke_key(key.id, NOW).wait().is_ok();
                    self.keys.insert(key.hash, (key.id, true, answered));
                }
            }
            self.answer_holds(store, rng);
        }
    }

    fn check(&mut self, store: &RedbStore, account: AccountId) {
        let mut spent = 0;
        let asked: Vec<_> =
            self.holds.keys().map(|hold| (*hold, store.settle(*hold, Settlement::default(), NOW))).collect();
        for (hold, end) in asked {
            let (credits, known) = self.holds.get_mut(&hold).unwrap();
            let end = end.wait().unwrap_err();
            let fits = match end {
                SettleError::AlreadySettled => matches!(known, Known::MaybeSettled | Known::Settled),
                SettleError::AlreadyVoided => !matches!(known, Known::Settled),
                SettleError::UnknownHold => matches!(known, Known::MaybeHeld),
                _ => false,
            };
            assert!(fits, "{known:?} was answered, and now: {end:?}");
            if end == SettleError::AlreadySettled {
                spent += *credits;
                *known = Known::Settled;
            } else if end == SettleError::AlreadyVoided {
                *known = Known::Voided;
            }
        }
        for (hash, (id, asked, answered)) in &self.keys {
            let found = store.key_by_hash(hash).expect("a key whose making was answered");
            assert_eq!(found.id, *id);
            assert!(found.revoked || !answered, "a revocation that was answered");
            assert!(!found.revoked || *asked, "a revocation that nobody asked for");
        }
        let balance = store.account(account, NOW).wait().unwrap().unwrap().balance;
        assert_eq!((balance.spent, balance.held), (spent, 0));
    }

    fn keeps_the_check(rng: &mut fastrand::Rng) -> bool {
        rng.bool()
    }
}

/// Charges a check with this result, and returns its hold and whether the charge was answered; `None` if its hold was refused.
fn charge(store: &RedbStore, hold: HoldRef, record: ResultRecord) -> Option<(HoldRef, bool)> {
    store.hold(HoldRequest { hold, credits: 1 }, NOW).wait().ok()?;
    Some((hold, store.settle(hold, Settlement { result: Some(record) }, NOW).wait().is_ok()))
}

/// Keys are separate files that are synced before their use, so a crash of the database's disk loses none of them.
fn open(disk: &Disk, vault: &Arc<Vault>) -> Result<RedbStore, OpenError> {
    open_with_cache(disk, vault, 1 << 20)
}

fn open_with_cache(disk: &Disk, vault: &Arc<Vault>, cache_bytes: usize) -> Result<RedbStore, OpenError> {
    crate::database::open_backend((disk.clone(), cache_bytes), Arc::clone(vault), PlanTable::standard(), NOW)
        .map(|(redb, _)| RedbStore::new(redb))
}

/// The image of a closed store with one account.
fn first_image(account: AccountId) -> Vec<u8> {
    let disk = Disk::new(Vec::new(), u32::MAX);
    let store = open(&disk, &Arc::new(Vault::in_memory().unwrap())).unwrap();
    assert_eq!(create_account(&store, 1, "scale", NOW), account);
    drop(store);
    disk.image(Crash::Kill, &mut fastrand::Rng::with_seed(0))
}

/// The plan of a run under a load.
#[derive(Debug, Clone, Copy)]
struct Plan {
    crash: Crash,
    seed: u64,
    rounds: u32,
    /// See [`State::lies`].
    lies: Option<u32>,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Survived {
    rounds: u32,
    /// How many rounds ended with a power failure under load, and how often the power failed during the recovery.
    under_load: u32,
    in_recovery: u32,
}

/// Crashes repeatedly under a load of this kind; returns its final state.
fn crash_often<L: Load>(crash: Crash) -> L {
    let (told, survived) = run_plan::<L>(Plan { crash, seed: L::SEED, rounds: L::ROUNDS, lies: None });
    assert!(survived.under_load > L::ROUNDS / 4, "only {survived:?} crashed under load");
    told
}

fn run_plan<L: Load>(plan: Plan) -> (L, Survived) {
    let Plan { crash, seed, rounds, lies } = plan;
    let mut rng = fastrand::Rng::with_seed(seed);
    let account = AccountId::new(NOW, 1);
    let vault = Arc::new(Vault::in_memory().unwrap());
    let mut image = first_image(account);
    let (mut told, mut survived) = (L::default(), Survived::default());
    for round in 0..rounds {
        let disk = Disk::new(image, rng.u32(1..L::LEFT_MAX)).lying(lies);
        // The power may fail while the store recovers from the last crash.
        if let Ok(store) = open(&disk, &vault) {
            told.load(&store, account, &mut rng);
            survived.under_load += u32::from(disk.is_off());
            // With the power off nothing more is written; otherwise this round ends with a clean stop.
            drop(store);
        }
        image = disk.image(crash, &mut rng);
        // The power fails again during this recovery, several times.
        while rng.u8(0..3) == 0 {
            let again = Disk::new(image, rng.u32(1..40)).lying(lies);
            drop(open(&again, &vault));
            survived.in_recovery += u32::from(again.is_off());
            image = again.image(crash, &mut rng);
        }
        let healthy = Disk::new(image.clone(), u32::MAX);
        let store = open(&healthy, &vault)
            .unwrap_or_else(|error| panic!("{crash:?}, seed {seed}, round {round}: {error}"));
        check_index(&store);
        told.check(&store, account);
        check_sums(&store);
        drop(store);
        if L::keeps_the_check(&mut rng) {
            image = healthy.image(Crash::Kill, &mut rng);
        }
        survived.rounds += 1;
    }
    (told, survived)
}

#[test]
fn a_killed_process_loses_nothing_that_was_answered() {
    crash_often::<Told>(Crash::Kill);
}

#[test]
fn lost_power_loses_nothing_that_was_answered() {
    crash_often::<Told>(Crash::PowerLoss);
}
