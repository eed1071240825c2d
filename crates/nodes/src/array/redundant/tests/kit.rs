//! Arrays for tests: made of any disks, opened by what their superblocks say.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block::{BlockDevice, IoBufs, IoFuture, Node, Operation, Range, TryIo, WriteFlags};
use testkit::single;

use super::super::RedundantArray;
use crate::array::format::bad_blocks::{BadBlocks, of_data};
use crate::array::format::bitmap::{Bitmap, HEADER_LEN_USIZE};
use crate::array::format::ppl::{self, PplHeader};
use crate::array::format::r5l::{JournalKey, MetaBlock};
use crate::array::format::{self, Level, Role, Superblock, Version, features, places};
use crate::array::open::assembled;
use crate::array::parity_writer::Sample;
use crate::array::{ArrayError, ArrayOptions, Candidate, SyncRates};

/// What every member uses.
pub(in crate::array) const MEMBER: u64 = 64 << 10;
/// Where data is on members with the superblock in front.
pub(in crate::array) const DATA: u64 = 16 << 10;
/// Where superblocks 1.2 and their bitmaps are.
pub(in crate::array) const SUPERBLOCK: u64 = 4096;
pub(in crate::array) const BITMAP: u64 = 8192;
/// Where their logs of bad blocks are.
pub(in crate::array) const LOG: u64 = 12 << 10;
/// Size of a member's disk.
pub(in crate::array) const DISK: u64 = DATA + MEMBER;
/// Partial parity logs from this length on have several headers.
pub(in crate::array) const RING: u64 = 264 << 10;
/// The sequence that the journal of a new array begins with.
pub(in crate::array) const SEQUENCE: u64 = 500;
/// Bytes for each bit.
pub(in crate::array) const BIT: u32 = 4096;

/// An array that is to be made.
#[derive(Debug, Clone)]
pub(in crate::array) struct Recipe {
    pub(in crate::array) version: Version,
    pub(in crate::array) level: Level,
    pub(in crate::array) layout: u32,
    pub(in crate::array) bitmap: bool,
    /// Members behind these are spares.
    pub(in crate::array) parts: u32,
    pub(in crate::array) write_mostly: Option<usize>,
    pub(in crate::array) fail_fast: bool,
    pub(in crate::array) dirty: bool,
    /// Members have logs of bad blocks.
    pub(in crate::array) log: bool,
    /// Bytes of the partial parity log of each member, which lies behind its data.
    pub(in crate::array) ppl: Option<u64>,
    /// The disk behind those of members and spares keeps a journal.
    pub(in crate::array) journal: bool,
}

impl Recipe {
    /// A mirror of `parts` with a bitmap, clean.
    pub(in crate::array) const fn mirror(parts: u32) -> Self {
        Self {
            version: Version::V1_2,
            level: Level::Raid1,
            layout: 0,
            bitmap: true,
            parts,
            write_mostly: None,
            fail_fast: false,
            dirty: false,
            log: false,
            ppl: None,
            journal: false,
        }
    }

    /// RAID 10.
    pub(in crate::array) const fn raid10(layout: u32, parts: u32) -> Self {
        Self {
            level: Level::Raid10,
            layout,
            ..Self::mirror(parts)
        }
    }

    /// RAID 4, 5 or 6, in chunks of 4 KiB.
    pub(in crate::array) const fn parity(level: Level, layout: u32, parts: u32) -> Self {
        Self {
            level,
            layout,
            ..Self::mirror(parts)
        }
    }

    /// What members hold of an array with parity that holds `data`, by the tables of layouts.
    pub(in crate::array) fn sample(&self, data: Vec<u8>) -> Sample {
        Sample {
            level: self.level,
            layout: self.layout,
            parts: usize::try_from(self.parts).unwrap(),
            chunk: 4096,
            rows: usize::try_from(MEMBER / 4096).unwrap(),
            data,
        }
    }

    pub(in crate::array) const fn without_bitmap(mut self) -> Self {
        self.bitmap = false;
        self
    }

