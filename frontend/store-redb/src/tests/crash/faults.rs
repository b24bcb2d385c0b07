//! Errors of the disk at every write and sync of a load: no answered write is lost, nothing is written afterwards, and
//! reads continue. Then the process is killed, or the power also fails.

use super::*;

/// The error of the disk from the planned operation on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// One error. The system does not report a failed sync again.
    Error,
    /// No space until the disk is opened again.
    Full,
    /// Half of a write, and then no space.
    Short,
}

/// A cache so small that most reads go to the storage.
const CACHE_BYTES: usize = 64 << 10;

const FAULTS: [Fault; 3] = [Fault::Error, Fault::Full, Fault::Short];

/// A counter of operations, which makes them fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Option<(u32, Fault)>,
    done: u32,
    /// How many writes and syncs failed.
    met: u32,
}

impl Faults {
    pub(super) fn of_write(&mut self) -> io::Result<()> {
        self.done += 1;
        match self.planned {
            Some((at, Fault::Error)) if self.done == at => self.refuse(libc::EIO),
            Some((at, Fault::Full | Fault::Short)) if self.done >= at => self.refuse(libc::ENOSPC),
            _ => Ok(()),
        }
    }

    pub(super) fn of_sync(&mut self) -> io::Result<()> {
        self.done += 1;
        match self.planned {
            Some((at, Fault::Error)) if self.done == at => self.refuse(libc::EIO),
            _ => Ok(()),
        }
    }

    /// How many bytes of the failed write are done.
    pub(super) fn written_of(&self, len: usize) -> usize {
        if self.met == 1 && matches!(self.planned, Some((_, Fault::Short))) { len / 2 } else { 0 }
    }

    fn refuse(&mut self, error: i32) -> io::Result<()> {
        self.met += 1;
        Err(io::Error::from_raw_os_error(error))
    }
}

impl Disk {
    fn failing(self, at: u32, fault: Fault) -> Disk {
        self.0.lock().unwrap().faults.planned = Some((at, fault));
        self
    }

    fn has_failed(&self) -> bool {
        self.0.lock().unwrap().faults.met > 0
    }

    fn operations(&self) -> u32 {
        self.0.lock().unwrap().faults.done
    }
}

/// Runs one load on a disk that fails at one operation. Returns whether it failed, and the number of operations.
fn survive_fault<L: Load>(first: &[u8], seed: u64, at: u32, fault: Fault) -> (bool, u32) {
    let told_of = format!("seed {seed}, {fault:?} at operation {at}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let account = AccountId::new(NOW, 1);
    let vault = Arc::new(Vault::in_memory().unwrap());
    let disk = Disk::new(first.to_vec(), u32::MAX).failing(at, fault);
    let mut told = L::default();
    // A store whose file fails during its opening does not open.
    match open_with_cache(&disk, &vault, CACHE_BYTES) {
        Ok(store) => {
            told.load(&store, account, &mut rng);
            if disk.has_failed() {
                let operations = disk.operations();
                assert!(store.health().is_err(), "{told_of}: healthy");
                let new = NewAccount { id: AccountId::new(NOW, 2), name: "b".into(), plan: "scale".into() };
                assert!(store.create_account(new, NOW).wait().is_err(), "{told_of}: it takes a write");
                assert!(store.account(account, NOW).wait().unwrap().is_some(), "{told_of}: a read");
                assert_eq!(store.audit(None).wait().unwrap().faults, Vec::<String>::new(), "{told_of}");
                drop(store);
                assert_eq!(disk.operations(), operations, "{told_of}: it writes after that");
            }
        }
        Err(_) => assert!(disk.has_failed(), "{told_of}: it does not open"),
    }
    let crash = if rng.bool() { Crash::Kill } else { Crash::PowerLoss };
    let healthy = Disk::new(disk.image(crash, &mut rng), u32::MAX);
    let store = open(&healthy, &vault).unwrap_or_else(|error| panic!("{told_of}, {crash:?}: {error}"));
    check_index(&store);
    told.check(&store, account);
    check_sums(&store);
    (disk.has_failed(), disk.operations())
}

/// Tests every `step`-th operation of a load with every fault; returns the number of failures.
fn survive_all<L: Load>(seed: u64, step: u32) -> u32 {
    let first = first_image(AccountId::new(NOW, 1));
    let (_, operations) = survive_fault::<L>(&first, seed, u32::MAX, Fault::Error);
    let mut failed = 0;
    for fault in FAULTS {
        for at in (1..=operations).step_by(step as usize) {
            failed += u32::from(survive_fault::<L>(&first, seed, at, fault).0);
        }
    }
    failed
}

/// Tests a seed with each load; returns the number of failed runs.
fn survive_seed(seed: u64, step: u32) -> u32 {
    survive_all::<Told>(seed, step)
        + survive_all::<batches::Told>(seed, step)
        + survive_all::<connections::Told>(seed, step)
        + survive_all::<learned::Told>(seed, step)
}

#[test]
fn a_disk_that_fails_loses_nothing_that_was_answered() {
    let failed = survive_seed(SEED, 23);
    assert!(failed > 30, "{failed}");
}

#[test]
#[ignore = "a campaign: cargo xtask soak iofault"]
fn campaign() {
    let first = power::variable("MAILPROBE_IOFAULT_SEED").unwrap_or(0);
    let seeds = power::variable("MAILPROBE_IOFAULT_SEEDS").unwrap_or(1);
    let failed: u32 = (first..first + seeds).map(|seed| survive_seed(seed, 1)).sum();
    println!("{seeds} seeds from {first}: {failed} runs on a disk that failed");
    assert!(failed > 0, "no disk failed");
}
