//! [`open`]: candidates are examined, put together by [`assemble`], and made a node.
//!
//! # Invariants
//!
//! * All members are examined at the same time, and nothing is written: what is written when an array is
//!   opened for writing is its node's, once all of them were understood.
//! * Parity is repaired by partial parity logs before an array is used that was not stopped cleanly, and a journal is
//!   replayed, if it is opened for writing.
//! * An array that goes on, on another machine's disk, without a member that worked says so there before it is used.

use std::sync::Arc;

use block::{IoError, Node, Range};

use super::assemble::{self, Rules, Verdict, Witness};
use super::assembly::{Absent, Assembly, Other, OtherKind, Part};
use super::examine::{Found, examine, newest};
use super::format::bitmap::{Bitmap, Bits};
use super::format::{Level, PLACE_LEN, Superblock};
use super::interface::ArrayInterface;
use super::member::Member;
use super::node::Kind;
use super::parity::Parity;
use super::redundant::{RedundantArray, refuse_stale_members};
use super::striped::Striped;
use super::sync::{Expected, Kept};
use super::{Array, ArrayError, ArrayOptions, Candidate, Picture, level, logs};
use crate::join::join_all;
use crate::read_within;

/// Ends of disks where metadata of firmware RAID is looked for, bytes.
const TAIL_LEN: u64 = 1024;
/// Firmware RAID of Intel: 1 KiB before the end.
const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";
/// Firmware RAID by the standard of SNIA: in the last 512 bytes.
const DDF: [u8; 4] = [0xde, 0x11, 0xde, 0x11];

/// Opens the array that `candidates` are members of.
///
/// # Errors
/// [`ArrayError`]: why not, and what to do next; nothing was written, but superblocks of members that a power cut left with an
/// earlier level.
pub async fn open(
    candidates: Vec<Candidate>,
    options: ArrayOptions,
) -> Result<Arc<Array>, ArrayError> {
    let mut assembly = Box::pin(assembled(candidates, &options)).await?;
    if !is_only_read(&options) {
        level::finish(&mut assembly).await?;
    }
    open_assembly(assembly, &options).await
}

/// Opens an array of which the holders are known.
///
/// # Errors
/// [`ArrayError`]: why not; nothing was written, but superblocks where the array goes on without a member that is on another
/// machine, and parity where its logs could be replayed only in part.
pub(crate) async fn open_assembly(
    assembly: Assembly,
    options: &ArrayOptions,
) -> Result<Arc<Array>, ArrayError> {
    let is_forced = options.force_dirty_degraded && assembly.facts.reshape.is_some();
    let options = &ArrayOptions {
        read_only: options.read_only || is_forced,
        ..options.clone()
    };
    let (kind, remarks) = open_engine(assembly, options, None).await?;
    Ok(Array::of(kind, remarks, options.clone()))
}

/// Opens what carries out the requests of an array; with remarks. `before`: it takes over from another engine.
///
/// # Errors
/// As [`open_assembly`].
pub(super) async fn open_engine(
    assembly: Assembly,
    options: &ArrayOptions,
    before: Option<&ArrayInterface>,
) -> Result<(Kind, Vec<String>), ArrayError> {
    let mut remarks = assembly.remarks.clone();
    let kind = match assembly.facts.level {
        Level::Linear | Level::Raid0 => Kind::Striped(Striped::open(assembly, options, before)?),
        Level::Raid4 | Level::Raid5 | Level::Raid6
            if is_only_read(options) && assembly.facts.reshape.is_none() =>
        {
            if !options.force_dirty_degraded {
                refuse_stale_members(&assembly).await?;
            }
            Kind::Parity(Parity::open(assembly, options).await?)
        }
        Level::Raid1 | Level::Raid10 | Level::Raid4 | Level::Raid5 | Level::Raid6 => {
            let expected = Expected::of(&assembly, options);
            let array = RedundantArray::open(assembly, options, before).await?;
            array.find_untrusted();
            let logs = array.read_logs().await?;
            let taken_over = array.take_over().await;
            taken_over.map_err(|error| {
                let what = format!("that a member is missing cannot be recorded: {error}");
                ArrayError::refused(what, None)
            })?;
            array
                .restore_critical_section(options.backup.clone())
                .await?;
            if let Some(logs) = logs {
                array.replay(logs).await?;
            }
            array.replay_journal().await?;
            Kind::Redundant(Kept::new(array, expected, options))
        }
        level @ Level::Other(_) => {
            let what = format!("arrays of {level} are not known here");
            return Err(ArrayError::refused(what, "use them with the kernel"));
        }
    };
    let untrusted = match &kind {
        Kind::Parity(parity) => parity.untrusted(),
        Kind::Redundant(array) => array.array.untrusted(),
        Kind::Striped(_) => None,
    };
    remarks.extend(untrusted.map(|places| {
        format!("what was written last may be wrong where it is computed from parity: {places}")
    }));
    Ok((kind, remarks))
}

