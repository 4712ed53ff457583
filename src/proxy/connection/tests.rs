//! What an open connection holds.

use std::mem::size_of_val;

use bytes::Bytes;

use super::*;
use crate::config::Config;
use crate::lifecycle::{Lifecycle, UnderWay};
use crate::observe::Observer;
use crate::proxy::upstream::Upstream;

/// Bytes of each future that an open connection holds, with a little room. One that grows past it costs every stream as much:
/// box what is new and rarely waited for.
#[tokio::test]
async fn a_connection_holds_the_memory_of_its_own_way_only() {
    let (config, lifecycle) = (Config::default(), Lifecycle::new());
    let proxy = Proxy::new(
        &config,
        Observer::new(&config, lifecycle.watch()),
        Upstream::new(&config.upstream),
        lifecycle.watch(),
        UnderWay::default(),
        Arc::default(),
    );
    let io = || tokio::io::duplex(1).0;
    let relay = proxy.relay.clone().unwrap();
    let sizes = [
        (
            "connection",
            size_of_val(&Connection::new(io(), Arc::clone(&proxy), None)),
            512,
        ),
        ("idle over the relay", size_of_val(&relay.next(io(), Vec::new())), 1024),
        ("http1", size_of_val(&full::http1(io(), Bytes::new(), proxy)), 1280),
    ];
    for (name, size, most) in sizes {
        println!("{name}: {size}");
        assert!(size <= most, "{name} holds {size} bytes, more than {most}");
    }
}
