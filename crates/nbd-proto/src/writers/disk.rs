//! [`DiskIdentity`]: what a server says of the disk behind an export.

use std::fmt;
use std::str::FromStr;

use super::NAMESPACE;
use super::token::{InvalidValue, hex};

/// The value of the name `fence`.
const FENCE_OF_STORAGE: &str = "storage";
/// Longest identity, bytes.
pub(super) const IDENTITY_MAX: usize = 255;

/// What distinguishes a disk from every other one, and stays the same while it is that disk: 1 to 255
/// printable ASCII characters, no space among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DiskId(String);

impl DiskId {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DiskId {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let is_valid =
            (1..=IDENTITY_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        is_valid.then(|| Self(text.to_owned())).ok_or(InvalidValue)
    }
}

/// How an export takes writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriterPolicy {
    /// One client at a time; the server forgets its identity when it restarts.
    #[default]
    One,
    /// Any number of clients, which are coordinated elsewhere.
    Many,
    /// One client at a time; one that was taken over from is refused for good, also after a restart.
    Fenced,
}

impl WriterPolicy {
    const ALL: [Self; 3] = [Self::One, Self::Many, Self::Fenced];

    /// Its word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Many => "many",
            Self::Fenced => "fenced",
        }
    }
}

impl FromStr for WriterPolicy {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let mut all = Self::ALL.into_iter();
        all.find(|policy| policy.name() == text).ok_or(InvalidValue)
    }
}

/// What a server says of the disk behind an export. Nothing where the server is not outboard's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DiskIdentity {
    /// Which disk it is; `None` where that is not known.
    pub identity: Option<DiskId>,
    /// Which opening of it: another one where acknowledged, unflushed writes may have been lost.
    pub incarnation: Option<u64>,
    /// How it takes writers.
    pub writers: Option<WriterPolicy>,
    /// The storage fences its servers: before one of them admits a client that may write, no write of another one is carried out any
    /// more, and all that another one flushed is there. False where that is not known.
    pub is_fenced: bool,
}

impl DiskIdentity {
    /// Whether a server that reports `found` has another disk than this one. What was identified once stays so: a server
    /// that no longer reports an identity has another disk.
    #[must_use]
    pub fn is_replaced_by(&self, found: &Self) -> bool {
        self.identity.is_some() && self.identity != found.identity
    }

    /// The names that say it in a server's answer.
    pub(crate) fn names(&self) -> Vec<String> {
        let named = |key: &str, value: &dyn fmt::Display| format!("{NAMESPACE}{key}={value}");
        let disk = self.identity.as_ref().map(|id| named("disk", id));
        let incarnation = self
            .incarnation
            .map(|number| named("incarnation", &format_args!("{number:016x}")));
        let writers = self.writers.map(|policy| named("writers", &policy.name()));
        let fence = self.is_fenced.then(|| named("fence", &FENCE_OF_STORAGE));
        let names = [disk, incarnation, writers, fence];
        names.into_iter().flatten().collect()
    }

    /// Takes one name of a server's answer. Unknown and repeated names are
    /// ignored.
    pub(crate) fn add(&mut self, name: &str) {
        let Some((key, value)) = name
            .strip_prefix(NAMESPACE)
            .and_then(|rest| rest.split_once('='))
        else {
            return;
        };
        match key {
            "disk" => keep(&mut self.identity, value.parse()),
            "incarnation" => keep(&mut self.incarnation, hex(value)),
            "writers" => keep(&mut self.writers, value.parse()),
            "fence" => self.is_fenced |= value == FENCE_OF_STORAGE,
            _ => {}
        }
    }
}

/// The first value that can be one counts.
fn keep<T>(field: &mut Option<T>, value: Result<T, InvalidValue>) {
    if field.is_none() {
        *field = value.ok();
    }
}
