//! Batches on a clock that the test moves.

use super::*;
use api::Reason;

const SECOND: u64 = 1_000;
const OUTAGE: RowOutcome = RowOutcome::Unanswered(Some(UnverifiableCause::Outage));
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

fn locals(handed_out: &[(Ticket, String)]) -> Vec<&str> {
    handed_out.iter().map(|(_, local)| local.as_str()).collect()
}

/// The answers by row, without the notes of waits.
fn answers(queue: &mut Queue) -> Vec<(u32, RowOutcome)> {
    let answers = queue.take_answers().into_iter();
    let answers = answers.filter(|answer| !matches!(answer.outcome, RowOutcome::Waits(_)));
    answers.map(|answer| (answer.index, answer.outcome)).collect()
}

/// The notes of waits by row.
fn waits(queue: &mut Queue) -> Vec<(u32, WaitCause)> {
    let wait = |answer: RowAnswer| match answer.outcome {
        RowOutcome::Waits(cause) => Some((answer.index, cause)),
        _ => None,
    };
    queue.take_answers().into_iter().filter_map(wait).collect()
}

fn after(seconds: u64) -> Option<(Duration, WaitCause)> {
    Some((Duration::from_secs(seconds), WaitCause::RetryLater))
}

#[test]
fn a_wait_is_noted_once_for_each_row_and_cause() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 3), &["a", "a", "b"]);
    let out = hand_out(&mut queue, BORN);
    queue.found(out[0].0, Reason::Unverifiable.into(), after(60), BORN);
    queue.over_budget(out[1].0, Duration::from_secs(60), BORN);
    assert_eq!(
        waits(&mut queue),
        [(0, WaitCause::RetryLater), (1, WaitCause::RetryLater), (2, WaitCause::RefusalBudget)]
    );
    // The same cause again is nothing new, and a full site is none.
    let now = BORN + 61 * SECOND;
    let out = hand_out(&mut queue, now);
    let [b, a] = &out[..] else { panic!("{out:?}") };
    queue.found(a.0, Reason::Unverifiable.into(), after(60), now);
    queue.on_site_full(b.0, now);
    assert_eq!(waits(&mut queue), []);
    let out = hand_out(&mut queue, now + SECOND);
    queue.failed(out[0].0, now + SECOND);
    assert_eq!(waits(&mut queue), [(2, WaitCause::Outage)]);
    // Of a cancelled batch nothing is noted.
    let out = hand_out(&mut queue, now + 200 * SECOND);
    queue.cancel(vec![BatchId::new(1, 1)]);
    for (ticket, _) in out {
        queue.failed(ticket, now);
    }
    assert_eq!(waits(&mut queue), []);
}

#[test]
fn a_batch_is_asked_answered_and_forgotten() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 2), &["a", "b"]);
    let out = hand_out(&mut queue, BORN);
    assert_eq!(locals(&out), ["a", "b"]);
    queue.found(out[1].0, Reason::CatchAll.into(), None, BORN);
    assert!(!queue.is_empty());
    queue.known(out[0].0, RowOutcome::Reused(Reason::MailboxExists.into()));
    assert_eq!(
        answers(&mut queue),
        [
            (1, RowOutcome::Verified(Reason::CatchAll.into())),
            (0, RowOutcome::Reused(Reason::MailboxExists.into()))
        ]
    );
    assert!(queue.is_empty() && queue.accounts.is_empty() && queue.twins.is_empty());
    assert_eq!((queue.loaded, queue.due()), (0, None));
    queue.found(out[0].0, Reason::MailboxNotFound.into(), None, BORN);
    assert!(answers(&mut queue).is_empty(), "an answer that comes twice finds nobody");
}

#[test]
fn equal_addresses_are_one_question() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 4), &["a", "b", "a", "a"]);
    let out = hand_out(&mut queue, BORN);
    assert_eq!(locals(&out), ["a", "b"]);
    queue.found(out[0].0, Reason::MailboxExists.into(), None, BORN);
    queue.known(out[1].0, RowOutcome::Repeated(Reason::CatchAll.into()));
    let same = RowOutcome::Repeated(Reason::MailboxExists.into());
    assert_eq!(
        answers(&mut queue),
        [
            (0, RowOutcome::Verified(Reason::MailboxExists.into())),
            (2, same),
            (3, same),
            (1, RowOutcome::Repeated(Reason::CatchAll.into()))
        ]
    );
    assert!(queue.is_empty());
}

