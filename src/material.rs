//! Everything the configuration names files for, read before anything is served.

use std::sync::Arc;

use rustls::{ClientConfig, ServerConfig};

use crate::admin::Token;
use crate::config::{Config, Problem};
use crate::mounted::{Mounted, Refresh};
use crate::tls;

/// Certificates and token; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Material {
    /// For connections of clients to the traffic port; none: clear text.
    pub clients: Option<Arc<Mounted<ServerConfig>>>,
    /// For connections to the admin port; none: clear text.
    pub admin: Option<Arc<Mounted<ServerConfig>>>,
    /// For connections to the upstream; none: clear text.
    pub upstream: Option<Arc<Mounted<ClientConfig>>>,
    /// What the admin port asks for.
    pub token: Option<Arc<Mounted<Token>>>,
}

impl Material {
    /// Reads every file that `config` names.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn load(config: &Config) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let material = Self {
            clients: take(config.tls.as_ref().map(tls::server), &mut problems),
            admin: take(config.admin_tls.as_ref().map(tls::admin), &mut problems),
            upstream: take(
                config
                    .upstream
                    .tls
                    .as_ref()
                    .map(|tls| tls::client(tls, config.upstream.protocol)),
                &mut problems,
            ),
            token: take(config.admin_auth.token_file.as_deref().map(Token::mounted), &mut problems),
        };
        if problems.is_empty() { Ok(material) } else { Err(problems) }
    }

    /// What is to be looked at for changes.
    pub(crate) fn watched(&self) -> Vec<Arc<dyn Refresh>> {
        let clients = self.clients.clone().map(|m| m as Arc<dyn Refresh>);
        let admin = self.admin.clone().map(|m| m as Arc<dyn Refresh>);
        let upstream = self.upstream.clone().map(|m| m as Arc<dyn Refresh>);
        let token = self.token.clone().map(|m| m as Arc<dyn Refresh>);
        [clients, admin, upstream, token].into_iter().flatten().collect()
    }
}

fn take<T>(loaded: Option<Result<Mounted<T>, Vec<Problem>>>, problems: &mut Vec<Problem>) -> Option<Arc<Mounted<T>>> {
    match loaded? {
        Ok(mounted) => Some(Arc::new(mounted)),
        Err(mut found) => {
            problems.append(&mut found);
            None
        }
    }
}
