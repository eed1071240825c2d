//! [`Raw`]: an allocation, and [`Pool`]: the free ones.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of every buffer: a page, enough for any O_DIRECT transfer.
const ALIGN: usize = 4096;

/// Free allocations, up to a bound.
#[derive(Debug)]
pub(super) struct Pool {
    free: Vec<Raw>,
    bytes: usize,
    bytes_max: usize,
}

impl Pool {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            free: Vec::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn take(&mut self, capacity: usize) -> Option<Raw> {
        let at = self.free.iter().rposition(|raw| raw.capacity == capacity)?;
        self.bytes -= capacity;
        Some(self.free.swap_remove(at))
    }

    /// Keeps `raw`, or gives it back to be freed.
    pub(super) fn keep(&mut self, raw: Raw) -> Option<Raw> {
        if self.bytes + raw.capacity > self.bytes_max {
            return Some(raw);
        }
        self.bytes += raw.capacity;
        self.free.push(raw);
        None
    }
}

/// An owned allocation of `capacity` initialised bytes.
#[derive(Debug)]
pub(super) struct Raw {
    start: NonNull<u8>,
    pub(super) capacity: usize,
}

// SAFETY: a `Raw` is the only owner of its allocation, like a `Vec<u8>`.
unsafe impl Send for Raw {}
// SAFETY: shared access only reads plain bytes.
unsafe impl Sync for Raw {}

impl Raw {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGN).expect("buffer sizes fit the address space")
    }

    pub(super) fn allocate(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: capacity is at least CLASS_MIN, so the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        NonNull::new(start).map_or_else(
            || handle_alloc_error(layout),
            |start| Self { start, capacity },
        )
    }
}

impl Raw {
    /// The first `len` bytes.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.capacity, "a buffer ends within its memory");
        // SAFETY: `start` owns `capacity` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) }
    }

    /// The same, to be changed.
    pub(super) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.capacity, "a buffer ends within its memory");
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), len) }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: allocated in `allocate` with the same layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}
