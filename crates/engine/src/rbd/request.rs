//! Requests to librbd, which a thread of it completes.

use std::ffi::c_int;
use std::io;
use std::pin::Pin;
use std::ptr::null_mut;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::handles::Handles;
use super::library::Pointer;
use crate::buffer::Buffer;
use crate::file::WriteBufs;
use crate::in_flight::Ticket;

/// `RBD_WRITE_ZEROES_FLAG_THICK_PROVISION`
const KEEP_SPACE: c_int = 1;

/// What is done with the image, and the memory for it.
pub(super) enum RbdRequest {
    Read {
        buffer: Buffer,
        offset: u64,
    },
    Write {
        data: WriteBufs,
        offset: u64,
    },
    Discard {
        offset: u64,
        len: u64,
    },
    WriteZeroes {
        offset: u64,
        len: usize,
        keeps_space: bool,
    },
    Flush,
}

type Vectors = SmallVec<[libc::iovec; 2]>;

/// A request in flight. Its address is the argument of its completion.
struct Operation {
    handles: Arc<Handles>,
    request: RbdRequest,
    /// Where the data of a write are.
    vectors: Vectors,
    done: oneshot::Sender<(RbdRequest, isize)>,
    _ticket: Ticket,
}

/// Resolves to what librbd returned, and the request, given back with its memory.
pub(super) struct Completion(oneshot::Receiver<(RbdRequest, isize)>);

impl Future for Completion {
    type Output = io::Result<(RbdRequest, usize)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let done = std::task::ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(match done {
            Ok((request, result @ 0..)) => Ok((request, result.unsigned_abs())),
            Ok((_, result)) => {
                let errno = i32::try_from(result.saturating_neg()).unwrap_or(libc::EIO);
                Err(io::Error::from_raw_os_error(errno))
            }
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }
}

/// The arguments of a submission.
enum Call {
    Read(u64, usize, *mut u8),
    Write(u64, *const libc::iovec, c_int),
    Discard(u64, u64),
    WriteZeroes(u64, usize, c_int),
    Flush,
}

impl Operation {
    /// Its arguments; the addresses lead to memory that it owns, the vectors to itself.
    fn call(&mut self) -> Call {
        match &mut self.request {
            RbdRequest::Read { buffer, offset } => {
                Call::Read(*offset, buffer.len(), buffer.as_mut_ptr())
            }
            RbdRequest::Write { data, offset } => {
                self.vectors = data.iter().map(vector).collect();
                let count = c_int::try_from(self.vectors.len());
                let count = count.expect("a write has fewer slices than memory has pages");
                Call::Write(*offset, self.vectors.as_ptr(), count)
            }
            RbdRequest::Discard { offset, len } => Call::Discard(*offset, *len),
            RbdRequest::WriteZeroes {
                offset,
                len,
                keeps_space,
            } => {
                let flags = if *keeps_space { KEEP_SPACE } else { 0 };
                Call::WriteZeroes(*offset, *len, flags)
            }
            RbdRequest::Flush => Call::Flush,
        }
    }

    fn finish(self, result: isize) {
        // A caller that was cancelled wants no answer; its buffers are freed here.
        drop(self.done.send((self.request, result)));
    }
}

/// Where a slice is; librbd only reads it.
fn vector(slice: &Bytes) -> libc::iovec {
    libc::iovec {
        iov_base: slice.as_ptr().cast_mut().cast(),
        iov_len: slice.len(),
    }
}

/// Hands `request` to librbd.
pub(super) fn submit(handles: &Arc<Handles>, request: RbdRequest, ticket: Ticket) -> Completion {
    let (done, receiver) = oneshot::channel();
    let operation = Box::into_raw(Box::new(Operation {
        handles: handles.clone(),
        request,
        vectors: Vectors::new(),
        done,
        _ticket: ticket,
    }));
    let mut completion = null_mut();
    let Handles { library, image, .. } = **handles;
    // SAFETY: the argument is passed on to `completed` alone, and to that once at most.
    let made =
        unsafe { (library.create_completion)(operation.cast(), completed, &raw mut completion) };
    // SAFETY: nothing was submitted: this is the only reference to the operation, and it ends with the call.
    let call = unsafe { (*operation).call() };
    let submitted = match made {
        ..0 => made,
        // SAFETY: the image is open, since `handles` are. Addresses lead to memory of the operation, which stays where it is
        // until `completed` frees it; librbd is done with it then. That may be now: nothing of it is used below.
        _ => unsafe {
            match call {
                Call::Read(offset, len, into) => {
                    (library.read)(image, offset, len, into, completion)
                }
                Call::Write(offset, from, count) => {
                    (library.writev)(image, from, count, offset, completion)
                }
                Call::Discard(offset, len) => (library.discard)(image, offset, len, completion),
                Call::WriteZeroes(offset, len, flags) => {
                    (library.write_zeroes)(image, offset, len, completion, flags, 0)
                }
                Call::Flush => (library.flush)(image, completion),
            }
        },
    };
    if submitted < 0 {
        // SAFETY: librbd did not take the operation: `completed` is not called for it.
        unsafe {
            if made >= 0 {
                (library.release)(completion);
            }
            Box::from_raw(operation).finish(submitted as isize);
        }
    }
    Completion(receiver)
}

/// Ends an operation. Runs on a thread of librbd, so it only wakes the task that waits.
///
/// # Safety
/// Called once for each operation that was submitted, with its completion.
unsafe extern "C" fn completed(completion: Pointer, operation: Pointer) {
    // SAFETY: the address was made by `submit` from a box that nothing else frees.
    let operation = unsafe { Box::from_raw(operation.cast::<Operation>()) };
    let library = operation.handles.library;
    // SAFETY: the completion is done, and released once, here.
    let result = unsafe {
        let result = (library.return_value)(completion);
        (library.release)(completion);
        result
    };
    operation.finish(result);
}
