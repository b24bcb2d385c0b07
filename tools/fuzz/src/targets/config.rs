//! The configuration: an error has a position and one line of text, and a printed configuration is read as the same
//! one.

use crate::grammar::Grammar;
use fastrand::Rng;
use frontend::config::Config;
use frontend::config::settings::SETTINGS;
use frontend::fuzzing::configuration;
use std::sync::LazyLock;

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar::of(include_str!("../../grammars/config.txt")));
const MESSAGE_BYTES_MAX: usize = 2048;

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..random.usize(..5) {
        let setting = &SETTINGS[random.usize(..SETTINGS.len())];
        let key = match random.u8(..8) {
            0 => setting.key.replace('_', "-"),
            1 => setting.key[1..].to_owned(),
            _ => setting.key.to_owned(),
        };
        let value = match (setting.show)(&Config::default()) {
            Some(value) if random.bool() => value.to_string(),
            _ => GRAMMAR.grow("value", random),
        };
        text.push_str(&format!("{key} = {value}\n"));
    }
    (text + &GRAMMAR.grow("tables", random)).into_bytes()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    let config = match configuration(text) {
        Ok(config) => config,
        Err((at, why)) => {
            if at > text.len() {
                return Err(format!("a fault at byte {at} of {}", text.len()));
            }
            if why.is_empty() || why.chars().any(char::is_control) {
                return Err(format!("the message is not one line that can be printed: {why:?}"));
            }
            // The message repeats at most the wrong value.
            return if why.len() <= MESSAGE_BYTES_MAX + text.len() {
                Ok(())
            } else {
                Err("a long message".into())
            };
        }
    };
    // A plan table is created, or refused with a text.
    if let Err(error) = config.plan_table()
        && error.0.is_empty()
    {
        return Err("an error without words".into());
    }
    // Secrets are not printed, so a configuration with one is not read as the same.
    if !config.gateways.is_empty() || config.to_toml().contains("its password is not shown") {
        return Ok(());
    }
    let printed = config.to_toml();
    let again = configuration(&printed).map_err(|(_, why)| format!("what is printed is refused: {why}"))?;
    if again.to_toml() == printed { Ok(()) } else { Err("what is printed reads back as another".into()) }
}

/// Whether the input is read as a configuration.
#[cfg(test)]
pub fn passes(input: &[u8]) -> bool {
    std::str::from_utf8(input).is_ok_and(|text| configuration(text).is_ok())
}
