//! [`Fingerprint`]: what identifies a disk's content, and what the client itself has made of it. Pure.
//!
//! A disk is recognized by what is written on it: partition tables, the superblocks of filesystems, swap areas, LUKS, LVM and
//! md, of which the UUIDs count, and all of an md superblock. `layout` says where that is, `signature` what it is.
//!
//! ```text
//! learned at connect --> values of each site --- changes that the client sends add values
//!                                            --- a flush removes those that it made impossible
//! read again after a reconnect: each site has one of its values, or it is another disk
//! ```
//!
//! # Invariants
//!
//! * **The disk itself is never refused**: a power cut may bring back, sector by sector, any value since the last flush
//!   that covered it, and changes without an answer may have arrived or not. All of these are expected.
//! * A change that touches no region costs one comparison of its range.
//!
//! # What it does not do
//!
//! It cannot distinguish a disk from a bitwise copy of it; from an older copy only by an md superblock. It does not look into
//! partitions.

mod history;
mod image;
mod layout;
mod signature;

use block::{IoBufs, Range};

use history::History;
pub(crate) use image::RegionImage;
pub(crate) use layout::regions;
use signature::Site;

/// Signatures in one message.
const SIGNATURES_NAMED: usize = 4;

/// A change that is sent to the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    Write(&'a IoBufs),
    Zeroes,
    /// Leaves anything.
    Trim,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything: there is no other writer.
    All,
    /// What stays the same while another client uses the disk.
    Identity,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The content is known, and the disk's.
    Same,
    /// Nothing identifies the disk, as nothing may have before.
    Blank,
    /// Another content, in words.
    Different { expected: String, found: String },
}

/// The content of a disk.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    regions: Vec<Range>,
    image: RegionImage,
    sites: Vec<(Site, History)>,
    /// Changes so far that touched a region.
    changes: u64,
    /// The first of those that were under way together with the last one.
    together_since: u64,
    /// Changes that touched a region and are not answered.
    pending: usize,
    /// The last mark of a flush that succeeded.
    flushed: u64,
}

impl Fingerprint {
    /// Of a disk of `size` bytes. Of [`regions`] `image` has what could be read.
    pub(crate) fn new(size: u64, block_size: u32, image: RegionImage) -> Self {
        let sites = layout::sites(size).into_iter();
        let sites = sites.filter(|site| site.is_in(&image));
        let sites = sites.map(|site| (site, History::new(site.value(&image))));
        Self {
            regions: regions(size, block_size),
            sites: sites.collect(),
            image,
            changes: 0,
            together_since: 0,
            pending: 0,
            flushed: 0,
        }
    }

    fn touches(&self, range: &Range) -> bool {
        let first = self.regions.first().map_or(0, Range::end);
        // All the others are at the end.
        let others = self.regions.get(1).map_or(u64::MAX, |region| region.offset);
        range.offset < first || range.end() > others
    }

    /// A change is sent; `again`: once more, after its connection was lost.
    pub(crate) fn sent(&mut self, range: Range, change: Change<'_>, again: bool) {
        if !self.touches(&range) {
            return;
        }
        self.changes += 1;
        if self.pending == 0 {
            self.together_since = self.changes;
        }
        self.pending += usize::from(!again);
        let data = match change {
            Change::Write(data) => Some(data),
            Change::Zeroes | Change::Trim => None,
        };
        self.image.write(range, data);
        for (site, history) in &mut self.sites {
            if !site.is_touched(&range) {
                continue;
            }
            if matches!(change, Change::Trim) {
                history.is_uncertain = true;
            } else if site.is_covered(&range) {
                history.is_uncertain = false;
            }
            history.push(self.changes, site.value(&self.image));
        }
    }

    /// A change was answered.
    pub(crate) fn answered(&mut self, range: Range, is_ok: bool) {
        if !self.touches(&range) {
            return;
        }
        self.pending = self.pending.saturating_sub(1);
        let sites = self.sites.iter_mut();
        for (_, history) in sites.filter(|(site, _)| !is_ok && site.is_touched(&range)) {
            history.is_uncertain = true;
        }
    }

    /// What a flush that is sent now covers.
    pub(crate) const fn mark(&self) -> Option<u64> {
        match self.pending {
            0 => Some(self.together_since),
            _ => None,
        }
    }

    /// A flush sent at `mark` succeeded.
    pub(crate) fn flushed(&mut self, mark: Option<u64>) {
        let Some(mark) = mark.filter(|mark| *mark > self.flushed) else {
            return;
        };
        self.flushed = mark;
        for (_, history) in &mut self.sites {
            history.forget_before(mark);
        }
    }

    /// Whether anything says what disk it is.
    pub(crate) fn is_blank(&self) -> bool {
        let mut sites = self.sites.iter();
        sites.all(|(site, history)| !site.is_independent() || history.last().is_none())
    }

    /// Compares it with what is on a disk now.
    pub(crate) fn compare(&self, found: &RegionImage, scope: Scope) -> Comparison {
        let (mut is_blank, mut is_same) = (true, true);
        for (site, history) in &self.sites {
            let is_skipped = scope == Scope::Identity && site.is_state();
            if is_skipped || !site.has_meaning(found) {
                continue;
            }
            let value = site.value(found);
            is_blank &= value.is_none() || !site.is_independent();
            is_same &= history.may_be(value.as_ref());
        }
        match (is_same, is_blank) {
            (true, true) => Comparison::Blank,
            (true, false) => Comparison::Same,
            (false, _) => Comparison::Different {
                expected: self.describe(&self.image, found),
                found: self.describe(found, &self.image),
            },
        }
    }

    /// What `image` has and `other` has not, in words.
    fn describe(&self, image: &RegionImage, other: &RegionImage) -> String {
        let sites = self.sites.iter().map(|(site, _)| site);
        let value =
            |site: &Site, image| site.has_meaning(image).then(|| site.value(image)).flatten();
        let own = sites.filter(|site| value(site, image) != value(site, other));
        let described = own.filter_map(|site| Some(site.describe(&value(site, image)?)));
        // What more of a whole md superblock differs says nothing more.
        let signatures: Vec<String> = described.take(SIGNATURES_NAMED).collect();
        match signatures.is_empty() {
            true => "no signature there".to_owned(),
            false => signatures.join(", "),
        }
    }
}

#[cfg(test)]
mod tests;
