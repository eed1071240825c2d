//! [`Table`] and its disks -> one disk. Pure.

use std::sync::Arc;

use block::{Node, Range};

use super::SECTOR;
use super::error::{Problem, TableError};
use super::table::{Device, Line, Need, Table, Target};
use crate::{ErrorDisk, Linear, PartError, Segment, Stripe, StripeError, Zero};

/// Makes the disk that `table` describes of `disks`: what [`Table::needs`] names, in that order.
///
/// # Errors
/// If a device is too small, or devices do not fit each other; with the place.
///
/// # Panics
/// If there are not as many disks as needs.
pub fn assemble(table: &Table, disks: &[Node]) -> Result<Node, TableError> {
    let needs = table.needs();
    assert_eq!(needs.len(), disks.len(), "each need is met by one disk");
    let met = Met { needs, disks };
    let segments = table.lines.iter().map(|line| met.segment(line));
    let segments: Vec<Segment> = segments.collect::<Result<_, _>>()?;
    if let [only] = segments.as_slice()
        && only.range == Range::new(0, only.disk.geometry().size)
    {
        return Ok(only.disk.clone());
    }
    let linear = Linear::new(segments).map_err(|e| {
        let line = number_of(&e).and_then(|number| table.lines.get(number - 1));
        Problem::Part(e).at(line.unwrap_or(&table.lines[0]).place)
    })?;
    Ok(Arc::new(linear))
}

/// Disks, and what each is for.
struct Met<'a> {
    needs: Vec<Need<'a>>,
    disks: &'a [Node],
}

impl Met<'_> {
    /// The disk that meets `need`.
    fn disk(&self, need: &Need<'_>) -> Node {
        let at = self.needs.iter().position(|known| known.is_same(need));
        let at = at.expect("a table needs what its lines need");
        self.disks[at].clone()
    }

    fn segment(&self, line: &Line) -> Result<Segment, TableError> {
        let size = line.len * SECTOR;
        let needs = line.needs();
        let first = || self.disk(&needs[0]);
        match &line.target {
            Target::Zero => Ok(Segment::whole(Arc::new(Zero::new(size)))),
            Target::Error => Ok(Segment::whole(Arc::new(ErrorDisk::new(size)))),
            Target::Linear { device, offset } => part(first(), device, *offset, line.len),
            Target::Snapshot { origin, .. } | Target::SnapshotOrigin { origin } => {
                part(first(), origin, 0, line.len)
            }
            Target::Striped { chunk, stripes } => {
                let each = line.len / stripes.len() as u64;
                let members = needs
                    .iter()
                    .zip(stripes)
                    .map(|(need, (device, offset))| part(self.disk(need), device, *offset, each));
                let members = members.collect::<Result<_, _>>()?;
                let stripe = Stripe::new(members, chunk * SECTOR);
                let stripe = stripe.map_err(|e| stripe_error(e, line, stripes))?;
                Ok(Segment::whole(Arc::new(stripe)))
            }
        }
    }
}

/// `len` sectors of `disk`, from sector `offset` on.
fn part(disk: Node, device: &Device, offset: u64, len: u64) -> Result<Segment, TableError> {
    let size = disk.geometry().size / SECTOR;
    let needed = offset + len;
    if needed > size {
        let problem = Problem::PastEnd {
            device: device.to_string(),
            size,
            needed,
        };
        return Err(problem.at(device.place));
    }
    let range = Range::new(offset * SECTOR, len * SECTOR);
    Ok(Segment { disk, range })
}

/// Tells an error of a stripe at its device, if it is of one.
fn stripe_error(error: StripeError, line: &Line, stripes: &[(Device, u64)]) -> TableError {
    let number = match &error {
        StripeError::Part(part) => number_of(part),
        _ => None,
    };
    let device = number.and_then(|number| stripes.get(number - 1));
    let place = device.map_or(line.place, |(device, _)| device.place);
    Problem::Stripe(error).at(place)
}

/// Which part an error is of, counted from 1.
const fn number_of(error: &PartError) -> Option<usize> {
    match error {
        PartError::None | PartError::TooMany(_) | PartError::TooLarge => None,
        PartError::Empty(number)
        | PartError::PastEnd { number, .. }
        | PartError::Unaligned { number, .. } => Some(*number),
    }
}
