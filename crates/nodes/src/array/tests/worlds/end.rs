//! How a world ends: all disks work and are given back, everything that is to be done is done, and all
//! copies are identical.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, Range};
use testkit::{Op, SECTOR};

use super::disks::Wire;
use super::expected_content::{Owed, index};
use super::metadata;
use super::world::{World, Wrong, candidate, in_sync, is_split, options};
use crate::array::{AddOptions, Array, MemberState, open};

/// Steps that are never reached.
const FOREVER: u64 = u64::MAX;

/// Nothing is known of what was being written on members that are missing now: partial parity has what was not. `part_of`: the part
/// with a byte of the array.
pub(super) fn forget_missing(owed: &mut Owed, array: &Array, part_of: impl Fn(u64) -> usize) {
    let members = array.status().members.into_iter();
    let missing = members.filter(|member| member.state != MemberState::InSync);
    let missing: Vec<usize> = missing.filter_map(|m| m.part.map(usize::from)).collect();
    for at in (0..owed.size()).step_by(index(SECTOR)) {
        if missing.contains(&part_of(at)) {
            owed.forget_in_flight(at / SECTOR);
        }
    }
}

impl World {
    /// Gives all disks back, and looks at what becomes of it.
    pub(super) async fn end_well(&mut self) -> Result<(), Wrong> {
        let described = super::world::described(self.shape, &self.disks);
        self.log(format!("all disks are given back: {described}"));
        let power = self.power(FOREVER);
        let disks = self.disks.clone();
        let wires: BTreeMap<_, _> = (disks.iter())
            .map(|disk| (disk.name.clone(), self.plug(&power, disk)))
            .collect();
        let given: Vec<_> = disks.iter().filter(|disk| !disk.blank).collect();
        let candidates = || {
            let candidates = given.iter();
            candidates
                .map(|disk| candidate(&disk.name, &wires[&disk.name]))
                .collect()
        };
        let mut array = open(candidates(), options()).await;
        if array.as_ref().is_err_and(is_split) {
            let mut options = options();
            options.prefer = given.iter().position(|disk| disk.current);
            array = open(candidates(), options).await;
        }
        if let Err(error) = &array
            && self.may_be_refused(error)
        {
            self.log(format!("refused in the end: {error}"));
            return self.read_by_force().await;
        }
        let array = array.map_err(|error| format!("it is not opened in the end: {error}"))?;
        self.forget_in_flight(&array);
        self.count_parts(&array)?;
        if self.look(&array, "when it was opened").await?.is_none() {
            return Ok(());
        }
        self.complete(&array, &wires).await?;
        let whole = in_sync(&array).len();
        if whole < usize::from(self.shape.parts) {
            let status = array.status();
            return Err(format!(
                "only {whole} members are in sync: {:?}",
                status.members
            ));
        }
        let content = self.look(&array, "when it was complete").await?;
        let content = content.ok_or("bytes are lost that were there")?;
        // What was found to differ when it was read is resynced, too.
        let worked = array.by_hand().work().await;
        worked.map_err(|error| format!("it is not made alike: {error}"))?;
        array
            .flush()
            .await
            .map_err(|error| format!("the flush failed: {error}"))?;
        let stopped = array.stop().await;
        stopped.map_err(|error| format!("it cannot be stopped: {error}"))?;
        let mut wires = wires;
        let members = in_sync(&array);
        wires.retain(|name, _| members.contains(name));
        self.compare(&wires, &content)
    }

    /// Nothing is known of what was being written on missing members of an array with logs.
    pub(super) fn forget_in_flight(&mut self, array: &Array) {
        if self.shape.ppl.is_none() {
            return;
        }
        let shape = &self.shape;
        forget_missing(&mut self.owed, array, |at| shape.part_of(at));
    }

    /// What is there is what is owed. `None`: it is refused as parity alone has it.
    async fn look(&mut self, array: &Array, when: &str) -> Result<Option<Vec<u8>>, Wrong> {
        let range = Range::new(0, self.owed.size());
        let begun = self.owed.begin(Op::Read { range });
        let data = array.read(range).await;
        if let Err(error) = &data
            && self.may_be_lost(error)
        {
            self.log(format!("{when}: {error}"));
            return Ok(None);
        }
        let data = data.map_err(|error| format!("{when}: {error}"))?.concat();
        let checked = self.owed.check(&begun, &data);
        checked.map_err(|what| format!("{when}: {what}"))?;
        Ok(Some(data))
    }

    /// Members come back, by the bitmap or in full, until every part has one.
    async fn complete(
        &mut self,
        array: &Array,
        wires: &BTreeMap<String, Arc<Wire>>,
    ) -> Result<(), Wrong> {
        // Also one that went its own way, and lost to the side that was preferred.
        let anew = AddOptions {
            overwrite: true,
            ..AddOptions::default()
        };
        let journal = self.disks.iter().find(|disk| disk.is_journal);
        let journal = journal.map(|disk| disk.name.clone());
        for _ in 0..4 {
            let worked = array.by_hand().work().await;
            self.log(format!("work: {worked:?}"));
            if in_sync(array).len() == usize::from(self.shape.parts) {
                return Ok(());
            }
            let members = array.status().members;
            for (name, wire) in wires {
                if Some(name) == journal.as_ref() {
                    continue;
                }
                let state = members.iter().find(|member| member.name == *name);
                let state = state.map(|member| member.state);
                let disk = || candidate(name, wire);
                let answer = match state {
                    Some(MemberState::Failed | MemberState::Stale) => {
                        let answer = array.re_add(disk()).await;
                        if answer.is_ok() {
                            answer
                        } else {
                            self.log(format!("re-add {name}: {answer:?}"));
                            let removed = array.remove(name).await;
                            self.log(format!("remove {name}: {removed:?}"));
                            array.add(disk(), anew).await
                        }
                    }
                    None => array.add(disk(), anew).await,
                    Some(_) => continue,
                };
                self.log(format!("{name} ({state:?}) comes back: {answer:?}"));
            }
        }
        Ok(())
    }

    /// Members hold the same, metadata is right, and a mirror's members hold what the array reads as.
    fn compare(&self, wires: &BTreeMap<String, Arc<Wire>>, content: &[u8]) -> Result<(), Wrong> {
        let mut described = Vec::new();
        for (name, wire) in wires {
            metadata::check(self.shape, &wire.live(), None)
                .map_err(|what| format!("{name}, in the end: {what}"))?;
            let superblock = metadata::superblock(self.shape, &wire.live())?;
            described.push((superblock.events, superblock.synced_to));
        }
        // A member that was cut off from the last commit may be one behind, and one that was cut off while it caught up counts as many events as
        // the freshest one, with what the next commit would have written: the freshest one counts.
        let newest = described.iter().map(|(events, _)| *events).max();
        let mut newest = described
            .iter()
            .filter(|(events, _)| Some(*events) == newest);
        if newest.all(|(_, synced_to)| synced_to.is_some()) {
            return Err(format!("the array is dirty in the end: {described:?}"));
        }
        let copies = super::copies::of(self.shape, wires)?;
        copies.check(content, |sector| self.owed.is_anything(sector))
    }
}
