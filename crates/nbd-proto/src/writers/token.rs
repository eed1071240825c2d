//! [`WriterAccess`]: which client is asking for an export, and what for.

use std::fmt;
use std::str::FromStr;

/// What distinguishes a client from others: its connections share it, and so do those it makes later.
/// Drawn at random; the server takes any client that knows the token for this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientToken([u8; 16]);

impl ClientToken {
    /// A token of random bytes, which the caller draws.
    #[must_use]
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientToken({self})")
    }
}

/// A text is no value of this namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a value of the namespace `outboard:`")]
pub struct InvalidValue;

impl FromStr for ClientToken {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        hex(text).map(|number: u128| Self(number.to_be_bytes()))
    }
}

/// A number of exactly as many lower-case hexadecimal digits as its type has.
pub(super) fn hex<T: TryFrom<u128>>(text: &str) -> Result<T, InvalidValue> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * size_of::<T>() || !text.bytes().all(is_digit) {
        return Err(InvalidValue);
    }
    let number = u128::from_str_radix(text, 16).map_err(|_| InvalidValue)?;
    T::try_from(number).map_err(|_| InvalidValue)
}

/// The access that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// It never writes.
    Read,
    /// To be the one writer, for the first time.
    Write,
    /// To go on as the writer that it was; refused if another client has written since.
    Resume,
    /// To be one of many writers that are coordinated elsewhere; refused where the export has one.
    Shared,
    /// To be the one writer from now on: the previous writer is disconnected and refused from then on.
    Takeover,
}

impl AccessMode {
    const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Resume,
        Self::Shared,
        Self::Takeover,
    ];

    /// Its word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Resume => "resume",
            Self::Shared => "shared",
            Self::Takeover => "takeover",
        }
    }

    /// What the same client requests with a further connection, and after a reconnect: it
    /// resumes its claim and never takes a new one.
    #[must_use]
    pub const fn again(self) -> Self {
        match self {
            Self::Write | Self::Takeover | Self::Resume => Self::Resume,
            Self::Read => Self::Read,
            Self::Shared => Self::Shared,
        }
    }
}

impl FromStr for AccessMode {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let mut all = Self::ALL.into_iter();
        all.find(|mode| mode.name() == text).ok_or(InvalidValue)
    }
}

/// Which client is asking for an export, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriterAccess {
    /// The client.
    pub token: ClientToken,
    /// What for.
    pub mode: AccessMode,
}

impl WriterAccess {
    /// The same client's next connection; see [`AccessMode::again`].
    #[must_use]
    pub const fn again(self) -> Self {
        Self {
            mode: self.mode.again(),
            ..self
        }
    }
}

/// `TOKEN,ACCESS`.
impl fmt::Display for WriterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.token, self.mode.name())
    }
}

impl FromStr for WriterAccess {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let (token, mode) = text.split_once(',').ok_or(InvalidValue)?;
        Ok(Self {
            token: token.parse()?,
            mode: mode.parse()?,
        })
    }
}
