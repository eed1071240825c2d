//! Splitting and joining the segments of a volume. Pure.

use super::super::volumes::count_segments;
use super::super::{EditError, number};
use crate::volume::format::text::{Section, TextValue};

/// What of a segment says where it is: all else has to be equal for two to be one.
const PLACE_FIELDS: [&str; 3] = ["start_extent", "extent_count", "stripes"];

/// Replaces each segment of a volume, in order, by those that `rewrite` makes of it. They are numbered again.
pub(super) fn rewrite_segments(
    volume: &mut Section,
    rewrite: impl Fn(&Section) -> Result<Vec<Section>, EditError>,
) -> Result<(), EditError> {
    let mut new = Vec::new();
    for segment in take_segments(volume) {
        new.extend(rewrite(&segment)?);
    }
    put_segments(volume, new);
    Ok(())
}

/// Joins segments of which one continues the other, as LVM does.
pub(super) fn merge_segments(volume: &mut Section) {
    let mut merged: Vec<Section> = Vec::new();
    for segment in take_segments(volume) {
        match merged.last_mut() {
            Some(last) if continues(last, &segment) => {
                let count = |section: &Section| section.number("extent_count").unwrap_or(0);
                let both = count(last) + count(&segment);
                last.set("extent_count", number(both));
            }
            _ => merged.push(segment),
        }
    }
    put_segments(volume, merged);
}

/// Whether `next` is more of the striped segment `last`.
fn continues(last: &Section, next: &Section) -> bool {
    let kind = |section: &Section| {
        let mut section = section.clone();
        for field in PLACE_FIELDS {
            section.remove(field);
        }
        section
    };
    let (Some(ours), Some(theirs)) = (last.list("stripes"), next.list("stripes")) else {
        return false;
    };
    let stripes = (ours.len() / 2).max(1) as u64;
    let each = last.number("extent_count").map(|count| count / stripes);
    let Some(each) = each.and_then(|each| i64::try_from(each).ok()) else {
        return false;
    };
    let follows = |pair: (&[TextValue], &[TextValue])| match pair {
        (
            [TextValue::Text(on), TextValue::Integer(from)],
            [TextValue::Text(next_on), TextValue::Integer(next)],
        ) => on == next_on && from.checked_add(each) == Some(*next),
        _ => false,
    };
    kind(last) == kind(next)
        && last.text("type") == Some("striped")
        && ours.len() == theirs.len()
        && ours.chunks(2).zip(theirs.chunks(2)).all(follows)
}

/// Takes all segments out of a volume, in the order of their extents.
fn take_segments(volume: &mut Section) -> Vec<Section> {
    let segments = volume
        .sections()
        .filter(|(name, _)| name.starts_with("segment"));
    let mut segments: Vec<(String, Section)> = segments
        .map(|(name, segment)| (name.to_owned(), segment.clone()))
        .collect();
    for (name, _) in &segments {
        volume.remove(name);
    }
    segments.sort_by_key(|(_, segment)| segment.number("start_extent"));
    segments.into_iter().map(|(_, segment)| segment).collect()
}

fn put_segments(volume: &mut Section, segments: Vec<Section>) {
    for (index, segment) in segments.into_iter().enumerate() {
        volume.set_section(&format!("segment{}", index + 1), segment);
    }
    count_segments(volume);
}
