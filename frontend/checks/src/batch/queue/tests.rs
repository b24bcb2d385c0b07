//! Batches on a clock that the test moves.

use super::*;
use api::Reason;
use std::collections::BTreeSet;

const SECOND: u64 = 1_000;
const WAIT: u64 = 1_200 * SECOND;
const OUTAGE_WAIT: u64 = 3_600 * SECOND;
/// The creation time of the batches in these tests.
const BORN: UnixMs = 1_000_000_000;

fn queue(under_way_max: usize) -> Queue {
    Queue::new(Limits {
        under_way_max,
        wait: Duration::from_millis(WAIT),
        outage_wait: Duration::from_millis(OUTAGE_WAIT),
    })
}

fn account(number: u128) -> AccountId {
    AccountId::new(1, number)
}

fn batch(account_number: u128, number: u128, total: u32) -> OpenBatch {
    let (batch, account) = (BatchId::new(1, number), account(account_number));
    OpenBatch { batch, account, created_at: BORN, total, answered: 0 }
}

fn row(index: u32, local: &str) -> Row {
    let address = Address::parse(&format!("{local}@example.com")).unwrap();
    let mut hash = [0; 16];
    hash[..local.len()].copy_from_slice(local.as_bytes());
    Row { index, address, hash: AddressHash(hash) }
}

/// Adds and loads a batch with these local parts.
fn load(queue: &mut Queue, open: OpenBatch, locals: &[&str]) {
    queue.add(open);
    assert_eq!(queue.to_load(BORN), Some(open));
    queue.load(&open, (0..).zip(locals).map(|(index, local)| row(index, local)).collect());
}

/// All questions that are handed out now, by local part.
fn hand_out(queue: &mut Queue, now: UnixMs) -> Vec<(Ticket, String)> {
    std::iter::from_fn(|| {
        queue
            .next(now, Instant::now())
            .map(|(ticket, question)| (ticket, question.address.local().to_owned()))
    })
    .collect()
}

fn after(seconds: u64) -> Option<(Duration, WaitCause)> {
    Some((Duration::from_secs(seconds), WaitCause::RetryLater))
}

/// A queue, and what a scenario has done with it.
struct Scenario {
    queue: Queue,
    now: UnixMs,
    batches: BTreeMap<u128, OpenBatch>,
    /// The latest ticket of each question.
    tickets: BTreeMap<String, Ticket>,
}

/// The number of a batch in the scenario.
fn number(batch: BatchId) -> u128 {
    (0..).find(|&number| BatchId::new(1, number) == batch).unwrap()
}

/// Local parts; `r*200` stands for 200 of them.
fn rows_from(first: u32, words: &[&str]) -> Vec<Row> {
    let mut locals = Vec::new();
    for word in words {
        match word.split_once('*') {
            Some((word, count)) => {
                locals.extend((0..count.parse().unwrap()).map(|n: u32| format!("{word}{n}")))
            }
            None => locals.push((*word).to_owned()),
        }
    }
    (first..).zip(&locals).map(|(index, local)| row(index, local)).collect()
}

fn reason(word: &str) -> Reason {
    Reason::ALL.into_iter().find(|reason| format!("{reason:?}") == word).unwrap()
}

fn shown_answer(RowAnswer { batch, index, outcome }: RowAnswer) -> String {
    let (kind, verdict) = match outcome {
        RowOutcome::Verified(verdict) => ("verified", verdict),
        RowOutcome::Reused(verdict) => ("reused", verdict),
        RowOutcome::Repeated(verdict) => ("repeated", verdict),
        RowOutcome::Unanswered(Some(cause)) => {
            return format!("{}.{index}:unanswered:{cause:?}", number(batch));
        }
        RowOutcome::Unanswered(None) => return format!("{}.{index}:unanswered", number(batch)),
        RowOutcome::Waits(cause) => return format!("{}.{index}:waits:{cause:?}", number(batch)),
    };
    assert_eq!(verdict, verdict.reason.into());
    format!("{}.{index}:{kind}:{:?}", number(batch), verdict.reason)
}

