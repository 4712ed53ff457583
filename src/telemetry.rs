//! The log: lines for people or JSON lines on standard output.
//!
//! A line is formatted where it arises and written by a thread of its own. Should the reader of standard output stall, at most
//! [`BUFFERED_LINES`] lines wait; further ones are dropped, and traffic goes on.

use std::fmt;
use std::io::{IsTerminal, stdout};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{Log, LogFormat};

/// Most log lines that wait for standard output.
pub const BUFFERED_LINES: usize = 8192;

/// Writes out what is waiting when dropped: keep it to the end of `main`.
#[must_use = "dropping it ends the log"]
#[derive(Debug)]
pub struct Telemetry {
    _writer: WorkerGuard,
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
}

/// Starts the log. The configuration has already weighed `RUST_LOG` against the file, our own variable and the flag.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn init(log: &Log) -> Result<Telemetry, TelemetryError> {
    let filter = parse(&log.level)?;
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(BUFFERED_LINES)
        .lossy(true)
        .thread_name("log")
        .finish(stdout());
    let terminal = stdout().is_terminal();
    let format = log.format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false);
    let installed = match format {
        LogFormat::Text => lines.with_ansi(terminal).try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init(),
    };
    installed.map_err(|_| TelemetryError::Twice)?;
    Ok(Telemetry { _writer: guard })
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
