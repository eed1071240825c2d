//! How a cache file is found: opened, made, made again or refused.
//!
//! # Invariants
//!
//! * A file is changed only once it was found to be empty, or the cache of this disk.
//! * What is dropped is erased from the table, durably, before the marks are cleared and before any request.
//! * A cache that is made again gets another id: no entry, mark or block of before matches it.
//! * Of a disk that counts its openings, what was cached is used in the opening behind that in the header alone. The header has the new one,
//!   durably, before the first request.

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, ExtentKind, IoError, Node, Range, WriteFlags};
use engine::DiskFile;

use super::error::CacheError;
use super::format::{
    CacheFormatError, CacheHeader, CacheId, CacheLayout, DISK_MAX, GRANULE, HEADER_LEN,
    HEADER_STEP, HEADER_STEP_LEN, HEADERS, IDENTITY_MAX, MARKS_AT, MARKS_PER_SECTOR, SECTOR,
    SLOTS_MIN, encode_marks, newest_header,
};
use super::load::{is_same_disk, load};
use super::slots::SlotTable;
use super::state::CacheState;
use super::{Cache, CacheOptions, Shared};
use crate::guard::flush;
use crate::zeroes::is_zero;
use crate::{Blocks, File, FileOptions};

/// The cache file in messages, where it has no path.
const UNNAMED: &str = "of the disk";
/// Bytes that are read together.
pub(super) const READ_BYTES: usize = 1 << 20;
pub(super) const READ_LEN: u64 = READ_BYTES as u64;
/// Blocks that are compared with the disk: so many of the first ones, and as many at random.
const SAMPLES: usize = 16;

/// What the header of a cache file states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFacts {
    /// Size of its disk, bytes.
    pub disk_size: u64,
    /// Bytes that it may hold.
    pub capacity: u64,
    /// Identity of its disk, where that is known.
    pub identity: Option<String>,
    /// Its content is not used any more.
    pub is_dropped: bool,
}

/// What of the cache in `disk`, if it is one.
///
/// # Errors
/// If it cannot be read.
pub async fn inspect_cache(disk: &dyn BlockDevice) -> Result<Option<CacheFacts>, IoError> {
    if disk.geometry().size < MARKS_AT {
        return Ok(None);
    }
    let header = read_header(disk).await?;
    Ok(header.ok().flatten().map(|header| CacheFacts {
        disk_size: header.disk_size,
        capacity: header.slots * GRANULE,
        identity: (!header.identity.is_empty()).then_some(header.identity),
        is_dropped: header.is_dropped,
    }))
}

pub(super) type Opened<T> = Result<T, CacheError>;

/// A cache file that is open.
pub(super) struct CacheFile {
    pub(super) node: Node,
    pub(super) name: String,
    /// The file, where it is one that can get another size.
    file: Option<Arc<File>>,
}

impl CacheFile {
    pub(super) fn failed(&self) -> impl Fn(IoError) -> CacheError {
        |source| CacheError::Store {
            file: self.name.clone(),
            source,
        }
    }

    fn refused(&self, source: CacheFormatError) -> CacheError {
        CacheError::Format {
            file: self.name.clone(),
            source,
        }
    }

    /// Gives a regular file this size, empty before.
    async fn resize(&mut self, size: u64) -> Opened<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let failed = |source| CacheError::Size {
            file: self.name.clone(),
            size,
            source,
        };
        let Some(region) = file.file_region(Range::new(0, 0)) else {
            return Ok(());
        };
        let cut = rustix::fs::ftruncate(&region.file, 0);
        cut.and_then(|()| rustix::fs::ftruncate(&region.file, size))
            .map_err(|error| failed(error.into()))?;
        let measured = file.revalidate().await;
        let measured = measured.map_err(|error| failed(std::io::Error::other(error)))?;
        if let Some(node) = measured {
            self.node = node;
        }
        Ok(())
    }
}

