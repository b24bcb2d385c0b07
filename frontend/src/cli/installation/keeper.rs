//! Writes the counts into the state file while the run lasts. The runs that share the counts write the same file in turn.

use super::{Installation, Kept, LOCK_PATIENCE, text, write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between writes of changed counts.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a write is at least this many times as long as the write, for a slow disk or many sites.
const WRITE_SHARE: u32 = 20;

/// A thread that writes the counts at intervals and at the end. It ends when its sender is dropped.
pub(crate) struct Keeper(Sender<()>, JoinHandle<Result<(), String>>);

impl Keeper {
    /// Starts to write the counts.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(installation: Installation) -> Result<Keeper, String> {
        let (end, ended) = channel::<()>();
        let keep = move || {
            let (mut pause, mut warned) = (WRITE_INTERVAL, false);
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                installation.table.settle_killed();
                if let Err(why) = installation.write_counts(Duration::ZERO)
                    && !std::mem::replace(&mut warned, true)
                {
                    tracing::warn!("{why}");
                }
                pause = WRITE_INTERVAL.max(began.elapsed() * WRITE_SHARE);
            }
            installation.write_counts(LOCK_PATIENCE)
        };
        let thread = std::thread::Builder::new().name("refusals".into()).spawn(keep);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Keeper(end, thread))
    }

    /// Writes the current counts and ends. The engine has ended before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), String> {
        drop(self.0);
        self.1.join().unwrap_or_else(|_| Err("the thread that keeps the counts panicked".to_owned()))
    }
}

impl Installation {
    /// Writes the counts if they have changed. If another run writes them for longer than `patience`, nothing is lost: the
    /// next run takes the counts from the table.
    fn write_counts(&self, patience: Duration) -> Result<(), String> {
        if self.lock.is_none() {
            return Ok(());
        }
        let put = |refusals, before| {
            let text = text::render(&Kept { secret: self.kept.secret, refusals });
            let hash = text::hash(&text);
            if hash != before {
                write(&self.path, &text)?;
            }
            Ok(hash)
        };
        self.table.write(patience, put).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IfTaken, read};
    use super::*;
    use engine::config::EngineConfig;
    use engine::{KeptRefusals, KeptStep};
    use std::path::Path;

    /// One refusal at each of these sites, in the current step of the installation.
    fn count(installation: &Installation, sites: &[u64]) {
        let steps = vec![KeptStep { step: installation.table.step(), refused: 1, accepted: 0 }];
        let counts: Vec<_> = sites.iter().map(|&key| KeptRefusals { key, steps: steps.clone() }).collect();
        assert!(installation.table.take_over(&counts, installation.table.step()));
    }

    fn open(path: &Path) -> Installation {
        Installation::open(path, IfTaken::Refuse).unwrap()
    }

    fn kept(path: &Path) -> Vec<u64> {
        read(path).unwrap().unwrap().refusals.iter().map(|site| site.key).collect()
    }

    #[test]
    fn counts_are_written_within_seconds_and_at_the_end() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let (installation, other) = (open(&path), open(&path));
        count(&installation, &[1]);
        let keeper = Keeper::start(installation).unwrap();
        let began = Instant::now();
        // As after a kill: the counts are in the file before the run ends.
        while kept(&path).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(50));
        }
        count(&other, &[2]);
        keeper.finish().unwrap();
        assert_eq!(kept(&path), [1, 2], "those of the other run, too");
        // What nobody has changed is not written.
        std::fs::write(&path, "my notes\n").unwrap();
        other.write_counts(Duration::ZERO).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
        count(&other, &[3]);
        other.write_counts(Duration::ZERO).unwrap();
        assert_eq!(kept(&path), [1, 2, 3]);
    }

    #[test]
    fn counts_remain_without_the_table() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let first = open(&path);
        count(&first, &[1, 2]);
        Keeper::start(first).unwrap().finish().unwrap();
        std::fs::remove_file(folder.path().join("state.live")).unwrap();
        let second = open(&path);
        let mut config = EngineConfig::default();
        second.give_to(&mut config);
        let table = config.table.unwrap();
        assert_eq!(table.kept(table.step()), read(&path).unwrap().unwrap().refusals);
        assert_eq!(kept(&path), [1, 2]);
    }

    #[test]
    fn a_disk_that_fails_is_told_at_the_end() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("below/state");
        std::fs::create_dir(folder.path().join("below")).unwrap();
        let installation = open(&path);
        count(&installation, &[1]);
        let keeper = Keeper::start(installation).unwrap();
        std::fs::remove_dir_all(folder.path().join("below")).unwrap();
        let said = keeper.finish().unwrap_err();
        assert!(said.contains("state cannot be written: "), "{said}");
    }
}
