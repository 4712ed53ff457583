//! File descriptors: every client and every upstream connection holds one.
//!
//! Container runtimes and shells often start a program with a soft limit of 1024, far below the hard one, for the sake of programs
//! that use `select`. This one does not, so the soft limit is raised to the hard one; where even that is too little for
//! `limits.max_connections`, a warning says so, at the start and not when the first client has to wait.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as it goes, and warns when it is too low for so many clients.
pub fn provide(max_connections: usize) {
    let had = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: had.maximum,
        ..had
    };
    if had.current != had.maximum
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::debug!(%error, "the limit of open files cannot be raised");
    }
    let needed = (max_connections as u64).saturating_mul(2);
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < needed
    {
        tracing::warn!(
            limit,
            needed,
            "the limit of open files is too low for limits.max_connections, each of which may need two: past it, clients wait and \
             probes fail; raise it (`ulimit -n`, LimitNOFILE=), or lower limits.max_connections"
        );
    }
}
