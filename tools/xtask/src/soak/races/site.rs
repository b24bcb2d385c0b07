//! The servers of the races: one on redb, or two nodes on one PostgreSQL, and the commands of their operator.

use crate::failure::Failure;
use crate::interop::process::{self, ServerProcess};
use crate::soak::transport::ServerEndpoint;
use crate::soak::world::{CampaignFolder, engine_flags, listening};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(90);
/// Nothing listens there: no race needs a verdict.
const NOWHERE: (&str, &str) = ("127.0.0.1:1", "1");

/// All servers of a part of the campaign, on one store.
pub struct RaceSite {
    // Dropped first: the folder has their data.
    nodes: Vec<RaceNode>,
    folder: CampaignFolder,
    /// The variables of each command that name the database.
    store: Vec<(&'static str, String)>,
}

struct RaceNode {
    data: PathBuf,
    process: ServerProcess,
    address: SocketAddr,
}

impl RaceSite {
    /// One server with a database file.
    pub fn single(folder: CampaignFolder) -> Result<RaceSite, Failure> {
        let mut site = RaceSite { nodes: Vec::new(), folder, store: Vec::new() };
        site.start("data")?;
        Ok(site)
    }

    /// Two nodes on the PostgreSQL at this URL.
    pub fn two(folder: CampaignFolder, url: &str) -> Result<RaceSite, Failure> {
        let url = format!("{}?sslmode=disable", url.split('?').next().unwrap_or_default());
        let store = vec![
            ("MAILPROBE_STORE_URL", url),
            ("MAILPROBE_STORE_SCHEMA", format!("races_{}", std::process::id())),
            ("MAILPROBE_STORE_REQUIRE_SYNC", "false".to_owned()),
        ];
        let mut site = RaceSite { nodes: Vec::new(), folder, store };
        let bundle = site.folder.path("bundle").display().to_string();
        site.run_at("node-1", &["cluster", "init", "--bundle", &bundle], "")?;
        site.run_at("node-2", &["cluster", "join", &bundle], "")?;
        site.start("node-1")?;
        site.start("node-2")?;
        Ok(site)
    }

    fn start(&mut self, name: &str) -> Result<(), Failure> {
        // All clients have one address, so the limits of networks do not apply.
        let flags = ["--pace", "lab", "--connections-per-peer", "0", "--self-checks", "false"];
        let mut command = self.command(name, &[&["serve", "--listen", "127.0.0.1:0"][..], &flags].concat());
        engine_flags(&mut command, NOWHERE, true);
        let log = self.folder.path(&format!("{name}.log"));
        let mut process = ServerProcess::start("mailprobe serve", command, &log)?;
        let address = listening(&mut process)?.ok_or_else(|| process.complain("ended"))?;
        self.nodes.push(RaceNode { data: self.folder.path(name), process, address });
        Ok(())
    }

    fn command(&self, data: &str, arguments: &[&str]) -> Command {
        let mut command = self.folder.mailprobe_on(&self.folder.path(data), arguments);
        command.envs(self.store.iter().map(|(name, value)| (name, value)));
        command
    }

    fn run_at(&self, data: &str, arguments: &[&str], input: &str) -> Result<String, Failure> {
        let name = format!("mailprobe {}", arguments.join(" "));
        let command = self.command(data, arguments);
        process::run(command, input, self.folder.folder(), COMMAND_LIMIT)?.success(&name)
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The address of a server.
    pub fn endpoint(&self, node: usize) -> ServerEndpoint {
        self.nodes[node].address.into()
    }

    /// Runs a command of the operator at a node, with this standard input.
    pub fn operate(&self, node: usize, arguments: &[&str], input: &str) -> Result<String, Failure> {
        let data = self.nodes[node].data.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.run_at(data, arguments, input)
    }

    /// As [`RaceSite::operate`], with the answer as JSON.
    pub fn ask(&self, node: usize, arguments: &[&str], input: &str) -> Result<Value, Failure> {
        let text = self.operate(node, &[arguments, &["--json"]].concat(), input)?;
        serde_json::from_str(&text).map_err(|error| Failure(format!("{}: {error}", arguments.join(" "))))
    }

    /// Ends all servers in order.
    pub fn stop(self) -> Result<String, String> {
        for node in self.nodes {
            let log = node.process.log().map_err(|failure| failure.0)?;
            let status = node.process.terminate(END_LIMIT).map_err(|failure| failure.0)?;
            if !status.success() || log.contains("panicked") {
                return Err(format!("{status}: {log}"));
            }
        }
        Ok("status 0, and no panic".to_owned())
    }
}
