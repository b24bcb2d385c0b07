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
    /// What is wrong, and what to do.
    pub(super) line: String,
}

impl Failure {
    /// A failure, with exit code 1.
    pub fn failed(line: impl Into<String>) -> Failure {
        Failure { code: 1, line: line.into() }
    }

    /// Wrong usage, with exit code 2.
    pub fn usage(line: impl Into<String>) -> Failure {
        Failure { code: 2, line: line.into() }
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
        Failure::failed(format!("cannot write the output: {error}"))
    }
}
