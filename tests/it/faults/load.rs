//! Much traffic: nobody is kept waiting, and memory does not grow with what passes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::rig::{
    DONE, Rig, Step, both, chunk, chunked, content, finish, h2, last_chunk, post, reply, send, sse_head, wait,
};
use super::program::{self, Program};

#[test]
fn a_firehose_does_not_keep_others_waiting() {
    both(|way| async move {
        let piece = chunked(vec![b'x'; 64 << 10]);
        let total = 4096;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let rig = Rig::new(
            way,
            vec![
                vec![send(head), Step::Repeat(piece, total)],
                reply("200 OK", "text/plain", "ok"),
            ],
        );
        let mut firehose = rig.pipe();
        firehose
            .write_all(b"GET /firehose HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let got = Arc::new(AtomicUsize::new(0));
        let reading = tokio::spawn({
            let got = Arc::clone(&got);
            async move {
                let mut part = vec![0; 64 << 10];
                while let Ok(n) = firehose.read(&mut part).await
                    && n > 0
                {
                    got.fetch_add(n, Relaxed);
                }
            }
        });
        rig.upstream.until(|u| u.seen().len() == 1).await;
        let mut client = rig.client();
        let mut before = got.load(Relaxed);
        for n in 0..10 {
            assert_eq!(client.call(post("/x", "{}")).await.status(), 200);
            let now = got.load(Relaxed);
            assert!(
                now - before < 24 << 20,
                "request {n} waited while {} bytes passed",
                now - before
            );
            before = now;
        }
        assert!(before > 0, "the firehose ran meanwhile");
        reading.abort();
    });
}

#[test]
fn slow_readers_block_the_upstream_and_take_no_memory() {
    both(|way| async move {
        let piece = chunked(vec![b'x'; 64 << 10]);
        let script = vec![Step::Body, sse_head(), Step::Repeat(piece, 3200)];
        let rig = Rig::new(way, vec![script]);
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = rig.client();
            client.send(post("/x", "{}")).await;
            client.head().await.unwrap();
            clients.push(client);
        }
        for _ in 0..60 {
            // A kilobyte a second.
            tokio::time::sleep(Duration::from_secs(1)).await;
            for client in &mut clients {
                client.take(usize::MAX);
            }
        }
        // Two pipes of 64 KiB are no memory of the proxy's.
        let held = rig.upstream.written() / 20;
        assert!(held <= 512 << 10, "{held} bytes for each client that reads nothing");
        assert_eq!(rig.under_way.requests.count(), 20);
    });
}

#[test]
fn streams_that_nobody_reads_hold_up_no_other_of_their_http2_connection_and_take_no_memory() {
    both(|way| async move {
        let piece = chunked(vec![b'x'; 64 << 10]);
        let unread = vec![Step::Body, sse_head(), Step::Repeat(piece, 3200)];
        let read = vec![
            Step::Body,
            sse_head(),
            chunk(content("a")),
            wait(20),
            chunk(content("b")),
            chunk([finish().as_str(), DONE].concat()),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![unread.clone(), unread.clone(), unread, read]);
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(1 << 20)
            .handshake::<_, h2::BoxBody>(TokioIo::new(rig.pipe()))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut held_back = Vec::new();
        for _ in 0..3 {
            sender.ready().await.unwrap();
            held_back.push(sender.send_request(h2::post("/x", "{}")).await.unwrap());
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        // A pipe of 64 KiB and the client's own window are no memory of the proxy's.
        let held = rig.upstream.written() / 3;
        assert!(held <= 512 << 10, "{held} bytes for each stream that nobody reads");

        for _ in 0..20 {
            let (_, body, error) = h2::call(&mut sender, h2::chat()).await;
            assert_eq!(error, None);
            assert_eq!(body, [&content("a"), &content("b"), &finish(), DONE].concat().into_bytes());
        }
        for record in rig.finished(20).await {
            assert_eq!(
                (record.outcome, record.ttft_ms, record.stall_ms),
                ("ok", Some(0.0), Some(20.0))
            );
        }
        assert_eq!(rig.under_way.requests.count(), 3);
        drop(held_back);
        rig.upstream.until(|u| u.closed().len() >= 3).await;
        assert_eq!(rig.finished(23).await[22].outcome, "client_cancelled");
    });
}

/// Has the program relay what `write` gives to a client that reads and drops it all; asserts what memory that took, in KiB.
fn memory_of(request: &str, least: usize, most: u64, write: impl FnOnce(&mut TcpStream) + Send + 'static) {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Program::start(upstream.local_addr().unwrap(), 1024, "off");
    let serve = |body: Box<dyn FnOnce(&mut TcpStream) + Send>| {
        let mut client = program::send(proxy.traffic, request);
        let (mut server, _) = upstream.accept().unwrap();
        let serving = std::thread::spawn(move || {
            program::head(&mut server);
            server
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
                .unwrap();
            body(&mut server);
            server.write_all(b"0\r\n\r\n").unwrap();
        });
        let (mut all, mut part, mut tail) = (0, vec![0; 64 << 10], Vec::new());
        while !tail.ends_with(b"0\r\n\r\n") {
            let n = client.read(&mut part).unwrap();
            assert!(n > 0);
            all += n;
            tail.extend_from_slice(&part[..n]);
            tail.drain(..tail.len().saturating_sub(5));
        }
        serving.join().unwrap();
        (all, proxy.memory())
    };
    let warm = vec![chunked(content("warm")); 1000].concat();
    let (_, before) = serve(Box::new(move |server| server.write_all(&warm).unwrap()));
    let (passed, after) = serve(Box::new(write));
    assert!(passed >= least, "{passed} bytes");
    assert!(
        after.saturating_sub(before) <= most,
        "{before} KiB became {after} KiB for {passed} bytes"
    );
}

const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_stream_without_an_event_end_takes_no_memory() {
    memory_of(CHAT, 32 << 20, 2048, |server| {
        let piece = chunked(vec![b'x'; 64 << 10]);
        for _ in 0..512 {
            server.write_all(&piece).unwrap();
        }
    });
}

#[test]
fn a_long_token_stream_takes_no_memory() {
    memory_of(CHAT, 6 << 20, 1024, |server| {
        let event = chunked(content("token")).repeat(500);
        for _ in 0..150 {
            server.write_all(&event).unwrap();
        }
    });
}
