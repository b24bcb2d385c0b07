//! `mailprobe account`: accounts, their plans and their credits.

use super::credentials::{self, CredentialsAction};
use super::deletion::{self, DeletionArgs};
pub use super::place::Place;
use super::place::{all_accounts, execute_or_tell, note, output_failed, unexpected};
use super::table::{write_json, write_pairs, write_table};
use clap::{Args, Subcommand};
use lists::numbers::{counted, grouped};
use lists::shell;
use server::admin::{Command, LimitsShown, ListedAccount, Response, Shown};
use std::io::{self, Write};
use store::credits::calendar::Iso8601;
use store::rate_limit::Overrides;
use store::rate_limit::limits::{LIMIT_MAX, LIMIT_MIN};
use store::{Account, AccountId, EntryId, EntryKind, LedgerLine, SubscriptionStatus, id};
use usage::values::whole_number;

/// Manage accounts: on a running server, or in the data folder of a stopped server.
#[derive(Debug, Clone, Args)]
pub struct AccountArgs {
    #[command(subcommand)]
    action: AccountAction,
    /// Print the answer as JSON, for a script.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum AccountAction {
    /// List all accounts.
    List,
    /// Create an account.
    Create {
        /// Unique name of the account.
        name: String,
        /// Id of the account's plan.
        #[arg(long, value_name = "ID", default_value = "free")]
        plan: String,
        /// Pack credits to grant.
        #[arg(long, value_name = "N", value_parser = whole_number(1..=u64::MAX))]
        credits: Option<u64>,
        /// The address with which its user signs in to the dashboard. The command prompts for the password, or reads it from standard
        /// input.
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
    },
    #[command(flatten)]
    One(OneAccount),
    /// Print the data of an account as JSON: plan, credits, ledger, usage, keys without their secrets, lists, batches, connections and
    /// webhooks.
    Export {
        /// The account's id or name.
        account: String,
    },
    /// Delete an account: its keys, user, connections, webhooks, lists, batches and ledger. This cannot be undone.
    Delete(DeletionArgs),
    #[command(flatten)]
    Credentials(CredentialsAction),
}

/// Actions on one existing account: each is one command to the server.
#[derive(Debug, Clone, Subcommand)]
enum OneAccount {
    /// Show an account with its keys and its latest ledger entries, and check the sums of the ledger.
    Show {
        /// The account's id or name.
        account: String,
    },
    /// Move an account to another plan.
    SetPlan {
        /// The account's id or name.
        account: String,
        /// Id of the plan.
        plan: String,
    },
    /// Add pack credits, which never expire. A grant cannot be undone.
    Grant {
        /// The account's id or name.
        account: String,
        /// Number of credits.
        #[arg(value_parser = whole_number(0..=u64::MAX))]
        credits: u64,
        /// Reason, kept in the ledger.
        #[arg(long, default_value = "")]
        note: String,
        /// Repeat a failed grant that may have taken effect. Its error message gives the id. The credits are granted once.
        #[arg(long, value_name = "ID")]
        id: Option<EntryId>,
    },
    /// Set the status of an account. active and past_due: charges are possible. paused and canceled: everything that costs credits
    /// is refused with 402, and free requests still work.
    SetStatus {
        /// The account's id or name.
        account: String,
        /// Status: active, past_due, paused or canceled.
        status: SubscriptionStatus,
        /// Cancel at the end of the period and not at once. Only with the status canceled.
        #[arg(long)]
        at_period_end: bool,
    },
    /// Give an account its own limits in place of those of its plan. Other limits stay unchanged.
    SetLimits {
        /// The account's id or name.
        #[arg(value_name = "ACCOUNT")]
        name: String,
        /// First reset all limits to those of the plan.
        #[arg(long)]
        reset: bool,
        #[command(flatten)]
        set: LimitFlags,
    },
}

