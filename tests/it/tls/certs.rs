//! Certificates of the tests' own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// A certificate authority of the test's own.
pub(super) struct Ca {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub(super) struct Own {
    pub(super) cert: String,
    pub(super) key: String,
}

impl Ca {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    pub(super) fn issue(&self, name: &str) -> Own {
        self.issue_as(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    pub(super) fn issue_as(&self, parameters: &CertificateParams) -> Own {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        Own {
            cert: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        roots
    }
}

impl Own {
    pub(super) fn write(&self, folder: &Path, name: &str) {
        fs::write(folder.join(format!("{name}.crt")), &self.cert).unwrap();
        fs::write(folder.join(format!("{name}.key")), &self.key).unwrap();
    }

    pub(super) fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (
            vec![CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap(),
        )
    }
}

/// A client's TLS settings: trusts `ca`, shows `own`.
pub(super) fn trusting(ca: &Ca, own: Option<&Own>, alpn: &[&str]) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(ca.roots());
    let mut config = match own.map(Own::parts) {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => builder.with_client_auth_cert(cert, key).unwrap(),
    };
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    config
}
