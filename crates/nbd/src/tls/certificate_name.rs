//! The name in a client's certificate, by which rules admit it and by which its own disk is found. Pure.
//!
//! The server's handshake stores it as `Peer::certificate_name`; `server/export_selection.rs` lists the steps
//! from there to the client's overlay.
//!
//! It is the first DNS name among the certificate's alternative names, or, where it has none, the
//! last common name of its subject. A name with anything but printable ASCII is none: names are
//! compared with names in configuration files.
//!
//! The certificate was verified before; this reads no more of DER (X.690) than it needs, and takes
//! anything else for the absence of a name.

use rustls::pki_types::CertificateDer;

/// Longest name, bytes; that of DNS is 253.
const NAME_LEN_MAX: usize = 253;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
/// `[0]`, as of a certificate's version.
const VERSION: u8 = 0xa0;
/// `[3]`, as of a certificate's extensions.
const EXTENSIONS: u8 = 0xa3;
/// `[2]`, as of a DNS name among alternative names.
const DNS_NAME: u8 = 0x82;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];

/// The name that `certificate` is for.
pub(super) fn certificate_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let mut outer = DerItems(certificate.as_ref()).expect_item(SEQUENCE)?;
    let mut fields = DerItems(outer.expect_item(SEQUENCE)?.0);
    // Version (may be missing), serial number, algorithm, issuer, validity.
    if fields.0.first() == Some(&VERSION) {
        fields.next();
    }
    let subject = fields
        .by_ref()
        .nth(4)
        .filter(|(tag, _)| *tag == SEQUENCE)?
        .1;
    let extensions = fields.find(|(tag, _)| *tag == EXTENSIONS);
    let dns = extensions.and_then(|(_, bytes)| dns_name(bytes));
    dns.or_else(|| common_name(subject))
        .filter(|name| is_printable(name))
        .map(str::to_owned)
}

fn is_printable(name: &str) -> bool {
    (1..=NAME_LEN_MAX).contains(&name.len())
        && name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn dns_name(extensions: &[u8]) -> Option<&str> {
    let mut list = DerItems(extensions).expect_item(SEQUENCE)?;
    let alternatives = list.find_map(|(tag, extension)| {
        let mut parts = DerItems(extension);
        let (_, id) = parts.next().filter(|_| tag == SEQUENCE)?;
        (id == SUBJECT_ALT_NAME).then_some(parts)
    });
    // A flag that says whether it is critical may come before the value.
    let (_, value) = alternatives?.find(|(tag, _)| *tag == OCTET_STRING)?;
    let mut names = DerItems(value).expect_item(SEQUENCE)?;
    let (_, name) = names.find(|(tag, _)| *tag == DNS_NAME)?;
    std::str::from_utf8(name).ok()
}

fn common_name(subject: &[u8]) -> Option<&str> {
    let names = DerItems(subject).filter_map(|(tag, set)| {
        let mut pair = DerItems(set).expect_item(SEQUENCE).filter(|_| tag == SET)?;
        let id = pair.expect_item(OBJECT_ID)?;
        let (kind, text) = pair.next()?;
        let is_text = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&kind);
        (id.0 == COMMON_NAME && is_text).then_some(text)
    });
    std::str::from_utf8(names.last()?).ok()
}

/// Items of DER, one after the other; ends where the bytes are not DER any more.
#[derive(Clone, Copy)]
struct DerItems<'a>(&'a [u8]);

impl<'a> DerItems<'a> {
    /// What is in the next item, which has to be such a one.
    fn expect_item(&mut self, tag: u8) -> Option<Self> {
        self.next()
            .filter(|(found, _)| *found == tag)
            .map(|(_, inside)| Self(inside))
    }
}

impl<'a> Iterator for DerItems<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                let len = digits
                    .iter()
                    .fold(0, |len, &digit| len << 8 | usize::from(digit));
                (len, rest)
            }
            _ => return None,
        };
        let (inside, behind) = rest.split_at_checked(len)?;
        self.0 = behind;
        Some((tag, inside))
    }
}