    /// With partial parity logs of so many bytes instead of a bitmap. Disks have [`DISK`] bytes and as many more.
    pub(in crate::array) const fn with_ppl(mut self, len: u64) -> Self {
        (self.bitmap, self.ppl) = (false, Some(len));
        self
    }

    /// With a journal instead of a bitmap, on the disk with number `parts`.
    pub(in crate::array) const fn with_journal(mut self) -> Self {
        (self.bitmap, self.journal) = (false, true);
        self
    }

    /// What features say of its logs.
    const fn ppl_features(&self) -> u32 {
        match self.ppl {
            None if self.journal => features::JOURNAL,
            None => 0,
            Some(len) if len < RING => features::PPL,
            Some(_) => features::MULTIPLE_PPLS,
        }
    }

    pub(super) fn superblock(&self, number: u16, disk: u64) -> (u64, Superblock) {
        let old = matches!(self.version, Version::V0_90 { .. });
        let is_it = |found: &Version| old == matches!(found, Version::V0_90 { .. });
        let mut found = places(disk).into_iter();
        let place = found.find(|(found, _)| is_it(found) && (old || *found == self.version));
        let (_, at) = place.expect("the disk is large enough");
        let count = if old { 27 } else { 128 };
        let parts = u16::try_from(self.parts).unwrap();
        let mut roles: Vec<Role> = (0..parts).map(Role::Active).collect();
        roles.extend(self.journal.then_some(Role::Journal));
        roles.resize(count, if old { Role::Faulty } else { Role::Spare });
        let role = roles[usize::from(number)];
        let is_journal = role == Role::Journal;
        let behind = matches!(self.version, Version::V1_1 | Version::V1_2);
        let bitmap_at = match self.version {
            Version::V0_90 { .. } => at + 4096,
            Version::V1_0 => at - 4096,
            Version::V1_1 | Version::DmRaid => 4096,
            Version::V1_2 => BITMAP,
        };
        let data = if behind { DATA } else { 0 };
        let superblock = Superblock {
            version: self.version,
            array: [7; 16],
            name: if old { "127" } else { "box:test" }.to_owned(),
            created: 1_795_288_091,
            updated: 1_795_288_099,
            level: self.level,
            layout: self.layout,
            chunk: if self.level == Level::Raid1 { 0 } else { 4096 },
            members: self.parts,
            member_size: MEMBER,
            data: Range::new(
                data,
                match behind && self.ppl.is_none() {
                    true => disk - data,
                    false => MEMBER,
                },
            ),
            events: 10,
            synced_to: self.dirty.then_some(0),
            rebuilt_to: None,
            device: (!old).then(|| [u8::try_from(number).unwrap() + 1; 16]),
            number: number.into(),
            role: match number < parts || is_journal {
                true => role,
                false => Role::Spare,
            },
            roles,
            bitmap_at: self.bitmap.then_some(bitmap_at),
            ppl: self.ppl.map(|len| Range::new(DISK, len)),
            bad_blocks: self.log.then_some(Range::new(LOG, 512)),
            bad_blocks_shift: 0,
            corrected: 0,
            features: (u32::from(self.bitmap && !old) * features::BITMAP) | self.ppl_features(),
            write_mostly: self.write_mostly == Some(number.into()),
            fail_fast: self.fail_fast,
            reshape: None,
        };
        (at, superblock)
    }

    /// Writes superblocks and bitmaps.
    pub(in crate::array) async fn make(&self, disks: &[Node]) {
        for (number, disk) in (0_u16..).zip(disks) {
            let (at, superblock) = self.superblock(number, disk.geometry().size);
            put(disk, at, format::encode(&superblock, at)).await;
            if superblock.role == Role::Journal {
                let first = MetaBlock::empty(SEQUENCE, 0);
                let key = JournalKey::of(superblock.array);
                put(disk, superblock.data.offset, first.encode(key)).await;
            }
            if let Some(log) = superblock.ppl {
                let header = PplHeader::empty(ppl::signature(&superblock.array));
                put(disk, log.offset, header.encode()).await;
            }
            if let Some(at) = superblock.bitmap_at {
                let header = Bitmap::of(&superblock, BIT).unwrap();
                let mut bytes = vec![0; 4096];
                let header = header.encode(&[0; HEADER_LEN_USIZE]);
                bytes[..header.len()].copy_from_slice(&header);
                put(disk, at, bytes).await;
            }
        }
    }

