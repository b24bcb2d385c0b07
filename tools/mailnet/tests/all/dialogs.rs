//! The dialogs in the files of `dialogs`: what clients send, and the answers that they get.
//!
//! `= ` and a title begin a case. A line with `| ` belongs to its scenario, `scenario NAME` adds a file of `scenarios`, and
//! `server VALUE` adds the domain `d.example` with this server. A case with lines `with A / B` runs once for each of
//! them, with A and B in place of `$1` and `$2`. All other lines are steps. The beginning of the wanted reply
//! stands after ` => `, and a whole reply after ` == `, with `\r\n` for ends of lines within it. A word with a colon in front of
//! a step names its session, where a case has several.
//!
//! | step | meaning |
//! |---|---|
//! | `connect`, `greet`, `mail` | Connects to `d.example` or to the named domain or address; also sends EHLO; also sends MAIL. |
//! | `> LINE` | Sends a command, and reads its reply if one is stated. |
//! | `rcpt NAME ...` | Sends RCPT for each name at the session's domain, one after another. Replies are divided by ` / `. |
//! | `send TEXT` | Sends the bytes alone, with `\r\n` for ends of lines. |
//! | `script TEXT \| ...` | Sends each text with the end of a line, and reads as many replies as lines before the next text. |
//! | `reply` | Reads a further reply. |
//! | `closed`, `reset` | Reads until the server ends the session in this way. `nothing` means that it sends no byte before. |
//! | `silent` | The server sends nothing for a while. |
//! | `slow MS STEP`, `fast MS STEP` | The step takes at least, or less than, so many milliseconds. |
//! | `wait MS` | Waits. |
//! | `ask NAME TYPE` | Asks DNS: the code, and the records, sorted and divided by ` / `, or `#` and their number. |
//! | `expected ADDRESS` | The expected reason at once, and after greylisting. |
//! | `exists ADDRESS` | Whether the mailbox exists, as Rust writes it. |
//! | `violations`, `stats`, `dns`, `host NAME` | The counters: all violations, or the named ones of the others. |

#![expect(clippy::unwrap_used, reason = "a dialog that cannot be read shall fail its test")]

use crate::common::{Client, End, ask, start};
use hickory_proto::rr::RecordType;
use mailnet::Running;
use serde::Serialize;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

#[tokio::test]
async fn servers_behave_well() {
    play(include_str!("dialogs/smtp.txt")).await;
}

#[tokio::test]
async fn servers_misbehave() {
    play(include_str!("dialogs/hostile.txt")).await;
}

#[tokio::test]
async fn servers_mislead() {
    play(include_str!("dialogs/conduct.txt")).await;
}

#[tokio::test]
async fn broken_rules_are_counted() {
    play(include_str!("dialogs/violations.txt")).await;
}

#[tokio::test]
async fn the_truth_is_known() {
    play(include_str!("dialogs/truth.txt")).await;
}

#[tokio::test]
async fn names_are_resolved() {
    play(include_str!("dialogs/dns.txt")).await;
}

/// Runs the cases of a file.
async fn play(file: &str) {
    for case in file.split("\n= ").skip(1) {
        let mut rows: Vec<&str> = case.lines().filter_map(|line| line.strip_prefix("with ")).collect();
        if rows.is_empty() {
            rows.push("");
        }
        for row in rows {
            let values = row.split(" / ").zip(["$1", "$2", "$3", "$4", "$5", "$6"]);
            run(&values.fold(case.to_owned(), |text, (value, name)| text.replace(name, value))).await;
        }
    }
}

async fn run(case: &str) {
    let (mut scenario, mut steps) = (String::new(), Vec::new());
    let (title, lines) = case.split_once('\n').unwrap();
    for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(' ') {
            Some(("|", toml)) => scenario += &format!("{toml}\n"),
            Some(("scenario", name)) => {
                let path = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
                scenario += &std::fs::read_to_string(path).unwrap();
            }
            Some(("server", server)) => {
                let names = "mailboxes.ok = [\"alice\", \"ok-#\"]";
                scenario += &format!("[[domain]]\nname = \"d.example\"\nserver = {server}\n{names}\n");
            }
            Some(("with", _)) => {}
            _ => steps.push(line),
        }
    }
    let mut dialog = Dialog { net: start(&scenario), sessions: HashMap::new(), place: String::new() };
    for step in steps {
        dialog.place = format!("{title}: {step}");
        let named = step.split_once(": ").filter(|(name, _)| name.bytes().all(|b| b.is_ascii_lowercase()));
        let (name, step) = named.unwrap_or(("", step));
        dialog.step(name, step).await;
    }
}

/// A case under way.
struct Dialog {
    net: Running,
    /// The sessions by name, with their domains.
    sessions: HashMap<String, (Client, String)>,
    /// The title and the step, for messages.
    place: String,
}

/// What a step wants: how it is compared, and the text.
type Wanted<'a> = Option<(&'static str, &'a str)>;

