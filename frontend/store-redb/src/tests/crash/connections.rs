//! Crashes while assistants connect and spend. An attempt is counted if and only if its credit was held. Tokens that
//! were given out are valid, and connections that were ended remain ended.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// The answers before the crash.
#[derive(Default)]
pub(super) struct Told {
    /// Connections with tokens: the access token, and the number of answered attempts.
    connected: BTreeMap<ConnectionId, (SecretHash, u32)>,
    /// Connections whose end was answered, by their access tokens.
    ended: BTreeSet<SecretHash>,
    next: u128,
}

fn hash(number: u128) -> SecretHash {
    let mut hash = [0; 32];
    hash[..16].copy_from_slice(&number.to_le_bytes());
    hash
}

impl Told {
    fn next(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    fn secret(&mut self) -> SecretHash {
        hash(self.next())
    }

    fn connect(&mut self, store: &RedbStore, account: AccountId) {
        let id = ConnectionId::new(NOW, self.next());
        let (code, challenge) = (self.secret(), self.secret());
        let new = NewConnection {
            id,
            account,
            client: "https://a.example/c".into(),
            client_name: "a".into(),
            redirect_uri: "https://a.example/cb".into(),
            redirect_host: "a.example".into(),
            code,
            challenge,
            allowance: 3,
            expires_at: NOW + CONNECTION_MS_MAX,
        };
        if store.consent(new, Authority::OPERATOR, NOW).wait().is_err() {
            return;
        }
        let next = NextTokens { access: self.secret(), refresh: self.secret() };
        let redemption = Redemption {
            code,
            client: "https://a.example/c".into(),
            redirect_uri: "https://a.example/cb".into(),
            challenge,
            family: self.secret(),
            next,
        };
        if store.redeem(redemption, NOW).wait().is_ok() {
            self.connected.insert(id, (next.access, 0));
        }
    }

    /// Makes more attempts at once than allowed; some of their holds are settled, others remain.
    fn attempt(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng) {
        let ids: Vec<ConnectionId> = self.connected.keys().copied().collect();
        let mut begun = Vec::new();
        for id in ids {
            for _ in 0..rng.u8(0..3) {
                let hold = HoldRef { account, id: EntryId::new(NOW, self.next()) };
                let address = store.hash_address(&hold.id.to_string());
                let check =
                    NewCheck { hold, connection: Some(id), address, fair_use: None, by: Authority::OPERATOR };
                begun.push((id, hold, store.begin_check(check, NOW)));
            }
        }
        for (id, hold, pending) in begun {
            if pending.wait().is_ok() {
                self.connected.get_mut(&id).unwrap().1 += 1;
                if rng.bool() {
                    let _ = store.settle(hold, Settlement::default(), NOW).wait();
                }
            }
        }
    }

    /// Ends a connection without attempts, so that all attempts can still be counted.
    fn end_one(&mut self, store: &RedbStore, account: AccountId) {
        let all = store.connections(account, NOW).wait().unwrap();
        let Some(unused) = all.into_iter().find(|found| found.used == 0) else { return };
        if store.end_connection(account, unused.id).wait().is_ok()
            && let Some((access, _)) = self.connected.remove(&unused.id)
        {
            self.ended.insert(access);
        }
    }
}

impl Load for Told {
    const ROUNDS: u32 = 80;
    const SEED: u64 = SEED + 2;

    fn load(&mut self, store: &RedbStore, account: AccountId, rng: &mut fastrand::Rng) {
        for _ in 0..rng.u32(1..6) {
            self.connect(store, account);
            self.attempt(store, account, rng);
            if rng.u8(0..4) == 0 {
                self.end_one(store, account);
            }
        }
    }

    fn check(&mut self, store: &RedbStore, account: AccountId) {
        let found = store.connections(account, NOW).wait().unwrap();
        let used: u32 = found.iter().map(|found| found.used).sum();
        let entries = store.entries(account, usize::MAX).wait().unwrap();
        let held = |kind| matches!(kind, EntryKind::Settled | EntryKind::Voided);
        let held = entries.iter().filter(|entry| held(entry.kind)).count();
        assert_eq!(used as usize, held, "an attempt without its credit, or a credit without its attempt");
        for connection in &found {
            assert!(connection.used <= connection.allowance, "{connection:?}");
        }
        // An end that was not answered may have happened.
        let known: BTreeMap<_, _> = found.iter().map(|found| (found.id, found.used)).collect();
        self.connected.retain(|id, (access, answered)| {
            let now = known.get(id).copied();
            assert!(now.is_some() || *answered == 0, "a connection that nobody ended is gone");
            assert!(now.is_none_or(|used| used >= *answered), "an attempt that was answered is forgotten");
            let holder = store.connection_of(access, NOW).wait().unwrap().map(|found| found.id);
            assert_eq!(holder, now.map(|_| *id), "its token is good as long as it is there");
            now.is_some()
        });
        for access in &self.ended {
            assert_eq!(store.connection_of(access, NOW).wait().unwrap(), None, "what was ended is back");
        }
    }
}

fn survive_connected(crash: Crash) {
    let told: Told = crash_often(crash);
    let attempts: u32 = told.connected.values().map(|(_, answered)| answered).sum();
    assert!(attempts > 20, "only {attempts} attempts were answered");
}

#[test]
fn a_killed_process_counts_every_attempt_with_its_credit() {
    survive_connected(Crash::Kill);
}

#[test]
fn lost_power_counts_every_attempt_with_its_credit() {
    survive_connected(Crash::PowerLoss);
}
