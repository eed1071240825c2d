//! How a world of two hosts ends: all programs end, all disks are there, and what they hold is looked at.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Range};
use testkit::Op;

use super::backup::Host;
use super::world::World;
use crate::array::redundant::tests::kit::{DATA, MEMBER, superblock};
use crate::array::{Array, Candidate, MemberState, Membership, Picture, open};

/// How long a recovery of so small disks may take.
const WHOLE: Duration = Duration::from_secs(600);

impl World {
    /// Ends all programs and looks at both halves.
    pub(super) async fn end_well(&mut self) -> Result<(), String> {
        for host in [Host::Primary, Host::Second] {
            self.backup.cut(host, false);
            self.machine(host).pause.set(false);
        }
        self.pass(Duration::from_secs(1)).await?;
        let owner_is_second = self.is_second_owner();
        self.kill(Host::Primary);
        self.kill(Host::Second);
        self.log("all programs have ended");
        self.compare_in_sync().await?;
        self.open_both(owner_is_second).await
    }

    /// Two halves that count as in sync, and are clean, hold the same.
    async fn compare_in_sync(&mut self) -> Result<(), String> {
        let (local, far) = (self.local.clone() as Node, self.far.clone() as Node);
        let (a, b) = (superblock(&local).await, superblock(&far).await);
        let picture = Picture::of(&[&a, &b], None).expect("there are two");
        let in_sync = |membership: &Membership| matches!(membership, Membership::InSync { .. });
        self.log(format!(
            "local {} events, far {}: {:?}",
            a.events, b.events, picture.memberships
        ));
        let is_clean = a.synced_to.is_none() && b.synced_to.is_none();
        if !is_clean || !picture.memberships.iter().all(in_sync) {
            return Ok(());
        }
        let data = Range::new(DATA, MEMBER);
        let (a, b) = (read(&local, data).await, read(&far, data).await);
        match a == b {
            true => Ok(()),
            false => Err("both halves are in sync and clean, and differ".to_owned()),
        }
    }

    /// Opens both halves, on the side of the last owner of the array where they went apart, and compares all with what is
    /// owed.
    async fn open_both(&mut self, owner_is_second: bool) -> Result<(), String> {
        let candidates = || {
            let half = |name: &str, disk: &Arc<testkit::CrashDisk>| {
                Candidate::local(name, disk.clone() as Node)
            };
            vec![half("local", &self.local), half("far", &self.far)]
        };
        let options = || crate::array::ArrayOptions {
            run: true,
            ..crate::array::ArrayOptions::default()
        };
        let mut opened = open(candidates(), options()).await;
        if let Err(error) = &opened {
            let refused = error.to_string();
            if !self.was_taken_over || !refused.contains("used in two ways") {
                return Err(format!("the halves are not opened: {refused}"));
            }
            let mut options = options();
            options.prefer = Some(usize::from(owner_is_second));
            opened = open(candidates(), options).await;
        }
        let array = opened.map_err(|error| format!("not opened on one side: {error}"))?;
        self.log(format!("opened: {:?}", array.status().members));
        self.look_at(&array, "opened").await?;
        let synced = tokio::time::timeout(WHOLE, array.synced()).await;
        let synced = synced.map_err(|_| "it is never made whole".to_owned())?;
        synced.map_err(|error| format!("it is not made whole: {error}"))?;
        self.look_at(&array, "whole").await?;
        let members = array.status().members;
        if members.iter().all(|m| m.state == MemberState::InSync) {
            let data = Range::new(DATA, MEMBER);
            let local = read(&(self.local.clone() as Node), data).await;
            let far = read(&(self.far.clone() as Node), data).await;
            if local != far {
                return Err("the halves differ after all was made alike".to_owned());
            }
        }
        let stopped = array.stop().await;
        stopped.map_err(|error| format!("it cannot be stopped: {error}"))
    }

    async fn look_at(&mut self, array: &Array, when: &str) -> Result<(), String> {
        let range = Range::new(0, MEMBER);
        let begun = self.owed.begin(Op::Read { range });
        let data = array.read(range).await;
        let data = data.map_err(|error| format!("{when}: {error}"))?.concat();
        let checked = self.owed.check(&begun, &data);
        checked.map_err(|what| format!("{when}: {what}"))
    }
}

async fn read(disk: &Node, range: Range) -> Vec<u8> {
    let data = disk.read(range).await;
    data.expect("a disk in memory").concat()
}