/// At most ten words, or the first nine and the last.
fn joined(mut words: Vec<String>) -> String {
    if words.is_empty() {
        return "nothing".to_owned();
    }
    if words.len() > 10 {
        words.splice(9..words.len() - 1, ["...".to_owned()]);
    }
    words.join(" ")
}

impl Scenario {
    fn new(under_way_max: usize) -> Scenario {
        let queue = queue(under_way_max);
        Scenario { queue, now: BORN, batches: BTreeMap::new(), tickets: BTreeMap::new() }
    }

    fn ask(&mut self) -> Option<String> {
        let (ticket, question) = self.queue.next(self.now, Instant::now())?;
        let name = format!("{}.{}", number(question.batch), question.address.local());
        self.tickets.insert(name.clone(), ticket);
        Some(name)
    }

    /// Carries out a step, and says what it shows.
    fn step(&mut self, step: &str) -> Option<String> {
        let words: Vec<&str> = step.split(' ').collect();
        let whole = |at: usize| words[at].parse::<u32>().expect(step);
        let seconds = |at: usize| Duration::from_secs_f64(words[at].parse().expect(step));
        let ticket = || self.tickets[words[1]];
        let open = |at: usize| self.batches[&u128::from(whole(at))];
        let (queue, now) = (&mut self.queue, self.now);
        match words[0] {
            "new" => *self = Scenario::new(words.get(1).map_or(10, |room| room.parse().expect(step))),
            "at" => self.now = BORN + millis(seconds(1)),
            "add" => {
                let answered = words.get(4).map_or(0, |_| whole(4));
                let open = OpenBatch { answered, ..batch(whole(1).into(), whole(2).into(), whole(3)) };
                self.batches.insert(whole(2).into(), open);
                queue.add(open);
            }
            "batch" => {
                let rows = rows_from(0, &words[3..]);
                self.step(&format!("add {} {} {}", words[1], words[2], rows.len()));
                assert_eq!(self.step("to-load").as_deref(), Some(words[2]), "{step}");
                self.queue.load(&self.batches[&u128::from(whole(2))], rows);
            }
            "to-load" => {
                let open = queue.to_load(now);
                assert!(open.is_none_or(|open| self.batches[&number(open.batch)] == open));
                return Some(open.map_or("none".to_owned(), |open| number(open.batch).to_string()));
            }
            "rows" => {
                let open = open(1);
                queue.load(&open, rows_from(open.total - (words.len() - 2) as u32, &words[2..]));
            }
            "unreadable" => queue.put_off_loading(open(1), now),
            "cancel" => queue.cancel((1..words.len()).map(|at| open(at).batch).collect()),
            "invalid" => queue.answer_row(open(1).batch, whole(2), RowOutcome::Unanswered(None)),
            "one" => return self.ask(),
            "ask" => return Some(joined(std::iter::from_fn(|| self.ask()).collect())),
            "found" => {
                let retry = words.get(3).map(|_| (seconds(3), WaitCause::RetryLater));
                queue.found(ticket(), reason(words[2]).into(), retry, now);
            }
            "reused" => queue.known(ticket(), RowOutcome::Reused(reason(words[2]).into())),
            "repeated" => queue.known(ticket(), RowOutcome::Repeated(reason(words[2]).into())),
            "failed" => queue.failed(ticket(), now),
            "full" => queue.on_site_full(ticket(), now),
            "back" => queue.put_back(ticket()),
            "budget" => queue.over_budget(ticket(), seconds(2), now),
            "always" => {
                let mut asked = Vec::new();
                loop {
                    asked.push(((self.now - BORN) / SECOND).to_string());
                    self.step(&step["always ".len()..]);
                    let Some(due) = self.queue.due() else { return Some(joined(asked)) };
                    assert!(hand_out(&mut self.queue, due - 1).is_empty());
                    self.now = due;
                    assert_eq!(self.step("ask").as_deref(), Some(words[2]), "{step}");
                }
            }
            "answers" => return Some(joined(queue.take_answers().into_iter().map(shown_answer).collect())),
            "state" => {
                let open: BTreeSet<String> =
                    queue.open().into_iter().map(|id| number(id).to_string()).collect();
                let open = Vec::from_iter(open).join("+");
                assert_eq!(queue.is_empty(), open.is_empty());
                let due = queue
                    .due()
                    .map_or("none".to_owned(), |due| format!("{:?}", Duration::from_millis(due - BORN)));
                let Queue { loaded, waiting_for_budget, rows_waiting, accounts, twins, .. } = &*queue;
                let (accounts, twins) = (accounts.len(), twins.len());
                return Some(format!(
                    "batches={open} rows={rows_waiting} loaded={loaded} budget={waiting_for_budget} due={due} accounts={accounts} twins={twins}"
                ));
            }
            _ => panic!("{step}"),
        }
        None
    }
}

