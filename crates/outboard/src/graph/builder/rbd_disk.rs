//! Images of Ceph.

use std::sync::Arc;

use engine::rbd::ImageSpec;
use nodes::Rbd;

use super::built_disk::BuiltDisk;
use super::{BuildPlace, Result};
use crate::graph::disk::RbdDisk;

/// Opens an image. One that is to be written gets its exclusive lock.
pub(super) async fn open(disk: &RbdDisk, place: &BuildPlace<'_>) -> Result<BuiltDisk> {
    let never_written = disk.spec.is_read_only();
    let about = disk.spec.name.to_string();
    let spec = ImageSpec {
        read_only: never_written || place.read_only,
        ..disk.spec.clone()
    };
    let opened = Rbd::open(spec).await.map_err(|source| {
        let next = source.next();
        place.refused_with(disk.span, source, Some(next))
    })?;
    Ok(BuiltDisk {
        read_only: never_written || place.kept,
        ..BuiltDisk::leaf("rbd", about, Arc::new(opened))
    })
}
