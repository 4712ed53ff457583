//! The proxy as a process, and what the system and its metrics say about it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How to start the program.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
}

/// A running proxy; killed when dropped.
pub struct Proxy {
    child: Child,
    pub traffic: SocketAddr,
    admin: SocketAddr,
    log: Option<JoinHandle<String>>,
    _config: tempfile::TempDir,
}

/// What the process holds.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub rss_kib: u64,
    pub descriptors: usize,
    pub threads: usize,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MiB, {} descriptors, {} threads",
            self.rss_kib as f64 / 1024.0,
            self.descriptors,
            self.threads
        )
    }
}

impl Proxy {
    /// Starts it on free ports with this configuration and waits until it serves.
    pub fn start(program: &Program, yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("proxy.yaml");
        fs::write(&config, yaml).expect("a file");
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .args([
                "run",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--log-format",
                "json",
                "--config",
            ])
            .arg(&config)
            .env("RUST_LOG", "info,goodput_proxy::access=off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the proxy starts");
        let mut log = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        log.read_line(&mut line).expect("a log line");
        let first: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no address in {line:?}"));
        let address = |key: &str| {
            first[key]
                .as_str()
                .and_then(|a| a.parse().ok())
                .expect("an address in the first log line")
        };
        let (traffic, admin): (SocketAddr, SocketAddr) = (address("listen"), address("admin"));
        // Once the admin side answers, every thread that stays is there.
        let mut asking = std::net::TcpStream::connect(admin).expect("a bound port");
        asking.write_all(b"GET /livez HTTP/1.0\r\n\r\n").expect("a request");
        asking.read_to_end(&mut Vec::new()).expect("a reply");
        let log = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = log.read_to_string(&mut rest);
            rest
        });
        Self {
            child,
            traffic,
            admin,
            log: Some(log),
            _config: folder,
        }
    }

    /// What it holds now.
    pub fn usage(&self) -> Usage {
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(proc.join("status")).expect("the proxy lives");
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        Usage {
            rss_kib: number("VmRSS:"),
            descriptors: fs::read_dir(proc.join("fd")).expect("the proxy lives").count(),
            threads: usize::try_from(number("Threads:")).unwrap_or(0),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it holds once it has no more than `descriptors`, or after a while.
    pub async fn settled(&self, descriptors: usize) -> Usage {
        for _ in 0..150 {
            sleep(Duration::from_millis(100)).await;
            if self.usage().descriptors <= descriptors {
                break;
            }
        }
        self.usage()
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// What `/livez` says.
    pub async fn is_live(&self) -> bool {
        self.ask("/livez").await.starts_with("HTTP/1.1 200 ")
    }

    /// A scrape.
    pub async fn metrics(&self) -> Metrics {
        Metrics(self.ask("/metrics").await)
    }

    async fn ask(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).await.expect("the admin port answers");
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the admin port reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("the admin port answers");
        text
    }

    /// Stops it as an orchestrator would; its exit status and its log.
    pub async fn stop(&mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        for _ in 0..200 {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = self.log.take().and_then(|log| log.join().ok()).unwrap_or_default();
                return (status.code(), log);
            }
            sleep(Duration::from_millis(50)).await;
        }
        (None, "it did not stop within 10 s".to_owned())
    }
}

/// The CPU time of a process from a moment on: nanoseconds on a core, by the scheduler's own account of each thread. A thread that
/// ends takes its account with it, so each is held against itself: what one that has ended did since the moment is missing.
pub struct CpuTime {
    pid: u32,
    threads: HashMap<OsString, u64>,
}

impl CpuTime {
    /// From now on.
    pub fn of(pid: u32) -> Self {
        Self {
            pid,
            threads: threads(pid),
        }
    }

    /// Nanoseconds since.
    pub fn ns(&self) -> u64 {
        let before = |thread| self.threads.get(thread).copied().unwrap_or(0);
        threads(self.pid).iter().map(|(thread, ns)| ns - before(thread)).sum()
    }
}

fn threads(pid: u32) -> HashMap<OsString, u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let account = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((thread.file_name(), stat.split(' ').next()?.parse().ok()?))
    };
    threads.flatten().filter_map(account).collect()
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A scrape's text.
#[derive(Debug)]
pub struct Metrics(String);

impl Metrics {
    /// How many samples it holds.
    pub fn lines(&self) -> usize {
        self.0
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .count()
    }

    /// Every sample of these families.
    pub fn of(&self, names: &[&str]) -> Vec<(String, f64)> {
        let samples = self.0.lines().filter_map(|line| line.rsplit_once(' '));
        samples
            .filter(|(name, _)| names.contains(&name.split('{').next().unwrap_or_default()))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    }

    /// The sum of a family's samples whose labels hold `label`.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        self.of(&[name])
            .iter()
            .filter(|(labels, _)| labels.contains(label))
            .map(|(_, value)| value)
            .sum()
    }

    /// A family's sums by one label, without the zeros.
    pub fn by(&self, name: &str, label: &str) -> Vec<(String, f64)> {
        let mut sums = std::collections::BTreeMap::<String, f64>::new();
        for (labels, value) in self.of(&[name]) {
            let named = labels
                .split(&format!("{label}=\""))
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            *sums.entry(named.unwrap_or_default().to_owned()).or_default() += value;
        }
        sums.into_iter().filter(|(_, value)| *value > 0.0).collect()
    }
}
