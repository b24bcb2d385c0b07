//! The personality of a mail server: its greeting, its extensions, its limits and the wording of its replies.
//!
//! The known ones are rows of `personalities.toml`; a scenario adds others with `[[personality]]`.

use crate::spec::ReplyKind;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};
use toml::{Table, Value};

/// A personality with its keys in a scenario. A limit of 0 means no limit.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Personality {
    pub name: String,
    pub banner: Template,
    pub banner_delay_ms: u64,
    /// The keywords of EHLO; `STARTTLS` is left out under TLS.
    pub ehlo: Vec<String>,
    #[serde(skip)]
    pub pipelining: bool,
    #[serde(skip)]
    pub smtputf8: bool,
    #[serde(skip)]
    pub starttls: bool,
    #[serde(skip)]
    pub size: bool,
    #[serde(skip)]
    pub eight_bit: bool,
    pub helo_only: bool,
    pub require_tls: bool,
    /// How many refusals of a session precede a delay of `slow_ms` for every command.
    pub errors_slow: u64,
    pub slow_ms: u64,
    /// How many refusals of a session precede a 421.
    pub errors_max: u64,
    /// It ends the session without that 421.
    pub hangs_up: bool,
    /// It takes no second EHLO in a session.
    pub greets_once: bool,
    /// The most recipients of one transaction.
    pub rcpt_max: u64,
    /// The most recipients of one session.
    pub session_rcpt_max: u64,
    /// It reads only the first command of a packet.
    pub first_only: bool,
    pub transactions_max: u64,
    /// The most simultaneous sessions of one client at one host.
    pub sessions_max: u64,
    /// How many unknown recipients of one client a host refuses before it answers every recipient with a policy
    /// refusal.
    pub not_found_max: u64,
    /// The pause before the first accepted RCPT of a transaction, as in Postfix under load.
    pub accept_pause_ms: u64,
    /// Clients whose greeting is a refusal.
    pub blocks: Vec<IpAddr>,
    replies: BTreeMap<ReplyKind, Template>,
}

impl Personality {
    /// Notes which of the known extensions EHLO offers.
    fn with_extensions(mut self) -> Personality {
        self.ehlo.iter_mut().for_each(|keyword| keyword.make_ascii_uppercase());
        let has = |keyword: &str| self.ehlo.iter().any(|line| line.split(' ').next() == Some(keyword));
        let known = ["PIPELINING", "SMTPUTF8", "STARTTLS", "SIZE", "8BITMIME"].map(has);
        [self.pipelining, self.smtputf8, self.starttls, self.size, self.eight_bit] = known;
        self
    }

    pub(crate) fn reply(&self, kind: ReplyKind) -> &Template {
        // `generic` has words for every kind (a test checks that), and every personality is based on it.
        self.replies.get(&kind).unwrap_or(&self.banner)
    }
}

/// A reply with placeholders for the client's values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Template {
    pub code: u16,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Rcpt,
    Local,
    Domain,
    Host,
    Client,
    Sender,
    Id,
}

/// The values of the placeholders.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Holes<'a> {
    pub rcpt: &'a str,
    pub host: &'a str,
    pub client: &'a str,
    pub sender: &'a str,
    pub id: u64,
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Template, String> {
        Template::parse(&text)
    }
}

impl Template {
    /// Parses `550 5.1.1 <{rcpt}> no such user`; `\n` begins a further line of the same reply.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let wrong = || format!("reply `{text}`: must begin with a code of 200 to 599 and a space");
        let (code, rest) = text.split_once(' ').ok_or_else(wrong)?;
        let code: u16 = match code.parse() {
            Ok(number) if code.len() == 3 && (200..600).contains(&number) => number,
            _ => return Err(wrong()),
        };
        let lines: Vec<&str> = rest.split('\n').collect();
        let mut whole = String::new();
        for (at, line) in lines.iter().enumerate() {
            let mark = if at + 1 == lines.len() { ' ' } else { '-' };
            whole.push_str(&format!("{code}{mark}{line}\r\n"));
        }
        Ok(Template { code, parts: holes(&whole, text)? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, holes: &Holes<'_>) {
        let (local, domain) = holes.rcpt.rsplit_once('@').unwrap_or((holes.rcpt, ""));
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text,
                Part::Rcpt => holes.rcpt,
                Part::Local => local,
                Part::Domain => domain,
                Part::Host => holes.host,
                Part::Client => holes.client,
                Part::Sender => holes.sender,
                Part::Id => {
                    out.extend_from_slice(format!("{:010X}", holes.id).as_bytes());
                    continue;
                }
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn holes(mut rest: &str, text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| format!("reply `{text}`: a {{ without }}"))?;
        if !before.is_empty() {
            parts.push(Part::Text(before.into()));
        }
        parts.push(match name {
            "rcpt" => Part::Rcpt,
            "local" => Part::Local,
            "domain" => Part::Domain,
            "host" => Part::Host,
            "client" => Part::Client,
            "sender" => Part::Sender,
            "id" => Part::Id,
            _ => {
                return Err(format!(
                    "reply `{text}`: unknown hole `{name}`, expected one of `rcpt`, `local`, `domain`, `host`, \
                     `client`, `sender`, `id`"
                ));
            }
        });
        rest = after;
    }
    parts.push(Part::Text(rest.into()));
    Ok(parts)
}

/// All personalities by name: the known ones and those of the scenario.
pub(crate) struct Personalities(HashMap<String, Arc<Personality>>);

impl Personalities {
    pub(crate) fn new(own: &[Table]) -> Result<Personalities, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            personality: Vec<Table>,
        }
        let known: File = toml::from_str(include_str!("../personalities.toml"))
            .map_err(|error| format!("personalities.toml: {error}"))?;
        let (mut done, mut ready) = (HashMap::new(), HashMap::new());
        for keys in known.personality.iter().chain(own) {
            let name = keys.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let name = name.ok_or("personality: `name` is missing")?;
            let whole = inherit(name, keys, &done)?;
            let personality: Result<Personality, _> = whole.clone().try_into();
            let personality = personality.map_err(|error| format!("personality `{name}`: {error}"))?;
            if done.insert(name.to_owned(), whole).is_some() {
                return Err(format!("personality `{name}`: defined twice"));
            }
            ready.insert(name.to_owned(), Arc::new(personality.with_extensions()));
        }
        Ok(Personalities(ready))
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<Personality>, String> {
        self.0
            .get(name)
            .cloned()
            .ok_or_else(|| format!("unknown personality `{name}`, expected {}", self.names()))
    }

