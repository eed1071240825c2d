//! [`Disk`] -> [`Node`]: opens what an expression names.
//!
//! # Invariants
//!
//! * One builder makes all disks of one process, so that it sees bytes of a file that two of them
//!   use: they are refused if one of them writes, by any path to the file.
//! * Disks that have different bytes of one file share the file: it is open, and locked, once.
//! * What is below an overlay is opened for reading only.

mod array;
mod bucket_disk;
mod built_disk;
mod claims;
mod compose;
mod error;
mod files;
mod member_reopen;
mod rbd_disk;
mod table;
#[cfg(test)]
mod tests;
mod volume;
mod write_targets;

use std::io;
use std::sync::Arc;

use block::{Node, Range};
use nbd::client::{Address, Client, ClientConfig, Target};
use nodes::array::Array;
use nodes::{
    Delay, ErrorDisk, Fault, FaultPlan, Linear, Memory, Null, ReadAhead, Segment, Throttle, Zero,
};

pub(crate) use self::built_disk::{BuiltDisk, label};
pub(crate) use self::claims::FileClaim;
use self::claims::{FileIdentity, Leaf, collision};
pub(crate) use self::error::BuildError;
use self::member_reopen::Links;
pub(crate) use self::volume::{OpenGroups, OpenedVolume};
pub(crate) use self::write_targets::{WriteTarget, write_targets};
use super::disk::{Disk, NamedDisk};
use super::error::SourceMark;
use super::size::{ByteSize, SECTOR};
use super::syntax::Span;
use crate::remotes;

/// Opens disks.
#[derive(Debug)]
pub(crate) struct Builder {
    read_only: bool,
    /// Files are opened without a lock: other processes may write them.
    looks: bool,
    /// The last bytes of a disk are there even if they are no whole sector.
    every_byte: bool,
    connections: usize,
    /// What earlier disks have of which files.
    held: Vec<FileClaim>,
    /// The files of the disk that is being built.
    leaves: Vec<Arc<Leaf>>,
    /// Every array that was opened.
    arrays: Vec<Arc<Array>>,
    /// The volume groups of which volumes are open.
    groups: OpenGroups,
    /// Every volume that was opened.
    volumes: Vec<OpenedVolume>,
    /// Volumes on object stores are taken over again when they are lost.
    #[cfg(feature = "bucket")]
    is_standby: bool,
    /// Every volume on an object store that was opened.
    #[cfg(feature = "bucket")]
    bucket_volumes: Vec<bucket::BucketVolume>,
}

/// Where a disk that is opened is written, and how it is used.
#[derive(Debug, Clone)]
struct BuildPlace<'a> {
    /// The expression.
    text: &'a str,
    /// Whether nothing may be written.
    read_only: bool,
    /// Whether the expression says so.
    kept: bool,
    /// The tables that name it.
    tables: Vec<FileIdentity>,
    /// Those of the member of an array that it is part of.
    links: Option<Links>,
}

impl<'a> BuildPlace<'a> {
    /// That of a disk which is written as `text`.
    const fn of(text: &'a str, read_only: bool) -> Self {
        Self {
            text,
            read_only,
            kept: false,
            tables: Vec::new(),
            links: None,
        }
    }
}

impl BuildPlace<'_> {
    fn mark(&self, span: Span) -> SourceMark {
        SourceMark {
            text: self.text.to_owned(),
            span,
        }
    }

    /// The same place, where nothing may be written.
    fn kept(&self) -> Self {
        Self {
            read_only: true,
            kept: true,
            ..self.clone()
        }
    }
}

type Result<T> = std::result::Result<T, BuildError>;

impl Builder {
    /// A builder; `read_only` is for all its disks.
    pub(crate) fn new(read_only: bool) -> Self {
        Self {
            read_only,
            looks: false,
            every_byte: false,
            connections: ClientConfig::default().connections,
            held: Vec::new(),
            leaves: Vec::new(),
            arrays: Vec::new(),
            volumes: Vec::new(),
            groups: OpenGroups::default(),
            #[cfg(feature = "bucket")]
            is_standby: false,
            #[cfg(feature = "bucket")]
            bucket_volumes: Vec::new(),
        }
    }

    /// A builder of disks that are only inspected: other processes may have their files open for writing, and reads
    /// may return data that is changing.
    pub(crate) fn looking() -> Self {
        Self {
            looks: true,
            ..Self::new(true)
        }
    }

