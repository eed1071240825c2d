//! A segment of a logical volume. What is known of LVM's segment types is here and in `segment_fields`, and nowhere
//! else: the fields of each, what they lie on, and how many extents of it they use. Pure; sizes are bytes.
//!
//! # Invariants
//!
//! * A type that is not known, or of which a field is missing or cannot be, is [`SegmentLayout::Unsupported`]: the group can
//!   still be read, and its other volumes can be opened.
//! * A type with a suffix (`raid5_ls+RESHAPE`) is not taken for the type without it, unless the suffix is known to change
//!   nothing that matters here.

use super::segment_fields::{parse_layout, texts};
use super::text::Section;

/// A run of extents of a volume that are made in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSegment {
    /// First extent in the volume.
    pub start: u64,
    /// Extents.
    pub extents: u64,
    /// As in the text: `striped`, `raid5_ls`, `thin-pool`, `snapshot`…
    pub kind: String,
    /// What it is made of.
    pub layout: SegmentLayout,
}

/// What a segment is made of. Names are those of volumes, and in a [`SegmentArea`] of members, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentLayout {
    /// `striped`; linear with one area.
    Striped {
        /// Bytes of one stripe; 0 with one area.
        stripe_size: u64,
        /// In their order.
        areas: Vec<SegmentArea>,
    },
    /// `mirror`: dm-mirror, and a move of extents.
    Mirror {
        /// The legs.
        areas: Vec<SegmentArea>,
        /// The volume with the log; `None`: it is in memory only.
        log: Option<String>,
        /// Bytes for each bit of the log; 0 if not recorded.
        region_size: u64,
        /// In a move: how many extents are at their new place.
        moved: Option<u64>,
    },
    /// `raid0`, `raid1`, `raid5_ls`…: dm-raid.
    Raid {
        /// In the order of their slots.
        images: Vec<RaidImage>,
        /// Bytes of one chunk; 0 with RAID 1.
        stripe_size: u64,
        /// Bytes for each bit of the bitmap; 0 with RAID 0.
        region_size: u64,
        /// Copies of each byte with RAID 10.
        data_copies: Option<u64>,
    },
    /// `snapshot`: connects an origin with a store of what was changed.
    Snapshot {
        /// The volume.
        origin: String,
        /// The store.
        store: String,
        /// The store is being merged into the origin.
        merging: bool,
        /// Bytes of one exception.
        chunk_size: u64,
    },
    /// `thin-pool`.
    ThinPool {
        /// The volume with the pool's metadata.
        metadata: String,
        /// The volume with the pool's data.
        data: String,
        /// As the pool's metadata have it, too.
        transaction_id: u64,
        /// Bytes of one block of data.
        chunk_size: u64,
        /// New blocks read as zeroes.
        zero_new_blocks: bool,
        /// Changes are recorded here that the pool's metadata may not have yet.
        pending_messages: bool,
    },
    /// `thin`: a volume of a pool.
    Thin {
        /// The pool.
        pool: String,
        /// Of the pool, when this volume was made.
        transaction_id: u64,
        /// Its number in the pool.
        device_id: u64,
        /// Of what it is a snapshot.
        origin: Option<String>,
        /// A volume outside the pool that has what is not in the pool.
        external_origin: Option<String>,
        /// The volume that is to become this one when it is activated next.
        merge_into: Option<String>,
    },
    /// `cache`.
    Cache {
        /// The slow volume.
        origin: String,
        /// A `cache-pool`, or a volume that has metadata and data in it.
        pool: String,
        /// With the second: what is where in `pool`.
        ranges: Option<CacheRanges>,
        /// `writethrough`, `writeback`, `passthrough`.
        mode: Option<String>,
        /// Bytes of one block, if it is recorded here.
        chunk_size: Option<u64>,
    },
    /// `cache-pool`.
    CachePool {
        /// The volume with the cache's metadata.
        metadata: String,
        /// The volume with the cache's data.
        data: String,
        /// `writethrough`, `writeback`, `passthrough`; the cache's own has precedence.
        mode: Option<String>,
        /// Bytes of one block.
        chunk_size: u64,
    },
    /// `error`: every request fails.
    Error,
    /// `zero`: reads as zeroes.
    Zero,
    /// Something else.
    Unsupported {
        /// Every text in it: names of what it may lie on are among them.
        references: Vec<String>,
        /// The field that is missing or cannot be, if only that is wrong.
        lacks: Option<&'static str>,
    },
}

