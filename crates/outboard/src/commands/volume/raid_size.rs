//! What a change of the size of a volume of RAID needs besides LVM's text: device-mapper's metadata of its images.
//!
//! # Invariants
//!
//! * They have the size of the text before the text changes: what an earlier change added, and nothing resynced yet, is never
//!   taken to be in sync because a later one brings back the same size.
//! * The size changes only while all images are in sync or being resynced as one: what is added is never missing on one.

use nodes::volume::format::{SegmentLayout, VolumeGroup};
use nodes::volume::group::VolumeAccess;
use nodes::volume::open::open_volume;
use nodes::volume::update::clear_raid_metadata;

use super::change::{ChangeOptions, ChangeReport};
use super::open_group::{OpenGroup, unopened};
use super::volume_args::VolumeArgs;
use crate::arrays;
use crate::failure::Failure;
use nodes::volume::edit::GroupEdit;

/// Whether a volume is of RAID.
fn is_raid(group: &VolumeGroup, name: &str) -> bool {
    let segments = group
        .volume(name)
        .into_iter()
        .flat_map(|volume| &volume.segments);
    let mut layouts = segments.map(|segment| &segment.layout);
    layouts.any(|layout| matches!(layout, SegmentLayout::Raid { .. }))
}

impl OpenGroup {
    /// Commits another size of a volume; of RAID with the metadata of its images.
    pub(super) async fn commit_size(
        mut self,
        edit: GroupEdit,
        volume: &VolumeArgs,
        options: &ChangeOptions,
    ) -> Result<ChangeReport, Failure> {
        let summary = volume.resized(self.group(), edit.group());
        let name = volume.name();
        if options.dry_run || !is_raid(self.group(), name) {
            return Box::pin(self.commit(edit, summary, options)).await;
        }
        Box::pin(self.finish_resize(name)).await?;
        let (before, after) = (self.group().clone(), edit.group().clone());
        let disks = self.member_nodes();
        let clear = async || {
            let cleared = clear_raid_metadata(Some(&before), &after, name, &disks).await;
            cleared.map_err(|error| Failure::from_error(&error))
        };
        let report = Box::pin(self.commit_after(edit, summary, options, clear)).await?;
        if report.failed.is_empty() {
            self.reread().await?;
            Box::pin(self.finish_resize(name)).await?;
        }
        Ok(report)
    }

    /// Opens a volume of RAID for writing, which gives the metadata of its images its size, and closes it.
    async fn finish_resize(&self, name: &str) -> Result<(), Failure> {
        let access = VolumeAccess::default();
        let disks = (self.assembled).disks(|index| self.disks[index].node.clone());
        let opened = Box::pin(open_volume(&self.assembled, name, &disks, &access)).await;
        let opened = opened.map_err(|error| unopened(&error))?;
        let mut arrays = opened.arrays.iter().map(|array| array.status());
        let degraded = arrays.any(|status| status.working < status.parts);
        let refused = match degraded {
            false => Ok(()),
            true => {
                let what = format!("images of {name} have failed, or are being rebuilt");
                let next =
                    "its size is changed when all are in sync; lvconvert --repair replaces them";
                Err(Failure::new(what).next(next))
            }
        };
        arrays::finish(refused, &opened.arrays).await
    }
}
