//! The client side of one SMTP session, from the greeting to QUIT, as a state machine without I/O.
//!
//! The driver carries bytes both ways, starts TLS on [`Event::StartTls`], and calls [`Dialog::on_timeout`] when
//! [`Dialog::deadline`] has passed. The state machine never sends DATA. To a server that does not offer PIPELINING, it sends one
//! command at a time; only QUIT does not wait for the reply to the command before it. A recipient is answered only by the reply to
//! its own RCPT. If the server refuses MAIL or the session ends early, the recipients without such a reply have no answer.
//!
//! Some servers send a surplus reply, for example a second 250 after MAIL. Then each later reply would count for the wrong
//! recipient. Replies are *in step* if each belongs to the command for which it counts. To show this, the state machine sends EHLO
//! again after a transaction: its reply looks like no other one, and EHLO also ends the transaction, as RSET does (RFC 5321
//! 4.1.4). With PIPELINING, EHLO costs no round trip, so each group of commands ends with it. Without PIPELINING, it waits for the
//! next transaction, which it begins, if this host has been in step before ([`InStep`]). RSET is sent only to a server that
//! refuses a second EHLO. A server that ends the session at a second EHLO gets QUIT in its place.
//!
//! A server that sends all replies to a group twice would answer a later group with the copy, if that has as many commands. Until some
//! session has shown that the host does not, each group of a session has another number of commands: RSET fills it up. A server that
//! does not answer RSET gets QUIT at the end of a group that has as many commands as an earlier one.
//!
//! RFC 5321 (4.1.1, 4.3, 4.5.3), RFC 2920 (PIPELINING), RFC 3207 (STARTTLS).

mod events;
mod recognize;
mod settings;

use super::command::{Command, encode, greeting};
use super::ehlo::Extensions;
use super::habits::{Habits, InStep, Passed, ReplyPlace};
use super::reply::{Reply, ReplyParser};
use crate::limits;
pub use events::{Closure, Event, Step};
use recognize::{begins_with, first_word, is_done, names_cisco, refuses_greeting};
pub use settings::{DialogConfig, ReplyTimeouts};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The client side of one SMTP session, as a state machine.
pub struct Dialog {
    config: Arc<DialogConfig>,
    habits: Habits,
    step: Step,
    over: bool,
    extensions: Extensions,
    /// Whether the greeting names Cisco Secure Email.
    cisco: bool,
    parser: ReplyParser,
    outgoing: Vec<u8>,
    /// The commands of the transaction that are not sent yet, because the server does not offer PIPELINING.
    held: VecDeque<Vec<u8>>,
    /// The steps of the transaction after the present one. Each of them waits for one reply.
    steps_due: VecDeque<Step>,
    mail_refused: bool,
    /// The server has accepted MAIL in this session, so RSET has to come before the next MAIL.
    needs_rset: bool,
    /// The kinds of replies in this session.
    passed: Passed,
    /// What this session and earlier ones have shown.
    proven: InStep,
    /// Whether the host was known to be in step at each answer of this transaction.
    known: bool,
    /// The numbers of commands that groups of this session had, a bit each.
    sizes: u128,
    /// The number of RSET so far that made them differ.
    padded: usize,
    /// Whether the latest group has RSET so that it differs.
    pads: bool,
    /// Whether the latest group ends with QUIT, because no RSET could make it differ.
    quits: bool,
    /// Whether the server did not answer a second EHLO as one.
    refuses_again: bool,
    /// Whether the session ended because of a reply that answers no command.
    out_of_step: bool,
    group_unanswered: bool,
    /// The first word of the reply to EHLO or HELO with which the server greeted us.
    greeting: Box<str>,
    /// Whether that was the reply to HELO.
    is_helo: bool,
    /// Whether the server has refused a second EHLO, so that RSET has to end the transaction.
    refuses_ehlo: bool,
    /// Whether another reply of the session begins with the same word as `greeting`, or a 503 has come. The reply to another EHLO
    /// then cannot be told from them.
    ambiguous: bool,
    deadline: Option<Instant>,
    events: VecDeque<Event>,
}

