//! `snapshot-origin DEVICE`: a device of which the kernel keeps snapshots; read-only here. Pure.

use super::{DmTarget, LineLength, device, only};
use crate::Segment;
use crate::dm::error::TableError;
use crate::dm::table::{Device, DeviceUse, Need, TableLine};
use crate::dm::words::Words;

#[derive(Debug)]
struct OriginTarget {
    origin: Device,
}

pub(super) fn parse(
    words: &mut Words<'_>,
    _: &LineLength,
) -> Result<Box<dyn DmTarget>, TableError> {
    let origin = device(words, "the origin's device")?;
    Ok(Box::new(OriginTarget { origin }))
}

impl DmTarget for OriginTarget {
    fn uses(&self, len: u64) -> Vec<DeviceUse<'_>> {
        let need = Need::Disk {
            device: &self.origin,
            read_only: true,
        };
        vec![DeviceUse::in_order(need, 0, len)]
    }

    fn build(&self, _: &TableLine, parts: Vec<Segment>) -> Result<Segment, TableError> {
        Ok(only(parts))
    }

    fn remark(&self) -> Option<String> {
        Some(
            "the origin is read-only here, and the whole table with it: a write would change its \
             snapshots; to write to the device itself, name it as linear"
                .to_owned(),
        )
    }
}