impl Dialog {
    async fn step(&mut self, session: &str, step: &str) {
        let (action, wanted) = wanted(step);
        let (verb, text) = action.split_once(' ').unwrap_or((action, ""));
        match verb {
            "slow" | "fast" => {
                let (limit, step) = step[verb.len() + 1..].split_once(' ').unwrap();
                let began = Instant::now();
                Box::pin(self.step(session, step)).await;
                let took = began.elapsed();
                assert_eq!(took >= millis(limit), verb == "slow", "{}: {took:?}", self.place);
            }
            "wait" => tokio::time::sleep(millis(text)).await,
            "ask" => self.ask(text, wanted).await,
            "expected" => {
                let expected = self.net.expected(text);
                let found = format!("{} / {}", expected.reason, expected.patient);
                assert_eq!(wanted, Some(("=>", found.as_str())), "{}", self.place);
            }
            "exists" => {
                let found = format!("{:?}", self.net.scenario().exists(text));
                assert_eq!(wanted, Some(("=>", found.as_str())), "{}", self.place);
            }
            "violations" => {
                let counted = self.net.stats().violations;
                self.count(&counted, text);
                let all = text.split(", ").filter(|part| !part.is_empty()).count();
                assert_eq!(counted.len(), all, "{}: {counted:?}", self.place);
            }
            "stats" => self.count(&self.net.stats(), text),
            "dns" => self.count(&self.net.stats().dns, text),
            "host" => {
                let (host, wanted) = text.split_once(' ').unwrap();
                self.count(&self.net.host_stats(host).unwrap(), wanted);
            }
            "connect" | "greet" | "mail" => {
                let domain = if text.is_empty() { "d.example" } else { text };
                let client = match (verb, domain.parse::<IpAddr>()) {
                    ("greet", _) => Client::greet(&self.net, domain).await,
                    ("mail", _) => Client::mail(&self.net, domain).await,
                    (_, Ok(address)) => Client::to(SocketAddr::new(address, self.net.smtp_port())).await,
                    (_, Err(_)) => Client::connect(&self.net, domain).await,
                };
                self.sessions.insert(session.to_owned(), (client, domain.to_owned()));
                self.reply(session, wanted).await;
            }
            _ => self.talk(session, verb, text, wanted).await,
        }
    }

    /// A step of an open session.
    async fn talk(&mut self, session: &str, verb: &str, text: &str, wanted: Wanted<'_>) {
        let (client, domain) = self.sessions.get_mut(session).expect("an open session");
        match verb {
            ">" => {
                client.send(&format!("{text}\r\n")).await;
                self.reply(session, wanted).await;
            }
            "send" => client.send(&unescaped(text)).await,
            "reply" => self.reply(session, wanted).await,
            "script" => {
                for part in text.split(" | ").map(unescaped) {
                    let lines = if part.ends_with('\n') { part } else { part + "\r\n" };
                    client.send(&lines).await;
                    for _ in lines.matches('\n') {
                        client.reply().await;
                    }
                }
            }
            "rcpt" => {
                let (how, replies) = wanted.unwrap();
                let (names, replies) = (text.split(' '), replies.split(" / "));
                assert_eq!(names.clone().count(), replies.clone().count(), "{}", self.place);
                for (name, reply) in names.zip(replies) {
                    let said = client.rcpt(&format!("{name}@{domain}")).await;
                    assert!(fits(&said, how, reply), "{}: {name}: {said}", self.place);
                }
            }
            "silent" => assert!(client.is_silent().await, "{}", self.place),
            "closed" | "reset" => {
                let (said, end) = client.end().await;
                let said = String::from_utf8(said).unwrap();
                assert!(wanted.is_none_or(|(how, text)| fits(&said, how, text)), "{}: {said}", self.place);
                assert_eq!(end == End::Reset, verb == "reset", "{}", self.place);
            }
            other => panic!("{}: there is no step {other}", self.place),
        }
    }

    /// Reads a reply, if one is wanted.
    async fn reply(&mut self, session: &str, wanted: Wanted<'_>) {
        if let (Some((how, wanted)), Some((client, _))) = (wanted, self.sessions.get_mut(session)) {
            let said = client.reply().await;
            assert!(fits(&said, how, wanted), "{}: {said}", self.place);
        }
    }

    async fn ask(&self, question: &str, wanted: Wanted<'_>) {
        let (name, kind) = question.split_once(' ').unwrap();
        let (code, data) = ask(&self.net, name, kind.parse::<RecordType>().unwrap()).await;
        let mut data: Vec<String> =
            data.iter().map(|data| data.to_string().trim_end_matches(['.', ' ']).to_owned()).collect();
        data.sort_unstable();
        let found = [format!("{code:?} {}", data.join(" / ")), format!("{code:?} #{}", data.len())];
        let wanted = wanted.unwrap().1;
        assert!(found.iter().any(|found| found.trim_end() == wanted), "{}: {found:?}", self.place);
    }

    /// Checks counters like `rcpt 17, mail 1`.
    fn count(&self, counters: &impl Serialize, wanted: &str) {
        let counters = serde_json::to_value(counters).unwrap();
        for (name, count) in wanted.split(", ").filter_map(|part| part.split_once(' ')) {
            assert_eq!(counters[name].to_string(), count, "{}: {counters}", self.place);
        }
    }
}

/// Splits the wanted reply from a step.
fn wanted(step: &str) -> (&str, Wanted<'_>) {
    let found = ["=>", "=="].iter().find_map(|how| {
        let (action, reply) = step.split_once(&format!(" {how} "))?;
        Some((action, Some((*how, reply))))
    });
    found.unwrap_or((step, None))
}

fn fits(said: &str, how: &str, wanted: &str) -> bool {
    match how {
        "==" => said == unescaped(wanted) + "\r\n",
        _ if wanted == "nothing" => said.is_empty(),
        _ => said.starts_with(&unescaped(wanted)),
    }
}

fn unescaped(text: &str) -> String {
    text.replace("\\r\\n", "\r\n").replace("\\n", "\n")
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}
