//! [`run`]: one current-thread runtime per core, each with its driver.
//!
//! The caller's thread is core 0 and runs the main future; the other cores wait for tasks handed
//! to them through [`Handle::spawn_on`]. When the main future is done the tasks of every core are
//! dropped, the kernel's unfinished operations are waited for, and [`run`] returns.
//!
//! # Invariants
//!
//! * The main future begins when every core works with the same backend, or not at all.
//! * A job or task that panics ends alone.
//! * What is compiled for each future, closure or thread that a caller has is as small as it can be: it is boxed here, and
//!   the runtime knows boxes alone (`docs/adr/0021-size-of-the-binary.md`).

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::driver::{Backend, uring};

/// Blocking threads of one core, for the way without io_uring and for [`blocking`].
const POOL_THREADS: usize = 8;
/// More cores than this are not used.
pub const CORES_MAX: usize = 64;
/// How long the end waits for images of Ceph that are being closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

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
    /// io_uring was requested and is not available.
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
    /// One sender a core. Jobs are few (a connection, a FUSE request): the senders bound them.
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
        // Made within its task, so that a panic there is that task's.
        let job: Job = Box::new(move || drop(spawn(async move { make().await })));
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
    let future: Pin<Box<dyn Future<Output = F::Output> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

/// Runs `work` on a thread of the small blocking pool. What takes many milliseconds of a processor, or is requested by
/// clients in any number, is for [`long_work`](crate::long_work()).
///
/// # Panics
/// Outside [`run`], and where `work` panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let value = join(spawn_blocking(Box::new(|| Box::new(work())))).await;
    *value.downcast().expect("the result of this work")
}

/// Work of any kind, and its result.
type BlockingWork = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

fn spawn_blocking(work: BlockingWork) -> JoinHandle<Box<dyn Any + Send>> {
    tokio::task::spawn_blocking(work)
}

/// The result of a task that is never aborted. Its panic is the caller's.
///
/// # Panics
/// Where the task panics.
pub async fn join<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Its runtime has ended, and the process ends with it.
        Err(_) => std::future::pending().await,
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
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}

/// Runs `main` on this thread and the other cores on threads of their own.
///
/// # Errors
/// [`StartError`]; nothing has run then.
pub fn run<F, T>(config: &Config, main: impl FnOnce(Handle) -> F) -> Result<T, StartError>
where
    F: Future<Output = T>,
{
    let count = match config.cores {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    let cores = start(config.backend, count.min(CORES_MAX))?;
    let backend = cores.handle.backend();
    tracing::debug!(%backend, cores = cores.handle.cores(), "engine started");
    let main = main(cores.handle);
    let mut result = None;
    cores.own.run(pin!(async { result = Some(main.await) }));
    cores.others.end();
    crate::rbd::wait_for_closes(None, CLOSE_LIMIT);
    Ok(result.expect("the main future has ended"))
}

/// Cores that are all ready to work.
struct Cores {
    handle: Handle,
    own: Core,
    others: Others,
}

/// The threads of the cores but the first. They end when `stop` is dropped.
struct Others {
    stop: watch::Sender<()>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Others {
    fn end(self) {
        drop(self.stop);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// The wanted backend works on every core, or another one does on every core.
fn start(choice: BackendChoice, count: usize) -> Result<Cores, StartError> {
    if choice == BackendChoice::Threads {
        return start_with(Backend::Threads, count);
    }
    match start_with(Backend::Uring, count) {
        Err(StartError::NoUring(e)) if choice == BackendChoice::Auto => {
            tracing::info!("io_uring cannot be used here ({e}): using blocking threads");
            start_with(Backend::Threads, count)
        }
        started => started,
    }
}

fn start_with(backend: Backend, count: usize) -> Result<Cores, StartError> {
    let (jobs, mut queues): (Vec<_>, Vec<_>) =
        (0..count).map(|_| mpsc::unbounded_channel::<Job>()).unzip();
    let handle = Handle(Arc::new(Shared {
        backend,
        jobs,
        next: AtomicUsize::new(0),
    }));
    let own = Core::new(backend, queues.remove(0))?;
    let mut others = Others {
        stop: watch::Sender::new(()),
        threads: Vec::new(),
    };
    let started = start_others(backend, queues, &mut others);
    if let Err(e) = started {
        others.end();
        return Err(e);
    }
    Ok(Cores {
        handle,
        own,
        others,
    })
}

/// Starts a thread for each of `queues` and waits until all of them are ready to work.
fn start_others(
    backend: Backend,
    queues: Vec<mpsc::UnboundedReceiver<Job>>,
    others: &mut Others,
) -> Result<(), StartError> {
    let (tell, told) = std::sync::mpsc::channel();
    for (index, queue) in queues.into_iter().enumerate() {
        let mut stopped = others.stop.subscribe();
        let tell = tell.clone();
        let work = move || {
            let (core, started) = match Core::new(backend, queue) {
                Ok(core) => (Some(core), Ok(())),
                Err(e) => (None, Err(e)),
            };
            // The receiver is gone where another core has failed; `stopped` reports that.
            drop(tell.send(started));
            drop(tell);
            if let Some(core) = core {
                core.run(pin!(async move { drop(stopped.changed().await) }));
            }
        };
        others
            .threads
            .push(thread(&format!("core-{}", index + 1), work)?);
    }
    drop(tell);
    told.into_iter().collect()
}

/// A runtime and its driver, on the thread that made it.
struct Core {
    // Dropped first: tasks go, then the ring waits for what they left in flight.
    runtime: tokio::runtime::Runtime,
    _ring: Option<uring::Guard>,
}

impl Core {
    /// A core that runs the jobs of `queue`.
    fn new(backend: Backend, mut queue: mpsc::UnboundedReceiver<Job>) -> Result<Self, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(POOL_THREADS)
            .build()?;
        let entered = runtime.enter();
        let ring = match backend {
            Backend::Uring => Some(uring::install().map_err(StartError::NoUring)?),
            Backend::Threads => None,
        };
        if ring.is_some() {
            drop(spawn(uring::driver().map_err(StartError::NoUring)?));
        }
        drop(spawn(async move {
            while let Some(job) = queue.recv().await {
                job();
            }
        }));
        drop(entered);
        Ok(Self {
            runtime,
            _ring: ring,
        })
    }

    /// Runs until `main` is done.
    fn run(self, main: Pin<&mut dyn Future<Output = ()>>) {
        self.runtime.block_on(main);
    }
}
