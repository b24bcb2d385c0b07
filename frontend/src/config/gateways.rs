//! `[[gateway]]`: third-party API gateways that forward requests of their users.
//!
//! No message and no output contains a secret: only its hash is kept.

use super::keys::{Fault, canonical, integer, unknown};
use super::{Config, ConfigError};
use checks::gateway::{Gateway, Gateways, Secret};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use toml::Value;
use toml::de::{DeTable, DeValue};

pub(super) const KEYS: [&str; 8] =
    ["name", "header", "secrets", "secrets_file", "user_header", "plan_header", "plans", "users_max"];
const NAME_CHARS_MAX: usize = 32;
const HEADER_CHARS_MAX: usize = 64;
/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 8;
const SECRET_BYTES_MAX: usize = 256;
/// An old and a new secret.
const SECRETS_MAX: usize = 2;
const PLANS_MAX: usize = 100;
const GATEWAYS_MAX: usize = 16;
/// A file of two secrets with their line ends, and room for comments.
const SECRETS_FILE_BYTES_MAX: u64 = 4096;
/// Default and upper bound of a gateway's maximum number of users. Each user is an account, and stays in memory.
const USERS: usize = 100_000;
const USERS_MAX: usize = 10_000_000;

/// Headers that have a meaning for the server or for proxies, so that no gateway can use them.
const TAKEN: [&str; 14] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "origin",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];

/// Reads one table; `at` is its position, and its paths are relative to `folder`.
pub fn read(at: usize, table: &DeTable<'_>, folder: &Path) -> Result<Gateway, Fault> {
    let (mut name, mut secrets, mut plans) = (None, None, None);
    let (mut header, mut user_header, mut plan_header) = (None, None, None);
    let mut users_max = USERS;
    for (key, value) in table.iter() {
        let at = key.span().start;
        let key_name = canonical(key.get_ref());
        let fault = |why: String| Fault { at, why: format!("gateway: {key_name}: {why}") };
        let value = value.get_ref();
        match key_name.as_str() {
            "name" => name = Some(read_name(value).map_err(fault)?),
            "header" => header = Some(read_header(value).map_err(fault)?),
            "secrets" | "secrets_file" if secrets.is_some() => {
                return Err(fault("give either `secrets` or `secrets_file`".into()));
            }
            "secrets" => secrets = Some(read_secrets(value).map_err(fault)?),
            "secrets_file" => secrets = Some(read_secrets_file(value, folder).map_err(fault)?),
            "user_header" => user_header = Some(read_header(value).map_err(fault)?),
            "plan_header" => plan_header = Some(read_header(value).map_err(fault)?),
            "plans" => plans = Some(read_plans(value).map_err(fault)?),
            "users_max" => users_max = integer(value, 1, USERS_MAX).map_err(fault)?,
            _ => return Err(unknown(at, key.get_ref(), KEYS.into_iter())),
        }
    }
    let missing = |key: &str| Fault { at, why: format!("gateway: `{key}` is missing") };
    let name = name.ok_or_else(|| missing("name"))?;
    let gateway = Gateway {
        not_offered: error_code(&name),
        name,
        header: header.ok_or_else(|| missing("header"))?,
        secrets: secrets.ok_or_else(|| missing("secrets` or `secrets_file"))?,
        user_header: user_header.ok_or_else(|| missing("user_header"))?,
        plan_header: plan_header.ok_or_else(|| missing("plan_header"))?,
        plans: plans.ok_or_else(|| missing("plans"))?,
        users_max,
    };
    let [a, b, c] = [&gateway.header, &gateway.user_header, &gateway.plan_header];
    if a == b || b == c || a == c {
        return Err(Fault { at, why: "gateway: its three headers must differ".into() });
    }
    Ok(gateway)
}

/// The error code of a gateway. Error codes are static, and the file may be read often: each name leaks once.
fn error_code(name: &str) -> &'static str {
    static CODES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    let code = format!("{}{name}", api::NOT_AVAILABLE_ON);
    if let Some(known) = codes.get(code.as_str()) {
        return known;
    }
    let code: &'static str = code.leak();
    codes.insert(code);
    code
}

/// Checks a gateway against those that were read before it.
///
/// # Errors
/// The conflict.
pub fn admit(read: &[Gateway], gateway: &Gateway) -> Result<(), String> {
    if read.len() == GATEWAYS_MAX {
        return Err(format!("the maximum is {GATEWAYS_MAX} gateways"));
    }
    for other in read {
        if other.name == gateway.name {
            return Err(format!("`{}` is defined twice", gateway.name));
        }
        if other.secrets.iter().any(|secret| gateway.secrets.contains(secret)) {
            return Err(format!("`{}` and `{}` share a secret", other.name, gateway.name));
        }
    }
    Ok(())
}

