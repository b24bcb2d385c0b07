//! The flags of a command, built from the table of settings.

use crate::config::settings::{Group, SETTINGS, Scope, Setting};
use crate::config::{Config, ConfigError, Given};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use lists::shell;
use std::path::PathBuf;

/// Flags of commands that open a store or connect to one.
pub const DATA: u8 = 1;
/// Flags of the command `serve`.
pub const SERVER: u8 = 2;
/// Flags of commands that run the engine.
pub const ENGINE: u8 = 4;
/// Flags of commands that contact mail servers and have no store.
pub const STATE: u8 = 8;
/// Flags of commands that use the learned events, and of `learn`.
pub const LEARNED: u8 = 16;

/// The settings that a first use needs. `-h` shows only these, and `--help` shows all.
const MAIN: [&str; 10] = [
    "data",
    "store_url",
    "listen",
    "public_url",
    "tls_cert",
    "tls_key",
    "resolver",
    "ehlo",
    "mail_from",
    "pace",
];

/// The flags of the settings in these scopes, and `--config`.
pub struct Flags<const SCOPES: u8> {
    file: Option<PathBuf>,
    /// Whether the command line names the file, and not only the environment.
    names_file: bool,
    given: Given,
}

impl<const SCOPES: u8> Flags<SCOPES> {
    /// Resolves the configuration.
    ///
    /// # Errors
    /// The first error.
    pub fn config(&self) -> Result<Config, ConfigError> {
        // A value that is not UTF-8 is an error; it is not ignored.
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Config::load(self.file.as_deref(), variable, &self.given)
    }

    /// The flags of the command line, each after a space, for a command that a user can paste into a shell.
    pub fn as_given(&self) -> String {
        let file = self.file.iter().filter(|_| self.names_file);
        let file = file.map(|path| ("config", path.to_string_lossy().into_owned()));
        let settings =
            self.given.iter().flat_map(|(key, values)| values.iter().map(|value| (*key, value.clone())));
        let all = file.chain(settings);
        all.map(|(key, value)| shell::option(&format!("--{}", key.replace('_', "-")), &value)).collect()
    }

    fn settings() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| {
            let scope = match setting.scope {
                Scope::Data => DATA,
                Scope::Server => SERVER,
                Scope::Engine => ENGINE,
                Scope::State => STATE,
                Scope::Learned => LEARNED,
            };
            SCOPES & scope != 0
        })
    }
}

impl<const SCOPES: u8> Args for Flags<SCOPES> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("MAILPROBE_CONFIG")
            .hide_env_values(true)
            .global(true)
            .help_heading(Group::General.heading())
            .help("Configuration file in TOML")
            .value_parser(clap::value_parser!(PathBuf));
        let defaults = Config::default();
        // clap lists the headings in the order of their first flags.
        let groups = Group::ALL.into_iter();
        let settings =
            groups.flat_map(|group| Self::settings().filter(move |setting| setting.group == group));
        settings.fold(command.arg(file), |command, setting| {
            let default = match (setting.show)(&defaults) {
                Some(value) if !setting.many => {
                    format!(" [default: {}]", value.to_string().trim_matches('"'))
                }
                _ => String::new(),
            };
            let variable = setting.variable();
            let arg = Arg::new(setting.key);
            // Commands of clusters need it most, and it is their only name of a place.
            let arg = if setting.key == "store_url" { arg.visible_alias("store") } else { arg };
            command.arg(
                arg.long(setting.key.replace('_', "-"))
                    .value_name(setting.value_name)
                    .help(format!("{}{default}", setting.help))
                    .long_help(format!(
                        "{}\n\n{}",
                        setting.long_help(),
                        format!("{default} [env: {variable}]").trim_start()
                    ))
                    .help_heading(setting.group.heading())
                    .global(true)
                    .hide_short_help(!MAIN.contains(&setting.key))
                    .action(if setting.many { ArgAction::Append } else { ArgAction::Set }),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SCOPES: u8> FromArgMatches for Flags<SCOPES> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Given::new();
        for setting in Self::settings() {
            if matches.value_source(setting.key) == Some(ValueSource::CommandLine) {
                let values = matches.get_many::<String>(setting.key).into_iter().flatten();
                given.push((setting.key, values.cloned().collect()));
            }
        }
        let names_file = matches.value_source("config") == Some(ValueSource::CommandLine);
        Ok(Flags { file: matches.get_one("config").cloned(), names_file, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
