//! What the files of a client are called, and its volume on an object store. Pure.
//!
//! # Invariants
//!
//! * A name that comes from outside never leads anywhere: what is not a letter, a digit, `-` or `_`
//!   (or a dot within the name) is written as `%` and two hexadecimal digits.
//! * Names that differ give files that differ, also those of different kinds, and also where a name
//!   is too long for a file and its end is replaced by a digest.
//! * No file's name is longer than [`LEN_MAX`] bytes.

use nbd::server::ClientName;
use ring::digest::{SHA256, digest};

/// Longest name without the ending, bytes: filesystems take 255.
const LEN_MAX: usize = 200;
/// Bytes of a digest that are written out.
const DIGEST_LEN: usize = 16;

/// The name, without an ending, of the files of a client.
pub(super) fn of_client(name: &ClientName) -> String {
    match name {
        ClientName::Certificate(name) => bounded("cert-", name),
        ClientName::Address(address) => bounded("addr-", &address.to_string()),
        ClientName::User(uid) => format!("uid-{uid}"),
    }
}

/// The name of an export's folder.
pub(super) fn of_export(name: &str) -> String {
    bounded("export-", name)
}

/// The name of the volume of a client: that of its files, with `=` for `%` and `+` for `~`, which no volume's name has.
#[cfg(feature = "bucket")]
pub(super) fn volume_of_client(name: &ClientName) -> String {
    volume(&of_client(name))
}

/// The name of an export's folder of volumes.
#[cfg(feature = "bucket")]
pub(super) fn volume_of_export(name: &str) -> String {
    volume(&of_export(name))
}

#[cfg(feature = "bucket")]
fn volume(name: &str) -> String {
    name.replace('%', "=").replace('~', "+")
}

/// The client with a volume of this name, where the name was not cut.
#[cfg(feature = "bucket")]
pub(super) fn client_of_volume(name: &str) -> Option<ClientName> {
    let (kind, escaped) = name.split_once('-')?;
    let mut pieces = escaped.split('=');
    let mut text = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        text.push(u8::from_str_radix(digits, 16).ok()?);
        text.extend_from_slice(rest.as_bytes());
    }
    let text = String::from_utf8(text).ok()?;
    let client = match kind {
        "cert" => ClientName::Certificate(text),
        "addr" => ClientName::Address(text.parse().ok()?),
        "uid" => ClientName::User(text.parse().ok()?),
        _ => return None,
    };
    (volume_of_client(&client) == name).then_some(client)
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

fn bounded(kind: &str, text: &str) -> String {
    let mut name = kind.to_owned();
    for (at, byte) in text.bytes().enumerate() {
        let is_inner_dot = byte == b'.' && at > 0;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || is_inner_dot {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
        if name.len() > LEN_MAX {
            break;
        }
    }
    if name.len() <= LEN_MAX {
        return name;
    }
    let digest = hex(&digest(&SHA256, text.as_bytes()).as_ref()[..DIGEST_LEN]);
    // `~` is in no name that was not cut.
    name.truncate(LEN_MAX - 2 * DIGEST_LEN - 1);
    format!("{name}~{digest}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn certificate(name: &str) -> String {
        of_client(&ClientName::Certificate(name.to_owned()))
    }

    #[test]
    fn a_name_is_readable_where_it_can_be_and_never_a_path() {
        assert_eq!(certificate("pi-17.lan"), "cert-pi-17.lan");
        assert_eq!(certificate("../../etc/x"), "cert-%2E.%2F..%2Fetc%2Fx");
        assert_eq!(certificate(""), "cert-");
        let at = |text: &str| of_client(&ClientName::Address(text.parse().expect("an address")));
        assert_eq!(at("10.0.0.1"), "addr-10.0.0.1");
        assert_eq!(at("2001:db8::1"), "addr-2001%3Adb8%3A%3A1");
        assert_eq!(of_client(&ClientName::User(0)), "uid-0");
        assert_eq!(of_export("a/b"), "export-a%2Fb");
    }

    #[test]
    fn names_of_other_kinds_and_long_ones_differ() {
        let long = "x".repeat(300);
        let names = [
            certificate("10.0.0.1"),
            of_client(&ClientName::Address([10, 0, 0, 1].into())),
            certificate(&long),
            certificate(&format!("{long}y")),
            certificate(&"ä".repeat(1000)),
            certificate(&"ä".repeat(1001)),
        ];
        let different: HashSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    proptest! {
        #[test]
        fn any_name_is_one_short_plain_component(name in any::<String>(), other in any::<String>()) {
            let file = certificate(&name);
            prop_assert!(file.len() <= LEN_MAX);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.%~".contains(&b);
            prop_assert!(file.bytes().all(plain));
            prop_assert!(!file.starts_with('.'));
            prop_assert_eq!(file == certificate(&other), name == other);
            #[cfg(feature = "bucket")]
            {
                let client = ClientName::Certificate(name.clone());
                let volume = volume_of_client(&client);
                let uri = format!("file:///o/{volume}").parse::<bucket::BucketUri>();
                prop_assert!(uri.is_ok());
                let is_cut = file.contains('~');
                prop_assert_eq!(client_of_volume(&volume), (!is_cut).then_some(client));
            }
        }
    }
}
