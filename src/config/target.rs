//! The upstream's address as a URL.

use std::path::PathBuf;

use super::Target;
use super::problem::Wrong;

/// Longest path of a Unix socket on Linux, bytes.
const MAX_SOCKET_PATH: usize = 107;

/// `http://host:port`, `https://host:port`, `http://[::1]:port` or `unix:/path`, and whether it asks for TLS.
pub(super) fn parse(url: &str) -> Result<(Target, bool), Wrong> {
    let url = url.trim();
    if let Some(path) = url.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path.len() {
            2..=MAX_SOCKET_PATH if path.starts_with('/') => Ok((Target::Unix(PathBuf::from(path)), false)),
            _ => Err(Wrong::new(
                "is not the path of a Unix socket",
                "write `unix:/run/server.sock`, at most 107 bytes of path",
            )),
        };
    }
    let right = "write `http://host:port`, `https://host:port` or `unix:/path`";
    let (scheme, default_port, rest) = if let Some(rest) = url.strip_prefix("http://") {
        ("http", 80, rest)
    } else if let Some(rest) = url.strip_prefix("https://") {
        ("https", 443, rest)
    } else {
        return Err(Wrong::new("is not a URL of a model server", right));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(Wrong::new(
            "carries credentials, and requests go through as the client sent them",
            "leave them out",
        ));
    }
    if !matches!(path, "" | "/") {
        return Err(Wrong::new(
            "has a path, and paths go through as the client sent them",
            format!("write `{scheme}://{authority}`"),
        ));
    }
    let (host, port) = split_port(authority, default_port).ok_or_else(|| Wrong::new("is not a host with a port", right))?;
    let target = Target::Tcp {
        host: host.to_owned(),
        port,
    };
    Ok((target, scheme == "https"))
}

/// Host (IPv6 without its brackets) and port (`default` where none is given).
fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        let port = if rest.is_empty() {
            None
        } else {
            Some(rest.strip_prefix(':')?)
        };
        (host, port)
    } else {
        let (host, port) = authority
            .split_once(':')
            .map_or((authority, None), |(host, port)| (host, Some(port)));
        let fit = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        (fit.then_some(host)?, port)
    };
    let port = match port {
        None => default,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok().filter(|port| *port != 0)?,
        Some(_) => return None,
    };
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (url, host, port) in [
            ("http://127.0.0.1:8000", "127.0.0.1", 8000),
            ("http://vllm.default.svc:8000/", "vllm.default.svc", 8000),
            ("http://localhost", "localhost", 80),
            ("http://[::1]:30000", "::1", 30000),
            ("http://[::1]", "::1", 80),
            ("https://vllm", "vllm", 443),
            ("https://vllm:8443", "vllm", 8443),
        ] {
            assert_eq!(
                parse(url),
                Ok((
                    Target::Tcp {
                        host: host.to_owned(),
                        port
                    },
                    url.starts_with("https")
                )),
                "{url}"
            );
        }
        for url in ["unix:/run/s.sock", "unix:///run/s.sock"] {
            assert_eq!(parse(url), Ok((Target::Unix("/run/s.sock".into()), false)), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (url, what) in [
            ("https://", "is not a host with a port"),
            ("host:8000", "is not a URL of a model server"),
            ("tcp://10.0.0.1:80", "is not a URL of a model server"),
            ("http://", "is not a host with a port"),
            ("http://:8000", "is not a host with a port"),
            ("http://host:0", "is not a host with a port"),
            ("http://host:65536", "is not a host with a port"),
            ("http://host:+1", "is not a host with a port"),
            ("http://host:", "is not a host with a port"),
            ("http://::1:80", "is not a host with a port"),
            ("http://[::1", "is not a host with a port"),
            ("http://ho st", "is not a host with a port"),
            (
                "http://u:p@host",
                "carries credentials, and requests go through as the client sent them",
            ),
            ("http://host/v1", "has a path, and paths go through as the client sent them"),
            ("http://host?x", "has a path, and paths go through as the client sent them"),
            ("unix:", "is not the path of a Unix socket"),
            ("unix:/", "is not the path of a Unix socket"),
            ("unix:run/s.sock", "is not the path of a Unix socket"),
        ] {
            assert_eq!(parse(url).expect_err(url).what, what, "{url}");
        }
    }
}
