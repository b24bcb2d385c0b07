//! `mailprobe account set-password` and `sign-in-link`: give an account's user access to the dashboard.
//!
//! This process hashes the password and creates the token of the link: the server and the store receive only hashes. A
//! password is never an argument, because other users of the machine and the shell history could read it.

use super::place::{Place, execute, output_failed, unexpected};
use super::table::write_json;
use clap::Subcommand;
use dashboard::password;
use dashboard::session::token_hash;
use dashboard::signin::EMAIL_BYTES_MAX;
use data_encoding::HEXLOWER;
use engine::proto::address::Address;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde::Serialize;
use server::admin::{Command, Response};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use store::{PasswordHash, SIGN_IN_LINK_MS};

#[derive(Debug, Clone, Subcommand)]
pub(super) enum CredentialsAction {
    /// Set the dashboard password of an account's user. The command prompts for it, or reads it from standard input.
    /// All sessions of the account end.
    SetPassword {
        /// The account's id or name, or its user's address.
        account: String,
        /// The user's address, for signing in. Required the first time.
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
    },
    /// Create a link that signs in to the dashboard. It works once, within 15 minutes.
    SignInLink {
        /// The account's id or name, or its user's address.
        account: String,
    },
}

/// A link with its validity in seconds.
#[derive(Serialize)]
struct Link {
    url: String,
    seconds: u64,
}

/// Runs the command.
///
/// # Errors
/// One line for standard error.
pub(super) fn run(
    action: CredentialsAction,
    json: bool,
    place: Place<'_>,
    out: &mut dyn Write,
) -> Result<(), String> {
    match action {
        CredentialsAction::SetPassword { account, email } => set_password(account, email, json, place, out),
        CredentialsAction::SignInLink { account } => sign_in_link(account, json, place, out),
    }
}

fn set_password(
    account: String,
    email: Option<String>,
    json: bool,
    place: Place<'_>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let password = new_password(email.as_deref())?;
    match execute(place, false, Command::AccountSetPassword { account, email, password })? {
        Response::Done if json => Ok(()),
        Response::Done => {
            let signin = format!("{}/signin", place.base_url());
            writeln!(out, "the password is set; sign in at {signin}").map_err(output_failed)
        }
        other => Err(unexpected(&other)),
    }
}

/// Asks for a password, and returns its hash.
///
/// # Errors
/// One line: the address or the password is not acceptable, or nothing was entered.
pub(super) fn new_password(email: Option<&str>) -> Result<PasswordHash, String> {
    let unfit = |email: &str| email.len() > EMAIL_BYTES_MAX || Address::parse(email).is_err();
    if email.is_some_and(unfit) {
        return Err("--email: this is not an address".into());
    }
    let given = read_password().map_err(|error| format!("cannot read the password: {error}"))?;
    if given.is_empty() {
        return Err("no password was entered: type it, or give it as a line on standard input".into());
    }
    password::check(&given, email.unwrap_or_default())?;
    password::hash(&given).map_err(|error| error.to_string())
}

fn sign_in_link(account: String, json: bool, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| format!("cannot get random bits: {error}"))?;
    let token = HEXLOWER.encode(&bits);
    match execute(place, false, Command::AccountSignInLink { account, hash: token_hash(&token) })? {
        Response::Account(_) => {}
        other => return Err(unexpected(&other)),
    }
    let link = Link {
        url: format!("{}/signin/link?token={token}", place.base_url()),
        seconds: SIGN_IN_LINK_MS / 1000,
    };
    // The line contains only the link, so that a script needs no parser.
    let written = if json { write_json(out, &link) } else { writeln!(out, "{}", link.url) };
    written.and_then(|()| out.flush()).map_err(output_failed)
}

/// Reads one line; on a terminal without echo.
fn read_password() -> io::Result<String> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line(&mut stdin.lock());
    }
    let mut prompt = io::stderr();
    write!(prompt, "Password: ")?;
    prompt.flush()?;
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes -= LocalModes::ECHO;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let read = read_line(&mut stdin.lock());
    tcsetattr(&stdin, OptionalActions::Now, &shown)?;
    writeln!(prompt)?;
    read
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    // More than the longest password, so that a longer one is refused and not truncated.
    input.take(password::PASSWORD_BYTES_MAX as u64 + 2).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_a_line_with_its_spaces() {
        let read = |text: &str| read_line(&mut text.as_bytes()).unwrap();
        assert_eq!(read(" correct horse \r\nmore"), " correct horse ");
        assert_eq!(read("no end"), "no end");
        assert!(password::check(&read(&"ab".repeat(1000)), "").is_err());
    }
}