/// Whether an array with parity is opened by what only reads.
const fn is_only_read(options: &ArrayOptions) -> bool {
    options.read_only || options.force_dirty_degraded
}

/// A candidate that was examined.
#[derive(Debug)]
struct Examined {
    /// Its place among the candidates.
    index: usize,
    disk: Node,
    found: Found,
    superblock: Superblock,
    bytes: Vec<u8>,
}

/// Reads the candidates and puts them together.
pub(super) async fn assembled(
    candidates: Vec<Candidate>,
    options: &ArrayOptions,
) -> Result<Assembly, ArrayError> {
    let reached = candidates.iter().enumerate();
    let reached = reached.filter_map(|(index, c)| Some((index, c, c.disk.as_ref()?)));
    let reading = reached.map(|(index, candidate, disk)| look_at(index, candidate, disk));
    let mut examined = Vec::with_capacity(candidates.len());
    for answer in join_all(reading).await {
        examined.push(answer?);
    }
    let prefer = preferred(&candidates, &examined, options)?;
    catch_up(&mut examined, prefer);
    let unreached = || {
        candidates
            .iter()
            .filter(|candidate| candidate.disk.is_none())
    };
    let witness = |one: &Examined| Witness {
        name: candidates[one.index].name.clone(),
        size: one.disk.geometry().size,
        superblock: one.superblock.clone(),
        bitmap: one.found.bitmap,
    };
    let witnesses: Vec<Witness> = examined.iter().map(witness).collect();
    let rules = Rules {
        read_only: options.read_only,
        run: options.run,
        missing: options.missing,
        prefer,
        raid0_layout: options.raid0_layout,
        force_dirty_degraded: options.force_dirty_degraded,
        unreachable: unreached()
            .map(|candidate| candidate.name.clone())
            .collect(),
    };
    let verdict = assemble::assemble(&witnesses, &rules)?;
    let absent = unreached().map(|candidate| Absent {
        name: candidate.name.clone(),
        remote: candidate.remote,
        reopen: candidate.reopen.clone(),
    });
    let absent = absent.collect();
    let mut assembly = put_together(verdict, &candidates, examined, absent);
    read_logs(&mut assembly).await?;
    if !options.read_only {
        judge_the_stale(&mut assembly).await?;
    }
    Ok(assembly)
}

/// Members that a power cut left one commit behind have the form that the others have.
fn catch_up(examined: &mut [Examined], prefer: Option<usize>) {
    let superblocks: Vec<&Superblock> = examined.iter().map(|one| &one.superblock).collect();
    let Some(picture) = Picture::of(&superblocks, prefer) else {
        return;
    };
    let fresh = examined[picture.freshest].superblock.clone();
    for one in examined {
        let size = one.disk.geometry().size;
        if let Some(known) = assemble::caught_up(&one.superblock, &fresh, size) {
            one.superblock = known;
        }
    }
}

/// Reads what members know of their bad blocks.
async fn read_logs(assembly: &mut Assembly) -> Result<(), ArrayError> {
    let held = assembly.parts.iter_mut();
    let held = held.filter_map(|part| part.member.as_mut());
    let reading = held.map(async |member| {
        member.bad = logs::bad(&member.name, &member.disk, &member.superblock).await?;
        Ok(())
    });
    join_all(reading).await.into_iter().collect()
}

/// Finds out which stale members may come back by the bitmap.
async fn judge_the_stale(assembly: &mut Assembly) -> Result<(), ArrayError> {
    let is_stale = |other: &Other| matches!(other.kind, OtherKind::Stale { .. });
    let (Some(header), true) = (&assembly.bitmap, assembly.others.iter().any(is_stale)) else {
        return Ok(());
    };
    let holders: Vec<&Member> = assembly
        .parts
        .iter()
        .filter_map(|p| p.member.as_ref())
        .collect();
    let superblocks: Vec<&Superblock> = holders.iter().map(|m| &m.superblock).collect();
    let freshest = holders
        .iter()
        .find(|m| m.superblock.events == assembly.events);
    let Some(fresh) = freshest else {
        return Ok(());
    };
    let Some(bits) = bits_of(fresh, header).await? else {
        return Ok(());
    };
    for other in assembly.others.iter_mut().filter(|other| is_stale(other)) {
        let (Some(own), OtherKind::Stale { by_bitmap, .. }) =
            (&other.member.bitmap, &mut other.kind)
        else {
            continue;
        };
        // One that cannot be read is copied in full.
        if let Ok(Some(own_bits)) = bits_of(&other.member, own).await {
            *by_bitmap = assemble::by_bitmap(
                (&other.member.superblock, (own, &own_bits)),
                (&fresh.superblock, (header, &bits)),
                &superblocks,
            );
        }
    }
    Ok(())
}

