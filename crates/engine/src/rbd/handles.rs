//! [`Handles`]: what is open of a cluster, closed by a thread of its own.

use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::library::{Library, Pointer};

/// The images that are being closed.
static CLOSING: Mutex<Vec<String>> = Mutex::new(Vec::new());
static CLOSED: Condvar = Condvar::new();

/// The handles of one image, each null until it is open.
pub(super) struct Handles {
    pub(super) library: &'static Library,
    /// The image, as it is named.
    pub(super) name: String,
    pub(super) cluster: Pointer,
    pub(super) pool: Pointer,
    pub(super) image: Pointer,
}

// SAFETY: librados and librbd lock what they share: any thread may use a handle, several at once too.
unsafe impl Send for Handles {}
// SAFETY: as above.
unsafe impl Sync for Handles {}

impl Handles {
    pub(super) const fn new(library: &'static Library, name: String) -> Self {
        Self {
            library,
            name,
            cluster: null_mut(),
            pool: null_mut(),
            image: null_mut(),
        }
    }

    /// Closes what is open: the lock is released, and what was written and not flushed is written out.
    fn close(self) {
        let closed = ManuallyDrop::new(self);
        let Self {
            library,
            cluster,
            pool,
            image,
            ..
        } = &*closed;
        // SAFETY: each was opened by the library, is closed once, and used by nothing else: this owns them. Operations
        // have shares of them, so that none is in flight.
        unsafe {
            if !image.is_null() {
                let result = (library.close)(*image);
                if result < 0 {
                    tracing::warn!("rbd:{} was not closed well: error {}", closed.name, -result);
                }
            }
            if !pool.is_null() {
                (library.ioctx_destroy)(*pool);
            }
            (library.shutdown)(*cluster);
        }
        let mut closing = closing();
        if let Some(at) = closing.iter().position(|name| *name == closed.name) {
            closing.swap_remove(at);
        }
        CLOSED.notify_all();
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        if self.cluster.is_null() {
            return;
        }
        let name = std::mem::take(&mut self.name);
        closing().push(name.clone());
        let handles = ManuallyDrop::new(Self { name, ..*self });
        let thread = crate::thread("rbd-close", move || {
            ManuallyDrop::into_inner(handles).close()
        });
        if let Err(error) = thread {
            tracing::warn!("an image of Ceph stays open to the end of the process: {error}");
        }
    }
}

fn closing() -> MutexGuard<'static, Vec<String>> {
    CLOSING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no image of this name, or none at all, is being closed, for `limit` at most. Blocks.
pub(crate) fn wait_for_closes(name: Option<&str>, limit: Duration) {
    let is_waited_for = |closing: &mut Vec<String>| {
        closing
            .iter()
            .any(|closing| name.is_none_or(|name| name == closing))
    };
    let waited = CLOSED.wait_timeout_while(closing(), limit, is_waited_for);
    let (left, waited) = waited.unwrap_or_else(PoisonError::into_inner);
    if waited.timed_out() {
        tracing::warn!(
            "the cluster does not answer, so these images of Ceph are not closed yet: {left:?}"
        );
    }
}
