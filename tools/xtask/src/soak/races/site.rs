//! The servers of the races: one on redb, or two nodes on one PostgreSQL, and the commands of their operator.

use crate::failure::Failure;
use crate::soak::transport::ServerEndpoint;
use crate::soak::world::{CampaignFolder, Serve};
use serde_json::Value;
use std::path::PathBuf;

/// Nothing listens there: no race needs a verdict.
const NOWHERE: (&str, &str) = ("127.0.0.1:1", "1");

/// All servers of a part of the campaign, on one store.
pub struct RaceSite {
    // Dropped first: the folder has their data.
    nodes: Vec<RaceNode>,
    folder: CampaignFolder,
}

struct RaceNode {
    data: PathBuf,
    serve: Serve,
}

impl RaceSite {
    /// One server with a database file.
    pub fn single(folder: CampaignFolder) -> Result<RaceSite, Failure> {
        let mut site = RaceSite { nodes: Vec::new(), folder };
        site.start("data")?;
        Ok(site)
    }

    /// Two nodes on the PostgreSQL at this URL.
    pub fn two(mut folder: CampaignFolder, url: &str) -> Result<RaceSite, Failure> {
        let url = format!("{}?sslmode=disable", url.split('?').next().unwrap_or_default());
        folder.use_store(vec![
            ("MAILPROBE_STORE_URL", url),
            ("MAILPROBE_STORE_SCHEMA", format!("races_{}", std::process::id())),
            ("MAILPROBE_STORE_REQUIRE_SYNC", "false".to_owned()),
        ]);
        let bundle = folder.path("bundle").display().to_string();
        folder.text_on(&folder.path("node-1"), &["cluster", "init", "--bundle", &bundle], "")?;
        folder.text_on(&folder.path("node-2"), &["cluster", "join", &bundle], "")?;
        let mut site = RaceSite { nodes: Vec::new(), folder };
        site.start("node-1")?;
        site.start("node-2")?;
        Ok(site)
    }

    fn start(&mut self, name: &str) -> Result<(), Failure> {
        // All clients have one address, so the limits of networks do not apply.
        let flags = ["--connections-per-peer", "0", "--self-checks", "false"];
        let (data, serve) = (self.folder.path(name), self.folder.serve_named(name, NOWHERE, &flags)?);
        self.nodes.push(RaceNode { data, serve });
        Ok(())
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The address of a server.
    pub fn endpoint(&self, node: usize) -> ServerEndpoint {
        self.nodes[node].serve.address.into()
    }

    /// Runs a command of the operator at a node, with this standard input.
    pub fn operate(&self, node: usize, arguments: &[&str], input: &str) -> Result<String, Failure> {
        self.folder.text_on(&self.nodes[node].data, arguments, input)
    }

    /// As [`RaceSite::operate`], with the answer as JSON.
    pub fn ask(&self, node: usize, arguments: &[&str], input: &str) -> Result<Value, Failure> {
        self.folder.json_on(&self.nodes[node].data, arguments, input)
    }

    /// Ends all servers in order.
    pub fn stop(self) -> Result<String, String> {
        self.nodes.into_iter().try_for_each(|node| node.serve.end().map(drop))?;
        Ok("status 0, and no panic".to_owned())
    }
}
