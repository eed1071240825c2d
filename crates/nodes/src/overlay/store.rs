//! [`Store`]: what is in a store when it is opened, read or made.
//!
//! # Invariants
//!
//! * Nothing is written before everything was read and found to go with the base.
//! * Only what is empty becomes a store: a file of zeroes, or a device that begins and ends with
//!   [`BLANK_ENDS`] of them.

use std::ops;

use block::{ExtentKind, Geometry, IoError, Node, Range, TryIo, WriteFlags};
use engine::Buffer;
use futures_util::future::try_join_all;

use super::OverlayError;
use super::alloc::GAPS_MAX;
use super::format::{self, Bounds, FormatError, StoreLayout, read_header, read_table};
use super::map::{CHUNKS_MAX, Exception};
use super::open::StoreRequest;
use super::plan::{Tail, sections};
use crate::guard::flush;
use crate::zeroes::{is_zero, zeroes};

/// What is read to find the header, bytes: what lvcreate zeroes of a new store.
const HEAD_LEN: u64 = 4096;
/// What must be zeroes at both ends of a device that becomes a store, bytes.
const BLANK_ENDS: u64 = 1 << 20;
/// Bytes looked at together.
const LOOK_LEN: u64 = 1 << 20;
/// Tables read together, at most: first one, then twice as many as before.
const TABLES_AT_ONCE: u64 = 64;
/// Tables of one reading, bytes at most.
const TABLES_BYTES_MAX: u64 = 8 << 20;

/// A store that was understood.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) node: Node,
    /// For messages.
    pub(crate) name: String,
    pub(crate) layout: StoreLayout,
    /// By chunk of the disk.
    pub(crate) exceptions: Vec<Exception>,
    /// Free chunks between those that are used.
    pub(crate) gaps: Vec<ops::Range<u64>>,
    /// The chunk behind the last that is used.
    pub(crate) next: u64,
    /// Where the tables end.
    pub(crate) tail: Tail,
    /// The last table has bytes behind its end.
    pub(crate) leftover: bool,
}

/// How much of what may become a store is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// A file knows its holes.
    Everything,
    /// A device may be large, and all of it data.
    Ends,
    /// The header alone: other metadata say that it is a store, and a new one has a header of zeroes.
    Header,
}

/// Reads the header. `None`: it is empty.
async fn understand(
    node: &Node,
    name: &str,
    look: Look,
) -> Result<Option<StoreLayout>, OverlayError> {
    let size = node.geometry().size;
    let failed = |source| OverlayError::Store {
        store: name.to_owned(),
        source,
    };
    let refused = |source| OverlayError::Format {
        store: name.to_owned(),
        source,
    };
    let head = read(node, Range::new(0, HEAD_LEN.min(size)))
        .await
        .map_err(failed)?;
    if let Some(layout) = read_header(&head).map_err(refused)? {
        return Ok(Some(layout));
    }
    if look == Look::Header {
        return Ok(None);
    }
    let blank = is_blank(node, look).await.map_err(failed)?;
    if blank {
        return Ok(None);
    }
    Err(refused(FormatError::NotAStore))
}

