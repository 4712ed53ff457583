//! PEM files, with problems that name file and remedy.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::validity;
use crate::clock;
use crate::config::Problem;
use crate::mounted::Source;

/// The certificates in `pem`, one at least.
pub(super) fn certificates(source: &Source, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let right = "name a PEM file with `-----BEGIN CERTIFICATE-----` in it";
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| source.problem(format!("is no sound PEM file ({error})"), right))?;
    let Some(own) = certificates.first() else {
        return Err(source.problem("holds no certificate", right));
    };
    if let Some(days) = validity::days_since_end(own, clock::unix_seconds()) {
        tracing::warn!(
            key = source.key,
            file = %source.path.display(),
            days,
            "the certificate has expired: peers that check will refuse it; put a new one in the file, no restart is needed"
        );
    }
    Ok(certificates)
}

/// The first private key in `pem`.
pub(super) fn key(source: &Source, pem: &[u8]) -> Result<PrivateKeyDer<'static>, Problem> {
    // The reason given is about the framing, never the content.
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        source.problem(
            format!("holds no private key ({error})"),
            "name a PEM file with `-----BEGIN PRIVATE KEY-----` in it (PKCS #8, PKCS #1 or SEC 1, not encrypted)",
        )
    })
}

/// The certificates in `pem` as those that others must come from.
pub(super) fn roots(source: &Source, pem: &[u8]) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(source, pem)? {
        roots.add(certificate).map_err(|error| {
            source.problem(
                format!("holds a certificate that cannot be a CA's ({error})"),
                "name a PEM file of CA certificates",
            )
        })?;
    }
    Ok(roots)
}
