//! mailprobe with an engine that contacts no server: the local part determines its findings.
//!
//! The local part is a word and a delay, as in `mailbox_exists-500`: the reason to find after this many milliseconds.
//! `outage` and `stopping` are the engine's outages, `full` is a full queue, `never` has no answer before a recall, and
//! `panic` is a defect. `later.2` has a server that defers by one second, twice, and `down.2` an outage, twice; then
//! the mailbox exists. `budget` has a site without budget for 40 minutes, and `budget.2` one without budget for a
//! second, twice. `blocked` has a site that refuses us, without budget for 40 minutes. `silent` has a server that takes no connection. A verdict on an address of `host7.example` has the evidence 7; `withdraw` withdraws it, and each
//! `mailbox_not_found` counts as refused by the site and source 7. The addresses that were asked about are written to
//! the file that [`ASKED`] names. The answer of DNS about a domain's mail hosts depends on its first label in the same
//! way: `absent`, `unknown`, `outage` or `full`; with any other label it has some.

use checks::engine_client::{Backend, EngineGauge, EngineHandle, RefusalsLook, WithdrawnLook};
use engine::config::{EngineConfig, SharedLists};
use engine::proto::address::Domain;
use engine::proto::facts::{DmarcPolicy, DnsFacts};
use engine::proto::limits::REFUSALS_STEP;
use engine::proto::lists::{Lists, MailService};
use engine::proto::smtp::status::EnhancedCode;
use engine::proto::verdict::{ObservedReply, Reason, Scope};
use engine::{
    Answer, Finding, KeptRefusals, KeptStep, MailHosts, Observation, Outage, PendingInquiry, Refusal,
    Request, StartError, Withdrawn,
};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable that names the file for the addresses that were asked about, one per line.
pub const ASKED: &str = "MAILPROBE_SCRIPTED_ASKED";

/// The variable that turns the test program into that mailprobe; its arguments, one per line.
pub const ARGUMENTS: &str = "MAILPROBE_SCRIPTED_ARGUMENTS";

/// The arguments of the test program for that. With a single thread, as on a machine with one core, the harness would begin the
/// first line of the output with the name of the test.
pub const PROGRAM: [&str; 4] =
    ["harness::scripted::is_mailprobe", "--exact", "--nocapture", "--test-threads=2"];

/// This is no test: with the variable this program is mailprobe with that engine.
#[test]
fn is_mailprobe() {
    if let Ok(arguments) = std::env::var(ARGUMENTS) {
        let arguments = std::iter::once("mailprobe").chain(arguments.lines()).map(Into::into);
        let code = frontend::cli::main(arguments, |config: EngineConfig| {
            Ok::<Box<dyn Backend>, StartError>(Box::new(Scripted::new(config)))
        });
        std::process::exit(i32::from(code != ExitCode::SUCCESS));
    }
}

struct Scripted {
    lists: SharedLists,
    memory: Arc<Mutex<Memory>>,
    /// The data of its start: the stored refusals, and the installation.
    started: String,
}

impl Scripted {
    fn new(config: EngineConfig) -> Scripted {
        let kept = config.refusals.iter().flat_map(|kept| &kept.steps).map(|step| step.refused).sum::<u32>();
        let secret: String = config.installation.iter().map(|byte| format!("{byte:02x}")).collect();
        let memory = Memory { refusals: config.refusals, ..Memory::default() };
        Scripted {
            lists: config.lists,
            memory: Arc::new(Mutex::new(memory)),
            started: format!("scripted, asks nobody, {kept} refused before, installation {secret}"),
        }
    }
}

/// The state that all handles share.
#[derive(Default)]
struct Memory {
    /// How often each address was asked about.
    tries: HashMap<String, u32>,
    asked: Option<File>,
    refusals: Vec<KeptRefusals>,
    withdrawn: Vec<Withdrawn>,
}

impl Memory {
    /// Records that an address is asked about; returns the number of times.
    fn note(&mut self, address: &str) -> u32 {
        if let Some(path) = std::env::var_os(ASKED) {
            let open = || File::options().create(true).append(true).open(path).unwrap();
            writeln!(self.asked.get_or_insert_with(open), "{address}").unwrap();
        }
        let tries = self.tries.entry(address.to_owned()).or_default();
        *tries += 1;
        *tries
    }

