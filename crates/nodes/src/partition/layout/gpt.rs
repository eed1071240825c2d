//! A new GPT: header and entries. Pure.

use gpt_disk_types::{GptPartitionEntry, GptPartitionName, GptPartitionType, Guid, LbaLe};

use super::super::PartitionKind;
use super::super::gpt::{Blocks, ENTRY, GptCopy, Header, crc32};
use super::{ENTRIES, LABEL_MAX, LayoutError, NewTable, place, room, sizes};

pub(super) fn lay_out(blocks: Blocks, disk: Guid, new: &NewTable) -> Result<GptCopy, LayoutError> {
    let block = u64::from(blocks.size);
    let entries_blocks = u64::from(ENTRIES * ENTRY).div_ceil(block);
    let first_usable = 2 + entries_blocks;
    let end = blocks.last().saturating_sub(entries_blocks);
    let room = room(first_usable * block, end * block, blocks.count * block)?;
    let places = place(room, &vec![0; new.partitions.len()], &sizes(new))?;
    let mut entries = Vec::new();
    for ((number, new), place) in (1..).zip(&new.partitions).zip(places) {
        let raw = GptPartitionEntry {
            partition_type_guid: match new.kind {
                PartitionKind::Gpt(guid) => GptPartitionType(guid),
                PartitionKind::Mbr(_) => return Err(LayoutError::Kind(number)),
            },
            unique_partition_guid: new.id,
            starting_lba: LbaLe::from_u64(place.offset / block),
            ending_lba: LbaLe::from_u64(place.end() / block - 1),
            name: label(&new.label).ok_or(LayoutError::Label { number })?,
            ..GptPartitionEntry::default()
        };
        entries.extend_from_slice(bytemuck::bytes_of(&raw));
    }
    entries.resize((ENTRIES * ENTRY) as usize, 0);
    let header = Header {
        my_lba: 1,
        alternate_lba: blocks.last(),
        first_usable,
        last_usable: end - 1,
        disk,
        entries_lba: 2,
        entry_count: ENTRIES,
        entries_sum: crc32(&entries),
    };
    Ok(GptCopy { header, entries })
}

fn label(text: &str) -> Option<GptPartitionName> {
    let mut name = GptPartitionName::default();
    let units: Vec<u16> = text.encode_utf16().collect();
    if units.len() > LABEL_MAX || text.chars().any(char::is_control) {
        return None;
    }
    for (place, unit) in name.0.chunks_exact_mut(2).zip(units) {
        place.copy_from_slice(&unit.to_le_bytes());
    }
    Some(name)
}
