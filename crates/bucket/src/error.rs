//! [`BucketError`]: why a volume is not opened, made or changed; [`VolumeFailure`]: why an open one is out of use.

use std::path::PathBuf;
use std::sync::Arc;

use block::{Errno, Fenced, IoError, Operation, Range};
use slatedb::{CloseReason, ErrorKind};

use crate::format::{
    CollectionFormatError, EntryFormatError, HeaderFormatError, JournalFormatError, MetaFormatError,
};
use crate::journal_plan::JournalRefusal;
use crate::seal::VolumeKeyError;
use crate::snapshot_name::SnapshotName;
use crate::uri::BucketUriError;

/// A command or an open that failed. Messages have the URI, and no credentials.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// A URI of no volume.
    #[error(transparent)]
    Uri(#[from] BucketUriError),
    /// Nothing there.
    #[error("there is no volume at {uri}")]
    NoVolume {
        /// Where.
        uri: String,
    },
    /// A volume, or something else, is there already.
    #[error("{uri} is not empty: {found} is there")]
    Exists {
        /// Where.
        uri: String,
        /// The first object.
        found: String,
    },
    /// A header that is not understood.
    #[error("the header of the volume at {uri} is not understood: {source}")]
    Header {
        /// Where.
        uri: String,
        /// Why.
        source: HeaderFormatError,
    },
    /// The record of the index that is not understood.
    #[error("the record of the index of {uri} is not understood: {source}")]
    Meta {
        /// Where.
        uri: String,
        /// Why.
        source: MetaFormatError,
    },
    /// An entry of the index that is not understood.
    #[error("an entry of the index of {uri} is not understood: {source}")]
    Entry {
        /// Where.
        uri: String,
        /// Why.
        source: EntryFormatError,
    },
    /// The record of a collection that is not understood.
    #[error("the record of the collection of {uri} is not understood: {source}")]
    Collection {
        /// Where.
        uri: String,
        /// Why.
        source: CollectionFormatError,
    },
    /// Data that was not relocated.
    #[error("not all data of {uri} was relocated: {why}")]
    Relocation {
        /// Where.
        uri: String,
        /// Why.
        why: String,
    },
    /// An index of another volume.
    #[error("the index at {uri} is that of another volume than its header")]
    Foreign {
        /// Where.
        uri: String,
    },
    /// An index without a record, which that of a clone has from its first moment on.
    #[error("the index of {uri}, a clone, is missing")]
    NoRecord {
        /// Where.
        uri: String,
    },
    /// What is left of a clone that was being made or deleted.
    #[error("{uri} is not empty: an interrupted command left {found}")]
    Unfinished {
        /// Where.
        uri: String,
        /// The mark of it.
        found: String,
    },
    /// A store that would let two servers write.
    #[error(
        "{uri} cannot be written: the store does not support conditional PUT (If-None-Match), so two servers could write at once: {why}"
    )]
    ConditionalPut {
        /// Where.
        uri: String,
        /// What it answered.
        why: String,
    },
    /// The store.
    #[error("cannot {what} at {uri}: {source}")]
    Store {
        /// What was to be done.
        what: &'static str,
        /// Where.
        uri: String,
        /// Why.
        source: Box<object_store::Error>,
    },
    /// The index.
    #[error("cannot {what} the index of {uri}: {source}")]
    Index {
        /// What was to be done.
        what: &'static str,
        /// Where.
        uri: String,
        /// Why.
        source: Box<slatedb::Error>,
    },
    /// Another clock than the store's.
    #[error(
        "the clock of this machine and that of the store of {uri} differ by {seconds} s, and may by 30"
    )]
    Clock {
        /// Where.
        uri: String,
        /// By how much.
        seconds: u64,
    },
    /// Tables of a writer with a clock that is far ahead of this machine's.
    #[error(
        "the newest table of the index of {uri} is {seconds} s ahead of the clock of this machine, and may be 3600"
    )]
    TablesAhead {
        /// Where.
        uri: String,
        /// By how much.
        seconds: u64,
    },
    /// The store does not answer.
    #[error("{uri} was not opened within {seconds} s: the store does not answer")]
    Timeout {
        /// Where.
        uri: String,
        /// The limit.
        seconds: u64,
    },
    /// This process writes the volume already.
    #[error("{uri} is open here already, for writing")]
    Own {
        /// Where.
        uri: String,
    },
    /// Another server opened the volume for writing meanwhile.
    #[error("another server has opened {uri} for writing at the same time")]
    Fenced {
        /// Where.
        uri: String,
    },
    /// A folder of this machine.
    #[error("cannot use the folder of {uri}: {why}")]
    Folder {
        /// Where.
        uri: String,
        /// Why.
        why: String,
    },
    /// Others changed the header each time.
    #[error("{uri} was not changed: other programs change it at the same time")]
    Contended {
        /// Where.
        uri: String,
    },
    /// The configuration of the store.
    #[error("the store of {uri} is not configured: {why}")]
    Config {
        /// Where.
        uri: String,
        /// Why.
        why: String,
    },
    /// A file of certificates.
    #[error("cannot use the certificates in {}: {why}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// An encrypted volume, and no key.
    #[error("{uri} is encrypted, and no key was given")]
    NoKey {
        /// Where.
        uri: String,
    },
    /// The key of another volume, or a header that was changed.
    #[error("the key is not that of {uri}, or its header was changed")]
    WrongKey {
        /// Where.
        uri: String,
    },
    /// A key for a volume that has none.
    #[error("{uri} is not encrypted, and a key was given")]
    NotEncrypted {
        /// Where.
        uri: String,
    },
    /// A file with a key.
    #[error("cannot use the key in {}: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: VolumeKeyError,
    },
    /// A size that no volume has.
    #[error("a volume has a size of whole blocks of 4096 bytes, {0} is none")]
    Size(u64),
    /// A size that is not larger.
    #[error("{uri} has {size} bytes already, and is never made smaller")]
    Shrink {
        /// Where.
        uri: String,
        /// Its size.
        size: u64,
    },
    /// No snapshot of this name.
    #[error("{uri} has no snapshot {name}")]
    NoSnapshot {
        /// The volume.
        uri: String,
        /// The name.
        name: SnapshotName,
    },
    /// A snapshot of this name.
    #[error("{uri} has a snapshot {name} already")]
    SnapshotExists {
        /// The volume.
        uri: String,
        /// The name.
        name: SnapshotName,
    },
    /// The snapshots of a volume that was to be deleted.
    #[error("{uri} is not deleted: it has snapshots: {names}")]
    HasSnapshots {
        /// The volume.
        uri: String,
        /// Their names.
        names: String,
    },
    /// The clones of a volume or a snapshot that was to be deleted.
    #[error("{uri} is not deleted: it has clones: {clones}")]
    HasClones {
        /// The volume or the snapshot.
        uri: String,
        /// Where they are.
        clones: String,
    },
    /// A clone in another store than its snapshot.
    #[error(
        "{clone} is not in the store of {uri}: a clone is in the bucket, or on the filesystem, of its snapshot, because it has the same objects"
    )]
    OtherStore {
        /// The snapshot.
        uri: String,
        /// The clone.
        clone: String,
    },
    /// Changes that only the server which has the volume open can bring into a snapshot.
    #[error(
        "no snapshot of {uri} was made: it was not closed, and no server that has it open answered within {seconds} s"
    )]
    NoAnswer {
        /// Where.
        uri: String,
        /// The limit.
        seconds: u64,
    },
    /// No server relocated data.
    #[error(
        "not all data of {uri} was relocated: no server that has it open went on with it within {seconds} s"
    )]
    NoRelocation {
        /// Where.
        uri: String,
        /// The limit.
        seconds: u64,
    },
    /// A journal that is not the volume's, or one of the volume that is not there.
    #[error("{uri} cannot be opened for writing with the journal {path}: {source}")]
    Journal {
        /// The volume.
        uri: String,
        /// The journal.
        path: String,
        /// Why.
        source: JournalRefusal,
    },
    /// A journal that was not named.
    #[error("{uri} cannot be opened for writing without its journal: {source}")]
    NoJournal {
        /// The volume.
        uri: String,
        /// Why.
        source: JournalRefusal,
    },
    /// A journal that is not understood.
    #[error("the journal {path} is not used: {source}")]
    JournalFormat {
        /// The journal.
        path: String,
        /// Why.
        source: JournalFormatError,
    },
    /// A journal that cannot be read or written.
    #[error("the journal {path}: {source}")]
    JournalIo {
        /// The journal.
        path: String,
        /// Why.
        source: IoError,
    },
    /// A journal for a volume that is not written.
    #[error("{uri} is read-only, and has no journal")]
    JournalReadOnly {
        /// The volume.
        uri: String,
    },
    /// No journal to give up.
    #[error("{uri} has no open journal")]
    NothingToDiscard {
        /// The volume.
        uri: String,
    },
    /// The volume failed while it was in use.
    #[error("{uri}: {source}")]
    Failed {
        /// Where.
        uri: String,
        /// Why.
        source: VolumeFailure,
    },
}

