//! The TOML file. An unknown key is an error, which names its line and the nearest known key.

use super::keys::{Entry, Fault, canonical, tables, unknown};
use super::settings::{self, SETTINGS};
use super::{Config, ConfigError, StateFile, one_line};
use super::{canaries, gateways, plans, sources};
use checks::gateway::Gateway;
use lists::numbers::grouped;
use std::path::Path;
use store::Plan;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest accepted file: a configuration has a few KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Settings that can be in a table of their own: `[dashboard] sign_up` is `dashboard_sign_up`.
const GROUPS: [&str; 3] = ["dashboard", "lists", "store"];

/// Reads the file into the configuration.
///
/// # Errors
/// The first error, with file and line.
pub fn read(path: &Path, config: &mut Config) -> Result<(), ConfigError> {
    let cannot =
        |why: String| ConfigError(format!("cannot read the configuration {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(cannot(format!("it is larger than {} bytes", grouped(FILE_BYTES_MAX))));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    apply(&text, folder, config).map_err(|fault| {
        let line = 1 + text.bytes().take(fault.at).filter(|&byte| byte == b'\n').count();
        ConfigError(format!("{}:{line}: {}", path.display(), fault.why))
    })
}

/// Reads the text into the configuration; paths are relative to `folder`.
pub(crate) fn apply(text: &str, folder: &Path, config: &mut Config) -> Result<(), Fault> {
    put_all(text, folder, config).map_err(|fault| Fault { why: one_line(&fault.why), ..fault })
}

fn put_all(text: &str, folder: &Path, config: &mut Config) -> Result<(), Fault> {
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let why = error.message().lines().next().unwrap_or("not TOML");
        Fault { at, why: unquoted(text, at).unwrap_or_else(|| why.to_owned()) }
    })?;
    let mut entries: Vec<Entry<'_, '_>> = root.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let name = canonical(key.get_ref());
        let has_tables = || {
            value.get_ref().as_array().is_some_and(|items| items.iter().any(|item| item.get_ref().is_table()))
        };
        match name.as_str() {
            "plan" => config.plans = read_plans(value)?,
            "gateway" => config.gateways = read_gateways(value, folder)?,
            "canary" => config.canaries = canaries::read(value)?,
            "source" if has_tables() => config.sources.append(&mut read_sources(value, folder)?),
            _ => put(&name, (key, value), folder, config)?,
        }
    }
    Ok(())
}

/// Sets a setting, or those of a group such as `[dashboard]`.
fn put(name: &str, (key, value): Entry<'_, '_>, folder: &Path, config: &mut Config) -> Result<(), Fault> {
    let Some(table) = value.get_ref().as_table().filter(|_| GROUPS.contains(&name)) else {
        return set(name, (key, value), folder, config);
    };
    let mut entries: Vec<Entry<'_, '_>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        set(&format!("{name}_{}", canonical(key.get_ref())), (key, value), folder, config)?;
    }
    Ok(())
}

/// Longest value that a message about its quotes repeats, in bytes.
const REPEATED_BYTES_MAX: usize = 100;

/// The message for a line `key = value` with a value that lacks its quotes; `None` if the fault at this byte is another one. It
/// repeats no address and no secret: these have an `@`, or a key that is no setting.
fn unquoted(text: &str, at: usize) -> Option<String> {
    let begin = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next()?;
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.split(" #").next().unwrap_or_default().trim());
    let is_key = !key.is_empty()
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\''));
    let fits = |value: &str| DeTable::parse(&format!("a = {value}")).is_ok();
    let has_quotes = |value: &str| value.contains(['"', '\'']);
    if !is_key || fits(value) || has_quotes(value) || value.starts_with('{') {
        return None;
    }
    let is_setting = settings::find(&canonical(key)).is_some();
    let may_repeat = is_setting && !value.contains('@') && value.len() <= REPEATED_BYTES_MAX;
    if let Some(items) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        let items: Vec<String> =
            items.map(|item| format!("\"{}\"", if may_repeat { item } else { "..." })).collect();
        return Some(format!("{key}: write each text in quotes: [{}]", items.join(", ")));
    }
    match value.to_ascii_lowercase().as_str() {
        "" => Some(format!("{key}: its value is missing")),
        "yes" | "no" | "on" | "off" | "true" | "false" => Some(format!("{key}: write true or false")),
        _ if may_repeat => Some(format!("{key}: write a text in quotes: \"{value}\"")),
        _ => Some(format!("{key}: write the text in quotes: \"...\"")),
    }
}

