//! [`Striped`]: linear and RAID 0 arrays, of nodes that are there: [`Linear`] of what lies one behind the
//! other, [`Stripe`] of what goes round.
//!
//! # Invariants
//!
//! * Superblocks are not written while it is used: md keeps no mark of writes in these arrays. Another level writes them
//!   ([`level`](super::level)), and another engine takes over then.
//! * A disk is flushed and settled once, however many zones it is in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{
    BlockDevice, Errno, Extent, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, TryIo, WriteFlags,
};
use futures_util::future::join_all;
use tokio::sync::broadcast;

use super::assembly::{Assembly, Facts, Part};
use super::format::Level;
use super::interface::ArrayInterface;
use super::layout::{Run, linear, raid0};
use super::level::{LevelForm, may_change, takeover};
use super::member::Member;
use super::{
    ArrayError, ArrayEvent, ArrayOptions, ArrayStatus, MemberIo, MemberState, MemberStatus,
    Raid0Layout, ReshapeLosses,
};
use crate::guard::{admit, flush};
use crate::lent_files::LentFiles;
use crate::zeroes::zero_pieces;
use crate::{Linear, Segment, Stripe};

/// An array without copies.
#[derive(Debug)]
pub(super) struct Striped {
    /// The bytes of it, put together.
    disk: Node,
    interface: ArrayInterface,
    members: Vec<Member>,
    facts: Facts,
    events: u64,
    /// Changes are refused from now on.
    stopped: AtomicBool,
    /// Regions of files that were handed out, where another level may follow. `None`: the level stays as it is.
    lent: Option<LentFiles>,
}

impl Striped {
    /// Puts the members together, all of which are here. `before`: it takes over from another engine.
    pub(super) fn open(
        assembly: Assembly,
        options: &ArrayOptions,
        before: Option<&ArrayInterface>,
    ) -> Result<Self, ArrayError> {
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
        let may_change = !geometry.read_only && may_get_parity(&facts, &members);
        Ok(Self {
            disk,
            interface: ArrayInterface::of(geometry, before)?,
            lent: may_change.then(|| LentFiles::of(members.len())),
            members,
            facts,
            events,
            stopped: AtomicBool::new(false),
        })
    }

    /// What callers see of it, if its level may change while it is open.
    pub(super) fn interface(&self) -> Option<ArrayInterface> {
        self.lent.is_some().then(|| self.interface.clone())
    }

    /// Whether no region of a file of a member is handed out.
    pub(super) fn are_returned(&self) -> bool {
        self.lent.as_ref().is_none_or(LentFiles::are_returned)
    }

