//! Writes the counts while the engine runs, so that a kill loses only those of a few seconds.

use super::{Installation, Kept, text, write};
use checks::engine_client::RefusalsLook;
use engine::proto::limits::REFUSALS_STEPS;
use engine::proto::refusals::step_at;
use engine::{KeptRefusals, KeptStep};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::clock;

/// Interval between writes of changed counts.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a write is at least this many times as long as the write, for a slow disk or many sites.
const WRITE_SHARE: u32 = 20;

/// Writes the counts of the engine.
pub(in crate::cli) enum Keeper {
    /// A thread writes at intervals and at the end. It ends when its sender is dropped.
    Alone(Sender<()>, JoinHandle<Result<(), String>>),
    /// The counts are written only at the end.
    Beside(Installation, RefusalsLook),
}

/// The state of the thread.
struct Book {
    installation: Installation,
    look: RefusalsLook,
    hasher: RandomState,
    /// A hash of the last written text.
    written: Option<u64>,
}

impl Keeper {
    /// Starts to write the counts that `look` returns.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(installation: Installation, look: RefusalsLook) -> Result<Keeper, String> {
        if installation.lock.is_none() {
            return Ok(Keeper::Beside(installation, look));
        }
        let (end, ended) = channel::<()>();
        let mut book = Book { installation, look, hasher: RandomState::new(), written: None };
        let keep = move || {
            let (mut pause, mut warned) = (WRITE_INTERVAL, false);
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                if let Err(why) = book.write()
                    && !std::mem::replace(&mut warned, true)
                {
                    tracing::warn!("{why}");
                }
                pause = WRITE_INTERVAL.max(began.elapsed() * WRITE_SHARE);
            }
            book.write()
        };
        let thread = std::thread::Builder::new().name("refusals".into()).spawn(keep);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Keeper::Alone(end, thread))
    }

    /// Writes the current counts and ends.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), String> {
        match self {
            Keeper::Alone(end, thread) => {
                drop(end);
                thread.join().unwrap_or_else(|_| Err("the thread that keeps the counts panicked".to_owned()))
            }
            Keeper::Beside(installation, look) => installation.add(look()),
        }
    }
}

impl Book {
    /// Writes the counts if they have changed.
    fn write(&mut self) -> Result<(), String> {
        let Kept { secret, refusals } = &self.installation.kept;
        let refusals = merged(refusals, (self.look)(), step_now());
        let text = text::render(&Kept { secret: *secret, refusals });
        let hash = self.hasher.hash_one(&text);
        if self.written == Some(hash) {
            return Ok(());
        }
        write(&self.installation.path, &text)?;
        self.written = Some(hash);
        Ok(())
    }
}

/// The number of the current step.
fn step_now() -> u64 {
    step_at(Duration::from_millis(clock::now())).0
}

/// The counts in the file `now`, plus the difference between the counts at which a run `began` and those it `counted`.
pub(super) fn sum(
    now: Vec<KeptRefusals>,
    began: &[KeptRefusals],
    counted: Vec<KeptRefusals>,
) -> Vec<KeptRefusals> {
    let mut sums: BTreeMap<u64, BTreeMap<u64, KeptStep>> = BTreeMap::new();
    let steps = |sites: Vec<KeptRefusals>| {
        sites.into_iter().flat_map(|site| site.steps.into_iter().map(move |step| (site.key, step)))
    };
    let before: HashMap<(u64, u64), KeptStep> =
        steps(began.to_vec()).map(|(key, kept)| ((key, kept.step), kept)).collect();
    for (key, kept) in steps(now) {
        sums.entry(key).or_default().insert(kept.step, kept);
    }
    for (key, own) in steps(counted) {
        let (refused, accepted) =
            before.get(&(key, own.step)).map_or((0, 0), |kept| (kept.refused, kept.accepted));
        let zero = KeptStep { step: own.step, refused: 0, accepted: 0 };
        let sum = sums.entry(key).or_default().entry(own.step).or_insert(zero);
        sum.refused = sum.refused.saturating_add(own.refused.saturating_sub(refused));
        sum.accepted = sum.accepted.saturating_add(own.accepted.saturating_sub(accepted));
    }
    let sites =
        sums.into_iter().map(|(key, steps)| KeptRefusals { key, steps: steps.into_values().collect() });
    merged(&[], sites.collect(), step_now())
}

