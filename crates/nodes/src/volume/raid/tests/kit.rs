//! Volumes for tests: metadata and data of all images as bytes.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoError, Node, Range, WriteFlags};
use testkit::{MemDisk, block_on, pattern, single};

use crate::array::Array;
use crate::array::format::bitmap::{Bitmap, HEADER_LEN_USIZE};
use crate::array::format::dm_raid::DmRaid;
use crate::array::format::{Level, Superblock};
use crate::array::parity_writer::{Sample, sample};
use crate::volume::raid::{RaidError, RaidImageDisks, RaidOptions, RaidSpec, open};

/// Bytes of an image's metadata.
pub(super) const META: usize = 16 << 10;
/// Where the bitmap's bits begin.
pub(super) const BITS_AT: usize = 4096 + 256;
/// Bytes for each bit.
pub(super) const REGION: u32 = 4096;
/// Stripes of volumes with parity.
pub(super) const CHUNK: usize = 1024;
/// Events that the metadata count.
pub(super) const EVENTS: u64 = 10;

/// A volume as bytes.
#[derive(Debug, Clone)]
pub(super) struct Volume {
    pub(super) kind: &'static str,
    pub(super) chunk: u64,
    /// What the volume holds.
    pub(super) content: Vec<u8>,
    /// Metadata and data of each image; `None`: they are missing.
    pub(super) metadata: Vec<Option<Vec<u8>>>,
    pub(super) data: Vec<Option<Vec<u8>>>,
}

/// Metadata of an image of a volume that is in sync, its bitmap clear.
fn metadata(own: &DmRaid) -> Vec<u8> {
    let mut bytes = own.encode(&vec![0; META]);
    let superblock: Superblock = own.superblock();
    if let Some(header) = Bitmap::of(&superblock, REGION) {
        let header = header.encode(&[0; HEADER_LEN_USIZE]);
        bytes[4096..4096 + header.len()].copy_from_slice(&header);
    }
    bytes
}

impl Volume {
    /// A volume of these images.
    pub(super) fn new(
        kind: &'static str,
        (level, layout): (Level, u32),
        chunk: u64,
        content: Vec<u8>,
        data: Vec<Vec<u8>>,
    ) -> Self {
        let images = u32::try_from(data.len()).unwrap();
        let image_size = data[0].len() as u64;
        let own = |position| {
            let new = DmRaid::new(images, position, level);
            DmRaid {
                events: EVENTS,
                synced_to: None,
                layout,
                chunk,
                array_size: content.len() as u64,
                image_size,
                ..new
            }
            .with_present_form()
        };
        Self {
            kind,
            chunk,
            metadata: (0..images).map(|at| Some(metadata(&own(at)))).collect(),
            data: data.into_iter().map(Some).collect(),
            content,
        }
    }

    /// A volume with parity, of a kind that LVM calls so.
    pub(super) fn parity(kind: &'static str, form: (Level, u32), images: usize) -> Self {
        let sample: Sample = sample(form, images, CHUNK, 16);
        let members = sample.members();
        Self::new(kind, form, CHUNK as u64, sample.data, members)
    }

    /// A mirror.
    pub(super) fn raid1(images: usize, len: usize) -> Self {
        let content = pattern(0x31, Range::new(0, len as u64));
        let data = vec![content.clone(); images];
        Self::new("raid1", (Level::Raid1, 0), 0, content, data)
    }

    /// Copies side by side.
    pub(super) fn raid10(images: usize, rows: usize) -> Self {
        let copies = 2;
        let chunks = images * rows / copies;
        let content = pattern(0x77, Range::new(0, (chunks * CHUNK) as u64));
        let mut data = vec![vec![0; rows * CHUNK]; images];
        for (index, chunk) in content.chunks(CHUNK).enumerate() {
            for copy in 0..copies {
                let place = index * copies + copy;
                let (image, row) = (place % images, place / images);
                data[image][row * CHUNK..(row + 1) * CHUNK].copy_from_slice(chunk);
            }
        }
        let form = (Level::Raid10, 0x102);
        Self::new("raid10", form, CHUNK as u64, content, data)
    }

