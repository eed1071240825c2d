//! Files: each is open once, however many disks have a part of it.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use block::Node;
use nodes::{File, FileOptions};

use super::built_disk::{Below, BuiltDisk};
use super::claims::{FileIdentity, Footprint, Leaf};
use super::{BuildError, BuildPlace, Builder, Result};
use crate::graph::syntax::Span;

impl FileIdentity {
    /// That of what is at `path`; `None` if nothing can be seen there.
    pub(super) fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|found| Self::of(&found))
    }

    fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Device(metadata.rdev())
        } else {
            Self::File(metadata.dev(), metadata.ino())
        }
    }
}

impl Builder {
    /// Opens a file, or shares it with a disk that has it open in the same way.
    pub(super) async fn file(
        &mut self,
        path: &Path,
        (direct, read_only): (bool, bool),
        place: &BuildPlace<'_>,
        span: Span,
    ) -> Result<BuiltDisk> {
        let options = FileOptions {
            direct,
            read_only: read_only || place.read_only,
        };
        let identity = FileIdentity::at(path);
        let open = identity.and_then(|identity| self.shared(identity, options));
        let node = match open {
            Some(node) => node,
            None => match self.open(path, options).await {
                Ok(file) => Arc::new(file),
                Err(source) => {
                    return Err(self.not_opened((path, options.read_only), source, place, span));
                }
            },
        };
        let mut built = BuiltDisk {
            read_only: read_only || place.kept,
            ..BuiltDisk::leaf("file", path.display().to_string(), node.clone())
        };
        // It may have been made, or be another file, since it was looked at first.
        if let Some(identity) = FileIdentity::at(path) {
            let leaf = Arc::new(Leaf {
                identity,
                path: path.to_owned(),
                mark: place.mark(span),
                options,
                node: Some(Arc::downgrade(&node)),
            });
            self.leaves.push(leaf.clone());
            built.footprint = Footprint::of(leaf);
        }
        Ok(built)
    }

    async fn open(
        &self,
        path: &Path,
        options: FileOptions,
    ) -> std::result::Result<File, nodes::OpenError> {
        if self.looks && !options.direct {
            return File::look_at(path).await.map(|(file, _)| file);
        }
        File::open(path, options).await
    }

    /// The disk on a file that is open already, in the same way.
    fn shared(&self, identity: FileIdentity, options: FileOptions) -> Option<Node> {
        let leaves = self.known();
        let mut same = leaves.filter(|l| l.identity == identity && l.options == options);
        same.find_map(Leaf::node)
    }

    fn known(&self) -> impl Iterator<Item = &Leaf> {
        let held = self.held.iter().map(|claim| &*claim.leaf);
        self.leaves.iter().map(|leaf| &**leaf).chain(held)
    }

    /// The error of a file that was not opened; it says where this process has the file open, if that is why.
    fn not_opened(
        &self,
        (path, read_only): (&Path, bool),
        source: nodes::OpenError,
        place: &BuildPlace<'_>,
        span: Span,
    ) -> BuildError {
        let mark = place.mark(span);
        let error = BuildError::File { mark, source };
        let Some(identity) = FileIdentity::at(path).filter(|_| error.is_own_conflict()) else {
            return error;
        };
        let Some(leaf) = self.known().find(|leaf| leaf.identity == identity) else {
            return error;
        };
        let (path, first, second) = (path.to_owned(), leaf.mark.clone(), place.mark(span));
        if leaf.options.read_only == read_only {
            return BuildError::Unlike {
                path,
                first,
                second,
            };
        }
        BuildError::Twice {
            path,
            both_write: false,
            first,
            second,
        }
    }

    /// Notes a file that a node keeps open by itself, and shows it below that node.
    pub(super) fn own_file(
        &mut self,
        path: &Path,
        read_only: bool,
        place: &BuildPlace<'_>,
        span: Span,
    ) -> Option<(BuiltDisk, Footprint)> {
        let leaf = Arc::new(Leaf {
            identity: FileIdentity::at(path)?,
            path: path.to_owned(),
            mark: place.mark(span),
            options: FileOptions {
                read_only,
                direct: false,
            },
            node: None,
        });
        self.leaves.push(leaf.clone());
        let built = BuiltDisk {
            name: "file",
            about: path.display().to_string(),
            node: None,
            read_only: place.kept,
            below: Below::Nothing,
            children: Vec::new(),
            footprint: Footprint::default(),
        };
        // Its bytes are nowhere in particular of the disk above.
        Some((built, Footprint::of(leaf).scattered()))
    }
}
