//! The data of the dashboard: users, sessions, links, days and lists.

use crate::world::{DAY, OPERATOR, PASSWORD, START, World, new_account, new_user};
use api::Reason;
use store::*;

fn session(n: u8) -> NewSession {
    NewSession { hash: [n; 32], agent: format!("browser {n}") }
}

fn sign_up(world: &mut World, n: u8, email: &str) -> Result<AccountId, UserError> {
    let id = AccountId::new(world.now, u128::from(n));
    let new = new_user(new_account(id, &format!("web {n}")), email, session(n));
    world.sign_up(new, world.now).wait().map(|account| account.id)
}

#[test]
fn a_sign_up_makes_all_or_nothing() {
    let mut world = World::new();
    let a = sign_up(&mut world, 1, "Joe@Example.com").unwrap();
    assert_eq!(sign_up(&mut world, 2, "joe@example.COM"), Err(UserError::EmailTaken));
    assert_eq!(world.accounts(None, 10, world.now).wait().unwrap().len(), 1);
    assert_eq!(world.session(&[2; 32], world.now).wait(), Ok(None));
    world.reopen();
    let user = world.user_of("JOE@example.com").wait().unwrap().unwrap();
    assert_eq!((user.account, user.email.as_str(), user.password), (a, "Joe@Example.com", PASSWORD));
    assert_eq!(world.session(&[1; 32], world.now).wait().unwrap().unwrap().account, a);
    assert_eq!(world.user_of("jane@example.com").wait(), Ok(None));
    assert_eq!(format!("{user:?}"), format!("User({a})"));
}

#[test]
fn a_password_ends_sessions_and_links_but_the_one_at_hand() {
    let mut world = World::new();
    let a = sign_up(&mut world, 1, "joe@example.com").unwrap();
    let b = world.account("b", "free");
    let store = world.store();
    store.begin_session(a, session(2), OPERATOR, world.now).wait().unwrap();
    store.begin_session(b, session(3), OPERATOR, world.now).wait().unwrap();
    store.create_link(a, [9; 32], world.now).wait().unwrap();
    let other = PasswordHash { tag: [3; 32], ..PASSWORD };
    store
        .set_user(
            a,
            None,
            other,
            Authority { password: Some(PASSWORD), ..Authority::session([2; 32]) },
            world.now,
        )
        .wait()
        .unwrap();
    let is_there = |n: u8| store.session(&[n; 32], world.now).wait().unwrap().is_some();
    assert_eq!([1, 2, 3].map(is_there), [false, true, true]);
    assert_eq!(store.link(&[9; 32], world.now).wait(), Ok(None));
    assert_eq!(store.user(a).wait().unwrap().unwrap().password, other);
    // Without an email address the first user cannot be created, and no address can be taken from another user.
    assert_eq!(store.set_user(b, None, PASSWORD, OPERATOR, world.now).wait(), Err(UserError::EmailMissing));
    let taken = store.set_user(b, Some("JOE@example.com".into()), PASSWORD, OPERATOR, world.now).wait();
    assert_eq!(taken, Err(UserError::EmailTaken));
    store.set_user(a, Some("new@example.com".into()), PASSWORD, OPERATOR, world.now).wait().unwrap();
    assert_eq!(store.user_of("joe@example.com").wait(), Ok(None));
    store.set_user(b, Some("joe@example.com".into()), PASSWORD, OPERATOR, world.now).wait().unwrap();
}

#[test]
fn sessions_end_by_themselves_and_are_few() {
    let mut world = World::new();
    let a = sign_up(&mut world, 1, "joe@example.com").unwrap();
    for n in 2..=SESSIONS_MAX as u8 + 5 {
        world.now += 1;
        world.begin_session(a, session(n), OPERATOR, world.now).wait().unwrap();
    }
    let sessions = world.sessions(a, world.now).wait().unwrap();
    assert_eq!(sessions.len(), SESSIONS_MAX);
    assert_eq!(sessions[0].agent, format!("browser {}", SESSIONS_MAX + 5), "the newest stay");
    assert_eq!(world.end_sessions(a, Some(sessions[0].hash)).wait(), Ok(SESSIONS_MAX as u64 - 1));
    let (hash, begun) = (sessions[0].hash, world.now);
    let other = world.account("other", "free");
    assert_eq!(world.end_session(other, hash).wait(), Ok(false), "of another account");
    for day in 1..30 {
        world.now = begun + day * DAY;
        assert!(world.session(&hash, world.now).wait().unwrap().is_some(), "{day}");
        world.session_used(hash, world.now).wait().unwrap();
        world.session_used(hash, world.now + SESSION_STEP_MS - 1).wait().unwrap();
        let seen = world.session(&hash, world.now).wait().unwrap().unwrap().seen_at;
        assert_eq!(seen, world.now, "written each few minutes alone");
        assert_eq!(world.purge().sessions, 0);
    }
    world.now = begun + SESSION_MS;
    assert_eq!(world.session(&hash, world.now).wait(), Ok(None));
    assert_eq!(world.purge().sessions, 1);
    assert_eq!(world.sessions(a, begun).wait(), Ok(vec![]));
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
    assert!(store.begin_session(nobody, session(3), OPERATOR, START).wait().is_err());
}

#[test]
fn days_count_charges_and_are_forgotten() {
    let (mut world, a) = World::with_account("scale");
    let rows = ["one@example.com", "two@example.com", "three@example.com"];
    let new = world.new_batch(a, &rows);
    let batch = world.create(new).unwrap().batch;
    assert_eq!(world.days(a, world.now).wait(), Ok(vec![]), "not before it is complete");
    let (found, none) = (RowOutcome::Verified(Reason::MailboxExists.into()), RowOutcome::Unanswered(None));
    world.answer(batch, &[(0, found.clone()), (1, found.clone()), (2, none)]);
    let days = world.days(a, world.now).wait().unwrap();
    let day = (START / DAY) as u32;
    let counts = DayCounts { day, singles: 0, rows: 2, reasons: vec![(Reason::MailboxExists, 2)] };
    assert_eq!(days, [counts], "what was given back is not counted");
    assert_eq!(world.batches(a, None, 9, world.now).wait().unwrap().batches[0].batch, batch);
    // Those of a test key are made up.
    let mode = BatchMode::Test(vec![Reason::MailboxExists]);
    let of_test_key = NewBatch { mode, ..world.new_batch(a, &["deliverable@example.com"]) };
    world.create(of_test_key).unwrap();
    assert_eq!(world.days(a, world.now).wait().unwrap()[0].rows, 2, "neither batches");
    super::lists::check_a_test_list(&mut world, a);
    assert_eq!(world.days(a, world.now).wait().unwrap()[0].rows, 2, "nor lists");
    for n in 1..=100 {
        world.now = START + n * DAY;
        let new = world.new_batch(a, &["more@example.com"]);
        let batch = world.create(new).unwrap();
        // Within a day of the last check it is a repeat, charged and complete at once.
        if !batch.completed {
            world.answer(batch.batch, &[(0, found.clone())]);
        }
    }
    let days = world.days(a, world.now).wait().unwrap();
    assert_eq!(days.len(), DAYS_KEPT as usize);
    assert_eq!(days[0].day, day + 100 + 1 - DAYS_KEPT);
    // They are removed from the table, and not only hidden.
    assert_eq!(world.days(a, START + DAY).wait().unwrap().len(), DAYS_KEPT as usize);
}
