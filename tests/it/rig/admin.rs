//! The rig's admin port: the real one, over a pipe.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use goodput_proxy::admin::{AdminState, Source, serve_connection};
use goodput_proxy::aggregate::Snapshot;
use goodput_proxy::app::proxy_stats;
use goodput_proxy::clock;
use goodput_proxy::expose::{Configured, ProxyStats};
use goodput_proxy::lifecycle::UnderWay;
use goodput_proxy::observe::Observer;
use goodput_proxy::proxy::counters::Counters;

use super::{Client, Reply, Rig};

struct Parts {
    observer: Arc<Observer>,
    counters: Arc<Counters>,
    under_way: UnderWay,
    config: String,
}

impl Source for Parts {
    fn snapshot(&self) -> Snapshot {
        self.observer.snapshot(clock::now())
    }

    fn requests(&self) -> String {
        self.observer.requests()
    }

    fn config(&self) -> String {
        self.config.clone()
    }

    fn stats(&self) -> ProxyStats {
        proxy_stats(&self.counters, &self.under_way)
    }

    fn drain(&self) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        let requests = self.under_way.requests.clone();
        Box::pin(async move {
            requests.empty().await;
            0
        })
    }
}

impl Rig {
    /// The reply of the admin port to `GET path` with these header lines.
    pub async fn admin(&self, path: &str, headers: &str) -> Reply {
        let source = Parts {
            observer: Arc::clone(&self.observer),
            counters: Arc::clone(&self.counters),
            under_way: self.under_way.clone(),
            config: self.config.effective().to_string(),
        };
        let state = AdminState::new(Arc::new(source), Configured::new(&self.config), self.lifecycle.watch());
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(serve_connection(theirs, state));
        let mut client = Client::new(Box::new(ours));
        client
            .call(format!("GET {path} HTTP/1.1\r\nHost: admin\r\n{headers}\r\n"))
            .await
    }

    /// What a scrape without preferences reads.
    pub async fn metrics(&self) -> String {
        let reply = self.admin("/metrics", "").await;
        assert_eq!(reply.status(), 200);
        reply.text()
    }
}
