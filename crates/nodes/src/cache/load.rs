//! What of a cache file is used when it is opened.
//!
//! # Invariants
//!
//! * What marked regions held is erased from the table, durably, before the marks are cleared and before any request.
//! * The file is written only where something is erased.

use std::collections::BTreeSet;

use block::{IoError, Node, Range};

use super::format::{
    BLOCK, CacheHeader, ENTRIES_PER_PAGE, ENTRY_LEN, GRANULE, MARKS_AT, MARKS_PER_SECTOR, PAGE_LEN,
    REGION, SECTOR, SECTOR_LEN, TABLE_PAGE, block_crc, encode_marks, parse_entry, parse_marks,
};
use super::open::{CacheFile, Opened, READ_BYTES, READ_LEN, random_id, write};
use super::slots::SlotTable;
use crate::guard::flush;
use crate::read::read_within;
use crate::zeroes::is_zero;

/// Reads the marks and the table. What may not be used is erased, durably.
pub(super) async fn load(file: &CacheFile, header: &CacheHeader) -> Opened<SlotTable> {
    let failed = file.failed();
    let layout = header.layout();
    let marked = read_marks(file, header).await.map_err(&failed)?;
    let mut slots = SlotTable::new(layout);
    let pages_per_read = READ_LEN / TABLE_PAGE;
    for page in (0..layout.table_pages()).step_by(READ_BYTES / PAGE_LEN) {
        let count = pages_per_read.min(layout.table_pages() - page);
        let at = Range::new(layout.table_at() + page * TABLE_PAGE, count * TABLE_PAGE);
        let bytes = file.node.read(at).await.map_err(&failed)?.concat();
        let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
        for (slot, entry) in (page * ENTRIES_PER_PAGE..layout.slots).zip(entries) {
            let slot = u32::try_from(slot).unwrap_or(u32::MAX);
            let Some(entry) = parse_entry(&header.id, slot, entry) else {
                // It may be read well the next time, and be old then.
                if !is_zero(entry) {
                    slots.set_dirty(slot);
                }
                continue;
            };
            let is_marked = marked.contains(&(entry.granule / (REGION / GRANULE)));
            if is_marked || !slots.load(slot, &entry) {
                slots.set_dirty(slot);
            }
        }
    }
    slots.loaded();
    if marked.is_empty() {
        return Ok(slots);
    }
    tracing::info!(
        "the cache file {} was not closed: {} regions of {} MiB that were being written are dropped",
        file.name,
        marked.len(),
        REGION >> 20
    );
    for page in slots.dirty_pages() {
        if let Some(bytes) = slots.take_dirty_page(page, &header.id) {
            let at = Range::new(layout.table_at() + page * TABLE_PAGE, TABLE_PAGE);
            write(&file.node, at, bytes).await.map_err(&failed)?;
        }
    }
    flush(&file.node).await.map_err(&failed)?;
    let clear = vec![false; Range::new(0, MARKS_PER_SECTOR).len_usize()];
    for sector in 0..layout.mark_sectors() {
        let at = Range::new(MARKS_AT + sector * SECTOR, SECTOR);
        let bytes = encode_marks(&header.id, sector, &clear).to_vec();
        write(&file.node, at, bytes).await.map_err(&failed)?;
    }
    flush(&file.node).await.map_err(&failed)?;
    Ok(slots)
}

/// The regions that are marked.
async fn read_marks(file: &CacheFile, header: &CacheHeader) -> Result<BTreeSet<u64>, IoError> {
    let regions = header.layout().regions();
    let mut marked = BTreeSet::new();
    for sector in 0..header.layout().mark_sectors() {
        let at = Range::new(MARKS_AT + sector * SECTOR, SECTOR);
        let bytes = file.node.read(at).await?.concat();
        let (sectors, _) = bytes.as_chunks::<SECTOR_LEN>();
        for bytes in sectors {
            let bits = parse_marks(&header.id, sector, bytes);
            let first = sector * MARKS_PER_SECTOR;
            let set = (first..regions).zip(bits).filter(|(_, bit)| *bit);
            marked.extend(set.map(|(region, _)| region));
        }
    }
    Ok(marked)
}

/// Compares a sample of the blocks that are cached with the disk.
pub(super) async fn is_same_disk(
    child: &Node,
    file: &CacheFile,
    (header, samples): (&CacheHeader, usize),
    slots: &SlotTable,
) -> Opened<bool> {
    let valid = slots.valid_slots();
    let mut chosen: Vec<u32> = valid.iter().take(samples).copied().collect();
    let mut random = u128::from_le_bytes(random_id());
    for _ in 0..samples.min(valid.len()) {
        // The low bits choose; enough are left for all samples.
        let index = usize::try_from(random % valid.len() as u128).unwrap_or(0);
        random = random.rotate_right(7).wrapping_mul(0x2545_F491_4F6C_DD1D);
        chosen.push(valid[index]);
    }
    for slot in chosen {
        let Some((range, crc)) = slots.sample(slot) else {
            continue;
        };
        let within = range.offset % GRANULE;
        let at = Range::new(header.layout().slot_at(slot) + within, BLOCK);
        let cached = file.node.read(at).await.map_err(file.failed())?.concat();
        let block = u32::try_from(within / BLOCK).unwrap_or(u32::MAX);
        if block_crc(&header.id, range.offset / GRANULE, block, &cached) != crc {
            continue;
        }
        // What cannot be read decides nothing.
        let Ok(there) = read_within(child, range).await else {
            continue;
        };
        if there != cached {
            return Ok(false);
        }
    }
    Ok(true)
}