    fn note_evidence(&mut self, word: &str, evidence: u64) {
        let now = SystemTime::now();
        match word {
            "withdraw" => self.withdrawn.push(Withdrawn { evidence, at: now }),
            "mailbox_not_found" => {
                let step = now.duration_since(UNIX_EPOCH).unwrap().as_secs() / REFUSALS_STEP.as_secs();
                self.refusals.push(KeptRefusals { key: evidence, steps: Vec::new() });
                let counts = self.refusals.iter_mut().find(|counts| counts.key == evidence).unwrap();
                match counts.steps.last_mut() {
                    Some(last) if last.step == step => last.refused += 1,
                    _ => counts.steps.push(KeptStep { step, refused: 1, accepted: 0 }),
                }
                self.refusals.retain(|counts| !counts.steps.is_empty());
            }
            _ => {}
        }
    }
}

/// The evidence of a verdict about this domain.
fn evidence(domain: &str) -> Option<u64> {
    domain.split('.').next()?.strip_prefix("host")?.parse().ok()
}

/// What a host said, for the reasons that follow from a reply to RCPT.
fn observed(reason: Reason) -> Option<Box<Observation>> {
    let (code, status) = match reason {
        Reason::MailboxNotFound => (550, Some(EnhancedCode::new(5, 1, 1))),
        Reason::MailboxExists | Reason::RoleAccount | Reason::CatchAll => (250, None),
        _ => return None,
    };
    let reply = ObservedReply { code, status, scope: Scope::Recipient, at: Instant::now() };
    Some(Box::new(Observation { host: "mx1.example".into(), reply: Some(reply) }))
}

fn over_budget(after_s: u64, refused_us: Option<&'static str>) -> Outage {
    Outage::OverBudget { after: Duration::from_secs(after_s), refused_us }
}

/// The finding at the `tries`th time.
fn find(word: &str, tries: u32, evidence: Option<u64>) -> Result<Finding, Outage> {
    let found = |reason| {
        let observed = observed(reason);
        Ok(Finding { reason, rule: "scripted", retry_after: None, evidence, observed })
    };
    match word.split_once('.') {
        Some(("budget", times)) if tries <= times.parse().unwrap() => {
            return Err(over_budget(1, None));
        }
        Some(("later", times)) if tries <= times.parse().unwrap() => {
            let retry_after = Some(Duration::from_secs(1));
            return Ok(Finding {
                reason: Reason::Unverifiable,
                rule: "scripted",
                retry_after,
                evidence: None,
                observed: None,
            });
        }
        Some(("down", times)) if tries <= times.parse().unwrap() => return Err(Outage::Unavailable),
        Some(("later" | "down" | "budget", _)) => return found(Reason::MailboxExists),
        _ => {}
    }
    match word {
        "outage" => Err(Outage::Unavailable),
        "budget" => Err(over_budget(2400, None)),
        "blocked" => Err(over_budget(2400, Some("blocklist"))),
        "withdraw" => found(Reason::Unverifiable),
        "blocklist" => Ok(Finding { rule: "blocklist", ..found(Reason::Unverifiable)? }),
        "greylisted" => Ok(Finding { rule: "greylisted", ..found(Reason::Unverifiable)? }),
        "silent" => {
            let finding = found(Reason::Unverifiable)?;
            Ok(Finding { rule: "no_connection", retry_after: Some(Duration::from_secs(1)), ..finding })
        }
        "stopping" => Err(Outage::Stopping),
        word => {
            let reason = Reason::ALL.into_iter().find(|reason| reason.as_str() == word);
            found(reason.unwrap_or(Reason::MailboxNotFound))
        }
    }
}

impl Backend for Scripted {
    fn line(&self, capacity: usize) -> Box<dyn EngineHandle + Send> {
        let (memory, lists) = (Arc::clone(&self.memory), self.lists.clone());
        Box::new(ScriptedLine { capacity, lists, memory, shared: Arc::default() })
    }

    fn describe(&self) -> String {
        self.started.clone()
    }

    fn gauge(&self) -> EngineGauge {
        Box::new(engine::Figures::default)
    }

    fn refusals(&self) -> RefusalsLook {
        let memory = Arc::clone(&self.memory);
        Box::new(move || memory.lock().unwrap_or_else(PoisonError::into_inner).refusals.clone())
    }

    fn withdrawn(&self) -> WithdrawnLook {
        let memory = Arc::clone(&self.memory);
        Box::new(move || std::mem::take(&mut memory.lock().unwrap_or_else(PoisonError::into_inner).withdrawn))
    }

