//! The configuration, described for its readers: `mailprobe config --default` and docs/configuration.md.
//!
//! Both come from the table of settings and from one of the tables that can be repeated, so that they name what the program
//! reads.

use super::settings::{Group, SETTINGS, Scope, Setting};
use super::{Config, plans};
use std::fmt::Write;
use toml::Value;

/// A table of the file that can be repeated, such as `[[plan]]`.
struct RepeatedTable {
    name: &'static str,
    about: &'static str,
    keys: &'static [Key],
}

/// A key of such a table.
struct Key {
    name: &'static str,
    /// An example, or the default if the key is optional.
    value: &'static str,
    optional: bool,
    help: &'static str,
}

const fn key(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, optional: false, help }
}

const fn optional(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, optional: true, help }
}

/// Every table that can be repeated.
const TABLES: &[RepeatedTable] = &[
    RepeatedTable {
        name: "source",
        about: "A source of connections to mail servers: an address of this machine, or a SOCKS5 proxy. Each source needs an EHLO \
                name with forward-confirmed reverse DNS: its public address resolves to the name, and the name to the address. \
                The flags and variables of `source` replace all tables with an address, and those of `proxy` all tables with a \
                proxy.",
        keys: &[
            key(
                "address",
                "\"192.0.2.1\"",
                "Address of this machine. A source has either an address or a proxy",
            ),
            optional("proxy", "\"socks5://user@192.0.2.9:1080\"", "SOCKS5 proxy, in place of `address`"),
            optional("password_file", "\"proxy-password\"", "File with the password of the proxy's user"),
            optional("ipv6", "false", "Whether the proxy reaches mail servers by IPv6"),
            optional("ehlo", "\"mail1.example.com\"", "Name in EHLO; default: the setting `ehlo`"),
            optional(
                "mail_from",
                "\"probe@example.com\"",
                "Reverse-path of MAIL; default: the setting `mail_from`",
            ),
        ],
    },
    RepeatedTable {
        name: "canary",
        about: "A mailbox of your own that exists and accepts mail from strangers. If its host refuses other recipients of \
                a list or batch and then this mailbox, the refusals of the other recipients do not count.",
        keys: &[key("address", "\"me@example.com\"", "Address of the mailbox")],
    },
    RepeatedTable {
        name: "plan",
        about: "A plan of accounts. If the file has a `[[plan]]`, none of the default plans exists. `mailprobe config --default` \
                shows the default plans. The first account and all accounts of sign-up get the plan with the id `free`. So keep a \
                plan with this id. Otherwise, create the first account with `mailprobe account create NAME --plan ID --data \
                DIR` before the first start, and set `dashboard_sign_up = false`.",
        keys: &[
            key("id", "\"team\"", "Id of the plan, for commands: 1 to 64 characters"),
            key("name", "\"Team\"", "Name for users: 1 to 64 characters"),
            key("monthly_credits", "100000", "Credits of each month"),
            optional("batches", "true", "Whether accounts may create batches"),
            optional(
                "resets",
                "true",
                "Whether each month starts with new credits; false: there is one period without an end",
            ),
            optional(
                "stored_mib",
                "64",
                "MiB that the batches of an account may take until they expire, beside 512 bytes for each credit that they cost: \
                 what test keys can fill",
            ),
            optional(
                "limits",
                "{ fast = 600 }",
                "Rate limits by kind, as [operations.md](operations.md#limits) lists them; a missing kind keeps its default",
            ),
        ],
    },
    RepeatedTable {
        name: "gateway",
        about: "A third-party API gateway, which forwards the requests of its users.",
        keys: &[
            key(
                "name",
                "\"gateway\"",
                "Name: a-z, 0-9 and _, up to 32 characters. It is a part of account names and error codes",
            ),
            key("header", "\"X-Gateway-Secret\"", "Header with the secret of the gateway"),
            key(
                "secrets_file",
                "\"gateway-secrets\"",
                "File of one or two secrets, one per line: an old and a new one",
            ),
            optional(
                "secrets",
                "[\"a secret of 8 to 256 characters\"]",
                "The secrets, in place of `secrets_file`",
            ),
            key("user_header", "\"X-Gateway-User\"", "Header with the name of the user"),
            key("plan_header", "\"X-Gateway-Plan\"", "Header with the plan of the user"),
            key("plans", "{ BASIC = \"free\" }", "The gateway's plans, and the plan that each means here"),
            optional("users_max", "100000", "Maximum number of users with an account"),
        ],
    },
];

