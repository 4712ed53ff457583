//! The whole proxy over sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::config::{Drain, Target};

fn config(upstream: SocketAddr) -> Config {
    let mut config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        admin: SocketAddr::from(([127, 0, 0, 1], 0)),
        drain: Drain {
            delay: Duration::ZERO,
            timeout: Duration::from_secs(20),
        },
        ..Config::default()
    };
    config.upstream.target = Target::Tcp {
        host: upstream.ip().to_string(),
        port: upstream.port(),
    };
    config
}

fn ask(address: SocketAddr, request: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    client
}

fn rest(mut from: TcpStream) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn an_address_in_use_is_named_with_its_key_and_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = App::build(Config {
        listen: address,
        ..config(address)
    })
    .unwrap_err()
    .to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {address} (`listen`): ")),
        "{error}"
    );
    assert!(
        error.contains(&format!("stop the program that uses port {}", address.port())),
        "{error}"
    );
}

#[test]
fn a_drain_waits_for_the_stream_under_way_and_the_end_is_clean() {
    for workers in [1, 2] {
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = App::build(Config {
            workers,
            ..config(upstream.local_addr().unwrap())
        })
        .unwrap();
        let (traffic, admin) = (app.traffic_address(), app.admin_address());
        let shutdown = Shutdown::new();
        let running = thread::spawn({
            let shutdown = shutdown.clone();
            move || app.run(shutdown).unwrap()
        });

        let mut client = ask(traffic, "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut server, _) = upstream.accept().unwrap();
        let mut head = [0; 36];
        server.read_exact(&mut head).unwrap();
        server
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello")
            .unwrap();
        let mut first = [0; 44];
        client.read_exact(&mut first).unwrap();
        assert!(first.ends_with(b"\r\n\r\nhello"));

        let drain = ask(admin, "GET /drain HTTP/1.0\r\n\r\n");
        server.write_all(b"world").unwrap();
        let draining = rest(drain);
        assert!(draining.starts_with("HTTP/1.0 200 OK"), "{draining}");
        assert_eq!(rest(client), "world");
        shutdown.signal();
        assert_eq!(running.join().unwrap(), Exit::Clean);
        assert!(TcpStream::connect(traffic).is_err() && TcpStream::connect(admin).is_err());
    }
}

#[test]
fn an_early_reply_survives_an_upload_that_nobody_reads() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    for relay in [false, true] {
        let app = App::build(Config {
            relay,
            workers: 1,
            ..config(upstream.local_addr().unwrap())
        })
        .unwrap();
        let traffic = app.traffic_address();
        let shutdown = Shutdown::new();
        let running = thread::spawn({
            let shutdown = shutdown.clone();
            move || app.run(shutdown).unwrap()
        });
        let mut client = ask(traffic, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n");
        let mut uploading = client.try_clone().unwrap();
        let upload = thread::spawn(move || {
            let bytes = vec![b'x'; 65_536];
            for _ in 0..400 {
                if uploading.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let (mut server, _) = upstream.accept().unwrap();
        let mut some = vec![0; 65_536];
        server.read_exact(&mut some).unwrap();
        server
            .write_all(b"HTTP/1.1 413 Too Big\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
            .unwrap();
        let mut head = [0; 20];
        client.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 413 Too Big");
        assert!(rest(client).ends_with("\r\n\r\nbig"));
        upload.join().unwrap();
        drop(server);
        shutdown.signal();
        assert_eq!(running.join().unwrap(), Exit::Clean);
    }
}
