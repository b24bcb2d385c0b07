//! The scenarios of `scenarios.txt`, each in a store of its own. The head of that file describes its lines.

use crate::world::{DAY, OPERATOR, START, World, attempt_report, new_webhook};
use api::{Reason, UnverifiableCause, WaitCause};
use std::collections::BTreeMap;
use std::fmt::Debug;
use store::RowOutcome::{Repeated, Reused, Unanswered, Verified, Waits};
use store::SubscriptionStatus::{Active, Canceled, PastDue, Paused};
use store::webhooks::*;
use store::*;

struct Scenario {
    world: World,
    accounts: BTreeMap<String, AccountId>,
    holds: BTreeMap<String, HoldRef>,
    batches: BTreeMap<String, NewBatch>,
    lists: BTreeMap<String, List>,
    hooks: BTreeMap<String, WebhookId>,
    /// The messages, each with the name of the first line that has told of it.
    messages: BTreeMap<String, MessageId>,
    claims: BTreeMap<String, (ClaimNumber, ClaimedMessage)>,
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

/// `catch_all/5` rests on the evidence 5, and `unverifiable%Outage` has this cause.
fn verdict(word: &str) -> Verdict {
    let (word, cause) = word.split_once('%').map_or((word, None), |(word, found)| (word, Some(cause(found))));
    let (word, evidence) = word.split_once('/').map_or((word, None), |(word, n)| (word, Some(number(n))));
    Verdict { evidence, cause, ..reason(word).into() }
}

fn cause(word: &str) -> UnverifiableCause {
    *UnverifiableCause::ALL.iter().find(|cause| error(cause) == word).unwrap()
}

fn shown(result: StoredResult) -> String {
    let Verdict { reason, evidence, cause, .. } = result.verdict;
    let mut word =
        reason.as_str().to_owned() + &evidence.map_or(String::new(), |number| format!("/{number}"));
    word += &cause.map_or(String::new(), |cause| format!("%{cause:?}"));
    assert_eq!(result.verdict, verdict(&word));
    format!("{word} {}", shown_time(result.checked_at))
}

fn outcome(word: &str) -> (u32, RowOutcome) {
    let (index, word) = word.split_once(':').unwrap();
    let outcome = match word.split_once(':') {
        Some(("repeated", word)) => Repeated(verdict(word)),
        Some(("reused", word)) => Reused(verdict(word)),
        Some(("waits", word)) => {
            Waits(WaitCause::ALL.into_iter().find(|cause| error(cause) == word).unwrap())
        }
        _ if word == "none" => Unanswered(None),
        _ => word
            .strip_prefix("none%")
            .map_or_else(|| Verified(verdict(word)), |found| Unanswered(Some(cause(found)))),
    };
    (number(index), outcome)
}

/// The counts in the order of their words, and the causes.
fn sums(counts: &[(Reason, u64)], causes: &[(UnverifiableCause, u64)]) -> String {
    let counts: BTreeMap<_, _> = counts.iter().map(|(reason, count)| (reason.as_str(), count)).collect();
    let counts = counts.iter().map(|(reason, count)| format!("{reason}:{count}"));
    list(counts.chain(causes.iter().map(|(cause, count)| format!("{cause:?}:{count}"))))
}

fn waiting(rows: &[WaitingRows]) -> String {
    let told = rows.iter().map(|WaitingRows { cause, rows, created_at }| {
        format!("{cause:?}:{rows}:{}", shown_time(*created_at))
    });
    list(told)
}

fn shown_list(list: &List) -> String {
    let List { state, charged, done, why, counts, causes, .. } = list;
    let (answered, sums) = (list.answered(), sums(counts, causes));
    format!("{state:?} {why}[{sums}] {answered} answered, {charged} charged, {done} done")
}

fn list<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    if all.is_empty() { "none".into() } else { all.join(" ") }
}

fn joined(all: Vec<String>) -> String {
    if all.is_empty() { "nothing".into() } else { all.join(", ") }
}

