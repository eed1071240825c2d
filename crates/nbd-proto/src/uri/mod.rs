//! [`NbdUri`]: the address of an export, as doc/uri.md of NetworkBlockDevice/nbd writes it.
//!
//! ```text
//! nbd://HOST[:PORT]/EXPORT               nbds://…          the same under TLS, or not at all
//! nbd+unix:///EXPORT?socket=PATH         nbds+unix://…
//! nbd+vsock://[CID[:PORT]]/EXPORT        nbds+vsock://…
//! ```
//!
//! Our own is a list of servers that have the same disk: hosts separated by commas (`nbd://a,b:10810/EXPORT`), context ids
//! likewise, and one `socket=` for each Unix socket. `fenced-after=SECONDS` belongs to such a list.
//!
//! The export is everything behind the first slash, percent-decoded. Under TLS there may be
//! `tls-certificates=DIR`, `tls-hostname=NAME`, `tls-verify-peer=0`, `tls-type=x509`, and `tls-minimum=1.2`, which is our
//! own. Every query parameter that would be ignored is refused, and so is what would only perhaps be under TLS.

mod parse;
mod percent;

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::consts::DEFAULT_PORT;
use percent::encode;

/// The host of a virtual machine, as its guests see it: the context id where an address has none.
const VSOCK_HOST: u32 = 2;

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix domain socket. A path that begins with NUL is an abstract name.
    Unix(PathBuf),
    /// A socket between a virtual machine and its host.
    Vsock {
        /// Context id of the machine; 2 is the host.
        cid: u32,
        /// Port.
        port: u32,
    },
}

/// A version of TLS that connections may have at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TlsVersion {
    /// TLS 1.2, for peers with no other.
    Tls12,
    /// TLS 1.3.
    #[default]
    Tls13,
}

impl TlsVersion {
    /// Its number, as options and addresses have it.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    /// The version with this number; `None` where it is not supported.
    #[must_use]
    pub fn from_number(number: &str) -> Option<Self> {
        [Self::Tls12, Self::Tls13]
            .into_iter()
            .find(|version| version.number() == number)
    }
}

/// What an address says about TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UriTls {
    /// The folder of the certificates: `ca-cert.pem`, and with a certificate of the client's own
    /// `client-cert.pem` and `client-key.pem`.
    pub certificates: Option<PathBuf>,
    /// The name the server's certificate must have; else the host's.
    pub hostname: Option<String>,
    /// Whether the server's certificate is verified. Without, TLS protects from listeners only.
    pub verify_peer: bool,
    /// The oldest version of TLS that will do.
    pub minimum: TlsVersion,
}

impl Default for UriTls {
    fn default() -> Self {
        Self {
            certificates: None,
            hostname: None,
            verify_peer: true,
            minimum: TlsVersion::default(),
        }
    }
}

/// Servers of one address, at most.
pub const SERVERS_MAX: usize = 8;
/// Longest `fenced-after`.
const FENCED_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Server and export.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NbdUri {
    /// The server, or the first of several.
    pub transport: Transport,
    /// Further servers of the same disk, each named once; [`SERVERS_MAX`] with the first.
    pub others: Vec<Transport>,
    /// How long after its last answer a server carries out nothing more, because something outside of NBD fences it.
    /// Whole seconds; only with [`Self::others`].
    pub fenced_after: Option<Duration>,
    /// Whether the session must be under TLS, and how.
    pub tls: Option<UriTls>,
    /// The export's name; empty for the default one.
    pub export: String,
}

