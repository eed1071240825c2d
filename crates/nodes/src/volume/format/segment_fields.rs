//! The fields of each type of segment, as the text has them. Pure.

use block::Range;

use super::sectors;
use super::segment::{CacheRanges, RaidImage, SegmentArea, SegmentLayout};
use super::text::{Section, TextValue};

/// Suffixes of types that change nothing that matters here, with the types they belong to.
const KNOWN_SUFFIXES: [(&str, &str); 3] = [
    ("cache", "CACHE_USES_CACHEVOL"),
    ("cache-pool", "METADATA_FORMAT"),
    ("thin-pool", "CROP_METADATA"),
];
/// What is in the name of each volume with the metadata of a RAID image, and in no other.
const RAID_METADATA: &str = "_rmeta_";

/// Every text that is a value of `section` or in a list of it, but its type.
pub(super) fn texts(section: &Section) -> Vec<String> {
    let entries = section.names().filter(|name| *name != "type");
    entries.flat_map(|name| section.texts(name)).collect()
}

/// The layout of a segment of type `kind`.
///
/// # Errors
/// The field that is missing or cannot be; `None` if the type is not known.
pub(super) fn parse_layout(
    kind: &str,
    section: &Section,
) -> Result<SegmentLayout, Option<&'static str>> {
    let (base, suffixes) = kind.split_once('+').unwrap_or((kind, ""));
    let mut flags = suffixes.split('+').filter(|flag| !flag.is_empty());
    if !flags.all(|flag| KNOWN_SUFFIXES.contains(&(base, flag))) {
        return Err(None);
    }
    let fields = SegmentFields { section };
    let layout = match base {
        "striped" => fields.striped(),
        "mirror" => fields.mirror(),
        "snapshot" => fields.snapshot(),
        "thin-pool" => fields.thin_pool(),
        "thin" => fields.thin(),
        "cache" => fields.cache(),
        "cache-pool" => fields.cache_pool(),
        "error" => return Ok(SegmentLayout::Error),
        "zero" => return Ok(SegmentLayout::Zero),
        _ if base.starts_with("raid") => fields.raid(),
        _ => return Err(None),
    };
    layout.map_err(Some)
}

/// The fields of a segment; each method returns the name of the field that is missing or cannot be.
#[derive(Debug, Clone, Copy)]
struct SegmentFields<'a> {
    section: &'a Section,
}

type FieldResult<T> = Result<T, &'static str>;

