//! [`DirtyBitmap`]: what is dirty in a bitmap of the source's server, for an incremental copy.
//!
//! # Invariants
//!
//! * The bitmap is read once, before source and target are opened.
//! * Ranges of which the server reports nothing, or too much in pieces too small, count as dirty: an incremental copy may
//!   copy more than was written, never less.

use block::Range;
use nbd::client::{ClientConfig, QEMU_DIRTY_BITMAP, describe, read_context};

use crate::commands::inspect::visible;
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk};

/// Most names in a message.
const NAMES_MAX: usize = 16;

/// The dirty ranges of a source.
#[derive(Debug)]
pub(super) struct DirtyBitmap {
    context: String,
    size: u64,
    ranges: Vec<Range>,
}

impl DirtyBitmap {
    /// Reads the bitmap `name`, which may also be the name of its metadata context.
    pub(super) async fn read(source: &NamedDisk, name: &str) -> Result<Self, Failure> {
        let Disk::Remote { target, .. } = &source.disk else {
            let what = format!(
                "{} is no export of a server, and has no bitmap",
                source.text
            );
            return Err(Failure::usage(what).next("serve the image with qemu-nbd --bitmap NAME"));
        };
        let timeout = ClientConfig::default().request_timeout;
        let described = Box::pin(describe(target, timeout)).await;
        let described = described.map_err(|error| Failure::from_error(&error))?;
        let context = match name.starts_with(QEMU_DIRTY_BITMAP) {
            true => name.to_owned(),
            false => format!("{QEMU_DIRTY_BITMAP}{name}"),
        };
        if !described.contexts.contains(&context) {
            let what = format!("{target} has no dirty bitmap `{name}`");
            return Err(Failure::new(what).next(offered(&described.contexts)));
        }
        let map = Box::pin(read_context(target, &context, timeout)).await;
        let map = map.map_err(|error| Failure::from_error(&error))?;
        if map.reported() < map.size {
            let rest = map.size - map.reported();
            tracing::warn!("{context} has too many extents: the last {rest} bytes count as dirty");
        }
        Ok(Self {
            context,
            size: map.size,
            ranges: map.dirty(),
        })
    }

    /// Its metadata context.
    pub(super) fn context(&self) -> &str {
        &self.context
    }

    /// Size of the export, bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// What is dirty, in order.
    pub(super) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Bytes that are dirty.
    pub(super) fn dirty(&self) -> u64 {
        self.ranges.iter().map(|range| range.len).sum()
    }
}

/// The bitmaps among the contexts of an export, for a message.
fn offered(contexts: &[String]) -> String {
    let names = contexts
        .iter()
        .filter_map(|context| context.strip_prefix(QEMU_DIRTY_BITMAP));
    let names: Vec<String> = names.map(|name| format!("`{}`", visible(name))).collect();
    if names.is_empty() {
        return "it has none: qemu-nbd exports one with --bitmap NAME".to_owned();
    }
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = names.iter().take(NAMES_MAX).map(String::as_str);
    format!("it has {}{more}", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::offered;

    #[test]
    fn a_message_has_the_names_of_few_bitmaps() {
        let context = |nth: usize| format!("qemu:dirty-bitmap:b{nth}");
        let mut contexts = vec!["base:allocation".to_owned()];
        assert!(offered(&contexts).starts_with("it has none"));
        contexts.extend((0..2).map(context));
        contexts.push("qemu:allocation-depth".to_owned());
        assert_eq!(offered(&contexts), "it has `b0`, `b1`");
        contexts.extend((2..1000).map(context));
        let text = offered(&contexts);
        assert!(text.ends_with("`b15` and 984 more"), "{text}");
    }
}
