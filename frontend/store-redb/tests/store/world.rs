//! A store with a clock that the test controls.

use crate::postgres;
use engine::proto::smtp::status::EnhancedCode;
use engine::proto::verdict::Scope;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use store::credits::Balance;
use store::webhooks::{
    Attempt, AttemptReport, ClaimNumber, ClaimedMessage, EventSet, NewWebhook, WebhookSecret,
};
use store::*;
use store_redb::StoreOptions;
use store_rules::Store;

pub const DAY: UnixMs = 24 * 60 * 60 * 1000;
/// 2027-01-31T09:00:00Z: a start with a day that later months may lack.
pub const START: UnixMs = 1_801_386_000_000;

/// The caller of tests that are not about callers.
pub const OPERATOR: Authority = Authority::OPERATOR;
pub const PASSWORD: PasswordHash =
    PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [1; 16], tag: [2; 32] };
pub const CLIENT: &str = "https://assistant.example/client.json";
pub const CALLBACK: &str = "https://assistant.example/callback";

/// An account on the plan `free`.
pub fn new_account(id: AccountId, name: &str) -> NewAccount {
    NewAccount { id, name: name.into(), plan: "free".into() }
}

/// The user of a new account, with a first session.
pub fn new_user(account: NewAccount, email: &str, session: NewSession) -> NewUser {
    NewUser { account, email: email.into(), password: PASSWORD, session }
}

/// The key with this number, which may do everything.
pub fn new_key(account: AccountId, number: u8) -> NewKey {
    NewKey {
        id: KeyId::new(START, number.into()),
        account,
        mode: KeyMode::Live,
        hash: [number; 32],
        last4: *b"wxyz",
        label: "first".into(),
        scopes: KeyScopes::ALL,
        expires_at: None,
    }
}

/// The endpoint with this number, which gets all events.
pub fn new_webhook(account: AccountId, number: u128) -> NewWebhook {
    NewWebhook {
        id: WebhookId::new(START, number),
        account,
        url: "https://hooks.example/in".into(),
        label: String::new(),
        events: EventSet::ALL,
        secret: WebhookSecret([7; 24]),
    }
}

/// The report of an attempt to send a claimed message.
pub fn attempt_report(
    claimed: &ClaimedMessage,
    claim: ClaimNumber,
    attempt: impl Into<Option<Attempt>>,
) -> AttemptReport {
    AttemptReport {
        claim,
        account: claimed.account,
        webhook: claimed.webhook,
        message: claimed.message,
        object: claimed.event.object,
        attempt: attempt.into(),
        jitter: 0,
        wants_next: false,
    }
}

/// A consent to [`CLIENT`].
pub fn new_connection(account: AccountId, now: UnixMs, random: u128) -> NewConnection {
    NewConnection {
        id: ConnectionId::new(now, random),
        account,
        client: CLIENT.into(),
        client_name: "An assistant".into(),
        redirect_uri: CALLBACK.into(),
        redirect_host: "assistant.example".into(),
        code: [50; 32],
        challenge: [51; 32],
        allowance: 3,
        expires_at: now + 2 * DAY,
    }
}

/// The redemption of the code of a consent, for the access token `[53; 32]`.
pub fn redemption(of: &NewConnection) -> Redemption {
    Redemption {
        code: of.code,
        client: of.client.clone(),
        redirect_uri: of.redirect_uri.clone(),
        challenge: of.challenge,
        family: [52; 32],
        next: NextTokens { access: [53; 32], refresh: [54; 32] },
    }
}

/// A kind of store, which can be opened again after a stop.
pub trait Kind {
    /// Opens it, and returns how many holds that voided.
    fn open(&self, plans: PlanTable, reuse: bool, now: UnixMs) -> Result<(Arc<Store>, u64), OpenError>;

    /// Opens all nodes of it, and returns how many holds that voided.
    fn open_all(&self, plans: PlanTable, reuse: bool, now: UnixMs) -> Result<(Nodes, u64), OpenError> {
        self.open(plans, reuse, now).map(|(store, voided)| (vec![store], voided))
    }
}

/// The nodes of one database; redb has one.
pub type Nodes = Vec<Arc<Store>>;

/// A store of redb in a temporary folder.
pub struct InFolder<P>(pub P);

impl<P: AsRef<Path>> Kind for InFolder<P> {
    fn open(&self, plans: PlanTable, reuse: bool, now: UnixMs) -> Result<(Arc<Store>, u64), OpenError> {
        let options = StoreOptions { reuse, ..StoreOptions::default() };
        let (store, opening) = store_redb::open(self.0.as_ref(), plans, options, now)?;
        Ok((store, opening.voided_holds))
    }
}

pub struct World {
    // Dropped in front of `kind`, which removes the schema.
    nodes: Nodes,
    /// The node that the next calls go to.
    pub node: usize,
    kind: Box<dyn Kind>,
    plans: PlanTable,
    /// Whether verdicts are shared between accounts, from the next opening on.
    pub reuse: bool,
    pub now: UnixMs,
    /// The source of ids, so that a failure can be repeated.
    next_id: u128,
}

