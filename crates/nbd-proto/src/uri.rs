//! [`NbdUri`]: the address of an export, as doc/uri.md of NetworkBlockDevice/nbd writes it.
//!
//! ```text
//! nbd://HOST[:PORT]/EXPORT
//! nbd+unix:///EXPORT?socket=PATH
//! ```
//!
//! The export is everything behind the first slash, percent-decoded. The schemes with TLS and with
//! vsock are known by name and refused, and so is every query parameter that would be ignored.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use crate::consts::{DEFAULT_PORT, limits};

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
}

/// Server and export.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NbdUri {
    /// The server.
    pub transport: Transport,
    /// The export's name; empty for the default one.
    pub export: String,
}

/// Why a text is no address of an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// Nothing like `scheme://`.
    #[error("an NBD address begins with nbd:// or nbd+unix://")]
    NoScheme,
    /// Some other scheme.
    #[error("scheme {0:?} is not NBD's; use nbd or nbd+unix")]
    Scheme(String),
    /// A scheme of NBD that this build does not speak.
    #[error("scheme {0:?} is not supported yet; use nbd or nbd+unix")]
    SchemeUnsupported(String),
    /// `nbd://` without a host.
    #[error("nbd:// needs a host, as in nbd://server/export")]
    NoHost,
    /// `nbd+unix://` with a host.
    #[error("nbd+unix:// takes no host; write nbd+unix:///EXPORT?socket=PATH")]
    HostWithSocket,
    /// A user name.
    #[error("user names are only for TLS, which is not supported yet")]
    User,
    /// Not a number from 1 to 65535.
    #[error("{0:?} is not a port")]
    Port(String),
    /// An opening bracket without a closing one, or something behind it.
    #[error("{0:?} is not an IPv6 address in brackets")]
    Brackets(String),
    /// `nbd+unix` without `socket`.
    #[error("nbd+unix:// needs ?socket=PATH")]
    NoSocket,
    /// `socket` given to `nbd://`, or twice.
    #[error("query parameter {0:?} does not belong here")]
    Parameter(String),
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

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or(UriError::NoScheme)?;
        if rest.contains('#') {
            return Err(UriError::Fragment);
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, query),
            None => (rest, ""),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, path),
            None => (rest, ""),
        };
        let socket = socket_parameter(query)?;
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "nbd" => tcp(authority, socket)?,
            "nbd+unix" => unix(authority, socket)?,
            "nbds" | "nbds+unix" | "nbd+vsock" | "nbds+vsock" | "nbd+ssh" => {
                return Err(UriError::SchemeUnsupported(scheme.to_owned()));
            }
            _ => return Err(UriError::Scheme(scheme.to_owned())),
        };
        Ok(Self {
            transport,
            export: export(path)?,
        })
    }
}

fn tcp(authority: &str, socket: Option<PathBuf>) -> Result<Transport, UriError> {
    if socket.is_some() {
        return Err(UriError::Parameter("socket".to_owned()));
    }
    if authority.contains('@') {
        return Err(UriError::User);
    }
    let (host, port) = split_port(authority)?;
    let host = decode(host)?;
    let host = String::from_utf8(host).map_err(|_| UriError::NoHost)?;
    if host.is_empty() || host.contains('\0') {
        return Err(UriError::NoHost);
    }
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(text) => match text.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(UriError::Port(text.to_owned())),
        },
    };
    Ok(Transport::Tcp { host, port })
}

/// Host, without brackets, and the text behind its colon.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), UriError> {
    let Some(bracketed) = authority.strip_prefix('[') else {
        return Ok(match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        });
    };
    let wrong = || UriError::Brackets(authority.to_owned());
    let (host, behind) = bracketed.split_once(']').ok_or_else(wrong)?;
    if behind.is_empty() {
        return Ok((host, None));
    }
    let port = behind.strip_prefix(':').ok_or_else(wrong)?;
    Ok((host, Some(port)))
}

fn unix(authority: &str, socket: Option<PathBuf>) -> Result<Transport, UriError> {
    if !authority.is_empty() {
        return Err(UriError::HostWithSocket);
    }
    socket.map(Transport::Unix).ok_or(UriError::NoSocket)
}

fn export(path: &str) -> Result<String, UriError> {
    let name = String::from_utf8(decode(path)?).map_err(|_| UriError::Export)?;
    if name.len() > limits::STRING_MAX || name.contains('\0') {
        return Err(UriError::Export);
    }
    Ok(name)
}

fn socket_parameter(query: &str) -> Result<Option<PathBuf>, UriError> {
    let mut socket = None;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if key != "socket" || socket.is_some() {
            return Err(UriError::Parameter(key.to_owned()));
        }
        if value.is_empty() {
            return Err(UriError::NoSocket);
        }
        socket = Some(PathBuf::from(OsString::from_vec(decode(value)?)));
    }
    Ok(socket)
}

fn decode(text: &str) -> Result<Vec<u8>, UriError> {
    let wrong = || UriError::Percent(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = rest.next().and_then(hex_digit).ok_or_else(wrong)?;
        let low = rest.next().and_then(hex_digit).ok_or_else(wrong)?;
        bytes.push(high << 4 | low);
    }
    Ok(bytes)
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Writes `bytes` so that they stand for themselves (RFC 3986): unreserved characters and the one
/// named in `also` as they are, all others as `%XX`.
fn encode(f: &mut fmt::Formatter<'_>, bytes: &[u8], also: u8) -> fmt::Result {
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                write!(f, "{}", char::from(byte))?;
            }
            _ if byte == also => write!(f, "{}", char::from(byte))?,
            _ => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Tcp { host, port } => {
                f.write_str("nbd://")?;
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
                f.write_str("/")?;
                encode(f, self.export.as_bytes(), b'/')
            }
            Transport::Unix(path) => {
                f.write_str("nbd+unix:///")?;
                encode(f, self.export.as_bytes(), b'/')?;
                f.write_str("?socket=")?;
                encode(f, path.as_os_str().as_bytes(), b'/')
            }
        }
    }
}
