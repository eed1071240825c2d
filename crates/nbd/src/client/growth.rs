//! [`Growth`]: the geometry of an export that may grow while it is used.
//!
//! A caller may still hold the geometry that it got before, so nothing is overwritten: each growth adds a
//! link to a chain that lives as long as the client, of at most [`limits::GROWTHS_MAX`] links. One
//! task adds, anyone reads.

use std::sync::OnceLock;

use block::Geometry;

use crate::client::limits;

#[derive(Debug)]
struct Link {
    geometry: Geometry,
    next: OnceLock<Box<Self>>,
}

/// A geometry whose size may grow, never shrink.
#[derive(Debug)]
pub(crate) struct Growth(Link);

impl Growth {
    pub(crate) const fn new(geometry: Geometry) -> Self {
        Self(Link {
            geometry,
            next: OnceLock::new(),
        })
    }

    /// The geometry now.
    pub(crate) fn geometry(&self) -> &Geometry {
        let mut at = &self.0;
        while let Some(next) = at.next.get() {
            at = next;
        }
        &at.geometry
    }

    /// Takes `size`, rounded down to whole blocks, if it is larger. Returns whether it did.
    pub(crate) fn grow(&self, size: u64) -> bool {
        let mut at = &self.0;
        let mut links = 1;
        while let Some(next) = at.next.get() {
            at = next;
            links += 1;
        }
        let size = whole_blocks(size, at.geometry.block_size);
        if size <= at.geometry.size || links >= limits::GROWTHS_MAX {
            return false;
        }
        let geometry = Geometry {
            size,
            ..at.geometry.clone()
        };
        let link = Link {
            geometry,
            next: OnceLock::new(),
        };
        at.next.set(Box::new(link)).is_ok()
    }
}

/// `size` without the part of a block at its end.
pub(crate) fn whole_blocks(size: u64, block_size: u32) -> u64 {
    size - size % u64::from(block_size.max(1))
}
