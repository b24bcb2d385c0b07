//! `mailprobe doctor`: finds what makes checks fail or verdicts wrong, before it happens.
//!
//! [`report`] has the form of a finding: what was found, what it means for verdicts, and what to do. [`network`] asks
//! resolvers and mail servers ([`dns`] has its questions), [`machine`] looks at this machine, and [`store`] at the database. Their
//! judgements are pure functions of what was seen. No check sends mail or changes data ([`machine::sync_time`] writes a file
//! and removes it). [`examine`] runs all checks.
//! [`while_serving`] runs those that contact neither mail servers nor blocklists, and that write nothing; a server reports their
//! failures in `/readyz`, and warnings only in its log.

pub mod dns;
pub mod machine;
pub mod network;
pub mod report;
pub mod store;

use crate::config::{Config, ConfigError};
use engine::Identity;
use report::{Finding, Report, Severity};
use std::net::SocketAddr;

/// The mail servers that are asked if the operator names none.
pub const MAIL_SERVERS: [&str; 3] =
    ["gmail-smtp-in.l.google.com", "mx-eu.mail.am0.yahoodns.net", "mx01.gmx.net"];

/// The hosts and lists that are asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Names of mail servers that are known to work.
    pub mx: Vec<String>,
    /// Zones of DNS blocklists.
    pub blocklists: Vec<String>,
}

/// Runs all checks, one after another.
pub fn examine(config: Result<Config, ConfigError>, asked: &Asked) -> Report {
    let mut findings = Vec::new();
    let Some((config, identities)) = configuration(config, &mut findings) else {
        return Report::new(findings);
    };
    let resolvers = resolvers(&config, &mut findings);
    let port = config.engine.smtp_port;
    let is_named = asked.mx != MAIL_SERVERS;
    let mail_port = |hosts: &[String]| network::mail_port(&identities, hosts, is_named, port, &resolvers);
    if some_resolver_works(&findings) {
        findings.push(network::clock(&resolvers));
        findings.extend(mail_port(&asked.mx));
        findings.extend(network::names(&identities, &resolvers, config.engine.is_on_loopback()));
        findings.extend(network::blocklists(&identities, &asked.blocklists, &resolvers));
    } else {
        // The findings of the other checks would only repeat that of the resolvers.
        let numeric: Vec<String> =
            asked.mx.iter().filter(|host| network::as_address(host).is_some()).cloned().collect();
        findings.push(unresolved(numeric.is_empty()));
        if !numeric.is_empty() {
            findings.extend(mail_port(&numeric));
        }
    }
    findings.push(network::ipv6(&identities));
    findings.push(machine::driver(&config));
    findings.extend(limits(&config));
    findings.extend(machine::data_folder(&config.data));
    findings.extend(store::store(&config));
    findings.extend(machine::sync_time(&config.data));
    findings.extend(machine::certificate(&config));
    findings.extend(machine::dashboard(&config));
    findings.extend(machine::learned(&config));
    Report::new(findings)
}

/// The checks that need a resolver and are left out.
fn unresolved(with_port_25: bool) -> Finding {
    let (skipped, remedy) = if with_port_25 {
        (
            "not checked without a resolver: the clock, port 25, reverse DNS, blocklists",
            "give mailprobe a resolver that works, and run this again; to test only port 25, name the IP address of a mail server with --mx",
        )
    } else {
        (
            "not checked without a resolver: the clock, reverse DNS, blocklists",
            "give mailprobe a resolver that works, and run this again",
        )
    };
    Finding::ok("network", "", skipped).warning("further faults may be hidden", remedy)
}

/// Runs the checks for a server that is running: its resolvers, the names of its sources, the limits of the system, the
/// space of the data folder, the database of its cluster, the certificate, and the URL of the dashboard.
pub fn while_serving(config: &Config, identities: &[Identity]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let resolvers = resolvers(config, &mut findings);
    if some_resolver_works(&findings) {
        findings.extend(network::names(identities, &resolvers, config.engine.is_on_loopback()));
    }
    findings.extend(limits(config));
    findings.extend(machine::data_folder(&config.data));
    findings.extend(store::store(config));
    findings.extend(machine::certificate(config));
    findings.extend(machine::dashboard(config));
    findings
}

/// The resolvers of the configuration, or of the system; each is tried.
fn resolvers(config: &Config, findings: &mut Vec<Finding>) -> Vec<SocketAddr> {
    let resolvers = match &config.engine.resolvers {
        named if !named.is_empty() => named.clone(),
        _ => match engine::system_resolvers() {
            Ok(resolvers) => resolvers,
            Err(error) => {
                let found = Finding::ok("resolver", "", error.0);
                findings.push(found.failure("no address can be checked", "name a resolver with --resolver"));
                Vec::new()
            }
        },
    };
    findings.extend(network::resolvers(&resolvers));
    resolvers
}

fn some_resolver_works(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.check == "resolver" && finding.severity != Severity::Failure)
}

fn limits(config: &Config) -> Vec<Finding> {
    vec![machine::open_files(config), machine::locked_memory(config)]
}

/// The configuration with the sources, or `None` and a failure.
fn configuration(
    config: Result<Config, ConfigError>,
    findings: &mut Vec<Finding>,
) -> Option<(Config, Vec<Identity>)> {
    let read = config.and_then(|config| {
        config.plan_table()?;
        config.gateways()?;
        let engine = config.engine_config()?;
        let identities = engine::identities(&engine).map_err(|error| ConfigError(error.0))?;
        Ok((config, identities))
    });
    match read {
        Ok(read) => {
            findings.push(Finding::ok("configuration", "", "it can be read, with all its files"));
            Some(read)
        }
        Err(error) => {
            let found = Finding::ok("configuration", "", error.0);
            findings.push(found.failure("no command starts", "correct this setting"));
            None
        }
    }
}
