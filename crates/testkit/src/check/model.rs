//! Random requests on a node, against the model.

use block::{
    BlockDevice, Errno, Extent, ExtentKind, FileRegion, Range, TryIo, WriteFlags, merge_extents,
    resolve, resolve_start,
};
use futures_util::future::join_all;

use super::{Mismatch, change, compare, read, whole};
use crate::model::{Model, Op};

/// Runs `ops` one after the other and compares every answer, then everything the node says of
/// itself, with the model, which starts as what the node holds.
///
/// # Errors
/// [`Mismatch`].
pub async fn check_against_model(node: &dyn BlockDevice, ops: &[Op]) -> Result<(), Mismatch> {
    check_in_batches(node, ops, 1).await
}

/// The same with up to `width` requests in flight. A request that overlaps one in flight waits for
/// it.
///
/// # Errors
/// [`Mismatch`].
pub async fn check_in_batches(
    node: &dyn BlockDevice,
    ops: &[Op],
    width: usize,
) -> Result<(), Mismatch> {
    let mut model = Model::from_bytes(read(node, whole(node)).await?);
    let mut rest = ops;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(batch_len(rest, width));
        for outcome in join_all(batch.iter().map(|op| run(node, &model, op))).await {
            outcome?;
        }
        for op in batch.iter().filter(|op| carried_out(node, op)) {
            model.apply(op);
        }
        rest = later;
    }
    check_everything(node, &model).await
}

/// How many of the first requests may be in flight together.
fn batch_len(ops: &[Op], width: usize) -> usize {
    let fits = |&len: &usize| {
        len == 0
            || ops[..len]
                .iter()
                .all(|earlier| earlier.commutes_with(&ops[len]))
    };
    (0..ops.len().min(width.max(1))).take_while(fits).count()
}

/// Whether the node supports `op`, by its geometry and flags.
fn carried_out(node: &dyn BlockDevice, op: &Op) -> bool {
    let geometry = node.geometry();
    match op {
        Op::Trim { .. } => geometry.trim.any(),
        Op::WriteZeroes { .. } => geometry.write_zeroes.any(),
        _ => true,
    }
}

async fn run(node: &dyn BlockDevice, model: &Model, op: &Op) -> Result<(), Mismatch> {
    match *op {
        Op::Read { range } => return check_read(node, model, range).await,
        Op::Write {
            range,
            fill,
            flags,
            now: true,
        } if flags.is_empty()
            && node.try_write(range, &crate::pattern(fill, range)) == TryIo::Done =>
        {
            return Ok(());
        }
        _ => {}
    }
    match change(node, op).await {
        Err(e) if e.errno == Errno::NotSupported && !carried_out(node, op) => Ok(()),
        Err(e) if e.errno == Errno::NotSupported && asks_for_fast_zero(op) => {
            zero_slowly(node, op).await
        }
        Ok(()) if carried_out(node, op) => Ok(()),
        Ok(()) => panic!("{op:?} succeeded, though the geometry says that it is not supported"),
        Err(error) => Err(Mismatch::Failed { op: *op, error }),
    }
}

const fn asks_for_fast_zero(op: &Op) -> bool {
    matches!(op, Op::WriteZeroes { flags, .. } if flags.contains(WriteFlags::FAST_ZERO))
}

/// What a client does when fast zeroing is refused.
async fn zero_slowly(node: &dyn BlockDevice, op: &Op) -> Result<(), Mismatch> {
    let Op::WriteZeroes { range, flags } = *op else {
        unreachable!("only write_zeroes asks for fast zeroing")
    };
    let op = Op::WriteZeroes {
        range,
        flags: flags - WriteFlags::FAST_ZERO,
    };
    let result = change(node, &op).await;
    result.map_err(Mismatch::failed(op))
}

/// Every way to read `range` gives what the model holds.
async fn check_read(node: &dyn BlockDevice, model: &Model, range: Range) -> Result<(), Mismatch> {
    let mut into = vec![0xEE; range.len_usize()];
    if node.try_read(range, &mut into) == TryIo::Done {
        compare(model, range, &into, "try_read")?;
    }
    compare(model, range, &read(node, range).await?, "read")?;
    let (below, there) = resolve(node, range);
    if !there.is_empty() && there != range {
        compare(
            model,
            range,
            &read(below, there).await?,
            "read through remap",
        )?;
    }
    let mut rest = range;
    while !rest.is_empty() {
        let (below, there) = resolve_start(node, rest);
        let start = Range::new(rest.offset, there.len);
        let data = read(below, there).await?;
        compare(model, start, &data, "read of the start through remap")?;
        rest = Range::new(start.end(), rest.end() - start.end());
    }
    if let Some(region) = below.file_region(there) {
        compare_region(model, range, &region)?;
    }
    if let Some((region, len)) = below.file_region_start(there) {
        compare_region(model, Range::new(range.offset, len), &region)?;
    }
    Ok(())
}

/// A plain read of a file gives what the model holds, if the file is that long.
fn compare_region(model: &Model, range: Range, region: &FileRegion) -> Result<(), Mismatch> {
    let mut into = vec![0xEE; range.len_usize()];
    let count = rustix::io::pread(&region.file, &mut into, region.offset);
    if count == Ok(into.len()) {
        compare(model, range, &into, "plain read of the file region")?;
    }
    Ok(())
}

async fn check_everything(node: &dyn BlockDevice, model: &Model) -> Result<(), Mismatch> {
    let range = whole(node);
    check_read(node, model, range).await?;
    let extents = node
        .extents(range)
        .await
        .map_err(|error| Mismatch::Extents {
            range,
            what: error.to_string(),
        })?;
    check_extents(model, range, &extents)
}

fn check_extents(model: &Model, range: Range, extents: &[Extent]) -> Result<(), Mismatch> {
    let wrong = |what: String| Err(Mismatch::Extents { range, what });
    let mut at = range.offset;
    for extent in extents {
        if extent.range.offset != at {
            return wrong(format!("{} do not begin at {at}", extent.range));
        }
        at = extent.range.end();
    }
    if at != range.end() {
        return wrong(format!("they end at {at}"));
    }
    for extent in merge_extents(extents.to_vec()) {
        let zeroes = vec![0; extent.range.len_usize()];
        if extent.kind != ExtentKind::Data && !model.agrees(extent.range, &zeroes) {
            return wrong(format!(
                "{} are reported as zeroes and are not",
                extent.range
            ));
        }
    }
    Ok(())
}
