//! [`VolumeArgs`]: a volume and the disks of its group, as every command that changes one volume names them.

use nodes::volume::format::VolumeGroup;

use super::amount::in_words;
use super::open_group::OpenGroup;
use super::volume_path::VolumePath;
use crate::failure::Failure;
use crate::graph::builder::Builder;

/// A volume, and the disks of its group.
#[derive(Debug, clap::Args)]
pub(super) struct VolumeArgs {
    /// The volume
    #[arg(value_name = "GROUP/VOLUME")]
    pub(super) path: VolumePath,

    /// All disks of the group: files, devices or any other disks
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,
}

impl VolumeArgs {
    /// Opens the group to change it.
    pub(super) async fn open(&self, builder: &mut Builder) -> Result<OpenGroup, Failure> {
        let group = &self.path.group;
        Box::pin(OpenGroup::open_whole(builder, group, &self.disks)).await
    }

    /// The same where disks may be missing; the names of these in the metadata.
    pub(super) async fn open_partial(
        &self,
        builder: &mut Builder,
    ) -> Result<(OpenGroup, Vec<String>), Failure> {
        let group = &self.path.group;
        Box::pin(OpenGroup::open_partial(builder, group, &self.disks)).await
    }

    /// The volume's name in its group.
    pub(super) fn name(&self) -> &str {
        &self.path.volume
    }

    /// Extents of the volume; 0 if the group has none of that name.
    pub(super) fn extents(&self, group: &VolumeGroup) -> u64 {
        let volume = group.volume(self.name());
        volume.map_or(0, |volume| volume.extents())
    }

    /// One line about the volume's size after a change, and before.
    pub(super) fn resized(&self, before: &VolumeGroup, after: &VolumeGroup) -> String {
        let size = |group: &VolumeGroup| in_words(self.extents(group), group.extent);
        format!("{}: {}, was {}", self.path, size(after), size(before))
    }
}
