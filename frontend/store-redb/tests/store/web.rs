//! The data of the dashboard: users, sessions, links, days and lists.

use crate::world::{DAY, START, World};
use api::Reason;
use store::*;

const PASSWORD: PasswordHash =
    PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [1; 16], tag: [2; 32] };

fn session(n: u8) -> NewSession {
    NewSession { hash: [n; 32], agent: format!("browser {n}") }
}

fn sign_up(world: &mut World, n: u8, email: &str) -> Result<AccountId, UserError> {
    let id = AccountId::new(world.now, u128::from(n));
    let account = NewAccount { id, name: format!("web {n}"), plan: "free".into() };
    let new = NewUser { account, email: email.into(), password: PASSWORD, session: session(n) };
    world.store().sign_up(new, world.now).wait().map(|account| account.id)
}

#[test]
fn a_sign_up_makes_all_or_nothing() {
    let mut world = World::new();
    let a = sign_up(&mut world, 1, "Joe@Example.com").unwrap();
    assert_eq!(sign_up(&mut world, 2, "joe@example.COM"), Err(UserError::EmailTaken));
    assert_eq!(world.store().accounts(None, 10, world.now).wait().unwrap().len(), 1);
    assert_eq!(world.store().session(&[2; 32], world.now).wait(), Ok(None));
    world.reopen();
    let user = world.store().user_of("JOE@example.com").wait().unwrap().unwrap();
    assert_eq!((user.account, user.email.as_str(), user.password), (a, "Joe@Example.com", PASSWORD));
    assert_eq!(world.store().session(&[1; 32], world.now).wait().unwrap().unwrap().account, a);
    assert_eq!(world.store().user_of("jane@example.com").wait(), Ok(None));
    assert_eq!(format!("{user:?}"), format!("User({a})"));
}

#[test]
fn a_password_ends_sessions_and_links_but_the_one_at_hand() {
    let mut world = World::new();
    let a = sign_up(&mut world, 1, "joe@example.com").unwrap();
    let b = world.account("b", "free");
    let store = world.store();
    store.begin_session(a, session(2), world.now).wait().unwrap();
    store.begin_session(b, session(3), world.now).wait().unwrap();
    store.create_link(a, [9; 32], world.now).wait().unwrap();
    let other = PasswordHash { tag: [3; 32], ..PASSWORD };
    store.set_user(a, None, other, Some([2; 32]), world.now).wait().unwrap();
    let is_there = |n: u8| store.session(&[n; 32], world.now).wait().unwrap().is_some();
    assert_eq!([1, 2, 3].map(is_there), [false, true, true]);
    assert_eq!(store.link(&[9; 32], world.now).wait(), Ok(None));
    assert_eq!(store.user(a).wait().unwrap().unwrap().password, other);
    // Without an email address the first user cannot be created, and no address can be taken from another user.
    assert_eq!(store.set_user(b, None, PASSWORD, None, world.now).wait(), Err(UserError::EmailMissing));
    let taken = store.set_user(b, Some("JOE@example.com".into()), PASSWORD, None, world.now).wait();
    assert_eq!(taken, Err(UserError::EmailTaken));
    store.set_user(a, Some("new@example.com".into()), PASSWORD, None, world.now).wait().unwrap();
    assert_eq!(store.user_of("joe@example.com").wait(), Ok(None));
    store.set_user(b, Some("joe@example.com".into()), PASSWORD, None, world.now).wait().unwrap();
}

#[test]
fn sessions_end_by_themselves_and_are_few() {
    let mut world = World::new();
    let a = sign_up(&mut world, 1, "joe@example.com").unwrap();
    for n in 2..=SESSIONS_MAX as u8 + 5 {
        world.now += 1;
        world.store().begin_session(a, session(n), world.now).wait().unwrap();
    }
    let sessions = world.store().sessions(a, world.now).wait().unwrap();
    assert_eq!(sessions.len(), SESSIONS_MAX);
    assert_eq!(sessions[0].agent, format!("browser {}", SESSIONS_MAX + 5), "the newest stay");
    assert_eq!(world.store().end_sessions(a, Some(sessions[0].hash)).wait(), Ok(SESSIONS_MAX as u64 - 1));
    let (hash, begun) = (sessions[0].hash, world.now);
    let other = world.account("other", "free");
    assert_eq!(world.store().end_session(other, hash).wait(), Ok(false), "of another account");
    for day in 1..30 {
        world.now = begun + day * DAY;
        assert!(world.store().session(&hash, world.now).wait().unwrap().is_some(), "{day}");
        world.store().session_used(hash, world.now).wait().unwrap();
        world.store().session_used(hash, world.now + SESSION_STEP_MS - 1).wait().unwrap();
        let seen = world.store().session(&hash, world.now).wait().unwrap().unwrap().seen_at;
        assert_eq!(seen, world.now, "written each few minutes alone");
        assert_eq!(world.purge().sessions, 0);
    }
    world.now = begun + SESSION_MS;
    assert_eq!(world.store().session(&hash, world.now).wait(), Ok(None));
    assert_eq!(world.purge().sessions, 1);
    assert_eq!(world.store().sessions(a, begun).wait(), Ok(vec![]));
}

