//! `mailprobe clean`, with the engine that it drives. What it does with a list stands in [`super::clean`].

use super::clean::{Answered, Checker, CleanArgs, CleanError, Verdict, clean};
use super::flags::{ENGINE, Flags};
use super::{Failure, StartEngine, log};
use crate::engine_client::{Backend, Line};
use engine::proto::address::Address;
use engine::{Answer, Finding, Priority, Refusal, Request};
use std::io;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    list: CleanArgs,
    #[command(flatten)]
    flags: Flags<ENGINE>,
}

pub fn run(args: Args, start_engine: StartEngine) -> Result<(), Failure> {
    if args.list.fast {
        return Err(Failure::usage("--fast is not available yet; leave it out for a full check"));
    }
    let config = args.flags.config()?;
    let capacity = config.engine.tickets_max;
    let engine_config = config.engine_config()?;
    log::warnings();
    let start = || {
        let engine = start_engine(engine_config).map_err(|error| CleanError { exit: 1, message: error.0 })?;
        Ok(Asking { line: engine.line(capacity), engine: Some(engine) })
    };
    clean(args.list, start, &mut io::stderr())
        .map_err(|error| Failure { code: error.exit, line: error.message })
}

/// A line to an engine that runs as long as this lives.
struct Asking {
    line: Box<dyn Line + Send>,
    engine: Option<Box<dyn Backend>>,
}

impl Checker for Asking {
    fn submit(&mut self, ticket: u64, address: &Address) -> Result<(), Refusal> {
        let address = address.clone();
        self.line.submit(Request { ticket, address, priority: Priority::List, trace: false })
    }

    fn answer(&mut self, patience: Duration) -> Option<Answered> {
        let Answer { ticket, result, .. } = self.line.answer_blocking(patience)?;
        let retry_after = result.as_ref().ok().and_then(|finding| finding.retry_after);
        let result = result.map(|Finding { reason, .. }| Verdict::from(reason));
        Some(Answered { ticket, result, retry_after })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop();
        }
    }
}
