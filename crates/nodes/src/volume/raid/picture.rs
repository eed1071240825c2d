//! [`Picture`]: which images of a volume are used, by the metadata of all of them. Pure.
//!
//! # Invariants
//!
//! * The metadata with the most events count. An image that they record as failed is not used, nor one that is more than one
//!   commit behind: both lack what was written since.
//! * Two images that were both written without the other are not joined, unless that is forced.
//! * A volume is new only where none of its images has metadata.

use super::RaidError;
use super::kind::RaidKind;
use crate::array::format::dm_raid::DmRaid;

/// Events of metadata with which a volume begins.
pub(super) const FIRST_EVENTS: u64 = 1;

/// What the metadata of an image hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImageRecord {
    /// The image, or its metadata, cannot be had; why.
    Missing(String),
    /// They were never written.
    Blank,
    /// They are something else.
    Foreign,
    /// A superblock.
    Superblock(Box<DmRaid>),
}

/// How an image stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImageState {
    /// It holds its part.
    InSync,
    /// It holds its part up to this byte.
    Rebuilding(u64),
    /// It is there, and not used.
    Unused,
    /// It is not there.
    Missing,
}

/// Which images of a volume are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    /// The image with the freshest metadata; `None`: the volume is new.
    pub(super) freshest: Option<usize>,
    /// By position.
    pub(super) images: Vec<ImageState>,
    /// Which images have failed by the freshest metadata, by their present positions.
    pub(super) failed: Vec<bool>,
    /// What the caller should know.
    pub(super) remarks: Vec<String>,
}

impl Picture {
    /// Images that hold their part, all of it.
    pub(super) fn in_sync(&self) -> Vec<bool> {
        let images = self.images.iter();
        images.map(|state| *state == ImageState::InSync).collect()
    }

    /// Whether the metadata record that the volume goes on without an image, or that one is being rebuilt.
    pub(super) fn was_degraded(&self) -> bool {
        let is_rebuilding = |state: &ImageState| matches!(state, ImageState::Rebuilding(_));
        self.failed.contains(&true) || self.images.iter().any(is_rebuilding)
    }
}

/// What a volume should be like, by LVM's metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expectation<'a> {
    /// What it is called.
    pub(super) name: &'a str,
    /// Type of its segment, as LVM calls it.
    pub(super) kind_name: &'a str,
    pub(super) kind: RaidKind,
    /// Bytes of a stripe.
    pub(super) chunk: u64,
    /// Images that were written without each other are allowed: the freshest counts.
    pub(super) force: bool,
    /// Its images counted as equal when it was made.
    pub(super) assume_synced: bool,
}