/// Why a text is no address of an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// Nothing like `scheme://`.
    #[error("an NBD address begins with nbd://, nbds:// or nbd+unix://")]
    NoScheme,
    /// Some other scheme.
    #[error(
        "scheme {0:?} is not NBD's; use nbd, nbds, nbd+unix, nbds+unix, nbd+vsock or nbds+vsock"
    )]
    Scheme(String),
    /// `nbd://` without a host.
    #[error("nbd:// needs a host, as in nbd://server/export")]
    NoHost,
    /// `nbd+unix://` with a host.
    #[error("nbd+unix:// takes no host; write nbd+unix:///EXPORT?socket=PATH")]
    HostWithSocket,
    /// A user name.
    #[error("user names are only for pre-shared keys, which are not supported; use certificates")]
    User,
    /// Not a number from 1 to 65535.
    #[error("{0:?} is not a port")]
    Port(String),
    /// Not a context id.
    #[error("{0:?} is not a vsock context id")]
    Cid(String),
    /// An opening bracket without a closing one, or something behind it.
    #[error("{0:?} is not an IPv6 address in brackets")]
    Brackets(String),
    /// `nbd+unix` without `socket`.
    #[error("nbd+unix:// needs ?socket=PATH")]
    NoSocket,
    /// A parameter that means nothing here, or comes twice.
    #[error("query parameter {0:?} does not belong here")]
    Parameter(String),
    /// Too many servers.
    #[error("an NBD address has {SERVERS_MAX} servers at most")]
    Servers,
    /// A server twice.
    #[error("server {0:?} is named twice")]
    Twice(String),
    /// A parameter of several servers where there is one.
    #[error("query parameter {0:?} needs several servers, as in nbd://a,b/export")]
    NeedsServers(String),
    /// A parameter of TLS where there is none.
    #[error("query parameter {0:?} needs TLS; write nbds instead of nbd")]
    NeedsTls(String),
    /// Anything but certificates.
    #[error("TLS of type {0:?} is not supported; use tls-type=x509")]
    TlsType(String),
    /// A value that the parameter does not take.
    #[error("{value:?} is no value of {parameter}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// What it was given.
        value: String,
    },
    /// A `%` without two hexadecimal digits.
    #[error("{0:?} has a % that is not followed by two hexadecimal digits")]
    Percent(String),
    /// The name cannot be sent.
    #[error("the export's name is longer than 4096 bytes, no UTF-8, or has a NUL")]
    Export,
    /// A fragment.
    #[error("an NBD address has no fragment; write # as %23")]
    Fragment,
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "nbds" } else { "nbd" })?;
        f.write_str(match &self.transport {
            Transport::Tcp { .. } => "://",
            Transport::Unix(_) => "+unix://",
            Transport::Vsock { .. } => "+vsock://",
        })?;
        for (nth, transport) in self.transports().enumerate() {
            if nth > 0 && !matches!(transport, Transport::Unix(_)) {
                f.write_str(",")?;
            }
            transport.write_authority(f)?;
        }
        f.write_str("/")?;
        encode(f, self.export.as_bytes(), b'/')?;
        self.write_query(f)
    }
}

impl Transport {
    /// What stands between `://` and the export.
    fn write_authority(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => {
                if host.contains(':') {
                    f.write_str("[")?;
                    encode(f, host.as_bytes(), b':')?;
                    f.write_str("]")?;
                } else {
                    encode(f, host.as_bytes(), b':')?;
                }
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                Ok(())
            }
            Self::Unix(_) => Ok(()),
            Self::Vsock { cid, port } => {
                write!(f, "{cid}")?;
                if *port != u32::from(DEFAULT_PORT) {
                    write!(f, ":{port}")?;
                }
                Ok(())
            }
        }
    }
}

impl NbdUri {
    /// Every server, in order.
    fn transports(&self) -> impl Iterator<Item = &Transport> {
        std::iter::once(&self.transport).chain(&self.others)
    }

    fn write_query(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = '?';
        let mut parameter = |key: &str, value: &[u8]| {
            write!(f, "{before}{key}=")?;
            before = '&';
            encode(f, value, b'/')
        };
        for transport in self.transports() {
            if let Transport::Unix(path) = transport {
                parameter("socket", path.as_os_str().as_bytes())?;
            }
        }
        if let Some(after) = self.fenced_after {
            parameter("fenced-after", after.as_secs().to_string().as_bytes())?;
        }
        let Some(tls) = &self.tls else {
            return Ok(());
        };
        if let Some(folder) = &tls.certificates {
            parameter("tls-certificates", folder.as_os_str().as_bytes())?;
        }
        if let Some(name) = &tls.hostname {
            parameter("tls-hostname", name.as_bytes())?;
        }
        if !tls.verify_peer {
            parameter("tls-verify-peer", b"0")?;
        }
        if tls.minimum != TlsVersion::default() {
            parameter("tls-minimum", tls.minimum.number().as_bytes())?;
        }
        Ok(())
    }
}
