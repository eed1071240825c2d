//! `dm(TABLE-FILE)`: the disks that a device-mapper table names, and the disk it makes of them.
//!
//! A device of a table is a path, a number (`8:16`) or, where it has a bracket or `://` in it, a disk
//! expression; a blank in it is written `\ `. Paths are those of the working directory, as everywhere.

use std::path::Path;

use block::Range;
use nodes::dm::{self, Device, DeviceName, Need};
use nodes::{Overlay, OverlayOptions};

use super::built_disk::BuiltDisk;
use super::claims::{FileIdentity, Footprint};
use super::compose::made;
use super::{BuildError, BuildPlace, Builder, Result};
use crate::graph::disk::Disk;
use crate::graph::resolve::resolve;
use crate::graph::size::SECTOR;
use crate::graph::syntax::Span;

/// Tables that name tables.
const TABLES_MAX: usize = 8;
/// Longest table, bytes.
const TABLE_MAX: u64 = 4 << 20;

impl Builder {
    /// The disk that the table at `path` describes.
    pub(super) async fn table(
        &mut self,
        path: &Path,
        place: &BuildPlace<'_>,
        span: Span,
    ) -> Result<BuiltDisk> {
        let (table, inner) = parsed(path, place, span)?;
        for remark in dm::remarks(&table) {
            tracing::warn!("{}: {remark}", path.display());
        }
        let needs = table.needs();
        let mut children = Vec::with_capacity(needs.len());
        for need in &needs {
            children.push(self.need(need, path, &inner).await?);
        }
        let nodes: Vec<_> = children.iter().map(|child| child.disk().clone()).collect();
        let node = dm::assemble(&table, &nodes).map_err(wrong(path, place, span))?;
        let mut footprint = footprint(&table, &children);
        // A disk on the table's own file would change the table.
        if let Some((_, own)) = self.own_file(path, true, place, span) {
            footprint.add(0, own);
        }
        let about = path.display().to_string();
        Ok(made("dm", about, node, children, footprint))
    }

    /// One of the disks that a table is made of.
    async fn need(
        &mut self,
        need: &Need<'_>,
        path: &Path,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        match *need {
            Need::Disk {
                device,
                read_only: true,
            } => self.device(device, path, &place.kept()).await,
            Need::Disk { device, .. } => self.device(device, path, place).await,
            Need::Overlay {
                origin,
                store,
                chunk,
            } => {
                let base = self.device(origin, path, &place.kept()).await?;
                let store_disk = self.device(store, path, place).await?;
                let options = OverlayOptions {
                    chunk: u32::try_from(chunk).unwrap_or(u32::MAX),
                    size_max: None,
                    read_only: place.read_only,
                    // A store that is all zeroes is a new one, as for the kernel.
                    create: !place.read_only,
                };
                let (below, kept) = (base.disk().clone(), store_disk.disk().clone());
                let opened = Box::pin(Overlay::over(below, kept, options)).await;
                let overlay = opened.map_err(|source| BuildError::Table {
                    path: path.to_owned(),
                    line: store.place.line,
                    source: Box::new(place.refused(Span::default(), source)),
                })?;
                let mut footprint = base.footprint.clone();
                footprint.add(0, store_disk.footprint.clone().scattered());
                let children = vec![base, store_disk];
                let node = std::sync::Arc::new(overlay);
                let built = made("overlay", String::new(), node, children, footprint);
                Ok(BuiltDisk {
                    read_only: place.kept,
                    ..built
                })
            }
        }
    }

    /// A device of a table.
    async fn device(
        &mut self,
        device: &Device,
        path: &Path,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        let text = device.to_string();
        let place = BuildPlace {
            text: &text,
            ..place.clone()
        };
        let disk = disk_of(device, path, &place)?;
        self.child(&disk, &place)
            .await
            .map_err(|source| of_device(device, path, source))
    }
}

/// The table at `path`, and the place of what it names.
pub(super) fn parsed<'a>(
    path: &Path,
    place: &BuildPlace<'a>,
    span: Span,
) -> Result<(dm::DmTable, BuildPlace<'a>)> {
    let inner = place.within(path, span)?;
    let text = read(path).map_err(wrong(path, place, span))?;
    let table = dm::parse(&text).map_err(wrong(path, place, span))?;
    Ok((table, inner))
}

/// What a device of the table at `path` is, in words of expressions.
pub(super) fn disk_of(device: &Device, path: &Path, place: &BuildPlace<'_>) -> Result<Disk> {
    let text = device.to_string();
    match &device.name {
        DeviceName::Path(_) if is_expression(&text) => {
            let named = resolve(&text).map_err(|source| BuildError::Name {
                path: path.to_owned(),
                line: device.place.line,
                source: Box::new(source),
            })?;
            Ok(named.disk)
        }
        _ => file(device)
            .map_err(|source| of_device(device, path, place.refused(Span::default(), source))),
    }
}

fn wrong<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    path: &Path,
    place: &BuildPlace<'_>,
    span: Span,
) -> impl Fn(E) -> BuildError {
    let (path, mark) = (path.to_owned(), place.mark(span));
    move |source| BuildError::Text {
        path: path.clone(),
        mark: mark.clone(),
        source: source.into(),
    }
}

fn of_device(device: &Device, path: &Path, source: BuildError) -> BuildError {
    BuildError::Table {
        path: path.to_owned(),
        line: device.place.line,
        source: Box::new(source),
    }
}

impl BuildPlace<'_> {
    /// The place of what the table at `path` names, which is no table around it.
    fn within(&self, path: &Path, span: Span) -> Result<Self> {
        let mut inner = self.clone();
        let Some(identity) = FileIdentity::at(path) else {
            return Ok(inner);
        };
        let mark = self.mark(span);
        if self.tables.contains(&identity) {
            let path = path.to_owned();
            return Err(BuildError::Circle { path, mark });
        }
        if self.tables.len() == TABLES_MAX {
            let max = TABLES_MAX;
            return Err(BuildError::TooDeep { max, mark });
        }
        inner.tables.push(identity);
        Ok(inner)
    }
}

/// Whether a device's name is more than a path or a number.
fn is_expression(name: &str) -> bool {
    name.contains('(') || name.contains("://")
}

fn file(device: &Device) -> std::io::Result<Disk> {
    Ok(Disk::File {
        path: device.path()?,
        direct: false,
        read_only: false,
        span: Span::default(),
    })
}

fn read(path: &Path) -> std::io::Result<String> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(std::io::Error::other("no file"));
    }
    if found.len() > TABLE_MAX {
        let told = format!("longer than any table: {} bytes", found.len());
        return Err(std::io::Error::other(told));
    }
    std::fs::read_to_string(path)
}

/// Which bytes of which files are where in the table's disk.
fn footprint(table: &dm::DmTable, children: &[BuiltDisk]) -> Footprint {
    let needs = table.needs();
    let mut footprint = Footprint::default();
    for line in table.lines() {
        for used in line.uses() {
            let child = needs.iter().position(|need| need.is_same(&used.need));
            let child = &children[child.expect("a table needs what its lines use")];
            let range = Range::new(used.offset * SECTOR, used.len * SECTOR);
            let part = child.footprint.window(range);
            if used.is_in_order {
                footprint.add(line.start * SECTOR, part);
            } else {
                footprint.add(0, part.scattered());
            }
        }
    }
    footprint
}