#[test]
fn the_queue_does_what_the_scenarios_say() {
    let (mut title, mut scenario) = ("", Scenario::new(10));
    for line in include_str!("../../../testdata/queue.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix("= ") {
            (title, scenario) = (name, Scenario::new(10));
            continue;
        }
        let (steps, expected) = line.split_once(" -> ").unwrap();
        let shown: Vec<String> = steps.split(", ").filter_map(|step| scenario.step(step)).collect();
        assert_eq!(shown.join(" | "), expected, "{title}: {steps}");
    }
}

#[test]
fn rows_over_the_budget_keep_no_others_waiting() {
    let locals: Vec<String> = (0..200).map(|number| format!("r{number}")).collect();
    let locals: Vec<&str> = locals.iter().map(String::as_str).collect();
    let full = LOADED_OF_ACCOUNT_MAX / locals.len();
    for over_budget in [true, false] {
        let mut queue = queue(LOADED_MAX);
        for number in 0..full as u128 {
            load(&mut queue, batch(1, number, 200), &locals);
            for (ticket, _) in hand_out(&mut queue, BORN) {
                if over_budget {
                    queue.over_budget(ticket, Duration::from_secs(3_000), BORN);
                } else {
                    queue.found(ticket, Reason::Unverifiable.into(), after(300), BORN);
                }
            }
        }
        let next = batch(1, 1_000, 1);
        queue.add(next);
        assert_eq!(queue.to_load(BORN), over_budget.then_some(next), "over budget: {over_budget}");
        assert_eq!(queue.later.len(), LOADED_OF_ACCOUNT_MAX);
    }
}

#[test]
fn the_room_for_what_waits_for_a_budget_is_bounded_too() {
    let mut queue = queue(10);
    queue.waiting_for_budget = WAITING_FOR_BUDGET_MAX;
    load(&mut queue, batch(1, 1, 1), &["a"]);
    let ticket = hand_out(&mut queue, BORN)[0].0;
    queue.over_budget(ticket, Duration::from_secs(60), BORN);
    assert_eq!((queue.loaded, queue.waiting_for_budget), (1, WAITING_FOR_BUDGET_MAX));
    assert_eq!(hand_out(&mut queue, BORN + 60 * SECOND).len(), 1);
    assert_eq!((queue.loaded, queue.waiting_for_budget), (1, WAITING_FOR_BUDGET_MAX));
}

#[test]
fn what_is_never_answered_is_tried_again() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 2), &["a", "b"]);
    let begin = Instant::now();
    let later = begin + Duration::from_secs(5);
    assert!(queue.next(BORN, begin).is_some() && queue.next(BORN, later).is_some());
    let end = begin + UNDER_WAY_TIME_MAX;
    queue.give_up(BORN + OUTAGE_WAIT, end - Duration::from_secs(1));
    assert_eq!(queue.under_way.len(), 2, "what the wall clock says does not count");
    queue.give_up(BORN, end);
    assert_eq!((queue.under_way.len(), queue.due()), (1, Some(BORN + SECOND)));
    assert_eq!(hand_out(&mut queue, BORN + SECOND)[0].1, "a");
}