    /// Its members, as they were opened.
    pub(super) fn assembly(&self) -> Assembly {
        let parts = self.members.iter().map(|member| Part {
            member: Some(member.clone()),
            rebuilt_to: None,
        });
        Assembly {
            facts: self.facts.clone(),
            parts: parts.collect(),
            others: Vec::new(),
            absent: Vec::new(),
            events: self.events,
            synced_to: None,
            bitmap: None,
            remarks: Vec::new(),
        }
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
            size: self.geometry().size,
            chunk: self.facts.chunk,
            parts: self.facts.parts,
            working: self.facts.parts,
            read_only: self.geometry().read_only,
            clean: true,
            events: self.events,
            bitmap: None,
            ppl: false,
            journal: false,
            members: (0..).zip(&self.members).map(member).collect(),
            resync_pending: false,
            sync: None,
            reshape_pause: None,
            reshape_losses: ReshapeLosses::default(),
            untrusted: None,
            taken_over: None,
            scrubbed: None,
        }
    }

    pub(super) fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        self.interface.events.subscribe()
    }

    /// Waits for writes and makes them durable; later changes fail.
    pub(super) async fn stop(&self) -> Result<(), ArrayError> {
        self.stopped.store(true, Ordering::Release);
        self.come_to_rest().await
    }

    /// Waits for writes and makes them durable.
    pub(super) async fn come_to_rest(&self) -> Result<(), ArrayError> {
        let failed = |source: IoError| {
            let name = &self.facts.name;
            let next = "what was written last may be lost: see what its members say";
            ArrayError::refused(format!("array {name} could not be flushed: {source}"), next)
        };
        self.settle().await.map_err(failed)?;
        self.flush().await.map_err(failed)
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

    /// Makes a change durable where members have no other way; the engine before had one.
    async fn then_flush(&self, change: IoFuture<'_, ()>) -> Result<(), IoError> {
        change.await?;
        self.flush().await
    }

    /// Zeroes where members cannot, and the engine before could.
    async fn write_zero_data(&self, range: Range, flags: WriteFlags) -> Result<(), IoError> {
        if flags.contains(WriteFlags::FAST_ZERO) {
            let operation = Operation::WriteZeroes;
            return Err(IoError::new(Errno::NotSupported, operation, Some(range)));
        }
        let is_durable = !flags.contains(WriteFlags::FUA) || self.disk.geometry().fua.any();
        let flags = match is_durable {
            true => flags & WriteFlags::FUA,
            false => WriteFlags::empty(),
        };
        for (part, data) in zero_pieces(range) {
            self.write(part, data, flags).await?;
        }
        match is_durable {
            true => Ok(()),
            // Of all pieces at once.
            false => self.flush().await,
        }
    }

    fn admit(&self, operation: Operation, range: Range) -> Result<(), IoError> {
        admit(self.geometry(), operation, range)?;
        if self.stopped.load(Ordering::Acquire) {
            return Err(IoError::new(Errno::ShuttingDown, operation, Some(range))
                .because("the array is stopped"));
        }
        Ok(())
    }

    /// Whether the node below may be exposed: a caller that follows it may write there.
    fn may_lead_below(&self) -> bool {
        let kept = self.geometry().read_only || self.stopped.load(Ordering::Acquire);
        !kept || self.disk.geometry().read_only
    }
}

/// Whether an array of these members may get parity: a stripe that uses as much of each.
fn may_get_parity(facts: &Facts, members: &[Member]) -> bool {
    let form = LevelForm::of_all(members.iter().map(|member| &member.superblock));
    form.is_some_and(|form| {
        form.level == Level::Raid0
            && may_change(facts.level, facts.version)
            && takeover(form, Level::Raid5).is_ok()
    })
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
        self.interface.geometry.now()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.disk.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        if let Err(refused) = self.admit(Operation::Write, range) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        if flags.contains(WriteFlags::FUA) && !self.disk.geometry().fua.any() {
            return Box::pin(self.then_flush(self.disk.write(
                range,
                data,
                flags - WriteFlags::FUA,
            )));
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
        let own = self.disk.geometry();
        if !own.write_zeroes.any() && self.geometry().write_zeroes.any() {
            return Box::pin(self.write_zero_data(range, flags));
        }
        if flags.contains(WriteFlags::FUA) && !own.fua.any() {
            let zeroes = self.disk.write_zeroes(range, flags - WriteFlags::FUA);
            return Box::pin(self.then_flush(zeroes));
        }
        self.disk.write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        if let Err(refused) = self.admit(Operation::Trim, range) {
            return Box::pin(std::future::ready(Err(refused)));
        }
        if !self.disk.geometry().trim.any() && self.geometry().trim.any() {
            // Nothing is promised of what is trimmed.
            return Box::pin(std::future::ready(Ok(())));
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
        if self.geometry().read_only || self.stopped.load(Ordering::Acquire) {
            return TryIo::WouldBlock;
        }
        self.disk.try_write(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let (region, len) = self.file_region_start(range)?;
        (len == range.len).then_some(region)
    }

    fn file_region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        let (disk, below) = block::resolve_start(&*self.disk, range);
        let (region, len) = disk.file_region_start(below)?;
        let region = match &self.lent {
            Some(lent) => lent.lend(region)?,
            None => region,
        };
        Some((region, len))
    }
}