/// Sets one setting; `name` is its key in the table of settings.
fn set(name: &str, (key, value): Entry<'_, '_>, folder: &Path, config: &mut Config) -> Result<(), Fault> {
    let at = key.span().start;
    let setting = settings::find(name).ok_or_else(|| {
        let keys = SETTINGS.iter().map(|setting| setting.key);
        // In a table such as [dashboard] the keys lack its name.
        let table = name.strip_suffix(&canonical(key.get_ref())).unwrap_or_default();
        match table.is_empty() {
            true => unknown(at, key.get_ref(), keys.chain(["plan", "gateway", "canary"])),
            false => unknown(at, key.get_ref(), keys.filter_map(|key| key.strip_prefix(table))),
        }
    })?;
    let fault = |why: String| Fault { at, why: format!("{}: {why}", setting.key) };
    let mut values = scalars(value.get_ref(), setting.many).map_err(fault)?;
    if setting.is_path {
        let is_path =
            |value: &String| !["state", "learned"].contains(&setting.key) || value != StateFile::NONE;
        for value in values.iter_mut().filter(|value| is_path(value)) {
            *value = folder.join(&*value).display().to_string();
        }
    }
    (setting.set)(config, &values).map_err(fault)
}

/// The value as texts, in the form of flag values.
fn scalars(value: &DeValue<'_>, many: bool) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(items) if many => items
            .iter()
            .map(|item| scalar(item.get_ref()).ok_or("must be an array of strings".to_owned()))
            .collect(),
        other => match scalar(other) {
            Some(text) => Ok(vec![text]),
            None => Err(format!("must be {}, not {}", expected(many), other.type_str())),
        },
    }
}

fn expected(many: bool) -> &'static str {
    if many { "an array of strings" } else { "a string, an integer, true or false" }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(yes) => Some(yes.to_string()),
        _ => None,
    }
}

fn read_plans(value: &Spanned<DeValue<'_>>) -> Result<Vec<Plan>, Fault> {
    let mut read: Vec<Plan> = Vec::new();
    for (at, table) in tables("plan", value)? {
        let plan = plans::read(at, table)?;
        if read.iter().any(|other| other.id == plan.id) {
            return Err(Fault { at, why: format!("plan: `{}` is defined twice", plan.id) });
        }
        read.push(plan);
    }
    Ok(read)
}

