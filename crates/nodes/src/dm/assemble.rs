//! [`DmTable`] and its disks -> one disk. Pure.

use std::sync::Arc;

use block::{Node, Range};

use super::SECTOR;
use super::error::{DmProblem, TableError};
use super::table::{DeviceUse, DmTable, Need, TableLine};
use crate::{Linear, PartError, Segment};

/// Makes the disk that `table` describes of `disks`: what [`DmTable::needs`] names, in that order.
///
/// # Errors
/// If a device is too small, or devices do not fit each other; with the place.
///
/// # Panics
/// If there are not as many disks as needs.
pub fn assemble(table: &DmTable, disks: &[Node]) -> Result<Node, TableError> {
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
        let line = part_number(&e).and_then(|number| table.lines.get(number - 1));
        DmProblem::Part(e).at(line.unwrap_or(&table.lines[0]).place)
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

    fn segment(&self, line: &TableLine) -> Result<Segment, TableError> {
        let parts = line.uses();
        let parts = parts.iter().map(|used| part(self.disk(&used.need), used));
        line.target.build(line, parts.collect::<Result<_, _>>()?)
    }
}

/// The sectors of `disk` that a line maps to.
fn part(disk: Node, used: &DeviceUse<'_>) -> Result<Segment, TableError> {
    let size = disk.geometry().size / SECTOR;
    let needed = used.offset + used.len;
    if needed > size {
        let device = used.need.device();
        let problem = DmProblem::PastEnd {
            device: device.to_string(),
            size,
            needed,
        };
        return Err(problem.at(device.place));
    }
    let range = Range::new(used.offset * SECTOR, used.len * SECTOR);
    Ok(Segment { disk, range })
}

/// Which part an error is of, counted from 1.
pub(super) const fn part_number(error: &PartError) -> Option<usize> {
    match error {
        PartError::None | PartError::TooMany(_) | PartError::TooLarge => None,
        PartError::Empty(number)
        | PartError::PastEnd { number, .. }
        | PartError::Unaligned { number, .. } => Some(*number),
    }
}
