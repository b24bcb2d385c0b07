//! mailprobe with an engine that asks nobody: what it finds is said by the local part.
//!
//! The local part is a word and a delay, as in `mailbox_exists-500`: the reason to find after so many milliseconds.
//! `outage` and `stopping` are the engine's outages, `full` is a queue without room, `never` is no answer at all, and
//! `panic` is a defect. `later.2` finds a server that wants to be asked a second later, twice, and `down.2` is an
//! outage, twice; then the mailbox exists. What was asked about is written to the file that [`ASKED`] names.
//! What DNS says of a domain's mail hosts is said by its first label in the same way: `absent`, `unknown`, `outage` or
//! `full`, and any other has some.

use engine::config::EngineConfig;
use engine::proto::address::Domain;
use engine::proto::facts::{DmarcPolicy, DnsFacts};
use engine::proto::verdict::Reason;
use engine::{Answer, Finding, MailHosts, Outage, Pending, Refusal, Request, StartError};
use frontend::engine_client::{Backend, EngineGauge, Line};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// The variable that names the file for the addresses that were asked about, one a line.
pub const ASKED: &str = "MAILPROBE_SCRIPTED_ASKED";

/// The variable that turns the test program into that mailprobe; its arguments, one a line.
pub const ARGUMENTS: &str = "MAILPROBE_SCRIPTED_ARGUMENTS";

/// The test program's own arguments for it.
pub const PROGRAM: [&str; 3] = ["scripted::is_mailprobe", "--exact", "--nocapture"];

/// No test: with the variable set this program is mailprobe with that engine.
#[test]
fn is_mailprobe() {
    if let Ok(arguments) = std::env::var(ARGUMENTS) {
        let arguments = std::iter::once("mailprobe").chain(arguments.lines()).map(Into::into);
        let code = frontend::cli::main(arguments, |_: EngineConfig| {
            Ok::<Box<dyn Backend>, StartError>(Box::new(Scripted::default()))
        });
        std::process::exit(i32::from(code != ExitCode::SUCCESS));
    }
}

#[derive(Default)]
struct Scripted(Arc<Mutex<Memory>>);

/// What all lines share.
#[derive(Default)]
struct Memory {
    /// How often an address was asked about.
    tries: HashMap<String, u32>,
    asked: Option<File>,
}

impl Memory {
    /// Notes that an address is asked about; says for the how manyeth time.
    fn note(&mut self, address: &str) -> u32 {
        if let Some(path) = std::env::var_os(ASKED) {
            let open = || File::options().create(true).append(true).open(path).unwrap();
            writeln!(self.asked.get_or_insert_with(open), "{address}").unwrap();
        }
        let tries = self.tries.entry(address.to_owned()).or_default();
        *tries += 1;
        *tries
    }
}

/// What is found at the `tries`th time of asking.
fn find(word: &str, tries: u32) -> Result<Finding, Outage> {
    let found = |reason| Ok(Finding { reason, rule: "scripted", retry_after: None });
    match word.split_once('.') {
        Some(("later", times)) if tries <= times.parse().unwrap() => {
            let retry_after = Some(Duration::from_secs(1));
            return Ok(Finding { reason: Reason::Unverifiable, rule: "scripted", retry_after });
        }
        Some(("down", times)) if tries <= times.parse().unwrap() => return Err(Outage::Unavailable),
        Some(("later" | "down", _)) => return found(Reason::MailboxExists),
        _ => {}
    }
    match word {
        "outage" => Err(Outage::Unavailable),
        "stopping" => Err(Outage::Stopping),
        word => {
            let reason = Reason::ALL.into_iter().find(|reason| reason.as_str() == word);
            found(reason.unwrap_or(Reason::MailboxNotFound))
        }
    }
}

impl Backend for Scripted {
    fn line(&self, capacity: usize) -> Box<dyn Line + Send> {
        Box::new(ScriptedLine { capacity, memory: Arc::clone(&self.0), shared: Arc::default() })
    }

    fn describe(&self) -> String {
        "scripted, asks nobody".into()
    }

    fn gauge(&self) -> EngineGauge {
        Box::new(engine::Figures::default)
    }

    fn stop(self: Box<Self>) {}
}

struct ScriptedLine {
    capacity: usize,
    memory: Arc<Mutex<Memory>>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    under_way: usize,
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

impl Line for ScriptedLine {
    fn submit(&self, request: Request) -> Result<(), Refusal> {
        let local = request.address.local().to_owned();
        let (word, delay) = local.split_once('-').unwrap_or((&local, "0"));
        assert_ne!(word, "panic", "as asked");
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if word == "full" || shared.under_way >= self.capacity {
            return Err(Refusal::Full);
        }
        shared.under_way += 1;
        let tries = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.note(&request.address.canonical())
        };
        if word == "never" {
            return Ok(());
        }
        let result = find(word, tries);
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

    fn mail_hosts(&self, domain: Domain) -> Result<Pending<MailHosts>, Refusal> {
        let (asker, pending) = engine::pending();
        asker.answer(match domain.as_str().split('.').next() {
            Some("full") => return Err(Refusal::Full),
            Some("outage") => Err(Outage::Unavailable),
            Some("absent") => Ok(MailHosts::Absent),
            Some("unknown") => Ok(MailHosts::Unknown),
            _ => Ok(MailHosts::Seen),
        });
        Ok(pending)
    }

    fn facts(&self, domain: Domain) -> Result<Pending<Option<DnsFacts>>, Refusal> {
        let (asker, pending) = engine::pending();
        asker.answer(match domain.as_str().split('.').next() {
            Some("full") => return Err(Refusal::Full),
            Some("outage") => Err(Outage::Unavailable),
            Some("unknown") => Ok(None),
            Some("absent") => Ok(Some(DnsFacts::default())),
            _ => Ok(Some(DnsFacts {
                provider: Some("google"),
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

    fn answer(&self) -> Pin<Box<dyn Future<Output = Answer> + '_>> {
        Box::pin(poll_fn(|cx| {
            if let Some(answer) = self.take() {
                return Poll::Ready(answer);
            }
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.waker = Some(cx.waker().clone());
            // One may have come between the look and the lock.
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
