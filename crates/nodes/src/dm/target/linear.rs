//! `linear DEVICE OFFSET`: sectors of a device. Pure.

use super::{DmTarget, LineLength, device, offset, only};
use crate::Segment;
use crate::dm::error::TableError;
use crate::dm::table::{Device, DeviceUse, Need, TableLine};
use crate::dm::words::Words;

#[derive(Debug)]
struct LinearTarget {
    device: Device,
    /// First sector of the device.
    offset: u64,
}

pub(super) fn parse(
    words: &mut Words<'_>,
    len: &LineLength,
) -> Result<Box<dyn DmTarget>, TableError> {
    let device = device(words, "the device")?;
    let offset = offset(words, len.sectors)?;
    Ok(Box::new(LinearTarget { device, offset }))
}

impl DmTarget for LinearTarget {
    fn uses(&self, len: u64) -> Vec<DeviceUse<'_>> {
        let need = Need::writable(&self.device);
        vec![DeviceUse::in_order(need, self.offset, len)]
    }

    fn build(&self, _: &TableLine, parts: Vec<Segment>) -> Result<Segment, TableError> {
        Ok(only(parts))
    }
}
