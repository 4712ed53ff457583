//! `run`: the proxy itself.

use std::process::ExitCode;

use super::{USAGE, complain};
use crate::app::{App, AppError};
use crate::config::Config;
use crate::lifecycle::{Exit, Shutdown, signal};
use crate::telemetry;

/// Exit code after a second signal.
const INTERRUPTED: u8 = 130;

/// Serves until a signal, and drains.
pub(super) fn run(config: Config) -> ExitCode {
    let _telemetry = match telemetry::init(&config.log) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            complain(error);
            return ExitCode::from(USAGE);
        }
    };
    match serve(config) {
        Ok(Exit::Clean | Exit::Deadline(_)) => ExitCode::SUCCESS,
        Ok(Exit::Interrupted(_)) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn serve(config: Config) -> Result<Exit, AppError> {
    let app = App::build(config)?;
    let shutdown = Shutdown::new();
    signal::listen(shutdown.clone()).map_err(AppError::Runtime)?;
    app.run(shutdown)
}
