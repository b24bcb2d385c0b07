//! A scenario: read, checked and filled in.

use crate::{
    expected::{Addresses, ExpectedVerdict},
    spec::{Listen, Spec},
    world::{self, World},
};
use std::{fmt, net::SocketAddr, sync::Arc};

/// A mail internet as a file describes it, ready to be started.
#[derive(Clone)]
pub struct Scenario {
    listen: Listen,
    world: Arc<World>,
}

/// What is wrong with a scenario: the key, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Reads a scenario (TOML; docs/mailnet.md has the keys).
    ///
    /// # Errors
    /// [`ScenarioError`] when the text is no TOML, a key or value is unknown, or two of them contradict each
    /// other.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let spec: Spec = toml::from_str(text).map_err(|error| ScenarioError(error.to_string()))?;
        let listen = spec.listen.clone();
        let world = world::build(spec).map_err(ScenarioError)?;
        Ok(Scenario { listen, world: Arc::new(world) })
    }

    /// Listens for DNS elsewhere.
    #[must_use]
    pub fn with_dns(mut self, address: SocketAddr) -> Scenario {
        self.listen.dns = address;
        self
    }

    /// Listens for SMTP elsewhere.
    #[must_use]
    pub fn with_smtp_port(mut self, port: u16) -> Scenario {
        self.listen.smtp_port = port;
        self
    }

    /// Where it will listen.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// How many domains it has.
    pub fn domains(&self) -> usize {
        self.world.domains.len()
    }

    /// How many mail hosts it has, those that do not answer included.
    pub fn hosts(&self) -> usize {
        self.world.hosts.len()
    }

    /// What a strict verifier must answer about an address.
    pub fn expected(&self, address: &str) -> ExpectedVerdict {
        self.world.expected(address)
    }

    /// Whether there is a mailbox behind an address, whatever its servers say; `None` where nobody can tell, as at a
    /// domain that takes everyone.
    pub fn exists(&self, address: &str) -> Option<bool> {
        self.world.exists(address)
    }

    /// So many addresses of its domains, drawn from a seed, each with what must be answered about it.
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
