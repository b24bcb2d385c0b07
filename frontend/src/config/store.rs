//! The settings of the store: where PostgreSQL is, for a node of a cluster. Without a URL the store is in the data folder.
//!
//! The URL may contain a password, so no output contains it. It can be in a file of its own.

use super::{Config, ConfigError, read_file};
use std::fmt;
use std::path::PathBuf;
use store_pg::{ClusterPlace, SCHEMA, Target, is_schema_name};

/// The longest URL: 16 hosts, a password and a path.
const URL_BYTES_MAX: u64 = 16 << 10;
/// The longest name of an egress.
const EGRESS_CHARS_MAX: usize = 64;

/// The settings of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The URL of PostgreSQL; `None`: the store is in the data folder.
    pub url: Option<StoreUrl>,
    /// The schema of the tables.
    pub schema: String,
    /// Whether a server without a synchronous standby is refused.
    pub require_sync: bool,
    /// The name of the address that the node's checks come from; `None`: the number of the node.
    pub egress: Option<String>,
}

/// Where the URL comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// The URL itself, which may contain a password.
    Given(String),
    /// A file with the URL.
    File(PathBuf),
}

/// Shows no URL.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Given(_) => f.write_str("Given(...)"),
            StoreUrl::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings { url: None, schema: SCHEMA.into(), require_sync: true, egress: None }
    }
}

impl Config {
    /// The place of the cluster's database; `None`: the store is in the data folder.
    ///
    /// # Errors
    /// The file of the URL cannot be read, or the URL is wrong. No message repeats the URL.
    pub fn cluster_place(&self) -> Result<Option<ClusterPlace>, ConfigError> {
        let StoreSettings { url, schema, require_sync, .. } = &self.store;
        let target = match url {
            None => return Ok(None),
            Some(StoreUrl::Given(url)) => {
                Target::parse(url).map_err(|why| ConfigError(format!("store_url: {why}")))?
            }
            Some(StoreUrl::File(path)) => {
                let text = read_file(path, URL_BYTES_MAX, "the URL of the store in")?;
                let wrong = |why| ConfigError(format!("store_url_file: {}: {why}", path.display()));
                Target::parse(text.trim()).map_err(wrong)?
            }
        };
        Ok(Some(ClusterPlace { target, schema: schema.clone(), requires_sync: *require_sync }))
    }
}

/// Checks the URL.
pub(super) fn url(text: &str) -> Result<StoreUrl, String> {
    Target::parse(text).map_err(|why| why.to_string())?;
    Ok(StoreUrl::Given(text.to_owned()))
}

/// Parses the name of a schema.
pub(super) fn schema(text: &str) -> Result<String, String> {
    match is_schema_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is not a name of up to 24 characters of a-z, 0-9 and _ that begins with a letter"
        )),
    }
}

/// Parses the name of an egress.
pub(super) fn egress(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_');
    match (1..=EGRESS_CHARS_MAX).contains(&text.len()) && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is not a name of up to {EGRESS_CHARS_MAX} characters of a-z, A-Z, 0-9, `.`, `:`, `-` and `_`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::apply;
    use std::path::Path;

    const URL: &str = "postgres://mailprobe:swordfish@a,b:6432/mailprobe?sslmode=disable";

    fn read(text: &str, folder: &Path) -> Result<Config, String> {
        let mut config = Config::default();
        apply(text, folder, &mut config).map(|()| config).map_err(|fault| fault.why)
    }

    #[test]
    fn no_output_has_the_password() {
        let text =
            format!("[store]\nurl = \"{URL}\"\nschema = \"two\"\nrequire_sync = false\negress = \"nat-1\"\n");
        let config = read(&text, Path::new("/")).unwrap();
        let place = config.cluster_place().unwrap().unwrap();
        assert_eq!((place.target.hosts.len(), place.schema.as_str(), place.requires_sync), (2, "two", false));
        assert_eq!(config.store.egress.as_deref(), Some("nat-1"));
        for shown in [format!("{config:?}"), format!("{place:?}"), config.to_toml()] {
            assert!(!shown.contains("swordfish"), "{shown}");
        }
        for wrong in ["postgres://u:swordfish@h@i/d", "swordfish", "postgres://u:swordfish@h/d?x=1"] {
            let why = read(&format!("store_url = \"{wrong}\""), Path::new("/")).unwrap_err();
            assert!(why.starts_with("store_url: ") && !why.contains("swordfish"), "{why}");
        }
    }

    #[test]
    fn the_url_can_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("url"), format!("{URL}\n")).unwrap();
        let config = read("[store]\nurl_file = \"url\"", folder.path()).unwrap();
        assert_eq!(config.cluster_place().unwrap().unwrap().target.user, "mailprobe");
        assert!(config.to_toml().contains("store_url_file = "));
        std::fs::write(folder.path().join("url"), "swordfish").unwrap();
        let why = config.cluster_place().unwrap_err().0;
        assert!(why.contains("/url: ") && !why.contains("swordfish"), "{why}");
        assert_eq!(Config::default().cluster_place(), Ok(None));
    }
}