impl Dialog {
    /// A session on a new connection.
    pub fn new(config: Arc<DialogConfig>, habits: Habits, now: Instant) -> Dialog {
        let deadline = Some(now + config.timeouts.banner);
        Dialog {
            config,
            habits,
            step: Step::Banner,
            over: false,
            extensions: Extensions::default(),
            cisco: false,
            parser: ReplyParser::default(),
            outgoing: Vec::new(),
            held: VecDeque::new(),
            steps_due: VecDeque::new(),
            mail_refused: false,
            needs_rset: false,
            passed: Passed::new(now),
            proven: InStep::default(),
            known: true,
            sizes: 0,
            padded: 0,
            pads: false,
            quits: false,
            refuses_again: false,
            out_of_step: false,
            group_unanswered: false,
            greeting: Box::default(),
            is_helo: false,
            refuses_ehlo: false,
            ambiguous: false,
            deadline,
            events: VecDeque::new(),
        }
    }

    /// Whether the greeting names Cisco Secure Email (IronPort), which limits the number of invalid recipients in an hour.
    pub fn is_cisco(&self) -> bool {
        self.cisco
    }

    /// The extensions that the server offers, from its latest reply to EHLO. There are none before the first such reply, none
    /// between the TLS handshake and the next such reply, and none at all if the server takes only HELO.
    pub fn extensions(&self) -> Extensions {
        self.extensions
    }

    /// Whether all commands of a transaction are sent at once: the server offers PIPELINING, and nothing speaks against it.
    pub fn sends_groups(&self) -> bool {
        self.extensions.pipelining && !self.habits.one_at_a_time
    }

    /// Whether a transaction can begin now.
    pub fn is_ready(&self) -> bool {
        self.step == Step::Idle && !self.over
    }

    /// Whether the session is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The instant at which the driver has to call [`Dialog::on_timeout`]; `None` if the session waits neither for a reply nor for
    /// the TLS handshake. Received bytes may change the deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The next event for the driver.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`Dialog::poll_event`] has an event.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the bytes that have to be sent now. `spare` has to be empty and becomes the new buffer. Returns `spare` if nothing has
    /// to be sent.
    pub fn take_outgoing(&mut self, spare: Vec<u8>) -> Vec<u8> {
        debug_assert!(spare.is_empty());
        if self.outgoing.is_empty() { spare } else { std::mem::replace(&mut self.outgoing, spare) }
    }

    /// Whether there are bytes to be sent now.
    pub fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The number of replies that the transaction expects after the next one.
    pub fn replies_due(&self) -> usize {
        self.steps_due.len()
    }

    /// Whether some commands are not sent yet: either the bytes that [`Dialog::take_outgoing`] returns next, or later commands of
    /// the transaction if the server takes only one command at a time.
    pub fn holds_back(&self) -> bool {
        !self.held.is_empty() || self.wants_write()
    }

    /// The number of recipients in the transaction for which RCPT was sent, or is about to be sent, and no reply has come.
    pub fn unanswered(&self) -> usize {
        let due = std::iter::once(&self.step).chain(&self.steps_due);
        let held = self.held.len().saturating_sub(usize::from(self.steps_due.back() == Some(&Step::InStep)));
        due.filter(|step| matches!(step, Step::Rcpt(_))).count().saturating_sub(held)
    }

    /// How many recipients the next transaction should have, at most `most`, so that its group differs from the earlier ones. A few RSET
    /// are better than fewer recipients. With 0, any transaction would end the session. `proven` is what earlier sessions have shown.
    pub fn distinct(&self, most: usize, mut proven: InStep, now: Instant) -> usize {
        proven.add(self.proven);
        let padding = |recipients: usize| match self.sends_groups() {
            true => self.padding(recipients + 2, &proven, now),
            false => Some(0),
        };
        let for_all = padding(most);
        if for_all.is_some_and(|padding| padding <= limits::GROUP_PADDING_FEW) {
            return most;
        }
        let many = most.div_ceil(2);
        let fewer = (many..most).rev().find(|recipients| padding(*recipients) == Some(0));
        let all = || for_all.map(|_| most);
        let few = || (1..many).rev().find(|recipients| padding(*recipients).is_some());
        fewer.or_else(all).or_else(few).unwrap_or(0)
    }

