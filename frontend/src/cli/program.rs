//! What all commands share: the version, the start of an engine, and the reason of a failure.

use crate::config::ConfigError;
use checks::engine_client::Backend;
use engine::StartError;
use engine::config::EngineConfig;
use std::io;

/// Starts an engine. Tests run the whole command line with an engine that contacts no server.
pub type StartEngine = fn(EngineConfig) -> Result<Box<dyn Backend>, StartError>;

/// Starts the engine that contacts DNS and mail servers.
///
/// # Errors
/// As [`engine::Engine::start`].
pub fn start_engine(config: EngineConfig) -> Result<Box<dyn Backend>, StartError> {
    engine::Engine::start(config).map(|engine| Box::new(engine) as Box<dyn Backend>)
}

/// The version, and the commit if the build knows it.
pub(crate) const VERSION: &str = env!("MAILPROBE_VERSION");

/// The reason why a command failed.
pub struct Failure {
    /// The exit code.
    pub(super) code: u8,
    /// What is wrong, and what to do. `None` if the reader of standard output closed it before the end, as `head` does: that is no
    /// fault, so nothing is printed.
    pub(super) line: Option<String>,
}

impl Failure {
    /// A failure, with exit code 1.
    pub fn failed(line: impl Into<String>) -> Failure {
        Failure { code: 1, line: Some(line.into()) }
    }

    /// The reader of standard output closed it. The exit code is what a shell reports of a program that SIGPIPE ended: a script can
    /// tell that the output is not whole.
    pub(super) fn output_closed() -> Failure {
        Failure { code: 128 + 13, line: None }
    }

    /// Wrong usage, with exit code 2.
    pub fn usage(line: impl Into<String>) -> Failure {
        Failure { code: 2, line: Some(line.into()) }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        Failure::failed(error.0)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::usage(error.0)
    }
}

/// A write to standard output failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::output_closed(),
            _ => Failure::failed(format!("cannot write the output: {error}")),
        }
    }
}

/// Standard output, which knows whether its reader has closed it.
pub(super) struct Output {
    stdout: io::StdoutLock<'static>,
    pub(super) is_closed: bool,
}

impl Output {
    pub(super) fn lock() -> Output {
        Output { stdout: io::stdout().lock(), is_closed: false }
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_closed |= result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.note(flushed)
    }
}