impl Expectation<'_> {
    /// What an image is called.
    pub(super) fn image(&self, position: usize) -> String {
        format!("{}_rimage_{position}", self.name)
    }

    /// Decides which images are used.
    ///
    /// # Errors
    /// Why the volume is not opened.
    pub(super) fn picture(&self, records: &[ImageRecord]) -> Result<Picture, RaidError> {
        let known = || {
            let records = records.iter().enumerate();
            records.filter_map(|(position, record)| match record {
                ImageRecord::Superblock(own) => Some((position, &**own)),
                _ => None,
            })
        };
        for (position, own) in known() {
            if let Some(why) = own.refusal() {
                let what = format!("{}: {why}", self.image(position));
                return Err(RaidError::refused(what, "use the volume with Linux"));
            }
        }
        let Some((freshest, fresh)) = freshest_of(known()) else {
            return self.new_volume(records);
        };
        self.check_form(freshest, fresh, records.len())?;
        let mut picture = Picture {
            freshest: Some(freshest),
            images: Vec::with_capacity(records.len()),
            failed: vec![false; records.len()],
            remarks: Vec::new(),
        };
        for (position, record) in records.iter().enumerate() {
            let state = self.judge(position, record, (freshest, fresh), &mut picture)?;
            picture.images.push(state);
        }
        Ok(picture)
    }

    /// Whether a volume was never in use, all its images are there, and some of them have no metadata yet.
    pub(super) fn is_new(&self, records: &[ImageRecord]) -> bool {
        let begins = |record: &ImageRecord| match record {
            ImageRecord::Blank => true,
            ImageRecord::Superblock(own) => {
                let as_made = match own.synced_to {
                    Some(to) => to == 0,
                    None => self.assume_synced,
                };
                own.events <= FIRST_EVENTS && as_made && own.refusal().is_none()
            }
            ImageRecord::Missing(_) | ImageRecord::Foreign => false,
        };
        records.contains(&ImageRecord::Blank) && records.iter().all(begins)
    }

    /// A volume of which no image has metadata.
    fn new_volume(&self, records: &[ImageRecord]) -> Result<Picture, RaidError> {
        let blank = records
            .iter()
            .filter(|record| **record == ImageRecord::Blank);
        let is_foreign = records.contains(&ImageRecord::Foreign);
        if is_foreign || blank.count() == 0 {
            let what = match is_foreign {
                true => format!("no image of {} has metadata of RAID", self.name),
                false => format!("no image of {} is there with its metadata", self.name),
            };
            return Err(RaidError::refused(what, "find its physical volumes"));
        }
        let mut remarks = vec![format!(
            "{} was never in use: its images may differ",
            self.name
        )];
        let images = records
            .iter()
            .enumerate()
            .map(|(position, record)| match record {
                ImageRecord::Missing(why) => {
                    remarks.push(format!("{} is missing: {why}", self.image(position)));
                    ImageState::Missing
                }
                _ => ImageState::InSync,
            });
        let images: Vec<ImageState> = images.collect();
        Ok(Picture {
            freshest: None,
            failed: vec![false; images.len()],
            images,
            remarks,
        })
    }

    /// Checks that the freshest metadata are of a volume as LVM describes it.
    fn check_form(&self, position: usize, fresh: &DmRaid, images: usize) -> Result<(), RaidError> {
        let superblock = fresh.superblock();
        let image = self.image(position);
        let changed = |what: String| {
            let next = "activate the volume once with Linux, which finishes its conversion";
            Err(RaidError::refused(what, next))
        };
        let kind = self.kind_name;
        if !self.kind.fits(superblock.level, fresh.layout) {
            return changed(format!(
                "by LVM {} is {kind}, by the metadata of {image} {} of layout {:#x}",
                self.name, superblock.level, fresh.layout
            ));
        }
        let has_chunk = !self.kind.has_no_chunk();
        if has_chunk && fresh.chunk != self.chunk {
            return changed(format!(
                "by LVM {} has stripes of {} bytes, by the metadata of {image} of {}",
                self.name, self.chunk, fresh.chunk
            ));
        }
        let counted = u64::from(fresh.images);
        if counted != images as u64 && has_chunk {
            return changed(format!(
                "by LVM {} has {images} images, by the metadata of {image} {counted}",
                self.name
            ));
        }
        Ok(())
    }

    /// How one image stands.
    fn judge(
        &self,
        position: usize,
        record: &ImageRecord,
        (freshest, fresh): (usize, &DmRaid),
        picture: &mut Picture,
    ) -> Result<ImageState, RaidError> {
        let image = self.image(position);
        // Metadata that are there say which position they were written at.
        let recorded = match record {
            ImageRecord::Superblock(own) => own.position as usize,
            _ => position,
        };
        picture.failed[position] = fresh.failed.has(recorded);
        let mut unused = |why: &str| {
            picture.remarks.push(format!("{image} is not used: {why}"));
            ImageState::Unused
        };
        let own = match record {
            ImageRecord::Superblock(own) => own,
            ImageRecord::Missing(why) => {
                let why = format!("{image} is missing: {why}");
                picture.remarks.push(why);
                return Ok(ImageState::Missing);
            }
            ImageRecord::Blank => return Ok(unused("it is new, and holds nothing yet")),
            ImageRecord::Foreign => return Ok(unused("its metadata are not of RAID")),
        };
        if recorded != position && !self.kind.may_reorder() {
            let what = format!("{image} was image {recorded} when its metadata were written");
            return Err(RaidError::refused(
                what,
                "find out which image is which: their order in LVM's metadata is wrong",
            ));
        }
        if picture.failed[position] {
            let is_split = own.failed.has(fresh.position as usize) && position != freshest;
            if is_split && !self.force {
                return Err(self.split(freshest, position));
            }
            return Ok(unused("it has failed, and the volume went on without it"));
        }
        if own.events.saturating_add(1) < fresh.events {
            let why = format!(
                "it is stale: it has seen {} events, the volume {}",
                own.events, fresh.events
            );
            return Ok(unused(&why));
        }
        let form = |of: &DmRaid| (of.level, of.layout, of.chunk, of.data_at);
        if form(own) != form(fresh) {
            let what = format!("{image} has another form than {}", self.image(freshest));
            let next = "activate the volume once with Linux, which finishes its conversion";
            return Err(RaidError::refused(what, next));
        }
        Ok(match own.rebuilt_to {
            None => ImageState::InSync,
            Some(to) => {
                let why = format!("{image} is rebuilt up to byte {to}");
                picture.remarks.push(why);
                ImageState::Rebuilding(to)
            }
        })
    }

    /// Images that were both written without the other.
    fn split(&self, one: usize, other: usize) -> RaidError {
        let (one, other) = (self.image(one), self.image(other));
        RaidError::refused(
            format!("{one} and {other} were both written without the other"),
            "look at each alone; or force it: the one with more events counts",
        )
    }
}

/// The one with the most events, the first of several: so does Linux.
fn freshest_of<'a>(
    known: impl Iterator<Item = (usize, &'a DmRaid)>,
) -> Option<(usize, &'a DmRaid)> {
    known.reduce(|best, next| match next.1.events > best.1.events {
        true => next,
        false => best,
    })
}