    /// A builder of disks with sizes that may be no multiple of a sector, for all that takes bytes one by one. What disks are
    /// composed of has whole sectors.
    pub(crate) const fn with_every_byte(mut self) -> Self {
        self.every_byte = true;
        self
    }

    /// Makes so many connections to each remote disk, where its server takes more than one.
    pub(crate) fn with_connections(self, connections: usize) -> Self {
        Self {
            connections,
            ..self
        }
    }

    /// A builder in a process where other disks have the claims `held`.
    pub(crate) fn with_claims(self, held: Vec<FileClaim>) -> Self {
        Self { held, ..self }
    }

    /// A builder in a process where volumes of `groups` are open.
    pub(crate) fn with_groups(self, groups: OpenGroups) -> Self {
        Self { groups, ..self }
    }

    /// The bytes of files that the disks have, those from before first.
    pub(crate) fn claims(self) -> Vec<FileClaim> {
        self.held
    }

    /// Opens a disk. Call on the engine: remote disks have their connections there.
    pub(crate) async fn build(&mut self, named: &NamedDisk) -> Result<Node> {
        let built = self.tree(named).await?;
        Ok(built.disk().clone())
    }

    /// Opens a disk and returns its tree. Call on the engine.
    pub(crate) async fn tree(&mut self, named: &NamedDisk) -> Result<BuiltDisk> {
        let place = BuildPlace::of(&named.text, self.read_only);
        self.leaves.clear();
        let built = self.node(&named.disk, &place).await?;
        let built = match self.every_byte {
            true => built,
            false => whole_sectors(built, &place)?,
        };
        self.claim(&built)?;
        Ok(built)
    }

    /// Claims the bytes of a disk, unless another disk has them.
    fn claim(&mut self, built: &BuiltDisk) -> Result<()> {
        let mut claims = self.held.clone();
        claims.extend(built.footprint.clone().into_claims());
        refuse_collision(&claims)?;
        self.held = claims;
        Ok(())
    }

    /// Opens a disk and those below it.
    async fn node(&mut self, disk: &Disk, place: &BuildPlace<'_>) -> Result<BuiltDisk> {
        match disk {
            Disk::File {
                path,
                direct,
                read_only,
                span,
            } => self.file(path, (*direct, *read_only), place, *span).await,
            Disk::Memory { size, read_only } => {
                let memory = Memory::new(size.0);
                let node = match *read_only || place.read_only {
                    true => memory.read_only(),
                    false => memory,
                };
                Ok(BuiltDisk {
                    read_only: *read_only || place.kept,
                    ..ram("memory", *size, Arc::new(node))
                })
            }
            Disk::Null(size) => Ok(ram("null", *size, Arc::new(Null::new(size.0)))),
            Disk::Zero(size) => Ok(ram("zero", *size, Arc::new(Zero::new(size.0)))),
            Disk::Error(size) => Ok(ram("error", *size, Arc::new(ErrorDisk::new(size.0)))),
            Disk::Remote { .. } => self.remote(disk, place).await,
            Disk::Bucket(disk) => self.bucket(disk, place).await,
            Disk::Rbd(disk) => rbd_disk::open(disk, place).await,
            Disk::Blocks { disk, size } => self.blocks(disk, *size, place).await,
            Disk::Partition { disk, number, span } => {
                self.partition(disk, *number, place, *span).await
            }
            Disk::Linear { disks, span } => self.linear(disks, place, *span).await,
            Disk::Stripe {
                disks,
                chunk,
                trim,
                span,
            } => self.stripe(disks, (*chunk, *trim), place, *span).await,
            Disk::Array(array) => self.array(array, place).await,
            Disk::Volume(volume) => self.volume(volume, place).await,
            Disk::Overlay(overlay) => self.overlay(overlay, place).await,
            Disk::Cache(cached) => self.cache(cached, place).await,
            Disk::Dm { path, span } => self.table(path, place, *span).await,
            Disk::Delay { disk, times } => {
                let child = self.child(disk, place).await?;
                let node = Arc::new(Delay::new(child.disk().clone(), *times));
                Ok(BuiltDisk::over("delay", String::new(), node, child))
            }
            Disk::Throttle { disk, rates } => {
                let child = self.child(disk, place).await?;
                let node = Arc::new(Throttle::new(child.disk().clone(), *rates));
                Ok(BuiltDisk::over("throttle", String::new(), node, child))
            }
            Disk::Fault { disk, plan } => {
                let child = self.child(disk, place).await?;
                let node = Arc::new(Fault::new(child.disk().clone(), lasting_plan(plan)));
                Ok(BuiltDisk::over("fault", String::new(), node, child))
            }
        }
    }