/// Opens the cache at `path`, or makes it.
pub(super) async fn at_path(child: Node, path: &Path, options: CacheOptions) -> Opened<Cache> {
    let made = match DiskFile::create_new(path) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(source) => {
            return Err(CacheError::Make {
                path: path.to_owned(),
                source,
            });
        }
    };
    let opened = open_file(child, path, options).await;
    let is_ours = !matches!(opened, Err(CacheError::Open(_)));
    if made && is_ours && opened.is_err() {
        // No other process has used it: the lock was ours.
        if let Err(error) = std::fs::remove_file(path) {
            tracing::warn!(
                "{} was made and cannot be removed again: {error}",
                path.display()
            );
        }
    }
    opened
}

async fn open_file(child: Node, path: &Path, options: CacheOptions) -> Opened<Cache> {
    let file = Arc::new(File::open(path, FileOptions::default()).await?);
    let is_regular = file.file_region(Range::new(0, 0)).is_some();
    let opened = CacheFile {
        node: file.clone(),
        name: path.display().to_string(),
        file: is_regular.then_some(file),
    };
    open_cache(child, opened, options, SAMPLES).await
}

/// Opens the cache on a disk.
pub(super) async fn on_disk(child: Node, store: Node, options: CacheOptions) -> Opened<Cache> {
    sampled(child, store, options, SAMPLES).await
}

/// The same, with so many samples of both kinds.
pub(super) async fn sampled(
    child: Node,
    store: Node,
    options: CacheOptions,
    samples: usize,
) -> Opened<Cache> {
    let opened = CacheFile {
        node: store,
        name: UNNAMED.to_owned(),
        file: None,
    };
    open_cache(child, opened, options, samples).await
}

async fn open_cache(
    child: Node,
    mut file: CacheFile,
    options: CacheOptions,
    samples: usize,
) -> Opened<Cache> {
    let disk_size = child.geometry().size;
    if disk_size > DISK_MAX {
        return Err(CacheError::DiskTooLarge(disk_size));
    }
    let identity = child
        .identity()
        .map(|identity| identity.as_str().to_owned());
    let identity = identity.filter(|text| text.len() <= IDENTITY_MAX);
    let found = find(&file, disk_size, identity.as_deref()).await?;
    let layout = layout(&file, disk_size, options, found.as_ref())?;
    let sequence = found.as_ref().map_or(0, |header| header.sequence);
    let opening = child.opening();
    let usable = found.filter(|header| is_usable(&file, header, layout, opening));
    let fits = |header: &CacheHeader| file.node.geometry().size >= header.layout().file_size();
    let mut header = match usable.filter(fits) {
        Some(mut header) => {
            if let Some(opening) = opening {
                header.opening = opening;
                header.sequence += 1;
                write_copies(&file, &header).await?;
            }
            header
        }
        None => {
            let header = new_header(layout, (identity, opening), sequence + 1);
            make(&mut file, &header).await?;
            header
        }
    };
    file.node = in_blocks(file.node.clone(), child.geometry().block_size);
    // A disk that loses what was not flushed would hold less than what is cached from here on without a mark.
    if !child.geometry().read_only {
        flush(&child).await.map_err(CacheError::Disk)?;
    }
    let mut slots = load(&file, &header).await?;
    if !is_same_disk(&child, &file, (&header, samples), &slots).await? {
        tracing::warn!(
            "the cache file {} is dropped: the disk was changed without it, and holds other data now",
            file.name
        );
        let of_disk = (Some(header.identity), opening);
        header = new_header(layout, of_disk, header.sequence + 1);
        write_headers(&file, &header).await?;
        slots = load(&file, &header).await?;
    }
    Ok(assemble(child, file, header, slots))
}

fn assemble(child: Node, file: CacheFile, header: CacheHeader, slots: SlotTable) -> Cache {
    let geometry = child.geometry().clone();
    let layout = header.layout();
    let shared = Shared {
        store: file.node,
        name: file.name,
        id: header.id,
        sequence: header.sequence,
        layout,
        identity: header.identity,
        geometry,
        child,
        state: CacheState::new(layout, slots).into(),
        table: tokio::sync::Mutex::default(),
        marks: tokio::sync::Mutex::default(),
        tasks: engine::InFlight::new(),
        timer: Default::default(),
        is_closing: Default::default(),
        failure: Default::default(),
        retirement: Default::default(),
        counters: Default::default(),
    };
    Cache {
        shared: Arc::new(shared),
    }
}