    /// The same of another array.
    pub(in crate::array) async fn make_other(&self, disks: &[Node]) {
        self.make(disks).await;
        for disk in disks {
            let bytes = disk.read(Range::new(SUPERBLOCK, 4096)).await.unwrap();
            let mut bytes = bytes.concat();
            bytes[16..32].fill(9);
            let bytes = format::patch(&bytes, self.version, &format::Changes::default());
            put(disk, SUPERBLOCK, bytes).await;
        }
    }

    /// Makes an array of `disks` and opens it.
    pub(in crate::array) async fn open(&self, disks: &[Node]) -> Arc<RedundantArray> {
        self.make(disks).await;
        open(disks).await
    }
}

pub(in crate::array) async fn put(disk: &Node, at: u64, bytes: Vec<u8>) {
    let range = Range::new(at, bytes.len() as u64);
    let flags = WriteFlags::FUA;
    disk.write(range, single(bytes), flags).await.unwrap();
}

/// How tests open arrays: by themselves nothing happens, and no clock is read.
pub(in crate::array) fn options() -> ArrayOptions {
    ArrayOptions {
        member_timeout: Duration::MAX,
        background: false,
        run: true,
        ..ArrayOptions::default()
    }
}

/// The same, of background work that waits for no clock.
pub(in crate::array) fn unbounded() -> ArrayOptions {
    ArrayOptions {
        rates: SyncRates {
            min: u64::MAX,
            max: u64::MAX,
        },
        ..options()
    }
}

pub(in crate::array) async fn try_open(
    disks: &[Node],
    options: &ArrayOptions,
) -> Result<Arc<RedundantArray>, ArrayError> {
    let candidate = |(index, disk): (usize, &Node)| Candidate::local(name(index), disk.clone());
    let candidates = disks.iter().enumerate().map(candidate).collect();
    RedundantArray::open(assembled(candidates, options).await?, options, None).await
}

/// What the member at this place is called.
pub(in crate::array) fn name(index: usize) -> String {
    format!("m{index}")
}

pub(in crate::array) async fn open(disks: &[Node]) -> Arc<RedundantArray> {
    try_open(disks, &options()).await.unwrap()
}

/// What a member's superblock says now.
pub(in crate::array) async fn superblock(disk: &Node) -> Superblock {
    let bytes = disk.read(Range::new(SUPERBLOCK, 4096)).await.unwrap();
    let decoded = format::decode(Version::V1_2, SUPERBLOCK, &bytes.concat());
    decoded.unwrap().unwrap()
}

/// The header of a member's bitmap, and its bits that are set.
pub(in crate::array) async fn bits(disk: &Node) -> (Bitmap, Vec<usize>) {
    let bytes = disk.read(Range::new(BITMAP, 4096)).await.unwrap().concat();
    let header = Bitmap::decode(&bytes).unwrap();
    let count = usize::try_from(header.size.div_ceil(header.chunk.into())).unwrap();
    let is_set = |bit: &usize| bytes[256 + bit / 8] & (1 << (bit % 8)) != 0;
    (header, (0..count).filter(is_set).collect())
}

/// What a member's log of bad blocks says.
pub(in crate::array) async fn bad(disk: &Node) -> Vec<Range> {
    let log = disk.read(Range::new(LOG, 512)).await.unwrap().concat();
    let log = BadBlocks::decode(&log, 0).unwrap();
    let runs = log.runs().iter();
    runs.map(|run| of_data(DATA, *run).unwrap()).collect()
}

pub(in crate::array) async fn write(
    mirror: &RedundantArray,
    range: Range,
    fill: u8,
) -> Result<(), block::IoError> {
    let data = single(testkit::pattern(fill, range));
    mirror.write(range, data, WriteFlags::empty()).await
}