    /// What the metadata of an image say.
    pub(super) fn superblock(&self, image: usize) -> DmRaid {
        let bytes = self.metadata[image].as_ref().unwrap();
        DmRaid::decode(bytes).unwrap().unwrap()
    }

    /// Changes what the metadata of an image say.
    pub(super) fn change(&mut self, image: usize, change: impl FnOnce(&mut DmRaid)) {
        let mut own = self.superblock(image);
        change(&mut own);
        let bytes = self.metadata[image].as_mut().unwrap();
        *bytes = own.encode(bytes);
    }

    /// The same for all images that have metadata.
    pub(super) fn change_all(&mut self, change: impl Fn(&mut DmRaid)) {
        for image in 0..self.metadata.len() {
            if self.metadata[image].is_some() {
                self.change(image, &change);
            }
        }
    }

    /// Sets a bit of the bitmaps of all images.
    pub(super) fn mark(&mut self, bit: usize) {
        for bytes in self.metadata.iter_mut().flatten() {
            bytes[BITS_AT + bit / 8] |= 1 << (bit % 8);
        }
    }

    /// An image is missing.
    pub(super) fn lose(&mut self, image: usize) {
        self.metadata[image] = None;
        self.data[image] = None;
    }

    /// The others go on without an image, and say so.
    pub(super) fn fail(&mut self, image: usize) {
        for other in (0..self.metadata.len()).filter(|other| *other != image) {
            self.change(other, |own| own.failed.put(image, true));
            self.commit_twice(other);
        }
    }

    /// An image saw two commits more.
    pub(super) fn commit_twice(&mut self, image: usize) {
        self.change(image, |own| own.events += 2);
        let events = self.superblock(image).events.to_le_bytes();
        let bytes = self.metadata[image].as_mut().unwrap();
        bytes[4096 + 24..4096 + 32].copy_from_slice(&events);
    }

    pub(super) fn size(&self) -> u64 {
        self.content.len() as u64
    }

    /// As the text of LVM describes it, over these disks.
    pub(super) fn spec(&self, disks: Vec<RaidImageDisks>) -> RaidSpec {
        RaidSpec {
            kind: self.kind.to_owned(),
            size: self.size(),
            stripe_size: self.chunk,
            region_size: REGION.into(),
            images: disks,
        }
    }

    /// Its disks.
    pub(super) fn disks(&self) -> Vec<RaidImageDisks> {
        let node = |bytes: &Option<Vec<u8>>| {
            let bytes = bytes.as_ref()?;
            Some(Arc::new(MemDisk::from_bytes(bytes.clone())) as Node)
        };
        let both = self.metadata.iter().zip(&self.data);
        let disks = both.map(|(metadata, data)| RaidImageDisks {
            metadata: node(metadata),
            data: node(data),
        });
        disks.collect()
    }

    pub(super) async fn open_with(&self, options: &RaidOptions) -> Result<Arc<Array>, RaidError> {
        open(self.spec(self.disks()), options).await
    }

    /// Opens it for reading.
    pub(super) fn open(&self) -> Result<Arc<Array>, RaidError> {
        block_on(self.open_with(&options(true)))
    }

    /// Why it is not opened.
    pub(super) fn refusal(&self) -> String {
        self.open().unwrap_err().to_string()
    }

    /// Opened for reading it holds what it should.
    pub(super) fn assert_read(&self) {
        let array = self.open().unwrap();
        assert_eq!(array.geometry().size, self.size());
        block_on(async {
            let all = array.read(Range::new(0, self.size())).await.unwrap();
            assert!(all.concat() == self.content, "{} is read wrong", self.kind);
            for at in (0..self.size()).step_by(1536) {
                let range = Range::new(at, 1024.min(self.size() - at));
                let read = array.read(range).await.unwrap().concat();
                let place = place(range);
                assert!(read == self.content[place], "{} at {range}", self.kind);
            }
        });
    }
}