/// What a part of a segment lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentArea {
    /// A [`Member`](super::Member)'s name or a volume's.
    pub on: String,
    /// First extent there.
    pub extent: u64,
}

/// The two volumes of a slot of a RAID volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaidImage {
    /// Superblock and bitmap; RAID 0 has none.
    pub metadata: Option<String>,
    /// Data.
    pub data: String,
}

/// Where metadata and data are in the one volume of a cache; bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRanges {
    /// Metadata.
    pub metadata: block::Range,
    /// Data.
    pub data: block::Range,
}

impl VolumeSegment {
    /// Reads a section `segmentN`. `None`: a field that every segment has is missing.
    pub(super) fn parse(section: &Section) -> Option<Self> {
        let kind = section.text("type")?;
        let layout =
            parse_layout(kind, section).unwrap_or_else(|lacks| SegmentLayout::Unsupported {
                references: texts(section),
                lacks,
            });
        Some(Self {
            start: section.number("start_extent")?,
            extents: section.number("extent_count")?,
            kind: kind.to_owned(),
            layout,
        })
    }

    /// The areas of striped segments and mirrors, in order.
    #[must_use]
    pub fn areas(&self) -> &[SegmentArea] {
        match &self.layout {
            SegmentLayout::Striped { areas, .. } | SegmentLayout::Mirror { areas, .. } => areas,
            _ => &[],
        }
    }

    /// The one area of a segment that is linear, which LVM writes as one stripe.
    #[must_use]
    pub fn linear_area(&self) -> Option<&SegmentArea> {
        match &self.layout {
            SegmentLayout::Striped { areas, .. } => match areas.as_slice() {
                [only] => Some(only),
                _ => None,
            },
            _ => None,
        }
    }

    /// The volume that this is a snapshot or a cache of.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        match &self.layout {
            SegmentLayout::Snapshot { origin, .. } | SegmentLayout::Cache { origin, .. } => {
                Some(origin)
            }
            SegmentLayout::Thin {
                origin,
                external_origin,
                ..
            } => origin.as_deref().or(external_origin.as_deref()),
            _ => None,
        }
    }

    /// The pool of a thin volume or a cache.
    #[must_use]
    pub fn pool(&self) -> Option<&str> {
        match &self.layout {
            SegmentLayout::Thin { pool, .. } | SegmentLayout::Cache { pool, .. } => Some(pool),
            _ => None,
        }
    }

    /// Everything that the bytes of this segment lie on: names of volumes and members. The origin of a thin volume within
    /// its pool is not among them: its bytes are in the pool.
    #[must_use]
    pub fn references(&self) -> Vec<&str> {
        match &self.layout {
            SegmentLayout::Striped { areas, .. } => names(areas).collect(),
            SegmentLayout::Mirror { areas, log, .. } => {
                names(areas).chain(log.as_deref()).collect()
            }
            SegmentLayout::Raid { images, .. } => {
                let both = images
                    .iter()
                    .map(|image| [image.metadata.as_deref(), Some(&*image.data)]);
                both.flatten().flatten().collect()
            }
            SegmentLayout::Snapshot { origin, store, .. } => vec![origin, store],
            SegmentLayout::ThinPool { metadata, data, .. }
            | SegmentLayout::CachePool { metadata, data, .. } => vec![metadata, data],
            SegmentLayout::Thin {
                pool,
                external_origin,
                ..
            } => {
                let outside = external_origin.as_deref();
                std::iter::once(pool.as_str()).chain(outside).collect()
            }
            SegmentLayout::Cache { origin, pool, .. } => vec![origin, pool],
            SegmentLayout::Error | SegmentLayout::Zero => Vec::new(),
            SegmentLayout::Unsupported { references, .. } => {
                references.iter().map(String::as_str).collect()
            }
        }
    }

    /// How many extents of physical volumes the segment uses; `is_member` recognises their names.
    pub(super) fn used_extents(&self, is_member: impl Fn(&str) -> bool) -> u64 {
        let areas = self.areas().iter().filter(|area| is_member(&area.on));
        let areas = areas.count() as u64;
        match &self.layout {
            // Extents are of the volume, spread over its stripes.
            SegmentLayout::Striped { .. } if areas > 0 => self.extents,
            _ => self.extents.saturating_mul(areas),
        }
    }
}

fn names(areas: &[SegmentArea]) -> impl Iterator<Item = &str> {
    areas.iter().map(|area| area.on.as_str())
}