#[test]
fn a_link_is_good_once_and_not_for_long() {
    let (world, a) = World::with_account("free");
    let store = world.store();
    store.create_link(a, [5; 32], START).wait().unwrap();
    assert_eq!(store.link(&[5; 32], START).wait(), Ok(Some(a)));
    assert_eq!(store.use_link([6; 32], session(1), START).wait(), Ok(None));
    assert_eq!(store.use_link([5; 32], session(1), START).wait(), Ok(Some(a)));
    assert_eq!(store.use_link([5; 32], session(2), START).wait(), Ok(None));
    store.create_link(a, [7; 32], START).wait().unwrap();
    let late = START + SIGN_IN_LINK_MS;
    assert_eq!(store.link(&[7; 32], late - 1).wait(), Ok(Some(a)));
    assert_eq!(
        (store.link(&[7; 32], late).wait(), store.use_link([7; 32], session(2), late).wait()),
        (Ok(None), Ok(None))
    );
    let nobody = AccountId::new(START, 99);
    assert!(store.create_link(nobody, [8; 32], START).wait().is_err());
    assert!(store.begin_session(nobody, session(3), START).wait().is_err());
}

#[test]
fn days_count_charges_and_are_forgotten() {
    let (mut world, a) = World::with_account("scale");
    let rows = ["one@example.com", "two@example.com", "three@example.com"];
    let new = world.new_batch(a, &rows);
    let batch = world.create(new).unwrap().batch;
    assert_eq!(world.store().days(a, world.now).wait(), Ok(vec![]), "not before it is complete");
    let (found, none) = (RowOutcome::Verified(Reason::MailboxExists.into()), RowOutcome::Unanswered);
    world.answer(batch, &[(0, found), (1, found), (2, none)]);
    let days = world.store().days(a, world.now).wait().unwrap();
    let day = (START / DAY) as u32;
    let counts = DayCounts { day, singles: 0, rows: 2, reasons: vec![(Reason::MailboxExists, 2)] };
    assert_eq!(days, [counts], "what was given back is not counted");
    assert_eq!(world.store().recent_batches(a, 9, world.now).wait().unwrap()[0].batch, batch);
    for n in 1..=100 {
        world.now = START + n * DAY;
        let new = world.new_batch(a, &["more@example.com"]);
        let batch = world.create(new).unwrap();
        // Within a day of the last check it is a repeat, charged and complete at once.
        if !batch.completed {
            world.answer(batch.batch, &[(0, found)]);
        }
    }
    let days = world.store().days(a, world.now).wait().unwrap();
    assert_eq!(days.len(), DAYS_KEPT as usize);
    assert_eq!(days[0].day, day + 100 + 1 - DAYS_KEPT);
    // They are removed from the table, and not only hidden.
    assert_eq!(world.store().days(a, START + DAY).wait().unwrap().len(), DAYS_KEPT as usize);
}

fn list(world: &World, account: AccountId, n: u128) -> List {
    List::new(ListId::new(world.now, n), account, world.now, "my list.csv".into())
}