#[test]
fn accounts_take_turns_and_older_batches_come_first() {
    let mut queue = queue(100);
    load(&mut queue, batch(1, 1, 3), &["a1", "a2", "a3"]);
    load(&mut queue, batch(1, 2, 2), &["b1", "b2"]);
    load(&mut queue, batch(2, 3, 2), &["c1", "c2"]);
    load(&mut queue, batch(3, 4, 1), &["d1"]);
    let out = hand_out(&mut queue, BORN);
    assert_eq!(locals(&out), ["a1", "c1", "d1", "a2", "c2", "a3", "b1", "b2"]);
}

#[test]
fn no_more_are_under_way_than_there_is_room_for() {
    let mut queue = queue(2);
    load(&mut queue, batch(1, 1, 4), &["a", "b", "c", "d"]);
    let out = hand_out(&mut queue, BORN);
    assert_eq!(locals(&out), ["a", "b"]);
    queue.put_back(out[1].0);
    assert_eq!(locals(&hand_out(&mut queue, BORN)), ["b"], "what had no room is the next again");
    queue.found(out[0].0, Reason::CatchAll.into(), None, BORN);
    assert_eq!(locals(&hand_out(&mut queue, BORN)), ["c"]);
}

#[test]
fn a_batch_is_taken_up_once() {
    let mut queue = queue(10);
    let open = batch(1, 1, 1);
    queue.add(open);
    queue.add(open);
    assert_eq!((queue.to_load(BORN), queue.to_load(BORN)), (Some(open), None));
    queue.load(&open, vec![row(0, "a")]);
    queue.add(open);
    assert_eq!(queue.to_load(BORN), None);
    let ticket = hand_out(&mut queue, BORN)[0].0;
    queue.found(ticket, Reason::CatchAll.into(), None, BORN);
    // The announcement comes late: there is no work left.
    queue.add(open);
    assert_eq!(queue.to_load(BORN), Some(open));
    queue.load(&open, Vec::new());
    assert!(queue.is_empty() && queue.accounts.is_empty());
}

#[test]
fn nobody_waits_for_a_batch_that_cannot_be_read() {
    let mut queue = queue(10);
    let (bad, good) = (batch(1, 1, 1), batch(1, 2, 1));
    queue.add(bad);
    assert_eq!(queue.to_load(BORN), Some(bad));
    queue.put_off_loading(bad, BORN);
    assert!(!queue.is_empty());
    load(&mut queue, good, &["a"]);
    assert_eq!(locals(&hand_out(&mut queue, BORN)), ["a"]);
    queue.add(bad);
    assert_eq!(queue.to_load(BORN + UNREADABLE_WAIT - 1), None);
    assert_eq!(queue.to_load(BORN + UNREADABLE_WAIT), Some(bad));
    queue.load(&bad, vec![row(0, "b")]);
    assert_eq!(locals(&hand_out(&mut queue, BORN)), ["b"]);
}

#[test]
fn greylisted_rows_are_asked_again_ever_later_and_a_last_time_at_the_deadline() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 1), &["a"]);
    let mut now = BORN;
    let mut asked = Vec::new();
    loop {
        let out = hand_out(&mut queue, now);
        asked.push((now - BORN) / SECOND);
        queue.found(out[0].0, Reason::Unverifiable.into(), after(100), now);
        let Some(due) = queue.due() else { break };
        assert!(hand_out(&mut queue, due - 1).is_empty());
        now = due;
    }
    assert_eq!(asked, [0, 100, 300, 700, 1200]);
    assert_eq!(answers(&mut queue), [(0, RowOutcome::Verified(Reason::Unverifiable.into()))]);
    assert!(queue.is_empty());
}

#[test]
fn who_wants_to_wait_too_long_is_unverifiable_at_once() {
    for (age, wish, waits) in
        [(0, 1200, true), (0, 1201, false), (1190, 10, true), (1190, 11, false), (9999, 0, false)]
    {
        let mut queue = queue(10);
        load(&mut queue, batch(1, 1, 1), &["a"]);
        let now = BORN + age * SECOND;
        let ticket = hand_out(&mut queue, now)[0].0;
        queue.found(ticket, Reason::Unverifiable.into(), after(wish), now);
        assert_eq!(answers(&mut queue).is_empty(), waits, "{age} {wish}");
    }
}

