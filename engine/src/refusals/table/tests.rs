//! Tests of tables that several runs share. Each open table of a file is a run: the locks are those of an open file, so runs
//! of one process exclude each other as those of several processes do.

use super::super::{AskedRecipients, SiteRefusals};
use super::*;
use engine_proto::refusals::{KeptStep, RefusalBudget};
use engine_proto::smtp::reply::Reply;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

const SECRET: [u8; 32] = [7; 32];
const BUDGET: RefusalBudget = RefusalBudget { mostly_refused: 100, mostly_accepted: 600 };
const KEY: u64 = 0xab << 40 | 1;

/// A folder for a table, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("mailprobe-table-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn table(&self) -> PathBuf {
        self.0.join("table")
    }

    fn open(&self) -> Arc<RefusalTable> {
        self.open_with(&[])
    }

    fn open_with(&self, kept: &[KeptRefusals]) -> Arc<RefusalTable> {
        Arc::new(RefusalTable::open(&self.table(), &SECRET, kept, true).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn site(table: &Arc<RefusalTable>, key: u64) -> SiteRefusals {
    SiteRefusals::new(Arc::clone(table), key, BUDGET, Arc::default(), table.step())
}

/// The server refuses this number of recipients and accepts this number.
fn answer(asked: &mut AskedRecipients, step: u64, refused: u32, accepted: u32) {
    (0..refused).for_each(|_| asked.on_answer(&Reply::new(550, "5.1.1 no such user"), step));
    (0..accepted).for_each(|_| asked.on_answer(&Reply::new(250, "2.1.5 ok"), step));
}

fn totals(table: &RefusalTable, key: u64) -> (u32, u32) {
    let kept = table.kept(table.step());
    let steps = kept.iter().filter(|kept| kept.key == key).flat_map(|kept| &kept.steps);
    steps.fold((0, 0), |(refused, accepted), step| (refused + step.refused, accepted + step.accepted))
}

/// Ends a run as a kill does: the kernel releases its locks, and nothing else happens.
fn kill(table: Arc<RefusalTable>) {
    table.file.as_ref().unwrap().unlock(table.run);
    std::mem::forget(table);
}

#[test]
fn runs_see_the_counts_and_the_recipients_of_each_other() {
    let folder = Folder::new("shared");
    let (first, second) = (folder.open(), folder.open());
    let (mut ours, mut theirs, step) = (site(&first, KEY), site(&second, KEY), first.step());
    assert_eq!(first.step(), second.step());
    let mut asked = AskedRecipients::reserve(Some(&mut ours), 60, 0, step);
    assert_eq!((ours.room_for_proof(step), theirs.room_for_proof(step)), (40, 40));
    let mut more = AskedRecipients::reserve(Some(&mut theirs), 60, 2, step);
    assert_eq!((more.count(), theirs.room_for_proof(step)), (38, 2));
    answer(&mut asked, step, 60, 0);
    asked.end();
    assert!(!ours.is_used_up(step), "the other run may leave room");
    answer(&mut more, step, 30, 8);
    more.end();
    assert_eq!((ours.room_for_proof(step), theirs.room_for_proof(step)), (10, 10));
    assert_eq!((totals(&first, KEY), totals(&second, KEY)), ((90, 8), (90, 8)));
    let mut last = AskedRecipients::reserve(Some(&mut ours), 50, 2, step);
    answer(&mut last, step, 8, 0);
    last.end();
    assert!(ours.is_used_up(step) && theirs.is_used_up(step));
    assert!(theirs.wait(first.since_epoch()) > Duration::from_secs(55 * 60));
}

#[test]
fn the_budget_holds_over_runs_that_ask_at_once() {
    let folder = Folder::new("race");
    let keep = folder.open();
    for round in 0..10 {
        let (key, step) = (KEY + (round << 40), keep.step());
        let asked: u32 = thread::scope(|scope| {
            let run = |size: usize| {
                let folder = &folder;
                scope.spawn(move || {
                    let mut site = site(&folder.open(), key);
                    let mut sum = 0;
                    while !site.is_used_up(step) {
                        let mut asked = AskedRecipients::reserve(Some(&mut site), size, 2, step);
                        let count = asked.count() as u32;
                        sum += count;
                        let half = count / 2;
                        answer(&mut asked, step, count - half, 0);
                        answer(&mut asked, step, half, 0);
                        asked.end();
                    }
                    sum
                })
            };
            let runs: Vec<_> = [1, 5, 8, 13].into_iter().map(run).collect();
            runs.into_iter().map(|run| run.join().unwrap()).sum()
        });
        // Two recipients of the budget are kept for proof.
        assert_eq!((asked, totals(&keep, key)), (98, (98, 0)), "round {round}");
    }
}

#[test]
fn recipients_that_a_killed_run_asked_about_count_as_refused() {
    let folder = Folder::new("killed");
    let (left, killed) = (folder.open(), folder.open());
    let (mut ours, mut theirs, step) = (site(&left, KEY), site(&killed, KEY), left.step());
    let mut asked = AskedRecipients::reserve(Some(&mut theirs), 9, 0, step);
    answer(&mut asked, step, 1, 0);
    std::mem::forget(asked);
    left.settle_killed();
    assert_eq!((totals(&left, KEY), ours.room_for_proof(step)), ((1, 0), 91), "the run is alive");
    kill(killed);
    assert!(!ours.is_used_up(step));
    left.settle_killed();
    assert_eq!((totals(&left, KEY), left.counts(ours.place.unwrap(), step).asked), ((9, 0), 0));
    left.settle_killed();
    assert_eq!(totals(&left, KEY), (9, 0), "once");

    // The next run does it as well, whether it gets the number of the killed one or another number.
    for round in 1..=2 {
        let killed = folder.open();
        let mut theirs = site(&killed, KEY);
        std::mem::forget(AskedRecipients::reserve(Some(&mut theirs), 5, 0, step));
        kill(killed);
        assert_eq!(totals(&folder.open(), KEY), (9 + 5 * round, 0));
    }
    // Without any run left, too.
    std::mem::forget(AskedRecipients::reserve(Some(&mut ours), 5, 0, step));
    kill(left);
    assert_eq!(totals(&folder.open(), KEY), (24, 0));
}

#[test]
fn a_run_that_ends_leaves_nothing_behind() {
    let folder = Folder::new("ends");
    let first = folder.open();
    for _ in 0..2 * REFUSALS_RUNS_MAX {
        let run = folder.open();
        assert_eq!(run.run, 1);
        let mut site = site(&run, KEY);
        AskedRecipients::reserve(Some(&mut site), 5, 0, run.step()).end();
    }
    assert_eq!(first.word(RUNS_AT).load(SeqCst), 1);
    assert_eq!(totals(&first, KEY), (0, 0));
}

#[test]
fn there_is_a_number_for_so_many_runs() {
    let folder = Folder::new("full");
    let runs: Vec<_> = (0..REFUSALS_RUNS_MAX).map(|_| folder.open()).collect();
    let (step, sites) = (runs[0].step(), runs.iter().map(|run| site(run, KEY)));
    let asked: Vec<_> = sites.map(|mut site| AskedRecipients::reserve(Some(&mut site), 1, 0, step)).collect();
    assert_eq!(site(&runs[9], KEY).room_for_proof(step), 100 - REFUSALS_RUNS_MAX);
    let full = RefusalTable::open(&folder.table(), &SECRET, &[], true);
    assert!(matches!(full, Err(TableFault::Full)));
    drop(asked);
    assert_eq!(totals(&runs[0], KEY), (REFUSALS_RUNS_MAX as u32, 0));
}

#[test]
fn the_first_run_takes_the_larger_counts() {
    let folder = Folder::new("kept");
    let step = step_at(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()).0;
    let counts = |key, steps: &[(u64, u32, u32)]| {
        let step = |&(step, refused, accepted)| KeptStep { step, refused, accepted };
        KeptRefusals { key, steps: steps.iter().map(step).collect() }
    };
    let kept = [
        counts(KEY, &[(step - 2, 3, 4), (step, 5, 6)]),
        counts(KEY + 1, &[(step - 40, 9, 9), (step + 40, 9, 9), (u64::MAX, 9, 9)]),
    ];
    let first = folder.open_with(&kept);
    assert_eq!(first.kept(step), [counts(KEY, &[(step - 2, 3, 4), (step, 5, 6)])]);
    let mut theirs = site(&first, KEY);
    let mut asked = AskedRecipients::reserve(Some(&mut theirs), 2, 0, step);
    answer(&mut asked, step, 1, 1);
    asked.end();
    // The file that is older than the table, while a run uses the table and after that.
    for _ in 0..2 {
        let second = folder.open_with(&[counts(KEY, &[(step - 2, 9, 0), (step, 5, 0)])]);
        assert_eq!(second.kept(step), [counts(KEY, &[(step - 2, 3, 4), (step, 6, 7)])]);
    }
    drop((first, theirs));
    let later = folder.open_with(&[counts(KEY, &[(step - 2, 9, 0), (step, 5, 0)])]);
    assert_eq!(later.kept(step), [counts(KEY, &[(step - 2, 9, 4), (step, 6, 7)])]);
    drop(later);
    // The keys of another secret mean nothing.
    let other = RefusalTable::open(&folder.table(), &[8; 32], &[], true).unwrap();
    assert_eq!(other.kept(step), []);
    let fault = RefusalTable::open(&folder.table(), &SECRET, &[], true);
    assert!(matches!(fault, Err(TableFault::OtherSecret)));
}

#[test]
fn a_full_table_gives_up_the_sites_with_the_fewest_refusals() {
    let folder = Folder::new("places");
    let (table, other) = (folder.open(), folder.open());
    let step = table.step();
    // All of one bucket.
    let key = |number: u64| KEY + number;
    for number in 0..PLACES_A_BUCKET as u64 {
        let mut site = site(&table, key(number));
        let mut asked = AskedRecipients::reserve(Some(&mut site), 50, 0, step);
        answer(&mut asked, step, 10 + number as u32, 1);
        asked.end();
    }
    // The first one has the fewest, but the other run asks it.
    let mut busy = site(&other, key(0));
    let asked = AskedRecipients::reserve(Some(&mut busy), 1, 0, step);
    let (mut gone, mut new) = (site(&table, key(1)), site(&table, key(99)));
    assert_eq!(
        (new.room_for_proof(step), totals(&table, key(1)), totals(&table, key(0))),
        (100, (0, 0), (10, 1))
    );
    asked.end();
    // A site whose place was given away gets another one.
    assert_eq!(gone.room_for_proof(step), 100);
    assert_eq!(totals(&table, key(99)), (0, 0));
    let mut all: Vec<_> =
        (0..PLACES_A_BUCKET as u64).map(|number| site(&table, 1 << 60 | key(number))).collect();
    let asked: Vec<_> = all.iter_mut().map(|site| AskedRecipients::reserve(Some(site), 1, 0, step)).collect();
    let mut late = site(&other, 1 << 60 | key(77));
    assert_eq!((late.room(step), late.is_used_up(step)), (0, false), "it waits until a place is free");
    asked.into_iter().for_each(AskedRecipients::end);
    assert_eq!(late.room_for_proof(step), 100);
}

#[test]
fn other_files_are_not_taken_for_tables() {
    let folder = Folder::new("faults");
    let path = folder.table();
    let fault = |create: bool| RefusalTable::open(&path, &SECRET, &[], create).map(drop).unwrap_err();
    assert!(matches!(fault(false), TableFault::Missing));
    drop(folder.open());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let length = path.metadata().unwrap().len();
    let file = || std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // What a run that was killed while it made the table has left: its length and its version may be written, the magic number not.
    for (left, version) in [(0, None), (length, None), (length, Some(VERSION))] {
        file().set_len(0).unwrap();
        file().set_len(left).unwrap();
        if let Some(version) = version {
            file().write_all_at(&version.to_ne_bytes(), (VERSION_AT * size_of::<u64>()) as u64).unwrap();
        }
        drop(RefusalTable::open(&path, &SECRET, &[], false).unwrap());
    }
    let whole = std::fs::read(&path).unwrap();
    for cut in [1, 8, 4096, length - 1, length + 1] {
        file().set_len(cut).unwrap();
        assert!(matches!(fault(true), TableFault::Foreign), "{cut} bytes");
        std::fs::write(&path, &whole).unwrap();
    }
    for text in ["my notes\n".to_owned(), "x".repeat(length as usize)] {
        std::fs::write(&path, &text).unwrap();
        assert!(matches!(fault(true), TableFault::Foreign));
        assert!(std::fs::read_to_string(&path).unwrap() == text, "it stays");
    }
    std::fs::write(&path, &whole).unwrap();
    // Another version: it is replaced if no run uses it.
    let run = folder.open();
    file().write_all_at(&9_u64.to_ne_bytes(), 8).unwrap();
    assert!(matches!(fault(true), TableFault::OtherVersion));
    drop(run);
    drop(folder.open());
    // Any counts are bounded, whatever they are.
    let noise: Vec<u8> = (0..length - 4096).map(|at| (at * 131 % 251) as u8).collect();
    file().write_all_at(&noise, 4096).unwrap();
    let run = folder.open();
    let _ = run.kept(run.step());
    assert!(site(&run, KEY).room_for_proof(run.step()) <= 100);
    drop(run);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(fault(true), TableFault::Foreign));
    assert!(matches!(
        RefusalTable::open(&folder.0.join("no/such"), &SECRET, &[], true),
        Err(TableFault::Io(_))
    ));
}

#[test]
fn counts_are_taken_over_only_with_the_right_to_give_places() {
    let folder = Folder::new("take-over");
    let (first, second) = (folder.open(), folder.open());
    let step = first.step();
    let kept = [KeptRefusals { key: KEY, steps: vec![KeptStep { step, refused: 7, accepted: 1 }] }];
    let right = second.change(SharedFile::CHANGE_TIMEOUT).unwrap();
    assert!(!first.take_over(&kept, step) && first.take_over(&[], step));
    assert_eq!(totals(&first, KEY), (0, 0));
    drop(right);
    assert!(first.take_over(&kept, step));
    assert_eq!((totals(&first, KEY), totals(&second, KEY)), ((7, 1), (7, 1)));
}

#[test]
fn one_run_at_a_time_writes_the_counts_elsewhere() {
    let folder = Folder::new("writes");
    let (first, second) = (folder.open(), folder.open());
    let none = Duration::ZERO;
    let written = first.write(none, |_, before| {
        assert_eq!(second.write(none, |_, _| Err("asked at the same time")), Ok(false));
        if before == 0 { Ok(5) } else { Err("nothing is written yet") }
    });
    assert_eq!(written, Ok(true));
    assert_eq!(second.write(none, |_, before| if before == 5 { Err("known") } else { Ok(1) }), Err("known"));
    assert_eq!(second.write(none, |_, before| Ok::<_, ()>(before)), Ok(true));
}