    /// How long no surplus reply has to come now, so that groups need not differ any more.
    pub fn time_to_listen(&self, now: Instant) -> Duration {
        // The times are rounded to milliseconds.
        let settles = limits::IN_STEP_AGE_MAX + Duration::from_millis(2);
        settles.saturating_sub(self.passed.age_of(ReplyPlace::Group, now))
    }

    /// How many RSET a group with this number of commands needs, so that the replies to an earlier group, sent twice, cannot be the
    /// replies to it. `None` if the host answers no RSET, or if it would be too many.
    fn padding(&self, commands: usize, proven: &InStep, now: Instant) -> Option<usize> {
        if self.sizes >> commands & 1 == 0 || !self.passed.may_repeat(proven, now + limits::IN_STEP_AHEAD) {
            return Some(0);
        }
        let left = limits::SESSION_PADDING_MAX - self.padded;
        let most = if self.habits.hangs_at_rset { 0 } else { limits::GROUP_PADDING_MAX.min(left) };
        (1..=most).find(|padding| self.sizes >> (commands + padding) & 1 == 0)
    }

    /// Whether the session has ended with QUIT in place of EHLO, because no RSET could make the latest group differ.
    pub fn has_quit(&self) -> bool {
        self.quits && self.over
    }

    /// Whether the session ended because the server did not answer the RSET of the latest group.
    pub fn has_hung_at_rset(&self) -> bool {
        self.pads && self.over && self.step == Step::Rset && !self.out_of_step
    }

    /// Whether the server did not answer a second EHLO as one, so that QUIT had to follow.
    pub fn refuses_second_ehlo(&self) -> bool {
        self.refuses_again
    }

    /// Whether the session ended because of a reply that answers no command, or that no server gives to the command.
    pub fn is_out_of_step(&self) -> bool {
        self.out_of_step
    }

    /// Whether the session ended because the host did not answer the first RCPT of a group, and no group has shown that it answers
    /// more than the first command.
    pub fn is_group_unanswered(&self) -> bool {
        self.group_unanswered
    }

    /// Whether a reply that comes now may be out of step.
    fn is_doubted(&self, now: Instant) -> bool {
        self.passed.is_doubted(&self.proven, now)
    }

    /// What the session has shown about the host, if its replies were in step and it has got no surplus reply until now.
    pub fn in_step(&self, now: Instant) -> InStep {
        self.passed.shown(now)
    }

    /// Whether the host is known to be in step for some time from now on, as far as the session has got. `proven` is what other
    /// sessions have shown.
    pub fn is_known_in_step(&self, mut proven: InStep, now: Instant) -> bool {
        proven.add(self.proven);
        !self.passed.is_doubted(&proven, now + limits::IN_STEP_AHEAD)
    }

