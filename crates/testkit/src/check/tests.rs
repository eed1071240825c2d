//! The drivers themselves are tested on nodes that are right and on nodes that are wrong in one
//! thing each.

use std::sync::Arc;

use block::{BlockDevice, Extent, ExtentKind, IoBufs, IoFuture, Node, Range, TryIo, WriteFlags};
use proptest::prelude::*;

use super::{
    Mismatch, check_against_model, check_crashes, check_dropped_futures, check_in_batches,
};
use crate::{FaultDisk, MemDisk, Op, OpSpace, block_on, ops};

const SIZE: u64 = 8192;
const SPACE: OpSpace = OpSpace {
    size: SIZE,
    block_size: 512,
    len_max: 2048,
};

/// What a [`Pass`] node does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Writes go 512 bytes too far.
    Place,
    /// Reads come one block short.
    Short,
    /// Everything is a hole.
    Holes,
    /// Extents end early.
    Gap,
    /// `try_read` answers without reading.
    TryReadMode,
    /// Flushes stay here.
    Flush,
    /// FUA is left out.
    Fua,
    /// `settle` stays here.
    Settle,
}

/// Hands everything on to `child`, but for one thing.
#[derive(Debug)]
struct Pass {
    child: Node,
    wrong: Wrong,
}

impl Pass {
    fn node(child: Node, wrong: Wrong) -> Node {
        Arc::new(Self { child, wrong })
    }
}

impl BlockDevice for Pass {
    crate::forward!(child: geometry, write_zeroes, trim, identity);

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        let len = if self.wrong == Wrong::Short {
            512
        } else {
            range.len
        };
        self.child.read(Range::new(range.offset, len))
    }

    fn write(&self, range: Range, data: IoBufs, mut flags: WriteFlags) -> IoFuture<'_, ()> {
        let mut there = range;
        if self.wrong == Wrong::Place && range.end() < SIZE {
            there.offset += 512;
        }
        if self.wrong == Wrong::Fua {
            flags = WriteFlags::empty();
        }
        self.child.write(there, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        if self.wrong == Wrong::Flush {
            return Box::pin(async { Ok(()) });
        }
        self.child.flush()
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        let claimed = match self.wrong {
            Wrong::Holes => range,
            Wrong::Gap => Range::new(range.offset, range.len - 512),
            _ => return self.child.extents(range),
        };
        Box::pin(async move {
            Ok(vec![Extent {
                range: claimed,
                kind: ExtentKind::Hole,
            }])
        })
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        if self.wrong == Wrong::Settle {
            return Box::pin(async { Ok(()) });
        }
        self.child.settle()
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        Some((&self.child, range))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        if self.wrong == Wrong::TryReadMode {
            return TryIo::Done;
        }
        self.child.try_read(range, into)
    }
}

fn write(offset: u64, len: u64, flags: WriteFlags) -> Op {
    Op::Write {
        range: Range::new(offset, len),
        fill: 0x5A,
        flags,
        now: false,
    }
}

/// Enough to show every fault but those of crashes and drops.
fn some_ops() -> Vec<Op> {
    vec![
        write(1024, 1024, WriteFlags::empty()),
        Op::Read {
            range: Range::new(1024, 1024),
        },
        Op::Flush,
    ]
}

fn modelled(wrong: Wrong) -> Result<(), Mismatch> {
    let node = Pass::node(Arc::new(MemDisk::new(SIZE)), wrong);
    block_on(check_against_model(&*node, &some_ops()))
}

#[test]
fn a_node_that_is_right_passes() {
    modelled(Wrong::Nothing).unwrap();
}

#[test]
fn wrong_content_is_reported_with_its_offset() {
    let error = modelled(Wrong::Place).unwrap_err();
    assert!(
        matches!(error, Mismatch::Content { offset: 1024, .. }),
        "{error}"
    );
    let error = modelled(Wrong::TryReadMode).unwrap_err();
    assert!(
        matches!(&error, Mismatch::Content { what, .. } if what == "try_read"),
        "{error}"
    );
}

#[test]
fn a_short_read_is_reported() {
    assert!(matches!(
        modelled(Wrong::Short),
        Err(Mismatch::Length { found: 512, .. })
    ));
}

#[test]
fn holes_with_data_and_gaps_are_reported() {
    for wrong in [Wrong::Holes, Wrong::Gap] {
        assert!(
            matches!(modelled(wrong), Err(Mismatch::Extents { .. })),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_failing_request_is_reported() {
    let fault =
        crate::Fault::new(crate::Effect::Fail(block::Errno::Io)).on(block::Operation::Write);
    let disk = FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]);
    let error = block_on(check_against_model(&*disk, &some_ops())).unwrap_err();
    assert!(
        matches!(
            error,
            Mismatch::Failed {
                op: Op::Write { .. },
                ..
            }
        ),
        "{error}"
    );
}

/// Many seeds, because one cut need not show the loss.
fn crashed(wrong: Wrong, list: &[Op]) -> Result<(), Mismatch> {
    let open = |mut children: Vec<Node>| async move { Ok(Pass::node(children.remove(0), wrong)) };
    (0..64).try_for_each(|seed| block_on(check_crashes(open, &[SIZE], list, seed)))
}

#[test]
fn a_flush_that_stays_above_loses_data_in_a_crash() {
    let list = [write(0, 2048, WriteFlags::empty()), Op::Flush];
    crashed(Wrong::Nothing, &list).unwrap();
    assert!(matches!(
        crashed(Wrong::Flush, &list),
        Err(Mismatch::Lost { .. })
    ));
}

#[test]
fn a_fua_that_is_left_out_loses_data_in_a_crash() {
    let list = [write(0, 2048, WriteFlags::FUA)];
    crashed(Wrong::Nothing, &list).unwrap();
    assert!(matches!(
        crashed(Wrong::Fua, &list),
        Err(Mismatch::Lost { .. })
    ));
}

#[test]
fn dropped_futures_of_a_node_that_settles_are_harmless() {
    let open =
        |mut children: Vec<Node>| async move { Ok(Pass::node(children.remove(0), Wrong::Nothing)) };
    block_on(check_dropped_futures(open, &[SIZE], &some_ops())).unwrap();
}

/// tokio lets a task do so much before it gives others a turn, and from then on every wait for a held
/// request looks unready. A node over many disks came to that, and the check reported that it never ends.
#[test]
fn a_long_check_is_not_held_back_by_the_runtime() {
    let open =
        |mut children: Vec<Node>| async move { Ok(Pass::node(children.remove(0), Wrong::Nothing)) };
    block_on(check_dropped_futures(open, &[SIZE], &[Op::Flush; 300])).unwrap();
}

#[test]
fn a_settle_that_stays_above_leaves_a_late_write() {
    let open =
        |mut children: Vec<Node>| async move { Ok(Pass::node(children.remove(0), Wrong::Settle)) };
    let error = block_on(check_dropped_futures(open, &[SIZE], &some_ops())).unwrap_err();
    assert!(
        matches!(error, Mismatch::NotSettled { left: 1, .. }),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_node_that_is_right_passes_everything(list in ops(SPACE, 0..40), seed: u64, width in 1_usize..8) {
        let node = Pass::node(Arc::new(MemDisk::new(SIZE)), Wrong::Nothing);
        block_on(check_in_batches(&*node, &list, width)).unwrap();
        let open = |mut children: Vec<Node>| async move {
            Ok(Pass::node(children.remove(0), Wrong::Nothing))
        };
        block_on(check_crashes(open, &[SIZE], &list, seed)).unwrap();
    }
}
