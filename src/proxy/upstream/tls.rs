//! Connections to the upstream over TLS. The handshake is part of connecting, and of its time limit; so is the server's word, by
//! ALPN, that it speaks HTTP/2 where that is configured.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio_rustls::TlsConnector;

use super::connect::Connector;
use super::socket::Socket;
use crate::mounted::Mounted;
use crate::tls;

impl Connector {
    /// The same connections, with TLS on them, to a server that can prove to be `name`. The settings are those of the moment.
    pub fn over_tls(self, settings: Arc<Mounted<ClientConfig>>, name: ServerName<'static>) -> Self {
        Self(Arc::new(move || {
            let (connector, settings, name) = (self.clone(), settings.get(), name.clone());
            Box::pin(async move {
                let http2 = settings.alpn_protocols.iter().any(|protocol| protocol == tls::HTTP2);
                let io = connector.connect().await?;
                let handshake = TlsConnector::from(settings).connect(name, io).await;
                let stream = handshake.map_err(|error| io::Error::new(error.kind(), refused(&error, http2)))?;
                // A server that knows nothing of ALPN just goes on, in HTTP/1.1 as a rule.
                if http2 && stream.get_ref().1.alpn_protocol() != Some(tls::HTTP2) {
                    return Err(io::Error::other(NO_HTTP2));
                }
                Ok(Socket::Tls(Box::new(stream)))
            })
        }))
    }
}

const NO_HTTP2: &str = "TLS: the server did not pick HTTP/2 (ALPN `h2`); set `upstream.protocol: http1`";
const NO_HTTP1: &str = "TLS: the server speaks no HTTP/1.1 (ALPN `http/1.1`); set `upstream.protocol: h2`";

/// Why there is no connection, with the remedy where it is one of ours.
fn refused(error: &io::Error, http2: bool) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) if http2 => NO_HTTP2.to_owned(),
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => NO_HTTP1.to_owned(),
        _ => format!("TLS: {error}"),
    }
}
