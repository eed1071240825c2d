//! A target once it is ready: where it is, what the kernel says of it, and what is on it.

use std::path::Path;

use crate::Cancel;
use crate::checks::alignment::DiskSegment;
use crate::checks::cache::Dropped;
use crate::checks::direct::DioAlign;
use crate::host::{
    KnownTarget, MeasuredCeilings, TargetFacts, alignment, data, residency, target_facts,
};
use crate::runner::request::TargetSpec;
use crate::runner::work_area::WorkArea;
use crate::units::Bytes;

/// A target ready to be measured.
#[derive(Debug)]
pub(in crate::runner) struct ReadyTarget {
    pub(in crate::runner) ground: WorkArea,
    pub(in crate::runner) facts: TargetFacts,
    /// Whether its page cache can be looked into.
    pub(in crate::runner) shows_cache: bool,
    /// What can be dropped before a measurement; none where nothing of it is in this machine's cache.
    pub(in crate::runner) drops: Option<Dropped>,
    /// How its parts lie on the disks below.
    pub(in crate::runner) segments: Vec<DiskSegment>,
}

/// What is known of a target after its file was written; the caches stay as they are where `keeps_caches`.
pub(super) fn ready(
    ground: WorkArea,
    spec: &TargetSpec,
    size: Bytes,
    measured: &MeasuredCeilings,
    keeps_caches: bool,
    cancel: &Cancel,
) -> ReadyTarget {
    let known = KnownTarget {
        name: spec.name.clone(),
        label: spec.shown(),
        place: ground.place(),
        processes: spec.processes.clone(),
        peer: spec.peer,
    };
    let mut facts = target_facts(known, measured);
    let mut shows_cache = false;
    let mut drops = None;
    if let Some(file) = ground.file() {
        facts.dio_align = dio_align(file);
        let tick = &mut |_| !cancel.is_cancelled();
        let mut drop = || (!keeps_caches).then(|| residency::drop_caches(file, size, true, tick));
        // A device that answers at once makes every page look resident; then the question is no use.
        drop();
        // A disk that did not let go of its writes would not answer a read either.
        if !cancel.is_cancelled() {
            facts.data = data::look(file, size);
            drops = drop();
        }
        shows_cache = drops.is_some()
            && !cancel.is_cancelled()
            && residency::look(file, size).is_some_and(|found| found.part() < 0.02);
    }
    let device = facts.device.as_deref();
    let mut segments = device.map(alignment::segments).unwrap_or_default();
    segments.extend(spec.disk.segments.iter().cloned());
    facts.ceilings.extend(spec.disk.throttle.ceilings());
    ReadyTarget {
        ground,
        facts,
        shows_cache,
        drops,
        segments,
    }
}

/// The kernel's word on direct I/O for a file, since Linux 6.1.
fn dio_align(file: &Path) -> Option<DioAlign> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, file, AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    (found.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(DioAlign {
        memory: found.stx_dio_mem_align,
        offset: found.stx_dio_offset_align,
    })
}
