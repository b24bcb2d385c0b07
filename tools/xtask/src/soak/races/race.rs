//! One race: things are begun with a password, a session and a key, and meanwhile one of these ends.

use super::site::RaceSite;
use super::visits::{self, BY_KEY, BY_SESSION, Step, Thing};
use crate::failure::ensure;
use crate::interop::process;
use crate::soak::client::{HttpClient, HttpReply, HttpRequest};
use crate::soak::transport::ServerEndpoint;
use std::collections::BTreeSet;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

const OLD: &str = "correct horse battery";
const NEW: &str = "another horse battery";
/// The complaint about a session that is open after the end.
pub const OPEN: &str = "its session is open";
/// The complaint about a step that was allowed later.
pub const LATE: &str = "after the acknowledgement";
/// The clients that sign in with the old password.
const SIGN_INS: usize = 6;
/// The clients that use a session or a key from before.
const OTHERS: usize = 4;
/// After this time the other nodes know of the end of a key.
const OTHER_NODES: Duration = Duration::from_secs(2);

/// What ends during a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaceEnd {
    /// The user sets another password.
    Change,
    /// The operator sets another password.
    Reset,
    /// The user, or the operator, deletes the account.
    Deletion,
    /// The operator revokes the key.
    Revocation,
    /// Nothing ends, to see that the judge then complains.
    Nothing,
}

/// The ends of the races, in turn.
pub const ENDS: [RaceEnd; 4] = [RaceEnd::Change, RaceEnd::Reset, RaceEnd::Deletion, RaceEnd::Revocation];

/// What a race found.
#[derive(Default)]
pub struct RaceCount {
    /// Steps that were allowed.
    pub allowed: usize,
    /// Steps that were refused.
    pub refused: usize,
    /// Steps whose answer came after the acknowledgement of the end.
    pub late: usize,
}

/// A user with a key, and what was drawn for the race.
pub struct Race<'r> {
    /// The servers.
    pub site: &'r RaceSite,
    /// The client id of the assistant.
    pub client: &'r str,
    /// The name of the account.
    pub name: String,
    /// What ends.
    pub end: RaceEnd,
    /// The longest pause before a step.
    pub longest: Duration,
}

/// The outcome of a client: its steps, how many were refused, and the time of its last answer.
type RaceOutcome = Result<(Vec<Step>, usize, Instant), String>;

