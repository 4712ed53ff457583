//! The whole program as a process: its file, its log, its admin port.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A running program with `config.yaml` in a folder of its own; killed when dropped.
pub struct Program {
    child: Child,
    log: BufReader<ChildStdout>,
    /// Where clients connect to.
    pub listen: String,
    /// Where metrics and probes are.
    pub admin: String,
    folder: TempDir,
}

impl Program {
    /// With the `config.yaml` that is in `folder`, on ports of the kernel's choice.
    pub fn start(folder: TempDir) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_goodput-proxy"))
            .args(["run", "--log-format", "json", "--config"])
            .arg(folder.path().join("config.yaml"))
            .env_remove("RUST_LOG")
            .env("GOODPUT__LISTEN", "127.0.0.1:0")
            .env("GOODPUT__ADMIN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("goodput-proxy starts") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "it did not start");
        }
        let line: Value = serde_json::from_str(&line).unwrap();
        let address = |key: &str| line[key].as_str().unwrap().to_owned();
        Self {
            listen: address("listen"),
            admin: address("admin"),
            child,
            log,
            folder,
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its configuration file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    /// Sends SIGHUP; the log lines up to and with the first that holds one of `texts`.
    pub fn hang_up(&mut self, texts: &[&str]) -> Vec<String> {
        self.signal("-HUP");
        self.until(texts)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Puts `text` into the file and asks for a reload; the log lines up to and with the answer.
    pub fn reload(&mut self, text: &str) -> Vec<String> {
        fs::write(self.file(), text).unwrap();
        self.hang_up(&["configuration reloaded", "configuration refused"])
    }

    /// Reads the log until a line holds one of `texts`.
    pub fn until(&mut self, texts: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended: {lines:?}");
            let found = texts.iter().any(|text| line.contains(text));
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// Status and body of `GET path` on the admin port with these header lines.
    pub fn ask(&self, path: &str, headers: &str) -> (u16, String) {
        let mut asking = TcpStream::connect(&self.admin).unwrap();
        write!(asking, "GET {path} HTTP/1.0\r\n{headers}\r\n").unwrap();
        let mut reply = String::new();
        asking.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// The configuration in force.
    pub fn config(&self) -> Value {
        serde_json::from_str(&self.ask("/config", "").1).unwrap()
    }

    /// The value of the sample of `family` whose labels hold all of `labels`.
    pub fn sample(&self, family: &str, labels: &[&str]) -> Option<f64> {
        let (_, metrics) = self.ask("/metrics", "");
        let mut lines = metrics.lines().filter(|line| {
            let rest = line.strip_prefix(family);
            rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && labels.iter().all(|label| line.contains(label))
        });
        let value = lines.next()?.rsplit(' ').next()?.parse().ok();
        assert_eq!(lines.next(), None, "one sample");
        value
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
