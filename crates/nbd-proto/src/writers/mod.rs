//! outboard's own metadata namespace: which disk an export is, and which client may write to it.
//!
//! Requested by `LIST_META_CONTEXT` alone, so that nothing is added to answers of `BLOCK_STATUS`, and also
//! before structured replies are agreed on (the kernel's client has none):
//!
//! ```text
//! client   outboard:disk                          which disk is this
//!          outboard:client=TOKEN,ACCESS           the client and its requested access (see WriterAccess)
//! server   outboard:disk=IDENTITY                 absent where the disk has none
//!          outboard:incarnation=16 hex digits     another one where unflushed writes may be lost
//!          outboard:writers=one|many|fenced       how the export takes writers
//!          outboard:fence=storage                 absent where servers of the disk do not fence each other
//! ```
//!
//! A query for both announces the `GO` of that client: a server may open a disk for it to answer. One for the disk alone changes nothing.
//!
//! The server remembers TOKEN and ACCESS for the `GO` of that export on that connection, and refuses it with
//! `ERR_POLICY` and a text that begins with [`BUSY`] or [`FENCED`]. A server of others answers with
//! nothing or refuses the option: then nothing is known, and the handshake goes on.
//!
//! Invariants: nothing of the other side is believed unchecked; what is not understood of a server is
//! left out, what is not understood of a client is refused. It deliberately does not know how
//! identities are made nor which client holds a claim: the server decides both.

mod disk;
mod token;

pub use disk::{DiskId, DiskIdentity, WriterPolicy};
pub use token::{AccessMode, ClientToken, WriterAccess};

use crate::consts::limits;

/// What every name of this namespace begins with.
pub(crate) const NAMESPACE: &str = "outboard:";
/// The query for [`DiskIdentity`].
pub(crate) const DISK_QUERY: &str = "outboard:disk";
/// The query that carries a [`WriterAccess`], up to its value.
pub(crate) const CLIENT_QUERY: &str = "outboard:client=";

/// How the text of a `GO` begins that is refused because another client is writing.
pub const BUSY: &str = "already attached for writing";
/// How the text of a `GO` begins that is refused because another client has taken over.
pub const FENCED: &str = "fenced:";

/// Why a server lets a client not write to an export, as far as the text of its refusal says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriterRefusal {
    /// Another client holds the export for writing.
    Busy,
    /// Another client has written, or taken over, since this one did.
    Fenced,
}

impl WriterRefusal {
    /// What `text`, of a refusal with `ERR_POLICY`, begins with.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let kinds = [(BUSY, Self::Busy), (FENCED, Self::Fenced)];
        let found = kinds.iter().find(|(begin, _)| text.starts_with(begin));
        found.map(|(_, refusal)| *refusal)
    }
}

/// What the queries of one option ask for of this namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiskQueries {
    /// Which disk it is.
    pub(crate) disk: bool,
    /// The requesting client.
    pub(crate) client: Option<WriterAccess>,
}

impl DiskQueries {
    /// Takes one query, of this namespace. `None`: it names a client and cannot be understood.
    #[must_use]
    pub(crate) fn add(&mut self, query: &str) -> Option<()> {
        if let Some(value) = query.strip_prefix(CLIENT_QUERY) {
            self.client = Some(value.parse().ok()?);
        }
        self.disk |= query == DISK_QUERY || query == NAMESPACE;
        Some(())
    }

    /// What a client sends for this, one query each.
    pub(crate) fn queries(self) -> Vec<String> {
        let disk = self.disk.then(|| DISK_QUERY.to_owned());
        let client = self.client.map(|access| format!("{CLIENT_QUERY}{access}"));
        disk.into_iter().chain(client).collect()
    }

    pub(crate) const fn is_empty(self) -> bool {
        !self.disk && self.client.is_none()
    }
}

const _: () = assert!(DISK_QUERY.len() + disk::IDENTITY_MAX < limits::STRING_MAX);

#[cfg(test)]
mod tests;
