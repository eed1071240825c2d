//! Reading the beginning of a volume.

use block::Range;
use nodes::read_within;
use nodes::volume::group::VolumeAccess;
use nodes::volume::open::open_volume;

use super::filesystem::START_LEN;
use super::open_group::{OpenGroup, unopened};
use crate::failure::Failure;

/// The first [`START_LEN`] bytes of a volume, fewer if it has no more.
pub(super) async fn read_volume_start(open: &OpenGroup, name: &str) -> Result<Vec<u8>, Failure> {
    let access = VolumeAccess {
        read_only: true,
        ..VolumeAccess::default()
    };
    let disks = open.assembled.disks(|index| open.disks[index].node.clone());
    let opened = Box::pin(open_volume(&open.assembled, name, &disks, &access)).await;
    let disk = opened.map_err(|error| unopened(&error))?.disk;
    let start = read_within(&disk, Range::new(0, START_LEN)).await;
    start.map_err(|error| Failure::because(format!("{name} cannot be read"), &error))
}
