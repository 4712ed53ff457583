//! Connections to the upstream over TLS. The handshake is part of connecting, and of its time limit.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::connect::Connector;
use super::socket::BoxIo;
use crate::mounted::Mounted;

impl Connector {
    /// The same connections, with TLS on them, to a server that can prove to be `name`. The settings are those of the moment.
    pub fn over_tls(self, settings: Arc<Mounted<ClientConfig>>, name: ServerName<'static>) -> Self {
        Self::new(move || {
            let (connector, settings, name) = (self.clone(), settings.get(), name.clone());
            async move {
                let io = connector.connect().await?;
                let handshake = TlsConnector::from(settings).connect(name, io).await;
                let stream = handshake.map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}")))?;
                Ok(Box::new(stream) as BoxIo)
            }
        })
    }
}
