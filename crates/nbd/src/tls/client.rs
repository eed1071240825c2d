//! [`ClientTls`]: the authorities that a client trusts, and the certificate that it presents.
//!
//! Without a folder of its own, the folders that libnbd looks in are looked in, and then the
//! machine's own authorities are trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nbd_proto::TlsVersion;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::error::TlsError;
use super::files;
use super::provider::{Clock, provider, versions};

/// Where Linux distributions keep the authorities that the machine trusts.
const MACHINE_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
/// Where libnbd looks for certificates, below the home folder…
const HOME_FOLDERS: [&str; 2] = [".pki/libnbd", ".config/pki/libnbd"];
/// …and for the superuser.
const SYSTEM_FOLDER: &str = "/etc/pki/libnbd";

/// Whether the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VerifyPeer {
    /// Its certificate must be signed by a trusted authority, and be for its name.
    #[default]
    Yes,
    /// Any certificate is accepted. This protects from eavesdroppers, but not from an impostor.
    No,
}

/// A client's side of TLS.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ClientTls {
    /// TLS with a server that must have a certificate for `name`, an address or a host's name.
    /// `folder` holds `ca-cert.pem`, and `client-cert.pem` with `client-key.pem` where the server
    /// wants a certificate; `None`: wherever they are kept on this machine. No version of TLS before `minimum` will do.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load(
        name: &str,
        folder: Option<&Path>,
        verify: VerifyPeer,
        minimum: TlsVersion,
    ) -> Result<Self, TlsError> {
        Self::with_provider(name, folder, verify, provider(minimum))
    }

    /// [`load`](Self::load) with these ciphers, and the versions that they are of.
    pub(super) fn with_provider(
        name: &str,
        folder: Option<&Path>,
        verify: VerifyPeer,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let found;
        let folder = match folder {
            Some(folder) => Some(folder),
            None => {
                found = folder_of_user();
                found.as_deref()
            }
        };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| TlsError::ServerName(name.to_owned()))?;
        let builder = ClientConfig::builder_with_details(provider.clone(), Arc::new(Clock))
            .with_protocol_versions(&versions(&provider))
            .map_err(|e| TlsError::Setting(e.to_string()))?;
        let verifier: Arc<dyn ServerCertVerifier> = match verify {
            VerifyPeer::Yes => server_verifier(folder, provider)?,
            VerifyPeer::No => Arc::new(AnyServerCertificate(provider)),
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let pair = folder.map(own_pair).filter(|pair| pair.0.exists());
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(files::chain(&certificate)?, files::key(&key)?)
                .map_err(|e| TlsError::Pair {
                    what: e.to_string(),
                    certificate,
                    key,
                })?,
        };
        config.enable_secret_extraction = true;
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// The configuration of rustls, and the name that the server's certificate must have: for protocols
    /// that are not NBD.
    #[must_use]
    pub fn parts(&self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (self.config.clone(), self.name.clone())
    }
}

/// Whether a certificate could have this name: an address, or a host's name.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

fn own_pair(folder: &Path) -> (PathBuf, PathBuf) {
    (
        folder.join("client-cert.pem"),
        folder.join("client-key.pem"),
    )
}

/// Where libnbd would find certificates.
fn folder_of_user() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let homes = home
        .into_iter()
        .flat_map(|home| HOME_FOLDERS.map(|folder| Path::new(&home).join(folder)));
    let mut folders = homes.chain([PathBuf::from(SYSTEM_FOLDER)]);
    folders.find(|folder| folder.join(files::CA_CERTIFICATE).exists())
}

fn server_verifier(
    folder: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let (path, roots, revoked) = match folder {
        Some(folder) => {
            let path = folder.join(files::CA_CERTIFICATE);
            let roots = files::roots(&path)?;
            (
                path,
                roots,
                files::revoked(&folder.join(files::CA_REVOKED))?,
            )
        }
        None => {
            let mut places = MACHINE_ROOTS.iter().map(PathBuf::from);
            let path = places
                .find(|path| path.exists())
                .ok_or(TlsError::NoAuthority)?;
            let roots = files::roots_of_machine(&path)?;
            (path, roots, Vec::new())
        }
    };
    let mut builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
    if !revoked.is_empty() {
        builder = builder
            .with_crls(revoked)
            .only_check_end_entity_revocation();
    }
    let list = path.with_file_name(files::CA_REVOKED);
    let built = builder.build();
    built.map_err(|e| files::verifier_error(&e, &path, &list))
}

/// Accepts any certificate of which the server has the key (`tls-verify-peer=false`).
#[derive(Debug)]
struct AnyServerCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServerCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
