//! `mailprobe key`: API keys. The command creates a key on the operator's side and shows it once. The store and the server
//! receive only its hash.

use super::place::{Place, execute, note, output_failed, unexpected};
use super::table::{write_json, write_table};
use checks::auth::ApiKey;
use clap::{Args, Subcommand};
use serde::Serialize;
use server::admin::{Command, Response};
use std::io::{self, Write};
use store::credits::calendar::{Iso8601, day_start};
use store::{KEY_LIFE_MS_MAX, KeyId, KeyInfo, KeyMode, KeyScope, KeyScopes, UnixMs, id};
use usage::values::duration;

/// Manage API keys: on a running server, or in the data folder of a stopped server.
#[derive(Debug, Clone, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    action: KeyAction,
    /// Print the answer as JSON, for a script.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum KeyAction {
    /// Create a key and print it. It cannot be shown again.
    Create {
        /// The account's id or name.
        account: String,
        /// Create a test key. Checks with it contact no mail server and use no credits.
        #[arg(long)]
        test: bool,
        /// Label of the key.
        #[arg(long, default_value = "")]
        label: String,
        /// Limit the key to these parts of the API, separated by commas: fast, full, batches, lists, account. Without this flag,
        /// the key has all of them.
        #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
        scope: Vec<KeyScope>,
        /// Expiry of the key: a time from now (90d, 12h; 30m is 30 minutes), or a date (2027-01-31, at 00:00 UTC). The key is
        /// refused from this time on. Without this flag, the key does not expire.
        #[arg(long, value_name = "TIME", value_parser = expiry)]
        expires: Option<Expiry>,
    },
    /// List an account's keys.
    List {
        /// The account's id or name.
        account: String,
    },
    /// Revoke a key permanently. The revocation takes effect immediately, on other nodes of a cluster within 2 seconds.
    Revoke {
        /// The key's id, as `key list` shows it.
        #[arg(value_name = "KEYID")]
        key: KeyId,
    },
}

/// The value of `--expires`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// A time from now, in milliseconds.
    After(u64),
    /// A time.
    At(UnixMs),
}

impl Expiry {
    fn at(self, now: UnixMs) -> UnixMs {
        match self {
            Expiry::After(ms) => now.saturating_add(ms),
            Expiry::At(at) => at,
        }
    }
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if let Some(at) = day_start(text) {
        return Ok(Expiry::At(at));
    }
    let ms = duration(text, None).ok().and_then(|time| u64::try_from(time.as_millis()).ok());
    ms.filter(|ms| (1..=KEY_LIFE_MS_MAX).contains(ms)).map(Expiry::After).ok_or_else(|| {
        "give a time of at most 10 years, such as 90d or 12h, or a date, such as 2027-01-31".to_owned()
    })
}

/// The properties of a new key.
struct Wanted {
    account: String,
    mode: KeyMode,
    label: String,
    scopes: KeyScopes,
    expires_at: Option<UnixMs>,
}

/// A new key with its properties.
#[derive(Serialize)]
struct Made<'a> {
    key: &'a str,
    #[serde(flatten)]
    info: &'a KeyInfo,
}

/// Runs the command.
///
/// # Errors
/// One line for standard error.
pub fn run(args: KeyArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    match args.action {
        KeyAction::Create { account, test, label, scope, expires } => {
            let mode = if test { KeyMode::Test } else { KeyMode::Live };
            // No scope on the command line stands for all of them.
            let scopes = KeyScopes::of(scope).unwrap_or_default();
            let expires_at = expires.map(|expiry| expiry.at(place.now));
            create(Wanted { account, mode, label, scopes, expires_at }, args.json, place, out)
        }
        KeyAction::List { account } => match execute(place, false, Command::KeyList { account })? {
            Response::Keys(keys) if args.json => write_json(out, &keys).map_err(output_failed),
            Response::Keys(keys) => write_keys(out, &keys).map_err(output_failed),
            other => Err(unexpected(&other)),
        },
        KeyAction::Revoke { key } => match execute(place, false, Command::KeyRevoke { key })? {
            Response::Key(key) => {
                if key.revoked_at.is_some_and(|at| at < place.now) {
                    note("the key was already revoked; the output has the time");
                }
                let written = if args.json { write_json(out, &key) } else { write_keys(out, &[key]) };
                written.map_err(output_failed)
            }
            other => Err(unexpected(&other)),
        },
    }
}

fn create(wanted: Wanted, json: bool, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    let no_bits = |error| format!("cannot get random bits: {error}");
    let Wanted { account, mode, label, scopes, expires_at } = wanted;
    let key = ApiKey::generate(mode).map_err(no_bits)?;
    let id = KeyId::new(place.now, id::random_bits().map_err(no_bits)?);
    let (hash, last4) = (key.hash(), key.last4());
    let command = Command::KeyCreate { account, id, mode, hash, last4, label, scopes, expires_at };
    let info = match execute(place, false, command)? {
        Response::Key(info) => info,
        other => return Err(unexpected(&other)),
    };
    if (info.scopes, info.expires_at) != (scopes, expires_at) {
        // A server of an older version ignores both, so the key may do more than was asked for.
        execute(place, false, Command::KeyRevoke { key: id })?;
        return Err(format!(
            "the running server is an older version without scopes and expiries of keys; the key {id} was revoked. Restart the \
             server with this version"
        ));
    }
    if !json {
        note(&format!("its id is {id}, as `mailprobe key revoke {id}` takes it; the key is not shown again"));
    }
    if let Some(at) = expires_at {
        note(&format!("the key expires at {}", Iso8601(at)));
    }
    let written = if json {
        write_json(out, &Made { key: key.reveal(), info: &info })
    } else {
        // The line contains only the key, so that a script needs no parser.
        writeln!(out, "{}", key.reveal())
    };
    written.and_then(|()| out.flush()).map_err(|error| {
        format!("the key was created but could not be shown ({error}); revoke {id} and create another key")
    })
}

pub(super) fn write_keys(out: &mut dyn Write, keys: &[KeyInfo]) -> io::Result<()> {
    let rows: Vec<_> = keys.iter().map(key_row).collect();
    write_table(
        out,
        ["ID", "MODE", "ENDS IN", "CREATED", "LAST USE", "REVOKED", "EXPIRES", "SCOPES", "LABEL"],
        &rows,
    )
}

fn key_row(key: &KeyInfo) -> [String; 9] {
    let time = |at: Option<u64>| at.map_or_else(String::new, |at| Iso8601(at).to_string());
    let mode = match key.mode {
        KeyMode::Live => "live",
        KeyMode::Test => "test",
    };
    [
        key.id.to_string(),
        mode.into(),
        key.last4.clone(),
        time(Some(key.created_at)),
        time(key.last_used_at),
        time(key.revoked_at),
        time(key.expires_at),
        key.scopes.to_string(),
        key.label.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_time_from_now_or_a_date() {
        const HOUR: u64 = 3_600_000;
        for (text, expected) in [
            ("90d", Some(90 * 24 * HOUR + 1)),
            ("12h", Some(12 * HOUR + 1)),
            ("3660d", Some(KEY_LIFE_MS_MAX + 1)),
            ("1970-01-02", Some(24 * HOUR)),
            ("3661d", None),
            ("0d", None),
            ("-1d", None),
            ("90", None),
            ("d", None),
            ("18446744073709551615d", None),
            ("2027-02-29", None),
            ("", None),
        ] {
            assert_eq!(expiry(text).ok().map(|expiry| expiry.at(1)), expected, "{text}");
        }
        assert!(expiry("soon").unwrap_err().contains("2027-01-31"));
    }
}
