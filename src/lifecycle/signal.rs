//! SIGTERM and SIGINT become [`Shutdown::signal`], SIGHUP becomes [`Hangup::ask`].

use std::{io, thread};

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::Shutdown;
use crate::reload::Hangup;

/// Takes the signals over for the life of the process, on a thread of its own: a busy runtime cannot delay them.
///
/// # Errors
/// When the handlers or the thread cannot be had.
pub fn listen(shutdown: Shutdown, hangup: Hangup) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut term, mut int, mut hup) = {
        let _within = runtime.enter();
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        )
    };
    let wait = async move {
        loop {
            let name = tokio::select! {
                got = term.recv() => got.map(|()| "SIGTERM"),
                got = int.recv() => got.map(|()| "SIGINT"),
                got = hup.recv() => {
                    if got.is_none() {
                        return;
                    }
                    hangup.ask();
                    continue;
                }
            };
            let Some(name) = name else { return };
            tracing::info!(signal = name, "signal received");
            shutdown.signal();
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(wait))
        .map(drop)
}
