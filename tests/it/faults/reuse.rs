//! Upstream connections between two requests, and the rule when a request is sent again: only what was provably never sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::net::TcpListener;

use super::super::rig::{Rig, Step, Upstream, both, both_tcp, nobody, post, reply, send, wait};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_server_that_closes_idle_connections_after_five_seconds_is_never_raced() {
    both(|way| async move {
        // Whatever comes on the connection within 5 s of the reply is read, and then it is closed.
        let rig = Rig::new(way, vec![vec![Step::Body, send(OK), wait(5000), Step::Close]]);
        let mut client = rig.client();
        let idles: Vec<u64> = (4900..=5100).step_by(5).chain([4000, 4001, 4999, 5000, 5001]).collect();
        for idle in &idles {
            assert_eq!(
                client.call(post("/v1/chat/completions", "{}")).await.status(),
                200,
                "before {idle} ms idle"
            );
            tokio::time::sleep(Duration::from_millis(*idle)).await;
        }
        assert_eq!(client.call(post("/v1/chat/completions", "{}")).await.status(), 200);
        assert!(rig.records().iter().all(|r| r.status == Some(200)));
    });
}

#[test]
fn a_connection_used_again_within_its_time_is_one_connection() {
    both(|way| async move {
        let rig = Rig::new(way, vec![reply("200 OK", "text/plain", "ok")]);
        let mut client = rig.client();
        for idle in [0, 1000, 3990, 3990] {
            tokio::time::sleep(Duration::from_millis(idle)).await;
            assert_eq!(client.call(post("/x", "{}")).await.status(), 200);
        }
        assert_eq!(rig.upstream.connections(), 1);
        let rig = Rig::configured(
            way,
            "upstream: { pool_idle_timeout: 1s }\n",
            vec![reply("200 OK", "text/plain", "ok")],
        );
        let mut client = rig.client();
        for _ in 0..2 {
            client.call(post("/x", "{}")).await;
            tokio::time::sleep(Duration::from_millis(1001)).await;
        }
        assert_eq!(rig.upstream.connections(), 2, "the time is configurable");
    });
}

#[test]
fn a_request_that_was_read_is_never_sent_again() {
    both(|way| async move {
        for end in [Step::Close, Step::Fin, Step::Reset] {
            let rig = Rig::new(
                way,
                vec![
                    vec![Step::Body, send(OK)],
                    vec![Step::Body, end],
                    reply("200 OK", "text/plain", "ok"),
                ],
            );
            let mut client = rig.client();
            assert_eq!(client.call(post("/a", "{}")).await.status(), 200);
            let got = client.call(post("/b", "{\"b\":1}")).await;
            assert_eq!((got.status(), got.header("x-goodput-error")), (502, Some("upstream_closed")));
            let lines: Vec<String> = rig.upstream.seen().iter().map(|s| s.line().to_owned()).collect();
            assert_eq!(lines, ["POST /a HTTP/1.1", "POST /b HTTP/1.1"], "and none twice");
            assert_eq!((rig.records()[1].outcome, rig.records()[1].attempts), ("upstream_reset", 1));
            assert_eq!(
                client.call(post("/c", "{}")).await.status(),
                200,
                "the client's connection lives on"
            );
        }
    });
}

#[test]
fn a_half_read_request_is_not_sent_again_either() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Body, send(OK)], vec![Step::Take(1), Step::Close]]);
        let mut client = rig.client();
        assert_eq!(client.call(post("/a", "{}")).await.status(), 200);
        let got = client.call(post("/b", "{\"b\":1}")).await;
        assert_eq!((got.status(), got.header("x-goodput-error")), (502, Some("upstream_closed")));
        assert_eq!(rig.upstream.seen().len(), 2);
    });
}

#[test]
fn a_connection_that_the_server_closed_while_idle_costs_the_client_nothing() {
    both(|way| async move {
        for end in [Step::Close, Step::Fin] {
            let rig = Rig::new(
                way,
                vec![vec![Step::Body, send(OK), wait(100), end], vec![Step::Body, send(OK)]],
            );
            let mut client = rig.client();
            client.call(post("/a", "{}")).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(client.call(post("/b", "{}")).await.status(), 200);
            assert_eq!(rig.upstream.connections(), 2);
            assert_eq!(rig.upstream.seen().len(), 2);
        }
    });
}

#[test]
fn a_server_that_closes_every_connection_at_once_is_tried_once() {
    both(|way| async move {
        for end in [Step::Close, Step::Reset] {
            let rig = Rig::new(way, vec![vec![end]]);
            let got = rig.client().call(post("/x", "{}")).await;
            assert_eq!((got.status(), got.header("x-goodput-error")), (502, Some("upstream_closed")));
            assert_eq!(rig.upstream.connections(), 1);
            assert_eq!((rig.record().attempts, rig.record().e2e_ms), (1, 0.0));
        }
    });
}

#[test]
fn a_server_that_takes_to_closing_at_once_gets_one_fresh_connection_and_no_loop() {
    both(|way| async move {
        let rig = Rig::new(way, vec![vec![Step::Body, send(OK), wait(1), Step::Close], vec![Step::Close]]);
        let mut client = rig.client();
        client.call(post("/a", "{}")).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(client.call(post("/b", "{}")).await.status(), 502);
        assert_eq!(rig.upstream.connections(), 2);
    });
}

#[test]
fn replies_of_several_clients_never_get_mixed_up() {
    both(|way| async move {
        let rig = Rig::new(
            way,
            (0..100).map(|n| vec![Step::Body, wait(n % 7), Step::EchoTarget]).collect(),
        );
        let calls: Vec<_> = (0..20)
            .map(|c| {
                let mut client = rig.client();
                tokio::spawn(async move {
                    for n in 0..5 {
                        let target = format!("/{c}/{n}");
                        assert_eq!(client.call(post(&target, "{}")).await.text(), target);
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        assert!(rig.upstream.connections() <= 20, "{}", rig.upstream.connections());
    });
}

#[test]
fn localhost_is_reached_wherever_the_server_listens() {
    both_tcp(|way| async move {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let Ok(listener) = TcpListener::bind((address, 0)).await else {
                assert!(address.is_ipv6(), "a host without IPv6 can only be asked for the other half");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let server = Upstream::new(vec![reply("200 OK", "text/plain", "ok")]);
            let accepted = server.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(accepted.clone().serve(Box::new(stream)));
                }
            });
            let mut known = tokio::net::lookup_host(("localhost", port)).await.unwrap();
            if !known.any(|a| a.ip() == address) {
                continue; // this host's `localhost` has no such address
            }
            let rig = Rig::to(way, &format!("http://localhost:{port}"));
            let got = rig.tcp_client().await.call(post("/x", "{}")).await;
            assert_eq!((got.status(), got.text().as_str()), (200, "ok"), "{address}");
        }
    });
}

#[test]
fn when_no_address_answers_the_client_is_told_which_were_tried() {
    both_tcp(|way| async move {
        let (_nobody, address) = nobody();
        let rig = Rig::to(way, &format!("http://localhost:{}", address.port()));
        for _ in 0..2 {
            let got = rig.tcp_client().await.call(post("/x", "{}")).await;
            assert_eq!(
                (got.status(), got.header("x-goodput-error")),
                (502, Some("upstream_unreachable"))
            );
            assert!(got.text().contains("refused"), "{}", got.text());
        }
        assert_eq!(rig.counters.upstream_connect_errors.get(), 2);
    });
}