#[test]
fn a_later_answer_counts() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 2), &["a", "b"]);
    let out = hand_out(&mut queue, BORN);
    queue.found(out[0].0, Reason::Unverifiable.into(), after(60), BORN);
    queue.found(out[1].0, Reason::CatchAll.into(), None, BORN);
    assert_eq!(answers(&mut queue).len(), 1);
    let now = BORN + 60 * SECOND;
    let ticket = hand_out(&mut queue, now)[0].0;
    queue.found(ticket, Reason::MailboxExists.into(), None, now);
    assert_eq!(answers(&mut queue), [(0, RowOutcome::Verified(Reason::MailboxExists.into()))]);
}

#[test]
fn an_outage_is_waited_out_and_in_the_end_refunded() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 2), &["a", "a"]);
    let mut now = BORN;
    let mut asked = Vec::new();
    loop {
        let out = hand_out(&mut queue, now);
        asked.push((now - BORN) / SECOND);
        queue.failed(out[0].0, now);
        let Some(due) = queue.due() else { break };
        now = due;
    }
    assert_eq!(asked[..8], [0, 1, 3, 7, 15, 31, 63, 123]);
    assert_eq!((asked[8], asked.last()), (183, Some(&3600)));
    assert_eq!(answers(&mut queue), [(0, OUTAGE), (1, OUTAGE)]);
    assert!(queue.is_empty());
}

#[test]
fn rows_over_the_budget_of_their_site_wait_and_are_refunded() {
    for (wait, expected) in [
        (0, vec![0, 1, 2, 3]),
        (100, vec![0, 100, 200, 300]),
        // Accepts may increase the budget before the refusals are an hour old.
        (3_900, vec![0, 300, 600, 900, 1_200]),
    ] {
        let mut queue = queue(10);
        load(&mut queue, batch(1, 1, 3), &["a", "b", "a"]);
        let (mut now, mut asked) = (BORN, Vec::new());
        loop {
            for (ticket, local) in hand_out(&mut queue, now) {
                match local.as_str() {
                    "a" => {
                        asked.push((now - BORN) / SECOND);
                        queue.over_budget(ticket, Duration::from_secs(wait), now);
                    }
                    _ => queue.found(ticket, Reason::MailboxExists.into(), None, now),
                }
            }
            let Some(due) = queue.due() else { break };
            now = due;
        }
        assert_eq!(asked[..expected.len()], expected);
        assert_eq!(asked.last(), Some(&(WAIT / SECOND)), "a last time at the deadline");
        let found = RowOutcome::Verified(Reason::MailboxExists.into());
        let budget = RowOutcome::Unanswered(Some(UnverifiableCause::RefusalBudget));
        assert_eq!(answers(&mut queue), [(1, found), (0, budget), (2, budget)]);
        assert!(queue.is_empty() && queue.accounts.is_empty());
    }
}

#[test]
fn a_row_over_the_budget_is_answered_once_there_is_room() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 1), &["a"]);
    let out = hand_out(&mut queue, BORN);
    queue.over_budget(out[0].0, Duration::from_secs(60), BORN);
    assert_eq!((queue.loaded, queue.waiting_for_budget), (0, 1));
    assert!(hand_out(&mut queue, BORN + 59 * SECOND).is_empty());
    let out = hand_out(&mut queue, BORN + 60 * SECOND);
    assert_eq!((queue.loaded, queue.waiting_for_budget), (1, 0));
    queue.found(out[0].0, Reason::CatchAll.into(), None, BORN + 60 * SECOND);
    assert_eq!(answers(&mut queue), [(0, RowOutcome::Verified(Reason::CatchAll.into()))]);
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
fn an_old_batch_gets_a_try_before_it_is_refunded() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 2), &["a", "b"]);
    let now = BORN + 10 * OUTAGE_WAIT;
    let out = hand_out(&mut queue, now);
    queue.found(out[0].0, Reason::MailboxExists.into(), None, now);
    queue.failed(out[1].0, now);
    assert_eq!(answers(&mut queue), [(0, RowOutcome::Verified(Reason::MailboxExists.into())), (1, OUTAGE)]);
}

#[test]
fn an_address_is_under_way_once_for_an_account() {
    let mut queue = queue(10);
    load(&mut queue, batch(1, 1, 1), &["a"]);
    load(&mut queue, batch(1, 2, 2), &["a", "b"]);
    load(&mut queue, batch(2, 3, 1), &["a"]);
    let out = hand_out(&mut queue, BORN);
    assert_eq!(locals(&out), ["a", "a", "b"], "another account's does not wait");
    queue.found(out[0].0, Reason::CatchAll.into(), None, BORN);
    assert!(hand_out(&mut queue, BORN).is_empty());
    assert_eq!(locals(&hand_out(&mut queue, BORN + TWIN_WAIT)), ["a"]);
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
    assert_eq!(locals(&hand_out(&mut queue, BORN + SECOND)), ["a"]);
}

