//! One window of work: copies are made of each other, or compared, while they are locked against changes.

use block::{IoBufs, IoError, Range};

use super::super::format::SECTOR;
use super::super::redundant::layout::Piece;
use super::super::redundant::{
    Holder, RedundantArray, RowStop, RowsChecked, check_rows, recover_rows, replace_rows,
};
use crate::join::join_all;

/// What a window did.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Bytes that were copied or compared.
    pub(super) worked: u64,
    /// Sectors that differed.
    pub(super) mismatches: u64,
    /// Where, bytes of the array, or of members where it keeps parity.
    pub(super) places: Vec<Range>,
    /// Where parity is not known to fit, since data cannot be read; bytes of members.
    pub(super) lost: Vec<Range>,
    /// Bytes that members noted as bad, and that were written again.
    pub(super) rewritten: u64,
}

/// Why a window was not carried out.
#[derive(Debug)]
pub(super) enum Stop {
    /// It cannot be: what the array must do fails.
    Failed(IoError),
    /// The bytes have no copy that can be read.
    Lost(IoError),
    /// All was done but for what cannot be read.
    Partial(IoError),
}

impl From<RowStop> for Stop {
    fn from(stop: RowStop) -> Self {
        match stop {
            RowStop::Failed(error) => Self::Failed(error),
            RowStop::Lost(error) => Self::Lost(error),
        }
    }
}

/// Makes all copies of a range like the first one, or parity fit the data.
pub(super) async fn resync(array: &RedundantArray, range: Range) -> Result<Done, Stop> {
    if array.layout().parity().is_some() {
        let RowsChecked { lost, .. } = check_rows(array, range, true).await?;
        return Ok(Done {
            worked: range.len,
            lost,
            ..Done::default()
        });
    }
    let mut window = array.lock_range(range).await.map_err(Stop::Failed)?;
    window.begin();
    let copied = array.pieces(range).into_iter();
    let copied = copied.map(async |piece| resync_piece(array, &piece).await);
    let answers = join_all(copied).await;
    window.end();
    let mut done = Done::default();
    for answer in answers {
        done.worked += answer?;
    }
    Ok(done)
}

async fn resync_piece(array: &RedundantArray, piece: &Piece) -> Result<u64, Stop> {
    let view = array.view();
    let holders: Vec<(Holder, Range)> = (piece.copies.iter())
        .filter_map(|copy| Some((view.holder(copy.part)?.clone(), piece.within(*copy))))
        .collect();
    if holders.len() < 2 {
        return Ok(0);
    }
    let (data, from) = match array.read_source(piece).await {
        Ok(found) => found,
        Err(error) => {
            // A user that reads it gets the error, too; there is nothing that it could be made of.
            tracing::warn!(
                "{}: {} cannot be made alike: {error}",
                array.name(),
                piece.range
            );
            return Ok(0);
        }
    };
    let targets = holders.iter().filter(|(holder, within)| {
        // What was not rebuilt yet will be.
        holder.target.slot != from && holder.rebuilt_to.is_none_or(|to| within.offset < to)
    });
    let writes =
        targets.map(|(holder, within)| array.write_copy(&holder.target, *within, data.clone()));
    for answer in join_all(writes).await {
        answer.map_err(Stop::Failed)?;
    }
    Ok(piece.range.len)
}

/// Rebuilds what a part holds at `within` of its member.
pub(super) async fn recover(
    array: &RedundantArray,
    part: u16,
    within: Range,
) -> Result<Done, Stop> {
    if array.layout().parity().is_some() {
        recover_rows(array, part, within).await?;
        let worked = within.len;
        return Ok(Done {
            worked,
            ..Done::default()
        });
    }
    copy_to(array, part, within, |array| {
        let holder = array.holder(part);
        holder.filter(|holder| holder.rebuilt_to.is_some())
    })
    .await
}

/// Writes copies of what a part holds at `within` to a member that lacks them: the one that `find` has, once no change is
/// under way there.
async fn copy_to(
    array: &RedundantArray,
    part: u16,
    within: Range,
    find: impl Fn(&RedundantArray) -> Option<Holder>,
) -> Result<Done, Stop> {
    let runs = runs(array, part, within);
    let (Some(start), Some(end)) = (
        runs.iter().map(|(_, run)| run.offset).min(),
        runs.iter().map(|(_, run)| run.end()).max(),
    ) else {
        return Ok(Done::default());
    };
    let hull = Range::new(start, end - start);
    let mut window = array.lock_range(hull).await.map_err(Stop::Failed)?;
    // Another member may hold it by now.
    let Some(holder) = find(array) else {
        return Ok(Done::default());
    };
    // Where members know of bad places each side of them is read of a member that can be.
    let pieces = runs.iter().flat_map(|(at, run)| {
        let pieces = array.pieces(*run).into_iter();
        pieces.map(|piece| (*at + (piece.range.offset - run.offset), piece))
    });
    let pieces: Vec<(u64, Piece)> = pieces.collect();
    let answers = pieces.iter().map(async |(at, piece)| {
        let (data, _) = array.read_source(piece).await.map_err(Stop::Lost)?;
        let place = Range::new(*at, piece.range.len);
        let written = array.write_copy(&holder.target, place, data).await;
        written.map_err(Stop::Failed)
    });
    window.begin();
    let answers = join_all(answers).await;
    window.end();
    for answer in answers {
        answer?;
    }
    let worked = runs.iter().map(|(_, run)| run.len).sum();
    Ok(Done {
        worked,
        ..Done::default()
    })
}

