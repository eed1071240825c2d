//! `array(MEMBER, …)`: md arrays of the disks that are their members.

use std::sync::Arc;

use block::BlockDevice;
use nbd::client::AccessMode;
use nodes::array::{self, ArrayError, ArrayOptions, Candidate, MEMBER_TIMEOUT, Reopen};

use super::built_disk::BuiltDisk;
use super::claims::Footprint;
use super::compose::made;
use super::member_reopen::{Links, MemberReopen};
use super::{BuildError, BuildPlace, Builder, Result, refuse_collision};
use crate::graph::disk::{self, Disk, NamedDisk};

impl Builder {
    /// The arrays that were opened, in that order.
    pub(crate) fn arrays(&self) -> &[Arc<array::Array>] {
        &self.arrays
    }

    /// Opens a disk that is, or is to become, a member of an array that no expression names. One that
    /// is elsewhere and cannot be reached comes without its disk.
    pub(crate) async fn candidate(&mut self, named: &NamedDisk) -> Result<Candidate> {
        let place = BuildPlace {
            text: &named.text,
            read_only: self.read_only,
            kept: false,
            tables: Vec::new(),
            links: Some(Links::new(MEMBER_TIMEOUT, access(self.read_only, 0))),
        };
        self.leaves.clear();
        let (candidate, child) = self.member(&named.disk, &named.text, &place).await?;
        if let Some(child) = child {
            self.claim(&child)?;
        }
        Ok(candidate)
    }

    pub(super) async fn array(
        &mut self,
        array: &disk::Array,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        let mut candidates = Vec::with_capacity(array.members.len());
        let mut children = Vec::with_capacity(array.members.len());
        let patience = array.member_timeout.unwrap_or(MEMBER_TIMEOUT);
        for (disk, name) in array.members.iter().zip(&array.names) {
            let place = BuildPlace {
                links: Some(Links::new(patience, access(place.read_only, array.missing))),
                ..place.clone()
            };
            let (candidate, child) = self.member(disk, name, &place).await?;
            candidates.push(candidate);
            children.extend(child);
        }
        let mut footprint = Footprint::default();
        for child in &children {
            footprint.add(0, child.footprint.clone().scattered());
        }
        // Opening an array for writing writes.
        let mut claims = self.held.clone();
        claims.extend(footprint.clone().into_claims());
        refuse_collision(&claims)?;
        let options = ArrayOptions {
            read_only: place.read_only,
            run: array.run,
            missing: array.missing,
            prefer: array.prefer,
            raid0_layout: array.raid0_layout,
            force_dirty_degraded: array.force_dirty_degraded,
            member_timeout: patience,
            ..ArrayOptions::default()
        };
        let opened = Box::pin(array::open(candidates, options)).await;
        let opened = opened.map_err(|source| not_opened(array, place, source))?;
        self.arrays.push(opened.clone());
        let status = opened.status();
        for remark in opened.remarks() {
            tracing::warn!("array {}: {remark}", status.name);
        }
        let about = format!("{} {}", status.level, status.name);
        let is_only_read = opened.geometry().read_only;
        let built = made("array", about, opened, children, footprint);
        Ok(BuiltDisk {
            read_only: place.kept || is_only_read,
            ..built
        })
    }

    /// A disk that is to be a member, open if it can be reached.
    async fn member(
        &mut self,
        disk: &Disk,
        name: &str,
        place: &BuildPlace<'_>,
    ) -> Result<(Candidate, Option<BuiltDisk>)> {
        let is_remote = |leaf: &&Disk| matches!(leaf, Disk::Remote { .. });
        let remote = disk.leaves().iter().all(is_remote);
        let links = place.links.clone().filter(|_| remote);
        let again = |links| MemberReopen::new(disk, self, place, links);
        let reopen = links.map(|links| Arc::new(again(links)) as Arc<dyn Reopen>);
        let child = match self.child(disk, place).await {
            Ok(child) => Some(child),
            Err(error) if remote && error.writer_refusal().is_some() => {
                return Err(in_use(error));
            }
            Err(BuildError::Remote { source, .. }) if remote => {
                tracing::warn!("{name}: {source}");
                None
            }
            Err(error) => return Err(error),
        };
        let candidate = Candidate {
            name: name.to_owned(),
            disk: child.as_ref().map(|child| child.disk().clone()),
            remote,
            reopen,
        };
        Ok((candidate, child))
    }
}

/// What the clients of a member ask its server for, in an array of which so many members are known to be missing.
const fn access(read_only: bool, missing: usize) -> AccessMode {
    match (read_only, missing) {
        (true, _) => AccessMode::Read,
        (false, 0) => AccessMode::Write,
        // Another host may still be writing to them: the takeover cuts it off for good.
        (false, _) => AccessMode::Takeover,
    }
}

/// The error for a member that another host writes to, according to its server.
fn in_use(error: BuildError) -> BuildError {
    match error {
        BuildError::Remote { mark, source } => BuildError::Node {
            mark,
            source,
            next: Some(
                "stop the array there; or take its disk over: write `missing` in place of the member that is lost",
            ),
        },
        other => other,
    }
}

/// Why the array is not opened, at its place.
fn not_opened(array: &disk::Array, place: &BuildPlace<'_>, source: ArrayError) -> BuildError {
    BuildError::Array {
        mark: place.mark(array.span),
        source,
    }
}