/// Limits per key in 60 seconds, and per account for fair use.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true, args = [
    "reset", "fast", "verify", "batch", "poll", "account", "fair_use_per_second", "fair_use_burst",
    "list", "fast_account",
])]
struct LimitFlags {
    /// Fast checks per key in 60 seconds.
    #[arg(long, value_name = "N", value_parser = limit())]
    fast: Option<u32>,
    /// Full checks per key in 60 seconds.
    #[arg(long, value_name = "N", value_parser = limit())]
    verify: Option<u32>,
    /// New batches and tests of webhooks per key in 60 seconds.
    #[arg(long, value_name = "N", value_parser = limit())]
    batch: Option<u32>,
    /// Reads and cancellations of batches, and reads of lists, per key in 60 seconds.
    #[arg(long, value_name = "N", value_parser = limit())]
    poll: Option<u32>,
    /// Requests to /v1/account except the export, and to /v1/webhooks except tests, per key in 60 seconds.
    #[arg(long, value_name = "N", value_parser = limit())]
    account: Option<u32>,
    /// Charged full checks of the account per second, after the burst.
    #[arg(long, value_name = "N", value_parser = limit())]
    fair_use_per_second: Option<u32>,
    /// Charged full checks that the account can start at the same time after a pause.
    #[arg(long, value_name = "N", value_parser = limit())]
    fair_use_burst: Option<u32>,
    /// Changes and downloads of lists, and exports of the account, per key in 60 seconds.
    #[arg(long, value_name = "N", value_parser = limit())]
    list: Option<u32>,
    /// Fast checks of all keys of the account together in 60 seconds; 10 times those of a key if it is not set.
    #[arg(long, value_name = "N", value_parser = limit())]
    fast_account: Option<u32>,
}

fn limit() -> impl Fn(&str) -> Result<u32, String> + Clone {
    whole_number(LIMIT_MIN..=LIMIT_MAX)
}

impl From<LimitFlags> for Overrides {
    fn from(set: LimitFlags) -> Overrides {
        Overrides {
            fast: set.fast,
            verify: set.verify,
            batch: set.batch,
            poll: set.poll,
            account: set.account,
            fair_use_per_second: set.fair_use_per_second,
            fair_use_burst: set.fair_use_burst,
            list: set.list,
            fast_account: set.fast_account,
        }
    }
}