impl Race<'_> {
    /// Runs the race and judges it.
    ///
    /// # Errors
    ///
    /// What worked after the end, or a server that did not do as it should.
    pub fn run(&self, random: &mut fastrand::Rng) -> Result<RaceCount, String> {
        let email = format!("{}@example.com", self.name);
        let site = self.site;
        site.ask(0, &["account", "create", &self.name, "--email", &email], &format!("{OLD}\n"))?;
        let made = site.ask(0, &["key", "create", &self.name], "")?;
        let text = |field: &str| made[field].as_str().unwrap_or_default().to_owned();
        let (key, key_id) = (text("key"), text("id"));
        let node = |random: &mut fastrand::Rng| site.endpoint(random.usize(..site.len()));
        let first = |email: &str, server: &ServerEndpoint| {
            visits::enter(server, "/signin", email, OLD)?
                .ok_or_else(|| "the old password is refused before the race".to_owned())
        };
        let owner = first(&email, &site.endpoint(0))?;
        let thief = first(&email, &node(random))?;
        self.key_is_known(&key)?;
        // All that is drawn is drawn here, so that a seed gives the same race.
        let longest = u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX);
        let pause = |random: &mut fastrand::Rng| Duration::from_millis(random.u64(..=longest));
        let ender = (pause(random), random.usize(..site.len()), random.bool());
        let by_password = self.end != RaceEnd::Revocation;
        let mut steps = Vec::new();
        for number in 0..SIGN_INS + OTHERS {
            let what = match by_password {
                true => BY_SESSION[random.usize(..BY_SESSION.len())],
                false => BY_KEY[random.usize(..BY_KEY.len())],
            };
            let action = if random.u8(..6) == 0 { "/signup" } else { "/signin" };
            // A sign-up after a deletion would make another account.
            let action = if self.end == RaceEnd::Deletion { "/signin" } else { action };
            steps.push((number, what, action, node(random), node(random), [pause(random), pause(random)]));
        }
        let (ended, outcomes) = std::thread::scope(|scope| {
            let clients: Vec<ScopedJoinHandle<'_, RaceOutcome>> = steps
                .iter()
                .map(|&(number, what, action, ref server, ref other, pauses)| {
                    let (email, key, thief) = (&email, &key, &thief);
                    scope.spawn(move || {
                        process::sleep(pauses[0])?;
                        match (by_password, number < SIGN_INS) {
                            (true, true) => self.sign_in(email, what, (action, server, other), pauses[1]),
                            (true, false) => self.with_session(thief, what, (server, other), pauses[1]),
                            (false, _) => {
                                let step = visits::by_key(server, key, what, pauses[1])?;
                                let refused = usize::from(step.is_none());
                                Ok((step.into_iter().collect(), refused, Instant::now()))
                            }
                        }
                    })
                })
                .collect();
            let ended = self.finish(&owner, &email, &key_id, ender);
            let panicked = || Err("a client panicked".to_owned());
            (ended, clients.into_iter().map(|one| one.join().unwrap_or_else(|_| panicked())).collect())
        });
        let (acknowledged, owner, before) = ended?;
        let (mut all, mut count) = (Vec::new(), RaceCount::default());
        let outcomes: Vec<RaceOutcome> = outcomes;
        for outcome in outcomes {
            let (steps, refused, at) = outcome?;
            count.allowed += steps.len();
            count.refused += refused;
            count.late += usize::from(at > acknowledged);
            all.extend(steps);
        }
        self.judge(&all, acknowledged, owner.as_ref(), before.as_ref())?;
        if by_password {
            for number in 0..site.len() {
                if visits::enter(&site.endpoint(number), "/signin", &email, OLD)?.is_some() {
                    return Err("the old password still signs in".into());
                }
            }
        } else {
            self.is_refused_everywhere(acknowledged, &key)?;
        }
        Ok(count)
    }

    /// The other nodes learn of a new key within the same time.
    fn key_is_known(&self, key: &str) -> Result<(), String> {
        for node in 0..self.site.len() {
            let is_known = || Ok(visits::is_accepted(&self.site.endpoint(node), key)?);
            process::wait_until("the key to be known", OTHER_NODES, is_known)?;
        }
        Ok(())
    }

    /// Signs in with the old password, and takes a step at once.
    fn sign_in(
        &self,
        email: &str,
        what: &'static str,
        (action, server, other): (&str, &ServerEndpoint, &ServerEndpoint),
        pause: Duration,
    ) -> RaceOutcome {
        let begun = Instant::now();
        let Some(browser) = visits::enter(server, action, email, OLD)? else {
            return Ok((Vec::new(), 1, Instant::now()));
        };
        let answered = Instant::now();
        let session = Step { what: "sign-in", begun, thing: Thing::Session(browser.beside()) };
        let (mut steps, refused, _) = self.with_session(&browser, what, (other, server), pause / 4)?;
        steps.push(session);
        Ok((steps, refused, answered))
    }

    /// Takes a step with a session. A consent is redeemed too.
    fn with_session(
        &self,
        browser: &HttpClient,
        what: &'static str,
        (server, other): (&ServerEndpoint, &ServerEndpoint),
        pause: Duration,
    ) -> RaceOutcome {
        let step = visits::by_session(browser, server, what, self.client, pause)?;
        let Some(Step { thing: Thing::Code(code), .. }) = &step else {
            let refused = usize::from(step.is_none());
            return Ok((step.into_iter().collect(), refused, Instant::now()));
        };
        process::sleep(pause)?;
        let token = visits::redeem(other, self.client, code)?;
        let refused = usize::from(token.is_none());
        Ok((step.into_iter().chain(token).collect(), refused, Instant::now()))
    }

    /// Ends what the race is about. Returns the time of the acknowledgement, a browser that is signed in afterwards, and what the
    /// account has then.
    #[expect(clippy::type_complexity, reason = "three values of one caller")]
    fn finish(
        &self,
        owner: &HttpClient,
        email: &str,
        key_id: &str,
        (pause, node, by_operator): (Duration, usize, bool),
    ) -> Result<(Instant, Option<HttpClient>, Option<BTreeSet<String>>), String> {
        process::sleep(pause)?;
        let server = self.site.endpoint(node);
        let mut browser = owner.at(&server);
        let operate = |arguments: &[&str], input: &str| {
            self.site.operate(node, arguments, input).map(drop).map_err(String::from)
        };
        match self.end {
            RaceEnd::Change => {
                let fields = [("password", OLD), ("new-password", NEW)];
                send_form(&mut browser, "/sessions", "/sessions/password", &fields, 200)?;
            }
            RaceEnd::Reset => operate(&["account", "set-password", &self.name], &format!("{NEW}\n"))?,
            RaceEnd::Deletion if by_operator => operate(&["account", "delete", "--yes", &self.name], "")?,
            RaceEnd::Deletion => {
                let fields = [("name", self.name.as_str()), ("password", OLD)];
                send_form(&mut browser, "/account/delete", "/account/delete", &fields, 303)?;
            }
            RaceEnd::Revocation => operate(&["key", "revoke", key_id], "")?,
            RaceEnd::Nothing => {}
        }
        let acknowledged = Instant::now();
        let owner = match self.end {
            RaceEnd::Deletion => None,
            RaceEnd::Reset => {
                Some(visits::enter(&server, "/signin", email, NEW)?.ok_or("the new password is refused")?)
            }
            RaceEnd::Change | RaceEnd::Revocation | RaceEnd::Nothing => Some(browser),
        };
        if self.end == RaceEnd::Revocation && self.site.len() > 1 {
            process::sleep(OTHER_NODES)?;
        }
        let before = owner.as_ref().map(|owner| self.possessions(owner)).transpose()?;
        Ok((acknowledged, owner, before))
    }

    /// What the account has by the pages of all nodes: a node learns of the keys of another one within 2 s.
    fn possessions(&self, owner: &HttpClient) -> Result<BTreeSet<String>, String> {
        let mut all = BTreeSet::new();
        for node in 0..self.site.len() {
            all.extend(visits::possessions(owner, &self.site.endpoint(node))?);
        }
        Ok(all)
    }

    /// Nothing that was begun with what was replaced works after the acknowledgement.
    fn judge(
        &self,
        steps: &[Step],
        acknowledged: Instant,
        owner: Option<&HttpClient>,
        before: Option<&BTreeSet<String>>,
    ) -> Result<(), String> {
        // On other nodes a key may be accepted for a while.
        let grace =
            if self.site.len() > 1 && self.end == RaceEnd::Revocation { OTHER_NODES } else { Duration::ZERO };
        for step in steps {
            if step.begun > acknowledged + grace {
                let late = step.begun.duration_since(acknowledged).as_millis();
                return Err(format!("{}: allowed {late} ms {LATE}", step.what));
            }
            for node in 0..self.site.len() {
                let server = self.site.endpoint(node);
                match &step.thing {
                    Thing::Session(browser) if visits::is_open(browser, &server)? => {
                        return Err(format!("{}: {OPEN}", step.what));
                    }
                    Thing::Code(code) if visits::redeem(&server, self.client, code)?.is_some() => {
                        return Err(format!("{}: its code is redeemed after the end", step.what));
                    }
                    Thing::Key(key) if self.end == RaceEnd::Deletion => {
                        self.is_refused_everywhere(acknowledged, key)?;
                    }
                    Thing::Token(token)
                        if self.end == RaceEnd::Deletion && visits::is_connected(&server, token)? =>
                    {
                        return Err(format!("{}: the token of a deleted account is accepted", step.what));
                    }
                    _ => {}
                }
            }
        }
        if let (Some(owner), Some(before)) = (owner, before) {
            let after = self.possessions(owner)?;
            // A code that was redeemed twice ends its connection.
            let added: Vec<_> = after.difference(before).collect();
            ensure!(added.is_empty(), "made after the acknowledgement: {added:?}");
        }
        Ok(())
    }

    /// No node accepts this key, at the latest when they have all heard of its end.
    fn is_refused_everywhere(&self, acknowledged: Instant, key: &str) -> Result<(), String> {
        if self.site.len() > 1 {
            let known = acknowledged + OTHER_NODES;
            process::sleep(known.saturating_duration_since(Instant::now()))?;
        }
        for node in 0..self.site.len() {
            if visits::is_accepted(&self.site.endpoint(node), key)? {
                return Err("the key is accepted after its end".into());
            }
        }
        Ok(())
    }
}

/// Opens a page and sends one of its forms, until it finds a place in the queue of passwords.
fn send_form(
    browser: &mut HttpClient,
    page: &str,
    action: &str,
    fields: &[(&str, &str)],
    status: u16,
) -> Result<HttpReply, String> {
    loop {
        let shown = browser.ask(&HttpRequest::get(page))?;
        let reply = browser.ask(&visits::filled(&shown, action, fields)?)?;
        match reply.status {
            found if found == status => return Ok(reply),
            429 | 503 => process::sleep(Duration::from_millis(50))?,
            _ => return Err(format!("{action}: {reply}")),
        }
    }
}
