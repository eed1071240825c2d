//! Percent-encoding (RFC 3986).

use std::fmt;

use super::UriError;

pub(super) fn decode(text: &str) -> Result<Vec<u8>, UriError> {
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

/// Writes `bytes` so that they stand for themselves: unreserved characters and the one named in `also`
/// as they are, all others as `%XX`.
pub(super) fn encode(f: &mut fmt::Formatter<'_>, bytes: &[u8], also: u8) -> fmt::Result {
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
