//! A new MBR: its boot record, and one before each logical partition. Pure.

use block::Range;
use gpt_disk_types::MbrPartitionRecord;

use super::super::PartitionKind;
use super::super::encode::{empty_record, slot};
use super::super::gpt::Blocks;
use super::super::mbr::BootRecord;
use super::super::remark::ALIGNMENT;
use super::super::table::{PartitionEntry, PartitionId, RawTable};
use super::{LayoutError, NewPartition, NewTable, place, room, sizes};

/// The type of a new extended partition: the one that counts in blocks, not in cylinders.
const EXTENDED: u8 = 0x0f;

/// Up to four partitions are primary; of more, all from the fourth on are logical.
pub(super) fn lay_out(
    blocks: Blocks,
    signature: u32,
    new: &NewTable,
) -> Result<(Vec<PartitionEntry>, RawTable), LayoutError> {
    let block = u64::from(blocks.size);
    // Both the place and the count of blocks have 32 bits.
    let end = blocks.count.min(u64::from(u32::MAX)) * block;
    let room = room(ALIGNMENT, end, blocks.count * block)?;
    let count = new.partitions.len();
    let primaries = if count <= 4 { count } else { 3 };
    let gap = |index: usize| if index < primaries { 0 } else { ALIGNMENT };
    let gaps: Vec<u64> = (0..count).map(gap).collect();
    let places = place(room, &gaps, &sizes(new))?;
    let mut record = empty_record(signature);
    let kinds: Vec<u8> = kinds(new)?;
    for (index, place) in places.iter().enumerate().take(primaries) {
        record.0.partitions[index] = slot_of(kinds[index], *place, 0, block);
    }
    let logical = logical(&places[primaries..], &kinds[primaries..], block);
    if let (Some(first), Some(last)) = (places.get(primaries), places.last()) {
        let extended = Range::new(
            first.offset - ALIGNMENT,
            last.end() - first.offset + ALIGNMENT,
        );
        record.0.partitions[3] = slot_of(EXTENDED, extended, 0, block);
    }
    let mut partitions = record.primary(blocks);
    for ((number, (_, ebr)), place) in (5..).zip(&logical).zip(&places[primaries..]) {
        let own = ebr.primary(blocks).into_iter().next();
        partitions.extend(own.map(|entry| PartitionEntry {
            number,
            range: *place,
            id: PartitionId::Numbered { signature, number },
            ..entry
        }));
    }
    let raw = RawTable::Mbr {
        record: Box::new(record),
        logical,
    };
    Ok((partitions, raw))
}

fn kinds(new: &NewTable) -> Result<Vec<u8>, LayoutError> {
    let numbered = (1..).zip(&new.partitions);
    let byte = |(number, new): (usize, &NewPartition)| match new.kind {
        PartitionKind::Mbr(byte) => Ok(byte),
        PartitionKind::Gpt(_) => Err(LayoutError::Kind(number)),
    };
    numbered.map(byte).collect()
}

/// The boot records before logical partitions, each 1 MiB before its own.
fn logical(places: &[Range], kinds: &[u8], block: u64) -> Vec<(u64, BootRecord)> {
    let Some(first) = places.first() else {
        return Vec::new();
    };
    let base = first.offset - ALIGNMENT;
    let numbered = places.iter().zip(kinds).enumerate();
    let records = numbered.map(|(index, (place, kind))| {
        let at = place.offset - ALIGNMENT;
        let mut record = empty_record(0);
        record.0.partitions[0] = slot_of(*kind, *place, at, block);
        if let Some(next) = places.get(index + 1) {
            let whole = Range::new(next.offset - ALIGNMENT, next.len + ALIGNMENT);
            // Each link is of the type that DOS gave it, regardless of the first one's.
            record.0.partitions[1] = slot_of(0x05, whole, base, block);
        }
        (at, record)
    });
    records.collect()
}

/// A slot for `place`, counted from `base`. All of it was fitted into 32 bits of blocks.
fn slot_of(kind: u8, place: Range, base: u64, block: u64) -> MbrPartitionRecord {
    let blocks = |bytes: u64| u32::try_from(bytes / block).expect("an MBR's places have 32 bits");
    slot(kind, blocks(place.offset - base), blocks(place.len))
}
