//! Which cores the run is on. With `--pin` the proxy has core 0 for itself, as a sidecar has one, and everything else (server, clients,
//! scraper) the other cores: what the one waits for is then its own doing.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::process::Program;

/// Where the proxies run, and where all else.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    pinned: bool,
}

impl Cores {
    /// The system decides.
    pub const SHARED: Self = Self { pinned: false };

    /// Moves this process off the proxy's core. To be called before it has further threads, which inherit the place.
    pub fn pinned() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(cores > 1, "--pin takes two cores: one for the proxy, one for the load");
        let moved = Command::new("taskset")
            .args(["-cp", &format!("1-{}", cores - 1), &std::process::id().to_string()])
            .stdout(Stdio::null())
            .status();
        assert!(
            moved.is_ok_and(|status| status.success()),
            "--pin takes `taskset` (of util-linux) and core 0"
        );
        Self { pinned: true }
    }

    /// How to start `program` on the proxy's core.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        if !self.pinned {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program);
        command
    }

    /// The same for the proxy under test. `taskset` becomes the program it starts, so the process is the proxy's.
    pub fn program(self, program: Program) -> Program {
        if !self.pinned {
            return program;
        }
        let path = program.path.to_str().expect("a path in UTF-8").to_owned();
        Program {
            path: "taskset".into(),
            arguments: [vec!["-c".to_owned(), "0".to_owned(), path], program.arguments].concat(),
        }
    }

    /// In words, for a table's title.
    pub const fn told(self) -> &'static str {
        if self.pinned {
            "the proxy alone on one core"
        } else {
            "cores shared with the load"
        }
    }
}
