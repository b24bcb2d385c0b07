//! The whole configuration, from all its places, and as a file.

use super::settings::{self, SETTINGS};
use super::{Config, ConfigError, Given, canaries, file, gateways, one_line, plans, sources};
use std::fmt::Write;
use std::path::Path;

impl Config {
    /// Resolves the configuration.
    ///
    /// # Errors
    /// The first error.
    pub fn load(
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &Given,
    ) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(path) = file {
            file::read(path, &mut config)?;
        }
        for setting in SETTINGS.iter() {
            let variable = setting.variable();
            if let Some(text) = environment(&variable) {
                let values = if setting.many {
                    text.split(',')
                        .map(|part| part.trim().to_owned())
                        .filter(|part| !part.is_empty())
                        .collect()
                } else {
                    vec![text]
                };
                (setting.set)(&mut config, &values)
                    .map_err(|why| ConfigError(format!("{variable}: {}", one_line(&why))))?;
            }
        }
        for (key, values) in flags {
            if let Some(setting) = settings::find(key) {
                (setting.set)(&mut config, values)
                    .map_err(|why| ConfigError(format!("{}: {}", setting.flag(), one_line(&why))))?;
            }
        }
        Ok(config)
    }

    /// The configuration as a TOML file with the same effect. A setting without a value is a comment.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for setting in SETTINGS.iter() {
            let _ = writeln!(text, "# {}", setting.help);
            let _ = match (setting.show)(self) {
                Some(value) => writeln!(text, "{} = {value}", setting.key),
                None => writeln!(text, "# {} =", setting.key),
            };
        }
        for source in &self.sources {
            let _ = write!(text, "\n{}", sources::to_toml(source));
        }
        for canary in &self.canaries {
            let _ = write!(text, "\n{}", canaries::to_toml(canary));
        }
        for plan in &self.plans {
            let _ = write!(text, "\n{}", plans::to_toml(plan));
        }
        for gateway in &self.gateways {
            let _ = write!(text, "\n{}", gateways::to_toml(gateway));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::config::{EngineConfig, Pace};

    fn load(file: &str, environment: &[(&str, &str)], flags: &Given) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mailprobe.toml");
        std::fs::write(&path, file).unwrap();
        let variable =
            |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::load(Some(&path), variable, flags)
            .map_err(|error| ConfigError(error.0.replace(&format!("{}/", folder.path().display()), "")))
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let file = "smtp_port = 1\nsessions = 1\nshards = 1\n";
        let environment = [("MAILPROBE_SMTP_PORT", "2"), ("MAILPROBE_SESSIONS", "2")];
        let config = load(file, &environment, &vec![("smtp_port", vec!["3".into()])]).unwrap();
        let engine = config.engine;
        assert_eq!((engine.smtp_port, engine.sessions, engine.shards), (3, 2, 1));
        assert_eq!(engine.pace, Pace::Polite);
    }

    #[test]
    fn a_named_data_folder_is_told_from_the_default() {
        let flag = vec![("data", vec!["d".into()])];
        for (file, environment, flags, is_named) in [
            ("", &[][..], &Given::new(), false),
            ("data = \"d\"\n", &[], &Given::new(), true),
            ("", &[("MAILPROBE_DATA", "d")], &Given::new(), true),
            ("", &[], &flag, true),
        ] {
            let config = load(file, environment, flags).unwrap();
            assert_eq!(config.data_is_named, is_named, "{:?}", config.data);
        }
    }

    #[test]
    fn lists_replace_each_other_whole() {
        let file = "resolver = [\"192.0.2.1:53\", \"192.0.2.2:53\"]\nallow_net = \"192.0.2.0/24\"";
        let config =
            load(file, &[("MAILPROBE_RESOLVER", "192.0.2.3:5353, [2001:db8::1]:53")], &Given::new()).unwrap();
        let resolvers: Vec<String> = config.engine.resolvers.iter().map(ToString::to_string).collect();
        assert_eq!(resolvers, ["192.0.2.3:5353", "[2001:db8::1]:53"]);
        assert_eq!(config.engine.allow_net.len(), 1);
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place() {
        let check = |file: &str, environment: &[(&str, &str)], flags: &Given, expected: &str| {
            let said = load(file, environment, flags).unwrap_err().0;
            assert!(said.starts_with(expected), "{said}");
        };
        let none = Given::new();
        check("\nsmtp_port = 70000", &[], &none, "mailprobe.toml:2: smtp_port: ");
        check("", &[("MAILPROBE_PACE", "quick")], &none, "MAILPROBE_PACE: ");
        // An error is one line, even with control characters in the value.
        check("ehlo = \"a\\nb\"", &[], &none, "mailprobe.toml:1: ehlo: `a\u{fffd}b` is not a host name");
        check("", &[("MAILPROBE_EHLO", "a\nb")], &none, "MAILPROBE_EHLO: `a\u{fffd}b` is not");
        check("", &[], &vec![("ehlo", vec!["a\u{1b}b".into()])], "--ehlo: `a\u{fffd}b` is not");
        check(
            "",
            &[],
            &vec![("resolver", vec!["dns.google".into()])],
            "--resolver: `dns.google` is not an IP or IP:PORT, such as 192.0.2.53 or 127.0.0.1:53",
        );
        check("", &[], &vec![("runtime", vec!["tokio".into()])], "--runtime: ");
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let file = "ehlo = \"a.example\"\nallow_net = [\"10.0.0.0/8\", \"::1\"]\nspamtraps = \"/etc/traps\"\n\
                    state = \"none\"\n[[canary]]\naddress = \"Me@Example.com\"\n\
                    [[plan]]\nid = \"one\"\nname = \"The \\\"one\\\"\"\nmonthly_credits = 7\nbatches = false\n\
                    [plan.limits]\nfast = 3\n";
        let config = load(file, &[], &vec![("log_format", vec!["json".into()])]).unwrap();
        let printed = config.to_toml();
        let again = load(&printed, &[], &Given::new()).unwrap();
        assert_eq!(again.to_toml(), printed);
        // Each installation has its own secret, and the printed file names the default data folder.
        assert!(again.data_is_named);
        let again = Config {
            engine: EngineConfig { installation: config.engine.installation, ..again.engine },
            data_is_named: config.data_is_named,
            ..again
        };
        assert_eq!(format!("{again:?}"), format!("{config:?}"));
        assert_eq!(
            load(&Config::default().to_toml(), &[], &Given::new()).unwrap().to_toml(),
            Config::default().to_toml()
        );
    }
}