impl Scenario {
    fn new() -> Scenario {
        let (accounts, holds, batches, key) = Default::default();
        let (lists, hooks, messages, claims) = Default::default();
        Scenario { world: World::new(), accounts, holds, batches, lists, hooks, messages, claims, key }
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
                    "deliveries" => purged.deliveries,
                    _ => panic!("no such kind: {kind}"),
                })));
            }
            // A batch of one row that is complete.
            ["complete", batch, name] => {
                self.line(&["batch", batch, name, "one@x.co"])?;
                self.line(&["answer", batch, "0:mailbox_exists"])?;
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
            _ => return self.webhook_line(words),
        }
        Ok(String::new())
    }

    fn hook_name(&self, id: WebhookId) -> String {
        list(self.hooks.iter().filter(|(_, hook)| **hook == id).map(|(name, _)| name))
    }

    fn event(&self, event: &Event) -> String {
        let object = match event.object {
            EventObject::Batch(id) => self.batch_names(&[id]),
            EventObject::Webhook(id) => self.hook_name(id),
            EventObject::List(id) => {
                list(self.lists.iter().filter(|(_, list)| list.id == id).map(|(name, _)| name))
            }
        };
        format!("{} {object}", event.kind.as_str())
    }

    /// Notes that a message was claimed, and tells of it: `as x` is a message that the line `x` told of, `like x` the same
    /// message with another content.
    fn claimed(&mut self, claim: &str, by: ClaimNumber, found: ClaimedMessage) -> String {
        let mut told = format!("{} {}", self.hook_name(found.webhook), self.event(&found.event));
        if let Some((first, _)) = self.messages.iter().find(|(_, id)| **id == found.message) {
            let same = |(_, one): &(_, ClaimedMessage)| one.message != found.message || *one == found;
            let word = if self.claims.values().all(same) { "as" } else { "like" };
            told += &format!(" {word} {first}");
        } else {
            self.messages.insert(claim.into(), found.message);
        }
        self.claims.insert(claim.into(), (by, found));
        told
    }

    fn webhook_line(&mut self, words: &[&str]) -> Told {
        let now = self.world.now;
        let kind = |word: &&str| EventKind::ALL.into_iter().find(|kind| kind.as_str() == *word).unwrap();
        match *words {
            ["hook", hook, name, ref events @ ..] => {
                let id = WebhookId::new(now, self.world.random());
                let id = *self.hooks.entry(hook.into()).or_insert(id);
                let events =
                    if events.is_empty() { EventSet::ALL } else { EventSet::of(events.iter().map(kind)) };
                let new = NewWebhook { id, events, label: "mine".into(), ..new_webhook(self.id(name), 0) };
                self.world.create_webhook(new, OPERATOR, now).wait().map_err(error)?;
            }
            ["change", hook, name, ref fields @ ..] => {
                let mut change = WebhookChange::default();
                for field in fields.chunks(2) {
                    match *field {
                        ["url", url] => change.url = Some(url.into()),
                        ["label", label] => change.label = Some(label.into()),
                        ["events", events] => change.events = Some(EventSet::of([kind(&events)])),
                        ["enabled", enabled] => change.enabled = Some(number(enabled)),
                        ["secret", secret] => change.secret = Some(WebhookSecret([number(secret); 24])),
                        _ => panic!("no such field: {field:?}"),
                    }
                }
                let (id, account) = (self.hooks[hook], self.id(name));
                let changed = self.world.change_webhook(account, id, change, OPERATOR, now).wait();
                assert!(changed.map_err(error)? == self.world.webhook(account, id).wait().unwrap().unwrap());
                return self.webhook_line(&["see", hook, name]);
            }
            [word @ ("see" | "fields"), hook, name] => {
                let Some(found) = self.world.webhook(self.id(name), self.hooks[hook]).wait().unwrap() else {
                    return Ok("none".into());
                };
                let Webhook {
                    url, label, events, created_at, health, waiting, missed, old_secret_until, ..
                } = found;
                if word == "fields" {
                    let kinds = list(events.kinds().map(EventKind::as_str));
                    return Ok(format!("{url} '{label}' {} {kinds}", shown_time(created_at)));
                }
                let since = health.failing_since.map(|at| format!(", failing since {}", shown_time(at)));
                let until = old_secret_until.map(|at| format!(", old secret until {}", shown_time(at)));
                let more = since.unwrap_or_default() + &until.unwrap_or_default();
                return Ok(format!("{:?}, {waiting} waiting, {missed} missed{more}", health.state));
            }
            ["hooks", name] => {
                let found = self.world.webhooks(self.id(name)).wait().unwrap();
                return Ok(list(found.iter().map(|hook| self.hook_name(hook.id))));
            }
            ["remove", hook, name] => {
                let removed = self.world.delete_webhook(self.id(name), self.hooks[hook]).wait();
                return Ok(removed.unwrap().to_string());
            }
            ["ping", message, hook, name] => {
                let hook = self.hooks.get(hook).map_or(WebhookId::new(START, 999), |hook| *hook);
                let id = self.world.test_webhook(self.id(name), hook, now).wait().map_err(error)?;
                self.messages.insert(message.into(), id);
            }
            ["due", at] => {
                return Ok(self.world.due_webhooks(None, 100, time(at)).wait().unwrap().len().to_string());
            }
            ["claim", claim] => return self.webhook_line(&["claim", claim, "1"]),
            ["claim", claim, by] => {
                let by = [number(by); 16];
                let due = self.world.due_webhooks(None, 100, now).wait().unwrap();
                let claimed = self.world.claim_webhooks(by, due, now).wait().unwrap();
                let told: Vec<_> = claimed.into_iter().map(|found| self.claimed(claim, by, found)).collect();
                return Ok(joined(told));
            }
            ["content", claim] => {
                let found = &self.claims[claim].1;
                let Event { total, checked, counts, .. } = &found.event;
                let counts =
                    list(counts.iter().map(|(reason, count)| format!("{}:{count}", reason.as_str())));
                let secrets = list(found.secrets.iter().map(|secret| secret.0[0]));
                let (at, url) = (shown_time(found.created_at), &found.url);
                return Ok(format!("{checked} of {total} {counts}, {at}, {url}, {secrets}"));
            }
            ["note", claim, result, ref next @ ..] => {
                let (by, claimed) = self.claims[claim].clone();
                let fault = AttemptFault::ALL.into_iter().find(|fault| fault.as_str() == result);
                let status = || AttemptResult::Status(number(result));
                let attempt = (result != "back").then(|| Attempt {
                    at: now,
                    took_ms: 3,
                    result: fault.map_or_else(status, AttemptResult::Failed),
                });
                let report =
                    AttemptReport { wants_next: !next.is_empty(), ..attempt_report(&claimed, by, attempt) };
                let found = self.world.note_attempt(report, now).wait().unwrap();
                let told = found.map(|found| self.claimed(next.first().unwrap(), by, found));
                return Ok(told.unwrap_or("nothing".into()));
            }
            ["log", hook, name] => {
                let log = self
                    .world
                    .deliveries(self.id(name), self.hooks[hook], None, 1000)
                    .wait()
                    .map_err(error)?;
                let told = log.iter().map(
                    |Delivery { message, event, state, attempts, next_at, created_at, .. }| {
                        let mut claims = self.claims.values().filter(|(_, one)| one.message == *message);
                        assert!(claims.all(|(_, one)| (&one.event, one.created_at) == (event, *created_at)));
                        let next = next_at.map_or(String::new(), |at| format!(" next {}", shown_time(at)));
                        format!("{} {state:?} {}{next}", self.event(event), attempts.len())
                    },
                );
                return Ok(joined(told.collect()));
            }
            _ => return self.list_line(words),
        }
        Ok(String::new())
    }

    /// Tells how a list has ended, which stands in the store.
    fn ended(&mut self, name: &str, ended: Option<CancelledList>) -> Told {
        let Some(ended) = ended else { return Ok("none".into()) };
        let told = format!("{}, ended {}", shown_list(&ended.list), self.batch_names(&ended.batches));
        self.lists.insert(name.into(), ended.list);
        Ok(told)
    }

    fn put(&self, list: &List, before: ListState) {
        assert_eq!(self.world.put_list(list, before, None, self.world.now).wait(), Ok(true));
    }

    fn list_line(&mut self, words: &[&str]) -> Told {
        let now = self.world.now;
        match *words {
            ["list", name, account, distinct] => {
                let id = ListId::new(now, self.world.random());
                let new = List::new(id, self.id(account), now, "my list.csv".into());
                let made = self.world.create_list(&new, ListRoom::MOST, None, now).wait();
                assert_eq!(made, Ok(ListMade::Made));
                let (state, n) = (ListState::Running, number(distinct));
                let list = List { state, rows: n, addresses: n, distinct: n, ..new };
                self.put(&list, ListState::Uploading);
                self.lists.insert(name.into(), list);
            }
            ["submit", batch, name, ref emails @ ..] => {
                let list = self.lists.get_mut(name).unwrap();
                let id = self.world.batch_of_list(list, list.done);
                let new = NewBatch { id, ..self.world.new_batch(list.account, emails) };
                let after = List { submitted: list.submitted + emails.len() as u64, ..list.clone() };
                let made = self.world.submit_batch_of_list(&after, new.clone(), now).wait().unwrap();
                let BatchOfList::Made(made) = made else { return Ok(error(made)) };
                *list = after;
                self.batches.insert(batch.into(), new);
                return Ok(if made.completed { "complete" } else { "open" }.into());
            }
            ["done", name, done, charged, ref counts @ ..] => {
                let list = self.lists.get_mut(name).unwrap();
                let count =
                    |word: &&str| word.split_once(':').map(|(word, n)| (reason(word), number(n))).unwrap();
                (list.done, list.charged) = (number(done), number(charged));
                list.counts = counts.iter().map(count).collect();
            }
            ["rows", name, submitted, addresses] => {
                let list = self.lists.get_mut(name).unwrap();
                (list.submitted, list.addresses) = (number(submitted), number(addresses));
            }
            ["step", name, to] => {
                let all = [ListState::Running, ListState::Paused, ListState::Completed];
                let state = all.into_iter().find(|state| error(state) == to).unwrap();
                let list = List { state, ..self.lists[name].clone() };
                self.put(&list, self.lists[name].state);
                self.lists.insert(name.into(), list);
            }
            ["read", name, account] => {
                let found = self.world.list(self.id(account), self.lists[name].id, now).wait().unwrap();
                assert!(found.as_ref().is_none_or(|found| *found == self.lists[name]));
                return Ok(found.as_ref().map_or("none".into(), shown_list));
            }
            ["progress", name] => {
                let found = self.world.list_progress(&self.lists[name], now).wait().unwrap();
                let (
                    _,
                    ListProgress { checked, cost, charged, reserved, returns, counts, causes, waiting: rows },
                ) = found;
                assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), checked);
                let (sums, rows) = (sums(&counts, &causes), waiting(&rows));
                return Ok(format!(
                    "{checked} [{sums}] cost {cost}, charged {charged}, reserved {reserved}, returns {returns}, waiting {rows}"
                ));
            }
            ["answers", name, number_of_batch] => {
                let answers =
                    self.world.list_answers(&self.lists[name], number(number_of_batch)).wait().unwrap();
                return Ok(list(
                    answers.unwrap().iter().map(|reason| reason.map_or("-", |reason| reason.as_str())),
                ));
            }
            ["cancel-list", name, account] => {
                let ended =
                    self.world.cancel_list(self.id(account), self.lists[name].id, now).wait().unwrap();
                return self.ended(name, ended);
            }
            ["give-up", name, account, ref why @ ..] => {
                let id = self.lists.get(name).map_or(ListId::new(0, 9), |list| list.id);
                let ended = self.world.give_up_list(self.id(account), id, why.join(" "), now).wait().unwrap();
                return self.ended(name, ended);
            }
            ["delete-list", name, account] => {
                let ended =
                    self.world.delete_list(self.id(account), self.lists[name].id, now).wait().unwrap();
                return Ok(self.batch_names(&ended.unwrap()));
            }
            ["cancel-batch", batch, account] => {
                let found = self.world.cancel_batch(self.id(account), self.batch(batch), now).wait().unwrap();
                assert!(found.is_none() || found == self.world.view(self.id(account), self.batch(batch)));
                return if found.is_some() {
                    self.line(&["view", batch, account])
                } else {
                    Ok("none".into())
                };
            }
            ["costs", batch, account] => {
                let view = self.world.view(self.id(account), self.batch(batch)).unwrap();
                let causes = list(view.causes.iter().map(|cause| cause.map_or("-".into(), error)));
                let (charged, refunded, rows) = (view.charged, view.refunded, waiting(&view.waiting));
                return Ok(format!(
                    "charged {charged}, refunded {refunded}, causes {causes}, waiting {rows}"
                ));
            }
            ["still-open", batch] => {
                return Ok(self.batch_names(&self.world.still_open(vec![self.batch(batch)]).wait().unwrap()));
            }
            ["page", account, most, ref after @ ..] => {
                let after = after.first().map(|batch| self.batch(batch));
                let page = self.world.batches(self.id(account), after, number(most), now).wait().unwrap();
                let found = list(page.batches.iter().map(|one| self.batch_names(&[one.batch])));
                return Ok(format!("{found}, next {}", self.batch_names(page.next.as_slice())));
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