pub(in crate::array) async fn read(mirror: &RedundantArray, range: Range) -> Vec<u8> {
    mirror.read(range).await.unwrap().concat()
}

/// The bytes that members of a mirror use are the same.
pub(in crate::array) async fn assert_alike(disks: &[Node]) {
    let mut first: Option<Vec<u8>> = None;
    for disk in disks {
        let bytes = disk.read(Range::new(DATA, MEMBER)).await.unwrap().concat();
        let first = first.get_or_insert_with(|| bytes.clone());
        assert!(*first == bytes, "members differ");
    }
}

/// A request that a member got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct Heard {
    pub(in crate::array) member: usize,
    pub(in crate::array) operation: Operation,
    pub(in crate::array) range: Option<Range>,
    pub(in crate::array) fua: bool,
    /// It was answered, not only sent.
    pub(in crate::array) done: bool,
}

impl Heard {
    pub(in crate::array) fn is_superblock(&self) -> bool {
        self.is_write_at(SUPERBLOCK)
    }

    pub(in crate::array) fn is_bitmap(&self) -> bool {
        self.is_write_at(BITMAP)
    }

    pub(in crate::array) fn is_data(&self) -> bool {
        self.operation == Operation::Write && self.range.is_some_and(|r| r.offset >= DATA)
    }

    pub(in crate::array) fn is_flush(&self) -> bool {
        self.operation == Operation::Flush
    }

    fn is_write_at(&self, at: u64) -> bool {
        self.operation == Operation::Write && self.range.is_some_and(|range| range.offset == at)
    }
}

/// What all members got, in order.
pub(in crate::array) type Journal = Arc<Mutex<Vec<Heard>>>;

/// A disk that writes down what it gets.
#[derive(Debug)]
pub(in crate::array) struct Recorder {
    child: Node,
    member: usize,
    journal: Journal,
}

/// Disks that write down what they get, in front of `disks`.
pub(in crate::array) fn recorded(disks: &[Node]) -> (Vec<Node>, Journal) {
    let journal = Journal::default();
    let recorder = |(member, child): (usize, &Node)| {
        let (child, journal) = (child.clone(), journal.clone());
        Arc::new(Recorder {
            child,
            member,
            journal,
        }) as Node
    };
    let disks = disks.iter().enumerate().map(recorder).collect();
    (disks, journal)
}

/// What was written since the last call.
pub(in crate::array) fn heard(journal: &Journal) -> Vec<Heard> {
    std::mem::take(&mut journal.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Recorder {
    fn hear(&self, operation: Operation, range: Option<Range>, fua: bool, done: bool) {
        let heard = Heard {
            member: self.member,
            operation,
            range,
            fua,
            done,
        };
        self.journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(heard);
    }

    fn follow<'a, T: 'a>(
        &'a self,
        operation: Operation,
        range: Option<Range>,
        fua: bool,
        request: IoFuture<'a, T>,
    ) -> IoFuture<'a, T> {
        Box::pin(async move {
            self.hear(operation, range, fua, false);
            let answer = request.await;
            self.hear(operation, range, fua, true);
            answer
        })
    }
}

impl BlockDevice for Recorder {
    testkit::forward!(child: geometry, read, extents, identity, settle, try_read);

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        let fua = flags.contains(WriteFlags::FUA);
        let write = self.child.write(range, data, flags);
        self.follow(Operation::Write, Some(range), fua, write)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.follow(Operation::Flush, None, false, self.child.flush())
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        let fua = flags.contains(WriteFlags::FUA);
        let write = self.child.write_zeroes(range, flags);
        self.follow(Operation::WriteZeroes, Some(range), fua, write)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.follow(Operation::Trim, Some(range), false, self.child.trim(range))
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        let done = self.child.try_write(range, data);
        if done == TryIo::Done {
            self.hear(Operation::Write, Some(range), false, false);
            self.hear(Operation::Write, Some(range), false, true);
        }
        done
    }
}
