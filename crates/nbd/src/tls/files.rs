//! Certificates and keys from PEM files.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::VerifierBuilderError;

use super::error::TlsError;

/// Longest file that is read.
const FILE_LEN_MAX: u64 = 4 << 20;

/// The authorities that vouch for others.
pub(super) const CA_CERTIFICATE: &str = "ca-cert.pem";
/// What they have taken back; may be missing.
pub(super) const CA_REVOKED: &str = "ca-crl.pem";

fn bad(path: &Path, what: impl Into<String>) -> TlsError {
    TlsError::Bad {
        path: path.to_owned(),
        what: what.into(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_LEN_MAX {
        return Err(bad(path, "it is too long for certificates"));
    }
    std::fs::read(path).map_err(failed)
}

fn objects<T: PemObject>(path: &Path, what: &str) -> Result<Vec<T>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&text).collect();
    let found = found.map_err(|e| bad(path, format!("it is no PEM file: {e}")))?;
    if found.is_empty() {
        return Err(bad(path, format!("there is no {what} in it")));
    }
    Ok(found)
}

/// A certificate and those that vouch for it.
pub(super) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    objects(path, "certificate")
}

/// The first key.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let mut keys: Vec<PrivateKeyDer<'static>> = objects(path, "private key")?;
    Ok(keys.swap_remove(0))
}

/// Authorities to trust.
pub(super) fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots
            .add(certificate)
            .map_err(|e| bad(path, format!("a certificate in it cannot be used: {e}")))?;
    }
    Ok(Arc::new(roots))
}

/// As many of the authorities as can be understood; machines have old ones among theirs.
pub(super) fn roots_of_machine(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(chain(path)?).0 == 0 {
        return Err(bad(path, "no certificate in it can be used"));
    }
    Ok(Arc::new(roots))
}

/// Why certificates of `authority` cannot be verified, where `list` has what it took back. Names the file that is at fault.
pub(super) fn verifier_error(
    error: &VerifierBuilderError,
    authority: &Path,
    list: &Path,
) -> TlsError {
    match error {
        // A list of version 1 has no version in it: to a parser of version 2 it is no list at all.
        VerifierBuilderError::InvalidCrl(why) => bad(
            list,
            format!(
                "it is no revocation list that TLS takes, which must be of version 2 (OpenSSL makes those if its \
                 configuration has crl_extensions): {why:?}"
            ),
        ),
        other => bad(authority, other.to_string()),
    }
}

/// A number that changes with what is in these files. One that cannot be read counts as empty.
pub(super) fn fingerprint<'a>(paths: impl IntoIterator<Item = &'a Path>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in paths {
        read(path).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

/// What the authorities have taken back; nothing if there is no such file.
pub(super) fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    match objects(path, "revocation list") {
        Err(TlsError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        other => other,
    }
}