/// The counts of earlier runs, replaced by those of this run where it has some. Expired counts are removed.
fn merged(earlier: &[KeptRefusals], own: Vec<KeptRefusals>, now: u64) -> Vec<KeptRefusals> {
    let mut sites: BTreeMap<u64, KeptRefusals> = BTreeMap::new();
    for mut site in earlier.iter().cloned().chain(own) {
        site.steps.retain(|kept| kept.step.saturating_add(REFUSALS_STEPS as u64) > now);
        let excess = site.steps.len().saturating_sub(REFUSALS_STEPS);
        site.steps.drain(..excess);
        sites.insert(site.key, site);
    }
    sites.into_values().filter(|site| !site.steps.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Sharing, read};
    use super::*;
    use std::sync::{Arc, Mutex};

    fn site(key: u64, steps: &[(u64, u32)]) -> KeptRefusals {
        let step = |&(step, refused)| KeptStep { step, refused, accepted: 0 };
        KeptRefusals { key, steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn what_this_run_did_not_count_stays_until_it_is_old() {
        let earlier = [site(1, &[(100, 5)]), site(2, &[(100, 7)]), site(3, &[(88, 1), (89, 2)])];
        let own = vec![site(2, &[(100, 7), (101, 1)]), site(9, &[(101, 4)]), site(4, &[(80, 4)])];
        let expected =
            [site(1, &[(100, 5)]), site(2, &[(100, 7), (101, 1)]), site(3, &[(89, 2)]), site(9, &[(101, 4)])];
        assert_eq!(merged(&earlier, own, 101), expected);
        assert_eq!(merged(&earlier, Vec::new(), 113), []);
        assert_eq!(merged(&[site(1, &[(u64::MAX, 1)])], Vec::new(), 5).len(), 1);
    }

    #[test]
    fn counts_are_written_within_seconds_and_at_the_end() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let counts = Arc::new(Mutex::new(vec![site(1, &[(step_now(), 1)])]));
        let look = {
            let counts = Arc::clone(&counts);
            move || counts.lock().unwrap().clone()
        };
        let installation = Installation::open(&path, Sharing::Alone).unwrap();
        let secret = installation.kept.secret;
        let keeper = Keeper::start(installation, Box::new(look)).unwrap();
        let began = Instant::now();
        // As after a kill: the counts are in the file before the run ends.
        while read(&path).unwrap().unwrap().refusals.is_empty() {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(50));
        }
        *counts.lock().unwrap() = vec![site(1, &[(step_now(), 2)])];
        keeper.finish().unwrap();
        let kept = read(&path).unwrap().unwrap();
        assert_eq!((kept.secret, kept.refusals[0].steps[0].refused), (secret, 2));
    }

    #[test]
    fn a_disk_that_fails_is_told_at_the_end() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("below/state");
        std::fs::create_dir(folder.path().join("below")).unwrap();
        let installation = Installation::open(&path, Sharing::Alone).unwrap();
        let step = step_now();
        let keeper = Keeper::start(installation, Box::new(move || vec![site(1, &[(step, 1)])])).unwrap();
        std::fs::remove_dir_all(folder.path().join("below")).unwrap();
        let said = keeper.finish().unwrap_err();
        assert!(said.contains("state cannot be written: "), "{said}");
    }

    #[test]
    fn a_check_adds_what_it_counted_where_nobody_else_is_at_work() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let step = step_now();
        let keep = |counts: Vec<KeptRefusals>, sharing| {
            let installation = Installation::open(&path, sharing).unwrap();
            Keeper::start(installation, Box::new(move || counts.clone())).unwrap()
        };
        let kept = || read(&path).unwrap().unwrap().refusals;
        keep(vec![site(1, &[(step, 5)])], Sharing::Alone).finish().unwrap();
        // Two runs begin with five refusals and count two and one more.
        let first = keep(vec![site(1, &[(step, 7)]), site(2, &[(step, 1)])], Sharing::Beside);
        let second = keep(vec![site(1, &[(step, 6)])], Sharing::Beside);
        first.finish().unwrap();
        assert_eq!(kept(), [site(1, &[(step, 7)]), site(2, &[(step, 1)])]);
        second.finish().unwrap();
        assert_eq!(kept(), [site(1, &[(step, 8)]), site(2, &[(step, 1)])]);

        let before = std::fs::read(&path).unwrap();
        let beside = keep(vec![site(3, &[(step, 1)])], Sharing::Beside);
        let alone = Installation::open(&path, Sharing::Alone).unwrap();
        beside.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before, "another run has the lock");
        drop(alone);
        // With another secret the keys are meaningless.
        let beside = keep(vec![site(3, &[(step, 1)])], Sharing::Beside);
        std::fs::remove_file(&path).unwrap();
        drop(Installation::open(&path, Sharing::Alone).unwrap());
        beside.finish().unwrap();
        assert_eq!(kept(), []);
    }
}
