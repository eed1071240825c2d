//! `striped COUNT CHUNK [DEVICE OFFSET]…`: chunks in turn on several devices. Pure.

use std::sync::Arc;

use super::{DmTarget, LineLength, SECTORS_MAX, device, offset};
use crate::dm::error::{DmProblem, TableError};
use crate::dm::remarks::BLOCK;
use crate::dm::table::{Device, DeviceUse, Need, TableLine};
use crate::dm::words::Words;
use crate::dm::{SECTOR, part_number};
use crate::{Segment, Stripe, StripeError};

/// Stripes of one line, at most: as many as the kernel can take in a line of its ioctl.
const STRIPES_MAX: u64 = 4096;

#[derive(Debug)]
struct StripedTarget {
    /// Sectors that are together on one device.
    chunk: u64,
    /// The devices, and the first sector of each.
    stripes: Vec<(Device, u64)>,
}

/// The kernel's rules: a chunk is any number of sectors; the line is a multiple of the stripes, and
/// each stripe of the chunk.
pub(super) fn parse(
    words: &mut Words<'_>,
    len: &LineLength,
) -> Result<Box<dyn DmTarget>, TableError> {
    let (count, place) = words.number("the number of stripes")?;
    if count == 0 || count > STRIPES_MAX {
        let problem = format!("a striped line has at least one stripe and at most {STRIPES_MAX}");
        return Err(DmProblem::Arguments(problem).at(place));
    }
    let (chunk, place) = words.number("the chunk in sectors")?;
    match chunk {
        0 => {
            let problem = "a chunk has at least one sector".to_owned();
            return Err(DmProblem::Arguments(problem).at(place));
        }
        SECTORS_MAX.. => return Err(DmProblem::TooLarge.at(place)),
        _ => {}
    }
    let sectors = len.sectors;
    let each = sectors / count;
    if !sectors.is_multiple_of(count) || !each.is_multiple_of(chunk) {
        let problem = format!(
            "{sectors} sectors cannot be dealt out to {count} stripes in chunks of {chunk} sectors"
        );
        return Err(DmProblem::Arguments(problem).at(len.place));
    }
    let stripe = |_| Ok((device(words, "a stripe's device")?, offset(words, each)?));
    let stripes = (0..count).map(stripe).collect::<Result<_, _>>()?;
    Ok(Box::new(StripedTarget { chunk, stripes }))
}

impl DmTarget for StripedTarget {
    fn uses(&self, len: u64) -> Vec<DeviceUse<'_>> {
        let each = len / self.stripes.len() as u64;
        let stripes = self.stripes.iter();
        stripes
            .map(|(device, offset)| DeviceUse {
                is_in_order: false,
                ..DeviceUse::in_order(Need::writable(device), *offset, each)
            })
            .collect()
    }

    fn build(&self, line: &TableLine, parts: Vec<Segment>) -> Result<Segment, TableError> {
        let stripe = Stripe::new(parts, self.chunk * SECTOR).map_err(|error| {
            let device = match &error {
                StripeError::Part(part) => {
                    part_number(part).and_then(|number| self.stripes.get(number - 1))
                }
                _ => None,
            };
            let place = device.map_or(line.place, |(device, _)| device.place);
            DmProblem::Stripe(error).at(place)
        })?;
        Ok(Segment::whole(Arc::new(stripe)))
    }

    fn remark(&self) -> Option<String> {
        let Self { chunk, stripes } = self;
        (stripes.len() > 1 && !chunk.is_multiple_of(BLOCK)).then(|| {
            format!(
                "a chunk of {chunk} sectors is no multiple of {BLOCK}: blocks of 4096 bytes lie on \
                 two devices"
            )
        })
    }
}
