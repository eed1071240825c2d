//! The hosts that a server's certificate is for: what clients must call it.

use std::path::Path;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error};

use super::error::{TlsError, plain_name};
use super::files;

/// A name that no certificate has (RFC 2606): the error for it lists all names of the certificate.
const NOBODY: &str = "outboard.invalid";

/// The names and addresses that the first certificate in `path` is for, in its order.
///
/// # Errors
/// It cannot be read, or is no certificate.
pub fn certificate_hosts(path: &Path) -> Result<Vec<String>, TlsError> {
    let bad = |what: String| TlsError::Bad {
        path: path.to_owned(),
        what,
    };
    let chain = files::chain(path)?;
    let parsed = ParsedCertificate::try_from(&chain[0])
        .map_err(|_| bad("it is no certificate that can be used".to_owned()))?;
    let nobody = ServerName::try_from(NOBODY).expect("a name");
    match verify_server_name(&parsed, &nobody) {
        Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        })) => Ok(presented.iter().map(|name| plain_name(name)).collect()),
        _ => Ok(Vec::new()),
    }
}
