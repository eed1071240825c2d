//! Disks that are made of others.

use std::error::Error;
use std::sync::Arc;

use block::{Node, Range};
use nodes::partition::{Partition, PartitionError, PartitionTable};
use nodes::{Blocks, Cache, CacheOptions, Linear, Overlay, OverlayOptions, Segment, Stripe};

use super::built_disk::{Below, BuiltDisk, label};
use super::claims::{FileIdentity, Footprint};
use super::{BuildError, BuildPlace, Builder, Result, refuse_collision};
use crate::caches::{self, BootProfileUse};
use crate::graph::disk::{self, Disk};
use crate::graph::segments::BLOCK;
use crate::graph::size::ByteSize;
use crate::graph::syntax::Span;

impl BuildPlace<'_> {
    /// Disks that do not make another one.
    pub(super) fn refused(
        &self,
        span: Span,
        source: impl Error + Send + Sync + 'static,
    ) -> BuildError {
        self.refused_with(span, source, None)
    }

    /// The same, and what the user can do about it.
    pub(super) fn refused_with(
        &self,
        span: Span,
        source: impl Error + Send + Sync + 'static,
        next: Option<&'static str>,
    ) -> BuildError {
        BuildError::Node {
            mark: self.mark(span),
            source: Box::new(source),
            next,
        }
    }
}

impl Builder {
    pub(super) async fn blocks(
        &mut self,
        disk: &Disk,
        size: u32,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        let child = self.child(disk, place).await?;
        let blocks = Blocks::new(child.disk().clone(), size);
        let node = Arc::new(blocks.expect("the expression takes no other sizes"));
        let about = ByteSize(size.into()).to_string();
        Ok(BuiltDisk::over("blocks", about, node, child))
    }

    pub(super) async fn partition(
        &mut self,
        disk: &Disk,
        number: u32,
        place: &BuildPlace<'_>,
        span: Span,
    ) -> Result<BuiltDisk> {
        let child = self.child(disk, place).await?;
        let refused = |source: PartitionError| place.refused(span, source);
        let table = PartitionTable::read(child.disk()).await;
        let table = table.map_err(|source| refused(source.into()))?;
        let table = table.ok_or_else(|| refused(PartitionError::NoTable))?;
        let opened = Partition::of(child.disk().clone(), &table, number);
        let partition = opened.map_err(refused)?;
        let disk = &child.about;
        for remark in table.remarks() {
            if remark.forbids_writes() {
                tracing::warn!("partition {number} of {disk} is read-only: {remark}");
            } else if remark.is_slow(number) {
                tracing::warn!("{disk}: {remark}");
            }
        }
        let footprint = child.footprint.window(partition.range());
        Ok(BuiltDisk {
            name: "partition",
            about: number.to_string(),
            node: Some(Arc::new(partition)),
            read_only: child.read_only || table.is_read_only(),
            below: Below::Mapped,
            children: vec![child],
            footprint,
        })
    }

    pub(super) async fn linear(
        &mut self,
        disks: &[Disk],
        place: &BuildPlace<'_>,
        span: Span,
    ) -> Result<BuiltDisk> {
        let children = self.children(disks, place).await?;
        let linear = Linear::of_disks(nodes_of(&children));
        let linear = linear.map_err(|source| place.refused(span, source))?;
        let mut footprint = Footprint::default();
        let mut at = 0;
        for (number, child) in children.iter().enumerate() {
            let size = child.disk().geometry().size;
            // The last one may grow.
            let last = number + 1 == children.len();
            let part = if last {
                child.footprint.clone()
            } else {
                child.footprint.window(Range::new(0, size))
            };
            footprint.add(at, part);
            if !at.is_multiple_of(BLOCK) {
                tracing::warn!(
                    "{}: {} begins at byte {at}, no multiple of 4 KiB: writes are slow on most drives",
                    place.text,
                    label(child.name, &child.about)
                );
            }
            at += size;
        }
        Ok(made(
            "linear",
            String::new(),
            Arc::new(linear),
            children,
            footprint,
        ))
    }

