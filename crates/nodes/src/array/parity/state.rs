//! The status of the array.

use super::super::assembly::{Absent, OtherKind};
use super::super::format::bitmap::Bits;
use super::super::{ArrayStatus, BitmapStatus, MemberIo, MemberState, MemberStatus, ReshapeLosses};
use super::Parity;
use super::members::Held;

impl Parity {
    /// How it is now.
    pub(in super::super) fn status(&self) -> ArrayStatus {
        let held = self.members.held();
        let members: Vec<MemberStatus> = (0..)
            .zip(held)
            .map(|(part, held)| match held {
                Some(held) => working(part, held),
                None => MemberStatus::missing(part),
            })
            .collect();
        let working = (members.iter()).filter(|member| member.state == MemberState::InSync);
        let facts = &self.facts;
        ArrayStatus {
            name: facts.name.clone(),
            uuid: facts.uuid,
            level: facts.level,
            layout: facts.layout,
            version: facts.version,
            size: facts.size,
            chunk: facts.chunk,
            parts: facts.parts,
            working: u32::try_from(working.count()).unwrap_or(facts.parts),
            read_only: true,
            clean: self.clean,
            events: self.events,
            bitmap: self.bits.as_ref().map(bitmap),
            ppl: self.keeps_ppl,
            journal: self.has_journal,
            members: (members.into_iter())
                .chain(self.without_part())
                .chain(self.absent.iter().map(away))
                .collect(),
            resync_pending: !self.clean,
            sync: None,
            reshape_pause: None,
            reshape_losses: ReshapeLosses::default(),
            untrusted: self.untrusted().cloned(),
            taken_over: None,
            scrubbed: None,
        }
    }

    /// Bytes that were computed since it was opened.
    #[cfg(test)]
    pub(in super::super) fn rebuilt(&self) -> u64 {
        self.rebuilt.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn without_part(&self) -> impl Iterator<Item = MemberStatus> {
        self.others.iter().map(|other| {
            let (part, state) = match other.kind {
                OtherKind::Spare => (None, MemberState::Spare),
                OtherKind::Replacement { part, to } => {
                    let to = to.unwrap_or(self.facts.member_size);
                    (Some(part), MemberState::Replacing(to))
                }
                OtherKind::Stale { part, .. } => (Some(part), MemberState::Stale),
                OtherKind::Journal => (None, MemberState::Journal),
                OtherKind::Failed => (None, MemberState::Failed),
            };
            MemberStatus {
                name: other.member.name.clone(),
                part,
                state,
                write_mostly: other.member.superblock.write_mostly,
                fail_fast: other.member.superblock.fail_fast,
                remote: other.member.remote,
                corrected: 0,
                io: MemberIo::NONE,
                why: None,
            }
        })
    }
}

const fn bitmap(bits: &Bits) -> BitmapStatus {
    BitmapStatus {
        chunk: bits.shape().chunk(),
        chunks: bits.shape().chunks(),
        dirty: bits.count(),
    }
}

fn working(part: u16, held: &Held) -> MemberStatus {
    let why = held.why();
    let state = match (&why, held.rebuilt_to) {
        (Some(_), _) => MemberState::Failed,
        (None, Some(to)) => MemberState::Rebuilding(to),
        (None, None) => MemberState::InSync,
    };
    MemberStatus {
        name: held.member.name.clone(),
        part: Some(part),
        state,
        write_mostly: held.member.superblock.write_mostly,
        fail_fast: held.member.superblock.fail_fast,
        remote: held.member.remote,
        corrected: held.corrected(),
        io: MemberIo::NONE,
        why,
    }
}

fn away(absent: &Absent) -> MemberStatus {
    MemberStatus {
        name: absent.name.clone(),
        remote: absent.remote,
        part: None,
        why: Some("it could not be reached".to_owned()),
        ..MemberStatus::missing(0)
    }
}