impl Config {
    /// The gateways, for a server.
    ///
    /// # Errors
    /// A gateway's plan means a plan that does not exist.
    pub fn gateways(&self) -> Result<Gateways, ConfigError> {
        for gateway in &self.gateways {
            for (theirs, ours) in &gateway.plans {
                if !self.plans.iter().any(|plan| plan.id == *ours) {
                    let name = &gateway.name;
                    return Err(ConfigError(format!(
                        "gateway `{name}`: its plan {theirs:?} means `{ours}`, but there is no plan with this id"
                    )));
                }
            }
        }
        Ok(Gateways(self.gateways.clone()))
    }
}

/// A gateway as a table of the file, without its secrets.
pub fn to_toml(gateway: &Gateway) -> String {
    let Gateway { name, not_offered: _, header, secrets, user_header, plan_header, plans, users_max } =
        gateway;
    let text = |text: &str| Value::String(text.to_owned()).to_string();
    let mut table = format!("[[gateway]]\nname = {}\nheader = {}\n", text(name), text(header));
    let hidden = vec!["\"(not shown)\""; secrets.len()].join(", ");
    let _ = writeln!(table, "# secrets = [{hidden}]");
    let _ = writeln!(table, "user_header = {}\nplan_header = {}", text(user_header), text(plan_header));
    let _ = writeln!(table, "users_max = {users_max}\n[gateway.plans]");
    for (theirs, ours) in plans {
        let _ = writeln!(table, "{} = {}", text(theirs), text(ours));
    }
    table
}

/// Parses the name. It becomes a part of an error code and of account names.
fn read_name(value: &DeValue<'_>) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match value.as_str() {
        Some(name) if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits) => {
            Ok(name.to_owned())
        }
        _ => Err(format!("must be 1 to {NAME_CHARS_MAX} characters of a-z, 0-9 and _")),
    }
}

/// Parses a field name (RFC 9110 5.1), in lower case.
fn read_header(value: &DeValue<'_>) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match value.as_str().map(str::to_ascii_lowercase) {
        Some(name) if TAKEN.contains(&name.as_str()) => Err(format!("`{name}` is reserved")),
        Some(name) if (1..=HEADER_CHARS_MAX).contains(&name.len()) && name.chars().all(fits) => Ok(name),
        _ => Err("must be the name of a header, such as \"X-Gateway-User\"".into()),
    }
}

fn read_secrets(value: &DeValue<'_>) -> Result<Vec<Secret>, String> {
    let items = value.as_array().ok_or("must be an array of one or two strings")?;
    let texts: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
    hashed(&texts.unwrap_or_default())
}

/// Reads the secrets of a file: one per line. Empty lines and lines that start with `#` do not count.
fn read_secrets_file(value: &DeValue<'_>, folder: &Path) -> Result<Vec<Secret>, String> {
    let path = folder.join(value.as_str().ok_or("must be a string")?);
    let text = super::read_file(&path, SECRETS_FILE_BYTES_MAX, "the secrets in").map_err(|error| error.0)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    hashed(&lines.collect::<Vec<_>>())
}

