//! The threads of all volumes of this process: SlateDB and its HTTP client start tasks of their own, which must not share a core
//! with connections.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of the runtime. They wait for the network most of the time.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The runtime, which ends with the process.
///
/// # Panics
/// If the process can have no thread.
pub(crate) fn handle() -> Handle {
    let build = || {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("bucket")
            .enable_all()
            .build()
            .expect("a process can have two threads more")
    };
    RUNTIME.get_or_init(build).handle().clone()
}
