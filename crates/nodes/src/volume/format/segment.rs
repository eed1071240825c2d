//! A segment of a logical volume. What is known of LVM's segment types is here and nowhere else: which list
//! of the text names a type's areas, and how many extents of them it uses.

use super::text::{Section, TextValue};

/// The lists in which segment types name what they lie on.
const AREA_LISTS: [&str; 4] = ["stripes", "raids", "raid0_lvs", "mirrors"];
/// The type of linear and striped segments.
const STRIPED: &str = "striped";

/// A run of extents of a volume that are made in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSegment {
    /// First extent in the volume.
    pub start: u64,
    /// Extents.
    pub extents: u64,
    /// `striped`, `raid1`, `thin-pool`, `snapshot`…
    pub kind: String,
    /// What it lies on, in order.
    pub areas: Vec<SegmentArea>,
    /// A snapshot's, or a thin volume's.
    pub origin: Option<String>,
    /// The volume in which a snapshot keeps what was changed.
    pub store: Option<String>,
    /// The pool of a thin volume.
    pub pool: Option<String>,
}

/// What a part of a segment lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentArea {
    /// A [`Member`](super::group::Member)'s name or a volume's.
    pub on: String,
    /// First extent there.
    pub extent: u64,
}

impl VolumeSegment {
    /// Reads a section `segmentN`. `None`: a field that every segment has is missing.
    pub(super) fn parse(section: &Section) -> Option<Self> {
        let text = |name: &str| section.text(name).map(str::to_owned);
        let list = AREA_LISTS.into_iter().find_map(|name| section.list(name));
        Some(Self {
            start: section.number("start_extent")?,
            extents: section.number("extent_count")?,
            kind: text("type")?,
            areas: areas(list.unwrap_or_default()),
            origin: text("origin"),
            store: text("cow_store").or_else(|| text("merging_store")),
            pool: text("thin_pool"),
        })
    }

    /// The one area of a segment that is linear, which LVM writes as one stripe.
    pub(super) fn linear_area(&self) -> Option<&SegmentArea> {
        match self.areas.as_slice() {
            [only] if self.kind == STRIPED => Some(only),
            _ => None,
        }
    }

    /// How many extents of physical volumes the segment uses; `is_member` recognises their names.
    pub(super) fn used_extents(&self, is_member: impl Fn(&str) -> bool) -> u64 {
        let areas = self.areas.iter().filter(|area| is_member(&area.on)).count() as u64;
        match self.kind.as_str() {
            // Extents are of the volume, spread over its stripes.
            STRIPED if areas > 0 => self.extents,
            _ => self.extents.saturating_mul(areas),
        }
    }
}

/// Names, each with the extent behind it if there is one.
fn areas(list: &[TextValue]) -> Vec<SegmentArea> {
    let mut areas: Vec<SegmentArea> = Vec::new();
    for value in list {
        match value {
            TextValue::Text(on) => areas.push(SegmentArea {
                on: on.clone(),
                extent: 0,
            }),
            TextValue::Integer(extent) => {
                if let (Some(last), Ok(extent)) = (areas.last_mut(), u64::try_from(*extent)) {
                    last.extent = extent;
                }
            }
            TextValue::List(_) => {}
        }
    }
    areas
}
