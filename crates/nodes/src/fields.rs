//! [`Fields`]: numbers at fixed places of an on-disk structure. Pure.

/// Bytes with fields in them, little-endian unless the method is named otherwise.
///
/// The caller has checked that all fields it reads lie within the bytes: each structure
/// has a fixed length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// `N` bytes at `at`.
    ///
    /// # Panics
    /// If they lie outside.
    pub(crate) fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[at..at + N]);
        field
    }

    pub(crate) fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn i32(self, at: usize) -> i32 {
        i32::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

/// Writes a field of `N` bytes at `at`.
///
/// # Panics
/// If it lies outside.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}
