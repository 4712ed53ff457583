//! A client that accepts one certificate only: that in a file. For asking a server whose certificate is at hand, under whatever name
//! it is reached; neither name, end nor issuer of the certificate matter then, the server's proof that it holds the key does.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::VERSIONS;

/// Accepts the first certificate in the PEM file at `path`.
///
/// # Errors
/// Why that file cannot be used.
pub(crate) fn pinned(path: &Path) -> Result<ClientConfig, String> {
    let unusable = |why: String| format!("{}: {why}", path.display());
    let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let expected = CertificateDer::from_pem_slice(&pem).map_err(|error| unusable(error.to_string()))?;
    let provider = Arc::new(ring::default_provider());
    let only = Arc::new(Only {
        expected,
        provider: Arc::clone(&provider),
    });
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(VERSIONS);
    // invariant: the provider has ciphers for both versions.
    let builder = builder.expect("the provider speaks TLS 1.2 and 1.3");
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(only)
        .with_no_client_auth())
}

#[derive(Debug)]
struct Only {
    expected: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.expected {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
