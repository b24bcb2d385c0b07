//! Keys with scopes and an expiry.

use crate::world::{DAY, OPERATOR, World};
use store::*;

fn limited(world: &mut World, account: AccountId, scopes: &[KeyScope], life_ms: u64) -> NewKey {
    let scopes = KeyScopes::of(scopes.iter().copied()).unwrap();
    NewKey { scopes, expires_at: Some(world.now + life_ms), ..world.new_key(account, "limited") }
}

#[test]
fn scopes_and_expiry_stay_with_a_key() {
    let (mut world, id) = World::with_account("free");
    let new = limited(&mut world, id, &[KeyScope::Full, KeyScope::Account], DAY);
    let made = world.create_key(new.clone(), OPERATOR, world.now).wait().unwrap();
    assert_eq!((made.scopes, made.expires_at), (new.scopes, new.expires_at));
    let plain = world.new_key(id, "");
    world.create_key(plain.clone(), OPERATOR, world.now).wait().unwrap();
    let check = |world: &World| {
        let found = world.key_by_hash(&new.hash).unwrap();
        assert_eq!((found.scopes, found.expires_at, found.revoked), (new.scopes, new.expires_at, false));
        let found = world.key_by_hash(&plain.hash).unwrap();
        assert_eq!((found.scopes, found.expires_at), (KeyScopes::ALL, None));
        let listed = world.keys(id).wait().unwrap();
        assert_eq!(listed[0].scopes, new.scopes);
    };
    check(&world);
    // Each of these writes the row again.
    world.now += 120_000;
    world.key_used(new.id, world.now);
    check(&world);
    world.reopen();
    check(&world);
    let revoked = world.revoke_key(new.id, world.now).wait().unwrap();
    assert_eq!((revoked.scopes, revoked.expires_at), (new.scopes, new.expires_at));
    world.reopen();
    assert!(world.key_by_hash(&new.hash).unwrap().revoked);
}

#[test]
fn an_expiry_is_in_the_future_and_not_too_far_away() {
    let (mut world, id) = World::with_account("free");
    let now = world.now;
    for (at, fits) in [
        (0, false),
        (now - 1, false),
        (now, false),
        (now + 1, true),
        (now + KEY_LIFE_MS_MAX, true),
        (now + KEY_LIFE_MS_MAX + 1, false),
        (u64::MAX, false),
    ] {
        let new = NewKey { expires_at: Some(at), ..world.new_key(id, "") };
        let made = world.create_key(new, OPERATOR, now).wait().map(drop);
        assert_eq!(made, if fits { Ok(()) } else { Err(ChangeError::BadExpiry) }, "{at}");
    }
}

#[test]
fn expired_keys_make_room_and_are_forgotten_first() {
    let (mut world, id) = World::with_account("free");
    let first = limited(&mut world, id, &[KeyScope::Fast], 1);
    world.create_key(first.clone(), OPERATOR, world.now).wait().unwrap();
    let create_many = |world: &mut World, count: usize, life_ms: u64| {
        let new: Vec<_> = (0..count).map(|_| limited(world, id, &[KeyScope::Fast], life_ms)).collect();
        let made: Vec<_> = new.into_iter().map(|new| world.create_key(new, OPERATOR, world.now)).collect();
        made.into_iter().filter_map(|made| made.wait().ok()).count()
    };
    assert_eq!(create_many(&mut world, KEYS_MAX, DAY), KEYS_MAX - 1, "with the first one");
    world.now += 1;
    assert_eq!(create_many(&mut world, 2, DAY), 1, "the first one has expired");
    while world.keys(id).wait().unwrap().len() < KEYS_KEPT_MAX {
        world.now += DAY;
        assert_eq!(create_many(&mut world, KEYS_MAX, DAY), KEYS_MAX);
    }
    assert_eq!(world.key_by_hash(&first.hash), None);
    world.now += DAY;
    assert_eq!(create_many(&mut world, 1, DAY), 1);
    assert_eq!(world.keys(id).wait().unwrap().len(), KEYS_KEPT_MAX);
}
