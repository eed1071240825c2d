//! Choosing free extents for a volume. Pure.
//!
//! ```text
//! linear    directly behind the volume's end, else the first run with room for all, else the largest runs
//! striped   the same on each of n physical volumes, side by side
//! ```
//!
//! # Invariants
//!
//! * Only free extents are chosen, none twice, of the physical volumes that are allowed, and each stripe of a run is on a
//!   physical volume of its own.

use super::EditError;
use super::extents::{ExtentRun, free_counts};

/// What is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AllocationRequest {
    /// Extents of the volume: a multiple of the stripes.
    pub(super) extents: u64,
    /// Stripes; 1 for linear.
    pub(super) stripes: usize,
    /// The extents behind the volume's last ones, stripe by stripe, if it is extended.
    pub(super) behind: Option<Vec<(String, u64)>>,
}

/// Extents of a volume, and where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AllocatedRun {
    /// Of the volume.
    pub(super) extents: u64,
    /// Physical volume and first extent of each stripe.
    pub(super) areas: Vec<(String, u64)>,
}

/// Chooses extents among `free`.
pub(super) fn allocate(
    mut free: Vec<ExtentRun>,
    request: &AllocationRequest,
) -> Result<Vec<AllocatedRun>, EditError> {
    let stripes = request.stripes as u64;
    let mut left = request.extents / stripes;
    let refused = no_space(&free, request);
    let mut runs = Vec::new();
    if let Some(behind) = &request.behind {
        let room = behind
            .iter()
            .map(|(member, extent)| room_at(&free, member, *extent));
        let count = room.min().unwrap_or(0).min(left);
        if count > 0 {
            runs.push(take(&mut free, behind.clone(), count));
            left -= count;
        }
    }
    while left > 0 {
        let Some((areas, room)) = choose(&free, request.stripes, left) else {
            return Err(refused);
        };
        let count = room.min(left);
        runs.push(take(&mut free, areas, count));
        left -= count;
    }
    Ok(runs)
}

/// Free extents of a physical volume from `extent` on.
fn room_at(free: &[ExtentRun], member: &str, extent: u64) -> u64 {
    let mut free = free.iter();
    let run = free.find(|run| run.member == member && (run.start..run.end()).contains(&extent));
    run.map_or(0, |run| run.end() - extent)
}

/// The best place for `wanted` extents of each stripe, and how many of them have room there.
fn choose(free: &[ExtentRun], stripes: usize, wanted: u64) -> Option<(Vec<(String, u64)>, u64)> {
    let enough = best_of_each(free, |run, best| best.is_none() && run.count >= wanted);
    let chosen = match enough.len() >= stripes {
        true => enough,
        false => {
            let larger = |run: &ExtentRun, best: Option<&ExtentRun>| {
                best.is_none_or(|best| run.count > best.count)
            };
            let mut largest = best_of_each(free, larger);
            // Of equal ones the first stay first.
            largest.sort_by_key(|run| std::cmp::Reverse(run.count));
            largest
        }
    };
    if chosen.len() < stripes {
        return None;
    }
    let chosen = &chosen[..stripes];
    let room = chosen.iter().map(|run| run.count).min()?;
    let areas = chosen.iter().map(|run| (run.member.clone(), run.start));
    Some((areas.collect(), room))
}

/// One run of each physical volume: the last that is `better` than the one before.
fn best_of_each(
    free: &[ExtentRun],
    better: impl Fn(&ExtentRun, Option<&ExtentRun>) -> bool,
) -> Vec<&ExtentRun> {
    let mut best: Vec<&ExtentRun> = Vec::new();
    for run in free {
        let of_member = best.iter().position(|best| best.member == run.member);
        if better(run, of_member.map(|at| best[at])) {
            match of_member {
                Some(at) => best[at] = run,
                None => best.push(run),
            }
        }
    }
    best
}

/// Takes `count` extents of each area from the free ones.
pub(super) fn take(
    free: &mut Vec<ExtentRun>,
    areas: Vec<(String, u64)>,
    count: u64,
) -> AllocatedRun {
    for (member, start) in &areas {
        let mut left = Vec::with_capacity(free.len() + 1);
        for run in free.drain(..) {
            let holds = run.member == *member && (run.start..run.end()).contains(start);
            if !holds {
                left.push(run);
                continue;
            }
            let end = start + count;
            assert!(end <= run.end(), "only extents that are free are taken");
            let pieces = [(run.start, *start), (end, run.end())];
            for (start, end) in pieces.into_iter().filter(|(start, end)| end > start) {
                left.push(ExtentRun {
                    member: run.member.clone(),
                    start,
                    count: end - start,
                });
            }
        }
        *free = left;
    }
    AllocatedRun {
        extents: count * areas.len() as u64,
        areas,
    }
}

fn no_space(free: &[ExtentRun], request: &AllocationRequest) -> EditError {
    let (extents, stripes) = (request.extents, request.stripes);
    let wanted = match (extents, stripes) {
        (1, _) => "1 extent is needed".to_owned(),
        (_, 1) => format!("{extents} extents are needed"),
        _ => {
            let each = extents / stripes as u64;
            format!("{each} extents on each of {stripes} physical volumes are needed")
        }
    };
    EditError::NoSpace {
        wanted,
        free: free_counts(free),
    }
}
