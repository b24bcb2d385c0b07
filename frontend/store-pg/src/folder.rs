//! The data folder of a node: its identity, the keys of the cluster, and the admin socket. It has no database.
//!
//! `DIR/node` is a line with a random number of 63 bits, which the node keeps over restarts. It is written before the keys,
//! which get their name last: a folder with both is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{OpenError, StoreError, id};
use store_rules::folder::{DATABASE_FILE, FolderLock};
use thiserror::Error;
use vault::bundle::{Bundle, BundleError};
use vault::{KEY_FOLDER, Vault};

/// The name of the file with the number of the node.
pub const NODE_FILE: &str = "node";

const HAS_REDB: &str = "has a database of its own (mailprobe.redb), and the configuration names one in PostgreSQL. To move the data, \
                        use `mailprobe cluster init --from-data` with another folder as --data; to keep the data here, remove the \
                        setting store_url";
const NOT_A_NODE: &str = "is not the folder of a node; make it one with `mailprobe cluster join FILE`, or `mailprobe cluster init` for the first node";
const NO_CHAIN: &str = "has keys that are not those of a cluster; name an empty folder with --data, and use `mailprobe cluster join FILE`";
const DAMAGED: &str =
    "has a damaged file `node`; name an empty folder with --data, and use `mailprobe cluster join FILE`";

/// A locked data folder of a node.
pub struct NodeFolder {
    lock: FolderLock,
    id: i64,
    vault: Arc<Vault>,
}

impl NodeFolder {
    /// Locks the folder of a node, and opens its keys.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: it is in use, or not the folder of a node.
    pub fn open(path: &Path) -> Result<NodeFolder, OpenError> {
        let other = |why| OpenError::OtherKind { folder: path.to_owned(), why };
        if path.join(DATABASE_FILE).exists() {
            return Err(other(HAS_REDB));
        }
        // Before the lock, which would create the folder.
        if !has_identity(path) {
            return Err(other(NOT_A_NODE));
        }
        let lock = FolderLock::take(path)?;
        let unusable = |error: io::Error| OpenError::Folder(path.to_owned(), error.to_string());
        let text = fs::read_to_string(path.join(NODE_FILE)).map_err(unusable)?;
        let id = text.trim().parse().ok().filter(|id| *id > 0).ok_or_else(|| other(DAMAGED))?;
        let vault = Vault::open(path)?;
        if vault.is_new() {
            return Err(other(NOT_A_NODE));
        }
        if !vault.has_chain() {
            return Err(other(NO_CHAIN));
        }
        Ok(NodeFolder { lock, id, vault: Arc::new(vault) })
    }

    /// The number of the node.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The keys of the cluster.
    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.lock.path()
    }

    /// The folder of the keys, for messages.
    pub fn keys(&self) -> PathBuf {
        self.path().join(KEY_FOLDER)
    }

    /// Whether users other than its owner may read it.
    pub fn is_open_to_others(&self) -> bool {
        self.lock.open_to_others
    }
}

/// Whether a folder has the identity of a node.
pub fn has_identity(path: &Path) -> bool {
    path.join(NODE_FILE).exists()
}

/// A locked folder that becomes the folder of a node.
pub struct NewNode {
    lock: FolderLock,
}

/// The reason why a folder does not become that of a node.
#[derive(Debug, Error)]
pub enum NewNodeError {
    /// The folder is in use or cannot be written.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It has the data or the identity of another server.
    #[error("{0} {1}; name another folder with --data")]
    Taken(PathBuf, &'static str),
    /// The keys cannot be written.
    #[error(transparent)]
    Bundle(BundleError),
}

impl NewNode {
    /// Locks a folder without data and keys, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// [`NewNodeError`]: the folder is unchanged.
    pub fn lock(path: &Path) -> Result<NewNode, NewNodeError> {
        let lock = FolderLock::take(path)?;
        let taken = |why| NewNodeError::Taken(path.to_owned(), why);
        if path.join(DATABASE_FILE).exists() {
            return Err(taken("has a database of its own"));
        }
        if path.join(KEY_FOLDER).exists() {
            return Err(taken(if has_identity(path) { "is a node already" } else { "has keys already" }));
        }
        Ok(NewNode { lock })
    }

    /// Creates the identity, and installs the keys; returns the number of the node.
    ///
    /// # Errors
    ///
    /// [`NewNodeError`]: the folder is not that of a node.
    pub fn install(&self, bundle: &Bundle) -> Result<i64, NewNodeError> {
        let path = self.lock.path();
        let bits = id::random_bits().map_err(|error| StoreError::NotDone(error.to_string()));
        let bits = bits.map_err(OpenError::from)?;
        // 63 bits; zero is the node of rows that were restored.
        let id = i64::try_from(bits >> 65).unwrap_or(i64::MAX).max(1);
        let unusable = |error: io::Error| OpenError::Folder(path.to_owned(), error.to_string());
        write_identity(path, id).map_err(unusable)?;
        bundle.install(path).map_err(NewNodeError::Bundle)?;
        Ok(id)
    }

    /// Removes what [`NewNode::install`] has written, after a later step has failed.
    pub fn undo(&self) {
        let path = self.lock.path();
        // The caller has an error that matters more.
        let _ = fs::remove_dir_all(path.join(KEY_FOLDER));
        let _ = fs::remove_file(path.join(NODE_FILE));
    }
}

/// A file of an interrupted attempt is replaced.
fn write_identity(folder: &Path, id: i64) -> io::Result<()> {
    let path = folder.join(NODE_FILE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_node_keeps_its_number_and_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("node");
        let refusal = |path: &Path| NodeFolder::open(path).err().unwrap().to_string();
        assert!(refusal(&path).contains("mailprobe cluster join"));
        assert!(!path.exists());
        let bundle = Bundle::create(0).unwrap();
        let id = NewNode::lock(&path).unwrap().install(&bundle).unwrap();
        let folder = NodeFolder::open(&path).unwrap();
        assert_eq!((folder.id(), folder.vault().fingerprint()), (id, bundle.fingerprint()));
        assert!(id > 0);
        assert_eq!(fs::metadata(path.join(NODE_FILE)).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(NodeFolder::open(&path), Err(OpenError::Locked(_))));
        drop(folder);
        let again = NewNode::lock(&path).err().unwrap().to_string();
        assert!(again.contains("is a node already"), "{again}");
        fs::write(path.join(DATABASE_FILE), "").unwrap();
        assert!(refusal(&path).contains("cluster init --from-data"));
        fs::remove_file(path.join(DATABASE_FILE)).unwrap();
        fs::write(path.join(NODE_FILE), "x").unwrap();
        assert!(refusal(&path).contains("damaged"));
    }

    #[test]
    fn keys_without_a_chain_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        Vault::open(folder.path()).unwrap().keep().unwrap();
        write_identity(folder.path(), 5).unwrap();
        let refusal = NodeFolder::open(folder.path()).err().unwrap().to_string();
        assert!(refusal.contains("not those of a cluster"), "{refusal}");
    }

    #[test]
    fn an_interrupted_installation_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        write_identity(folder.path(), 5).unwrap();
        assert!(
            NodeFolder::open(folder.path())
                .err()
                .unwrap()
                .to_string()
                .contains("is not the folder of a node")
        );
        let bundle = Bundle::create(0).unwrap();
        let new = NewNode::lock(folder.path()).unwrap();
        new.install(&bundle).unwrap();
        new.undo();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        new.install(&bundle).unwrap();
    }
}
