//! `run`: the proxy itself.

use std::process::ExitCode;

use super::{USAGE, complain, report};
use crate::app::{App, AppError};
use crate::config::Config;
use crate::lifecycle::{Exit, Shutdown, signal};
use crate::reload::Origin;
use crate::telemetry;

/// Exit code after a second signal.
const INTERRUPTED: u8 = 130;

/// Serves until a signal, and drains. `origin` says where the configuration came from.
pub(super) fn run(config: Config, mut origin: Origin) -> ExitCode {
    let telemetry = match telemetry::init(&config.log) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            complain(error);
            return ExitCode::from(USAGE);
        }
    };
    origin.level = Some(telemetry.level());
    match serve(config, origin) {
        Ok(Exit::Clean | Exit::Deadline(_)) => ExitCode::SUCCESS,
        Ok(Exit::Interrupted(_)) => ExitCode::from(INTERRUPTED),
        Err(AppError::Files(problems)) => {
            report(&problems);
            ExitCode::from(USAGE)
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn serve(config: Config, origin: Origin) -> Result<Exit, AppError> {
    let shutdown = Shutdown::new();
    let hangup = origin.hangup.clone();
    let app = App::build(config)?.reloading(origin);
    signal::listen(shutdown.clone(), hangup).map_err(AppError::Runtime)?;
    app.run(shutdown)
}
