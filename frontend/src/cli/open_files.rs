//! The limit of open files. Each connection and each session is an open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files besides connections and sessions: the database, DNS sockets, files of the runtimes.
const OTHER_FILES: usize = 200;

/// Raises the limit. Warns if the hard limit is too low for this number of `connections`.
pub fn raise(connections: usize) {
    raise_soft();
    let wanted = (connections + OTHER_FILES) as u64;
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < wanted
    {
        tracing::warn!(
            limit,
            wanted,
            "the limit of open files is too low for all connections and sessions: raise `ulimit -n`"
        );
    }
}

/// Raises the soft limit to the hard limit: the usual soft limit of 1,024 is far below the values that the settings allow.
fn raise_soft() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this is forbidden, the limit stays unchanged, and later errors name it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
