//! The proxy beside nginx and HAProxy, in turn, over the same streams and calls: what each spends.
//!
//! Each runs on one worker, alone, and set up as one would before a model server: nothing held back, connections kept. One that is
//! not installed is left out, loudly.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::sleep;

use super::cores::Cores;
use super::figures::{Rounds, quantile_us};
use super::peers::{self, Epoch, Pace, Seen};
use super::process::{CpuTime, Proxy};
use super::{Load, Plan, Readers, open, window};

/// Short calls of one round, one after another.
const CALLS: usize = 3000;

const PACED: Load = Load {
    streams: 256,
    pace: Pace {
        interval: Duration::from_millis(20),
        bytes: 200,
        dense: false,
    },
    routes: 1,
    models: 1,
    readers: Readers::AllAtOnce,
};

/// Another proxy: its program, its words before the name of its configuration, and that.
struct Other {
    program: &'static str,
    words: &'static [&'static str],
    config: &'static str,
}

const OTHERS: [Other; 2] = [
    Other {
        program: "nginx",
        words: &["-c"],
        config: "daemon off; master_process off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log error;
events { worker_connections 4096; multi_accept on; }
http {
  access_log off; tcp_nodelay on; keepalive_requests 1000000000;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  upstream server { server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:{listen};
    location / {
      proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection '';
      proxy_buffering off; proxy_request_buffering off;
    }
  }
}
",
    },
    Other {
        program: "haproxy",
        words: &["-db", "-f"],
        config: "global
  maxconn 4096
  nbthread 1
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend clients
  bind 127.0.0.1:{listen}
  default_backend servers
backend servers
  server one 127.0.0.1:{upstream} pool-max-conn -1
",
    },
];

/// A proxy under way; stopped when dropped.
enum Runner {
    Ours(Box<Proxy>),
    /// With the folder of its files.
    Other(Child, SocketAddr, tempfile::TempDir),
}

impl Runner {
    fn traffic(&self) -> SocketAddr {
        match self {
            Self::Ours(proxy) => proxy.traffic,
            Self::Other(_, listen, _) => *listen,
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Ours(proxy) => proxy.pid(),
            Self::Other(child, ..) => child.id(),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Self::Other(child, ..) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Other {
    /// Starts it before `upstream`; none when it is not installed.
    async fn start(&self, cores: Cores, upstream: SocketAddr) -> Option<Runner> {
        let quiet = |command: &mut Command| {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
        };
        quiet(Command::new(self.program).arg("-v")).ok()?;
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let listen = free.local_addr().expect("an address");
        drop(free);
        let folder = tempfile::tempdir().expect("a folder");
        let config = self
            .config
            .replace("{dir}", folder.path().to_str().expect("a plain path"))
            .replace("{listen}", &listen.port().to_string())
            .replace("{upstream}", &upstream.port().to_string());
        let file = folder.path().join("config");
        fs::write(&file, config).expect("a file");
        let mut command = cores.command(self.program);
        command.args(self.words).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().expect("what answers to -v starts");
        let runner = Runner::Other(child, listen, folder);
        for _ in 0..100 {
            if TcpStream::connect(listen).is_ok() {
                return Some(runner);
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("{} does not listen", self.program);
    }
}

fn ours(plan: &Plan, upstream: SocketAddr) -> Runner {
    let config = format!(
        "upstream: {{ url: 'http://{upstream}' }}\nworkers: 1\nslo: ttft=500ms,tpot=15ms\ndrain: {{ delay: off, timeout: 1s }}\n"
    );
    Runner::Ours(Box::new(Proxy::start(&plan.program, &config)))
}

/// CPU a chunk and a call, delay at the median and at p99: all in microseconds.
async fn round(runner: &Runner, plan: &Plan, epoch: Epoch) -> [f64; 4] {
    let (to, pid) = (runner.traffic(), runner.pid());
    let (streams, seen) = open(to, PACED, epoch).await;
    sleep(Duration::from_millis(500)).await;
    let (delays, events, cpu) = window(pid, &seen, plan.window).await;
    drop(streams);
    sleep(Duration::from_millis(500)).await;
    let calls = CpuTime::of(pid);
    peers::calls(to, CALLS, "organisation/model", epoch, &Seen::default())
        .await
        .expect("calls");
    let calls = calls.ns();
    [
        cpu as f64 / events as f64 / 1e3,
        quantile_us(&delays, 0.5),
        quantile_us(&delays, 0.99),
        calls as f64 / CALLS as f64 / 1e3,
    ]
}

pub async fn race(plan: &Plan, epoch: Epoch) {
    let upstream = peers::server(epoch).await;
    let mut rows: Vec<(&str, Vec<[f64; 4]>)> = vec![("goodput-proxy", Vec::new())];
    rows.extend(OTHERS.iter().map(|other| (other.program, Vec::new())));
    for _ in 0..plan.rounds {
        let runner = ours(plan, upstream);
        rows[0].1.push(round(&runner, plan, epoch).await);
        drop(runner);
        for (other, (_, rows)) in OTHERS.iter().zip(&mut rows[1..]) {
            if let Some(runner) = other.start(plan.cores, upstream).await {
                rows.push(round(&runner, plan, epoch).await);
            }
        }
    }
    println!(
        "race: {} streams of 50 chunks of {} bytes a second, then {CALLS} calls one after another; one worker each; {}",
        PACED.streams,
        PACED.pace.bytes,
        plan.cores.told()
    );
    println!("| | CPU a chunk, µs | p50 delay, µs | p99, µs | CPU a call, µs |\n|---|---|---|---|---|");
    for (name, rows) in &rows {
        if rows.is_empty() {
            println!("| {name}: NOT INSTALLED, left out | | | | |");
            continue;
        }
        let [chunk, p50, p99, call] = [0, 1, 2, 3].map(|i| Rounds::column(rows, i).median());
        println!("| {name} | {chunk:.1} | {p50:.0} | {p99:.0} | {call:.1} |");
    }
    println!();
}
