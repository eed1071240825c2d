//! A ring on the runtime's own thread.
//!
//! Tasks submit each operation as they start it; a driver task on the same thread wakes the futures
//! of those that completed. The ring's descriptor is registered with the runtime, so the thread
//! sleeps in one place only. Operations submitted together reach the device as one, complete as one
//! and are answered as one: at a moderate depth that costs more than the system calls it saves
//! (docs/adr/0009-rows-that-the-client-bounds.md).
//!
//! # Invariants
//!
//! * The submission queue is empty between calls: what is started is the kernel's.
//! * Every entry submitted has its op in `flying` under its `user_data` until its completion is seen.
//! * [`Guard`]'s drop waits for all of them: no memory is freed under the kernel.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Poll, Waker};

use io_uring::{IoUring, Probe, opcode};
use slab::Slab;
use tokio::io::unix::AsyncFd;

use super::op::Vectors;
use super::{Op, Slot};

/// Submission entries of a ring. More operations may be in flight; the kernel keeps completions
/// that do not fit the completion queue.
const ENTRIES: u32 = 256;

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

struct Ring {
    ring: IoUring,
    flying: Slab<Flying>,
    /// The driver task, asleep.
    driver: Option<Waker>,
}

struct Flying {
    op: Op,
    slot: Arc<Slot>,
    _vectors: Vectors,
}

/// This thread's ring is there while its guard is. It does not leave the thread: elsewhere its drop
/// would not find the ring.
#[derive(Debug)]
pub(crate) struct Guard(PhantomData<*const ()>);

/// Sets up a ring for this thread.
///
/// # Errors
/// If the kernel has no io_uring, forbids it, or lacks an operation.
pub(crate) fn install() -> io::Result<Guard> {
    let ring = build()?;
    RING.with_borrow_mut(|slot| {
        *slot = Some(Ring {
            ring,
            flying: Slab::new(),
            driver: None,
        });
    });
    Ok(Guard(PhantomData))
}

fn build() -> io::Result<IoUring> {
    let ring = IoUring::builder()
        .setup_coop_taskrun()
        .setup_single_issuer()
        .build(ENTRIES)
        .or_else(|_| IoUring::new(ENTRIES))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
        opcode::SyncFileRange::CODE,
        opcode::Fallocate::CODE,
    ];
    if needed.iter().all(|&code| probe.is_supported(code)) {
        return Ok(ring);
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel's io_uring lacks an operation",
    ))
}

/// Starts `op` on this thread's ring, or gives it back where there is none.
pub(crate) fn try_start(mut op: Op, slot: &Arc<Slot>) -> Result<(), Op> {
    let woken = RING.with_borrow_mut(|ring| {
        let Some(ring) = ring else { return Err(op) };
        let (entry, vectors) = op.entry();
        let key = ring.flying.insert(Flying {
            op,
            slot: slot.clone(),
            _vectors: vectors,
        });
        let entry = entry.user_data(key as u64);
        ring.submit(&entry);
        // What completed within the submission need not wait for the descriptor's event.
        Ok(ring.driver.take())
    })?;
    if let Some(driver) = woken {
        driver.wake();
    }
    Ok(())
}

impl Ring {
    /// Hands `entry` to the kernel.
    fn submit(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: the op in `flying` owns the file and all memory the entry points to, at stable
        // addresses, and stays there until the completion.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the queue is empty between submissions");
        // Read from the queue, not counted: reaping may submit too.
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                // The completion queue is full: reap, then go on.
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                    self.reap();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(e) => panic!("io_uring_enter on our own ring failed: {e}"),
            }
        }
    }

    /// Hands results to their futures. Returns how many there were.
    fn reap(&mut self) -> usize {
        let mut count = 0;
        for completion in self.ring.completion() {
            let key = usize::try_from(completion.user_data()).expect("our own key");
            let Flying { op, slot, .. } = self.flying.remove(key);
            let result = usize::try_from(completion.result())
                .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            slot.finish(op, result);
            count += 1;
        }
        if self.ring.submission().cq_overflow() {
            // Entering the kernel moves what did not fit into the queue just emptied. Should that
            // fail, the next round tries again.
            drop(self.ring.submit());
        }
        count
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(mut ring) = RING.with_borrow_mut(Option::take) else {
            return;
        };
        while !ring.flying.is_empty() {
            if ring.reap() == 0 {
                // An interrupted wait is simply repeated.
                drop(ring.ring.submit_and_wait(1));
            }
        }
    }
}

/// Hands out what is complete on this thread, without waiting.
#[cfg(test)]
pub(super) fn fetch() {
    RING.with_borrow_mut(|ring| ring.as_mut().map(Ring::reap));
}

/// Runs this thread's ring until it is dropped.
///
/// # Errors
/// If the ring's descriptor cannot be registered with the runtime.
pub(crate) fn driver() -> io::Result<impl Future<Output = ()> + Send> {
    let fd = RING.with_borrow(|ring| ring.as_ref().map(|r| r.ring.as_raw_fd()));
    let fd = fd.ok_or_else(|| io::Error::other("no ring on this thread"))?;
    // SAFETY: the ring of this thread outlives this function and owns the descriptor.
    let ring_fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let own = rustix::io::fcntl_dupfd_cloexec(ring_fd, 0)?;
    // SAFETY: `own` is an owned descriptor that closes only with the `AsyncFd` around it.
    let descriptor =
        unsafe { AsyncFd::register_with_interest(own, tokio::io::Interest::READABLE) }?;
    Ok(std::future::poll_fn(move |cx| {
        loop {
            let worked = RING.with_borrow_mut(|ring| {
                let Some(ring) = ring else { return 0 };
                let reaped = ring.reap();
                ring.driver = Some(cx.waker().clone());
                reaped
            });
            match descriptor.poll_read_ready(cx) {
                // Cleared before the next reap: what completes after that is a new event.
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                Poll::Ready(Err(e)) => panic!("polling our own ring failed: {e}"),
                Poll::Pending if worked == 0 => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }))
}
