//! Servers whose behaviour varies: they change after refusals, are a pool of different nodes, or refuse names that look
//! random.
//!
//! Everything here is pure. `running` counts earlier refusals and passes the numbers.

use crate::{personality::Template, random::Random};
use serde::Deserialize;
use std::time::Duration;

/// A change of behaviour as a scenario describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeSpec {
    /// How many unknown recipients are refused before the change.
    pub after: u64,
    /// The scope in which these refusals are counted.
    #[serde(default)]
    pub counted: Counted,
    /// The behaviour after the change.
    pub to: To,
    /// The reply, for `to = "reply"`.
    pub text: Option<String>,
    /// The pause before a refusal, for `to = "delay"`.
    pub ms: Option<u64>,
    /// Only refusals within this time, in milliseconds, count; without it, all of them.
    pub within_ms: Option<u64>,
    /// Whether open sessions change as well.
    #[serde(default)]
    pub begins: Begins,
}

/// The scope of a count of refusals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counted {
    /// The refusals of the session.
    Session,
    /// The refusals of the host for the client's address.
    Client,
    /// The refusals of one node of the host's pool.
    Node,
    /// The refusals of the host for all clients.
    #[default]
    Host,
}

/// The behaviour after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum To {
    /// Every recipient is accepted.
    Accept,
    /// Every recipient is refused as unknown.
    Refuse,
    /// Every recipient gets the reply in `text`; 421 also ends the session.
    Reply,
    /// Refusals are delayed by `ms`; the replies remain right.
    Delay,
}

/// The time at which a due change begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Begins {
    /// With the next recipient, also within a session.
    #[default]
    AtOnce,
    /// In sessions that begin later.
    NextSession,
}

/// The selection of a node for a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Given {
    /// The nodes take turns in the order of the list.
    #[default]
    InTurn,
    /// The first session gets the first node, later ones a random one.
    AtRandom,
}

/// The conduct of a host, with its nodes parsed.
#[derive(Debug)]
pub(crate) struct Conduct {
    changes: Vec<Change>,
    /// Empty for a host that is not a pool.
    nodes: Vec<Node>,
    given: Given,
    filter: Option<Template>,
}

#[derive(Debug)]
struct Change {
    spec: ChangeSpec,
    reply: Option<Template>,
}

#[derive(Debug)]
enum Node {
    Honest,
    Accept,
    Refuse,
    Reply(Template),
}

/// The treatment of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// The true reply.
    Honest,
    Accept,
    Refuse,
    Reply(&'a Template),
}

/// A treatment, and the delay of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn<'a> {
    pub word: Word<'a>,
    pub delay: Duration,
}

/// The state that the conduct of a session depends on.
pub(crate) struct Standing<'a> {
    pub node: u32,
    /// The changes that were due when the session began, in the order of the list.
    pub begun: &'a [bool],
    /// How many unknown recipients were refused: in a scope, and within a time.
    pub refused: &'a dyn Fn(Counted, Option<Duration>) -> u64,
}

const NODES_MAX: usize = 64;

impl Conduct {
    /// Reads the keys of a scenario; `None` if it has none of them.
    pub(crate) fn new(
        changes: Vec<ChangeSpec>,
        nodes: &[String],
        given: Option<Given>,
        filter: Option<&str>,
    ) -> Result<Option<Conduct>, String> {
        if given.is_some() && nodes.is_empty() {
            return Err("given requires nodes".into());
        }
        if nodes.len() > NODES_MAX {
            return Err(format!("a pool has at most {NODES_MAX} nodes"));
        }
        if changes.is_empty() && nodes.is_empty() && filter.is_none() {
            return Ok(None);
        }
        Ok(Some(Conduct {
            changes: changes.into_iter().map(change).collect::<Result<_, String>>()?,
            nodes: nodes.iter().map(|node| self::node(node)).collect::<Result<_, String>>()?,
            given: given.unwrap_or_default(),
            filter: filter.map(Template::parse).transpose()?,
        }))
    }

