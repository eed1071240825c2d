//! [`Buffer`]: page-aligned memory, kept in pools: small buffers in one of each thread, which takes
//! no lock, large ones in one of the process, since those are often filled by one thread and freed by another.
//!
//! # Invariants
//!
//! * A buffer's bytes are initialised from its birth, so handing it out again shows old data but
//!   never undefined data; its owner fills it before it is read.
//! * A thread's pool keeps at most [`SMALL_BYTES_MAX`], the process's at most [`LARGE_BYTES_MAX`].

mod pool;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use self::pool::{Pool, Raw};

/// Capacities are powers of two from this…
const CLASS_MIN: usize = 4096;
/// …to this; larger buffers are not pooled.
const CLASS_MAX: usize = 1 << 20;
/// Buffers from this size on are large.
const LARGE_MIN: usize = 128 << 10;
/// What one thread's pool keeps, bytes.
const SMALL_BYTES_MAX: usize = 4 << 20;
/// What the process's pool keeps, bytes: what a copy or a client has on its way at most. Memory that
/// is new costs a fault for each of its pages, more than what it is filled with.
const LARGE_BYTES_MAX: usize = 48 << 20;

thread_local! {
    static SMALL: RefCell<Pool> = const { RefCell::new(Pool::new(SMALL_BYTES_MAX)) };
}
static LARGE: Mutex<Pool> = Mutex::new(Pool::new(LARGE_BYTES_MAX));

fn large() -> MutexGuard<'static, Pool> {
    LARGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Page-aligned, initialised memory of a chosen length. Goes back to a pool when it
/// is dropped.
pub struct Buffer {
    raw: Option<Raw>,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` bytes of any content.
    ///
    /// # Panics
    /// If `len` bytes do not fit the address space.
    #[must_use]
    pub fn take(len: usize) -> Self {
        let capacity = len.max(CLASS_MIN).checked_next_power_of_two();
        let capacity = capacity.expect("buffer sizes fit the address space");
        let pooled = if capacity < LARGE_MIN {
            SMALL.with_borrow_mut(|pool| pool.take(capacity))
        } else if capacity <= CLASS_MAX {
            large().take(capacity)
        } else {
            None
        };
        let raw = pooled.unwrap_or_else(|| Raw::allocate(capacity));
        Self {
            raw: Some(raw),
            len,
        }
    }

    fn raw(&self) -> &Raw {
        self.raw.as_ref().expect("present until drop")
    }

    /// The bytes as a shared slice; the memory returns to a pool when the last share is dropped.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.raw().bytes(self.len)
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let raw = self.raw.as_mut().expect("present until drop");
        raw.bytes_mut(self.len)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        if raw.capacity > CLASS_MAX {
            return;
        }
        if raw.capacity < LARGE_MIN {
            // A thread that is ending has no pool left; the memory is freed instead.
            let _freed = SMALL.try_with(|pool| pool.borrow_mut().keep(raw));
            return;
        }
        // Freed, if it is, when the pool is no longer locked.
        let _freed = large().keep(raw);
    }
}
