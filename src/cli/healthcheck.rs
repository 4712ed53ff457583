//! `goodput-proxy healthcheck`: one `GET /livez` on the admin address, for images that hold nothing but this program. Where that port
//! has TLS, the certificate in `admin_tls.cert` is accepted and no other.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use super::complain;
use crate::config::Config;
use crate::tls;

/// Limit of connecting, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How much of the answer is read: its status line fits.
const MAX_ANSWER: usize = 256;

#[expect(clippy::needless_pass_by_value, reason = "every command takes the configuration over")]
pub(super) fn run(config: Config) -> ExitCode {
    let address = reachable(config.admin);
    let certificate = config.admin_tls.as_ref().map(|own| own.cert.as_path());
    match probe(address, certificate) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            complain(format_args!("not live at {address}: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// The address under which a listener on `admin` is reached from the same host.
fn reachable(admin: SocketAddr) -> SocketAddr {
    let ip = match admin.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, admin.port())
}

/// Whether `GET /livez` answers 200, over TLS where there is a certificate to expect.
fn probe(address: SocketAddr, certificate: Option<&Path>) -> Result<(), String> {
    let settings = certificate.map(tls::pinned).transpose()?;
    let exchange = || {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        match settings {
            None => exchange(stream, address),
            Some(settings) => {
                let connection = ClientConnection::new(Arc::new(settings), address.ip().into()).map_err(std::io::Error::other)?;
                exchange(StreamOwned::new(connection, stream), address)
            }
        }
    };
    let answer = exchange().map_err(|error| match error.kind() {
        // A socket's own time limit says "resource temporarily unavailable".
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer within {} s", TIMEOUT.as_secs()),
        _ => error.to_string(),
    })?;
    let status = answer
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|s| std::str::from_utf8(s).ok());
    match status {
        Some("200") => Ok(()),
        Some(other) => Err(format!("status {}", other.escape_debug())),
        None => Err("the answer is not HTTP/1.1".to_owned()),
    }
}

/// The beginning of the answer.
fn exchange(mut stream: impl Read + Write, address: SocketAddr) -> std::io::Result<Vec<u8>> {
    stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::with_capacity(MAX_ANSWER);
    let mut chunk = [0; MAX_ANSWER];
    while answer.len() < MAX_ANSWER && !answer.contains(&b'\n') {
        match stream.read(&mut chunk)? {
            0 => break,
            read => answer.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers one connection with `reply`, handing back what was asked.
    fn server(reply: &'static str) -> (SocketAddr, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(reply.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        (address, asked)
    }

    #[test]
    fn a_200_is_live_and_livez_was_asked() {
        let (address, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(probe(address, None), Ok(()));
        let request = format!("GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        assert_eq!(asked.join().unwrap(), request);
    }

    #[test]
    fn everything_else_is_not_live() {
        for (reply, why) in [
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", "status 503"),
            ("SSH-2.0-OpenSSH\r\n", "the answer is not HTTP/1.1"),
            ("", "the answer is not HTTP/1.1"),
        ] {
            let (address, asked) = server(reply);
            assert_eq!(probe(address, None), Err(why.to_owned()));
            asked.join().unwrap();
        }
        // Bound and never listening: it refuses, and nobody else can get it meanwhile.
        let closed = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        closed.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = closed.local_addr().unwrap().as_socket().unwrap();
        assert!(probe(address, None).unwrap_err().contains("refused"));
    }

    #[test]
    fn an_unspecified_address_is_probed_on_loopback() {
        for (admin, probed) in [
            ("0.0.0.0:9464", "127.0.0.1:9464"),
            ("[::]:9464", "[::1]:9464"),
            ("10.0.0.7:1", "10.0.0.7:1"),
        ] {
            assert_eq!(reachable(admin.parse().unwrap()), probed.parse().unwrap());
        }
    }
}
