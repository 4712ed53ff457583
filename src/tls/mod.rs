//! TLS by rustls: settings for new connections, made of PEM files and made again when those change. Connections under way keep what
//! they began with.
//!
//! TLS 1.2 and 1.3 with rustls's own choice of ciphers. An expired certificate is only warned about: refusing to start with it helps
//! nobody, and clients refuse it for themselves.

mod pem;
mod pinned;
mod validity;

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::config::{CertFiles, ClientTls, Problem, Protocol, ServerTls};
use crate::mounted::{Mounted, Source};

pub(crate) use pinned::pinned;

/// What the traffic port offers, best first.
const ALPN_SERVER: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// What the upstream is offered where HTTP/1.1 is spoken to it, and what the admin port offers.
const ALPN_HTTP1: [&[u8]; 1] = [b"http/1.1"];
/// What the upstream is offered where HTTP/2 is.
const ALPN_HTTP2: [&[u8]; 1] = [HTTP2];
/// HTTP/2 in ALPN.
pub(crate) const HTTP2: &[u8] = b"h2";

/// For connections of clients to the traffic port.
///
/// # Errors
/// Everything that is wrong with the files.
pub fn server(tls: &ServerTls) -> Result<Mounted<ServerConfig>, Vec<Problem>> {
    let cert = Source::new("tls.cert", &tls.own.cert);
    let key = Source::new("tls.key", &tls.own.key);
    let ca = tls.client_ca.as_deref().map(|path| Source::new("tls.client_ca", path));
    serving(cert, key, ca, &ALPN_SERVER)
}

/// For connections to the admin port.
///
/// # Errors
/// Everything that is wrong with the files.
pub fn admin(own: &CertFiles) -> Result<Mounted<ServerConfig>, Vec<Problem>> {
    let cert = Source::new("admin_tls.cert", &own.cert);
    let key = Source::new("admin_tls.key", &own.key);
    serving(cert, key, None, &ALPN_HTTP1)
}

/// A port that shows `cert`; with a `ca`, its clients must show a certificate of it.
fn serving(
    cert: Source,
    key: Source,
    ca: Option<Source>,
    alpn: &'static [&'static [u8]],
) -> Result<Mounted<ServerConfig>, Vec<Problem>> {
    let sources: Vec<_> = [Some(cert.clone()), Some(key.clone()), ca.clone()]
        .into_iter()
        .flatten()
        .collect();
    Mounted::new(sources, move |contents| {
        let chain = pem::certificates(&cert, &contents[0])?;
        let private = pem::key(&key, &contents[1])?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(VERSIONS);
        // invariant: the provider has ciphers for both versions.
        let builder = builder.expect("the provider speaks TLS 1.2 and 1.3");
        let builder = match &ca {
            None => builder.with_no_client_auth(),
            Some(source) => {
                let roots = Arc::new(pem::roots(source, &contents[2])?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let verifier = verifier
                    .map_err(|error| source.problem(format!("cannot be used ({error})"), "name a PEM file of CA certificates"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, private)
            .map_err(|error| mismatch(&key, &error))?;
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    })
}

/// For connections to the upstream, over which `protocol` is spoken.
///
/// # Errors
/// Everything that is wrong with the files.
pub fn client(tls: &ClientTls, protocol: Protocol) -> Result<Mounted<ClientConfig>, Vec<Problem>> {
    let ca = tls.ca.as_deref().map(|path| Source::new("upstream.tls.ca", path));
    let own = tls
        .own
        .as_ref()
        .map(|CertFiles { cert, key }| (Source::new("upstream.tls.cert", cert), Source::new("upstream.tls.key", key)));
    let alpn = match protocol {
        Protocol::Http1 => ALPN_HTTP1,
        Protocol::H2 | Protocol::H2c => ALPN_HTTP2,
    };
    let mut sources = Vec::new();
    if let Some((cert, key)) = &own {
        sources.extend([cert.clone(), key.clone()]);
    }
    sources.extend(ca.clone());
    Mounted::new(sources, move |contents| {
        let roots = match (&ca, contents.last()) {
            (Some(source), Some(content)) => pem::roots(source, content)?,
            _ => system_roots()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_protocol_versions(VERSIONS);
        // invariant: the provider has ciphers for both versions.
        let builder = builder
            .expect("the provider speaks TLS 1.2 and 1.3")
            .with_root_certificates(roots);
        let mut config = match &own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let (chain, private) = (pem::certificates(cert, &contents[0])?, pem::key(key, &contents[1])?);
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| mismatch(key, &error))?
            }
        };
        config.alpn_protocols = alpn.map(<[u8]>::to_vec).into();
        Ok(config)
    })
}

const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

fn system_roots() -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Problem {
            path: "upstream.tls.ca".to_owned(),
            value: String::new(),
            what: "is not set, and the system has no CA certificates".to_owned(),
            right: "name a PEM file of the CA that the server's certificate comes from".to_owned(),
        });
    }
    Ok(roots)
}

/// Why certificate and key cannot be used together.
fn mismatch(key: &Source, error: &rustls::Error) -> Problem {
    let what = match error {
        rustls::Error::InconsistentKeys(_) => "does not belong to the certificate".to_owned(),
        other => format!("cannot be used with the certificate ({other})"),
    };
    key.problem(what, "name the key that the first certificate of the chain was made for")
}
