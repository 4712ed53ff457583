//! The accept loop of the traffic port. Nothing that `accept` reports ends it.
//!
//! At `limits.max_connections` it stops accepting: further connections wait in the kernel's backlog, and are taken up as others end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::connection::{Connection, serve_tls_connection};
use super::{Proxy, tcp};
use crate::clock;
use crate::lifecycle::Phase;
use crate::measure::Stamp;
use crate::mounted::Mounted;

/// Wait after a failed accept: it begins with this and doubles up to the most.
const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const BACKOFF_MOST: Duration = Duration::from_secs(1);

/// At most one log line of one kind in this time, ns.
const LOG_EVERY_NS: u64 = 10_000_000_000;

/// Accepts, with TLS where there are `settings` for it, until the phase is [`Phase::Closing`]; the listener is closed when this returns, connections live on.
pub async fn accept(listener: TcpListener, proxy: Arc<Proxy>, settings: Option<Arc<Mounted<ServerConfig>>>) {
    let slots = Arc::new(Semaphore::new(proxy.limits.max_connections.min(Semaphore::MAX_PERMITS)));
    let mut phase = proxy.phase.clone();
    let mut errors = ErrorLog::default();
    let mut full = ErrorLog::default();
    let mut backoff = BACKOFF_FIRST;
    let accepting = async {
        loop {
            if slots.available_permits() == 0 && full.is_due(clock::now()) {
                tracing::warn!(
                    limit = proxy.limits.max_connections,
                    "at limits.max_connections: further clients wait in the backlog"
                );
            }
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    backoff = BACKOFF_FIRST;
                    proxy.counters.connections.add();
                    tcp::set_up(&stream);
                    let proxy = Arc::clone(&proxy);
                    // Two kinds of task: one for both would be as large as the larger.
                    match settings.as_ref().map(|mounted| mounted.get()) {
                        Some(settings) => tokio::spawn(async move {
                            serve_tls_connection(stream, settings, proxy).await;
                            drop(slot);
                        }),
                        None => tokio::spawn(Connection::new(stream, proxy, Some(slot))),
                    };
                }
                Err(error) => {
                    proxy.counters.accept_errors.add();
                    if errors.is_due(clock::now()) {
                        tracing::warn!(%error, "cannot accept a connection; trying again");
                    }
                    if !is_the_clients(&error) {
                        sleep(backoff).await;
                        backoff = (backoff * 2).min(BACKOFF_MOST);
                    }
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = phase.reached(Phase::Closing) => {}
    }
}

/// The one connection was given up by its client; the next may be well.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

/// Lets one line through per [`LOG_EVERY_NS`].
#[derive(Debug, Default)]
struct ErrorLog {
    last: Option<Stamp>,
}

impl ErrorLog {
    fn is_due(&mut self, now: Stamp) -> bool {
        let due = self.last.is_none_or(|last| now.since(last) >= LOG_EVERY_NS);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_interval() {
        let mut log = ErrorLog::default();
        let at = |s: u64| Stamp::from_nanos(s * 1_000_000_000);
        let due: Vec<bool> = [0, 1, 9, 10, 11, 25].into_iter().map(|s| log.is_due(at(s))).collect();
        assert_eq!(due, [true, false, false, true, false, true]);
    }

    #[test]
    fn only_a_clients_own_failure_is_not_waited_for() {
        assert!(is_the_clients(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_the_clients(&io::Error::from_raw_os_error(24)), "EMFILE");
    }
}
