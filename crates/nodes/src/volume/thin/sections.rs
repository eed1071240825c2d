//! What is known of the mappings of volumes: sections of [`SECTION_CHUNKS`] chunks, loaded when they are needed.
//!
//! ```text
//! volume    │ section 0 │ section 1 │ section 2 │ …      512 chunks each
//!                 └───────────┴───────────┴──►  slots    one for each section, as many as a pool keeps
//! section   runs: 0..40 -> 7000..   40..44 -> 9000..   (a gap: not mapped)   100..512 -> 100..
//!           or, where these take more memory, a table of the data chunk of each chunk
//! ```
//!
//! # Invariants
//!
//! * A pool keeps at most [`SLOTS_MAX`] sections of at most 2 KiB: 128 MiB. (Of a pool of 2^32 chunks or more a
//!   section has up to 4 KiB.) A section takes the slot of another one that is as many sections away as there
//!   are slots, of its own volume or of another.
//! * A section never changes: a pool is only read.

use std::sync::{PoisonError, RwLock};

/// Chunks of a section: two to five leaves of a tree.
pub(super) const SECTION_CHUNKS: u64 = 512;
/// Sections that are kept of a pool.
const SLOTS_MAX: u64 = 65_536;
/// Slots of a small pool: volumes may be much larger than it.
const SLOTS_MIN: u64 = 1024;
/// A table takes the memory of so many runs.
const TABLE_RUNS: usize = 256;
/// A chunk that is not mapped, in a table.
const UNMAPPED: u32 = u32::MAX;

/// Chunks of a volume that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkRun {
    /// The data chunk of the first; `None`: they are not mapped.
    pub(super) data: Option<u64>,
    /// How many.
    pub(super) chunks: u64,
}

/// Mapped chunks in a section: 9 bits of the first, 9 bits of how many more, 40 bits of the data chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedRun(u64);

impl PackedRun {
    const DATA_BITS: u32 = 40;
    const INDEX_BITS: u32 = 9;

    fn new(start: u64, data: u64) -> Self {
        assert!(start < SECTION_CHUNKS, "it lies in the section");
        assert!(data >> Self::DATA_BITS == 0, "a mapping has 40 bits");
        Self(start << (Self::DATA_BITS + Self::INDEX_BITS) | data)
    }

    const fn start(self) -> u64 {
        self.0 >> (Self::DATA_BITS + Self::INDEX_BITS)
    }

    const fn chunks(self) -> u64 {
        (self.0 >> Self::DATA_BITS & (SECTION_CHUNKS - 1)) + 1
    }

    const fn data(self) -> u64 {
        self.0 & ((1 << Self::DATA_BITS) - 1)
    }

    const fn end(self) -> u64 {
        self.start() + self.chunks()
    }

    /// Takes the next chunk in, if it lies behind this one in both places.
    const fn extend(&mut self, start: u64, data: u64) -> bool {
        let follows = self.end() == start && self.data() + self.chunks() == data;
        if follows {
            self.0 += 1 << Self::DATA_BITS;
        }
        follows
    }
}

/// The mappings of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Section {
    /// Those that are mapped, in order.
    Runs(Box<[PackedRun]>),
    /// The data chunk of each.
    Table(Box<[u32]>),
}

/// A section that is being loaded.
#[derive(Debug, Default)]
pub(super) struct SectionBuilder {
    runs: Vec<PackedRun>,
}

impl SectionBuilder {
    /// Takes in chunk `index` of the section. They come in order.
    pub(super) fn push(&mut self, index: u64, data: u64) {
        if let Some(last) = self.runs.last_mut()
            && last.extend(index, data)
        {
            return;
        }
        self.runs.push(PackedRun::new(index, data));
    }

    pub(super) fn build(self) -> Section {
        if self.runs.len() <= TABLE_RUNS {
            return Section::Runs(self.runs.into());
        }
        let mut table = Vec::new();
        for run in &self.runs {
            table.resize(Section::index(run.start()), UNMAPPED);
            for data in run.data()..run.data() + run.chunks() {
                match u32::try_from(data) {
                    Ok(data) if data != UNMAPPED => table.push(data),
                    _ => return Section::Runs(self.runs.into()),
                }
            }
        }
        table.resize(Section::index(SECTION_CHUNKS), UNMAPPED);
        Section::Table(table.into())
    }
}

