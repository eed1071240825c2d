//! [`TlsError`]: certificates that cannot be used. [`TlsFailure`]: a handshake that failed.

use std::io;
use std::path::PathBuf;

use rustls::CertificateError;

/// Certificates or keys that cannot be used. Names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", .path.display())]
    Bad {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Certificate and key do not belong together, or cannot be used by a server.
    #[error("{} and {}: {what}", .certificate.display(), .key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        what: String,
    },
    /// Nobody is trusted to vouch for servers.
    #[error(
        "no authority is known that could vouch for the server; add ?tls-certificates=DIR with \
         the server's ca-cert.pem in DIR"
    )]
    NoAuthority,
    /// The name cannot stand in a certificate.
    #[error("{0:?} is no name that a server's certificate could have")]
    ServerName(String),
    /// What was asked for does not work together.
    #[error("TLS: {0}")]
    Setting(String),
}

/// Why a TLS handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum TlsFailure {
    /// The connection failed below.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side closed the connection.
    #[error("the other side left in the TLS handshake")]
    Left,
    /// It said more than a handshake has.
    #[error("the other side sent too much for a TLS handshake")]
    TooMuch,
    /// Its certificate is no good, or it speaks no TLS that is spoken here, or it says no.
    #[error("{}", tell(.0))]
    Refused(rustls::Error),
}

impl From<rustls::Error> for TlsFailure {
    fn from(error: rustls::Error) -> Self {
        Self::Refused(error)
    }
}

fn tell(error: &rustls::Error) -> String {
    let text = match error {
        rustls::Error::InvalidCertificate(bad) => return tell_certificate(bad),
        rustls::Error::NoCertificatesPresented => "the client has shown no certificate",
        rustls::Error::PeerIncompatible(_) => "it speaks no TLS 1.3, or none of its ciphers",
        rustls::Error::InvalidMessage(_) => "it does not speak TLS here",
        rustls::Error::AlertReceived(alert) => {
            return super::channel::alert_text((*alert).into());
        }
        other => return format!("TLS: {other}"),
    };
    text.to_owned()
}

fn tell_certificate(bad: &CertificateError) -> String {
    use CertificateError as Bad;
    let text = match bad {
        Bad::Expired | Bad::ExpiredContext { .. } => "has expired",
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            "is not valid yet (is the clock right?)"
        }
        // A bad signature: by another authority of the same name.
        Bad::UnknownIssuer | Bad::BadSignature => {
            "is not signed by an authority that is trusted here"
        }
        Bad::Revoked => "is revoked",
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => "is not made for this purpose",
        Bad::NotValidForNameContext {
            expected,
            presented,
        } => {
            let name = expected.to_str();
            let others = presented.join(", ");
            return format!("its certificate is not for {name}, but for {others}");
        }
        Bad::NotValidForName => "is for another name",
        other => return format!("its certificate cannot be used: {other}"),
    };
    format!("its certificate {text}")
}