/// Metadata and data of each image, in turn.
pub(super) fn paired(disks: Vec<Node>) -> Vec<RaidImageDisks> {
    let mut disks = disks.into_iter();
    let mut images = Vec::new();
    while let (Some(metadata), Some(data)) = (disks.next(), disks.next()) {
        images.push(RaidImageDisks {
            metadata: Some(metadata),
            data: Some(data),
        });
    }
    images
}

/// The bytes of its disks, in that order.
pub(super) fn bytes_of(volume: &Volume) -> Vec<Vec<u8>> {
    let both = volume.metadata.iter().zip(&volume.data);
    let bytes = both.flat_map(|(metadata, data)| [metadata.clone(), data.clone()]);
    bytes.map(Option::unwrap).collect()
}

pub(super) fn mem_disks(volume: &Volume) -> Vec<Arc<MemDisk>> {
    let bytes = bytes_of(volume).into_iter();
    bytes
        .map(|bytes| Arc::new(MemDisk::from_bytes(bytes)))
        .collect()
}

pub(super) fn nodes(disks: &[Arc<MemDisk>]) -> Vec<Node> {
    disks.iter().map(|disk| disk.clone() as Node).collect()
}

pub(super) async fn open_for_writing(volume: &Volume, disks: Vec<Node>) -> Arc<Array> {
    let spec = volume.spec(paired(disks));
    open(spec, &options(false)).await.unwrap()
}

pub(super) async fn write(array: &Array, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::empty()).await
}

/// What metadata say, and which bits are set.
pub(super) fn said(metadata: &[u8]) -> (DmRaid, Vec<usize>) {
    let own = DmRaid::decode(metadata).unwrap().unwrap();
    let covered = match own.level {
        // Bits of RAID 10 are of the volume.
        10 => own.array_size,
        _ => own.image_size,
    };
    let bits = usize::try_from(covered.div_ceil(REGION.into())).unwrap();
    let is_set = |bit: &usize| metadata[BITS_AT + bit / 8] & (1 << (bit % 8)) != 0;
    (own, (0..bits).filter(is_set).collect())
}

/// A range as places in a slice.
pub(super) fn place(range: Range) -> std::ops::Range<usize> {
    let at = |offset: u64| usize::try_from(offset).unwrap();
    at(range.offset)..at(range.end())
}

/// How tests open volumes: nothing is done by itself.
pub(super) fn options(read_only: bool) -> RaidOptions {
    RaidOptions {
        read_only,
        name: "vol".to_owned(),
        force: false,
        image_timeout: Duration::MAX,
        background: false,
        assume_synced: false,
    }
}

/// Every kind with parity.
pub(super) const PARITY: [(&str, Level, u32); 16] = [
    ("raid4", Level::Raid5, 4),
    ("raid5", Level::Raid5, 2),
    ("raid5_la", Level::Raid5, 0),
    ("raid5_ra", Level::Raid5, 1),
    ("raid5_ls", Level::Raid5, 2),
    ("raid5_rs", Level::Raid5, 3),
    ("raid5_n", Level::Raid5, 5),
    ("raid6", Level::Raid6, 8),
    ("raid6_zr", Level::Raid6, 8),
    ("raid6_nr", Level::Raid6, 9),
    ("raid6_nc", Level::Raid6, 10),
    ("raid6_n_6", Level::Raid6, 5),
    ("raid6_la_6", Level::Raid6, 16),
    ("raid6_ra_6", Level::Raid6, 17),
    ("raid6_ls_6", Level::Raid6, 18),
    ("raid6_rs_6", Level::Raid6, 19),
];
