//! Time limits of a head, and which connections they do not concern.

use std::time::Duration;

use tokio::time::sleep;

use super::*;
use crate::clock;

async fn half_a_head_is_cut_at_the_limit_counted_from_its_first_byte(relay: bool) {
    for begun in ["POST /v1/c", "PRI * HTTP/2", "POST / HTTP/1.1\r\nHost: a\r\n"] {
        let rig = Rig::new(relay);
        let mut client = rig.client();
        sleep(Duration::from_secs(100)).await;
        let from = clock::now();
        client.send(begun).await;
        assert_eq!(client.rest().await, "");
        assert_eq!(clock::now().since(from), 30_000_000_000, "{begun:?}");
        assert_eq!(rig.under_way.connections.count(), 0);
    }
}

async fn idle_connections_are_left_alone_before_and_between_requests(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    sleep(Duration::from_secs(3600)).await;
    client.send(request).await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 204 No Content\r\n\r\n");
    sleep(Duration::from_secs(3600)).await;
    client.send(request).await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    client.head().await;
    let from = clock::now();
    client.send("GET / H").await;
    client.rest().await;
    assert_eq!(clock::now().since(from), 30_000_000_000, "a later head is held to it as well");
    assert_eq!(rig.counters.header_timeouts.get(), 1);
}

async fn a_silent_upstream_is_waited_for(relay: bool) {
    let mut rig = Rig::new(relay);
    let mut client = rig.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    sleep(Duration::from_secs(3600)).await;
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 204 No Content\r\n\r\n");
}

both_ways!(
    half_a_head_is_cut_at_the_limit_counted_from_its_first_byte,
    idle_connections_are_left_alone_before_and_between_requests,
    a_silent_upstream_is_waited_for,
);
