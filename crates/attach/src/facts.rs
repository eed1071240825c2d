//! What is so just now: gathered once, before a teardown is planned.

use std::path::Path;

use crate::mount::{self, DeviceNumber};
use crate::state::Record;
use crate::sysfs;
use crate::teardown::Facts;

/// The facts of the attachment in `record` on `device`, which was checked to be its own.
pub(crate) fn gather(
    record: &Record,
    device: Option<&Path>,
    unreachable: Option<String>,
    force: bool,
) -> Facts {
    let place = record.mount.as_ref();
    let mut elsewhere = device
        .and_then(|device| DeviceNumber::of(device).ok())
        .and_then(|number| mount::mounted_at(number).ok())
        .unwrap_or_default();
    let mounted = place
        .and_then(|place| elsewhere.iter().position(|dir| *dir == place.dir))
        .map(|at| elsewhere.remove(at));
    Facts {
        mounted,
        elsewhere,
        holders: device.map(sysfs::holders).unwrap_or_default(),
        device: device.is_some(),
        created: place.filter(|p| p.created).map(|p| p.dir.clone()),
        unreachable,
        cut: false,
        read_only: record.read_only,
        force,
    }
}
