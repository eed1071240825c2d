//! [`SlotTable`]: what the slots of the cache file hold, and which of them give way. Pure.
//!
//! # Invariants
//!
//! * A block of a slot is written by one store job at a time; a slot with a job is not given to another granule.
//! * Where every granule has a slot, each has its own for good; elsewhere CLOCK evicts.
//! * Blocks that were stored since the last sync of the file are compared with their checksums at each read: the kernel drops what it
//!   could not write, and reads older bytes then without an error.
//! * What an entry of the table would be on the medium differs only for pages that are dirty.

use std::collections::{BTreeSet, HashMap};

use block::Range;

use super::format::{
    BLOCK, BLOCKS, CacheId, CacheLayout, ENTRIES_PER_PAGE, ENTRY_LEN, GRANULE, PAGE_LEN, SlotEntry,
    encode_entry,
};

/// No granule.
const FREE: u64 = u64::MAX;

/// A slot, as it was assigned and changed so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotPlace {
    pub(super) slot: u32,
    owner: u64,
    version: u64,
}

/// Where a piece of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotLookup {
    /// In this slot, verified.
    Hit(SlotPlace),
    /// In this slot, if its checksums match.
    Unverified(SlotPlace),
    /// On the disk.
    Miss,
    /// On the disk, and never in the cache: the end of a disk that is not made of whole blocks.
    Uncached,
}

/// Blocks of a slot that are being written to the cache file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoreJob {
    pub(super) slot: u32,
    pub(super) granule: u64,
    pub(super) blocks: u32,
}

#[derive(Debug)]
struct CacheSlot {
    granule: u64,
    valid: u32,
    verified: u32,
    /// Blocks that a store job writes, and those of them that have changed meanwhile.
    busy: u32,
    overtaken: u32,
    referenced: bool,
    owner: u64,
    version: u64,
    /// Number of the last store job that ended well.
    stored: u64,
    crcs: [u32; BLOCKS as usize],
}

/// The slots.
#[derive(Debug)]
pub(super) struct SlotTable {
    layout: CacheLayout,
    slots: Vec<CacheSlot>,
    map: HashMap<u64, u32>,
    free: Vec<u32>,
    hand: usize,
    dirty: BTreeSet<u64>,
    /// How often slots were assigned.
    assigned: u64,
    /// Store jobs that ended well, and how many of them the file was synced behind.
    stored: u64,
    synced: u64,
    evictions: u64,
    /// The cache file failed: nothing is valid any more.
    is_disabled: bool,
}

/// The part of a range that lies in each granule.
pub(super) fn granules_of(range: Range) -> impl Iterator<Item = (u64, Range)> {
    let granules = range.offset / GRANULE..range.end().div_ceil(GRANULE);
    granules.map(move |granule| {
        let start = range.offset.max(granule * GRANULE);
        let end = range.end().min((granule + 1) * GRANULE);
        (granule, Range::new(start, end - start))
    })
}

/// Blocks of the granule that `part` touches, or those that it fills.
pub(super) fn blocks_of(part: Range, filled: bool) -> u32 {
    let at = part.offset % GRANULE;
    let (first, end) = match filled {
        true => (at.div_ceil(BLOCK), (at + part.len) / BLOCK),
        false => (at / BLOCK, (at + part.len).div_ceil(BLOCK)),
    };
    (first..end).fold(0, |mask, block| mask | 1 << block)
}

impl SlotTable {
    /// Empty slots.
    pub(super) fn new(layout: CacheLayout) -> Self {
        let slot = |_| CacheSlot {
            granule: FREE,
            valid: 0,
            verified: 0,
            busy: 0,
            overtaken: 0,
            referenced: false,
            owner: 0,
            version: 0,
            stored: 0,
            crcs: [0; BLOCKS as usize],
        };
        let count = u32::try_from(layout.slots).expect("the format has fewer slots");
        Self {
            layout,
            slots: (0..count).map(slot).collect(),
            map: HashMap::new(),
            free: (0..count).rev().collect(),
            hand: 0,
            dirty: BTreeSet::new(),
            assigned: 0,
            stored: 0,
            synced: 0,
            evictions: 0,
            is_disabled: false,
        }
    }

    /// What the table of an opened file has for `slot`. False: it cannot be used, and is to be erased there.
    pub(super) fn load(&mut self, slot: u32, entry: &SlotEntry) -> bool {
        let known =
            entry.granule < self.layout.granules() && !self.map.contains_key(&entry.granule);
        let in_place = !self.layout.is_whole() || u64::from(slot) == entry.granule;
        if !known || !in_place {
            return false;
        }
        self.map.insert(entry.granule, slot);
        let valid = entry.valid & self.layout.whole_blocks(entry.granule);
        let at = &mut self.slots[slot as usize];
        at.granule = entry.granule;
        at.valid = valid;
        at.crcs = entry.crcs;
        true
    }

