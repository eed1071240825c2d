//! [`open`]: the metadata of all images are read, judged by [`picture`](super::picture), and handed to the engine of the level.
//!
//! # Invariants
//!
//! * All metadata are read before anything else, and nothing is written here but the first metadata of a volume that is new,
//!   and those of one that got another size.

use std::sync::Arc;

use block::{BlockDevice, Node, Range};

use super::bitmap::{self, is_dirty};
use super::initialize::{NewContent, initialize};
use super::kind::RaidKind;
use super::picture::{Expectation, ImageRecord, ImageState, Picture};
use super::{RaidError, RaidImageDisks, RaidOptions, RaidSpec, resize};
use crate::array::format::dm_raid::{self, DmRaid, IMAGES_MAX};
use crate::array::format::{Level, PLACE_LEN, Role, Superblock, Version};
use crate::array::{Array, ArrayOptions, Assembly, Facts, Member, Part, open_assembly};
use crate::join::join_all;
use crate::read::read_within;
use crate::{Linear, Segment};

/// Opens a volume of RAID: complete, or with images missing as far as the others hold what these do.
///
/// # Errors
/// [`RaidError`]: why not, and what to do next; nothing was written, but where a write failed.
pub async fn open(spec: RaidSpec, options: &RaidOptions) -> Result<Arc<Array>, RaidError> {
    let kind = RaidKind::of(&spec.kind)?;
    let images = spec.images.len();
    if images == 0 || images > IMAGES_MAX {
        let what = format!(
            "{} has {images} images: it can have 1 to {IMAGES_MAX}",
            options.name
        );
        return Err(RaidError::refused(what, None));
    }
    let opening = Opening {
        spec: &spec,
        options,
        kind,
    };
    let assembly = match kind.level {
        Level::Raid0 => opening.striped().await?,
        _ => opening.assembly().await?,
    };
    let array = open_assembly(assembly, &opening.array_options()).await?;
    let size = array.geometry().size;
    if size != spec.size {
        let what = format!(
            "by LVM {} has {} bytes, in {images} images of its type it has {size}",
            options.name, spec.size
        );
        return Err(RaidError::refused(what, None));
    }
    Ok(array)
}

/// A volume that is being opened.
struct Opening<'a> {
    spec: &'a RaidSpec,
    options: &'a RaidOptions,
    kind: RaidKind,
}