fn hashed(texts: &[&str]) -> Result<Vec<Secret>, String> {
    let wrong = || {
        format!(
            "must be one or two secrets of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} visible ASCII characters, \
             without spaces"
        )
    };
    let fits = |text: &&&str| {
        (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let mut secrets: Vec<Secret> = Vec::new();
    for text in texts {
        let secret = Some(text).filter(fits).map(|text| Secret::new(text.as_bytes())).ok_or_else(wrong)?;
        if secrets.contains(&secret) {
            return Err("the two secrets are equal".into());
        }
        secrets.push(secret);
    }
    if (1..=SECRETS_MAX).contains(&secrets.len()) { Ok(secrets) } else { Err(wrong()) }
}

fn read_plans(value: &DeValue<'_>) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("must be a table of 1 to {PLANS_MAX} plans: the gateway's plan = \"our plan\"");
    let table = value.as_table().ok_or_else(wrong)?;
    let mut plans = BTreeMap::new();
    for (theirs, ours) in table.iter() {
        let ours = ours.get_ref().as_str().ok_or_else(wrong)?;
        plans.insert(theirs.get_ref().to_string(), ours.to_owned());
    }
    if (1..=PLANS_MAX).contains(&plans.len()) { Ok(plans) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::apply;

    const WHOLE: &str = "[[gateway]]\nname = \"rapid\"\nheader = \"X-Secret\"\nsecrets = [\"swordfish\"]\n\
                         user_header = \"X-User\"\nplan_header = \"X-Plan\"\nplans = { BASIC = \"free\" }\n";

    fn load(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        apply(text, Path::new("/"), &mut config).map_err(|fault| fault.why).map(|()| config)
    }

    #[test]
    fn a_gateway_is_read_and_shown_without_its_secrets() {
        let config = load(WHOLE).unwrap();
        let gateway = &config.gateways().unwrap().0[0];
        assert_eq!((gateway.not_offered, gateway.header.as_str()), ("not_available_on_rapid", "x-secret"));
        assert_eq!((gateway.users_max, gateway.plans["BASIC"].as_str()), (100_000, "free"));
        let printed = config.to_toml();
        assert!(
            !printed.contains("swordfish") && printed.contains("# secrets = [\"(not shown)\"]"),
            "{printed}"
        );
        assert!(!format!("{config:?}").contains("swordfish"));
        let again =
            load(&printed.replace("# secrets = [\"(not shown)\"]", "secrets = [\"swordfish\"]")).unwrap();
        assert_eq!(again.gateways, config.gateways);
        // The printed file has no secret, so that it cannot be used as it is.
        assert_eq!(load(&printed).unwrap_err(), "gateway: `secrets` or `secrets_file` is missing");
    }

    #[test]
    fn what_cannot_be_is_refused_without_a_secret_in_the_message() {
        let check = |from: &str, to: &str, expected: &str| {
            let said = load(&WHOLE.replace(from, to)).unwrap_err();
            assert!(said.contains(expected) && !said.contains("swordfish"), "{to}: {said}");
        };
        for key in ["name", "header", "secrets", "user_header", "plan_header", "plans"] {
            let line = WHOLE.lines().find(|line| line.starts_with(&format!("{key} ="))).unwrap();
            check(&format!("{line}\n"), "", &format!("gateway: `{key}`"));
        }
        check("[\"swordfish\"]", "[]", "must be one or two");
        check("[\"swordfish\"]", "\"swordfish\"", "must be an array of one or two");
        check("[\"swordfish\"]", "[\"swordfish\", \"swordfish2\", \"swordfish3\"]", "must be one or two");
        check("[\"swordfish\"]", "[\"swordfish\", \"swordfish\"]", "the two secrets are equal");
        for secret in ["", "seven77", "sword fish", "swordfisch\u{e9}"] {
            check("\"swordfish\"", &format!("\"{secret}\""), "must be one or two");
        }
        for name in ["", "Rapid", "rapid-api", "a:b", &"a".repeat(33)] {
            check("\"rapid\"", &format!("\"{name}\""), "must be 1 to 32 characters of a-z");
        }
        check("X-Secret", "Authorization", "is reserved");
        check("X-User", "x user", "must be the name of a header");
        check("X-User", "x-SECRET", "its three headers must differ");
        check("{ BASIC = \"free\" }", "{}", "1 to 100 plans");
        check("{ BASIC = \"free\" }", "{ BASIC = 1 }", "1 to 100 plans");
        check("plans = ", "plan = 1\nplans = ", "did you mean `plans`?");
        check("plans = ", "users_max = 0\nplans = ", "users_max: `0` is not a number from 1 to 10,000,000");
    }

    #[test]
    fn secrets_come_from_a_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let check = |content: &str, expected: Result<usize, &str>| {
            std::fs::write(folder.path().join("secrets"), content).unwrap();
            let text = WHOLE.replace("secrets = [\"swordfish\"]", "secrets_file = \"secrets\"");
            let mut config = Config::default();
            let read = apply(&text, folder.path(), &mut config).map_err(|fault| fault.why);
            match expected {
                Ok(count) => {
                    assert_eq!(read, Ok(()));
                    assert_eq!(config.gateways[0].secrets.len(), count);
                    let same = load(WHOLE).unwrap().gateways[0].secrets[0] == config.gateways[0].secrets[0];
                    assert!(same, "{content}");
                }
                Err(why) => {
                    let said = read.unwrap_err();
                    assert!(said.contains(why) && !said.contains("swordfish"), "{said}");
                }
            }
        };
        check("swordfish\n", Ok(1));
        check("# until May\r\nswordfish\r\n\n# from May\nanother-secret", Ok(2));
        check("", Err("must be one or two"));
        check("swordfish\nswordfish\n", Err("the two secrets are equal"));
        check("sword fish\n", Err("must be one or two"));
        check(&"#\n".repeat(3000), Err("larger than"));
        let both = WHOLE.replace("user_header", "secrets_file = \"x\"\nuser_header");
        assert!(load(&both).unwrap_err().contains("give either `secrets` or `secrets_file`"));
        let none = WHOLE.replace("secrets = [\"swordfish\"]", "secrets_file = \"/nonexistent/file\"");
        assert!(load(&none).unwrap_err().contains("cannot read the secrets in /nonexistent/file"));
    }

    #[test]
    fn gateways_do_not_share_names_or_secrets() {
        let other = WHOLE.replace("\"rapid\"", "\"other\"");
        assert_eq!(load(&format!("{WHOLE}{WHOLE}")).unwrap_err(), "gateway: `rapid` is defined twice");
        let said = load(&format!("{WHOLE}{other}")).unwrap_err();
        assert_eq!(said, "gateway: `rapid` and `other` share a secret");
        assert_eq!(load(&format!("{WHOLE}{}", other.replace("sword", "other"))).unwrap().gateways.len(), 2);
    }

    #[test]
    fn plans_are_plans() {
        let said = load(&WHOLE.replace("\"free\"", "\"freee\"")).unwrap().gateways().unwrap_err().0;
        assert_eq!(
            said,
            "gateway `rapid`: its plan \"BASIC\" means `freee`, but there is no plan with this id"
        );
    }
}
