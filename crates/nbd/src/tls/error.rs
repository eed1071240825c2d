//! [`TlsError`]: certificates that cannot be used. [`TlsFailure`]: a handshake that failed.

use std::io;
use std::net::IpAddr;
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
    /// No trusted authority is known.
    #[error(
        "no authority is known that could vouch for the server; add ?tls-certificates=DIR with \
         the server's ca-cert.pem in DIR"
    )]
    NoAuthority,
    /// The name cannot stand in a certificate.
    #[error("{0:?} is no name that a server's certificate could have")]
    ServerName(String),
    /// The options do not work together.
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
    /// It sent more than a handshake has.
    #[error("the other side sent too much for a TLS handshake")]
    TooMuch,
    /// Its certificate is no good, or it speaks no TLS that is spoken here, or it says no.
    #[error("{}", describe_error(.0))]
    Refused(rustls::Error),
}

impl From<rustls::Error> for TlsFailure {
    fn from(error: rustls::Error) -> Self {
        Self::Refused(error)
    }
}

fn describe_error(error: &rustls::Error) -> String {
    let text = match error {
        rustls::Error::InvalidCertificate(bad) => return describe_certificate_error(bad),
        rustls::Error::NoCertificatesPresented => "the client has shown no certificate",
        rustls::Error::PeerIncompatible(_) => {
            "it speaks no TLS 1.3 (nor 1.2, where tls-minimum allows that), or none of its ciphers"
        }
        rustls::Error::InvalidMessage(_) => "it does not speak TLS here",
        rustls::Error::PeerMisbehaved(_)
        | rustls::Error::InappropriateMessage { .. }
        | rustls::Error::InappropriateHandshakeMessage { .. } => "it breaks the rules of TLS",
        rustls::Error::InvalidCertRevocationList(_) => {
            "the list of certificates that were revoked cannot be used"
        }
        rustls::Error::AlertReceived(alert) => {
            return super::channel::alert_text((*alert).into());
        }
        other => return format!("TLS: {other}"),
    };
    text.to_owned()
}

fn describe_certificate_error(bad: &CertificateError) -> String {
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
            let others: Vec<String> = presented.iter().map(|name| plain_name(name)).collect();
            return match others.as_slice() {
                [] => format!("its certificate is not for {name}: it names no host"),
                others => format!(
                    "its certificate is not for {name}, but for {}",
                    others.join(", ")
                ),
            };
        }
        Bad::BadEncoding => "is not encoded as certificates are",
        Bad::UnknownRevocationStatus
        | Bad::ExpiredRevocationList
        | Bad::ExpiredRevocationListContext { .. } => {
            "may be revoked: no list of revoked certificates that is valid speaks of it"
        }
        Bad::NotValidForName => "is for another name",
        // The text of rustls for the rest is its own debug output.
        _ => "cannot be used: see it with `openssl x509 -text`",
    };
    format!("its certificate {text}")
}

/// A name of a certificate without the code that rustls puts around it, and addresses in the usual notation:
/// `DnsName("nas.lan")`, `IpAddress(0::1)`.
pub(super) fn plain_name(presented: &str) -> String {
    let inner = presented
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    let plain = inner.unwrap_or(presented).trim_matches('"');
    let address = plain.parse::<IpAddr>();
    address.map_or_else(|_| plain.to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    //! Tests of the texts on certificates.

    use super::plain_name;

    #[test]
    fn names_of_certificates_are_formatted_without_code() {
        for (presented, plain) in [
            ("DnsName(\"nas.lan\")", "nas.lan"),
            ("DnsName(\"*.lan\")", "*.lan"),
            ("IpAddress(127.0.0.1)", "127.0.0.1"),
            ("IpAddress(0::1)", "::1"),
            ("nas", "nas"),
        ] {
            assert_eq!(plain_name(presented), plain);
        }
    }
}
