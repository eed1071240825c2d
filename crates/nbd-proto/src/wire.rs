//! Big-endian fields out of a byte slice that may be too short, and the protocol's strings.

use crate::consts::limits;

/// Takes fields from the front of a slice; `None` where it ends too early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// What is left.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// A 32-bit length as an index. On the machines this runs on a `usize` has at least 32 bits.
pub(crate) fn index(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// A length we chose ourselves, as a 32-bit field.
///
/// # Panics
/// If it does not fit; callers keep such lengths far below.
pub(crate) fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("lengths we send are bounded by limits")
}

/// A string of the protocol: UTF-8, no NUL. The caller checks the length: replies to
/// long strings differ.
pub(crate) fn string(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// The longest prefix of `text` of at most `max` bytes that ends at a character.
pub(crate) fn truncated(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// A text of the other side as it may be shown on a terminal: bounded, valid, without controls.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(limits::STRING_MAX)];
    String::from_utf8_lossy(bytes)
        .trim_end()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
