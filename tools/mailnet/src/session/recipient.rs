//! The answer of a session to RCPT, from the mailbox and the host's conduct.

use super::{Outcome, Session, Step, path, replaces};
use crate::{
    What,
    conduct::{Conduct, Counted, Standing, Word},
    mailbox::{GreylistBy, Mailbox},
    personality::Personality,
    running::{Net, Whose},
    spec::ReplyKind,
    stats::{Violation, add},
};
use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

impl Session {
    pub(super) fn rcpt(&mut self, rest: &str, out: &mut Vec<u8>) -> Step {
        add(&self.place.net.counters.rcpt);
        add(&self.place.net.hosts[self.host as usize].rcpt);
        let place = self.place();
        let personality = &place.behaviour.personality;
        if self.sender.is_none() {
            if !self.mail_refused {
                self.violation(Violation::RcptBeforeMail);
            }
            return self.plain("503 5.5.1 Error: need MAIL command", out);
        }
        let is_well_formed = |(address, _): &(&str, &str)| !address.is_empty() && self.accepts_form(rest);
        let Some((address, parameters)) = path(rest, "TO:").filter(is_well_formed) else {
            return self.breach(Violation::Syntax, "501 5.5.4 Syntax: RCPT TO:<address>", out);
        };
        if !parameters.is_empty() || !(address.is_ascii() || self.utf8) {
            let text = "553 5.6.7 Address or parameters need an extension";
            return self.breach(Violation::ParameterNotOffered, text, out);
        }
        self.rcpts += 1;
        self.asked = Some(true);
        let is_over = |count: u64, most: u64| most > 0 && count > most;
        if is_over(self.rcpts, personality.rcpt_max)
            || is_over(self.rcpts_taken + 1, personality.session_rcpt_max)
        {
            return self.say(ReplyKind::TooManyRecipients, address, out);
        }
        self.rcpts_taken += 1;
        let mailbox = self.look_up(personality, address);
        match &place.behaviour.conduct {
            Some(conduct) => self.answer_by(conduct, mailbox, address, out),
            None => self.answer_for(personality, mailbox, address, out),
        }
    }

    /// Answers as the host's conduct changes the truth.
    fn answer_by(&mut self, conduct: &Conduct, truth: Mailbox, address: &str, out: &mut Vec<u8>) -> Step {
        let place = self.place();
        let personality = &place.behaviour.personality;
        let here = (self.host, self.node);
        let refused =
            |counted, within| refusals(&place.net, here, self.client, self.refused, (counted, within));
        let standing = Standing { node: self.node, begun: &self.begun, refused: &refused };
        let local = address.rsplit_once('@').map_or(address, |(local, _)| local);
        let turn = conduct.turn(&standing, local);
        let is_honest = turn.word == Word::Honest;
        self.asked = Some(is_honest);
        if is_honest && truth == Mailbox::NotFound && conduct.counts() {
            self.refused += 1;
            place.net.refused(self.host, self.client, self.node);
        }
        let start = out.len();
        let step = match turn.word {
            Word::Honest => self.answer_for(personality, truth, address, out),
            Word::Accept => self.answer_for(personality, Mailbox::Ok, address, out),
            Word::Refuse => self.answer_for(personality, Mailbox::NotFound, address, out),
            Word::Reply(reply) => {
                self.write(reply, address, out);
                if reply.code == 421 { Step::Close } else { Step::Go }
            }
        };
        let is_refusal = out.get(start).is_some_and(|&digit| digit == b'4' || digit == b'5');
        if step == Step::Go && is_refusal && !turn.delay.is_zero() { Step::Pause(turn.delay) } else { step }
    }

