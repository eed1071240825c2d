//! [`KnownDisk`]: what disk the client was given, and whether another connection has the same one. Pure.
//!
//! # Invariants
//!
//! * What was known once stays known: a server that named the disk and no longer does has another disk.
//! * The server's name and the content count both. A client that shares the disk with other writers goes by the name alone, because
//!   they may change the content; one that only reads goes by what a writer leaves as it is.
//! * Where neither is known, nothing is concluded: [`DiskComparison::Unknown`].

use block::Range;
use nbd_proto::{DiskIdentity, WriterPolicy};

use crate::client::Changed;
use crate::client::dial::Dialed;
use crate::client::fingerprint::{Change, Comparison, Fingerprint, RegionImage, Scope, regions};
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::{Body, Part};

/// Whether a connection has the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DiskComparison {
    Same,
    /// Nothing says that it is, or that it is not.
    Unknown,
    Another(Changed),
}

/// What is known of a disk since it was first reached.
#[derive(Debug)]
pub(crate) struct KnownDisk {
    server: DiskIdentity,
    /// When it was first reached, whole blocks.
    size: u64,
    block_size: u32,
    /// `None`: others write as well.
    scope: Option<Scope>,
    /// `None`: not read yet.
    fingerprint: Option<Fingerprint>,
}

impl KnownDisk {
    /// The disk that a connection was made to; `shared`: others may write to it as well.
    pub(crate) fn new(dialed: &Dialed, only_reads: bool, shared: bool) -> Self {
        let (server, export) = (dialed.disk().clone(), dialed.export());
        let many = server.writers == Some(WriterPolicy::Many);
        let scope = match only_reads {
            true => Scope::Identity,
            false => Scope::All,
        };
        Self {
            scope: (!shared && !many).then_some(scope),
            server,
            size: block::whole_blocks(export.size, export.block_size_min),
            block_size: export.block_size_min,
            fingerprint: None,
        }
    }

    /// Whether the server names it.
    pub(crate) const fn is_named(&self) -> bool {
        self.server.identity.is_some()
    }

    /// Whether its storage fences its servers.
    pub(crate) const fn is_fenced(&self) -> bool {
        self.server.is_fenced
    }

    /// Where its content says what it is, as far as that counts.
    pub(crate) fn regions(&self) -> Vec<Range> {
        let regions = || regions(self.size, self.block_size);
        self.scope.map(|_| regions()).unwrap_or_default()
    }

    /// Whether its content was read.
    pub(crate) const fn is_learned(&self) -> bool {
        self.fingerprint.is_some() || self.scope.is_none()
    }

    /// Whether it could be recognized behind another connection.
    pub(crate) fn is_recognizable(&self) -> bool {
        let has_content = |known: &Fingerprint| !known.is_blank();
        self.is_named() || self.fingerprint.as_ref().is_some_and(has_content)
    }

    /// Its content, read for the first time.
    pub(crate) fn learn(&mut self, image: RegionImage) {
        let fingerprint = Fingerprint::new(self.size, self.block_size, image);
        self.fingerprint = Some(fingerprint);
    }

    /// Whether a server that says this may have it.
    pub(crate) fn compare_name(&self, found: &DiskIdentity) -> DiskComparison {
        #[cfg(test)]
        if mutation::is_on(Mutation::AnyDisk) {
            return DiskComparison::Unknown;
        }
        let Some(expected) = &self.server.identity else {
            return DiskComparison::Unknown;
        };
        if !self.server.is_replaced_by(found) {
            return DiskComparison::Same;
        }
        let found = match &found.identity {
            Some(found) => format!("identity {found}"),
            None => "a server that names no identity".to_owned(),
        };
        let expected = format!("identity {expected}");
        DiskComparison::Another(Changed::Disk { expected, found })
    }

    /// Whether this is its content.
    pub(crate) fn compare_content(&self, found: &RegionImage) -> DiskComparison {
        let (Some(known), Some(scope)) = (&self.fingerprint, self.scope) else {
            return DiskComparison::Unknown;
        };
        match known.compare(found, scope) {
            Comparison::Same => DiskComparison::Same,
            Comparison::Blank => DiskComparison::Unknown,
            Comparison::Different { expected, found } => {
                DiskComparison::Another(Changed::Disk { expected, found })
            }
        }
    }

    /// It was found again behind a server that says this.
    pub(crate) fn is_found(&mut self, server: DiskIdentity) {
        self.server.identity = self.server.identity.take().or(server.identity);
        self.server.incarnation = server.incarnation;
        self.server.is_fenced = server.is_fenced;
    }

    /// A part is sent.
    pub(crate) fn sent(&mut self, part: &Part) {
        let change = match &part.body {
            Body::Write(data) => Change::Write(data),
            Body::WriteZeroes => Change::Zeroes,
            Body::Trim => Change::Trim,
            Body::Read(_) | Body::Extents(_) | Body::Flush { .. } => return,
        };
        if let Some(known) = &mut self.fingerprint {
            known.sent(part.range, change, part.lost_since.is_some());
        }
    }

    /// A part was answered.
    pub(crate) fn answered(&mut self, part: &Part, is_ok: bool) {
        if let Some(known) = &mut self.fingerprint
            && part.changes()
        {
            known.answered(part.range, is_ok);
        }
    }

    /// What a flush that is sent now covers.
    pub(crate) fn mark(&self) -> Option<u64> {
        self.fingerprint.as_ref().and_then(Fingerprint::mark)
    }

    /// A flush sent at `mark` succeeded.
    pub(crate) fn flushed(&mut self, mark: Option<u64>) {
        if let Some(known) = &mut self.fingerprint {
            known.flushed(mark);
        }
    }
}