#[test]
fn a_list_changes_only_from_where_it_is_thought_to_stand() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let mut one = list(&world, a, 1);
    let store = world.store();
    assert_eq!(store.create_list(&one, ListRoom::MOST, START).wait(), Ok(ListMade::Made));
    assert_eq!(store.create_list(&one, ListRoom::MOST, START).wait(), Ok(ListMade::TooMany), "once");
    assert_eq!(store.put_list_part(&one, 0, b"one@example.com").wait(), Ok(true));
    one.state = ListState::Running;
    assert_eq!(store.put_list(&one, ListState::Ready, None).wait(), Ok(false));
    assert_eq!(store.put_list(&one, ListState::Uploading, None).wait(), Ok(true));
    assert_eq!(store.put_list_part(&one, 1, b"late").wait(), Ok(false), "it is not uploading any longer");
    one.done = 1;
    one.counts = vec![(Reason::CatchAll, 1)];
    assert_eq!(store.put_list(&one, ListState::Running, Some(&[Reason::CatchAll])).wait(), Ok(true));
    world.reopen();
    let store = world.store();
    assert_eq!(store.list(a, one.id, START).wait(), Ok(Some(one.clone())));
    assert_eq!(store.list(b, one.id, START).wait(), Ok(None), "another account's");
    assert_eq!(store.lists_at_work(START).wait().unwrap(), [one.clone()]);
    assert_eq!(store.list_part(&one, 0).wait().unwrap().as_deref(), Some(&b"one@example.com"[..]));
    assert_eq!(store.list_part(&one, 1).wait(), Ok(None));
    assert_eq!(store.list_answers(&one, 0).wait(), Ok(Some(vec![Reason::CatchAll])));
    assert_eq!(store.batch_of_list(&one, 7), store.batch_of_list(&one, 7));
    assert_ne!(store.batch_of_list(&one, 7), store.batch_of_list(&one, 8));
    assert_eq!(store.delete_list(b, one.id).wait(), Ok(false));
    assert_eq!(store.delete_list(a, one.id).wait(), Ok(true));
    world.let_chores_run();
    assert_eq!((store.list_part(&one, 0).wait(), store.list_answers(&one, 0).wait()), (Ok(None), Ok(None)));
}

#[test]
fn lists_are_gone_after_their_time_and_are_few() {
    let (mut world, a) = World::with_account("free");
    for n in 0..LISTS_MAX as u128 {
        let made = world.store().create_list(&list(&world, a, n), ListRoom::MOST, world.now).wait();
        assert_eq!(made, Ok(ListMade::Made));
    }
    let made = world.store().create_list(&list(&world, a, 999), ListRoom::MOST, world.now).wait();
    assert_eq!(made, Ok(ListMade::TooMany));
    let one = list(&world, a, 0);
    world.store().put_list_part(&one, 0, b"one@example.com").wait().unwrap();
    world.now = START + LIST_KEEP_MS - 1;
    assert_eq!(world.store().lists(a, world.now).wait().unwrap().len(), LISTS_MAX);
    world.now = START + LIST_KEEP_MS;
    assert_eq!(world.store().lists(a, world.now).wait(), Ok(vec![]));
    assert!(world.purge().lists > 0);
    assert_eq!(world.store().list_part(&one, 0).wait(), Ok(None));
}

#[test]
fn lists_take_no_more_than_their_room() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let room = ListRoom { account: 100, all: 150 };
    let make = |account, n, bytes| {
        let list = List { bytes, ..list(&world, account, n) };
        world.store().create_list(&list, room, world.now).wait().unwrap()
    };
    assert_eq!(make(a, 1, 101), ListMade::AccountFull);
    assert_eq!(make(a, 2, 60), ListMade::Made);
    assert_eq!(make(a, 3, 41), ListMade::AccountFull);
    assert_eq!(make(a, 4, 40), ListMade::Made);
    assert_eq!(make(b, 5, 51), ListMade::StoreFull);
    assert_eq!(make(b, 6, 50), ListMade::Made);
    assert_eq!(world.store().delete_list(a, list(&world, a, 2).id).wait(), Ok(true));
    assert_eq!(make(b, 7, 51), ListMade::AccountFull);
    assert_eq!(make(b, 8, 50), ListMade::Made);
    // An unfinished upload does not survive the process.
    let mut read = List { bytes: 40, state: ListState::Reading, ..list(&world, a, 4) };
    assert_eq!(world.store().put_list(&read, ListState::Uploading, None).wait(), Ok(true));
    assert_eq!(world.store().delete_unfinished_lists(None).wait(), Ok(2));
    assert_eq!(world.store().lists(b, world.now).wait(), Ok(vec![]));
    read = world.store().lists(a, world.now).wait().unwrap().remove(0);
    assert_eq!(read.state, ListState::Reading);
}