impl BucketError {
    /// What to do next, where the message does not say so.
    #[must_use]
    pub const fn next(&self) -> Option<&'static str> {
        match self {
            Self::NoVolume { .. } => Some("`outboard bucket create` makes one"),
            Self::Exists { .. } => Some("choose another path"),
            Self::Unfinished { .. } => Some("`outboard bucket delete` removes it"),
            Self::HasClones { .. } => Some("delete them first, with `outboard bucket delete`"),
            Self::OtherStore { .. } => Some("choose another path, or copy it with `outboard copy`"),
            Self::ConditionalPut { .. } => Some("it can be read: write read-only=true"),
            Self::Clock { .. } | Self::TablesAhead { .. } => {
                Some("set the clock: the order of changes depends on it")
            }
            Self::Fenced { .. } => Some("the other one has the volume now"),
            Self::Contended { .. } => Some("try again"),
            Self::NoSnapshot { .. } => Some("`outboard bucket snapshot list` shows them"),
            Self::SnapshotExists { .. } => Some("choose another name, or delete it"),
            Self::HasSnapshots { .. } => {
                Some("delete them first, with `outboard bucket snapshot delete`")
            }
            Self::NoJournal { .. } => Some(
                "open it there, with journal=FILE and durability=local; or give those changes up: `outboard bucket journal discard`",
            ),
            Self::JournalReadOnly { .. } => Some("leave out journal=FILE, or read-only=true"),
            Self::NoAnswer { .. } | Self::NoRelocation { .. } => {
                Some("if no server has it open, write --take-over: one that does would lose it")
            }
            Self::NoKey { .. } => Some("write --key FILE, or bucket(URI, key=FILE)"),
            Self::NotEncrypted { .. } => {
                Some("leave it out, if you did not expect an encrypted volume there")
            }
            Self::KeyFile {
                source: VolumeKeyError::Mode,
                ..
            } => Some("chmod 600 makes it its owner's"),
            Self::KeyFile { .. } => Some("`outboard bucket key create` makes one"),
            Self::Config { .. } => Some(
                "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for other makes, AWS_ENDPOINT_URL",
            ),
            _ => None,
        }
    }

    /// That of an index which failed.
    pub(crate) fn index(uri: &str, what: &'static str, source: slatedb::Error) -> Self {
        let uri = uri.to_owned();
        match source.kind() {
            ErrorKind::Closed(CloseReason::Fenced) => Self::Fenced { uri },
            _ => Self::Index {
                what,
                uri,
                source: Box::new(source),
            },
        }
    }

    pub(crate) fn store(uri: &str, what: &'static str, source: object_store::Error) -> Self {
        Self::Store {
            what,
            uri: uri.to_owned(),
            source: Box::new(source),
        }
    }
}

