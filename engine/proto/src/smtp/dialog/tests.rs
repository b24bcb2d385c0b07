//! Runs each scenario of `testdata/dialog` several times, with the server's bytes cut into pieces of different lengths.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

const SCENARIOS: &str = include_str!("../../../testdata/dialog/plain.txt");
/// Scenarios with a host that did not answer RSET in an earlier session.
const NO_RSET: &str = include_str!("../../../testdata/dialog/no_rset.txt");

fn config() -> Arc<DialogConfig> {
    Arc::new(DialogConfig {
        ehlo: "probe.example".into(),
        reverse_path: "p@probe.example".into(),
        timeouts: ReplyTimeouts::default(),
    })
}

fn describe(event: &Event) -> String {
    match event {
        Event::Ready => "ready".into(),
        Event::StartTls => "start-tls".into(),
        Event::Answered { index, reply, in_step } => {
            format!("answered {index} {}{}", reply.code(), if *in_step { "" } else { " (in doubt)" })
        }
        Event::InStep(Some(_)) => "in step".into(),
        Event::InStep(None) => "known in step".into(),
        Event::MailRefused(reply) => format!("mail-refused {}", reply.code()),
        Event::Over(Closure::Refused { step, reply }) => format!("over refused {step:?} {}", reply.code()),
        Event::Over(Closure::Closed(step)) => format!("over closed {step:?}"),
        Event::Over(Closure::TimedOut(step)) => format!("over timed-out {step:?}"),
        Event::Over(Closure::Garbled(step, error)) => format!("over garbled {step:?} {error:?}"),
        Event::Over(Closure::Unexpected(step)) => format!("over unexpected {step:?}"),
        Event::Over(Closure::TlsFailed) => "over tls-failed".into(),
        Event::Over(Closure::Quit) => "over quit".into(),
    }
}

struct Run {
    dialog: Dialog,
    now: Instant,
    cut: usize,
    unsent: Vec<u8>,
    sent: Vec<u8>,
}

impl Run {
    fn flush(&mut self) {
        for piece in std::mem::take(&mut self.unsent).chunks(self.cut) {
            self.dialog.receive(self.now, piece);
        }
        self.sent.extend(self.dialog.take_outgoing(Vec::new()));
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "S:" {
            self.unsent.extend_from_slice(rest.as_bytes());
            return self.unsent.extend_from_slice(b"\r\n");
        }
        self.flush();
        match word {
            "C:" => {
                let end = self.sent.windows(2).position(|w| w == b"\r\n").expect("the client sent nothing");
                let command: Vec<u8> = self.sent.drain(..end + 2).collect();
                assert_eq!(String::from_utf8_lossy(&command[..end]), rest);
            }
            "E:" => {
                let event = self.dialog.poll_event().map(|event| describe(&event));
                assert_eq!(event.as_deref(), Some(rest));
            }
            "T:" => self.dialog.transact(self.now, rest.split(' '), false, InStep::ALWAYS),
            "U:" => self.dialog.transact(self.now, rest.split(' '), false, InStep::default()),
            "eof" => self.dialog.on_closed(),
            "quit" => self.dialog.quit(),
            "tls-ok" => self.dialog.on_tls_done(self.now, true),
            "tls-fail" => self.dialog.on_tls_done(self.now, false),
            "wait" => {
                assert_eq!(self.dialog.poll_event().map(|event| describe(&event)), None);
                self.now += Duration::from_secs(rest.parse().expect("seconds"));
                if self.dialog.deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.dialog.on_timeout(self.now);
                }
            }
            _ => panic!("no such line in a scenario: {line}"),
        }
    }
}

fn run(scenario: &str, cut: usize, habits: Habits) {
    let now = Instant::now();
    let dialog = Dialog::new(config(), habits, now);
    let mut run = Run { dialog, now, cut, unsent: Vec::new(), sent: Vec::new() };
    let mut lines = scenario.lines();
    let title = lines.next().unwrap_or_default();
    for line in lines.filter(|line| !line.is_empty()) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.line(line)));
        assert!(result.is_ok(), "scenario `{title}`, pieces of {cut}, at `{line}`");
    }
    run.flush();
    assert_eq!(run.dialog.poll_event().map(|event| describe(&event)), None, "scenario `{title}`");
    assert_eq!(String::from_utf8_lossy(&run.sent), "", "scenario `{title}`: sent and not expected");
}

#[test]
fn scenarios() {
    let no_rset = Habits { hangs_at_rset: true, ..Habits::default() };
    for (scenarios, least, habits) in [(SCENARIOS, 20, Habits::default()), (NO_RSET, 4, no_rset)] {
        let scenarios: Vec<&str> = scenarios.split("\n== ").skip(1).collect();
        assert!(scenarios.len() >= least);
        for scenario in scenarios {
            for cut in [usize::MAX, 1, 2, 3, 7, 40] {
                run(scenario, cut, habits);
            }
        }
    }
}

