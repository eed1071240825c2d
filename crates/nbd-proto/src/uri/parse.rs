//! Text to [`NbdUri`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::percent::decode;
use super::{
    FENCED_AFTER_MAX, NbdUri, SERVERS_MAX, TlsVersion, Transport, UriError, UriTls, VSOCK_HOST,
};
use crate::consts::{DEFAULT_PORT, limits};

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or(UriError::NoScheme)?;
        if rest.contains('#') {
            return Err(UriError::Fragment);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let lower = scheme.to_ascii_lowercase();
        let (base, over) = lower.split_once('+').unwrap_or((&lower, ""));
        let mut query = Query::parse(query)?;
        let tls = match base {
            "nbd" => None,
            "nbds" => Some(query.take_tls()?),
            _ => return Err(UriError::Scheme(scheme.to_owned())),
        };
        if authority.contains('@') {
            return Err(UriError::User);
        }
        let mut transports = match over {
            "" if lower.contains('+') => return Err(UriError::Scheme(scheme.to_owned())),
            "" => each(authority, tcp)?,
            "unix" => unix(authority, query.take_all("socket"))?,
            "vsock" => each(authority, vsock)?,
            _ => return Err(UriError::Scheme(scheme.to_owned())),
        };
        refuse_list(&transports)?;
        let fenced_after = query.take_fenced_after(transports.len() > 1)?;
        query.finish(tls.is_some())?;
        let others = transports.split_off(1);
        let transport = transports.swap_remove(0);
        Ok(Self {
            transport,
            others,
            fenced_after,
            tls,
            export: export(path)?,
        })
    }
}

/// One server, or several with commas between them. There is at least one.
fn each(
    authority: &str,
    parse: fn(&str) -> Result<Transport, UriError>,
) -> Result<Vec<Transport>, UriError> {
    authority.split(',').map(parse).collect()
}

/// Refuses a list of servers that is too long, or names one twice.
fn refuse_list(transports: &[Transport]) -> Result<(), UriError> {
    if transports.len() > SERVERS_MAX {
        return Err(UriError::Servers);
    }
    for (nth, transport) in transports.iter().enumerate() {
        if transports[..nth].contains(transport) {
            let name = match transport {
                Transport::Tcp { host, port } => format!("{host}:{port}"),
                Transport::Unix(path) => path.display().to_string(),
                Transport::Vsock { cid, port } => format!("{cid}:{port}"),
            };
            return Err(UriError::Twice(name));
        }
    }
    Ok(())
}

fn tcp(authority: &str) -> Result<Transport, UriError> {
    let (host, port) = split_port(authority)?;
    let host = String::from_utf8(decode(host)?).map_err(|_| UriError::NoHost)?;
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

fn unix(authority: &str, sockets: Vec<Vec<u8>>) -> Result<Vec<Transport>, UriError> {
    if !authority.is_empty() {
        return Err(UriError::HostWithSocket);
    }
    if sockets.is_empty() || sockets.iter().any(Vec::is_empty) {
        return Err(UriError::NoSocket);
    }
    let paths = sockets.into_iter().map(to_path);
    Ok(paths.map(Transport::Unix).collect())
}

fn vsock(authority: &str) -> Result<Transport, UriError> {
    let (cid, port) = match authority.split_once(':') {
        Some((cid, port)) => (cid, Some(port)),
        None => (authority, None),
    };
    let cid = match cid {
        "" => VSOCK_HOST,
        text => text.parse().map_err(|_| UriError::Cid(text.to_owned()))?,
    };
    let port = match port {
        None | Some("") => u32::from(DEFAULT_PORT),
        Some(text) => text.parse().map_err(|_| UriError::Port(text.to_owned()))?,
    };
    Ok(Transport::Vsock { cid, port })
}

fn export(path: &str) -> Result<String, UriError> {
    let name = String::from_utf8(decode(path)?).map_err(|_| UriError::Export)?;
    if name.len() > limits::STRING_MAX || name.contains('\0') {
        return Err(UriError::Export);
    }
    Ok(name)
}

fn to_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Query parameters, decoded. Each is taken once; what is left does not belong.
struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    fn parse(query: &str) -> Result<Self, UriError> {
        let mut parameters: Vec<(String, Vec<u8>)> = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            parameters.push((key.to_owned(), decode(value)?));
        }
        Ok(Self(parameters))
    }

    /// Takes the first value of a parameter. The others keep their order, which is that of the servers.
    fn take(&mut self, key: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.remove(at).1)
    }

    /// Every value of a parameter, in order.
    fn take_all(&mut self, key: &str) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        self.0.retain_mut(|(other, value)| {
            let is_taken = other == key;
            if is_taken {
                values.push(std::mem::take(value));
            }
            !is_taken
        });
        values
    }

    fn take_fenced_after(&mut self, has_several: bool) -> Result<Option<Duration>, UriError> {
        const KEY: &str = "fenced-after";
        let Some(text) = self.take_text(KEY)? else {
            return Ok(None);
        };
        if !has_several {
            return Err(UriError::NeedsServers(KEY.to_owned()));
        }
        let digits = text.strip_suffix('s').unwrap_or(&text);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = digits.parse().ok().filter(|_| is_number);
        let after = seconds.map(Duration::from_secs);
        let is_valid = |after: &Duration| !after.is_zero() && *after <= FENCED_AFTER_MAX;
        match after.filter(is_valid) {
            Some(after) => Ok(Some(after)),
            None => Err(wrong_value(KEY, &text)),
        }
    }

    fn take_tls(&mut self) -> Result<UriTls, UriError> {
        if let Some(kind) = self.take_text("tls-type")?
            && !kind.eq_ignore_ascii_case("x509")
        {
            return Err(UriError::TlsType(kind));
        }
        let verify_peer = match self.take_text("tls-verify-peer")?.as_deref() {
            None | Some("1") => true,
            Some("0") => false,
            Some(other) => return Err(wrong_value("tls-verify-peer", other)),
        };
        let minimum = match self.take_text("tls-minimum")? {
            None => TlsVersion::default(),
            Some(number) => TlsVersion::from_number(&number)
                .ok_or_else(|| wrong_value("tls-minimum", &number))?,
        };
        let hostname = self.take_text("tls-hostname")?;
        let certificates = self.take("tls-certificates");
        if certificates.as_ref().is_some_and(Vec::is_empty) {
            return Err(wrong_value("tls-certificates", ""));
        }
        Ok(UriTls {
            certificates: certificates.map(to_path),
            hostname,
            verify_peer,
            minimum,
        })
    }

    /// A parameter with a value that is a text without NUL, and not empty.
    fn take_text(&mut self, key: &'static str) -> Result<Option<String>, UriError> {
        let Some(bytes) = self.take(key) else {
            return Ok(None);
        };
        match String::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && !text.contains('\0') => Ok(Some(text)),
            Ok(text) => Err(wrong_value(key, &text)),
            Err(e) => Err(wrong_value(key, &String::from_utf8_lossy(e.as_bytes()))),
        }
    }

    /// Refuses what was not taken.
    fn finish(self, tls: bool) -> Result<(), UriError> {
        let Some((key, _)) = self.0.into_iter().next() else {
            return Ok(());
        };
        if key.starts_with("tls-") && !tls {
            return Err(UriError::NeedsTls(key));
        }
        Err(UriError::Parameter(key))
    }
}

fn wrong_value(parameter: &'static str, value: &str) -> UriError {
    UriError::Value {
        parameter,
        value: value.to_owned(),
    }
}
