//! [`Striped`]: linear and RAID 0 arrays, of nodes that are there: [`Linear`] of what lies one behind the
//! other, [`Stripe`] of what goes round.
//!
//! # Invariants
//!
//! * Superblocks are never written: md keeps no mark of writes in these arrays.
//! * A disk is flushed and settled once, however many zones it is in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{
    BlockDevice, Errno, Extent, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, TryIo, WriteFlags,
};
use futures_util::future::join_all;
use tokio::sync::broadcast;

use super::assembly::{Assembly, Facts};
use super::format::Level;
use super::layout::{Run, linear, raid0};
use super::level::{LevelForm, refused_in_use, takeover};
use super::member::Member;
use super::{
    ArrayError, ArrayEvent, ArrayOptions, ArrayStatus, MemberIo, MemberState, MemberStatus,
    Raid0Layout,
};
use crate::guard::{admit, flush};
use crate::{Linear, Segment, Stripe};

/// An array without copies.
#[derive(Debug)]
pub(super) struct Striped {
    /// The bytes of it, put together.
    disk: Node,
    geometry: Geometry,
    members: Vec<Member>,
    facts: Facts,
    events: u64,
    /// Changes are refused from now on.
    stopped: AtomicBool,
    /// Nothing ever happens to it.
    silent: broadcast::Sender<ArrayEvent>,
}

impl Striped {
    /// Puts the members together, all of which are here.
    pub(super) fn open(assembly: Assembly, options: &ArrayOptions) -> Result<Self, ArrayError> {
        let Assembly {
            facts,
            parts,
            events,
            ..
        } = assembly;
        let held = parts.into_iter().map(|part| part.member);
        let members: Option<Vec<Member>> = held.collect();
        let members = members.expect("these levels are assembled with all members");
        let disk = compose(&facts, &members, options)?;
        let geometry = Geometry {
            read_only: options.read_only || disk.geometry().read_only,
            ..disk.geometry().clone()
        };
        Ok(Self {
            disk,
            geometry,
            members,
            facts,
            events,
            stopped: AtomicBool::new(false),
            silent: broadcast::Sender::new(1),
        })
    }

    pub(super) fn status(&self) -> ArrayStatus {
        let member = |(part, member): (u16, &Member)| MemberStatus {
            name: member.name.clone(),
            part: Some(part),
            state: MemberState::InSync,
            write_mostly: member.superblock.write_mostly,
            fail_fast: member.superblock.fail_fast,
            remote: member.remote,
            corrected: 0,
            io: MemberIo::NONE,
            why: None,
        };
        ArrayStatus {
            name: self.facts.name.clone(),
            uuid: self.facts.uuid,
            level: self.facts.level,
            layout: self.facts.layout,
            version: self.facts.version,
            size: self.geometry.size,
            chunk: self.facts.chunk,
            parts: self.facts.parts,
            working: self.facts.parts,
            read_only: self.geometry.read_only,
            clean: true,
            events: self.events,
            bitmap: None,
            ppl: false,
            journal: false,
            members: (0..).zip(&self.members).map(member).collect(),
            resync_pending: false,
            sync: None,
            reshape_pause: None,
            untrusted: None,
            taken_over: None,
            scrubbed: None,
        }
    }

    pub(super) fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        self.silent.subscribe()
    }

    /// Waits for writes and makes them durable; later changes fail.
    pub(super) async fn stop(&self) -> Result<(), ArrayError> {
        self.stopped.store(true, Ordering::Release);
        let failed = |source: IoError| {
            let name = &self.facts.name;
            let next = "what was written last may be lost: see what its members say";
            ArrayError::refused(format!("array {name} could not be flushed: {source}"), next)
        };
        self.settle().await.map_err(failed)?;
        self.flush().await.map_err(failed)
    }

    /// Why it does not get another level while it is used.
    pub(super) fn refuse_level(&self, level: Level) -> ArrayError {
        let of = LevelForm::of(&self.members[0].superblock);
        takeover(of, level).map_or_else(|refused| refused, |_| refused_in_use(of.level, level))
    }

    /// Why it has no consistency policy.
    pub(super) fn refuse_policy(&self) -> ArrayError {
        let level = self.members[0].superblock.level;
        let what = format!("{level} keeps no copies: there is nothing to keep consistent");
        ArrayError::refused(
            what,
            "only arrays with copies or parity have a consistency policy",
        )
    }

    fn admit(&self, operation: Operation, range: Range) -> Result<(), IoError> {
        admit(&self.geometry, operation, range)?;
        if self.stopped.load(Ordering::Acquire) {
            return Err(IoError::new(Errno::ShuttingDown, operation, Some(range))
                .because("the array is stopped"));
        }
        Ok(())
    }

    /// Whether the node below may be exposed: a caller that follows it may write there.
    fn may_lead_below(&self) -> bool {
        let kept = self.geometry.read_only || self.stopped.load(Ordering::Acquire);
        !kept || self.disk.geometry().read_only
    }
}