/// The header of a file that is this disk's cache. `None`: it is empty.
async fn find(
    file: &CacheFile,
    disk_size: u64,
    identity: Option<&str>,
) -> Opened<Option<CacheHeader>> {
    let size = file.node.geometry().size;
    let header = match size < MARKS_AT {
        true => None,
        false => {
            let read = read_header(&*file.node).await.map_err(file.failed())?;
            read.map_err(|source| file.refused(source))?
        }
    };
    let Some(header) = header else {
        let is_empty = is_empty(file).await.map_err(file.failed())?;
        return match is_empty {
            true => Ok(None),
            false => Err(file.refused(CacheFormatError::NotACache)),
        };
    };
    if header.disk_size != disk_size {
        return Err(CacheError::OtherSize {
            file: file.name.clone(),
            cached: header.disk_size,
            size: disk_size,
        });
    }
    if !header.identity.is_empty() && identity != Some(&header.identity) {
        return Err(CacheError::OtherDisk {
            file: file.name.clone(),
            cached: header.identity,
            found: identity.unwrap_or("a disk without one").to_owned(),
        });
    }
    Ok(Some(header))
}

async fn read_header(
    disk: &dyn BlockDevice,
) -> Result<Result<Option<CacheHeader>, CacheFormatError>, IoError> {
    let mut copies = [[0; HEADER_LEN]; 2];
    for (copy, at) in copies.iter_mut().zip((0..).step_by(HEADER_STEP_LEN)) {
        let bytes = disk.read(Range::new(at, HEADER_STEP)).await?.concat();
        copy.copy_from_slice(&bytes[..HEADER_LEN]);
    }
    let [first, second] = &copies;
    Ok(newest_header([first, second]))
}

/// Whether nothing is in a file: it is zeroes, apart from a header that was torn when the cache was made. Of a device its
/// ends are looked at.
async fn is_empty(file: &CacheFile) -> Result<bool, IoError> {
    let size = file.node.geometry().size;
    let all = Range::new(0, size);
    if all.is_empty() {
        return Ok(true);
    }
    let extents = match file.file {
        Some(_) => file.node.extents(all).await?,
        None => Vec::new(),
    };
    let data = extents
        .iter()
        .filter(|extent| extent.kind == ExtentKind::Data);
    let mut ranges: Vec<Range> = data.map(|extent| extent.range).collect();
    if file.file.is_none() {
        let end = size.min(READ_LEN);
        ranges = vec![Range::new(0, end), Range::new(size - end, end)];
    }
    for range in ranges {
        for start in (range.offset..range.end()).step_by(READ_BYTES) {
            let len = READ_LEN.min(range.end() - start);
            let mut bytes = file.node.read(Range::new(start, len)).await?.concat();
            blank_torn_headers(start, &mut bytes);
            if !is_zero(&bytes) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Takes a header that is known to be torn out of bytes at `start`.
fn blank_torn_headers(start: u64, bytes: &mut [u8]) {
    for copy in 0..HEADERS {
        let at = (copy * HEADER_STEP).checked_sub(start);
        let at = at.map(|at| Range::new(0, at).len_usize());
        let header = at.and_then(|at| bytes.get_mut(at..at + HEADER_LEN));
        if let Some(header) = header
            && let Ok(header_bytes) = <&[u8; HEADER_LEN]>::try_from(&*header)
            && super::format::parse_header(header_bytes) == Ok(super::format::HeaderCopy::Torn)
        {
            header.fill(0);
        }
    }
}

/// Whether what a header describes is to be used.
fn is_usable(
    file: &CacheFile,
    header: &CacheHeader,
    layout: CacheLayout,
    opening: Option<u64>,
) -> bool {
    let is_next = header.is_followed_by(opening);
    if header.is_dropped {
        tracing::warn!("the cache file {} had failed: it is made again", file.name);
    } else if header.layout() != layout {
        tracing::info!(
            "the cache file {} gets another size: it is made again",
            file.name
        );
    } else if !is_next {
        tracing::warn!(
            "the cache file {} is made again: the disk was opened without it since, and may have been changed",
            file.name
        );
    }
    !header.is_dropped && header.layout() == layout && is_next
}

/// How large the cache is to be.
fn layout(
    file: &CacheFile,
    disk_size: u64,
    options: CacheOptions,
    found: Option<&CacheHeader>,
) -> Opened<CacheLayout> {
    let device_size = match &file.file {
        Some(_) => u64::MAX,
        None => file.node.geometry().size,
    };
    if let (None, Some(header)) = (options.size_max, found)
        && header.layout().file_size() <= device_size
    {
        return Ok(header.layout());
    }
    let most = match &file.file {
        // A device keeps its size.
        None => device_size.min(options.size_max.unwrap_or(u64::MAX)),
        Some(file) => options.size_max.unwrap_or_else(|| half_of_free_space(file)),
    };
    CacheLayout::within(disk_size, most).ok_or_else(|| CacheError::TooSmall {
        file: file.name.clone(),
        size: most,
        needed: CacheLayout {
            disk_size,
            slots: SLOTS_MIN,
        }
        .file_size(),
    })
}

fn half_of_free_space(file: &Arc<File>) -> u64 {
    let region = file.file_region(Range::new(0, 0));
    let free = region.and_then(|region| rustix::fs::fstatvfs(&region.file).ok());
    free.map_or(u64::MAX, |free| {
        free.f_bavail.saturating_mul(free.f_frsize) / 2
    })
}

/// A header of a disk with this identity, in this opening.
fn new_header(
    layout: CacheLayout,
    (identity, opening): (Option<String>, Option<u64>),
    sequence: u64,
) -> CacheHeader {
    CacheHeader {
        id: random_id(),
        is_dropped: false,
        sequence,
        disk_size: layout.disk_size,
        slots: layout.slots,
        identity: identity.unwrap_or_default(),
        opening: opening.unwrap_or_default(),
    }
}

/// A number that no other cache has.
pub(super) fn random_id() -> CacheId {
    let mut id = CacheId::default();
    let mut filled = 0;
    while filled < id.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut id[filled..], flags) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel has no random numbers: {error}"),
        }
    }
    id
}