    fn stop(self: Box<Self>) {}
}

struct ScriptedLine {
    capacity: usize,
    lists: SharedLists,
    memory: Arc<Mutex<Memory>>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    under_way: usize,
    /// Tickets that are answered at a recall.
    held: Vec<u64>,
    answers: VecDeque<Answer>,
    waker: Option<Waker>,
}

impl ScriptedLine {
    fn take(&self) -> Option<Answer> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = shared.answers.pop_front()?;
        shared.under_way -= 1;
        Some(answer)
    }
}

impl EngineHandle for ScriptedLine {
    fn submit(&self, request: Request) -> Result<(), Refusal> {
        let local = request.address.local().to_owned();
        let (word, delay) = local.split_once('-').unwrap_or((&local, "0"));
        assert_ne!(word, "panic", "as asked");
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if word == "full" || shared.under_way >= self.capacity {
            return Err(Refusal::Full);
        }
        shared.under_way += 1;
        let evidence = evidence(request.address.domain().as_str());
        let tries = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            evidence.iter().for_each(|&evidence| memory.note_evidence(word, evidence));
            memory.note(&request.address.canonical())
        };
        if word == "never" {
            shared.held.push(request.ticket);
            return Ok(());
        }
        let result = find(word, tries, evidence);
        let trace = if request.trace { vec!["asked nobody".to_owned()] } else { Vec::new() };
        let answer = Answer { ticket: request.ticket, result, trace };
        let (line, delay) = (Arc::clone(&self.shared), Duration::from_millis(delay.parse().unwrap_or(0)));
        thread::spawn(move || {
            thread::sleep(delay);
            let mut shared = line.lock().unwrap_or_else(PoisonError::into_inner);
            shared.answers.push_back(answer);
            if let Some(waker) = shared.waker.take() {
                waker.wake();
            }
        });
        Ok(())
    }

    fn lists(&self) -> Arc<Lists> {
        self.lists.get()
    }

    fn mail_hosts(&self, domain: Domain) -> Result<PendingInquiry<MailHosts>, Refusal> {
        let (asker, pending) = engine::pending_inquiry();
        asker.answer(match domain.as_str().split('.').next() {
            Some("full") => return Err(Refusal::Full),
            Some("outage") => Err(Outage::Unavailable),
            Some("absent") => Ok(MailHosts::Absent),
            Some("unknown") => Ok(MailHosts::Unknown),
            _ => Ok(MailHosts::Seen(MailService::Unknown)),
        });
        Ok(pending)
    }

    fn facts(&self, domain: Domain) -> Result<PendingInquiry<Option<DnsFacts>>, Refusal> {
        let (asker, pending) = engine::pending_inquiry();
        asker.answer(match domain.as_str().split('.').next() {
            Some("full") => return Err(Refusal::Full),
            Some("outage") => Err(Outage::Unavailable),
            Some("unknown") => Ok(None),
            Some("absent") => Ok(Some(DnsFacts::default())),
            _ => Ok(Some(DnsFacts {
                provider: Some("google"),
                service: MailService::OfFirms,
                mx_hosts: vec!["mx1.example".into(), "mx2.example".into()],
                spf: true,
                dmarc_policy: Some(DmarcPolicy::Quarantine),
                dkim_selectors: vec!["google"],
                bimi: false,
                ptr: true,
            })),
        });
        Ok(pending)
    }

    fn answer_count(&self) -> u64 {
        0
    }

    fn recall(&self) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let held = std::mem::take(&mut shared.held);
        let answer = |ticket| {
            let (reason, retry_after) = (Reason::Unverifiable, Some(Duration::from_secs(60)));
            let result =
                Ok(Finding { reason, rule: "session-closing", retry_after, evidence: None, observed: None });
            Answer { ticket, result, trace: Vec::new() }
        };
        shared.answers.extend(held.into_iter().map(answer));
    }

    fn answer(&self) -> Pin<Box<dyn Future<Output = Answer> + '_>> {
        Box::pin(poll_fn(|cx| {
            if let Some(answer) = self.take() {
                return Poll::Ready(answer);
            }
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.waker = Some(cx.waker().clone());
            // An answer may have come between the check and the lock.
            if shared.answers.is_empty() {
                Poll::Pending
            } else {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }))
    }

    fn answer_blocking(&self, patience: Duration) -> Option<Answer> {
        let deadline = Instant::now() + patience;
        loop {
            match self.take() {
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                other => return other,
            }
        }
    }
}