/// The standard plans, and one that never resets.
pub fn plans() -> PlanTable {
    let mut plans: Vec<Plan> = PlanTable::standard().iter().cloned().collect();
    let mut endless = plans[0].clone();
    endless.id = "endless".into();
    endless.monthly_credits = 40;
    endless.resets = false;
    plans.push(endless);
    PlanTable::new(plans).unwrap()
}

/// The operations of the node that the next calls go to.
impl Deref for World {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.nodes[self.node]
    }
}

/// A basis with all its parts.
pub fn basis() -> Option<Arc<Basis>> {
    let status = Some(EnhancedCode::new(5, 1, 1));
    let reply = Some(BasisReply { scope: Scope::Recipient, code: 550, status });
    let host = Some("mx1.example.com".into());
    Some(Arc::new(Basis { rule: "unknown".into(), host, reply, observed_at: START - 7 }))
}

impl World {
    pub fn new() -> World {
        match postgres::url() {
            Some(url) => World::of(Box::new(postgres::InSchema::new(url))),
            None => World::of(Box::new(InFolder(tempfile::tempdir().unwrap()))),
        }
    }

    /// A world with an account on a plan.
    pub fn with_account(plan: &str) -> (World, AccountId) {
        let mut world = World::new();
        let id = world.account("a", plan);
        (world, id)
    }

    pub fn of(kind: Box<dyn Kind>) -> World {
        let mut world =
            World { nodes: Vec::new(), node: 0, kind, plans: plans(), reuse: true, now: START, next_id: 1 };
        world.reopen();
        world
    }

    pub fn store(&self) -> &Store {
        &self.nodes[self.node]
    }

    pub fn shared(&self) -> Arc<Store> {
        Arc::clone(&self.nodes[self.node])
    }

    /// The world with the next calls to this node.
    pub fn on(&mut self, node: usize) -> &mut World {
        self.node = node;
        self
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Arc<Store>] {
        &self.nodes
    }

    /// Stops the store and opens it again; returns how many holds that voided.
    pub fn reopen(&mut self) -> u64 {
        self.nodes.clear();
        let (nodes, voided) = self.kind.open_all(self.plans.clone(), self.reuse, self.now).unwrap();
        self.nodes = nodes;
        voided
    }

    pub fn reopen_with(&mut self, plans: PlanTable) -> Result<(), OpenError> {
        self.nodes.clear();
        self.nodes = self.kind.open_all(plans, self.reuse, self.now)?.0;
        Ok(())
    }

    /// The random bits of ids. They never equal the numbers of the store's own entries, like true random bits.
    pub fn random(&mut self) -> u128 {
        self.next_id += 1;
        1 << 61 | self.next_id
    }

    pub fn account(&mut self, name: &str, plan: &str) -> AccountId {
        let id = AccountId::new(self.now, self.random());
        let new = NewAccount { plan: plan.into(), ..new_account(id, name) };
        self.store().create_account(new, self.now).wait().unwrap().id
    }

    pub fn read(&self, id: AccountId) -> Account {
        self.store().account(id, self.now).wait().unwrap().unwrap()
    }

    pub fn entry_id(&mut self) -> EntryId {
        EntryId::new(self.now, self.random())
    }

    pub fn hold(&mut self, account: AccountId, credits: u64) -> Result<HoldRef, HoldError> {
        let hold = HoldRef { account, id: self.entry_id() };
        self.hold_as(hold, credits).map(|_| hold)
    }

    pub fn hold_as(&self, hold: HoldRef, credits: u64) -> Result<Balance, HoldError> {
        self.store().hold(HoldRequest { hold, credits }, self.now).wait()
    }

    pub fn settle(&self, hold: HoldRef) -> Result<Balance, SettleError> {
        self.store().settle(hold, Settlement::default(), self.now).wait()
    }

    pub fn void(&self, hold: HoldRef) -> Result<Balance, SettleError> {
        self.store().void(hold, self.now).wait()
    }

    /// Makes a charged check with this result.
    pub fn verify(&mut self, account: AccountId, address: &str, verdict: impl Into<Verdict>) {
        let hold = self.hold(account, 1).unwrap();
        let record = ResultRecord { address: self.store().hash_address(address), verdict: verdict.into() };
        self.store().settle(hold, Settlement { result: Some(record) }, self.now).wait().unwrap();
    }

    /// Begins a check of an address.
    pub fn begin(&mut self, account: AccountId, address: &str) -> Result<Begun, AttemptError> {
        let hold = HoldRef { account, id: self.entry_id() };
        let address = self.store().hash_address(address);
        let check = NewCheck { hold, connection: None, address, fair_use: None, by: Authority::OPERATOR };
        self.store().begin_check(check, self.now).wait()
    }