    fn names(&self) -> String {
        one_of(self.0.keys())
    }
}

fn one_of<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.sort_unstable();
    format!("one of {}", names.join(", "))
}

/// The keys of a personality, with those of the one that it is `like`.
fn inherit(name: &str, keys: &Table, done: &HashMap<String, Table>) -> Result<Table, String> {
    let mut own = keys.clone();
    let like = match own.remove("like") {
        None if name == "generic" => return Ok(own),
        None => "generic".to_owned(),
        Some(Value::String(like)) => like,
        Some(other) => return Err(format!("personality `{name}`: like = {other} is no name")),
    };
    let mut whole = done.get(&like).cloned().ok_or_else(|| {
        format!("personality `{name}`: unknown like = `{like}`, expected {}", one_of(done.keys()))
    })?;
    for (key, value) in own {
        match (whole.get_mut(&key), value) {
            (Some(Value::Table(replies)), Value::Table(own)) => replies.extend(own),
            (_, value) => drop(whole.insert(key, value)),
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_words_every_reply_with_a_fitting_code() {
        use ReplyKind::*;
        let all = Personalities::new(&[]).unwrap();
        let kinds = [
            (Ok, 2..3),
            (NotFound, 5..6),
            (Full, 5..6),
            (FullTemporary, 4..5),
            (Disabled, 5..6),
            (Greylisted, 4..5),
            (Policy, 4..6),
            (Throttled, 4..6),
            (ExistsThrottled, 4..6),
            (Relay, 5..6),
            (Temporary, 4..5),
            (Restricted, 5..6),
            (MailOk, 2..3),
            (Closing, 4..5),
            (TooManyErrors, 4..5),
            (TooManyRecipients, 4..5),
            (TooManyTransactions, 4..5),
            (TooManySessions, 4..5),
            (TlsRequired, 5..6),
            (Bye, 2..3),
        ];
        for personality in all.0.values() {
            for (kind, classes) in &kinds {
                let reply = personality.replies.get(kind).expect("worded");
                assert!(classes.contains(&(reply.code / 100)), "{} {kind:?}", personality.name);
            }
        }
        assert!(all.0.len() >= 20, "{}", all.0.len());
    }

    #[test]
    fn replies_are_templates() {
        let template = Template::parse("550 5.1.1 <{rcpt}>: no\n5.1.1 {local} at {domain} {host}").unwrap();
        let mut out = Vec::new();
        template.write(&mut out, &Holes { rcpt: "a@b.example", host: "mx", ..Holes::default() });
        assert_eq!(out, b"550-5.1.1 <a@b.example>: no\r\n550 5.1.1 a at b.example mx\r\n");
        for (wrong, part) in [
            ("550", "200 to 599"),
            ("5500 a", "200 to 599"),
            ("150 a", "200 to 599"),
            ("550 {", "without"),
            ("550 {who}", "`rcpt`"),
        ] {
            assert!(Template::parse(wrong).expect_err(wrong).contains(part));
        }
    }

    #[test]
    fn a_personality_is_like_another() {
        let own: Table = "name = 'mine'\nlike = 'postfix'\nerrors_max = 1".parse().unwrap();
        let all = Personalities::new(std::slice::from_ref(&own)).unwrap();
        let (mine, postfix) = (all.find("mine").unwrap(), all.find("postfix").unwrap());
        assert_eq!((mine.errors_max, mine.errors_slow), (1, postfix.errors_slow));
        assert_eq!(mine.replies, postfix.replies);
        assert!(all.find("nobody").expect_err("unknown").contains("`postfix`"));
        assert!(Personalities::new(&[own.clone(), own]).err().expect("twice").contains("twice"));
    }
}