    /// Whether refusals must be counted.
    pub(crate) fn counts(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The node of a session; `ordinal` is the number of earlier sessions of the host.
    pub(crate) fn node(&self, ordinal: u64, random: &mut Random) -> u32 {
        let nodes = self.nodes.len() as u64;
        match self.given {
            _ if nodes == 0 => 0,
            Given::InTurn => (ordinal % nodes) as u32,
            Given::AtRandom if ordinal == 0 => 0,
            Given::AtRandom => random.below(nodes) as u32,
        }
    }

    /// Which changes are due, in the order of the list.
    pub(crate) fn due(&self, refused: &dyn Fn(Counted, Option<Duration>) -> u64) -> Vec<bool> {
        self.changes.iter().map(|change| change.is_due(refused)).collect()
    }

    /// The treatment of a recipient. A later change of the list has precedence over an earlier one, and each change
    /// over the node and the filter. The delays of all due changes are added.
    pub(crate) fn turn(&self, standing: &Standing<'_>, local: &str) -> Turn<'_> {
        let mut turn = Turn { word: self.word_of_node(standing.node), delay: Duration::ZERO };
        if let (Word::Honest, Some(reply)) = (turn.word, &self.filter)
            && looks_random(local)
        {
            turn.word = Word::Reply(reply);
        }
        for (at, change) in self.changes.iter().enumerate() {
            let is_due = match change.spec.begins {
                Begins::AtOnce => change.is_due(standing.refused),
                Begins::NextSession => standing.begun.get(at).copied().unwrap_or(false),
            };
            if !is_due {
                continue;
            }
            match (change.spec.to, &change.reply) {
                (To::Delay, _) => turn.delay += Duration::from_millis(change.spec.ms.unwrap_or(0)),
                (To::Accept, _) => turn.word = Word::Accept,
                (To::Reply, Some(reply)) => turn.word = Word::Reply(reply),
                (To::Refuse | To::Reply, _) => turn.word = Word::Refuse,
            }
        }
        turn
    }

    fn word_of_node(&self, node: u32) -> Word<'_> {
        match self.nodes.get(node as usize) {
            None | Some(Node::Honest) => Word::Honest,
            Some(Node::Accept) => Word::Accept,
            Some(Node::Refuse) => Word::Refuse,
            Some(Node::Reply(reply)) => Word::Reply(reply),
        }
    }
}

impl Change {
    fn is_due(&self, refused: &dyn Fn(Counted, Option<Duration>) -> u64) -> bool {
        refused(self.spec.counted, self.spec.within_ms.map(Duration::from_millis)) >= self.spec.after
    }
}

fn change(spec: ChangeSpec) -> Result<Change, String> {
    let reply = match (&spec.text, spec.to) {
        (Some(text), To::Reply) => Some(Template::parse(text)?),
        (None, To::Reply) => return Err("change: to = \"reply\" requires text".into()),
        (Some(_), _) => return Err("change: text requires to = \"reply\"".into()),
        (None, _) => None,
    };
    if spec.ms.is_some() != (spec.to == To::Delay) {
        return Err("change: ms is required with to = \"delay\", and only allowed with it".into());
    }
    if spec.within_ms == Some(0) {
        return Err("change: within_ms must be above 0".into());
    }
    if spec.begins == Begins::NextSession && spec.counted == Counted::Session {
        return Err("change: counted = \"session\" and begins = \"next_session\" exclude each other".into());
    }
    Ok(Change { spec, reply })
}

fn node(text: &str) -> Result<Node, String> {
    Ok(match text {
        "honest" => Node::Honest,
        "accept" => Node::Accept,
        "refuse" => Node::Refuse,
        _ => Node::Reply(Template::parse(text).map_err(|error| {
            format!("node `{text}`: expected `honest`, `accept`, `refuse` or a reply ({error})")
        })?),
    })
}

/// More digits than this look random.
const DIGITS_MAX: usize = 6;
/// More consecutive consonants than this look random.
const CONSONANTS_MAX: usize = 5;
/// More changes between letters and digits than this look random, as in `a1b2`.
const MIXES_MAX: usize = 3;

/// Whether a local part looks generated to a filter against guessing: many digits, letters and digits in turn, or many
/// consecutive consonants.
pub(crate) fn looks_random(local: &str) -> bool {
    let (mut digits, mut mixes, mut consonants, mut row) = (0, 0, 0, 0);
    let mut before: Option<char> = None;
    for character in local.chars().map(|character| character.to_ascii_lowercase()) {
        digits += usize::from(character.is_ascii_digit());
        let is_mix = before.is_some_and(|before| {
            (before.is_ascii_digit() && character.is_ascii_lowercase())
                || (before.is_ascii_lowercase() && character.is_ascii_digit())
        });
        mixes += usize::from(is_mix);
        row = if character.is_ascii_lowercase() && !"aeiouy".contains(character) { row + 1 } else { 0 };
        consonants = consonants.max(row);
        before = Some(character);
    }
    digits >= DIGITS_MAX || mixes >= MIXES_MAX || consonants >= CONSONANTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(after: u64, counted: Counted, to: To) -> ChangeSpec {
        let text = (to == To::Reply).then(|| "421 4.7.0 slow down".to_owned());
        let ms = (to == To::Delay).then_some(250);
        ChangeSpec { after, counted, to, text, ms, within_ms: None, begins: Begins::AtOnce }
    }

    fn conduct(changes: Vec<ChangeSpec>, nodes: &[&str], given: Option<Given>) -> Conduct {
        let nodes: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
        Conduct::new(changes, &nodes, given, None).unwrap().unwrap()
    }

    #[test]
    fn a_change_is_due_at_its_own_count() {
        let rows = [
            (Counted::Session, To::Accept, Word::Accept),
            (Counted::Client, To::Refuse, Word::Refuse),
            (Counted::Node, To::Accept, Word::Accept),
            (Counted::Host, To::Refuse, Word::Refuse),
        ];
        for (counted, to, word) in rows {
            let conduct = conduct(vec![change(3, counted, to)], &[], None);
            for (count, expected) in [(0, Word::Honest), (2, Word::Honest), (3, word), (4, word)] {
                // All other counts are far above: only the count of its own scope matters.
                let refused = |whose: Counted, _| if whose == counted { count } else { 0 };
                let standing = Standing { node: 0, begun: &[false], refused: &refused };
                assert_eq!(conduct.turn(&standing, "a").word, expected, "{counted:?} {count}");
                let others = |whose: Counted, _| if whose == counted { 0 } else { 99 };
                let standing = Standing { node: 0, begun: &[false], refused: &others };
                assert_eq!(conduct.turn(&standing, "a").word, Word::Honest, "{counted:?}");
            }
        }
    }

    #[test]
    fn a_later_change_comes_before_an_earlier_one_and_pauses_add_up() {
        let list = vec![
            change(1, Counted::Host, To::Delay),
            change(2, Counted::Host, To::Delay),
            change(3, Counted::Host, To::Accept),
            change(4, Counted::Host, To::Reply),
        ];
        let conduct = conduct(list, &[], None);
        let at = |count: u64| {
            let refused = move |_, _| count;
            let turn = conduct.turn(&Standing { node: 0, begun: &[false; 4], refused: &refused }, "a");
            (matches!(turn.word, Word::Honest), matches!(turn.word, Word::Reply(_)), turn.delay.as_millis())
        };
        assert_eq!([at(0), at(1), at(2)], [(true, false, 0), (true, false, 250), (true, false, 500)]);
        assert_eq!([at(3), at(4)], [(false, false, 500), (false, true, 500)]);
    }

    #[test]
    fn sessions_get_their_nodes() {
        let pool = ["accept", "honest", "450 4.3.0 later"];
        let turns = conduct(vec![], &pool, None);
        let mut random = Random::new(1);
        let nodes: Vec<u32> = (0..5).map(|ordinal| turns.node(ordinal, &mut random)).collect();
        assert_eq!(nodes, [0, 1, 2, 0, 1]);
        let drawn = conduct(vec![], &pool, Some(Given::AtRandom));
        let mut counts = [0; 3];
        (1..3000).for_each(|ordinal| counts[drawn.node(ordinal, &mut random) as usize] += 1);
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
        assert!((0..50).all(|_| drawn.node(0, &mut random) == 0), "the first of the list is met first");
        let refused = |_, _| 0;
        let word = |node| turns.turn(&Standing { node, begun: &[], refused: &refused }, "a").word;
        assert_eq!((word(0), word(1)), (Word::Accept, Word::Honest));
        assert!(matches!(word(2), Word::Reply(reply) if reply.code == 450));
    }

    #[test]
    fn a_filter_knows_names_that_look_made() {
        for (local, random) in [
            ("maria", false),
            ("real-17", false),
            ("j.smith1984", false),
            ("strength", false),
            ("o'brien", false),
            ("xk7q2mz9", true),
            ("a1b2", true),
            ("user-123456", true),
            ("zzqwrtp", true),
            ("", false),
        ] {
            assert_eq!(looks_random(local), random, "{local}");
        }
        let filter = Conduct::new(vec![], &[], None, Some("554 5.7.1 Access denied")).unwrap().unwrap();
        let refused = |_, _| 0;
        let standing = Standing { node: 0, begun: &[], refused: &refused };
        assert!(matches!(filter.turn(&standing, "xk7q2mz9").word, Word::Reply(_)));
        assert_eq!(filter.turn(&standing, "maria").word, Word::Honest);
    }
}