    /// The mailbox of an address, as this host knows it.
    fn look_up(&mut self, personality: &Personality, address: &str) -> Mailbox {
        let place = self.place();
        let net = &place.net;
        let key = (self.host, self.client);
        if personality.not_found_max > 0 && net.not_found(key, false) >= personality.not_found_max {
            return Mailbox::Policy;
        }
        let Some((local, domain)) = address.rsplit_once('@') else {
            let is_postmaster = address.eq_ignore_ascii_case("postmaster");
            return if is_postmaster { Mailbox::Ok } else { Mailbox::NotFound };
        };
        let Some(domain) = net.domain(domain).filter(|domain| domain.hosts.contains(&self.host)) else {
            return Mailbox::Relay;
        };
        let mailboxes = &domain.mailboxes;
        let mut found = mailboxes.find(net.world.seed, local, &domain.name);
        let greylisting = mailboxes.greylisting;
        if (found == Mailbox::Greylisted || greylisting.everyone)
            && let (Some(ms), Some(sender)) = (greylisting.ms, &self.sender)
        {
            let client = self.client_text.as_str();
            let counts = match greylisting.by {
                GreylistBy::Triple => [client, sender, address],
                GreylistBy::Recipient => ["", "", address],
                GreylistBy::Client => [client, "", &domain.name],
            };
            let known = net.is_past_greylist(counts, Instant::now(), Duration::from_millis(ms));
            found = match (known, found) {
                (false, _) => Mailbox::Greylisted,
                (true, Mailbox::Greylisted) => Mailbox::Ok,
                (true, found) => found,
            };
        }
        if found == Mailbox::NotFound && personality.not_found_max > 0 {
            net.not_found(key, true);
        }
        found
    }

    fn answer_for(
        &mut self,
        personality: &Personality,
        found: Mailbox,
        rcpt: &str,
        out: &mut Vec<u8>,
    ) -> Step {
        let kind = match found {
            Mailbox::Ok => return self.accept(personality, rcpt, out),
            Mailbox::NotFound => ReplyKind::NotFound,
            Mailbox::Full => ReplyKind::Full,
            Mailbox::FullTemporary => ReplyKind::FullTemporary,
            Mailbox::Disabled => ReplyKind::Disabled,
            Mailbox::Greylisted => ReplyKind::Greylisted,
            Mailbox::Policy => ReplyKind::Policy,
            Mailbox::Throttled => ReplyKind::Throttled,
            Mailbox::ExistsThrottled => ReplyKind::ExistsThrottled,
            Mailbox::Relay => ReplyKind::Relay,
            Mailbox::Temporary => ReplyKind::Temporary,
            Mailbox::Restricted => ReplyKind::Restricted,
            Mailbox::Closing => {
                self.say(ReplyKind::Closing, rcpt, out);
                return Step::Close;
            }
            Mailbox::Hangup => return Step::Close,
            Mailbox::Reset => return Step::Reset,
            Mailbox::Silent => return Step::Hang,
        };
        self.say(kind, rcpt, out);
        // A reply of 421 ends the session (RFC 5321 3.8).
        if personality.reply(kind).code == 421 { Step::Close } else { Step::Go }
    }

    fn accept(&mut self, personality: &Personality, rcpt: &str, out: &mut Vec<u8>) -> Step {
        add(&self.place.net.counters.rcpt_accepted);
        self.say(ReplyKind::Ok, rcpt, out);
        let is_first = !std::mem::replace(&mut self.accepted, true);
        if is_first && personality.accept_pause_ms > 0 {
            return Step::Pause(Duration::from_millis(personality.accept_pause_ms));
        }
        Step::Go
    }

    /// Records the answer to RCPT in the journal, and counts refusals.
    pub(super) fn note_rcpt(&mut self, rest: &str, outcome: Outcome, said: &[u8]) {
        let Some(honest) = self.asked.take() else { return };
        let code =
            std::str::from_utf8(said.get(..3).unwrap_or_default()).ok().and_then(|code| code.parse().ok());
        let place = self.place();
        let spoilt = outcome.fault.filter(|&at| replaces(place.behaviour.faults[at].spec.does));
        let code = if spoilt.is_some() { 0 } else { code.unwrap_or(0) };
        if (500..600).contains(&code) {
            add(&place.net.hosts[self.host as usize].rcpt_refused);
        }
        if let Some(pattern) = &place.net.world.recipients
            && let Some((address, _)) = path(rest, "TO:")
        {
            place.net.counters.recipients.count(pattern, address);
        }
        if place.net.world.journal
            && let Some((address, _)) = path(rest, "TO:")
        {
            let honest = honest && spoilt.is_none();
            self.note(What::Rcpt { address: address.to_owned(), code, honest });
            self.unwritten = true;
        }
    }
}

/// How many unknown recipients were refused in a scope; `own` is the count of the session.
pub(super) fn refusals(
    net: &Net,
    (host, node): (u32, u32),
    client: IpAddr,
    own: u64,
    (counted, within): (Counted, Option<Duration>),
) -> u64 {
    match counted {
        Counted::Session => own,
        Counted::Client => net.refusals(host, Whose::Client(client), within),
        Counted::Node => net.refusals(host, Whose::Node(node), within),
        Counted::Host => net.refusals(host, Whose::Host, within),
    }
}