#[test]
fn rows_are_loaded_only_while_few_are_ready() {
    let mut queue = queue(1_000);
    let locals: Vec<String> = (0..200).map(|number| format!("r{number}")).collect();
    let rows = || (0..).zip(&locals).map(|(index, local)| row(index, local)).collect::<Vec<Row>>();
    for number in 0..3 {
        queue.add(batch(1, number, 200));
    }
    queue.add(batch(2, 9, 200));
    for (account, number) in [(1, 0), (2, 9)] {
        let open = queue.to_load(BORN).unwrap();
        assert_eq!((open.account, open.batch), (super::tests::account(account), BatchId::new(1, number)));
        queue.load(&open, rows());
    }
    assert_eq!(queue.to_load(BORN), None, "both accounts have enough to ask about");
    assert!(queue.next(BORN, Instant::now()).is_some());
    assert_eq!(queue.to_load(BORN).map(|open| open.batch), Some(BatchId::new(1, 1)));
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

#[test]
fn a_cancelled_batch_is_forgotten_with_all_its_questions() {
    let mut queue = queue(3);
    let (kept, cancelled, unloaded) = (batch(1, 1, 2), batch(1, 2, 5), batch(1, 3, 1));
    load(&mut queue, cancelled, &["asked", "later", "budget", "room", "ready"]);
    load(&mut queue, kept, &["a", "b"]);
    queue.add(unloaded);
    assert_eq!(queue.rows_waiting(), 8);
    let out = hand_out(&mut queue, BORN);
    assert_eq!(locals(&out), ["asked", "later", "budget"]);
    queue.found(out[1].0, Reason::Unverifiable.into(), after(300), BORN);
    queue.over_budget(out[2].0, Duration::from_secs(60), BORN);
    let room = hand_out(&mut queue, BORN);
    assert_eq!(locals(&room), ["room", "ready"]);
    queue.put_back(room[1].0);
    queue.cancel(vec![cancelled.batch, unloaded.batch]);
    assert_eq!((queue.loaded, queue.waiting_for_budget, queue.open()), (4, 0, vec![kept.batch]));
    assert_eq!(queue.rows_waiting(), 2);
    // Questions under way have no effect any longer, and are not asked again.
    queue.put_back(room[0].0);
    queue.found(out[0].0, Reason::Unverifiable.into(), after(300), BORN);
    assert!(answers(&mut queue).is_empty());
    let rest = hand_out(&mut queue, BORN + WAIT);
    assert_eq!(locals(&rest), ["a", "b"]);
    for (ticket, _) in rest {
        queue.found(ticket, Reason::MailboxExists.into(), None, BORN);
    }
    assert_eq!(answers(&mut queue).len(), 2);
    assert_eq!((queue.loaded, queue.due(), queue.to_load(BORN)), (0, None, None));
    assert!(queue.is_empty() && queue.accounts.is_empty() && queue.twins.is_empty());
}

#[test]
fn rows_wait_from_the_entry_of_their_batch_to_their_answer() {
    let mut queue = queue(10);
    let open = OpenBatch { answered: 6, ..batch(1, 1, 10) };
    queue.add(open);
    queue.add(open);
    assert_eq!(queue.rows_waiting(), 4, "the batch is not loaded yet, and counts once");
    assert_eq!(queue.to_load(BORN), Some(open));
    // A row without a valid address is answered at once, and two rows have the same address.
    queue.answer_row(open.batch, 6, RowOutcome::Unanswered(None));
    queue.load(&open, vec![row(7, "a"), row(8, "a"), row(9, "b")]);
    assert_eq!(queue.rows_waiting(), 3);
    let out = hand_out(&mut queue, BORN);
    queue.found(out[0].0, Reason::CatchAll.into(), None, BORN);
    assert_eq!(queue.rows_waiting(), 1);
    queue.found(out[1].0, Reason::Unverifiable.into(), after(300), BORN);
    assert_eq!(queue.rows_waiting(), 1, "a row that is asked about again later has no answer");
    let again = hand_out(&mut queue, BORN + WAIT);
    queue.found(again[0].0, Reason::MailboxExists.into(), None, BORN + WAIT);
    assert_eq!(queue.rows_waiting(), 0);
}
