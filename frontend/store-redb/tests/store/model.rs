//! Random operations against a model without sums: it keeps every grant and hold, and derives from them what the store
//! counts incrementally.
//!
//! With two nodes on PostgreSQL, each operation goes to one of them. 1,000 cases:
//! `MAILPROBE_TEST_MODEL_CASES=1000` with the command in `postgres.rs` and the filter `two_nodes_do`.

mod kept;

use crate::postgres;
use crate::world::{DAY, START, World, basis, plans};
use api::{Reason, UnverifiableCause};
use kept::Kept;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use store::credits::calendar::period_start;
use store::*;

#[derive(Debug, Clone)]
enum Operation {
    Create {
        plan: usize,
    },
    Of {
        account: usize,
        change: Change,
    },
    Settle {
        hold: usize,
    },
    Void {
        hold: usize,
    },
    /// A withdrawal of the evidence of one of few hosts.
    Withdraw {
        evidence: u64,
    },
    /// Answers to rows of one of the last batches, with or without a verdict.
    Answer {
        batch: usize,
        rows: Vec<(usize, RowOutcome)>,
    },
    Purge,
    Pass {
        ms: UnixMs,
    },
    Reopen,
}

/// What happens to one account.
#[derive(Debug, Clone)]
enum Change {
    Plan(usize),
    Status(SubscriptionStatus),
    Cancel(bool),
    Grant(u64),
    Hold(u64),
    /// A check of one of few addresses, with this result.
    Verify(usize, Verdict),
    /// A charge for a shared verdict on an address, if there is one.
    Reuse(usize),
    /// A batch of these addresses, with one of few idempotency keys or none.
    Batch(Vec<usize>, Option<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let status = prop::sample::select(SubscriptionStatus::ALL.to_vec());
    let credits = prop_oneof![1..5u64, 1..120u64, 1..6_000u64];
    prop_oneof![
        2 => (0..5usize).prop_map(Change::Plan),
        2 => status.prop_map(Change::Status),
        1 => any::<bool>().prop_map(Change::Cancel),
        2 => (1..200u64).prop_map(Change::Grant),
        8 => credits.prop_map(Change::Hold),
        3 => (0..ADDRESSES, verdict()).prop_map(|(address, verdict)| Change::Verify(address, verdict)),
        3 => (0..ADDRESSES).prop_map(Change::Reuse),
        5 => (vec(0..ADDRESSES, 0..6), prop::option::of(0..3u8))
            .prop_map(|(addresses, key)| Change::Batch(addresses, key)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        1 => (0..5usize).prop_map(|plan| Operation::Create { plan }),
        26 => (0..3usize, change()).prop_map(|(account, change)| Operation::Of { account, change }),
        5 => (0..40usize).prop_map(|hold| Operation::Settle { hold }),
        4 => (0..40usize).prop_map(|hold| Operation::Void { hold }),
        1 => (0..HOSTS).prop_map(|evidence| Operation::Withdraw { evidence }),
        5 => (0..3usize, vec((0..7usize, outcome()), 0..8))
            .prop_map(|(batch, rows)| Operation::Answer { batch, rows }),
        1 => Just(Operation::Purge),
        // The steps of a day and of a week meet the limits exactly.
        3 => prop::sample::select(vec![1, DAY - 1, DAY, 6 * DAY, 7 * DAY - 1, 7 * DAY])
            .prop_map(|ms| Operation::Pass { ms }),
        2 => prop_oneof![0..DAY, 0..75 * DAY, Just(200 * DAY)].prop_map(|ms| Operation::Pass { ms }),
        1 => Just(Operation::Reopen),
    ]
}

/// So few that they collide.
const ADDRESSES: usize = 4;
const HOSTS: u64 = 3;

fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec![Reason::MailboxExists, Reason::MailboxNotFound, Reason::CatchAll])
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let causes = [UnverifiableCause::Greylisted, UnverifiableCause::RefusesMachine];
    let unverifiable = prop::option::of(prop::sample::select(causes.to_vec()))
        .prop_map(|cause| Verdict { cause, ..Reason::Unverifiable.into() });
    let verdict = prop_oneof![3 => reason().prop_map(Verdict::from), 1 => unverifiable];
    (verdict, prop::option::of(0..HOSTS), any::<bool>()).prop_map(|(verdict, evidence, has_basis)| Verdict {
        evidence,
        basis: basis().filter(|_| has_basis),
        ..verdict
    })
}