#[test]
fn a_host_that_ends_the_session_at_a_second_ehlo_gets_quit_in_its_place() {
    let habits = Habits { ends_at_ehlo: true, ..Habits::default() };
    let with_pipelining = "with pipelining\nS: 220 a\nC: EHLO probe.example\nS: 250-a\nS: 250 PIPELINING\nE: ready\nU: a@x.example\n\
        C: MAIL FROM:<p@probe.example>\nC: RCPT TO:<a@x.example>\nC: QUIT\nS: 250 Ok\nS: 550 no\nS: 221 Bye\n\
        E: answered 0 550 (in doubt)\nE: in step\nE: over quit";
    let without = "without\nS: 220 a\nC: EHLO probe.example\nS: 250 a\nE: ready\nU: a@x.example\nC: MAIL FROM:<p@probe.example>\n\
        S: 250 Ok\nC: RCPT TO:<a@x.example>\nS: 550 no\nE: answered 0 550 (in doubt)\nC: QUIT\nS: 221 Bye\nE: in step\nE: over quit";
    let surplus = with_pipelining.replace("S: 550 no", "S: 250 Ok\nS: 550 no");
    let surplus =
        surplus.replace("0 550", "0 250").replace("E: in step\nE: over quit", "E: over unexpected Quit");
    for scenario in [with_pipelining, without, &surplus] {
        run(scenario, usize::MAX, habits);
    }
}

/// The events of a session in which the server sends `bytes` in pieces of `cut` bytes, after MAIL and three RCPT.
fn events(bytes: &[u8], cut: usize, pipelining: bool) -> Vec<String> {
    let now = Instant::now();
    let mut dialog = Dialog::new(config(), Habits::default(), now);
    let mut events = Vec::new();
    let head: &[u8] =
        if pipelining { b"220 a\r\n250-b\r\n250 PIPELINING\r\n" } else { b"220 a\r\n250 b\r\n" };
    // The server sends one line at a time, because a reply that comes before its command ends the session.
    for line in head.split_inclusive(|&b| b == b'\n') {
        dialog.receive(now, line);
        dialog.take_outgoing(Vec::new());
    }
    assert!(dialog.is_ready());
    dialog.transact(now, ["a@x.example", "b@x.example", "c@x.example"].into_iter(), false, InStep::ALWAYS);
    dialog.take_outgoing(Vec::new());
    for piece in bytes.chunks(cut.max(1)) {
        dialog.receive(now, piece);
    }
    dialog.on_closed();
    while let Some(event) = dialog.poll_event() {
        events.push(describe(&event));
    }
    assert!(dialog.is_over());
    events
}

#[test]
fn recipients_without_an_answer_are_counted_as_far_as_the_server_was_asked() {
    for (pipelining, asked) in [(true, [3, 2, 2]), (false, [0, 1, 1])] {
        let now = Instant::now();
        let mut dialog = Dialog::new(config(), Habits::default(), now);
        let head: &[u8] = if pipelining { b"250-b\r\n250 PIPELINING\r\n" } else { b"250 b\r\n" };
        dialog.receive(now, b"220 a\r\n");
        dialog.take_outgoing(Vec::new());
        dialog.receive(now, head);
        dialog.transact(
            now,
            ["a@x.example", "b@x.example", "c@x.example"].into_iter(),
            false,
            InStep::ALWAYS,
        );
        dialog.take_outgoing(Vec::new());
        let mut counts = vec![dialog.unanswered()];
        dialog.receive(now, b"250 Ok\r\n");
        dialog.take_outgoing(Vec::new());
        dialog.receive(now, b"550 5.1.1 no\r\n");
        dialog.take_outgoing(Vec::new());
        counts.push(dialog.unanswered());
        dialog.on_timeout(now + Duration::from_secs(3600));
        assert!(dialog.is_over());
        counts.push(dialog.unanswered());
        assert_eq!(counts, asked, "before MAIL is answered, behind a recipient, and in the end");
    }
}

proptest! {
    #[test]
    fn no_server_makes_it_panic_and_no_cut_changes_the_story(
        bytes in proptest::collection::vec(
            prop_oneof![
                Just(b"250 Ok\r\n".to_vec()),
                Just(b"250-Ok\r\n".to_vec()),
                Just(b"550 5.1.1 no\r\n".to_vec()),
                Just(b"421 bye\r\n".to_vec()),
                Just(b"354 go\r\n".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..12),
            ],
            0..8,
        ),
        cut in 1usize..40,
        pipelining: bool,
    ) {
        let bytes = bytes.concat();
        prop_assert_eq!(events(&bytes, cut, pipelining), events(&bytes, usize::MAX, pipelining));
    }
}

#[test]
fn recipients_that_were_not_sent_can_be_left_out() {
    for (pipelining, proven, left_out, then) in [
        (false, InStep::ALWAYS, 2, "ready"),
        (false, InStep::default(), 2, "EHLO probe.example\r\n"),
        (true, InStep::ALWAYS, 0, ""),
    ] {
        let now = Instant::now();
        let mut dialog = Dialog::new(config(), Habits::default(), now);
        let head = if pipelining { "220 a\r\n250-b\r\n250 PIPELINING\r\n" } else { "220 a\r\n250 b\r\n" };
        for line in head.split_inclusive('\n') {
            dialog.receive(now, line.as_bytes());
            dialog.take_outgoing(Vec::new());
        }
        let names = ["a@x.example", "b@x.example", "c@x.example", "d@x.example"];
        dialog.transact(now, names.into_iter(), false, proven);
        for reply in ["250 Ok\r\n", "250 Ok\r\n", "452 4.5.3 Too many recipients\r\n"] {
            dialog.take_outgoing(Vec::new());
            assert_eq!(dialog.leave_out_rest(now), 0, "all that was due has been sent");
            dialog.receive(now, reply.as_bytes());
        }
        while dialog.poll_event().is_some() {}
        assert_eq!(dialog.leave_out_rest(now), left_out, "{pipelining}");
        let (next, event) =
            (dialog.take_outgoing(Vec::new()), dialog.poll_event().map(|event| describe(&event)));
        assert_eq!(
            String::from_utf8_lossy(&next) + event.as_deref().unwrap_or_default(),
            then,
            "{pipelining}"
        );
    }
}