/// The defaults of a server, on every machine alike.
fn defaults() -> Config {
    Config { data: "/var/lib/mailprobe".into(), ..Config::default() }
}

fn settings_of(group: Group) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.group == group)
}

/// The commented file: every setting as a comment with its default. Read as it is, it changes nothing.
pub fn commented_file() -> String {
    let mut text = String::from(
        "# The configuration of mailprobe. Each setting shows its default or an example: remove the # and change the value.\n\
         # A flag of the command line wins over an environment variable, which wins over this file.\n",
    );
    let defaults = defaults();
    for group in Group::ALL {
        let _ = write!(text, "\n## {}\n", group.heading());
        for setting in settings_of(group) {
            let _ = writeln!(text);
            for line in wrapped(&setting.long_help(), 100) {
                let _ = writeln!(text, "# {line}");
            }
            let _ = match (setting.show)(&defaults) {
                Some(value) => writeln!(text, "#{} = {value}", setting.key),
                None => writeln!(text, "# Example:\n#{} = {}", setting.key, setting.example),
            };
        }
    }
    text.push_str("\n## Tables, each as often as you need it\n");
    for table in TABLES {
        let _ = writeln!(text);
        for line in wrapped(table.about, 100) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "#[[{}]]", table.name);
        for Key { name, value, help, .. } in table.keys {
            let _ = writeln!(text, "# {help}.\n#{name} = {value}");
        }
    }
    text.push_str("\n# The plans that apply if this file has none:\n");
    for plan in plans::standard() {
        for line in plans::to_toml(&plan).lines() {
            let _ = writeln!(text, "#{line}");
        }
    }
    text
}

/// The text of docs/configuration.md, in Markdown.
pub fn page() -> String {
    let mut text = String::from(PAGE_START);
    let defaults = defaults();
    for group in Group::ALL {
        let _ = write!(
            text,
            "\n## {}\n\n| key | value | default | commands | meaning |\n| --- | --- | --- | --- | --- |\n",
            group.heading()
        );
        for setting in settings_of(group) {
            let default = (setting.show)(&defaults).map_or(String::new(), |value| match value {
                Value::Array(items) if items.is_empty() => String::new(),
                value => format!("`{value}`"),
            });
            let commands = match setting.scope {
                Scope::Data => "all with a store",
                Scope::Server => "serve",
                Scope::Engine => "serve, check, clean",
                Scope::State => "check, clean, learn",
                Scope::Learned => "serve, check, clean, learn",
            };
            let (key, value_name, meaning) = (setting.key, setting.value_name, setting.long_help());
            let _ =
                writeln!(text, "| `{key}` | {value_name} | {default} | {commands} | {} |", cell(&meaning));
        }
    }
    text.push_str(TABLES_START);
    for table in TABLES {
        let _ = write!(
            text,
            "\n## `[[{}]]`\n\n{}\n\n| key | example or default | meaning |\n| --- | --- | --- |\n",
            table.name, table.about
        );
        for Key { name, value, optional, help } in table.keys {
            let optional = if *optional { "Optional. " } else { "" };
            let _ = writeln!(
                text,
                "| `{name}` | `{}` | {optional}{} |",
                value.replace('|', "\\|"),
                cell(&format!("{help}."))
            );
        }
    }
    text
}

const TABLES_START: &str = "
In the following tables, the value of an optional key is its default if it is a number, `true` or `false`. All other values are
examples.
";

const PAGE_START: &str = "\
# Configuration

<!-- UPDATE=1 cargo test -p frontend configuration_page writes this page from the table of settings. -->