impl SegmentFields<'_> {
    fn name(self, field: &'static str) -> FieldResult<String> {
        self.name_or_none(field).ok_or(field)
    }

    fn name_or_none(self, field: &str) -> Option<String> {
        self.section.text(field).map(str::to_owned)
    }

    fn number(self, field: &'static str) -> FieldResult<u64> {
        self.section.number(field).ok_or(field)
    }

    /// A number of sectors as bytes; 0 if it is not there.
    fn size(self, field: &'static str) -> FieldResult<u64> {
        match self.section.entry(field) {
            None => Ok(0),
            Some(_) => self.section.number(field).and_then(sectors).ok_or(field),
        }
    }

    /// A number of sectors as bytes, not 0.
    fn size_needed(self, field: &'static str) -> FieldResult<u64> {
        let size = self.size(field)?;
        if size == 0 { Err(field) } else { Ok(size) }
    }

    /// A list of names, each with the extent behind it, as many as `count` says.
    fn areas(self, field: &'static str, count: &'static str) -> FieldResult<Vec<SegmentArea>> {
        let list = self.section.list(field).ok_or(field)?;
        let area = |pair: &[TextValue]| match pair {
            [TextValue::Text(on), TextValue::Integer(extent)] => Some(SegmentArea {
                on: on.clone(),
                extent: u64::try_from(*extent).ok()?,
            }),
            _ => None,
        };
        let areas: Option<Vec<SegmentArea>> = list.chunks(2).map(area).collect();
        let areas = areas.filter(|areas| !areas.is_empty()).ok_or(field)?;
        if self.number(count)? != areas.len() as u64 {
            return Err(count);
        }
        Ok(areas)
    }

    fn striped(self) -> FieldResult<SegmentLayout> {
        let areas = self.areas("stripes", "stripe_count")?;
        let stripe_size = match areas.len() {
            1 => 0,
            _ => self.size_needed("stripe_size")?,
        };
        Ok(SegmentLayout::Striped { stripe_size, areas })
    }

    fn mirror(self) -> FieldResult<SegmentLayout> {
        let moved = match self.section.entry("extents_moved") {
            None => None,
            Some(_) => Some(self.number("extents_moved")?),
        };
        Ok(SegmentLayout::Mirror {
            areas: self.areas("mirrors", "mirror_count")?,
            log: self.name_or_none("mirror_log"),
            region_size: self.size("region_size")?,
            moved,
        })
    }

    fn raid(self) -> FieldResult<SegmentLayout> {
        let (list, field) = match self.section.list("raids") {
            Some(list) => (list, "raids"),
            None => (self.section.list("raid0_lvs").ok_or("raids")?, "raid0_lvs"),
        };
        let mut images = Vec::new();
        let mut metadata = None;
        for value in list {
            match value {
                TextValue::Text(name) if name.contains(RAID_METADATA) && metadata.is_none() => {
                    metadata = Some(name.clone());
                }
                TextValue::Text(name) => images.push(RaidImage {
                    metadata: metadata.take(),
                    data: name.clone(),
                }),
                _ => return Err(field),
            }
        }
        let count = match self.section.number("device_count") {
            Some(count) => count,
            None => self.number("stripe_count")?,
        };
        if metadata.is_some() || images.is_empty() || images.len() as u64 != count {
            return Err(field);
        }
        Ok(SegmentLayout::Raid {
            images,
            stripe_size: self.size("stripe_size")?,
            region_size: self.size("region_size")?,
            data_copies: self.section.number("data_copies"),
        })
    }

    fn snapshot(self) -> FieldResult<SegmentLayout> {
        let merging = self.name_or_none("merging_store");
        Ok(SegmentLayout::Snapshot {
            origin: self.name("origin")?,
            merging: merging.is_some(),
            store: match merging {
                Some(store) => store,
                None => self.name("cow_store")?,
            },
            chunk_size: self.size_needed("chunk_size")?,
        })
    }

    fn thin_pool(self) -> FieldResult<SegmentLayout> {
        let mut sections = self.section.sections();
        Ok(SegmentLayout::ThinPool {
            metadata: self.name("metadata")?,
            data: self.name("pool")?,
            transaction_id: self.number("transaction_id")?,
            chunk_size: self.size_needed("chunk_size")?,
            zero_new_blocks: self.section.number("zero_new_blocks") == Some(1),
            pending_messages: sections.any(|(name, _)| name.starts_with("message")),
        })
    }

    fn thin(self) -> FieldResult<SegmentLayout> {
        Ok(SegmentLayout::Thin {
            pool: self.name("thin_pool")?,
            transaction_id: self.number("transaction_id")?,
            device_id: self.number("device_id")?,
            origin: self.name_or_none("origin"),
            external_origin: self.name_or_none("external_origin"),
            merge_into: self.name_or_none("merge"),
        })
    }

    fn cache(self) -> FieldResult<SegmentLayout> {
        let range = |start, len| -> FieldResult<Range> {
            let range = Range::new(self.size(start)?, self.size_needed(len)?);
            let end = range.offset.checked_add(range.len).ok_or(len)?;
            i64::try_from(end).map_err(|_| len)?;
            Ok(range)
        };
        let ranges = match self.section.entry("metadata_len") {
            None => None,
            Some(_) => Some(CacheRanges {
                metadata: range("metadata_start", "metadata_len")?,
                data: range("data_start", "data_len")?,
            }),
        };
        let chunk_size = self.size("chunk_size")?;
        Ok(SegmentLayout::Cache {
            origin: self.name("origin")?,
            pool: self.name("cache_pool")?,
            ranges,
            mode: self.name_or_none("cache_mode"),
            chunk_size: (chunk_size > 0).then_some(chunk_size),
        })
    }

    fn cache_pool(self) -> FieldResult<SegmentLayout> {
        Ok(SegmentLayout::CachePool {
            metadata: self.name("metadata")?,
            data: self.name("data")?,
            mode: self.name_or_none("cache_mode"),
            chunk_size: self.size("chunk_size")?,
        })
    }
}
