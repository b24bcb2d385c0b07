//! A scenario: parsed, checked and filled in with defaults.

use crate::{
    expected::{Addresses, ExpectedVerdict},
    spec::{Listen, Spec},
    world::{self, World},
};
use std::{fmt, net::SocketAddr, sync::Arc};

/// A mail internet as a file describes it, before its start.
#[derive(Clone)]
pub struct Scenario {
    listen: Listen,
    world: Arc<World>,
}

/// An error in a scenario: the key, and the allowed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Parses a scenario (TOML; docs/mailnet.md describes the keys).
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]: the text is not TOML, a key or value is unknown, or two values contradict each other.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let spec: Spec = toml::from_str(text).map_err(|error| ScenarioError(error.to_string()))?;
        let listen = spec.listen.clone();
        let world = world::build(spec).map_err(ScenarioError)?;
        Ok(Scenario { listen, world: Arc::new(world) })
    }

    /// Uses another address for DNS.
    #[must_use]
    pub fn with_dns(mut self, address: SocketAddr) -> Scenario {
        self.listen.dns = address;
        self
    }

    /// Uses another port for SMTP.
    #[must_use]
    pub fn with_smtp_port(mut self, port: u16) -> Scenario {
        self.listen.smtp_port = port;
        self
    }

    /// The addresses at which it will listen.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// The number of its domains.
    pub fn domains(&self) -> usize {
        self.world.domains.len()
    }

    /// The number of its mail hosts, including those that do not answer.
    pub fn hosts(&self) -> usize {
        self.world.hosts.len()
    }

    /// The expected verdicts about an address.
    pub fn expected(&self, address: &str) -> ExpectedVerdict {
        self.world.expected(address)
    }

    /// Whether the mailbox of an address exists, whatever its servers reply; `None` if that is undecidable, as at a
    /// domain that accepts everyone.
    pub fn exists(&self, address: &str) -> Option<bool> {
        self.world.exists(address)
    }

    /// Random addresses of its domains from a seed, each with its expected verdicts.
    pub fn addresses(&self, count: usize, seed: u64) -> Addresses<'_> {
        self.world.addresses(count, seed)
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scenario({} domains, {} hosts)", self.domains(), self.hosts())
    }
}