    /// Every entry was loaded.
    pub(super) fn loaded(&mut self) {
        let slots = &self.slots;
        self.free
            .retain(|&slot| slots[slot as usize].granule == FREE);
    }

    /// The entry of `slot` on the medium is not what it should be.
    pub(super) fn set_dirty(&mut self, slot: u32) {
        self.dirty.insert(u64::from(slot) / ENTRIES_PER_PAGE);
    }

    /// Slots with valid blocks, lowest granules first.
    pub(super) fn valid_slots(&self) -> Vec<u32> {
        let valid = |slot: &&u32| self.slots[**slot as usize].valid != 0;
        let mut slots: Vec<u32> = self.map.values().filter(valid).copied().collect();
        slots.sort_by_key(|&slot| self.slots[slot as usize].granule);
        slots
    }

    /// Where the first valid block of `slot` is on the disk, and its checksum.
    pub(super) fn sample(&self, slot: u32) -> Option<(Range, u32)> {
        let slot = &self.slots[slot as usize];
        let block = slot.valid.trailing_zeros();
        let crc = *slot.crcs.get(block as usize)?;
        let at = slot.granule * GRANULE + u64::from(block) * BLOCK;
        Some((Range::new(at, BLOCK), crc))
    }

    /// Where `part` of `granule` is.
    pub(super) fn find(&mut self, granule: u64, part: Range) -> SlotLookup {
        if self.is_disabled {
            return SlotLookup::Uncached;
        }
        let Some(&slot) = self.map.get(&granule) else {
            return SlotLookup::Miss;
        };
        let blocks = blocks_of(part, false);
        let at = &mut self.slots[slot as usize];
        if at.valid & blocks != blocks {
            return SlotLookup::Miss;
        }
        at.referenced = true;
        let place = SlotPlace {
            slot,
            owner: at.owner,
            version: at.version,
        };
        match at.verified & blocks == blocks && at.stored <= self.synced {
            true => SlotLookup::Hit(place),
            false => SlotLookup::Unverified(place),
        }
    }

    /// Whether the slot still holds the granule that it was found for.
    pub(super) fn is_current(&self, place: SlotPlace) -> bool {
        !self.is_disabled && self.slots[place.slot as usize].owner == place.owner
    }

    /// The checksums of the blocks of a slot that was found, if nothing of it has changed since.
    pub(super) fn crcs(&self, place: SlotPlace) -> Option<[u32; BLOCKS as usize]> {
        let slot = &self.slots[place.slot as usize];
        let same = slot.owner == place.owner && slot.version == place.version;
        (same && !self.is_disabled).then_some(slot.crcs)
    }

    /// What the checksums of blocks of a slot showed. False: it has changed meanwhile, and they show nothing.
    pub(super) fn verified(&mut self, place: SlotPlace, matching: u32, damaged: u32) -> bool {
        if self.crcs(place).is_none() {
            return false;
        }
        let slot = &mut self.slots[place.slot as usize];
        slot.verified |= matching;
        if damaged != 0 {
            slot.valid &= !damaged;
            slot.version = slot.version.wrapping_add(1);
            self.set_dirty(place.slot);
        }
        true
    }

    /// A change of `range` begins: its blocks hold what was there before.
    pub(super) fn invalidate(&mut self, range: Range) {
        let count = range.len / GRANULE;
        if count > self.map.len() as u64 {
            // A trim of a whole disk.
            let granules: Vec<u64> = self.map.keys().copied().collect();
            for granule in granules {
                let start = range.offset.max(granule * GRANULE);
                let end = range.end().min((granule + 1) * GRANULE);
                if start < end {
                    self.invalidate_part(granule, Range::new(start, end - start));
                }
            }
            return;
        }
        granules_of(range).for_each(|(granule, part)| self.invalidate_part(granule, part));
    }

    fn invalidate_part(&mut self, granule: u64, part: Range) {
        let Some(&slot) = self.map.get(&granule) else {
            return;
        };
        let blocks = blocks_of(part, false);
        let at = &mut self.slots[slot as usize];
        at.overtaken |= at.busy & blocks;
        if at.valid & blocks != 0 {
            at.valid &= !blocks;
            at.verified &= !blocks;
            at.version = at.version.wrapping_add(1);
            self.set_dirty(slot);
        }
    }

    /// Blocks of `granule` are to be stored: those that no other job writes, if there is a slot.
    pub(super) fn begin_store(&mut self, granule: u64, blocks: u32) -> Option<StoreJob> {
        let busy = |slot: u32| self.slots[slot as usize].busy;
        let blocks = blocks & !self.map.get(&granule).map_or(0, |&slot| busy(slot));
        if blocks == 0 || self.is_disabled {
            return None;
        }
        let slot = self.slot_for(granule)?;
        let at = &mut self.slots[slot as usize];
        at.busy |= blocks;
        at.referenced = true;
        Some(StoreJob {
            slot,
            granule,
            blocks,
        })
    }