impl AccountArgs {
    /// Why the command does nothing yet: it deletes an account, and nobody has confirmed that.
    pub fn unconfirmed(&self) -> Option<String> {
        match &self.action {
            AccountAction::Delete(deletion) => deletion.unconfirmed(),
            _ => None,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// One line for standard error.
pub fn run(args: AccountArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    let response = match args.action {
        AccountAction::List => Response::Accounts(all_accounts(place)?),
        AccountAction::Create { name, plan, credits, email } => {
            let id = AccountId::new(place.now, random_bits()?);
            let created = create(Command::AccountCreate { id, name, plan }, credits, email, place)?;
            let data = match place.data_is_named {
                true => format!(" --data {}", shell::path(place.data)),
                false => String::new(),
            };
            // A name may need quotes in a shell, but an id does not.
            note(&format!("to make an API key of the account, run `mailprobe key create {id}{data}`"));
            created
        }
        AccountAction::One(action) => {
            let change = Change::of(&action);
            let command = command(action, place)?;
            let grant = match &command {
                Command::AccountGrant { id, .. } => Some(*id),
                _ => None,
            };
            let response = execute_or_tell(place, false, command).map_err(|error| match grant {
                Some(id) if error.may_be_done() => {
                    format!("{error}; repeat the command with --id {id}: this grants the credits only once")
                }
                _ => error.to_string(),
            })?;
            if !args.json
                && let (Some(change), Response::Account(account)) = (change, &response)
            {
                writeln!(out, "{}\n", change.done(account)).map_err(output_failed)?;
            }
            response
        }
        AccountAction::Export { account } => {
            execute_or_tell(place, false, Command::AccountExport { account })
                .map_err(|error| error.to_string())?
        }
        AccountAction::Delete(deletion) => return deletion::run(deletion, args.json, place, out),
        AccountAction::Credentials(action) => return credentials::run(action, args.json, place, out),
    };
    let written = match response {
        Response::Account(account) if args.json => write_json(out, &account),
        Response::Account(account) => write_account(out, &account),
        Response::Accounts(accounts) if args.json => write_json(out, &accounts),
        Response::Accounts(accounts) => write_accounts(out, &accounts),
        Response::Limits(limits) if args.json => write_json(out, &limits),
        Response::Limits(limits) => write_limits(out, &limits),
        Response::Exported(exported) => write_json(out, &exported),
        Response::Shown(shown) if args.json => write_json(out, &shown),
        Response::Shown(shown) => write_shown(out, &shown),
        other => return Err(unexpected(&other)),
    };
    written.map_err(output_failed)
}

/// What a command changes of an account, for the line that says that it is done.
enum Change {
    Plan,
    Status,
    /// So many credits; with the id of an earlier grant, which may have taken effect then.
    Credits(u64, Option<EntryId>),
}

impl Change {
    fn of(action: &OneAccount) -> Option<Change> {
        match action {
            OneAccount::SetPlan { .. } => Some(Change::Plan),
            OneAccount::SetStatus { .. } => Some(Change::Status),
            OneAccount::Grant { credits, id, .. } => Some(Change::Credits(*credits, *id)),
            // Their output is what was asked for.
            OneAccount::Show { .. } | OneAccount::SetLimits { .. } => None,
        }
    }

    /// One sentence about the account after the change.
    fn done(&self, account: &Account) -> String {
        let (name, left) = (&account.name, grouped(account.balance.available()));
        match self {
            Change::Plan => format!("{name} has the plan {} now, and {left} credits.", account.plan),
            Change::Status => {
                let resume = resume_line(account).map(|line| format!(" {line}")).unwrap_or_default();
                format!("{name} is {} now.{resume}", status(account))
            }
            Change::Credits(credits, None) => {
                format!("{} added; {name} now has {left}.", counted(*credits, "credit", "credits"))
            }
            Change::Credits(credits, Some(id)) => format!(
                "{} added once, by the grant {id}; {name} now has {left}.",
                counted(*credits, "credit", "credits")
            ),
        }
    }
}

fn random_bits() -> Result<u128, String> {
    id::random_bits().map_err(|error| format!("cannot get random bits: {error}"))
}

/// Creates an account, then its user and its credits. The input is complete before anything is created.
fn create(
    create: Command,
    credits: Option<u64>,
    email: Option<String>,
    place: Place<'_>,
) -> Result<Response, String> {
    let password = email.as_deref().map(|email| credentials::new_password(Some(email))).transpose()?;
    if let Some(email) = &email
        && let Ok(Response::Shown(shown)) =
            execute_or_tell(place, true, Command::AccountShow { account: email.clone() })
    {
        return Err(format!("--email: this address is in use by the account {}", shown.account.name));
    }
    let made = execute_or_tell(place, true, create).map_err(|error| error.to_string())?;
    let Response::Account(made) = made else { return Err(unexpected(&made)) };
    let account = made.id.to_string();
    let then = |command: Command, again: String| {
        execute_or_tell(place, false, command).map_err(|error| {
            format!("the account {account} is created, but {error}; continue with `{again}`")
        })
    };
    if let Some(password) = password {
        let again = format!("mailprobe account set-password {account} --email ADDRESS");
        let account = account.clone();
        then(Command::AccountSetPassword { account, email, password }, again)?;
    }
    let Some(credits) = credits else { return Ok(Response::Account(made)) };
    let id = EntryId::new(place.now, random_bits()?);
    let again = format!("mailprobe account grant {account} {credits} --id {id}");
    then(Command::AccountGrant { account: account.clone(), id, credits, note: String::new() }, again)
}

fn command(action: OneAccount, place: Place<'_>) -> Result<Command, String> {
    Ok(match action {
        OneAccount::Show { account } => Command::AccountShow { account },
        OneAccount::SetPlan { account, plan } => Command::AccountSetPlan { account, plan },
        OneAccount::Grant { account, credits, note, id } => {
            let id = id.map_or_else(|| random_bits().map(|bits| EntryId::new(place.now, bits)), Ok)?;
            Command::AccountGrant { account, id, credits, note }
        }
        OneAccount::SetStatus { account, status, at_period_end } => {
            Command::AccountSetStatus { account, status, at_period_end }
        }
        OneAccount::SetLimits { name, reset, set } => {
            Command::AccountSetLimits { account: name, reset, set: set.into() }
        }
    })
}

fn write_accounts(out: &mut dyn Write, accounts: &[ListedAccount]) -> io::Result<()> {
    let rows: Vec<_> = accounts
        .iter()
        .map(|ListedAccount { account, user }| {
            [
                account.name.clone(),
                account.id.to_string(),
                account.plan.clone(),
                status(account),
                account.balance.available().to_string(),
                period_end(account),
                user.clone().unwrap_or_else(|| "-".into()),
            ]
        })
        .collect();
    write_table(out, ["NAME", "ID", "PLAN", "STATUS", "CREDITS", "PERIOD END", "USER"], &rows)
}

fn write_account(out: &mut dyn Write, account: &Account) -> io::Result<()> {
    let balance = &account.balance;
    let pairs = [
        ("name", account.name.clone()),
        ("id", account.id.to_string()),
        ("plan", account.plan.clone()),
        ("status", status(account)),
        ("created", Iso8601(account.created_at).to_string()),
        ("period end", period_end(account)),
        ("credits left", balance.available().to_string()),
        ("  of the plan", format!("{} of {}", balance.plan_left, balance.allowance)),
        ("  of packs", balance.pack_left.to_string()),
        ("reserved", balance.held.to_string()),
        ("total spent", balance.spent.to_string()),
        ("total expired", balance.expired.to_string()),
        ("total granted", balance.granted.to_string()),
    ];
    write_pairs(out, &pairs)
}

fn write_limits(out: &mut dyn Write, shown: &LimitsShown) -> io::Result<()> {
    let limits = shown.limits.each().into_iter().zip(shown.overrides.each());
    let rows: Vec<_> = limits
        .map(|((name, limit), (_, own))| {
            let source = if own.is_some() { "the account's own" } else { "the plan's" };
            [name.replace('_', "-"), limit.to_string(), source.to_owned()]
        })
        .collect();
    write_table(out, ["LIMIT", "NUMBER", "SOURCE"], &rows)
}

fn write_shown(out: &mut dyn Write, shown: &Shown) -> io::Result<()> {
    write_account(out, &shown.account)?;
    resume_line(&shown.account).map_or(Ok(()), |line| writeln!(out, "\n{line}"))?;
    writeln!(out, "\nLimits: per key in 60 seconds; fair use: per account")?;
    write_limits(out, &shown.limits)?;
    writeln!(out, "\nKeys")?;
    super::key::write_keys(out, &shown.keys)?;
    writeln!(
        out,
        "\nLedger, newest first; `mailprobe account export` has each entry by itself, and more of them"
    )?;
    let rows: Vec<_> = shown.entries.iter().map(ledger_row).collect();
    write_table(out, ["TIME", "KIND", "ENTRIES", "GRANTED", "SPENT", "EXPIRED", "NOTE"], &rows)?;
    let audit = &shown.audit;
    if audit.faults.is_empty() {
        let entries = counted(audit.entries, "entry", "entries");
        let holds = counted(audit.open_holds, "reservation", "reservations");
        let left_out = left_out(audit.entries, &shown.entries);
        writeln!(out, "\n{entries} and {holds} add up.{left_out}")
    } else {
        writeln!(out, "\nThe ledger does not add up:")?;
        audit.faults.iter().try_for_each(|fault| writeln!(out, "  {fault}"))
    }
}

/// How many of the entries that add up the table does not have.
fn left_out(entries: u64, lines: &[LedgerLine]) -> String {
    match entries.saturating_sub(lines.iter().map(|line| line.entries).sum()) {
        0 => String::new(),
        1 => " One of the entries is not in the table: it changed no sum, or is older.".to_owned(),
        others => {
            format!(
                " {} of the entries are not in the table: they changed no sum, or are older.",
                grouped(others)
            )
        }
    }
}

fn ledger_row(line: &LedgerLine) -> [String; 7] {
    let entry = &line.sum;
    let kind = match entry.kind {
        EntryKind::Period => "period",
        EntryKind::PlanChange => "plan change",
        EntryKind::Pack => "pack",
        EntryKind::Settled => "settled",
        EntryKind::Voided => "voided",
        EntryKind::Carried => "carried",
    };
    let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
    [
        Iso8601(entry.at).to_string(),
        kind.into(),
        number(line.entries),
        number(entry.granted),
        number(entry.spent),
        number(entry.expired),
        entry.note.clone(),
    ]
}

fn status(account: &Account) -> String {
    let ends = if account.cancel_at_period_end { ", canceled at period end" } else { "" };
    format!("{}{ends}", account.status)
}

/// How an account that cannot be charged becomes usable again.
fn resume_line(account: &Account) -> Option<String> {
    let how = || format!("`mailprobe account set-status {} active` makes it active again.", account.id);
    (!account.status.is_usable()).then(how)
}

fn period_end(account: &Account) -> String {
    account.period_end.map_or_else(|| "never".into(), |end| Iso8601(end).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Entry, ledger_lines};

    #[test]
    fn the_entries_that_the_table_leaves_out_are_counted() {
        let entry = |kind, spent| Entry {
            id: EntryId::new(0, 1),
            at: 0,
            kind,
            granted: 0,
            spent,
            expired: 0,
            note: String::new(),
        };
        let entries =
            vec![entry(EntryKind::Settled, 1), entry(EntryKind::Voided, 0), entry(EntryKind::Settled, 2)];
        let lines = ledger_lines(entries);
        assert_eq!(left_out(2, &lines), "");
        assert_eq!(
            left_out(3, &lines),
            " One of the entries is not in the table: it changed no sum, or is older."
        );
        let said = left_out(1202, &lines);
        assert_eq!(said, " 1,200 of the entries are not in the table: they changed no sum, or are older.");
    }
}
