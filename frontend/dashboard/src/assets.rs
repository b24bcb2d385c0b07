//! The style and the script, embedded in the binary. Their names contain a hash of their content, so browsers can keep them
//! forever and load new files after an upgrade.

use crate::problem::Problem;
use crate::visit::Visit;
use data_encoding::HEXLOWER;
use http_core::Reply;
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

/// One embedded file with its name and type.
pub struct Asset {
    stem: &'static str,
    extension: &'static str,
    kind: &'static str,
    text: &'static str,
    name: LazyLock<String>,
}

/// The style of all pages.
pub static STYLE: Asset = Asset {
    stem: "style",
    extension: "css",
    kind: "text/css; charset=utf-8",
    text: include_str!("assets/style.css"),
    name: LazyLock::new(|| STYLE.hashed_name()),
};

/// The script of all pages.
pub static SCRIPT: Asset = Asset {
    stem: "script",
    extension: "js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("assets/script.js"),
    name: LazyLock::new(|| SCRIPT.hashed_name()),
};

const KEPT: &str = "public, max-age=31536000, immutable";

impl Asset {
    /// The path of the file on this server.
    pub fn path(&self) -> String {
        format!("/assets/{}", *self.name)
    }

    fn hashed_name(&self) -> String {
        let hash = digest(&SHA256, self.text.as_bytes());
        format!("{}-{}.{}", self.stem, HEXLOWER.encode(&hash.as_ref()[..8]), self.extension)
    }
}

/// `GET /assets/{name}`: an embedded file, which browsers may cache for a year.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    find(&visit.parameter).ok_or_else(Problem::not_found)
}

/// The answer with the file of this name.
pub fn find(name: &str) -> Option<Reply> {
    let asset = [&STYLE, &SCRIPT].into_iter().find(|asset| *asset.name == name)?;
    let reply = Reply { status: 200, headers: Vec::new(), body: asset.text.as_bytes().to_vec() };
    Some(reply.header("content-type", asset.kind).header("cache-control", KEPT))
}
