//! `mailprobe key`: API keys. The command creates a key on the operator's side and shows it once. The store and the server
//! receive only its hash.

use super::place::{Place, execute, output_failed, unexpected};
use super::table::{write_json, write_table};
use checks::auth::ApiKey;
use clap::{Args, Subcommand};
use serde::Serialize;
use server::admin::{Command, Response};
use std::io::{self, Write};
use store::credits::calendar::Iso8601;
use store::{KeyId, KeyInfo, KeyMode, id};

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
        KeyAction::Create { account, test, label } => create(account, test, label, args.json, place, out),
        KeyAction::List { account } => match execute(place, false, Command::KeyList { account })? {
            Response::Keys(keys) if args.json => write_json(out, &keys).map_err(output_failed),
            Response::Keys(keys) => write_keys(out, &keys).map_err(output_failed),
            other => Err(unexpected(&other)),
        },
        KeyAction::Revoke { key } => match execute(place, false, Command::KeyRevoke { key })? {
            Response::Key(key) if args.json => write_json(out, &key).map_err(output_failed),
            Response::Key(key) => write_keys(out, &[key]).map_err(output_failed),
            other => Err(unexpected(&other)),
        },
    }
}

fn create(
    account: String,
    test: bool,
    label: String,
    json: bool,
    place: Place<'_>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let no_bits = |error| format!("cannot get random bits: {error}");
    let mode = if test { KeyMode::Test } else { KeyMode::Live };
    let key = ApiKey::generate(mode).map_err(no_bits)?;
    let id = KeyId::new(place.now, id::random_bits().map_err(no_bits)?);
    let command = Command::KeyCreate { account, id, mode, hash: key.hash(), last4: key.last4(), label };
    let info = match execute(place, false, command)? {
        Response::Key(info) => info,
        other => return Err(unexpected(&other)),
    };
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
    write_table(out, ["ID", "MODE", "ENDS IN", "CREATED", "LAST USE", "REVOKED", "LABEL"], &rows)
}

fn key_row(key: &KeyInfo) -> [String; 7] {
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
        key.label.clone(),
    ]
}
