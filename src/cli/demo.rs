//! `demo`: engine, traffic and proxy in one process, nothing else needed.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::watch;

use super::{USAGE, complain, report, say};
use crate::config::{Config, Flag, Sources, parse_duration};
use crate::demo::{self, MAX_LENGTH, MAX_RATE, Options};
use crate::telemetry;

const LISTEN: &str = "127.0.0.1:8080";
const ADMIN: &str = "127.0.0.1:9464";

/// Flags of `demo`.
#[derive(clap::Args, Debug)]
pub(super) struct DemoArgs {
    /// For how long requests are sent
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = length)]
    duration: Duration,
    /// Requests a second on average, arriving whether or not earlier ones are answered
    #[arg(long, value_name = "RATE", default_value = "20", value_parser = rate)]
    rate: f64,
    /// Another seed sends other requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What every request is judged by
    #[arg(long, value_name = "SPEC", default_value = "ttft=500ms,tpot=30ms,e2e=3s")]
    slo: String,
    /// Share of the engine's steps slowed down by a long prompt next door: 0.01 makes one token in a hundred take 60 ms
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    spike: f64,
    /// Traffic address [default: 127.0.0.1:8080, or a free port]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Address of metrics and probes [default: 127.0.0.1:9464, or a free port]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &DemoArgs) -> ExitCode {
    let config = match config(args) {
        Ok(config) => config,
        Err(problems) => {
            report(&problems);
            return ExitCode::from(USAGE);
        }
    };
    let _telemetry = match telemetry::init(&config.log) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            complain(error);
            return ExitCode::from(USAGE);
        }
    };
    let options = Options {
        length: args.duration,
        rate: args.rate,
        seed: args.seed,
        spike: args.spike,
        any_listen: args.listen.is_none(),
        any_admin: args.admin.is_none(),
    };
    let outcome = interrupt()
        .map_err(demo::DemoError::Io)
        .and_then(|stop| demo::run(config, options, stop, |line| say(line)));
    match outcome {
        Ok(outcome) => {
            say(outcome.text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

/// The built-in configuration with these flags; the environment is for the proxy that one runs for real.
fn config(args: &DemoArgs) -> Result<Config, Vec<crate::config::Problem>> {
    let flag = |name, key, value: &str| Flag {
        name,
        key,
        value: value.to_owned(),
    };
    let flags = vec![
        flag("--listen", "listen", args.listen.as_deref().unwrap_or(LISTEN)),
        flag("--admin", "admin", args.admin.as_deref().unwrap_or(ADMIN)),
        flag("--slo", "slo", &args.slo),
        // One line a request would bury the summary.
        flag("--log-level", "log.level", "error"),
    ];
    Config::load(&Sources {
        flags,
        ..Sources::default()
    })
}

/// Turns true with the first SIGINT or SIGTERM.
fn interrupt() -> std::io::Result<watch::Receiver<bool>> {
    let (stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
                return;
            };
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            stop.send_replace(true);
            // Kept alive: a closed channel would read as "nobody can ask any more".
            std::future::pending::<()>().await;
        });
    })?;
    Ok(stopped)
}

fn length(written: &str) -> Result<Duration, String> {
    let length = parse_duration(written)?;
    if length > MAX_LENGTH {
        Err(format!("is longer than {} s", MAX_LENGTH.as_secs()))
    } else {
        Ok(length)
    }
}

fn rate(written: &str) -> Result<f64, String> {
    let right = || format!("write a number of requests a second, above 0 and up to {MAX_RATE}");
    written
        .parse()
        .ok()
        .filter(|rate| *rate > 0.0 && *rate <= MAX_RATE)
        .ok_or_else(right)
}

fn share(written: &str) -> Result<f64, String> {
    let right = || "write a share between 0 and 1, for example 0.01".to_owned();
    written
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(right)
}
