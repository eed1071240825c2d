//! Tests of the ring's bookkeeping.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::{Kind, Op, Slot, uring};
use crate::{Buffer, Ticket};

fn begin_read(file: &Arc<OwnedFd>) -> Arc<Slot> {
    let slot = Arc::new(Slot::default());
    let op = Op {
        file: file.clone(),
        kind: Kind::Read {
            buffer: Buffer::take(1),
            done: 0,
            offset: 0,
        },
        _ticket: Ticket::none(),
    };
    uring::try_start(op, &slot).expect("a ring on this thread");
    slot
}

/// Room is made for completions that did not fit by entering the kernel, which also submits what was
/// pushed. Where that was not counted, the next submission waited for ever for entries that were gone.
#[test]
fn more_operations_than_completions_fit_all_end() {
    let (tell, told) = mpsc::channel();
    let work = move || {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), [1]).expect("written");
        let file = Arc::new(OwnedFd::from(file.into_file()));
        let ring = uring::install().expect("a ring");
        // 512 completions fit.
        let mut slots: Vec<_> = (0..768).map(|_| begin_read(&file)).collect();
        uring::fetch();
        slots.extend((0..10).map(|_| begin_read(&file)));
        drop(ring);
        let is_last = |slot: Arc<Slot>| Arc::into_inner(slot).is_some();
        tell.send(slots.into_iter().all(is_last))
            .expect("listening");
    };
    drop(crate::thread("ring", work).expect("a thread"));
    let done = told.recv_timeout(Duration::from_secs(20));
    assert_eq!(done, Ok(true), "the ring's thread hangs");
}