async fn bits_of(member: &Member, header: &Bitmap) -> Result<Option<Bits>, ArrayError> {
    let read = logs::bits(&member.disk, &member.superblock, header).await;
    read.map_err(|source| ArrayError::Read {
        member: member.name.clone(),
        source,
    })
}

/// The preferred candidate's place among those that were examined.
fn preferred(
    candidates: &[Candidate],
    examined: &[Examined],
    options: &ArrayOptions,
) -> Result<Option<usize>, ArrayError> {
    let Some(wished) = options.prefer else {
        return Ok(None);
    };
    let place = examined.iter().position(|one| one.index == wished);
    if place.is_some() {
        return Ok(place);
    }
    let name = candidates
        .get(wished)
        .map_or("the preferred member", |c| &c.name);
    Err(ArrayError::refused(
        format!("{name} is preferred and cannot be reached"),
        "prefer a member that is here",
    ))
}

/// The superblock of a candidate that counts.
async fn look_at(index: usize, candidate: &Candidate, disk: &Node) -> Result<Examined, ArrayError> {
    let failed = |source: IoError| ArrayError::Read {
        member: candidate.name.clone(),
        source,
    };
    let all = examine(disk).await.map_err(failed)?;
    let Some((found, superblock)) = newest(&all) else {
        return Err(no_member(candidate, disk, &all).await.map_err(failed)?);
    };
    let place = Range::new(found.at, PLACE_LEN);
    let bytes = read_within(disk, place).await.map_err(failed)?;
    Ok(Examined {
        index,
        disk: disk.clone(),
        superblock: superblock.clone(),
        found: found.clone(),
        bytes,
    })
}

/// Why a disk without a good superblock is no member.
async fn no_member(
    candidate: &Candidate,
    disk: &Node,
    all: &[Found],
) -> Result<ArrayError, IoError> {
    let name = &candidate.name;
    if let Some((found, problem)) = all
        .iter()
        .find_map(|f| Some((f, f.superblock.as_ref().err()?)))
    {
        return Ok(ArrayError::refused(
            format!(
                "the superblock {} of {name} is damaged: {problem}",
                found.version
            ),
            "write `missing` in its place to go on without it",
        ));
    }
    let size = disk.geometry().size;
    let start = size.saturating_sub(TAIL_LEN);
    let tail = read_within(disk, Range::new(start, TAIL_LEN)).await?;
    let firmware = if tail.starts_with(IMSM) {
        Some("Intel's firmware RAID (IMSM)")
    } else if tail.len() >= 512 && tail[tail.len() - 512..].starts_with(&DDF) {
        Some("firmware RAID (DDF)")
    } else {
        None
    };
    Ok(match firmware {
        Some(kind) => ArrayError::refused(
            format!("{name} is a member of {kind}"),
            "assemble it with mdadm: containers are not opened here",
        ),
        None => ArrayError::refused(
            format!("{name} has no md superblock: it is no member of an array"),
            "`outboard inspect DISK` shows what is on it",
        ),
    })
}

fn put_together(
    verdict: Verdict,
    candidates: &[Candidate],
    examined: Vec<Examined>,
    absent: Vec<Absent>,
) -> Assembly {
    let fresh = &examined[verdict.freshest];
    let (events, synced_to) = (fresh.superblock.events, fresh.superblock.synced_to);
    let bitmap = verdict.bitmap.and_then(|used| {
        let found = examined[used.of].found.bitmap.as_ref()?.as_ref().ok()?;
        let mut bitmap = *found;
        bitmap.stale |= used.stale;
        Some(bitmap)
    });
    let mut members: Vec<Option<Member>> = examined
        .into_iter()
        .map(|one| {
            let candidate = &candidates[one.index];
            Some(Member {
                name: candidate.name.clone(),
                disk: one.disk,
                remote: candidate.remote,
                reopen: candidate.reopen.clone(),
                at: one.found.at,
                bitmap: one.found.bitmap.and_then(Result::ok),
                superblock: one.superblock,
                bytes: one.bytes,
                bad: Vec::new(),
            })
        })
        .collect();
    let mut take = |index: usize| members[index].take().expect("each is in one place");
    let parts = verdict.parts.iter().map(|held| Part {
        rebuilt_to: held.and_then(|(_, to)| to),
        member: held.map(|(index, _)| take(index)),
    });
    let parts = parts.collect();
    let others = verdict.others.iter().map(|&(index, kind)| Other {
        member: take(index),
        kind,
    });
    let others = others.collect();
    Assembly {
        facts: verdict.facts,
        parts,
        others,
        absent,
        events,
        synced_to,
        bitmap,
        remarks: verdict.remarks,
    }
}