/// How RAID 0 begins its zones, by the superblocks or by the options.
pub(super) const fn raid0_layout(layout: u32, wished: Option<Raid0Layout>) -> Option<Raid0Layout> {
    match (layout, wished) {
        (1, _) => Some(Raid0Layout::Original),
        (2, _) => Some(Raid0Layout::Alternate),
        (_, wished) => wished,
    }
}

fn compose(facts: &Facts, members: &[Member], options: &ArrayOptions) -> Result<Node, ArrayError> {
    let lens: Vec<u64> = members.iter().map(|m| m.superblock.data.len).collect();
    let segment = |run: &Run| Segment {
        disk: members[run.part].disk.clone(),
        range: members[run.part].place(run.within),
    };
    let unfit = |why: String| {
        let name = &facts.name;
        ArrayError::refused(
            format!("the members of array {name} do not fit: {why}"),
            None,
        )
    };
    if facts.level == Level::Linear {
        let segments = linear::runs(&lens, facts.chunk);
        let whole = Linear::new(segments.iter().map(segment).collect());
        return Ok(Arc::new(whole.map_err(|e| unfit(e.to_string()))?));
    }
    let layout = raid0_layout(facts.layout, options.raid0_layout);
    let zones = raid0::zones(&lens, facts.chunk, layout);
    let zones = zones.expect("several zones are assembled only with a layout");
    let mut stripes: Vec<Node> = Vec::with_capacity(zones.len());
    for zone in &zones {
        let stripe = Stripe::new(zone.runs.iter().map(segment).collect(), facts.chunk);
        stripes.push(Arc::new(stripe.map_err(|e| unfit(e.to_string()))?));
    }
    let whole: Node = if let [only] = stripes.as_slice() {
        only.clone()
    } else {
        let segments = stripes.into_iter().map(Segment::whole).collect();
        Arc::new(Linear::new(segments).map_err(|e| unfit(e.to_string()))?)
    };
    if whole.geometry().size <= facts.size {
        return Ok(whole);
    }
    // Linux does not use all of it.
    let used = Segment {
        disk: whole,
        range: Range::new(0, facts.size),
    };
    let used = Linear::new(vec![used]).map_err(|e| unfit(e.to_string()))?;
    Ok(Arc::new(used))
}

impl BlockDevice for Striped {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.disk.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        if let Err(refused) = self.admit(Operation::Write, range) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        self.disk.write(range, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async {
            let flushes = self.members.iter().map(|member| flush(&member.disk));
            join_all(flushes).await.into_iter().collect()
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        if let Err(refused) = self.admit(Operation::WriteZeroes, range) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        self.disk.write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        if let Err(refused) = self.admit(Operation::Trim, range) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        self.disk.trim(range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.disk.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.facts.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async {
            let settled = self.members.iter().map(|member| member.disk.settle());
            join_all(settled).await.into_iter().collect()
        })
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        self.may_lead_below().then(|| self.disk.remap(range))?
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.may_lead_below()
            .then(|| self.disk.remap_start(range))?
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.disk.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if self.geometry.read_only || self.stopped.load(Ordering::Acquire) {
            return TryIo::WouldBlock;
        }
        self.disk.try_write(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let (disk, below) = block::resolve(&*self.disk, range);
        disk.file_region(below)
    }
}