async fn is_blank(node: &Node, look: Look) -> Result<bool, IoError> {
    let size = node.geometry().size;
    let whole = Range::new(0, size);
    let parts = match look {
        Look::Everything => vec![whole],
        Look::Ends if size <= 2 * BLANK_ENDS => vec![whole],
        Look::Header => Vec::new(),
        Look::Ends => vec![
            Range::new(0, BLANK_ENDS),
            Range::new(size - BLANK_ENDS, BLANK_ENDS),
        ],
    };
    for part in parts {
        for extent in node.extents(part).await? {
            if extent.kind == ExtentKind::Data && !reads_zero(node, extent.range).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

async fn reads_zero(node: &Node, range: Range) -> Result<bool, IoError> {
    for section in sections(range, LOOK_LEN) {
        let data = node.read(section).await?;
        if !data.iter().all(|slice| is_zero(slice)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads what is in a store, and refuses what does not go with its base; whether it is new.
pub(super) async fn examine(
    node: Node,
    name: &str,
    wanted: StoreRequest<'_>,
    new: StoreLayout,
    look: Look,
) -> Result<(Store, bool), OverlayError> {
    let found = understand(&node, name, look).await?;
    let layout = found.unwrap_or(new);
    let mut store = Store {
        node,
        name: name.to_owned(),
        layout,
        exceptions: Vec::new(),
        gaps: Vec::new(),
        next: layout.table(0) + 1,
        tail: Tail::new(layout, 0, &[]),
        leftover: false,
    };
    store.check_blocks(wanted.base)?;
    let options = wanted.options;
    if found.is_some() {
        store.read_tables().await?;
        store.check(wanted.base.size)?;
    } else if look != Look::Header && (options.read_only || !options.create) {
        return Err(OverlayError::Empty { store: store.name });
    }
    Ok((store, found.is_none()))
}

impl Store {
    pub(crate) fn failed(&self) -> impl Fn(IoError) -> OverlayError + use<> {
        let store = self.name.clone();
        move |source| OverlayError::Store {
            store: store.clone(),
            source,
        }
    }

    /// Refuses blocks that chunks, or the base, are not made of.
    fn check_blocks(&self, base: &Geometry) -> Result<(), OverlayError> {
        let block_size = self.node.geometry().block_size.max(base.block_size);
        let whole = |bytes: u64| bytes.is_multiple_of(block_size.into());
        let what = if !whole(self.layout.chunk()) {
            format!("its chunk of {} bytes", self.layout.chunk())
        } else if !whole(base.size) {
            format!("the base's size of {} bytes", base.size)
        } else {
            return Ok(());
        };
        Err(OverlayError::Blocks {
            store: self.name.clone(),
            block_size,
            what,
        })
    }

    pub(super) fn refused(&self, source: FormatError) -> OverlayError {
        OverlayError::Format {
            store: self.name.clone(),
            source,
        }
    }

    /// Chunks that it has.
    pub(crate) fn chunks(&self) -> u64 {
        (self.node.geometry().size / self.layout.chunk()).min(CHUNKS_MAX)
    }

    /// Refuses one without room, and makes a new one.
    pub(super) async fn make_ready(
        &self,
        wanted: StoreRequest<'_>,
        is_new: bool,
    ) -> Result<(), OverlayError> {
        let chunk = self.layout.chunk();
        let most = wanted.options.size_max.unwrap_or(u64::MAX) / chunk;
        let here = self.chunks().min(most);
        let needed = self.layout.chunks_for(u64::from(wanted.base.size > 0));
        if here < needed && wanted.grows && !wanted.options.read_only {
            return Err(OverlayError::TooSmall {
                store: self.name.clone(),
                size: here * chunk,
                needed: needed * chunk,
            });
        }
        if is_new && !wanted.options.read_only {
            self.format().await?;
        }
        Ok(())
    }

    /// Writes an empty table and then the header.
    async fn format(&self) -> Result<(), OverlayError> {
        let chunk = self.layout.chunk();
        let empty = zeroes(Range::new(0, chunk).len_usize());
        let mut header = vec![0; Range::new(0, chunk).len_usize()];
        let fields = self.layout.header();
        header[..fields.len()].copy_from_slice(&fields);
        let header = std::iter::once(header.into()).collect();
        let plain = WriteFlags::empty();
        let made = async {
            let table = Range::new(self.layout.table(0) * chunk, chunk);
            self.node.write(table, empty, plain).await?;
            flush(&self.node).await?;
            self.node.write(Range::new(0, chunk), header, plain).await?;
            flush(&self.node).await
        };
        made.await.map_err(self.failed())
    }

    /// Reads all exceptions, many tables at a time.
    async fn read_tables(&mut self) -> Result<(), OverlayError> {
        let tables = self.layout.tables_before(self.chunks());
        let most = (TABLES_BYTES_MAX / self.layout.chunk()).clamp(1, TABLES_AT_ONCE);
        let mut at = 0;
        let mut count = 1;
        while at < tables {
            let end = (at + count).min(tables);
            let reads = (at..end).map(|index| {
                let chunk = self.layout.chunk();
                read(
                    &self.node,
                    Range::new(self.layout.table(index) * chunk, chunk),
                )
            });
            for bytes in try_join_all(reads).await.map_err(self.failed())? {
                let table = read_table(&bytes, &mut self.exceptions);
                if !table.is_full(self.layout) {
                    self.leftover = table.leftover;
                    return Ok(());
                }
            }
            at = end;
            count = (count * 2).min(most);
        }
        let table = self.layout.table(tables);
        Err(self.refused(FormatError::CutOff(tables, table)))
    }

    /// Refuses exceptions that cannot be, over a base of `base` bytes, and sorts the others.
    fn check(&mut self, base: u64) -> Result<(), OverlayError> {
        let layout = self.layout;
        let per_table = Range::new(0, layout.per_table()).len_usize();
        let count = self.exceptions.len();
        let listed = count / per_table * per_table;
        self.tail = Tail::new(layout, count as u64, &self.exceptions[listed..]);
        let bounds = Bounds {
            layout,
            store: self.chunks(),
            base: Some(base.div_ceil(layout.chunk())),
        };
        let checked = format::check(&mut self.exceptions, bounds, GAPS_MAX);
        (self.gaps, self.next) = checked.map_err(|error| self.refused(error))?;
        Ok(())
    }
}

/// Reads a part of a store, without waiting where that can be.
async fn read(node: &Node, range: Range) -> Result<Vec<u8>, IoError> {
    let mut into = Buffer::take(range.len_usize());
    if node.try_read(range, &mut into) == TryIo::Done {
        return Ok(into.to_vec());
    }
    Ok(node.read(range).await?.concat())
}
