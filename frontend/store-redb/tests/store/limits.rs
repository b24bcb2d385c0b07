//! The terms of accounts, and the counters over a restart.

use crate::world::{START, World, plans};
use store::rate_limit::{Bucket, Kept, Limits, Overrides, Row, Step, Window, WindowId};
use store::*;

#[test]
fn an_account_s_terms_are_its_plan_s_and_its_own() {
    let mut world = World::new();
    let (one, other) = (world.account("one", "free"), world.account("other", "free"));
    let own = Overrides { fast: Some(7), list: Some(9), ..Overrides::default() };
    assert_eq!(world.set_overrides(one, false, own).wait(), Ok(own));
    let check = |world: &World| {
        let terms = world.terms(one).unwrap();
        assert_eq!((terms.limits.fast, terms.limits.batch, terms.overrides), (7, 30, own));
        assert!(terms.batches_allowed);
        assert_eq!(world.terms(other).unwrap().limits, Limits::default());
    };
    check(&world);
    world.reopen();
    check(&world);

    // A changed plan in the configuration, and a change of plan.
    let mut changed: Vec<Plan> = plans().iter().cloned().collect();
    for plan in &mut changed {
        plan.batches_allowed = plan.id != "free";
        plan.limits.batch = 5;
    }
    world.reopen_with(PlanTable::new(changed).unwrap()).unwrap();
    let terms = world.terms(one).unwrap();
    assert_eq!((terms.limits.fast, terms.limits.batch, terms.batches_allowed), (7, 5, false));
    world.set_plan(one, "growth").unwrap();
    assert!(world.terms(one).unwrap().batches_allowed);

    assert_eq!(world.set_overrides(one, true, Overrides::default()).wait(), Ok(Overrides::default()));
    assert_eq!(world.terms(one).unwrap().limits.fast, 600);
    let zero = Overrides { poll: Some(0), ..own };
    assert_eq!(world.set_overrides(one, false, zero).wait(), Err(ChangeError::BadLimit));
    let nobody = AccountId::new(START, u128::MAX);
    assert_eq!(world.set_overrides(nobody, false, own).wait(), Err(ChangeError::UnknownAccount));
    assert_eq!(world.terms(nobody), None);
}

#[test]
fn counters_are_kept_until_they_are_empty() {
    let mut world = World::new();
    let steps = [(START, START + 999, 600), (START + 1_200, START + 1_200, 1)];
    let steps = steps.map(|(began, last, count)| Step { began, last, count });
    let window = Window::from_steps(steps).unwrap();
    let key = KeyId::new(START, 1);
    let mut kept = Kept::default();
    for row in Row::ALL {
        kept.windows.insert(WindowId { key, row }, window.clone());
    }
    kept.fair_use.insert(AccountId::new(START, 2), Bucket { level: 1_500, at: START });
    world.keep_counters(kept.clone()).wait().unwrap();
    assert_eq!(world.kept_counters().wait().unwrap(), kept);
    world.reopen();
    assert_eq!(world.kept_counters().wait().unwrap(), kept);

    let mut changed = Kept::default();
    changed.windows.insert(WindowId { key, row: Row::Poll }, Window::default());
    changed.fair_use.insert(AccountId::new(START, 2), Bucket { level: 0, at: START });
    world.keep_counters(changed).wait().unwrap();
    let left = world.kept_counters().wait().unwrap();
    assert_eq!((left.windows.len(), left.fair_use.len()), (Row::ALL.len() - 1, 0));
}