    /// The slot of `granule`: the one that it has, a free one, or one that CLOCK takes.
    fn slot_for(&mut self, granule: u64) -> Option<u32> {
        if let Some(&slot) = self.map.get(&granule) {
            return Some(slot);
        }
        let slot = match self.layout.is_whole() {
            true => u32::try_from(granule).ok()?,
            false => self.free.pop().or_else(|| self.evict())?,
        };
        self.assigned += 1;
        let owner = self.assigned;
        let at = &mut self.slots[slot as usize];
        at.granule = granule;
        (at.valid, at.verified) = (0, 0);
        at.owner = owner;
        at.version = at.version.wrapping_add(1);
        self.map.insert(granule, slot);
        self.set_dirty(slot);
        Some(slot)
    }

    fn evict(&mut self) -> Option<u32> {
        let count = self.slots.len();
        for _ in 0..2 * count {
            let at = self.hand;
            self.hand = (at + 1) % count;
            let slot = &mut self.slots[at];
            if slot.busy != 0 {
                continue;
            }
            if std::mem::take(&mut slot.referenced) {
                continue;
            }
            self.map.remove(&slot.granule);
            slot.granule = FREE;
            self.evictions += 1;
            return u32::try_from(at).ok();
        }
        None
    }

    /// The data of a job is in the cache file; `crcs` are its checksums, by block.
    pub(super) fn finish_store(&mut self, job: &StoreJob, crcs: &[u32; BLOCKS as usize]) {
        let slot = &mut self.slots[job.slot as usize];
        assert!(
            slot.granule == job.granule,
            "a slot with a job keeps its granule"
        );
        let stored = job.blocks & !slot.overtaken;
        for block in (0..BLOCKS as usize).filter(|block| stored & (1 << block) != 0) {
            slot.crcs[block] = crcs[block];
        }
        slot.valid |= stored;
        slot.verified |= stored;
        slot.version = slot.version.wrapping_add(1);
        self.stored += 1;
        slot.stored = self.stored;
        self.end_store(job);
        self.set_dirty(job.slot);
    }

    /// The number of store jobs that ended well.
    pub(super) const fn stored(&self) -> u64 {
        self.stored
    }

    /// Whether blocks were stored behind the last sync of the file.
    pub(super) const fn has_unsynced(&self) -> bool {
        self.stored > self.synced && !self.is_disabled
    }

    /// The file was synced after the job with this number had ended.
    pub(super) fn set_synced(&mut self, stored: u64) {
        self.synced = self.synced.max(stored);
    }

    /// A job has ended without its data: its blocks stay invalid.
    pub(super) fn end_store(&mut self, job: &StoreJob) {
        let slot = &mut self.slots[job.slot as usize];
        slot.busy &= !job.blocks;
        slot.overtaken &= !job.blocks;
    }

    /// The cache file failed: nothing in it counts any more, and nothing is stored again.
    pub(super) fn disable(&mut self) {
        self.is_disabled = true;
        for slot in &mut self.slots {
            (slot.valid, slot.verified) = (0, 0);
        }
        self.dirty.clear();
    }

    /// Pages of the table that are to be written.
    pub(super) fn dirty_pages(&self) -> Vec<u64> {
        self.dirty.iter().copied().collect()
    }

    /// The bytes of a page that is to be written: it is dirty no more. `None`: it is not.
    pub(super) fn take_dirty_page(&mut self, page: u64, id: &CacheId) -> Option<Vec<u8>> {
        let is_dirty = self.dirty.remove(&page);
        if !is_dirty || self.is_disabled {
            return None;
        }
        let mut bytes = vec![0; PAGE_LEN];
        let first = page * ENTRIES_PER_PAGE;
        let entries = bytes.chunks_exact_mut(ENTRY_LEN);
        let slots = self
            .slots
            .iter()
            .zip(0..)
            .skip(Range::new(0, first).len_usize());
        for ((at, slot), into) in slots.zip(entries) {
            if at.granule == FREE || at.valid == 0 {
                continue;
            }
            let entry = SlotEntry {
                granule: at.granule,
                valid: at.valid,
                crcs: at.crcs,
            };
            into.copy_from_slice(&encode_entry(id, slot, &entry));
        }
        Some(bytes)
    }

    /// A page could not be written.
    pub(super) fn put_back_page(&mut self, page: u64) {
        self.dirty.insert(page);
    }

    /// Bytes of valid blocks.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self
            .slots
            .iter()
            .map(|slot| u64::from(slot.valid.count_ones()));
        blocks.sum::<u64>() * BLOCK
    }

    pub(super) const fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) const fn is_disabled(&self) -> bool {
        self.is_disabled
    }

    /// The valid blocks of `granule`.
    pub(super) fn valid(&self, granule: u64) -> u32 {
        let slot = self.map.get(&granule);
        slot.map_or(0, |&slot| self.slots[slot as usize].valid)
    }
}