/// Why an open volume is out of use. It stays so until it is opened again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum VolumeFailure {
    /// Another server opened the volume for writing.
    #[error("another server has opened the volume for writing: this one has lost it")]
    Fenced,
    /// A commit did not reach the store.
    #[error("changes were not written to the store: {0}")]
    Commit(Arc<str>),
    /// The local journal.
    #[error("changes were not written to the journal: {0}")]
    Journal(Arc<str>),
    /// It was closed.
    #[error("the volume is closed")]
    Closed,
}

impl VolumeFailure {
    /// That of a commit which the index refused.
    pub(crate) fn of_index(error: &slatedb::Error) -> Self {
        match error.kind() {
            ErrorKind::Closed(CloseReason::Fenced) => Self::Fenced,
            _ => Self::Commit(error.to_string().into()),
        }
    }

    /// As the error of a request to the volume at `uri`.
    pub(crate) fn to_io(&self, uri: &str, operation: Operation, range: Option<Range>) -> IoError {
        let errno = match self {
            Self::Fenced | Self::Commit(_) | Self::Journal(_) => Errno::Io,
            Self::Closed => Errno::ShuttingDown,
        };
        let error = IoError::new(errno, operation, range);
        match self {
            Self::Fenced => error.because(Fenced(format!("{uri}: {self}"))),
            _ => error.because(format!("{uri}: {self}")),
        }
    }
}
