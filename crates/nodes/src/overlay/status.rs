//! [`StoreStatus`]: what a store says of itself, without its base, and also while it is in use.

use std::io;
use std::path::Path;

use engine::{DiskFile, OpenMode};
use rustix::fs::{SeekFrom, fstat, seek};

use super::OverlayError;
use super::format::{self, Bounds, FormatError, StoreLayout, read_header, read_table};
use super::map::CHUNKS_MAX;

/// Unit of `st_blocks` (stat(2)), bytes.
const ALLOCATED_UNIT: u64 = 512;
/// Bytes that the header is read from.
const HEAD_LEN: u64 = 4096;

/// Whether what a store holds may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// It may.
    Valid,
    /// The kernel gave it up, because it was full or failed.
    Invalid,
    /// It holds nothing yet, not even a header.
    Empty,
}

/// The content of a store by its own metadata. A process that has it open may know of more, which no flush has listed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatus {
    /// Whether it may be used.
    pub validity: Validity,
    /// Bytes that it may have.
    pub size: u64,
    /// Bytes that its file takes; `None` for a device.
    pub allocated: Option<u64>,
    /// Chunk, bytes; 0 where nothing is valid.
    pub chunk: u32,
    /// Chunks of the disk that are in it.
    pub changed: u64,
    /// Bytes of it that are taken, its tables and gaps among them.
    pub used: u64,
}

impl StoreStatus {
    /// Reads the store at `path`. Nothing is locked and nothing is written.
    ///
    /// # Errors
    /// [`OverlayError`].
    pub fn read(path: &Path) -> Result<Self, OverlayError> {
        let store = Unlocked::open(path)?;
        let mut status = Self {
            validity: Validity::Valid,
            size: store.size,
            allocated: store.allocated,
            chunk: 0,
            changed: 0,
            used: 0,
        };
        let head = store.read(0, HEAD_LEN.min(store.size))?;
        match read_header(&head) {
            Ok(Some(layout)) => status.read_tables(&store, layout)?,
            Ok(None) if store.is_blank()? => status.validity = Validity::Empty,
            Ok(None) => return Err(store.refused(FormatError::NotAStore)),
            Err(FormatError::Invalid) => status.validity = Validity::Invalid,
            Err(error) => return Err(store.refused(error)),
        }
        Ok(status)
    }

    fn read_tables(
        &mut self,
        store: &Unlocked<'_>,
        layout: StoreLayout,
    ) -> Result<(), OverlayError> {
        let bounds = Bounds {
            layout,
            store: (store.size / layout.chunk()).min(CHUNKS_MAX),
            base: None,
        };
        let mut exceptions = Vec::new();
        let mut index = 0;
        loop {
            let at = layout.table(index);
            if at >= bounds.store {
                return Err(store.refused(FormatError::CutOff(index, at)));
            }
            let bytes = store.read(at * layout.chunk(), layout.chunk())?;
            if !read_table(&bytes, &mut exceptions).is_full(layout) {
                break;
            }
            index += 1;
        }
        let checked = format::check(&mut exceptions, bounds, 0);
        let (_, next) = checked.map_err(|error| store.refused(error))?;
        self.chunk = u32::try_from(layout.chunk()).unwrap_or(u32::MAX);
        self.changed = exceptions.len() as u64;
        // The table that ends the list may lie behind all data.
        self.used = next.max(layout.table(index) + 1) * layout.chunk();
        Ok(())
    }
}

/// A store that is only looked at.
struct Unlocked<'a> {
    path: &'a Path,
    disk: DiskFile,
    size: u64,
    allocated: Option<u64>,
}

impl<'a> Unlocked<'a> {
    fn open(path: &'a Path) -> Result<Self, OverlayError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => OverlayError::NotFound {
                path: path.to_owned(),
            },
            _ => OverlayError::Unreadable {
                path: path.to_owned(),
                source: error,
            },
        };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let disk = DiskFile::open(path, OpenMode::default()).map_err(failed)?;
        let found = fstat(disk.fd()).map_err(|error| failed(error.into()))?;
        let (size, allocated) = if metadata.is_file() {
            let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
            (metadata.len(), Some(blocks * ALLOCATED_UNIT))
        } else {
            let size = seek(disk.fd(), SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
            (size, None)
        };
        Ok(Self {
            path,
            disk,
            size,
            allocated,
        })
    }

    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, OverlayError> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let count = self.disk.read_waiting(&mut bytes[done..], at);
            match count {
                Ok(0) => return Err(self.unreadable(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(error)),
            }
        }
        Ok(bytes)
    }

    /// Whether nothing was ever written to it.
    fn is_blank(&self) -> Result<bool, OverlayError> {
        if self.size == 0 {
            return Ok(true);
        }
        // A device has no holes: its first bytes were zeroes, and that is all the kernel requires.
        match seek(self.disk.fd(), SeekFrom::Data(0)) {
            Err(rustix::io::Errno::NXIO) => Ok(true),
            Ok(_) => Ok(self.allocated.is_none()),
            Err(error) => Err(self.unreadable(error.into())),
        }
    }

    fn unreadable(&self, source: io::Error) -> OverlayError {
        OverlayError::Unreadable {
            path: self.path.to_owned(),
            source,
        }
    }

    fn refused(&self, source: FormatError) -> OverlayError {
        OverlayError::Format {
            store: self.path.display().to_string(),
            source,
        }
    }
}