impl Opening<'_> {
    fn array_options(&self) -> ArrayOptions {
        ArrayOptions {
            read_only: self.options.read_only,
            run: true,
            // What is written must not be computed from parity that may be wrong.
            force_dirty_degraded: self.options.force && self.options.read_only,
            reconstruct_writes: self.options.assume_synced,
            member_timeout: self.options.image_timeout,
            background: self.options.background,
            ..ArrayOptions::default()
        }
    }

    fn expectation(&self) -> Expectation<'_> {
        Expectation {
            name: &self.options.name,
            kind_name: &self.spec.kind,
            kind: self.kind,
            chunk: self.spec.stripe_size,
            force: self.options.force,
            assume_synced: self.options.assume_synced,
        }
    }

    fn image(&self, position: usize) -> String {
        self.expectation().image(position)
    }

    /// What all images agree on. `kind`: with the layout that their metadata have.
    fn facts(&self, kind: RaidKind) -> Result<Facts, RaidError> {
        let (name, size) = (&self.options.name, self.spec.size);
        let images = u32::try_from(self.spec.images.len()).expect("at most 253 images");
        let Some(member_size) = kind.image_size(size, images) else {
            let what = format!("{size} bytes of {name} cannot be dealt out to {images} images");
            return Err(RaidError::refused(what, None));
        };
        let has_chunk = !kind.has_no_chunk();
        Ok(Facts {
            uuid: [0; 16],
            name: name.clone(),
            version: Version::DmRaid,
            level: kind.level,
            layout: kind.layout,
            chunk: if has_chunk { self.spec.stripe_size } else { 0 },
            parts: images,
            member_size,
            size,
            reshape: None,
        })
    }

    /// A volume without copies: all images must be there, and metadata, if there are any, only say whether it is being
    /// converted.
    async fn striped(&self) -> Result<Assembly, RaidError> {
        let records = self.records().await?;
        let has_superblock = |record: &ImageRecord| matches!(record, ImageRecord::Superblock(_));
        if records.iter().any(has_superblock) {
            self.expectation().picture(&records)?;
        }
        let facts = self.facts(self.kind)?;
        let mut parts = Vec::with_capacity(records.len());
        for (position, (image, record)) in self.spec.images.iter().zip(&records).enumerate() {
            let Some(data) = &image.data else {
                let what = format!(
                    "{} is missing, and nothing else holds it",
                    self.image(position)
                );
                return Err(RaidError::refused(what, "find its physical volume"));
            };
            let own = match record {
                ImageRecord::Superblock(own) => own.data_at,
                _ => 0,
            };
            let joined = (data.clone(), own);
            let superblock = new_superblock(&facts, position);
            let member = self.member(position, joined, superblock, Vec::new(), &facts)?;
            parts.push(Part {
                member: Some(member),
                rebuilt_to: None,
            });
        }
        Ok(assembled(facts, parts))
    }

    /// A volume with copies or parity.
    async fn assembly(&self) -> Result<Assembly, RaidError> {
        let mut records = self.records().await?;
        if !self.options.read_only && self.expectation().is_new(&records) {
            let facts = self.facts(self.kind)?;
            self.check_copies()?;
            let metadata = self.spec.images.iter();
            let metadata: Vec<Node> = metadata
                .filter_map(|image| image.metadata.clone())
                .collect();
            let content = match self.options.assume_synced {
                true => NewContent::Synced,
                false => NewContent::Unknown,
            };
            initialize(&facts, self.spec.region_size, content, &metadata).await?;
            records = self.records().await?;
        }
        let mut picture = self.expectation().picture(&records)?;
        if !self.options.read_only && self.finish_resize(&records, &picture).await? {
            records = self.records().await?;
            picture = self.expectation().picture(&records)?;
        }
        let fresh = picture.freshest.map(|at| match &records[at] {
            ImageRecord::Superblock(own) => &**own,
            _ => unreachable!("the freshest metadata are a superblock"),
        });
        let layout = fresh.map_or(self.kind.layout, |fresh| fresh.layout);
        let facts = self.facts(RaidKind {
            layout,
            ..self.kind
        })?;
        self.check_enough(&facts, &picture)?;
        let mut parts = Vec::with_capacity(records.len());
        for (position, state) in picture.images.iter().enumerate() {
            let rebuilt_to = match state {
                ImageState::InSync => None,
                ImageState::Rebuilding(to) => Some(*to),
                ImageState::Unused | ImageState::Missing => {
                    let (member, rebuilt_to) = (None, None);
                    parts.push(Part { member, rebuilt_to });
                    continue;
                }
            };
            let member = self
                .holder(position, &records[position], &picture, &facts)
                .await?;
            parts.push(Part {
                member: Some(member),
                rebuilt_to,
            });
        }
        let mut assembly = assembled(facts, parts);
        assembly.remarks.clone_from(&picture.remarks);
        let Some(fresh) = fresh else {
            self.refuse_writing("was never in use, and images are missing")?;
            self.check_copies()?;
            assembly.synced_to = Some(0);
            return Ok(assembly);
        };
        self.complete(&mut assembly, &picture, fresh).await?;
        self.refuse_dirty_degraded(&assembly)?;
        Ok(assembly)
    }

    /// Gives the metadata of all images the size of the volume, if they have another one and all images are in sync. Whether
    /// something was written.
    async fn finish_resize(
        &self,
        records: &[ImageRecord],
        picture: &Picture,
    ) -> Result<bool, RaidError> {
        let images = resize::old_images(&self.spec.images, records);
        let (Some(images), Some(freshest)) = (images, picture.freshest) else {
            return Ok(false);
        };
        let fresh = images[freshest].own;
        let layout = fresh.layout;
        let facts = self.facts(RaidKind {
            layout,
            ..self.kind
        })?;
        let mut sizes = images.iter().map(|image| image.own.image_size);
        let is_resized = sizes.any(|size| size != facts.member_size);
        let is_whole = picture
            .images
            .iter()
            .all(|state| *state == ImageState::InSync);
        if !is_resized || !is_whole || picture.was_degraded() || !self.kind.can_resize(layout) {
            return Ok(false);
        }
        resize::finish(&facts, fresh, &images).await?;
        Ok(true)
    }

    /// Adds what the freshest metadata and the bitmaps say.
    async fn complete(
        &self,
        assembly: &mut Assembly,
        picture: &Picture,
        fresh: &DmRaid,
    ) -> Result<(), RaidError> {
        assembly.events = fresh.events;
        assembly.synced_to = fresh.synced_to;
        let used = assembly.facts.member_size;
        if !fresh.is_extended() {
            self.refuse_writing("has metadata from before Linux 4.8")?;
        } else if fresh.image_size != used {
            self.refuse_writing("was resized, and not used since")?;
            let had = fresh.image_size;
            let remark = format!("images had {had} bytes when they were used last, now {used}");
            assembly.remarks.push(remark);
            assembly.synced_to = Some(0);
            return Ok(());
        }
        let findings = bitmap::findings(&assembly.parts, fresh.events).await;
        if findings.used.is_none() {
            self.refuse_writing("has no bitmap that fits it")?;
        }
        assembly.bitmap = findings.used;
        if is_dirty(findings, assembly.facts.level, picture) {
            assembly.synced_to = Some(0);
        } else if findings.any_set && has_parity(self.kind.level) {
            let remark = "regions that are marked as written count as in sync: they may be marked for a missing image";
            assembly.remarks.push(remark.to_owned());
        }
        Ok(())
    }

    /// Refuses a volume of RAID 10 without metadata that has another number of copies than usual: only metadata say how many.
    fn check_copies(&self) -> Result<(), RaidError> {
        let copies = |data: &Node| {
            let all = data
                .geometry()
                .size
                .checked_mul(self.spec.images.len() as u64)?;
            all.checked_div(self.spec.size)
        };
        let mut data = self
            .spec
            .images
            .iter()
            .filter_map(|image| image.data.as_ref());
        if self.kind.level != Level::Raid10 || data.all(|data| copies(data) == Some(2)) {
            return Ok(());
        }
        let what = format!(
            "how many copies {} keeps is not known before its first use",
            self.options.name
        );
        Err(RaidError::refused(what, "activate it once with Linux"))
    }

    /// Refuses to write a volume with parity that may be wrong and that lacks an image: what is on that would be computed
    /// from it.
    fn refuse_dirty_degraded(&self, assembly: &Assembly) -> Result<(), RaidError> {
        let mut parts = assembly.parts.iter();
        let is_complete = parts.all(|part| part.member.is_some() && part.rebuilt_to.is_none());
        let is_clean = assembly.synced_to.is_none();
        if self.options.read_only || is_complete || is_clean || !has_parity(self.kind.level) {
            return Ok(());
        }
        let what = format!(
            "{} ({}) was being written when it stopped, and images are missing: what was written last may be wrong where it is computed from parity ({})",
            self.options.name,
            self.spec.kind,
            assembly.remarks.join("; ")
        );
        let next = "find its physical volumes; or open it read-only, where only that is an error, and with force=true all of it is read";
        Err(RaidError::refused(what, next))
    }

    /// Refuses a volume that is opened for writing.
    fn refuse_writing(&self, why: &str) -> Result<(), RaidError> {
        if self.options.read_only {
            return Ok(());
        }
        let what = format!("{} is not written: it {why}", self.options.name);
        Err(RaidError::refused(
            what,
            "open it read-only, or activate it once with Linux",
        ))
    }

    /// Refuses a volume of which not all data can be had.
    fn check_enough(&self, facts: &Facts, picture: &Picture) -> Result<(), RaidError> {
        let in_sync = picture.in_sync();
        if facts.level.survives(facts.layout, &in_sync) {
            return Ok(());
        }
        let here = in_sync.iter().filter(|held| **held).count();
        let what = format!(
            "{} ({}) needs more than the {here} of its {} images that are there ({})",
            self.options.name,
            self.spec.kind,
            in_sync.len(),
            picture.remarks.join("; ")
        );
        Err(RaidError::refused(what, "find its physical volumes"))
    }

    /// Reads the metadata of all images.
    async fn records(&self) -> Result<Vec<ImageRecord>, RaidError> {
        let images = self.spec.images.iter().enumerate();
        let reads = images.map(|(position, image)| self.record(position, image));
        join_all(reads).await.into_iter().collect()
    }

    async fn record(
        &self,
        position: usize,
        image: &RaidImageDisks,
    ) -> Result<ImageRecord, RaidError> {
        let missing = |what: &str| Ok(ImageRecord::Missing(format!("its {what} cannot be had")));
        if image.data.is_none() {
            return missing("data");
        }
        let Some(metadata) = &image.metadata else {
            return missing("metadata");
        };
        let bytes = match read_within(metadata, Range::new(0, PLACE_LEN)).await {
            Ok(bytes) => bytes,
            Err(error) => {
                let why = format!("its metadata cannot be read: {error}");
                return Ok(ImageRecord::Missing(why));
            }
        };
        match DmRaid::decode(&bytes) {
            Ok(Some(own)) => Ok(ImageRecord::Superblock(Box::new(own))),
            Ok(None) if bytes.len() >= dm_raid::LEN && dm_raid::is_blank(&bytes) => {
                Ok(ImageRecord::Blank)
            }
            Ok(None) => Ok(ImageRecord::Foreign),
            Err(problem) => Err(RaidError::Damaged {
                image: self.image(position),
                problem,
            }),
        }
    }

    /// The image at a position as the holder of its part: metadata and data joined to one disk.
    async fn holder(
        &self,
        position: usize,
        record: &ImageRecord,
        picture: &Picture,
        facts: &Facts,
    ) -> Result<Member, RaidError> {
        let image = &self.spec.images[position];
        let (Some(metadata), Some(data)) = (&image.metadata, &image.data) else {
            unreachable!("an image without its disks is missing");
        };
        let name = self.image(position);
        let segments = [metadata, data].map(|disk| Segment::whole(disk.clone()));
        let joined = Linear::new(segments.to_vec()).map_err(|error| {
            let what = format!("{name} and its metadata do not fit each other: {error}");
            RaidError::refused(what, None)
        })?;
        let joined: Node = Arc::new(joined);
        let read = read_within(&joined, Range::new(0, PLACE_LEN)).await;
        let mut bytes = read.map_err(|source| RaidError::Read {
            image: name,
            source,
        })?;
        bytes.resize(Range::new(0, PLACE_LEN).len_usize(), 0);
        let (own, data_at) = match record {
            ImageRecord::Superblock(own) => (own.superblock(), own.data_at),
            _ => (new_superblock(facts, position), 0),
        };
        let role = |(position, failed): (u16, &bool)| match failed {
            true => Role::Faulty,
            false => Role::Active(position),
        };
        let superblock = Superblock {
            roles: (0..).zip(&picture.failed).map(role).collect(),
            ..own
        };
        let joined = (joined, metadata.geometry().size.saturating_add(data_at));
        self.member(position, joined, superblock, bytes, facts)
    }

    /// A member of the engine. `disk` has its data from the byte given with it on.
    fn member(
        &self,
        position: usize,
        (disk, data_at): (Node, u64),
        superblock: Superblock,
        bytes: Vec<u8>,
        facts: &Facts,
    ) -> Result<Member, RaidError> {
        let name = self.image(position);
        let number = u16::try_from(position).expect("at most 253 images");
        let superblock = Superblock {
            level: facts.level,
            layout: facts.layout,
            chunk: facts.chunk,
            members: facts.parts,
            member_size: facts.member_size,
            data: Range::new(data_at, facts.member_size),
            number: number.into(),
            role: Role::Active(number),
            ..superblock
        };
        if !superblock.fits(disk.geometry().size) {
            let what = format!("{name} is smaller than the volume needs");
            return Err(RaidError::refused(what, None));
        }
        Ok(Member {
            name,
            disk,
            remote: false,
            reopen: None,
            at: 0,
            superblock,
            bytes,
            bitmap: None,
            bad: Vec::new(),
        })
    }
}

/// Whether a level computes what is missing.
pub(super) const fn has_parity(level: Level) -> bool {
    matches!(level, Level::Raid5 | Level::Raid6)
}

/// The superblock of an image that has none.
fn new_superblock(facts: &Facts, position: usize) -> Superblock {
    let number = u32::try_from(position).expect("at most 253 images");
    DmRaid::new(facts.parts, number, facts.level).superblock()
}

/// An assembly of images, of which nothing more is known.
fn assembled(facts: Facts, parts: Vec<Part>) -> Assembly {
    Assembly {
        facts,
        parts,
        others: Vec::new(),
        absent: Vec::new(),
        events: 0,
        synced_to: None,
        bitmap: None,
        remarks: Vec::new(),
    }
}
