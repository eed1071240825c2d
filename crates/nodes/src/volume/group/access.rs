//! Whether a group may be used by this system. Pure.

use super::{AssembledGroup, MemberPlace};
use crate::volume::VolumeError;

/// What is to be done with a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeAccess {
    /// Nothing is written.
    pub read_only: bool,
    /// With `read_only`: the group is read although it is exported or another system may write it.
    pub ignore_owner: bool,
    /// RAID: read what may be outdated where nothing newer is there.
    pub force: bool,
    /// The system id of this host, if it has one.
    pub system_id: Option<String>,
}

/// What to do with a group that this system may only read.
const READ: &str = "owner=ignore reads it all the same, without writing";

impl AssembledGroup {
    /// Refuses what the state of the group forbids.
    ///
    /// # Errors
    /// By name: exported, clustered, shared, of another system, with an unknown status; described in two ways; with two disks
    /// of one id.
    pub fn check_access(&self, access: &VolumeAccess) -> Result<(), VolumeError> {
        let Self { group, .. } = self;
        let name = || group.name.clone();
        if let Some(flag) = group.unknown_flag() {
            return Err(VolumeError::Unknown {
                group: name(),
                flag,
            });
        }
        if let Some((first, second)) = self.conflict {
            return Err(VolumeError::Conflict {
                group: name(),
                sequence: group.sequence,
                first: self.names[first].clone(),
                second: self.names[second].clone(),
            });
        }
        for (member, place) in group.members.iter().zip(&self.places) {
            if let MemberPlace::Duplicate(disks) = place {
                return Err(VolumeError::Duplicate {
                    group: name(),
                    id: member.id.clone(),
                    disks: disks.iter().map(|disk| self.names[*disk].clone()).collect(),
                });
            }
        }
        match self.owner_state(access) {
            Some((state, next)) => Err(VolumeError::Owned {
                group: name(),
                state,
                next,
            }),
            None => Ok(()),
        }
    }

    /// Why the group's owner keeps this system from it, and what to do about that.
    fn owner_state(&self, access: &VolumeAccess) -> Option<(String, &'static str)> {
        let Self { group, .. } = self;
        let is_ignored = access.read_only && access.ignore_owner;
        if is_ignored {
            return None;
        }
        if group.has_flag("EXPORTED") {
            let next =
                "`vgimport` makes it usable; owner=ignore reads it as it is, without writing";
            return Some(("is exported".to_owned(), next));
        }
        if group.has_flag("CLUSTERED") {
            return Some((
                "is clustered: several systems may write it".to_owned(),
                READ,
            ));
        }
        if let Some(kind) = &group.lock_type {
            let state = format!("is shared by several systems (lock type {kind})");
            return Some((state, READ));
        }
        if group.has_flag("SHARED") {
            return Some(("is shared by several systems".to_owned(), READ));
        }
        let owner = group.system_id.as_ref().filter(|_| !access.read_only)?;
        if access.system_id.as_ref() == Some(owner) {
            return None;
        }
        let state = format!("belongs to the system {owner}, and may only be read by others");
        let next = "serve it read-only; or take it over: `vgchange --systemid` on its system, or system-id=ID here if this is it";
        Some((state, next))
    }
}
