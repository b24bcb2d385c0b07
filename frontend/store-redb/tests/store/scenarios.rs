//! The scenarios of `scenarios.txt`, each in a store of its own. The head of that file describes its lines.

use crate::world::{DAY, OPERATOR, START, World};
use api::Reason;
use std::collections::BTreeMap;
use std::fmt::Debug;
use store::RowOutcome::{Repeated, Reused, Unanswered, Verified};
use store::SubscriptionStatus::{Active, Canceled, PastDue, Paused};
use store::*;

struct Scenario {
    world: World,
    accounts: BTreeMap<String, AccountId>,
    holds: BTreeMap<String, HoldRef>,
    batches: BTreeMap<String, NewBatch>,
    /// The idempotency key of the next batch.
    key: Option<Idempotency>,
}

/// What a line says in the end: a text, or the error.
type Told = Result<String, String>;

fn error(error: impl Debug) -> String {
    format!("{error:?}")
}

fn number<T: std::str::FromStr<Err: Debug>>(word: &str) -> T {
    word.parse().unwrap()
}

/// `7d-1` is a millisecond less than seven days after the start.
fn time(word: &str) -> UnixMs {
    let (days, more) = word.split_once('d').unwrap();
    let more: i64 = if more.is_empty() { 0 } else { number(more) };
    START.saturating_add_signed(number::<i64>(days) * DAY as i64 + more)
}

fn shown_time(at: UnixMs) -> String {
    let (days, more) = ((at - START) / DAY, (at - START) % DAY);
    if more == 0 { format!("{days}d") } else { format!("{days}d+{more}") }
}

fn reason(word: &str) -> Reason {
    Reason::ALL.into_iter().find(|reason| reason.as_str() == word).unwrap()
}

/// `catch_all/5` rests on the evidence 5.
fn verdict(word: &str) -> Verdict {
    let (word, evidence) = word.split_once('/').map_or((word, None), |(word, n)| (word, Some(number(n))));
    Verdict { evidence, ..reason(word).into() }
}

fn shown(result: StoredResult) -> String {
    let Verdict { reason, evidence, .. } = result.verdict;
    let word = reason.as_str().to_owned() + &evidence.map_or(String::new(), |number| format!("/{number}"));
    assert_eq!(result.verdict, verdict(&word));
    format!("{word} {}", shown_time(result.checked_at))
}

fn outcome(word: &str) -> (u32, RowOutcome) {
    let (index, word) = word.split_once(':').unwrap();
    let outcome = match word.split_once(':') {
        Some(("repeated", word)) => Repeated(verdict(word)),
        Some(("reused", word)) => Reused(verdict(word)),
        _ if word == "none" => Unanswered(None),
        _ => Verified(verdict(word)),
    };
    (number(index), outcome)
}

fn list<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    if all.is_empty() { "none".into() } else { all.join(" ") }
}

impl Scenario {
    fn new() -> Scenario {
        let (accounts, holds, batches, key) = Default::default();
        Scenario { world: World::new(), accounts, holds, batches, key }
    }

    fn id(&self, name: &str) -> AccountId {
        if name == "nobody" { AccountId::new(START, 999) } else { self.accounts[name] }
    }

    fn batch(&self, name: &str) -> BatchId {
        self.batches.get(name).map_or(BatchId::new(START, 999), |new| new.id)
    }

    fn batch_names(&self, ids: &[BatchId]) -> String {
        list(self.batches.iter().filter(|(_, new)| ids.contains(&new.id)).map(|(name, _)| name))
    }

    fn create(&mut self, name: &str, account: &str, emails: &[&str], mode: BatchMode) -> Told {
        let idempotency = self.key.take();
        let new = NewBatch { mode, idempotency, ..self.world.new_batch(self.id(account), emails) };
        self.batches.insert(name.into(), new);
        self.create_again(name)
    }

    fn create_again(&mut self, name: &str) -> Told {
        let new = self.batches[name].clone();
        let made = self.world.create(new.clone()).map_err(error)?;
        assert_eq!((made.submitted as usize, made.replayed), (new.rows.len(), made.batch != new.id));
        let state = if made.completed { "complete" } else { "open" };
        let left = made.credits_remaining.map_or("free".into(), |left| left.to_string());
        let replayed = made.replayed.then(|| format!(" as {}", self.batch_names(&[made.batch])));
        Ok(format!("{state} {left}{}", replayed.unwrap_or_default()))
    }

