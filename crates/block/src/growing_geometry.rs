//! [`GrowingGeometry`]: the geometry of a disk that may grow while it is used: a remote one, an array that gets more members.
//!
//! # Invariants
//!
//! * Nothing is overwritten, since a caller may still hold the geometry that it got before: each growth adds a link to a chain that
//!   lives as long as the disk, of at most [`GROWTHS_MAX`] links. One task adds, any caller reads.

use std::sync::OnceLock;

use crate::Geometry;

/// Links of a chain; a disk does not grow more often while it is open.
pub const GROWTHS_MAX: usize = 1024;

#[derive(Debug)]
struct Link {
    geometry: Geometry,
    next: OnceLock<Box<Self>>,
}

/// A geometry whose size may grow, never shrink.
#[derive(Debug)]
pub struct GrowingGeometry(Link);

impl GrowingGeometry {
    /// One that is so for now.
    #[must_use]
    pub const fn new(geometry: Geometry) -> Self {
        Self(Link {
            geometry,
            next: OnceLock::new(),
        })
    }

    /// The geometry now.
    pub fn now(&self) -> &Geometry {
        let mut at = &self.0;
        while let Some(next) = at.next.get() {
            at = next;
        }
        &at.geometry
    }

    /// Takes `size`, rounded down to whole blocks, if it is larger. Whether it did.
    pub fn grow(&self, size: u64) -> bool {
        let mut at = &self.0;
        let mut links = 1;
        while let Some(next) = at.next.get() {
            at = next;
            links += 1;
        }
        let size = whole_blocks(size, at.geometry.block_size);
        if size <= at.geometry.size || links >= GROWTHS_MAX {
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
#[must_use]
pub fn whole_blocks(size: u64, block_size: u32) -> u64 {
    size - size % u64::from(block_size.max(1))
}

#[cfg(test)]
mod tests {
    use super::{GROWTHS_MAX, GrowingGeometry};
    use crate::Geometry;

    #[test]
    fn a_geometry_grows_and_never_shrinks() {
        let mut geometry = Geometry::native(8192);
        geometry.block_size = 4096;
        let growing = GrowingGeometry::new(geometry);
        let before = growing.now();
        assert!(!growing.grow(4096));
        assert!(!growing.grow(8192 + 4095), "less than a block more");
        assert!(growing.grow(20_000));
        assert_eq!(growing.now().size, 16_384);
        assert_eq!(growing.now().block_size, 4096);
        assert_eq!(before.size, 8192, "what was handed out stays as it is");
        let grown = (0..GROWTHS_MAX as u64 + 10).filter(|nth| growing.grow((nth + 10) * 4096));
        assert_eq!(grown.count(), GROWTHS_MAX - 2);
    }
}
