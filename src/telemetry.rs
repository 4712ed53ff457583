//! The log: lines for people or JSON lines on standard output.
//!
//! A line is formatted where it arises and written by a thread of its own. Should the reader of standard output stall, at most
//! [`BUFFERED_LINES`] lines wait; further ones are dropped, and traffic goes on.

use std::fmt;
use std::io::{IsTerminal, stdout};
use std::sync::Arc;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload;

use crate::background::Rank;
use crate::config::{Log, LogFormat};

/// Most log lines that wait for standard output.
pub const BUFFERED_LINES: usize = 8192;

/// Writes out what is waiting when dropped: keep it to the end of `main`.
#[must_use = "dropping it ends the log"]
#[derive(Debug)]
pub struct Telemetry {
    _writer: WorkerGuard,
    level: Level,
}

/// Sets the filter of a log that runs.
#[derive(Clone)]
pub struct Level(Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl Telemetry {
    /// For changes while the program runs.
    pub fn level(&self) -> Level {
        self.level.clone()
    }
}

impl Level {
    /// Logs by `filter` from now on.
    ///
    /// # Errors
    /// When the filter cannot be read, or the log has ended.
    pub fn set(&self, filter: &str) -> Result<(), TelemetryError> {
        (self.0)(parse(filter)?).map_err(|_| TelemetryError::Ended)
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Level")
    }
}

/// Why there is no log.
#[derive(Debug)]
pub enum TelemetryError {
    /// The filter cannot be read.
    Filter {
        /// As given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The process has a log already.
    Twice,
    /// The log has ended.
    Ended,
}

/// Starts the log. The configuration has already weighed `RUST_LOG` against the file, our own variable and the flag.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn init(log: &Log) -> Result<Telemetry, TelemetryError> {
    let filter = parse(&log.level)?;
    let (writer, guard) = Rank::Below.starting(|| {
        NonBlockingBuilder::default()
            .buffered_lines_limit(BUFFERED_LINES)
            .lossy(true)
            .thread_name("log")
            .finish(stdout())
    });
    let terminal = stdout().is_terminal();
    let format = log.format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false);
    let (level, installed) = match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(terminal).with_filter_reloading();
            let handle = lines.reload_handle();
            (Level(Arc::new(move |filter| handle.reload(filter))), lines.try_init())
        }
        LogFormat::Json => {
            let lines = lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_filter_reloading();
            let handle = lines.reload_handle();
            (Level(Arc::new(move |filter| handle.reload(filter))), lines.try_init())
        }
    };
    installed.map_err(|_| TelemetryError::Twice)?;
    Ok(Telemetry { _writer: guard, level })
}

fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::try_new(filter).map_err(|source| TelemetryError::Filter {
        filter: filter.to_owned(),
        source,
    })
}

impl fmt::Display for TelemetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { filter, source } => write!(
                f,
                "log filter {filter:?}: {source}; a level (error, warn, info, debug, trace) or module=level pairs, separated by commas"
            ),
            Self::Twice => f.write_str("the log was started twice"),
            Self::Ended => f.write_str("the log has ended"),
        }
    }
}

impl std::error::Error for TelemetryError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_says_what_would_be_right() {
        assert!(parse("info,goodput_proxy=debug").is_ok());
        let error = parse("goodput_proxy=loud").unwrap_err().to_string();
        assert!(error.starts_with("log filter \"goodput_proxy=loud\": "), "{error}");
        assert!(error.contains("error, warn, info"), "{error}");
    }
}
