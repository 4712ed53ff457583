//! `/readyz` that follows the upstream.

use std::io;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::admin::readiness::{ANSWER_HOLDS, ATTEMPT_LIMIT};
use crate::proxy::upstream::BoxIo;

/// A connection to nothing in particular.
fn connection() -> BoxIo {
    Box::new(duplex(1).0)
}

impl Admin {
    fn ready_with(connector: Connector) -> Self {
        let mut admin = Self::new();
        admin.state = admin.state.clone().ready_with(connector);
        admin.lifecycle.advance(Phase::Ready);
        admin
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_the_upstream_where_it_should_and_liveness_does_not() {
    let up = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&up);
    let admin = Admin::ready_with(Connector::new(move || {
        let up = now.load(SeqCst);
        async move {
            if up {
                Ok(connection())
            } else {
                Err(io::Error::other("refused"))
            }
        }
    }));
    for is_up in [false, true, false] {
        up.store(is_up, SeqCst);
        tokio::time::sleep(ANSWER_HOLDS).await;
        let expected = if is_up {
            (200, "ready\n")
        } else {
            (503, "the upstream takes no connection: refused\n")
        };
        let (status, body) = admin.text("GET", "/readyz").await;
        assert_eq!((status, body.as_str()), expected);
        assert_eq!(admin.text("GET", "/livez").await, (200, "live\n".to_owned()));
    }
    up.store(true, SeqCst);
    admin.lifecycle.advance(Phase::Draining);
    assert_eq!(admin.text("GET", "/readyz").await, (503, "draining\n".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn probes_share_one_attempt_a_second() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&attempts);
    let admin = Admin::ready_with(Connector::new(move || {
        count.fetch_add(1, SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(connection())
        }
    }));
    let ready = (200, "ready\n".to_owned());
    let ask = || admin.text("GET", "/readyz");
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    assert_eq!([&a, &b, &c], [&ready; 3]);
    tokio::time::sleep(ANSWER_HOLDS - Duration::from_millis(1)).await;
    assert_eq!(ask().await, ready);
    assert_eq!(attempts.load(SeqCst), 1);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(ask().await, ready);
    assert_eq!(attempts.load(SeqCst), 2);
    admin.text("GET", "/livez").await;
    tokio::time::sleep(ANSWER_HOLDS * 10).await;
    assert_eq!(attempts.load(SeqCst), 2, "nothing is done unasked");
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_not_ready_within_the_patience_of_a_probe() {
    let admin = Admin::ready_with(Connector::new(std::future::pending));
    let begin = clock::now();
    let (status, body) = admin.text("GET", "/readyz").await;
    assert_eq!(
        (status, body.as_str()),
        (503, "the upstream takes no connection: no connection within 800ms\n")
    );
    assert_eq!(Duration::from_nanos(clock::now().since(begin)), ATTEMPT_LIMIT);
}
