//! The limit of open files, which counts connections and sessions.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files beside connections and sessions: the database, sockets of DNS, what the runtimes need.
const OTHER_FILES: usize = 200;

/// Raises the soft limit to the hard one: the usual soft one of 1,024 is far below what the settings allow. Warns
/// where the hard one is too low for so many `connections`.
pub fn raise(connections: usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where that is forbidden the limit stays as it was, and is looked at all the same.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let wanted = (connections + OTHER_FILES) as u64;
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < wanted
    {
        tracing::warn!(
            limit,
            wanted,
            "too few open files for all connections and sessions: raise `ulimit -n`"
        );
    }
}