    async fn child(&mut self, disk: &Disk, place: &BuildPlace<'_>) -> Result<BuiltDisk> {
        let built = Box::pin(self.node(disk, place)).await?;
        whole_sectors(built, place)
    }

    async fn children(&mut self, disks: &[Disk], place: &BuildPlace<'_>) -> Result<Vec<BuiltDisk>> {
        let mut children = Vec::with_capacity(disks.len());
        for disk in disks {
            children.push(self.child(disk, place).await?);
        }
        Ok(children)
    }

    async fn remote(&mut self, disk: &Disk, place: &BuildPlace<'_>) -> Result<BuiltDisk> {
        let Disk::Remote {
            target,
            connections,
            timeout,
            read_ahead,
            read_only,
            span,
        } = disk
        else {
            unreachable!("who calls this has looked");
        };
        let usual = ClientConfig::default();
        let away = timeout.unwrap_or(usual.reconnect_for);
        // An array does not wait for longer, neither for its members nor to be opened.
        let links = place.links.as_ref();
        let patience = links.map_or(away, |links| links.patience);
        let config = ClientConfig {
            read_only: *read_only || place.read_only,
            connections: connections.unwrap_or(self.connections),
            request_timeout: usual.request_timeout.min(away).min(patience),
            reconnect_for: away,
            writer: links.map(Links::access),
            ..usual
        };
        let lasting = lasting(target.clone()).map_err(|source| place.refused(*span, source))?;
        let connected = Box::pin(Client::connect(lasting, config)).await;
        let client = connected.map_err(|source| BuildError::Remote {
            mark: place.mark(*span),
            source: Box::new(source),
        })?;
        remotes::register(&client);
        if let Some(links) = links {
            links.add(&client);
        }
        let client: Node = client;
        let child = BuiltDisk {
            read_only: *read_only || place.kept,
            ..BuiltDisk::leaf("remote", target.to_string(), client.clone())
        };
        let Some(window) = *read_ahead else {
            return Ok(child);
        };
        let ahead = ReadAhead::new(client, window);
        let ahead = ahead.map_err(|source| place.refused(*span, source))?;
        let about = ByteSize(window).to_string();
        Ok(BuiltDisk::over("read-ahead", about, Arc::new(ahead), child))
    }
}

/// A disk without the bytes behind its last whole sector, if there are any.
fn whole_sectors(built: BuiltDisk, place: &BuildPlace<'_>) -> Result<BuiltDisk> {
    let Some(node) = built.node.clone() else {
        return Ok(built);
    };
    let size = node.geometry().size;
    let range = Range::new(0, size - size % SECTOR);
    if range.len == size || range.is_empty() {
        return Ok(built);
    }
    tracing::warn!(
        "{}: the last {} of its {size} bytes are not used: a disk has whole sectors",
        built.about,
        size - range.len
    );
    let whole = Linear::new(vec![Segment { disk: node, range }]);
    let all = Span {
        start: 0,
        end: place.text.len(),
    };
    let whole = whole.map_err(|source| place.refused(all, source))?;
    Ok(BuiltDisk {
        node: Some(Arc::new(whole)),
        ..built
    })
}

/// A disk that is nowhere but in this process.
fn ram(name: &'static str, size: ByteSize, node: Node) -> BuiltDisk {
    BuiltDisk::leaf(name, size.to_string(), node)
}

fn refuse_collision(claims: &[FileClaim]) -> Result<()> {
    let Some((first, second)) = collision(claims) else {
        return Ok(());
    };
    Err(BuildError::Twice {
        path: second.leaf.path.clone(),
        both_write: first.writes && second.writes,
        first: first.leaf.mark.clone(),
        second: second.leaf.mark.clone(),
    })
}

/// A target with absolute paths: a process that serves a disk may change its working directory.
pub(crate) fn lasting(mut target: Target) -> io::Result<Target> {
    for address in std::iter::once(&mut target.address).chain(&mut target.others) {
        if let Address::Unix(path) = address {
            *path = std::path::absolute(&*path)?;
        }
    }
    let tls = target.tls.as_mut();
    if let Some(folder) = tls.and_then(|tls| tls.certificates.as_mut()) {
        *folder = std::path::absolute(&*folder)?;
    }
    Ok(target)
}

/// The same of a plan.
fn lasting_plan(plan: &FaultPlan) -> FaultPlan {
    let path = plan.pulled_while.as_ref();
    let path = path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    FaultPlan {
        pulled_while: path,
        ..plan.clone()
    }
}