Every setting has three forms. The flag `--smtp-port 2525`, the environment variable `MAILPROBE_SMTP_PORT=2525` and the line
`smtp_port = 2525` of the file mean the same. A flag wins over a variable, and a variable wins over the file. `--config FILE` or
`MAILPROBE_CONFIG` names the file, which is TOML. Without these two, mailprobe reads no file. The tables `[[source]]`, `[[canary]]`,
`[[plan]]` and `[[gateway]]` exist only in the file.

The column *commands* names the commands that have the flag. In addition, `mailprobe config` accepts the flags of all these
commands, `mailprobe doctor` accepts the flags of `serve`, and `mailprobe openapi` accepts the flags that only `serve` has.

- `mailprobe config --default` prints a commented file with all defaults.
- `mailprobe config` with your flags prints the effective configuration.
- An unknown key in the file is an error. The message names the line and the nearest known key.
- A setting that is *repeatable* accepts several values: repeat the flag, separate the values of the variable by commas, or write
  an array in the file.
- In the file, `[store]`, `[dashboard]` and `[lists]` can be tables: `sign_up` in `[dashboard]` is `dashboard_sign_up`.
- A relative path in the file starts at the folder of the file.
- Secrets can stay out of the file: `store_url_file`, `secrets_file`, `password_file` and `tls_key` name files. No output contains
  `store_url`.
";

/// The text in a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The lines of a text, up to this many characters each.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::apply;
    use std::path::Path;

    fn read(text: &str) -> Config {
        let mut config = defaults();
        let read = apply(text, Path::new("/etc/mailprobe"), &mut config);
        read.map_err(|fault| format!("{}: {}", fault.why, &text[fault.at..])).unwrap();
        config
    }

    /// The lines `#key = value` and `#[...]` without their first character.
    fn uncommented(text: &str) -> String {
        let lines = text.lines().filter(|line| !line.starts_with("# ") && !line.starts_with("##"));
        lines.map(|line| format!("{}\n", line.trim_start_matches('#'))).collect()
    }

    #[test]
    fn the_commented_file_changes_nothing() {
        assert_eq!(read(&commented_file()).to_toml(), defaults().to_toml());
    }

    #[test]
    fn its_settings_are_the_defaults_if_uncommented() {
        let file = commented_file();
        let settings = file.split("## Tables").next().unwrap();
        let lines = uncommented(settings);
        let with_default: String = lines
            .lines()
            .filter(|line| {
                let setting = SETTINGS.iter().find(|setting| line.starts_with(&format!("{} =", setting.key)));
                setting.is_none_or(|setting| (setting.show)(&defaults()).is_some())
            })
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(read(&with_default).to_toml(), defaults().to_toml());
        // The examples are values that the file accepts too.
        read(&lines);
        for setting in SETTINGS.iter() {
            assert!(lines.contains(&format!("\n{} = ", setting.key)), "{}", setting.key);
        }
    }

    #[test]
    fn its_plans_are_the_standard_ones() {
        let file = commented_file();
        let plans = file.split("if this file has none:\n").nth(1).unwrap();
        assert_eq!(read(&uncommented(plans)).to_toml(), defaults().to_toml());
    }

    #[test]
    fn every_key_of_a_table_is_described_and_its_example_is_accepted() {
        for table in TABLES {
            let keys: &[&str] = match table.name {
                "source" => &super::super::sources::KEYS,
                "canary" => &["address"],
                "plan" => &plans::KEYS,
                "gateway" => &super::super::gateways::KEYS,
                other => panic!("{other}"),
            };
            let mut described: Vec<&str> = table.keys.iter().map(|key| key.name).collect();
            let mut known = keys.to_vec();
            described.sort_unstable();
            known.sort_unstable();
            assert_eq!(described, known, "{}", table.name);
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("gateway-secrets"), "# old\n12345678\n").unwrap();
            let lines = table.keys.iter().filter(|key| !key.optional);
            let lines: String = lines.map(|key| format!("{} = {}\n", key.name, key.value)).collect();
            let text = format!("[[{}]]\n{lines}", table.name);
            let applied = apply(&text, folder.path(), &mut Config::default());
            assert!(applied.is_ok(), "{text}: {}", applied.err().unwrap().why);
        }
    }

    #[test]
    fn the_configuration_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == page(), "run UPDATE=1 cargo test -p frontend configuration_page");
    }
}
