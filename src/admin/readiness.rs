//! `/readyz` with `readiness: upstream`: whether the model server takes connections, found out when somebody asks.
//!
//! An attempt is a connection that is opened and closed again, with nothing said over it. However many ask and however often, there
//! is one attempt at a time and its answer holds for [`ANSWER_HOLDS`]: probes cannot become load on the server. Between probes
//! nothing is done.

use std::fmt;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::clock;
use crate::measure::Stamp;
use crate::proxy::upstream::Connector;

/// Limit of an attempt: below the kubelet's default patience with a probe (1 s), so that the reason still reaches its events.
pub(super) const ATTEMPT_LIMIT: Duration = Duration::from_millis(800);

/// An answer this old is found out anew.
pub(super) const ANSWER_HOLDS: Duration = Duration::from_secs(1);

/// Asks the upstream, now and then.
pub(super) struct Upstream {
    connector: Connector,
    last: Mutex<Option<(Stamp, Result<(), String>)>>,
}

impl Upstream {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            last: Mutex::new(None),
        }
    }

    /// Whether it takes connections; if not, why.
    pub(super) async fn takes_connections(&self) -> Result<(), String> {
        // Held over the attempt: who asks meanwhile gets the same answer. An asker who leaves takes his attempt along.
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last
            && Duration::from_nanos(clock::now().since(*at)) < ANSWER_HOLDS
        {
            return answer.clone();
        }
        let answer = match timeout(ATTEMPT_LIMIT, self.connector.connect()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no connection within {ATTEMPT_LIMIT:?}")),
        };
        *last = Some((clock::now(), answer.clone()));
        answer
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}