/// Makes the replacement of a member a copy of it at `within`.
pub(super) async fn replace(
    array: &RedundantArray,
    part: u16,
    within: Range,
) -> Result<Done, Stop> {
    if array.layout().parity().is_some() {
        replace_rows(array, part, within).await?;
        return Ok(Done {
            worked: within.len,
            ..Done::default()
        });
    }
    copy_to(array, part, within, |array| {
        array.pair(part).map(|(_, replacement)| replacement)
    })
    .await
}

/// Which bytes of the array a part holds at `within`, and where.
fn runs(array: &RedundantArray, part: u16, within: Range) -> Vec<(u64, Range)> {
    let mut runs = Vec::new();
    let mut at = within.offset;
    while at < within.end() {
        match array.array_range(part.into(), at) {
            Some(held) => {
                let run = Range::new(held.offset, held.len.min(within.end() - at));
                runs.push((at, run));
                at += run.len;
            }
            None => at = array.behind_chunk(at),
        }
    }
    runs
}

/// Compares all copies of a range; with `repair` those that differ are made like the first one.
pub(super) async fn compare(
    array: &RedundantArray,
    range: Range,
    repair: bool,
) -> Result<Done, Stop> {
    if array.layout().parity().is_some() {
        let checked = check_rows(array, range, repair).await?;
        let RowsChecked { differ, lost, .. } = checked;
        return Ok(Done {
            worked: range.len,
            mismatches: differ.iter().map(|place| place.len / SECTOR).sum(),
            places: differ,
            lost,
            rewritten: checked.rewritten,
        });
    }
    let mut window = array.lock_range(range).await.map_err(Stop::Failed)?;
    if repair {
        window.begin();
    }
    let pieces = array.pieces(range);
    let compared = pieces
        .iter()
        .map(async |piece| compare_piece(array, piece, repair).await);
    let answers = join_all(compared).await;
    window.end();
    let mut done = Done {
        worked: range.len,
        ..Done::default()
    };
    for answer in answers {
        let Compared { differ, rewritten } = answer?;
        done.rewritten += rewritten;
        for place in differ {
            done.mismatches += place.len / SECTOR;
            done.places.push(place);
        }
    }
    if done.rewritten > 0 {
        array.record_rewritten().await.map_err(Stop::Failed)?;
    }
    Ok(done)
}

/// What was found of a piece.
#[derive(Debug, Default)]
struct Compared {
    /// Where its copies differ, in order.
    differ: Vec<Range>,
    /// Bytes that members noted as bad, and that were written again.
    rewritten: u64,
}

/// Compares the copies of a piece; what cannot be read of a member is rewritten, as when a user had read it, and with `repair` what members
/// note as bad.
async fn compare_piece(
    array: &RedundantArray,
    piece: &Piece,
    repair: bool,
) -> Result<Compared, Stop> {
    let view = array.view();
    let in_sync = (piece.copies.iter())
        .filter_map(|copy| Some((view.holder(copy.part)?.clone(), piece.within(*copy))))
        .filter(|(holder, _)| holder.rebuilt_to.is_none());
    // What a member knows that it lacks is no copy.
    let (holders, noted): (Vec<(Holder, Range)>, Vec<_>) =
        in_sync.partition(|(holder, within)| holder.can_read(*within));
    let reads = holders
        .iter()
        .map(|(holder, within)| array.read_copy(&holder.target, *within));
    let reads = join_all(reads).await;
    let Some(first) = reads.iter().find_map(|read| read.as_ref().ok()).cloned() else {
        let name = array.name();
        tracing::warn!("{name}: no member can be read at {}", piece.range);
        return Ok(Compared::default());
    };
    let whole = first.concat();
    let mut differ = vec![false; whole.len().div_ceil(512)];
    for ((holder, within), read) in holders.iter().zip(&reads) {
        let differs = match read {
            Ok(data) => mark(&whole, data, &mut differ),
            Err(_) => true,
        };
        if differs && (repair || read.is_err()) {
            let written = array
                .write_copy(&holder.target, *within, first.clone())
                .await;
            written.map_err(Stop::Failed)?;
        }
    }
    let mut rewritten = 0;
    for (holder, within) in noted.iter().filter(|_| repair) {
        let written = array.rewrite_noted(&holder.target, *within, first.clone());
        if written.await.map_err(Stop::Failed)? {
            rewritten += within.len;
        }
    }
    Ok(Compared {
        differ: merged(piece.range, &differ),
        rewritten,
    })
}

/// Marks sectors in which a copy differs from the first one; whether there are any.
fn mark(first: &[u8], copy: &IoBufs, differ: &mut [bool]) -> bool {
    let mut at = 0;
    let mut any = false;
    for slice in copy {
        if first[at..at + slice.len()] != slice[..] {
            any = true;
        }
        at += slice.len();
    }
    if any {
        let copy = copy.concat();
        let sectors = first.chunks(512).zip(copy.chunks(512));
        for (mark, (one, other)) in differ.iter_mut().zip(sectors) {
            *mark |= one != other;
        }
    }
    any
}

/// Marked sectors of a range that follow each other, together.
fn merged(range: Range, differ: &[bool]) -> Vec<Range> {
    let mut places: Vec<Range> = Vec::new();
    for (offset, _) in (range.offset..)
        .step_by(512)
        .zip(differ)
        .filter(|(_, differs)| **differs)
    {
        let len = SECTOR.min(range.end() - offset);
        match places.last_mut() {
            Some(last) if last.end() == offset => last.len += len,
            _ => places.push(Range::new(offset, len)),
        }
    }
    places
}
