//! The threads of all volumes of this process: SlateDB and its HTTP client start tasks of their own, which must not share a core
//! with connections.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

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

/// The result of a task, which is never aborted. Its panic is the caller's.
pub(crate) async fn join<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Only a runtime that ends cancels its tasks, and the process ends with it.
        Err(_) => std::future::pending().await,
    }
}
