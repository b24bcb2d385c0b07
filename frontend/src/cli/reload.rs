//! SIGHUP: `serve` reads its configuration again, from the same flags, variables and file.
//!
//! Plans with their limits, the operator's lists, the secrets of gateways, and the certificate take effect at once. All of
//! them are read before the first one is used, so an error changes nothing. Other settings need a restart; a log line names
//! those that differ.

use crate::config::settings::SETTINGS;
use crate::config::{Config, ConfigError};
use checks::gateway::Gateways;
use engine::config::SharedLists;
use engine::proto::lists::Lists;
use server::tls::Tls;
use server::worker::SharedState;
use store::PlanTable;
use store_rules::Store;

/// The parts of a running server that can be replaced.
pub(super) struct Reload<'s> {
    /// The configuration with which the server started.
    pub running: &'s Config,
    /// The lists of its engine.
    pub lists: SharedLists,
    pub store: &'s Store,
    pub shared: &'s SharedState,
    pub tls: Option<&'s Tls>,
}

/// What was read, before it is used.
struct Read {
    plans: PlanTable,
    gateways: Gateways,
    lists: Lists,
}

impl Reload<'_> {
    /// Uses a configuration that was read again, and logs what happened.
    pub fn run(&self, config: Result<Config, ConfigError>) {
        match config.map_err(|error| error.0).and_then(|config| self.apply(&config).map(|()| config)) {
            Err(why) => {
                tracing::warn!(
                    "the configuration was read again, and nothing changed because of an error: {why}"
                );
            }
            Ok(config) => {
                tracing::info!(
                    "the configuration was read again: plans, limits, lists, secrets and the certificate"
                );
                let differ = needing_a_restart(self.running, &config);
                if !differ.is_empty() {
                    let keys = differ.join(", ");
                    tracing::warn!(keys, "these settings differ from those in use, and need a restart");
                }
            }
        }
    }

    fn apply(&self, config: &Config) -> Result<(), String> {
        let read = || -> Result<Read, ConfigError> {
            Ok(Read { plans: config.plan_table()?, gateways: config.gateways()?, lists: config.lists()? })
        };
        let Read { plans, gateways, lists } = read().map_err(|error| error.0)?;
        let certificate = self.tls.map(Tls::read_again).transpose()?;
        // This can still refuse; the others cannot.
        self.store.replace_plans(plans).map_err(|error| error.to_string())?;
        if let (Some(tls), Some(certificate)) = (self.tls, certificate) {
            tls.replace(certificate);
        }
        self.shared.replace_gateways(gateways);
        self.lists.replace(lists);
        Ok(())
    }
}

/// The keys of settings that differ and are used only at the start.
fn needing_a_restart(running: &Config, read: &Config) -> Vec<&'static str> {
    let at_once = |key: &str| key == "spamtraps" || key.starts_with("lists_");
    let differs = |key: &&str| {
        let setting = crate::config::settings::find(key);
        setting.is_some_and(|setting| (setting.show)(running) != (setting.show)(read))
    };
    let keys = SETTINGS.iter().map(|setting| setting.key);
    let mut differ: Vec<&'static str> = keys.filter(|key| !at_once(key)).filter(differs).collect();
    if running.sources != read.sources {
        differ.push("source");
    }
    if running.canaries != read.canaries {
        differ.push("canary");
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_need_a_restart_are_named() {
        let running = Config::default();
        assert!(needing_a_restart(&running, &Config::default()).is_empty());
        let mut read = Config::default();
        for (key, value) in
            [("listen", "127.0.0.1:1"), ("source", "192.0.2.1"), ("lists_role", "/x"), ("spamtraps", "/y")]
        {
            let setting = crate::config::settings::find(key).unwrap();
            (setting.set)(&mut read, &[value.to_owned()]).unwrap();
        }
        read.plans.clear();
        assert_eq!(needing_a_restart(&running, &read), ["listen", "source"]);
    }
}
