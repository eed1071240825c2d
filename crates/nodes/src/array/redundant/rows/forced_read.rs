//! An array that was being reshaped when it stopped, lacks members, and is read by force: where it may be wrong.
//!
//! # Invariants
//!
//! * It is only read. Parity is used everywhere; where that gives data, the place is named.
//!
//! # What it does not do
//!
//! Bits of a bitmap do not know two forms: they leave no place out.

use super::super::super::UntrustedPlaces;
use super::super::super::parity::untrusted_scan::UntrustedScan;
use super::super::RedundantArray;
use super::columns::Columns;

impl RedundantArray {
    /// Where it may be wrong.
    pub(in crate::array) fn untrusted(&self) -> Option<&UntrustedPlaces> {
        self.rows.untrusted.get()
    }

    /// Finds where it may be wrong, for its status.
    pub(in crate::array) fn find_untrusted(&self) {
        let layout = self.layout();
        let is_unsynced = self.lock().state.is_unsynced();
        let Some(sections) = layout
            .parity()
            .filter(|_| self.rows.is_forced && is_unsynced)
        else {
            return;
        };
        let mut scan = UntrustedScan::new();
        for section in [Some(sections.after()), sections.before()] {
            let Some(section) = section.filter(|section| !section.range.is_empty()) else {
                continue;
            };
            let all = section.held();
            let mut lost = Columns::of(self, *section, all).lost;
            lost.add_unsynced(all);
            scan.add(&section.layout, section.range, &lost);
        }
        if let Some(found) = scan.finish() {
            // It is found once.
            drop(self.rows.untrusted.set(found));
        }
    }
}