fn read_gateways(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<Vec<Gateway>, Fault> {
    let mut read: Vec<Gateway> = Vec::new();
    for (at, table) in tables("gateway", value)? {
        let gateway = gateways::read(at, table, folder)?;
        gateways::admit(&read, &gateway).map_err(|why| Fault { at, why: format!("gateway: {why}") })?;
        read.push(gateway);
    }
    Ok(read)
}

fn read_sources(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<Vec<sources::Source>, Fault> {
    tables("source", value)?.into_iter().map(|(at, table)| sources::read(at, table, folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::proto::lists::ListKind;

    fn check(text: &str, expected: Result<(), (usize, &str)>) {
        let got = apply(text, Path::new("/etc"), &mut Config::default());
        match (got, expected) {
            (Ok(()), Ok(())) => {}
            (Err(fault), Err((line, why))) => {
                assert_eq!(1 + text[..fault.at].matches('\n').count(), line, "{}", fault.why);
                assert!(fault.why.contains(why), "{}", fault.why);
            }
            (got, _) => panic!("{text}: {:?}", got.map_err(|fault| fault.why)),
        }
    }

    #[test]
    fn faults_name_key_line_and_the_nearest_key() {
        check("", Ok(()));
        check(
            "smtp-port = 25\nsmtp_port2 = 1",
            Err((2, "unknown key `smtp_port2`; did you mean `smtp_port`?")),
        );
        check("\n\nresolvers = []", Err((3, "unknown key `resolvers`; did you mean `resolver`?")));
        check("[engine]\nsmtp_port = 1", Err((1, "unknown key `engine`")));
        check("listen = \"x\"", Err((1, "listen: `x` is not IP:PORT")));
        check("listen = 1.5", Err((1, "listen: must be a string, an integer, true or false, not float")));
        check("reuse_verdicts = 1", Err((1, "reuse_verdicts: `1` is not one of true, false")));
        check("allow_net = [1.5]", Err((1, "allow_net: must be an array of strings")));
        check("pace = \"fast\"\npace = \"lab\"", Err((2, "duplicate")));
        check("[dashboard]\nenabled = true\nsign-up = false", Ok(()));
        check("[dashboard]\nsignup = false", Err((2, "unknown key `signup`; did you mean `sign_up`?")));
        check("[dashboard]\nsign_up = 1", Err((2, "dashboard_sign_up: `1` is not one of true, false")));
        check("plan = 1", Err((1, "plan: write each plan as a table")));
        check("[[plan]]\nid = \"a\"\nnam = \"A\"", Err((3, "unknown key `nam`; did you mean `name`?")));
        check("[[plan]]\nid = \"a\"\nname = \"A\"", Err((1, "plan: `monthly_credits` is missing")));
        let plan = "[[plan]]\nid = \"a\"\nname = \"A\"\nmonthly_credits = 1\n";
        check(plan, Ok(()));
        check(&format!("{plan}{plan}"), Err((5, "plan: `a` is defined twice")));
        check(&format!("{plan}batches = 1"), Err((5, "batches: must be true or false")));
        check(&format!("{plan}[plan.limits]\nverify = 0"), Err((6, "limits.verify: ")));
        check(&format!("{plan}limits = {{ vrify = 1 }}"), Err((5, "did you mean `verify`")));
    }

    #[test]
    fn a_value_without_quotes_is_told_with_its_right_form() {
        for (line, expected) in [
            ("listen = 127.0.0.1:80", "listen: write a text in quotes: \"127.0.0.1:80\""),
            ("listen = 127.0.0.1:80 # here", "listen: write a text in quotes: \"127.0.0.1:80\""),
            ("data = /var/lib/mailprobe", "data: write a text in quotes: \"/var/lib/mailprobe\""),
            ("ehlo = mail.example.com", "ehlo: write a text in quotes: \"mail.example.com\""),
            ("resolver = [192.0.2.1, ::1]", "resolver: write each text in quotes: [\"192.0.2.1\", \"::1\"]"),
            ("dashboard_sign_up = no", "dashboard_sign_up: write true or false"),
            ("dashboard_sign_up = True", "dashboard_sign_up: write true or false"),
            ("proxy = socks5://me:secret@192.0.2.1:1080", "proxy: write the text in quotes: \"...\""),
            ("mail_from = me@example.com", "mail_from: write the text in quotes: \"...\""),
            ("proxy = [socks5://me:secret@192.0.2.1:1080]", "proxy: write each text in quotes: [\"...\"]"),
            ("secret = abc-def", "secret: write the text in quotes: \"...\""),
            ("pace =", "pace: its value is missing"),
        ] {
            check(&format!("sessions = 5\n{line}\npace = \"lab\"\n"), Err((2, expected)));
        }
        check("[dashboard]\nsign_up = off", Err((2, "sign_up: write true or false")));
        // Other faults keep the message of the parser.
        for text in ["data = \"/var", "[data\n", "data\n", "source = { address = x }"] {
            let fault = apply(text, Path::new("/etc"), &mut Config::default()).unwrap_err();
            assert!(!fault.why.contains("write ") && !fault.why.is_empty(), "{}", fault.why);
        }
    }

    #[test]
    fn an_unknown_key_names_those_that_were_probably_meant() {
        for (key, expected) in [
            ("port", "did you mean `listen`?"),
            ("host", "did you mean `listen`?"),
            ("tls", "did you mean `tls_cert` or `tls_key`?"),
            ("data_dir", "did you mean `data`?"),
            ("lisen", "did you mean `listen`?"),
            ("cert", "did you mean `tls_cert`?"),
            ("workers", "docs/configuration.md has all keys"),
            ("colour_of_the_dashboard", "docs/configuration.md has all keys"),
        ] {
            check(&format!("{key} = 1"), Err((1, &format!("unknown key `{key}`; {expected}"))));
        }
        check("[tls]\ncert = \"a\"", Err((1, "unknown key `tls`; did you mean `tls_cert` or `tls_key`?")));
        check("[[source]]\nhost = \"a\"", Err((2, "unknown key `host`; docs/configuration.md has all keys")));
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let mut config = Config::default();
        assert!(apply("data = \"d\"\nspamtraps = \"/t\"", Path::new("/etc/mp"), &mut config).is_ok());
        assert_eq!(config.data, Path::new("/etc/mp/d"));
        assert_eq!(config.list_file(ListKind::SpamTraps), Some(Path::new("/t")));
        assert!(apply("[lists]\nrole = \"r\"", Path::new("/etc/mp"), &mut config).is_ok());
        assert_eq!(config.list_file(ListKind::Role), Some(Path::new("/etc/mp/r")));
        for (given, expected) in [
            ("s", StateFile::At("/etc/mp/s".into())),
            ("/s", StateFile::At("/s".into())),
            ("none", StateFile::None),
            ("./none", StateFile::At("/etc/mp/./none".into())),
        ] {
            let text = format!("state = \"{given}\"");
            assert!(apply(&text, Path::new("/etc/mp"), &mut config).is_ok());
            assert_eq!(config.state, Some(expected));
        }
    }
}