    /// Charges a shared verdict, which is there.
    pub fn reuse(
        &mut self,
        account: AccountId,
        address: &str,
        verdict: impl Into<Verdict>,
    ) -> Result<Balance, HoldError> {
        match self.begin(account, address) {
            Ok(Begun::Charged(result, balance)) => {
                assert_eq!(result.verdict, verdict.into());
                Ok(balance)
            }
            Err(AttemptError::Hold(error)) => Err(error),
            other => panic!("it is not shared: {other:?}"),
        }
    }

    pub fn known(&self, account: AccountId, address: &str) -> Known {
        let address = self.store().hash_address(address);
        let known = self.store().known(account, &address, self.now).wait().unwrap();
        let other = self.store().hash_address("nobody@else.example");
        let many = vec![(account, other), (account, address), (account, address)];
        let many = self.store().known_many(many, self.now).wait().unwrap();
        assert_eq!(many, [Known::Nothing, known.clone(), known.clone()]);
        known
    }

    pub fn new_batch(&mut self, account: AccountId, addresses: &[&str]) -> NewBatch {
        let row = |address: &&str| NewRow {
            email: (*address).into(),
            address: self.store().hash_address(&address.to_ascii_lowercase()),
        };
        let rows = addresses.iter().map(row).collect();
        let id = BatchId::new(self.now, self.random());
        NewBatch { id, account, name: None, rows, idempotency: None, mode: BatchMode::Live }
    }

    pub fn create(&self, new: NewBatch) -> Result<BatchCreated, BatchError> {
        self.store().create_batch(new, Authority::OPERATOR, self.now).wait()
    }

    pub fn batch(&mut self, account: AccountId, addresses: &[&str]) -> BatchId {
        let new = self.new_batch(account, addresses);
        self.create(new).unwrap().batch
    }

    pub fn answer(&self, batch: BatchId, answers: &[(u32, RowOutcome)]) -> Vec<BatchId> {
        let answer = |(index, outcome): &(u32, RowOutcome)| RowAnswer {
            batch,
            index: *index,
            outcome: outcome.clone(),
        };
        self.store().answer_rows(answers.iter().map(answer).collect(), self.now).wait().unwrap()
    }

    pub fn view(&self, account: AccountId, batch: BatchId) -> Option<BatchView> {
        self.store().batch(account, batch, self.now).wait().unwrap()
    }

    /// Waits until what a store does beside its writes is done. redb does it with them.
    pub fn let_chores_run(&self) {
        if postgres::url().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(2_500));
        }
    }

    /// Removes all expired data.
    pub fn purge(&self) -> Purged {
        let mut sum = Purged::default();
        loop {
            let purged = self.store().purge(self.now).wait().unwrap();
            sum.results += purged.results;
            sum.batches += purged.batches;
            sum.ended += purged.ended;
            sum.idempotency_keys += purged.idempotency_keys;
            sum.sessions += purged.sessions;
            sum.lists += purged.lists;
            sum.connections += purged.connections;
            sum.clients += purged.clients;
            sum.withdrawn += purged.withdrawn;
            sum.deliveries += purged.deliveries;
            sum.vault_keys += purged.vault_keys;
            if !purged.more {
                return sum;
            }
        }
    }

    pub fn grant(&mut self, account: AccountId, credits: u64) -> Result<Account, ChangeError> {
        let grant = Grant { id: self.entry_id(), account, credits, note: "test".into() };
        self.store().grant(grant, self.now).wait()
    }

    pub fn set_plan(&self, id: AccountId, plan: &str) -> Result<Account, ChangeError> {
        self.store().set_plan(id, plan.into(), self.now).wait()
    }

    pub fn set_status(&self, id: AccountId, status: SubscriptionStatus) -> Account {
        self.store().set_status(id, status, self.now).wait().unwrap()
    }

    /// A key with any hash: the store does not know its source.
    pub fn new_key(&mut self, account: AccountId, label: &str) -> NewKey {
        let mut hash = [0; 32];
        hash[..16].copy_from_slice(&self.random().to_be_bytes());
        let id = KeyId::new(self.now, self.random());
        NewKey { id, hash, label: label.into(), ..new_key(account, 0) }
    }

    /// Checks the audit and the balance: plan credits and pack credits left, held, spent, expired.
    #[track_caller]
    pub fn check(&self, id: AccountId, expected: (u64, u64, u64, u64, u64)) {
        let balance = self.read(id).balance;
        let Balance { plan_left, pack_left, held, spent, expired, .. } = balance;
        assert_eq!((plan_left, pack_left, held, spent, expired), expected, "{balance:?}");
        self.check_sums();
    }

    #[track_caller]
    pub fn check_sums(&self) {
        assert_eq!(self.store().audit(None).wait().unwrap().faults, Vec::<String>::new());
        for account in self.store().accounts(None, usize::MAX, self.now).wait().unwrap() {
            assert!(account.balance.is_balanced(), "{account:?}");
        }
    }
}
