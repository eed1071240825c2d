//! [`ServerTls`]: the server's certificate, and the authorities that sign its clients'.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use nbd_proto::TlsVersion;
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use super::channel::REKEY_AFTER;
use super::error::TlsError;
use super::files;
use super::provider::{Clock, has_aes, provider, versions};

/// Whether clients must use TLS. One that must and does not gets an error, and sees no export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// As the client likes.
    Optional,
    /// Clients that may be on another machine must.
    #[default]
    Network,
    /// All must, over Unix sockets too.
    All,
}

/// Which certificates of clients the server requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None. All clients that reach the server are admitted.
    Ignored,
    /// A client without one is let in too; one that shows a bad one is not.
    Welcome {
        /// The authorities that sign them.
        authority: PathBuf,
    },
    /// A client without one is refused.
    Required {
        /// The authorities that sign them.
        authority: PathBuf,
    },
}

/// Where a server's certificates are, and which TLS they are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// Its certificate, and those that vouch for it behind.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Certificates of clients.
    pub clients: ClientCertificates,
    /// The oldest version of TLS that clients may use.
    pub minimum: TlsVersion,
}

impl ServerTlsFiles {
    /// The files of a folder as libnbd, nbdkit and qemu lay it out: `server-cert.pem`,
    /// `server-key.pem`, and `ca-cert.pem` for the certificates that clients must have. TLS 1.3 only.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            certificate: folder.join("server-cert.pem"),
            key: folder.join("server-key.pem"),
            clients: ClientCertificates::Required {
                authority: folder.join(files::CA_CERTIFICATE),
            },
            minimum: TlsVersion::default(),
        }
    }
}

impl ServerTlsFiles {
    fn fingerprint(&self) -> u64 {
        let authority = match &self.clients {
            ClientCertificates::Ignored => None,
            ClientCertificates::Welcome { authority }
            | ClientCertificates::Required { authority } => Some(authority),
        };
        let list = authority.map(|authority| revocation_list(authority));
        let all = [
            Some(&self.certificate),
            Some(&self.key),
            authority,
            list.as_ref(),
        ];
        files::fingerprint(all.into_iter().flatten().map(PathBuf::as_path))
    }
}

/// Where the list of what an authority has taken back is.
fn revocation_list(authority: &Path) -> PathBuf {
    authority.with_file_name(files::CA_REVOKED)
}

/// A server's side of TLS. Clones are one: a reload is seen by all.
#[derive(Debug, Clone)]
pub struct ServerTls(Arc<SharedTls>);

#[derive(Debug)]
struct SharedTls {
    current: RwLock<CurrentConfig>,
    rekey_after: u64,
}

#[derive(Debug)]
struct CurrentConfig {
    files: ServerTlsFiles,
    /// Of what was in the files.
    fingerprint: u64,
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads the files. Where a revocation list (`ca-crl.pem`) lies next to the clients' authority,
    /// it is applied.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn load(files: ServerTlsFiles) -> Result<Self, TlsError> {
        Self::with_rekey_after(files, REKEY_AFTER)
    }

    pub(super) fn with_rekey_after(
        files: ServerTlsFiles,
        rekey_after: u64,
    ) -> Result<Self, TlsError> {
        let fingerprint = files.fingerprint();
        let config = config(&files)?;
        Ok(Self(Arc::new(SharedTls {
            current: RwLock::new(CurrentConfig {
                files,
                fingerprint,
                config,
            }),
            rekey_after,
        })))
    }

    /// Reads its files again. New handshakes use what was read, connections that are there go on
    /// with what they have.
    ///
    /// Returns whether what is in them is different.
    ///
    /// # Errors
    /// [`TlsError`]; nothing has changed then.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let current = self
            .0
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let files = current.files.clone();
        drop(current);
        self.replace(files)
    }

    /// [`reload`](Self::reload) from other files.
    ///
    /// # Errors
    /// [`TlsError`]; nothing has changed then.
    pub fn replace(&self, files: ServerTlsFiles) -> Result<bool, TlsError> {
        // Before the rest: a file that is replaced meanwhile is different at the next reload.
        let fingerprint = files.fingerprint();
        let config = config(&files)?;
        let mut current = self
            .0
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let is_different =
            current.fingerprint != fingerprint || current.files.minimum != files.minimum;
        *current = CurrentConfig {
            files,
            fingerprint,
            config,
        };
        Ok(is_different)
    }

    /// The configuration of rustls, for protocols that are not NBD.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        let current = self
            .0
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        current.config.clone()
    }

    pub(super) fn rekey_after(&self) -> u64 {
        self.0.rekey_after
    }
}

fn config(files: &ServerTlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = files::chain(&files.certificate)?;
    let key = files::key(&files.key)?;
    let provider = provider(files.minimum);
    let builder = ServerConfig::builder_with_details(provider.clone(), Arc::new(Clock))
        .with_protocol_versions(&versions(&provider))
        .map_err(|e| TlsError::Setting(e.to_string()))?;
    let builder = match verifier(files)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let built = builder.with_single_cert(certificates, key);
    let mut config = built.map_err(|e| TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        what: match e {
            rustls::Error::InconsistentKeys(_) => "the key is another certificate's".to_owned(),
            other => other.to_string(),
        },
    })?;
    config.enable_secret_extraction = true;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A client knows best what is fast for it, unless it is slow here.
    config.ignore_client_order = !has_aes();
    Ok(Arc::new(config))
}

fn verifier(files: &ServerTlsFiles) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let (authority, is_required) = match &files.clients {
        ClientCertificates::Ignored => return Ok(None),
        ClientCertificates::Welcome { authority } => (authority, false),
        ClientCertificates::Required { authority } => (authority, true),
    };
    let provider = provider(files.minimum);
    let roots = files::roots(authority)?;
    let list = revocation_list(authority);
    let revoked = files::revoked(&list)?;
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if !revoked.is_empty() {
        builder = builder
            .with_crls(revoked)
            .only_check_end_entity_revocation();
    }
    if !is_required {
        builder = builder.allow_unauthenticated();
    }
    let built = builder
        .build()
        .map_err(|e| files::verifier_error(&e, authority, &list))?;
    Ok(Some(built))
}