    fn line(&mut self, words: &[&str]) -> Told {
        let left = |balance: store::credits::Balance| balance.available().to_string();
        match *words {
            ["at", at] => self.world.now = time(at),
            ["account", name, plan] => {
                let id = self.world.account(name, plan);
                self.accounts.insert(name.into(), id);
            }
            ["restart"] => return Ok(format!("{} voided", self.world.reopen())),
            ["no-reuse"] => self.world.reuse = false,
            ["credits", name] => {
                let balance = self.world.read(self.id(name)).balance;
                let credits::Balance { plan_left, pack_left, held, spent, expired, .. } = balance;
                self.world.check_sums();
                return Ok(list([plan_left, pack_left, held, spent, expired]));
            }
            ["show", name] => {
                let account = self.world.read(self.id(name));
                let ends = account.period_end.map_or("never".into(), shown_time);
                let cancels = if account.cancel_at_period_end { " cancels" } else { "" };
                let Account { plan, status, balance, .. } = account;
                let (left, all) = (left(balance), balance.allowance);
                return Ok(format!("{plan} {status:?}{cancels} {left} of {all} until {ends}"));
            }
            ["entries", name, most] => {
                let entries = self.world.entries(self.id(name), number(most)).wait().unwrap();
                let told = entries.iter().map(|e| {
                    let hold = self.holds.iter().find(|(_, hold)| hold.id == e.id);
                    let hold = hold.map_or(String::new(), |(name, _)| format!(" {name}"));
                    let note = if e.kind == EntryKind::Pack { &e.note } else { "" };
                    format!("{:?}{hold} {} {} {} {note}", e.kind, e.granted, e.spent, e.expired)
                });
                return Ok(told.map(|told| told.trim_end().to_owned()).collect::<Vec<_>>().join(", "));
            }
            ["name", hold, account] => {
                let id = self.world.entry_id();
                self.holds.insert(hold.into(), HoldRef { account: self.id(account), id });
            }
            ["copy", hold, from, account] => {
                let id = self.holds[from].id;
                self.holds.insert(hold.into(), HoldRef { account: self.id(account), id });
            }
            ["hold", hold, credits] => {
                return self.world.hold_as(self.holds[hold], number(credits)).map(left).map_err(error);
            }
            ["hold", hold, account, credits] => {
                self.line(&["name", hold, account])?;
                return self.line(&["hold", hold, credits]);
            }
            ["settle", hold] => return self.world.settle(self.holds[hold]).map(left).map_err(error),
            ["settle", hold, address, found] => {
                let (address, verdict) = (self.world.hash_address(address), verdict(found));
                let with = Settlement { result: Some(ResultRecord { address, verdict }) };
                let settled = self.world.store().settle(self.holds[hold], with, self.world.now);
                return settled.wait().map(left).map_err(error);
            }
            ["void", hold] => return self.world.void(self.holds[hold]).map(left).map_err(error),
            ["check", hold, address] => {
                let (hold, address) = (self.holds[hold], self.world.hash_address(address));
                let check = NewCheck { hold, connection: None, address, fair_use: None, by: OPERATOR };
                self.world.begin_check(check, self.world.now).wait().map_err(error)?;
            }
            ["grant", name, credits] => {
                let id = self.id(name);
                self.world.grant(id, number(credits)).map_err(error)?;
            }
            ["grant", hold, name, credits, ref note @ ..] => {
                let (id, account) = (self.holds[hold].id, self.id(name));
                let grant = Grant { id, account, credits: number(credits), note: note.join(" ") };
                self.world.store().grant(grant, self.world.now).wait().map_err(error)?;
            }
            ["plan", name, plan] => drop(self.world.set_plan(self.id(name), plan).map_err(error)?),
            ["status", name, status] => {
                let all = [Active, Canceled, PastDue, Paused];
                let status = all.into_iter().find(|found| error(found) == status).unwrap();
                drop(self.world.set_status(self.id(name), status));
            }
            ["cancel", name, cancel] => {
                let (id, now) = (self.id(name), self.world.now);
                drop(self.world.set_cancel_at_period_end(id, number(cancel), now).wait().unwrap());
            }
            ["verify", name, address, found] => {
                let id = self.id(name);
                self.world.verify(id, address, verdict(found));
            }
            ["reuse", name, address, found] => {
                let id = self.id(name);
                return self.world.reuse(id, address, verdict(found)).map(left).map_err(error);
            }
            ["known", name, address] => {
                return Ok(match self.world.known(self.id(name), address) {
                    Known::Own(result) => format!("own {}", shown(result)),
                    Known::Shared(result) => format!("shared {}", shown(result)),
                    Known::Nothing => "nothing".into(),
                });
            }
            ["begin", name, address] => {
                let id = self.id(name);
                return Ok(match self.world.begin(id, address).map_err(error)? {
                    Begun::Held(balance) => format!("held {}", left(balance)),
                    Begun::Own(result) => format!("own {}", shown(result)),
                    Begun::Charged(result, balance) => format!("charged {} {}", shown(result), left(balance)),
                    other => error(other),
                });
            }
            ["withdraw", at, ref evidence @ ..] => {
                let evidence = evidence.iter().map(|word| number(word)).collect();
                self.world.withdraw(evidence, time(at)).wait().unwrap();
            }
            ["purge", ref kinds @ ..] => {
                let purged = self.world.purge();
                return Ok(list(kinds.iter().map(|kind| match *kind {
                    "results" => purged.results,
                    "batches" => purged.batches,
                    "keys" => purged.idempotency_keys,
                    "ended" => purged.ended,
                    "withdrawn" => purged.withdrawn,
                    _ => panic!("no such kind: {kind}"),
                })));
            }
            ["batch", batch, name, ref emails @ ..] => {
                return self.create(batch, name, emails, BatchMode::Live);
            }
            ["test", batch, name, reasons, ref emails @ ..] => {
                let reasons = reasons.split(',').filter(|word| *word != "none").map(reason).collect();
                return self.create(batch, name, emails, BatchMode::Test(reasons));
            }
            ["again", batch] => return self.create_again(batch),
            ["key", key, body] => self.key = Some(Idempotency { key: key.into(), body: [number(body); 32] }),
            ["answer", batch, ref outcomes @ ..] => {
                let outcomes: Vec<_> = outcomes.iter().map(|word| outcome(word)).collect();
                return Ok(self.batch_names(&self.world.answer(self.batch(batch), &outcomes)));
            }
            ["view", batch, name] => {
                let Some(view) = self.world.view(self.id(name), self.batch(batch)) else {
                    return Ok("none".into());
                };
                assert_eq!(view.completed, view.results.is_some());
                let reasons = view.results.unwrap_or_default();
                let reasons = list(reasons.iter().map(|(_, reason)| reason.as_str()));
                return Ok(format!("{} of {}: {reasons}", view.checked, view.total));
            }
            ["open"] => {
                let open = self.world.open_batches().wait().unwrap();
                return Ok(self.batch_names(&open.iter().map(|open| open.batch).collect::<Vec<_>>()));
            }
            ["held"] => return Ok(self.world.audit(None).wait().unwrap().open_holds.to_string()),
            ["left", batch] => {
                let left = self.world.unanswered(self.batch(batch)).wait().unwrap();
                return Ok(list(left.iter().map(|row| row.index)));
            }
            _ => panic!("no such line: {words:?}"),
        }
        Ok(String::new())
    }
}

#[test]
fn all_scenarios_end_as_written() {
    let (mut title, mut scenario) = ("", Scenario::new());
    for (line, at) in include_str!("scenarios.txt").lines().zip(1..) {
        if let Some(new) = line.strip_prefix("= ") {
            (title, scenario) = (new, Scenario::new());
        } else if !line.is_empty() && !line.starts_with('#') {
            let (words, expected) = line.split_once(" -> ").map_or((line, None), |(l, e)| (l, Some(e)));
            let told = scenario.line(&words.split(' ').collect::<Vec<_>>());
            let fits =
                expected.map_or(told.is_ok(), |expected| told.as_deref().unwrap_or_else(|e| e) == expected);
            assert!(fits, "line {at}, {title}: {line}: {told:?}");
        }
    }
}