    pub(super) async fn stripe(
        &mut self,
        disks: &[Disk],
        (chunk, trim): (u64, bool),
        place: &BuildPlace<'_>,
        span: Span,
    ) -> Result<BuiltDisk> {
        let children = self.children(disks, place).await?;
        let segments: Vec<Segment> = nodes_of(&children)
            .into_iter()
            .map(Segment::whole)
            .collect();
        let stripe = if trim {
            Stripe::trimmed(segments, chunk).map(|(stripe, left_out)| {
                for left_out in left_out {
                    tracing::warn!("{}: {left_out}", place.text);
                }
                stripe
            })
        } else {
            Stripe::new(segments, chunk)
        };
        let stripe = stripe.map_err(|source| {
            use nodes::StripeError::{PartialChunk, Unequal};
            let unlike = matches!(source, Unequal { .. } | PartialChunk { .. });
            BuildError::Node {
                mark: place.mark(span),
                source: Box::new(source),
                next: unlike.then_some("trim=true leaves the ends of the longer ones out"),
            }
        })?;
        let mut footprint = Footprint::default();
        for child in &children {
            footprint.add(0, child.footprint.clone().scattered());
        }
        let about = format!("chunk {}", ByteSize(chunk));
        Ok(made("stripe", about, Arc::new(stripe), children, footprint))
    }

    pub(super) async fn overlay(
        &mut self,
        overlay: &disk::Overlay,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        let disk::Overlay {
            base,
            top,
            chunk,
            quota,
            span,
        } = overlay;
        let base = self.child(base, &place.kept()).await?;
        if FileIdentity::at(top).is_some_and(|identity| base.footprint.has(identity)) {
            return Err(BuildError::OwnBase {
                path: top.clone(),
                mark: place.mark(*span),
            });
        }
        // Another disk's file is not even looked into.
        let found = self.own_file(top, place.read_only, place, *span);
        if let Some((_, own)) = &found {
            let mut claims = self.held.clone();
            claims.extend(own.clone().into_claims());
            refuse_collision(&claims)?;
        }
        let usual = OverlayOptions::default();
        let options = OverlayOptions {
            chunk: chunk.unwrap_or(usual.chunk),
            size_max: *quota,
            read_only: place.read_only,
            create: !place.read_only,
        };
        let opened = Box::pin(Overlay::open(base.disk().clone(), top, options)).await;
        let node = opened.map_err(|source| place.refused(*span, source))?;
        let mut footprint = base.footprint.clone();
        let mut children = vec![base];
        // It may have been made just now.
        let found = found.or_else(|| self.own_file(top, place.read_only, place, *span));
        if let Some((file, own)) = found {
            footprint.add(0, own);
            children.push(file);
        }
        let built = made(
            "overlay",
            String::new(),
            Arc::new(node),
            children,
            footprint,
        );
        Ok(BuiltDisk {
            read_only: place.kept,
            ..built
        })
    }

    pub(super) async fn cache(
        &mut self,
        cached: &disk::CachedDisk,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        let disk::CachedDisk {
            disk,
            file,
            size,
            profile,
            span,
        } = cached;
        let child = self.child(disk, place).await?;
        if self.looks {
            // The process that has the cache open may be another one.
            return Ok(child);
        }
        // Neither the file of another disk nor one of the disk itself is even opened.
        if let Some((_, own)) = self.own_file(file, false, place, *span) {
            let mut claims = self.held.clone();
            claims.extend(child.footprint.clone().into_claims());
            claims.extend(own.into_claims());
            refuse_collision(&claims)?;
        }
        let profile = profile.as_deref().map(BootProfileUse::of).transpose();
        let profile = profile.map_err(|why| place.refused(*span, why))?;
        let options = CacheOptions { size_max: *size };
        let opened = Box::pin(Cache::open(child.disk().clone(), file, options)).await;
        let node = Arc::new(opened.map_err(|source| place.refused(*span, source))?);
        caches::register(&node, profile);
        let mut built = BuiltDisk::over("cache", file.display().to_string(), node, child);
        // It may have been made just now.
        if let Some((_, own)) = self.own_file(file, false, place, *span) {
            built.footprint.add(0, own);
        }
        Ok(built)
    }
}

/// A disk that maps its bytes to those below.
pub(super) fn made(
    name: &'static str,
    about: String,
    node: Node,
    children: Vec<BuiltDisk>,
    footprint: Footprint,
) -> BuiltDisk {
    BuiltDisk {
        name,
        about,
        node: Some(node),
        read_only: children.iter().any(|child| child.read_only),
        below: Below::Mapped,
        children,
        footprint,
    }
}

fn nodes_of(children: &[BuiltDisk]) -> Vec<Node> {
    children.iter().map(|child| child.disk().clone()).collect()
}
