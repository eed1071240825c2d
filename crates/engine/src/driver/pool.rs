//! The way without io_uring: the operation runs on a thread of the small blocking pool.
//!
//! Outside a runtime (in a destructor, say) it runs at once on the caller's thread.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Op, Slot};

/// Starts `op`; its result goes to `slot`.
pub(crate) fn start(mut op: Op, slot: Arc<Slot>) {
    let work = move || {
        let result = op.run();
        slot.finish(op, result);
    };
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
