//! [`Disk`] -> [`Node`]: opens what an expression names.
//!
//! # Invariants
//!
//! * One builder makes all disks of one process, so that it sees a file that is opened twice: a
//!   second time for writing is refused, whatever path leads to it.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::Node;
use nbd::client::{Client, ClientConfig, ClientError};
use nodes::{Blocks, File, FileOptions, Memory, Null, OpenError};

use super::error::Mark;
use super::resolve::{Disk, NamedDisk};
use super::syntax::Span;

/// Opens disks.
#[derive(Debug)]
pub(crate) struct Builder {
    read_only: bool,
    connections: usize,
    written: Vec<Written>,
}

/// A file that was opened for writing.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    identity: Identity,
    mark: Mark,
}

/// What makes two paths the same disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// File: device and inode.
    File(u64, u64),
    /// Block device: its number.
    Device(u64),
}

/// A disk that could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// A file.
    #[error("{source}")]
    File {
        /// Where it is named.
        mark: Mark,
        /// Why.
        source: OpenError,
    },
    /// A file that is written already.
    #[error("{} would be written by two disks at once", path.display())]
    Twice {
        /// Its path.
        path: PathBuf,
        /// Where it was opened.
        first: Mark,
        /// Where it would be opened again.
        second: Mark,
    },
    /// A remote disk.
    #[error("{source}")]
    Remote {
        /// Where it is named.
        mark: Mark,
        /// Why.
        source: Box<ClientError>,
    },
}

impl BuildError {
    /// Where in the expressions.
    pub(crate) fn marks(&self) -> Vec<&Mark> {
        match self {
            Self::File { mark, .. } | Self::Remote { mark, .. } => vec![mark],
            Self::Twice { first, second, .. } => vec![first, second],
        }
    }

    /// Whether a disk that this process has open is in the way.
    pub(crate) fn is_own_conflict(&self) -> bool {
        match self {
            Self::Twice { .. } => true,
            Self::File { source, .. } => matches!(
                source,
                OpenError::InUse { holder, .. } if holder.process == Some(std::process::id())
            ),
            Self::Remote { .. } => false,
        }
    }

    /// What the user can do about it, if the message does not say so.
    pub(crate) const fn next(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } | Self::Remote { .. } => None,
            Self::Twice { .. } => Some("make it read-only in both: file(PATH, read-only=true)"),
        }
    }
}

impl Builder {
    /// A builder; `read_only` is for all its disks.
    pub(crate) fn new(read_only: bool) -> Self {
        Self {
            read_only,
            connections: ClientConfig::default().connections,
            written: Vec::new(),
        }
    }

    /// Makes so many connections to each remote disk, where its server takes more than one.
    pub(crate) fn with_connections(self, connections: usize) -> Self {
        Self {
            connections,
            ..self
        }
    }

    /// A builder in a process that has these files open for writing already.
    pub(crate) fn beside(self, written: Vec<Written>) -> Self {
        Self { written, ..self }
    }

    /// The files that are open for writing, those from before first.
    pub(crate) fn written(self) -> Vec<Written> {
        self.written
    }

    /// Opens a disk. Call on the engine: remote disks have their connections there.
    pub(crate) async fn build(&mut self, named: &NamedDisk) -> Result<Node, BuildError> {
        self.node(&named.disk, &named.text).await
    }

    /// Opens a disk and those below it; `text` is what they are all written in.
    async fn node(&mut self, disk: &Disk, text: &str) -> Result<Node, BuildError> {
        let mark = |span: &Span| Mark {
            text: text.to_owned(),
            span: *span,
        };
        match disk {
            Disk::File {
                path,
                direct,
                read_only,
                span,
            } => {
                let options = FileOptions {
                    direct: *direct,
                    read_only: *read_only || self.read_only,
                };
                self.file(path, options, mark(span))
            }
            Disk::Memory(size) => Ok(Arc::new(Memory::new(size.0))),
            Disk::Null(size) => Ok(Arc::new(Null::new(size.0))),
            Disk::Remote {
                target,
                connections,
                read_only,
                span,
            } => {
                let config = ClientConfig {
                    read_only: *read_only || self.read_only,
                    connections: connections.unwrap_or(self.connections),
                    ..ClientConfig::default()
                };
                match Box::pin(Client::connect(target.clone(), config)).await {
                    Ok(client) => Ok(client),
                    Err(source) => Err(BuildError::Remote {
                        mark: mark(span),
                        source: Box::new(source),
                    }),
                }
            }
            Disk::Blocks { disk, size } => {
                let below = Box::pin(self.node(disk, text)).await?;
                let blocks = Blocks::new(below, *size);
                Ok(Arc::new(
                    blocks.expect("the expression takes no other sizes"),
                ))
            }
        }
    }

    fn file(&mut self, path: &Path, options: FileOptions, mark: Mark) -> Result<Node, BuildError> {
        if !options.read_only
            // What cannot be looked at cannot be opened, and opening it tells why.
            && let Ok(metadata) = std::fs::metadata(path)
        {
            let identity = Identity::of(&metadata);
            if let Some(first) = self.written.iter().find(|w| w.identity == identity) {
                return Err(BuildError::Twice {
                    path: path.to_owned(),
                    first: first.mark.clone(),
                    second: mark,
                });
            }
            let mark = mark.clone();
            self.written.push(Written { identity, mark });
        }
        match File::open(path, options) {
            Ok(file) => Ok(Arc::new(file)),
            Err(source) => Err(BuildError::File { mark, source }),
        }
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Device(metadata.rdev())
        } else {
            Self::File(metadata.dev(), metadata.ino())
        }
    }
}
