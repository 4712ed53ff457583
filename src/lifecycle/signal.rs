//! SIGTERM and SIGINT become [`Shutdown::signal`].

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::Shutdown;

/// Takes both signals over for the life of the process; must be called within a tokio runtime.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn listen(shutdown: Shutdown) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                got = term.recv() => got.map(|()| "SIGTERM"),
                got = int.recv() => got.map(|()| "SIGINT"),
            };
            let Some(name) = name else { return };
            tracing::info!(signal = name, "signal received");
            shutdown.signal();
        }
    });
    Ok(())
}
