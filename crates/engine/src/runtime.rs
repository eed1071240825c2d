//! [`run`]: one current-thread runtime per core, each with its driver.
//!
//! The caller's thread is core 0 and runs the main future; the other cores wait for tasks handed
//! to them through [`Handle::spawn_on`]. When the main future is done the tasks of every core are
//! dropped, the kernel's unfinished operations are waited for, and [`run`] returns.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::driver::{Backend, uring};

/// Blocking threads of one core, for the way without io_uring and for [`blocking`].
const POOL_THREADS: usize = 8;
/// More cores than this are not used.
const CORES_MAX: usize = 64;

/// Which backend is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// io_uring where it works, else threads.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// Blocking threads.
    Threads,
}

/// How the engine is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// Which backend.
    pub backend: BackendChoice,
    /// Runtimes to start; 0: one for each core of the machine.
    pub cores: usize,
}

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// io_uring was asked for and cannot be had.
    #[error("io_uring cannot be used here: {0}; choose the threads engine")]
    NoUring(#[source] io::Error),
    /// A runtime or a thread could not be created.
    #[error("a runtime could not be started: {0}")]
    Runtime(#[from] io::Error),
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
struct Shared {
    backend: Backend,
    /// One sender a core. Jobs are few (a connection, a FUSE request): who sends bounds them.
    jobs: Vec<mpsc::UnboundedSender<Job>>,
    next: AtomicUsize,
}

/// The running engine. Clones share it.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// What carries out file I/O.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.0.backend
    }

    /// Number of runtimes.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.0.jobs.len()
    }

    /// The cores in turn.
    #[must_use]
    pub fn next_core(&self) -> usize {
        self.0.next.fetch_add(1, Ordering::Relaxed) % self.cores()
    }

    /// Makes a future on core `core` (modulo their number) and runs it there. Works from any
    /// thread; does nothing once the engine has stopped.
    pub fn spawn_on<F>(&self, core: usize, make: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let job: Job = Box::new(move || drop(spawn(make())));
        // A closed channel means that the engine has stopped, and the task with it.
        drop(self.0.jobs[core % self.cores()].send(job));
    }
}

/// Runs a task on this core.
///
/// # Panics
/// Outside [`run`].
#[expect(clippy::disallowed_methods, reason = "this is the one door to tasks")]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// Runs `work` on a thread of the small blocking pool.
///
/// # Panics
/// Outside [`run`], and where `work` panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

/// A named thread of its own, for what must block for long.
///
/// # Errors
/// If the system has no thread left.
pub fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}

fn choose(choice: BackendChoice) -> Result<Backend, StartError> {
    match (choice, uring::probe()) {
        (BackendChoice::Threads, _) => Ok(Backend::Threads),
        (_, Ok(())) => Ok(Backend::Uring),
        (BackendChoice::Uring, Err(e)) => Err(StartError::NoUring(e)),
        (BackendChoice::Auto, Err(e)) => {
            tracing::info!("io_uring cannot be used here ({e}): using blocking threads");
            Ok(Backend::Threads)
        }
    }
}

/// Runs `main` on this thread with the other cores beside it.
///
/// # Errors
/// [`StartError`]; nothing has run then.
pub fn run<F, T>(config: &Config, main: impl FnOnce(Handle) -> F) -> Result<T, StartError>
where
    F: Future<Output = T>,
{
    let backend = choose(config.backend)?;
    let found = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if config.cores == 0 {
        found
    } else {
        config.cores
    }
    .min(CORES_MAX);
    tracing::info!(%backend, cores, "engine started");

    let (jobs, mut queues): (Vec<_>, Vec<_>) =
        (0..cores).map(|_| mpsc::unbounded_channel::<Job>()).unzip();
    let handle = Handle(Arc::new(Shared {
        backend,
        jobs,
        next: AtomicUsize::new(0),
    }));
    let own_queue = queues.remove(0);
    let (stop, stopped) = tokio::sync::watch::channel(());

    let mut threads = Vec::new();
    for (index, queue) in queues.into_iter().enumerate() {
        let core = Core::new(backend)?;
        let mut stopped = stopped.clone();
        let work = move || core.serve(queue, async move { drop(stopped.changed().await) });
        threads.push(thread(&format!("core-{}", index + 1), work)?);
    }
    drop(stopped);
    let core = Core::new(backend)?;
    let result = core.serve(own_queue, main(handle));
    drop(stop);
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => tracing::error!("a core could not start: {e}"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(result?)
}

/// A runtime before its thread has it.
struct Core {
    runtime: tokio::runtime::Runtime,
    backend: Backend,
}

impl Core {
    fn new(backend: Backend) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(POOL_THREADS)
            .build()?;
        Ok(Self { runtime, backend })
    }

    /// Runs jobs from `queue` until `main` is done.
    fn serve<T>(
        self,
        mut queue: mpsc::UnboundedReceiver<Job>,
        main: impl Future<Output = T>,
    ) -> io::Result<T> {
        // Declared before the runtime ends, dropped after it: tasks go first, then the ring waits
        // for what they left in flight.
        let guard = match self.backend {
            Backend::Uring => Some(uring::install()?),
            Backend::Threads => None,
        };
        let runtime = self.runtime;
        let output = runtime.block_on(async {
            if guard.is_some() {
                drop(spawn(uring::driver()?));
            }
            drop(spawn(async move {
                while let Some(job) = queue.recv().await {
                    job();
                }
            }));
            Ok(main.await)
        });
        drop(runtime);
        drop(guard);
        output
    }
}
