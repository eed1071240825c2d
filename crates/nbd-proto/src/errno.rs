//! [`WireError`]: the closed set of error values on the wire.

use std::fmt;

/// Why a request failed, as NBD says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireError {
    /// 1: not permitted, for example a write to a read-only export.
    Permission,
    /// 5: input/output error.
    Io,
    /// 12: out of memory.
    NoMemory,
    /// 22: invalid argument; also every value this list does not have.
    Invalid,
    /// 28: no space left.
    NoSpace,
    /// 75: the answer would be too large.
    Overflow,
    /// 95: not supported.
    NotSupported,
    /// 108: the server is shutting down.
    Shutdown,
}

impl WireError {
    /// Every value, for tables and tests.
    pub const ALL: [Self; 8] = [
        Self::Permission,
        Self::Io,
        Self::NoMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::Shutdown,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Permission => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }

    /// The error of a wire number: `None` for 0, which is success. Numbers outside the list are
    /// [`WireError::Invalid`] (proto.md, "Error values").
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        if number == 0 {
            return None;
        }
        let known = Self::ALL.into_iter().find(|error| error.number() == number);
        Some(known.unwrap_or(Self::Invalid))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permission => "operation not permitted",
            Self::Io => "input/output error",
            Self::NoMemory => "cannot allocate memory",
            Self::Invalid => "invalid argument",
            Self::NoSpace => "no space left on device",
            Self::Overflow => "value too large",
            Self::NotSupported => "operation not supported",
            Self::Shutdown => "server is shutting down",
        })
    }
}