    /// Begins a transaction: MAIL, then RCPT for each recipient. The driver gets an [`Event::Answered`] for each recipient, or one
    /// [`Event::MailRefused`] if the server refuses MAIL. When the transaction is complete, the driver gets [`Event::Ready`]. If
    /// the session ends first, the driver gets [`Event::Over`] instead. If the session has ended already and the driver has not
    /// read [`Event::Over`] yet, nothing is sent.
    ///
    /// `proven` is what earlier sessions with the host have shown. If this is not enough for the transaction, or with PIPELINING, EHLO
    /// comes after it, and the driver gets [`Event::InStep`] before [`Event::Ready`].
    ///
    /// # Panics
    /// If the session is not ready, if the driver has already got [`Event::Over`], or with more than
    /// [`limits::TRANSACTION_RECIPIENTS_MAX`] recipients. The caller can avoid all of these, and no peer can cause them.
    pub fn transact<'a>(
        &mut self,
        now: Instant,
        recipients: impl Iterator<Item = &'a str>,
        smtputf8: bool,
        proven: InStep,
    ) {
        if self.over && !self.events.is_empty() {
            return;
        }
        assert!(self.is_ready(), "a transaction on a session that is not ready");
        if !self.parser.is_empty() {
            // The parser holds the beginning of a reply that answers no command. When complete, that reply would be taken for the
            // answer to a command of this transaction.
            return self.end(Closure::Unexpected(Step::Idle));
        }
        self.steps_due.clear();
        self.held.clear();
        self.proven.add(proven);
        self.known = true;
        let is_told = !self.ambiguous || self.extensions != Extensions::default();
        if self.needs_rset && (self.refuses_ehlo || !is_told) {
            self.put(Command::Rset, Step::Rset);
        } else if self.needs_rset {
            self.put_greeting();
        }
        let config = Arc::clone(&self.config);
        self.put(Command::Mail { reverse_path: &config.reverse_path, smtputf8 }, Step::Mail);
        for (index, recipient) in (0u16..).zip(recipients) {
            self.put(Command::Rcpt(recipient), Step::Rcpt(index));
        }
        // Without PIPELINING, EHLO is sent after the replies, and only if it is needed: see `proceed`.
        let size = if self.sends_groups() { self.steps_due.len() + 1 } else { 0 };
        let padding = self.padding(size, &self.proven, now);
        self.quits = padding.is_none();
        self.pads = padding.is_some_and(|padding| padding > 0);
        for _ in 0..padding.unwrap_or_default() {
            self.put(Command::Rset, Step::Rset);
        }
        self.padded += padding.unwrap_or_default();
        if size > 0 {
            self.sizes |= 1 << (size + padding.unwrap_or_default());
        }
        if self.sends_groups() && (self.habits.ends_at_ehlo || self.quits) {
            self.put(Command::Quit, Step::Quit);
        } else if self.sends_groups() {
            self.put_greeting();
        }
        assert!(
            self.steps_due.len() <= limits::TRANSACTION_RECIPIENTS_MAX + 3 + limits::GROUP_PADDING_MAX,
            "a transaction with too many recipients"
        );
        self.mail_refused = false;
        self.send_held();
        self.await_next(now);
    }

    /// Adds a command and its step to the transaction. With PIPELINING, all commands of the transaction are sent together.
    fn put(&mut self, command: Command<'_>, step: Step) {
        if self.sends_groups() {
            encode(&mut self.outgoing, command);
        } else {
            let mut bytes = Vec::with_capacity(48);
            encode(&mut bytes, command);
            self.held.push_back(bytes);
        }
        self.steps_due.push_back(step);
    }

    fn put_greeting(&mut self) {
        let config = Arc::clone(&self.config);
        self.put(greeting(self.is_helo, &config.ehlo), Step::InStep);
    }

    /// Ends the transaction without the RCPT commands that are not sent yet. Returns their number; with PIPELINING it is 0.
    pub fn leave_out_rest(&mut self, now: Instant) -> usize {
        if self.over || self.sends_groups() || !matches!(self.step, Step::Rcpt(_)) || !self.wants_write() {
            return 0;
        }
        let left_out = 1 + self.steps_due.len();
        self.outgoing.clear();
        self.drop_held();
        self.proceed(now);
        left_out
    }

    /// Ends the session, and sends QUIT if a command may be sent at this step. The driver may close the connection as soon as the
    /// bytes are sent, as Postfix does (`smtp_skip_quit_response`), because no further reply matters.
    pub fn quit(&mut self) {
        if !self.over {
            // Commands that are not sent yet are dropped. Without PIPELINING, none of them may be sent together with QUIT. Before
            // the greeting and during STARTTLS, no command may be sent, so QUIT is left out.
            self.outgoing.clear();
            if !matches!(self.step, Step::Banner | Step::StartTls | Step::Handshake) {
                encode(&mut self.outgoing, Command::Quit);
            }
            self.end(Closure::Quit);
        }
    }

    /// Takes in bytes from the server.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if self.over || self.step == Step::Handshake {
            return;
        }
        self.parser.feed(bytes);
        while !self.over {
            match self.parser.next() {
                // A reply that arrives before the next command has been sent is not an answer to that command. If it counted as
                // one, each later reply would count for the wrong recipient.
                Ok(Some(reply)) if self.step == Step::Idle || self.wants_write() => self.unasked(reply),
                Ok(Some(reply)) => self.on_reply(now, reply),
                Ok(None) => return,
                Err(error) => self.end(Closure::Garbled(self.step, error)),
            }
            if self.step == Step::Handshake {
                // RFC 3207 4.2: the client discards everything that it received before TLS, above all what an attacker may have
                // inserted after the 220.
                return self.parser.clear();
            }
        }
    }

    /// The server closed the connection, or the connection broke.
    pub fn on_closed(&mut self) {
        if !self.over {
            self.end(Closure::Closed(self.step));
        }
    }

    /// The TLS handshake has succeeded or failed.
    pub fn on_tls_done(&mut self, now: Instant, success: bool) {
        if self.step != Step::Handshake || self.over {
            return;
        }
        if success {
            self.habits.plain = true;
            self.extensions = Extensions::default();
            self.passed.pass(ReplyPlace::Tls, now);
            self.greet(now);
        } else {
            self.end(Closure::TlsFailed);
        }
    }

    /// Time has passed. If the deadline has passed too, the session ends.
    pub fn on_timeout(&mut self, now: Instant) {
        if !self.over && self.deadline.is_some_and(|deadline| deadline <= now) {
            match self.step {
                Step::Handshake => self.end(Closure::TlsFailed),
                Step::Quit if self.quits => {
                    // In all this time, no surplus reply has come.
                    self.on_in_step(now);
                    self.end(Closure::Quit);
                }
                step if self.waits_for_group(step) => {
                    self.group_unanswered = true;
                    self.end(Closure::TimedOut(step));
                }
                step => self.end(Closure::TimedOut(step)),
            }
        }
    }

    /// The table of transitions: the step and the reply code decide what happens next.
    fn on_reply(&mut self, now: Instant, reply: Reply) {
        let code = reply.code();
        if code == 421 {
            // RFC 5321 3.8: the server closes the connection after 421, whichever command the 421 answers.
            return self.end(Closure::Refused { step: self.step, reply });
        }
        match self.step {
            Step::Banner if code == 220 => {
                self.cisco = names_cisco(reply.text());
                self.greet(now);
            }
            Step::Banner | Step::Ehlo | Step::Helo if code >= 400 => self.greeting_refused(now, reply),
            Step::Ehlo if code == 250 => {
                self.extensions = Extensions::read(&reply);
                self.greeted(now, reply);
            }
            Step::Helo if code == 250 => self.greeted(now, reply),
            Step::StartTls if code == 220 => {
                self.enter(Step::Handshake, now);
                self.events.push_back(Event::StartTls);
            }
            // TLS is opportunistic (RFC 7435). If a server offers TLS but refuses it, the session continues without TLS.
            Step::StartTls if code >= 400 => self.ready(),
            Step::Rset if is_done(code) || self.pads && code >= 400 => {
                self.pass(ReplyPlace::Rset, &reply, now);
                self.proceed(now);
            }
            // This is the reply to EHLO, so a surplus reply has come before it.
            Step::Mail if code == 250 && Extensions::read(&reply) != Extensions::default() => {
                self.end(Closure::Unexpected(Step::Mail));
            }
            Step::Mail if is_done(code) => {
                self.needs_rset = true;
                self.pass(ReplyPlace::Mail, &reply, now);
                self.proceed(now);
            }
            Step::Mail if code >= 400 => {
                self.mail_refused = true;
                self.pass(ReplyPlace::Mail, &reply, now);
                self.events.push_back(Event::MailRefused(reply));
                self.drop_held();
                self.proceed(now);
            }
            Step::Rcpt(_) if self.mail_refused => {
                self.pass(ReplyPlace::Mail, &reply, now);
                self.proceed(now);
            }
            Step::Rcpt(index) if is_done(code) || code >= 400 => {
                // If EHLO or QUIT was sent with RCPT, its reply shows more, and comes soon.
                let shows_more = matches!(self.steps_due.back(), Some(Step::InStep | Step::Quit));
                self.known &= !self.is_doubted(now);
                let in_step = self.known && (!shows_more || self.habits.ends_at_refusal);
                self.habits.answers_groups |= self.sends_groups();
                self.pass(ReplyPlace::of_rcpt(&reply), &reply, now);
                self.events.push_back(Event::Answered { index, reply, in_step });
                self.proceed(now);
            }
            Step::InStep if self.is_greeting(&reply) => {
                self.on_in_step(now);
                // After 503, EHLO may have had no effect.
                self.refuses_ehlo = code == 503;
                self.needs_rset &= self.refuses_ehlo;
                if self.needs_rset && self.steps_due.front() == Some(&Step::Mail) {
                    let mut rset = Vec::new();
                    encode(&mut rset, Command::Rset);
                    self.held.push_front(rset);
                    self.steps_due.push_front(Step::Rset);
                }
                self.proceed(now);
            }
            // The server may take no second EHLO, or this is the reply to an earlier command. The reply to QUIT shows which.
            Step::InStep => {
                self.held.clear();
                self.steps_due.clear();
                self.refuses_again = true;
                self.quit_to_show(now);
            }
            Step::Quit if code == 221 => {
                self.on_in_step(now);
                self.end(Closure::Quit);
            }
            step => self.end(Closure::Unexpected(step)),
        }
    }

    /// Records a reply that needs no EHLO to be understood.
    fn pass(&mut self, place: ReplyPlace, reply: &Reply, now: Instant) {
        self.passed.pass(place, now);
        self.ambiguous |= reply.code() == 503 || begins_with(reply, &self.greeting);
    }

    fn on_in_step(&mut self, now: Instant) {
        let shown = self.in_step(now);
        self.proven.add(shown);
        if self.sizes > 0 {
            self.passed.pass(ReplyPlace::Group, now);
        }
        self.events.push_back(Event::InStep(Some(shown)));
    }

    /// Whether this can only be the reply to another EHLO or HELO: a list of extensions, a reply that begins with the same name as
    /// the one with which the server greeted us, or the refusal of a second greeting.
    fn is_greeting(&self, reply: &Reply) -> bool {
        match reply.code() {
            250 if Extensions::read(reply) != Extensions::default() => true,
            250 => !self.ambiguous && begins_with(reply, &self.greeting),
            // RCPT may get 503 too, and then in such words.
            503 => !self.ambiguous && refuses_greeting(reply.text()),
            _ => false,
        }
    }

    /// Sends EHLO to learn whether the replies so far were in step.
    fn show_in_step(&mut self, now: Instant) {
        if self.habits.ends_at_ehlo {
            return self.quit_to_show(now);
        }
        encode(&mut self.outgoing, greeting(self.is_helo, &self.config.ehlo));
        self.enter(Step::InStep, now);
    }

    /// Ends the session with QUIT. Its reply is awaited, because it shows whether the replies so far were in step.
    fn quit_to_show(&mut self, now: Instant) {
        encode(&mut self.outgoing, Command::Quit);
        self.enter(Step::Quit, now);
    }

    fn greet(&mut self, now: Instant) {
        encode(&mut self.outgoing, Command::Ehlo(&self.config.ehlo));
        self.enter(Step::Ehlo, now);
    }

    /// RFC 5321 3.2: if the server refuses EHLO with a permanent reply, HELO is sent. Any other refusal ends the session.
    fn greeting_refused(&mut self, now: Instant, reply: Reply) {
        if self.step == Step::Ehlo && reply.is_permanent() {
            encode(&mut self.outgoing, Command::Helo(&self.config.ehlo));
            self.enter(Step::Helo, now);
        } else {
            self.end(Closure::Refused { step: self.step, reply });
        }
    }

    fn greeted(&mut self, now: Instant, reply: Reply) {
        self.is_helo = self.step == Step::Helo;
        self.passed.pass(ReplyPlace::Greeted, now);
        self.greeting = first_word(&reply).into();
        if !self.habits.plain && self.extensions.starttls {
            encode(&mut self.outgoing, Command::StartTls);
            self.enter(Step::StartTls, now);
        } else {
            self.ready();
        }
    }

    /// Continues the transaction with its next step. If there is none, the session is ready for the next transaction.
    fn proceed(&mut self, now: Instant) {
        if self.steps_due.is_empty() && self.step != Step::InStep && self.is_doubted(now) {
            self.show_in_step(now);
        } else if self.steps_due.is_empty() {
            self.ready();
        } else {
            self.send_held();
            self.await_next(now);
        }
    }

    fn await_next(&mut self, now: Instant) {
        if let Some(step) = self.steps_due.pop_front() {
            self.enter(step, now);
        }
    }

    /// Sends the next command of the transaction. With PIPELINING there is none, because all commands were sent together.
    fn send_held(&mut self) {
        if let Some(command) = self.held.pop_front() {
            self.outgoing.extend_from_slice(&command);
        }
    }

    /// Drops the RCPT commands that have not been sent, because the server refused MAIL. With PIPELINING they have been sent, and
    /// their replies are still read.
    fn drop_held(&mut self) {
        if !self.sends_groups() {
            self.held.clear();
            self.steps_due.clear();
        }
    }

    fn ready(&mut self) {
        self.step = Step::Idle;
        self.deadline = None;
        self.events.push_back(Event::Ready);
    }

    fn enter(&mut self, step: Step, now: Instant) {
        let timeouts = &self.config.timeouts;
        let wait = match step {
            Step::Banner => timeouts.banner,
            Step::Quit if self.quits => limits::IN_STEP_AGE_MAX,
            Step::Ehlo | Step::Helo | Step::StartTls | Step::InStep | Step::Quit => timeouts.ehlo,
            Step::Rset => timeouts.rset,
            Step::Handshake => timeouts.tls,
            step if self.waits_for_group(step) => limits::GROUP_TIMEOUT.min(timeouts.rcpt),
            Step::Mail => timeouts.mail,
            Step::Rcpt(_) | Step::Idle => timeouts.rcpt,
        };
        self.step = step;
        self.deadline = Some(now + wait);
    }

    /// Whether this is the first RCPT of a group, at a host that has not shown that it answers groups of commands.
    fn waits_for_group(&self, step: Step) -> bool {
        step == Step::Rcpt(0) && self.sends_groups() && !self.habits.answers_groups
    }

    /// Ends the session after a reply that answers no command. The server sends 421 if it closes the connection. Any other such
    /// reply shows that the server has lost count of the commands.
    fn unasked(&mut self, reply: Reply) {
        self.end(if reply.code() == 421 {
            Closure::Refused { step: self.step, reply }
        } else {
            Closure::Unexpected(self.step)
        });
    }

    fn end(&mut self, closure: Closure) {
        let ends_early = matches!(closure, Closure::Refused { .. } | Closure::Closed(_));
        let has_quit = self.quits && self.step == Step::Quit;
        if ends_early && (has_quit || self.known && matches!(self.step, Step::Rcpt(1..) | Step::InStep)) {
            // The reply to EHLO or QUIT, for which the answers waited, does not come. After QUIT, a surplus reply would have.
            self.events.push_back(Event::InStep(None));
        }
        let closure = if ends_early && has_quit { Closure::Quit } else { closure };
        self.over = true;
        self.out_of_step = matches!(closure, Closure::Unexpected(_) | Closure::Garbled(..));
        self.deadline = None;
        // [`Dialog::unanswered`] must not count recipients with a RCPT that was never sent.
        self.steps_due.truncate(self.steps_due.len().saturating_sub(self.held.len()));
        self.held = VecDeque::new();
        self.parser.clear();
        self.events.push_back(Event::Over(closure));
    }
}

#[cfg(test)]
mod tests;
