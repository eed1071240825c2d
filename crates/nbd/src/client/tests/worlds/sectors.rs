//! [`SectorHistory`]: what one sector may hold. Pure.
//!
//! Versions are numbered in the order in which they were submitted. Two bounds say which of them the
//! sector may hold:
//!
//! ```text
//! versions   1   4   7   9          floor <= settled
//!                |   |
//!            floor   settled
//! ```
//!
//! * `settled`: an acknowledged change has replaced everything older. While the client keeps the
//!   promise to write again what a server loses, a read finds a version from there on.
//! * `floor`: a flush, or a durable write, has covered everything up to there. After any fault, the
//!   medium holds a version from there on.
//!
//! Changes that are in flight together have no order: a group of them settles the sector when all are
//! over and one was acknowledged.

use super::disk::Sector;

/// What a change leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Bytes(Sector),
    /// It was trimmed.
    Anything,
}

impl Content {
    fn fits(&self, found: &Sector) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == found,
            Self::Anything => true,
        }
    }
}

#[derive(Debug)]
struct Version {
    order: u64,
    content: Content,
}

/// What one sector may hold, and held.
#[derive(Debug)]
pub(super) struct SectorHistory {
    versions: Vec<Version>,
    settled: u64,
    floor: u64,
    in_flight: u32,
    /// The oldest change of the group in flight.
    group: u64,
    is_acknowledged: bool,
    /// When it was last touched.
    changed: u64,
}

impl SectorHistory {
    pub(super) fn new(content: Sector) -> Self {
        let content = Content::Bytes(content);
        Self {
            versions: vec![Version { order: 0, content }],
            settled: 0,
            floor: 0,
            in_flight: 0,
            group: 0,
            is_acknowledged: false,
            changed: 0,
        }
    }

    /// A change was submitted.
    pub(super) fn begin(&mut self, order: u64, content: Content) {
        if self.in_flight == 0 {
            self.group = order;
            self.is_acknowledged = false;
        }
        self.in_flight += 1;
        self.changed = order;
        self.versions.push(Version { order, content });
    }

    /// A change is over.
    pub(super) fn end(&mut self, is_acknowledged: bool, is_promised: bool) {
        self.in_flight -= 1;
        self.is_acknowledged |= is_acknowledged;
        if self.in_flight == 0 && self.is_acknowledged && is_promised {
            self.settled = self.settled.max(self.group);
        }
    }

    /// A server carried a change out that it had received over a connection that was given up.
    pub(super) fn executed_late(&mut self, order: u64, content: Sector) {
        self.changed = order;
        let content = Content::Bytes(content);
        self.versions.push(Version { order, content });
    }

    /// What a flush that is submitted now covers.
    pub(super) const fn covered(&self) -> u64 {
        self.settled
    }

    /// Everything up to `order` is durable.
    pub(super) fn make_durable(&mut self, order: u64) {
        self.floor = self.floor.max(order);
    }

    /// No more than what is durable is promised any more.
    pub(super) const fn drop_promise(&mut self) {
        self.settled = self.floor;
    }

    /// Whether nothing is in flight, and when it was last touched.
    pub(super) const fn state(&self) -> (bool, u64) {
        (self.in_flight == 0, self.changed)
    }

    /// Whether a read may find this where nothing changed meanwhile.
    pub(super) fn may_be_read(&self, found: &Sector) -> bool {
        self.fits_from(self.settled, found)
    }

    /// Whether the medium may hold this.
    pub(super) fn may_be_durable(&self, found: &Sector) -> bool {
        self.fits_from(self.floor, found)
    }

    /// Whether it ever held this, or may have.
    pub(super) fn was_ever(&self, found: &Sector) -> bool {
        self.fits_from(0, found)
    }

    fn fits_from(&self, order: u64, found: &Sector) -> bool {
        let mut from = self.versions.iter().rev();
        from.any(|version| version.order >= order && version.content.fits(found))
    }
}
