//! [`ServerDisk`]: a disk of a simulated server: the server's page cache and the medium.
//!
//! # Fault model
//!
//! * A sector in the cache survives a loss of power or not, each on its own, in any of the versions
//!   that were written since it was last made durable.
//! * A flush makes durable what is in the cache; of a server without `CAN_MULTI_CONN` only what came
//!   over the same connection.
//! * A flush that fails forgets that the cache is dirty, as Linux does: every other flush succeeds and does not write it, also
//!   one that was in flight with it. One that came over a connection which the client gave up does not fail: no client can
//!   know of that.
//! * A durable write makes its own sectors durable, and nothing else.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use block::Range;
use bytes::Bytes;
use testkit::SECTOR;

use super::fence::FenceState;
use super::record::lock;

/// A sector's content.
pub(super) type Sector = Bytes;

static ZEROES: [u8; 512] = [0; 512];

pub(super) const fn zeroes() -> Sector {
    Bytes::from_static(&ZEROES)
}

/// Bytes that contain their writer and their sector.
pub(super) fn pattern(serial: u64, sector: u64) -> Sector {
    let word = (serial << 20 | sector).to_be_bytes();
    word.repeat(ZEROES.len() / word.len()).into()
}

/// Sectors of a signature, from the first one on.
pub(super) const SIGNATURE: u64 = 8;

/// The beginning of a disk with an ext4 filesystem of this UUID.
pub(super) fn signature(uuid: u64) -> Vec<Sector> {
    let mut bytes = vec![0; index(SIGNATURE * SECTOR)];
    // The superblock is at 1024; its magic number at 0x38, its UUID at 0x68.
    bytes[1024 + 0x38..][..2].copy_from_slice(&0xef53_u16.to_le_bytes());
    bytes[1024 + 0x68..][..8].copy_from_slice(&uuid.to_be_bytes());
    bytes[1024 + 0x70..][..8].copy_from_slice(b"worldfs\0");
    let sectors = bytes.chunks(index(SECTOR));
    sectors.map(Sector::copy_from_slice).collect()
}

/// The writer of a sector, if it has a pattern for `sector`.
pub(super) fn writer_of(bytes: &[u8], sector: u64) -> Option<u64> {
    let word = u64::from_be_bytes(bytes.first_chunk().copied()?);
    let serial = word >> 20;
    (pattern(serial, sector) == bytes).then_some(serial)
}

/// Sectors of a range.
pub(super) fn sectors_of(range: Range) -> std::ops::Range<u64> {
    range.offset / SECTOR..range.end() / SECTOR
}

pub(super) fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("disks are small")
}

/// A sector in the cache.
#[derive(Debug, Clone)]
struct Cached {
    sector: u64,
    content: Sector,
    /// The connection that it came over.
    connection: u64,
    /// A flush failed since: none will write it.
    forgotten: bool,
}

#[derive(Debug, Clone)]
struct DiskState {
    live: Vec<Sector>,
    durable: Vec<Sector>,
    /// In the order of writing.
    cached: Vec<Cached>,
}

/// What a request changes.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) range: Range,
    /// One for each sector of the range.
    pub(super) content: Vec<Sector>,
    pub(super) fua: bool,
    pub(super) connection: u64,
}

/// A disk of a server.
#[derive(Debug)]
pub(super) struct ServerDisk {
    /// Equal for every state of one disk.
    pub(super) number: u32,
    /// Another client took it over: durable next to the disk.
    fenced: AtomicBool,
    pub(super) fence: Mutex<FenceState>,
    state: Mutex<DiskState>,
}

impl ServerDisk {
    pub(super) fn new(number: u32, content: Vec<Sector>) -> Self {
        Self {
            number,
            fenced: AtomicBool::new(false),
            fence: Mutex::default(),
            state: Mutex::new(DiskState {
                live: content.clone(),
                durable: content,
                cached: Vec::new(),
            }),
        }
    }

    pub(super) fn fence(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    pub(super) fn sectors(&self) -> u64 {
        lock(&self.state).live.len() as u64
    }

    pub(super) fn read(&self, range: Range) -> Vec<u8> {
        let state = lock(&self.state);
        let sectors = sectors_of(range);
        let sectors = index(sectors.start)..index(sectors.end);
        state.live[sectors].concat()
    }

    pub(super) fn live(&self) -> Vec<Sector> {
        lock(&self.state).live.clone()
    }

    /// What survives a loss of power for certain, where nothing newer does.
    pub(super) fn durable(&self) -> Vec<Sector> {
        lock(&self.state).durable.clone()
    }

    pub(super) fn change(&self, change: Change) {
        let mut state = lock(&self.state);
        for (sector, content) in sectors_of(change.range).zip(change.content) {
            state.live[index(sector)] = content.clone();
            if change.fua {
                state.durable[index(sector)] = content;
                state.cached.retain(|cached| cached.sector != sector);
            } else {
                state.cached.push(Cached {
                    sector,
                    content,
                    connection: change.connection,
                    forgotten: false,
                });
            }
        }
    }

    /// Makes durable what came over `connection`, or everything.
    pub(super) fn flush(&self, connection: Option<u64>) {
        let mut state = lock(&self.state);
        let cached = std::mem::take(&mut state.cached);
        let mut left: Vec<Cached> = Vec::new();
        for one in cached {
            let is_covered = connection.is_none_or(|only| only == one.connection);
            if is_covered && !one.forgotten {
                left.retain(|older| older.sector != one.sector);
                state.durable[index(one.sector)] = one.content;
            } else {
                left.push(one);
            }
        }
        state.cached = left;
    }

    /// A flush failed.
    pub(super) fn forget_dirty(&self) {
        let mut state = lock(&self.state);
        for cached in &mut state.cached {
            cached.forgotten = true;
        }
    }

    /// The server's machine loses power.
    pub(super) fn lose_power(&self, rng: &mut fastrand::Rng) {
        let mut state = lock(&self.state);
        let survival = [0.0, 0.0, 0.5, 1.0][rng.usize(0..4)];
        let cached = std::mem::take(&mut state.cached);
        for one in cached {
            if rng.f64() < survival {
                state.durable[index(one.sector)] = one.content;
            }
        }
        state.live = state.durable.clone();
    }

    /// It has so many sectors from now on.
    pub(super) fn resize(&self, sectors: u64) {
        let mut state = lock(&self.state);
        state.live.resize(index(sectors), zeroes());
        state.durable.resize(index(sectors), zeroes());
        state.cached.retain(|cached| cached.sector < sectors);
    }
}
