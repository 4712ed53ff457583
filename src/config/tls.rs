//! TLS of each port and the admin port's token as configured: which files, not what is in them; those change while the proxy runs.

use std::path::PathBuf;

use config::ValueKind;

use super::leaf::Leaf;
use super::problem::Wrong;
use super::section::{Reader, Section};

/// A certificate chain and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertFiles {
    /// The chain, the own certificate first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// TLS on the traffic port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// What clients are shown.
    pub own: CertFiles,
    /// CA certificates that a client's must come from; none: clients need none.
    pub client_ca: Option<PathBuf>,
}

/// TLS to the model server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// CA certificates that the server's must come from; none: the system's.
    pub ca: Option<PathBuf>,
    /// What the server is shown when it asks.
    pub own: Option<CertFiles>,
    /// The name that the server's certificate must have.
    pub server_name: String,
}

/// Who may use the admin port. `/livez` and `/readyz` are open always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminAuth {
    /// Holds the bearer token; none: no token is asked for.
    pub token_file: Option<PathBuf>,
    /// Whether `/metrics` asks for it too.
    pub metrics: bool,
}

pub(super) fn server(cx: &mut Reader, root: &Section<'_>) -> Option<ServerTls> {
    let s = cx.section(root, "tls");
    let own = own(cx, &s);
    let client_ca = cx.get(&s, "client_ca", path);
    if own.is_none() && client_ca.is_some() && cx.problems.is_empty() {
        let wrong = Wrong::new(
            "asks clients for certificates, but the port speaks no TLS",
            "set `tls.cert` and `tls.key`",
        );
        cx.problem(&s, "client_ca", wrong);
    }
    own.map(|own| ServerTls { own, client_ca })
}

/// `https` says whether the upstream's address asks for TLS, to `host`.
pub(super) fn client(cx: &mut Reader, upstream: &Section<'_>, https: bool, host: &str) -> Option<ClientTls> {
    let s = cx.section(upstream, "tls");
    let tls = ClientTls {
        ca: cx.get(&s, "ca", path),
        own: own(cx, &s),
        server_name: cx.get(&s, "server_name", name).unwrap_or_else(|| host.to_owned()),
    };
    for key in ["ca", "cert", "key", "server_name"] {
        if !https && s.has(key) && !cx.get(&s, key, |leaf| Ok(is_empty(leaf))) {
            let wrong = Wrong::new(
                "is for an `https://` server only",
                "write `upstream.url` with `https://`, or leave it out",
            );
            cx.problem(&s, key, wrong);
        }
    }
    if https && rustls::pki_types::ServerName::try_from(tls.server_name.as_str()).is_err() && !s.has("server_name") {
        let wrong = Wrong::new(
            format!("is not set, and the host {host:?} is no name that a certificate can have"),
            "write the name in the server's certificate",
        );
        cx.problem(&s, "server_name", wrong);
    }
    https.then_some(tls)
}

pub(super) fn admin(cx: &mut Reader, root: &Section<'_>) -> Option<CertFiles> {
    let s = cx.section(root, "admin_tls");
    own(cx, &s)
}

pub(super) fn admin_auth(cx: &mut Reader, root: &Section<'_>) -> AdminAuth {
    let s = cx.section(root, "admin_auth");
    AdminAuth {
        token_file: cx.get(&s, "token_file", path),
        metrics: cx.get(&s, "metrics", Leaf::boolean),
    }
}

/// Certificate and key: both or neither.
fn own(cx: &mut Reader, s: &Section<'_>) -> Option<CertFiles> {
    let (cert, key) = (cx.get(s, "cert", path), cx.get(s, "key", path));
    for (given, name, other, missing) in [(&cert, "cert", &key, "key"), (&key, "key", &cert, "cert")] {
        // A file that is written but wrong is a problem of its own.
        if given.is_some() && other.is_none() && !s.has(missing) {
            let wrong = Wrong::new(
                format!("has no `{missing}` beside it"),
                "certificate and key go together: write both files or neither",
            );
            cx.problem(s, name, wrong);
        }
    }
    Some(CertFiles { cert: cert?, key: key? })
}

fn is_empty(leaf: &Leaf) -> bool {
    matches!(&leaf.kind, ValueKind::String(text) if text.is_empty())
}

fn path(leaf: &Leaf) -> Result<Option<PathBuf>, Wrong> {
    if is_empty(leaf) {
        return Ok(None);
    }
    leaf.text().map(|text| Some(PathBuf::from(text)))
}

fn name(leaf: &Leaf) -> Result<Option<String>, Wrong> {
    if is_empty(leaf) {
        return Ok(None);
    }
    let name = leaf.text()?.trim();
    match rustls::pki_types::ServerName::try_from(name) {
        Ok(_) => Ok(Some(name.to_owned())),
        Err(_) => Err(Wrong::new(
            "is no name of a server",
            "write a DNS name or an IP address, as in `vllm.default.svc`",
        )),
    }
}