fn outcome() -> impl Strategy<Value = RowOutcome> {
    prop_oneof![
        4 => verdict().prop_map(RowOutcome::Verified),
        1 => verdict().prop_map(RowOutcome::Repeated),
        1 => Just(RowOutcome::Unanswered(None)),
        1 => Just(RowOutcome::Unanswered(Some(UnverifiableCause::RefusalBudget))),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Settled,
    Voided,
}

#[derive(Debug)]
struct Hold {
    hold: HoldRef,
    account: usize,
    plan: u64,
    pack: u64,
    period: u32,
    end: End,
    /// Whether it belongs to a batch: opening the store does not void it, and its batch ends it.
    of_batch: bool,
}

#[derive(Debug)]
struct Modeled {
    id: AccountId,
    start: UnixMs,
    plan: Plan,
    status: SubscriptionStatus,
    cancel: bool,
    period: u32,
    /// `None` before this period has granted its credits.
    allowance: Option<u64>,
    packs: u64,
}

#[derive(Default)]
struct Model {
    accounts: Vec<Modeled>,
    /// The holds, including those of batches.
    holds: Vec<Hold>,
    kept: Kept,
}

impl Modeled {
    /// Moves through the periods one after the other.
    fn pass(&mut self, now: UnixMs) {
        while self.plan.resets && period_start(self.start, self.period + 1) <= now {
            self.period += 1;
            if self.cancel {
                self.status = SubscriptionStatus::Canceled;
                self.cancel = false;
            }
            self.allowance = self.status.is_usable().then_some(self.plan.monthly_credits);
        }
    }
}

impl Model {
    fn sum(&self, account: usize, credits: impl Fn(&Hold) -> u64) -> u64 {
        self.holds.iter().filter(|hold| hold.account == account).map(credits).sum()
    }

    fn plan_left(&self, account: usize) -> u64 {
        let now = self.accounts[account].period;
        let used = self
            .sum(account, |hold| if hold.period == now && hold.end != End::Voided { hold.plan } else { 0 });
        self.accounts[account].allowance.unwrap_or(0).saturating_sub(used)
    }

    fn pack_left(&self, account: usize) -> u64 {
        let used = self.sum(account, |hold| if hold.end == End::Voided { 0 } else { hold.pack });
        self.accounts[account].packs - used
    }

    fn available(&self, account: usize) -> u64 {
        self.plan_left(account) + self.pack_left(account)
    }

    fn with_end(&self, account: usize, end: End) -> u64 {
        self.sum(account, |hold| if hold.end == end { hold.plan + hold.pack } else { 0 })
    }

    fn hold(&mut self, account: usize, credits: u64, hold: HoldRef) -> Result<u64, HoldError> {
        let (status, available) = (self.accounts[account].status, self.available(account));
        if !status.is_usable() {
            return Err(HoldError::Inactive { status, available });
        }
        if credits > available {
            return Err(HoldError::Insufficient { available });
        }
        let plan = credits.min(self.plan_left(account));
        let period = self.accounts[account].period;
        self.holds.push(Hold {
            hold,
            account,
            plan,
            pack: credits - plan,
            period,
            end: End::Open,
            of_batch: false,
        });
        Ok(self.available(account))
    }

    fn end(&mut self, hold: usize, end: End) -> Result<u64, SettleError> {
        match self.holds[hold].end {
            End::Settled => Err(SettleError::AlreadySettled),
            End::Voided => Err(SettleError::AlreadyVoided),
            End::Open => {
                self.holds[hold].end = end;
                Ok(self.available(self.holds[hold].account))
            }
        }
    }
}

struct Run {
    world: World,
    model: Model,
    plans: Vec<Plan>,
}

impl Run {
    fn step(&mut self, operation: Operation) {
        for account in &mut self.model.accounts {
            account.pass(self.world.now);
        }
        match operation {
            Operation::Create { plan } => self.create(plan),
            Operation::Of { .. } if self.model.accounts.is_empty() => {}
            Operation::Of { account, change } => self.change(account % self.model.accounts.len(), change),
            Operation::Settle { hold } => self.end(hold, End::Settled),
            Operation::Void { hold } => self.end(hold, End::Voided),
            Operation::Withdraw { evidence } => self.withdraw(evidence),
            Operation::Answer { batch, rows } => self.answer(batch, &rows),
            Operation::Purge => self.purge(),
            Operation::Pass { ms } => self.world.now += ms,
            Operation::Reopen => self.reopen(),
        }
    }

    fn change(&mut self, account: usize, change: Change) {
        match change {
            Change::Plan(plan) => self.set_plan(account, plan),
            Change::Status(status) => self.set_status(account, status),
            Change::Cancel(cancel) => self.cancel(account, cancel),
            Change::Grant(credits) => {
                self.world.grant(self.model.accounts[account].id, credits).unwrap();
                self.model.accounts[account].packs += credits;
            }
            Change::Hold(credits) => self.hold(account, credits),
            Change::Verify(address, verdict) => self.verify(account, address, verdict),
            Change::Reuse(address) => self.reuse(account, address),
            Change::Batch(addresses, key) => self.batch(account, &addresses, key),
        }
    }

    fn create(&mut self, plan: usize) {
        if self.model.accounts.len() == 3 {
            return;
        }
        let plan = self.plans[plan].clone();
        let id = self.world.account(&format!("n{}", self.model.accounts.len()), &plan.id);
        self.model.accounts.push(Modeled {
            id,
            start: self.world.now,
            allowance: Some(plan.monthly_credits),
            plan,
            status: SubscriptionStatus::Active,
            cancel: false,
            period: 0,
            packs: 0,
        });
    }

    fn set_plan(&mut self, account: usize, plan: usize) {
        let plan = self.plans[plan].clone();
        let modeled = &mut self.model.accounts[account];
        self.world.set_plan(modeled.id, &plan.id).unwrap();
        if modeled.cancel && !plan.resets {
            (modeled.cancel, modeled.status) = (false, SubscriptionStatus::Canceled);
        }
        modeled.allowance = modeled.allowance.map(|_| plan.monthly_credits);
        modeled.plan = plan;
        modeled.pass(self.world.now);
    }

    fn set_status(&mut self, account: usize, status: SubscriptionStatus) {
        let modeled = &mut self.model.accounts[account];
        self.world.set_status(modeled.id, status);
        modeled.status = status;
        if status.is_usable() {
            modeled.allowance.get_or_insert(modeled.plan.monthly_credits);
        }
    }

    fn cancel(&mut self, account: usize, cancel: bool) {
        let modeled = &mut self.model.accounts[account];
        let (id, now) = (modeled.id, self.world.now);
        self.world.set_cancel_at_period_end(id, cancel, now).wait().unwrap();
        modeled.cancel = cancel && modeled.plan.resets;
        if cancel && !modeled.plan.resets {
            modeled.status = SubscriptionStatus::Canceled;
        }
    }

    fn hold(&mut self, account: usize, credits: u64) {
        let hold = HoldRef { account: self.model.accounts[account].id, id: self.world.entry_id() };
        let answered = self.world.hold_as(hold, credits).map(|balance| balance.available());
        assert_eq!(answered, self.model.hold(account, credits, hold));
    }

    fn end(&mut self, hold: usize, end: End) {
        if self.model.holds.is_empty() {
            return;
        }
        // One of the last holds, since older ones would rarely be selected twice.
        let hold = self.model.holds.len() - 1 - hold % self.model.holds.len();
        if self.model.holds[hold].of_batch {
            return;
        }
        let expected = self.model.end(hold, end);
        let hold = self.model.holds[hold].hold;
        let answered = if end == End::Settled { self.world.settle(hold) } else { self.world.void(hold) };
        // The ledger may have removed what ended more than 93 days after it was held.
        let forgotten = expected.is_err() && hold.id.0.made_at() + 93 * DAY <= self.world.now;
        if !(forgotten && answered == Err(SettleError::UnknownHold)) {
            assert_eq!(answered.map(|balance| balance.available()), expected);
        }
    }

    fn reopen(&mut self) {
        let open = self.model.holds.iter_mut().filter(|hold| hold.end == End::Open && !hold.of_batch);
        let voided = open.map(|hold| hold.end = End::Voided).count() as u64;
        let found = self.world.reopen();
        // Nodes end one after another. One that still runs may void the holds of one that has ended; then no opening counts
        // them. The comparison that follows shows that none is left.
        let is_right = if self.world.nodes().len() == 1 { found == voided } else { found <= voided };
        assert!(is_right, "{found} voided in place of {voided}");
        self.model.kept.open(self.world.now);
    }

    fn compare(&mut self) {
        for account in 0..self.model.accounts.len() {
            self.model.accounts[account].pass(self.world.now);
            let modeled = &self.model.accounts[account];
            let found = self.world.read(modeled.id);
            let end = modeled.plan.resets.then(|| period_start(modeled.start, modeled.period + 1));
            let at = (self.world.now, self.world.node);
            let modeled_now = (modeled.status, modeled.cancel);
            assert_eq!((found.status, found.cancel_at_period_end), modeled_now, "{found:?} {at:?} {end:?}");
            assert_eq!((&found.plan, found.period_end), (&modeled.plan.id, end));
            assert_eq!(found.balance.allowance, modeled.allowance.unwrap_or(0));
            assert_eq!(found.balance.plan_left, self.model.plan_left(account), "plan credits");
            assert_eq!(found.balance.pack_left, self.model.pack_left(account), "pack credits");
            assert_eq!(found.balance.held, self.model.with_end(account, End::Open), "held");
            assert_eq!(found.balance.spent, self.model.with_end(account, End::Settled), "spent");
        }
        self.compare_kept();
        self.world.check_sums();
    }
}

/// The number of cases: on PostgreSQL a case takes longer by far.
fn cases() -> u32 {
    match std::env::var("MAILPROBE_TEST_MODEL_CASES") {
        Ok(cases) => cases.parse().unwrap(),
        Err(_) if postgres::url().is_some() => 6,
        Err(_) => 48,
    }
}

/// The time of the model, for what nodes write by themselves: the holds of a node that has ended are voided by another one that
/// still runs, and a time long before that of the calls would move the period of the account.
static NODE_TIME: AtomicU64 = AtomicU64::new(START);

fn node_time() -> UnixMs {
    NODE_TIME.load(Ordering::Relaxed)
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() }
}

fn run_on(world: World, operations: Vec<(Operation, usize)>) {
    let mut run = Run { world, model: Model::default(), plans: plans().iter().cloned().collect() };
    let nodes = run.world.nodes().len();
    for (operation, node) in operations {
        run.world.node = node % nodes;
        if nodes > 1 {
            NODE_TIME.store(run.world.now, Ordering::Relaxed);
        }
        run.step(operation);
        // What one node has written, the other reads.
        run.world.node = (node + 1) % nodes;
        run.compare();
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_store_does_what_the_model_does(operations in vec((operation(), Just(0)), 1..120)) {
        run_on(World::new(), operations);
    }

    #[test]
    fn two_nodes_do_what_the_model_does(operations in vec((operation(), 0..2usize), 1..120)) {
        if let Some(url) = postgres::url() {
            NODE_TIME.store(START, Ordering::Relaxed);
            let mut schema = postgres::InSchema::of_nodes(url, 2);
            schema.clock = node_time;
            run_on(World::of(Box::new(schema)), operations);
        }
    }
}