impl Section {
    fn index(chunk: u64) -> usize {
        usize::try_from(chunk).expect("a section has 512 chunks")
    }

    /// What lies together from chunk `index` of the section on, at most `wanted` chunks.
    pub(super) fn find(&self, index: u64, wanted: u64) -> ChunkRun {
        let found = match self {
            Self::Runs(runs) => Self::find_run(runs, index),
            Self::Table(table) => Self::find_in_table(&table[Self::index(index)..], wanted),
        };
        ChunkRun {
            chunks: found.chunks.min(wanted),
            ..found
        }
    }

    fn find_run(runs: &[PackedRun], index: u64) -> ChunkRun {
        let next = runs.partition_point(|run| run.start() <= index);
        let before = next.checked_sub(1).map(|before| runs[before]);
        if let Some(run) = before.filter(|run| run.end() > index) {
            return ChunkRun {
                data: Some(run.data() + (index - run.start())),
                chunks: run.end() - index,
            };
        }
        let end = runs.get(next).map_or(SECTION_CHUNKS, |run| run.start());
        ChunkRun {
            data: None,
            chunks: end - index,
        }
    }

    /// `rest` begins with the chunk and is not empty.
    fn find_in_table(rest: &[u32], wanted: u64) -> ChunkRun {
        let data = Some(rest[0]).filter(|data| *data != UNMAPPED);
        let follows = |(behind, found): &(u32, &u32)| match data {
            Some(data) => data.checked_add(*behind) == Some(**found) && **found != UNMAPPED,
            None => **found == UNMAPPED,
        };
        let limit = usize::try_from(wanted).unwrap_or(usize::MAX);
        let together = (0..).zip(rest.iter().take(limit)).take_while(follows);
        ChunkRun {
            data: data.map(u64::from),
            chunks: together.count() as u64,
        }
    }
}

/// A volume in the cache of its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedVolume {
    /// Distinguishes it from the other volumes that were opened.
    pub(super) number: u64,
    /// The slot of its first section, modulo how many there are.
    pub(super) first_slot: u64,
}

#[derive(Debug, Default)]
struct Slot {
    volume: u64,
    section: u64,
    content: Option<Section>,
}

/// The sections that are kept of a pool.
#[derive(Debug)]
pub(super) struct SectionCache {
    slots: Box<[RwLock<Slot>]>,
}

impl SectionCache {
    /// That of a pool with so many data chunks.
    pub(super) fn new(chunks: u64) -> Self {
        let slots = (chunks / SECTION_CHUNKS).saturating_mul(4);
        let slots = slots.clamp(SLOTS_MIN, SLOTS_MAX);
        Self {
            slots: (0..slots).map(|_| RwLock::default()).collect(),
        }
    }

    /// The number of the slot of a section.
    pub(super) fn slot(&self, volume: CachedVolume, section: u64) -> usize {
        let slots = self.slots.len() as u64;
        let slot = volume.first_slot.wrapping_add(section) % slots;
        usize::try_from(slot).expect("there are at most 65536 slots")
    }

    /// What lies together from `chunk` of a volume on, at most `wanted` chunks; `None`: its section is not kept.
    pub(super) fn find(&self, volume: CachedVolume, chunk: u64, wanted: u64) -> Option<ChunkRun> {
        let (section, index) = (chunk / SECTION_CHUNKS, chunk % SECTION_CHUNKS);
        let slot = self.slots[self.slot(volume, section)].read();
        let slot = slot.unwrap_or_else(PoisonError::into_inner);
        if (slot.volume, slot.section) != (volume.number, section) {
            return None;
        }
        Some(slot.content.as_ref()?.find(index, wanted))
    }

    /// Keeps a section, in the place of another one.
    pub(super) fn insert(&self, volume: CachedVolume, section: u64, content: Section) {
        let slot = self.slots[self.slot(volume, section)].write();
        *slot.unwrap_or_else(PoisonError::into_inner) = Slot {
            volume: volume.number,
            section,
            content: Some(content),
        };
    }
}