#[test]
fn memory_is_bounded_however_many_are_put_off() {
    let mut queue = queue(LOADED_MAX);
    for account in 0..3 {
        for number in 0..200 {
            queue.add(batch(account, account * 1_000 + number, 200));
        }
    }
    let mut number = 0;
    while let Some(open) = queue.to_load(BORN) {
        let rows = (0..200).map(|index| {
            number += 1;
            row(index, &format!("r{number}"))
        });
        queue.load(&open, rows.collect());
        for (ticket, _) in hand_out(&mut queue, BORN) {
            queue.found(ticket, Reason::Unverifiable.into(), after(60), BORN);
        }
    }
    assert_eq!(queue.loaded, 3 * LOADED_OF_ACCOUNT_MAX);
    assert_eq!(queue.later.len(), queue.loaded);
    // A completed question frees room.
    let now = BORN + 60 * SECOND;
    let ticket = queue.next(now, Instant::now()).unwrap().0;
    queue.found(ticket, Reason::CatchAll.into(), None, now);
    assert_eq!(queue.to_load(BORN), None, "its account has plenty ready again");
}

#[test]
fn any_course_of_events_answers_every_row_once() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut queue = queue(random.usize(1..20));
        let mut expected = HashSet::new();
        let mut unborn: Vec<OpenBatch> = (0..random.u128(1..12))
            .map(|number| batch(random.u128(1..4), number, random.u32(1..9)))
            .collect();
        let mut seen = HashSet::new();
        let (mut now, begin) = (BORN, Instant::now());
        while !(unborn.is_empty() && queue.is_empty()) {
            now += random.u64(0..3 * SECOND);
            if let Some(open) = unborn.pop_if(|_| random.bool()) {
                expected.extend((0..open.total).map(|index| (open.batch, index)));
                queue.add(open);
            }
            if let Some(open) = queue.to_load(now) {
                if random.u8(..) < 30 {
                    queue.put_off_loading(open, now);
                } else {
                    let locals = ["a", "b", "c", "d", "e"];
                    let rows = (0..open.total).map(|index| row(index, locals[random.usize(..5)]));
                    queue.load(&open, rows.collect());
                }
            }
            queue.next(now, begin);
            if let Some(&ticket) = queue.under_way.keys().nth(random.usize(..20)) {
                match random.u8(..12) {
                    0..4 => queue.found(ticket, Reason::MailboxExists.into(), None, now),
                    4..6 => queue.found(ticket, Reason::Unverifiable.into(), after(random.u64(..400)), now),
                    6 => queue.failed(ticket, now),
                    7 => queue.known(ticket, RowOutcome::Repeated(Reason::CatchAll.into())),
                    8 => queue.put_back(ticket),
                    9..11 => queue.over_budget(ticket, Duration::from_secs(random.u64(..2_000)), now),
                    _ => queue.give_up(now, begin + UNDER_WAY_TIME_MAX * random.u32(..2)),
                }
            }
            for answer in queue.take_answers() {
                let row = (answer.batch, answer.index);
                let is_new = match answer.outcome {
                    RowOutcome::Waits(_) => !seen.contains(&row),
                    _ => seen.insert(row),
                };
                assert!(is_new, "seed {seed}: answered twice, or waits after its answer");
            }
            assert_eq!(queue.rows_waiting(), expected.len() - seen.len(), "seed {seed}");
            if queue.under_way.is_empty()
                && let Some(due) = queue.due()
            {
                now = now.max(due);
            }
        }
        assert_eq!(seen, expected, "seed {seed}");
        assert!(queue.accounts.is_empty() && queue.twins.is_empty() && queue.loaded == 0, "seed {seed}");
        assert_eq!(queue.waiting_for_budget, 0, "seed {seed}");
    }
}
