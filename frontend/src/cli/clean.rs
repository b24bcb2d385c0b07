//! `mailprobe clean`: starts the engine for one list, and gives the list to the crate [`clean`].

use super::flags::{ENGINE, Flags, LEARNED, STATE};
use super::installation::{self, IfTaken, Keeper};
use super::private_hosts::PrivateHosts;
use super::program::{Failure, StartEngine, VERSION};
use super::{learned, log, open_files};
use clean::{
    Checker, CleanArgs, CleanError, Fast, Full, OnNoMailHost, OutputArgs, UNDER_WAY_MAX, WithFacts,
    WithLearned,
};
use engine::config::{EngineConfig, Pace};
use lists::shell;
use std::ffi::OsString;
use std::io::{self, Write};

/// Lower bound of the engine's queue, unless the user sets it.
const UNDER_WAY_MIN: usize = 10_000;
/// Addresses in progress per possible session, without pacing: one transaction and most of the next. With more of them an
/// address costs a fifth more, because its data has left the caches of the processor. With pacing, time matters more: if
/// more sites work in parallel, the wait for each of them costs less.
const UNDER_WAY_A_SESSION: usize = 10;

#[derive(clap::Args)]
pub(super) struct CleanCommand {
    #[command(flatten)]
    list: CleanArgs,
    #[command(flatten)]
    flags: Flags<{ ENGINE | STATE | LEARNED }>,
}

pub(super) fn run(args: CleanCommand, quiet: bool, start_engine: StartEngine) -> Result<(), Failure> {
    let config = args.flags.config()?;
    log::warnings(quiet);
    open_files::raise(config.engine.sessions);
    let (mut engine, mut keeper) = (None, None);
    let (fast, mut list) = (args.list.fast, args.list);
    list.no_progress |= quiet;
    list.writing.command = Some(command_line());
    list.writing.engine = args.flags.as_given();
    VERSION.clone_into(&mut list.writing.version);
    if !fast {
        installation::try_named(config.state.as_ref())?;
    }
    let learned = learned::table(&config)?;
    let start = |writing: &OutputArgs| {
        let (needs_facts, needs_reply) = (writing.needs_facts(), writing.needs_reply());
        let mut engine_config = config.engine_config().map_err(|error| CleanError::usage(error.0))?;
        if fast {
            // No mail server is contacted, so a missing name is no fault.
            engine_config.ehlo.get_or_insert_with(|| "[127.0.0.1]".into());
        }
        fit(&mut engine_config);
        let installation = match fast {
            true => None,
            false => {
                installation::open(config.state.as_ref(), IfTaken::Refuse).map_err(CleanError::failed)?
            }
        };
        if let Some(installation) = &installation {
            installation.give_to(&mut engine_config);
        }
        let mut private_hosts = PrivateHosts::new(&engine_config);
        let on_no_mail_host: OnNoMailHost = Box::new(move |domain| private_hosts.look_at(domain));
        let started = start_engine(engine_config).map_err(|error| CleanError::failed(error.0))?;
        if let Some(installation) = installation {
            keeper = Some(Keeper::start(installation).map_err(CleanError::failed)?);
        }
        let line = started.line(UNDER_WAY_MAX);
        engine = Some(started);
        let checker: Box<dyn Checker> = match fast {
            true => Box::new(Fast::new(line, on_no_mail_host)),
            false => Box::new(Full::new(line, needs_reply, on_no_mail_host)),
        };
        let checker: Box<dyn Checker> = match learned {
            Some(table) => Box::new(WithLearned::new(checker, table, learned::now())),
            None => checker,
        };
        let facts = engine.as_ref().filter(|_| needs_facts).map(|engine| engine.line(1));
        Ok(match facts {
            Some(line) => Box::new(WithFacts::new(checker, line, !fast)),
            None => checker,
        })
    };
    let mut errors: Box<dyn Write> = if quiet { Box::new(io::sink()) } else { Box::new(io::stderr()) };
    let stop = list.writing.stop.clone();
    if !list.join && list.writing.sample.is_none() {
        // Without it a signal ends the process as before, without a message.
        let _ = stop.watch();
    }
    let result = clean::clean(list, start, &mut errors);
    let is_stopped = result.is_err() && stop.is_wanted();
    if let (true, Err(error)) = (is_stopped, &result) {
        usage::complain("mailprobe", &error.message);
    }
    if let Some(engine) = engine {
        engine.stop();
    }
    let kept = keeper.map_or(Ok(()), Keeper::finish);
    if let (Err(_), Err(why)) = (&result, &kept) {
        tracing::warn!("{why}");
    }
    if is_stopped {
        stop.end();
    }
    result?;
    kept.map_err(|why| Failure::failed(format!("the list is done, but {why}")))
}

/// Adapts the defaults of the engine, which works on this list only. Settings of the operator stay unchanged.
fn fit(config: &mut EngineConfig) {
    if config.tickets_max == EngineConfig::default().tickets_max {
        let wanted = match config.pace {
            Pace::Lab => config.sessions.saturating_mul(UNDER_WAY_A_SESSION),
            Pace::Polite | Pace::Fast => UNDER_WAY_MAX,
        };
        config.tickets_max = wanted.clamp(UNDER_WAY_MIN, UNDER_WAY_MAX);
    }
}

/// The command line, for the report.
pub(super) fn command_line() -> String {
    let word = |word: OsString| shell::quoted(&word.to_string_lossy()).into_owned();
    std::env::args_os().map(word).collect::<Vec<_>>().join(" ")
}

impl From<CleanError> for Failure {
    fn from(error: CleanError) -> Failure {
        if error.exit == 2 { Failure::usage(error.message) } else { Failure::failed(error.message) }
    }
}