/// Makes a cache of a file. Its marks get their place now: a filesystem that is full later has it.
async fn make(file: &mut CacheFile, header: &CacheHeader) -> Opened<()> {
    let layout = header.layout();
    file.resize(layout.file_size()).await?;
    write_headers(file, header).await
}

/// The header first: without it, what else is there would be no cache. Marks of before are all marked under a new id.
async fn write_headers(file: &CacheFile, header: &CacheHeader) -> Opened<()> {
    write_copies(file, header).await?;
    let failed = file.failed();
    let marks = vec![false; Range::new(0, MARKS_PER_SECTOR).len_usize()];
    for sector in 0..header.layout().mark_sectors() {
        let bytes = encode_marks(&header.id, sector, &marks);
        let at = Range::new(MARKS_AT + sector * SECTOR, SECTOR);
        write(&file.node, at, bytes.to_vec())
            .await
            .map_err(&failed)?;
    }
    flush(&file.node).await.map_err(&failed)
}

/// Both copies of a header, each durable before the next.
async fn write_copies(file: &CacheFile, header: &CacheHeader) -> Opened<()> {
    let failed = file.failed();
    for copy in 0..HEADERS {
        let mut bytes = header.encode().to_vec();
        bytes.resize(HEADER_STEP_LEN, 0);
        let at = Range::new(copy * HEADER_STEP, HEADER_STEP);
        write(&file.node, at, bytes).await.map_err(&failed)?;
        flush(&file.node).await.map_err(&failed)?;
    }
    Ok(())
}

pub(super) async fn write(node: &Node, at: Range, bytes: Vec<u8>) -> Result<(), IoError> {
    let data = std::iter::once(bytes.into()).collect();
    node.write(at, data, WriteFlags::empty()).await
}

/// The file in blocks that fit those of the disk, and sectors.
fn in_blocks(node: Node, block_size: u32) -> Node {
    let wanted = block_size.clamp(1, 512);
    if node.geometry().block_size <= wanted {
        return node;
    }
    let blocks = Blocks::new(node, wanted);
    Arc::new(blocks.expect("the blocks of a disk are a power of two"))
}
